"""Softmax family: exponentials along an axis, divided by their sum.

``_softmax`` and ``_log_softmax`` are the two primitives; the public operators are written with them. Both subtract the
maximum first to avoid overflow, and compute float16 in float32.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...base.dtypes import BOOL, FLOAT32, INT64, DType, is_floating, kind_of, largest_of, name_of, promote
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Onnx, Partial, merge, only_if, same_shapes
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, operator, single
from ...graph.shapes import real_axis, with_ones, without
from ...lower.lowering import FLOATS, INTEGERS, Expansion
from ..math.broadcasting import sum_to
from ..math.comparison import lesser
from ..math.elementary import abs_, exp, log
from ..math.primitives import cast, reshape_to, select
from ..shape.creation import position_along

__all__ = ["demand_floating", "log_softmax_along", "log_sum_exp_along", "softmax_along"]


def demand_floating(dtype: DType, name: str) -> None:
    """Raise MXNet's error if an operator gets integers or booleans."""
    if not is_floating(dtype):
        raise MXNetError(
            f"This operation only support floating point types, not {name_of(dtype)} in operator {name}. "
            f"Convert the array first, for example with astype('float32')."
        )


def _wide(data: Array) -> Array:
    """Convert an array to the precision of the computation: float16 becomes float32."""
    return data.astype(np.float32) if data.dtype == np.float16 else data


def _wide_node(data: Node) -> Node:
    return cast(data, FLOAT32) if data.dtype.itemsize == 2 else data


def _largest_along(data: Node, axis: int) -> Node:
    from ..reduce.reduction import max_axes  # that module imports this one

    return max_axes(data, (axis,), keepdims=True)


def _shift_and_exponentiate(data: Node, axis: int) -> tuple[Node, Node, Node]:
    """Return the array minus its maximum along an axis, the exponentials of the differences, and their sums."""
    wide = _wide_node(data)
    shifted = wide - _largest_along(wide, axis)
    powers = single(exp(shifted))
    return shifted, powers, sum_to(powers, with_ones(data.shape, (axis,)))


def _expand_softmax(data: Node, *, axis: int) -> Node:
    if data.size == 0:
        return data
    _, powers, total = _shift_and_exponentiate(data, axis)
    return cast(powers / total, data.dtype)


def _expand_log_softmax(data: Node, *, axis: int) -> Node:
    if data.size == 0:
        return data
    shifted, _, total = _shift_and_exponentiate(data, axis)
    return cast(shifted - single(log(total)), data.dtype)


def _expand_log_sum_exp(data: Node, *, axis: int) -> Node | None:
    if data.shape[axis] == 0:
        return None
    wide = _wide_node(data)
    largest = _largest_along(wide, axis)
    offset = select(lesser(single(abs_(largest)), np.inf), largest, 0)
    total = sum_to(single(exp(wide - offset)), largest.shape)
    return cast(single(log(total)) + offset, data.dtype)


@operator(cost=14, lowering=Expansion(_expand_softmax, FLOATS))
def _softmax(data: Array, *, axis: int) -> Array:
    """Return the exponentials along an axis, divided by their sum."""
    if data.size == 0:
        return data
    shifted = _wide(data) - _wide(data.max(axis=axis, keepdims=True))
    powers = np.exp(shifted)
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True), data.dtype)


@_softmax.gradient
def softmax_grad(out_grad: Node, out: Node, data: Node, *, axis: int) -> Node:
    inner = out_grad * out
    return inner - out * sum_to(inner, with_ones(out.shape, (axis,)))


@operator(cost=14, lowering=Expansion(_expand_log_softmax, FLOATS))
def _log_softmax(data: Array, *, axis: int) -> Array:
    """Return the logarithm of the softmax along an axis, exact where the softmax would round to 0 or 1."""
    if data.size == 0:
        return data
    shifted = _wide(data) - _wide(data.max(axis=axis, keepdims=True))
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)), data.dtype)


@_log_softmax.gradient
def log_softmax_grad(out_grad: Node, out: Node, data: Node, *, axis: int) -> Node:
    # the exponentials are those of the forward pass, and closer than those of the rounded logarithms
    return out_grad - softmax_along(data, axis) * sum_to(out_grad, with_ones(out.shape, (axis,)))


