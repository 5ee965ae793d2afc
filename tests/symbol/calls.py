"""The calls whose symbols are compared with MXNet's: those of the oracle's cases, as calls of ``sym``.

Plain data, so that the script that records MXNet and the tests say the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..oracle.cases import families

RECORDED = Path(__file__).resolve().parent / "recorded"


@dataclass(frozen=True)
class Call:
    """One call of a function of ``sym``: inputs by shape and dtype, then other arguments."""

    name: str
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    arguments: tuple[Any, ...]
    parameters: dict[str, Any]

    @property
    def key(self) -> str:
        """Return the name by which recordings and tests know the call."""
        words = [self.name, *["x".join(map(str, shape)) + dtype for shape, dtype in self.inputs]]
        words += [str(a) for a in self.arguments] + [f"{k}={v}" for k, v in self.parameters.items()]
        return "-".join(words).replace(" ", "")

    def make(self, mx: Any, inputs: int) -> Any:
        """Return the symbol of the call with variables for the first inputs only."""
        function = mx.sym
        for part in self.name.split("."):
            function = getattr(function, part)
        variables = [mx.sym.var(f"input{index}") for index in range(inputs)]
        if inputs < len(self.inputs) and self.arguments:
            raise ValueError("arguments by position need all inputs")
        return function(*variables, *self.arguments, name="made", **self.parameters)


def calls() -> list[Call]:
    """Return all calls, each once."""
    found: dict[str, Call] = {}
    for family in families().values():
        for case in family:
            if not case.call.startswith("nd.") or "ctx" in case.parameters or "out" in case.parameters:
                continue
            inputs = tuple((spec.shape, spec.dtype) for spec in case.inputs)
            call = Call(case.call.removeprefix("nd."), inputs, case.arguments, dict(case.parameters))
            if all(0 not in shape and shape for shape, _ in inputs):
                found.setdefault(call.key, call)
    return list(found.values())


def described(symbol: Any) -> dict[str, Any]:
    """Return what a symbol says of itself, in a form that is the same in both libraries."""
    graph = json.loads(symbol.tojson())
    nodes = [[n["op"], n["name"], n.get("attrs", {}), [i[:2] for i in n["inputs"]]] for n in graph["nodes"]]
    return {
        "nodes": nodes,
        "rows": graph["node_row_ptr"],
        "heads": [head[:2] for head in graph["heads"]],
        "outputs": symbol.list_outputs(),
        "arguments": symbol.list_arguments(),
        "states": symbol.list_auxiliary_states(),
    }


def names_of_types(types: Any) -> Any:
    """Return types by name, None where nothing is known."""
    return [[None if kind is None else np.dtype(kind).name for kind in part] for part in types]


def inferred(symbol: Any, call: Call, inputs: int) -> dict[str, Any]:
    """Return what follows from the shapes, and from the dtypes, of the first inputs."""
    shapes = {f"input{index}": call.inputs[index][0] for index in range(inputs)}
    dtypes = {f"input{index}": call.inputs[index][1] for index in range(inputs)}
    return {
        "shapes": [[list(shape) for shape in part] for part in symbol.infer_shape_partial(**shapes)],
        "types": names_of_types(symbol.infer_type_partial(**dtypes)),
    }


def outcome(call: Call, mx: Any, inputs: int) -> dict[str, Any]:
    """Return all that is recorded of a call, or the class of the error it ends with."""
    try:
        symbol = call.make(mx, inputs)
        found = described(symbol)
    except (RuntimeError, TypeError, ValueError, AssertionError, AttributeError) as error:
        return {"error": type(error).__name__}
    try:
        found.update(inferred(symbol, call, inputs))
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        found["inference"] = type(error).__name__
    return found
