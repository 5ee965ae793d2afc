"""Symbol: a recorded computation as a named graph. ``autograd.get_symbol`` makes one from an array.

A Symbol lists what was recorded in terms of the operators the user called: variables are ``var<k>``, arrays that were
not recorded ``null<k>``, operators ``node_<n>``. Numbers beside arrays (``x * 2``) are attributes of the operator, as in
MXNet's symbol files.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

from .errors import MXNetError
from .ndarray.array import NDArray
from .ndarray.handle import enter
from .node import Node
from .operator import Operator
from .operators.structural import LEAF, VARIABLE, constant_value
from .sweep import FunctionOutput
from .trace import LOCAL, Origin, Trace
from .variable import Variable

__all__ = ["Symbol", "get_symbol"]

_numbers = itertools.count()
_NOT_RECORDED = "NDArray is not part of a computation graph. Did you forget to turn on recording?"
_VERSION = 10901

#: name of an operator with a number as its second operand, and with one as its first
_SCALAR_FORMS = {
    "broadcast_add": ("_plus_scalar", "_plus_scalar"),
    "broadcast_sub": ("_minus_scalar", "_rminus_scalar"),
    "broadcast_mul": ("_mul_scalar", "_mul_scalar"),
    "broadcast_div": ("_div_scalar", "_rdiv_scalar"),
    "broadcast_mod": ("_mod_scalar", "_rmod_scalar"),
    "broadcast_power": ("_power_scalar", "_rpower_scalar"),
    "broadcast_maximum": ("_maximum_scalar", "_maximum_scalar"),
    "broadcast_minimum": ("_minimum_scalar", "_minimum_scalar"),
    "broadcast_equal": ("_equal_scalar", "_equal_scalar"),
    "broadcast_not_equal": ("_not_equal_scalar", "_not_equal_scalar"),
    "broadcast_greater": ("_greater_scalar", "_lesser_scalar"),
    "broadcast_greater_equal": ("_greater_equal_scalar", "_lesser_equal_scalar"),
    "broadcast_lesser": ("_lesser_scalar", "_greater_scalar"),
    "broadcast_lesser_equal": ("_lesser_equal_scalar", "_greater_equal_scalar"),
}


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


class Symbol:
    """A named graph of operators with one or more outputs."""

    def __init__(self, heads: list[tuple[Entry, int]]) -> None:
        self._heads = heads

    @property
    def name(self) -> str | None:
        """The name of the operator or argument this symbol is; None for several outputs."""
        return self._heads[0][0].name if len(self._heads) == 1 else None

    def __repr__(self) -> str:
        return f"<Symbol {self.name or 'group [' + ', '.join(self.list_outputs()) + ']'}>"

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

    def list_outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return [_output_name(entry, index) for entry, index in self._heads]

    def list_auxiliary_states(self) -> list[str]:
        """Return the names of inputs that operators change: none, since recorded inputs are values."""
        return []

    def get_internals(self) -> Symbol:
        """Return a symbol whose outputs are those of every node of this one."""
        return Symbol([(entry, index) for entry in self._entries() for index in range(entry.outputs)])

    def __len__(self) -> int:
        return len(self._heads)

    def __getitem__(self, index: int | str) -> Symbol:
        if isinstance(index, str):
            names = self.list_outputs()
            if index not in names:
                raise ValueError(f"There is no output named {index!r}; outputs are {', '.join(names)}")
            index = names.index(index)
        return Symbol([self._heads[index]])

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """Return the attributes of every node that has some, by node name."""
        return {entry.name: dict(entry.attributes) for entry in self._entries() if entry.attributes}

    def tojson(self) -> str:
        """Return the graph in MXNet's JSON form."""
        entries = self._entries()
        number = {entry: index for index, entry in enumerate(entries)}
        nodes = []
        for entry in entries:
            node: dict[str, Any] = {"op": entry.operator, "name": entry.name}
            if entry.attributes:
                node["attrs"] = dict(entry.attributes)
            node["inputs"] = [[number[source], index, 0] for source, index in entry.inputs]
            nodes.append(node)
        rows = [0, *itertools.accumulate(entry.outputs for entry in entries)]
        graph = {
            "nodes": nodes,
            "arg_nodes": [index for index, entry in enumerate(entries) if entry.operator == "null"],
            "node_row_ptr": rows,
            "heads": [[number[entry], index, 0] for entry, index in self._heads],
            "attrs": {"mxnet_version": ["int", _VERSION]},
        }
        return json.dumps(graph, indent=2)


def _output_name(entry: Entry, index: int) -> str:
    if entry.operator == "null":
        return entry.name
    return f"{entry.name}_output{index if entry.outputs > 1 else ''}"


