"""The compiler: from the description of a kernel to the address of its machine code, remembered.

Sizes are no part of a description, so a new batch size or sequence length compiles nothing new. Kernels are looked for
in memory, in a cache that forgets the least recently used ones, then on disk (:mod:`~phonograd.native.store`), and are
compiled only where they are in neither.

Nobody should have to wait for a compiler, so kernels are compiled *quickly* first: with the optimisations of LLVM's
code generator switched off that takes a third of the time. Kernels of plans that are run again are *improved*: a thread
compiles them once more, in full, and exchanges their addresses. Bits do not depend on it, because each operation is
rounded as it is written. A quick kernel takes 1 to 2 times as long to run, and where numbers must stay in registers
(matrix products) 7 times, so what is much work is compiled in full at once.

Machine code lives in *libraries* of some hundred kernels each: a library's memory is returned when none of its kernels
is cached or part of a plan any more.

llvmlite is imported when the first kernel is asked for. Where it is missing, :func:`available` is false and says so
once; everything is then evaluated by NumPy.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from .. import settings
from ..errors import NoCompilerWarning, user_line
from ..kernels.launch import Written
from .store import Store, describe, source_digest

__all__ = [
    "Kernel",
    "Statistics",
    "available",
    "compile_text",
    "finish",
    "improve",
    "kernel",
    "kernels",
    "statistics",
    "write",
]

#: compiled kernels to remember; about 6 KB each
KERNEL_LIMIT = 4096
#: kernels in one library; an empty library takes 0.8 MB
LIBRARY_SIZE = 256
#: chunks of work above which a kernel is compiled in full at once: up to 10 ms, which a quick product would take 70 for
MUCH_WORK = 1000
#: kernels are improved when nothing has been compiled for this long
_QUIET_SECONDS = 0.02

_QUICK, _FULL = 0, 2


class Statistics:
    """Counts of what is expensive, so that tests can assert that a loop does not repeat it."""

    __slots__ = ("kernels_compiled", "kernels_found", "kernels_improved", "kernels_loaded", "native_calls", "seconds")

    def __init__(self) -> None:
        self.kernels_compiled = 0
        self.kernels_loaded = 0
        self.kernels_found = 0
        self.kernels_improved = 0
        self.native_calls = 0
        self.seconds = 0.0

    def snapshot(self) -> dict[str, float]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


#: kernels compiled, loaded from disk, found in memory and improved, native calls made, and the seconds that somebody
#: waited for kernels, in this process
statistics = Statistics()


class Library:
    """Memory for machine code of some kernels; they keep it alive."""

    def __init__(self, llvm: ModuleType) -> None:
        self._llvm = llvm
        # an engine owns its target machine and must not share it
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(llvm))
        self.addresses: dict[str, int] = {}

    def add(self, codes: Mapping[str, bytes]) -> None:
        """Take object files in, each with a function of its name, which is new here."""
        for code in codes.values():
            # an object file takes a third of the memory of a module that stays in the engine
            self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        for name in codes:
            self.addresses[name] = int(self._engine.get_function_address(name))


class Kernel:
    """Compiled code: where its address stands, valid as long as this object lives."""

    __slots__ = ("__weakref__", "_libraries", "_word", "cell", "improvable")

    def __init__(self, address: int, library: Library, improvable: Written | None = None) -> None:
        self._word = ctypes.c_int64(address)
        #: address of the word that holds the address of the code
        self.cell = ctypes.addressof(self._word)
        #: what to compile in full when the kernel turns out to be used often; None if it is as fast as it can be
        self.improvable = improvable
        self._libraries: tuple[Library, ...] = (library,)

    @property
    def address(self) -> int:
        """The address of the code; another one once it has been improved."""
        return self._word.value

    def replace(self, address: int, library: Library) -> None:
        """Use other code from now on; the old one stays, because it may be running."""
        self._libraries = (*self._libraries, library)
        self.improvable = None
        self._word.value = address


class _Found(NamedTuple):
    """Code of a kernel that is not in memory."""

    name: str
    code: bytes
    quick: bool


class _Compiler:
    """The one compiler of the process: the current library, the cache of kernels, and the store on disk."""

    def __init__(self, llvm: ModuleType) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._llvm = llvm
        self._machines = {level: _target_machine(llvm, level) for level in (_QUICK, _FULL)}
        self._library = Library(llvm)
        self._kernels: OrderedDict[Written, Kernel] = OrderedDict()
        self._names = 0
        #: modules written by hand that were compiled quickly, with the keys they have on disk
        self._quick_texts: list[tuple[str, str]] = []
        self._store: Store | None = None
        self._store_settings: tuple[str, int] | None = None
        self.lock = threading.Lock()
        self.last_used = 0.0

    def compile(self, text: str, name: str, quick: bool) -> Kernel:
        """Return the compiled function of a module; a quick one is compiled in full for processes to come."""
        with self.lock:
            store = self._current_store()
            key = None if store is None else store.key(f"text {text}")
            code = None if store is None or key is None else store.load(key)
            if code is None and quick and store is not None and key is not None:
                self._quick_texts.append((key, text))
                code = store.load(self._name(key, quick))
            if code is None:
                code = self._emit(text, _QUICK if quick else _FULL)
                if store is not None and key is not None:
                    store.save(self._name(key, quick), code)
            if len(self._library.addresses) >= LIBRARY_SIZE or name in self._library.addresses:
                self._library = Library(self._llvm)
            self._library.add({name: code})
            return Kernel(self._library.addresses[name], self._library)

    def kernels(self, wanted: Mapping[Written, int]) -> dict[Written, Kernel]:
        """Return kernels by description, given how many chunks of work each has to do."""
        with self.lock:
            known = self._kernels
            missing = [structure for structure in wanted if structure not in known]
            statistics.kernels_found += len(wanted) - len(missing)
            if missing:
                start = time.perf_counter()
                found = [self._obtain(structure, wanted[structure]) for structure in missing]
                for structure, kernel in zip(missing, self._admit(missing, found), strict=True):
                    known[structure] = kernel
                statistics.seconds += time.perf_counter() - start
                self.last_used = time.monotonic()
            for structure in wanted:
                known.move_to_end(structure)
            results = {structure: known[structure] for structure in wanted}
            while len(known) > KERNEL_LIMIT:
                known.popitem(last=False)
        for structure, kernel in results.items():
            if kernel.improvable is not None and wanted[structure] > MUCH_WORK:
                # it was compiled for little work
                self.improve(kernel)
        return results

    def _obtain(self, structure: Written, work: int) -> _Found:
        """Return the code of a kernel, from the disk or compiled."""
        store = self._current_store()
        key = None if store is None else _key(store, structure)
        quick_is_enough = work <= MUCH_WORK and settings.current().quick_kernels
        if store is not None and key is not None:
            for quick in (False, True) if quick_is_enough else (False,):
                name = self._name(key, quick)
                code = store.load(name)
                if code is not None:
                    statistics.kernels_loaded += 1
                    return _Found(name, code, quick)
        statistics.kernels_compiled += 1
        name = self._name(key, quick_is_enough)
        code = self._emit(write(structure, name), _QUICK if quick_is_enough else _FULL)
        if store is not None and key is not None:
            store.save(name, code)
        return _Found(name, code, quick_is_enough)

    def _name(self, key: str | None, quick: bool) -> str:
        """Return the name of a kernel's function, which is also that of its file if there is one."""
        if key is None:
            self._names += 1
            return f"kernel{self._names}"
        return f"{key}.quick" if quick else key

    def _admit(self, structures: list[Written], found: list[_Found]) -> list[Kernel]:
        """Return kernels made of code, after putting it into libraries."""
        made: list[Kernel] = []
        for start in range(0, len(found), LIBRARY_SIZE):
            part = found[start : start + LIBRARY_SIZE]
            library = self._library_for([entry.name for entry in part])
            library.add({entry.name: entry.code for entry in part})
            for structure, entry in zip(structures[start:], part):
                made.append(Kernel(library.addresses[entry.name], library, structure if entry.quick else None))
        return made

    def _library_for(self, names: list[str]) -> Library:
        addresses = self._library.addresses
        if len(addresses) + len(names) > LIBRARY_SIZE or any([name in addresses for name in names]):
            self._library = Library(self._llvm)
        return self._library

    def improve(self, kernel: Kernel) -> None:
        """Compile a kernel in full and have it used from now on; called by the thread that does this."""
        with self.lock:
            structure = kernel.improvable
            if structure is None:
                return
            store = self._current_store()
            key = None if store is None else _key(store, structure)
            name = self._name(key, quick=False)
            code = self._emit(write(structure, name), _FULL)
            library = self._library_for([name])
            library.add({name: code})
            kernel.replace(library.addresses[name], library)
            statistics.kernels_improved += 1
            if store is not None and key is not None:
                self._keep_in_full(store, key, code)
            if store is not None and self._quick_texts:
                key, text = self._quick_texts.pop()
                self._keep_in_full(store, key, self._emit(text, _FULL))

    def _keep_in_full(self, store: Store, key: str, code: bytes) -> None:
        """Keep code on disk in the place of what was compiled quickly."""
        store.save(self._name(key, quick=False), code)
        store.remove(self._name(key, quick=True))

    def _emit(self, text: str, level: int) -> bytes:
        with self._llvm.parse_assembly(text) as module:
            code: bytes = self._machines[level].emit_object(module)
        return code

    def _current_store(self) -> Store | None:
        """Return the store that the settings ask for."""
        now = settings.current()
        wanted = now.cache_directory, now.cache_bytes
        if wanted != self._store_settings:
            self._store_settings = wanted
            digest = source_digest() if now.cache_directory else None
            self._store = None
            if digest is not None:
                self._store = Store(*wanted, "\n".join([digest, *_versions(self._llvm)]))
        return self._store


