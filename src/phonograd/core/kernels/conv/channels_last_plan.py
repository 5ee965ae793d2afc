"""Plans of the channels-last weight gradient: from shapes to launches."""

from __future__ import annotations

from ...base.dtypes import FLOAT32
from ..launch import Launch, Plan, Reference
from ..scratch import Scratch
from ..target import Machine
from .channels_last_weight_grad import CHANNELS_LAST, ChannelsLastWeightGrad
from .geometry import Geometry, box_of, round_up
from .microkernels import WIDTH
from .winograd_weight_grad import TOTAL, AddParts

__all__ = ["suits", "weight_grad"]

_FLOAT = FLOAT32.itemsize
#: minimum share of filled lanes, and minimum number of windows of an image for sums to be worth their memory
_LEAST_SHARE, _LEAST_WINDOWS = 0.7, 48
#: maximum size in bytes of the sums of one part, and of all parts
_PART_BYTES, _SUM_BYTES = 1 << 23, 1 << 25
#: bytes of the pictures of a box, and windows whose gradients fit the L1 cache for two vectors
_PICTURE_BYTES, _CALL_WINDOWS = 1 << 20, 128
#: minimum and maximum number of parts of all boxes with sums of their own
_LEAST_PARTS, _MOST_PARTS = 4, 16
#: windows of a part that make the sums worth their memory
_PART_WINDOWS = 3136


def suits(machine: Machine, shape: Geometry) -> bool:
    """Return whether pictures have full vectors, and sums fit a cache."""
    lanes = machine.lanes(FLOAT32)
    filled = shape.channels * shape.filters
    taken = round_up(shape.channels, lanes) * round_up(shape.filters, lanes)
    return (
        shape.extent[0] == shape.kernel[0] == 1
        and shape.pad[0] == 0
        and shape.windows >= _LEAST_WINDOWS
        and filled >= _LEAST_SHARE * taken
        and _sums(shape, lanes) <= _PART_BYTES
    )


def _sums(shape: Geometry, lanes: int) -> int:
    """Return the number of bytes of the sums of one part."""
    return shape.groups * shape.channels * shape.taps * round_up(shape.filters, WIDTH * lanes) * _FLOAT


def weight_grad(machine: Machine, slots: int, shape: Geometry) -> Plan:
    """Return the plan of the weight gradient."""
    lanes = machine.lanes(FLOAT32)
    blocks, vectors = -(-shape.channels // lanes), -(-shape.filters // lanes)
    (_, stride_y, stride_x), (_, kernel_y, kernel_x) = shape.stride, shape.kernel
    spans = [(count - 1) * gap + 1 for count, gap in zip(shape.kernel, shape.dilate)]
    # the share of a window in both pictures
    seen = (blocks * stride_y * stride_x + vectors) * lanes * _FLOAT
    target = min(max(_PICTURE_BYTES // seen, _LEAST_WINDOWS), -(-shape.batch * shape.windows // _LEAST_PARTS))
    _, box_y, box_x = box_of((1, *shape.counts[1:]), max(target, min(shape.windows, _LEAST_WINDOWS)))
    grid_y, grid_x = -(-shape.counts[1] // box_y), -(-shape.counts[2] // box_x)
    # all pictures have lines of one length
    width, height = (box_x - 1) * stride_x + spans[2], (box_y - 1) * stride_y + spans[1]
    line, grad_line = width * lanes, box_x * lanes
    # up to a square of lanes is stored beyond the end of a picture
    data_size, grad_size = height * line + lanes * lanes, box_y * grad_line + lanes * lanes
    units, sums = shape.batch * grid_y * grid_x, _sums(shape, lanes)
    wanted = max(_LEAST_PARTS, -(-shape.batch * shape.windows // _PART_WINDOWS))
    part_units = -(-units // max(1, min(wanted, _MOST_PARTS, _SUM_BYTES // sums)))
    parts = -(-units // part_units)
    scratch = Scratch(slots)
    # lines are read in squares
    place = scratch.reserve(parts * sums + lanes * WIDTH * lanes * _FLOAT)
    values: dict[str, int | Reference] = {"groups": shape.groups, "channels": shape.channels, "filters": shape.filters}
    values.update(taps=shape.taps, rows=shape.extent[1], columns=shape.extent[2])
    values.update(out_rows=shape.counts[1], out_columns=shape.counts[2], stride_y=stride_y, stride_x=stride_x)
    values.update(pad_y=shape.pad[1], pad_x=shape.pad[2], span_y=spans[1], span_x=spans[2])
    values.update(box_y=box_y, box_x=box_x, grid_y=grid_y, grid_x=grid_x)
    values.update(call_y=max(1, _CALL_WINDOWS // box_x), call_x=min(box_x, _CALL_WINDOWS), line=line)
    # two vectors of gradients are read even if there is only one
    values.update(data_size=data_size, grads_at=blocks * data_size, grad_line=grad_line, grad_size=grad_size)
    values.update(scratch.slots((blocks * data_size + round_up(vectors, WIDTH) * grad_size) * _FLOAT))
    values.update(units=units, part_units=part_units, parts=parts, sums=place)
    gaps = shape.dilate[1] * line, shape.dilate[2] * lanes
    places = [y * gaps[0] + x * gaps[1] for y in range(kernel_y) for x in range(kernel_x)]
    items = shape.groups * -(-shape.filters // (WIDTH * lanes)) * blocks
    launches = (
        scratch.clear(),
        Launch(
            ChannelsLastWeightGrad(lanes), CHANNELS_LAST.fill(values, places), parts * shape.groups, work=shape.work
        ),
        Launch(AddParts(lanes), TOTAL.fill(values), items, max(1, 16 // parts)),
    )
    return Plan(launches, scratch.size)
