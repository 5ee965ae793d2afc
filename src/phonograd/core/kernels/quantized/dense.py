"""Dense products on processors that multiply pairs of int16: Winograd's algorithm for inner products, and finishing.

Four terms of a sum are two products of sums, less terms that depend on one operand alone::

    x0 w0 + x1 w1 + x2 w2 + x3 w3 = (x0 + w1) (x1 + w0) + (x2 + w3) (x3 + w2) - (x0 x1 + x2 x3) - (w0 w1 + w2 w3)

So two additions of pairs, one ``vpmaddwd`` and one ``vpaddd`` take the place of two ``vpmaddwd`` and two ``vpaddd``.
Only two of the four vector units of AMD's Zen 3 multiply, and all of them add: the kernel is 10 % faster there, and as
fast where all units do both. int32 arithmetic wraps around, so results are exact.

A *step* is four terms: a word of the even numbers, and a word of the odd ones. :class:`CrossRows` makes the steps of
tiles of rows, :class:`CrossColumns` those of panels of weights, once for all calls. Both add up the products of their
own even and odd numbers. :class:`CrossedProduct` multiplies and finishes a panel of columns of the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...base.dtypes import INT8, INT32, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Plan, Prepared, Reference, Words, align_up
from ..matmul.packing import part
from ..routine import Routine, module
from .dots import pair_products
from .finish import Finish, finish_rectangle

__all__ = ["STEP", "CrossColumns", "CrossRows", "CrossedProduct", "dense_plan", "for_each_square"]

#: terms of a step
STEP = 4
#: vectors side by side in a panel of the result
WIDTH = 2
#: steps added up in registers. Half as many, whose panel stays in a first-level cache, are no faster on Zen 3
_DEPTH = 256
#: greatest number of rows of the result that are computed panel by panel
_BLOCK_ROWS = 192
#: products worth a call, and bytes worth a call
_TASK_WORK, _CHUNK_BYTES = 1 << 19, 1 << 14
_WORD = 4

_ROWS = Words("rows", "terms", "tile", "data*", "packed*", "products*")
_COLUMNS = Words("columns", "terms", "panel", "weight*", "packed*", "products*")
_PRODUCT = Words(
    *("rows", "columns", "steps", "row_blocks", "tile", "panel"),
    *("data*", "data_products*", "weight*", "weight_products*", "scale*", "bias*", "out*"),
)


def tile_rows(lanes: int) -> int:
    """Return the rows of a tile: the words of a step of all of them are one vector."""
    return lanes // 2


def _add_pairs(e: Routine, first: Value, second: Value) -> Value:
    kind, halves = e.vector_type(INT32), f"<{2 * e.lanes} x i16>"
    operands = [e.assign(f"bitcast {kind} {value.text} to {halves}") for value in (first, second)]
    sums = e.assign(f"add {halves} {operands[0]}, {operands[1]}")
    return Value(e.assign(f"bitcast {halves} {sums} to {kind}"), INT32)


def _even_and_odd(e: Routine, quads: Value, dtype: DType) -> tuple[Value, Value]:
    """Return the even and the odd ones of four bytes, as pairs of int16.

    ::

        %up = shl <16 x i16> %quads, splat (i16 8)
        %even = ashr <16 x i16> %up, splat (i16 8)
        %odd = ashr <16 x i16> %quads, splat (i16 8)
    """
    kind, halves, count = e.vector_type(INT32), f"<{2 * e.lanes} x i16>", 2 * e.lanes
    down = "ashr" if dtype.kind == "i" else "lshr"
    eights = f"<{', '.join(['i16 8'] * count)}>"
    text = e.assign(f"bitcast {kind} {quads.text} to {halves}")
    up = e.assign(f"shl {halves} {text}, {eights}")
    found = [e.assign(f"{down} {halves} {value}, {eights}") for value in (up, text)]
    even, odd = [Value(e.assign(f"bitcast {halves} {value} to {kind}"), INT32) for value in found]
    return even, odd


def for_each_square(
    e: Routine, terms: Index, lines: list[str], body: Callable[[Index, list[Value]], None], spare: str
) -> None:
    """Write ``body(step, vectors)`` for every ``lanes`` steps; vectors hold the bytes of each line.

    Bytes beyond the last term are zeros; ``spare`` is memory for the last bytes of a line.
    """
    size = STEP * e.lanes
    whole = e.times(e.quotient(terms, str(size)), str(size))
    e.for_each(
        "0", whole, lambda at: body(e.quotient(at, str(STEP)), [_bytes(e, line, at) for line in lines]), str(size)
    )

    def last(line: str) -> Value:
        e.store(spare, "0", e.zeros())

        def copy(at: Index) -> None:
            byte = e.assign(f"load i8, ptr {e.address(line, at, 'i8')}, align 1")
            e.line(f"store i8 {byte}, ptr {e.address(spare, e.minus(at, whole), 'i8')}, align 1")

        e.for_each(whole, terms, copy)
        return e.get(spare)

    def rest() -> None:
        body(e.quotient(whole, str(STEP)), [last(line) for line in lines])

    e.when(e.test("slt", whole, terms), rest)


def _bytes(e: Routine, line: str, at: Index) -> Value:
    return e.get(e.address(line, at, "i8"))


@dataclasses.dataclass(frozen=True)
class CrossRows:
    """The kernel that makes the steps of a tile of rows, which is an item.

    A step is the even words of all rows, then their odd words: one vector. The last row takes the place of missing
    ones.
    """

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, INT32)
        rows, height = _ROWS.index(e, "rows"), tile_rows(self.lanes)
        terms, tile = _ROWS.index(e, "terms"), _ROWS.index(e, "tile")
        data, packed, products = [_ROWS.pointer(e, word) for word in ("data", "packed", "products")]
        spare, sums = e.scratch(self.lanes // 2), e.scratch(self.lanes // 2 * height)

        def item(number: Index) -> None:
            first, last = e.times(number, str(height)), e.minus(rows, "1")
            lines = [
                e.address(data, e.times(e.least(e.plus(first, str(row)), last), terms), "i8") for row in range(height)
            ]
            target = e.at(packed, e.times(number, tile))
            e.clear(sums, str(height * self.lanes))

            def square(step: Index, vectors: list[Value]) -> None:
                pairs = [_even_and_odd(e, vector, self.dtype) for vector in vectors]
                for row, pair in enumerate(pairs):
                    place = str(row * self.lanes)
                    e.store(sums, place, e.add(e.get(sums, place), pair_products(e, *pair)))
                words = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
                into = e.at(target, e.times(step, str(self.lanes)))
                for line, vector in enumerate(e.transpose(words)):
                    e.store(into, str(line * self.lanes), vector)

            for_each_square(e, terms, lines, square, spare)
            total = e.lane_sums([e.get(sums, str(row * self.lanes)) for row in range(height)])
            e.store(products, e.times(number, str(self.lanes)), total)

        e.for_each("%lo", "%hi", item)
        return module(e)


@dataclasses.dataclass(frozen=True)
class CrossColumns:
    """The kernel that makes the steps of a panel of weights, which is an item.

    A step is the odd words of all columns, then their even words. The last column takes the place of missing ones.
    """

    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, INT32)
        columns, terms, panel = [_COLUMNS.index(e, word) for word in ("columns", "terms", "panel")]
        weight, packed, products = [_COLUMNS.pointer(e, word) for word in ("weight", "packed", "products")]
        spare = e.scratch(self.lanes // 2)
        count = self.lanes * WIDTH

        def item(number: Index) -> None:
            last = e.minus(columns, "1")

            def vector(which: Index) -> None:
                first = e.plus(e.times(number, str(count)), e.times(which, str(self.lanes)))
                lines = [
                    e.address(weight, e.times(e.least(e.plus(first, str(lane)), last), terms), "i8")
                    for lane in range(self.lanes)
                ]
                target = e.at(packed, e.times(number, panel), e.times(which, str(self.lanes)))
                e.store(products, first, e.zeros())

                def square(step: Index, vectors: list[Value]) -> None:
                    into = e.at(target, e.times(step, str(2 * count)))
                    total = e.get(products, first)
                    for line, quads in enumerate(e.transpose(vectors)):
                        even, odd = _even_and_odd(e, quads, INT8)
                        e.store(into, str(2 * count * line), odd)
                        e.store(into, str(2 * count * line + count), even)
                        total = e.add(total, pair_products(e, even, odd))
                    e.store(products, first, total)

                for_each_square(e, terms, lines, square, spare)

            e.for_each("0", str(WIDTH), vector)

        e.for_each("%lo", "%hi", item)
        return module(e)


@dataclasses.dataclass(frozen=True)
class CrossedProduct:
    """The kernel that multiplies; an item is a panel of columns of a block of rows."""

    lanes: int
    finish: Finish

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, INT32)
        height, width = tile_rows(self.lanes), WIDTH * self.lanes
        heights = [height >> shift for shift in range(height.bit_length())]
        rows, columns, steps = [_PRODUCT.index(e, word) for word in ("rows", "columns", "steps")]
        tile, panel, row_blocks = [_PRODUCT.index(e, word) for word in ("tile", "panel", "row_blocks")]
        data, weight = _PRODUCT.pointer(e, "data"), _PRODUCT.pointer(e, "weight")
        sums = e.scratch((_BLOCK_ROWS + height) * width // 2)

        def item(number: Index) -> None:
            which, block = e.split(number, row_blocks)
            first, count = part(e, block, row_blocks, rows, height)
            first_tile = e.quotient(first, str(height))
            column = e.times(which, str(width))
            steps_of_panel = e.at(weight, e.times(which, panel))

            def depth(step: Index) -> None:
                length = e.least(str(_DEPTH), e.minus(steps, step))
                right = e.at(steps_of_panel, e.times(step, str(2 * width)))
                begin: Index = "0"
                for rows_of_tile in heights:
                    tiles = e.quotient(e.minus(count, begin), str(rows_of_tile))
                    stop = e.plus(begin, e.times(tiles, str(rows_of_tile)))

                    def multiply(row: Index, rows_of_tile: int = rows_of_tile) -> None:
                        of_tile, inside = e.split(row, str(height))
                        left = e.at(data, e.times(e.plus(first_tile, of_tile), tile), e.times(step, str(self.lanes)))
                        target = e.at(sums, e.times(row, str(width)))
                        operands = [f"ptr {pointer}" for pointer in (e.at(left, inside), right, target)]
                        e.invoke(f"{name}_{rows_of_tile}", f"i64 {length}", *operands, f"i64 {step}")

                    e.for_each(begin, stop, multiply, str(rows_of_tile))
                    begin = stop

            e.for_each("0", steps, depth, str(_DEPTH))
            self._finish(e, sums, (first, count), (column, e.minus(columns, column)), columns)

        e.for_each("%lo", "%hi", item)
        return module(*[self._tile(f"{name}_{rows}", rows) for rows in heights], e)

    def _tile(self, name: str, rows: int) -> Routine:
        """Return the routine that adds up some steps of a tile, and earlier sums if ``%add`` is not 0."""
        height, width = tile_rows(self.lanes), WIDTH * self.lanes
        arguments = "i64 %steps, ptr noalias %data, ptr noalias %weight, ptr noalias %sums, i64 %add"
        e = Routine(name, self.lanes, INT32, arguments, inner=rows == height)
        places = [str(row * width + vector * self.lanes) for row in range(rows) for vector in range(WIDTH)]

        def step(index: Index, sums: list[Value]) -> list[Value]:
            left = e.at("%data", e.times(index, str(self.lanes)))
            right = e.at("%weight", e.times(index, str(2 * width)))
            weights = [e.get(right, str(place * self.lanes)) for place in range(2 * WIDTH)]
            found: list[Value] = []
            for row in range(rows):
                even, odd = [e.get_splat(left, str(place)) for place in (row, height + row)]
                for v in range(WIDTH):
                    crossed = _add_pairs(e, even, weights[v]), _add_pairs(e, odd, weights[WIDTH + v])
                    found.append(e.add(sums[len(found)], pair_products(e, *crossed)))
            return found

        found = e.loop("0", "%steps", "1", [e.zeros()] * len(places), step)

        def store(adding: bool) -> None:
            for place, total in zip(places, found, strict=True):
                e.store("%sums", place, e.add(e.get("%sums", place), total) if adding else total)

        e.when(e.test("ne", "%add", "0"), lambda: store(True), lambda: store(False))
        return e

    def _finish(
        self, e: Routine, sums: str, rows: tuple[Index, Index], columns: tuple[Index, Index], distance: Index
    ) -> None:
        """Write the code that finishes rows and columns, given by their first and their number.

        It first subtracts the products of numbers of the same operand.
        """
        height = str(tile_rows(self.lanes))
        data_products, weight_products = [_PRODUCT.pointer(e, f"{word}_products") for word in ("data", "weight")]
        operands = [_PRODUCT.pointer(e, word) for word in ("out", "scale", "bias")]

        def sums_of(at: Index, place: Index) -> Callable[[Index], Value]:
            own = e.get(weight_products, place)

            def of_row(number: Index) -> Value:
                tile, inside = e.split(e.plus(rows[0], number), height)
                other = e.get_splat(data_products, e.plus(e.times(tile, str(self.lanes)), inside))
                total = e.get(sums, e.plus(e.times(number, str(WIDTH * self.lanes)), at))
                return e.subtract(e.subtract(total, own), other)

            return of_row

        finish_rectangle(e, self.finish, operands, rows, columns, distance, WIDTH * self.lanes, sums_of)


def dense_plan(sizes: tuple[int, int, int], dtype: DType, lanes: int, finish: Finish) -> Plan:
    """Return the launches of a product of some rows, terms and columns."""
    rows, terms, columns = sizes
    height, width = tile_rows(lanes), WIDTH * lanes
    steps = -(-terms // STEP)
    # squares of bytes are stored whole
    stored = -(-steps // lanes) * lanes
    tiles, panels = -(-rows // height), -(-columns // width)
    row_blocks = -(-rows // _BLOCK_ROWS)
    tile, panel = stored * lanes, stored * 2 * width
    places, end = [], 0
    for words in (tiles * tile, tiles * lanes, panels * panel, panels * width):
        places.append(Reference("scratch", end))
        end += align_up(words * _WORD)
    data, data_products, weight, weight_products = places
    line = {"terms": terms}
    left = _ROWS.fill({**line, "rows": rows, "tile": tile, "packed": data, "products": data_products})
    right = _COLUMNS.fill({**line, "columns": columns, "panel": panel, "packed": weight, "products": weight_products})
    values: dict[str, int | Reference] = {
        "rows": rows,
        "columns": columns,
        "steps": steps,
        "row_blocks": row_blocks,
        "tile": tile,
        "panel": panel,
        "data": data,
        "data_products": data_products,
        "weight": weight,
        "weight_products": weight_products,
    }
    if not finish.is_scaled:
        values.update(scale=Reference("out"), bias=Reference("out"))
    work = -(-rows // row_blocks) * terms * width
    launches = (
        Launch(CrossRows(dtype, lanes), left, tiles, max(1, _CHUNK_BYTES // (height * terms))),
        Launch(CrossColumns(lanes), right, panels, max(1, _CHUNK_BYTES // (width * terms))),
        Launch(
            CrossedProduct(lanes, finish),
            _PRODUCT.fill(values),
            panels * row_blocks,
            max(1, _TASK_WORK // work),
            rows * terms * columns // 50_000_000,
        ),
    )
    # the packed weights and their products are adjacent
    prepared = Prepared(1, "weight", weight.offset, end - weight.offset)
    return Plan(launches, end, (prepared,))
