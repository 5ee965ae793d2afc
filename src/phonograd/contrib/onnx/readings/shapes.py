"""Operators that move elements: shapes, slices, joins, lookups."""

from __future__ import annotations

import itertools
import math

from ....symbol import Symbol
from ..model import Node, reads

__all__: list[str] = []

#: larger numbers mean the end of an axis
_END = 1 << 31


@reads("Flatten")
def import_flatten(node: Node) -> Symbol:
    axis = node.axis(node.get("axis", 1))
    if axis == 1:
        return node.make("Flatten", node.data)
    if axis == 0:
        return node.make("Reshape", node.data, shape=(1, -1))
    return node.make("Reshape", node.data, shape=(math.prod(node.known_shape()[:axis]), -1))


@reads("Reshape")
def import_reshape(node: Node) -> Symbol:
    shape = node.integers(1, "shape")
    if 0 in shape and node.get("allowzero", 0):
        raise node.refuse("has allowzero=1")
    # a 0-d array has one axis here
    return node.make("Reshape", node.data, shape=tuple(shape) or (1,))


@reads("Transpose")
def import_transpose(node: Node) -> Symbol:
    axes = node.get("perm")
    return node.make("transpose", node.data, **({"axes": tuple(axes)} if axes else {}))


@reads("Unsqueeze")
def import_unsqueeze(node: Node) -> Symbol:
    axes = node.integers(1, "axes")
    rank = node.rank() + len(axes)
    found = node.data
    for axis in sorted([axis % rank for axis in axes]):
        found = node.make("expand_dims", found, axis=axis)
    return found


@reads("Squeeze")
def import_squeeze(node: Node) -> Symbol:
    axes = node.integers(1, "axes")
    if not axes:
        return node.make("squeeze", node.data)
    return node.make("squeeze", node.data, axis=tuple([node.axis(axis) for axis in axes]))


@reads("Expand")
def import_expand(node: Node) -> Symbol:
    shape = tuple(node.integers(1, "shape"))
    own = node.shape()
    found = node.data
    if len(own) < len(shape):
        lead = (1,) * (len(shape) - len(own))
        known = node.known_shape()
        found, own = node.make("Reshape", found, shape=lead + known), lead + known
    shape = (1,) * (len(own) - len(shape)) + shape
    # 0 keeps an extent
    target = tuple([0 if new == 1 or new == old else new for old, new in zip(own, shape)])
    return node.make("broadcast_to", found, shape=target) if any(target) else found


@reads("Tile")
def import_tile(node: Node) -> Symbol:
    return node.make("tile", node.data, reps=tuple(node.integers(1, "repeats")))


@reads("Concat")
def import_concat(node: Node) -> Symbol:
    parts = [node.symbol(index) for index in range(len(node.inputs))]
    return node.make("Concat", *parts, dim=node.axis(node.get("axis", 1)))


@reads("Split")
def import_split(node: Node) -> list[Symbol]:
    axis, count = node.axis(node.get("axis", 0)), len(node.outputs)
    sizes = node.integers(1, "split")
    extent = node.shape()[axis]
    if not sizes and extent is not None and extent % count:
        # the last part takes the remainder
        part = math.ceil(extent / count)
        sizes = [part] * (count - 1) + [extent - part * (count - 1)]
    if not sizes or len(set(sizes)) == 1:
        return list(node.make("SliceChannel", node.data, num_outputs=count, axis=axis))
    bounds = [0, *itertools.accumulate(sizes)]
    return [
        node.make("slice_axis", node.data, axis=axis, begin=begin, end=end) for begin, end in itertools.pairwise(bounds)
    ]


@reads("Slice")
def import_slice(node: Node) -> Symbol:
    starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
    axes = node.integers(3, "axes") or list(range(len(starts)))
    steps = node.integers(4, "steps") or [1] * len(starts)
    facts = {node.axis(axis): (start, end, step) for axis, start, end, step in zip(axes, starts, ends, steps)}
    begin: list[int | None] = []
    stop: list[int | None] = []
    step_of: list[int | None] = []
    for axis in range(max(facts) + 1):
        start, end, step = facts.get(axis, (0, _END, 1))
        backward = step < 0
        begin.append(None if abs(start) >= _END or (start == 0 and not backward) else start)
        stop.append(None if abs(end) >= _END else end)
        step_of.append(step)
    return node.make("slice", node.data, begin=tuple(begin), end=tuple(stop), step=tuple(step_of))


