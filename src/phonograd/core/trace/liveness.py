"""Liveness: which handles of a trace the user's program still refers to (docs/decisions/0001).

A handle is alive if it has more references than the list of the trace itself holds. Takes handles from
:mod:`phonograd.core.trace.trace` and hands the live ones back, with their nodes. Machine code replaces
:func:`live_handles` once it is compiled (:data:`phonograd.core.trace.owner.MACHINE_CODE`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base.assumptions import HAS_GIL, assumption_holds
from ..base.hot import hot
from .owner import Pairs

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["each_once", "holds_rows", "is_held_once", "is_temporary", "live_handles", "referenced"]


def live_handles(trace: Trace, handles: list[Any]) -> Pairs:
    """Return the handles of a trace that something besides the list refers to, with their nodes."""
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


def _calibrate() -> bool:
    """Set the count that ``live_handles`` sees for an object only its list refers to; return whether there is one.

    One reference more must be seen, however it is held.
    """
    global _baseline
    trace: Any = object()
    for guess in range(1, 8):
        _baseline = guess
        if not live_handles(trace, [_Probe(trace)]):
            kept = _Probe(trace)
            held, listed = [_Probe(trace), kept, _Probe(trace)], [_Probe(trace)]
            return [pair[0] for pair in live_handles(trace, held)] == [kept] and len(
                live_handles(trace, [*listed])
            ) == 1
    return False


def is_held_once(holder: Any, name: str) -> bool:
    """Return whether nothing but an attribute refers to its value; False where counts do not tell."""
    return _count(holder, name) <= _held_baseline


def _count(holder: Any, name: str) -> int:
    return sys.getrefcount(getattr(holder, name))


def _calibrate_held() -> bool:
    """Set the count of a value to which one attribute refers; return whether another reference is seen."""
    global _held_baseline
    holder, kept = _Holder(), object()
    holder.value = object()
    _held_baseline = _count(holder, "value")
    holder.value = kept
    return _count(holder, "value") == _held_baseline + 1


def is_temporary(owner: object) -> bool:
    """Return whether only the method that calls this refers to its owner, as in ``make().method()``.

    A caller that knows the owner by a name or holds it in a container still refers to it. Where the interpreter hands
    the only reference over to the method, a count tells the two apart; elsewhere, this is False.
    """
    return sys.getrefcount(owner) <= _temporary_baseline


def _calibrate_temporary() -> None:
    """Find out whether the interpreter hands references over to methods: not before Python 3.11."""
    global _temporary_baseline
    # the name in the method, the name here, and the argument of the function that counts
    _temporary_baseline = 3
    named = _Asked()
    others = named.ask(), named.ask_twice(), [named][0].ask(), functools.partial(_Asked.ask, _Asked())()
    if not _Asked().ask() or any(others):
        _temporary_baseline = 0


class _Asked:
    def ask(self) -> bool:
        return is_temporary(self)

    def ask_twice(self) -> bool:
        return self.ask()


class _Holder:
    __slots__ = ("value",)

    value: object


_baseline = 0
#: what :func:`is_held_once` compares with
_held_baseline = 0
#: what :func:`is_temporary` compares with
_temporary_baseline = 0
#: finds the handles that are alive. Without the GIL, and where counts are not as assumed, every handle is taken to be
referenced: Callable[[Trace, list[Any]], Pairs] = _all
if HAS_GIL and assumption_holds(
    "sys.getrefcount sees one reference more for each one that the user holds",
    "All arrays of a trace count as used, so arrays that were dropped are computed as well",
    lambda: _calibrate() and _calibrate_held(),
):
    referenced = live_handles
    _calibrate_temporary()
else:
    _held_baseline = 0


def each_once(pairs: Pairs) -> Pairs:
    """Return pairs of handles and nodes, each handle once."""
    return list({id(pair[0]): pair for pair in pairs}.values())


@hot
def holds_rows(handle: Any, node: Any) -> bool:
    """Return whether a node is a gradient that its handle holds as rows."""
    extras = handle._extras
    return extras is not None and extras.rows is not None and extras.rows.node is node
