"""The kernel cache: maps the structure of a kernel to the address of its machine code.

Takes structures from :mod:`phonograd.core.plan` and hands :class:`Kernel` objects to :mod:`~phonograd.core.run.driver`.
A structure contains no sizes, so a new batch size or sequence length compiles nothing new. The cache searches memory
(least recently used kernels are dropped), then the disk (:mod:`~phonograd.core.run.disk_cache`), then compiles.

Kernels are first compiled *quickly*, without the optimizations of LLVM's code generator, in a third of the time. When a
plan runs again, its kernels *tier up*: a background thread compiles them in full and exchanges their addresses. The
results are the same bits, because each operation is rounded as it is written. A quick kernel takes 1 to 2 times as long
to run. It would take 7 times as long if values must stay in registers (matrix products), so inner functions are always
compiled in full (:mod:`~phonograd.core.run.object_bundle`), and so are kernels with much work. On several processors,
several threads compile the kernels of one plan, and start as soon as the planner knows one (:func:`precompile`).

Machine code is loaded by :mod:`~phonograd.core.run.elf_loader`, or by LLVM into *libraries* of some hundred kernels
each. The memory is freed when none of its kernels is cached or part of a plan.

llvmlite is imported when a kernel is neither in memory nor on disk. If llvmlite is missing, :func:`available` warns
once and returns False; NumPy then evaluates everything.
"""

from __future__ import annotations

import atexit
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..base import fork, settings
from ..base.errors import NoCompilerWarning, user_line
from ..graph.extents import is_tracing
from ..kernels.launch import Written
from . import compiler, elf_loader, pointers
from .background import GATE, run_apart
from .compiler import Description, Library
from .disk_cache import DiskCache
from .objects import CompilerLost, ObjectCache, ObjectCode
from .tier_up import TierUpThread

__all__ = [
    "CompilerLost",
    "Kernel",
    "Statistics",
    "available",
    "compile_elsewhere",
    "compile_in_full",
    "compile_module",
    "compile_text",
    "description",
    "disable_compiler",
    "disk_cache",
    "finish_keeping",
    "kernel",
    "kernels",
    "left_to_compile_in_full",
    "linked",
    "load_kernels",
    "precompile",
    "precompile_module",
    "preload",
    "statistics",
    "tier_up",
    "wait_for_tier_up",
]

#: maximum number of cached kernels; about 6 KB each
KERNEL_LIMIT = 4096
#: maximum number of kernels in one library; an empty library takes 0.8 MB
LIBRARY_SIZE = 256
#: chunks of work above which a kernel is compiled in full at once: a quick kernel would lose more than it saves
MUCH_WORK = 1000


class Statistics:
    """Counts of expensive events, so that tests can assert that a loop does not repeat them."""

    __slots__ = (
        "kernels_compiled",
        "kernels_found",
        "kernels_improved",
        "kernels_loaded",
        "native_calls",
        "plans_loaded",
        "plans_sized",
        "seconds",
    )

    def __init__(self) -> None:
        self.kernels_compiled = 0
        self.kernels_loaded = 0
        self.kernels_found = 0
        self.kernels_improved = 0
        self.native_calls = 0
        self.plans_loaded = 0
        self.plans_sized = 0
        self.seconds = 0.0

    def snapshot(self) -> dict[str, float]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


#: counts of this process: kernels compiled, loaded from disk, found in memory and tiered up, native calls, plans loaded
#: from disk, and the seconds that threads waited for kernels
statistics = Statistics()


class Kernel:
    """The machine code of one kernel; its address is valid as long as this object lives."""

    __slots__ = ("__weakref__", "_memory", "_word", "cell", "improvable", "key", "nbytes", "structure")

    def __init__(
        self,
        address: int,
        memory: elf_loader.LoadedCode | Library,
        key: str | None = None,
        improvable: bool = False,
        structure: Written | None = None,
        nbytes: int = 0,
    ) -> None:
        self._word = pointers.Word(address)
        #: the size of its code
        self.nbytes = nbytes
        #: address of the word that contains the address of the code
        self.cell = self._word.address
        #: whether the kernel was compiled quickly and can tier up
        self.improvable = improvable
        #: key of its file on disk, if it has one
        self.key = key
        #: its structure, as long as it can tier up; None if only its file contains the text
        self.structure = structure if improvable else None
        self._memory: tuple[elf_loader.LoadedCode | Library, ...] = (memory,)

    @property
    def address(self) -> int:
        """The address of the code. Tier-up changes it."""
        return self._word.value

    def replace(self, address: int, memory: elf_loader.LoadedCode | Library, nbytes: int = 0) -> None:
        """Use other code from now on. The old code stays in memory, because a thread may be running it."""
        self._memory = (*self._memory, memory)
        self.nbytes += nbytes
        self.improvable, self.structure = False, None
        self._word.value = address


