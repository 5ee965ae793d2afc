"""Read and write record files: sequences of byte strings, accessed in order or by key (``mxnet.recordio``).

A record is the number 0xced7230a, a word with its length in the low 29 bits, and its bytes, padded with zeros to a
multiple of four. Where the bytes contain the number itself at such a multiple, the writer omits it and splits the
record there; the high three bits of the length mark first, middle and last parts. A reader in a damaged file can
therefore find the next record by searching for the number.

An index is a text file with one line ``key<TAB>offset`` per record. Examples have a header with labels before their
bytes: :func:`pack`, :func:`unpack`. MXNet reads files written here, and vice versa.
"""

from __future__ import annotations

import atexit
import numbers
import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from .core.base.docstrings import complete_classes
from .core.base.errors import MissingFile, MXNetError
from .core.base.files import AtomicFile, write_atomically

__all__ = ["IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img", "record_offsets", "unpack", "unpack_img"]

RecordFile = TypeVar("RecordFile", bound="MXRecordIO")

_MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", _MAGIC)
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_ZEROS = bytes(4)

#: unfinished files of parent processes: closing one in a child would write its buffer a second time
_parent_files: list[AtomicFile] = []
#: files that are being written
_writers: weakref.WeakSet[MXRecordIO] = weakref.WeakSet()


@atexit.register
def _close_writers() -> None:
    """Finish files that the program has not closed; the interpreter cannot do so later."""
    for writer in list(_writers):
        writer.close()


def _split_record(data: bytes) -> list[bytes]:
    """Return a record split at each magic number whose position is a multiple of four.

    >>> _split_record(b"abcd" + _MAGIC_BYTES + b"e")
    [b'abcd', b'e']
    """
    parts, begin, place = [], 0, data.find(_MAGIC_BYTES)
    while place >= 0:
        if place % 4 == 0:
            parts.append(data[begin:place])
            begin = place + 4
        place = data.find(_MAGIC_BYTES, place + 4 if place % 4 == 0 else place + 1)
    parts.append(data[begin:])
    return parts


def _encode_record(data: bytes) -> Iterator[bytes]:
    """Yield the pieces of a record in a file."""
    if len(data) >= 1 << _LENGTH_BITS:
        raise MXNetError(f"a record of {len(data)} bytes is too long: the format allows {2**_LENGTH_BITS - 1}")
    parts = _split_record(data)
    for number, part in enumerate(parts):
        if len(parts) == 1:
            kind = _WHOLE
        else:
            kind = _FIRST if number == 0 else _LAST if number == len(parts) - 1 else _MIDDLE
        yield struct.pack("<II", _MAGIC, kind << _LENGTH_BITS | len(part))
        yield part
        yield _ZEROS[: -len(part) % 4]


