"""MXNet's ``.params`` files: convert NumPy arrays to bytes and back; ``nd.save`` / ``nd.load`` build on this.

A file is a header, the array records, and the names (none, or one per record); every number is little-endian::

    uint64 0x112 | uint64 0 | uint64 n | n records | uint64 m | m names, each uint64 length + UTF-8 bytes

    record: uint32 magic | int32 storage type | [sparse: stored shape] | shape | int32 device type | int32 device
            number | int32 type flag | [sparse: type flag and shape of each index array] | data | [index arrays]
    shape:  int32 number of axes | int64 per axis

The magic number is 0xF993FAC9 (version 2), or 0xF993FACA (version 3) for files written under NumPy shape semantics,
where a 0-d array is an array. Two older records are read as well: version 1 (0xF993FAC8) has no storage type, and
version 0 has no magic number and 32-bit axes.

Files are not trusted: the reader compares every size with the remaining bytes before it allocates. :func:`decode`
and :func:`encode` only know NumPy; the public functions at the end convert NumPy arrays to NDArrays.
"""

from __future__ import annotations

import io
import math
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from ..core.base.devices import Context
from ..core.base.dtypes import CODES, FROM_CODE, DType, name_of
from ..core.base.errors import MXNetError, format_shape
from ..core.base.files import write_atomically
from ..util import is_np_shape, np_shape_state
from .sparse_records import SparseRecord

if TYPE_CHECKING:
    from . import NDArray

__all__ = [
    "SparseRecord",
    "decode",
    "encode",
    "load",
    "load_frombuffer",
    "pack_record",
    "read",
    "save",
    "unpack_record",
]

Array: TypeAlias = "np.ndarray[Any, Any]"

_FILE_MAGIC = 0x112
#: other kinds of files, by their first bytes
_OTHER_FILES = {
    b"PK": "an archive: npz files are read by mx.npx.load, checkpoints of PyTorch by no function here",
    b"\x80": "a pickle, which is never loaded because it can run code",
    b"\x89HDF": "HDF5, the format of Keras",
    b"{": "JSON: mx.sym.load reads symbols",
}
#: the first bytes of a file
FILE_BEGIN = _FILE_MAGIC.to_bytes(8, "little")
_VERSION_OF_MAGIC = {0xF993FAC8: 1, 0xF993FAC9: 2, 0xF993FACA: 3}
_MAGIC_OF_VERSION = {version: magic for magic, version in _VERSION_OF_MAGIC.items()}
#: version 0, one axis: number of axes, axis, device type, device number, type flag
_SMALLEST_RECORD_BYTES = 20
_MOST_AXES = 32
_INDEX_ARRAYS = {1: 1, 2: 2}
_STORAGE_NAMES = {1: "row_sparse", 2: "csr"}
_STORAGE_CODES = {name: code for code, name in _STORAGE_NAMES.items()}

_SAVED_WITH_NP_SHAPE = (
    "ndarray was saved in np shape semantics, must be loaded in the same semantics. Please turn on np shape semantics "
    "in Python using `with np_shape(True)` or decorator `use_np_shape` to scope the code of loading the ndarray."
)
_SAVED_WITHOUT_NP_SHAPE = (
    "ndarray was not saved in np shape semantics, but being loaded in np shape semantics. Please turn off np shape "
    "semantics in Python using `with np_shape(False)` to scope the code of loading the ndarray."
)


