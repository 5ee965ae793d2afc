"""safetensors: files of named arrays and nothing else, so that untrusted files are safe to read.

>>> import os, tempfile
>>> import phonograd as mx
>>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
>>> mx.contrib.safetensors.save(path, {"w": mx.nd.array([1, 2])})
>>> mx.contrib.safetensors.load(path)["w"]
<BLANKLINE>
[1. 2.]
<NDArray 2 @cpu(0)>

A file consists of the length of its header (8 bytes), the header (JSON: dtype, shape and position of each array), and
the arrays. Reading and writing need no other package.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from .. import ndarray as nd
from ..core.base.dtypes import CODES
from ..core.base.errors import MXNetError
from ..core.base.files import write_atomically
from ..ndarray import NDArray

__all__ = ["load", "metadata", "save"]

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
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
_NAMES = {np.dtype(dtype): name for name, dtype in _DTYPES.items() if name != "BF16"}

#: maximum header length of the format
_LONGEST_HEADER = 100_000_000
_LENGTH_BYTES = 8
_METADATA = "__metadata__"


class _Place(NamedTuple):
    """The position of an array in a file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def save(fname: str | os.PathLike[str], data: Mapping[str, NDArray], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays to a file.

    Parameters
    ----------
    fname
        The path of the file.
    data
        Arrays by name, for example those of ``net.collect_params()``.
    metadata
        Texts by name to store beside the arrays.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a dictionary of arrays by name, not {type(data)}")
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in data.items():
        if not isinstance(name, str) or not isinstance(value, NDArray):
            raise TypeError(f"data must be a dictionary of NDArrays by name, but has {name!r}: {type(value)}")
        if name == _METADATA:
            raise ValueError(f"the array name must not be {_METADATA!r}")
        arrays[name] = value.asnumpy()
    # larger dtypes first, so that all arrays are aligned
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    if metadata:
        if not all([isinstance(text, str) for pair in metadata.items() for text in pair]):
            raise TypeError("metadata must be a dictionary of strings by name")
        header[_METADATA] = dict(metadata)
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

    write_atomically(fname, chunks())


def load(fname: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Return the arrays of a file by name. bfloat16 does not exist here and becomes float32, without loss."""
    with open(fname, "rb") as file:
        places, _, start = _read_header(file, os.fspath(fname))
        return {name: _read_array(file, start, name, place, os.fspath(fname)) for name, place in places.items()}


def metadata(fname: str | os.PathLike[str]) -> dict[str, str]:
    """Return the metadata of a file: texts by name."""
    with open(fname, "rb") as file:
        return _read_header(file, os.fspath(fname))[1]


def _refuse(path: str, what: str) -> NoReturn:
    raise MXNetError(f"{path} is not a safetensors file, or it is damaged: {what}")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the header has a duplicate name")
    return found


def _read_header(file: BinaryIO, path: str) -> tuple[dict[str, _Place], dict[str, str], int]:
    """Return the positions of all arrays, the metadata, and the offset of the first array."""
    size = os.fstat(file.fileno()).st_size
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
    return _Place(dtype, tuple(shape), *offsets)


def _supported_dtypes() -> str:
    known = [name for name, dtype in _DTYPES.items() if name == "BF16" or np.dtype(dtype) in CODES]
    return f"supported dtypes are {', '.join(known)}"


def _read_array(file: BinaryIO, start: int, name: str, place: _Place, path: str) -> NDArray:
    dtype = np.dtype(_DTYPES[place.dtype])
    if place.dtype != "BF16" and dtype.newbyteorder("=") not in CODES:
        raise MXNetError(
            f"{path}: array {name!r} has the dtype {place.dtype}, which is not supported; {_supported_dtypes()}"
        )
    file.seek(start + place.begin)
    data = np.frombuffer(file.read(place.end - place.begin), dtype)
    if place.dtype == "BF16":
        data = (data.astype(np.uint32) << np.uint32(16)).view(np.float32)
    native = data.astype(data.dtype.newbyteorder("="), copy=False).reshape(place.shape)
    return nd.array(native, dtype=native.dtype)
