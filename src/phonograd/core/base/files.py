"""Files written whole or not at all.

A reader of the file, or a program that starts after a crash, finds either the old contents or the new ones. The
writers of every format (arrays, symbols, traces) hand their chunks of bytes to :func:`write_atomically`.

Where the system has unnamed files (Linux: ``O_TMPFILE``), the contents have no name until they are complete, so a
killed process leaves nothing behind. A new target gets its name in one step (``linkat``). To replace an existing one
takes two: a temporary name, then a rename. Elsewhere the contents are in a file with a temporary name from the start.
The next program that saves in that directory removes temporary files that a killed process left. It recognizes them by
their locks, which end with their process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable
from types import TracebackType
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["AtomicFile", "obstacle", "write_atomically"]

#: names of files that are complete and about to be renamed (.tmp), and of files that are being written (.part)
_TEMPORARY_NAME = re.compile(r"\.phonograd-[0-9a-f]{16}\.(tmp|part)")
#: The first kind is locked before it gets its name: without a lock it is abandoned. The second kind is locked a moment
#: after that, and may be on a file system without locks: it is abandoned if it was not written to for this long, too.
_ABANDONED_SECONDS = 3600
#: directories in which abandoned files were looked for
_tidied: set[str] = set()


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[bytes | memoryview], durable: bool = True) -> None:
    """Return nothing; afterwards the file holds the chunks, one after the other.

    The chunks go to a temporary file in the same directory, which is flushed to the disk and then takes the place of
    the target. If a chunk cannot be produced or written, the temporary file is removed and the target is untouched. An
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
    with AtomicFile(path, durable) as file:
        file.stream.writelines(chunks)


