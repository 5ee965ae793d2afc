"""Normalization layers: batch, layer, instance, group, L2 and local response normalization.

All are composites of other operators. float16 is normalized in float32. Means and variances take two passes, so a
large mean does not spoil a small variance. Variances are biased (divided by the number of elements).
"""

from __future__ import annotations

import inspect
from typing import Any, Literal

import numpy as np

from ...base.dtypes import DType, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Onnx, like_data, same_shapes, vectors
from ...graph.node import Node, Shape
from ...graph.operator import Array, Operator, Spec, composite, operator, single
from ...graph.shapes import real_axis, with_ones
from ...lower.lowering import WIDE_FLOATS, Expansion
from ..math.broadcasting import sum_to
from ..math.elementary import relu, rsqrt, sqrt, square
from ..math.gradient_control import depending_on, without_gradient
from ..math.primitives import cast, embed, reshape_to
from ..math.structural import full
from ..reduce.reduction import mean_axes, sum_axes
from ..shape.arrangement import slice_along
from .softmax import demand_floating

__all__ = ["moments"]

FLOAT32 = np.dtype("float32")


# -- statistics


def _expand_variance(data: Node, mean: Node) -> Node:
    squares = single(square(data - mean))
    return sum_to(squares, mean.shape) / (data.size // max(mean.size, 1))


@operator(cost=lambda node: 3.0 * node.inputs[0].size, lowering=Expansion(_expand_variance, WIDE_FLOATS))
def _variance(data: Array, mean: Array) -> Array:
    """Return the mean squared deviation along the axes where the mean has size one."""
    axes = tuple([axis for axis, extent in enumerate(mean.shape) if extent == 1])
    return np.mean(np.square(data - mean), axis=axes, keepdims=True, dtype=data.dtype)


@_variance.infer
def variance_shape(data: Node, mean: Node) -> Spec:
    return mean.shape, data.dtype


@_variance.gradient
def variance_grad(out_grad: Node, out: Node, data: Node, mean: Node) -> tuple[Node, None]:
    # deviations from the mean sum to zero, so no gradient passes through the mean, at any order
    return out_grad * ((data - mean) * (2 * mean.size / max(data.size, 1))), None


def moments(data: Node, axes: Shape) -> tuple[Node, Node]:
    """Return mean and biased variance along axes, and keep the axes with size one."""
    mean = mean_axes(data, axes, keepdims=True)
    return mean, single(_variance(data, mean))


def _wide(dtype: DType) -> DType:
    return FLOAT32 if dtype.itemsize == 2 else dtype


def _check_vector(name: str, argument: str, node: Node, extent: int, dtype: DType) -> None:
    if node.shape != (extent,):
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(node.shape)}, inferred shape={format_shape((extent,))} for "
            f"{argument} in operator {name}"
        )
    if node.dtype != dtype:
        raise MXNetError(
            f"This layer requires uniform type. Expected '{name_of(dtype)}' v.s. given "
            f"'{name_of(node.dtype)}' at '{argument}' in "
            f"operator {name}"
        )


def _outputs(*arguments: Any, output_mean_var: bool, **parameters: Any) -> int:
    return 3 if output_mean_var else 1


def _statistics_outputs(statistics: tuple[Node, Node], output_mean_var: bool) -> tuple[Node, Node]:
    """Return the statistics as outputs: visible ones have no gradient, as in MXNet."""
    if not output_mean_var:
        return statistics
    return without_gradient(statistics[0]), without_gradient(statistics[1])


# -- batch normalization


def _channel_axis(data: Node, axis: int, name: str) -> int:
    if not -data.ndim <= axis < data.ndim:
        raise MXNetError(f"Channel axis out of range: {axis} for data {format_shape(data.shape)} in operator {name}")
    return axis % data.ndim


def _batch_moments(data: Node, channel: int) -> tuple[Node, Node]:
    wide = cast(data, _wide(data.dtype))
    return moments(wide, tuple([axis for axis in range(data.ndim) if axis != channel]))


