"""Loops and branches as calls: inference and evaluation of entries with inner graphs.

A loop is unrolled: the nodes of all steps form one expression, so gradients of every order pass through it. The
condition of a while loop or branch is evaluated when it is reached.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ..core.base.errors import MXNetError
from ..core.graph.node import Node
from ..core.graph.operator import REGISTRY
from ..core.ops.math.structural import full
from .calls import Call, Environment, Outcome, Spec, at_most, default_output_names, special
from .entry import Head, entries_of
from .graph_to_nodes import Closed, run
from .inference import infer

__all__ = ["BranchCall", "ForeachCall", "WhileCall"]


class _Attributes:
    """The validated attributes of a loop."""

    def __init__(self, operator: str, attributes: Mapping[str, str]) -> None:
        self.operator = operator
        self.attributes = attributes

    def _value(self, key: str) -> Any:
        text = self.attributes.get(key)
        try:
            return ast.literal_eval(text or "")
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            raise MXNetError(f"{self.operator}: the attribute {key} must be a number or a list, not {text!r}") from None

    def number(self, key: str) -> int:
        """Return an integer attribute."""
        value = self._value(key)
        if not isinstance(value, int) or value < 0:
            raise MXNetError(f"{self.operator}: the attribute {key} must be an integer, not {value!r}")
        return value

    def numbers(self, key: str, below: int) -> list[int]:
        """Return an attribute that is a list of positions."""
        value = self._value(key)
        if not isinstance(value, (list, tuple)) or not all([isinstance(i, int) and 0 <= i < below for i in value]):
            raise MXNetError(f"{self.operator}: the attribute {key} must list positions below {below}, not {value!r}")
        return list(value)


class _Graph:
    """A graph inside a loop, with its inputs in order."""

    def __init__(self, heads: list[Head]) -> None:
        self.heads = heads
        self.entries = entries = entries_of(heads)
        self._closed: Closed = {}
        self.names = list(dict.fromkeys([entry.name for entry in entries if entry.is_argument]))
        self.auxiliary = {
            entry.inputs[position][0].name
            for entry in entries
            if not entry.is_argument
            for position in entry.call.auxiliary
        }

    @property
    def looks_at_values(self) -> bool:
        """Return whether a call inside may read values."""
        return any([not entry.is_argument and entry.call.looks_at_values for entry in self.entries])

    def run(self, inputs: list[Node], environment: Environment) -> tuple[list[Node], dict[int, Node]]:
        """Return the outputs, and the new values of modified inputs by position."""
        arguments = dict(zip(self.names, inputs, strict=True))
        outputs, changed = run(self.heads, self.entries, arguments, environment, self._closed)
        return outputs, {self.names.index(name): node for name, node in changed.items()}

    def infer(self, inputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the inferred specs of inputs and outputs."""
        inferred = infer(self.heads, dict(zip(self.names, inputs, strict=True)))
        by_name = {entry.name: inferred.specs[entry][0] for entry in inferred.entries if entry.is_argument}
        return [by_name[name] for name in self.names], [inferred.of(head) for head in self.heads]


def _check_graphs(operator: str, graphs: tuple[list[Head], ...], count: int) -> list[_Graph]:
    if len(graphs) != count:
        raise MXNetError(f"{operator} needs {count} inner graphs, but has {len(graphs)}")
    return [_Graph(graph) for graph in graphs]


def _stack(nodes: list[Node]) -> Node:
    stacked: Node = REGISTRY["stack"](*nodes, axis=0)
    return stacked


def _element(node: Node, index: int) -> Node:
    """Return one slice along the first axis."""
    piece = REGISTRY["slice_axis"](node, axis=0, begin=index, end=index + 1)
    element: Node = REGISTRY["_reshape"](piece, shape=node.shape[1:])
    return element


def _stack_spec(spec: Spec, steps: int) -> Spec:
    shape, dtype = spec
    return None if shape is None else (steps, *shape), dtype


