"""Tools for tests (``mxnet.test_utils``): comparing, random arrays, statistics of generators, gradient checks.

``from phonograd.test_utils import *`` also brings ``np``, ``rnd``, ``os`` and a few more names, since tests written for
MXNet rely on that.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

import numpy as np
from numpy import random as rnd

from ..context import Context, current_context
from ..ndarray import array
from ..util import getenv, setenv
from .comparison import (
    almost_equal,
    almost_equal_ignore_nan,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
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
    same,
    same_array,
)
from .consistency import check_consistency, simple_forward
from .gradients import check_numeric_gradient, check_symbolic_backward, check_symbolic_forward, numeric_grad
from .samples import (
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_tensor,
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
)
from .statistics import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator
from .surroundings import (
    DummyIter,
    default_context,
    discard_stderr,
    download,
    environment,
    get_mnist,
    get_mnist_iterator,
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
    "check_consistency",
    "check_numeric_gradient",
    "check_speed",
    "check_symbolic_backward",
    "check_symbolic_forward",
    "chi_square_check",
    "collapse_sum_like",
    "compare_ndarray_tuple",
    "contextmanager",
    "create_2d_tensor",
    "create_vector",
    "current_context",
    "default_atols",
    "default_context",
    "default_dtype",
    "default_numeric_eps",
    "default_rtols",
    "discard_stderr",
    "download",
    "effective_dtype",
    "environment",
    "find_max_violation",
    "gen_buckets_probs_with_ppf",
    "get_atol",
    "get_etol",
    "get_mnist",
    "get_mnist_iterator",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "getenv",
    "list_gpus",
    "mean_check",
    "np",
    "np_reduce",
    "numeric_grad",
    "os",
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
    "simple_forward",
    "var_check",
    "verify_generator",
    "with_environment",
]
