"""Memory of plans: the arena in which intermediate values lie, and the pool that arenas and results come from.

:func:`arrange` decides once per plan where in an *arena* each value lies that only kernels see: values that are not
needed at the same time share a place, and a value may take the place of one that it is computed from.

Arrays that plans hand out come from :func:`allocate`, and arenas from :func:`take`. Larger ones are *blocks* of a pool:
when the last array that lies in a block is gone, its memory waits for the next one of that size. So the second turn of
a loop needs nothing from the system: pages that were never touched cost more than most kernels take to fill them.
Blocks begin at multiples of 64 bytes. Memory that waits is bounded (``settings.spare_bytes``); sizes that have not been
asked for the longest are returned first.
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

__all__ = ["Lifetime", "Pool", "allocate", "arrange", "pool", "room_for", "take"]

ALIGNMENT = 64
#: arrays below this size are NumPy's own: a block costs 1.3 us more, a quarter of what it takes to fill it
SMALLEST_BLOCK = 1 << 16


class Lifetime(NamedTuple):
    """How many bytes a value takes, and the first and last step at which they are in use."""

    size: int
    first: int
    last: int
    over: int | None = None
    """The number of a value that ends with the step that this one begins with, and whose place it can take."""


def arrange(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each value in an arena, and the size of the arena.

    A value takes the smallest place that is free and large enough. The time taken is n log n.

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
    """The free places of an arena while values are put into it. It grows where none is large enough."""

    def __init__(self) -> None:
        #: (size, offset) of every free place, in order; neighbours are one place
        self._places: list[tuple[int, int]] = []
        #: sizes by where places begin, and where they begin by where they end
        self._sizes: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self.end = 0

    def take(self, size: int) -> int:
        """Return where a place of a size begins, which is not free any more."""
        found = bisect.bisect_left(self._places, (size, 0))
        if found < len(self._places):
            room, offset = self._places[found]
            self._remove(offset, room)
            if room > size:
                self._add(offset + size, room - size)
            return offset
        # what is free at the end is part of what is added
        offset = self._starts.get(self.end, self.end)
        if offset < self.end:
            self._remove(offset, self.end - offset)
        self.end = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Make a place free."""
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
    """Return a size rounded up to one of eight steps between powers of two, and to the alignment.

    >>> room_for(0), room_for(100), room_for(1100)
    (64, 128, 1152)
    """
    size = max(size, 1)
    unit = max(ALIGNMENT, 1 << max(size.bit_length() - 4, 0))
    return -(-size // unit) * unit


class _Memory(np.ndarray[Any, Any]):
    """Bytes that belong to a pool. A class of its own, because arrays refer to the owner of plain arrays directly."""

    __slots__ = ()


#: memory that has come back and is not sorted in yet
_returned: deque[Any] = deque()


class _Block(np.ndarray[Any, Any]):
    """Bytes that are in use: the base of whatever arrays lie in them, gone when the last of these is."""

    __slots__ = ()

    def __del__(self, returned: deque[Any] = _returned, is_late: Callable[[], bool] = sys.is_finalizing) -> None:
        # arrays may end at any moment, also while the pool is being changed, so this only puts the memory down
        returned.append(self.base)
        # it is sorted in when the next block is asked for, or now if it is much: some may have to be returned
        if (self.nbytes >= 1 << 20 or len(returned) > 64) and not is_late():
            pool.sort_in()


class Pool:
    """Blocks of memory that are used again."""

    def __init__(self) -> None:
        self._free: OrderedDict[int, list[_Memory]] = OrderedDict()
        self._lock = threading.Lock()
        #: bytes that wait for use
        self.spare_bytes = 0
        #: bytes of blocks in use, and the most that there ever were
        self.used_bytes = 0
        self.peak_bytes = 0
        #: blocks that were made because none was waiting
        self.blocks_made = 0

    def after_fork(self) -> None:
        """Begin with a new lock: a thread that the new process does not have may have taken the old one."""
        self._lock = threading.Lock()

    def take(self, room: int) -> Array:
        """Return memory of a size that :func:`room_for` gave; it comes back by itself."""
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
        return _new_block(room) if memory is None else memory.view(_Block)

    def sort_in(self) -> None:
        """Make memory that has come back available, unless another thread is about to."""
        # never waits: this may be the thread that has the lock, interrupted by the end of an array
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
        """Return all memory that waits to the system."""
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
    """Return an array with any contents, which takes a room that :func:`room_for` gave."""
    return np.empty(shape, dtype) if room < SMALLEST_BLOCK else np.ndarray(shape, dtype, take(room))
