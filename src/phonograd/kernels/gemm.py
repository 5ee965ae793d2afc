"""Products of matrices: one kernel per dtype, for any sizes, strides and number of products.

Tiles of the result stay in registers while they are summed up: with 32 registers 8 rows of 3 vectors are 24 sums, and
there is room for 3 vectors of the second operand and a number of the first in every lane. The first operand is read
where it lies, whatever its strides are. So is the second where its rows are contiguous; otherwise, and where many rows
of the result share them, panels of it (3 vectors wide) are copied to memory of the kernel's own.

**The order of a sum** depends on its length alone: terms are added one after the other, each product rounded together
with its sum, in blocks of equal length of at most 384 terms, and the blocks are added up in sequence. Tiles, panels and
the division among threads are chosen for speed: bits do not depend on them, nor on how the operands lie in memory.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ..dtypes import DType
from .function import Index, Value
from .launch import Launch, Words
from .machine import Machine
from .routine import Routine, module

__all__ = ["Gemm", "Matrices", "product"]

#: terms that are summed up in registers. Part of what a product means: another number gives other last bits
DEPTH = 384
#: vectors side by side in a tile
WIDTH = 3
#: rows of the result above which copying a panel of the second operand costs less than reading scattered lines
SHARED_ROWS = 96
#: rows of the result that are computed with one panel before the next
BLOCK_ROWS = 256
#: multiplications worth handing to another thread: 5 to 10 microseconds of work
TASK_WORK = 1 << 19
#: tasks of a large product: enough for many threads, and large enough to use again what is in a cache
TASKS = 32

_WORDS = Words(
    *("rows", "columns", "terms", "block_terms", "row_blocks", "column_blocks", "inner", "share"),
    *("lhs*", "lhs_row", "lhs_term", "lhs_outer", "lhs_inner"),
    *("rhs*", "rhs_term", "rhs_column", "rhs_outer", "rhs_inner"),
    *("out*", "out_row", "out_outer", "out_inner"),
)


class Matrices(NamedTuple):
    """Where some matrices of one shape lie: elements between rows, columns, and along two axes of matrices."""

    row: int
    column: int
    outer: int = 0
    inner: int = 0


def product(
    sizes: tuple[int, int, int], count: tuple[int, int], lhs: Matrices, rhs: Matrices, out: Matrices, kernel: Gemm
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
    """
    rows, terms, columns = sizes
    blocks = max(1, -(-terms // DEPTH))
    row_blocks, column_blocks = _tasks(sizes, kernel)
    values = {
        "rows": rows,
        "columns": columns,
        "terms": terms,
        "block_terms": max(1, -(-terms // blocks)),
        "row_blocks": row_blocks,
        "column_blocks": column_blocks,
        "inner": count[1],
        "share": int(rows // row_blocks >= SHARED_ROWS),
        "lhs_row": lhs.row,
        "lhs_term": lhs.column,
        "lhs_outer": lhs.outer,
        "lhs_inner": lhs.inner,
        "rhs_term": rhs.row,
        "rhs_column": rhs.column,
        "rhs_outer": rhs.outer,
        "rhs_inner": rhs.inner,
        "out_row": out.row,
        "out_outer": out.outer,
        "out_inner": out.inner,
    }
    tasks = row_blocks * column_blocks * count[0] * count[1] if rows and columns else 0
    work = rows * max(1, terms) * columns // (row_blocks * column_blocks)
    return Launch(kernel, _WORDS.fill(values), tasks, max(1, TASK_WORK // max(1, work)))


def _tasks(sizes: tuple[int, int, int], kernel: Gemm) -> tuple[int, int]:
    """Return into how many blocks the rows and the columns of a result are divided; each pair of blocks is a task.

    Columns are divided first: whoever copies a panel should use it for as many rows as possible.
    """
    rows, terms, columns = [max(1, size) for size in sizes]
    work = max(TASK_WORK, rows * terms * columns // TASKS)
    row_blocks = -(-rows // BLOCK_ROWS)
    panels = -(-columns // kernel.panel)
    column_blocks = min(panels, max(1, rows * terms * columns // (row_blocks * work)))
    if column_blocks == panels:
        # few columns: only rows are left to be divided
        tiles = -(-rows // kernel.tile_rows)
        row_blocks = min(tiles, max(row_blocks, rows * terms * columns // (column_blocks * 4 * work)))
    return row_blocks, column_blocks


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
        return module(*tiles, _copy_part(self), _pack(self), _Product(self, name).routine)

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
            e.store(out, offset, e.add(e.get(old, offset), sums[row * width + vector]))
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
    # squares that are transposed in registers: larger ones take longer to compile than they save
    side = min(kernel.lanes, 32 // kernel.dtype.itemsize)
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
        adding = e.test("ne", first, "0")
        unit, apart = e.test("eq", self.rhs_column, "1"), e.test("eq", self._word("share"), "0")
        readable = e.both(unit, apart)
        lhs, rhs = e.at(self.lhs, e.times(first, self.lhs_term)), e.at(self.rhs, e.times(first, self.rhs_term))

        def panel(column: Index) -> None:
            width = e.least(str(self.kernel.panel), e.minus(self.columns, column))
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
            out = e.at(self.out, column)
            start: Index = "0"
            for height in self.kernel.heights:
                count = e.quotient(e.minus(self.rows, start), str(height))
                stop = e.plus(start, e.times(count, str(height)))

                def tiles(row: Index, height: int = height) -> None:
                    numbers = [f"i64 {depth}", f"ptr {e.at(lhs, e.times(row, self.lhs_row))}"]
                    numbers += [f"i64 {self.lhs_row}", f"i64 {self.lhs_term}", *vector_arguments]
                    place = e.at(out, e.times(row, self.out_row))
                    self._tile(height, numbers, place, adding, whole, width, vectors, padded)

                e.each(start, stop, tiles, str(height))
                start = stop

        e.each("0", self.columns, panel, str(self.kernel.panel))

    def _tile(
        self,
        height: int,
        operands: list[str],
        out: str,
        adding: str,
        whole: str,
        width: Index,
        vectors: Index,
        padded: Index,
    ) -> None:
        """Write the call of a tile; one that reaches beyond the result goes through memory of the kernel's own."""
        e = self.routine
        old, old_row = self._pointer(adding, out, self.zeros), e.either(adding, self.out_row, "0")
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