class _Reader:
    """Read the bytes of a file in order, with bounds checks."""

    def __init__(self, stream: BinaryIO, size: int, name: str = "") -> None:
        self.stream, self.left, self.position = stream, size, 0
        self.name = f" ({name})" if name else ""

    def fail(self, problem: str, at: int | None = None) -> MXNetError:
        """Return the exception that states a problem and its byte position."""
        place = self.position if at is None else at
        return MXNetError(f"Invalid NDArray file format{self.name}: {problem}, at byte {place}")

    def need(self, size: int, what: str) -> None:
        """Raise unless `size` more bytes remain."""
        if size > self.left:
            raise self.fail(f"{what} needs {size} bytes but {self.left} are left")

    def take(self, size: int, what: str) -> bytes:
        """Return the next `size` bytes."""
        self.need(size, what)
        data = self.stream.read(size)
        if len(data) != size:
            raise self.fail(f"{what} needs {size} bytes but the file ended")
        self._advance(size)
        return data

    def number(self, code: str, what: str) -> int:
        """Return one number of a :mod:`struct` type code."""
        return int(self.numbers(code, 1, what)[0])

    def numbers(self, code: str, count: int, what: str) -> tuple[int, ...]:
        """Return `count` numbers of a :mod:`struct` type code."""
        self.need(count * struct.calcsize("<" + code), what)
        layout = f"<{count}{code}"
        return struct.unpack(layout, self.take(struct.calcsize(layout), what))

    def array(self, shape: tuple[int, ...], flag: int, what: str) -> Array:
        """Return the next array."""
        stored = FROM_CODE[flag]
        size = math.prod(shape) * stored.itemsize
        self.need(size, f"{what} of shape {format_shape(shape)} and type {name_of(stored)}")
        # Stored booleans may be any byte; NumPy allows only 0 and 1.
        layout = np.dtype("uint8") if stored.kind == "b" else stored.newbyteorder("<")
        flat: Array = np.empty(math.prod(shape), layout)
        if size and self.stream.readinto(flat.view(np.uint8).data) != size:  # type: ignore[attr-defined]
            raise self.fail(f"{what} needs {size} bytes but the file ended")
        self._advance(size)
        if stored.kind == "b":
            flat = flat != 0
        # NumPy treats "<f4" as equal to "f4" and keeps it, but the repr shows the difference
        native = stored
        values: Array = flat.astype(native, copy=False).view(native)
        return values.reshape(shape)

    def _advance(self, size: int) -> None:
        self.position += size
        self.left -= size


def decode(
    data: bytes | bytearray | memoryview, *, np_shape: int | None = None
) -> tuple[list[Array | SparseRecord], list[str]]:
    """Return the arrays and the names in the bytes of a ``.params`` file.

    Parameters
    ----------
    data
        The whole file. Bytes after the last name are ignored, as in MXNet.
    np_shape
        None reads every record. A number is the state of NumPy shape semantics to enforce, as MXNet does: 0 rejects
        version 3 records, 1 rejects all others, 2 accepts both.

    Raises
    ------
    MXNetError
        If the bytes are not a valid file; the message names the problem and its byte position.

    >>> decode(b"".join(encode([np.arange(3, dtype="int8")], ["x"])))
    ([array([0, 1, 2], dtype=int8)], ['x'])
    """
    return _read_file(_Reader(io.BytesIO(data), len(memoryview(data).cast("B"))), np_shape)


def _read_file(reader: _Reader, np_shape: int | None) -> tuple[list[Array | SparseRecord], list[str]]:
    magic = reader.number("Q", "the file header")
    if magic != _FILE_MAGIC:
        start = magic.to_bytes(8, "little")
        kind = next((f"; it looks like {kind}" for begin, kind in _OTHER_FILES.items() if start.startswith(begin)), "")
        raise MXNetError(f"{reader.fail(f'the file starts with {magic:#x} instead of {_FILE_MAGIC:#x}', at=0)}{kind}")
    reader.number("Q", "the file header")
    count = reader.number("Q", "the number of arrays")
    reader.need(count * _SMALLEST_RECORD_BYTES, f"a list of {count} arrays")
    arrays = [_read_record(reader, index, np_shape) for index in range(count)]
    name_count = reader.number("Q", "the number of names")
    if name_count not in (0, count):
        raise reader.fail(f"{name_count} names for {count} arrays")
    return arrays, [_read_name(reader, index) for index in range(name_count)]


def _read_name(reader: _Reader, index: int) -> str:
    length = reader.number("Q", f"the length of name {index}")
    start = reader.position
    try:
        return reader.take(length, f"name {index}").decode("utf-8")
    except UnicodeDecodeError as error:
        raise reader.fail(f"name {index} is not UTF-8 text", at=start + error.start) from None


