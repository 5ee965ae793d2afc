"""Evaluation: compute the nodes of a graph's outputs from nodes of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.base.errors import MXNetError
from ..core.graph.node import Node
from ..core.ops.math.structural import copy_to_context
from .calls import Call, Environment
from .entry import Entry, Head
from .inference import infer

__all__ = ["Closed", "run"]

Monitor = Callable[[str, Node], None]
#: replaces the inputs of an operator, so that a backward pass shows their gradients
Watch = Callable[[Entry, list[Node]], list[Node]]
#: resolved calls with an open output shape, by the names, shapes and dtypes of the arguments
Closed = dict[Any, dict[Entry, Call]]

#: room for the batches of training and validation, the last one of each, and as many again
_KNOWN_SHAPES = 8


def run(
    heads: Sequence[Head],
    entries: Sequence[Entry],
    arguments: Mapping[str, Node],
    environment: Environment,
    known: Closed,
    monitor: Monitor | None = None,
    monitor_inputs: bool = False,
    watch: Watch | None = None,
) -> tuple[list[Node], dict[str, Node]]:
    """Return the nodes of the outputs, and the new values of modified arguments by name.

    ``entries`` are those of the graph, inputs before their users. ``known`` caches results of earlier runs. ``monitor``
    is called with the name and node of every output of every entry and, if requested, of every input before. ``watch``
    may replace the inputs of an entry.
    """
    kept = {name: environment.keep(node) for name, node in arguments.items()}
    found: dict[Entry, list[Any]] = {}
    changed: dict[str, Any] = {}
    closed = _close_shapes(heads, entries, arguments, known)

    def value(head: Head) -> Any:
        entry, index = head
        if entry.is_argument:
            # an argument modified by an earlier call has its new value
            return changed.get(entry.name, kept[entry.name])
        if index >= len(found[entry]):
            raise MXNetError(f"Error in operator {entry.name}: output {index} of {entry.operator} is not computed here")
        return found[entry][index]

    for entry in entries:
        if entry.is_argument:
            continue
        inputs = [environment.node(value(source)) for source in entry.inputs]
        place = environment.place(entry)
        if place is not None:
            inputs = [copy_to_context(node, place) for node in inputs]
        if monitor is not None and monitor_inputs:
            _show_inputs(entry, inputs, monitor)
        if watch is not None:
            inputs = watch(entry, inputs)
        try:
            outputs, changes = closed.get(entry, entry.call).evaluate(inputs, environment)
        except MXNetError as error:
            if str(error).startswith("Error in operator"):
                raise
            raise MXNetError(f"Error in operator {entry.name}: {error}") from error
        found[entry] = [environment.keep(node) for node in outputs]
        for position, node in changes.items():
            source = entry.inputs[position][0]
            if source.is_argument:
                changed[source.name] = environment.keep(node)
        if monitor is not None:
            for name, node in zip(entry.output_names(), outputs, strict=False):
                monitor(name, node)
    # an output that is an argument has the original value
    results = [environment.node(kept[head[0].name] if head[0].is_argument else value(head)) for head in heads]
    return results, {name: environment.node(node) for name, node in changed.items()}


def _close_shapes(
    heads: Sequence[Head], entries: Sequence[Entry], arguments: Mapping[str, Node], known: Closed
) -> dict[Entry, Call]:
    """Return replacements for calls whose output shape follows from its use."""
    calls = [entry for entry in entries if not entry.is_argument and entry.call.is_open]
    if not calls:
        return {}
    given = {name: (node.shape, node.dtype) for name, node in arguments.items()}
    key = tuple(given.items())
    found = known.get(key)
    if found is None:
        inferred = infer(heads, given)
        found = {entry: entry.call.with_shape(inferred.of((entry, 0))[0]) for entry in calls}
        if len(known) >= _KNOWN_SHAPES:
            known.clear()
        known[key] = found
    return found


def _show_inputs(entry: Entry, inputs: Sequence[Node], monitor: Monitor) -> None:
    """Show a monitor the inputs of a call: arguments under their own names, and all under the input's name."""
    for (source, _), name, node in zip(entry.inputs, entry.call.argument_names, inputs, strict=True):
        if source.is_argument:
            monitor(source.name, node)
        monitor(f"{entry.name}_{name}", node)
