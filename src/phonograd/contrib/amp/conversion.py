"""Casts in the graph of a symbol: converts networks of float32 to mixed precision.

Takes the precision of operators from the lists of :mod:`.amp`, and dtypes from the type inference of symbols. Follows
MXNet's pass: a cast is added only where the dtype of an input is known to differ, or is not known; outputs of the
network are float32.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...core.base.dtypes import CODES, FLOAT32, DType, as_dtype, name_of
from ...core.graph.operator import REGISTRY, Operator
from ...symbol import Symbol, load_json

__all__ = ["with_casts"]

Graph = dict[str, Any]
#: a node and one of its outputs
Place = tuple[int, int]
#: dtypes of outputs; None for one that is not known, and for all
Dtypes = list[DType | None] | None


def with_casts(
    sym: Symbol,
    target: DType,
    precision_of_call: Callable[[Operator, Mapping[str, str]], str],
    excluded: Collection[str],
    parameters: Collection[str],
) -> Symbol:
    """Return a symbol with casts in front of its operators.

    Operators that ``excluded`` names run in float32. Those of ``parameters`` that only 16-bit operators read become
    16-bit variables.
    """
    graph = json.loads(sym.tojson(remove_amp_cast=False))
    return load_json(json.dumps(_Converter(graph, target, precision_of_call, excluded, parameters).convert()))


class _Types:
    """The dtypes of an operator's inputs and outputs that follow from the dtype of its first input."""

    def __init__(self, node: Mapping[str, Any], first: DType) -> None:
        count = len(node["inputs"])
        names = [f"input{place}" for place in range(count)]
        variables = [{"op": "null", "name": name, "inputs": []} for name in names]
        operator = {**node, "inputs": [[place, 0, 0] for place in range(count)]}
        alone = load_json(json.dumps({"nodes": [*variables, operator], "heads": [[count, 0, 0]]}))
        arguments, self.outputs, states = alone.infer_type_partial(input0=first)
        self.states = {int(name[len("input") :]) for name in alone.list_auxiliary_states()}
        found = dict(zip(alone.list_arguments(), arguments, strict=True))
        found.update(zip(alone.list_auxiliary_states(), states, strict=True))
        self.inputs = [found.get(name) for name in names]

    def takes(self, place: int, dtype: DType) -> bool:
        """Return whether an input may have a dtype."""
        found = self.inputs[place]
        return place not in self.states and (found is None or as_dtype(found) == dtype)

    def gives(self, output: int) -> DType | None:
        """Return the dtype of an output, None if it is not known."""
        # outputs that users do not see have the dtype of the first one
        found = self.outputs[min(output, len(self.outputs) - 1)]
        return None if found is None else as_dtype(found)


