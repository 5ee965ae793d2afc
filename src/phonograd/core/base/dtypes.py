"""Data types: the nine that MXNet arrays have, their codes in files, and conversions to them.

NumPy has no bfloat16. ``BFLOAT16`` is the dtype that MXNet uses: a record of one 16-bit word, the upper half of a
float32. NumPy moves such elements but refuses to compute with them. :func:`widen` and :func:`narrow` convert between
them and float32. Code asks :func:`kind_of` or :func:`is_floating`, never ``dtype.kind`` (docs/decisions/0023).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "BFLOAT16",
    "CODES",
    "FROM_CODE",
    "HALVES",
    "DType",
    "as_array_dtype",
    "as_dtype",
    "compute_dtype",
    "convert",
    "convert_scalar",
    "is_floating",
    "kind_of",
    "largest_of",
    "name_of",
    "narrow",
    "precision_of",
    "promote",
    "public_type",
    "widen",
]

DType = np.dtype[Any]
_Array = np.ndarray[Any, Any]

BFLOAT16: DType = np.dtype([("bfloat16", "<u2")])
_WORD = np.dtype("<u2")

#: type flag in MXNet's files and C interface, by NumPy dtype
CODES: dict[DType, int] = {
    np.dtype(name): code
    for code, name in enumerate(("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"))
}
CODES[BFLOAT16] = 12
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

#: the floating point types of 16 bits, which are computed in float32
HALVES: frozenset[DType] = frozenset([FLOAT16, BFLOAT16])

_BIAS, _HALF_MASK, _QUIET, _SHIFT = np.uint32(0x7FFF), np.uint32(1), np.uint32(0x40), np.uint32(16)
_MAGNITUDE, _INFINITY = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)

_BY_KEY: dict[Any, DType] = {}
for _dtype in CODES:
    _BY_KEY[_dtype] = _dtype
    if _dtype != BFLOAT16:
        _BY_KEY[_dtype.name] = _BY_KEY[_dtype.type] = _dtype
_BY_KEY["bfloat16"] = BFLOAT16
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

    >>> as_dtype("float"), as_dtype(">i4"), as_dtype("bfloat16")
    (dtype('float64'), dtype('int32'), dtype([('bfloat16', '<u2')]))
    """
    if value is None:
        return FLOAT32
    try:
        return _BY_KEY[value]
    except (KeyError, TypeError):
        pass
    try:
        dtype = as_array_dtype(value).newbyteorder("=")
    except (TypeError, ValueError, SyntaxError):
        raise TypeError(f"data type {value!r} not understood; use one of {_known()}") from None
    if dtype not in CODES:
        raise KeyError(f"{value!r} is not a data type of arrays here; use one of {_known()}")
    return dtype


def _known() -> str:
    return ", ".join([name_of(dtype) for dtype in CODES])


def as_array_dtype(value: Any) -> DType:
    """Return the NumPy dtype of a name, type or dtype; bfloat16, that of ``ml_dtypes`` too, is ``BFLOAT16``.

    Unlike :func:`as_dtype` it takes every dtype of NumPy.
    """
    if isinstance(value, str) and value == "bfloat16":
        return BFLOAT16
    dtype: DType = np.dtype(value)
    # ml_dtypes registers its bfloat16 under this name; only arrays of its dtype have one of this name and size
    return BFLOAT16 if dtype.name == "bfloat16" and dtype.itemsize == 2 else dtype


def name_of(dtype: Any) -> str:
    """Return the name of a dtype: ``'float32'``, ``'bfloat16'``."""
    dtype = as_array_dtype(dtype)
    return "bfloat16" if dtype == BFLOAT16 else dtype.name


def public_type(dtype: DType) -> Any:
    """Return the type that users see as ``array.dtype``: ``numpy.float32``, ..., and ``BFLOAT16`` itself."""
    return dtype if dtype == BFLOAT16 else dtype.type


def kind_of(dtype: DType) -> str:
    """Return the kind of a dtype as NumPy does, and ``'f'`` for bfloat16."""
    kind = dtype.kind
    return "f" if kind == "V" and dtype == BFLOAT16 else kind


def is_floating(dtype: DType) -> bool:
    """Return whether a dtype is one of the four floating point types."""
    return dtype.kind == "f" or dtype == BFLOAT16


def compute_dtype(dtype: DType) -> DType:
    """Return the dtype in which numbers of a dtype are computed: float32 for the types of 16 bits."""
    return FLOAT32 if dtype in HALVES else dtype


