"""Codes: the machine code of kernels as object files, from the disk or from the compiler.

Files are found by a digest of everything that their contents depend on (:mod:`~phonograd.core.run.disk_cache`). The
compiler (:mod:`~phonograd.core.run.compiler`) is loaded when something is not there. Where there are several
processors, several threads compile, beginning as soon as a kernel is known to be needed (:meth:`Codes.expect`).

A kernel that was compiled quickly is kept together with its text, so that it can be improved by a process that knows
nothing but the name of its file.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..base import settings
from ..kernels.launch import Written
from . import elf_loader
from .background import Gate, Task, Tasks
from .compiler import FULL, QUICK, Compiler, Description, fingerprint, preload
from .disk_cache import DiskCache, describe, source_digest
from .object_bundle import bundled, divided

__all__ = ["Codes", "CompilerLost", "Found", "write"]

#: kernels that may have been compiled for plans that never asked for them
MOST_EXPECTED = 64
#: threads that compile for one plan
MOST_COMPILERS = 4

_LENGTH = struct.Struct("<Q")


class CompilerLost(RuntimeError):
    """The compiler was there when kernels on disk were compiled, and cannot be imported now."""


class Found(NamedTuple):
    """Code of a kernel."""

    name: str
    """That of its function."""
    key: str | None
    """The name of its file, if it has one."""
    code: bytes
    quick: bool
    compiled: bool


def write(structure: Written, name: str) -> str:
    """Return the text of a kernel as a module of its own."""
    return structure.write(name)


class Codes:
    """Where the machine code of this process comes from.

    Raises ImportError, OSError or RuntimeError where there is no compiler.

    Parameters
    ----------
    gate
        Where threads are while they compile.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._cpu_level = settings.current().cpu_level
        self._compiler: Compiler | None = None
        self._description: Description | None = None
        self._starting = threading.Lock()
        self._names = 0
        #: what others have been asked to compile, and whether quickly
        self._expected: dict[Written, tuple[Task[Found], bool]] = {}
        self._tasks = Tasks(gate)
        #: modules that others have been asked to compile, by the functions that write them
        self._expected_modules: dict[Callable[..., str], Task[bytes]] = {}
        #: modules that are no kernels and were compiled quickly, by the keys they have on disk
        self._quick_modules: list[str] = []
        self._store: DiskCache | None = None
        self._store_settings: tuple[str, int] | None = None
        self._vouched: DiskCache | None = None
        # where images are not possible, the compiler must load what is on disk
        known = self.store() if elf_loader.possible() else None
        found = None if known is None else known.load(known.key("compiler", "c"))
        if found is None:
            self.compiler()
        else:
            self._description = Description.decoded(found)

    def compiler(self) -> Compiler:
        """Return the compiler, which is imported if it has not been."""
        with self._starting:
            if self._compiler is None:
                try:
                    self._compiler = Compiler(self._cpu_level)
                except (ImportError, OSError, RuntimeError) as error:
                    if self._description is None:
                        raise
                    raise CompilerLost(str(error)) from error
            return self._compiler

    def description(self) -> Description:
        """Return what is known about the compiler and the processor."""
        if self._description is None:
            self._description = self.compiler().description()
        return self._description

    # -- kernels

    def found(self, wanted: Iterable[tuple[Written, bool]]) -> list[Found]:
        """Return the code of kernels, given whether compiling them quickly is enough."""
        store = self.store()
        tasks: list[Task[Found]] = []
        for structure, quick in wanted:
            task, is_quick = self._expected.pop(structure, (None, False))
            if task is None or (is_quick and not quick):
                task = self._task(store, structure, quick)
            tasks.append(task)
        if len(self._expected) > MOST_EXPECTED:
            self._expected.clear()
        threads = min(_threads(), len(tasks) - 1)
        if threads > 0:
            # this thread begins at the other end
            self._tasks.share(reversed(tasks[1:]), threads)
        for task in tasks:
            task.run()
        # what another thread has begun may be in several parts
        self._tasks.help()
        return [task.result() for task in tasks]

    def expect(self, structure: Written, quick: bool) -> None:
        """Begin to compile a kernel that will be asked for, if another thread can do it."""
        threads = _threads()
        if not threads:
            return
        before, is_quick = self._expected.get(structure, (None, True))
        if before is None or (is_quick and not quick):
            if before is not None:
                before.give_up()
            task = self._task(self.store(), structure, quick)
            self._expected[structure] = task, quick
            self._tasks.share([task], threads)

    def forget_expected(self) -> None:
        """Forget what other threads were to do: they are not there any more."""
        self._tasks = Tasks(self._gate)
        self._expected.clear()
        self._expected_modules.clear()

    def _task(self, store: DiskCache | None, structure: Written, quick: bool) -> Task[Found]:
        return Task(lambda: self._obtained(store, structure, quick))

    def _obtained(self, store: DiskCache | None, structure: Written, quick: bool) -> Found:
        description = None if store is None else describe(structure)
        key = None if store is None or description is None else store.key(description)
        if key is not None:
            found = self.kept(key, quick, store)
            if found is not None:
                return found
        name = key or self._new_name()
        text = write(structure, name)
        code = self._emit(text, quick)
        self._keep(store, key, code, text if quick else None)
        return Found(name, key, code, quick, compiled=True)

    def kept(self, key: str, quick: bool, store: DiskCache | None = None) -> Found | None:
        """Return what is on disk under a key, compiled quickly if that is enough."""
        store = store or self.store()
        if store is None:
            return None
        code = store.load(key)
        if code is not None:
            return Found(key, key, code, quick=False, compiled=False)
        code = _partitioned(store.load(_quick(key)))[0] if quick else None
        return None if code is None else Found(key, key, code, quick=True, compiled=False)

    def improved(self, key: str | None, structure: Written | None) -> Found | None:
        """Return the code of a kernel compiled in full; its description is known, or its text is on disk.

        None is returned if it is not there any more.
        """
        store = self.store()
        name = key or self._new_name()
        text = self._quick_text(store, key) if structure is None else write(structure, name)
        if text is None:
            return None
        code = self._emit(text, quick=False)
        self._keep(store, key, code, None)
        if self._quick_modules:
            other = self._quick_modules.pop()
            text = self._quick_text(store, other)
            if text is not None:
                self._keep(store, other, self._emit(text, quick=False), None)
        return Found(name, key, code, quick=False, compiled=True)

    def _quick_text(self, store: DiskCache | None, key: str | None) -> str | None:
        """Return the text of what was compiled quickly, if that is on disk."""
        return None if store is None or key is None else _partitioned(store.load(_quick(key)))[1]

    def of_module(self, write: Callable[..., str], arguments: tuple[Any, ...], quick: bool) -> bytes:
        """Return the code of a module that a function of the library writes, which is called if it is not on disk.

        What is compiled quickly here is compiled in full for processes to come.
        """
        task = self._expected_modules.pop(write, None)
        return self._module(write, arguments, quick) if task is None else task.result()

    def expect_module(self, write: Callable[..., str], arguments: tuple[Any, ...]) -> None:
        """Begin to compile quickly what a function of the library writes, if another thread can do it."""
        if threads := _threads():
            task = self._expected_modules[write] = Task(lambda: self._module(write, arguments, quick=True))
            self._tasks.share([task], threads)

    def _module(self, write: Callable[..., str], arguments: tuple[Any, ...], quick: bool) -> bytes:
        store = self.store()
        given = describe(arguments)
        named = store is not None and given is not None
        key = store.key(f"{write.__module__}.{write.__qualname__}{given}") if store is not None and named else None
        found = None if key is None else self.kept(key, quick, store)
        if quick and key is not None and (found is None or found.quick):
            self._quick_modules.append(key)
        if found is not None:
            return found.code
        text = write(*arguments)
        code = self._emit(text, quick)
        self._keep(store, key, code, text if quick else None)
        return code

    def _new_name(self) -> str:
        self._names += 1
        return f"kernel{self._names}"

    def _emit(self, text: str, quick: bool) -> bytes:
        """Return the code of a module, which other threads may help to compile."""
        parts = divided(text) if quick and elf_loader.possible() else None
        if parts is None:
            return self._compiled(text, QUICK if quick else FULL)
        outer, inner = parts
        task = Task(lambda: self._compiled(inner, FULL))
        if threads := _threads():
            self._tasks.share([task], threads)
        return bundled([self._compiled(outer, QUICK), task.result()])

    def _compiled(self, text: str, level: int) -> bytes:
        with self._gate:
            return self.compiler().emit(text, level)

    # -- the disk

    def _keep(self, store: DiskCache | None, key: str | None, code: bytes, text: str | None) -> None:
        """Keep code on disk; with the text that it was made from, if it was made quickly."""
        if store is None or key is None:
            return
        if self._vouched is not store:
            self._vouched = store
            store.save(store.key("compiler", "c"), self.description().encoded())
        if text is None:
            store.save(key, code)
            store.remove(_quick(key))
        else:
            store.save(_quick(key), _LENGTH.pack(len(code)) + code + text.encode())

    def store(self) -> DiskCache | None:
        """Return the store that the settings ask for."""
        now = settings.current()
        wanted = now.cache_directory, now.cache_bytes
        if wanted != self._store_settings:
            self._store = self._opened(*wanted) if now.cache_directory else None
            self._store_settings = wanted
        return self._store

    def _preload(self) -> None:
        """Have another thread load the compiler, which will be needed."""
        if self._compiler is None and _threads():
            self._tasks.share([Task(self._load)], 1)

    def _load(self) -> None:
        with self._gate:
            preload()
            self.compiler()

    def _opened(self, directory: str, limit_bytes: int) -> DiskCache | None:
        sources = source_digest(DiskCache(directory, limit_bytes, "sources"), self._preload)
        if sources is None:
            return None
        identity = fingerprint() or self.compiler().description().versions
        return DiskCache(directory, limit_bytes, f"{sources}\n{self._cpu_level}\n{identity}")


def _quick(key: str) -> str:
    """Return the name of the file for a kernel that was compiled quickly."""
    return f"{key}.quick"


def _partitioned(data: bytes | None) -> tuple[bytes | None, str | None]:
    """Return the code and the text of a kernel that was compiled quickly."""
    if data is None:
        return None, None
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    return data[_LENGTH.size : end], data[end:].decode()


def _threads() -> int:
    """Return how many threads can compile beside this one."""
    return min(settings.current().num_threads, MOST_COMPILERS) - 1