def _batch_norm(
    name: str, inputs: tuple[Node, ...], eps: float, fix_gamma: bool, use_batch: bool, axis: int
) -> tuple[Node, Node, Node]:
    """Return the normalized array, and the mean and variance it was normalized with."""
    data, gamma, beta, moving_mean, moving_var = inputs
    demand_floating(data.dtype, name)
    channel = _channel_axis(data, axis, name)
    extent = data.shape[channel]
    dtype = _wide(data.dtype)
    for argument, node in zip(("gamma", "beta", "moving_mean", "moving_var"), inputs[1:], strict=True):
        _check_vector(name, argument, node, extent, dtype)
    beside = with_ones(data.shape, tuple([other for other in range(data.ndim) if other != channel]))
    unused = [gamma] if fix_gamma else []
    if use_batch:
        mean, variance = _batch_moments(data, channel)
        unused += [moving_mean, moving_var]
    else:
        # the gradient treats the moving statistics as constants, even if they are marked
        mean = reshape_to(without_gradient(moving_mean), beside)
        variance = reshape_to(without_gradient(moving_var), beside)
    factor = single(rsqrt(variance + eps))
    if not fix_gamma:
        factor = factor * reshape_to(gamma, beside)
    out = (cast(data, dtype) - mean) * factor + reshape_to(beta, beside)
    return depending_on(cast(out, data.dtype), unused), reshape_to(mean, (extent,)), reshape_to(variance, (extent,))


def _new_statistics(
    inputs: tuple[Node, ...], momentum: float, fix_gamma: bool, use_batch: bool, axis: int
) -> dict[int, Node]:
    """Return the new values of arguments by position: gamma, moving mean and moving variance."""
    data, gamma, _, moving_mean, moving_var = inputs
    changed = {1: full(gamma.shape, 1, gamma.dtype, gamma.context)} if fix_gamma else {}
    if use_batch:
        mean, variance = _batch_moments(data, axis % data.ndim)
        for position, moving, batch in ((3, moving_mean, mean), (4, moving_var, variance)):
            changed[position] = moving * momentum + reshape_to(batch, moving.shape) * (1 - momentum)
    return changed


def _batch_norm_effects(
    inputs: tuple[Node, ...],
    outputs: tuple[Node, ...],
    *,
    momentum: float,
    fix_gamma: bool,
    use_global_stats: bool,
    training: bool,
    axis: int = 1,
    **parameters: Any,
) -> dict[int, Node]:
    return _new_statistics(inputs[:5], momentum, fix_gamma, training and not use_global_stats, axis)


@composite(aliases=("CuDNNBatchNorm",), visible=_outputs, effects=_batch_norm_effects, npx="batch_norm")
def BatchNorm(
    data: Node,
    gamma: Node,
    beta: Node,
    moving_mean: Node,
    moving_var: Node,
    *,
    eps: float = 1e-3,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    axis: int = 1,
    cudnn_off: bool = False,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    training: bool = False,
) -> tuple[Node, ...]:
    """Normalize each channel over the batch to mean 0 and variance 1, then apply gamma and beta.

    ``gamma * (x - mean) / sqrt(var + eps) + beta``.

    Parameters
    ----------
    data
        The array; its channels are along ``axis``.
    gamma, beta
        Scale and offset of each channel; float32 for data in float16.
    moving_mean, moving_var
        Statistics used outside training mode. A call in training mode updates them:
        ``moving = momentum * moving + (1 - momentum) * batch``.
    fix_gamma
        Use 1 for gamma, and set gamma to 1. Its gradient is zero.
    use_global_stats
        Use the moving statistics in training mode too, and do not update them.
    output_mean_var
        Also return the mean and the inverse standard deviation of each channel; no gradient passes through them.

    Notes
    -----
    Compatibility: MXNet updates the statistics in the backward pass; here the forward call does.
    """
    inputs = (data, gamma, beta, moving_mean, moving_var)
    use_batch = training and not use_global_stats
    out, mean, variance = _batch_norm("BatchNorm", inputs, eps, fix_gamma, use_batch, axis)
    return out, *_statistics_outputs((mean, single(rsqrt(variance + eps))), output_mean_var)


