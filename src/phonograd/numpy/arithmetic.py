"""Functions of two operands: arithmetic, comparison, logic, bits. Either operand may be a number.

They apply the library's operators to operands of a common dtype (:mod:`.promotion`), but division returns floating
point numbers and comparison returns booleans. A number takes the dtype of the array it is combined with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.base.dtypes import BOOL, FLOAT64, INT64, kind_of
from ..core.base.errors import MXNetError
from ..core.graph.node import Node
from ..core.graph.operator import REGISTRY, Operator, single
from ..core.ops.math.comparison import equal as same
from ..core.ops.math.comparison import greater as above
from ..core.ops.math.comparison import lesser as below
from ..core.ops.math.comparison import logical_and as both
from ..core.ops.math.comparison import not_equal as differ
from ..core.ops.math.elementary import floor as whole
from ..core.ops.math.elementary import trunc
from ..core.ops.math.pairs import arctan2 as angle
from ..core.ops.math.pairs import bitwise_and as and_
from ..core.ops.math.pairs import bitwise_or as or_
from ..core.ops.math.pairs import bitwise_xor as xor_
from ..core.ops.math.pairs import copysign as signed
from ..core.ops.math.pairs import gcd as divisor
from ..core.ops.math.pairs import lcm as multiple
from ..core.ops.math.primitives import cast, select
from .declaration import Expression
from .elementwise import ufunc
from .promotion import as_float, promote

__all__ = [
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "subtract",
    "true_divide",
]

Prepared = Callable[[Node, Node], tuple[Node, ...]]


def _numbers(x1: Node, x2: Node) -> tuple[Node, ...]:
    """Convert two nodes to their common dtype; booleans become numbers."""
    first, second = promote(x1, x2)
    return (cast(first, INT64), cast(second, INT64)) if first.dtype == BOOL else (first, second)


def _no_booleans(x1: Node, x2: Node) -> tuple[Node, ...]:
    first, second = promote(x1, x2)
    if first.dtype == BOOL:
        raise MXNetError("subtract does not support boolean type; use np.logical_xor, or .astype(int)")
    return first, second


def _floats(x1: Node, x2: Node) -> tuple[Node, ...]:
    first, second = promote(x1, x2)
    return as_float(first), as_float(second)


def _doubles(x1: Node, x2: Node) -> tuple[Node, ...]:
    return cast(x1, FLOAT64), cast(x2, FLOAT64)


def _unchanged(node: Node) -> Node:
    return node


def _as_doubles(node: Node) -> Node:
    """Convert booleans, so that they can be compared with every number."""
    return cast(node, FLOAT64) if node.dtype == BOOL else node


def _binary(
    names: str,
    declared: Operator,
    sentence: str,
    prepared: Prepared = _numbers,
    on_booleans: Operator | None = None,
    function: Any = None,
    word: str | None = None,
) -> Expression:
    """Return the expression of an operator on a common dtype; ``on_booleans`` replaces it for booleans."""
    offered = names.split()

    def body(x1: Node, x2: Node) -> Any:
        if on_booleans is not None and x1.dtype == x2.dtype == BOOL:
            return on_booleans.apply((x1, x2), ())
        return declared.apply(prepared(x1, x2), ())

    body.__doc__ = f"Return {sentence}."
    facts = {"on_numbers": function or getattr(np, offered[0]), "with_scalars": word or offered[0]}
    made: Expression = ufunc(*offered, **facts)(body)
    if prepared in (_floats, _doubles):
        made.beside_numbers = as_float
    elif prepared is promote:
        made.beside_numbers = _unchanged
    return made


def _operator(name: str) -> Operator:
    return REGISTRY[f"broadcast_{name}"]


add = _binary("add", _operator("add"), "the sum of two operands", on_booleans=_operator("logical_or"))
subtract = _binary("subtract", _operator("sub"), "the difference x1 - x2", _no_booleans)
multiply = _binary("multiply", _operator("mul"), "the product of two operands", on_booleans=_operator("logical_and"))
true_divide = _binary("true_divide divide", _operator("div"), "the quotient x1 / x2", _floats, word="divide")
mod = _binary("mod remainder", _operator("mod"), "the remainder of x1 / x2, with the sign of x2", word="modulo")
power = _binary("power", _operator("power"), "x1 raised to the power x2")
maximum = _binary("maximum", _operator("maximum"), "the larger of two operands", on_booleans=_operator("logical_or"))
minimum = _binary("minimum", _operator("minimum"), "the smaller of two operands", on_booleans=_operator("logical_and"))
hypot = _binary("hypot", _operator("hypot"), "the hypotenuse, the square root of x1 ** 2 + x2 ** 2", _floats)
arctan2 = _binary("arctan2", angle, "the angle of the point (x2, x1) in radians", _floats)
copysign = _binary("copysign", signed, "the absolute value of x1 with the sign of x2", _floats)
float_power = _binary("float_power", _operator("power"), "x1 raised to the power x2, as float64", _doubles)
lcm = _binary("lcm", multiple, "the least common multiple of two integers")
gcd = _binary("gcd", divisor, "the greatest common divisor of two integers")
bitwise_and = _binary("bitwise_and", and_, "the bitwise AND of two integers", promote, word="and")
bitwise_or = _binary("bitwise_or", or_, "the bitwise OR of two integers", promote, word="or")
bitwise_xor = _binary("bitwise_xor", xor_, "the bitwise XOR of two integers", promote, word="xor")


@ufunc("floor_divide", on_numbers=np.floor_divide, with_scalars="floordiv")
def floor_divide(x1: Node, x2: Node) -> Node:
    """Return the largest integer not greater than x1 / x2."""
    first, second = _numbers(x1, x2)
    quotient = single(_operator("div").apply((first, second), ()))
    if kind_of(first.dtype) == "f":
        return single(whole(quotient))
    # integer division truncates toward zero
    inexact = both(differ(quotient * second, first), differ(below(first, 0), below(second, 0)))
    return quotient - cast(inexact, first.dtype)


@ufunc("fmod", on_numbers=np.fmod, with_scalars="fmod")
def fmod(x1: Node, x2: Node) -> Node:
    """Return the remainder of x1 / x2, with the sign of x1."""
    first, second = _numbers(x1, x2)
    quotient = single(_operator("div").apply((first, second), ()))
    return first - (single(trunc(quotient)) if kind_of(first.dtype) == "f" else quotient) * second


@ufunc("fmax", on_numbers=np.fmax, with_scalars="fmax")
def fmax(x1: Node, x2: Node) -> Node:
    """Return the larger of two operands; if one is NaN, return the other."""
    first, second = _numbers(x1, x2)
    larger = single(_operator("maximum").apply((first, second), ()))
    return select(differ(first, first), second, select(differ(second, second), first, larger))


@ufunc("fmin", on_numbers=np.fmin, with_scalars="fmin")
def fmin(x1: Node, x2: Node) -> Node:
    """Return the smaller of two operands; if one is NaN, return the other."""
    first, second = _numbers(x1, x2)
    smaller = single(_operator("minimum").apply((first, second), ()))
    return select(differ(first, first), second, select(differ(second, second), first, smaller))


@ufunc("ldexp", on_numbers=np.ldexp, with_scalars="ldexp")
def ldexp(x1: Node, x2: Node) -> Node:
    """Return x1 * 2 ** x2."""
    first, second = _floats(x1, x2)
    two = Node.arithmetic["constant"](2, second.dtype)
    return first * single(_operator("power").apply((two, second), ()))


@ufunc("logaddexp", on_numbers=np.logaddexp, with_scalars="logaddexp")
def logaddexp(x1: Node, x2: Node) -> Node:
    """Return the logarithm of exp(x1) + exp(x2)."""
    first, second = _floats(x1, x2)
    larger = single(_operator("maximum").apply((first, second), ()))
    smaller = single(_operator("minimum").apply((first, second), ()))
    # the difference of equal infinities is NaN
    apart = select(same(first, second), 0, smaller - larger)
    return larger + single(REGISTRY["log1p"](REGISTRY["exp"](apart)))


@ufunc("heaviside", on_numbers=np.heaviside, with_scalars="heaviside")
def heaviside(x1: Node, x2: Node) -> Node:
    """Return 0 where x1 is negative, x2 where it is zero, and 1 where it is positive."""
    first, second = _floats(x1, x2)
    step = cast(single(above(first, 0)), first.dtype)
    return select(differ(first, first), first, select(same(first, 0), second, step))


def _comparison(name: str, operator: str, sentence: str, word: str | None = None) -> Expression:
    """Return the expression of a comparison, which returns booleans."""
    declared = _operator(operator)

    def body(x1: Node, x2: Node) -> Any:
        return cast(declared.apply(promote(x1, x2), ()), BOOL)

    body.__doc__ = f"Return whether {sentence}, elementwise."
    made: Expression = ufunc(name, on_numbers=getattr(np, name), with_scalars=word or name)(body)
    # as in NumPy, but not in MXNet, where the number becomes a boolean: True == 2
    made.beside_numbers = _unchanged if name.startswith("logical") else _as_doubles
    return made


equal = _comparison("equal", "equal", "two operands are equal")
not_equal = _comparison("not_equal", "not_equal", "two operands differ")
greater = _comparison("greater", "greater", "x1 > x2")
greater_equal = _comparison("greater_equal", "greater_equal", "x1 >= x2")
less = _comparison("less", "lesser", "x1 < x2", "lesser")
less_equal = _comparison("less_equal", "lesser_equal", "x1 <= x2", "lesser_equal")
logical_and = _comparison("logical_and", "logical_and", "both operands are nonzero")
logical_or = _comparison("logical_or", "logical_or", "at least one operand is nonzero")
logical_xor = _comparison("logical_xor", "logical_xor", "exactly one operand is nonzero")
