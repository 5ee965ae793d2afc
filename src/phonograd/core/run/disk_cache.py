"""The disk cache: machine code and plans, one file each, shared by all processes of a user.

A file is named by its *key*: a digest of the description of the kernel or plan, the sources that write it, the versions
of the compiler, and the processor. So a file is never out of date. A file begins with a digest of its key and contents;
truncated, damaged or renamed files are ignored. Writes are atomic, so any number of processes can use a directory at
once. All files of a user together never exceed the limit: an :class:`~phonograd.core.run.disk_account.Account` counts
them, and the least recently used ones are dropped before a write would exceed it.

Machine code is executed, so only files are loaded that no other user can have written
(:mod:`~phonograd.core.run.private_directory`, docs/decisions/0021). If the directory cannot be used (it is read-only,
or the disk is full), every process compiles its own kernels, and a warning says so once.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import functools
import os
import re
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import user_line
from ..graph.operator import REGISTRY, Operator
from ..lower.lowering import Lowering, alternatives
from .disk_account import Account
from .private_directory import PrivateDirectory, user_key

try:
    # hashlib loads OpenSSL, which takes longer than all digests of a process
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["DiskCache", "Sources", "describe", "digest", "is_ours", "source_digests"]

_MAGIC = b"phonograd kernel 2\n"
_DIGEST_SIZE = 32
_OWN = __name__.partition(".")[0]
_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: the packages that write kernels: their sources are part of every key
_WRITERS = (f"{_OWN}.core.kernels", f"{_OWN}.core.lower", f"{_OWN}.core.ops")
#: when this process read the sources; it does not run later edits
_STARTED = time.time()
#: a file that was used more recently than this is not marked as used again, and an account is trusted for so long
_RECENT_SECONDS = 24 * 3600.0
#: temporary files of crashed processes are removed after this time
_ABANDONED_SECONDS = 3600.0
#: names of our files and of temporary ones; other files in the directory are left alone
_OWN_NAME = re.compile(r"[a-z][0-9a-f]{64}(\.quick)?(-[0-9a-f]{16})?|.+\.tmp")


class DiskCache:
    """Files with machine code in one directory.

    Parameters
    ----------
    directory
        The directory of the files; the first write makes it.
    limit_bytes
        Total size that the files of this user do not exceed.
    versions
        Everything else that the contents depend on, as text; part of every key.
    """

    def __init__(self, directory: str | os.PathLike[str], limit_bytes: int, versions: str) -> None:
        self.directory = os.path.join(directory, "kernels")
        self.limit_bytes = limit_bytes
        self._store = _Store(self.directory)
        self._store.open(make=False)
        self._versions = digest(versions.encode()).hex()

    def with_versions(self, versions: str) -> DiskCache:
        """Return the cache for other versions in the same open directory."""
        other = copy.copy(self)
        other._versions = digest(versions.encode()).hex()
        return other

    def key(self, description: str | bytes, kind: str = "k") -> str:
        """Return the file name for a description: one letter for the kind, then hexadecimal digits.

        The letter is ``k`` for kernels.
        """
        encoded = description.encode() if isinstance(description, str) else description
        return kind + digest(self._versions.encode() + encoded).hex()

    def may_have(self, key: str) -> bool:
        """Return whether there is a file under a key, of any contents: a few microseconds, and nothing to undo."""
        return self._store.has(key)

    def load(self, key: str) -> bytes | None:
        """Return the contents of a file; None if it is missing, damaged, or of another user."""
        folder = self._store.open(make=False)
        if folder is None:
            return None
        content = folder.read(self._store.name(key), mark_after=time.time() - _RECENT_SECONDS)
        start = len(_MAGIC) + _DIGEST_SIZE
        if content is None or content[: len(_MAGIC)] != _MAGIC:
            return None
        code = content[start:]
        return code if self._store.is_sealed(key, code, content[len(_MAGIC) : start]) else None

    def save(self, key: str, code: bytes) -> None:
        """Write a file, unless it is larger than the limit."""
        chunks = [_MAGIC, b"", code]
        size = len(_MAGIC) + _DIGEST_SIZE + len(code)
        if not self._store.is_writable or size > self.limit_bytes:
            return
        try:
            folder = self._store.open(make=True)
            if folder is None:
                return
            chunks[1] = self._store.seal(key, code)
            with Account(folder) as account:
                if account.is_held:
                    # never less than the files take, so the limit holds even if this process ends here
                    account.total = self._make_room(folder, account, size) + size
                    account.store()
                    folder.write(self._store.name(key), chunks)
        except OSError as error:
            self._store.give_up(str(error))

    def remove(self, key: str) -> None:
        """Delete a file."""
        folder = self._store.open(make=False) if self._store.is_writable else None
        if folder is not None:
            with contextlib.suppress(OSError):
                folder.remove(self._store.name(key))

    def trim(self) -> None:
        """Drop the least recently used files above the limit, and temporary files of crashed processes."""
        folder = self._store.open(make=False)
        if folder is not None:
            with contextlib.suppress(OSError), Account(folder) as account:
                if account.is_held:
                    account.total = None
                    account.total = self._make_room(folder, account, 0)
                    account.store()

    def _make_room(self, folder: PrivateDirectory, account: Account, size: int) -> int:
        """Return the size of all files, after dropping some so that ``size`` more bytes stay within the limit.

        The directory is read only if the account is unknown, old or full. An eighth of the limit is freed, so that this
        is rare.
        """
        now, room = time.time(), self.limit_bytes - size
        if account.total is not None and account.total <= room and 0 <= now - account.looked < _RECENT_SECONDS:
            return account.total
        files, total = [], 0
        for name, facts in folder.entries():
            if not _OWN_NAME.fullmatch(name):
                continue
            if name.endswith(".tmp") and now - facts.st_mtime > _ABANDONED_SECONDS:
                with contextlib.suppress(OSError):
                    folder.remove(name)
                continue
            files.append((facts.st_mtime, name, facts.st_size))
            total += facts.st_size
        account.looked = now
        if total > room:
            for _, name, freed in sorted(files):
                with contextlib.suppress(FileNotFoundError):
                    folder.remove(name)
                total -= freed
                if total <= room - self.limit_bytes // 8:
                    break
        return total


class _Store:
    """The open directory of some caches, and the key that authenticates its files where others can write to it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_writable = self._is_usable = True
        self._folder: PrivateDirectory | None = None
        self._key = b""
        self._tag = ""
        self._is_missing = False

    def open(self, make: bool) -> PrivateDirectory | None:
        """Return the directory; None if it must not be used, or if it did not exist and is not to be made.

        A directory that appears later is not used before the first write, which checks it.
        """
        if self._folder is not None and self._folder.is_open:
            return self._folder
        if not self._is_usable or (self._is_missing and not make):
            return None
        try:
            folder = PrivateDirectory(self.path, make)
        except OSError:
            self._is_missing = True
            if make:
                raise
            return None
        if not folder.is_private:
            key = user_key()
            if key is None:
                self._is_usable = False
                self.give_up(f"{folder.weakness}, and there is no private directory for a key")
                return None
            self._key, self._tag = key, "-" + digest(key)[:8].hex()
        self._folder, self._is_missing = folder, False
        return folder

    def has(self, key: str) -> bool:
        """Return whether the directory is open and has a file for a key."""
        folder = self._folder
        return folder is not None and folder.is_open and folder.has(self.name(key))

    def name(self, key: str) -> str:
        """Return the name of a file; users who share a directory have files of their own."""
        return key + self._tag

    def seal(self, key: str, code: bytes) -> bytes:
        """Return the digest of a file with the name of a key; with a secret if others can write files, too."""
        return blake2b(key.encode() + code, digest_size=_DIGEST_SIZE, key=self._key).digest()

    def is_sealed(self, key: str, code: bytes, given: bytes) -> bool:
        """Return whether a file has the right digest."""
        if not self._key:
            return self.seal(key, code) == given
        import hmac

        return hmac.compare_digest(self.seal(key, code), given)

    def give_up(self, reason: str) -> None:
        """Write no more files, and warn about it once."""
        if not self.is_writable:
            return
        self.is_writable = False
        file, line = user_line() or (__file__, 0)
        warnings.warn_explicit(
            f"compiled kernels cannot be kept in {self.path} ({reason}), so every run compiles them anew. Set "
            f"PHONOGRAD_CACHE_DIRECTORY to another directory, or to '' to keep none.",
            RuntimeWarning,
            file,
            line,
        )