def _declare_relative(
    name: str,
    doc: str,
    *,
    without: tuple[str, ...] = (),
    extra: tuple[inspect.Parameter, ...] = (),
    rectify: bool = False,
    inverse: bool = False,
) -> Operator:
    """Declare a variant of ``BatchNorm``, with some of its arguments removed and others added.

    `rectify` replaces negative results by 0. The third output is the variance; `inverse` makes it the inverse standard
    deviation.
    """

    def normalize(
        *inputs: Node,
        eps: float,
        fix_gamma: bool,
        use_global_stats: bool,
        output_mean_var: bool,
        training: bool,
        axis: int = 1,
        **parameters: Any,
    ) -> tuple[Node, ...]:
        use_batch = training and not use_global_stats
        out, mean, variance = _batch_norm(name, inputs, eps, fix_gamma, use_batch, axis)
        spread = single(rsqrt(variance + eps)) if inverse else variance
        return single(relu(out)) if rectify else out, *_statistics_outputs((mean, spread), output_mean_var)

    *arguments, training = inspect.signature(BatchNorm.function).parameters.values()
    kept = [argument for argument in arguments if argument.name not in without]
    signature = inspect.Signature([*kept, *extra, training], return_annotation="tuple[Node, ...]")
    normalize.__signature__ = signature  # type: ignore[attr-defined]
    normalize.__name__ = normalize.__qualname__ = name
    normalize.__doc__ = doc
    return composite(name=name, visible=_outputs, effects=_batch_norm_effects)(normalize)


_BEHIND_STATISTICS = ("axis", "cudnn_off", "min_calib_range", "max_calib_range")

batch_norm_with_relu = _declare_relative(
    "_contrib_BatchNormWithReLU",
    "Return ``max(BatchNorm(x), 0)``, with the arguments of ``BatchNorm``.",
    rectify=True,
    inverse=True,
)
BatchNorm_v1 = _declare_relative(
    "BatchNorm_v1",
    "Return the batch-normalized array, with channels along axis 1; deprecated, use ``BatchNorm``.",
    without=_BEHIND_STATISTICS,
)
sync_batch_norm = _declare_relative(
    "_contrib_SyncBatchNorm",
    """Return the array normalized over the batch of this process, with channels along axis 1.

    ``ndev`` and ``key`` are accepted and ignored: MXNet gathers statistics from several devices, phonograd from one.
    """,
    without=_BEHIND_STATISTICS,
    extra=(
        inspect.Parameter("ndev", inspect.Parameter.KEYWORD_ONLY, annotation="int", default=1),
        inspect.Parameter("key", inspect.Parameter.KEYWORD_ONLY, annotation="str"),
    ),
)


# -- normalization within each sample


def _standardize(data: Node, axes: Shape, eps: float) -> tuple[Node, Node, Node]:
    """Return the array with mean 0 and variance 1 along axes, in its wide dtype, with its mean and deviation."""
    wide = cast(data, _wide(data.dtype))
    mean, variance = moments(wide, axes)
    return (wide - mean) * single(rsqrt(variance + eps)), mean, single(sqrt(variance + eps))


def _scale_and_shift(normal: Node, gamma: Node, beta: Node, shape: Shape) -> Node:
    return normal * cast(reshape_to(gamma, shape), normal.dtype) + cast(reshape_to(beta, shape), normal.dtype)


