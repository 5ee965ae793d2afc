"""Observed calls of operators: each opens a range, and its nodes are attributed to the range.

Takes calls from :mod:`.call`, :mod:`.binary` and methods of arrays; hands ranges to :mod:`phonograd.core.events` and to
the attribution of the current trace. Used only while observers listen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ..events import FUNCTION, LISTENING, Range
from ..events.range import CURRENT, OVER, collect_with_inputs, start_range
from ..events.registry import AMBIENT
from ..events.registry import LOCAL as THREADS
from ..events.registry import REGISTRY as OBSERVERS
from ..graph.node import Node
from ..graph.operator import Operator
from ..observe.attribution import MARKS
from ..trace.flags import FLAGS, RECORDING
from ..trace.trace import LOCAL
from .handle import Handle

__all__ = ["LISTENERS", "NamedAction", "observe_call"]

#: the observers of operators; empty if there are none
LISTENERS = LISTENING[FUNCTION]
_numbers = itertools.count()
_new = object.__new__
#: the types of the inputs of a call
_GIVEN = (Handle, int, float, np.generic)


class NamedAction(NamedTuple):
    """The name of an action on arrays that is not an operator call, as observers see it."""

    name: str


def observe_call(
    declared: Operator | NamedAction,
    inputs: Sequence[Any],
    named: Callable[[Any, tuple[Any, ...]], Mapping[str, Any]] | None,
    given: tuple[Any, ...],
    call: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any] | None = None,
    before: tuple[Node | None, ...] | None = None,
) -> Any:
    """Return the result of ``call(*arguments)``, observed as one range.

    A call that returns None changes the first of ``inputs``. ``named`` returns the parameters ``given`` by name, for
    observers that need them. ``before`` are the nodes of the inputs of a call that changes them.
    """
    thread = THREADS.thread
    ambient = AMBIENT.get()
    if thread.version != OBSERVERS.version or thread.ambient is not ambient:
        thread.refresh(ambient)
    snapshot = thread.selections[FUNCTION].quick
    number = next(_numbers) if FLAGS.get() & RECORDING else -1
    if snapshot is None:
        entry = start_range(FUNCTION, declared.name, number, _describe, declared, inputs, named, given)
    else:  # as start_range() does, without calls
        entry = _new(Range)
        entry._snapshot = snapshot
        entry._thread = thread
        entry.scope = FUNCTION
        entry.name = declared.name
        entry.sequence_nr = number
        entry.start_ns = entry.end_ns = 0
        entry.attached = entry.hidden = False
        entry.facts = None
        parent = CURRENT.get()
        while parent is not None and (parent.end_ns or parent.hidden):
            parent = parent.parent
        entry.parent = parent
        if snapshot.needs[0]:
            collect_with_inputs(entry, _describe(entry, declared, inputs, named, given))
        else:
            snapshot.collect(entry)
        CURRENT.set(entry)
        entry.start_ns = perf_counter_ns()
    try:
        result = call(*arguments, **keywords) if keywords else call(*arguments)
    except BaseException as error:
        entry.error = f"{type(error).__name__}: {error}"
        entry.end()
        raise
    if snapshot is not None:
        entry.end_ns = perf_counter_ns()
        entry._snapshot = OVER
    elif entry.start_ns:
        if entry._snapshot.needs[1]:
            entry.set_outputs(*_arrays_of_call(result, inputs))
        entry.end()
    else:
        return result
    trace = LOCAL.trace
    attribution = trace.attribution or trace.attributed()
    kind = type(result)
    node = None if kind is list or kind is tuple or result is None else result._node
    # most calls make one node, and recording may add a mark
    if node is not None and (
        node.operator is declared or (node.operator in MARKS and node.inputs[0].operator is declared)
    ):
        attribution.calls.append((entry, None, node))
    else:
        made = [_node_of(array) for array in _arrays_of_call(result, inputs)]
        nodes = before or [value._node for value in inputs if isinstance(value, Handle)]
        sources = [source for source in nodes if source is not None]
        attribution.note_call(entry, sources, [node for node in made if node is not None])
    return result


def _arrays_of_call(result: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the arrays that a call returned or changed."""
    if result is None:
        return inputs[:1]
    return result if isinstance(result, (list, tuple)) else (result,)


def _node_of(array: Any) -> Node | None:
    """Return the node of an array; for a view that was written to, the node of its base."""
    while array._node is None and array._root is not None:
        array = array._root
    node: Node | None = array._node
    return node


def _describe(
    entry: Range,
    declared: Any,
    inputs: Sequence[Any],
    named: Callable[[Any, tuple[Any, ...]], Mapping[str, Any]] | None,
    given: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Note the parameters of a call, and return its arrays and numbers; None for an omitted argument between others."""
    if given and named is not None:
        entry.parameters = dict(named(declared, given))
    known = [value if isinstance(value, _GIVEN) else None for value in inputs]
    while known and known[-1] is None:
        known.pop()
    return tuple(known)
