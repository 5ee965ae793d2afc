"""Tiles: the GEMM kernel, which computes the tasks of a divided product.

The loops are over tasks, blocks of terms, panels of the second operand and tiles of the result. Tiles stay in registers
while they are summed up. If many tiles read the same panel, the first one copies it while reading; a panel with strided
columns is copied beforehand. Packed operands are not copied; each tile prefetches a part of the next panel. Of rows
that are read in place, tiles prefetch what the next panel reads: processors follow a few long lines, but not the short
parts of many rows.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..epilogue import Epilogue, Finish, entry, write_stores
from ..launch import Words
from ..routine import Routine
from .packing import for_each_panel, pack_routines, part, square_side

__all__ = ["DEPTH", "LINE_BYTES", "WIDTH", "WORDS", "Geometry", "product_routines"]

#: terms summed up in registers. This defines the result of a product: another number gives other last bits
DEPTH = 384
#: vectors side by side in a tile
WIDTH = 3
#: bytes of a cache line
LINE_BYTES = 64
#: groups of columns computed at once for a single row
LINE_GROUPS = 2

WORDS = Words(
    *("rows", "columns", "terms", "block_terms", "row_blocks", "column_blocks", "inner", "copied_rows"),
    *("lhs*", "lhs_row", "lhs_term", "lhs_outer", "lhs_inner", "lhs_packed"),
    *("rhs*", "rhs_term", "rhs_column", "rhs_outer", "rhs_inner", "rhs_packed"),
    *("out*", "out_row", "out_outer", "out_inner"),
    *("old*", "old_row", "old_outer", "old_inner", "adds"),
)


class Geometry(Protocol):
    """The parameters of a kernel's text: dtypes, elements of a vector, and rows of a tile."""

    @property
    def dtype(self) -> DType:
        """Dtype of the result and of panels."""

    @property
    def lhs(self) -> DType:
        """Dtype of the first operand."""

    @property
    def rhs(self) -> DType:
        """Dtype of the second operand."""

    @property
    def lanes(self) -> int:
        """Number of elements in a vector."""

    @property
    def tile_rows(self) -> int:
        """Greatest number of rows in a tile: a power of two."""

    @property
    def epilogue(self) -> Epilogue | None:
        """The operators that are applied to the result."""

    def multiply_add(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        """Return one step of a sum of products."""


def product_routines(kernel: Geometry, name: str) -> list[Routine]:
    """Return the routines of a module whose last function, ``name``, multiplies matrices."""
    if kernel.epilogue is None:
        return _routines(kernel, name)
    body = f"{name}_body"
    return [*_routines(kernel, body), entry(name, kernel.epilogue, body)]


def _routines(kernel: Geometry, name: str) -> list[Routine]:
    widths = range(1, WIDTH + 1)
    tiles = [_tile(kernel, f"{name}_tile", height, width) for height in _heights(kernel) for width in widths]
    tiles += [_tile(kernel, f"{name}_copying", kernel.tile_rows, width, copies=True) for width in widths[1:]]
    packing = pack_routines(kernel.dtype, kernel.lanes, WIDTH, kernel.rhs)
    return [*tiles, _line(kernel), _copy_part(kernel), *packing, _Product(kernel, name).routine]


def _line_elements(kernel: Geometry) -> int:
    """Return the number of elements in a cache line."""
    return LINE_BYTES // kernel.dtype.itemsize


def _heights(kernel: Geometry) -> list[int]:
    """Return the numbers of rows in tiles: powers of two, largest first."""
    return [kernel.tile_rows >> shift for shift in range(kernel.tile_rows.bit_length())]


#: arguments of routines that apply an epilogue: the place of what they store in the result, and whether it is complete
_FINISHING = ", ptr noalias %context, i64 %place_row, i64 %place_column, i64 %complete"


def _tile(kernel: Geometry, name: str, height: int, width: int, copies: bool = False) -> Routine:
    """Return the routine of a tile: ``out = old + lhs · rhs`` for some rows and some vectors side by side.

    ``%old`` is the result so far, or zeros (with row stride 0) if there is none. A tile that ``copies`` stores the part
    of ``rhs`` that it reads to ``%soon``, as a panel for other tiles. Others prefetch what they find there for each
    term, and ``%beside`` elements after it.
    """
    arguments = (
        "i64 %terms, ptr noalias %lhs, i64 %lhs_row, i64 %lhs_term, ptr noalias %rhs, i64 %rhs_term, "
        "ptr %old, i64 %old_row, ptr %out, i64 %out_row, ptr %soon, i64 %soon_term, i64 %beside"
    )
    arguments += _FINISHING if kernel.epilogue else ""
    is_inner = height == kernel.tile_rows
    e = Routine(f"{name}_{height}_{width}", kernel.lanes, kernel.dtype, arguments, inner=is_inner)
    read = kernel.rhs if copies else kernel.dtype
    numbers = [e.at("%lhs", e.times(str(row), "%lhs_row"), dtype=kernel.lhs) for row in range(height)]
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")

    if is_inner:
        # a product of few terms would wait for the lines of memory that it stores to
        for row in range(height):
            for offset in range(0, width * e.lanes, _line_elements(kernel)):
                place = e.at("%out", e.times(str(row), "%out_row"), str(offset))
                e.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")

    def term(index: Index, sums: list[Value]) -> list[Value]:
        line, place = e.at("%rhs", e.times(index, "%rhs_term"), dtype=read), e.times(index, "%lhs_term")
        vectors = [e.get(line, str(vector * e.lanes), read) for vector in range(width)]
        found: list[Value] = []
        soon = e.at("%soon", e.times(index, "%soon_term"))
        if copies:
            for place_beside, vector in enumerate(vectors):
                e.store(soon, str(place_beside * e.lanes), vector)
        elif is_inner:
            for place_ahead in (soon, e.at(soon, "%beside")):
                e.line(f"call void @llvm.prefetch.p0(ptr {place_ahead}, i32 0, i32 2, i32 1)")
        for row in range(height):
            number = e.get_splat(numbers[row], place, kernel.lhs)
            found += [kernel.multiply_add(e, number, vector, sums[len(found) + v]) for v, vector in enumerate(vectors)]
        return found

    sums = e.loop("0", "%terms", "1", [e.zeros()] * (height * width), term)

    def write(finish: Finish | None) -> None:
        for row in range(height):
            old, out = [e.at(f"%{name}", e.times(str(row), f"%{name}_row")) for name in ("old", "out")]
            operands = {} if finish is None else finish.row(e.plus("%place_row", str(row)))
            for vector in range(width):
                offset = str(vector * e.lanes)
                # turn sums of -0 into 0 before every store, so that adding them to ``old`` gives the same bits
                value = e.add(e.get(old, offset), e.add(e.zeros(), sums[row * width + vector]))
                if finish is not None:
                    value = finish.value(operands, value, out, offset, column=e.plus("%place_column", offset))
                e.store(out, offset, value)

    write_stores(kernel.epilogue, e, write)
    return e


def _line(kernel: Geometry) -> Routine:
    """Return the routine for a few columns of a single row, if the terms of ``rhs`` are contiguous in memory.

    It transposes squares so that each column has its own lane, and gathers the remaining terms.
    """
    arguments = (
        "i64 %terms, ptr noalias %lhs, i64 %lhs_term, ptr noalias %rhs, i64 %rhs_column, i64 %columns, "
        "ptr %old, ptr %out"
    )
    arguments += _FINISHING if kernel.epilogue else ""
    side = square_side(kernel.dtype, kernel.lanes)
    e = Routine("line", side, kernel.dtype, arguments)
    firsts = [str(side * group) for group in range(LINE_GROUPS)]
    masks = [e.below(e.minus("%columns", first)) for first in firsts]
    starts = [e.at("%rhs", e.times(first, "%rhs_column"), dtype=kernel.rhs) for first in firsts]
    whole = e.test("eq", "%columns", str(side * LINE_GROUPS))
    squares = e.select_index(whole, e.assign(f"and i64 %terms, {-side}"), "0")

    def number(term: Index) -> Value:
        return e.get_splat("%lhs", e.times(term, "%lhs_term"), kernel.lhs)

    def square(term: Index, sums: list[Value]) -> list[Value]:
        numbers = [number(e.plus(term, str(line))) for line in range(side)]
        found = []
        for start, total in zip(starts, sums, strict=True):
            places = [e.at(start, term, e.times(str(line), "%rhs_column"), dtype=kernel.rhs) for line in range(side)]
            lines = [e.get(place, dtype=kernel.rhs) for place in places]
            for line, vector in enumerate(e.transpose(lines)):
                total = kernel.multiply_add(e, numbers[line], vector, total)
            found.append(total)
        return found

    def single(term: Index, sums: list[Value]) -> list[Value]:
        factor, found = number(term), []
        for start, mask, total in zip(starts, masks, sums, strict=True):
            column = e.gather(e.at(start, term, dtype=kernel.rhs), "0", "%rhs_column", kernel.rhs, mask)
            found.append(kernel.multiply_add(e, factor, e.widen(column), total))
        return found

    sums = e.loop("0", squares, str(side), [e.zeros()] * LINE_GROUPS, square)
    sums = e.loop(squares, "%terms", "1", sums, single)

    def write(finish: Finish | None) -> None:
        operands = {} if finish is None else finish.row("%place_row")
        for first, mask, total in zip(firsts, masks, sums, strict=True):
            value = e.add(e.get_where("%old", mask, first), e.add(e.zeros(), total))
            if finish is not None:
                value = finish.value(operands, value, "%out", first, mask, e.plus("%place_column", first))
            e.store_where("%out", first, value, mask)

    write_stores(kernel.epilogue, e, write)
    return e


def _copy_part(kernel: Geometry) -> Routine:
    """Return the routine that adds a tile in scratch memory to the existing columns of the result."""
    arguments = (
        "ptr noalias %tile, i64 %tile_row, ptr %old, i64 %old_row, ptr %out, i64 %out_row, i64 %rows, i64 %columns"
    )
    arguments += _FINISHING if kernel.epilogue else ""
    e = Routine("copy_part", kernel.lanes, kernel.dtype, arguments)

    def write(finish: Finish | None) -> None:
        def row(number: Index) -> None:
            tile, old, out = [e.at(f"%{name}", e.times(number, f"%{name}_row")) for name in ("tile", "old", "out")]
            operands = {} if finish is None else finish.row(e.plus("%place_row", number))

            def vector(column: Index) -> None:
                mask = e.below(e.minus("%columns", column))
                value = e.add(e.get_where(old, mask, column), e.get(tile, column))
                if finish is not None:
                    value = finish.value(operands, value, out, column, mask, e.plus("%place_column", column))
                e.store_where(out, column, value, mask)

            e.for_each("0", "%columns", vector, str(e.lanes))

        e.for_each("0", "%rows", row)

    write_stores(kernel.epilogue, e, write)
    return e


class _Panel(NamedTuple):
    """A panel of a block: its columns in the task, their number in elements and vectors, and its memory."""

    column: Index
    width: Index
    vectors: Index
    padded: Index
    whole: str
    memory: str
    distance: Index
    """Distance between its rows."""


class _Product:
    """Writes the kernel itself, task by task."""

    def __init__(self, kernel: Geometry, name: str) -> None:
        self.kernel = kernel
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype)
        words = kernel.dtype.itemsize * kernel.lanes * WIDTH // 8
        self.panel, self.tile = e.scratch(DEPTH * words), e.scratch(kernel.tile_rows * words)
        self.zeros = e.scratch(words)
        self.context = "" if kernel.epilogue is None else kernel.epilogue.context(e)
        e.clear(self.zeros, str(kernel.lanes * WIDTH))
        e.for_each("%lo", "%hi", self._task)

    def word(self, name: str) -> Index:
        """Return an integer of the table."""
        return WORDS.index(self.routine, name)

    def pointer(self, condition: str, first: str, second: str) -> str:
        """Return one of two addresses."""
        return self.routine.assign(f"select i1 {condition}, ptr {first}, ptr {second}")

    def _operand(self, name: str, outer: Index, inner: Index, dtype: DType) -> str:
        e = self.routine
        offsets = e.times(outer, self.word(f"{name}_outer")), e.times(inner, self.word(f"{name}_inner"))
        return e.at(WORDS.pointer(e, name), *offsets, dtype=dtype)

    def _task(self, number: Index) -> None:
        e = self.routine
        blocks, column_block = e.split(number, self.word("column_blocks"))
        pair, row_block = e.split(blocks, self.word("row_blocks"))
        outer, inner = e.split(pair, self.word("inner"))
        tile_rows = self.kernel.tile_rows
        self.first_row, self.rows = part(e, row_block, self.word("row_blocks"), self.word("rows"), tile_rows)
        self.first_column, self.columns = part(
            e, column_block, self.word("column_blocks"), self.word("columns"), e.lanes
        )
        #: the numbers of the first row and column among those of all matrices of the inner batch axis
        self.place_row = e.plus(e.times(inner, self.word("rows")), self.first_row)
        self.place_column = e.plus(e.times(inner, self.word("columns")), self.first_column)
        self.lhs_row, self.lhs_term = self.word("lhs_row"), self.word("lhs_term")
        self.rhs_term, self.rhs_column = self.word("rhs_term"), self.word("rhs_column")
        self.out_row = self.word("out_row")
        dtype = self.kernel.dtype
        self.lhs = self._operand("lhs", outer, inner, self.kernel.lhs)
        self.rhs = self._operand("rhs", outer, inner, self.kernel.rhs)
        out = self._operand("out", outer, inner, dtype)
        self.out = e.at(out, e.times(self.first_row, self.out_row), self.first_column)
        adds, old_row = e.test("ne", self.word("adds"), "0"), self.word("old_row")
        old = e.at(self._operand("old", outer, inner, dtype), e.times(self.first_row, old_row), self.first_column)
        self.old, self.old_row = self.pointer(adds, old, self.zeros), e.select_index(adds, old_row, "0")
        # all panels share the same zeros
        self.old_column = e.select_index(adds, "1", "0")
        terms = self.word("terms")
        # sums without terms are zeros, which must be stored too
        e.for_each("0", e.most(terms, "1"), lambda first: _Block(self, first, terms).write(), self.word("block_terms"))


