"""Layers: products with weights, pooling and normalizations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....symbol import Symbol
from ..model import Node, reads

__all__: list[str] = []


def _same_pads(node: Node, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Return the padding of ``auto_pad``, before and after."""
    kind = node.get("auto_pad", "NOTSET")
    if kind == "VALID":
        return [0] * (2 * len(kernel))
    before, after = [], []
    for extent, width, stride, step in zip(node.known_shape()[2:], kernel, strides, dilations):
        count = math.ceil(extent / stride)
        total = max((count - 1) * stride + (width - 1) * step + 1 - extent, 0)
        less, more = total // 2, total - total // 2
        before.append(less if kind == "SAME_UPPER" else more)
        after.append(more if kind == "SAME_UPPER" else less)
    return before + after


def _geometry(node: Node, kernel: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Return strides, dilations and padding."""
    axes = len(kernel)
    strides = list(node.get("strides") or [1] * axes)
    dilations = list(node.get("dilations") or [1] * axes)
    if node.get("auto_pad", "NOTSET") in ("NOTSET", ""):
        return strides, dilations, list(node.get("pads") or [0] * (2 * axes))
    return strides, dilations, _same_pads(node, kernel, strides, dilations)


def _pad_input(node: Node, pads: list[int], value: float) -> tuple[Symbol, list[int]]:
    """Return the input and symmetric padding; asymmetric padding is applied to the input first."""
    axes = len(pads) // 2
    before, after = pads[:axes], pads[axes:]
    if before == after:
        return node.data, before
    if axes not in (2, 3):
        raise node.refuse(f"has pads {pads} of {axes} axes")
    widths = [0, 0, 0, 0, *[width for pair in zip(before, after) for width in pair]]
    return node.make("Pad", node.data, mode="constant", pad_width=tuple(widths), constant_value=value), [0] * axes


@reads("Conv")
def import_conv(node: Node) -> Symbol:
    weight = node.known_shape(1)
    kernel = list(node.get("kernel_shape") or weight[2:])
    strides, dilations, pads = _geometry(node, kernel)
    data, pad = _pad_input(node, pads, 0.0)
    inputs = [data, *[node.symbol(index) for index in (1, 2) if node.has(index)]]
    return node.make(
        "Convolution",
        *inputs,
        kernel=tuple(kernel),
        stride=tuple(strides),
        dilate=tuple(dilations),
        pad=tuple(pad),
        num_filter=weight[0],
        num_group=node.get("group", 1),
        no_bias=not node.has(2),
    )


@reads("ConvTranspose")
def import_conv_transpose(node: Node) -> Symbol:
    weight = node.known_shape(1)
    kernel = list(node.get("kernel_shape") or weight[2:])
    strides, dilations, pads = _geometry(node, kernel)
    axes, group = len(kernel), node.get("group", 1)
    if node.get("output_shape") or pads[:axes] != pads[axes:]:
        raise node.refuse("has an output_shape, or different pads before and after")
    inputs = [node.symbol(index) for index in range(3) if node.has(index)]
    return node.make(
        "Deconvolution",
        *inputs,
        kernel=tuple(kernel),
        stride=tuple(strides),
        dilate=tuple(dilations),
        pad=tuple(pads[:axes]),
        adj=tuple(node.get("output_padding") or [0] * axes),
        num_filter=weight[1] * group,
        num_group=group,
        no_bias=not node.has(2),
    )


@reads("Gemm")
def import_gemm(node: Node) -> Symbol:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    weight = node.constant(1)
    is_layer = weight is not None and not node.get("transA", 0) and alpha == 1 == beta
    bias = node.constant(2)
    if is_layer and weight is not None and (not node.has(2) or (bias is not None and bias.ndim == 1)):
        if bias is not None and bias.size not in (1, weight.shape[not node.get("transB", 0)]):
            raise node.refuse(f"adds {bias.shape}")
        turned = node.symbol(1) if node.get("transB", 0) else node.parameter(weight.T.copy(), "weight")
        units = weight.shape[0] if node.get("transB", 0) else weight.shape[1]
        if bias is None:
            return node.make("FullyConnected", node.data, turned, num_hidden=units, no_bias=True, flatten=False)
        offset = node.symbol(2) if bias.size == units else node.parameter(np.repeat(bias, units), "bias")
        return node.make("FullyConnected", node.data, turned, offset, num_hidden=units, flatten=False)
    product = node.make(
        "dot",
        node.data,
        node.symbol(1),
        transpose_a=bool(node.get("transA", 0)),
        transpose_b=bool(node.get("transB", 0)),
    )
    product = product if alpha == 1 else product * alpha
    if not node.has(2) or beta == 0:
        return product
    added = node.symbol(2) if beta == 1 else node.symbol(2) * beta
    return node.make("broadcast_add", product, added)


@reads("MatMul")
def import_mat_mul(node: Node) -> Symbol:
    left, right = node.rank(0), node.rank(1)
    if right <= 2:
        # multiplies the last axis with the first one
        return node.make("dot", node.data, node.symbol(1))
    if left == right and node.shape(0)[:-2] == node.shape(1)[:-2]:
        return node.make("batch_dot" if left == 3 else "linalg.gemm2", node.data, node.symbol(1))
    shapes = [node.known_shape(0), node.known_shape(1)]
    batch = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    sides = []
    for index, shape in enumerate(shapes):
        whole = (1,) * (len(batch) + 2 - len(shape)) + shape
        side = node.make("Reshape", node.symbol(index), shape=whole)
        sides.append(node.make("broadcast_to", side, shape=(*batch, *shape[-2:])))
    return node.make("linalg.gemm2", *sides)


# -- pooling


def _pool(node: Node, kind: str, **more: Any) -> Symbol:
    kernel = list(node.get("kernel_shape"))
    strides, dilations, pads = _geometry(node, kernel)
    if any([step != 1 for step in dilations]):
        raise node.refuse(f"has dilations={dilations}")
    if kind == "avg" and pads[: len(kernel)] != pads[len(kernel) :] and not node.get("count_include_pad", 0):
        raise node.refuse("has different pads before and after, which the average excludes")
    lowest = float(np.finfo(np.float32).min) if kind == "max" else 0.0
    data, pad = _pad_input(node, pads, lowest)
    convention = "full" if node.get("ceil_mode", 0) else "valid"
    facts = {"kernel": tuple(kernel), "stride": tuple(strides), "pad": tuple(pad), "pooling_convention": convention}
    return node.make("Pooling", data, pool_type=kind, **facts, **more)


@reads("MaxPool")
def import_max_pool(node: Node) -> Symbol:
    return _pool(node, "max")


@reads("AveragePool")
def import_average_pool(node: Node) -> Symbol:
    return _pool(node, "avg", count_include_pad=bool(node.get("count_include_pad", 0)))


@reads("LpPool")
def import_lp_pool(node: Node) -> Symbol:
    return _pool(node, "lp", p_value=node.get("p", 2))


def _pool_globally(node: Node, kind: str, **more: Any) -> Symbol:
    kernel = (1,) * (node.rank() - 2)
    return node.make("Pooling", node.data, global_pool=True, kernel=kernel, pool_type=kind, **more)


@reads("GlobalMaxPool")
def import_global_max_pool(node: Node) -> Symbol:
    return _pool_globally(node, "max")


@reads("GlobalAveragePool")
def import_global_average_pool(node: Node) -> Symbol:
    return _pool_globally(node, "avg")


@reads("GlobalLpPool")
def import_global_lp_pool(node: Node) -> Symbol:
    return _pool_globally(node, "lp", p_value=node.get("p", 2))


# -- normalizations


@reads("BatchNormalization")
def import_batch_normalization(node: Node) -> Symbol:
    if node.get("training_mode", 0):
        raise node.refuse("has training_mode=1")
    inputs = [node.symbol(index) for index in range(5)]
    momentum = node.get("momentum", 0.9)
    return node.make("BatchNorm", *inputs, eps=node.get("epsilon", 1e-5), momentum=momentum, fix_gamma=False)


@reads("LayerNormalization")
def import_layer_normalization(node: Node) -> Symbol:
    axis = node.axis(node.get("axis", -1))
    if axis != node.rank() - 1 or len(node.outputs) > 1:
        raise node.refuse(f"goes through several axes, from {axis} on, or has several outputs")
    gamma = node.symbol(1)
    beta = node.symbol(2) if node.has(2) else node.parameter(np.zeros(node.known_shape(1), np.float32), "beta")
    return node.make("LayerNorm", node.data, gamma, beta, axis=-1, eps=node.get("epsilon", 1e-5))


@reads("GroupNormalization")
def import_group_normalization(node: Node) -> Symbol:
    facts = {"num_groups": node.get("num_groups"), "eps": node.get("epsilon", 1e-5)}
    if node.known_shape(1) == (facts["num_groups"],):
        return node.make("GroupNorm", *[node.symbol(index) for index in range(3)], **facts)
    # one factor per channel, as in PyTorch
    ones = np.ones(facts["num_groups"], np.float32)
    plain = node.make("GroupNorm", node.data, node.parameter(ones, "ones"), node.parameter(0 * ones, "zeros"), **facts)
    shape = (1, -1, *[1] * (node.rank() - 2))
    gamma, beta = [node.make("Reshape", node.symbol(index), shape=shape) for index in (1, 2)]
    return node.make("broadcast_add", node.make("broadcast_mul", plain, gamma), beta)


@reads("LpNormalization")
def import_lp_normalization(node: Node) -> Symbol:
    length = node.make("norm", node.data, ord=node.get("p", 2), axis=node.axis(node.get("axis", -1)), keepdims=True)
    return node.make("broadcast_div", node.data, length)
