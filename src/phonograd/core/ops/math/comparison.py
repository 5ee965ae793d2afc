"""Comparisons and logic. Results are 0 and 1 in the dtype of the operands, as in MXNet; gradients are zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph.operator import Array, Operator, declare, nothing
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import SUPPORTED, Elementwise
from .broadcasting import broadcast_shapes, same_dtype

__all__ = ["equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_not", "not_equal"]


def _infer(lhs: Any, rhs: Any) -> Any:
    return broadcast_shapes(lhs.shape, rhs.shape), same_dtype(lhs, rhs)


def _comparison(word: str, ufunc: Any, sentence: str, holds: Callable[[Emitter, Value, Value], Value]) -> Operator:
    """Declare a comparison; ``holds(emitter, lhs, rhs)`` gives the instructions for where it is true."""

    def reference(lhs: Array, rhs: Array) -> Array:
        return np.asarray(ufunc(lhs, rhs)).astype(lhs.dtype)

    reference.__doc__ = f"Return 1 where {sentence}, else 0, with broadcasting."
    return declare(
        Operator(
            reference,
            name=f"broadcast_{word}",
            infer=_infer,
            gradient=nothing,
            with_scalars=word,
            numpy=ufunc,
            lowering=Elementwise(lambda e, lhs, rhs: e.convert(holds(e, lhs, rhs), lhs.dtype), SUPPORTED),
        )
    )


def _relation(name: str) -> Callable[[Emitter, Value, Value], Value]:
    return lambda e, lhs, rhs: e.relation(name, lhs, rhs)


def _of_truths(word: str) -> Callable[[Emitter, Value, Value], Value]:
    return lambda e, lhs, rhs: e.bits(word, e.truth(lhs), e.truth(rhs))


equal = _comparison("equal", np.equal, "the operands are equal", _relation("eq"))
not_equal = _comparison("not_equal", np.not_equal, "the operands differ", _relation("ne"))
greater = _comparison("greater", np.greater, "lhs is greater than rhs", _relation("gt"))
greater_equal = _comparison("greater_equal", np.greater_equal, "lhs is greater than or equal to rhs", _relation("ge"))
lesser = _comparison("lesser", np.less, "lhs is less than rhs", _relation("lt"))
lesser_equal = _comparison("lesser_equal", np.less_equal, "lhs is less than or equal to rhs", _relation("le"))
logical_and = _comparison("logical_and", np.logical_and, "both operands are nonzero", _of_truths("and"))
logical_or = _comparison("logical_or", np.logical_or, "at least one operand is nonzero", _of_truths("or"))
logical_xor = _comparison("logical_xor", np.logical_xor, "exactly one operand is nonzero", _of_truths("xor"))


def _logical_not(data: Array) -> Array:
    """Return 1 where the element is zero, else 0."""
    return np.logical_not(data).astype(data.dtype)


def _emit_not(e: Emitter, data: Value) -> Value:
    truth = e.truth(data)
    return e.convert(e.bits("xor", truth, e.like(truth, 1)), data.dtype)


logical_not = declare(
    Operator(
        _logical_not,
        name="logical_not",
        gradient=nothing,
        numpy=np.logical_not,
        lowering=Elementwise(_emit_not, SUPPORTED),
    )
)
