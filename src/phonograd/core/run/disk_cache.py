"""The disk cache: machine code and plans, one file each, shared by all processes of a user.

A file is named by its *key*: a digest of the description of the kernel or plan, the sources that write it, the versions
of the compiler, and the processor. So a file is never out of date. When the directory exceeds its limit, the least
recently used files are dropped.

A file begins with a digest of its key and contents; truncated, damaged or renamed files are ignored. Writes are atomic,
so any number of processes can use a directory at once. Machine code is executed, so the directory must belong to the
user, and no other user may write to it. If it cannot be used (it is read-only, or the disk is full), every process
compiles its own kernels, and a warning says so once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..base.files import write_atomically
from ..graph.operator import REGISTRY, Operator
from ..lower.lowering import Lowering, alternatives

try:
    # hashlib loads OpenSSL, which takes longer than all digests of a process
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["DiskCache", "describe", "digest", "is_ours", "source_digest"]

_MAGIC = b"phonograd kernel 2\n"
_DIGEST_SIZE = 32
_OWN = __name__.partition(".")[0]
_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: the packages that write kernels: their sources are part of every key
_WRITERS = (f"{_OWN}.core.kernels", f"{_OWN}.core.lower", f"{_OWN}.core.ops")
#: when this process read the sources; it does not run later edits
_STARTED = time.time()
#: a file that was used more recently than this is not marked as used again
_RECENT_SECONDS = 24 * 3600.0
#: temporary files of crashed processes are removed after this time
_ABANDONED_SECONDS = 3600.0
#: number of writes between two checks of the directory's size
_WRITES_PER_LOOK = 256
#: names of our files and of temporary ones; other files in the directory are left alone
_OWN_NAME = re.compile(r"[a-z][0-9a-f]{64}(\.quick)?|.+\.tmp")


class DiskCache:
    """Files with machine code in one directory.

    Parameters
    ----------
    directory
        The directory of the files; the first write makes it.
    limit_bytes
        Total size above which files are dropped.
    versions
        Everything else that the contents depend on, as text; part of every key.
    """

    def __init__(self, directory: str | os.PathLike[str], limit_bytes: int, versions: str) -> None:
        self.directory = os.path.join(directory, "kernels")
        self.limit_bytes = limit_bytes
        self._versions = digest(versions.encode()).hex()
        self._writes = 0
        self._readable = self._writable = True
        if not _is_private(self.directory):
            self._readable = False
            self._give_up("others can write to it")

    def key(self, description: str | bytes, kind: str = "k") -> str:
        """Return the file name for a description: one letter for the kind, then hexadecimal digits.

        The letter is ``k`` for kernels.
        """
        encoded = description.encode() if isinstance(description, str) else description
        return kind + digest(self._versions.encode() + encoded).hex()

    def load(self, key: str) -> bytes | None:
        """Return the contents of a file; None if it is missing or damaged."""
        if not self._readable:
            return None
        path = os.path.join(self.directory, key)
        try:
            with open(path, "rb", buffering=0) as file:
                facts = os.fstat(file.fileno())
                content, used = file.read(), facts.st_mtime
        except OSError:
            # usually it does not exist; whatever the error, the caller compiles instead
            return None
        start = len(_MAGIC) + _DIGEST_SIZE
        if content[:start] != _MAGIC + _digest(key, content[start:]):
            return None
        if time.time() - used > _RECENT_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(path)
        return content[start:]

    def save(self, key: str, code: bytes) -> None:
        """Write a file."""
        if not self._writable:
            return
        try:
            if not self._writes:
                self._prepare()
            write_atomically(os.path.join(self.directory, key), [_MAGIC, _digest(key, code), code], durable=False)
        except OSError as error:
            self._give_up(str(error))
            return
        self._writes += 1
        if self._writes % _WRITES_PER_LOOK == 1:
            self.trim()

    def remove(self, key: str) -> None:
        """Delete a file."""
        if self._writable:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.directory, key))

    def trim(self) -> None:
        """Drop the least recently used files above the limit, until an eighth of it is free."""
        now, files, total = time.time(), [], 0
        for entry, facts in self._entries():
            if entry.name.endswith(".tmp") and now - facts.st_mtime > _ABANDONED_SECONDS:
                self.remove(entry.name)
            else:
                files.append((facts.st_mtime, entry.name, facts.st_size))
                total += facts.st_size
        if total <= self.limit_bytes:
            return
        for _, name, size in sorted(files):
            self.remove(name)
            total -= size
            if total <= self.limit_bytes - self.limit_bytes // 8:
                return

    def _entries(self) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    # another process may drop a file at any moment
                    with contextlib.suppress(OSError):
                        if _OWN_NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                            yield entry, entry.stat(follow_symlinks=False)
        except OSError:
            return

    def _prepare(self) -> None:
        os.makedirs(os.path.dirname(self.directory), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.directory, 0o700)

    def _give_up(self, reason: str) -> None:
        self._writable = False
        warnings.warn(
            f"compiled kernels cannot be kept in {self.directory} ({reason}), so every run compiles them anew. Set "
            f"PHONOGRAD_CACHE_DIRECTORY to another directory, or to '' to keep none.",
            RuntimeWarning,
            stacklevel=2,
        )


def digest(data: bytes) -> bytes:
    """Return the 32-byte BLAKE2b digest of some data."""
    return blake2b(data, digest_size=_DIGEST_SIZE).digest()


def _digest(key: str, code: bytes) -> bytes:
    return digest(key.encode() + code)


def _is_private(directory: str) -> bool:
    """Return whether only this user or the administrator can write to a directory.

    A missing directory counts as private: it will be made that way.
    """
    if not hasattr(os, "geteuid"):
        return True
    try:
        facts = os.stat(directory)
    except OSError:
        return True
    return facts.st_uid in (os.geteuid(), 0) and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


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
    parts: list[str] = []
    try:
        _describe(structure, parts.append)
    except TypeError:
        return None
    return "".join(parts)


_PLAIN = (int, str, float, bool, bytes, type(None))


def _describe(value: Any, write: Callable[[str], None]) -> None:
    kind = type(value)
    if kind in _PLAIN:
        write(repr(value))
    elif kind is tuple:
        write("(")
        for number, part in enumerate(value):
            if number:
                write(",")
            _describe(part, write)
        write(")")
    elif isinstance(value, np.dtype):
        write(_dtype_name(value))
    else:
        names = _fields(kind)
        write(f"{kind.__module__}.{kind.__qualname__}")
        if "operator" in names:
            _check_origin(value.operator)
        _describe(tuple([getattr(value, name) for name in names]), write)


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


def _is_ours(lowering: Lowering) -> bool:
    rules = (type(lowering), *vars(lowering).values())
    return all([_module_of(rule).startswith(_WRITERS) for rule in rules if callable(rule)])


def _module_of(function: Any) -> str:
    """Return the name of a function's module; empty if it has none."""
    return getattr(function, "__module__", None) or ""


# -- the sources that everything depends on

#: the packages that make plans and write kernels, in addition to the modules of the library itself
_PLANNERS = ("core",)


def source_digest(memory: DiskCache | None = None, when_new: Callable[[], None] | None = None) -> str | None:
    """Return a digest of all sources that make plans and write kernels.

    Return None if only compiled files are installed, or if the sources are being edited. Reading them takes 8 ms, so
    ``memory`` stores the digest under the sizes of the files and the times of their last changes. If it is not there,
    neither is anything that these sources have made: ``when_new`` is called before they are read.
    """
    listed = _list_sources()
    if listed is None:
        return None
    key = None if memory is None else memory.key("\n".join(listed), "s")
    found = None if memory is None or key is None else memory.load(key)
    if found is not None:
        return found.hex()
    if when_new is not None:
        when_new()
    whole = blake2b(digest_size=_DIGEST_SIZE)
    for line in listed:
        path = line.partition("\t")[0]
        try:
            with open(os.path.join(_DIRECTORY, path), "rb") as file:
                content = file.read()
        except OSError:
            return None
        whole.update(f"{path} {len(content)}\n".encode())
        whole.update(content)
    if memory is not None and key is not None:
        memory.save(key, whole.digest())
    return whole.hexdigest()


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
