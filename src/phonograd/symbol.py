"""Symbol: a computation as a named graph, in MXNet's terms. ``autograd.get_symbol`` makes one from a recorded array.

An :class:`Entry` has the name of an operator of the registry ("null" for an argument), a name of its own, and
attributes as text, as they stand in symbol files. That is all that is needed to compute: shapes and values of a graph
are those of its operators applied to arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .context import Context
from .dtypes import as_dtype
from .errors import MXNetError, nearest
from .name import NameManager
from .ndarray.array import NDArray
from .ndarray.handle import counter_leaf, enter, make, settled
from .node import Node
from .operator import REGISTRY
from .operators.structural import leaf
from .state import is_training
from .trace import LOCAL

__all__ = ["Entry", "Symbol"]

_VERSION = 10901
_NUMBERS = (int, float, np.number, np.bool_)


class Entry:
    """One node of a symbol's graph: operator name ("null" for an argument), name, attributes, inputs."""

    __slots__ = ("attributes", "inputs", "name", "operator", "outputs")

    def __init__(
        self,
        operator: str,
        name: str,
        attributes: dict[str, str],
        inputs: list[tuple[Entry, int]],
        outputs: int = 1,
    ) -> None:
        self.operator = operator
        self.name = name
        self.attributes = attributes
        self.inputs = inputs
        self.outputs = outputs

    def output_name(self, index: int) -> str:
        """Return the name of one output."""
        if self.operator == "null":
            return self.name
        return f"{self.name}_output{index if self.outputs > 1 else ''}"

    def apply(self, inputs: list[Node], counter: Callable[[], Node]) -> tuple[Node, ...]:
        """Return the nodes of the outputs for nodes of the inputs; ``counter`` gives random operators their place."""
        declared = REGISTRY.get("identity" if self.operator == "_copyto" else self.operator)
        if declared is None:
            raise MXNetError(f"operator {self.operator} of node {self.name} can be listed, but not computed")
        given: dict[str, Any] = {key: text for key, text in self.attributes.items() if key != "num_args"}
        if declared.training:
            given["training"] = is_training()
        nodes: tuple[Node | None, ...] = tuple(inputs)
        if declared.random:
            nodes += (None,) * (len(declared.input_names) - 1 - len(nodes)) + (counter(),)
        try:
            result = declared.apply(nodes, declared.attributes_of(given))
        except MXNetError as error:
            raise MXNetError(f"Error in operator {self.name}: {error}") from error
        return result if isinstance(result, tuple) else (result,)


