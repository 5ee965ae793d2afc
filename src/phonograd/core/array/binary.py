"""Operators of two operands, either of which may be a number: the methods of arrays behind ``+``, ``-=`` and so on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.errors import MXNetError, format_shape
from ..base.settings import active
from ..graph.node import Node
from ..graph.operator import NAMES, REGISTRY, Operator
from ..ops.math.structural import detach
from ..trace.flags import FLAGS, RECORDING
from ..trace.trace import LOCAL, ready_trace
from . import handle as _handle
from .handle import Handle, assign, make_result, materialize_if_naive, node_in, record_or_detach
from .observed import LISTENERS, observed

__all__ = ["BINARY", "Numbers", "binary", "finish", "inplace", "operate", "use_class"]

Numbers = (int, float, bool, np.number, np.bool_)


def operate(declared: Operator, lhs: Any, rhs: Any) -> Node:
    """Return the node of a binary operator for arrays or numbers: the slow path of ``+``, ``nd.add`` and so on."""
    trace = ready_trace()
    if isinstance(lhs, Handle):
        first = node_in(lhs, trace)
        if isinstance(rhs, Handle):
            second = node_in(rhs, trace)
        else:
            number = rhs if type(rhs) is float else _number(rhs)
            if first.dtype.kind != "f":
                first = (declared.beside_numbers or _counted)(first)
            second = trace.bind_scalar(number, first.dtype, first.kind, first.context)
    else:
        number = lhs if type(lhs) is float else _number(lhs)
        if not isinstance(rhs, Handle):
            raise TypeError(f"type {type(rhs)} not supported")
        second = node_in(rhs, trace)
        if second.dtype.kind != "f":
            second = (declared.beside_numbers or _counted)(second)
        first = trace.bind_scalar(number, second.dtype, second.kind, second.context)
    key = first, second
    node: Node | None = declared.calls.get(key)
    if node is None:
        node = declared.calls[key] = declared.apply(key, ())
    return record_or_detach(node)


def _counted(node: Node) -> Node:
    """Return a node as an operand beside a number: truth values become integers."""
    return REGISTRY["_cast"](node, dtype=np.int64) if node.dtype.kind == "b" else node


def _number(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Numbers) or isinstance(value, np.complexfloating):
        raise TypeError(f"type {type(value)} not supported")
    return value


#: the methods of operators of two operands, with the calls they remember, whether they exchange the operands, and
#: whether they change the first
BINARY: list[tuple[Any, dict[Any, Any], bool, bool]] = []


def _name(method: Any, prefix: str, declared: Operator) -> None:
    word = declared.with_scalars or ""
    # an expression of mx.np has the word of the operator that it is made of
    word = NAMES["with_scalars"][word].python or word if word in NAMES["with_scalars"] else word
    method.__name__ = method.__qualname__ = f"__{prefix}{word}__"


def binary(operator: str | Operator, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """Return the method of a binary operator (``__add__``; reflected: ``__radd__``)."""
    declared = REGISTRY[operator] if isinstance(operator, str) else operator
    calls = declared.calls
    local, flags = LOCAL, FLAGS

    def observable(listeners: Sequence[int]) -> Callable[[Any, Any], Any]:
        """Return the method; without listeners, what it does beside telling observers."""

        def method(self: Any, other: Any) -> Any:
            if listeners:
                operands = (other, self) if reflected else (self, other)
                return observed(declared, operands, None, (), deaf, (self, other))
            trace = local.trace
            node = None
            # nodes are read before traces, because another thread may take an array over in between (trace.HANDOVER)
            own = self._node
            if self._trace is trace and not active.naive:
                kind = type(other)
                if kind is array_class:
                    operand = other._node
                    if other._trace is trace:
                        node = calls.get((own, operand))
                elif kind is float or kind is int:
                    scalar = trace.scalars.get((other, own.kind)) if own is not None else None
                    if scalar is not None:
                        node = calls.get((scalar, own) if reflected else (own, scalar))
            if node is None:
                operands = (other, self) if reflected else (self, other)
                return make_result(operate(declared, *operands), local.trace, array_class)
            if node.marked:
                if not flags.get() & RECORDING:
                    node = node.detached or detach(node)
                elif node in trace.made:
                    node = trace.distinct(node)
                else:
                    trace.made[node] = 1
            result = new(array_class)
            result._trace = trace
            result._node = node
            result._buffer = result._extras = None
            handles = trace.handles
            handles.append(result)
            if len(handles) > trace.prune_at:
                trace.prune()
            return result

        return method

    array_class: Any = _handle._class
    new = object.__new__
    deaf, method = observable(()), observable(LISTENERS)
    _name(method, "r" if reflected else "", declared)
    method.__doc__ = declared.__doc__
    if array_class is Handle:
        _late.append(method)
    BINARY.append((method, calls, reflected, False))
    return method


def use_class(method: Any, array_class: type[Any]) -> None:
    """Tell a method made by :func:`binary` which class arrays have."""
    names = method.__code__.co_freevars
    method.__closure__[names.index("array_class")].cell_contents = array_class


_late: list[Any] = []


def finish(array_class: type[Any]) -> None:
    """Tell the methods made so far which class arrays have; called once the class exists."""
    _handle.use_class(array_class)
    for method in _late:
        use_class(method, array_class)
    _late.clear()


_INPLACE_WORDS = {
    "add": "add to",
    "subtract": "subtract from",
    "multiply": "multiply to",
    "divide": "divide from",
    "modulo": "take modulo from",
}


def inplace(operator: str | Operator) -> Callable[[Any, Any], Any]:
    """Return the method of an in-place operator: the array names the result from now on."""
    declared = REGISTRY[operator] if isinstance(operator, str) else operator
    word, calls = _INPLACE_WORDS.get(declared.with_scalars or "", "change"), declared.calls

    def method(self: Any, other: Any) -> Any:
        if LISTENERS:
            before = self._node, getattr(other, "_node", None)
            return observed(declared, (self, other), None, (), deaf, (self, other), before=before)
        return deaf(self, other)

    def deaf(self: Any, other: Any) -> Any:
        own, trace = self._node, LOCAL.trace
        if type(self) is type(other) and self._trace is trace and not active.naive:
            operand = other._node
            node = calls.get((own, operand)) if other._trace is trace else None
            if node is not None and node.shape == own.shape and node.dtype is own.dtype and not self._readonly:
                assign(self, record_or_detach(node) if node.marked else node, trace)
                return self
        return change(self, other)

    def change(self: Any, other: Any) -> Any:
        if self._readonly:
            raise ValueError(f"trying to {word} a readonly NDArray")
        node = operate(declared, self, other)
        if node.shape != self.shape:
            raise MXNetError(
                f"Shape inconsistent, Provided = {format_shape(self.shape)}, inferred shape={format_shape(node.shape)}"
            )
        if node.dtype != self._dtype:
            raise MXNetError(f"in-place {declared.name} would change the dtype from {self._dtype} to {node.dtype}")
        assign(self, node, LOCAL.trace)
        return materialize_if_naive(self)

    _name(method, "i", declared)
    method.__doc__ = f"In place: {declared.__doc__}"
    BINARY.append((method, calls, False, True))
    return method
