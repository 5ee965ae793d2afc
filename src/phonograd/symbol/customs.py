"""Custom operators in symbols: ``sym.Custom(x, op_type="name")``, and recorded autograd Functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import operator
from ..core.array.handle import make, node_in
from ..core.base.dtypes import as_array_dtype, public_type
from ..core.base.errors import MXNetError
from ..core.graph.interface import Partial, is_known
from ..core.graph.node import Node
from ..ndarray.array import NDArray
from .build import build
from .calls import Call, Environment, Outcome, Spec, special
from .entry import Head, text_of
from .graph import Symbol

__all__ = ["Custom", "CustomCall"]


def _parameters(attributes: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in attributes.items()
        if key not in ("op_type", "num_args") and not (key.startswith("__") and key.endswith("__"))
    }


class CustomCall(Call):
    """A call of a registered custom operator."""

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        if "op_type" not in attributes:
            raise MXNetError("Required parameter op_type of string is not presented, in operator Custom")
        self.op_type = attributes["op_type"]
        self.parameters = _parameters(attributes)
        make_prop: Callable[..., operator.CustomOpProp] = operator.registered_class(self.op_type)
        self.prop = make_prop(**self.parameters)
        arguments, states = list(self.prop.list_arguments()), list(self.prop.list_auxiliary_states())
        self.argument_names = (*arguments, *states)
        self.output_names = tuple(self.prop.list_outputs())
        self.visible = len(self.output_names)
        self.auxiliary = frozenset(range(len(arguments), len(arguments) + len(states)))
        self.looks_at_values = True

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Run the operator now, and return the nodes of its outputs."""
        arrays = [make(node, environment.trace) for node in inputs]
        result = operator.Custom(*arrays, op_type=self.op_type, **self.parameters)
        outputs: list[NDArray] = [result] if isinstance(result, NDArray) else result
        changed = {place: node_in(arrays[place], environment.trace) for place in self.auxiliary}
        return tuple([node_in(output, environment.trace) for output in outputs]), changed

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the shapes and types that the operator infers from the known inputs."""
        count = len(self.argument_names) - len(self.auxiliary)
        shapes = self._shapes([shape for shape, _ in inputs[:count]])
        types = [dtype for _, dtype in inputs[:count]]
        dtypes: list[list[Any]] = [[None] * len(inputs), [None] * len(outputs)]
        if types and types[0] is not None:
            found = self.prop.infer_type([None if dtype is None else public_type(dtype) for dtype in types])
            groups = [[as_array_dtype(kind) for kind in group] for group in found]
            dtypes = [[*groups[0], *(groups[2] if len(groups) > 2 else [])], groups[1]]
        return (
            [(shape, dtype) for shape, dtype in zip(shapes[0], dtypes[0], strict=True)],
            [(shape, dtype) for shape, dtype in zip(shapes[1], dtypes[1], strict=True)],
        )

    def _shapes(self, inputs: Sequence[Partial]) -> tuple[list[Partial], list[Partial]]:
        unknown: tuple[list[Partial], list[Partial]] = (
            [*inputs, *[None] * len(self.auxiliary)],
            [None] * len(self.output_names),
        )
        if not inputs or not is_known(inputs[0]):
            return unknown
        try:
            found = self.prop.infer_shape([list(shape or ()) for shape in inputs])
        except (IndexError, ValueError, TypeError, AssertionError):
            if all([is_known(shape) for shape in inputs]):
                raise
            # the operator needs more input shapes than are known yet
            return unknown
        groups = [[tuple(shape) or None for shape in group] for group in found]
        return [*groups[0], *(groups[2] if len(groups) > 2 else [])], groups[1]


class FunctionCall(Call):
    """A recorded call of an ``autograd.Function``: listed, but without its computation."""

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        self.argument_names = tuple([f"arg{index}" for index in range(inputs)])
        self.output_names = ("output",)
        self.visible = 1

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Raise, because the Function is unknown."""
        raise MXNetError(
            "a _CustomFunction can be listed, but not computed: the graph does not know the class of the "
            "autograd.Function. Record a custom operator (mx.operator.register) to compute it again."
        )

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the specs unchanged, because nothing can be inferred."""
        return inputs, outputs


special.update(Custom=CustomCall, _CustomFunction=FunctionCall)


def Custom(*data: Symbol, op_type: str, name: str | None = None, attr: Any = None, **kwargs: Any) -> Symbol:  # noqa: N802 - MXNet's name
    """Return the symbol of a registered custom operator; keywords are input symbols or parameters as strings."""
    for symbol in data:
        if not isinstance(symbol, Symbol):
            raise AssertionError(f"Positional arguments must be Symbol instances, but got {symbol}")
    named = {key: value for key, value in kwargs.items() if isinstance(value, Symbol)}
    parameters = {key: text_of(value) for key, value in kwargs.items() if key not in named}
    return build("Custom", "custom", data, {"op_type": op_type, **parameters}, name, attr, named)