class MXRecordIO:
    """Read or write a record file from beginning to end.

    Writing goes to a temporary file, which :meth:`close` renames to the target. In a ``with`` statement, an exception
    discards it. Several threads may use a reader, also after a fork: every process has its own position in the file.

    Parameters
    ----------
    uri
        The path of the file.
    flag
        ``'r'`` to read, ``'w'`` to write.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "letters.rec")
    ...     with MXRecordIO(path, "w") as writer:
    ...         writer.write(b"first")
    ...         writer.write(b"second")
    ...     with MXRecordIO(path, "r") as reader:
    ...         reader.read(), reader.read(), reader.read()
    (b'first', b'second', None)
    """

    def __init__(self, uri: str | os.PathLike[str], flag: str) -> None:
        self.uri = os.fspath(uri)
        self.flag = flag
        self.is_open = False
        self.writable = False
        self.pid: int | None = None
        self._file: BinaryIO | None = None
        self._output: AtomicFile | None = None
        self._size = 0
        self._lock = threading.RLock()
        self.open()

    def open(self) -> None:
        """Open the file at its beginning."""
        try:
            if self.flag == "w":
                self._output = AtomicFile(self.uri)
                self.writable = True
                _writers.add(self)
            elif self.flag == "r":
                self._file = open(self.uri, "rb")  # noqa: SIM115
                self._size = os.fstat(self._file.fileno()).st_size
                self.writable = False
            else:
                raise ValueError(f"Invalid flag {self.flag}: use 'r' to read and 'w' to write a record file")
        except FileNotFoundError as error:
            raise MissingFile(error.errno, error.strerror, self.uri) from None
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Close the file; a written file gets its final name. A second call has no effect."""
        if not self.is_open:
            return
        self.is_open = False
        _writers.discard(self)
        file, output = self._file, self._output
        self._file = self._output = None
        if file is not None:
            file.close()
        if output is not None and self.pid == os.getpid():
            output.close()
        elif output is not None:
            _parent_files.append(output)
        self.pid = None

    def reset(self) -> None:
        """Return to the beginning; a file that is being written starts over."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record."""
        assert self.writable, f"{self.uri} is open for reading"
        output = self._output
        if output is None:
            raise MXNetError(f"{self.uri} is closed")
        if self.pid != os.getpid():
            raise RuntimeError("Forbidden operation in multiple processes: a record file has one writer")
        with self._lock:
            for piece in _encode_record(bytes(buf)):
                output.write(piece)

    def read(self) -> bytes | None:
        """Return the next record; None at the end of the file.

        Raises
        ------
        MXNetError
            If the file is cut off or is no record file.
        """
        assert not self.writable, f"{self.uri} is open for writing"
        with self._lock:
            return self._next(self._own_file())

    def tell(self) -> int:
        """Return the position in the file, in bytes."""
        with self._lock:
            if self._output is not None:
                return self._output.tell()
            return self._own_file().tell()

    def read_at(self, offset: int) -> bytes:
        """Return the record that begins at a byte of the file."""
        with self._lock:
            self._own_file().seek(offset)
            record = self.read()
        if record is None:
            raise MXNetError(f"{self.uri} has no record at byte {offset}")
        return record

    def _own_file(self) -> BinaryIO:
        """Return the open file. A child process opens its own, because it would move the position of its parent."""
        if self._file is None:
            raise MXNetError(f"{self.uri} is closed")
        if self.pid != os.getpid():
            place = self._file.tell()
            self._file = open(self.uri, "rb")  # noqa: SIM115
            self._file.seek(place)
            self.pid = os.getpid()
        return self._file

    def _next(self, file: BinaryIO) -> bytes | None:
        parts: list[bytes] = []
        begin = file.tell()
        while True:
            place = file.tell()
            head = file.read(8)
            if not head and not parts:
                return None
            if len(head) < 8:
                raise MXNetError(f"{self.uri} is cut off: the record at byte {begin} ends at byte {place + len(head)}")
            magic, word = struct.unpack("<II", head)
            kind, length = word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)
            if magic != _MAGIC or kind > _LAST or (kind in (_WHOLE, _FIRST)) != (not parts):
                raise MXNetError(f"{self.uri} is damaged or no record file: no record begins at byte {place}")
            # before allocating memory: a damaged file may claim any length
            if length > max(self._size, os.fstat(file.fileno()).st_size) - place - 8:
                raise MXNetError(f"{self.uri} is cut off: the record at byte {begin} should have {length} more bytes")
            parts.append(file.read(length))
            file.seek(-length % 4, os.SEEK_CUR)
            if kind in (_WHOLE, _LAST):
                return parts[0] if kind == _WHOLE else _MAGIC_BYTES.join(parts)

    def __getstate__(self) -> dict[str, Any]:
        if self.writable and self.is_open:
            raise TypeError(f"{self.uri} is open for writing and cannot be pickled")
        state = self.__dict__.copy()
        del state["_lock"], state["_file"], state["_output"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self._file = self._output = None
        was_open, self.is_open = self.is_open, False
        if was_open:
            self.open()

    def __enter__(self: RecordFile) -> RecordFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and self._output is not None:
            self._output.discard()
            self._output, self.is_open = None, False
        self.close()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()


class MXIndexedRecordIO(MXRecordIO):
    """Read or write a record file with an index, whose records can be read in any order.

    Parameters
    ----------
    idx_path
        The path of the index.
    uri
        The path of the file.
    flag
        ``'r'`` to read, ``'w'`` to write.
    key_type
        The function that converts the text of a key.
    """

    def __init__(
        self,
        idx_path: str | os.PathLike[str],
        uri: str | os.PathLike[str],
        flag: str,
        key_type: Callable[[str], Any] = int,
    ) -> None:
        self.idx_path = os.fspath(idx_path)
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.key_type = key_type
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open the file at its beginning, and read its index."""
        super().open()
        self.idx, self.keys = {}, []
        if self.writable:
            return
        with open(self.idx_path, encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    name, offset = line.rstrip("\n").split("\t")
                    key, place = self.key_type(name), int(offset)
                except ValueError:
                    raise MXNetError(
                        f"line {number} of {self.idx_path} is no key and offset separated by a tab"
                    ) from None
                if not 0 <= place < max(self._size, 1):
                    raise MXNetError(f"line {number} of {self.idx_path} points to byte {place} of {self._size}")
                self.idx[key] = place
                self.keys.append(key)

    def close(self) -> None:
        """Close the file; a written file and its index get their final names."""
        was_written = self.is_open and self.writable and self.pid == os.getpid()
        super().close()
        if was_written:
            lines = (f"{key}\t{self.idx[key]}\n".encode() for key in self.keys)
            write_atomically(self.idx_path, lines)

    def seek(self, idx: Any) -> None:
        """Move to a record, which :meth:`read` returns next."""
        assert not self.writable, f"{self.uri} is open for writing"
        with self._lock:
            self._own_file().seek(self.idx[idx])

    def read_idx(self, idx: Any) -> bytes:
        """Return a record by its key."""
        return self.read_at(self.idx[idx])

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record under a key."""
        with self._lock:
            key = self.key_type(idx)
            place = self.tell()
            self.write(buf)
            self.idx[key] = place
            self.keys.append(key)


def record_offsets(uri: str | os.PathLike[str]) -> list[int]:
    """Return the offsets of all records, after reading the whole file."""
    offsets = []
    with MXRecordIO(uri, "r") as reader:
        place = reader.tell()
        while reader.read() is not None:
            offsets.append(place)
            place = reader.tell()
    return offsets


class IRHeader(NamedTuple):
    """Hold the header before the bytes of an example.

    ``flag`` is the number of labels after the header, or 0 for a single label inside it. ``id`` and ``id2`` are free
    for use.
    """

    flag: int
    label: Any
    id: int
    id2: int

    def __repr__(self) -> str:
        # MXNet's name of the class
        return f"HEADER(flag={self.flag!r}, label={self.label!r}, id={self.id!r}, id2={self.id2!r})"


_HEADER = struct.Struct("<IfQQ")


def pack(header: IRHeader, s: bytes | str) -> bytes:
    """Return a header and bytes as one record.

    >>> unpack(pack(IRHeader(0, 4.0, 7, 0), b"bytes"))
    (HEADER(flag=0, label=4.0, id=7, id2=0), b'bytes')
    """
    header = IRHeader(*header)
    body = s.encode() if isinstance(s, str) else bytes(s)
    if isinstance(header.label, numbers.Number):
        return _HEADER.pack(0, header.label, header.id, header.id2) + body
    labels = np.asarray(header.label, "<f4")
    return _HEADER.pack(labels.size, 0, header.id, header.id2) + labels.tobytes() + body


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Return the header and the bytes of a record.

    Raises
    ------
    MXNetError
        If the record is too short for the header, or for the labels that the header announces.
    """
    if len(s) < _HEADER.size:
        raise MXNetError(f"a record of {len(s)} bytes has no header, which needs {_HEADER.size}")
    header = IRHeader(*_HEADER.unpack_from(s))
    body = s[_HEADER.size :]
    if header.flag == 0:
        return header, body
    if 4 * header.flag > len(body):
        raise MXNetError(f"a record with {header.flag} labels is cut off: only {len(body)} bytes follow the header")
    labels = np.frombuffer(body, "<f4", header.flag).astype(np.float32)
    return header._replace(label=labels), body[4 * header.flag :]


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[IRHeader, np.ndarray[Any, Any]]:
    """Return the header and the image of a record, as a NumPy array with channels blue, green, red.

    `iscolor` is 1 for color, 0 for gray, -1 for the channels of the image.
    """
    from .image.codec import decode

    header, body = unpack(s)
    image = decode(body, iscolor)
    if image.shape[2] == 1:
        return header, image[:, :, 0]
    return header, np.ascontiguousarray(image[:, :, [2, 1, 0, 3][: image.shape[2]]])


def pack_img(header: IRHeader, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Return a header and an encoded image as one record.

    Parameters
    ----------
    header
        The header.
    img
        The image, of shape (height, width) or (height, width, channel) with channels blue, green, red.
    quality
        The quality from 1 to 100 for JPEG; the compression level from 1 to 9 for PNG.
    img_fmt
        ``'.jpg'`` or ``'.png'``.
    """
    from .image.codec import encode

    image = np.asarray(img)
    if image.ndim == 3 and image.shape[2] == 3:
        image = image[:, :, ::-1]
    return pack(header, encode(image, quality, img_fmt))


complete_classes(globals())
