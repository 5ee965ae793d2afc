"""Read NumPy's files, ``.npy`` and ``.npz``, which are not trusted.

NumPy allocates the array that a header describes before it looks at the rest of the file. This reader compares the
size with the bytes that follow. Pickled objects are refused. Every error is a MXNetError that names the file and the
array.
"""

from __future__ import annotations

import ast
import io
import math
import os
import stat
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

from ..core.base.errors import MissingFile, MXNetError, format_shape

__all__ = ["read_npy", "read_npz"]

Array = np.ndarray[Any, Any]

_MAGIC = b"\x93NUMPY"
#: NumPy's limit on the length of headers
_LONGEST_HEADER = 10_000
_MOST_AXES = 32
#: Deflate cannot compress better than this.
_LARGEST_RATIO = 1032
_ENTRY_BYTES = 1 << 20


def read_npy(path: str) -> Array:
    """Return the array in a ``.npy`` file."""
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                data = file.read()
                return _read_array(io.BytesIO(data), len(data), path)
            return _read_array(file, facts.st_size, path)
    except FileNotFoundError as error:
        raise MissingFile(error.errno, error.strerror, path) from None


def read_npz(path: str) -> dict[str, Array]:
    """Return the arrays in a ``.npz`` file, by name."""
    found: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                place = f"{path} (entry {entry.filename!r})"
                if entry.file_size > _LARGEST_RATIO * entry.compress_size + _ENTRY_BYTES:
                    raise MXNetError(
                        f"{place} is damaged: {entry.compress_size} bytes cannot contain {entry.file_size}"
                    )
                with archive.open(entry) as file:
                    found[entry.filename.removesuffix(".npy")] = _read_array(file, entry.file_size, place)
    except FileNotFoundError as error:
        raise MissingFile(error.errno, error.strerror, path) from None
    except (MXNetError, IsADirectoryError, PermissionError):
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        # the zipfile module raises each of these for damaged files, encrypted ones and unknown methods
        raise MXNetError(f"{path} is not a .npz file, or it is damaged: {error}") from None
    return found


def _read_array(file: Any, size: int, place: str) -> Array:
    """Return the array in a file of some bytes."""
    head = _take(file, 8, place)
    if head[:6] != _MAGIC or head[6] not in (1, 2, 3):
        raise MXNetError(f"{place} is not a .npy file of version 1 to 3: it begins with {head!r}")
    width = 2 if head[6] == 1 else 4
    length = int.from_bytes(_take(file, width, place), "little")
    if length > _LONGEST_HEADER:
        raise MXNetError(f"{place} is damaged: its header would have {length} bytes")
    text = _take(file, length, place)
    shape, by_columns, dtype = _read_header(text, place)
    count = math.prod(shape)
    left = size - 8 - width - length
    if count * dtype.itemsize > left:
        raise MXNetError(
            f"{place} is cut off: shape {format_shape(shape)} and type {dtype} need {count * dtype.itemsize} bytes, "
            f"but only {left} are left"
        )
    data = np.frombuffer(_take(file, count * dtype.itemsize, place), dtype, count)
    if dtype.kind == "b":
        data = data.view(np.uint8) != 0
    native = data.astype(data.dtype.newbyteorder("="), copy=False)
    return native.reshape(shape, order="F" if by_columns else "C")


def _take(file: BinaryIO, size: int, place: str) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise MXNetError(f"{place} is cut off: {size} bytes are needed, but {len(data)} are left")
    return data


def _read_header(text: bytes, place: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of a header: a dictionary, written as in Python."""
    try:
        header = ast.literal_eval(text.decode("utf-8").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise MXNetError(f"{place} is damaged: its header is not a dictionary ({error})") from None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise MXNetError(f"{place} is damaged: its header must have descr, fortran_order and shape")
    shape, by_columns, kind = header["shape"], header["fortran_order"], header["descr"]
    valid = isinstance(shape, tuple) and len(shape) <= _MOST_AXES
    # An empty array may have any extents, but NumPy must still be able to count its bytes.
    if not valid or not all([type(n) is int and n >= 0 for n in shape]) or math.prod(filter(None, shape)) >= 2**59:
        raise MXNetError(f"{place} is damaged: its shape is {shape!r}")
    if not isinstance(by_columns, bool) or not isinstance(kind, str):
        raise MXNetError(f"{place} is damaged: fortran_order is {by_columns!r}, descr is {kind!r}")
    try:
        dtype = np.dtype(kind)
    except (TypeError, ValueError, SyntaxError) as error:
        raise MXNetError(f"{place} has an unknown dtype {kind!r} ({error})") from None
    if dtype.kind not in "biufc" or dtype.shape:
        raise MXNetError(f"{place} has the dtype {kind!r}; only numbers can be read")
    return shape, by_columns, dtype