class _Block:
    """Writes the sums over a block of terms."""

    def __init__(self, product: _Product, first: Index, terms: Index) -> None:
        self.product = product
        self.kernel = product.kernel
        self.routine = e = product.routine
        self.depth = e.least(product.word("block_terms"), e.minus(terms, first))
        #: whether no block of terms follows
        self.complete = e.test("sge", e.plus(first, self.depth), terms)
        later = e.test("ne", first, "0")
        self.old = product.pointer(later, product.out, product.old)
        self.old_row = e.select_index(later, product.out_row, product.old_row)
        self.old_column = e.select_index(later, "1", product.old_column)
        self.tile_rows = str(self.kernel.tile_rows)
        self.tiles = e.quotient(e.plus(product.rows, str(self.kernel.tile_rows - 1)), self.tile_rows)
        # the rows of a packed tile are adjacent
        packed_rows = product.word("lhs_packed")
        by_row = e.test("ne", packed_rows, "0")
        self.tile_distance = e.times(self.tile_rows, e.select_index(by_row, self.depth, product.lhs_row))
        first_tile = e.times(e.quotient(product.first_row, self.tile_rows), self.tile_distance)
        lhs_term = e.select_index(by_row, packed_rows, product.lhs_term)
        self.lhs = e.at(product.lhs, e.times(first, lhs_term), first_tile, dtype=self.kernel.lhs)
        offsets = e.times(product.first_column, product.rhs_column), e.times(first, product.rhs_term)
        self.rhs = e.at(product.rhs, *offsets, dtype=self.kernel.rhs)
        packed_columns = product.word("rhs_packed")
        self.packed = e.test("ne", packed_columns, "0")
        self.in_order = e.logical_and(e.test("eq", product.rhs_column, "1"), e.test("eq", packed_columns, "0"))
        self.packed_rhs = e.at(product.rhs, e.times(first, packed_columns))
        self.several = e.test("sge", product.rows, product.word("copied_rows"))
        # the panel after the last is the first one of the next block, or of the next task
        stop = e.plus(first, self.depth)
        later_depth = e.least(product.word("block_terms"), e.minus(terms, stop))
        self.next_block = product.pointer(
            e.test("slt", stop, terms),
            e.at(product.rhs, e.times(stop, packed_columns), e.times(product.first_column, later_depth)),
            e.at(product.rhs, e.times(e.plus(product.first_column, product.columns), product.word("block_terms"))),
        )

    def write(self) -> None:
        """Write the loops over panels, or over parts of a single row of the result."""
        e, product = self.routine, self.product
        turned = e.logical_and(e.test("eq", product.rhs_term, "1"), e.test("ne", product.rhs_column, "1"))
        step = str(square_side(self.kernel.dtype, e.lanes) * LINE_GROUPS)

        def line(column: Index) -> None:
            numbers = [f"i64 {self.depth}", f"ptr {self.lhs}", f"i64 {product.lhs_term}"]
            start = e.at(self.rhs, e.times(column, product.rhs_column), dtype=self.kernel.rhs)
            numbers += [f"ptr {start}", f"i64 {product.rhs_column}"]
            numbers.append(f"i64 {e.least(step, e.minus(product.columns, column))}")
            place = [f"ptr {e.at(self.old, e.times(column, self.old_column))}", f"ptr {e.at(product.out, column)}"]
            e.invoke("line", *numbers, *place, *self._finishing("0", column, self.complete))

        e.when(
            e.logical_and(turned, e.test("eq", product.rows, "1")),
            lambda: e.for_each("0", product.columns, line, step),
            lambda: for_each_panel(e, product.columns, WIDTH, self._panel),
        )

    def _panel(self, column: Index, width: Index, vectors: Index, padded: Index) -> None:
        """Write the code for a panel: its copy if needed, and all tiles."""
        e, product, depth = self.routine, self.product, self.depth
        whole = e.test("eq", padded, width)
        readable = e.logical_and(self.in_order, whole)
        worth = e.logical_and(self.several, e.test("ne", vectors, "1"))
        copying, direct = e.logical_and(readable, worth), e.logical_and(readable, e.assign(f"xor i1 {worth}, true"))
        if self.kernel.rhs != self.kernel.dtype:
            # tiles read panels of the dtype of the result
            readable, direct = copying, "false"
        source = e.at(self.rhs, e.times(column, product.rhs_column), dtype=self.kernel.rhs)
        copied = [f"ptr {product.panel}", f"i64 {padded}", f"ptr {source}", f"i64 {product.rhs_term}"]
        copied += [f"i64 {product.rhs_column}", f"i64 {depth}", f"i64 {width}"]
        there = e.assign(f"or i1 {readable}, {self.packed}")
        e.when(there, lambda: None, lambda: e.invoke("pack", *copied))
        copy = e.at(self.packed_rhs, e.times(e.plus(product.first_column, column), depth))
        memory = product.pointer(self.packed, copy, product.pointer(direct, source, product.panel))
        distance = e.select_index(direct, product.rhs_term, padded)
        panel = _Panel(column, width, vectors, padded, whole, memory, distance)
        # each tile prefetches a part of the next panel
        is_last = e.test("eq", e.plus(column, width), product.columns)
        following = product.pointer(is_last, self.next_block, e.at(copy, e.times(padded, depth)))
        soon = product.pointer(self.packed, following, memory)
        soon_term = e.select_index(self.packed, e.quotient(e.total(padded, self.tiles, "-1"), self.tiles), "0")
        # or, of rows that are read in place, one cache line
        beside, line = e.at(source, padded, dtype=self.kernel.rhs), _line_elements(self.kernel)
        lines = str(-(-WIDTH * e.lanes // line))

        def first_tile() -> None:
            reading = panel._replace(memory=source, distance=product.rhs_term)
            self._tile("copying", self.kernel.tile_rows, "0", reading, (product.panel, padded, "0"))

        e.when(copying, first_tile)
        start: Index = e.select_index(copying, self.tile_rows, "0")
        first = e.quotient(start, self.tile_rows)
        for height in _heights(self.kernel):
            count = e.quotient(e.minus(product.rows, start), str(height))
            stop = e.plus(start, e.times(count, str(height)))

            def tiles(row: Index, height: int = height) -> None:
                number = e.quotient(row, self.tile_rows)
                fetched = e.minus(number, first)
                fetches = e.logical_and(self.in_order, e.test("slt", fetched, lines))
                place = product.pointer(
                    fetches,
                    e.at(beside, e.times(fetched, str(line)), dtype=self.kernel.rhs),
                    e.at(soon, e.times(e.times(number, depth), soon_term)),
                )
                # tiles that are fewer than lines prefetch two of them
                after = e.test("slt", e.plus(fetched, self.tiles), lines)
                beside_it = e.select_index(e.logical_and(fetches, after), e.times(self.tiles, str(line)), "0")
                ahead = place, e.select_index(fetches, product.rhs_term, soon_term), beside_it
                self._tile("tile", height, row, panel, ahead)

            e.for_each(start, stop, tiles, str(height))
            start = stop

    def _finishing(self, row: Index, column: Index, complete: str) -> list[str]:
        """Return the arguments of an epilogue at a place in the task."""
        e, product = self.routine, self.product
        if not product.context:
            return []
        places = e.plus(product.place_row, row), e.plus(product.place_column, column)
        numbers = *places, e.assign(f"zext i1 {complete} to i64")
        return [f"ptr {product.context}", *[f"i64 {number}" for number in numbers]]

    def _tile(self, name: str, height: int, row: Index, panel: _Panel, soon: tuple[str, Index, Index]) -> None:
        """Write the call of a tile; a tile beyond the edge of the result goes through scratch memory."""
        e, product = self.routine, self.product
        number, inside = e.split(row, self.tile_rows)
        offsets = e.times(number, self.tile_distance), e.times(inside, product.lhs_row)
        lhs = e.at(self.lhs, *offsets, dtype=self.kernel.lhs)
        operands = [f"i64 {self.depth}", f"ptr {lhs}", f"i64 {product.lhs_row}", f"i64 {product.lhs_term}"]
        operands += [f"ptr {panel.memory}", f"i64 {panel.distance}"]
        out = e.at(product.out, panel.column, e.times(row, product.out_row))
        old = e.at(self.old, e.times(panel.column, self.old_column), e.times(row, self.old_row))
        from_out = [f"ptr {product.pointer(panel.whole, old, product.zeros)}"]
        from_out.append(f"i64 {e.select_index(panel.whole, self.old_row, '0')}")
        to_out = [f"ptr {product.pointer(panel.whole, out, product.tile)}"]
        to_out.append(f"i64 {e.select_index(panel.whole, product.out_row, panel.padded)}")
        ahead = [f"ptr {soon[0]}", f"i64 {soon[1]}", f"i64 {soon[2]}"]
        finishing = self._finishing(row, panel.column, e.logical_and(self.complete, panel.whole))
        least = 2 if name == "copying" else 1

        def call(count: int) -> None:
            e.invoke(f"{e.name}_{name}_{height}_{count}", *operands, *from_out, *to_out, *ahead, *finishing)

        def fewer(count: int) -> None:
            if count == least:
                call(count)
            else:
                e.when(e.test("eq", panel.vectors, str(count)), lambda: call(count), lambda: fewer(count - 1))

        fewer(WIDTH)
        rest = [f"ptr {product.tile}", f"i64 {panel.padded}", f"ptr {old}", f"i64 {self.old_row}", f"ptr {out}"]
        rest += [f"i64 {product.out_row}", f"i64 {height}", f"i64 {panel.width}"]
        rest += self._finishing(row, panel.column, self.complete)
        if name == "tile":
            e.when(panel.whole, lambda: None, lambda: e.invoke("copy_part", *rest))
