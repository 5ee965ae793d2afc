"""The account of a cache directory: how many bytes the files of a user take, for all processes of that user.

Used by :mod:`~phonograd.core.run.disk_cache` before each write. Reading a directory of some thousand files takes
milliseconds, so their total size is stored in a small file, which one process at a time may hold. Where files cannot be
locked (Windows, some network disks), processes that write at the same moment may exceed the limit by these files.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from types import TracebackType

from .private_directory import PrivateDirectory

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

__all__ = ["Account"]

#: total and time; a check sum follows
_FORM = struct.Struct("<qd")
#: how long to wait for another process: it holds the account for some milliseconds, unless it is stopped
_PATIENCE_SECONDS = 0.2


class Account:
    """The account, held inside a ``with`` statement; raises OSError if its file cannot be used."""

    def __init__(self, folder: PrivateDirectory) -> None:
        self._folder = folder
        self._descriptor = -1
        #: whether this process holds it; not if another one holds it for too long
        self.is_held = False
        #: at least the bytes that all files take; None if that is not known
        self.total: int | None = None
        #: when the directory was read last
        self.looked = 0.0

    def __enter__(self) -> Account:
        name = f"account-{os.geteuid()}" if hasattr(os, "geteuid") else "account"
        self._descriptor = self._folder.open(name, os.O_RDWR | os.O_CREAT)
        try:
            if not self._folder.is_trusted(os.fstat(self._descriptor)):
                raise PermissionError(f"{name} was written by another user")
            self.is_held = self._lock()
            if self.is_held:
                self._load()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if fcntl is not None and self.is_held:
            # closing is not enough if the process has been forked meanwhile
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)

    def _lock(self) -> bool:
        """Return whether no other process holds the account, after some time."""
        if fcntl is None:
            return True
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
                time.sleep(0.001)
            except OSError:
                # this disk has no locks
                return True

    def _load(self) -> None:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        content = os.read(self._descriptor, _FORM.size + 4)
        if len(content) == _FORM.size + 4 and _sum(content[:-4]) == content[-4:]:
            self.total, self.looked = _FORM.unpack(content[:-4])

    def store(self) -> None:
        """Write the numbers to the file."""
        if self.total is not None:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            content = _FORM.pack(self.total, self.looked)
            os.write(self._descriptor, content + _sum(content))


def _sum(content: bytes) -> bytes:
    """Return four bytes by which a damaged file is recognized."""
    return zlib.crc32(content, len(content)).to_bytes(4, "little")