@operator(cost=lambda node: 14.0 * node.inputs[0].size, lowering=Expansion(_expand_log_sum_exp, FLOATS))
def _log_sum_exp(data: Array, *, axis: int) -> Array:
    """Return the logarithm of the sum of exponentials along an axis, which keeps size one."""
    largest = _wide(data.max(axis=axis, keepdims=True, initial=-np.inf))
    offset = np.where(np.isfinite(largest), largest, 0).astype(largest.dtype)
    total = np.exp(_wide(data) - offset).sum(axis=axis, keepdims=True)
    return np.asarray(np.log(total) + offset, data.dtype)


@_log_sum_exp.infer
def log_sum_exp_shape(data: Node, *, axis: int) -> Spec:
    return with_ones(data.shape, (axis,)), data.dtype


@_log_sum_exp.gradient
def log_sum_exp_grad(out_grad: Node, out: Node, data: Node, *, axis: int) -> Node:
    return out_grad * single(exp(data - out))


def log_sum_exp_along(node: Node, axis: int) -> Node:
    """Return the log-sum-exp of a node along an axis (counted from the front), which keeps size one."""
    return single(_log_sum_exp.apply((node,), (axis,)))


def softmax_along(node: Node, axis: int) -> Node:
    """Return the softmax of a node along an axis (counted from the front)."""
    return single(_softmax.apply((node,), (axis,)))


def log_softmax_along(node: Node, axis: int) -> Node:
    """Return the log-softmax of a node along an axis (counted from the front)."""
    return single(_log_softmax.apply((node,), (axis,)))


def _expand_within_length(length: Node, *, shape: Shape, axis: int) -> Node:
    limit = cast(reshape_to(length, with_ones(shape, (axis,))), INT64)
    return cast(single(lesser(position_along(shape, axis, INT64), limit)), BOOL)


@operator(
    infer=lambda length, *, shape, axis: (shape, np.dtype(np.bool_)),
    gradient=lambda out_grad, out, length: None,
    lowering=Expansion(_expand_within_length, INTEGERS | {BOOL}),
    moves=True,
)
def _within_length(length: Array, *, shape: Shape, axis: int) -> Array:
    """Return whether each position along an axis is before the length at its other indices."""
    extent = np.arange(shape[axis]).reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    return np.broadcast_to(extent < np.expand_dims(length, axis), shape)


def _prepare(
    data: Node, name: str, axis: int, temperature: float | None, dtype: DType | None, sign: float = 1.0
) -> tuple[Node, int, DType]:
    """Return the scaled argument in the computing precision, the axis from the front, and the result dtype."""
    demand_floating(data.dtype, name)
    result = data.dtype if dtype is None else dtype
    if not is_floating(result):
        raise MXNetError(
            f"Invalid Input: '{result}', valid values are: {{None, 'bfloat16', 'float16', 'float32', 'float64'}}, "
            f'in operator {name}(name="", dtype="{result}")'
        )
    data = cast(data, promote(data.dtype, result))
    factor = sign if temperature is None else sign / temperature if temperature else float("nan")
    return data if factor == 1 else data * factor, real_axis(axis, data.ndim, name), result