def _key(store: Store, structure: Written) -> str | None:
    description = describe(structure)
    return None if description is None else store.key(description)


def _versions(llvm: ModuleType) -> list[str]:
    """Return what machine code depends on beside its text."""
    import llvmlite

    features = llvm.get_host_cpu_features().flatten()
    version = ".".join([str(part) for part in llvm.llvm_version_info])
    return [llvmlite.__version__, version, llvm.get_default_triple(), llvm.get_host_cpu_name(), features]


def _target_machine(llvm: ModuleType, level: int = _FULL) -> Any:
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(opt=level, cpu=llvm.get_host_cpu_name(), features=features)


# -- improving kernels while others work


class _Improver:
    """A thread that compiles kernels in full, one after the other; it is started by the first one."""

    def __init__(self) -> None:
        self._waiting: deque[weakref.ref[Kernel]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._stopped = False

    def submit(self, kernels: Iterable[Kernel]) -> None:
        """Have kernels improved some time."""
        with self._changed:
            self._waiting.extend([weakref.ref(kernel) for kernel in kernels])
            self._changed.notify_all()
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._work, name="phonograd compiler", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Wait until nothing is left to improve."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not (self._waiting or self._busy))

    def stop(self) -> None:
        """Wait for the kernel that is being compiled, and leave the others as they are."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            while not self._stopped:
                self._improve_next()
        finally:
            # should a kernel fail, the others stay as they are, and nobody waits for them
            with self._changed:
                self._stopped = True
                self._changed.notify_all()

    def _improve_next(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or self._waiting)
            if self._stopped:
                return
            kernel = self._waiting.popleft()()
            self._busy = True
        if kernel is not None and _compiler is not None:
            self._wait_for_quiet(_compiler)
            if not self._stopped:
                _compiler.improve(kernel)

    def _wait_for_quiet(self, compiler: _Compiler) -> None:
        """Let others compile first: compilers exclude each other, and somebody is waiting for them."""
        while not self._stopped:
            left = compiler.last_used + _QUIET_SECONDS - time.monotonic()
            if left <= 0:
                return
            with self._changed:
                self._changed.wait(left)


_compiler: _Compiler | None = None
_improver = _Improver()
_missing: Exception | None = None
_start = threading.Lock()


def _before_fork() -> None:
    """Wait until no thread compiles: locks that are held when a process is forked are never free in the child."""
    _start.acquire()
    if _compiler is not None:
        _compiler.lock.acquire()


def _after_fork() -> None:
    if _compiler is not None:
        _compiler.lock.release()
    _start.release()


def _after_fork_in_child() -> None:
    global _improver
    # the thread exists in the parent only
    _improver = _Improver()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
# the compiler must not be at work when its library is taken down
atexit.register(lambda: _improver.stop())


def available() -> bool:
    """Return whether kernels can be compiled; warns at the first call if not."""
    global _compiler, _missing
    if _compiler is not None or _missing is not None:
        return _compiler is not None
    with _start:
        if _compiler is None and _missing is None:
            try:
                from llvmlite import binding

                _compiler = _Compiler(binding)
            # its shared library cannot be loaded, or LLVM does not know the processor
            except (ImportError, OSError, RuntimeError) as error:
                _missing = error
                file, line = user_line() or (__file__, 0)
                warnings.warn_explicit(
                    f"kernels cannot be compiled because llvmlite is missing or does not work ({error}): NumPy "
                    f"evaluates everything, slower. Install it with 'pip install llvmlite', or set "
                    f"PHONOGRAD_EXECUTOR=reference to have it so without this warning.",
                    NoCompilerWarning,
                    file,
                    line,
                )
    return _compiler is not None


def write(structure: Written, name: str) -> str:
    """Return the text of a kernel as a module of its own."""
    return structure.write(name)


def kernels(wanted: Mapping[Written, int]) -> dict[Written, Kernel]:
    """Return the compiled kernels of some descriptions, given how many chunks of work each has to do."""
    return _started().kernels(wanted)


def kernel(structure: Written) -> Kernel:
    """Return the compiled kernel of a description."""
    return kernels({structure: 0})[structure]


def improve(some: Iterable[Kernel]) -> None:
    """Have kernels compiled in full, by another thread, where they are not."""
    improvable = [kernel for kernel in some if kernel.improvable is not None]
    if improvable:
        _improver.submit(improvable)


def finish() -> None:
    """Wait until every kernel is as fast as it can be that is about to be."""
    _improver.finish()


def compile_text(text: str, name: str, quick: bool = False) -> Kernel:
    """Return the compiled function of a module that is written by hand.

    Quickly, if its speed is of little importance: it stays as it is in this process.
    """
    return _started().compile(text, name, quick)


def _started() -> _Compiler:
    if not available():
        raise RuntimeError("kernels cannot be compiled without llvmlite")
    assert _compiler is not None
    return _compiler
