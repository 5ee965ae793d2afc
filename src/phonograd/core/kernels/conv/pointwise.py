"""1 by 1 convolutions of small images, with filters in the lanes of vectors.

Vectors along a small image are badly filled: 49 elements take seven vectors of eight, the last with one element. Here
vectors hold filters, and a tile multiplies them with four elements of an image (*pixels*), which are broadcast. The
last tile overlaps the one before it, so that all tiles are whole. Tiles are transposed in registers on the way out,
after the epilogue. Sums have the order, and the bits, of :mod:`~phonograd.core.kernels.matmul.gemm`, which computes
these convolutions if weights are not packed. See docs/decisions/0028.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..epilogue import COLUMN, Epilogue, Finish, entry
from ..launch import Launch, Plan, Prepared, Reference, Words
from ..matmul.packing import Packing, packing
from ..matmul.tasks import terms_of_block
from ..matmul.tiles import WIDTH
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, Scratch, in_slot
from ..target import Machine
from .geometry import Geometry, round_up

__all__ = ["FilterVectors", "plan", "suits"]

#: pixels of a tile: with 16 registers, 4 pixels of 3 vectors are 12 sums, 3 vectors of weights and a broadcast pixel
PIXELS = 4
#: maximum number of pixels of an image, and bytes of its copy in tiles: a part of an L2 cache, beside the weights
MOST_PIXELS, MOST_BYTES = 256, 1 << 19
#: pixels below which vectors along an image are badly filled; filters from which on copies of larger images pay
FEW_PIXELS, LEAST_FILTERS = 64, 64
#: share of the lanes that filters fill; half vectors take half of the multipliers
_LEAST_FILLED = 0.9
#: channels that are copied at once
_CHANNELS = 4
#: elements by which tiles are apart, so that they do not compete for the same sets of a cache
_GAP = 16

_SIZES = (
    *("groups", "channels", "filters", "windows", "block_terms", "parts", "packed_columns", "packed_group"),
    *("tiles", "tile_distance", "sums_at"),
)
POINTWISE = Words(*_SIZES, *SLOT_WORDS, "data*", "packed*", "out*")


def suits(machine: Machine, shape: Geometry, dtype: DType) -> bool:
    """Return whether filters fill vectors, and a copy of an image in tiles stays in a cache and pays."""
    is_small = PIXELS <= shape.windows <= MOST_PIXELS and shape.channels * shape.windows * dtype.itemsize <= MOST_BYTES
    is_worth_copying = shape.windows < FEW_PIXELS or shape.filters >= LEAST_FILTERS
    return shape.pointwise and is_small and is_worth_copying and _lanes(machine, shape, dtype) > 0


def _lanes(machine: Machine, shape: Geometry, dtype: DType) -> int:
    """Return the number of lanes that filters fill: nearly those of vectors, or those of halves; 0 if there is none."""
    whole = machine.lanes(dtype)
    if whole >= PIXELS and shape.filters >= _LEAST_FILLED * round_up(shape.filters, whole):
        return whole
    return whole // 2 if whole // 2 >= PIXELS and shape.filters % (whole // 2) == 0 else 0


def plan(machine: Machine, slots: int, shape: Geometry, dtype: DType, adjoint: bool = False) -> Plan:
    """Return the plan of a convolution, or of gradients with transposed weights, which packs weights first."""
    lanes, channels, filters = _lanes(machine, shape, dtype), shape.channels, shape.filters
    block_terms, tiles = terms_of_block(channels), -(-shape.windows // PIXELS)
    scratch = Scratch(slots)
    strides = (filters, 1) if adjoint else (1, channels)
    source = Reference("weight"), *strides, 0, filters * channels
    sizes, count = (channels, block_terms, filters), (1, shape.groups)
    packer = Packing(dtype, lanes, WIDTH, dtype)
    area = scratch.reserve(packing(packer, sizes, count, 1, source, Reference("scratch")).size)
    packed = packing(packer, sizes, count, 1, source, area)
    pairs, panels = shape.batch * shape.groups, -(-filters // (lanes * WIDTH))
    parts = 1 if slots == 1 else min(panels, -(-2 * slots // pairs))
    distance = PIXELS * channels + _GAP
    values: dict[str, int | Reference] = {"groups": shape.groups, "channels": channels, "filters": filters}
    values.update(data=Reference("out_grad" if adjoint else "data"))
    values.update(windows=shape.windows, block_terms=block_terms, parts=parts, packed=area)
    values.update(packed_columns=packed.columns, packed_group=packed.inner)
    values.update(tiles=tiles, tile_distance=distance, sums_at=tiles * distance)
    values.update(scratch.slots(tiles * (distance + PIXELS * WIDTH * lanes) * dtype.itemsize))
    kernel = FilterVectors(dtype, lanes, filters % lanes > 0)
    launch = Launch(kernel, POINTWISE.fill(values), pairs * parts, work=shape.work)
    prepared = Prepared(1, "weight", area.offset, packed.size)
    return Plan((scratch.clear(), packed.launch, launch), scratch.size, (prepared,))


@dataclasses.dataclass(frozen=True)
class FilterVectors:
    """The kernel; an item is a part of the filters of a group of an image."""

    dtype: DType
    lanes: int
    partial: bool
    """True if filters do not fill the last vector."""
    epilogue: Epilogue | None = None

    def finished(self, epilogue: Epilogue) -> FilterVectors | None:
        """Return the kernel with an epilogue."""
        return None if self.epilogue or COLUMN in epilogue.loads else dataclasses.replace(self, epilogue=epilogue)

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        if self.epilogue is None:
            return module(*self._routines(name))
        body = f"{name}_body"
        return module(*self._routines(body), entry(name, self.epilogue, body))

    def _routines(self, name: str) -> list[Routine]:
        tiles = [_tile(self, f"{name}_tile_{width}", width) for width in range(1, WIDTH + 1)]
        return [_copy_tiles(self.dtype, f"{name}_copy"), *tiles, _Items(self, name).routine]


class _Items:
    """Writes the loops over items, panels of weights, blocks of terms and tiles."""

    def __init__(self, kernel: FilterVectors, name: str) -> None:
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype)
        self.context = "" if kernel.epilogue is None else kernel.epilogue.context(e)
        self.number = {word: POINTWISE.index(e, word) for word in _SIZES}
        self.data, self.packed, self.out = [POINTWISE.pointer(e, word) for word in ("data", "packed", "out")]
        self.partial = kernel.partial
        units = e.quotient(e.plus(self.number["filters"], str(e.lanes - 1)), str(e.lanes))
        panels = e.quotient(e.plus(units, str(WIDTH - 1)), str(WIDTH))

        def item(index: Index, slot: str) -> None:
            pair, part = e.split(index, self.number["parts"])
            _, group = e.split(pair, self.number["groups"])
            size = e.times(self.number["channels"], self.number["windows"])
            words = ("channels", "windows", "tiles", "tile_distance")
            copied = f"ptr {slot}", f"ptr {e.at(self.data, e.times(pair, size))}"
            e.invoke(f"{name}_copy", *copied, *[f"i64 {self.number[word]}" for word in words])
            first, after = [e.quotient(e.times(at, panels), self.number["parts"]) for at in (part, e.plus(part, "1"))]

            def panel(number: Index) -> None:
                begin, end = [e.quotient(e.times(at, units), panels) for at in (number, e.plus(number, "1"))]
                self._panel(slot, (pair, group), e.times(begin, str(e.lanes)), e.minus(end, begin))

            e.for_each(first, after, panel)

        in_slot(e, POINTWISE, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))

    def _panel(self, slot: str, place: tuple[Index, Index], filters: Index, vectors: Index) -> None:
        """Write the products of a panel of weights from one of the filters on, for a group of an image."""
        e, number = self.routine, self.number
        pair, group = place
        row = e.plus(e.times(pair, number["filters"]), filters)
        out = e.at(self.out, e.times(row, number["windows"]))
        weights = e.at(self.packed, e.times(group, number["packed_group"]))
        width = e.times(vectors, str(e.lanes))
        finishing = [f"i64 {e.minus(number['filters'], filters)}"] if self.partial else []
        if self.context:
            finishing += [f"ptr {self.context}", f"i64 {e.plus(e.times(group, number['filters']), filters)}"]

        def block(first: Index) -> None:
            depth = e.least(number["block_terms"], e.minus(number["channels"], first))
            panel = e.at(weights, e.times(first, number["packed_columns"]), e.times(filters, depth))
            following = e.at(panel, e.times(width, depth))
            # each tile prefetches a part of the weights that follow
            soon_term = e.quotient(e.total(width, number["tiles"], "-1"), number["tiles"])
            is_first = e.assign(f"zext i1 {e.test('eq', first, '0')} to i64")
            complete = e.assign(f"zext i1 {e.test('eq', e.plus(first, depth), number['channels'])} to i64")

            def tile(at: Index) -> None:
                pixel = e.least(e.times(at, str(PIXELS)), e.minus(number["windows"], str(PIXELS)))
                pixels = e.at(slot, e.times(at, number["tile_distance"]), e.times(first, str(PIXELS)))
                sums = e.at(slot, number["sums_at"], e.times(at, str(PIXELS * WIDTH * e.lanes)))
                soon = e.at(following, e.times(e.times(at, depth), soon_term))
                arguments = [f"i64 {depth}", f"ptr {pixels}", f"ptr {panel}", f"ptr {sums}", f"ptr {e.at(out, pixel)}"]
                arguments += [f"i64 {number['windows']}", f"ptr {soon}", f"i64 {soon_term}"]
                arguments += [f"i64 {is_first}", f"i64 {complete}", *finishing]

                def fewer(count: int) -> None:
                    call = f"{e.name}_tile_{count}"
                    if count == 1:
                        e.invoke(call, *arguments)
                        return
                    is_so_wide = e.test("eq", vectors, str(count))
                    e.when(is_so_wide, lambda: e.invoke(call, *arguments), lambda: fewer(count - 1))

                fewer(WIDTH)

            e.for_each("0", number["tiles"], tile)

        e.for_each("0", number["channels"], block, number["block_terms"])


def _copy_tiles(dtype: DType, name: str) -> Routine:
    """Return the routine that copies an image to tiles: of each channel, four pixels."""
    arguments = "ptr noalias %to, ptr noalias %image, i64 %channels, i64 %windows, i64 %tiles, i64 %distance"
    e = Routine(name, PIXELS, dtype, arguments)
    last = e.minus("%tiles", "1")

    def copy(channel: Index, count: int) -> None:
        lines = [e.at("%image", e.times(e.plus(channel, str(each)), "%windows")) for each in range(count)]
        place = e.at("%to", e.times(channel, str(PIXELS)))

        def tile(number: Index, pixel: Index) -> None:
            vectors = [e.get(line, pixel) for line in lines]
            for each, vector in enumerate(vectors):
                e.store(e.at(place, e.times(number, "%distance")), str(each * PIXELS), vector)

        e.for_each("0", last, lambda number: tile(number, e.times(number, str(PIXELS))))
        tile(last, e.minus("%windows", str(PIXELS)))

    # the channels of a cache line
    whole = e.times(e.quotient("%channels", str(_CHANNELS)), str(_CHANNELS))
    e.for_each("0", whole, lambda channel: copy(channel, _CHANNELS), str(_CHANNELS))
    e.for_each(whole, "%channels", lambda channel: copy(channel, 1))
    return e


def _tile(kernel: FilterVectors, name: str, width: int) -> Routine:
    """Return the routine of a tile: four pixels and some vectors of filters.

    ``%sums`` is memory for sums of the blocks of terms before. ``%existing`` filters are those from the first one on.
    """
    arguments = (
        "i64 %terms, ptr noalias %pixels, ptr noalias %weights, ptr noalias %sums, ptr noalias %out, i64 %windows, "
        "ptr %soon, i64 %soon_term, i64 %first, i64 %complete"
    )
    arguments += ", i64 %existing" if kernel.partial else ""
    arguments += "" if kernel.epilogue is None else ", ptr noalias %context, i64 %channel"
    e = Routine(name, kernel.lanes, kernel.dtype, arguments, inner=True)
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")

    def term(index: Index, sums: list[Value]) -> list[Value]:
        line, numbers = (
            e.at("%weights", e.times(index, str(width * e.lanes))),
            e.at("%pixels", e.times(index, str(PIXELS))),
        )
        vectors = [e.get(line, str(vector * e.lanes)) for vector in range(width)]
        soon = e.at("%soon", e.times(index, "%soon_term"))
        e.line(f"call void @llvm.prefetch.p0(ptr {soon}, i32 0, i32 2, i32 1)")
        found = []
        for pixel in range(PIXELS):
            number = e.get_splat(numbers, str(pixel))
            found += [e.fma(number, vector, sums[pixel * width + v]) for v, vector in enumerate(vectors)]
        return found

    # turn sums of -0 into 0, as products of matrices do
    sums = [e.add(e.zeros(), total) for total in e.loop("0", "%terms", "1", [e.zeros()] * (PIXELS * width), term)]
    places = [str(number * e.lanes) for number in range(len(sums))]

    def add_before() -> list[Value]:
        return [e.add(e.get("%sums", place), total) for place, total in zip(places, sums, strict=True)]

    totals = e.choose(e.test("ne", "%first", "0"), lambda: sums, add_before)

    def keep() -> None:
        for place, total in zip(places, totals, strict=True):
            e.store("%sums", place, total)

    e.when(e.test("ne", "%complete", "0"), lambda: _store(kernel, e, width, totals), keep)
    return e


def _store(kernel: FilterVectors, e: Routine, width: int, totals: Sequence[Value]) -> None:
    """Write the epilogue of a tile, and its stores, filter by filter."""
    finish = None if kernel.epilogue is None else Finish(kernel.epilogue, e)
    for vector in range(width):
        first = str(vector * e.lanes)
        target = e.at("%out", e.times(first, "%windows"))
        existing = e.minus("%existing", first) if kernel.partial and vector == width - 1 else None
        values = [totals[pixel * width + vector] for pixel in range(PIXELS)]
        if finish is not None:
            row = finish.lanes_of_rows(e.plus("%channel", first), None if existing is None else e.below(existing))
            elements = {number: _load_turned(e, place, existing) for number, place in finish.elements(target).items()}
            values = [
                finish.steps({**row, **{number: found[pixel] for number, found in elements.items()}, 0: value})
                for pixel, value in enumerate(values)
            ]
        for number, turned in enumerate(_turn(e, values)):
            for block in range(e.lanes // PIXELS):
                _store_filter(e, turned, block, PIXELS * block + number, target, existing)


def _store_filter(e: Routine, turned: Value, block: int, number: int, target: str, existing: Index | None) -> None:
    """Write the store of a block of four lanes, the pixels of a filter."""
    order = ", ".join([f"i32 {PIXELS * block + pixel}" for pixel in range(PIXELS)])
    kind = e.vector_type(e.dtype)

    def store() -> None:
        part = e.assign(f"shufflevector {kind} {turned.text}, {kind} poison, <{PIXELS} x i32> <{order}>")
        place = e.at(target, e.times(str(number), "%windows"))
        e.line(f"store <{PIXELS} x {e.scalar}> {part}, ptr {place}, align {e.dtype.itemsize}")

    if existing is None:
        store()
    else:
        e.when(e.test("slt", str(number), existing), store)


def _load_turned(e: Routine, source: str, existing: Index | None) -> list[Value]:
    """Return the elements of a tile as vectors of filters, one for each pixel; missing filters repeat the last one."""
    lines = []
    for number in range(PIXELS):
        parts = []
        for block in range(e.lanes // PIXELS):
            line = str(PIXELS * block + number)
            line = line if existing is None else e.least(line, e.minus(existing, "1"))
            place = e.at(source, e.times(line, "%windows"))
            parts.append(e.assign(f"load <{PIXELS} x {e.scalar}>, ptr {place}, align {e.dtype.itemsize}"))
        size = PIXELS
        while len(parts) > 1:
            kind, order = f"<{size} x {e.scalar}>", ", ".join([f"i32 {lane}" for lane in range(2 * size)])
            parts = [
                e.assign(f"shufflevector {kind} {one}, {kind} {other}, <{2 * size} x i32> <{order}>")
                for one, other in zip(parts[::2], parts[1::2], strict=True)
            ]
            size *= 2
        lines.append(Value(parts[0], e.dtype))
    return _turn(e, lines)


def _turn(e: Routine, rows: Sequence[Value]) -> list[Value]:
    """Return four vectors with all blocks of four lanes transposed: lane b + r of row c was lane b + c of row r."""
    lanes, vectors, distance = e.lanes, list(rows), 1
    while distance < PIXELS:
        low = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        high = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        for row in range(PIXELS):
            if not row & distance:
                first, second = vectors[row], vectors[row + distance]
                vectors[row], vectors[row + distance] = e.shuffle(first, second, low), e.shuffle(first, second, high)
        distance *= 2
    return vectors
