"""Pauses: record Python's garbage collections as ranges."""

from __future__ import annotations

import gc
import threading
from time import perf_counter_ns
from typing import Any

from ..core.events import LISTENING, USER_SCOPE, record

__all__ = ["unwatch", "watch"]

_lock = threading.Lock()
_watchers = 0
_began = 0


def watch() -> None:
    """Record pauses until :func:`unwatch` has been called once for each call of this function."""
    global _watchers
    with _lock:
        _watchers += 1
        if _watchers == 1:
            gc.callbacks.append(_collecting)


def unwatch() -> None:
    """Undo one :func:`watch`."""
    global _watchers
    with _lock:
        _watchers -= 1
        if _watchers == 0:
            gc.callbacks.remove(_collecting)


def _collecting(phase: str, info: dict[str, int]) -> None:
    global _began
    if phase == "start":
        _began = perf_counter_ns()
    elif LISTENING[USER_SCOPE] and _began:
        facts: dict[str, Any] = dict(info)
        record("Python GC", USER_SCOPE, _began, perf_counter_ns(), **facts)
