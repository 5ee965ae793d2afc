"""Positions in the random stream: which numbers the next random operator draws.

A random operator takes four 32-bit words as an ordinary input: the seed and the number of the call. Its result is a
function of them alone (:mod:`phonograd.philox`), so it does not matter what else is computed, where, or in which order.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from .context import Context
from .operator import Array

__all__ = ["next_counter", "seed"]

_lock = threading.Lock()
_seed = int.from_bytes(os.urandom(8), "little")
_calls = 0


def seed(seed_state: int, ctx: Any = "all") -> None:
    """Start the random stream anew: the same seed gives the same numbers.

    ``ctx`` is accepted for compatibility: there is one stream for all contexts.
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
    with _lock:
        call = _calls
        _calls += 1
        state = _seed
    return np.array([state & 0xFFFFFFFF, state >> 32, call & 0xFFFFFFFF, call >> 32], np.uint32)


def _reseed_after_fork() -> None:
    # a child process that drew the parent's numbers again would train on the same "random" data; the lock may be held
    global _seed, _lock
    _lock = threading.Lock()
    _seed = (_seed + os.getpid() * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reseed_after_fork)
