"""Data types: the eight that MXNet arrays have, their codes in files, and conversions to them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CODES", "FROM_CODE", "DType", "as_dtype", "convert_scalar", "is_floating"]

DType = np.dtype[Any]

_NAMES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")

#: type flag in MXNet's files and C interface, by NumPy dtype
CODES: dict[DType, int] = {np.dtype(name): code for code, name in enumerate(_NAMES)}
FROM_CODE: dict[int, DType] = {code: dtype for dtype, code in CODES.items()}

FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")
FLOAT16 = np.dtype("float16")
UINT8 = np.dtype("uint8")
INT32 = np.dtype("int32")
INT8 = np.dtype("int8")
INT64 = np.dtype("int64")
BOOL = np.dtype("bool")
UINT32 = np.dtype("uint32")
UINT64 = np.dtype("uint64")

_BY_KEY: dict[Any, DType] = {}
for _dtype in CODES:
    _BY_KEY[_dtype] = _BY_KEY[_dtype.name] = _BY_KEY[_dtype.type] = _dtype
_BY_KEY[bool] = BOOL
_BY_KEY[float] = FLOAT64
_BY_KEY[int] = INT64


def as_dtype(value: Any) -> DType:
    """Return the array dtype named by a string, NumPy type or dtype; None means float32.

    Raises
    ------
    KeyError
        If arrays of that type do not exist here (for example ``uint16`` or ``complex64``).
    TypeError
        If it is no data type at all.

    >>> as_dtype("float"), as_dtype(">i4")
    (dtype('float64'), dtype('int32'))
    """
    if value is None:
        return FLOAT32
    try:
        return _BY_KEY[value]
    except (KeyError, TypeError):
        pass
    try:
        dtype: DType = np.dtype(value).newbyteorder("=")
    except (TypeError, ValueError, SyntaxError):
        raise TypeError(f"data type {value!r} not understood; use one of {', '.join(_NAMES)}") from None
    if dtype not in CODES:
        raise KeyError(f"{value!r} is not a data type of arrays here; use one of {', '.join(_NAMES)}")
    return dtype


def is_floating(dtype: DType) -> bool:
    """Return whether a dtype is one of the three floating point types."""
    return dtype.kind == "f"


def convert_scalar(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return a Python or NumPy number as a 0-d array of the dtype, truncating and wrapping as C does.

    >>> int(convert_scalar(300.7, np.dtype("uint8")))
    44
    """
    kind = dtype.kind
    if kind == "f":
        with np.errstate(all="ignore"):
            return np.asarray(value, np.float64).astype(dtype)
    if kind == "b":
        return np.asarray(bool(value))
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            with np.errstate(all="ignore"):
                return np.asarray(value, np.float64).astype(dtype)
        value = int(value)
    bits = dtype.itemsize * 8
    wrapped = int(value) & ((1 << bits) - 1)
    if kind == "i" and wrapped >> (bits - 1):
        wrapped -= 1 << bits
    return np.asarray(wrapped, dtype)
