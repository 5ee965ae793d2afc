"""The driver: one native call that runs a row of kernels.

A row is a *record* ``{address of the regions, number of regions, number of arrays, where the team is found, whether
there is much to do, which array is told of the end (or -1)}``. A *region* is ``{address of its launches, number of
launches, number of chunks, time that the team needs}``: launches that do not depend on each other. Each launch is
``{where the address of the kernel stands, address of its table, extent of its range, size of a chunk, number of
chunks}``. A region of more than one chunk is shared out by the :mod:`~phonograd.core.run.thread_pool`, which keeps that
time. Nothing else in records and tables ever changes; what changes from run to run are the arrays, which are passed as
one Python tuple, or found by :mod:`~phonograd.core.run.launcher`.

The driver reads the data addresses of arrays out of the objects themselves: asking NumPy for an address takes 2.6
microseconds, more than most rows need to run. Where Python's objects turn out not to lie as expected (this is checked
when the driver is made), the addresses are asked for after all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import fork
from ..base.dtypes import DType
from ..graph.node import Shape
from ..graph.operator import Array
from ..lower.ir.function_builder import FunctionBuilder, Index, Value
from . import launcher, object_layout, pointers, thread_pool
from .kernel_cache import Kernel, available, compile_module, expect_module, statistics
from .launcher import Launching
from .object_layout import items
from .thread_pool_words import LAUNCH_WORDS, MOST_CHUNKS, MUCH_WORK, PARALLEL, REGION_WORDS, SUMMON

__all__ = ["Row", "can_launch", "driver_text", "expect", "prepare"]

#: what the text of the driver is written with
_ARGUMENTS = "driver", object_layout.DATA


def driver_text(name: str, data_offset: int) -> str:
    """Return the text of the driver::

    define void @name(ptr %record, ptr %objects)
        if there is much work and a team:
            call void %summon(ptr %team)
        for every object:
            bases[k] = load ptr, objects[k] + data_offset
        for every region:
            if chunks > 1 and there is a team:
                call void %parallel(ptr %team, ptr %region, ptr %bases)
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
    team = f.load_word(f.load_word("%record", "3", "ptr"), "0", "ptr")
    company = f.assign(f"icmp ne ptr {team}, null")
    bases = f.assign(f"alloca i64, i64 {object_count}, align 8")

    def summon() -> tuple[()]:
        f.line(f"call void {f.load_word(team, str(SUMMON), 'ptr')}(ptr {team})")
        return ()

    much = f.assign(f"icmp ne i64 {f.load_word('%record', '4')}, 0")
    f.choose(f.assign(f"and i1 {much}, {company}"), summon, tuple)

    def resolve(index: Index, _: list[Value]) -> tuple[()]:
        data = f.address(f.load_word("%objects", index, "ptr"), str(data_offset), "i8")
        f.store_word(bases, index, f.load_word(data, "0", "ptr"), "ptr")
        return ()

    def region(index: Index, _: list[Value]) -> tuple[()]:
        place = f.address(regions, f.times(index, str(REGION_WORDS)), "i64")
        launches = f.load_word(place, "0", "ptr")
        count, chunks = f.load_word(place, "1"), f.load_word(place, "2")

        def together() -> tuple[()]:
            parallel = f.load_word(team, str(PARALLEL), "ptr")
            f.line(f"call void {parallel}(ptr {team}, ptr {place}, ptr {bases})")
            return ()

        def launch(number: Index, _: list[Value]) -> tuple[()]:
            entry = f.address(launches, f.times(number, str(LAUNCH_WORDS)), "i64")
            # kernels are exchanged for better ones while rows exist: a launch names the word with the address
            kernel = f.load_word(f.load_word(entry, "0", "ptr"), "0", "ptr")
            table, extent = f.load_word(entry, "1", "ptr"), f.load_word(entry, "2")
            f.line(f"call void {kernel}(ptr {table}, ptr {bases}, i64 0, i64 {extent})")
            return ()

        def alone() -> tuple[()]:
            f.loop("0", count, "1", (), launch)
            return ()

        several = f.assign(f"icmp sgt i64 {chunks}, 1")
        f.choose(f.assign(f"and i1 {several}, {company}"), together, alone)
        return ()

    f.loop("0", object_count, "1", (), resolve)
    f.loop("0", region_count, "1", (), region)
    flag = f.load_word("%record", "5")

    def tell() -> tuple[()]:
        f.store_word(f.load_word(bases, flag, "ptr"), "0", "1")
        return ()

    f.choose(f.assign(f"icmp sge i64 {flag}, 0"), tell, tuple)
    return f.text()


