"""Plans: from the shapes of a convolution to the launches that compute it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from ...base.dtypes import FLOAT32, FLOAT64, DType
from ...graph.node import Shape
from ..deinterleave import specialized_stride
from ..launch import Launch, Plan, Prepared, Reference, align_up
from ..scratch import Scratch
from ..target import Machine
from . import (
    channels_last_plan,
    direct_plan,
    filter_lanes,
    lines,
    phases,
    planes,
    products_plan,
    strides,
    winograd_plan,
)
from .adjoint import adjoint_values, known_taps, line_buffer
from .few_weights_grad import COMBINE_DOTS, DOTS, CombineDots, FewWeightsGrad
from .filter_lanes import FilterLanes, windows_of_tile
from .geometry import Frame, Geometry, box_of, evenly, geometry, round_up, steps_of
from .im2col import FORWARD, Im2colForward
from .im2col_data_grad import BACKWARD, Im2colDataGrad
from .im2col_weight_grad import COMBINE, WEIGHTS, CombineSums, Im2colWeightGrad
from .lines import LinesForward
from .microkernels import WIDTH, dot_tile, most_rows
from .padding import frame_values
from .weights import PackWeights
from .winograd_plan import PLAIN, Phasing
from .winograd_transforms import LARGEST, SIZES, Tiling

__all__ = ["Convolution", "box_values", "channel_block", "grid_size", "images_to_join", "line_of"]

#: steps of a sum in one call of a micro-kernel: its operands should stay in the L1 cache
_DEPTH = 288
#: bytes of columns made before they are used: half of a small L2 cache
_COLUMN_BYTES = 1 << 18
#: maximum number of weights of a group whose gradients are dot products; the length of their lines, and lines of
#: columns whose dot products are computed before the next lines are gathered
_FEW_WEIGHTS, _DOT_WIDTH, _DOT_LINES = 1024, 1024, 128
#: lanes of panels of columns for each column, and windows of an image, from which on dot products of more weights pay
_EMPTY, _LONG_LINE = 1.4, 512
#: windows summed up by one call of a micro-kernel in gradients of weights: a panel of columns should stay in the L1
#: cache. Lines of columns that are multiplied before the next lines are gathered
_SUM_STEPS, _SUM_LINES = 256, 128
#: channels and filters below which vectors of channels are too empty for Winograd's algorithm
_LEAST_CHANNELS = 16
#: the kernel for tiles of 8 by 8: the transforms of others would cost too much, or have large errors. The maximum
#: number of channels and filters for which the sums of products have small errors
_LARGE_KERNEL, _LARGE_CHANNELS = 5, 192
#: the largest tiles of other kernels
_USUAL_SIZE = 6
#: the smallest kernel; outputs of the smallest tile along an axis, and the number of such images that have tiles
_LEAST_KERNEL, _TINY, _MANY_TINY = 2, 2, 8
#: time of a product of one vector relative to two; share of the lanes below which images are joined; number of
#: panels of columns that joined images should have, and maximum number of images
_NARROW, _JOINED_SHARE, _JOINED_PANELS, _JOINED_MOST = 0.6, 0.85, 6, 64
#: elements of a line times filters of a part for which making columns pays
_PART_WORK = 2500
#: maximum number of elements of data per window, and minimum number of channels, for which a data gradient is a
#: convolution with flipped kernels
_MOST_FLIPPED, _LEAST_FLIPPED = 1.25, 4
#: minimum number of items in a range, for any number of threads to share; and items of images that should be divided
_ITEMS, _LEAST_ITEMS = 16, 4
#: elements worth a call
_CHUNK_ELEMENTS = 1 << 10
#: maximum size in bytes of the sums of all blocks of images
_SUM_BYTES = 1 << 25

Values = dict[str, int | Reference]


class Convolution:
    """Plans of convolutions and their adjoints for a machine, run by at most ``slots`` threads at once.

    ``winograd`` is the largest tile size of Winograd's algorithm, which is used in single precision if it saves enough
    multiplications: 8 (tiles of 4 by 4 outputs of 3 by 3 and of 5 by 5 kernels), 6 (of 2 by 2 outputs of 5 by 5, with
    smaller rounding errors), 4 (of 2 by 2 outputs of 3 by 3, with errors like those of plain sums), or 0 for never.
    Kernels along one axis have the same tiles along it.

    The operands of a plan have the names of the arguments of the primitives in
    :mod:`phonograd.core.ops.nn.convolution`, and ``out`` and ``scratch``.
    """

    def __init__(self, machine: Machine, slots: int = 1, winograd: int = 8) -> None:
        self.machine = machine
        self.slots = slots
        self.winograd = winograd

    @staticmethod
    def suits(data: Shape, weight: Shape, dtype: DType) -> bool:
        """Return whether kernels exist for a convolution of such arrays; they do for nearly all."""
        return dtype in (FLOAT32, FLOAT64) and 0 not in data[1:] and 0 not in weight

    # -- the three primitives

    def forward(
        self, data: Shape, weight: Shape, dtype: DType, *, stride: Shape, dilate: Shape, pad: Shape, groups: int
    ) -> Plan:
        """Return the plan of ``_convolution``."""
        shape = geometry(data, weight[0], weight[2:], stride, dilate, pad, groups)
        if not shape.batch:
            return Plan(())
        lanes = self.machine.lanes(dtype)
        plan = self._winograd_forward(dtype, shape)
        if plan is None and dtype == FLOAT32:
            plan = phases.forward(lanes, shape, lambda *flat: self._winograd_forward(dtype, *flat))
        if plan is None and dtype == FLOAT32:
            plan = planes.forward(lanes, shape, lambda flat: self._winograd_forward(dtype, flat))
        if plan is not None:
            return plan
        if direct_plan.suits(shape):
            return direct_plan.forward(self.machine, self.slots, shape, dtype)
        if products_plan.is_product(shape, dtype):
            return products_plan.weights_times_data(self.machine, self.slots, shape, dtype)
        return self._forward(shape, dtype)

    def data_grad(
        self,
        out_grad: Shape,
        weight: Shape,
        dtype: DType,
        *,
        extent: Shape,
        stride: Shape,
        dilate: Shape,
        pad: Shape,
        groups: int,
    ) -> Plan:
        """Return the plan of ``_convolution_data_grad``."""
        data = (out_grad[0], weight[1] * groups, *extent)
        shape = geometry(data, weight[0], weight[2:], stride, dilate, pad, groups)
        if not shape.batch:
            return Plan(())
        lanes = self.machine.lanes(dtype)
        plan = self._winograd_data_grad(dtype, shape)
        if plan is None and dtype == FLOAT32:
            plan = phases.data_grad(lanes, shape, lambda *flat: self._winograd_data_grad(dtype, *flat))
        if plan is None and dtype == FLOAT32:
            plan = planes.data_grad(lanes, shape, lambda flat: self._winograd_data_grad(dtype, flat))
        if plan is not None:
            return plan
        if direct_plan.suits(shape) and shape.channels == 1:
            return direct_plan.data_grad(self.machine, self.slots, shape, dtype)
        if shape.pointwise and shape.windows == 1:
            return products_plan.one_pixel_data_grad(self.machine, shape, dtype)
        if shape.pointwise:
            # the convolution of gradients with transposed weights
            other = dataclasses.replace(shape, channels=shape.filters, filters=shape.channels)
            if products_plan.is_product(other, dtype):
                return products_plan.image_products(self.machine, self.slots, other, dtype, adjoint=True)
            return self._forward(other, dtype, adjoint=True)
        flipped = _flipped(shape)
        if flipped is not None:
            return self._forward(flipped, dtype, adjoint=True)
        return self._backward(shape, dtype)

    def weight_grad(
        self,
        data: Shape,
        out_grad: Shape,
        dtype: DType,
        *,
        kernel: Shape,
        stride: Shape,
        dilate: Shape,
        pad: Shape,
        groups: int,
    ) -> Plan:
        """Return the plan of ``_convolution_weight_grad``."""
        shape = geometry(data, out_grad[1], kernel, stride, dilate, pad, groups)
        lanes = self.machine.lanes(dtype)
        plan = self._winograd_weight_grad(dtype, shape)
        if plan is None and dtype == FLOAT32:
            plan = phases.weight_grad(lanes, shape, lambda *flat: self._winograd_weight_grad(dtype, *flat))
        if plan is None and dtype == FLOAT32:
            plan = planes.weight_grad(lanes, shape, lambda flat: self._winograd_weight_grad(dtype, flat))
        if plan is not None:
            return plan
        if shape.pointwise and shape.windows == 1 and shape.batch:
            return products_plan.one_pixel_weight_grad(self.machine, shape, dtype)
        if direct_plan.suits(shape):
            return direct_plan.weight_grad(self.machine, self.slots, shape, dtype)
        if products_plan.is_sum_of_products(shape, dtype):
            return products_plan.sum_of_products(self.machine, shape, dtype)
        if dtype == FLOAT32 and shape.batch and channels_last_plan.suits(self.machine, shape):
            return channels_last_plan.weight_grad(self.machine, self.slots, shape)
        columns = shape.channels * shape.taps
        panels = round_up(columns, self.machine.lanes(dtype))
        if shape.filters * columns <= _FEW_WEIGHTS or (panels >= _EMPTY * columns and shape.windows >= _LONG_LINE):
            return self._few_weights(shape, dtype)
        return self._weights(shape, dtype)

    # -- Winograd's algorithm

    def _winograd_forward(self, dtype: DType, shape: Geometry, phasing: Phasing = PLAIN) -> Plan | None:
        def plan_of(flat: Geometry, phasing: Phasing) -> Plan | None:
            tiling = self._tiling(flat, flat.counts)
            return None if tiling is None else winograd_plan.forward(self.machine, self.slots, flat, tiling, phasing)

        return self._by_phases(strides.forward, plan_of, dtype, shape, phasing)

    def _winograd_data_grad(self, dtype: DType, shape: Geometry, phasing: Phasing = PLAIN) -> Plan | None:
        def plan_of(flat: Geometry, phasing: Phasing) -> Plan | None:
            tiling, of_data = [self._tiling(flat, outputs) for outputs in (flat.counts, flat.extent)]
            if tiling is None or of_data is None:
                return None
            return winograd_plan.data_grad(self.machine, self.slots, flat, tiling, of_data, phasing)

        return self._by_phases(strides.data_grad, plan_of, dtype, shape, phasing)

    def _winograd_weight_grad(self, dtype: DType, shape: Geometry, phasing: Phasing = PLAIN) -> Plan | None:
        def plan_of(flat: Geometry, phasing: Phasing) -> Plan | None:
            tiling = self._tiling(flat, flat.counts) if flat.batch else None
            return (
                None if tiling is None else winograd_plan.weight_grad(self.machine, self.slots, flat, tiling, phasing)
            )

        return self._by_phases(strides.weight_grad, plan_of, dtype, shape, phasing)

    def _by_phases(
        self,
        primitive: Callable[[int, Geometry, phases.Planner], Plan | None],
        plan_of: phases.Planner,
        dtype: DType,
        shape: Geometry,
        phasing: Phasing,
    ) -> Plan | None:
        """Return the plan of a primitive by Winograd's algorithm: with strides, that of their phases."""
        if dtype != FLOAT32:
            return None
        if max(shape.stride) > 1:
            return primitive(self.machine.lanes(dtype), shape, plan_of)
        return plan_of(shape, phasing)

    def _tiling(self, shape: Geometry, outputs: Shape) -> Tiling | None:
        """Return the tiles of so many outputs by Winograd's algorithm if it is wanted and possible."""
        if min(shape.channels, shape.filters) < _LEAST_CHANNELS:
            return None
        _, *taps = shape.kernel
        kernel, axes = max(taps), "".join([axis for axis, width in zip("yx", taps) if width > 1])
        counts = [count for count, width in zip(outputs[1:], taps) if width > 1]
        few = kernel == _LARGE_KERNEL and max(shape.channels, shape.filters) <= _LARGE_CHANNELS
        large = few if axes == "yx" else kernel >= _LARGE_KERNEL
        most = min(self.winograd, LARGEST if large else _USUAL_SIZE)
        tilings = [Tiling(size - kernel + 1, kernel, axes) for size in SIZES if _TINY + kernel - 1 <= size <= most]
        if kernel < _LEAST_KERNEL or not tilings:
            return None
        # larger tiles would be mostly empty; few images do not pay for the transforms of weights
        if max(counts) <= _TINY:
            tiling = tilings[0 if shape.batch >= _MANY_TINY else -1]
        else:
            # of those with as few products, the smallest tiles have the smallest errors, others fewer transforms
            products = [winograd_plan.tiles_of(outputs, each) * each.elements for each in tilings]
            order = [(number, each.outputs > _TINY, -each.size) for number, each in zip(products, tilings)]
            tiling = tilings[order.index(min(order))]
        return tiling if winograd_plan.suits(shape, tiling) else None

    # -- im2col

    def _forward(self, shape: Geometry, dtype: DType, adjoint: bool = False) -> Plan:
        """Return the plan of a convolution, or of gradients with the transposed and flipped weights of another one."""
        lanes, size = self.machine.lanes(dtype), dtype.itemsize
        block = channel_block(shape, _DEPTH)
        box = box_of(shape.counts, max(WIDTH * lanes, _COLUMN_BYTES // (block * shape.taps * size)), WIDTH * lanes)
        joined = images_to_join(shape, box, lanes)
        images = evenly(shape.batch, max(joined, 1))
        frame = Frame.of_box(shape, box)
        rows = evenly(shape.filters, most_rows(self.machine))
        in_lines = not shape.plain and not joined and lines.suits(lanes, box[2], round_up(shape.filters, rows))
        sizes = max(joined, 1) * math.prod(box), shape.filters, shape.channels * shape.taps
        in_lanes = filter_lanes.suits(lanes, most_rows(self.machine), box, *sizes)
        in_lanes = in_lanes and shape.taps > 1 and not in_lines
        if in_lanes:
            joined, images, rows = 0, 1, min(WIDTH * lanes, round_up(shape.filters, lanes))
        tiles = -(-shape.filters // rows)
        boxes = -(-shape.batch // images) * shape.groups * grid_size(shape, box)
        # every part makes its own columns, line by line, or its own frame
        most = max(tiles // 2 if in_lanes else shape.filters * shape.counts[2] // _PART_WORK, 2 if boxes == 1 else 1)
        parts = min(tiles, -(-_ITEMS // boxes), most)
        depth = shape.channels * shape.taps
        scratch = Scratch(self.slots)
        packed_bytes = shape.groups * tiles * depth * rows * size
        packed = scratch.reserve(packed_bytes)
        framed = 0 if shape.plain else round_up(block * frame.channel + WIDTH * lanes, WIDTH * lanes)
        values, elements = box_values(shape, box, block, lanes, images * framed, images)
        values.update(frame_values(shape, frame))
        values.update(batch=shape.batch, images=images, frame_size=framed, joined_at=elements)
        elements += shape.filters * line_of(box, lanes, images) if joined else 0
        elements += (tiles * math.prod(box) + lanes) * rows if in_lanes else 0
        values.update(scratch.slots(elements * size), packed=packed, tiles=tiles, parts=parts)
        values.update(data=Reference("out_grad" if adjoint else "data"))
        packing = {"blocks": 1, "tiles": tiles, "block_rows": shape.filters, "all_rows": shape.filters, "depth": depth}
        packing.update(group_stride=shape.filters * depth, block_stride=0, row_stride=depth, depth_stride=0)
        consecutive = adjoint and shape.taps == 1
        if adjoint:
            # for each channel of gradients, the weights are a matrix of rows and taps
            packing.update(row_stride=shape.taps, depth_stride=shape.filters * shape.taps, run=shape.taps)
        facts = dtype, lanes, shape.plain, specialized_stride(shape.stride[2]), rows, joined > 0
        if in_lanes:
            windows, height = windows_of_tile(box, most_rows(self.machine))
            kernel: Im2colForward = FilterLanes(*facts, tile_windows=windows, tile_lines=height)
        else:
            kernel = LinesForward(*facts) if in_lines else Im2colForward(*facts)
        launches = (
            scratch.clear(),
            PackWeights(dtype, lanes, rows, consecutive).launch(shape.groups, packed, packing),
            # taps in reverse order flip the weights
            Launch(kernel, FORWARD.fill(values, frame.taps[:: -1 if adjoint else 1]), boxes * parts, work=shape.work),
        )
        prepared = Prepared(1, "weight", packed.offset, align_up(packed_bytes))
        return Plan(launches, scratch.size, (prepared,))

    def _backward(self, shape: Geometry, dtype: DType) -> Plan:
        lanes, size = self.machine.lanes(dtype), dtype.itemsize
        block = channel_block(shape, _DEPTH)
        # kernels depend on this, and not on the number of images
        rows = evenly(block * shape.taps, most_rows(self.machine))
        whole = box_of(shape.counts, max(WIDTH * lanes, _COLUMN_BYTES // (block * shape.taps * size)), WIDTH * lanes)
        joined = images_to_join(shape, whole, lanes)
        images = evenly(shape.batch, max(joined, 1))
        items, few = -(-shape.batch // images) * shape.groups, _ITEMS // 2
        if items * -(-shape.channels // block) < few:
            block = evenly(block, max(1, block * items // few))
        blocks = -(-shape.channels // block)
        lines = block * shape.taps
        box = box_of(shape.counts, max(WIDTH * lanes, _COLUMN_BYTES // (lines * size)), WIDTH * lanes)
        if joined:
            box = shape.counts
        elif box[2] < shape.counts[2] and shape.stride[2] > 1:
            box = (1, 1, shape.counts[2])
        tiles = -(-lines // rows)
        scratch = Scratch(self.slots)
        packed = scratch.reserve(shape.groups * blocks * tiles * shape.filters * rows * size)
        buffer = round_up(shape.stride[2] * line_buffer(shape, lanes), lanes)
        values, elements = box_values(shape, box, block, lanes, buffer, images)
        values.update(adjoint_values(shape, lanes, grid_size(shape, box)))
        values.update(batch=shape.batch, images=images, frame_size=0, joined_at=elements)
        elements += shape.filters * line_of(box, lanes, images) + lanes if joined else 0
        values.update(scratch.slots(elements * size), packed=packed, blocks=blocks, tiles=tiles)
        values.update(depth=evenly(shape.filters, _DEPTH))
        depth = shape.channels * shape.taps
        packing = {"blocks": blocks, "tiles": tiles, "block_rows": lines, "all_rows": depth, "depth": shape.filters}
        packing.update(group_stride=shape.filters * depth, block_stride=lines, row_stride=1, depth_stride=depth)
        known = known_taps(shape)
        kernel = Im2colDataGrad(dtype, lanes, shape.plain, known.stride, rows, known, joined > 0)
        launches = (
            scratch.clear(),
            PackWeights(dtype, lanes, rows, consecutive=True).launch(shape.groups, packed, packing),
            Launch(kernel, BACKWARD.fill(values, steps_of(shape)), items * blocks, work=shape.work),
        )
        return Plan(launches, scratch.size)

    def _weights(self, shape: Geometry, dtype: DType) -> Plan:
        lanes, size = self.machine.lanes(dtype), dtype.itemsize
        width = WIDTH * lanes
        rows = evenly(shape.filters, most_rows(self.machine))
        block = channel_block(shape, _SUM_LINES)
        blocks, sums_line = -(-shape.channels // block), round_up(block * shape.taps, width)
        sums = shape.groups * blocks * shape.filters * sums_line * size
        box = box_of(shape.counts, _SUM_STEPS, lanes)
        images, joined, part_units, unit_parts, block_part, parts = _sum_parts(shape, box, block, sums, _SUM_STEPS)
        frame = Frame.of_box(shape, box)
        framed = 0 if shape.plain else round_up(block * frame.channel + lanes, lanes)
        values, elements = box_values(shape, box, block, lanes, framed, joined)
        values.update(frame_values(shape, frame), gradients_at=elements)
        steps = round_up(joined * math.prod(box), lanes)
        panels_at = round_up(elements + shape.filters * line_of(box, lanes, joined) + 2 * lanes, width)
        scratch = Scratch(self.slots)
        place = scratch.reserve(sums * unit_parts)
        values.update(scratch.slots((panels_at + sums_line * steps + lanes) * size), sums=place, batch=shape.batch)
        values.update(panels_at=panels_at, steps=steps, sums_line=sums_line, blocks=blocks)
        values.update(images=images, part_units=part_units, block_part=block_part, parts=parts)
        known = shape.plain, specialized_stride(shape.stride[2])
        kernel = Im2colWeightGrad(dtype, lanes, *known, shape.pointwise, images > 1, rows)
        combining: Values = {**values, "parts": unit_parts}
        items = shape.groups * blocks * shape.filters
        launches = (
            scratch.clear(),
            Launch(kernel, WEIGHTS.fill(values, frame.taps), unit_parts * shape.groups * parts, work=shape.work),
            Launch(CombineSums(dtype, lanes), COMBINE.fill(combining), items, _chunk(sums_line * unit_parts)),
        )
        return Plan(launches, scratch.size)

    def _few_weights(self, shape: Geometry, dtype: DType) -> Plan:
        lanes, size = self.machine.lanes(dtype), dtype.itemsize
        tile = dot_tile(self.machine)
        block = channel_block(shape, _DOT_LINES)
        blocks = -(-shape.channels // block)
        block_tiles, filter_tiles = -(-block * shape.taps // tile.columns), -(-shape.filters // tile.rows)
        sums = shape.groups * blocks * block_tiles * filter_tiles * tile.padded_size(lanes) * size
        box = box_of(shape.counts, _DOT_WIDTH, lanes)
        images, joined, part_units, unit_parts, block_part, parts = _sum_parts(shape, box, block, sums, _DOT_WIDTH)
        frame = Frame.of_box(shape, box)
        framed = 0 if shape.plain else round_up(block * frame.channel + lanes, lanes)
        values, elements = box_values(shape, box, block, lanes, framed, joined)
        values.update(frame_values(shape, frame), gradients_at=elements)
        if images > 1:
            elements += shape.filters * line_of(box, lanes, joined) + 2 * lanes
        scratch = Scratch(self.slots)
        place = scratch.reserve(sums * unit_parts)
        values.update(scratch.slots(elements * size), sums=place, batch=shape.batch, part_units=part_units)
        values.update(block_tiles=block_tiles, filter_tiles=filter_tiles, group_tiles=blocks * block_tiles)
        values.update(images=images, block_part=block_part, parts=parts)
        known = shape.plain, specialized_stride(shape.stride[2])
        kernel = FewWeightsGrad(dtype, lanes, *known, shape.pointwise, images > 1, tile)
        combining: Values = {**values, "parts": unit_parts}
        items = shape.groups * blocks * block_tiles
        launches = (
            scratch.clear(),
            Launch(kernel, DOTS.fill(values, frame.taps), unit_parts * shape.groups * parts, work=shape.work),
            Launch(
                CombineDots(dtype, lanes, tile),
                COMBINE_DOTS.fill(combining),
                items,
                _chunk(shape.filters * unit_parts),
            ),
        )
        return Plan(launches, scratch.size)


def _sum_parts(shape: Geometry, box: Shape, block: int, sums: int, steps: int) -> tuple[int, int, int, int, int, int]:
    """Return how a weight gradient is divided.

    The numbers are: images whose lines are joined for some steps, and those of this batch; units (boxes, or joined
    images) of a part, and such parts, each with ``sums`` bytes of sums; channels of a part, and parts. ``block`` is the
    number of channels of a block.
    """
    # the number of images does not depend on the batch size
    images = max(1, steps // shape.windows)
    joined, grid = min(images, max(1, shape.batch)), grid_size(shape, box)
    blocks, most = -(-shape.channels // block), max(1, min(_ITEMS, _SUM_BYTES // sums))
    part_units = -(-max(1, -(-shape.batch // most)) // joined) * grid
    units = -(-shape.batch // joined) * grid
    if -(-units // part_units) * shape.groups * blocks < _LEAST_ITEMS:
        # of few images, each box may be a part
        part_units = max(1, -(-units // most))
    unit_parts = max(1, -(-units // part_units))
    block_part = -(-blocks // min(blocks, -(-_ITEMS // (unit_parts * shape.groups)))) * block
    return images, joined, part_units, unit_parts, block_part, -(-shape.channels // block_part)


def _flipped(shape: Geometry) -> Geometry | None:
    """Return the convolution of gradients with flipped kernels that is the data gradient, if it pays.

    It exists for stride 1 and saves the sums of columns, but has as many windows as the data has elements.
    """
    borders = [gap * (width - 1) - pad for gap, width, pad in zip(shape.dilate, shape.kernel, shape.pad)]
    few = shape.pixels <= _MOST_FLIPPED * shape.windows and shape.channels >= _LEAST_FLIPPED
    if any([step > 1 for step in shape.stride]) or min(borders) < 0 or not few:
        return None
    return Geometry(
        *(shape.batch, shape.groups, shape.filters, shape.channels, shape.counts, shape.kernel),
        *(shape.stride, shape.dilate, tuple(borders), shape.extent),
    )


def _chunk(elements: int) -> int:
    """Return the number of items of some elements that is worth a call."""
    return max(1, _CHUNK_ELEMENTS // elements)


def images_to_join(shape: Geometry, box: Shape, lanes: int) -> int:
    """Return the number of images to join because each has few windows, or 0 for none.

    It does not depend on the batch size.
    """
    if box != shape.counts:
        return 0
    panels, rest = divmod(shape.windows, WIDTH * lanes)
    # a narrow product takes more than half of the time of a wide one
    cost = panels + _NARROW * -(-rest // lanes)
    if shape.windows >= _JOINED_SHARE * cost * WIDTH * lanes:
        return 0
    return min(_JOINED_MOST, -(-_JOINED_PANELS * WIDTH * lanes // shape.windows))


def channel_block(shape: Geometry, lines: int) -> int:
    """Return the number of channels with about so many lines of columns."""
    return evenly(shape.channels, max(1, lines // shape.taps))


def grid_size(shape: Geometry, box: Shape) -> int:
    return math.prod(_grid(shape, box))


def _grid(shape: Geometry, box: Shape) -> Shape:
    return tuple([-(-count // size) for count, size in zip(shape.counts, box)])


def line_of(box: Shape, lanes: int, images: int = 1) -> int:
    """Return the distance of lines of columns, which have room for a vector beyond their end."""
    line = round_up(images * math.prod(box) + lanes, WIDTH * lanes)
    # lines at multiples of 4096 bytes would compete for the same few sets of the L1 cache
    return line + (lanes if line % (8 * WIDTH * lanes) == 0 else 0)


def box_values(shape: Geometry, box: Shape, block: int, lanes: int, before: int, images: int = 1) -> tuple[Values, int]:
    """Return the table words of boxes and their columns, and the number of elements that they take in a slot.

    ``before`` elements of a slot have other uses.
    """
    line = line_of(box, lanes, images)
    values: Values = {"groups": shape.groups, "channels": shape.channels, "filters": shape.filters, "taps": shape.taps}
    values.update(pixels=shape.pixels, windows=shape.windows, block=block, columns_at=before, columns_line=line)
    for name, numbers in (("count", shape.counts), ("box", box), ("grid", _grid(shape, box))):
        values.update({f"{name}_{axis}": number for axis, number in zip("zyx", numbers)})
    return values, before + block * shape.taps * line + 2 * lanes
