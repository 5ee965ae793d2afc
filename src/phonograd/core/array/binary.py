"""Binary operators on arrays and numbers: the methods behind ``+``, ``-=`` and so on.

Takes operators from the registry and arrays from :mod:`.handle`; hands methods to ``NDArray`` and ``np.ndarray``.
:func:`operate` is the one Python path of such a call. :mod:`.fastcall.native_code` does the same in machine code for
calls that were made before; :class:`BinaryMethod` tells it which methods those are (docs/decisions/0012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import name_of
from ..base.errors import MXNetError, format_shape, unsupported_operand
from ..graph.extension import extend, learn
from ..graph.node import Node
from ..graph.operator import NAMES, REGISTRY, Operator
from ..trace.trace import Trace, ready_trace
from . import immediate
from .handle import Handle, assign, materialize_if_naive, new_result, node_in, record_or_detach
from .observed import LISTENERS, observe_call

__all__ = ["BinaryMethod", "Numbers", "binary", "call_binary", "inplace", "operate"]

#: kinds of floating point dtypes: that of bfloat16 is V
_FLOATING = "fV"

Numbers = (int, float, bool, np.number, np.bool_)


class BinaryMethod(NamedTuple):
    """The facts of a method that :func:`binary` or :func:`inplace` made, stored as its attribute ``facts``."""

    declared: Operator
    reflected: bool
    """Whether the array is the second operand (``__radd__``)."""
    in_place: bool
    """Whether the method changes the first operand (``__iadd__``)."""


def operate(declared: Operator, lhs: Any, rhs: Any, trace: Trace) -> Node:
    """Return the node of a binary operator applied to two arrays, or to an array and a number."""
    if isinstance(lhs, Handle):
        first = node_in(lhs, trace)
        if isinstance(rhs, Handle):
            second = node_in(rhs, trace)
        else:
            number = rhs if type(rhs) is float else _number(rhs)
            if first.dtype.kind not in _FLOATING:
                first = (declared.beside_numbers or _as_operand)(first)
            second = trace.bind_scalar(number, first.dtype, first.kind, first.context)
    else:
        number = lhs if type(lhs) is float else _number(lhs)
        if not isinstance(rhs, Handle):
            raise unsupported_operand(rhs)
        second = node_in(rhs, trace)
        if second.dtype.kind not in _FLOATING:
            second = (declared.beside_numbers or _as_operand)(second)
        first = trace.bind_scalar(number, second.dtype, second.kind, second.context)
    key = first, second
    node: Node | None = declared.calls.get(key)
    if node is None:
        node = extend(declared, key, ())
        if node is None and declared.autocast is not None:
            node = declared.apply(declared.autocast(key, ()), ())
        elif node is None:
            node = declared.apply(key, ())
            learn(declared, key, (), (), node)
            declared.accepted_parameters[2, ()] = ()
        declared.calls[key] = node
    return node


def _as_operand(node: Node) -> Node:
    """Return a node as an operand beside a number: truth values become integers."""
    return REGISTRY["_cast"](node, dtype=np.int64) if node.dtype.kind == "b" else node


def _number(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Numbers) or isinstance(value, np.complexfloating):
        raise unsupported_operand(value)
    return value


def call_binary(
    declared: Operator, lhs: Any, rhs: Any, array_class: type[Any], listeners: Sequence[int] = LISTENERS
) -> Any:
    """Call a binary operator on arrays or numbers and return the result as a new array of a class."""
    if listeners:
        return observe_call(declared, (lhs, rhs), None, (), call_binary, (declared, lhs, rhs, array_class, ()))
    trace = ready_trace()
    if trace.is_immediate and immediate.is_possible(trace):
        result = immediate.call_binary(declared, lhs, rhs, array_class, trace)
        if result is not None:
            return result
    return new_result(operate(declared, lhs, rhs, trace), trace, array_class)


def _describe(method: Any, prefix: str, doc: str, facts: BinaryMethod) -> None:
    word = facts.declared.with_scalars or ""
    # an expression of mx.np has the word of the operator that it is made of
    word = NAMES["with_scalars"][word].python or word if word in NAMES["with_scalars"] else word
    method.__name__ = method.__qualname__ = f"__{prefix}{word}__"
    method.__doc__ = doc
    method.facts = facts


def binary(operator: str | Operator, reflected: bool = False) -> Callable[[Any, Any], Any]:
    """Return the method of a binary operator (``__add__``; reflected: ``__radd__``)."""
    declared = REGISTRY[operator] if isinstance(operator, str) else operator

    def forward(self: Any, other: Any) -> Any:
        return call_binary(declared, self, other, self._result_class)

    def backward(self: Any, other: Any) -> Any:
        return call_binary(declared, other, self, self._result_class)

    method = backward if reflected else forward
    _describe(method, "r" if reflected else "", declared.__doc__ or "", BinaryMethod(declared, reflected, False))
    return method


_INPLACE_WORDS = {
    "add": "add to",
    "subtract": "subtract from",
    "multiply": "multiply to",
    "divide": "divide from",
    "modulo": "take modulo from",
}


def inplace(operator: str | Operator) -> Callable[[Any, Any], Any]:
    """Return the method of an in-place operator: it assigns the result to the array."""
    declared = REGISTRY[operator] if isinstance(operator, str) else operator
    word = _INPLACE_WORDS.get(declared.with_scalars or "", "change")

    def method(self: Any, other: Any) -> Any:
        if LISTENERS:
            before = self._node, getattr(other, "_node", None)
            return observe_call(declared, (self, other), None, (), change, (self, other), before=before)
        return change(self, other)

    def change(self: Any, other: Any) -> Any:
        if self._readonly:
            raise ValueError(f"trying to {word} a readonly NDArray")
        trace = ready_trace()
        if trace.is_immediate and immediate.is_possible(trace) and immediate.change(declared, self, other, trace):
            return self
        node = record_or_detach(operate(declared, self, other, trace), trace)
        if node.shape != self.shape:
            raise MXNetError(
                f"Shape inconsistent, Provided = {format_shape(self.shape)}, inferred shape={format_shape(node.shape)}"
            )
        if node.dtype != self._dtype:
            raise MXNetError(
                f"in-place {declared.name} would change the dtype from {name_of(self._dtype)} to {name_of(node.dtype)}"
            )
        assign(self, node, trace)
        return materialize_if_naive(self)

    _describe(method, "i", f"In place: {declared.__doc__}", BinaryMethod(declared, False, True))
    return method