class _Driver:
    """The compiled driver and how arrays are passed to it."""

    def __init__(self) -> None:
        # its loops take a thousandth of what the kernels take that they call
        self._kernel = compile_module(driver_text, _ARGUMENTS, "driver", quick=True)
        self.call = pointers.foreign_function(self._kernel.address, "nothing", "address", "address")
        self.direct = object_layout.are_readable()
        #: makes functions of rows, where that is possible
        self.launching = Launching(self._kernel.address) if launcher.possible() else None

    def call_indirectly(self, record: int, arrays: tuple[Array, ...]) -> None:
        """Run a row with addresses that NumPy was asked for, laid out as objects are."""
        data = np.array([pointers.address(array) for array in arrays], np.int64)
        places = pointers.address(data) - object_layout.DATA + 8 * np.arange(len(arrays))
        self.call(record, pointers.address(places))


_driver: _Driver | None = None
_start = threading.Lock()


def _after_fork() -> None:
    """Forget a lock that another thread may have held: a child has only the thread that forked."""
    global _start
    _start = threading.Lock()


fork.register("driver of kernels", after_in_child=_after_fork)


def _started() -> _Driver:
    global _driver
    if _driver is None:
        with _start:
            if _driver is None:
                _driver = _Driver()
    return _driver


def expect() -> None:
    """Have what every program needs compiled by another thread, if nothing has run yet."""
    if _driver is None and available():
        expect_module(driver_text, _ARGUMENTS)
        launcher.expect()
        thread_pool.expect()


def can_launch() -> bool:
    """Return whether rows can be functions of machine code."""
    driver = _started()
    return driver.direct and driver.launching is not None


def prepare() -> None:
    """Count a native call, and have a team for it."""
    statistics.native_calls += 1
    if thread_pool.stale:
        thread_pool.renew()


class Row:
    """Kernels that run one after the other in one native call, each with its table and range.

    Parameters
    ----------
    launches
        For each launch the kernel, the words of its table, the extent of its range, and the size of a chunk of it.
    arrays
        How many arrays the tables speak of.
    regions
        How many launches follow each other that do not depend on each other, again and again; by default each launch
        depends on the one before.
    flag
        The number of the array whose first word is set to 1 when everything is done.
    """

    __slots__ = ("_direct", "_driver", "_keep", "_record")

    def __init__(
        self,
        launches: list[tuple[Kernel, list[int], int, int]],
        arrays: int,
        regions: Sequence[int] | None = None,
        flag: int = -1,
    ) -> None:
        driver = _started()
        words = np.array([word for _, table, _, _ in launches for word in table], np.int64)
        start, entries, counts = pointers.address(words), list[int](), list[int]()
        for kernel, table, extent, chunk in launches:
            chunk = max(chunk, -(-extent // MOST_CHUNKS))
            counts.append(-(-extent // chunk))
            entries += [kernel.cell, start, extent, chunk, counts[-1]]
            start += 8 * len(table)
        entry_words = np.array(entries, np.int64)
        place, first, region_list, shared = pointers.address(entry_words), 0, list[int](), 0
        for size in regions if regions is not None else [1] * len(launches):
            chunks = sum(counts[first : first + size])
            # what is less than one chunk altogether is not worth sharing
            if chunks > 1 and sum([extent / chunk for _, _, extent, chunk in launches[first : first + size]]) < 1:
                chunks = 1
            region_list += [place, size, chunks, 0]
            shared += chunks if chunks > 1 else 0
            place += 8 * LAUNCH_WORDS * size
            first += size
        assert first == len(launches), regions
        region_words = np.array(region_list, np.int64)
        record = [
            pointers.address(region_words),
            len(region_list) // REGION_WORDS,
            arrays,
            pointers.address(thread_pool.CELL),
        ]
        record_words = np.array([*record, int(shared >= MUCH_WORK), flag], np.int64)
        #: what the addresses below point into
        self._keep: tuple[Any, ...] = (
            words,
            entry_words,
            region_words,
            record_words,
            [kernel for kernel, *_ in launches],
        )
        self._record: int = pointers.address(record_words)
        self._driver = driver
        self._direct = driver.direct

    def launcher(
        self, slots: Sequence[int], made: Sequence[tuple[int, Shape, DType]], room: int
    ) -> Callable[[list[Any]], bool] | None:
        """Return a function that runs the kernels with arrays in some slots of a list; None if there is none here.

        It makes some arrays first (slot, shape, dtype), and has an arena of so many bytes on the stack, if any. It
        returns False, before any kernel has run, if one of the arrays is not contiguous. It is good as long as the row
        is there, and :func:`prepare` must have been called.
        """
        if not self._direct or self._driver.launching is None:
            return None
        function, kept = self._driver.launching.function(self._record, slots, made, room)
        self._keep += (kept,)
        return function

    def run(self, arrays: tuple[Array, ...]) -> None:
        """Run the kernels on arrays; other threads can run meanwhile."""
        prepare()
        # the caller holds the tuple, and the tuple the arrays, until the call returns
        if self._direct:
            self._driver.call(self._record, items(arrays))
        else:
            self._driver.call_indirectly(self._record, arrays)
