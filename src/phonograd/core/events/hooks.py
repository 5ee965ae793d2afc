"""Hooks: functions that other layers call to be observed. A call site costs one test without observers.

An operator call. ``inputs`` may be any objects with ``shape`` and ``dtype``. Inputs and parameters are only passed to
observers that need them, and are not kept alive::

    if LISTENING[FUNCTION]:
        with begin(FUNCTION, "broadcast_add", inputs=(a, b), parameters={}, sequence_nr=node.serial):
            ...

A layer of a model: the same with ``MODULE``. The derivation of one operator's gradient: ``forward`` is the range of the
operator call, which the tape keeps beside its record; every backward pass over a record refers to the same range. If
only a number was kept, ``sequence_nr`` and ``forward_thread_id`` identify it::

    if LISTENING[BACKWARD_FUNCTION]:
        with begin(BACKWARD_FUNCTION, "_backward_broadcast_add", forward=origin):
            ...

The evaluation of all pending expressions, and the compilation of kernels inside it::

    if LISTENING[EVALUATION]:
        with begin(EVALUATION, "evaluation"):
            with begin(COMPILATION, "compilation"):
                ...

A kernel, measured elsewhere by ``time.perf_counter_ns``. ``operators`` names the operators that it computes. ``serves``
has for each of them (or for all together) the range in which it was called, or the name of its scope if the range is
gone. The kernel's time is split evenly among them. For the kernel of a gradient, ``serves`` holds the ranges of the
forward operators and ``phase`` is ``"backward"``::

    if LISTENING[KERNEL]:
        record(
            "exp, mul",
            KERNEL,
            start,
            end,
            operators=("exp", "mul"),
            serves=(scope, scope),
            flops=11 * size,
            moved_bytes=8 * size,
            phase="forward",
            launches=1,
        )

Memory::

    if LISTENING[MEMORY]:
        note_allocation(array.nbytes, "gradient", id(array))
        ...
        note_release(array.nbytes, "gradient", id(array))

:mod:`phonograd.core.observe.allocations` makes these calls for arrays. :data:`CATEGORIES` lists the usual categories;
others are shown too.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any

from .facts import Facts
from .range import Range
from .registry import LISTENING, MEMORY

__all__ = ["CATEGORIES", "begin", "note_allocation", "note_release", "record"]

#: the usual categories of memory, in display order
CATEGORIES = ("parameter", "optimizer", "gradient", "activation", "input", "temporary", "arena", "unknown")


def begin(
    scope: int,
    name: str,
    inputs: tuple[Any, ...] = (),
    *,
    parameters: Mapping[str, Any] | None = None,
    sequence_nr: int = -1,
    forward: Range | None = None,
    forward_thread_id: int = 0,
    attributes: Mapping[str, Any] | None = None,
) -> Range:
    """Return a range that has begun if any observer listens; use it as a ``with`` block or call ``end()``."""
    entry = Range(scope)
    snapshot = entry._snapshot
    if not (snapshot.collectors or snapshot.observers):
        return entry
    if parameters is not None and snapshot.needs[0]:
        entry.parameters = dict(parameters)
    if forward is not None:
        entry.forward, entry.forward_thread_id = forward, forward.thread_id
    elif forward_thread_id:
        entry.forward_thread_id = forward_thread_id
    if attributes:
        entry.attributes = dict(attributes)
    entry.before(name, inputs, sequence_nr)
    return entry


def record(
    name: str,
    scope: int,
    start_ns: int,
    end_ns: int,
    *,
    operators: tuple[str, ...] = (),
    serves: tuple[Range | str, ...] = (),
    flops: float | None = None,
    moved_bytes: float | None = None,
    forward: Range | None = None,
    sequence_nr: int = -1,
    **attributes: Any,
) -> None:
    """Notify observers of a finished interval inside the current range."""
    entry = Range(scope)
    if not entry.active:
        return
    if not 0 < start_ns <= end_ns:
        raise ValueError(f"{name!r} cannot begin at {start_ns} and end at {end_ns}")
    if operators:
        entry.operators = operators
    if serves:
        entry.serves = serves
    if flops is not None:
        entry.flops = flops
    if moved_bytes is not None:
        entry.moved_bytes = moved_bytes
    if forward is not None:
        entry.forward, entry.forward_thread_id = forward, forward.thread_id
    if sequence_nr != -1:
        entry.sequence_nr = sequence_nr
    if attributes:
        entry.attributes = attributes
    entry.complete(name, start_ns, end_ns)


def note_allocation(
    nbytes: int,
    category: str = "unknown",
    identity: int = 0,
    serves: Range | None = None,
    *,
    cause: Range | None = None,
    backward: bool = False,
) -> bool:
    """Notify observers of an allocation inside ``serves``, by default inside the current range.

    ``cause`` is the range of the operator whose value the memory holds, or whose gradient if ``backward``. Zero bytes
    change the category of known memory. Return whether any observer was notified.
    """
    return bool(LISTENING[MEMORY]) and _moment(nbytes, category, identity, serves, cause, backward)


def note_release(nbytes: int, category: str = "unknown", identity: int = 0, serves: Range | None = None) -> None:
    """Notify observers that memory was freed."""
    if LISTENING[MEMORY]:
        _moment(-nbytes, category, identity, serves)


def _moment(
    value: int,
    category: str,
    identity: int,
    serves: Range | None,
    cause: Range | None = None,
    backward: bool = False,
) -> bool:
    entry = Range(MEMORY)
    if not entry.active:
        return False
    facts = entry.facts = Facts()
    facts.value, facts.category, facts.identity, facts.instant = value, category, identity, True
    if cause is not None:
        facts.serves = (cause,)
        if backward:
            facts.attributes = {"phase": "backward"}
    now = perf_counter_ns()
    entry.complete("[memory]", now, now, serves)
    return True
