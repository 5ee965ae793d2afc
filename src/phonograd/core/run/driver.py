"""The driver: one native call that runs a row of launches.

Takes launches from :mod:`~phonograd.core.run.program`. A row is a *record* ``{address of the regions, number of
regions, number of arrays, address of the pool's cell, whether there is much work, number of the array whose first word
is the flag (or -1)}``. A *region* is ``{address of its launches, number of launches, number of chunks, shortest
time}``: launches that do not depend on each other. A launch is ``{address of the kernel's cell, address of its table,
extent of its range, size of a chunk, number of chunks}``. The :mod:`~phonograd.core.run.thread_pool` shares out a
region of more than one chunk, and updates its shortest time. Nothing else in records and tables changes. Only the
arrays change from run to run: they are passed as one Python tuple, or found by :mod:`~phonograd.core.run.launcher`.

The driver reads the data addresses of arrays directly from the objects: asking NumPy takes 2.6 microseconds each, more
than most rows take to run. A self-test checks the layout of these objects; if it fails, NumPy is asked.
"""

from __future__ import annotations

import functools
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import fork, processor
from ..base.dtypes import DType
from ..base.hot import hot, slotted
from ..graph.node import Shape
from ..graph.operator import Array
from ..lower.ir.function_builder import FunctionBuilder, Index, Value
from . import launcher, object_layout, pointers, shared_loop, single_launch, thread_pool
from .kernel_cache import Kernel, available, compile_module, precompile_module, statistics
from .launcher import Launcher
from .object_layout import items
from .single_launch import SingleLauncher
from .thread_pool_words import LAUNCH_WORDS, MOST_CHUNKS, MUCH_WORK, PARALLEL, REGION_WORDS, SUMMON

__all__ = ["Row", "SizedLaunch", "address", "can_launch", "driver_text", "precompile", "prepare"]

#: arguments of :func:`driver_text`
_ARGUMENTS = "driver", object_layout.DATA


def driver_text(name: str, data_offset: int) -> str:
    """Return the text of the driver::

    define void @name(ptr %record, ptr %objects)
        if there is much work and a pool:
            call void %summon(ptr %pool)
        for every object:
            bases[k] = load ptr, objects[k] + data_offset
        for every region:
            if chunks > 1 and there is a pool:
                call void %parallel(ptr %pool, ptr %region, ptr %bases)
            else:
                for every launch:
                    call void %kernel(ptr %table, ptr %bases, i64 0, i64 %extent)
        if there is a flag:
            *bases[flag] = 1
    """
    f = FunctionBuilder(name, "ptr %record, ptr %objects")
    regions = f.load_word("%record", "0", "ptr")
    region_count = f.load_word("%record", "1")
    object_count = f.load_word("%record", "2")
    pool = f.load_word(f.load_word("%record", "3", "ptr"), "0", "ptr")
    has_pool = f.assign(f"icmp ne ptr {pool}, null")
    bases = f.assign(f"alloca i64, i64 {object_count}, align 8")

    def summon() -> tuple[()]:
        f.line(f"call void {f.load_word(pool, str(SUMMON), 'ptr')}(ptr {pool})")
        return ()

    much = f.assign(f"icmp ne i64 {f.load_word('%record', '4')}, 0")
    f.choose(f.assign(f"and i1 {much}, {has_pool}"), summon, tuple)

    def resolve(index: Index, _: list[Value]) -> tuple[()]:
        data = f.address(f.load_word("%objects", index, "ptr"), str(data_offset), "i8")
        f.store_word(bases, index, f.load_word(data, "0", "ptr"), "ptr")
        return ()

    def region(index: Index, _: list[Value]) -> tuple[()]:
        place = f.address(regions, f.times(index, str(REGION_WORDS)), "i64")
        launches = f.load_word(place, "0", "ptr")
        count, chunks = f.load_word(place, "1"), f.load_word(place, "2")

        def run_shared() -> tuple[()]:
            parallel = f.load_word(pool, str(PARALLEL), "ptr")
            f.line(f"call void {parallel}(ptr {pool}, ptr {place}, ptr {bases})")
            return ()

        def launch(number: Index, _: list[Value]) -> tuple[()]:
            entry = f.address(launches, f.times(number, str(LAUNCH_WORDS)), "i64")
            # tier-up exchanges kernels while rows exist, so a launch refers to the cell with the address
            kernel = f.load_word(f.load_word(entry, "0", "ptr"), "0", "ptr")
            table, extent = f.load_word(entry, "1", "ptr"), f.load_word(entry, "2")
            f.line(f"call void {kernel}(ptr {table}, ptr {bases}, i64 0, i64 {extent})")
            return ()

        def run_alone() -> tuple[()]:
            f.loop("0", count, "1", (), launch)
            return ()

        several = f.assign(f"icmp sgt i64 {chunks}, 1")
        f.choose(f.assign(f"and i1 {several}, {has_pool}"), run_shared, run_alone)
        return ()

    f.loop("0", object_count, "1", (), resolve)
    f.loop("0", region_count, "1", (), region)
    flag = f.load_word("%record", "5")

    def set_flag() -> tuple[()]:
        f.store_word(f.load_word(bases, flag, "ptr"), "0", "1")
        return ()

    f.choose(f.assign(f"icmp sge i64 {flag}, 0"), set_flag, tuple)
    return f.text()