def _read_record(reader: _Reader, index: int, np_shape: int | None) -> Array | SparseRecord:
    label = f"array {index}"
    first = reader.number("I", f"the magic number of {label}")
    version = _VERSION_OF_MAGIC.get(first, 0)
    if np_shape == 0 and version == 3:
        raise MXNetError(_SAVED_WITH_NP_SHAPE + reader.name)
    if np_shape == 1 and version != 3:
        raise MXNetError(_SAVED_WITHOUT_NP_SHAPE + reader.name)
    storage = reader.number("i", f"the storage type of {label}") if version >= 2 else 0
    if storage and (storage not in _INDEX_ARRAYS or version == 3):
        raise reader.fail(f"{label} has the unknown storage type {storage}", at=reader.position - 4)
    stored_shape = _read_shape(reader, version, f"{label} (stored part)") if storage else ()
    shape = _read_shape(reader, version, label, axes=first if version == 0 else None)
    device = reader.number("i", f"the device type of {label}")
    if device not in Context.devtype2str:
        raise reader.fail(f"{label} has the unknown device type {device}", at=reader.position - 4)
    reader.number("i", f"the device number of {label}")
    flag = _read_flag(reader, label)
    if not storage:
        return reader.array(shape, flag, f"the data of {label}")
    layouts = []
    for number in range(_INDEX_ARRAYS[storage]):
        what = f"index array {number} of {label}"
        index_flag = _read_flag(reader, what)
        if FROM_CODE[index_flag].kind != "i":
            raise reader.fail(f"{what} does not have an integer type", at=reader.position - 4)
        layouts.append((_read_shape(reader, version, what), index_flag, what))
        if len(layouts[-1][0]) != 1:
            raise reader.fail(f"{what} has {len(layouts[-1][0])} axes instead of one")
    values = reader.array(stored_shape, flag, f"the data of {label}")
    record = SparseRecord(_STORAGE_NAMES[storage], shape, values, tuple(reader.array(*layout) for layout in layouts))
    try:
        record.check()
    except MXNetError as error:
        raise reader.fail(f"{label}: {error}") from None
    return record


def _read_flag(reader: _Reader, label: str) -> int:
    flag = reader.number("i", f"the type flag of {label}")
    if flag not in FROM_CODE:
        raise reader.fail(f"{label} has the unknown type flag {flag}", at=reader.position - 4)
    return flag


def _read_shape(reader: _Reader, version: int, label: str, axes: int | None = None) -> tuple[int, ...]:
    start = reader.position
    if axes is None:
        axes = reader.number("i", f"the number of axes of {label}")
    if axes == 0 and version < 3:
        raise reader.fail(
            f"{label} has no shape (MXNet writes 0-d arrays like that, and cannot read them either, unless they are "
            "saved under np_shape)",
            at=start,
        )
    if not 0 <= axes <= _MOST_AXES:
        raise reader.fail(f"{label} has {axes} axes; from 0 to {_MOST_AXES} are possible", at=start)
    shape = reader.numbers("I" if version == 0 else "q", axes, f"the shape of {label}")
    # An empty array may have any extents, but NumPy must still be able to count its bytes.
    if min(shape, default=0) < 0 or math.prod(filter(None, shape)) >= 2**59:
        raise reader.fail(f"{label} has the impossible shape {format_shape(shape)}", at=start)
    return shape


def encode(
    arrays: Iterable[Array | SparseRecord],
    names: Sequence[str] = (),
    *,
    count: int | None = None,
    devices: Sequence[tuple[int, int]] | None = None,
    np_shape: bool = False,
) -> Iterator[bytes | memoryview]:
    """Return the bytes of a ``.params`` file in chunks, identical to MXNet's for these arrays.

    Parameters
    ----------
    arrays
        The arrays to store. A generator that creates them one by one needs memory for only one at a time.
    names
        One name per array, or none.
    count
        The number of arrays, if `arrays` has no length.
    devices
        (device type, device number) of each array; by default each is on ``cpu(0)``.
    np_shape
        Write version 3 records, which may be 0-d but not sparse.

    Raises
    ------
    MXNetError
        If an array cannot be stored: a type MXNet lacks, 0-d without `np_shape`, or sparse with it.
    """
    if count is None:
        count = len(arrays)  # type: ignore[arg-type]
    if names and len(names) != count:
        raise MXNetError(f"Cannot store {count} arrays under {len(names)} names")
    encoded_names = [name.encode("utf-8") for name in names]
    return _chunks(arrays, encoded_names, count, devices or [(1, 0)] * count, 3 if np_shape else 2)


