"""Plans of direct convolutions, with few channels and filters per group: from shapes to launches."""

from __future__ import annotations

import math

from ...base.dtypes import DType
from ..deinterleave import specialized_stride
from ..launch import Launch, Plan, Reference
from ..scratch import Scratch
from ..target import Machine
from . import depthwise_small
from .adjoint import adjoint_values, known_taps, line_buffer
from .depthwise import DEPTHWISE, SIDE, DepthwiseConvolution
from .depthwise_data_grad import DepthwiseDataGrad
from .depthwise_small import SmallDepthwise, most_lanes
from .depthwise_weight_grad import DEPTHWISE_SUMS, DepthwiseWeightGrad
from .direct import DIRECT, SPREAD, SUMS, TOTALS, AddLanes, DirectConvolution, DirectDataGrad, DirectWeightGrad
from .geometry import Frame, Geometry, box_of, evenly, round_up, steps_of
from .padding import frame_values

__all__ = ["data_grad", "forward", "suits", "weight_grad"]

#: bytes of a frame that should stay in the L1 cache
_FRAME_BYTES = 1 << 14
#: elements worth a call
_CHUNK_ELEMENTS = 1 << 14
#: taps whose sums are computed at once
_TAPS = 8
#: numbers of lines whose sums are computed at once, and taps for which kernels are specialized: 3 by 3
_LINES, _MOST_KNOWN_TAPS = (7, 8, 6, 5, 4), 9
#: parts of the images with sums of their own if there are fewer groups than that; else, images of a part
_PARTS, _PART_IMAGES = 16, 8

Values = dict[str, int | Reference]


def suits(shape: Geometry) -> bool:
    """Return whether a group has too few channels and filters for matrix products to pay."""
    return shape.filters * shape.channels <= 4


def forward(machine: Machine, slots: int, shape: Geometry, dtype: DType) -> Plan:
    """Return the plan of a convolution."""
    taps = [
        (channel, tap, channel * shape.taps + tap) for channel in range(shape.channels) for tap in range(shape.taps)
    ]
    size = shape.channels * shape.taps
    return _forward(machine, slots, shape, dtype, "data", taps, (shape.filters * size, size))


def data_grad(machine: Machine, slots: int, shape: Geometry, dtype: DType) -> Plan:
    """Return the plan of the data gradient."""
    if _reads_in_place(shape) and shape.stride[1:] == (2, 2) and shape.pad[1:] == (1, 1):
        values: Values = {**_plane_sizes(shape), "weight_group": shape.taps, "data": Reference("out_grad")}
        kernel = DepthwiseDataGrad(dtype, _lanes(machine, shape, dtype))
        items = shape.batch * shape.groups
        return Plan((Launch(kernel, DEPTHWISE.fill(values), items, _chunk(shape), shape.work),))
    borders = [gap * (width - 1) - pad for gap, width, pad in zip(shape.dilate, shape.kernel, shape.pad)]
    if any([step > 1 for step in shape.stride]) or min(borders) < 0:
        return _strided_data_grad(machine, slots, shape, dtype)
    # with stride 1 it is the convolution of gradients with flipped kernels
    other = Geometry(
        *(shape.batch, shape.groups, shape.filters, shape.channels, shape.counts, shape.kernel),
        *(shape.stride, shape.dilate, tuple(borders), shape.extent),
    )
    taps = [
        (number, tap, number * shape.channels * shape.taps + shape.taps - 1 - tap)
        for number in range(shape.filters)
        for tap in range(shape.taps)
    ]
    group = shape.filters * shape.channels * shape.taps
    return _forward(machine, slots, other, dtype, "out_grad", taps, (group, shape.taps))


def _forward(
    machine: Machine,
    slots: int,
    shape: Geometry,
    dtype: DType,
    operand: str,
    taps: list[tuple[int, int, int]],
    strides: tuple[int, int],
) -> Plan:
    lanes, size = _lanes(machine, shape, dtype), dtype.itemsize
    depthwise = _depthwise(lanes, shape, dtype, operand, strides[0], flipped=taps[0][2] > 0)
    if depthwise is not None:
        return depthwise
    values, frame, elements = _frames(shape, lanes, size)
    scratch = Scratch(slots)
    values.update(scratch.slots(elements * size), data=Reference(operand))
    values.update(weight_group=strides[0], weight_filter=strides[1])
    places = [word for channel, tap, place in taps for word in (channel * frame.channel + frame.taps[tap], place)]
    items = shape.batch * shape.groups
    known = len(taps) if len(taps) <= _MOST_KNOWN_TAPS else 0
    kernel = DirectConvolution(dtype, lanes, specialized_stride(shape.stride[2]), _lines(shape.counts[1]), known)
    launches = (scratch.clear(), Launch(kernel, DIRECT.fill(values, places), items, _chunk(shape), shape.work))
    return Plan(launches, scratch.size)


def _lanes(machine: Machine, shape: Geometry, dtype: DType) -> int:
    """Return the lanes of vectors: half of the largest ones are enough for narrow images."""
    lanes = machine.lanes(dtype)
    half = most_lanes(lanes, dtype)
    return half if shape.counts[2] <= half else lanes


def _reads_in_place(shape: Geometry) -> bool:
    """Return whether the kernel is one of 3 by 3 elements with stride 1 or 2 that needs no padded copy."""
    is_depthwise = shape.filters == shape.channels == 1 and shape.kernel == (1, SIDE, SIDE)
    is_plane = shape.counts[0] == shape.extent[0] == 1
    return is_depthwise and is_plane and shape.dilate[1:] == (1, 1) and shape.stride[1:] in ((1, 1), (2, 2))


