"""Kernels: from the description of a kernel to the address of its machine code, remembered.

Sizes are no part of a description, so a new batch size or sequence length compiles nothing new. Kernels are looked for
in memory, in a cache that forgets the least recently used ones, then on disk (:mod:`~phonograd.core.run.disk_cache`),
and are compiled only where they are in neither.

Nobody should have to wait for a compiler, so kernels are compiled *quickly* first: with the optimisations of LLVM's
code generator switched off that takes a third of the time. Kernels of plans that are run again are *improved*: a thread
compiles them once more, in full, and exchanges their addresses. Bits do not depend on it, because each operation is
rounded as it is written. A quick kernel takes 1 to 2 times as long to run, and would take 7 times as long where numbers
must stay in registers (matrix products): such functions are compiled in full
(:mod:`~phonograd.core.run.object_bundle`), and so is everything that has much work to do. Where there are several
processors, kernels of one plan are compiled by several threads, beginning as soon as one is known to be needed
(:func:`expect`).

Machine code lies in images of its own (:mod:`~phonograd.core.run.elf_loader`), or where these are not possible in
*libraries* of some hundred kernels each, which LLVM manages. Either is returned when none of its kernels is cached or
part of a plan any more.

The compiler is imported when something is neither in memory nor on disk. Where llvmlite is missing, :func:`available`
is false and says so once; everything is then evaluated by NumPy.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..base import fork, settings
from ..base.errors import NoCompilerWarning, user_line
from ..kernels.launch import Written
from . import compiler, elf_loader, pointers
from .background import Gate
from .compiler import Description, Library
from .disk_cache import DiskCache
from .objects import Codes, CompilerLost, Found
from .tier_up import Improver

__all__ = [
    "CompilerLost",
    "Kernel",
    "Statistics",
    "available",
    "compile_module",
    "compile_text",
    "description",
    "expect",
    "expect_module",
    "finish",
    "improve",
    "kept",
    "kernel",
    "kernels",
    "lost",
    "statistics",
    "store",
]

#: compiled kernels to remember; about 6 KB each
KERNEL_LIMIT = 4096
#: kernels in one library; an empty library takes 0.8 MB
LIBRARY_SIZE = 256
#: chunks of work above which a kernel is compiled in full at once: when the quick one would take longer than that saves
MUCH_WORK = 1000


class Statistics:
    """Counts of what is expensive, so that tests can assert that a loop does not repeat it."""

    __slots__ = (
        "kernels_compiled",
        "kernels_found",
        "kernels_improved",
        "kernels_loaded",
        "native_calls",
        "plans_loaded",
        "seconds",
    )

    def __init__(self) -> None:
        self.kernels_compiled = 0
        self.kernels_loaded = 0
        self.kernels_found = 0
        self.kernels_improved = 0
        self.native_calls = 0
        self.plans_loaded = 0
        self.seconds = 0.0

    def snapshot(self) -> dict[str, float]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


#: kernels compiled, loaded from disk, found in memory and improved, native calls made, plans loaded from disk, and the
#: seconds that somebody waited for kernels, in this process
statistics = Statistics()


class Kernel:
    """Compiled code: where its address stands, valid as long as this object lives."""

    __slots__ = ("__weakref__", "_memory", "_word", "cell", "improvable", "key", "structure")

    def __init__(
        self,
        address: int,
        memory: elf_loader.Image | Library,
        key: str | None = None,
        improvable: bool = False,
        structure: Written | None = None,
    ) -> None:
        self._word = pointers.Word(address)
        #: address of the word that holds the address of the code
        self.cell = self._word.address
        #: whether it should be compiled in full, if it turns out to be used often
        self.improvable = improvable
        #: the name under which it is kept on disk, if it is
        self.key = key
        #: what it computes, as long as it may be compiled once more; None if only its file tells
        self.structure = structure if improvable else None
        self._memory: tuple[elf_loader.Image | Library, ...] = (memory,)

    @property
    def address(self) -> int:
        """The address of the code; another one once it has been improved."""
        return self._word.value

    def replace(self, address: int, memory: elf_loader.Image | Library) -> None:
        """Use other code from now on; the old one stays, because it may be running."""
        self._memory = (*self._memory, memory)
        self.improvable, self.structure = False, None
        self._word.value = address


class _Kernels:
    """The kernels of this process."""

    def __init__(self) -> None:
        self.codes = Codes(_gate)
        self._library: Library | None = None
        self._kernels: OrderedDict[Written, Kernel] = OrderedDict()
        self._by_key: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
        self.lock = threading.RLock()
        self.last_used = 0.0

    def compile(self, write: Callable[..., str], arguments: tuple[Any, ...], name: str, quick: bool) -> Kernel:
        """Return the compiled function of a module that a function writes."""
        code = self.codes.of_module(write, arguments, quick)
        with self.lock:
            memory = self._placed({name: code})
        return Kernel(memory.addresses[name], memory)

    def kernels(self, wanted: Mapping[Written, int]) -> dict[Written, Kernel]:
        """Return kernels by description, given how many chunks of work each has to do."""
        with self.lock:
            known = self._kernels
            missing = [structure for structure in wanted if structure not in known]
            statistics.kernels_found += len(wanted) - len(missing)
            if missing:
                start = time.perf_counter()
                found = self.codes.found([(structure, _is_quick(wanted[structure])) for structure in missing])
                known.update(zip(missing, self._admitted(found, missing), strict=True))
                statistics.seconds += time.perf_counter() - start
                self.last_used = time.monotonic()
            for structure in wanted:
                known.move_to_end(structure)
            results = {structure: known[structure] for structure in wanted}
            while len(known) > KERNEL_LIMIT:
                known.popitem(last=False)
        for structure, kernel in results.items():
            if kernel.improvable and wanted[structure] > MUCH_WORK:
                # it was compiled for little work
                self.improve(kernel)
        return results

    def kept(self, wanted: Iterable[tuple[str, int]]) -> list[Kernel] | None:
        """Return kernels by the names of their files, given how much work they have to do; None if some are missing."""
        with self.lock:
            start = time.perf_counter()
            here: list[Kernel | None] = []
            found: list[Found] = []
            for key, work in wanted:
                kernel = self._by_key.get(key)
                if kernel is None or (kernel.improvable and not _is_quick(work)):
                    entry = self.codes.kept(key, _is_quick(work))
                    if entry is None:
                        return None
                    found.append(entry)
                    kernel = None
                here.append(kernel)
            loaded = iter(self._admitted(found))
            statistics.seconds += time.perf_counter() - start
            return [next(loaded) if kernel is None else kernel for kernel in here]

    def expect(self, structure: Written, work: int) -> None:
        """Begin to compile a kernel that will be asked for, with so many chunks of work to do."""
        if structure not in self._kernels:
            self.codes.expect(structure, _is_quick(work))

    def _admitted(self, found: Sequence[Found], structures: Sequence[Written] = ()) -> list[Kernel]:
        """Return kernels made of code, after putting it into memory."""
        made: list[Kernel] = []
        for start in range(0, len(found), LIBRARY_SIZE):
            part = found[start : start + LIBRARY_SIZE]
            memory = self._placed({entry.name: entry.code for entry in part})
            for number, (name, key, _, quick, compiled) in enumerate(part, start):
                structure = structures[number] if structures else None
                made.append(Kernel(memory.addresses[name], memory, key, quick, structure))
                if key is not None:
                    self._by_key[key] = made[-1]
                if compiled:
                    statistics.kernels_compiled += 1
                else:
                    statistics.kernels_loaded += 1
        return made

    def _placed(self, codes: Mapping[str, bytes]) -> elf_loader.Image | Library:
        """Return memory in which object files lie, each with a function of its name."""
        found = elf_loader.load(codes)
        if found is not None:
            return found
        addresses = {} if self._library is None else self._library.addresses
        is_new = len(addresses) + len(codes) > LIBRARY_SIZE or not addresses.keys().isdisjoint(codes)
        if self._library is None or is_new:
            self._library = Library(self.codes.compiler().binding)
        self._library.add(codes)
        return self._library

    def improve(self, kernel: Kernel) -> None:
        """Compile a kernel in full and have it used from now on; called by the thread that does this."""
        if not kernel.improvable:
            return
        found = self.codes.improved(kernel.key, kernel.structure)
        with self.lock:
            if found is None:
                # its file has been dropped, or other settings look elsewhere: it stays as it is
                kernel.improvable = False
            elif kernel.improvable:
                memory = self._placed({found.name: found.code})
                kernel.replace(memory.addresses[found.name], memory)
                statistics.kernels_improved += 1


def _is_quick(work: int) -> bool:
    """Return whether a kernel with some chunks of work is compiled quickly."""
    return work <= MUCH_WORK and settings.current().quick_kernels


_gate = Gate()
_kernels: _Kernels | None = None
_missing: Exception | None = None
_start = threading.RLock()
#: the lock of llvmlite, while a process is forked
_held = contextlib.ExitStack()


def _new_improver() -> Improver:
    return Improver(lambda kernel: _started().improve(kernel), lambda: _started().last_used)


_improver = _new_improver()


def _before_fork() -> None:
    """Wait until no thread compiles: locks that are held when a process is forked are never free in the child."""
    _start.acquire()
    if _kernels is not None:
        _kernels.lock.acquire()
    _gate.hold()
    # threads that end give memory back to LLVM without the gate
    _held.enter_context(compiler.lock())


def _after_fork() -> None:
    _held.close()
    _gate.release()
    if _kernels is not None:
        _kernels.lock.release()
    _start.release()


def _after_fork_in_child() -> None:
    global _improver
    # threads exist in the parent only
    _improver = _new_improver()
    if _kernels is not None:
        _kernels.codes.forget_expected()
    _after_fork()


fork.register("compiler", before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
# the compiler must not be at work when its library is taken down
atexit.register(lambda: _improver.stop())


def available() -> bool:
    """Return whether kernels can be compiled; warns at the first call if not."""
    global _kernels
    if _kernels is not None or _missing is not None:
        return _kernels is not None
    with _start:
        if _kernels is None and _missing is None:
            try:
                if not pointers.are_usable():
                    raise OSError("machine code cannot be called by its address")
                _kernels = _Kernels()
                settings.fix("cpu_level", "the compiler has started; change it before the first value is computed")
            # its shared library cannot be loaded, or LLVM does not know the processor
            except (ImportError, OSError, RuntimeError) as error:
                lost(error)
    return _kernels is not None


def lost(error: Exception) -> None:
    """Do without the compiler from now on, and say so."""
    global _kernels, _missing
    _kernels, _missing = None, error
    file, line = user_line() or (__file__, 0)
    warnings.warn_explicit(
        f"kernels cannot be compiled because llvmlite is missing or does not work ({error}): NumPy "
        f"evaluates everything, slower. Install it with 'pip install llvmlite', or set "
        f"PHONOGRAD_EXECUTOR=reference to have it so without this warning.",
        NoCompilerWarning,
        file,
        line,
    )


def kernels(wanted: Mapping[Written, int]) -> dict[Written, Kernel]:
    """Return the compiled kernels of some descriptions, given how many chunks of work each has to do."""
    return _started().kernels(wanted)


def kernel(structure: Written) -> Kernel:
    """Return the compiled kernel of a description."""
    return kernels({structure: 0})[structure]


def kept(wanted: Iterable[tuple[str, int]]) -> list[Kernel] | None:
    """Return kernels by the names of their files, given how much work they have to do; None if some are missing."""
    return _started().kept(wanted)


def expect(structure: Written, work: int) -> None:
    """Begin to compile a kernel, which will be asked for with so many chunks of work to do, in another thread."""
    _started().expect(structure, work)


def expect_module(write: Callable[..., str], arguments: tuple[Any, ...]) -> None:
    """Begin to compile a module that will be asked for, quickly, in another thread; see :func:`compile_module`."""
    _started().codes.expect_module(write, arguments)


def improve(some: Iterable[Kernel]) -> None:
    """Have kernels compiled in full, by another thread, where they are not."""
    improvable = [kernel for kernel in some if kernel.improvable]
    if improvable:
        _improver.submit(improvable)


def finish() -> None:
    """Wait until every kernel is as fast as it can be that is about to be."""
    _improver.finish()


def compile_text(text: str, name: str, quick: bool = False) -> Kernel:
    """Return the compiled function of a module that is written by hand; see :func:`compile_module`."""
    return compile_module(_as_it_is, (text,), name, quick)


def _as_it_is(text: str) -> str:
    return text


def compile_module(write: Callable[..., str], arguments: tuple[Any, ...], name: str, quick: bool = False) -> Kernel:
    """Return the compiled function of a module that a function of the library writes, given plain values.

    It is called only where machine code for these is not on disk. Quickly, if the speed of the code is of little
    importance: it stays as it is in this process.
    """
    return _started().compile(write, arguments, name, quick)


def store() -> DiskCache | None:
    """Return where machine code and plans are kept on disk, if they are."""
    return _started().codes.store()


def description() -> Description:
    """Return what is known about the compiler and the processor."""
    return _started().codes.description()


def _started() -> _Kernels:
    if not available():
        raise RuntimeError("kernels cannot be compiled without llvmlite")
    assert _kernels is not None
    return _kernels
