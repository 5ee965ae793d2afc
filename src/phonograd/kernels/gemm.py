"""Products of matrices: one kernel per dtype, for any sizes, strides and number of products.

Tiles of the result stay in registers while they are summed up: with 32 registers 8 rows of 3 vectors are 24 sums, and
there is room for 3 vectors of the second operand and a number of the first in every lane. The first operand is read
where it lies, whatever its strides are. So is the second where its rows are contiguous; otherwise, and where many rows
of the result share them, panels of it (3 vectors wide) are copied to memory of the kernel's own. For a single row of
the result a second operand that lies transposed is turned in registers instead: it is read only once anyway.

**The order of a sum** depends on its length alone: terms are added one after the other, each product rounded together
with its sum, in blocks of equal length of at most 384 terms, and the blocks are added up in sequence. Tiles, panels and
the division among threads are chosen for speed: bits do not depend on them, nor on how the operands lie in memory.

A product of one block may be **added** to another matrix, where the sum would otherwise be a kernel of its own: it is
rounded in the same order.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ..dtypes import DType
from .function import Index, Value
from .launch import Launch, Reference, Words
from .machine import Machine
from .routine import Routine, module

__all__ = ["Gemm", "Matrices", "product"]

#: terms that are summed up in registers. Part of what a product means: another number gives other last bits
DEPTH = 384
#: vectors side by side in a tile
WIDTH = 3
#: groups of columns that a single row is computed for at once
LINE_GROUPS = 2
#: rows of the result above which copying a panel of the second operand costs less than reading scattered lines
SHARED_ROWS = 96
#: rows of the result that are computed with one panel before the next
BLOCK_ROWS = 256
#: multiplications worth handing to another thread: 5 to 10 microseconds of work
TASK_WORK = 1 << 19
#: multiplications that a kernel which was compiled quickly takes as long for as others for a chunk
QUICK_WORK = 20_000
#: size of an operand that fits into the cache of every processor, beside others
SMALL_BYTES = 1 << 19
#: tasks of a large product: enough for many threads, and large enough to use again what is in a cache
TASKS = 32

_WORDS = Words(
    *("rows", "columns", "terms", "block_terms", "row_blocks", "column_blocks", "inner", "share"),
    *("lhs*", "lhs_row", "lhs_term", "lhs_outer", "lhs_inner"),
    *("rhs*", "rhs_term", "rhs_column", "rhs_outer", "rhs_inner"),
    *("out*", "out_row", "out_outer", "out_inner"),
    *("old*", "old_row", "old_outer", "old_inner", "adds"),
)


class Matrices(NamedTuple):
    """Where some matrices of one shape lie: elements between rows, columns, and along two axes of matrices."""

    row: int
    column: int
    outer: int = 0
    inner: int = 0

    @property
    def transposed(self) -> Matrices:
        """The same matrices with rows as columns."""
        return Matrices(self.column, self.row, self.outer, self.inner)


def product(
    sizes: tuple[int, int, int],
    count: tuple[int, int],
    lhs: Matrices,
    rhs: Matrices,
    out: Matrices,
    kernel: Gemm,
    old: Matrices | None = None,
    names: tuple[str, str] = ("lhs", "rhs"),
) -> Launch:
    """Return the launch that computes ``out = lhs · rhs`` for ``count[0] * count[1]`` pairs of matrices.

    Parameters
    ----------
    sizes
        Rows of ``lhs``, terms of a sum, columns of ``rhs``.
    count
        Matrices along the outer and the inner axis.
    lhs, rhs, out
        The strides of the operands; columns of ``out`` follow each other.
    old
        If given, the strides of matrices to which the products are added; their columns follow each other, and they
        may lie where ``out`` does. Sums have one block of terms then.
    names
        What the first two operands are called.
    """
    rows, terms, columns = sizes
    assert old is None or terms <= DEPTH, sizes
    blocks = max(1, -(-terms // DEPTH))
    row_blocks, column_blocks = _tasks(sizes, rhs.column == 1, kernel)
    values: dict[str, int | Reference] = {
        "rows": rows,
        "columns": columns,
        "terms": terms,
        "block_terms": max(1, -(-terms // blocks)),
        "row_blocks": row_blocks,
        "column_blocks": column_blocks,
        "inner": count[1],
        "share": int(rows // row_blocks >= SHARED_ROWS),
        "lhs": Reference(names[0]),
        "lhs_row": lhs.row,
        "lhs_term": lhs.column,
        "lhs_outer": lhs.outer,
        "lhs_inner": lhs.inner,
        "rhs": Reference(names[1]),
        "rhs_term": rhs.row,
        "rhs_column": rhs.column,
        "rhs_outer": rhs.outer,
        "rhs_inner": rhs.inner,
        "out_row": out.row,
        "out_outer": out.outer,
        "out_inner": out.inner,
        "old": Reference("out" if old is None else "old"),
        "old_row": 0 if old is None else old.row,
        "old_outer": 0 if old is None else old.outer,
        "old_inner": 0 if old is None else old.inner,
        "adds": int(old is not None),
    }
    tasks = row_blocks * column_blocks * count[0] * count[1] if rows and columns else 0
    work = max(rows, kernel.tile_rows) * max(1, terms) * columns // (row_blocks * column_blocks)
    total = rows * terms * columns * count[0] * count[1]
    return Launch(kernel, _WORDS.fill(values), tasks, max(1, TASK_WORK // max(1, work)), total // QUICK_WORK)


def _tasks(sizes: tuple[int, int, int], readable: bool, kernel: Gemm) -> tuple[int, int]:
    """Return into how many blocks the rows and the columns of a result are divided; each pair of blocks is a task.

    Columns are divided first where panels are copied: whoever copies one should use it for as many rows as possible. If
    the second operand is read where it lies and fits into the cache of every processor, rows are divided first: what is
    computed from them next is probably divided in the same way.
    """
    rows, terms, columns = [max(1, size) for size in sizes]
    # with fewer rows than a tile has, time is spent on reading
    total = max(rows, kernel.tile_rows) * terms * columns
    wanted = min(TASKS, max(1, total // TASK_WORK))
    tiles, panels = -(-rows // kernel.tile_rows), -(-columns // kernel.panel)
    if readable and rows < SHARED_ROWS and terms * columns * kernel.dtype.itemsize <= SMALL_BYTES:
        row_blocks = _evenly(min(wanted, tiles))
        return row_blocks, _evenly(min(panels, max(1, wanted // row_blocks)))
    row_blocks = -(-rows // BLOCK_ROWS)
    column_blocks = _evenly(min(panels, max(1, wanted // row_blocks)))
    # with few columns only rows are left to be divided
    most = max(1, min(rows // SHARED_ROWS, wanted // column_blocks))
    return max(row_blocks, _evenly(most)), column_blocks


def _evenly(blocks: int) -> int:
    """Return a number of blocks, or fewer, that are as many for each of two or four threads.

    >>> [_evenly(blocks) for blocks in range(1, 9)]
    [1, 2, 2, 4, 4, 4, 4, 8]
    """
    return blocks // 4 * 4 if blocks >= 4 else min(blocks, 2)


@dataclasses.dataclass(frozen=True)
class Gemm:
    """The kernel of products in one dtype."""

    dtype: DType
    machine: Machine

    @property
    def lanes(self) -> int:
        """How many elements a vector holds."""
        return self.machine.lanes(self.dtype)

    @property
    def panel(self) -> int:
        """How many columns of the second operand are taken at once."""
        return WIDTH * self.lanes

    @property
    def tile_rows(self) -> int:
        """How many rows of a tile fit into registers, besides a vector of each operand."""
        return 8 if self.machine.registers >= 32 else 4

    def write(self, name: str) -> str:
        """Return the text of the module."""
        tiles = [_tile(self, height, width) for height in self.heights for width in range(1, WIDTH + 1)]
        return module(*tiles, _line(self), _copy_part(self), _pack(self), _Product(self, name).routine)

    @property
    def side(self) -> int:
        """The side of squares that are transposed in registers: larger ones take longer to compile than they save."""
        return min(self.lanes, 32 // self.dtype.itemsize)

    @property
    def heights(self) -> list[int]:
        """The numbers of rows that tiles are made for: powers of two, largest first."""
        return [self.tile_rows >> shift for shift in range(self.tile_rows.bit_length())]


def _tile(kernel: Gemm, height: int, width: int) -> Routine:
    """Return the routine of a tile: ``out = old + lhs · rhs`` for some rows and some vectors side by side.

    ``%old`` is the result so far, or zeros (with distance 0 between rows) where there is none.
    """
    arguments = (
        "i64 %terms, ptr noalias %lhs, i64 %lhs_row, i64 %lhs_term, ptr noalias %rhs, i64 %rhs_term, "
        "ptr %old, i64 %old_row, ptr %out, i64 %out_row"
    )
    e = Routine(f"tile_{height}_{width}", kernel.lanes, kernel.dtype, arguments)
    numbers = [e.at("%lhs", e.times(str(row), "%lhs_row")) for row in range(height)]
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for row in range(height):
        # what is written at the end should be on its way by then
        out = e.at("%out", e.times(str(row), "%out_row"))
        for vector in range(width):
            e.line(f"call void @llvm.prefetch.p0(ptr {e.at(out, str(vector * e.lanes))}, i32 1, i32 3, i32 1)")

    def term(index: Index, sums: list[Value]) -> list[Value]:
        line, place = e.at("%rhs", e.times(index, "%rhs_term")), e.times(index, "%lhs_term")
        vectors = [e.get(line, str(vector * e.lanes)) for vector in range(width)]
        found: list[Value] = []
        for row in range(height):
            number = e.spread(numbers[row], place)
            found += [e.fma(number, vector, sums[len(found) + v]) for v, vector in enumerate(vectors)]
        return found

    sums = e.loop("0", "%terms", "1", [e.zeros()] * (height * width), term)
    for row in range(height):
        old, out = [e.at(f"%{name}", e.times(str(row), f"%{name}_row")) for name in ("old", "out")]
        for vector in range(width):
            offset = str(vector * e.lanes)
            # sums that are -0 become 0 wherever they are written, so also before they are added to something
            e.store(out, offset, e.add(e.get(old, offset), e.add(e.zeros(), sums[row * width + vector])))
    return e


def _line(kernel: Gemm) -> Routine:
    """Return the routine of a few columns of a single row, whose terms follow each other in memory.

    Squares are turned so that each column is in a lane of its own; the terms that are left are gathered.
    """
    arguments = (
        "i64 %terms, ptr noalias %lhs, i64 %lhs_term, ptr noalias %rhs, i64 %rhs_column, i64 %columns, "
        "ptr %old, ptr %out"
    )
    side = kernel.side
    e = Routine("line", side, kernel.dtype, arguments)
    firsts = [str(side * group) for group in range(LINE_GROUPS)]
    masks = [e.below(e.minus("%columns", first)) for first in firsts]
    starts = [e.at("%rhs", e.times(first, "%rhs_column")) for first in firsts]
    whole = e.test("eq", "%columns", str(side * LINE_GROUPS))
    squares = e.either(whole, e.assign(f"and i64 %terms, {-side}"), "0")

    def number(term: Index) -> Value:
        return e.spread("%lhs", e.times(term, "%lhs_term"))

    def square(term: Index, sums: list[Value]) -> list[Value]:
        numbers = [number(e.plus(term, str(line))) for line in range(side)]
        found = []
        for start, total in zip(starts, sums, strict=True):
            lines = [e.get(e.at(start, term, e.times(str(line), "%rhs_column"))) for line in range(side)]
            for line, vector in enumerate(e.transpose(lines)):
                total = e.fma(numbers[line], vector, total)
            found.append(total)
        return found

    def single(term: Index, sums: list[Value]) -> list[Value]:
        factor, found = number(term), []
        for start, mask, total in zip(starts, masks, sums, strict=True):
            column = e.gather(e.at(start, term), "0", "%rhs_column", kernel.dtype, mask)
            found.append(e.fma(factor, column, total))
        return found

    sums = e.loop("0", squares, str(side), [e.zeros()] * LINE_GROUPS, square)
    sums = e.loop(squares, "%terms", "1", sums, single)
    for first, mask, total in zip(firsts, masks, sums, strict=True):
        e.store_where("%out", first, e.add(e.get_where("%old", mask, first), e.add(e.zeros(), total)), mask)
    return e


def _copy_part(kernel: Gemm) -> Routine:
    """Return the routine that adds a tile in memory of the kernel's own to those columns of the result that exist."""
    arguments = (
        "ptr noalias %tile, i64 %tile_row, ptr %old, i64 %old_row, ptr %out, i64 %out_row, i64 %rows, i64 %columns"
    )
    e = Routine("copy_part", kernel.lanes, kernel.dtype, arguments)

    def row(number: Index) -> None:
        tile, old, out = [e.at(f"%{name}", e.times(number, f"%{name}_row")) for name in ("tile", "old", "out")]

        def vector(column: Index) -> None:
            mask = e.below(e.minus("%columns", column))
            e.store_where(out, column, e.add(e.get_where(old, mask, column), e.get(tile, column)), mask)

        e.each("0", "%columns", vector, str(e.lanes))

    e.each("0", "%rows", row)
    return e


