"""Operators that move elements: shapes, slices, joins, lookups."""

from __future__ import annotations

import itertools

import numpy as np

from ..graph import Call, Graph, maps

__all__: list[str] = []

_LAST, _FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@maps("Flatten")
def export_flatten(graph: Graph, call: Call) -> str:
    return graph.add("Flatten", [call.data], axis=1)


def _shape_with_batch(call: Call) -> list[int]:
    """Return the output shape; 0 keeps the first extent if it equals that of the input."""
    shape = list(call.output_shapes[0])
    if shape and call.shape and shape[0] == call.shape[0]:
        shape[0] = 0
    return shape


@maps("Reshape")
def export_reshape(graph: Graph, call: Call) -> str:
    shape = list(call["shape"])
    if not shape or call["reverse"] or min(shape) < -1:
        shape = _shape_with_batch(call)
    return graph.reshape(call.data, shape)


@maps("reshape_like")
def export_reshape_like(graph: Graph, call: Call) -> str:
    return graph.reshape(call.data, _shape_with_batch(call))


@maps("transpose")
def export_transpose(graph: Graph, call: Call) -> str:
    axes = call["axes"] or tuple(range(len(call.shape)))[::-1]
    return graph.add("Transpose", [call.data], perm=[call.axis(axis) for axis in axes])


@maps("SwapAxis")
def export_swap_axis(graph: Graph, call: Call) -> str:
    axes = list(range(len(call.shape)))
    first, second = call.axis(call["dim1"]), call.axis(call["dim2"])
    axes[first], axes[second] = axes[second], axes[first]
    return graph.add("Transpose", [call.data], perm=axes)


@maps("expand_dims")
def export_expand_dims(graph: Graph, call: Call) -> str:
    return graph.add("Unsqueeze", [call.data, graph.integers(call["axis"])])


@maps("squeeze")
def export_squeeze(graph: Graph, call: Call) -> str:
    axis = call["axis"]
    if axis is None:
        return graph.reshape(call.data, call.output_shapes[0])
    axes = (axis,) if isinstance(axis, int) else axis
    return graph.add("Squeeze", [call.data, graph.integers(*axes)])


@maps("broadcast_to")
def export_broadcast_to(graph: Graph, call: Call) -> str:
    # 1 keeps an extent
    shape = [1 if extent == 0 else extent for extent in call["shape"]]
    return graph.add("Expand", [call.data, graph.integers(*shape)])


@maps("broadcast_axis")
def export_broadcast_axis(graph: Graph, call: Call) -> str:
    shape = [1] * len(call.shape)
    for axis, size in zip(call["axis"], call["size"]):
        shape[axis] = size
    return graph.add("Expand", [call.data, graph.integers(*shape)])


@maps("broadcast_like")
def export_broadcast_like(graph: Graph, call: Call) -> str:
    if call["lhs_axes"] is not None or call["rhs_axes"] is not None:
        raise call.refuse("names axes")
    return graph.add("Expand", [call.data, graph.add("Shape", [call.inputs[1]])])


@maps("tile")
def export_tile(graph: Graph, call: Call) -> str:
    repetitions = list(call["reps"])
    rank = len(call.shape)
    data = call.data
    if len(repetitions) > rank:
        data = graph.add("Unsqueeze", [data, graph.integers(*range(len(repetitions) - rank))])
    return graph.add("Tile", [data, graph.integers(*[1] * (rank - len(repetitions)), *repetitions)])


# -- parts