class ForeachCall(Call):
    """A loop over the first axis of some inputs."""

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        given = _Attributes("_foreach", attributes)
        (self.body,) = _check_graphs("_foreach", graphs, 1)
        below = len(self.body.names)
        self.data = given.numbers("in_data_locs", below)
        self.states = given.numbers("in_state_locs", below)
        self.others = given.numbers("remain_locs", below)
        #: for each input of the loop, its position among the inputs of the body
        self.places = [*self.data, *self.states, *self.others]
        if sorted(self.places) != list(range(below)):
            raise MXNetError(f"_foreach: the body has {below} inputs, but the positions are {self.places}")
        self.outputs = given.number("num_out_data")
        if self.outputs + len(self.states) != len(self.body.heads):
            raise MXNetError(f"_foreach: the body has {len(self.body.heads)} outputs, not as num_out_data says")
        if not self.data:
            raise MXNetError("_foreach needs at least one array to iterate over")
        self.argument_names = tuple([f"arg{index}" for index in range(len(self.places))])
        self.output_names = default_output_names(len(self.body.heads))
        self.visible = len(self.output_names)
        names = self.body.names
        self.auxiliary = frozenset([i for i, place in enumerate(self.places) if names[place] in self.body.auxiliary])
        self.looks_at_values = self.body.looks_at_values

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Return the stacked outputs and the final states."""
        count = len(self.data)
        keep, node = environment.keep, environment.node
        current = {place: keep(inputs[index]) for index, place in enumerate(self.places)}
        arrays = inputs[:count]
        steps = arrays[0].shape[0] if arrays[0].shape else 0
        if any([not array.shape or array.shape[0] != steps for array in arrays]):
            raise MXNetError(f"foreach: arrays have different first axes: {[array.shape for array in arrays]}")
        if not steps:
            raise MXNetError("foreach over an empty axis has no outputs")
        held = [keep(array) for array in arrays]
        rows: list[list[Any]] = []
        changed: dict[int, Any] = {}
        for step in range(steps):
            current.update({place: keep(_element(node(held[i]), step)) for i, place in enumerate(self.data)})
            outputs, changes = self.body.run([node(current[place]) for place in sorted(current)], environment)
            rows.append([keep(output) for output in outputs[: self.outputs]])
            for place, new in changes.items():
                current[place] = changed[self.places.index(place)] = keep(new)
            current.update(zip(self.states, [keep(state) for state in outputs[self.outputs :]], strict=True))
        columns = [_stack([node(row[index]) for row in rows]) for index in range(self.outputs)]
        states = [node(current[place]) for place in self.states]
        return (*columns, *states), {place: node(new) for place, new in changed.items()}

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the specs that the body implies for inputs and outputs."""
        steps = next((shape[0] for shape, _ in [*inputs[: len(self.data)], *outputs[: self.outputs]] if shape), 0)
        inner: list[Spec] = [(None, None)] * len(self.places)
        for index, place in enumerate(self.places):
            shape, dtype = inputs[index]
            inner[place] = (shape[1:] if shape else None, dtype) if index < len(self.data) else (shape, dtype)
        found, results = self.body.infer(inner)
        known = [found[place] for place in self.places]
        known[: len(self.data)] = [_stack_spec(spec, steps) for spec in known[: len(self.data)]]
        return known, [_stack_spec(spec, steps) for spec in results[: self.outputs]] + results[self.outputs :]


