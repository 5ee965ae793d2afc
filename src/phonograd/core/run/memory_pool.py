"""The memory of plans: the layout of arenas, and the pool that arenas and results come from.

:func:`arrange` decides once per plan where each intermediate value is in the *arena*. Values with disjoint lifetimes
share a place, and a value may take the place of one of its operands.

:func:`allocate` makes the arrays that plans return, and :func:`take` makes arenas. Larger ones are *blocks* of a pool:
when the last array on a block is freed, the block waits for the next request of its size. So the second iteration of a
loop takes no memory from the system: a page fault costs more than most kernels take to fill the page. Blocks begin at
multiples of 64 bytes. ``settings.spare_bytes`` bounds the waiting memory; the least recently requested sizes are freed
first.
"""

from __future__ import annotations

import bisect
import heapq
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import fork, settings
from ..base.dtypes import DType
from ..graph.node import Shape
from ..graph.operator import Array
from ..kernels.launch import align_up
from .pointers import address

__all__ = ["Lifetime", "Pool", "allocate", "arrange", "is_block", "pool", "room_for", "take"]

ALIGNMENT = 64
#: NumPy allocates smaller arrays: a block costs 1.3 us more, a quarter of the time to fill it
SMALLEST_BLOCK = 1 << 16


class Lifetime(NamedTuple):
    """The bytes of a value, and the first and last step that use them."""

    size: int
    first: int
    last: int
    over: int | None = None
    """The number of a value whose last step is the first one of this value, which can take its place."""


def arrange(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each value in an arena, and the size of the arena.

    A value takes the smallest free place that is large enough (best fit), in O(n log n) time.

    >>> arrange([Lifetime(100, 0, 1), Lifetime(100, 1, 2), Lifetime(100, 2, 3)])
    ([0, 128, 0], 256)
    >>> arrange([Lifetime(100, 0, 1), Lifetime(100, 1, 2, over=0), Lifetime(100, 2, 3, over=1)])
    ([0, 0, 0], 128)
    """
    offsets = [0] * len(lifetimes)
    free = _Free()
    busy: list[tuple[int, int, int]] = []
    passed_on: set[int] = set()
    for index in sorted(range(len(lifetimes)), key=lambda index: lifetimes[index].first):
        size, first, last, over = lifetimes[index]
        while busy and busy[0][0] < first:
            _, room, value = heapq.heappop(busy)
            if value not in passed_on:
                free.give(offsets[value], room)
        room = align_up(max(size, 1))
        if over is not None and over not in passed_on and align_up(max(lifetimes[over].size, 1)) == room:
            passed_on.add(over)
            offsets[index] = offsets[over]
        else:
            offsets[index] = free.take(room)
        heapq.heappush(busy, (last, room, index))
    return offsets, free.end


class _Free:
    """The free places of an arena during its layout. The arena grows if none is large enough."""

    def __init__(self) -> None:
        #: (size, offset) of every free place, in order; neighbours are one place
        self._places: list[tuple[int, int]] = []
        #: sizes of places by their beginnings, and beginnings by their ends
        self._sizes: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self.end = 0

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

    def _add(self, offset: int, size: int) -> None:
        bisect.insort(self._places, (size, offset))
        self._sizes[offset] = size
        self._starts[offset + size] = offset

    def _remove(self, offset: int, size: int) -> None:
        del self._places[bisect.bisect_left(self._places, (size, offset))]
        del self._sizes[offset], self._starts[offset + size]


def room_for(size: int) -> int:
    """Round a size up to one of eight steps between powers of two, and to the alignment.

    >>> room_for(0), room_for(100), room_for(1100)
    (64, 128, 1152)
    """
    size = max(size, 1)
    unit = max(ALIGNMENT, 1 << max(size.bit_length() - 4, 0))
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

    def after_fork(self) -> None:
        """Replace the lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def take(self, room: int) -> Array:
        """Return a block of a size that :func:`room_for` returned; it returns to the pool when it is freed."""
        memory: _Memory | None = None
        with self._lock:
            if _returned:
                self._sort_in()
            waiting = self._free.get(room)
            if waiting:
                self._free.move_to_end(room)
                memory = waiting.pop()
                self.spare_bytes -= room
            self.used_bytes += room
            if self.used_bytes > self.peak_bytes:
                self.peak_bytes = self.used_bytes
        if memory is not None:
            return memory.view(_Block)
        try:
            return _new_block(room)
        except MemoryError:
            with self._lock:
                self.used_bytes -= room
            raise MemoryError(f"there is no memory for {room} bytes") from None

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
        limit = settings.current().spare_bytes
        while self.spare_bytes > limit:
            room, waiting = next(iter(free.items()))
            if waiting:
                waiting.pop()
                self.spare_bytes -= room
            else:
                del free[room]

    def clear(self) -> None:
        """Free all waiting blocks."""
        with self._lock:
            self._sort_in()
            self._free.clear()
            self.spare_bytes = 0


def _new_block(room: int) -> Array:
    pool.blocks_made += 1
    raw = np.empty(room + ALIGNMENT, np.uint8)
    start = -address(raw) % ALIGNMENT
    return raw[start : start + room].view(_Memory).view(_Block)


#: the pool of this process
pool = Pool()
take = pool.take
fork.register("memory pool", after_in_child=pool.after_fork)


def allocate(shape: Shape, dtype: DType, room: int) -> Array:
    """Return an uninitialized array of a size that :func:`room_for` returned."""
    return np.empty(shape, dtype) if room < SMALLEST_BLOCK else np.ndarray(shape, dtype, take(room))