class _Driver:
    """The compiled driver, and the way arrays are passed to it."""

    def __init__(self) -> None:
        # quickly: its loops take a thousandth of the time of the kernels
        self._kernel = compile_module(driver_text, _ARGUMENTS, "driver", quick=True)
        self.address = self._kernel.address
        self.call = pointers.foreign_function(self._kernel.address, "nothing", "address", "address")
        self.reads_addresses = object_layout.can_read_addresses()
        #: makes Python functions of rows; None if this is not supported
        self.launcher = Launcher(self._kernel.address) if launcher.is_supported() else None
        #: makes Python functions of kernels, likewise
        self.single_launcher = SingleLauncher() if self.reads_addresses and launcher.is_supported() else None

    def call_indirectly(self, record: int, arrays: tuple[Array, ...]) -> None:
        """Run a row with addresses from NumPy, in memory laid out like array objects."""
        data = np.array([pointers.address(array) for array in arrays], np.int64)
        places = pointers.address(data) - _ARGUMENTS[1] + 8 * np.arange(len(arrays))
        self.call(record, pointers.address(places))


_driver: _Driver | None = None
_start = threading.Lock()


def _after_fork() -> None:
    """Replace the lock: a thread of the parent may hold the old one."""
    global _start
    _start = threading.Lock()


fork.register("driver of kernels", after_in_child=_after_fork)


def _get_driver() -> _Driver:
    global _driver
    if _driver is None:
        with _start:
            if _driver is None:
                _driver = _Driver()
    return _driver


def precompile() -> None:
    """Start to compile the functions that every program needs in another thread, unless a program has run."""
    if _driver is None and available():
        precompile_module(driver_text, _ARGUMENTS)
        launcher.precompile()
        single_launch.precompile()
        shared_loop.precompile()
        thread_pool.precompile()


def can_launch() -> bool:
    """Return whether rows can be Python functions of machine code."""
    driver = _get_driver()
    return driver.reads_addresses and driver.launcher is not None


def address() -> int:
    """Return the address of the driver."""
    return _get_driver().address


@hot
def prepare() -> None:
    """Count a native call, and start the thread pool if it is stale."""
    statistics.native_calls += 1
    if thread_pool.stale:
        thread_pool.renew()


@hot
def _has_one_thread() -> bool:
    """Return whether no thread pool runs, and none would be started."""
    return not thread_pool.stale and thread_pool.CELL[0] == 0


#: words of the record of a row, before its regions
_RECORD_WORDS = 6
#: words of a row of one launch, before the table
_ONE_WORDS = _RECORD_WORDS + REGION_WORDS + LAUNCH_WORDS


@functools.cache
def _packer(words: int) -> struct.Struct:
    return struct.Struct(f"{words}q")


@functools.cache
def _cell_address() -> int:
    return pointers.address(thread_pool.CELL)


