"""Features of the installation."""

import importlib.util

import pytest

from phonograd.runtime import Feature, Features, feature_list

# The names and their order in MXNet 1.9.1.
NAMES = [
    "CUDA",
    "CUDNN",
    "NCCL",
    "CUDA_RTC",
    "TENSORRT",
    "CPU_SSE",
    "CPU_SSE2",
    "CPU_SSE3",
    "CPU_SSE4_1",
    "CPU_SSE4_2",
    "CPU_SSE4A",
    "CPU_AVX",
    "CPU_AVX2",
    "OPENMP",
    "SSE",
    "F16C",
    "JEMALLOC",
    "BLAS_OPEN",
    "BLAS_ATLAS",
    "BLAS_MKL",
    "BLAS_APPLE",
    "LAPACK",
    "MKLDNN",
    "OPENCV",
    "CAFFE",
    "PROFILER",
    "DIST_KVSTORE",
    "CXX14",
    "INT64_TENSOR_SIZE",
    "SIGNAL_HANDLER",
    "DEBUG",
    "TVM_OP",
]


def test_features_have_mxnets_names():
    assert [feature.name for feature in feature_list()] == NAMES
    assert list(Features()) == NAMES
    assert Features() is Features()


def test_features_print_as_in_mxnet():
    assert repr(Feature("CUDA", False)) == "✖ CUDA"
    assert repr(Feature("LAPACK", True)) == "✔ LAPACK"
    assert repr(Features()).startswith("[✖ CUDA, ✖ CUDNN, ")


def test_features_are_asked_by_name():
    features = Features()
    assert features.is_enabled("DIST_KVSTORE") == (importlib.util.find_spec("mpi4py") is not None)
    assert features.is_enabled("CUDA") is features.is_enabled("cuda") is features["CUDA"].enabled is False
    assert features.is_enabled("INT64_TENSOR_SIZE")
    with pytest.raises(RuntimeError, match=r"Feature 'FOO' is unknown, known features are: \['CUDA'"):
        features.is_enabled("foo")
