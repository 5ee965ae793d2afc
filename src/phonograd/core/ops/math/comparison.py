"""Comparisons and logic. Results are 0 and 1 in the dtype of the operands, as in MXNet; gradients are zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph.interface import Interface, Onnx
from ...graph.operator import Array, Operator, declare, nothing
from ...graph.partial_shapes import broadcast_results
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import SUPPORTED, Elementwise
from .broadcasting import broadcast_shapes, same_dtype

__all__ = ["equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_not", "not_equal"]


def _infer(lhs: Any, rhs: Any) -> Any:
    return broadcast_shapes(lhs.shape, rhs.shape), same_dtype(lhs, rhs)


def _declare(
    word: str, ufunc: Any, sentence: str, holds: Callable[[Emitter, Value, Value], Value], **facts: Any
) -> Operator:
    """Declare an operator with results 0 and 1; ``holds(emitter, lhs, rhs)`` emits the condition for 1."""

    def reference(lhs: Array, rhs: Array) -> Array:
        return np.asarray(ufunc(lhs, rhs)).astype(lhs.dtype)

    reference.__doc__ = f"Return 1 where {sentence}, else 0, with broadcasting."
    return declare(
        Operator(
            reference,
            name=f"broadcast_{word}",
            infer=_infer,
            interface=Interface(results=broadcast_results),
            gradient=nothing,
            with_scalars=word,
            answers=ufunc.__name__,
            of_numbers=lambda lhs, rhs: int(ufunc(lhs, rhs)),
            lowering=Elementwise(lambda e, lhs, rhs: e.convert(holds(e, lhs, rhs), lhs.dtype), SUPPORTED),
            **facts,
        )
    )


def _comparison(word: str, python: str, ufunc: Any, sentence: str, onnx: str = "") -> Operator:
    """Declare one of Python's comparisons; kernels use the same names."""
    node = Onnx(onnx, form="comparison") if onnx else None
    return _declare(word, ufunc, sentence, lambda e, a, b: e.relation(python, a, b), python=python, onnx=node)


def _logic(word: str, ufunc: Any, sentence: str, bits: str, onnx: str) -> Operator:
    """Declare a logical operator; nonzero elements are true."""
    node = Onnx(onnx, form="logic")
    return _declare(word, ufunc, sentence, lambda e, a, b: e.bits(bits, e.truth(a), e.truth(b)), onnx=node)


equal = _comparison("equal", "eq", np.equal, "the operands are equal", "Equal")
not_equal = _comparison("not_equal", "ne", np.not_equal, "the operands differ")
greater = _comparison("greater", "gt", np.greater, "lhs is greater than rhs", "Greater")
greater_equal = _comparison(
    "greater_equal", "ge", np.greater_equal, "lhs is greater than or equal to rhs", "GreaterOrEqual"
)
lesser = _comparison("lesser", "lt", np.less, "lhs is less than rhs", "Less")
lesser_equal = _comparison("lesser_equal", "le", np.less_equal, "lhs is less than or equal to rhs", "LessOrEqual")
logical_and = _logic("logical_and", np.logical_and, "both operands are nonzero", "and", "And")
logical_or = _logic("logical_or", np.logical_or, "at least one operand is nonzero", "or", "Or")
logical_xor = _logic("logical_xor", np.logical_xor, "exactly one operand is nonzero", "xor", "Xor")


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
        answers="logical_not",
        onnx=Onnx("Not", writes=False),
        lowering=Elementwise(_emit_not, SUPPORTED),
    )
)


# -- precision in mixed-precision training

for _declared in (
    equal,
    greater,
    greater_equal,
    lesser,
    lesser_equal,
    logical_and,
    logical_or,
    logical_xor,
    not_equal,
):
    _declared.precision = "widest"
