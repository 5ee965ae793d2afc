"""Tools for tests (``mxnet.test_utils``): comparison, random arrays, statistics of generators, gradient checks.

``from phonograd.test_utils import *`` also imports ``mx``, ``np``, ``rnd``, ``os`` and the other modules that MXNet's
version imports, since tests written for MXNet rely on that.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import logging
import numbers
import os
import platform
import struct
import sys
import time
import traceback
import zipfile
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.testing as npt
from numpy import random as rnd

from ..compat import the_module
from ..core.base.devices import Context, current_context
from ..ndarray import array
from ..runtime import Features
from ..symbol import Symbol
from ..util import getenv, setenv, use_np
from .archives import download_model, get_bz2_data, get_cifar10, get_mnist_pkl, get_mnist_ubyte, get_zip_data
from .comparison import (
    almost_equal,
    almost_equal_ignore_nan,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    compare_ndarray_tuple,
    default_atols,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    find_max_violation,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    locationError,
    same,
    same_array,
)
from .consistency import check_consistency, simple_forward
from .gradients import check_numeric_gradient, check_symbolic_backward, check_symbolic_forward, numeric_grad
from .learning import check_gluon_hybridize_consistency, compare_optimizer
from .matrices import (
    get_identity_mat,
    get_identity_mat_batch,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
)
from .samples import (
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_tensor,
    create_sparse_array,
    create_sparse_array_zd,
    create_vector,
    default_dtype,
    np_reduce,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    rand_sparse_ndarray,
    random_arrays,
    random_sample,
    random_uniform_arrays,
    shuffle_csr_column_indices,
)
from .statistics import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator
from .surroundings import (
    DummyIter,
    default_context,
    discard_stderr,
    download,
    environment,
    get_cuda_compute_capability,
    get_im2rec_path,
    get_mnist,
    get_mnist_iterator,
    has_tvm_ops,
    is_aarch64_run,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    retry,
    set_default_context,
    set_env_var,
    with_environment,
)
from .symbols import check_speed, same_symbol_structure

_find_max_violation = find_max_violation

__all__ = [
    "Context",
    "DummyIter",
    "Features",
    "OrderedDict",
    "Symbol",
    "almost_equal",
    "almost_equal_ignore_nan",
    "array",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "assign_each",
    "assign_each2",
    "bz2",
    "checkShapes",
    "check_consistency",
    "check_gluon_hybridize_consistency",
    "check_numeric_gradient",
    "check_speed",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "chi_square_check",
    "collapse_sum_like",
    "compare_ndarray_tuple",
    "compare_optimizer",
    "contextmanager",
    "create_2d_tensor",
    "create_sparse_array",
    "create_sparse_array_zd",
    "create_vector",
    "current_context",
    "default_atols",
    "default_context",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "discard_stderr",
    "download",
    "download_model",
    "effective_dtype",
    "environment",
    "errno",
    "find_max_violation",
    "gen_buckets_probs_with_ppf",
    "get_atol",
    "get_bz2_data",
    "get_cifar10",
    "get_cuda_compute_capability",
    "get_etol",
    "get_identity_mat",
    "get_identity_mat_batch",
    "get_im2rec_path",
    "get_mnist",
    "get_mnist_iterator",
    "get_mnist_pkl",
    "get_mnist_ubyte",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "get_zip_data",
    "getenv",
    "gzip",
    "has_tvm_ops",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "json",
    "list_gpus",
    "locationError",
    "logging",
    "mean_check",
    "mx",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
    "np",
    "np_reduce",
    "npt",
    "numbers",
    "numeric_grad",
    "os",
    "platform",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "rand_sparse_ndarray",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
    "retry",
    "rnd",
    "same",
    "same_array",
    "same_symbol_structure",
    "set_default_context",
    "set_env_var",
    "setenv",
    "shuffle_csr_column_indices",
    "simple_forward",
    "struct",
    "sys",
    "time",
    "traceback",
    "use_np",
    "var_check",
    "verify_generator",
    "with_environment",
    "zipfile",
]


def __getattr__(name: str) -> object:
    if name == "mx":
        return the_module()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