def _pack(kernel: Gemm) -> Routine:
    """Return the routine that copies a panel: row by row the columns that exist, and zeros up to ``%width``."""
    arguments = (
        "ptr noalias %panel, i64 %width, ptr noalias %source, i64 %source_term, i64 %source_column, "
        "i64 %terms, i64 %columns"
    )
    side = kernel.side
    e = Routine("pack", side, kernel.dtype, arguments)
    whole_columns, whole_terms = [e.assign(f"and i64 {size}, {-side}") for size in ("%columns", "%terms")]
    mask = e.below(e.minus("%columns", whole_columns))

    def panel(term: Index, column: Index) -> str:
        return e.at("%panel", e.times(term, "%width"), column)

    def source(term: Index, column: Index) -> str:
        return e.at("%source", e.times(term, "%source_term"), e.times(column, "%source_column"))

    def clear(term: Index) -> None:
        e.each(whole_columns, "%width", lambda column: e.store(panel(term, column), "0", e.zeros()), str(side))

    def one_by_one(first_term: Index, first_column: Index, last_column: Index) -> None:
        def line(term: Index) -> None:
            def one(column: Index) -> None:
                e.put_one(panel(term, column), e.get_one(source(term, column)))

            e.each(first_column, last_column, one)

        e.each(first_term, "%terms", line)

    def rows() -> None:
        def row(term: Index) -> None:
            line = e.at("%source", e.times(term, "%source_term"))
            e.each("0", whole_columns, lambda column: e.store(panel(term, column), "0", e.get(line, column)), str(side))
            rest = e.test("slt", whole_columns, "%columns")
            e.when(rest, lambda: e.store(panel(term, whole_columns), "0", e.get_where(line, mask, whole_columns)))

        e.each("0", "%terms", row)

    def squares() -> None:
        def square(term: Index) -> None:
            def turn(column: Index) -> None:
                lines = [e.get(source(term, e.plus(column, str(line)))) for line in range(side)]
                for line, value in enumerate(e.transpose(lines)):
                    e.store(panel(e.plus(term, str(line)), column), "0", value)

            e.each("0", whole_columns, turn, str(side))

        e.each("0", whole_terms, square, str(side))
        one_by_one(whole_terms, "0", whole_columns)
        one_by_one("0", whole_columns, "%columns")

    e.when(e.test("slt", whole_columns, "%width"), lambda: e.each("0", "%terms", clear))
    e.when(
        e.test("eq", "%source_column", "1"),
        rows,
        lambda: e.when(e.test("eq", "%source_term", "1"), squares, lambda: one_by_one("0", "0", "%columns")),
    )
    return e


