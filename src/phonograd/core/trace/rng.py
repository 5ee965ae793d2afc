"""Positions in the random stream, from which random operators draw.

A random operator takes four 32-bit words as an ordinary input: the seed and the number of the call. Its result is a
function of them alone (:mod:`phonograd.core.lower.philox`), so it does not depend on other work, on threads, or on the
order of evaluation. Hands positions to :meth:`phonograd.core.trace.trace.Trace.counter`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base import fork
from ..base.devices import Context
from ..graph.operator import Array
from .flags import is_recording

__all__ = [
    "give_back",
    "go_to",
    "keeping_counters",
    "next_counter",
    "position",
    "repeating_counters",
    "seed",
    "set_rank",
]

_lock = threading.Lock()
_seed = int.from_bytes(os.urandom(8), "little")
_calls = 0
#: added to the seed of calls while recording: several processes that train together must not drop the same elements
_offset_while_recording = 0


class _Local(threading.local):
    kept: list[Array] | None = None
    repeated: Iterator[Array] | None = None


_LOCAL = _Local()


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Start the random stream anew: the same seed gives the same numbers.

    Parameters
    ----------
    seed_state
        The seed, an integer.
    ctx
        Accepted for compatibility: there is one stream for all contexts.

    Examples
    --------
    >>> import phonograd as mx
    >>> mx.random.seed(7)
    >>> x = mx.nd.random.uniform(shape=3)
    >>> mx.random.seed(7)
    >>> bool((x == mx.nd.random.uniform(shape=3)).min())
    True
    """
    global _seed, _calls
    if not isinstance(seed_state, (int, np.integer)):
        raise ValueError("seed_state must be int")
    if ctx != "all":
        Context(ctx)
    with _lock:
        _seed, _calls = int(seed_state) & 0xFFFFFFFFFFFFFFFF, 0


def next_counter() -> Array:
    """Return the four words for the next random call: seed low, seed high, call low, call high."""
    global _calls
    repeated = _LOCAL.repeated
    if repeated is not None:
        found = next(repeated, None)
        if found is None:
            raise RuntimeError("code that was to be repeated exactly has drawn more random numbers than the first time")
    else:
        with _lock:
            call = _calls
            _calls += 1
            state = _seed
        if _offset_while_recording and is_recording():
            state = (state + _offset_while_recording) & 0xFFFFFFFFFFFFFFFF
        found = np.array([state & 0xFFFFFFFF, state >> 32, call & 0xFFFFFFFF, call >> 32], np.uint32)
    if _LOCAL.kept is not None:
        _LOCAL.kept.append(found)
    return found


def set_rank(rank: int) -> None:
    """Draw other numbers than the processes of other ranks while recording. Those of rank 0 stay as they are."""
    global _offset_while_recording
    _offset_while_recording = rank * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


def position() -> tuple[int, int]:
    """Return the present position in the random stream."""
    with _lock:
        return _seed, _calls


def go_to(position: tuple[int, int]) -> None:
    """Go to a position in the random stream."""
    global _seed, _calls
    with _lock:
        _seed, _calls = position


def give_back(position: tuple[int, int], drawn: int) -> None:
    """Go back to a position, if the numbers drawn since were all drawn by the caller."""
    global _calls
    with _lock:
        if (_seed, _calls) == (position[0], position[1] + drawn):
            _calls = position[1]


@contextlib.contextmanager
def keeping_counters(kept: list[Array]) -> Iterator[None]:
    """Add the words of each random call of this thread to a list, inside a ``with`` block."""
    outer, _LOCAL.kept = _LOCAL.kept, kept
    try:
        yield
    finally:
        _LOCAL.kept = outer
        if outer is not None:
            outer.extend(kept)


@contextlib.contextmanager
def repeating_counters(kept: list[Array]) -> Iterator[None]:
    """Let the random calls of this thread draw the same numbers again, inside a ``with`` block."""
    outer, _LOCAL.repeated = _LOCAL.repeated, iter(kept)
    try:
        yield
    finally:
        _LOCAL.repeated = outer


def _reseed_after_fork() -> None:
    # a child process that drew the parent's numbers again would train on the same "random" data; the lock may be held
    global _seed, _lock
    _lock = threading.Lock()
    _seed = (_seed + os.getpid() * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF


fork.register("random stream", after_in_child=_reseed_after_fork)