def _depthwise(
    lanes: int, shape: Geometry, dtype: DType, operand: str, weight_group: int, flipped: bool
) -> Plan | None:
    """Return the plan of a depthwise convolution that makes no padded copy of a line; None if there is none."""
    values = {**_plane_sizes(shape), "weight_group": weight_group, "data": Reference(operand)}
    items, words = shape.batch * shape.groups, DEPTHWISE.fill(values)
    few = most_lanes(lanes, dtype)
    if depthwise_small.suits(few, shape):
        small = SmallDepthwise(dtype, few, shape.kernel[2], shape.stride[2], flipped)
        return Plan((Launch(small, words, items // few, max(1, _chunk(shape) // few), shape.work),))
    if not _reads_in_place(shape):
        return None
    kernel = DepthwiseConvolution(dtype, lanes, shape.stride[2], flipped)
    return Plan((Launch(kernel, words, items, _chunk(shape), shape.work),))


def _plane_sizes(shape: Geometry) -> Values:
    values: Values = {"groups": shape.groups, "pixels": shape.pixels, "windows": shape.windows}
    for name, numbers in (("extent", shape.extent), ("count", shape.counts), ("pad", shape.pad)):
        values.update({f"{name}_y": numbers[1], f"{name}_x": numbers[2]})
    return values


def _lines(height: int) -> int:
    """Return the number of lines to sum up at once: the sums of single lines wait for each other.

    >>> [_lines(height) for height in (7, 14, 112, 12, 11)]
    [7, 7, 7, 6, 4]
    """
    return next((lines for lines in _LINES if height % lines == 0), _LINES[-1])


def _strided_data_grad(machine: Machine, slots: int, shape: Geometry, dtype: DType) -> Plan:
    lanes, size = _lanes(machine, shape, dtype), dtype.itemsize
    scratch = Scratch(slots)
    values = _sizes(shape)
    values.update(adjoint_values(shape, lanes, boxes=1))
    values.update(scratch.slots((shape.stride[2] * line_buffer(shape, lanes) + lanes) * size))
    kernel = DirectDataGrad(dtype, lanes, known_taps(shape))
    items = shape.batch * shape.groups
    launches = (scratch.clear(), Launch(kernel, SPREAD.fill(values, steps_of(shape)), items, _chunk(shape), shape.work))
    return Plan(launches, scratch.size)


def weight_grad(machine: Machine, slots: int, shape: Geometry, dtype: DType) -> Plan:
    """Return the plan of the weight gradient."""
    lanes, size = _lanes(machine, shape, dtype), dtype.itemsize
    taps = shape.channels * shape.taps
    count = shape.groups * shape.filters * taps
    image_block = max(1, min(shape.batch, _PART_IMAGES if shape.groups >= _PARTS else -(-shape.batch // _PARTS)))
    parts = max(1, -(-shape.batch // image_block))
    scratch = Scratch(slots)
    sums = scratch.reserve(parts * count * lanes * size)
    totals = Launch(AddLanes(dtype, lanes), TOTALS.fill({"parts": parts, "count": count, "sums": sums}), count, 256)
    chunk = max(1, _chunk(shape) // image_block)
    if _reads_in_place(shape):
        values = {**_plane_sizes(shape), "batch": shape.batch, "image_block": image_block, "sums": sums}
        in_place = DepthwiseWeightGrad(dtype, lanes, shape.stride[2])
        adding = Launch(in_place, DEPTHWISE_SUMS.fill(values), parts * shape.groups, chunk, shape.work)
        return Plan((adding, totals), scratch.size)
    values, frame, elements = _frames(shape, lanes, size)
    values.update(scratch.slots(elements * size), sums=sums, batch=shape.batch, image_block=image_block)
    places = [
        word
        for channel in range(shape.channels)
        for tap in range(shape.taps)
        for word in (channel * frame.channel + frame.taps[tap], 0)
    ]
    kernel = DirectWeightGrad(dtype, lanes, specialized_stride(shape.stride[2]), evenly(taps, _TAPS))
    launches = (
        scratch.clear(),
        Launch(kernel, SUMS.fill(values, places), parts * shape.groups, chunk, shape.work),
        totals,
    )
    return Plan(launches, scratch.size)


def _chunk(shape: Geometry) -> int:
    return max(1, _CHUNK_ELEMENTS // max(shape.pixels, shape.windows))


def _sizes(shape: Geometry) -> Values:
    values: Values = {"groups": shape.groups, "channels": shape.channels, "filters": shape.filters, "taps": shape.taps}
    values.update(pixels=shape.pixels, windows=shape.windows)
    values.update({f"count_{axis}": count for axis, count in zip("zyx", shape.counts)})
    return values


def _frames(shape: Geometry, lanes: int, size: int) -> tuple[Values, Frame, int]:
    """Return the table words of boxes and frames, the frame, and its number of elements in all channels."""
    box = box_of(shape.counts, max(lanes, _FRAME_BYTES // (size * shape.channels * math.prod(shape.stride))))
    frame = Frame.of_box(shape, box, always=True)
    values = _sizes(shape)
    grid = [-(-count // side) for count, side in zip(shape.counts, box)]
    for name, numbers in (("box", box), ("grid", grid)):
        values.update({f"{name}_{axis}": number for axis, number in zip("zyx", numbers)})
    values.update(frame_values(shape, frame))
    # vectors go beyond the last line, by the distance of a tap to the right
    return values, frame, round_up(shape.channels * frame.channel + 2 * lanes, lanes)
