"""Object code of kernels: load it from disk, or compile it.

Takes structures and modules from :mod:`~phonograd.core.run.kernel_cache` and hands object files back. Files are named
by a digest of everything that their contents depend on (:mod:`~phonograd.core.run.disk_cache`). If one is missing, the
compiler (:mod:`~phonograd.core.run.compiler`) is loaded. On several processors, several threads compile, and start as
soon as the planner knows a kernel (:meth:`ObjectCache.precompile`).

A quickly compiled kernel is stored together with its text, so that a process that knows only its key can compile it in
full.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..base import settings
from ..base.pace import is_paced
from ..kernels.launch import Written
from . import elf_loader, prebuilt
from .background import Gate, Queue, Task, TaskPool
from .compiler import FULL, QUICK, Compiler, Description, fingerprint, preload, reported_features
from .disk_cache import DiskCache, describe, source_digests
from .object_bundle import bundle, split_module

__all__ = ["CompilerLost", "ObjectCache", "ObjectCode", "write"]

#: maximum number of precompiled kernels that no plan has used yet
MOST_PENDING = 64
#: maximum number of threads that compile for one plan
MOST_COMPILERS = 4

_LENGTH = struct.Struct("<Q")


class CompilerLost(RuntimeError):
    """Kernels on disk were compiled earlier, but the compiler cannot be imported now."""


class ObjectCode(NamedTuple):
    """The object code of one kernel."""

    name: str
    """Name of its function."""
    key: str | None
    """Key of its file on disk, if it has one."""
    code: bytes
    quick: bool
    compiled: bool


def write(structure: Written, name: str) -> str:
    """Return the LLVM text of a kernel, as a module."""
    return structure.write(name)


class ObjectCache:
    """Obtains the object code of this process from the disk or the compiler.

    Raises ImportError, OSError or RuntimeError if there is no compiler.

    Parameters
    ----------
    gate
        Threads enter it while they compile.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._cpu_level = settings.current().cpu_level
        self._compiler: Compiler | None = None
        #: versions of the compiler and features of the processor, once they are known
        self.known_description: Description | None = None
        self._starting = threading.Lock()
        self._names = 0
        #: kernels that other threads compile, and whether they do it quickly
        self._pending: dict[Written, tuple[Task[ObjectCode], bool]] = {}
        self._tasks = TaskPool(gate)
        #: modules that other threads compile, by the functions that write them
        self._pending_modules: dict[Callable[..., str], Task[bytes]] = {}
        #: disk keys of quickly compiled modules that are not kernels
        self._quick_modules: list[str] = []
        #: writes the texts of prebuilt kernels to the disk
        self._later = Queue()
        #: digest of the sources that the texts of kernels depend on, if it is known
        self._writers: str | None = None
        #: digest of all sources that make plans and write kernels, if it is known
        self._whole: str | None = None
        self._disk: DiskCache | None = None
        self._disk_settings: tuple[str, int] | None = None
        self._described_disk: DiskCache | None = None
        # without the ELF loader, LLVM must load the object files on disk
        known = self.disk_cache() if elf_loader.is_supported() else None
        found = None if known is None else known.load(known.key("compiler", "c"))
        if found is not None:
            self.known_description = Description.from_bytes(found)
            return
        features = reported_features(self._cpu_level) if elf_loader.is_supported() else None
        if features is None or fingerprint() is None:
            self.compiler()
        else:
            # prebuilt kernels need no compiler
            self.known_description = Description("", features)

    def compiler(self) -> Compiler:
        """Return the compiler; the first call imports it."""
        with self._starting:
            if self._compiler is None:
                try:
                    self._compiler = Compiler(self._cpu_level)
                except (ImportError, OSError, RuntimeError) as error:
                    if self.known_description is None:
                        raise
                    raise CompilerLost(str(error)) from error
            return self._compiler

    def description(self) -> Description:
        """Return the versions of the compiler and the features of the processor."""
        if self.known_description is None:
            self.known_description = self.compiler().description()
        return self.known_description

    # -- kernels

    def obtain(self, wanted: Iterable[tuple[Written, bool]]) -> list[ObjectCode]:
        """Return the code of kernels, given for each whether quickly compiled code is enough."""
        disk = self.disk_cache()
        tasks: list[Task[ObjectCode]] = []
        for structure, quick in wanted:
            task, is_quick = self._pending.pop(structure, (None, False))
            if task is None or (is_quick and not quick):
                task = self._task(disk, structure, quick)
            tasks.append(task)
        if len(self._pending) > MOST_PENDING:
            self._pending.clear()
        threads = min(_threads(), len(tasks) - 1)
        if threads > 0:
            # this thread starts at the other end
            self._tasks.submit(reversed(tasks[1:]), threads)
        for task in tasks:
            task.run()
        # a task of another thread may have submitted a part of its work
        self._tasks.run_waiting()
        return [task.result() for task in tasks]

    def precompile(self, structure: Written, quick: bool) -> None:
        """Start to compile a kernel in another thread, if there is one."""
        threads = _threads()
        if not threads:
            return
        before, is_quick = self._pending.get(structure, (None, True))
        if before is None or (is_quick and not quick):
            if before is not None:
                before.cancel()
            task = self._task(self.disk_cache(), structure, quick)
            self._pending[structure] = task, quick
            self._tasks.submit([task], threads)

    def forget_pending(self) -> None:
        """Forget the tasks of other threads: after a fork these threads do not exist."""
        self._tasks = TaskPool(self._gate)
        self._later = Queue()
        self._pending.clear()
        self._pending_modules.clear()

    def _task(self, disk: DiskCache | None, structure: Written, quick: bool) -> Task[ObjectCode]:
        return Task(lambda: self._obtain(disk, structure, quick))

    def linked(self, loop: Written, by_text: bool = False) -> int | None:
        """Return the address of a loop that the package brings along; None if it is not found.

        To find it by its text takes milliseconds, and is left to helpers.
        """
        if not elf_loader.is_supported():
            return None
        if by_text:
            key = prebuilt.text_digest(write(loop, prebuilt.PLACEHOLDER))
        else:
            description = describe(loop)
            if description is None or self._writers is None:
                return None
            key = prebuilt.structure_digest(description, self._writers)
        return prebuilt.find_linked(key, self.description().features)

    def _obtain(self, disk: DiskCache | None, structure: Written, quick: bool) -> ObjectCode:
        description = None if disk is None else describe(structure)
        key = None if disk is None or description is None else disk.key(description)
        if key is not None:
            found = self.load(key, quick, disk)
            if found is not None:
                return found
        name = key or self._new_name()
        known = self._described(description, name)
        if known is not None:
            self._keep_later(disk, key, known, structure if quick else None)
            return ObjectCode(name, key, known, quick, compiled=False)
        text = write(structure, name)
        known = self._prebuilt(text, name)
        code = self._emit(text, quick) if known is None else known
        self._keep(disk, key, code, text if quick else None)
        return ObjectCode(name, key, code, quick, compiled=known is None)

    def _described(self, description: str | None, name: str) -> bytes | None:
        """Return the code of a kernel that the package brings along, by its description; None if it is not found."""
        if description is None or self._writers is None or not elf_loader.is_supported():
            return None
        return prebuilt.find_described(description, self._writers, self.description().features, name)

    def _prebuilt(self, text: str, name: str = prebuilt.PLACEHOLDER) -> bytes | None:
        """Return the code of a module that the package brings along; None if it does not."""
        return prebuilt.find(text, self.description().features, name) if elf_loader.is_supported() else None

    def load(self, key: str, quick: bool, disk: DiskCache | None = None) -> ObjectCode | None:
        """Return the code on disk under a key; quickly compiled code if that is enough."""
        disk = disk or self.disk_cache()
        if disk is None:
            return None
        code = disk.load(key)
        if code is not None:
            return ObjectCode(key, key, code, quick=False, compiled=False)
        code = _split_quick(disk.load(_quick(key)))[0] if quick else None
        return None if code is None else ObjectCode(key, key, code, quick=True, compiled=False)

    def compile_in_full(self, key: str | None, structure: Written | None) -> ObjectCode | None:
        """Compile a kernel in full and return its code, given its structure or the key of its text on disk.

        Return None if the text is not on disk any more.
        """
        disk = self.disk_cache()
        name = key or self._new_name()
        text = self._quick_text(disk, key) if structure is None else write(structure, name)
        if text is None:
            return None
        code = self._emit(text, quick=False)
        self._keep(disk, key, code, None)
        if self._quick_modules:
            other = self._quick_modules.pop()
            text = self._quick_text(disk, other)
            if text is not None:
                self._keep(disk, other, self._emit(text, quick=False), None)
        return ObjectCode(name, key, code, quick=False, compiled=True)

    def take_quick_modules(self) -> list[str]:
        """Return the keys of quickly compiled modules, which the caller has compiled in full."""
        found, self._quick_modules = self._quick_modules, []
        return found

    def _quick_text(self, disk: DiskCache | None, key: str | None) -> str | None:
        """Return the text of a quickly compiled module, if it is on disk."""
        return None if disk is None or key is None else _split_quick(disk.load(_quick(key)))[1]

    def module_code(self, write: Callable[..., str], arguments: tuple[Any, ...], quick: bool) -> bytes:
        """Return the code of the module that ``write`` returns; it is called if the code is not on disk.

        The tier-up thread compiles a quickly compiled module in full, for later processes.
        """
        task = self._pending_modules.pop(write, None)
        return self._obtain_module(write, arguments, quick) if task is None else task.result()

    def described_module(self, write: Callable[..., str], arguments: tuple[Any, ...]) -> bytes | None:
        """Return the code of a module that the package brings along, by what ``write`` is given; None if it does not.

        The arguments must contain the digests of all sources outside of plans and kernels that the text depends on.
        """
        # the digests are read with the cache directory
        self.disk_cache()
        if self._whole is None or not elf_loader.is_supported():
            return None
        features = self.description().features
        return prebuilt.find_described(
            module_description(write, arguments), self._whole, features, prebuilt.PLACEHOLDER
        )

    def precompile_module(self, write: Callable[..., str], arguments: tuple[Any, ...]) -> None:
        """Start to compile the module that ``write`` returns quickly in another thread, if there is one."""
        if threads := _threads():
            task = self._pending_modules[write] = Task(lambda: self._obtain_module(write, arguments, quick=True))
            self._tasks.submit([task], threads)

    def _obtain_module(self, write: Callable[..., str], arguments: tuple[Any, ...], quick: bool) -> bytes:
        disk = self.disk_cache()
        named = disk is not None and describe(arguments) is not None
        key = disk.key(module_description(write, arguments)) if disk is not None and named else None
        found = None if key is None else self.load(key, quick, disk)
        if quick and key is not None and (found is None or found.quick):
            self._quick_modules.append(key)
        if found is not None:
            return found.code
        text = write(*arguments)
        code = self._prebuilt(text) or self._emit(text, quick)
        self._keep(disk, key, code, text if quick else None)
        return code

    def _new_name(self) -> str:
        self._names += 1
        # as long as the keys of files: prebuilt kernels can have either
        return f"kernel{self._names:059d}"

    def _emit(self, text: str, quick: bool) -> bytes:
        """Compile a module and return its code; other threads may compile a part of it."""
        parts = split_module(text) if quick and elf_loader.is_supported() else None
        if parts is None:
            return self._compile(text, QUICK if quick else FULL)
        outer, inner = parts
        task = Task(lambda: self._compile(inner, FULL))
        if threads := _threads():
            self._tasks.submit([task], threads)
        return bundle([self._compile(outer, QUICK), task.result()])

    def _compile(self, text: str, level: int) -> bytes:
        with self._gate:
            return self.compiler().emit(text, level)

    # -- the disk

    def _keep(self, disk: DiskCache | None, key: str | None, code: bytes, text: str | None) -> None:
        """Store code on disk; quickly compiled code together with its text."""
        if disk is None or key is None:
            return
        if self._described_disk is not disk:
            self._described_disk = disk
            disk.save(disk.key("compiler", "c"), self.description().to_bytes())
        if text is None:
            disk.save(key, code)
            disk.remove(_quick(key))
        else:
            disk.save(_quick(key), _LENGTH.pack(len(code)) + code + text.encode())

    def _keep_later(self, disk: DiskCache | None, key: str | None, code: bytes, structure: Written | None) -> None:
        """Store code on disk; a helper writes the text of a kernel that can tier up, unless this thread is one."""
        if disk is None or key is None:
            return
        if structure is None:
            self._keep(disk, key, code, None)
            return

        def work() -> None:
            if disk.load(key) is None:
                self._keep(disk, key, code, write(structure, key))

        if is_paced():
            work()
        else:
            self._later.submit(work)

    def finish_keeping(self) -> None:
        """Wait until all code is on disk that is to be stored there."""
        self._later.finish()

    def has_opened_disk_cache(self) -> bool:
        """Return whether the disk cache that the settings ask for is open, or turned off."""
        now = settings.current()
        return (now.cache_directory, now.cache_bytes) == self._disk_settings

    def disk_cache(self) -> DiskCache | None:
        """Return the disk cache that the settings ask for; None if they turn it off."""
        now = settings.current()
        wanted = now.cache_directory, now.cache_bytes
        if wanted != self._disk_settings:
            self._disk = self._open(*wanted) if now.cache_directory else None
            self._disk_settings = wanted
        return self._disk

    def preload(self) -> None:
        """Start to load the compiler in another thread."""
        if self._compiler is None and _threads():
            self._tasks.submit([Task(self._load_compiler)], 1)

    def _load_compiler(self) -> None:
        with self._gate:
            preload()
            self.compiler()

    def _open(self, directory: str, limit_bytes: int) -> DiskCache | None:
        found = DiskCache(directory, limit_bytes, "sources")
        # prebuilt kernels are enough to begin with
        features = reported_features(self._cpu_level) if elf_loader.is_supported() else None
        is_ready = features is not None and prebuilt.has_kernels(features)
        sources = source_digests(found, None if is_ready else self.preload)
        if sources is None:
            return None
        self._writers, self._whole = sources.writers, sources.whole
        identity = fingerprint() or self.compiler().description().versions
        return found.with_versions(f"{sources.whole}\n{self._cpu_level}\n{identity}")


def module_description(write: Callable[..., str], arguments: tuple[Any, ...]) -> str:
    """Return the text that stands for a module that a function writes."""
    return f"{write.__module__}.{write.__qualname__}{describe(arguments)}"


def _quick(key: str) -> str:
    """Return the file name of a quickly compiled kernel."""
    return f"{key}.quick"


def _split_quick(data: bytes | None) -> tuple[bytes | None, str | None]:
    """Return the code and the text in the file of a quickly compiled kernel."""
    if data is None:
        return None, None
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    return data[_LENGTH.size : end], data[end:].decode()


def _threads() -> int:
    """Return the number of threads that can compile in addition to this one."""
    return min(settings.current().num_threads, MOST_COMPILERS) - 1