class _KernelCache:
    """The kernels of this process."""

    def __init__(self) -> None:
        self.objects = ObjectCache(GATE)
        self._library: Library | None = None
        self._kernels: OrderedDict[Written, Kernel] = OrderedDict()
        self._by_key: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
        self.lock = threading.RLock()
        self.last_used = 0.0
        #: compiles kernels in full in another process (see `compile_elsewhere`)
        self.elsewhere: Callable[[str], bool | None] | None = None

    def compile(
        self, write: Callable[..., str], arguments: tuple[Any, ...], name: str, quick: bool, described: bool
    ) -> Kernel:
        """Return the compiled function of the module that ``write`` returns."""
        code = self.objects.described_module(write, arguments) if described else None
        if code is None:
            code = self.objects.module_code(write, arguments, quick)
        with self.lock:
            memory = self._load_code({name: code})
        return Kernel(memory.addresses[name], memory)

    def kernels(self, wanted: Mapping[Written, int]) -> dict[Written, Kernel]:
        """Return kernels by structure, given the chunks of work of each."""
        with self.lock:
            known = self._kernels
            missing = [structure for structure in wanted if structure not in known]
            statistics.kernels_found += len(wanted) - len(missing)
            if missing:
                start = time.perf_counter()
                found = self.objects.obtain([(structure, _is_quick(wanted[structure])) for structure in missing])
                known.update(zip(missing, self._load_kernels(found, missing), strict=True))
                statistics.seconds += time.perf_counter() - start
                self.last_used = time.monotonic()
            for structure in wanted:
                known.move_to_end(structure)
            results = {structure: known[structure] for structure in wanted}
            if missing:
                held, most = sum([kernel.nbytes for kernel in known.values()]), settings.current().kernel_bytes
                while len(known) > max(len(wanted), 1) and (len(known) > KERNEL_LIMIT or held > most):
                    _, dropped = known.popitem(last=False)
                    held -= dropped.nbytes
        for structure, kernel in results.items():
            if kernel.improvable and wanted[structure] > MUCH_WORK:
                # it was compiled quickly for a smaller launch
                self.improve(kernel)
        return results

    def known(self, wanted: Mapping[Written, int]) -> dict[Written, Kernel] | None:
        """Return kernels by structure if all of them are in memory; no lock is taken, so any thread may ask."""
        found: dict[Written, Kernel] = {}
        for structure, work in wanted.items():
            kernel = self._kernels.get(structure)
            if kernel is None or (kernel.improvable and work > MUCH_WORK):
                return None
            found[structure] = kernel
        statistics.kernels_found += len(found)
        return found

    def load(self, wanted: Iterable[tuple[str, int]]) -> list[Kernel] | None:
        """Return kernels by the keys of their files, given the chunks of work of each; None if one is missing."""
        with self.lock:
            start = time.perf_counter()
            here: list[Kernel | None] = []
            found: list[ObjectCode] = []
            for key, work in wanted:
                kernel = self._by_key.get(key)
                if kernel is None or (kernel.improvable and not _is_quick(work)):
                    entry = self.objects.load(key, _is_quick(work))
                    if entry is None:
                        return None
                    found.append(entry)
                    kernel = None
                here.append(kernel)
            loaded = iter(self._load_kernels(found))
            statistics.seconds += time.perf_counter() - start
            return [next(loaded) if kernel is None else kernel for kernel in here]

    def loaded(self, wanted: Sequence[tuple[str, int]]) -> list[Kernel] | None:
        """Return what :meth:`load` returns if all kernels are in memory; no lock is taken, so any thread may ask."""
        found: list[Kernel] = []
        for key, work in wanted:
            kernel = self._by_key.get(key)
            if kernel is None or (kernel.improvable and not _is_quick(work)):
                return None
            found.append(kernel)
        return found

    def precompile(self, structure: Written, work: int) -> None:
        """Start to compile a kernel with some chunks of work in another thread."""
        if structure not in self._kernels:
            self.objects.precompile(structure, _is_quick(work))

    def _load_kernels(self, found: Sequence[ObjectCode], structures: Sequence[Written] = ()) -> list[Kernel]:
        """Load object code into memory and return its kernels."""
        made: list[Kernel] = []
        for start in range(0, len(found), LIBRARY_SIZE):
            part = found[start : start + LIBRARY_SIZE]
            memory = self._load_code({entry.name: entry.code for entry in part})
            for number, (name, key, _, quick, compiled) in enumerate(part, start):
                structure = structures[number] if structures else None
                made.append(
                    Kernel(memory.addresses[name], memory, key, quick, structure, len(part[number - start].code))
                )
                if key is not None:
                    self._by_key[key] = made[-1]
                if compiled:
                    statistics.kernels_compiled += 1
                else:
                    statistics.kernels_loaded += 1
        return made

    def _load_code(self, code_by_name: Mapping[str, bytes]) -> elf_loader.LoadedCode | Library:
        """Load object files, each with a function of its name, and return the memory that contains them."""
        found = elf_loader.load(code_by_name)
        if found is not None:
            return found
        addresses = {} if self._library is None else self._library.addresses
        is_new = len(addresses) + len(code_by_name) > LIBRARY_SIZE or not addresses.keys().isdisjoint(code_by_name)
        if self._library is None or is_new:
            self._library = Library(self.objects.compiler().binding)
        self._library.add(code_by_name)
        return self._library

    def improve(self, kernel: Kernel) -> None:
        """Compile a kernel in full and use that code from now on."""
        if kernel.improvable:
            with GATE:
                found = self.objects.compile_in_full(kernel.key, kernel.structure)
            self._use(kernel, found)

    def improve_later(self, kernel: Kernel) -> None:
        """Do the same for a program that does not wait, in another process if there is one."""
        if self.elsewhere is None or kernel.key is None or not kernel.improvable:
            self.improve(kernel)
            return
        done: bool | None = False
        for key in (*self.objects.take_quick_modules(), kernel.key):
            done = self.elsewhere(key)
        found = self.objects.load(kernel.key, quick=False) if done else None
        if found is not None:
            self._use(kernel, found)
        elif done is not None:
            self.improve(kernel)

    def _use(self, kernel: Kernel, found: ObjectCode | None) -> None:
        with self.lock:
            if found is None:
                # its file was dropped, or the cache directory changed: keep the quick code
                kernel.improvable = False
            elif kernel.improvable:
                memory = self._load_code({found.name: found.code})
                kernel.replace(memory.addresses[found.name], memory, len(found.code))
                statistics.kernels_improved += 1


