"""Files written whole or not at all.

A reader of the file, or a program that starts after a crash, finds either the old contents or the new ones. The
writers of every format (arrays, symbols, traces) hand their chunks of bytes to :func:`write_atomically`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from types import TracebackType

__all__ = ["AtomicFile", "obstacle", "write_atomically"]


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[bytes | memoryview], durable: bool = True) -> None:
    """Return nothing; afterwards the file holds the chunks, one after the other.

    The chunks go to a temporary file in the same directory, which is flushed to the disk and then renamed over the
    target. If a chunk cannot be produced or written, the temporary file is removed and the target is untouched. An
    existing file keeps its permissions and a symbolic link stays a link. What is not a regular file (a pipe, a
    terminal) cannot be replaced and is written directly.

    What can be made again need not be ``durable``: it is not flushed, which takes milliseconds. Other processes still
    see all or nothing; after a power failure the file may be damaged, so its reader must be able to tell.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "letters")
    ...     write_atomically(path, [b"ab", b"c"])
    ...     path.read_bytes(), os.listdir(directory)
    (b'abc', ['letters'])
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
            file.writelines(chunks)
        return
    directory = os.path.dirname(target)
    descriptor, temporary = _new_file(directory, path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        _flush_directory(directory)


class AtomicFile:
    """A file that is written piece by piece and takes its name when it is closed; until then the old one is there.

    In a ``with`` statement, an exception discards what was written. What is not a regular file is written directly.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "letters")
    ...     with AtomicFile(path) as file:
    ...         written = file.write(b"abc")
    ...         early = path.exists()
    ...     early, path.read_bytes()
    (False, b'abc')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._target = os.path.realpath(path)
        self._temporary: str | None = None
        try:
            self._mode: int | None = os.stat(self._target).st_mode
        except FileNotFoundError:
            self._mode = None
        if self._mode is not None and stat.S_ISDIR(self._mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if self._mode is not None and not stat.S_ISREG(self._mode):
            self._file = open(self._target, "wb")  # noqa: SIM115
            return
        descriptor, self._temporary = _new_file(os.path.dirname(self._target), path)
        self._file = os.fdopen(descriptor, "wb")

    def write(self, data: bytes | memoryview) -> int:
        """Return how many bytes were written: all of them."""
        return self._file.write(data)

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self._file.tell()

    def close(self) -> None:
        """Finish the file and give it its name. Closing it again does nothing."""
        if self._file.closed:
            return
        if self._temporary is None:
            self._file.close()
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if self._mode is not None:
                os.chmod(self._temporary, stat.S_IMODE(self._mode))
            os.replace(self._temporary, self._target)
        except BaseException:
            self.discard()
            raise
        _flush_directory(os.path.dirname(self._target))

    def discard(self) -> None:
        """Forget what was written; the old file stays."""
        self._file.close()
        if self._temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif not self._file.closed:
            self.discard()


def obstacle(path: str | os.PathLike[str]) -> str:
    """Return why a file cannot be written, as far as that can be told without trying; nothing if it can.

    What takes long is better not begun if there is no place for its result.

    >>> obstacle("/nowhere/report.html")
    'there is no directory /nowhere'
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        return f"there is no directory {folder}"
    if os.path.isdir(target):
        return f"{target} is a directory"
    return "" if os.access(folder, os.W_OK) else f"no files can be written to {folder}"


def _new_file(directory: str, wanted: str | os.PathLike[str]) -> tuple[int, str]:
    """Return (descriptor, path) of a file that did not exist, with the permissions a new file gets here.

    Where none can be made the error names the file that is `wanted`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        path = os.path.join(directory, f".phonograd-{os.urandom(8).hex()}.tmp")
        try:
            # Not the tempfile module: it makes private files, and the umask cannot be read without changing it.
            return os.open(path, flags, 0o666), path
        except FileExistsError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(wanted)) from None


def _flush_directory(directory: str) -> None:
    """Return nothing; afterwards the renaming is on the disk too, where the system can do that."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        # Some network file systems refuse to flush a directory; the file itself is complete and in place.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
