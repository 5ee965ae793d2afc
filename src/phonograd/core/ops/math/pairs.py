"""Functions of two arrays in mx.np besides arithmetic: angles, signs, bits, common multiples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import kind_of, name_of
from ...base.errors import MXNetError
from ...graph.node import Node
from ...graph.operator import Array, Operator, declare, nothing, operator
from ...lower.lowering import INTEGERS, Elementwise
from .broadcasting import broadcast_shapes, same_dtype, sum_to
from .comparison import greater_equal
from .primitives import select

__all__ = ["arctan2", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "copysign", "gcd", "lcm"]


def _floating(lhs: Node, rhs: Node) -> Any:
    dtype = same_dtype(lhs, rhs)
    if kind_of(dtype) != "f":
        raise MXNetError(
            f"This operation only supports floating point types, not {name_of(dtype)}; use astype('float32')"
        )
    return broadcast_shapes(lhs.shape, rhs.shape), dtype


@operator(name="_npi_arctan2", infer=_floating, cost=20.0)
def arctan2(lhs: Array, rhs: Array) -> Array:
    """Return the angle of the point (rhs, lhs) in radians, between -pi and pi."""
    return np.arctan2(lhs, rhs)


@arctan2.gradient
def arctan2_grad(out_grad: Node, out: Node, lhs: Node, rhs: Node) -> tuple[Node, Node]:
    scaled = out_grad / (lhs * lhs + rhs * rhs)
    return sum_to(scaled * rhs, lhs.shape), sum_to(-(scaled * lhs), rhs.shape)


@operator(name="_npi_copysign", infer=_floating)
def copysign(lhs: Array, rhs: Array) -> Array:
    """Return the absolute value of lhs with the sign of rhs; the sign of zero counts."""
    return np.copysign(lhs, rhs)


@copysign.gradient
def copysign_grad(out_grad: Node, out: Node, lhs: Node, rhs: Node) -> tuple[Node, None]:
    # the sign changed if value and result have opposite signs
    return sum_to(select(greater_equal(out * lhs, 0), out_grad, -out_grad), lhs.shape), None


def _whole(lhs: Node, rhs: Node) -> Any:
    dtype = same_dtype(lhs, rhs)
    if kind_of(dtype) == "f":
        raise MXNetError(f"Only supports integer types, not {name_of(dtype)}; use astype('int32') or astype('bool')")
    return broadcast_shapes(lhs.shape, rhs.shape), dtype


def _pair(name: str, function: Any, sentence: str, lowering: Elementwise | None = None) -> Operator:
    """Declare a function of two integers."""

    def reference(lhs: Array, rhs: Array) -> Array:
        return np.asarray(function(lhs, rhs))

    reference.__doc__ = f"Return {sentence}."
    return declare(Operator(reference, name=f"_npi_{name}", infer=_whole, gradient=nothing, lowering=lowering))


def _bits(word: str) -> Elementwise:
    return Elementwise(lambda e, lhs, rhs: e.bits(word, lhs, rhs), INTEGERS)


bitwise_and = _pair("bitwise_and", np.bitwise_and, "the bitwise AND of two integers", _bits("and"))
bitwise_or = _pair("bitwise_or", np.bitwise_or, "the bitwise OR of two integers", _bits("or"))
bitwise_xor = _pair("bitwise_xor", np.bitwise_xor, "the bitwise XOR of two integers", _bits("xor"))
lcm = _pair("lcm", np.lcm, "the least common multiple of two integers")
gcd = _pair("gcd", np.gcd, "the greatest common divisor of two integers")


@operator(
    name="_npi_bitwise_not",
    gradient=nothing,
    lowering=Elementwise(lambda e, data: e.bits("xor", data, e.like(data, -1)), INTEGERS),
)
def bitwise_not(data: Array) -> Array:
    """Return the bitwise complement of integers; booleans are negated."""
    return np.asarray(np.invert(data))


@bitwise_not.infer
def bitwise_not_shape(data: Node) -> Any:
    if kind_of(data.dtype) == "f":
        raise MXNetError(
            f"Only supports integer types, not {name_of(data.dtype)}; use astype('int32') or astype('bool')"
        )
    return data.shape, data.dtype
