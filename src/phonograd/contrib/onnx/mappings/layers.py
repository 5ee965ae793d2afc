"""Layers: products with weights, pooling, normalizations and activations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.ops.nn.activation import ACTIVATIONS
from ..graph import Call, Graph, maps

__all__: list[str] = []


@maps("FullyConnected")
def export_fully_connected(graph: Graph, call: Call) -> str:
    data, rank = call.data, len(call.shape)
    if call["flatten"] or rank == 2:
        if rank != 2:
            data = graph.add("Flatten", [data], axis=1)
        return graph.add("Gemm", [data, *call.inputs[1:]], transB=1)
    product = graph.add("MatMul", [data, graph.transpose(call.inputs[1], [1, 0])])
    return product if call["no_bias"] else graph.add("Add", [product, call.inputs[2]])


def _geometry(call: Call) -> dict[str, Any]:
    """Return the common attributes of convolutions and poolings: kernel, strides and padding, for all axes."""
    axes = len(call["kernel"])
    pad = list(call["pad"] or (0,) * axes)
    return {"kernel_shape": list(call["kernel"]), "strides": list(call["stride"] or (1,) * axes), "pads": pad + pad}


def _check_layout(call: Call) -> None:
    if call["layout"] not in (None, "NCW", "NCHW", "NCDHW"):
        raise call.refuse(f"has layout={call['layout']!r}")


@maps("Convolution")
def export_convolution(graph: Graph, call: Call) -> str:
    _check_layout(call)
    dilations = list(call["dilate"] or (1,) * len(call["kernel"]))
    return graph.add("Conv", call.inputs, **_geometry(call), dilations=dilations, group=call["num_group"])


@maps("Deconvolution")
def export_deconvolution(graph: Graph, call: Call) -> str:
    _check_layout(call)
    if any(call["target_shape"]):
        raise call.refuse("has a target_shape")
    axes = len(call["kernel"])
    return graph.add(
        "ConvTranspose",
        call.inputs,
        **_geometry(call),
        dilations=list(call["dilate"] or (1,) * axes),
        group=call["num_group"],
        output_padding=list(call["adj"] or (0,) * axes),
    )


# -- pooling


@maps("Pooling")
def export_pooling(graph: Graph, call: Call) -> str:
    _check_layout(call)
    kind = call["pool_type"]
    if call["global_pool"]:
        return _pool_globally(graph, call, kind)
    facts = _geometry(call)
    if call["pooling_convention"] == "same":
        raise call.refuse("has pooling_convention='same'")
    is_full = call["pooling_convention"] == "full"
    if kind == "max":
        return graph.add("MaxPool", [call.data], **facts, ceil_mode=int(is_full))
    if is_full and not _fits(call, facts):
        # windows across the edge have another divisor
        raise call.refuse(f"has pool_type={kind!r} and pooling_convention='full', and windows do not fit")
    if kind == "lp":
        return graph.add("LpPool", [call.data], **facts, p=call["p_value"] or 2)
    include = kind == "sum" or call["count_include_pad"] in (None, True)
    mean = graph.add("AveragePool", [call.data], **facts, count_include_pad=int(include))
    if kind == "avg":
        return mean
    return graph.add("Mul", [mean, graph.scalar(math.prod(facts["kernel_shape"]), call.dtype)])


def _fits(call: Call, facts: dict[str, Any]) -> bool:
    axes = zip(call.shape[2:], facts["kernel_shape"], facts["strides"], facts["pads"])
    return all([(extent + 2 * pad - kernel) % stride == 0 for extent, kernel, stride, pad in axes])


def _pool_globally(graph: Graph, call: Call, kind: str) -> str:
    if kind == "max":
        return graph.add("GlobalMaxPool", [call.data])
    if kind == "lp":
        return graph.add("GlobalLpPool", [call.data], p=call["p_value"] or 2)
    mean = graph.add("GlobalAveragePool", [call.data])
    return mean if kind == "avg" else graph.add("Mul", [mean, graph.scalar(math.prod(call.shape[2:]), call.dtype)])


@maps("_contrib_AdaptiveAvgPooling2D")
def export_contrib_adaptive_avg_pooling2_d(graph: Graph, call: Call) -> str:
    height, width = call.output_shapes[0][2:]
    if call.shape[2] % height or call.shape[3] % width:
        raise call.refuse(f"divides {call.shape[2:]} into {height}x{width} parts of different sizes")
    kernel = [call.shape[2] // height, call.shape[3] // width]
    return graph.add("AveragePool", [call.data], kernel_shape=kernel, strides=kernel)


# -- normalizations


def _move_axis(graph: Graph, value: str, rank: int, start: int, end: int) -> str:
    """Move one axis of a value to another position."""
    if start == end:
        return value
    axes = [axis for axis in range(rank) if axis != start]
    axes.insert(end, start)
    return graph.transpose(value, axes)


@maps("BatchNorm")
def export_batch_norm(graph: Graph, call: Call) -> str:
    if call["output_mean_var"]:
        raise call.refuse("has output_mean_var=True")
    axis, rank = call.axis(call["axis"]), len(call.shape)
    gamma, beta, mean, variance = call.inputs[1:]
    if call["fix_gamma"]:
        gamma = graph.constant(np.ones(call.shapes[1], call.dtype), name=f"{gamma}_fixed")
    data = _move_axis(graph, call.data, rank, axis, 1)
    value = graph.add("BatchNormalization", [data, gamma, beta, mean, variance], epsilon=call["eps"])
    return _move_axis(graph, value, rank, 1, axis)


@maps("LayerNorm")
def export_layer_norm(graph: Graph, call: Call) -> str:
    if call["output_mean_var"]:
        raise call.refuse("has output_mean_var=True")
    axis, last = call.axis(call["axis"]), len(call.shape) - 1
    data = _move_axis(graph, call.data, last + 1, axis, last)
    value = graph.add("LayerNormalization", [data, *call.inputs[1:]], axis=-1, epsilon=call["eps"])
    return _move_axis(graph, value, last + 1, last, axis)


@maps("GroupNorm")
def export_group_norm(graph: Graph, call: Call) -> str:
    if call["output_mean_var"]:
        raise call.refuse("has output_mean_var=True")
    groups, shape = call["num_groups"], call.shape
    ones, zeros = graph.constant(np.ones(groups, call.dtype)), graph.constant(np.zeros(groups, call.dtype))
    rows = graph.reshape(call.data, [0, groups, -1])
    whitened = graph.add("InstanceNormalization", [rows, ones, zeros], epsilon=call["eps"])
    # one factor per group or per channel
    count = call.shapes[1][0]
    parts = [0, count, -1] if count == groups else [0, shape[1], -1]
    whitened = graph.reshape(whitened, parts)
    gamma, beta = [graph.reshape(value, [1, count, 1]) for value in call.inputs[1:]]
    value = graph.add("Add", [graph.add("Mul", [whitened, gamma]), beta])
    return graph.reshape(value, [0, *shape[1:]])


@maps("Dropout")
def export_dropout(graph: Graph, call: Call) -> Sequence[str]:
    if call["mode"] == "always":
        raise call.refuse("has mode='always'")
    return [graph.add("Identity", [call.data])]


# -- activations


@maps("Activation")
def export_activation(graph: Graph, call: Call) -> str:
    node = ACTIVATIONS[call["act_type"]].onnx
    assert node is not None
    return graph.add(node.name, [call.data])


@maps("LeakyReLU")
def export_leaky_re_lu(graph: Graph, call: Call) -> str:
    kind = call["act_type"]
    if kind == "prelu":
        slope = call.inputs[1]
        if len(call.shape) > 2 and call.shapes[1] != (1,):
            slope = graph.reshape(slope, [-1, *[1] * (len(call.shape) - 2)])
        return graph.add("PRelu", [call.data, slope])
    if kind == "gelu":
        return _gelu(graph, call)
    if kind == "selu":
        return graph.add("Selu", [call.data])
    if kind == "elu":
        return graph.add("Elu", [call.data], alpha=call["slope"])
    slope = (call["lower_bound"] + call["upper_bound"]) / 2 if kind == "rrelu" else call["slope"]
    return graph.add("LeakyRelu", [call.data], alpha=slope)


def _gelu(graph: Graph, call: Call) -> str:
    scaled = graph.add("Mul", [call.data, graph.scalar(1 / math.sqrt(2), call.dtype)])
    gate = graph.add("Add", [graph.add("Erf", [scaled]), graph.scalar(1, call.dtype)])
    half = graph.add("Mul", [call.data, graph.scalar(0.5, call.dtype)])
    return graph.add("Mul", [half, gate])