def get_symbol(x: NDArray) -> Symbol:
    """Return the recorded computation of an array as a Symbol.

    >>> import phonograd as mx
    >>> x = mx.nd.ones((2,))
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * x + 2 * x - 1
    >>> len(mx.autograd.get_symbol(y).list_arguments())
    1
    """
    if not isinstance(x, NDArray):
        raise AssertionError(f"get_symbol: Invalid argument type, expecting {NDArray}, got {type(x)}")
    if x._node is None and x._variable is not None:
        enter(x, LOCAL.trace)
    if x._node is None or x._trace is None or not x._node.marked:
        raise MXNetError(_NOT_RECORDED)
    reader = _Reader()
    return Symbol([reader.read(x._trace, x._node)])


class _Reader:
    """Translates nodes of traces into entries, each once; iterative, because records can be very deep."""

    def __init__(self) -> None:
        self.found: dict[Any, tuple[Entry, int]] = {}

    def read(self, trace: Trace, node: Node) -> tuple[Entry, int]:
        stack = [(trace, node)]
        while stack:
            here = stack[-1]
            needed = [need for need in self._needs(*here) if need not in self.found]
            if needed:
                stack.extend(reversed(needed))
                continue
            stack.pop()
            if here not in self.found:
                self.found[here] = self._translate(*here)
        return self.found[trace, node]

    def _needs(self, trace: Trace, node: Node) -> list[tuple[Trace, Node]]:
        """Return what must be translated before a node."""
        if not node.marked:
            return []
        if node.operator is VARIABLE:
            target = trace.targets[node.attributes[0]]
            if isinstance(target, Origin):
                return [(target.trace, target.node)]
            if isinstance(target, FunctionOutput):
                return target.call.sources()
            return []
        if node.call is None and node.operator.is_view:
            return [(trace, node.inputs[-1])]
        sources = node.call[1] if node.call is not None else _whole(node).inputs
        return [(trace, source) for source in sources if self._number(trace, source) is None and _present(source)]

    @staticmethod
    def _number(trace: Trace, node: Node) -> Any:
        """Return the value of a number used beside arrays, or None for an array."""
        if node.marked or node.shape:
            return None
        if node.operator is LEAF:
            return trace.leaves[node.attributes[0]].item()
        value = constant_value(node)
        return None if value is None else value.item()

    def _translate(self, trace: Trace, node: Node) -> tuple[Entry, int]:
        if not node.marked:
            return Entry("null", f"null{next(_numbers)}", {}, []), 0
        if node.operator is VARIABLE:
            return self._target(trace.targets[node.attributes[0]])
        if node.call is None and node.operator.is_view:
            return self.found[trace, node.inputs[-1]]
        if node.call is not None:
            key = (trace, node.call)
            if key not in self.found:
                self.found[key] = self._operator(trace, *node.call, 1), 0
            return self.found[key][0], node.attributes[1]
        whole = _whole(node)
        key = (trace, whole, "whole")
        if key not in self.found:
            count = 1 if whole.outputs is None else len(whole.outputs)
            self.found[key] = self._operator(trace, whole.operator, whole.inputs, whole.attributes, count), 0
        return self.found[key][0], node.attributes[0] if whole is not node else 0

    def _target(self, target: Any) -> tuple[Entry, int]:
        if isinstance(target, Origin):
            return self.found[target.trace, target.node]
        if isinstance(target, Variable):
            if target not in self.found:
                self.found[target] = Entry("null", f"var{next(_numbers)}", {}, []), 0
            return self.found[target]
        call = target.call
        inputs = [self.found[source] for source in call.sources()]
        if call.name is None:
            return inputs[0]
        if call not in self.found:
            entry = Entry("_CustomFunction", f"node_{next(_numbers)}", {}, inputs, len(call.outputs))
            self.found[call] = entry, 0
        return self.found[call][0], target.index

    def _operator(
        self, trace: Trace, declared: Operator, sources: tuple[Node, ...], attributes: tuple[Any, ...], outputs: int
    ) -> Entry:
        numbers = [self._number(trace, source) for source in sources]
        inputs = [
            self.found[trace, source]
            for source, number in zip(sources, numbers, strict=True)
            if number is None and _present(source)
        ]
        name = declared.name
        shown = {
            key: _text(value)
            for key, value in zip(declared.parameter_names, attributes, strict=True)
            if value is not None and key != "training"
        }
        if name in _SCALAR_FORMS and len(sources) == 2 and numbers != [None, None]:
            first = numbers[0] is not None
            shown["scalar"] = str(float(numbers[0] if first else numbers[1]))
            name = _SCALAR_FORMS[name][first]
        return Entry(name, f"node_{next(_numbers)}", shown, inputs, outputs)


def _whole(node: Node) -> Node:
    """Return the node of the operator that a node is an output of."""
    return node.inputs[0] if node.operator.name == "_item" else node


def _present(node: Node) -> bool:
    return node.operator.name != "_absent"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ",".join(str(item) for item in value) + "]"
    return str(value)
