"""Reductions: sums, means, products, extrema, norms, positions of extrema, and cumulative sums.

Without ``axis`` an operator reduces over all axes and returns shape (1,), as in MXNet. The functions that end in
``_axes`` work on nodes with NumPy's shapes, for use in other operators.

Every sum is a ``_sum_to`` (see :mod:`..math.broadcasting`). The other primitives keep their reduced axes with size
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import BOOL, HALVES, UINT8, DType, is_floating, kind_of, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Onnx, Partials, outputs_of_type, same_shapes
from ...graph.node import Node, Shape
from ...graph.operator import Array, Operator, Spec, composite, declare, nothing, operator, single
from ...graph.parameters import Axis
from ...graph.partial_shapes import constant_results
from ...graph.shapes import real_axes, real_axis, reduction_axes, with_ones, without
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import FLOATS, INTEGERS, Cumulative, Either, Expansion, Reduction
from ..math.broadcasting import sum_to
from ..math.comparison import equal, greater, lesser, logical_and, logical_or, not_equal
from ..math.elementary import abs_, sqrt, square
from ..math.primitives import cast, permute, reshape_to, select, slice_step
from ..math.structural import full
from ..shape.creation import position_along
from ..shape.shape import concatenate, insert_axis

__all__ = ["max_axes", "mean_axes", "min_axes", "prod_axes", "sum_axes"]

FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")
INT64 = np.dtype("int64")


# -- primitives


def _axes(data: Shape, *, axes: Shape) -> Shape:
    return axes


def _extremum(name: str, function: Any, word: str, combine: Callable[..., Value], furthest: float) -> Operator:
    """Declare the maximum or minimum along axes; every element equal to it gets the whole gradient."""

    def reference(data: Array, *, axes: Shape) -> Array:
        return np.asarray(function(data, axis=axes, keepdims=True))

    def infer(data: Node, *, axes: Shape) -> Spec:
        if 0 in [data.shape[axis] for axis in axes]:
            raise MXNetError(
                f"zero-size array to reduction operation {word} which has no identity: {format_shape(data.shape)} "
                f"along axes {axes}"
            )
        return with_ones(data.shape, axes), data.dtype

    def gradient(out_grad: Node, out: Node, data: Node) -> Node:
        return select(equal(data, out), out_grad, 0)

    def identity(dtype: DType) -> float:
        if is_floating(dtype):
            return furthest
        limits = np.iinfo(dtype)
        return int(limits.min if furthest < 0 else limits.max)

    reference.__doc__ = f"Return the {word} along axes, which keep size one; NaN propagates."

    def of_truths(data: Node, *, axes: Shape) -> Node:
        return cast(single(found(cast(data, UINT8), axes=axes)), BOOL)

    lowering = Either(Reduction(combine, identity, _axes, FLOATS | INTEGERS), Expansion(of_truths, frozenset([BOOL])))
    found = Operator(reference, name=name, infer=infer, gradient=gradient, cost=_elements, lowering=lowering)
    return declare(found)


def _elements(node: Node) -> float:
    return float(node.inputs[0].size)


_largest = _extremum("_largest", np.max, "maximum", Emitter.maximum, -np.inf)
_smallest = _extremum("_smallest", np.min, "minimum", Emitter.minimum, np.inf)


@operator(
    cost=_elements,
    lowering=Either(
        Reduction(Emitter.multiply, 1.0, _axes),
        Expansion(lambda data, *, axes: cast(prod_axes(cast(data, FLOAT32), axes, True), data.dtype)),
    ),
)
def _product(data: Array, *, axes: Shape) -> Array:
    """Return the product along axes, which keep size one."""
    return np.asarray(np.prod(data, axis=axes, keepdims=True, dtype=data.dtype))


@_product.infer
def product_shape(data: Node, *, axes: Shape) -> Spec:
    return with_ones(data.shape, axes), data.dtype


@_product.gradient
def product_grad(out_grad: Node, out: Node, data: Node, *, axes: Shape) -> Node:
    order = (*[axis for axis in range(data.ndim) if axis not in axes], *axes)
    last = permute(data, order)
    kept = last.shape[: data.ndim - len(axes)]
    others = _products_of_others(reshape_to(last, (*kept, math.prod(last.shape[len(kept) :]))))
    inverse = tuple(sorted(range(data.ndim), key=order.__getitem__))
    return permute(reshape_to(others, last.shape), inverse) * out_grad


def _products_of_others(data: Node) -> Node:
    """Return, for every element, the product of all others along the last axis, exact with zeros.

    The two halves are multiplied element by element, and the problem is solved for the products. The result of an
    element is the result of its pair times its partner. The number of steps is the number of binary digits of the
    size.
    """
    size = data.shape[-1]
    if size <= 1:
        return full(data.shape, 1, data.dtype, data.context)
    half = size // 2
    first, second = _columns(data, 0, half), _columns(data, half, 2 * half)
    pairs = first * second
    rest = [_columns(data, 2 * half, size)] if size % 2 else []
    others = _products_of_others(concatenate([pairs, *rest], -1))
    of_pairs = _columns(others, 0, half)
    return concatenate([of_pairs * second, of_pairs * first, *[_columns(others, half, half + 1) for _ in rest]], -1)


def _columns(data: Node, begin: int, end: int) -> Node:
    return slice_step(data, (*(0,) * (data.ndim - 1), begin), (*data.shape[:-1], end))


def _expand_euclidean(data: Node, *, axes: Shape) -> Node | None:
    if 0 in data.shape:
        return None
    wide = cast(data, FLOAT32) if data.dtype.itemsize == 2 else data
    scale = single(_largest(abs_(wide), axes=axes))
    usable = select(logical_and(greater(scale, 0), lesser(scale, np.inf)), scale, 1)
    squares = sum_to(single(square(wide / usable)), scale.shape)
    return cast(single(sqrt(squares)) * usable, data.dtype)


@operator(cost=_elements, lowering=Expansion(_expand_euclidean, FLOATS))
def _euclidean(data: Array, *, axes: Shape) -> Array:
    """Return the square root of the sum of squares along axes, which keep size one; squares never overflow."""
    wide = data.astype(FLOAT32) if data.dtype.itemsize == 2 else data
    scale = np.max(np.abs(wide), axis=axes, keepdims=True, initial=0)
    usable = np.where((scale > 0) & np.isfinite(scale), scale, 1).astype(wide.dtype)
    squares = np.sum(np.square(wide / usable), axis=axes, keepdims=True)
    return np.asarray(np.sqrt(squares) * usable).astype(data.dtype)


@_euclidean.infer
def euclidean_shape(data: Node, *, axes: Shape) -> Spec:
    return with_ones(data.shape, axes), data.dtype


@_euclidean.gradient
def euclidean_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return data / out * out_grad


def _sums_of_halves(data: Node, *, axis: int, reverse: bool) -> Node:
    return cast(single(_running_sum(cast(data, FLOAT32), axis=axis, reverse=reverse)), data.dtype)


@operator(
    cost=4.0,
    lowering=Either(Cumulative(lambda *, axis, reverse: (axis, reverse)), Expansion(_sums_of_halves, HALVES)),
)
def _running_sum(data: Array, *, axis: int, reverse: bool) -> Array:
    """Return the cumulative sums along an axis, with reverse from the end."""
    if reverse:
        return np.flip(np.cumsum(np.flip(data, axis), axis, data.dtype), axis)
    return np.cumsum(data, axis, data.dtype)


@_running_sum.gradient
def running_sum_grad(out_grad: Node, out: Node, data: Node, *, axis: int, reverse: bool) -> Node:
    return single(_running_sum(out_grad, axis=axis, reverse=not reverse))


# -- on nodes, with NumPy's shapes


def _drop(kept: Node, axes: Shape, keepdims: bool) -> Node:
    return kept if keepdims else reshape_to(kept, without(kept.shape, axes))


def sum_axes(node: Node, axes: Shape, keepdims: bool = False) -> Node:
    """Return the sum along axes."""
    axes = real_axes(axes, node.ndim, "sum")
    return _drop(sum_to(node, with_ones(node.shape, axes)), axes, keepdims)


def mean_axes(node: Node, axes: Shape, keepdims: bool = False) -> Node:
    """Return the mean along axes. Integers do not overflow and truncate; float16 is summed in float32."""
    axes = real_axes(axes, node.ndim, "mean")
    count = math.prod([node.shape[axis] for axis in axes])
    if kind_of(node.dtype) == "b":
        return max_axes(node, axes, keepdims)
    wide = INT64 if kind_of(node.dtype) in "iu" else FLOAT32 if node.dtype.itemsize == 2 else node.dtype
    return cast(sum_axes(cast(node, wide), axes, keepdims) / count, node.dtype)


def max_axes(node: Node, axes: Shape, keepdims: bool = False) -> Node:
    """Return the maximum along axes."""
    axes = real_axes(axes, node.ndim, "max")
    return _drop(single(_largest(node, axes=axes)), axes, keepdims) if axes else node


def min_axes(node: Node, axes: Shape, keepdims: bool = False) -> Node:
    """Return the minimum along axes."""
    axes = real_axes(axes, node.ndim, "min")
    return _drop(single(_smallest(node, axes=axes)), axes, keepdims) if axes else node


def prod_axes(node: Node, axes: Shape, keepdims: bool = False) -> Node:
    """Return the product along axes."""
    axes = real_axes(axes, node.ndim, "prod")
    return _drop(single(_product(node, axes=axes)), axes, keepdims) if axes else node


def _norm_axes(node: Node, axes: Shape, keepdims: bool) -> Node:
    if kind_of(node.dtype) != "f":
        return cast(_norm_axes(cast(node, FLOAT64), axes, keepdims), node.dtype)
    return _drop(single(_euclidean(node, axes=axes)), axes, keepdims)


# -- operators


def _never_zero_dimensional(node: Node, keepdims: bool) -> Node:
    return reshape_to(node, (1,)) if not node.shape and not keepdims else node


Along = Callable[[Node, Shape, bool], Node]


def _reduction(
    name: str, reduce: Along, sentence: str, *aliases: str, answers: str = "", onnx: str | None = None
) -> Operator:
    def body(data: Node, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Node:
        axes = reduction_axes(data.shape, axis, exclude)
        return _never_zero_dimensional(reduce(data, axes, keepdims), keepdims)

    body.__doc__ = (
        f"Return {sentence} along axes.\n\n"
        "The default is all axes; ``exclude`` reduces all but the given axes. ``keepdims`` keeps reduced axes, with "
        "size one."
    )
    node = None if onnx is None else Onnx(onnx, form="reduction")
    return composite(name=name, aliases=aliases, method=True, answers=answers, onnx=node)(body)


def _without_nan(node: Node, replacement: float) -> Node:
    return node if kind_of(node.dtype) != "f" else select(not_equal(node, node), replacement, node)


def _nansum(node: Node, axes: Shape, keepdims: bool) -> Node:
    return sum_axes(_without_nan(node, 0), axes, keepdims)


def _nanprod(node: Node, axes: Shape, keepdims: bool) -> Node:
    return prod_axes(_without_nan(node, 1), axes, keepdims)


sum_ = _reduction("sum", sum_axes, "the sum", "sum_axis", answers="sum", onnx="ReduceSum")
mean = _reduction("mean", mean_axes, "the mean", answers="mean", onnx="ReduceMean")
prod = _reduction("prod", prod_axes, "the product", answers="prod", onnx="ReduceProd")
nansum = _reduction("nansum", _nansum, "the sum, with NaN counted as 0,")
nanprod = _reduction("nanprod", _nanprod, "the product, with NaN counted as 1,")
max_ = _reduction("max", max_axes, "the maximum", "max_axis", answers="amax max", onnx="ReduceMax")
min_ = _reduction("min", min_axes, "the minimum", "min_axis", answers="amin min", onnx="ReduceMin")


@composite(method=True)
def norm(
    data: Node, *, ord: int = 2, axis: Axis = None, out_dtype: DType | None = None, keepdims: bool = False
) -> Node:
    """Return the norm along axes: ``sqrt(sum(x**2))`` (ord 2) or ``sum(abs(x))`` (ord 1)."""
    if ord not in (1, 2):
        raise MXNetError(f"norm only supports ord=1 and ord=2, got ord={ord}")
    axes = reduction_axes(data.shape, axis)
    dtype = out_dtype or data.dtype
    # a wider result dtype is also the dtype of the computation
    wider = kind_of(dtype) == "f" and (kind_of(data.dtype) != "f" or dtype.itemsize > data.dtype.itemsize)
    source = cast(data, dtype) if wider else data
    found = _norm_axes(source, axes, keepdims) if ord == 2 else sum_axes(abs_(source), axes, keepdims)
    return cast(_never_zero_dimensional(found, keepdims), dtype)


@composite()
def moments(data: Node, *, axes: Axis = None, keepdims: bool = False) -> tuple[Node, Node]:
    """Return the mean and the variance along the given axes."""
    if axes is None or axes == ():
        raise MXNetError(
            "Empty axes is not supported, if you would like to do global moments, please pass all axes to axes argument"
        )
    reduced = reduction_axes(data.shape, axes)
    middle = mean_axes(data, reduced, keepdims=True)
    deviation = data - middle
    variance = mean_axes(deviation * deviation, reduced, keepdims)
    average = _drop(middle, reduced, keepdims)
    return _never_zero_dimensional(average, keepdims), _never_zero_dimensional(variance, keepdims)


@composite()
def multi_sum_sq(*data: Node, num_arrays: int) -> Node:
    """Return the sum of squares of each of several arrays, in float32."""
    if len(data) != num_arrays:
        raise MXNetError(f"Operator multi_sum_sq expects {num_arrays} inputs, but got {len(data)} instead.")
    for position, node in enumerate(data):
        if kind_of(node.dtype) != "f":
            raise MXNetError(
                f"This operation only support floating point types, not {name_of(node.dtype)}: multi_sum_sq"
            )
        if node.dtype != data[0].dtype:
            raise MXNetError(
                f"This layer requires uniform type. Expected '{name_of(data[0].dtype)}' v.s. given "
                f"'{name_of(node.dtype)}' at "
                f"'array_{position}' of multi_sum_sq"
            )
    sums = []
    for node in data:
        wide = cast(node, FLOAT32) if node.dtype.itemsize == 2 else node
        sums.append(cast(sum_to(wide * wide, ()), FLOAT32))
    return concatenate([insert_axis(total, 0) for total in sums], 0)


@composite(name="_square_sum")
def square_sum(data: Node, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Node:
    """Return the sum of squares along axes."""
    axes = reduction_axes(data.shape, axis, exclude)
    return _never_zero_dimensional(sum_axes(data * data, axes, keepdims), keepdims)


@composite(name="_np_cumsum", aliases=("cumsum",))
def cumsum(a: Node, *, axis: int | None = None, dtype: DType | None = None) -> Node:
    """Return the cumulative sum along an axis; axis None sums the flattened array.

    Elements are cast to ``dtype`` before the sum.
    """
    converted = cast(a, dtype or (INT64 if kind_of(a.dtype) == "b" else a.dtype))
    if axis is None:
        converted, axis = reshape_to(converted, (a.size,)), 0
    if not -converted.ndim <= axis < converted.ndim:
        raise MXNetError(f"axis value {axis} out of range, in operator cumsum of an array {format_shape(a.shape)}")
    return single(_running_sum(converted, axis=axis % converted.ndim, reverse=False))


# -- positions of extrema


def _position(name: str, function: Any, extremum: Operator, word: str, onnx: str) -> Operator:
    def reference(data: Array, *, axis: int | None = None, keepdims: bool = False) -> Array:
        found = np.asarray(function(data, axis=axis, keepdims=keepdims))
        return found.reshape(found.shape or (1,) if not keepdims else found.shape).astype(data.dtype)

    def expand(data: Node, *, axis: int | None, keepdims: bool) -> Node:
        shape, _ = infer(data, axis=axis, keepdims=keepdims)
        line = reshape_to(data, (data.size,)) if axis is None else data
        return reshape_to(_position_of(extremum, line, 0 if axis is None else axis % data.ndim), shape)

    def infer(data: Node, *, axis: int | None, keepdims: bool) -> Spec:
        _numeric(name, data)
        axes = tuple(range(data.ndim)) if axis is None else (real_axis(axis, data.ndim, name),)
        if 0 in [data.shape[one] for one in axes]:
            raise MXNetError(f"{name} of an empty sequence: {format_shape(data.shape)} along axis {axis}")
        if keepdims:
            return with_ones(data.shape, axes), data.dtype
        return without(data.shape, axes) or (1,), data.dtype

    reference.__doc__ = (
        f"Return the index of the {word} along an axis, or in the flattened array, in the dtype of the input.\n\n"
        f"The first of equal elements counts, and NaN is taken for the {word}."
    )
    return operator(
        name=name,
        infer=infer,
        gradient=nothing,
        method=True,
        cost=_elements,
        lowering=Expansion(expand, FLOATS | INTEGERS),
        answers=name,
        onnx=Onnx(onnx, form="search"),
    )(reference)


def _position_of(extremum: Operator, data: Node, axis: int) -> Node:
    """Return the first position of an extremum along an axis, which keeps size one, in the dtype of the data."""
    found = single(extremum(data, axes=(axis,)))
    here = equal(data, found)
    if kind_of(data.dtype) == "f":
        # NaN is the extremum, if there is one, but does not equal itself
        here = logical_or(here, not_equal(data, data))
    place = select(here, position_along(data.shape, axis), data.shape[axis])
    return cast(single(_smallest(place, axes=(axis,))), data.dtype)


def _numeric(name: str, data: Node) -> None:
    if kind_of(data.dtype) == "b":
        raise MXNetError(f"{name} does not take bool arrays: positions have the dtype of the input; use astype first")


argmax = _position("argmax", np.argmax, _largest, "maximum", "ArgMax")
argmin = _position("argmin", np.argmin, _smallest, "minimum", "ArgMin")


@operator(
    method=True,
    cost=_elements,
    lowering=Expansion(
        lambda data: reshape_to(_position_of(_largest, data, 1), without(data.shape, (1,))), FLOATS | INTEGERS
    ),
)
def argmax_channel(data: Array) -> Array:
    """Return the index of the maximum along axis 1, in the dtype of the input. It has no gradient."""
    return np.asarray(np.argmax(data, axis=1)).astype(data.dtype)


@argmax_channel.infer
def argmax_channel_shape(data: Node) -> Spec:
    _numeric("argmax_channel", data)
    axis = real_axis(1, data.ndim, "argmax_channel")
    return without(data.shape, (axis,)), data.dtype


# -- symbol declarations


def _norm_types(
    inputs: list[DType | None], outputs: list[DType | None], *, out_dtype: DType | None
) -> tuple[list[DType | None], list[DType | None]]:
    data = inputs[0] or (outputs[0] if out_dtype is None else None)
    return [data], [out_dtype or data]


def _cumsum_shapes(inputs: Partials, outputs: Partials, *, axis: int | None) -> Partials:
    return inputs if axis is None else same_shapes(inputs, outputs)


cumsum.interface = Interface(shapes=_cumsum_shapes)


norm.interface = Interface(types=_norm_types)
moments.interface = Interface(outputs=2)
multi_sum_sq.interface = Interface(
    count="num_arrays",
    each="array_{}",
    types=outputs_of_type(np.dtype("float32")),
    results=constant_results(lambda *, num_arrays, **_: (num_arrays,)),
)


# -- precision in mixed-precision training

for _declared in (
    square_sum,
    mean,
    moments,
    nanprod,
    nansum,
    norm,
    prod,
    sum_,
):
    _declared.precision = "float32"
