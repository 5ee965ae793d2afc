"""Draw random numbers for transformations from the stream of ``mx.random.seed``.

Each draw is a Python number: computing an array for it would cost more.
"""

from __future__ import annotations

import hashlib
import math

from ....core.trace.rng import next_counter

__all__ = ["integer", "normal", "shuffle_indices", "uniform"]


def _words() -> tuple[int, int]:
    """Return the next two 64-bit numbers of the stream."""
    digest = hashlib.blake2b(next_counter().tobytes(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def uniform(low: float = 0.0, high: float = 1.0) -> float:
    """Return a number between `low` and `high`."""
    return low + (high - low) * ((_words()[0] >> 11) * 2.0**-53)


def integer(low: int, high: int) -> int:
    """Return an integer from `low` to `high`, both included."""
    return low + _words()[0] % (high - low + 1)


def normal(scale: float) -> float:
    """Return a normal number with mean 0 and standard deviation `scale`."""
    first, second = _words()
    radius = math.sqrt(-2.0 * math.log(((first >> 11) + 1) * 2.0**-53))
    return scale * radius * math.cos(2.0 * math.pi * (second >> 11) * 2.0**-53)


def shuffle_indices(count: int) -> list[int]:
    """Return the integers below `count` in random order."""
    order = list(range(count))
    for place in range(count - 1, 0, -1):
        other = integer(0, place)
        order[place], order[other] = order[other], order[place]
    return order
