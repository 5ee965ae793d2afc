"""Memory for intermediate values: one block (an *arena*) in which values that are not needed at the same time share.

:func:`arrange` decides once per plan where each value lies. :func:`borrow` lends an arena for the time of a run; arenas
are used again, by all plans, so that pages of memory need not be made anew each time.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..operator import Array

__all__ = ["Lifetime", "arrange", "borrow", "give_back"]

ALIGNMENT = 64
#: arenas to keep for later, and the largest one that is kept
_SPARE_ARENAS = 4
_SPARE_BYTES = 1 << 28


class Lifetime(NamedTuple):
    """How many bytes a value takes, and the first and last step at which they are in use."""

    size: int
    first: int
    last: int


def arrange(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each value in an arena, and the size of the arena.

    Sizes are rounded up by at most an eighth, so that places fit later values; the time taken is n log n.

    >>> arrange([Lifetime(100, 0, 1), Lifetime(100, 1, 2), Lifetime(100, 2, 3)])
    ([0, 128, 0], 256)
    """
    offsets = [0] * len(lifetimes)
    free: dict[int, list[int]] = {}
    busy: list[tuple[int, int, int]] = []
    total = 0
    for index in sorted(range(len(lifetimes)), key=lambda index: lifetimes[index].first):
        size, first, last = lifetimes[index]
        while busy and busy[0][0] < first:
            _, offset, room = heapq.heappop(busy)
            free.setdefault(room, []).append(offset)
        room = _room(size)
        places = free.get(room)
        if places:
            offset = places.pop()
        else:
            offset = total
            total += room
        offsets[index] = offset
        heapq.heappush(busy, (last, offset, room))
    return offsets, total


def _room(size: int) -> int:
    """Return a size rounded up to one of eight steps between powers of two, and to the alignment."""
    size = max(size, 1)
    unit = max(ALIGNMENT, 1 << max(size.bit_length() - 4, 0))
    return -(-size // unit) * unit


_spare: list[Array] = []


def borrow(size: int) -> Array:
    """Return an aligned arena of at least a size, to be given back after use."""
    try:
        arena = _spare.pop()
    except IndexError:
        arena = None
    if arena is None or arena.size < size:
        raw = np.empty(size + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        arena = raw[start : start + size]
    return arena


def give_back(arena: Array) -> None:
    """Keep an arena for the next run."""
    if len(_spare) < _SPARE_ARENAS and arena.size <= _SPARE_BYTES:
        _spare.append(arena)