@hot
def _scaled(chunk: int, extent: int) -> int:
    """Return the size of a chunk on this processor; any size that is a multiple of 64 if the given one is."""
    scale = processor.choices().chunk_scale
    if scale != 1.0:
        chunk = _scaled_by(chunk, scale)
    return chunk if chunk * MOST_CHUNKS >= extent else -(-extent // MOST_CHUNKS)


def _scaled_by(chunk: int, scale: float) -> int:
    # random numbers are drawn for groups of 64 elements
    unit = 1 if chunk % 64 else 64
    return max(1, int(chunk * scale) // unit) * unit


@slotted
class Row:
    """Launches that run one after the other in one native call.

    Parameters
    ----------
    launches
        The kernel of each launch, the words of its table, the extent of its range, and the size of a chunk.
    arrays
        The number of arrays that the tables refer to.
    regions
        The numbers of consecutive launches that do not depend on each other; by default each launch depends on the
        one before.
    flag
        The number of the array whose first word is set to 1 at the end.
    """

    __slots__ = ("_driver", "_keep", "_reads_addresses", "record")

    def __init__(
        self,
        launches: list[tuple[Kernel, list[int], int, int]],
        arrays: int,
        regions: Sequence[int] | None = None,
        flag: int = -1,
    ) -> None:
        driver = _get_driver()
        sizes = list(regions) if regions is not None else [1] * len(launches)
        assert sum(sizes) == len(launches), regions
        count = _RECORD_WORDS + REGION_WORDS * len(sizes) + LAUNCH_WORDS * len(launches)
        words = np.empty(count + sum([len(table) for _, table, _, _ in launches]), np.int64)
        #: keeps the memory behind the addresses alive
        self._keep: tuple[Any, ...] = (words, [kernel for kernel, *_ in launches])
        self.record: int = pointers.address(words)
        self._driver = driver
        self._reads_addresses = driver.reads_addresses
        self.write(launches, arrays, sizes, flag)

    @hot
    def write(
        self, launches: Sequence[tuple[Kernel, list[int], int, int]], arrays: int, sizes: Sequence[int], flag: int
    ) -> None:
        """Write the words of the row: launches of the same kernels as before, in as many regions."""
        words, start = self._keep[0], self.record
        # one array holds the record, the regions, the launches and their tables, in this order
        place = start + 8 * (_RECORD_WORDS + REGION_WORDS * len(sizes))
        table_start = place + 8 * LAUNCH_WORDS * len(launches)
        scale = processor.choices().chunk_scale
        regions: Any = []
        entries: Any = []
        tables: Any = []
        first = shared = 0
        for size in sizes:
            count, work = 0, 0.0
            for kernel, table, extent, chunk in launches[first : first + size]:
                own = _scaled(chunk, extent)
                chunks = -(-extent // own)
                entries += (kernel.cell, table_start, extent, own, chunks)
                tables += table
                table_start += 8 * len(table)
                count += chunks
                work += extent / chunk
            # less than one chunk in total is not worth sharing
            if count > 1 and work < scale:
                count = 1
            regions += (place, size, count, 0)
            if count > 1:
                shared += count
            place += 8 * LAUNCH_WORDS * size
            first += size
        content = [words, 0, start + 8 * _RECORD_WORDS, len(sizes), arrays, _cell_address()]
        content += (1 if shared >= MUCH_WORK else 0, flag)
        content += regions
        content += entries
        content += tables
        write = _packer(len(words)).pack_into
        write(*content)

    @classmethod
    def of_one(
        cls, kernel: Kernel, table: Sequence[int], extent: int, chunk: int, arrays: int, is_much: bool = False
    ) -> Row:
        """Return a row of one launch, as the general way makes it in twice the time."""
        words = np.empty(_ONE_WORDS + len(table), np.int64)
        row = cls.__new__(cls)
        row._keep, row.record, row._driver = (words, [kernel]), pointers.address(words), _get_driver()
        row._reads_addresses = row._driver.reads_addresses
        row._write_one(table, extent, chunk, arrays, is_much)
        return row

    @hot
    def _write_one(self, table: Sequence[int], extent: int, chunk: int, arrays: int, is_much: bool) -> None:
        """Write the words of a row of one launch; if it ``is_much``, workers wake up for a few long chunks, too."""
        words, kernels = self._keep
        start = self.record
        chunks = extent
        if extent > 1:
            chunk = _scaled(chunk, extent)
            chunks = -(-extent // chunk)
        is_shared = 1 if is_much or chunks >= MUCH_WORK else 0
        content = [words, 0, start + 8 * _RECORD_WORDS, 1, arrays, _cell_address(), is_shared, -1]
        content += (start + 8 * (_RECORD_WORDS + REGION_WORDS), 1, chunks, 0)
        content += (kernels[0].cell, start + 8 * _ONE_WORDS, extent, chunk, chunks)
        content += table
        # a fifth of the time of an assignment to the array
        write = _packer(len(words)).pack_into
        write(*content)

    def launcher(
        self, slots: Sequence[int], made: Sequence[tuple[int, Shape, DType]], room: int
    ) -> Callable[[list[Any]], bool] | None:
        """Return a function that runs the row with the arrays in some slots of a list; None if not supported.

        The function first makes the arrays of ``made`` (slot, shape, dtype), and puts an arena of ``room`` bytes on
        the stack. It returns False, before any kernel has run, if one of the arrays is not contiguous. It is valid as
        long as the row lives. The caller calls :func:`prepare` first.
        """
        if not self._reads_addresses or self._driver.launcher is None:
            return None
        function, kept = self._driver.launcher.function(self.record, slots, made, room)
        self._keep += (kept,)
        return function

    @hot
    def run(self, arrays: tuple[Array, ...]) -> None:
        """Run the launches on arrays; other Python threads can run meanwhile."""
        prepare()
        # the caller holds the tuple, and the tuple the arrays, until the call returns
        if self._reads_addresses:
            self._driver.call(self.record, items(arrays))
        else:
            self._driver.call_indirectly(self.record, arrays)


@slotted
class SizedRow:
    """Launches of the same kernels whose sizes are given with each run. Several threads may run it at once."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        #: a row that no thread is running, under the number 0: it is taken out, and put back, in one step each
        self._free: dict[int, Row] = {}

    @hot
    def run(
        self, launches: list[tuple[Kernel, list[int], int, int]], regions: Sequence[int], arrays: tuple[Array, ...]
    ) -> None:
        """Run launches on arrays; there are as many regions as in earlier runs."""
        row = self._free.pop(0, None)
        if row is None:
            row = Row(launches, len(arrays), regions)
        else:
            row.write(launches, len(arrays), regions, -1)
        row.run(arrays)
        self._free[0] = row


@slotted
class SizedLaunch:
    """A launch of one kernel whose sizes are given with each run. Several threads may run it at once."""

    __slots__ = ("_alone", "_arrays", "_free", "kernel")

    def __init__(self, kernel: Kernel, arrays: int) -> None:
        self.kernel = kernel
        self._arrays = arrays
        #: a row that no thread is running, under the number 0: it is taken out, and put back, in one step each
        self._free: dict[int, Row] = {}
        single = _get_driver().single_launcher
        #: runs the kernel in this thread; None if rows do
        self._alone = None if single is None else single.function(kernel.cell)

    @hot
    def run(self, table: tuple[int, ...], extent: int, chunk: int, arrays: tuple[Array, ...], is_much: bool) -> None:
        """Run the kernel, given the words of its table, the extent of its range, and the size of a chunk.

        ``is_much`` says that the work is worth waking up other threads, however few its chunks are.
        """
        alone = self._alone
        if alone is not None and ((extent <= chunk and not is_much) or _has_one_thread()):
            statistics.native_calls += 1
            alone((table, extent, arrays))
            return
        row = self._free.pop(0, None)
        if row is None:
            row = Row.of_one(self.kernel, table, extent, chunk, self._arrays, is_much)
        else:
            row._write_one(table, extent, chunk, self._arrays, is_much)
        row.run(arrays)
        self._free[0] = row
