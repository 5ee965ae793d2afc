"""Running: the nodes of a graph's outputs, computed from nodes of its arguments by the calls of its entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import MXNetError
from ..node import Node
from .calls import Environment
from .entry import Entry, Head
from .inference import infer

__all__ = ["run"]

Monitor = Callable[[str, Node], None]


def run(
    heads: Sequence[Head],
    entries: Sequence[Entry],
    arguments: Mapping[str, Node],
    environment: Environment,
    monitor: Monitor | None = None,
    monitor_inputs: bool = False,
) -> tuple[list[Node], dict[str, Node]]:
    """Return the nodes of the outputs, and the new values of arguments that calls have changed, by name.

    ``entries`` are those of the graph, inputs before what uses them. ``monitor`` is told the name and the node of every
    output of every entry, and if asked for, of every input before.
    """
    kept = {name: environment.keep(node) for name, node in arguments.items()}
    found: dict[Entry, list[Any]] = {}
    changed: dict[str, Any] = {}
    inferred = None
    if any([not entry.is_argument and entry.call.is_open for entry in entries]):
        inferred = infer(heads, {name: (node.shape, node.dtype) for name, node in arguments.items()})

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
            call = entry.call
            if call.is_open and inferred is not None:
                call = call.with_shape(inferred.of((entry, 0))[0])
            outputs, changes = call.evaluate(inputs, environment)
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


def _show_inputs(entry: Entry, inputs: Sequence[Node], monitor: Monitor) -> None:
    """Tell a monitor what a call is given: arguments by their names, and everything by the name of the input."""
    for (source, _), name, node in zip(entry.inputs, entry.call.argument_names, inputs, strict=True):
        if source.is_argument:
            monitor(source.name, node)
        monitor(f"{entry.name}_{name}", node)
