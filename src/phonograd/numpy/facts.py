"""Properties of arrays and dtypes: shapes, sizes, common types, shared memory; constants; print options."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.base.dtypes import BFLOAT16, as_array_dtype, as_dtype, promote
from ..ndarray.array import NDArray
from .declaration import public
from .promotion import common

__all__ = ["CONSTANTS"]

#: constants and types of mx.np
CONSTANTS: dict[str, Any] = {
    "NAN": np.nan,
    "NINF": -np.inf,
    "NZERO": -0.0,
    "NaN": np.nan,
    "PINF": np.inf,
    "PZERO": 0.0,
    "bool": bool,
    "bool_": np.bool_,
    "dtype": np.dtype,
    "e": np.e,
    "euler_gamma": np.euler_gamma,
    "finfo": np.finfo,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "iinfo": np.iinfo,
    "inf": np.inf,
    "int32": np.int32,
    "int64": np.int64,
    "int8": np.int8,
    "integer": np.integer,
    "floating": np.floating,
    "nan": np.nan,
    "newaxis": None,
    "number": np.number,
    "pi": np.pi,
    "set_printoptions": np.set_printoptions,
    "printoptions": np.printoptions,
    "uint8": np.uint8,
}


@public()
def shape(a: Any) -> Any:
    """Return the extents of the axes."""
    return a.shape if isinstance(a, NDArray) else np.shape(a)


@public()
def ndim(a: Any) -> int:
    """Return the number of axes."""
    return a.ndim if isinstance(a, NDArray) else np.ndim(a)


@public()
def size(a: Any, axis: int | None = None) -> int:
    """Return the number of elements, or the extent of an axis."""
    if not isinstance(a, NDArray):
        return int(np.size(a, axis))
    return a.size if axis is None else a.shape[axis]


def _dtype_of(value: Any) -> Any:
    if isinstance(value, NDArray):
        return value._dtype
    return (
        np.dtype(type(value))
        if isinstance(value, (bool, int, float))
        else as_array_dtype(value)
        if isinstance(value, (str, type, np.dtype))
        else np.result_type(value)
    )


@public()
def result_type(*arrays_and_dtypes: Any) -> Any:
    """Return the dtype of results computed from mx.np arrays and dtypes."""
    found, *others = [_dtype_of(value) for value in arrays_and_dtypes]
    for other in others:
        found = common(found, other)
    return found


@public()
def promote_types(type1: Any, type2: Any) -> Any:
    """Return the common dtype of two dtypes by NumPy's rules."""
    return promote(as_array_dtype(type1), as_array_dtype(type2))


@public()
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Return whether values of one dtype can be cast to another."""
    source, target = from_._dtype if isinstance(from_, NDArray) else from_, as_dtype(to)
    if BFLOAT16 in (source, target):
        return casting != "no" and (source == target or promote(as_array_dtype(source), target) == target)
    return bool(np.can_cast(source, target, casting))


@public()
def min_scalar_type(a: Any) -> Any:
    """Return the smallest dtype that holds a number, or the dtype of an array."""
    return (
        a._dtype if isinstance(a, NDArray) and a.shape else np.min_scalar_type(read(a) if isinstance(a, NDArray) else a)
    )


def _owner(array: Any) -> Any:
    while array._root is not None:
        array = array._root
    return array


@public("may_share_memory", "shares_memory")
def shares_memory(a: Any, b: Any, max_work: int | None = None) -> bool:
    """Return whether two arrays are views of the same array, so that writes to one show in the other."""
    return _owner(a) is _owner(b)
