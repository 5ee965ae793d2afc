"""The memory of plans: the layout of arenas, and the pool that arenas and results come from.

:func:`arrange` decides once per plan where each intermediate value is in the *arena*. Values with disjoint lifetimes
share a place, and a value may take the place of one of its operands.

:func:`allocate` makes the arrays that plans return, and :func:`take` makes arenas. Larger ones are *blocks* of a pool:
when the last array on a block is freed, the block waits for the next request of its size. So the second iteration of a
loop takes no memory from the system: a page fault costs more than most kernels take to fill the page. Blocks begin at
multiples of 64 bytes. ``settings.spare_bytes`` bounds the waiting memory; the least recently requested sizes are freed
first. Waiting memory returns to the system

* when a model is dropped: the memory in use falls far below the least of the last seconds, as it does in no loop,
* when a block has waited for some seconds in which others of its size sufficed,
* when a new block would make the pool larger than the most memory that was in use at one time, and some slack,
* and when the user asks for it (:meth:`phonograd.Context.empty_cache`).
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import heapq
import itertools
import math
import mmap
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import fork, settings
from ..base.dtypes import DType
from ..base.hot import hot, slotted
from ..graph.node import Shape
from ..graph.operator import Array
from ..kernels.launch import align_up
from .pointers import address, system_function

__all__ = [
    "Lifetime",
    "Pool",
    "allocate",
    "arrange",
    "budget_bytes",
    "is_block",
    "is_pages",
    "keep_freed_pages",
    "new_pages",
    "pool",
    "room_for",
    "take",
]

ALIGNMENT = 64
#: NumPy allocates smaller arrays: a block costs 1.3 us more, a quarter of the time to fill it
SMALLEST_BLOCK = 1 << 16
#: how long blocks must have waited, and for how long the least memory in use is noted: at first, and at most. It grows
#: when blocks were freed too early, because the steps of a loop take longer
WINDOW_SECONDS, LONGEST_WINDOW_SECONDS = 0.1, 60.0
#: windows without that after which it shrinks
CALM_WINDOWS = 16
#: a model was dropped if the memory in use falls to this part of its least in the window before; less is not looked at
DROPPED_PART, LEAST_DROPPED_BYTES = 1 / 4, 1 << 24
#: blocks from this size on are pages of their own, which return to the system at once. In the C library's memory they
#: left gaps: 40 to 100 MB in training steps of the README's models
LEAST_MAPPED_BYTES = 1 << 18
#: larger ones ask for large pages, as arrays of NumPy do
LEAST_HUGE_BYTES = 1 << 22
#: seconds after a plan has taken over until the memory of freed temporary values is returned: steps ran meanwhile
TRIM_SECONDS = 1.0
#: memory that may wait beyond the most that was in use at one time, before steps of a loop show that they need more,
#: and how often a freed size must be requested again for that: single operators request each size for several layers
LEAST_SLACK_BYTES, LEAST_REPETITIONS = 1 << 21, 3
#: the C library may keep twice as much freed memory
KEPT_BYTES = 1 << 24
#: arenas from this size on are laid out by the sizes of their values if they are not filled to this part in any step
LEAST_ARENA_WITH_GAPS, MOST_FILLED_PART = 1 << 24, 15 / 16
#: the number of values that are laid out by their sizes: a quadratic number of comparisons, about 10 ms
MOST_ARRANGED_BY_SIZE = 512


class Lifetime(NamedTuple):
    """The bytes of a value, and the first and last step that use them."""

    size: int
    first: int
    last: int
    over: int | None = None
    """The number of a value whose last step is the first one of this value, which can take its place."""


def arrange(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each value in an arena, and the size of the arena.

    A value takes the smallest free place that is large enough (best fit), in O(n log n) time. If a large arena has many
    gaps, the largest values are laid out first instead.

    >>> arrange([Lifetime(100, 0, 1), Lifetime(100, 1, 2), Lifetime(100, 2, 3)])
    ([0, 128, 0], 256)
    >>> arrange([Lifetime(100, 0, 1), Lifetime(100, 1, 2, over=0), Lifetime(100, 2, 3, over=1)])
    ([0, 0, 0], 128)
    """
    free = _Free()
    offsets, places = _arrange_in_order(lifetimes, free)
    if free.end < LEAST_ARENA_WITH_GAPS:
        return offsets, free.end
    spans: dict[int, Lifetime] = {}
    for place, each in zip(places, lifetimes, strict=True):
        known = spans.get(place, each)
        first, last = min(known.first, each.first), max(known.last, each.last)
        spans[place] = Lifetime(align_up(max(each.size, 1)), first, last)
    if free.end * MOST_FILLED_PART <= _most_at_once(spans.values()):
        return offsets, free.end
    found, end = _arrange_by_size(spans)
    return ([found[place] for place in places], end) if end < free.end else (offsets, free.end)


