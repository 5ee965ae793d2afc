"""Plans of quantized products: from the node of a convolution or a matrix product to its launches.

Takes nodes of :mod:`phonograd.core.ops.quantized.products` from the planner. Both operands are first combined in words
(:mod:`.words`), then multiplied as words, and the sums are finished (:mod:`.finish`).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from ...base import settings
from ...base.dtypes import INT8, INT32, DType
from ...graph.node import Node, Shape
from ...lower.ir.function_builder import Value
from ..conv.geometry import Frame, Geometry, box_of, evenly, geometry, round_up
from ..conv.microkernels import WIDTH, most_rows
from ..conv.padding import frame_values
from ..conv.plan import box_values, channel_block, grid_size, images_to_join, line_of
from ..deinterleave import specialized_stride
from ..launch import Launch, Plan, Prepared, Reference, align_up
from ..matmul.gemm import Gemm, Matrices, panels, product
from ..matmul.packing import Packing
from ..matmul.tiles import WIDTH as GEMM_WIDTH
from ..routine import Routine
from ..scratch import Scratch
from ..target import Machine
from . import tiles, winograd
from .convolution import QUANTIZED, QuantizedForward
from .dense import dense_plan
from .dots import PAIRS, Dot, dot_of
from .finish import Finish, finish_rows
from .words import WordPacking, make_words, pack_tiles, pack_words

__all__ = ["plan"]

#: bytes of a word
_WORD = 4
#: steps of a sum in one call of a micro-kernel, and bytes of columns made before they are used: as in float32
_DEPTH, _COLUMN_BYTES = 288, 1 << 18
#: minimum number of items in a range, for any number of threads to share
_ITEMS = 16
#: windows of a line times filters of a part for which making columns pays
_PART_WORK = 2500


def plan(node: Node, lowering: Any, machine: Machine) -> Plan | None:
    """Return how to compute a quantized product, or None where it has no elements."""
    data, weight = node.inputs[:2]
    if node.size == 0 or data.size == 0:
        return None
    known = dict(zip(node.operator.parameter_names, node.attributes, strict=True))
    finish = Finish(node.dtype, known.get("relu", False))
    threads = max(1, settings.current().num_threads)
    if lowering.windows:
        window = known["stride"], known["dilate"], known["pad"], known["groups"]
        return _convolution(data.shape, data.dtype, weight.shape, window, finish, machine, threads)
    return _dense(data.shape, data.dtype, weight.shape, finish, machine)


# -- matrix products


@dataclasses.dataclass(frozen=True)
class WordGemm(Gemm):
    """The kernel of products of words; the second operand is the weights."""

    dot: Dot = PAIRS

    @property
    def tile_rows(self) -> int:
        """Number of rows in a tile; products need registers before they are added, if there is no VNNI."""
        return super().tile_rows // (1 if self.dot.instructions == "vnni" else 2)

    @property
    def panel_packing(self) -> Packing:
        """The kernel that packs the weights."""
        return WordPacking(self.dtype, self.lanes, GEMM_WIDTH, INT8, self.dot.size)

    def multiply_add(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        """Return one step of a sum of products."""
        return self.dot.write(e, second, first, total)


@functools.lru_cache(maxsize=1024)
def _dense(data: Shape, dtype: DType, weight: Shape, finish: Finish, machine: Machine) -> Plan:
    (rows, terms), columns = data, weight[0]
    lanes, dot = machine.lanes(INT32), dot_of(dtype, machine)
    if machine.dots == "amx" and tiles.is_worth((rows, terms, columns), dot):
        return tiles.dense_plan((rows, terms, columns), dtype, finish)
    if dot.instructions == "pmaddwd":
        return dense_plan((rows, terms, columns), dtype, lanes, finish)
    count = -(-terms // dot.size)
    kernel, sizes = WordGemm(INT32, machine, dot), (rows, count, columns)
    in_panels = terms % dot.size == 0
    if in_panels:
        # of int8 weights, a word at a time
        packed = panels(sizes, (1, 1), Matrices(dot.size, terms), kernel, 1)
        weight_bytes = packed.size
    else:
        weight_bytes = align_up(columns * count * _WORD)
    places: dict[str, int] = {}
    end = 0
    for name, size in (("lhs", rows * count * _WORD), ("rhs", weight_bytes), ("out", rows * columns * _WORD)):
        places[name], end = end, end + align_up(size)
    words = Reference("scratch", places["rhs"])
    if in_panels:
        pack = _move(packed.launch, {"rhs": Reference("weight"), "out": words})
    else:
        pack = make_words(INT8, lanes, dot.size, (columns, terms, 1), Reference("weight"), words)
    strides = Matrices(count, 1), Matrices(1, count), Matrices(columns, 1)
    found = product(sizes, (1, 1), *strides, kernel, in_panels=in_panels)
    places["scratch"] = end
    moves = {name: Reference("scratch", place) for name, place in places.items()}
    launches = (
        make_words(dtype, lanes, dot.size, (rows, terms, 1), Reference("data"), Reference("scratch", places["lhs"])),
        pack,
        *[_move(launch, moves) for launch in found.launches],
        finish_rows(lanes, finish, rows, columns, Reference("scratch", places["out"])),
    )
    prepared = Prepared(1, "weight", places["rhs"], align_up(weight_bytes))
    return Plan(launches, end + found.scratch_bytes, (prepared,))


def _move(launch: Launch, places: dict[str, Reference]) -> Launch:
    """Return a launch with operands elsewhere."""
    words = [
        Reference(places[word.operand].operand, places[word.operand].offset + word.offset)
        if isinstance(word, Reference)
        else word
        for word in launch.words
    ]
    return launch._replace(words=tuple(words))


# -- convolutions


@functools.lru_cache(maxsize=1024)
def _convolution(
    data: Shape,
    dtype: DType,
    weight: Shape,
    window: tuple[Shape, Shape, Shape, int],
    finish: Finish,
    machine: Machine,
    slots: int,
) -> Plan:
    stride, dilate, pad, groups = window
    dot = dot_of(dtype, machine)
    numbers = geometry(data, weight[0], weight[2:], stride, dilate, pad, groups)
    sizes = numbers.filters, numbers.channels * numbers.taps, numbers.windows * numbers.batch
    if machine.dots == "amx" and tiles.is_worth(sizes, dot):
        dot = tiles.BYTES
    shape = dataclasses.replace(numbers, channels=-(-numbers.channels // dot.size))
    lanes = machine.lanes(INT32)
    scratch = Scratch(slots)
    images = numbers.batch * groups
    words = scratch.reserve(images * shape.channels * shape.pixels * _WORD)
    before = (
        scratch.clear(),
        make_words(dtype, lanes, dot.size, (images, numbers.channels, shape.pixels), Reference("data"), words),
    )
    if winograd.is_faster(numbers, dtype, dot):
        launches, packed = winograd.launches(shape, scratch, words, dot, finish, machine)
    else:
        launches, packed = _products(shape, numbers.channels, scratch, words, dtype, dot, finish, machine)
    # the first of these launches packs the weights
    prepared = Prepared(len(before), "weight", *packed)
    return Plan((*before, *launches), scratch.size, (prepared,))


def _products(
    shape: Geometry,
    channels: int,
    scratch: Scratch,
    data: Reference,
    dtype: DType,
    dot: Dot,
    finish: Finish,
    machine: Machine,
) -> tuple[tuple[Launch, Launch], tuple[int, int]]:
    """Return the launches that pack the weights, and convolve, and the area of the packed weights.

    ``shape`` counts words of channels.
    """
    lanes, in_tiles = machine.lanes(INT32), dot == tiles.BYTES
    block = channel_block(shape, _DEPTH)
    if in_tiles:
        block = tiles.whole_channels(block, shape.channels, shape.taps)
    unit = WIDTH * lanes
    box = box_of(shape.counts, max(unit, _COLUMN_BYTES // (block * shape.taps * _WORD)), unit)
    joined = images_to_join(shape, box, lanes)
    images = evenly(shape.batch, max(joined, 1))
    frame = Frame.of_box(shape, box)
    rows = tiles.filters_of_tile(shape.filters) if in_tiles else evenly(shape.filters, most_rows(machine))
    count = -(-shape.filters // rows)
    boxes = -(-shape.batch // images) * shape.groups * grid_size(shape, box)
    most = max(shape.filters * shape.counts[2] // _PART_WORK, 2 if boxes == 1 else 1)
    parts = min(count, -(-_ITEMS // boxes), most)
    depth = round_up(shape.channels * shape.taps, tiles.TILE_WORDS if in_tiles else 1)
    packed_bytes = shape.groups * count * depth * rows * _WORD
    packed = scratch.reserve(packed_bytes)
    framed = 0 if shape.plain else round_up(shape.channels * frame.channel + lanes, lanes)
    values, elements = box_values(shape, box, block, lanes, images * framed, images)
    values.update(frame_values(shape, frame))
    values.update(batch=shape.batch, images=images, frame_size=framed, joined_at=elements)
    # tiles are stored whole, and read beyond the last step of a panel, where weights are zeros
    elements += (count * rows if in_tiles else shape.filters) * line_of(box, lanes, images) + lanes
    values.update(scratch.slots(elements * _WORD), packed=packed, tiles=count, parts=parts, data=data)
    if not finish.is_scaled:
        values.update(scale=Reference("out"), bias=Reference("out"))
    facts = INT32, lanes, shape.plain, specialized_stride(shape.stride[2]), rows, joined > 0, dot, finish
    weights = shape.groups, shape.filters, channels, shape.taps
    kernel = tiles.TiledForward(*facts, dtype) if in_tiles else QuantizedForward(*facts)
    launches = (
        pack_tiles(rows, count, weights, packed) if in_tiles else pack_words(dot.size, rows, count, weights, packed),
        Launch(kernel, QUANTIZED.fill(values, frame.taps), boxes * parts, work=shape.work),
    )
    return launches, (packed.offset, align_up(packed_bytes))
