"""Winograd's algorithm on pairs of int16: exact convolutions with 3 by 3 kernels and 2.25 times fewer multiplications.

Takes images of words (:mod:`.words`), each a pair of channels. Transformed data has at most 10 bits and a sign, and
transformed weights have 11, so ``vpmaddwd`` multiplies them exactly. Matrices of tiles of 2 by 2 outputs have entries
of 0, 1 and -1, except that of the kernel, which is doubled to be whole. So sums are 4 times the result: exact, because
int32 arithmetic wraps around and the result times 4 fits into it (:data:`MOST_CHANNELS`).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from ...base.dtypes import INT8, INT32, UINT8, DType
from ...lower.ir.function_builder import Index, Value
from ..conv.geometry import Geometry, round_up
from ..conv.microkernels import WIDTH
from ..conv.winograd import SHAPE_WORDS, Band, WinogradForward, WinogradWriter, mix
from ..conv.winograd_channels_last import turn_in
from ..conv.winograd_plan import Units, band_tiles, odd_stride, suits, tiles_at_once
from ..conv.winograd_transforms import (
    TRANSFORM_ARGUMENTS,
    Matrix,
    Tiling,
    matrices,
    output_sides,
    transform_in,
    two_sided,
)
from ..launch import Launch, Reference, Words, align_up
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, Scratch
from ..target import Machine
from .dots import PAIRS, Dot
from .finish import REAL, Finish, store_some

__all__ = ["MOST_CHANNELS", "is_faster", "launches"]

TILING = Tiling(2, 3)
#: channels for which 4 times any sum of 9 products each fits into int32
MOST_CHANNELS = {UINT8: (1 << 31) // (4 * 9 * 255 * 128), INT8: (1 << 31) // (4 * 9 * 128 * 128)}
#: channels and filters below which vectors are too empty, and the least factor of saved multiplications that pays
_LEAST_CHANNELS, _LEAST_FILTERS, _LEAST_SAVING = 16, 16, 1.5
#: tiles of small images transformed together
_JOINED_TILES = 64
_WORD = 4

_FORWARD = Words(*SHAPE_WORDS, "tiles", *SLOT_WORDS, "data*", "weight*", "scale*", "bias*", "out*")
_WEIGHTS = Words("depth", "filters", "weight*", "packed*")


class PairRoutine(Routine):
    """Builder of functions on pairs of int16, which wrap around independently."""

    def _halves(self, operation: str, first: Value, second: Value) -> Value:
        kind, halves = self.vector_type(INT32), f"<{2 * self.lanes} x i16>"
        operands = [self.assign(f"bitcast {kind} {value.text} to {halves}") for value in (first, second)]
        found = self.assign(f"{operation} {halves} {operands[0]}, {operands[1]}")
        return Value(self.assign(f"bitcast {halves} {found} to {kind}"), INT32)

    def add(self, first: Value, second: Value) -> Value:
        """Return the sums of pairs."""
        return self._halves("add", first, second)

    def subtract(self, first: Value, second: Value) -> Value:
        """Return the differences of pairs."""
        return self._halves("sub", first, second)

    def multiply(self, first: Value, second: Value) -> Value:
        """Return the products of pairs."""
        return self._halves("mul", first, second)

    def fma(self, first: Value, second: Value, third: Value) -> Value:
        """Return the products of pairs, plus a third."""
        return self.add(self.multiply(first, second), third)

    def like(self, value: Value, number: Any) -> Value:
        """Return pairs of a number."""
        half = int(number) & 0xFFFF
        word = half << 16 | half
        return self.constant(word - (word >> 31 << 32), INT32)


# -- weights


def _doubled(matrix: Matrix) -> Matrix:
    return tuple([tuple([2 * entry for entry in row]) for row in matrix])


@dataclasses.dataclass(frozen=True)
class TransformWords:
    """The kernel that transforms int8 weights with an even number of channels; an item is a vector of filters.

    The result has the shape (elements of a tile, pairs of blocks of filters, words of channels, two vectors).
    """

    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = PairRoutine(name, self.lanes, INT32)
        depth, filters = _WEIGHTS.index(e, "depth"), _WEIGHTS.index(e, "filters")
        weight, packed = _WEIGHTS.pointer(e, "weight"), _WEIGHTS.pointer(e, "packed")
        width, pair_bytes = str(WIDTH * self.lanes), str(2 * TILING.taps)
        pair = e.times(depth, width)
        pairs = e.quotient(e.plus(filters, str(WIDTH * self.lanes - 1)), width)
        # as in TransformWeights
        step = e.plus(e.times(pairs, pair), str(self.lanes))
        line = e.times(depth, pair_bytes)

        def item(block: Index) -> None:
            first = e.times(block, str(self.lanes))
            mask = e.below(e.minus(filters, first))
            source = e.address(weight, e.times(first, line), "i8")
            which, half = e.split(block, str(WIDTH))
            target = e.at(packed, e.times(which, pair), e.times(half, str(self.lanes)))

            def word(at: Index) -> None:
                numbers = self._words(e, e.address(source, e.times(at, pair_bytes), "i8"), line, mask)
                place = e.at(target, e.times(at, width))

                def store(row: int, column: int, value: Value) -> None:
                    e.store(place, e.times(str(row * TILING.x.size + column), step), value)

                two_sided(
                    e,
                    (_doubled(matrices(TILING.y).kernel), _doubled(matrices(TILING.x).kernel)),
                    lambda row, column: numbers[row * TILING.x.kernel + column],
                    store,
                )

            e.for_each("0", depth, word)

        e.for_each("%lo", "%hi", item)
        return module(e)

    def _words(self, e: Routine, source: str, line: Index, mask: Value) -> list[Value]:
        """Return the words of each tap of a pair of channels, whose bytes are adjacent, for a vector of filters."""
        taps = TILING.taps
        starts = [*range(0, 2 * taps - 4, 4), 2 * taps - 4]
        gathered = [self._gather(e, e.address(source, str(start), "i8"), line, mask) for start in starts]

        def at_top(byte: int) -> Value:
            """Return words whose highest byte is one of the bytes."""
            number = min(byte // 4, len(starts) - 1)
            up = 24 - 8 * (byte - starts[number])
            return e.bits("shl", gathered[number], e.constant(up, INT32)) if up else gathered[number]

        def word(tap: int) -> Value:
            low = e.bits("lshr", e.bits("ashr", at_top(tap), e.constant(8, INT32)), e.constant(16, INT32))
            high = e.bits("ashr", at_top(taps + tap), e.constant(8, INT32))
            return e.bits("or", low, e.bits("and", high, e.constant(-(1 << 16), INT32)))

        return [word(tap) for tap in range(taps)]

    def _gather(self, e: Routine, source: str, line: Index, mask: Value) -> Value:
        """Return four bytes of each filter."""
        kind, pointers = e.vector_type(INT32), f"<{self.lanes} x ptr>"
        name = f"@llvm.masked.gather.v{self.lanes}i32.v{self.lanes}p0"
        e.declare(f"declare {kind} {name}({pointers}, i32, <{self.lanes} x i1>, {kind})")
        starts = [e.times(str(lane), line) for lane in range(self.lanes)]
        places = "poison"
        for lane, start in enumerate(starts):
            place = e.address(source, start, "i8")
            places = e.assign(f"insertelement {pointers} {places}, ptr {place}, i64 {lane}")
        text = f"call {kind} {name}({pointers} {places}, i32 1, {e._with_type(mask)}, {kind} zeroinitializer)"
        return Value(e.assign(text), INT32)


# -- products


@dataclasses.dataclass(frozen=True)
class QuantizedWinograd(WinogradForward):
    """The kernel of a convolution of words; an item is a band of rows of tiles of some images."""

    words: ClassVar[Words] = _FORWARD
    dtype: ClassVar[DType] = INT32

    dot: Dot = PAIRS
    finish: Finish = REAL

    def _routines(self, name: str) -> list[Routine]:
        def multiply_add(e: Routine, data: Value, weights: Value, total: Value) -> Value:
            return self.dot.write(e, weights, data, total)

        return [
            turn_in(f"{name}_turn_in", self.lanes, INT32),
            transform_in(f"{name}_transform_in", self.lanes, self.tiling, PairRoutine, INT32),
            finish_tiles(f"{name}_finish", self.lanes, self.tiling, self.finish),
            turn_out_finished(f"{name}_turn_out", self.lanes, self.finish),
            mix(f"{name}_wide", self.lanes, self.rows, WIDTH, False, INT32, multiply_add),
            mix(f"{name}_single", self.lanes, self.rows, 1, False, INT32, multiply_add),
        ]

    def _put(
        self,
        walk: WinogradWriter,
        out: str,
        where: tuple[Index, Index, Index],
        band: Band,
        picture: str,
        sums: str,
        filters: Index,
    ) -> None:
        e, m, lanes, element = walk.e, str(self.tiling.outputs), str(self.lanes), self.finish.element(walk.e)
        image, group, before = where
        first, rows = band.row, band.rows
        start = e.times(first, m)
        height = e.least(e.times(rows, m), e.minus(walk["out_rows"], start))
        scale, bias = [self.words.pointer(e, name) for name in ("scale", "bias")]

        def block(number: Index) -> None:
            found = e.at(sums, e.times(e.quotient(number, lanes), e.times(walk["tiles"], lanes)))
            filter_ = e.plus(before, number)
            channel = e.plus(e.times(group, walk["filters"]), filter_)
            factors = [e.address(operand, channel, "float") for operand in (scale, bias)]
            existing = e.minus(filters, number)
            line = e.times(e.plus(e.times(image, walk["filters"]), filter_), walk.out_pixels)
            target = e.address(out, e.plus(line, e.times(start, walk["out_columns"])), element)

            def row(number: Index) -> None:
                line = e.times(number, m)
                tiles = e.at(found, e.times(number, e.times(band.columns, lanes)))
                e.invoke(
                    f"{walk.name}_finish",
                    *(f"ptr {picture}", f"i64 {band.out_line}", f"i64 {e.times(m, lanes)}"),
                    *(f"ptr {tiles}", f"i64 {walk['sums_step']}", f"i64 {lanes}", f"i64 {band.columns}"),
                    *(f"ptr {factors[0]}", f"ptr {factors[1]}", f"i64 {existing}"),
                )
                e.invoke(
                    f"{walk.name}_turn_out",
                    *(f"ptr {e.address(target, e.times(line, walk['out_columns']), element)}", f"ptr {picture}"),
                    *(f"i64 {walk.out_pixels}", f"i64 {existing}", f"i64 {walk['out_columns']}"),
                    *(f"i64 {e.least(m, e.minus(height, line))}", f"i64 {band.out_width}"),
                )

            e.for_each("0", rows, row)

        e.for_each("0", e.least(filters, str(WIDTH * self.lanes)), block, lanes)


def finish_tiles(name: str, lanes: int, tiling: Tiling, finish: Finish) -> Routine:
    """Return the routine that transforms a row of tiles to a picture of finished elements, in 32 bits each."""
    e = Routine(name, lanes, INT32, f"{TRANSFORM_ARGUMENTS}, ptr %scale, ptr %bias, i64 %filters")
    sides = output_sides(tiling)
    factors: list[Value | None] = [None, None]
    if finish.is_scaled:
        mask = e.below("%filters")
        factors = [e.load_where("%scale", "0", REAL.dtype, mask), e.load_where("%bias", "0", INT32, mask)]

    def tile(index: Index) -> None:
        source = e.at("%source", e.times(index, "%source_step"))
        target = e.at("%target", e.times(index, "%target_step"))

        def load(row: int, column: int) -> Value:
            return e.get(source, e.times(str(row * tiling.size + column), "%source_line"))

        def store(row: int, column: int, value: Value) -> None:
            # the doubled matrix of the kernel is on both sides
            found = finish.write_words(e, e.bits("ashr", value, e.like(value, 2)), *factors)
            e.store(target, e.plus(e.times(str(row), "%target_line"), str(column * lanes)), found)

        two_sided(e, sides, load, store)

    e.for_each("0", "%count", tile)
    return e


def turn_out_finished(name: str, lanes: int, finish: Finish) -> Routine:
    """Return the routine that copies ``%height`` lines of a picture of 32-bit elements to an image of another dtype.

    The arguments are those of :func:`~phonograd.core.kernels.conv.winograd_channels_last.turn_out`.
    """
    arguments = (
        "ptr noalias %image, ptr noalias %picture, i64 %pixels, i64 %channels, i64 %columns, i64 %height, i64 %width"
    )
    word = finish.dtype if finish.dtype.itemsize == _WORD else INT32
    e = Routine(name, lanes, word, arguments)
    element = finish.element(e)
    whole = e.test("sge", "%channels", str(lanes))

    def line(number: Index) -> None:
        source = e.at("%picture", e.times(e.times(number, "%width"), str(lanes)))
        target = e.address("%image", e.times(number, "%columns"), element)

        def square(index: Index) -> None:
            count = e.minus("%columns", index)
            picture = [e.get(source, e.times(e.plus(index, str(at)), str(lanes))) for at in range(lanes)]
            for lane, value in enumerate(e.transpose(picture)):
                place, found = e.plus(e.times(str(lane), "%pixels"), index), e.convert(value, finish.dtype)
                exists = e.assign(f"or i1 {whole}, {e.test('slt', str(lane), '%channels')}")
                e.when(exists, lambda found=found, place=place: store_some(e, target, place, found, count))  # type: ignore[misc]

        e.for_each("0", "%columns", square, str(lanes))

    e.for_each("0", "%height", line)
    return e


# -- plans


def is_faster(shape: Geometry, data: DType, dot: Dot) -> bool:
    """Return whether a convolution, whose sizes count numbers, is exact and faster in tiles than by im2col."""
    if dot.size != 2 or shape.groups > 1 or shape.channels % 2 or not suits(shape, TILING):
        return False
    if not _LEAST_CHANNELS <= shape.channels <= MOST_CHANNELS[data] or shape.filters < _LEAST_FILTERS:
        return False
    tiles = -(-shape.counts[1] // TILING.outputs) * -(-shape.counts[2] // TILING.outputs)
    return tiles * TILING.elements * _LEAST_SAVING <= shape.windows * shape.taps


def launches(
    shape: Geometry, scratch: Scratch, data: Reference, dot: Dot, finish: Finish, machine: Machine
) -> tuple[tuple[Launch, Launch], tuple[int, int]]:
    """Return the launches that transform the weights, and convolve, and the area of the transformed weights.

    ``shape`` counts words of channels.
    """
    lanes = machine.lanes(INT32)
    elements = TILING.elements
    walk = Units(shape, shape.counts, TILING, lanes, _JOINED_TILES, band_tiles(shape.channels, TILING, lanes))
    rows = tiles_at_once(machine, shape.channels, walk.usual_tiles)
    tiles, channels = round_up(walk.tiles, rows), round_up(shape.channels, lanes)
    pairs = -(-shape.filters // (WIDTH * lanes))
    packed_bytes = elements * (pairs * shape.channels * WIDTH + 1) * lanes * _WORD
    packed = scratch.reserve(packed_bytes)
    data_step, sums_step = odd_stride(channels * tiles, lanes), odd_stride(WIDTH * lanes * tiles, lanes)
    values = walk.values(data_step, elements * data_step, sums_step, elements * (data_step + sums_step))
    values.update(scratch.slots((elements * (data_step + sums_step) + walk.picture) * _WORD))
    values.update(tiles=tiles, data=data, weight=packed)
    if not finish.is_scaled:
        values.update(scale=Reference("out"), bias=Reference("out"))
    packing: dict[str, int | Reference] = {"depth": shape.channels, "filters": shape.filters, "packed": packed}
    blocks = -(-shape.filters // lanes)
    launches = (
        Launch(TransformWords(lanes), _WEIGHTS.fill(packing), blocks, max(1, 64 // shape.channels)),
        Launch(
            QuantizedWinograd(lanes, TILING, rows, False, dot, finish),
            _FORWARD.fill(values),
            walk.units,
            work=shape.work,
        ),
    )
    return launches, (packed.offset, align_up(packed_bytes))