@hot
def _arrange_in_order(lifetimes: Sequence[Lifetime], free: _Free) -> tuple[list[int], list[int]]:
    """Return the offset of each value, and the number of the first value in its place, in the order of first steps."""
    count = len(lifetimes)
    offsets = [0] * count
    places = list(range(count))
    busy: list[tuple[int, int, int]] = []
    passed_on: Any = set()
    for first, index in sorted([(each.first, index) for index, each in enumerate(lifetimes)]):
        each = lifetimes[index]
        while busy and busy[0][0] < first:
            _, room, value = heapq.heappop(busy)
            if value not in passed_on:
                free.give(offsets[value], room)
        room = align_up(max(each.size, 1))
        over = each.over
        if over is not None and over not in passed_on and align_up(max(lifetimes[over].size, 1)) == room:
            passed_on.add(over)
            offsets[index] = offsets[over]
            places[index] = places[over]
        else:
            offsets[index] = free.take(room)
        heapq.heappush(busy, (each.last, room, index))
    return offsets, places


def _most_at_once(spans: Iterable[Lifetime]) -> int:
    """Return the greatest sum of the sizes of values that are in use in one step."""
    changes: dict[int, int] = {}
    for size, first, last, _ in spans:
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    return max(itertools.accumulate([changes[step] for step in sorted(changes)]), default=0)


def _arrange_by_size(spans: Mapping[int, Lifetime]) -> tuple[dict[int, int], int]:
    """Return offsets of values by their numbers, and the size of the arena.

    The largest values take the lowest place that is free as long as they need it, one after the other. The small ones
    are behind them, because the time is quadratic in the number of values.
    """
    ordered = sorted(spans, key=lambda place: -spans[place].size)
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[int, int] = {}
    for place in ordered[:MOST_ARRANGED_BY_SIZE]:
        size, first, last, _ = spans[place]
        offset = 0
        for start, stop, begin, end in placed:
            if begin <= last and first <= end:
                if start - offset >= size:
                    break
                offset = max(offset, stop)
        bisect.insort(placed, (offset, offset + size, first, last))
        offsets[place] = offset
    height = max([stop for _, stop, _, _ in placed], default=0)
    rest = ordered[MOST_ARRANGED_BY_SIZE:]
    others, more = arrange([spans[place] for place in rest])
    offsets.update({place: height + offset for place, offset in zip(rest, others, strict=True)})
    return offsets, height + more


@slotted
class _Free:
    """The free places of an arena during its layout. The arena grows if none is large enough."""

    __slots__ = ("_places", "_sizes", "_starts", "end")

    def __init__(self) -> None:
        #: (size, offset) of every free place, in order; neighbours are one place
        self._places: list[tuple[int, int]] = []
        #: sizes of places by their beginnings, and beginnings by their ends
        self._sizes: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self.end = 0

    @hot
    def take(self, size: int) -> int:
        """Reserve a place of a size and return its offset."""
        found = bisect.bisect_left(self._places, (size, 0))
        if found < len(self._places):
            room, offset = self._places[found]
            self._remove(offset, room)
            if room > size:
                self._add(offset + size, room - size)
            return offset
        # extend the free place at the end, if there is one
        offset = self._starts.get(self.end, self.end)
        if offset < self.end:
            self._remove(offset, self.end - offset)
        self.end = offset + size
        return offset

    @hot
    def give(self, offset: int, size: int) -> None:
        """Free a place."""
        following = self._sizes.get(offset + size)
        if following is not None:
            self._remove(offset + size, following)
            size += following
        before = self._starts.get(offset)
        if before is not None:
            self._remove(before, offset - before)
            size += offset - before
            offset = before
        self._add(offset, size)

    @hot
    def _add(self, offset: int, size: int) -> None:
        bisect.insort(self._places, (size, offset))
        self._sizes[offset] = size
        self._starts[offset + size] = offset

    @hot
    def _remove(self, offset: int, size: int) -> None:
        del self._places[bisect.bisect_left(self._places, (size, offset))]
        del self._sizes[offset], self._starts[offset + size]


