"""Directories whose files are executed: opened once, checked as opened, and used through the descriptor.

Takes a path from :mod:`~phonograd.core.run.disk_cache`. Another user who can write to a directory, or replace one on
the way to it, can plant a file. So :class:`PrivateDirectory` walks the path from the root, one component at a time
(``openat`` without following links), and checks the owner and the mode of each as opened. A directory that is made or
renamed later, or a link that is pointed elsewhere, changes nothing: files are opened relative to the descriptor.

A chain of directories is *private* if each belongs to this user or the administrator, and no other user can write to
it. In a directory with the sticky bit (``/tmp``) others can add names but not replace those of this user, so it does no
harm. If the chain is not private, the contents of files must be authenticated with :func:`user_key`, a secret in a
private directory of this user. See docs/decisions/0021.

Systems without descriptors of directories or owners of files (Windows) get no such promise: files are opened by path,
in a directory that the system protects (``%LOCALAPPDATA%``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence

__all__ = ["KEY_BYTES", "PrivateDirectory", "user_key"]

#: whether directories have descriptors, and files owners
IS_CHECKED = hasattr(os, "geteuid") and hasattr(os, "O_NOFOLLOW") and os.open in os.supports_dir_fd

KEY_BYTES = 32
_MOST_LINKS = 40
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _FLAGS
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class PrivateDirectory:
    """An open directory; raises OSError if it does not exist or is no directory.

    Parameters
    ----------
    path
        The directory. Links on the way are followed and checked like directories.
    make
        Whether to make what is missing of it, for this user only.
    """

    def __init__(self, path: str | os.PathLike[str], make: bool = False) -> None:
        self.path = os.path.abspath(path)
        #: why the chain is not private; empty if it is
        self.weakness = ""
        self._descriptor = -1
        if IS_CHECKED:
            self._descriptor = self._walk(make)
            facts = os.fstat(self._descriptor)
            self._identity = facts.st_dev, facts.st_ino
            if facts.st_mode & _OTHERS_WRITE:
                # the sticky bit keeps others from replacing names, but not from adding some
                self.weakness = self.weakness or "others can write to it"
        elif make:
            os.makedirs(self.path, exist_ok=True)
        elif not os.path.isdir(self.path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                if self.is_open:
                    os.close(self._descriptor)

    @property
    def is_private(self) -> bool:
        """Return whether no other user can add or replace a file."""
        return not self.weakness

    @property
    def is_open(self) -> bool:
        """Return whether the descriptor still belongs to the directory: programs that become daemons close all."""
        if self._descriptor < 0:
            return True
        try:
            facts = os.fstat(self._descriptor)
        except OSError:
            return False
        return (facts.st_dev, facts.st_ino) == self._identity

    # -- the way to it

    def _walk(self, make: bool) -> int:
        """Return the descriptor of the directory, after checking every directory and link on the way."""
        names = [name for name in self.path.split(os.sep) if name][::-1]
        here = os.open(os.sep, _FOLDER)
        links = 0
        try:
            self._check(os.sep, os.fstat(here))
            while names:
                name = names.pop()
                if make:
                    with contextlib.suppress(FileExistsError):
                        _make(name, here)
                try:
                    below = os.open(name, _FOLDER, dir_fd=here)
                except OSError as error:
                    target = _link(name, here)
                    if target is None:
                        raise OSError(error.errno, os.strerror(error.errno or 0), self.path) from None
                    links += 1
                    if links > _MOST_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.path) from None
                    self._check(name, os.stat(name, dir_fd=here, follow_symlinks=False))
                    names += [part for part in target.split(os.sep) if part][::-1]
                    if not target.startswith(os.sep):
                        continue
                    below = os.open(os.sep, _FOLDER)
                os.close(here)
                here = below
                self._check(name if names else "it", os.fstat(here))
        except BaseException:
            os.close(here)
            raise
        return here

    def _check(self, name: str, facts: os.stat_result) -> None:
        """Note why a directory or link of the chain can be replaced or written to by others."""
        if facts.st_uid not in (os.geteuid(), 0):
            self.weakness = self.weakness or f"{name} on the way to it belongs to another user"
        elif not stat.S_ISDIR(facts.st_mode) or not facts.st_mode & _OTHERS_WRITE:
            return
        elif not facts.st_mode & stat.S_ISVTX:
            self.weakness = self.weakness or f"others can write to {name}"

    # -- files

    def read(self, name: str, mark_after: float | None = None, secret: bool = False) -> bytes | None:
        """Return the contents of a file; None if there is none that only this user or the administrator can write.

        If it was used before the time ``mark_after``, mark it as used now. A ``secret`` file belongs to this user, and
        no other user can read it.
        """
        try:
            descriptor = self.open(name, os.O_RDONLY)
        except OSError:
            # usually it does not exist
            return None
        try:
            facts = os.fstat(descriptor)
            if not self.is_trusted(facts) or (secret and not _is_secret(facts)):
                return None
            content = _read(descriptor, facts.st_size)
            if mark_after is not None and facts.st_mtime < mark_after:
                # a read-only disk cannot mark it
                with contextlib.suppress(OSError):
                    self._mark(name, descriptor)
            return content
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def open(self, name: str, flags: int) -> int:
        """Return the descriptor of a file; links are not followed, and fifos and devices are not waited for."""
        return os.open(self._place(name), flags | _FLAGS, 0o600, dir_fd=self._folder)

    def is_trusted(self, facts: os.stat_result) -> bool:
        """Return whether a file is a regular one that only this user or the administrator can have written."""
        if not stat.S_ISREG(facts.st_mode):
            return False
        return not IS_CHECKED or (facts.st_uid in (os.geteuid(), 0) and not facts.st_mode & _OTHERS_WRITE)

    def write(self, name: str, chunks: Sequence[bytes], replace: bool = True) -> None:
        """Write a file whole or not at all, readable by this user only.

        Without ``replace``, raise FileExistsError if there is one.
        """
        temporary = f".phonograd-{os.urandom(8).hex()}.tmp"
        descriptor = self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                for chunk in chunks:
                    view = memoryview(chunk)
                    while view:
                        view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
            source, target, folder = self._place(temporary), self._place(name), self._folder
            if replace:
                os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)
                return
            os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        self.remove(temporary)

    def has(self, name: str) -> bool:
        """Return whether there is an entry with a name, of any kind."""
        try:
            os.stat(self._place(name), dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Delete a file."""
        os.unlink(self._place(name), dir_fd=self._folder)

    def entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Return names and facts of the regular files that belong to this user."""
        with os.scandir(self._descriptor if self._descriptor >= 0 else self.path) as entries:
            for entry in entries:
                # another process may drop a file at any moment
                with contextlib.suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(facts.st_mode) and (not IS_CHECKED or facts.st_uid == os.geteuid()):
                        yield entry.name, facts

    @property
    def _folder(self) -> int | None:
        return self._descriptor if self._descriptor >= 0 else None

    def _place(self, name: str) -> str:
        return name if self._descriptor >= 0 else os.path.join(self.path, name)

    def _mark(self, name: str, descriptor: int) -> None:
        os.utime(descriptor if os.utime in os.supports_fd else self._place(name))


def _is_secret(facts: os.stat_result) -> bool:
    """Return whether only this user can read a file."""
    return not IS_CHECKED or (facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _make(name: str, here: int) -> None:
    """Make a directory for this user only; on a read-only disk it may be there already."""
    try:
        os.mkdir(name, 0o700, dir_fd=here)
    except PermissionError:
        # it exists, or opening it fails next
        return
    except OSError as error:
        if error.errno != errno.EROFS:
            raise


def _link(name: str, here: int) -> str | None:
    """Return the target of a link; None if it is none."""
    try:
        return os.readlink(name, dir_fd=here)
    except OSError:
        return None


def _read(descriptor: int, size: int) -> bytes:
    """Return the contents of a file of about some size."""
    parts = []
    while part := os.read(descriptor, size + 1):
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


# -- the key of this user


def user_key(homes: Sequence[str] | None = None) -> bytes | None:
    """Return a secret of this user, made at the first call; None if this user has no private directory for it.

    Parameters
    ----------
    homes
        The directories to try, by default those of :func:`_homes`.
    """
    for home in _homes() if homes is None else homes:
        try:
            directory = PrivateDirectory(home, make=True)
            found = _key_in(directory) if directory.is_private else None
        except OSError:
            continue
        if found is not None:
            return found
    return None


def _homes() -> list[str]:
    """Return the directories in which a key may be stored: the cache of the user, then below the home directory."""
    # the environment of `sudo` may name the home directory of another user
    import pwd

    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = ""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    found = [cache, os.path.join(os.path.expanduser("~"), ".cache"), os.path.join(home, ".cache")]
    folders = [os.path.join(folder, "phonograd") for folder in found if os.path.isabs(folder)]
    return list(dict.fromkeys([*folders, *([os.path.join(home, ".phonograd")] if os.path.isabs(home) else [])]))


def _key_in(directory: PrivateDirectory) -> bytes | None:
    """Return the key in a private directory; one that is missing or damaged is made."""
    for attempt in range(3):
        found = directory.read("key", secret=True)
        if found is not None and len(found) == KEY_BYTES:
            return found
        try:
            # all processes that start at once take the key that was there first; one that stays unusable is damaged
            directory.write("key", [os.urandom(KEY_BYTES)], replace=attempt > 0)
        except FileExistsError:
            continue
    return None
