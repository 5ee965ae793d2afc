"""List the features of this installation (``mxnet.runtime``) under MXNet's names.

Processor features are those of the current machine, since kernels are compiled on it. Features that need a library
phonograd does not use (CUDA, OpenCV, oneDNN) are off.
"""

from __future__ import annotations

import importlib.util
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Feature", "Features", "feature_list"]

_ABSENT = ("CUDA", "CUDNN", "NCCL", "CUDA_RTC", "TENSORRT")
_PROCESSOR = {
    "CPU_SSE": "sse",
    "CPU_SSE2": "sse2",
    "CPU_SSE3": "sse3",
    "CPU_SSE4_1": "sse4.1",
    "CPU_SSE4_2": "sse4.2",
    "CPU_SSE4A": "sse4a",
    "CPU_AVX": "avx",
    "CPU_AVX2": "avx2",
}
_BLAS = {"BLAS_OPEN": "openblas", "BLAS_ATLAS": "atlas", "BLAS_MKL": "mkl", "BLAS_APPLE": "accelerate"}


@dataclass(frozen=True)
class Feature:
    """One feature: its name and whether it is enabled."""

    name: str
    enabled: bool

    def __repr__(self) -> str:
        return f"{'✔' if self.enabled else '✖'} {self.name}"


def _processor_features() -> dict[str, bool]:
    """Return the processor's features by LLVM's names; empty where llvmlite is not installed."""
    try:
        from llvmlite import binding
    except ImportError:
        return {}
    return dict(binding.get_host_cpu_features())


def _blas_name() -> str:
    """Return the name of the linear algebra library that NumPy was built with, in lower case."""
    try:
        configuration: Any = np.show_config(mode="dicts")
    except TypeError:  # before NumPy 1.26 the configuration could only be printed
        return ""
    return str(configuration["Build Dependencies"]["blas"]["name"]).lower()


def _has_module(name: str) -> bool:
    return importlib.util.find_spec(f"{__package__}.{name}") is not None


def feature_list() -> list[Feature]:
    """Return every feature, in MXNet's order."""
    processor, blas = _processor_features(), _blas_name()
    states = dict.fromkeys(_ABSENT, False)
    states.update({name: processor.get(feature, False) for name, feature in _PROCESSOR.items()})
    states.update({"OPENMP": False, "SSE": processor.get("sse", False), "F16C": processor.get("f16c", False)})
    states["JEMALLOC"] = False
    states.update({name: library in blas for name, library in _BLAS.items()})
    states.update({"LAPACK": True, "MKLDNN": False, "OPENCV": False, "CAFFE": False})
    has_mpi = importlib.util.find_spec("mpi4py") is not None
    states.update({"PROFILER": _has_module("profiler"), "DIST_KVSTORE": has_mpi})
    states.update({"CXX14": False, "INT64_TENSOR_SIZE": True, "SIGNAL_HANDLER": False, "DEBUG": False})
    states["TVM_OP"] = False
    return [Feature(name, enabled) for name, enabled in states.items()]


class Features(OrderedDict[str, Feature]):
    """The features by name (a singleton).

    >>> Features().is_enabled("cuda")
    False
    >>> Features()["CUDA"]
    ✖ CUDA
    """

    instance: Features | None = None

    def __new__(cls) -> Features:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            OrderedDict.__init__(cls.instance, [(feature.name, feature) for feature in feature_list()])
        return cls.instance

    def __init__(self) -> None:
        """Leave the singleton unchanged."""

    def __repr__(self) -> str:
        return str(list(self.values()))

    def is_enabled(self, feature_name: str) -> bool:
        """Return whether a feature is enabled; its name may be in lower case.

        Raises
        ------
        RuntimeError
            If the feature is unknown.
        """
        name = feature_name.upper()
        if name not in self:
            raise RuntimeError(f"Feature '{name}' is unknown, known features are: {list(self)}")
        return self[name].enabled