class _Converter:
    """Copies the graph of a symbol file, with casts."""

    def __init__(
        self,
        graph: Graph,
        target: DType,
        precision_of_call: Callable[[Operator, Mapping[str, str]], str],
        excluded: Collection[str],
        parameters: Collection[str],
    ) -> None:
        self._graph, self._target, self._excluded = graph, target, excluded
        self._precision_of_call = precision_of_call
        self._nodes: list[Graph] = []
        #: by node of the old graph its number in the new one
        self._numbers: dict[int, int] = {}
        #: by output of the old graph and dtype the output of the new graph that has this dtype
        self._known: dict[tuple[Place, DType], list[int]] = {}
        #: by node of the old graph the number of outputs that the graph reads
        self._outputs = [1] * len(graph["nodes"])
        for number, output, *_ in [*[place for node in graph["nodes"] for place in node["inputs"]], *graph["heads"]]:
            self._outputs[number] = max(self._outputs[number], output + 1)
        self._low_variables = self._variables_of_low_operators(parameters)

    def convert(self) -> Graph:
        """Return the new graph."""
        for number, node in enumerate(self._graph["nodes"]):
            places = [(place[0], place[1]) for place in node["inputs"]]
            inputs, outputs = (
                ([], None) if node["op"] == "null" else self._converted(node, places, self._outputs[number])
            )
            self._numbers[number] = len(self._nodes)
            for output, dtype in enumerate(outputs or ()):
                if dtype is not None:
                    self._known[(number, output), dtype] = [len(self._nodes), output, 0]
            if number in self._low_variables:
                node = {**node, "attrs": {**node.get("attrs", {}), "__dtype__": str(CODES[self._target])}}
                self._known[(number, 0), self._target] = [len(self._nodes), 0, 0]
            self._nodes.append({**node, "inputs": inputs})
        heads = [self._in_dtype((head[0], head[1]), FLOAT32) for head in self._graph["heads"]]
        variables = [number for number, node in enumerate(self._nodes) if node["op"] == "null"]
        graph = {key: value for key, value in self._graph.items() if key != "node_row_ptr"}
        return {**graph, "nodes": self._nodes, "heads": heads, "arg_nodes": variables}

    def _precision(self, node: Graph) -> str:
        if node["name"] in self._excluded:
            return "float32"
        declared = REGISTRY.get(node["op"])
        return "" if declared is None else self._precision_of_call(declared, node.get("attrs", {}))

    def _converted(self, node: Graph, places: Sequence[Place], count: int) -> tuple[list[list[int]], Dtypes]:
        """Return the inputs of a node in the new graph, and the dtypes of its outputs as far as they are known."""
        precision = self._precision(node)
        if not places:
            return [], None
        if precision == "float32":
            return [self._in_float32(each) for each in places], [FLOAT32] * count
        if precision == "low":
            types = _Types(node, self._target)
            inputs = [
                self._in_dtype(each, self._target) if types.takes(number, self._target) else self._as_it_is(each)
                for number, each in enumerate(places)
            ]
            return inputs, [types.gives(output) for output in range(count)]
        if precision == "widest" and len(places) > 1:
            return self._widest(node, places, count)
        first = self._dtype(places[0])
        outputs = None if first is None else [_Types(node, first).gives(output) for output in range(count)]
        return [self._as_it_is(each) for each in places], outputs

    def _widest(self, node: Graph, places: Sequence[Place], count: int) -> tuple[list[list[int]], Dtypes]:
        dtypes = {self._dtype(each) for each in places}
        if None not in dtypes:
            dtype = FLOAT32 if FLOAT32 in dtypes else self._target
            return [self._in_dtype(each, dtype) for each in places], [dtype] * count
        joined = {
            "op": "amp_multicast",
            "name": f"{node['name']}_amp_multicast",
            "attrs": {"num_outputs": str(len(places))},
            "inputs": [self._as_it_is(each) for each in places],
        }
        self._nodes.append(joined)
        return [[len(self._nodes) - 1, output, 0] for output in range(len(places))], None

    def _in_float32(self, place: Place) -> list[int]:
        # variables are float32, except for those that became 16-bit ones
        is_variable = self._graph["nodes"][place[0]]["op"] == "null"
        return self._as_it_is(place) if is_variable else self._in_dtype(place, FLOAT32)

    def _dtype(self, place: Place) -> DType | None:
        """Return the dtype of an output of the old graph; None if it is not known."""
        return next((dtype for dtype in (FLOAT32, self._target) if self._is_known(place, dtype)), None)

    def _is_known(self, place: Place, dtype: DType) -> bool:
        found = self._known.get((place, dtype))
        # casts of it say nothing about the output itself
        return found is not None and found[0] == self._numbers[place[0]]

    def _as_it_is(self, place: Place) -> list[int]:
        return [self._numbers[place[0]], place[1], 0]

    def _in_dtype(self, place: Place, dtype: DType) -> list[int]:
        """Return an output in a dtype, with a cast if it is not known to have it."""
        key = place, dtype
        if key not in self._known:
            before = self._graph["nodes"][place[0]]
            outputs = self._outputs[place[0]]
            suffix = "" if before["op"] == "null" else "_output" if outputs == 1 else f"_{place[1]}"
            name = f"{before['name']}{suffix}_amp_cast_{name_of(dtype)}"
            attributes = {"dtype": name_of(dtype)}
            self._nodes.append({"op": "amp_cast", "name": name, "attrs": attributes, "inputs": [self._as_it_is(place)]})
            self._known[key] = [len(self._nodes) - 1, 0, 0]
        return self._known[key]

    def _variables_of_low_operators(self, parameters: Collection[str]) -> set[int]:
        """Return the variables among some parameters that have no other readers than 16-bit operators."""
        nodes = self._graph["nodes"]
        found = {number for number, node in enumerate(nodes) if node["op"] == "null" and node["name"] in parameters}
        for node in nodes:
            is_low = node["op"] != "null" and self._precision(node) == "low"
            types = _Types(node, self._target) if is_low and node["inputs"] else None
            for place, (source, *_) in enumerate(node["inputs"]):
                if types is None or not types.takes(place, self._target):
                    found.discard(source)
        return found - {head[0] for head in self._graph["heads"]}