def room_for(size: int) -> int:
    """Round a size up to one of eight steps between powers of two, and to the alignment.

    >>> room_for(0), room_for(100), room_for(1100)
    (64, 128, 1152)
    """
    size = size or 1
    unit = ALIGNMENT if size < 16 * ALIGNMENT else 1 << size.bit_length() - 4
    return -(-size // unit) * unit


class _Memory(np.ndarray[Any, Any]):
    """Bytes that a pool owns. A subclass, because the base of a view of plain arrays would be their owner."""

    __slots__ = ()


#: freed memory that the pool has not sorted in yet
_returned: deque[Any] = deque()


class _Block(np.ndarray[Any, Any]):
    """Bytes that are in use: the base of all arrays on them, freed with the last of these."""

    __slots__ = ()

    def __del__(self, returned: deque[Any] = _returned, is_late: Callable[[], bool] = sys.is_finalizing) -> None:
        # arrays may be freed at any moment, even while the pool changes, so this only appends the memory
        returned.append(self.base)
        # the next request sorts it in; much memory is sorted in now, because some may have to be freed
        if (self.nbytes >= 1 << 20 or len(returned) > 64) and not is_late():
            pool.sort_in()


def is_block(base: Any) -> bool:
    """Return whether the base of an array is a block of the pool."""
    return type(base) is _Block


class Pool:
    """Blocks of memory for reuse."""

    def __init__(self) -> None:
        self._free: OrderedDict[int, list[_Memory]] = OrderedDict()
        self._lock = threading.Lock()
        #: bytes of waiting blocks
        self.spare_bytes = 0
        #: bytes of blocks in use, and their maximum so far
        self.used_bytes = 0
        self.peak_bytes = 0
        #: number of blocks made because none was waiting
        self.blocks_made = 0
        #: seconds of a window, when the present one ends, the least memory in use in it, and in the one before
        self._window = WINDOW_SECONDS
        self._window_end = 0.0
        self._least_used = self._least_used_before = 0
        #: the least number of waiting blocks of each size in the present window
        self._least_waiting: dict[int, int] = {}
        #: numbers of blocks by size that were freed in this window or the one before, bytes of those that were made
        #: again since, and windows without any
        self._freed: dict[int, int] = {}
        self._made_again_bytes = self._calm_windows = 0
        #: the most memory in use since a model was dropped, the memory that may wait beyond it, numbers of blocks by
        #: size that were freed because of that, and how often they were requested again
        self._most_used = 0
        self._slack = LEAST_SLACK_BYTES
        self._evicted: dict[int, int] = {}
        self._repetitions: dict[int, int] = {}
        #: when the memory that the C library keeps is returned, and whether the next large block returns it as well
        self._trim_time = math.inf
        self._trims_for_block = False

    def after_fork(self) -> None:
        """Replace the lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def take(self, room: int, is_zero: bool = False) -> Array:
        """Return a block of a size that :func:`room_for` returned; it returns to the pool when it is freed.

        ``is_zero`` asks for bytes that are zero; others are undefined.
        """
        memory: _Memory | None = None
        with self._lock:
            if _returned:
                is_alike = len(_returned) == 1 and _returned[0].nbytes == room and not is_zero
                if is_alike and time.monotonic() <= self._window_end:
                    # a loop frees a result and makes the next one: its memory just stays in use
                    return _returned.popleft().view(_Block)  # type: ignore[no-any-return]
                self._sort_in()
            waiting = self._free.get(room)
            if waiting:
                self._free.move_to_end(room)
                memory = waiting.pop()
                self.spare_bytes -= room
                if len(waiting) < self._least_waiting.get(room, 0):
                    self._least_waiting[room] = len(waiting)
            self.used_bytes += room
            if self.used_bytes > self.peak_bytes:
                self.peak_bytes = self.used_bytes
            elif self._freed.get(room):
                self._freed[room] -= 1
                self._made_again_bytes += room
            if memory is None:
                self._make_room(room)
        if memory is not None and is_zero and room >= LEAST_MAPPED_BYTES:
            # new pages take no memory before they are written, which most gradients never are
            memory = None
        if memory is not None:
            if is_zero:
                memory.fill(0)
            return memory.view(_Block)
        limit = settings.active.memory_limit_bytes
        if limit and self.used_bytes + self.spare_bytes > limit:
            self.clear()
        try:
            return _new_block(room, is_zero)
        except MemoryError:
            with self._lock:
                self.used_bytes -= room
            raise MemoryError(f"there is no memory for {room} bytes") from None

    def _make_room(self, room: int) -> None:
        """Free waiting blocks if a new one makes the pool larger than the most memory that was in use at one time.

        So the memory of values of one kind does not wait while those of another kind are computed, such as results of
        single operators and the arena of the plan that takes over. A loop that needs both in turn takes freed sizes
        again, and may keep as much more.
        """
        if self._evicted.get(room):
            self._evicted[room] -= 1
            self._repetitions[room] = repetitions = self._repetitions.get(room, 0) + 1
            if repetitions >= LEAST_REPETITIONS:
                self._slack += room
        if self._trims_for_block and room >= LEAST_HUGE_BYTES:
            self._trims_for_block = False
            _trim()
        self._most_used = max(self._most_used, self.used_bytes)
        excess = self.used_bytes + self.spare_bytes - self._most_used - self._slack
        if excess <= 0:
            return
        counts: dict[int, int] = {}
        for size, waiting in self._free.items():
            count = min(len(waiting), -(-excess // size))
            if count > 0:
                counts[size] = count
                self._evicted[size] = self._evicted.get(size, 0) + count
                excess -= count * size
            if excess <= 0:
                break
        self._free_waiting(counts)

    def sort_in(self) -> None:
        """Make freed memory available, unless another thread is doing it."""
        # never waits: this thread may hold the lock itself, interrupted by the end of an array
        if self._lock.acquire(blocking=False):
            try:
                self._sort_in()
            finally:
                self._lock.release()

    def _sort_in(self) -> None:
        free = self._free
        while _returned:
            memory = _returned.popleft()
            room = memory.nbytes
            self.used_bytes -= room
            self.spare_bytes += room
            if room in free:
                free[room].append(memory)
            else:
                free[room] = [memory]
        if self.used_bytes < self._least_used:
            self._least_used = self.used_bytes
            if self.used_bytes <= DROPPED_PART * self._least_used_before >= LEAST_DROPPED_BYTES * DROPPED_PART:
                self._least_used_before = self._most_used = self.used_bytes
                self._slack, self._evicted, self._repetitions = LEAST_SLACK_BYTES, {}, {}
                self._free_waiting({room: len(waiting) for room, waiting in free.items()})
                _trim()
                return
        if time.monotonic() > self._window_end:
            self._begin_window()
        limit = settings.current().spare_bytes
        while self.spare_bytes > limit:
            room, waiting = next(iter(free.items()))
            if waiting:
                waiting.pop()
                self.spare_bytes -= room
            else:
                del free[room]

    def _begin_window(self) -> None:
        """Free the blocks that have waited for a whole window, and begin the next one."""
        if self._made_again_bytes >= LEAST_DROPPED_BYTES:
            self._window = min(4 * self._window, LONGEST_WINDOW_SECONDS)
            self._calm_windows = 0
        else:
            self._calm_windows += 1
            if self._calm_windows % CALM_WINDOWS == 0:
                self._window = max(self._window / 2, WINDOW_SECONDS)
        if time.monotonic() > self._trim_time:
            self._trim_time = math.inf
            _trim()
        self._freed, self._made_again_bytes = {}, 0
        self._free_waiting({room: least for room, least in self._least_waiting.items() if least})
        self._window_end = time.monotonic() + self._window
        self._least_used_before, self._least_used = self._least_used, self.used_bytes
        self._least_waiting = {room: len(waiting) for room, waiting in self._free.items() if waiting}

    def _free_waiting(self, counts: dict[int, int]) -> None:
        """Free waiting blocks, given how many of each size."""
        freed = 0
        for room, count in counts.items():
            waiting = self._free.get(room, [])
            # the last ones are taken first
            count = min(count, len(waiting))
            del waiting[:count]
            self._freed[room] = self._freed.get(room, 0) + count
            self._least_waiting[room] = len(waiting)
            freed += count * room
        self.spare_bytes -= freed

    def clear(self) -> None:
        """Free all waiting blocks."""
        with self._lock:
            self._sort_in()
            self._free_waiting({room: len(waiting) for room, waiting in self._free.items()})
            self._free.clear()
            _trim()

    def trim_soon(self) -> None:
        """Return what the C library keeps of freed arrays to the system: before the next large block, and later."""
        self._trim_time, self._trims_for_block = time.monotonic() + TRIM_SECONDS, True


@functools.cache
def _trimming() -> Callable[..., int] | None:
    try:
        return system_function("malloc_trim")
    except (AttributeError, OSError):
        # only the C library of GNU has it; others return large blocks anyway
        return None


def _trim() -> None:
    """Let the C library return the pages of freed blocks to the system: it keeps those of up to 32 MB."""
    trim = _trimming()
    if trim is not None:
        trim(0)


@functools.cache
def keep_freed_pages() -> None:
    """Let the C library keep the memory of freed arrays that NumPy makes, too, for the next ones.

    That of GNU returns what is freed at the end of its memory beyond twice the largest array that was freed so far, up
    to 32 MB. So the steps of an MLP that ran operator by operator took 360 new pages each, half of their time. An array
    that is never written takes no pages. If the user has set such limits (``MALLOC_TRIM_THRESHOLD_``), they stay.
    """
    with contextlib.suppress(MemoryError):
        np.empty(KEPT_BYTES, np.uint8)


def _new_block(room: int, is_zero: bool) -> Array:
    keep_freed_pages()
    pool.blocks_made += 1
    if is_zero or room >= LEAST_MAPPED_BYTES:
        # a process may have 65,530 mappings; the C library serves the rest
        with contextlib.suppress(OSError):
            return new_pages(room).view(_Memory).view(_Block)
    raw = np.zeros(room + ALIGNMENT, np.uint8) if is_zero else np.empty(room + ALIGNMENT, np.uint8)
    start = -address(raw) % ALIGNMENT
    return raw[start : start + room].view(_Memory).view(_Block)


class _Pages(mmap.mmap):
    """Pages that belong to one array."""

    __slots__ = ()


def new_pages(room: int) -> Array:
    """Return bytes on pages of their own: zeros, which take no memory before they are written."""
    pages = _Pages(-1, room, access=mmap.ACCESS_COPY)
    if room >= LEAST_HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def is_pages(base: object) -> bool:
    """Return whether the base of an array is memory that :func:`new_pages` made."""
    return type(base.obj if isinstance(base, memoryview) else base) is _Pages


#: the pool of this process
pool = Pool()
take = pool.take
fork.register("memory pool", after_in_child=pool.after_fork)


def budget_bytes(inputs: int) -> int | None:
    """Return how much memory an evaluation may take beside the arrays that exist; None if the settings set no limit.

    ``inputs`` are the bytes of its inputs, which may be in memory that other libraries made. The budget is rounded, so
    that plans for it are found again.
    """
    limit = settings.active.memory_limit_bytes
    if not limit:
        return None
    step = max(limit // 64, 1)
    return max(limit - max(pool.used_bytes, inputs), 0) // step * step


_EVERYWHERE = ...


@hot
def filled(shape: Shape, number: Any, dtype: DType) -> Array:
    """Return a new array with one number in all places."""
    size = math.prod(shape) * dtype.itemsize
    array = np.empty(shape, dtype) if size < SMALLEST_BLOCK else allocate(shape, dtype, room_for(size))
    array[_EVERYWHERE] = number
    return array


def allocate(shape: Shape, dtype: DType, room: int, is_zero: bool = False) -> Array:
    """Return an array of a size that :func:`room_for` returned: of zeros, or uninitialized."""
    if room < SMALLEST_BLOCK:
        return np.zeros(shape, dtype) if is_zero else np.empty(shape, dtype)
    return np.ndarray(shape, dtype, take(room, is_zero))