@reads("Pad")
def import_pad(node: Node) -> Symbol:
    pads = node.integers(1, "pads")
    mode = node.get("mode", "constant")
    rank = node.rank()
    if node.has(3):
        raise node.refuse("names axes")
    widths = [width for pair in zip(pads[:rank], pads[rank:]) for width in pair]
    if not any(widths):
        return node.data
    if rank not in (4, 5) or any(widths[:4]) or min(widths) < 0 or mode == "wrap":
        raise node.refuse(f"has pads {pads} and mode={mode!r}; only height and width of images can be padded")
    value = node.number(2, "value", 0.0)
    return node.make("Pad", node.data, mode=mode, pad_width=tuple(widths), constant_value=value)


@reads("DepthToSpace")
def import_depth_to_space(node: Node) -> Symbol:
    if node.get("mode", "DCR") != "DCR":
        raise node.refuse("has mode='CRD'")
    return node.make("depth_to_space", node.data, block_size=node.get("blocksize"))


@reads("SpaceToDepth")
def import_space_to_depth(node: Node) -> Symbol:
    return node.make("space_to_depth", node.data, block_size=node.get("blocksize"))


def _scales(node: Node) -> list[float]:
    """Return the scale of each axis."""
    place = 1 if node.operator == "Upsample" or node.model.opset < 11 else 2
    if node.has(place) and node.array(place, "scales").size:
        return [float(scale) for scale in node.array(place, "scales")]
    if node.get("scales"):
        return [float(scale) for scale in node.get("scales")]
    sizes = node.integers(3, "sizes")
    return [new / old for new, old in zip(sizes, node.known_shape())]


@reads("Resize", "Upsample")
def import_resize(node: Node) -> Symbol:
    scales, mode = _scales(node), node.get("mode", "nearest")
    where = node.get("coordinate_transformation_mode", "half_pixel" if node.operator == "Resize" else "asymmetric")
    if len(scales) != 4 or scales[:2] != [1, 1]:
        raise node.refuse(f"has scales {scales}; only height and width of images can be enlarged")
    if mode == "nearest" and scales[2] == scales[3] and scales[2] == int(scales[2]) >= 1:
        return node.make("UpSampling", node.data, scale=int(scales[2]), sample_type="nearest")
    if mode == "linear" and where == "align_corners":
        height, width = [round(extent * scale) for extent, scale in zip(node.known_shape()[2:], scales[2:])]
        return node.make("contrib.BilinearResize2D", node.data, height=height, width=width)
    raise node.refuse(f"has mode={mode!r}, scales {scales} and coordinate_transformation_mode={where!r}")


# -- lookups


@reads("Gather")
def import_gather(node: Node) -> Symbol:
    axis = node.axis(node.get("axis", 0))
    indices = node.constant(1)
    if indices is not None and indices.ndim == 0:
        place = int(indices)
        row = node.make("slice_axis", node.data, axis=axis, begin=place, end=None if place == -1 else place + 1)
        return node.make("squeeze", row, axis=axis)
    # negative indices count from the end
    return node.make("take", node.data, node.symbol(1), axis=axis, mode="wrap")


@reads("GatherND")
def import_gather_nd(node: Node) -> Symbol:
    if node.get("batch_dims", 0):
        raise node.refuse("has batch_dims")
    rank = node.rank(1)
    axes = (rank - 1, *range(rank - 1))
    return node.make("gather_nd", node.data, node.make("transpose", node.symbol(1), axes=axes))


@reads("Constant", "ConstantOfShape", "Range", "Shape", "Size")
def import_constant(node: Node) -> Symbol:
    # constant ones have been evaluated already
    raise node.refuse("depends on an unknown shape")