def digest(data: bytes) -> bytes:
    """Return the 32-byte BLAKE2b digest of some data."""
    return blake2b(data, digest_size=_DIGEST_SIZE).digest()


# -- descriptions of kernels


def describe(structure: Any) -> str | None:
    """Return a text that identifies a kernel in all processes; None if there is none.

    There is one for structures of plain values whose writer is part of this library. Operators are described by name;
    operators that are declared outside of the library have no description.

    >>> describe(("add", np.dtype("float32"), (1, 0.5)))
    "('add',<f4 float32,(1,0.5))"
    >>> describe([]) is None
    True
    """
    try:
        return _describe(structure)
    except TypeError:
        return None


_PLAIN = frozenset({int, str, float, bool, bytes, type(None)})


def _describe(value: Any) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is tuple:
        return f"({','.join([_describe(part) for part in value])})"
    if isinstance(value, np.dtype):
        return _dtype_name(value)
    if isinstance(value, enum.Enum):
        return f"{kind.__module__}.{kind.__qualname__}.{value.name}"
    names = _fields(kind)
    if "operator" in names:
        _check_origin(value.operator)
    parts = ",".join([_describe(getattr(value, name)) for name in names])
    return f"{kind.__module__}.{kind.__qualname__}({parts})"


@functools.cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return f"{dtype.str} {dtype.name}"


