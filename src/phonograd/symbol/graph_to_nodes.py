"""Running: the nodes of a graph's outputs, computed from nodes of its arguments by the calls of its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.base.errors import MXNetError
from ..core.graph.node import Node
from .calls import Call, Environment
from .entry import Entry, Head
from .inference import infer

__all__ = ["Closed", "run"]

Monitor = Callable[[str, Node], None]
#: calls that leave the shape of their output open, closed: by the names, shapes and dtypes of the arguments
Closed = dict[Any, dict[Entry, Call]]

#: the batches of training, of validation and the last of each, and as many again
_KNOWN_SHAPES = 8


def run(
    heads: Sequence[Head],
    entries: Sequence[Entry],
    arguments: Mapping[str, Node],
    environment: Environment,
    known: Closed,
    monitor: Monitor | None = None,
    monitor_inputs: bool = False,
) -> tuple[list[Node], dict[str, Node]]:
    """Return the nodes of the outputs, and the new values of arguments that calls have changed, by name.

    ``entries`` are those of the graph, inputs before what uses them, and ``known`` is what earlier runs of it have left
    there. ``monitor`` is told the name and the node of every output of every entry, and if asked for, of every input
    before.
    """
    kept = {name: environment.keep(node) for name, node in arguments.items()}
    found: dict[Entry, list[Any]] = {}
    changed: dict[str, Any] = {}
    closed = _closed(heads, entries, arguments, known)

    def value(head: Head) -> Any:
        entry, index = head
        if entry.is_argument:
            # one that an earlier call has changed is what it was changed to
            return changed.get(entry.name, kept[entry.name])
        if index >= len(found[entry]):
            raise MXNetError(f"Error in operator {entry.name}: output {index} of {entry.operator} is not computed here")
        return found[entry][index]

    for entry in entries:
        if entry.is_argument:
            continue
        inputs = [environment.node(value(source)) for source in entry.inputs]
        if monitor is not None and monitor_inputs:
            _show_inputs(entry, inputs, monitor)
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
            for name, node in zip(entry.output_names()[: entry.visible()], outputs, strict=False):
                monitor(name, node)
    # an argument that is an output is what it was given as
    results = [environment.node(kept[head[0].name] if head[0].is_argument else value(head)) for head in heads]
    return results, {name: environment.node(node) for name, node in changed.items()}


def _closed(
    heads: Sequence[Head], entries: Sequence[Entry], arguments: Mapping[str, Node], known: Closed
) -> dict[Entry, Call]:
    """Return the calls that take the place of those whose shape follows from where their output is used."""
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
    """Tell a monitor what a call is given: arguments by their names, and everything by the name of the input."""
    for (source, _), name, node in zip(entry.inputs, entry.call.argument_names, inputs, strict=True):
        if source.is_argument:
            monitor(source.name, node)
        monitor(f"{entry.name}_{name}", node)