def _chunks(
    arrays: Iterable[Array | SparseRecord],
    names: list[bytes],
    count: int,
    devices: Sequence[tuple[int, int]],
    version: int,
) -> Iterator[bytes | memoryview]:
    yield struct.pack("<QQQ", _FILE_MAGIC, 0, count)
    for array, device in zip(arrays, devices, strict=True):
        yield from _record(array, device, version)
    yield struct.pack("<Q", len(names))
    for name in names:
        yield struct.pack("<Q", len(name)) + name


def _record(array: Array | SparseRecord, device: tuple[int, int], version: int) -> Iterator[bytes | memoryview]:
    """Yield the chunks of one record."""
    indices: tuple[Array, ...] = ()
    header = struct.pack("<I", _MAGIC_OF_VERSION[version])
    if isinstance(array, SparseRecord):
        if version == 3:
            raise MXNetError("only allow serializing ndarray of default storage type in np shape semantics")
        shape, values, indices = array.shape, array.data, array.indices
        header += struct.pack("<i", _STORAGE_CODES[array.stype]) + _shape_bytes(values.shape)
    else:
        shape, values = array.shape, array
        header += struct.pack("<i", 0)
        if version == 2 and not shape:
            raise MXNetError(
                "Cannot save an array of shape () in legacy shape semantics, where it means 'no array' in the file. "
                "Save and load it under `with mx.np_shape(True)`, or save x.reshape((1,))."
            )
    header += _shape_bytes(shape) + struct.pack("<iii", *device, _flag(values.dtype))
    for index in indices:
        header += struct.pack("<i", _flag(index.dtype)) + _shape_bytes(index.shape)
    yield header
    for part in (values, *indices):
        contiguous = np.asarray(part, part.dtype.newbyteorder("<"), order="C")
        yield contiguous.reshape(-1).view(np.uint8).data


def _shape_bytes(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def _flag(dtype: DType) -> int:
    try:
        return CODES[dtype.newbyteorder("=")]
    except KeyError:
        names = ", ".join(name_of(known) for known in CODES)
        raise MXNetError(f"Arrays of type {dtype} cannot be stored; use one of {names}") from None


def pack_record(array: Array | SparseRecord, device: tuple[int, int] = (1, 0)) -> bytes:
    """Return one array as MXNet's pickled record, ``NDArray.__getstate__()['handle']``.

    >>> unpack_record(pack_record(np.eye(2)))
    array([[1., 0.],
           [0., 1.]])
    """
    version = 3 if array.shape == () or (is_np_shape() and not isinstance(array, SparseRecord)) else 2
    return b"".join(_record(array, device, version))


def unpack_record(data: bytes | bytearray | memoryview) -> Array | SparseRecord:
    """Return the array of a pickled record, under any shape semantics.

    Raises
    ------
    MXNetError
        If the bytes are not one record.
    """
    reader = _Reader(io.BytesIO(data), len(memoryview(data).cast("B")))
    array = _read_record(reader, 0, None)
    if reader.left:
        raise reader.fail(f"{reader.left} bytes follow the array")
    return array


def read(fname: str | os.PathLike[str]) -> tuple[list[Array | SparseRecord], list[str]]:
    """Return the NumPy arrays and the names of a ``.params`` file, sparse arrays included.

    Raises
    ------
    MXNetError
        If the file cannot be opened or is not a ``.params`` file.
    """
    return _read_path(fname, None)


def _read_path(fname: str | os.PathLike[str], np_shape: int | None) -> tuple[list[Array | SparseRecord], list[str]]:
    path = _local_path(fname)
    try:
        with open(path, "rb", buffering=1 << 16) as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode):
                return _read_file(_Reader(file, status.st_size, path), np_shape)
            data = file.read()
    except OSError as error:
        raise _open_error(path, error) from error
    return _read_file(_Reader(io.BytesIO(data), len(data), path), np_shape)