class WhileCall(Call):
    """A loop that runs while a condition holds."""

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        given = _Attributes("_while_loop", attributes)
        self.test, self.body = _check_graphs("_while_loop", graphs, 2)
        count = at_most(given.number("num_args") - 2, "inputs")
        self.limit = given.number("max_iterations")
        self.outputs = given.number("num_out_data")
        self.test_places = given.numbers("cond_input_locs", count)
        self.body_places = given.numbers("func_input_locs", count)
        self.variables = given.numbers("func_var_locs", len(self.body.names))
        for graph, places in ((self.test, self.test_places), (self.body, self.body_places)):
            if len(graph.names) != len(places):
                raise MXNetError(f"_while_loop: a graph has {len(graph.names)} inputs, but {len(places)} are given")
        if self.outputs + len(self.variables) != len(self.body.heads):
            raise MXNetError(
                f"_while_loop: the body has {len(self.body.heads)} outputs, which does not match num_out_data"
            )
        self.argument_names = tuple([f"arg{index}" for index in range(count)])
        self.output_names = default_output_names(len(self.body.heads))
        self.visible = len(self.output_names)
        self.looks_at_values = self.test.looks_at_values or self.body.looks_at_values

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Return the stacked outputs, padded with zeros, and the final variables."""
        keep, node = environment.keep, environment.node
        current = [keep(source) for source in inputs]
        rows: list[list[Any]] = []
        changed: dict[int, Any] = {}
        while len(rows) < self.limit:
            (holds,), _ = self.test.run([node(current[place]) for place in self.test_places], environment)
            if not environment.is_true(holds):
                break
            outputs, changes = self.body.run([node(current[place]) for place in self.body_places], environment)
            rows.append([keep(output) for output in outputs[: self.outputs]])
            for place, new in changes.items():
                current[self.body_places[place]] = changed[self.body_places[place]] = keep(new)
            for position, new in zip(self.variables, outputs[self.outputs :], strict=True):
                current[self.body_places[position]] = keep(new)
        reached = [[node(output) for output in row] for row in rows]
        columns = [self._column(index, reached, inputs) for index in range(self.outputs)]
        final = [node(current[self.body_places[position]]) for position in self.variables]
        return (*columns, *final), {place: node(new) for place, new in changed.items()}

    def _column(self, index: int, rows: list[list[Node]], inputs: list[Node]) -> Node:
        """Return one output of all steps, with zeros for steps that did not run."""
        if rows:
            shape, dtype = rows[0][index].shape, rows[0][index].dtype
        else:
            specs: list[Spec] = [(inputs[place].shape, inputs[place].dtype) for place in self.body_places]
            partial, known = self.body.infer(specs)[1][index]
            if partial is None or known is None:
                raise MXNetError("while_loop ran no step, and the shape of its outputs is unknown")
            shape, dtype = partial, known
        empty = full(shape, 0, dtype, inputs[0].context)
        return _stack([row[index] for row in rows] + [empty] * (self.limit - len(rows)))

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the specs that the body implies for inputs and outputs."""
        found, results = self.body.infer([inputs[place] for place in self.body_places])
        known = list(inputs)
        for place, spec in zip(self.body_places, found, strict=True):
            known[place] = spec
        return known, [_stack_spec(spec, self.limit) for spec in results[: self.outputs]] + results[self.outputs :]


class BranchCall(Call):
    """One of two graphs, selected by a condition."""

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        given = _Attributes("_cond", attributes)
        self.graphs = _check_graphs("_cond", graphs, 3)
        count = at_most(given.number("num_args") - 3, "inputs")
        self.places = [given.numbers(f"{part}_input_locs", count) for part in ("cond", "then", "else")]
        for graph, places in zip(self.graphs, self.places, strict=True):
            if len(graph.names) != len(places):
                raise MXNetError(f"_cond: a graph has {len(graph.names)} inputs, but {len(places)} are given")
        if len(self.graphs[1].heads) != len(self.graphs[2].heads):
            raise MXNetError("_cond: the two branches have different numbers of outputs")
        self.argument_names = tuple([f"arg{index}" for index in range(count)])
        self.output_names = default_output_names(len(self.graphs[1].heads))
        self.visible = len(self.output_names)
        self.looks_at_values = any([graph.looks_at_values for graph in self.graphs])

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Return the outputs of the branch that the condition selects."""
        (holds,), _ = self.graphs[0].run([inputs[place] for place in self.places[0]], environment)
        chosen = 1 if environment.is_true(holds) else 2
        places = self.places[chosen]
        outputs, changes = self.graphs[chosen].run([inputs[place] for place in places], environment)
        return tuple(outputs), {places[index]: node for index, node in changes.items()}

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the specs that the branches imply for inputs and outputs."""
        known, found = list(inputs), list(outputs)
        for graph, places in zip(self.graphs, self.places, strict=True):
            specs, results = graph.infer([known[place] for place in places])
            for place, spec in zip(places, specs, strict=True):
                known[place] = spec
            if graph is self.graphs[1]:
                found = results
        return known, found


special.update(_foreach=ForeachCall, _while_loop=WhileCall, _cond=BranchCall)