class AtomicFile:
    """A file that is written piece by piece and takes its name when it is closed; until then the old one is there.

    In a ``with`` statement, an exception discards what was written. What is not a regular file is written directly.
    See :func:`write_atomically` for ``durable``.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = pathlib.Path(directory, "letters")
    ...     with AtomicFile(path) as file:
    ...         written = file.write(b"abc")
    ...         early = path.exists()
    ...     early, path.read_bytes()
    (False, b'abc')
    """

    def __init__(self, path: str | os.PathLike[str], durable: bool = True) -> None:
        self._path, self._durable = path, durable
        self._target = os.path.realpath(path)
        self._directory = os.path.dirname(self._target)
        #: the name of the temporary file, or None while it has none
        self._temporary: str | None = None
        try:
            self._mode: int | None = os.stat(self._target).st_mode
        except FileNotFoundError:
            self._mode = None
        if self._mode is not None and stat.S_ISDIR(self._mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        self._direct = self._mode is not None and not stat.S_ISREG(self._mode)
        if self._direct:
            #: the file under construction, as Python's file object
            self.stream: IO[bytes] = open(self._target, "wb")  # noqa: SIM115
            return
        if durable:
            _remove_abandoned_files(self._directory)
        descriptor = _open_unnamed(self._directory)
        if descriptor is None:
            descriptor, self._temporary = _open_named(self._directory, path)
        self.stream = os.fdopen(descriptor, "wb")

    def write(self, data: bytes | memoryview) -> int:
        """Return how many bytes were written: all of them."""
        return self.stream.write(data)

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self.stream.tell()

    def close(self) -> None:
        """Finish the file and give it its name. Closing it again does nothing."""
        if self.stream.closed:
            return
        if self._direct:
            self.stream.close()
            return
        try:
            self._finish()
        except BaseException:
            self.discard()
            raise
        if self._durable:
            _flush_directory(self._directory)

    def _finish(self) -> None:
        """Flush the contents and put them in the place of the target."""
        self.stream.flush()
        descriptor = self.stream.fileno()
        if self._mode is not None:
            _set_mode(descriptor, self._temporary, self._mode)
        if self._durable:
            os.fsync(descriptor)
        if self._temporary is None:
            if self._mode is None and _give_name(descriptor, self._target):
                self.stream.close()
                return
            # the target exists: only a file with a name can replace it
            _lock(descriptor)
            self._temporary = _temporary_path(self._directory, "tmp")
            if not _give_name(descriptor, self._temporary):
                self._copy_contents(descriptor)
        if fcntl is None:
            # Windows renames only closed files; elsewhere the lock ends when the file is closed
            self.stream.close()
        os.replace(self._temporary, self._target)
        self.stream.close()

    def _copy_contents(self, descriptor: int) -> None:
        """Copy the unnamed file to one with a name, for file systems whose unnamed files cannot get one."""
        copy, self._temporary = _open_named(self._directory, self._path)
        with os.fdopen(copy, "wb") as target, open(os.dup(descriptor), "rb") as source:
            source.seek(0)
            shutil.copyfileobj(source, target)
            target.flush()
            if self._mode is not None:
                _set_mode(copy, self._temporary, self._mode)
            if self._durable:
                os.fsync(copy)

    def discard(self) -> None:
        """Forget what was written; the old file stays."""
        # closing writes the rest of the buffer, for which there may be no space
        with contextlib.suppress(OSError):
            self.stream.close()
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
        elif not self.stream.closed:
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


def _temporary_path(directory: str, kind: str) -> str:
    return os.path.join(directory, f".phonograd-{os.urandom(8).hex()}.{kind}")


def _open_unnamed(directory: str) -> int | None:
    """Return the descriptor of a new file without a name, or None where the system has no such files."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag:
        return None
    try:
        descriptor = os.open(directory, flag | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:
        # Not every file system has them. Another problem (rights, space) is the same for a file with a name.
        return None
    if not os.path.exists(_descriptor_path(descriptor)):
        os.close(descriptor)
        return None
    return descriptor


def _descriptor_path(descriptor: int) -> str:
    """Return the path under which Linux shows an open file, even one without a name."""
    return f"/proc/self/fd/{descriptor}"


def _give_name(descriptor: int, path: str) -> bool:
    """Give an unnamed file a name; return whether that was possible."""
    try:
        # Python follows symbolic links here only if it is given a directory, too (the path is absolute and needs none)
        os.link(_descriptor_path(descriptor), path, src_dir_fd=descriptor, follow_symlinks=True)
    except OSError:
        # The name is taken, or the file system cannot do it. The caller takes another way, which shows other errors.
        return False
    return True


def _set_mode(descriptor: int, path: str | None, mode: int) -> None:
    """Set the permissions of an open file."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, stat.S_IMODE(mode))
    elif path is not None:
        os.chmod(path, stat.S_IMODE(mode))


def _open_named(directory: str, wanted: str | os.PathLike[str]) -> tuple[int, str]:
    """Return (descriptor, path) of a file that did not exist, with the permissions a new file gets here.

    Where none can be made the error names the file that is `wanted`.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        path = _temporary_path(directory, "part")
        try:
            # Not the tempfile module: it makes private files, and the umask cannot be read without changing it.
            descriptor = os.open(path, flags, 0o666)
        except FileExistsError:
            continue
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(wanted)) from None
        _lock(descriptor)
        return descriptor, path


def _lock(descriptor: int) -> bool | None:
    """Lock a file until it is closed or its process ends; False if another process has, None without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None  # some network file systems have no locks
    return True


def _remove_abandoned_files(directory: str) -> None:
    """Remove temporary files that killed processes left in a directory, once for each directory and process."""
    if directory in _tidied:
        return
    if len(_tidied) > 1_000:
        _tidied.clear()
    _tidied.add(directory)
    try:
        names = [name for name in os.listdir(directory) if _TEMPORARY_NAME.fullmatch(name)]
    except OSError:
        return  # the directory cannot be listed, but perhaps files can be written there
    for name in names:
        # another process may remove the file at the same time
        with contextlib.suppress(OSError):
            _remove_if_abandoned(os.path.join(directory, name))


def _remove_if_abandoned(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        facts = os.fstat(descriptor)
        ours = not hasattr(os, "geteuid") or facts.st_uid == os.geteuid()
        idle = time.time() - facts.st_mtime > _ABANDONED_SECONDS
        locked = _lock(descriptor) if ours and stat.S_ISREG(facts.st_mode) else False
        abandoned = locked is not False and (idle or (locked is True and path.endswith(".tmp")))
    finally:
        os.close(descriptor)
    if abandoned:
        os.unlink(path)


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