def _local_path(fname: str | os.PathLike[str]) -> str:
    path = os.fspath(fname)
    if path.startswith("file://"):
        return path[len("file://") :]
    protocol, separator, _ = path.partition("://")
    if separator and protocol.isalnum():
        raise MXNetError(f"unknown filesystem protocol {protocol}://: only local files can be read and written")
    return path


def _open_error(path: str, error: OSError) -> MXNetError:
    return MXNetError(f'Open "{path}": {error.strerror or error}')


def save(fname: str | os.PathLike[str], data: NDArray | list[NDArray] | dict[str, NDArray]) -> None:
    """Write arrays to a file that MXNet 1.9.1 can read, replacing an existing file atomically.

    Parameters
    ----------
    fname
        The path of the file.
    data
        One array, a list of arrays, or a dictionary from names to arrays.

    Raises
    ------
    ValueError, TypeError
        If `data` has another type.
    MXNetError
        If the file cannot be written (it then stays unchanged), or an array has shape () outside ``np_shape``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.params"
    >>> mx.nd.save(path, {"weight": mx.nd.ones((2, 3))})
    >>> sorted(mx.nd.load(path))
    ['weight']
    """
    from . import NDArray

    if isinstance(data, NDArray):
        data = [data]
    if isinstance(data, dict):
        names, arrays = list(data.keys()), list(data.values())
    elif isinstance(data, list):
        names, arrays = [], data
    else:
        raise ValueError("data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays.")
    if not all(isinstance(name, str) for name in names) or not all(isinstance(array, NDArray) for array in arrays):
        raise TypeError("save only accept dict str->NDArray or list of NDArray")
    if not isinstance(fname, str | os.PathLike):
        raise TypeError("fname required to be a string")
    chunks = encode(
        (array._to_storage() for array in arrays),
        names,
        count=len(arrays),
        devices=[(array.context.device_typeid, array.context.device_id) for array in arrays],
        np_shape=is_np_shape(),
    )
    path = _local_path(fname)
    try:
        write_atomically(path, chunks)
    except OSError as error:
        raise _open_error(path, error) from error


def load(fname: str | os.PathLike[str]) -> list[NDArray] | dict[str, NDArray]:
    """Return the arrays in a file written by :func:`save` or MXNet: a dictionary if it has names, else a list.

    The arrays are created on ``cpu(0)``, regardless of the device they were saved from.

    Parameters
    ----------
    fname
        The path of the file.

    Raises
    ------
    TypeError
        If `fname` is not a path.
    MXNetError
        If the file is missing, truncated or damaged, or was saved under the other shape
        semantics (see :func:`phonograd.util.np_shape`).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.params"
    >>> mx.nd.save(path, {"weight": mx.nd.ones((2, 3))})
    >>> mx.nd.load(path)["weight"].shape
    (2, 3)
    """
    if not isinstance(fname, str | os.PathLike):
        raise TypeError("fname required to be a string")
    return _as_ndarrays(*_read_path(fname, np_shape_state()))


def load_frombuffer(buf: bytes | bytearray | memoryview | str) -> list[NDArray] | dict[str, NDArray]:
    """Return the arrays in the bytes of a file; see :func:`load`.

    Parameters
    ----------
    buf
        The contents of a file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.params"
    >>> mx.nd.save(path, {"weight": mx.nd.ones((2, 3))})
    >>> sorted(mx.nd.load_frombuffer(path.read_bytes()))
    ['weight']
    """
    if isinstance(buf, str):
        buf = buf.encode("utf-8")
    if not isinstance(buf, bytes | bytearray | memoryview):
        raise TypeError("buf required to be a string or bytes")
    return _as_ndarrays(*decode(buf, np_shape=np_shape_state()))


def _as_ndarrays(records: list[Array | SparseRecord], names: list[str]) -> list[NDArray] | dict[str, NDArray]:
    from ..core.base.devices import cpu
    from . import array
    from .sparse import from_record

    results: list[NDArray] = []
    records.reverse()
    while records:
        # pop() frees each NumPy array as soon as its NDArray exists
        record = records.pop()
        if isinstance(record, SparseRecord):
            results.append(from_record(record))
        else:
            results.append(array(record, ctx=cpu(0), dtype=record.dtype))
    return dict(zip(names, results)) if names else results