@composite(visible=_outputs, npx="layer_norm")
def LayerNorm(
    data: Node, gamma: Node, beta: Node, *, axis: int = -1, eps: float = 1e-5, output_mean_var: bool = False
) -> tuple[Node, ...]:
    """Normalize an array along an axis to mean 0 and variance 1, then apply gamma and beta.

    ``gamma * (x - mean) / sqrt(var + eps) + beta``. With ``output_mean_var``, also return the mean and the standard
    deviation; no gradient passes through them.
    """
    demand_floating(data.dtype, "LayerNorm")
    if not -data.ndim <= axis < data.ndim:
        raise MXNetError(f"Channel axis out of range: axis={axis} for {format_shape(data.shape)} in operator LayerNorm")
    along = real_axis(axis, data.ndim, "LayerNorm")
    for argument, node in (("gamma", gamma), ("beta", beta)):
        _check_vector("LayerNorm", argument, node, data.shape[along], data.dtype)
    normal, mean, deviation = _standardize(data, (along,), eps)
    shape = with_ones(data.shape, tuple([other for other in range(data.ndim) if other != along]))
    out = cast(_scale_and_shift(normal, gamma, beta, shape), data.dtype)
    statistics = (cast(mean, data.dtype), cast(deviation, data.dtype))
    return out, *_statistics_outputs(statistics, output_mean_var)


@composite(npx="instance_norm", onnx=Onnx("InstanceNormalization", {"epsilon": "eps"}))
def InstanceNorm(data: Node, gamma: Node, beta: Node, *, eps: float = 1e-3) -> Node:
    """Normalize each channel (axis 1) of each sample to mean 0 and variance 1, then apply gamma and beta."""
    demand_floating(data.dtype, "InstanceNorm")
    if data.ndim < 3:
        raise MXNetError(
            f"InstanceNorm only supports input tensors of rank >= 3., got {format_shape(data.shape)}. The axes are "
            f"batch, channel, and at least one more."
        )
    for argument, node in (("gamma", gamma), ("beta", beta)):
        _check_vector("InstanceNorm", argument, node, data.shape[1], data.dtype)
    normal, _, _ = _standardize(data, tuple(range(2, data.ndim)), eps)
    shape = (data.shape[1],) + (1,) * (data.ndim - 2)
    return cast(_scale_and_shift(normal, gamma, beta, shape), data.dtype)