def code_in_memory() -> list[int]:
    """Return the size of the code of every kernel in memory."""
    return [] if _kernels is None else [kernel.nbytes for kernel in list(_kernels._kernels.values())]


def _is_quick(work: int) -> bool:
    """Return whether to compile a kernel with some chunks of work quickly."""
    return work <= MUCH_WORK and settings.current().quick_kernels


_kernels: _KernelCache | None = None
_missing: Exception | None = None
_start = threading.RLock()


def _new_tier_up_thread() -> TierUpThread:
    return TierUpThread(lambda kernel: _cache().improve_later(kernel), lambda: _cache().last_used)


_tier_up_thread = _new_tier_up_thread()


def _before_fork() -> None:
    """Take all locks: one that another thread holds during a fork stays locked in the child.

    Threads that compile have left the gate of the helpers before.
    """
    for lock in _locks():
        fork.hold(lock)


def _after_fork() -> None:
    for lock in reversed(_locks()):
        fork.let_go(lock)


def _locks() -> list[Any]:
    """Return the locks that protect kernels, in the order in which threads take them."""
    # threads that end free LLVM memory without passing the gate
    own = [] if _kernels is None else [_kernels.lock]
    return [_start, *own, *compiler.locks()]


def _after_fork_in_child() -> None:
    global _tier_up_thread
    # a child has none of the parent's threads
    _tier_up_thread = _new_tier_up_thread()
    if _kernels is not None:
        _kernels.objects.forget_pending()
    _after_fork()