_known_fields: dict[type[Any], tuple[str, ...]] = {}


def _fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a record's fields; raise TypeError if the class is no record of the library."""
    found = _known_fields.get(kind)
    if found is None:
        if not kind.__module__.startswith(_WRITERS):
            raise TypeError(f"{kind} is not part of the library")
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            found = tuple(kind._fields)
        else:
            found = tuple([field.name for field in dataclasses.fields(kind)])
        _known_fields[kind] = found
    return found


def _check_origin(name: str) -> None:
    """Raise TypeError if the lowering of an operator is not part of the library: it may change at any time."""
    lowering = REGISTRY[name].lowering
    assert lowering is not None, name
    if not _is_ours(lowering):
        raise TypeError(f"the lowering of operator {name} is not part of the library")


def is_ours(operator: Operator) -> bool:
    """Return whether an operator and its lowering are part of the library."""
    return _module_of(operator.function).startswith(f"{_OWN}.") and all(
        [_is_ours(lowering) for lowering in alternatives(operator.lowering)]
    )


@functools.lru_cache(1024)
def _is_ours(lowering: Lowering) -> bool:
    rules = (type(lowering), *vars(lowering).values())
    return all([_module_of(rule).startswith(_WRITERS) for rule in rules if callable(rule)])


def _module_of(function: Any) -> str:
    """Return the name of a function's module; empty if it has none."""
    return getattr(function, "__module__", None) or ""


# -- the sources that everything depends on

#: the packages that make plans and write kernels, in addition to the modules of the library itself
_PLANNERS = ("core",)
#: the layers that the texts of kernels depend on: kernels, and all above them
_LAYERS = ("base", "derive", "events", "graph", "kernels", "lower", "ops")
_WRITING = tuple([os.path.join("core", layer, "") for layer in _LAYERS])


class Sources(NamedTuple):
    """Digests of sources."""

    whole: str
    """Of all that make plans and write kernels."""
    writers: str
    """Of those that the texts of kernels depend on."""


def source_digests(memory: DiskCache | None = None, when_new: Callable[[], None] | None = None) -> Sources | None:
    """Return the digests of all sources that make plans and write kernels.

    Return None if only compiled files are installed, or if the sources are being edited. Reading them takes 15 ms, so
    ``memory`` stores the digests under the sizes of the files and the times of their last changes. If it is not there,
    neither is anything that these sources have made: ``when_new`` is called before they are read.
    """
    listed = _list_sources()
    if listed is None:
        return None
    key = None if memory is None else memory.key("\n".join(listed), "s")
    found = None if memory is None or key is None else memory.load(key)
    if found is not None:
        return Sources(found[:_DIGEST_SIZE].hex(), found[_DIGEST_SIZE:].hex())
    if when_new is not None:
        when_new()
    whole, writers = blake2b(digest_size=_DIGEST_SIZE), blake2b(digest_size=_DIGEST_SIZE)
    for line in listed:
        path = line.partition("\t")[0]
        try:
            # a buffer takes longer than the file
            with open(os.path.join(_DIRECTORY, path), "rb", buffering=0) as file:
                content = file.read()
        except OSError:
            return None
        made = writers if path.startswith(_WRITING) else whole
        made.update(f"{path} {len(content)}\n".encode())
        made.update(content)
    whole.update(writers.digest())
    if memory is not None and key is not None:
        memory.save(key, whole.digest() + writers.digest())
    return Sources(whole.hexdigest(), writers.hexdigest())


def _list_sources() -> list[str] | None:
    """Return path, size and times of every source; None if there are none, or one changed after the start."""
    listed: list[str] = []
    packages = ["", *_PLANNERS]
    while packages:
        package = packages.pop()
        try:
            with os.scandir(os.path.join(_DIRECTORY, package)) as entries:
                for entry in entries:
                    path = os.path.join(package, entry.name)
                    if entry.name.endswith(".py"):
                        facts = entry.stat()
                        if facts.st_mtime > _STARTED:
                            return None
                        listed.append(f"{path}\t{facts.st_size}\t{facts.st_mtime_ns}\t{facts.st_ctime_ns}")
                    elif package and entry.name != "__pycache__" and entry.is_dir():
                        packages.append(path)
        except OSError:
            return None
    return sorted(listed) or None
