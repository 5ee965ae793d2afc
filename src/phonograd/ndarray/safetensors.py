"""The safetensors format: convert NumPy arrays to bytes and back.

A file consists of the length of its header (8 bytes), the header (JSON: dtype, shape and position of each array), and
the arrays. ``contrib.safetensors`` and optimizer states build on this module. Files are not trusted: every size is
compared with the size of the file before anything is allocated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from ..core.base.dtypes import BFLOAT16, CODES
from ..core.base.errors import MXNetError

__all__ = ["decode", "encode", "read_header"]

Array = np.ndarray[Any, Any]

_DTYPES: dict[str, Any] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": BFLOAT16,
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}

#: maximum header length of the format
_LONGEST_HEADER = 100_000_000
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
#: NumPy's limit on axes before version 2
_MOST_AXES = 32


class _Place(NamedTuple):
    """The position of an array in a file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def encode(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> Iterator[bytes]:
    """Return the chunks of a file.

    Raises
    ------
    ValueError
        If an array has the name that the format reserves for metadata.
    """
    if _METADATA in arrays:
        raise ValueError(f"the array name must not be {_METADATA!r}")
    # larger dtypes first, so that all arrays are aligned
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    place = 0
    for name in order:
        array = arrays[name]
        kind = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [place, place + array.nbytes]}
        place += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)

    def chunks() -> Iterator[bytes]:
        yield len(text).to_bytes(_LENGTH_BYTES, "little")
        yield text
        for name in order:
            array = arrays[name]
            yield array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()

    return chunks()


def decode(file: BinaryIO, size: int, path: str) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays and the metadata of a file, by name.

    Parameters
    ----------
    file
        The file, or its bytes as a file.
    size
        Its size in bytes.
    path
        Its name in errors.

    Raises
    ------
    MXNetError
        If it is not a valid file.
    """
    places, texts, start = read_header(file, size, path)
    return {name: _read_array(file, start, name, place, path) for name, place in places.items()}, texts


def _refuse(path: str, what: str) -> NoReturn:
    raise MXNetError(f"{path} is not a safetensors file, or it is damaged: {what}")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the header has a duplicate name")
    return found


def read_header(file: BinaryIO, size: int, path: str) -> tuple[dict[str, _Place], dict[str, str], int]:
    """Return the positions of all arrays, the metadata, and the offset of the first array."""
    first = file.read(_LENGTH_BYTES)
    if len(first) < _LENGTH_BYTES:
        _refuse(path, f"it has only {len(first)} bytes")
    length = int.from_bytes(first, "little")
    start = _LENGTH_BYTES + length
    if length > _LONGEST_HEADER or start > size:
        _refuse(path, f"its header would have {length} bytes, but the file has {size}")
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"its header is not JSON ({error})")
    if not isinstance(header, dict):
        _refuse(path, "its header is not a JSON object")
    texts = header.pop(_METADATA, {})
    if not isinstance(texts, dict) or not all([isinstance(text, str) for text in texts.values()]):
        _refuse(path, f"{_METADATA} is not an object of strings")
    places = {name: _read_place(name, facts, path) for name, facts in header.items()}
    reached = 0
    for name, place in sorted(places.items(), key=lambda entry: entry[1][2:]):
        if place.begin != reached:
            _refuse(path, f"{name!r} begins at byte {place.begin} of the arrays, but the one before ends at {reached}")
        reached = place.end
    if start + reached != size:
        _refuse(path, f"its arrays end at byte {start + reached}, but the file has {size}")
    return places, texts, start


def _read_place(name: str, facts: Any, path: str) -> _Place:
    if not isinstance(facts, dict) or set(facts) != {"dtype", "shape", "data_offsets"}:
        _refuse(path, f"{name!r} must have dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    for row, what in ((shape, "shape"), (offsets, "data_offsets")):
        if not isinstance(row, list) or not all([type(number) is int and number >= 0 for number in row]):
            _refuse(path, f"{name!r} has the invalid {what} {row!r}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        _refuse(path, f"{name!r} has the invalid data_offsets {offsets!r}")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise MXNetError(
            f"{path}: array {name!r} has the dtype {dtype!r}, which is not supported; {_supported_dtypes()}"
        )
    expected = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
    if expected != offsets[1] - offsets[0]:
        _refuse(path, f"{name!r} needs {expected} bytes, but has {offsets[1] - offsets[0]}")
    # An empty array may have any extents, but NumPy must still be able to count its bytes.
    if len(shape) > _MOST_AXES or math.prod(filter(None, shape)) >= 2**59:
        _refuse(path, f"{name!r} has the impossible shape {shape!r}")
    return _Place(dtype, tuple(shape), *offsets)


def _supported_dtypes() -> str:
    known = [name for name, dtype in _DTYPES.items() if np.dtype(dtype) in CODES]
    return f"supported dtypes are {', '.join(known)}"


def _read_array(file: BinaryIO, start: int, name: str, place: _Place, path: str) -> Array:
    dtype = np.dtype(_DTYPES[place.dtype])
    if dtype.newbyteorder("=") not in CODES:
        raise MXNetError(
            f"{path}: array {name!r} has the dtype {place.dtype}, which is not supported; {_supported_dtypes()}"
        )
    file.seek(start + place.begin)
    stored = file.read(place.end - place.begin)
    # stored booleans may be any byte; NumPy allows only 0 and 1
    data: Array = np.frombuffer(stored, np.uint8) != 0 if dtype.kind == "b" else np.frombuffer(stored, dtype)
    return data.astype(data.dtype.newbyteorder("="), copy=False).reshape(place.shape)
