"""Arithmetic of two arrays, with broadcasting; the ``elemwise_*`` forms require equal shapes.

Both operands have one dtype (mixed dtypes raise). As in MXNet, integers divide towards zero, ``%`` has the sign of the
divisor, and a remainder by zero is zero.
"""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import DType, kind_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Onnx, same_shapes
from ...graph.node import Node
from ...graph.operator import Array, Operator, composite, declare, operator, single
from ...graph.partial_shapes import broadcast_results
from ...lower import vector_math
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import FLOATS, NUMBERS, Elementwise
from .broadcasting import broadcast_shapes, refuse_booleans, same_dtype, sum_to
from .comparison import (
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    not_equal,
)

__all__ = ["add", "add_n", "divide", "maximum", "minimum", "mod", "multiply", "power", "subtract"]

Rule = Callable[[Node, Node, Node, Node], Node]


def _binary(
    name: str,
    word: str,
    reference: Any,
    lhs_rule: Rule,
    rhs_rule: Rule,
    emit: Callable[[Emitter, Value, Value], Value],
    *,
    answers: str,
    python: str = "",
    of_numbers: Callable[[Any, Any], Any] | None = None,
    dtypes: frozenset[DType] = NUMBERS,
    **facts: Any,
) -> Operator:
    """Declare an elementwise operator of two arrays.

    The rules map (out_grad, out, lhs, rhs) to the gradients before they are summed to the operand's shape; a rule runs
    only if its operand depends on a variable. ``emit(emitter, lhs, rhs)`` emits the instructions of kernels for the
    given dtypes.
    """
    ufunc = getattr(np, answers)
    direct = ufunc if ufunc in (np.add, np.subtract, np.multiply, np.maximum, np.minimum) else None

    def gradient(out_grad: Node, out: Node, lhs: Node, rhs: Node) -> tuple[Node | None, Node | None]:
        return (
            sum_to(lhs_rule(out_grad, out, lhs, rhs), lhs.shape) if lhs.marked else None,
            sum_to(rhs_rule(out_grad, out, lhs, rhs), rhs.shape) if rhs.marked else None,
        )

    def infer(lhs: Node, rhs: Node) -> Any:
        dtype = same_dtype(lhs, rhs)
        refuse_booleans(name, lhs)
        return broadcast_shapes(lhs.shape, rhs.shape), dtype

    return declare(
        Operator(
            reference,
            name=name,
            infer=infer,
            interface=Interface(results=broadcast_results),
            gradient=gradient,
            with_scalars=word,
            answers=answers,
            direct=direct,
            lowering=Elementwise(emit, dtypes),
            python=python,
            of_numbers=of_numbers or getattr(operators, python),
            **facts,
        )
    )


def _add(lhs: Array, rhs: Array) -> Array:
    """Return the sum of two arrays, with broadcasting."""
    return np.add(lhs, rhs)


def _subtract(lhs: Array, rhs: Array) -> Array:
    """Return the difference of two arrays, with broadcasting."""
    return np.subtract(lhs, rhs)


def _multiply(lhs: Array, rhs: Array) -> Array:
    """Return the product of two arrays, with broadcasting."""
    return np.multiply(lhs, rhs)


def _divide(lhs: Array, rhs: Array) -> Array:
    """Return the quotient of two arrays, with broadcasting; integers divide towards zero."""
    if kind_of(lhs.dtype) == "f":
        return np.divide(lhs, rhs)
    quotient = np.floor_divide(lhs, rhs)
    inexact = (np.remainder(lhs, rhs) != 0) & ((lhs < 0) != (rhs < 0))
    return np.asarray(quotient + inexact).astype(lhs.dtype)


def _mod(lhs: Array, rhs: Array) -> Array:
    """Return the remainder of a division, with the sign of the divisor; zero if the divisor is zero."""
    return np.where(rhs == 0, np.zeros((), lhs.dtype), np.remainder(lhs, rhs)).astype(lhs.dtype)


def _power(lhs: Array, rhs: Array) -> Array:
    """Return lhs raised to the power of rhs, with broadcasting."""
    if kind_of(lhs.dtype) == "f":
        return np.power(lhs, rhs)
    return np.power(lhs.astype(np.float64), rhs).astype(lhs.dtype)


