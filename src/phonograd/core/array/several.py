"""Several results: the arrays of calls of operators that have more than one output.

Takes the nodes of the outputs from :mod:`.call` and from its machine code (:mod:`.fastcall.native_code`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base.hot import hot
from ..base.settings import active
from ..graph.node import Node
from ..graph.operator import Operator
from ..trace.flags import FLAGS, RECORDING
from ..trace.trace import Trace
from .handle import make, materialize_if_naive, new_result, record_or_detach

__all__ = ["Several", "make_several", "make_several_of", "several_of", "visible_outputs"]


class Several(NamedTuple):
    """The outputs of a remembered call, the number that users see, and the declaration of that number."""

    nodes: tuple[Node, ...]
    shown: int
    declared: Any


def several_of(declared: Operator, nodes: tuple[Node, ...], attributes: tuple[Any, ...]) -> Several:
    """Return the outputs of a call to remember, given its attributes."""
    return Several(nodes, visible_outputs(declared, len(nodes), attributes), declared.visible)


@hot
def make_several(call: Several, trace: Trace, array_class: type[Any]) -> Any:
    """Return the arrays of a remembered call."""
    return _make_arrays(call.nodes, call.shown, call.declared is None, trace, array_class)


@hot
def _make_arrays(outputs: tuple[Node, ...], shown: int, is_list: bool, trace: Trace, array_class: type[Any]) -> Any:
    """Return the arrays of those outputs of a call that users see: a list, or the only array."""
    if FLAGS.get() & RECORDING:
        siblings = trace.tape.siblings
        for node in outputs:
            siblings[node] = outputs
    nodes = outputs[:shown]
    if active.naive:
        # reading one of them may end the trace
        handles = [make(record_or_detach(node, trace), trace, array_class) for node in nodes]
        handles = [materialize_if_naive(handle) for handle in handles]
    else:
        handles = [new_result(node, trace, array_class) for node in nodes]
    return handles if is_list or len(handles) != 1 else handles[0]


def visible_outputs(declared: Operator, outputs: int, attributes: tuple[Any, ...]) -> int:
    """Return the number of outputs of a call that users see."""
    rule = declared.visible
    if rule is None or isinstance(rule, int):
        return outputs if rule is None else rule
    count: int = rule(**declared.accepted(rule, attributes))
    return count


@hot
def make_several_of(
    declared: Operator,
    parameters: int,
    key: tuple[Any, ...],
    nodes: tuple[Node, ...],
    trace: Trace,
    array_class: type[Any],
) -> Any:
    """Return the arrays of a call, given its key and the nodes of its outputs; None if Python is to make them.

    The last items of the key are ``parameters``.
    """
    rule, shown = declared.visible, len(nodes)
    if rule is not None:
        arrays = len(key) - parameters
        attributes = declared.accepted_parameters.get((arrays, key[arrays:]))
        if attributes is None:
            return None
        shown = visible_outputs(declared, shown, attributes)
    return _make_arrays(nodes, shown, rule is None, trace, array_class)