def precision_of(dtype: DType) -> float:
    """Return the distance from 1 to the next larger number of a floating point dtype."""
    return 2.0**-7 if dtype == BFLOAT16 else float(np.finfo(dtype).eps)


def largest_of(dtype: DType) -> float:
    """Return the largest finite number of a floating point dtype."""
    return (2 - 2.0**-7) * 2.0**127 if dtype == BFLOAT16 else float(np.finfo(dtype).max)


def promote(*dtypes: DType) -> DType:
    """Return the dtype that holds the numbers of all dtypes, as NumPy chooses it; both 16-bit types give float32.

    >>> promote(BFLOAT16, INT64), promote(BFLOAT16, FLOAT16) == FLOAT32
    (dtype([('bfloat16', '<u2')]), True)
    """
    if BFLOAT16 not in dtypes:
        found: DType = np.result_type(*dtypes)
        return found
    floating = {dtype for dtype in dtypes if is_floating(dtype)} - {BFLOAT16}
    return np.result_type(FLOAT32, *floating) if floating else BFLOAT16


def widen(values: Any) -> Any:
    """Return bfloat16 numbers as float32, exactly; all other values unchanged."""
    if getattr(values, "dtype", None) != BFLOAT16:
        return values
    words: _Array = np.asarray(values).view(_WORD)
    return (words.astype(np.uint32) << _SHIFT).view(FLOAT32)


def narrow(values: Any) -> _Array:
    """Return numbers as bfloat16: rounded once, to the nearest, ties to even. NaN stays NaN.

    >>> float(widen(narrow(np.float32(3.1415927))))
    3.140625
    """
    values = np.asarray(widen(values))
    if values.dtype in (FLOAT64, INT64, UINT64, INT32, UINT32):
        values = _round_to_odd(values)
    bits: _Array = np.asarray(values, FLOAT32, order="C").view(np.uint32)
    rounded = (bits + (_BIAS + ((bits >> _SHIFT) & _HALF_MASK))) >> _SHIFT
    rounded = np.where(bits & _MAGNITUDE > _INFINITY, (bits >> _SHIFT) | _QUIET, rounded)
    return rounded.astype(_WORD).view(BFLOAT16)


def _round_to_odd(values: _Array) -> _Array:
    """Return numbers of more than 24 bits as float32; the last bit is set if one is inexact.

    Rounding the result to a shorter format then equals rounding the number itself.
    """
    with np.errstate(all="ignore"):
        near: _Array = np.asarray(values.astype(FLOAT32), order="C")
        if values.dtype.kind == "f":
            lost = values - near
        else:
            # each half of an integer is a float64 without loss
            low = values & np.asarray(0xFFFFFFFF).astype(values.dtype)
            lost = ((values - low).astype(FLOAT64) - near) + low.astype(FLOAT64)
        bits = near.view(np.int32)
        inexact = (bits & 1 == 0) & (lost != 0) & np.isfinite(lost)
        outwards = (lost < 0) == (bits < 0)
        return (bits + np.where(inexact, np.where(outwards, 1, -1), 0).astype(np.int32)).view(FLOAT32)


def convert(values: Any, dtype: DType) -> _Array:
    """Return numbers as an array of a dtype; bfloat16 is read and written as the numbers that it stands for."""
    values = np.asarray(values)
    if values.dtype != BFLOAT16 and values.dtype.kind == "V" and as_array_dtype(values.dtype) == BFLOAT16:
        values = values.view(BFLOAT16)
    if values.dtype == dtype:
        return values  # type: ignore[no-any-return]
    if dtype == BFLOAT16:
        return narrow(values).reshape(values.shape)
    converted: _Array = np.asarray(widen(values)).astype(dtype)
    return converted


#: numbers below this are finite as float32
_LARGE = 1e38


def convert_scalar(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Return a Python or NumPy number as a 0-d array of the dtype, truncating and wrapping as C does.

    >>> int(convert_scalar(300.7, np.dtype("uint8")))
    44
    """
    if (type(value) is float or type(value) is int) and dtype is FLOAT32 and -_LARGE < value < _LARGE:
        # the most frequent numbers; a conversion that cannot overflow needs no scope of errstate
        return np.array(value, FLOAT32)
    kind = dtype.kind
    value = widen(value)
    if kind == "f" or dtype == BFLOAT16:
        with np.errstate(all="ignore"):
            return convert(np.asarray(value, np.float64), dtype)
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
