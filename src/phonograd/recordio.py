"""Record files: sequences of byte strings, readable one after the other or by key (``mxnet.recordio``).

A record is the number 0xced7230a, a word with its length in the low 29 bits, and its bytes, padded with zeros to a
multiple of four. Where the number itself stands at such a multiple inside of the bytes it is left out and the record
is divided there: the high three bits of the length tell first, middle and last parts. So a reader that got lost finds
the beginning of a record by looking for the number.

An index is a text file with a line ``key<TAB>offset`` for each record. Examples carry a header with labels in front of
their bytes: :func:`pack`, :func:`unpack`. Files written here are read by MXNet, and the other way around.
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

from .core.base.errors import MissingFile, MXNetError
from .core.base.files import AtomicFile, write_atomically

__all__ = ["IRHeader", "MXIndexedRecordIO", "MXRecordIO", "pack", "pack_img", "record_offsets", "unpack", "unpack_img"]

RecordFile = TypeVar("RecordFile", bound="MXRecordIO")

_MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", _MAGIC)
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_ZEROS = bytes(4)

#: unfinished files of parent processes: closing one here would write its buffer a second time
_of_parents: list[AtomicFile] = []
#: files that are being written
_writers: weakref.WeakSet[MXRecordIO] = weakref.WeakSet()


@atexit.register
def _close_writers() -> None:
    """Put files into their places that the program has not closed: later the interpreter cannot do it any more."""
    for writer in list(_writers):
        writer.close()


def _parts(data: bytes) -> list[bytes]:
    """Return a record divided where the magic number stands at a multiple of four.

    >>> _parts(b"abcd" + _MAGIC_BYTES + b"e")
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


def _encoded(data: bytes) -> Iterator[bytes]:
    """Yield the pieces that a record has in a file."""
    if len(data) >= 1 << _LENGTH_BITS:
        raise MXNetError(f"a record of {len(data)} bytes cannot be written: the format ends at {2**_LENGTH_BITS - 1}")
    parts = _parts(data)
    for number, part in enumerate(parts):
        if len(parts) == 1:
            kind = _WHOLE
        else:
            kind = _FIRST if number == 0 else _LAST if number == len(parts) - 1 else _MIDDLE
        yield struct.pack("<II", _MAGIC, kind << _LENGTH_BITS | len(part))
        yield part
        yield _ZEROS[: -len(part) % 4]


class MXRecordIO:
    """A record file, to be read or written from its beginning to its end.

    What is written goes to a temporary file, which takes the name of the target in :meth:`close`; in a ``with``
    statement, an exception discards it. Readers may be used by several threads and after a fork: every process has a
    place of its own in the file.

    Parameters
    ----------
    uri
        The path of the file.
    flag
        ``'r'`` to read it, ``'w'`` to write it.

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
                raise ValueError(f"Invalid flag {self.flag}: 'r' reads and 'w' writes a record file")
        except FileNotFoundError as error:
            raise MissingFile(error.errno, error.strerror, self.uri) from None
        self.pid = os.getpid()
        self.is_open = True

    def close(self) -> None:
        """Close the file; one that was written is in its place now. Closing it again does nothing."""
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
            _of_parents.append(output)
        self.pid = None

    def reset(self) -> None:
        """Go back to the beginning; a file that is written starts anew."""
        self.close()
        self.open()

    def write(self, buf: bytes) -> None:
        """Append a record."""
        assert self.writable, f"{self.uri} was opened to be read"
        output = self._output
        if output is None:
            raise MXNetError(f"{self.uri} is closed")
        if self.pid != os.getpid():
            raise RuntimeError("Forbidden operation in multiple processes: a record file has one writer")
        with self._lock:
            for piece in _encoded(bytes(buf)):
                output.write(piece)

    def read(self) -> bytes | None:
        """Return the next record; None at the end of the file.

        Raises
        ------
        MXNetError
            If the file is cut off or is no record file.
        """
        assert not self.writable, f"{self.uri} was opened to be written"
        with self._lock:
            return self._next(self._here())

    def tell(self) -> int:
        """Return where the file stands, in bytes."""
        with self._lock:
            if self._output is not None:
                return self._output.tell()
            return self._here().tell()

    def read_at(self, offset: int) -> bytes:
        """Return the record that begins at a byte of the file."""
        with self._lock:
            self._here().seek(offset)
            record = self.read()
        if record is None:
            raise MXNetError(f"{self.uri} has no record at byte {offset}")
        return record

    def _here(self) -> BinaryIO:
        """Return the opened file, opened again by a child process, which would else move its parent's place in it."""
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
            # checked before memory is asked for: a length is what the file claims
            if length > max(self._size, os.fstat(file.fileno()).st_size) - place - 8:
                raise MXNetError(f"{self.uri} is cut off: the record at byte {begin} has {length} bytes there")
            parts.append(file.read(length))
            file.seek(-length % 4, os.SEEK_CUR)
            if kind in (_WHOLE, _LAST):
                return parts[0] if kind == _WHOLE else _MAGIC_BYTES.join(parts)

    def __getstate__(self) -> dict[str, Any]:
        if self.writable and self.is_open:
            raise TypeError(f"{self.uri} is being written and cannot be taken to another process")
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
    """A record file with an index, whose records can be read in any order.

    Parameters
    ----------
    idx_path
        The path of the index.
    uri
        The path of the file.
    flag
        ``'r'`` to read it, ``'w'`` to write it.
    key_type
        What makes a key of its text.
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
                        f"line {number} of {self.idx_path} is not the line of an index, a key, a tab and an offset"
                    ) from None
                if not 0 <= place < max(self._size, 1):
                    raise MXNetError(f"line {number} of {self.idx_path} points to byte {place} of {self._size}")
                self.idx[key] = place
                self.keys.append(key)

    def close(self) -> None:
        """Close the file; one that was written is in its place now, and so is its index."""
        was_written = self.is_open and self.writable and self.pid == os.getpid()
        super().close()
        if was_written:
            lines = (f"{key}\t{self.idx[key]}\n".encode() for key in self.keys)
            write_atomically(self.idx_path, lines)

    def seek(self, idx: Any) -> None:
        """Go to a record, which :meth:`read` returns next."""
        assert not self.writable, f"{self.uri} was opened to be written"
        with self._lock:
            self._here().seek(self.idx[idx])

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
    """Return where the records of a file begin, found by reading all of it."""
    offsets = []
    with MXRecordIO(uri, "r") as reader:
        place = reader.tell()
        while reader.read() is not None:
            offsets.append(place)
            place = reader.tell()
    return offsets


class IRHeader(NamedTuple):
    """What stands in front of the bytes of an example.

    ``flag`` is the number of labels that follow the header, 0 for a single one inside of it; ``id`` and ``id2`` are
    free for use.
    """

    flag: int
    label: Any
    id: int
    id2: int

    def __repr__(self) -> str:
        # the name that MXNet gives it
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
        If the record is too short to have the header, or the labels that the header announces.
    """
    if len(s) < _HEADER.size:
        raise MXNetError(f"a record of {len(s)} bytes has no header, which has {_HEADER.size}")
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

    `iscolor` is 1 for color, 0 for gray, -1 for what the image has.
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
        The image, (height, width) or (height, width, channel) with channels blue, green, red.
    quality
        1 to 100 for JPEG, 1 to 9 (the compression) for PNG.
    img_fmt
        ``'.jpg'`` or ``'.png'``.
    """
    from .image.codec import encode

    image = np.asarray(img)
    if image.ndim == 3 and image.shape[2] == 3:
        image = image[:, :, ::-1]
    return pack(header, encode(image, quality, img_fmt))
