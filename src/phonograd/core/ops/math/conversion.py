"""Elementwise conversions: casts, the casts of mixed precision, and clip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import DType, convert_scalar, kind_of
from ...base.errors import MXNetError
from ...graph.interface import Interface, merge, same_shapes
from ...graph.node import Node
from ...graph.operator import Array, Spec, composite, operator
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import NUMBERS, Elementwise
from .comparison import greater, lesser
from .primitives import cast, select
from .structural import constant

__all__ = ["clip"]

FLOAT64 = np.dtype("float64")


@composite(name="Cast", aliases=("cast",), npx="cast", family="shape")
def cast_(data: Node, *, dtype: DType) -> Node:
    """Return the array cast to another dtype; floats are truncated to integers and wrap around as in C."""
    return cast(data, dtype)


@composite()
def amp_cast(data: Node, *, dtype: DType) -> Node:
    """Return the array cast to another dtype if it has floating point numbers, else unchanged."""
    return cast(data, dtype) if kind_of(data.dtype) == "f" else data


@composite()
def amp_multicast(*data: Node, num_outputs: int, cast_narrow: bool = False) -> Any:
    """Return the arrays with all floating point ones cast to their widest dtype (``cast_narrow``: narrowest)."""
    if len(data) != num_outputs:
        raise MXNetError(f"Operator amp_multicast expects {num_outputs} inputs, but got {len(data)} instead.")
    floating = [node.dtype for node in data if kind_of(node.dtype) == "f"]
    if floating:
        choose = min if cast_narrow else max
        common = choose(floating, key=lambda dtype: dtype.itemsize)
        data = tuple([cast(node, common) if kind_of(node.dtype) == "f" else node for node in data])
    return data[0] if num_outputs == 1 else data


def _limit(value: float, dtype: DType) -> float | int:
    """Return a bound in the range of a dtype; bounds outside an integer's range become its end."""
    if kind_of(dtype) == "f" or math.isnan(value):
        return value
    information = np.iinfo(dtype)
    return int(min(max(value, information.min), information.max))


def _emit_clip(e: Emitter, data: Value, low: Value, high: Value) -> Value:
    raised = e.select(e.relation("lt", data, low), low, data)
    return e.select(e.relation("gt", data, high), high, raised)


def _limits(dtype: DType, *, a_min: float, a_max: float) -> tuple[float | int, float | int]:
    return _limit(a_min, dtype), _limit(a_max, dtype)


@operator(method=True, answers="clip", lowering=Elementwise(_emit_clip, NUMBERS, _limits))
def clip(data: Array, *, a_min: float, a_max: float) -> Array:
    """Clip the elements to the range from a_min to a_max; NaN stays NaN.

    The gradient is 1 inside the range and at the bounds, else 0.
    """
    low, high = [convert_scalar(_limit(bound, data.dtype), data.dtype) for bound in (a_min, a_max)]
    return np.where(data > high, high, np.where(data < low, low, data))


@clip.infer
def clip_shape(data: Node) -> Spec:
    if kind_of(data.dtype) == "b":
        raise MXNetError("Operator clip does not take bool arrays; use astype first")
    return data.shape, data.dtype


@clip.gradient
def clip_grad(out_grad: Node, out: Node, data: Node, *, a_min: float, a_max: float) -> Node:
    low, high = [constant(_limit(bound, data.dtype), data.dtype) for bound in (a_min, a_max)]
    return select(greater(data, high), 0, select(lesser(data, low), 0, out_grad))


@composite(name="_contrib_quadratic")
def quadratic(data: Node, *, a: float = 0.0, b: float = 0.0, c: float = 0.0) -> Node:
    """Return ``a*x*x + b*x + c``, element by element; integers are computed in floating point and truncated."""
    x = data if kind_of(data.dtype) == "f" else cast(data, FLOAT64)
    return cast(a * (x * x) + b * x + c, data.dtype)


# -- symbol declarations


def _cast_types(
    inputs: list[DType | None], outputs: list[DType | None], *, dtype: DType
) -> tuple[list[DType | None], list[DType | None]]:
    data = inputs[0]
    return inputs, [None if data is None else dtype if kind_of(data) == "f" else data]


def _common_types(
    inputs: list[DType | None], outputs: list[DType | None], *, cast_narrow: bool
) -> tuple[list[DType | None], list[DType | None]]:
    known = [dtype for dtype in inputs if dtype is not None and kind_of(dtype) == "f"]
    if len(known) < len(inputs):
        return inputs, inputs
    chosen = (min if cast_narrow else max)(known, key=lambda dtype: dtype.itemsize)
    return inputs, [chosen] * len(outputs)


cast_.interface = clip.interface = quadratic.interface = Interface(shapes=same_shapes)
amp_cast.interface = Interface(shapes=same_shapes, types=_cast_types)
amp_multicast.interface = Interface(
    count="num_outputs",
    each="data_{}",
    outputs=lambda *, num_outputs: num_outputs,
    shapes=lambda inputs, outputs: [merge(shape, out) for shape, out in zip(inputs, outputs, strict=True)],
    types=_common_types,
    results=list,
)