class Symbol:
    """A named graph of operators with one or more outputs."""

    def __init__(self, heads: list[tuple[Entry, int]]) -> None:
        self._heads = heads

    # -- what it consists of

    @property
    def name(self) -> str | None:
        """The name of the operator or argument this symbol is; None for several outputs."""
        return self._heads[0][0].name if len(self._heads) == 1 else None

    def __repr__(self) -> str:
        names = ", ".join([entry.name for entry, _ in self._heads])
        return f"<Symbol {self.name or f'group [{names}]'}>"

    def _entries(self) -> list[Entry]:
        """Return all entries, inputs before what uses them, in depth-first order."""
        order: dict[Entry, None] = {}
        stack = [(head, False) for head, _ in reversed(self._heads)]
        while stack:
            entry, ready = stack.pop()
            if entry in order:
                continue
            if ready:
                order[entry] = None
                continue
            stack.append((entry, True))
            stack.extend((source, False) for source, _ in reversed(entry.inputs) if source not in order)
        return list(order)

    def list_arguments(self) -> list[str]:
        """Return the names of all inputs, in depth-first order."""
        return [entry.name for entry in self._entries() if entry.operator == "null"]

    list_inputs = list_arguments

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return [entry.output_name(index) for entry, index in self._heads]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of inputs that operators change: none, since recorded inputs are values."""
        return []

    def get_internals(self) -> Symbol:
        """Return a symbol whose outputs are those of every node of this one."""
        return Symbol([(entry, index) for entry in self._entries() for index in range(entry.outputs)])

    def get_children(self) -> Symbol | None:
        """Return a symbol whose outputs are the inputs of this one's operators; None for an argument."""
        children = [source for entry, _ in self._heads for source in entry.inputs]
        return Symbol(children) if children else None

    def __len__(self) -> int:
        return len(self._heads)

    def __getitem__(self, index: int | str) -> Symbol:
        if isinstance(index, str):
            names = self.list_outputs()
            if index not in names:
                raise ValueError(f"There is no output named {index!r}; outputs are {', '.join(names)}")
            index = names.index(index)
        return Symbol([self._heads[index]])

    def __iter__(self) -> Iterator[Symbol]:
        return (self[index] for index in range(len(self)))

    def attr(self, key: str) -> str | None:
        """Return an attribute of the node this symbol is, or None."""
        return self._heads[0][0].attributes.get(key)

    def list_attr(self) -> dict[str, str]:
        """Return the attributes of the node this symbol is."""
        return dict(self._heads[0][0].attributes)

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the attributes of every node that has some, by node name."""
        return {entry.name: dict(entry.attributes) for entry in self._entries() if entry.attributes}

    def tojson(self) -> str:
        """Return the graph in MXNet's JSON form."""
        entries = self._entries()
        numbers = {entry: index for index, entry in enumerate(entries)}
        nodes = []
        rows = [0]
        for entry in entries:
            node: dict[str, Any] = {"op": entry.operator, "name": entry.name}
            if entry.attributes:
                node["attrs"] = entry.attributes
            node["inputs"] = [[numbers[source], index, 0] for source, index in entry.inputs]
            nodes.append(node)
            rows.append(rows[-1] + entry.outputs)
        graph = {
            "nodes": nodes,
            "arg_nodes": [index for index, entry in enumerate(entries) if entry.operator == "null"],
            "node_row_ptr": rows,
            "heads": [[numbers[entry], index, 0] for entry, index in self._heads],
            "attrs": {"mxnet_version": ["int", _VERSION]},
        }
        return json.dumps(graph, indent=2)

    # -- computing with it

    def _apply(self, arguments: Mapping[str, Node], counter: Callable[[], Node]) -> list[Node]:
        """Return the nodes of the outputs, given a node for each argument."""
        found: dict[Entry, tuple[Node, ...]] = {}
        for entry in self._entries():
            if entry.operator == "null":
                found[entry] = (arguments[entry.name],)
            else:
                found[entry] = entry.apply([found[source][index] for source, index in entry.inputs], counter)
        return [found[entry][index] for entry, index in self._heads]

    def _check_names(self, given: Mapping[str, Any], method: str) -> None:
        names = self.list_arguments()
        for name in given:
            if name not in names:
                raise MXNetError(
                    f"{method}: Keyword argument name {name} not found.{nearest(name, names)} "
                    f"Candidate arguments: {', '.join(names)}"
                )

    def _infer(self, given: Mapping[str, tuple[tuple[int, ...], Any]]) -> tuple[list[Node], list[Node]]:
        names = self.list_arguments()
        arguments = {
            name: leaf(index, tuple(given[name][0]), as_dtype(given[name][1])) for index, name in enumerate(names)
        }
        counter = leaf(len(names), (4,), np.dtype("uint32"))
        return list(arguments.values()), self._apply(arguments, lambda: counter)

    def infer_shape(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Return the shapes of arguments, outputs and auxiliary states; three times None if an argument's is missing.

        Shapes are given in the order of :meth:`list_arguments`, or by name.
        """
        names = self.list_arguments()
        self._check_names(kwargs, "infer_shape")
        shapes = {**dict(zip(names, args)), **kwargs}
        if any(shapes.get(name) is None for name in names):
            return None, None, None
        arguments, outputs = self._infer({name: (shape, "float32") for name, shape in shapes.items()})
        return [node.shape for node in arguments], [node.shape for node in outputs], []

    def eval(self, ctx: Context | None = None, **kwargs: NDArray) -> list[NDArray]:
        """Return the outputs for arrays given by argument name; recorded if recording is on."""
        self._check_names(kwargs, "eval")
        for name in self.list_arguments():
            if name not in kwargs:
                raise ValueError(f"key `{name}` is missing in `args`")
        trace = LOCAL.trace
        arguments = {name: enter(array, trace) for name, array in kwargs.items()}
        nodes = self._apply(arguments, lambda: counter_leaf(trace))
        return [make(settled(node), trace) for node in nodes]

    def bind(
        self, ctx: Context | None, args: Any, args_grad: Any = None, grad_req: Any = "write", aux_states: Any = None
    ) -> Any:
        """Return an :class:`~phonograd.executor.Executor` that computes with given arrays.

        ``args`` and ``args_grad`` are lists in the order of :meth:`list_arguments`, or dictionaries by name.
        """
        from .executor import Executor

        return Executor(self, args, args_grad, grad_req)

    def simple_bind(self, ctx: Context | None, grad_req: Any = "write", **kwargs: Any) -> Any:
        """Return an executor with new arrays of the given shapes, filled with zeros."""
        from .executor import Executor
        from .ndarray.creation import zeros

        shapes, _, _ = self.infer_shape(**kwargs)
        if shapes is None:
            raise MXNetError(f"simple_bind needs the shapes of all arguments: {', '.join(self.list_arguments())}")
        return Executor(self, [zeros(s, ctx) for s in shapes], [zeros(s, ctx) for s in shapes], grad_req)

    # -- composing

    def _compose(self, other: Any, between: str, number_after: str, number_before: str | None = None) -> Symbol:
        if isinstance(other, Symbol):
            name, attributes, inputs = between, {}, [self._heads[0], other._heads[0]]
        elif isinstance(other, _NUMBERS):
            name, attributes, inputs = number_before or number_after, {"scalar": str(float(other))}, [self._heads[0]]
        else:
            raise TypeError(f"type {type(other)} not supported")
        declared = REGISTRY[name].name if name not in ("_mod", "_power") else name
        return Symbol([(Entry(declared, NameManager.current.get(None, _HINTS.get(name, name)), attributes, inputs), 0)])

    def __add__(self, other: Any) -> Symbol:
        return self._compose(other, "_plus", "_plus_scalar")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Symbol:
        return self._compose(other, "_minus", "_minus_scalar")

    def __rsub__(self, other: Any) -> Symbol:
        return self._compose(other, "_minus", "_minus_scalar", "_rminus_scalar")

    def __mul__(self, other: Any) -> Symbol:
        return self._compose(other, "_mul", "_mul_scalar")

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Symbol:
        return self._compose(other, "_div", "_div_scalar")

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._compose(other, "_div", "_div_scalar", "_rdiv_scalar")

    def __mod__(self, other: Any) -> Symbol:
        return self._compose(other, "_mod", "_mod_scalar")

    def __rmod__(self, other: Any) -> Symbol:
        return self._compose(other, "_mod", "_mod_scalar", "_rmod_scalar")

    def __pow__(self, other: Any) -> Symbol:
        return self._compose(other, "_power", "_power_scalar")

    def __rpow__(self, other: Any) -> Symbol:
        return self._compose(other, "_power", "_power_scalar", "_rpower_scalar")

    def __neg__(self) -> Symbol:
        return self * -1.0


#: what MXNet builds the names of composed symbols from, where it is not the operator's name
_HINTS = {
    f"_{word}_scalar": f"_{word}scalar"
    for word in ("plus", "minus", "rminus", "mul", "div", "rdiv", "mod", "rmod", "power")
}