fork.register("compiler", before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
# no thread may compile while LLVM's library is being unloaded
atexit.register(lambda: _tier_up_thread.stop())


def available() -> bool:
    """Return whether kernels can be compiled; warn at the first call if not."""
    if _kernels is not None or _missing is not None:
        return _kernels is not None
    run_apart(_start_compiler)
    return _kernels is not None


def _start_compiler() -> None:
    """Make the kernel cache, unless another thread has done so."""
    global _kernels
    with _start:
        if _kernels is None and _missing is None:
            try:
                if not pointers.are_usable():
                    raise OSError("machine code cannot be called by its address")
                _kernels = _KernelCache()
                settings.fix("cpu_level", "the compiler has started; change it before the first value is computed")
            # llvmlite's shared library cannot be loaded, or LLVM does not know the processor
            except (ImportError, OSError, RuntimeError) as error:
                disable_compiler(error)


def disable_compiler(error: Exception) -> None:
    """Evaluate with NumPy from now on, and warn that the compiler is missing."""
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
    """Return the kernels of some structures, given the chunks of work of each."""
    return _cache().known(wanted) or run_apart(lambda: _cache().kernels(wanted))


def kernel(structure: Written) -> Kernel:
    """Return the kernel of a structure."""
    return kernels({structure: 0})[structure]


def linked(loop: Written, by_text: bool = True) -> int | None:
    """Return the address of a loop that the package brings along; None if it has to be compiled.

    It is valid as long as the process lives. ``by_text`` says whether to write its text, if nothing else finds it.
    """
    objects = _cache().objects
    found = objects.linked(loop)
    if found is None and by_text:
        found = run_apart(lambda: objects.linked(loop, by_text=True))
    if found is not None:
        statistics.kernels_loaded += 1
    return found


def load_kernels(wanted: Sequence[tuple[str, int]]) -> list[Kernel] | None:
    """Return kernels by the keys of their files, given the chunks of work of each; None if one is missing."""
    cache = _cache()
    # a helper takes 0.1 ms, and plans for other extents have the kernels of those before
    return cache.loaded(wanted) or run_apart(lambda: cache.load(wanted))


def precompile(structure: Written, work: int) -> None:
    """Start to compile a kernel with some chunks of work in another thread, because a plan will need it.

    A plan for any extents (:mod:`phonograd.core.plan.any_extents`) has the kernels of another plan.
    """
    if is_tracing():
        return
    run_apart(lambda: _cache().precompile(structure, work))


def precompile_module(write: Callable[..., str], arguments: tuple[Any, ...]) -> None:
    """Start to compile a module quickly in another thread; see :func:`compile_module`."""
    run_apart(lambda: _cache().objects.precompile_module(write, arguments))


def preload() -> None:
    """Start to load the compiler in another thread, because kernels will be compiled."""
    _cache().objects.preload()


def tier_up(some: Iterable[Kernel]) -> None:
    """Queue the quickly compiled ones among some kernels for tier-up in the background thread."""
    improvable = [kernel for kernel in some if kernel.improvable]
    if improvable:
        _tier_up_thread.submit(improvable)


def compile_elsewhere(compile_in_full: Callable[[str], bool | None]) -> None:
    """Have another process compile kernels in full, by a function that gets the key of one on disk.

    It returns whether the code is on disk. If not, a thread compiles; if it is None, nobody does.
    """
    _cache().elsewhere = compile_in_full


def compile_in_full(key: str) -> bool:
    """Compile a kernel on disk in full, given its key; return whether the code is on disk."""
    objects = _cache().objects
    return objects.load(key, quick=False) is not None or objects.compile_in_full(key, None) is not None


def left_to_compile_in_full(at_end: bool = False) -> list[str]:
    """Return the keys of what this process has compiled quickly, for :func:`compile_in_full`.

    At the end of a program, these are only the kernels that are queued for tier-up.
    """
    cache = _cache()
    quick = _tier_up_thread.left() if at_end else [each for each in cache._kernels.values() if each.improvable]
    return [*cache.objects.take_quick_modules(), *[kernel.key for kernel in quick if kernel.key is not None]]


def wait_for_tier_up() -> None:
    """Block until all queued tier-up compilations finish."""
    run_apart(_tier_up_thread.finish)


def compile_text(text: str, name: str, quick: bool = False) -> Kernel:
    """Return the compiled function of a module given as text; see :func:`compile_module`."""
    return compile_module(_identity, (text,), name, quick)


def _identity(text: str) -> str:
    return text


def compile_module(
    write: Callable[..., str], arguments: tuple[Any, ...], name: str, quick: bool = False, described: bool = False
) -> Kernel:
    """Return the compiled function of the module that a function of the library writes, given plain values.

    ``write`` is called only if the machine code for these values is not on disk. ``quick`` is for code whose speed
    hardly matters: it does not tier up in this process. ``described`` says that the arguments have digests of sources
    (:meth:`~phonograd.core.run.objects.ObjectCache.described_module`).
    """
    return run_apart(lambda: _cache().compile(write, arguments, name, quick, described))


def has_prebuilt_module(write: Callable[..., str], arguments: tuple[Any, ...]) -> bool:
    """Return whether the package brings along the code of a module, by what ``write`` is given."""
    return run_apart(lambda: _cache().objects.described_module(write, arguments) is not None)


def finish_keeping() -> None:
    """Wait until the code of all kernels is on disk that is to be stored there."""
    if _kernels is not None:
        _kernels.objects.finish_keeping()


def disk_cache() -> DiskCache | None:
    """Return the disk cache of machine code and plans; None if the settings turn it off."""
    objects = _cache().objects
    return objects.disk_cache() if objects.has_opened_disk_cache() else run_apart(objects.disk_cache)


def description() -> Description:
    """Return the versions of the compiler and the features of the processor."""
    objects = _cache().objects
    # planners ask many times for each graph, and a helper takes 0.1 ms
    return objects.known_description or run_apart(objects.description)


def _cache() -> _KernelCache:
    if not available():
        raise RuntimeError("kernels cannot be compiled without llvmlite")
    assert _kernels is not None
    return _kernels
