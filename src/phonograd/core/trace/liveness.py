"""Liveness: which handles of a trace the user's program still refers to (docs/decisions/0001).

A handle is alive if it has more references than the list of the trace itself holds. Takes handles from
:mod:`phonograd.core.trace.trace` and hands the live ones back, with their nodes. Machine code replaces
:func:`live_handles` once it is compiled (:data:`phonograd.core.trace.owner.MACHINE_CODE`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .owner import Pairs

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["live_handles", "referenced"]


def live_handles(trace: Trace, handles: list[Any]) -> Pairs:
    """Return the handles of a trace that something else refers to, with their nodes."""
    limit, count, pairs = _baseline, sys.getrefcount, []
    for handle in handles:
        if count(handle) > limit:
            node = handle._node
            if node is not None and handle._trace is trace:
                pairs.append((handle, node))
    return pairs


def _all(trace: Trace, handles: list[Any]) -> Pairs:
    return [(handle, node) for handle in handles if (node := handle._node) is not None and handle._trace is trace]


class _Probe:
    __slots__ = ("_node", "_trace")

    _node: Any
    _trace: Any

    def __init__(self, trace: Any) -> None:
        self._node = self._trace = trace


def _calibrate() -> int:
    """Return the count that ``getrefcount`` gives inside ``live_handles`` for an object with no other reference."""
    global _baseline
    trace: Any = object()
    for guess in range(1, 8):
        _baseline = guess
        if not live_handles(trace, [_Probe(trace)]):
            return guess
    raise RuntimeError("cannot calibrate reference counts on this interpreter")


_baseline = 0
#: finds the live handles. Without the GIL, counts are split between threads and mean nothing, so every handle is alive
referenced: Callable[[Trace, list[Any]], Pairs]
referenced = _all if not getattr(sys, "_is_gil_enabled", lambda: True)() else live_handles
_calibrate()