def _maximum(lhs: Array, rhs: Array) -> Array:
    """Return the elementwise maximum of two arrays, with broadcasting; NaN propagates."""
    return np.maximum(lhs, rhs)


def _minimum(lhs: Array, rhs: Array) -> Array:
    """Return the elementwise minimum of two arrays, with broadcasting; NaN propagates."""
    return np.minimum(lhs, rhs)


def _hypot(lhs: Array, rhs: Array) -> Array:
    """Return ``sqrt(lhs**2 + rhs**2)``, with broadcasting: the hypotenuse of a right triangle."""
    return np.hypot(lhs, rhs).astype(lhs.dtype, copy=False)


add = _binary(
    "broadcast_add",
    "add",
    _add,
    lambda g, y, a, b: g,
    lambda g, y, a, b: g,
    lambda e, a, b: e.add(a, b),
    answers="add",
    python="add",
    onnx=Onnx("Add", form="pair"),
    aliases=("broadcast_plus",),
)
subtract = _binary(
    "broadcast_sub",
    "subtract",
    _subtract,
    lambda g, y, a, b: g,
    lambda g, y, a, b: -g,
    lambda e, a, b: e.subtract(a, b),
    answers="subtract",
    python="sub",
    onnx=Onnx("Sub", form="pair"),
    aliases=("broadcast_minus",),
)
multiply = _binary(
    "broadcast_mul",
    "multiply",
    _multiply,
    lambda g, y, a, b: g * b,
    lambda g, y, a, b: g * a,
    lambda e, a, b: e.multiply(a, b),
    answers="multiply",
    python="mul",
    onnx=Onnx("Mul", form="pair"),
)
divide = _binary(
    "broadcast_div",
    "divide",
    _divide,
    lambda g, y, a, b: g / b,
    lambda g, y, a, b: -(g * a / (b * b)),
    vector_math.divide,
    answers="divide",
    python="truediv",
    onnx=Onnx("Div", form="pair"),
)


def _mod_rhs(g: Node, y: Node, a: Node, b: Node) -> Node:
    from .elementary import floor

    return -(g * single(floor(a / b)))


mod = _binary(
    "broadcast_mod",
    "modulo",
    _mod,
    lambda g, y, a, b: g,
    _mod_rhs,
    vector_math.modulo,
    answers="remainder",
    python="mod",
    cost=10,
)


def _power_lhs(g: Node, y: Node, a: Node, b: Node) -> Node:
    return g * b * single(power.apply((a, b - 1), ()))


def _power_rhs(g: Node, y: Node, a: Node, b: Node) -> Node:
    from .elementary import log

    return g * y * single(log(a))


power = _binary(
    "broadcast_power",
    "power",
    _power,
    _power_lhs,
    _power_rhs,
    vector_math.power,
    answers="power",
    python="pow",
    onnx=Onnx("Pow", form="pair"),
    dtypes=FLOATS,
    cost=30,
)
maximum = _binary(
    "broadcast_maximum",
    "maximum",
    _maximum,
    lambda g, y, a, b: g * greater_equal(a, b),
    lambda g, y, a, b: g * lesser(a, b),
    lambda e, a, b: e.maximum(a, b),
    answers="maximum",
    of_numbers=lambda lhs, rhs: lhs if lhs > rhs else rhs,
    onnx=Onnx("Max", form="pair", reads=False),
)
minimum = _binary(
    "broadcast_minimum",
    "minimum",
    _minimum,
    lambda g, y, a, b: g * lesser_equal(a, b),
    lambda g, y, a, b: g * greater(a, b),
    lambda e, a, b: e.minimum(a, b),
    answers="minimum",
    of_numbers=lambda lhs, rhs: lhs if lhs < rhs else rhs,
    onnx=Onnx("Min", form="pair", reads=False),
)
hypot = _binary(
    "broadcast_hypot",
    "hypot",
    _hypot,
    lambda g, y, a, b: g * a / y,
    lambda g, y, a, b: g * b / y,
    vector_math.hypot,
    answers="hypot",
    of_numbers=math.hypot,
    dtypes=FLOATS,
    cost=10,
)