class _Product:
    """The state of writing the kernel itself: loops over tasks, blocks of terms, panels and tiles."""

    def __init__(self, kernel: Gemm, name: str) -> None:
        self.kernel = kernel
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype)
        words = kernel.dtype.itemsize * kernel.panel // 8
        self.panel, self.tile = e.scratch(DEPTH * words), e.scratch(kernel.tile_rows * words)
        self.zeros = e.scratch(words)
        e.clear(self.zeros, str(kernel.panel))
        e.each("%lo", "%hi", self._task)

    def _word(self, name: str) -> Index:
        return _WORDS.index(self.routine, name)

    def _operand(self, name: str, outer: Index, inner: Index) -> str:
        e = self.routine
        pointer = _WORDS.pointer(e, name)
        return e.at(pointer, e.times(outer, self._word(f"{name}_outer")), e.times(inner, self._word(f"{name}_inner")))

    def _pointer(self, condition: str, first: str, second: str) -> str:
        return self.routine.assign(f"select i1 {condition}, ptr {first}, ptr {second}")

    def _task(self, number: Index) -> None:
        e = self.routine
        blocks, column_block = e.split(number, self._word("column_blocks"))
        pair, row_block = e.split(blocks, self._word("row_blocks"))
        outer, inner = e.split(pair, self._word("inner"))
        first_row, self.rows = self._part("row", row_block, self.kernel.tile_rows)
        first_column, self.columns = self._part("column", column_block, e.lanes)
        self.lhs_row, self.lhs_term = self._word("lhs_row"), self._word("lhs_term")
        self.rhs_term, self.rhs_column = self._word("rhs_term"), self._word("rhs_column")
        self.out_row = self._word("out_row")
        self.lhs = e.at(self._operand("lhs", outer, inner), e.times(first_row, self.lhs_row))
        self.rhs = e.at(self._operand("rhs", outer, inner), e.times(first_column, self.rhs_column))
        self.out = e.at(self._operand("out", outer, inner), e.times(first_row, self.out_row), first_column)
        adds, old_row = e.test("ne", self._word("adds"), "0"), self._word("old_row")
        old = e.at(self._operand("old", outer, inner), e.times(first_row, old_row), first_column)
        self.old, self.old_row = self._pointer(adds, old, self.zeros), e.either(adds, old_row, "0")
        # zeros are the same for every panel
        self.old_column = e.either(adds, "1", "0")
        terms = self._word("terms")
        # sums without terms are zeros, which must be written too
        e.each("0", e.most(terms, "1"), lambda first: self._block(first, terms), self._word("block_terms"))

    def _part(self, name: str, block: Index, unit: int) -> tuple[Index, Index]:
        """Return where a block of rows or columns begins, and how many there are: blocks differ by one unit at most."""
        e = self.routine
        blocks, size = self._word(f"{name}_blocks"), self._word(f"{name}s")
        units = e.quotient(e.plus(size, str(unit - 1)), str(unit))
        first, after = [e.times(e.quotient(e.times(n, units), blocks), str(unit)) for n in (block, e.plus(block, "1"))]
        return first, e.minus(e.least(after, size), first)

    def _block(self, first: Index, terms: Index) -> None:
        """Write the sums over a block of terms."""
        e = self.routine
        depth = e.least(self._word("block_terms"), e.minus(terms, first))
        later = e.test("ne", first, "0")
        old = self._pointer(later, self.out, self.old)
        old_row, old_column = e.either(later, self.out_row, self.old_row), e.either(later, "1", self.old_column)
        unit, apart = e.test("eq", self.rhs_column, "1"), e.test("eq", self._word("share"), "0")
        readable = e.both(unit, apart)
        lhs, rhs = e.at(self.lhs, e.times(first, self.lhs_term)), e.at(self.rhs, e.times(first, self.rhs_term))

        # panels are as wide as possible, but no narrower at the end than elsewhere
        units = e.quotient(e.plus(self.columns, str(e.lanes - 1)), str(e.lanes))
        panels = e.quotient(e.plus(units, str(WIDTH - 1)), str(WIDTH))

        def panel(number: Index) -> None:
            column, after = [
                e.times(e.quotient(e.times(n, units), panels), str(e.lanes)) for n in (number, e.plus(number, "1"))
            ]
            width = e.minus(e.least(after, self.columns), column)
            vectors = e.shift_down(e.plus(width, str(e.lanes - 1)), e.lanes.bit_length() - 1)
            padded = e.times(vectors, str(e.lanes))
            whole = e.test("eq", padded, width)
            direct = e.both(readable, whole)
            source = e.at(rhs, e.times(column, self.rhs_column))
            copied = [f"ptr {self.panel}", f"i64 {padded}", f"ptr {source}", f"i64 {self.rhs_term}"]
            copied += [f"i64 {self.rhs_column}", f"i64 {depth}", f"i64 {width}"]
            e.when(direct, lambda: None, lambda: e.invoke("pack", *copied))
            vector_arguments = [f"ptr {self._pointer(direct, source, self.panel)}"]
            vector_arguments.append(f"i64 {e.either(direct, self.rhs_term, padded)}")
            out, old_panel = e.at(self.out, column), e.at(old, e.times(column, old_column))
            start: Index = "0"
            for height in self.kernel.heights:
                count = e.quotient(e.minus(self.rows, start), str(height))
                stop = e.plus(start, e.times(count, str(height)))

                def tiles(row: Index, height: int = height) -> None:
                    numbers = [f"i64 {depth}", f"ptr {e.at(lhs, e.times(row, self.lhs_row))}"]
                    numbers += [f"i64 {self.lhs_row}", f"i64 {self.lhs_term}", *vector_arguments]
                    place, before = e.at(out, e.times(row, self.out_row)), e.at(old_panel, e.times(row, old_row))
                    self._tile(height, numbers, place, (before, old_row), whole, width, vectors, padded)

                e.each(start, stop, tiles, str(height))
                start = stop

        def line(column: Index) -> None:
            numbers = [f"i64 {depth}", f"ptr {lhs}", f"i64 {self.lhs_term}"]
            numbers += [f"ptr {e.at(rhs, e.times(column, self.rhs_column))}", f"i64 {self.rhs_column}"]
            numbers.append(f"i64 {e.least(str(step), e.minus(self.columns, column))}")
            place = [f"ptr {e.at(old, e.times(column, old_column))}", f"ptr {e.at(self.out, column)}"]
            e.invoke("line", *numbers, *place)

        step = self.kernel.side * LINE_GROUPS
        turned = e.both(e.test("eq", self.rhs_term, "1"), e.test("ne", self.rhs_column, "1"))
        e.when(
            e.both(turned, e.test("eq", self.rows, "1")),
            lambda: e.each("0", self.columns, line, str(step)),
            lambda: e.each("0", panels, panel),
        )

    def _tile(
        self,
        height: int,
        operands: list[str],
        out: str,
        before: tuple[str, Index],
        whole: str,
        width: Index,
        vectors: Index,
        padded: Index,
    ) -> None:
        """Write the call of a tile; one that reaches beyond the result goes through memory of the kernel's own."""
        e = self.routine
        old, old_row = before
        from_out = [f"ptr {self._pointer(whole, old, self.zeros)}", f"i64 {e.either(whole, old_row, '0')}"]
        to_out = [f"ptr {self._pointer(whole, out, self.tile)}", f"i64 {e.either(whole, self.out_row, padded)}"]

        def call(count: int) -> None:
            e.invoke(f"tile_{height}_{count}", *operands, *from_out, *to_out)

        def fewer(count: int) -> None:
            if count == 1:
                call(1)
            else:
                e.when(e.test("eq", vectors, str(count)), lambda: call(count), lambda: fewer(count - 1))

        fewer(WIDTH)
        part = [f"ptr {self.tile}", f"i64 {padded}", f"ptr {old}", f"i64 {old_row}", f"ptr {out}"]
        part += [f"i64 {self.out_row}", f"i64 {height}", f"i64 {width}"]
        e.when(whole, lambda: None, lambda: e.invoke("copy_part", *part))