@composite(visible=_outputs, npx="group_norm")
def GroupNorm(
    data: Node, gamma: Node, beta: Node, *, num_groups: int = 1, eps: float = 1e-5, output_mean_var: bool = False
) -> tuple[Node, ...]:
    """Normalize each group of channels (axis 1) to mean 0 and variance 1, then apply gamma and beta.

    gamma and beta have one number per group. With ``output_mean_var``, also return the mean and the standard deviation
    of each group; no gradient passes through them.
    """
    demand_floating(data.dtype, "GroupNorm")
    if data.ndim < 3:
        raise MXNetError(
            f"GroupNorm needs data of at least 3 dimensions (batch, channel, and more), got {format_shape(data.shape)}"
        )
    batch, channels = data.shape[:2]
    if num_groups < 1 or channels % num_groups:
        raise MXNetError(
            f"# of channels must be divisible by # of groups: {channels} channels, {num_groups} groups in operator "
            f"GroupNorm"
        )
    for argument, node in (("gamma", gamma), ("beta", beta)):
        _check_vector("GroupNorm", argument, node, num_groups, data.dtype)
    groups = (batch, num_groups, data.size // (batch * num_groups) if batch else 0)
    normal, mean, deviation = _standardize(reshape_to(data, groups), (2,), eps)
    out = cast(reshape_to(_scale_and_shift(normal, gamma, beta, (num_groups, 1)), data.shape), data.dtype)
    statistics = (
        cast(reshape_to(mean, groups[:2]), data.dtype),
        cast(reshape_to(deviation, groups[:2]), data.dtype),
    )
    return out, *_statistics_outputs(statistics, output_mean_var)


# -- normalization by L2 norm and by adjacent channels


@composite(npx="l2_normalization")
def L2Normalization(
    data: Node, *, eps: float = 1e-10, mode: Literal["channel", "instance", "spatial"] = "instance"
) -> Node:
    """Divide an array by its L2 norm: ``x / sqrt(sum(x**2) + eps)``.

    The sum is over all axes but the first (``instance``), over axis 1 (``channel``), or over all axes after axis 1
    (``spatial``).
    """
    demand_floating(data.dtype, "L2Normalization")
    if mode != "instance" and data.ndim < 3:
        raise MXNetError(
            f"At lease 3 dimensions required in {mode} mode, got {format_shape(data.shape)} in operator L2Normalization"
        )
    axes = {"instance": tuple(range(1, data.ndim)), "channel": (1,), "spatial": tuple(range(2, data.ndim))}[mode]
    wide = cast(data, _wide(data.dtype))
    length = sum_axes(single(square(wide)), axes, keepdims=True)
    return cast(wide * single(rsqrt(length + eps)), data.dtype)


@composite(onnx=Onnx("LRN", {"alpha": "alpha", "beta": "beta", "bias": "knorm", "size": "nsize"}))
def LRN(data: Node, *, alpha: float = 1e-4, beta: float = 0.75, knorm: float = 2.0, nsize: int) -> Node:
    """Return the local response normalization of an array across adjacent channels (axis 1).

    ``x / (knorm + alpha / nsize * s) ** beta``, where s is the sum of the squares of the nsize nearest channels.
    """
    demand_floating(data.dtype, "LRN")
    if data.ndim < 2:
        raise MXNetError(f"LRN needs data with channels along axis 1, got {format_shape(data.shape)}")
    if nsize < 1:
        raise MXNetError(f"LRN needs a window of at least one channel, got nsize={nsize}")
    wide = cast(data, _wide(data.dtype))
    squares = single(square(wide))
    total = squares
    for distance in range(1, min((nsize - 1) // 2, data.shape[1] - 1) + 1):
        total = total + _shift(squares, distance) + _shift(squares, -distance)
    return cast(wide * (total * (alpha / nsize) + knorm) ** -float(beta), data.dtype)


def _shift(data: Node, distance: int) -> Node:
    """Shift the channels by a distance, and fill with zeros."""
    channels = data.shape[1]
    source = slice_along(data, 1, max(-distance, 0), channels - max(distance, 0))
    begin = (0, max(distance, 0)) + (0,) * (data.ndim - 2)
    end = (data.shape[0], channels - max(-distance, 0), *data.shape[2:])
    return embed(source, data.shape, begin, end)


# -- symbol declarations


def _wide_statistics(
    inputs: list[DType | None], outputs: list[DType | None]
) -> tuple[list[DType | None], list[DType | None]]:
    data = inputs[0] or outputs[0]
    wide = None if data is None else _wide(data)
    return [data, *[dtype or wide for dtype in inputs[1:]]], [data, *[wide] * (len(outputs) - 1)]


def _over_a_batch(axis: Any) -> Interface:
    return Interface(
        auxiliary=("moving_mean", "moving_var"),
        initial={"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'},
        outputs=("output", "mean", "var"),
        shapes=vectors(axis),
        types=_wide_statistics,
    )


BatchNorm.interface = batch_norm_with_relu.interface = _over_a_batch(lambda *, axis, **parameters: axis)
BatchNorm_v1.interface = sync_batch_norm.interface = _over_a_batch(1)
LayerNorm.interface = Interface(outputs=("output", "mean", "std"), shapes=vectors(lambda *, axis, **parameters: axis))
InstanceNorm.interface = Interface(outputs=("output", "mean", "var"), shown=1, shapes=vectors(1))
GroupNorm.interface = Interface(
    outputs=("output", "mean", "std"),
    shapes=lambda inputs, outputs, *, num_groups: [*like_data(inputs[:1], outputs), (num_groups,), (num_groups,)],
)
L2Normalization.interface = LRN.interface = Interface(outputs=("output", "norm"), shown=1, shapes=same_shapes)


# -- precision in mixed-precision training

for _declared in (
    GroupNorm,
    InstanceNorm,
    L2Normalization,
    LRN,
    LayerNorm,
    sync_batch_norm,
):
    _declared.precision = "float32"