@composite(method=True, npx="softmax", onnx=Onnx("Softmax", form="softmax"))
def softmax(
    data: Node,
    length: Node | None = None,
    *,
    axis: int = -1,
    temperature: float | None = None,
    dtype: DType | None = None,
    use_length: bool | None = False,
) -> Node:
    """Return the softmax of an array along an axis: ``exp(x) / sum(exp(x))``.

    Parameters
    ----------
    data
        The array.
    length
        Number of leading positions along the axis to include, for each index of the other axes. The rest is 0. An
        integer array, given together with ``use_length=True``.
    axis
        The axis along which the result sums to 1.
    temperature
        Divisor of the array. Values above 1 flatten the result, values below 1 sharpen it.
    dtype
        Dtype of the result; default: the dtype of the array.
    use_length
        Whether ``length`` is given.
    """
    if (length is not None) != bool(use_length):
        expected, got = (2, 1) if use_length else (1, 2)
        raise MXNetError(
            f"Operator softmax expects {expected} inputs, but got {got} instead. Pass length together with "
            f"use_length=True."
        )
    argument, position, result = _prepare(data, "softmax", axis, temperature, dtype)
    if length is None:
        return cast(softmax_along(argument, position), result)
    if kind_of(length.dtype) not in "iu":
        raise MXNetError(
            f"This operation only support integer types, not {name_of(length.dtype)} in operator softmax (length)"
        )
    expected_shape = without(data.shape, (position,))
    if length.shape != expected_shape:
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(length.shape)}, inferred shape="
            f"{format_shape(expected_shape)} in operator softmax: length has the shape of data without axis {axis}"
        )
    valid = single(_within_length(length, shape=data.shape, axis=position))
    # half of the lowest finite number: minus any ordinary logit it stays finite, and its exponential is zero
    lowest = -largest_of(argument.dtype) / 2
    soft = softmax_along(select(valid, argument, lowest), position)
    return cast(select(valid, soft, 0), result)


@composite(method=True, npx="softmin")
def softmin(
    data: Node,
    *,
    axis: int = -1,
    temperature: float | None = None,
    dtype: DType | None = None,
    use_length: bool | None = False,
) -> Node:
    """Return the softmax of the negated array along an axis: ``exp(-x) / sum(exp(-x))``."""
    _refuse_length("softmin", use_length)
    argument, position, result = _prepare(data, "softmin", axis, temperature, dtype, sign=-1.0)
    return cast(softmax_along(argument, position), result)


@composite(method=True, npx="log_softmax", onnx=Onnx("LogSoftmax", form="softmax"))
def log_softmax(
    data: Node,
    *,
    axis: int = -1,
    temperature: float | None = None,
    dtype: DType | None = None,
    use_length: bool | None = False,
) -> Node:
    """Return the logarithm of the softmax along an axis: ``x - log(sum(exp(x)))``, without loss of precision."""
    _refuse_length("log_softmax", use_length)
    argument, position, result = _prepare(data, "log_softmax", axis, temperature, dtype)
    return cast(log_softmax_along(argument, position), result)


def _refuse_length(name: str, use_length: bool | None) -> None:
    if use_length:
        raise MXNetError(f"Operator {name} takes no length: use_length=True works with softmax only")


@composite()
def SoftmaxActivation(data: Node, *, mode: Literal["channel", "instance"] = "instance") -> Node:
    """Return the softmax along the last axis; in mode ``channel`` along axis 1."""
    demand_floating(data.dtype, "SoftmaxActivation")
    if mode == "channel" and data.ndim < 3:
        raise MXNetError(
            f"Input need to have a least 3 dimensions when mode=channel, got {format_shape(data.shape)} in operator "
            f"SoftmaxActivation"
        )
    axis = 1 if mode == "channel" else -1
    return softmax_along(data, real_axis(axis, data.ndim, "SoftmaxActivation"))


# -- symbol declarations


def _with_lengths(inputs: list[Partial], outputs: list[Partial], *, axis: int) -> list[Partial]:
    data = merge(inputs[0], outputs[0])
    if data is None or len(inputs) == 1 or not -len(data) <= axis < len(data):
        return [data, *inputs[1:]]
    along = axis % len(data)
    return [data, (*data[:along], *data[along + 1 :])]


def _result_types(
    inputs: list[DType | None], outputs: list[DType | None], *, dtype: DType | None
) -> tuple[list[DType | None], list[DType | None]]:
    return [inputs[0] or (outputs[0] if dtype is None else None), *inputs[1:]], [dtype or inputs[0]]


softmax.interface = Interface(arguments=only_if(length="use_length"), shapes=_with_lengths, types=_result_types)
log_softmax.interface = softmin.interface = SoftmaxActivation.interface = Interface(shapes=same_shapes)


# -- precision in mixed-precision training

for _declared in (
    SoftmaxActivation,
    log_softmax,
    softmax,
    softmin,
):
    _declared.precision = "float32"