def _slice(graph: Graph, data: str, starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> str:
    return graph.add("Slice", [data, *[graph.integers(*row) for row in (starts, ends, axes, steps)]])


@maps("slice")
def export_slice(graph: Graph, call: Call) -> str:
    count = len(call["begin"])
    steps = [step or 1 for step in (*call["step"], *[None] * (count - len(call["step"])))]
    starts = [(0 if step > 0 else _LAST) if begin is None else begin for begin, step in zip(call["begin"], steps)]
    ends = [(_LAST if step > 0 else _FIRST) if end is None else end for end, step in zip(call["end"], steps)]
    return _slice(graph, call.data, starts, ends, list(range(count)), steps)


@maps("slice_axis")
def export_slice_axis(graph: Graph, call: Call) -> str:
    end = _LAST if call["end"] is None else call["end"]
    return _slice(graph, call.data, [call["begin"]], [end], [call["axis"]], [1])


@maps("slice_like")
def export_slice_like(graph: Graph, call: Call) -> str:
    axes = [call.axis(axis) for axis in call["axes"]] or list(range(len(call.shapes[1])))
    ends = [call.shapes[1][axis] for axis in axes]
    return _slice(graph, call.data, [0] * len(axes), ends, axes, [1] * len(axes))


@maps("reverse")
def export_reverse(graph: Graph, call: Call) -> str:
    axes = list(call["axis"])
    rows = ([_LAST] * len(axes), [_FIRST] * len(axes), axes, [-1] * len(axes))
    return _slice(graph, call.data, *rows)


@maps("SliceChannel")
def export_slice_channel(graph: Graph, call: Call) -> list[str]:
    parts = graph.add_several("Split", [call.data], call["num_outputs"], axis=call["axis"])
    if not call["squeeze_axis"]:
        return parts
    return [graph.add("Squeeze", [part, graph.integers(call["axis"])]) for part in parts]


@maps("_split_v2")
def export_split_v2(graph: Graph, call: Call) -> list[str]:
    axis, extent = call["axis"], call.shape[call.axis(call["axis"])]
    if call["sections"]:
        sizes = [extent // call["sections"]] * call["sections"]
    else:
        bounds = [*dict.fromkeys([0, *call["indices"]]), extent]
        sizes = [end - start for start, end in itertools.pairwise(bounds)]
    parts = graph.add_several("Split", [call.data, graph.integers(*sizes)], len(sizes), axis=axis)
    if not call["squeeze_axis"]:
        return parts
    return [graph.add("Squeeze", [part, graph.integers(axis)]) for part in parts]


# -- joins


@maps("Concat")
def export_concat(graph: Graph, call: Call) -> str:
    return graph.add("Concat", call.inputs, axis=call["dim"])


@maps("stack")
def export_stack(graph: Graph, call: Call) -> str:
    parts = [graph.add("Unsqueeze", [value, graph.integers(call["axis"])]) for value in call.inputs]
    return graph.add("Concat", parts, axis=call["axis"])


@maps("Pad")
def export_pad(graph: Graph, call: Call) -> str:
    widths = call["pad_width"]
    pads = graph.integers(*widths[0::2], *widths[1::2])
    inputs = [call.data, pads]
    if call["mode"] == "constant":
        inputs.append(graph.scalar(call["constant_value"], call.dtype))
    return graph.add("Pad", inputs, mode=call["mode"])


@maps("UpSampling")
def export_up_sampling(graph: Graph, call: Call) -> str:
    if call["sample_type"] != "nearest" or len(call.inputs) > 1:
        raise call.refuse(f"has sample_type={call['sample_type']!r} or several inputs")
    scales = graph.constant([1, 1, call["scale"], call["scale"]], np.float32)
    return graph.add(
        "Resize",
        [call.data, "", scales],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


@maps("depth_to_space")
def export_depth_to_space(graph: Graph, call: Call) -> str:
    return graph.add("DepthToSpace", [call.data], blocksize=call["block_size"], mode="DCR")


# -- lookups


def _whole(graph: Graph, call: Call, indices: str, extent: int, mode: str) -> str:
    """Return indices as integers within an axis."""
    whole = graph.cast(indices, np.int64)
    if mode == "wrap":
        return graph.add("Mod", [whole, graph.scalar(extent, np.int64)])
    if mode == "clip":
        return graph.add("Clip", [whole, graph.scalar(0, np.int64), graph.scalar(extent - 1, np.int64)])
    return whole


@maps("Embedding")
def export_embedding(graph: Graph, call: Call) -> str:
    return graph.add("Gather", [call.inputs[1], _whole(graph, call, call.data, call["input_dim"], "clip")], axis=0)


@maps("take")
def export_take(graph: Graph, call: Call) -> str:
    extent = call.shape[call.axis(call["axis"])]
    indices = _whole(graph, call, call.inputs[1], extent, call["mode"])
    return graph.add("Gather", [call.data, indices], axis=call["axis"])


@maps("one_hot")
def export_one_hot(graph: Graph, call: Call) -> str:
    values = graph.constant([call["off_value"], call["on_value"]], call["dtype"])
    indices = graph.cast(call.data, np.int64)
    # an out-of-range index gives a row of zeros here, but counts from the end in ONNX
    outside = graph.add(
        "Where",
        [graph.add("Less", [indices, graph.scalar(0, np.int64)]), graph.scalar(call["depth"], np.int64), indices],
    )
    return graph.add("OneHot", [outside, graph.integers(call["depth"]), values], axis=-1)