@operator(lowering=Elementwise(lambda e, x, *, exponent: vector_math.integer_power(e, x, exponent)))
def _integer_power(data: Array, *, exponent: int) -> Array:
    """Return the array raised to a constant integer power."""
    if exponent == 2:
        return np.multiply(data, data)
    if kind_of(data.dtype) == "f":
        return np.asarray(np.power(data, data.dtype.type(exponent)))
    return np.asarray(np.power(data.astype(np.float64), exponent)).astype(data.dtype)


@_integer_power.gradient
def integer_power_grad(out_grad: Node, out: Node, data: Node, *, exponent: int) -> Node | None:
    if exponent == 0:
        return None
    if exponent == 1:
        return out_grad
    return out_grad * (integer_power(data, exponent - 1) * exponent)


def integer_power(data: Node, exponent: int) -> Node:
    """Return the node raised to a constant integer power."""
    return data if exponent == 1 else single(_integer_power(data, exponent=exponent))


def _equal_shapes(name: str, whole: Operator, aliases: tuple[str, ...], sentence: str) -> Operator:
    def body(lhs: Node, rhs: Node) -> Node:
        if lhs.shape != rhs.shape:
            raise MXNetError(
                f"Incompatible attr in node  at 1-th input: expected {format_shape(lhs.shape)}, got "
                f"{format_shape(rhs.shape)} in operator {name}. Use {whole.name} to broadcast."
            )
        return single(whole(lhs, rhs))

    body.__doc__ = sentence
    declared = composite(name=name, aliases=aliases, interface=Interface(shapes=same_shapes))(body)
    declared.become_form(whole, "equal_shapes")
    return declared


elemwise_add = _equal_shapes(
    "elemwise_add", add, ("_plus", "_Plus", "_add"), "Return the sum of two arrays of equal shape."
)
elemwise_sub = _equal_shapes(
    "elemwise_sub", subtract, ("_minus", "_Minus", "_sub"), "Return the difference of two arrays of equal shape."
)
elemwise_mul = _equal_shapes(
    "elemwise_mul", multiply, ("_mul", "_Mul"), "Return the product of two arrays of equal shape."
)
elemwise_div = _equal_shapes(
    "elemwise_div", divide, ("_div", "_Div"), "Return the quotient of two arrays of equal shape."
)
for _name, _whole in (("maximum", maximum), ("minimum", minimum), ("power", power), ("mod", mod), ("hypot", hypot)):
    _equal_shapes(f"_{_name}", _whole, (f"_{_name.title()}",), f"Return {_whole.name} of two arrays of equal shape.")
for _whole in (equal, not_equal, greater, greater_equal, lesser, lesser_equal, logical_and, logical_or, logical_xor):
    _word = _whole.name.removeprefix("broadcast")
    _equal_shapes(_word, _whole, (_word.title(),), f"Return {_whole.name} of two arrays of equal shape.")


@composite(aliases=("ElementWiseSum", "_sum"), interface=Interface(shapes=same_shapes), onnx=Onnx("Sum", reads=False))
def add_n(*args: Node) -> Node:
    """Return the sum of any number of arrays of equal shape."""
    if not args:
        raise MXNetError("Operator add_n expects at least 1 input, but got 0 instead.")
    total = args[0]
    for term in args[1:]:
        total = elemwise_add(total, term)
    return total


def _raise(base: Any, exponent: Any) -> Node:
    return integer_power(base, exponent) if isinstance(exponent, int) else single(power(base, exponent))


Node.arithmetic.update(add=add, subtract=subtract, multiply=multiply, divide=divide, power=_raise)


# -- precision in mixed-precision training

for _declared in (
    hypot,
    power,
):
    _declared.precision = "float32"
for _declared in (
    add_n,
    add,
    divide,
    maximum,
    minimum,
    mod,
    multiply,
    subtract,
    elemwise_add,
    elemwise_div,
    elemwise_mul,
    elemwise_sub,
):
    _declared.precision = "widest"
