"""Packing: copies panels of an operand to memory in which their rows are contiguous.

A *panel* is a group of adjacent columns, a few vectors wide, over a block of terms. In packed memory, the panels of a
block are contiguous, and so are the blocks; zeros fill the last columns up to a whole vector. :func:`packing` returns
the launch that packs an operand once for all rows of a large product. Operands of 16 bits are packed as float32.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from ...base.dtypes import HALVES, DType
from ...lower.ir.function_builder import Index
from ..launch import Launch, Reference, Words, align_up
from ..routine import Routine, module

__all__ = ["PACK_ARGUMENTS", "Packed", "Packing", "for_each_panel", "pack_routines", "packing", "part", "square_side"]


#: rows copied side by side: processors prefetch a few streams at once, and not beyond the end of a page
TERMS = 32

_WORDS = Words(
    *("columns", "terms", "block_terms", "term_blocks", "column_blocks", "inner"),
    *("source*", "source_term", "source_column", "source_outer", "source_inner"),
    *("packed*", "packed_columns", "packed_outer", "packed_inner"),
)


def square_side(dtype: DType, lanes: int) -> int:
    """Return the side of squares transposed in registers: larger ones take longer to compile than they save."""
    return min(lanes, 32 // dtype.itemsize)


def packed_columns(columns: int, lanes: int) -> int:
    """Return the number of packed columns: all columns, rounded up to a whole vector.

    >>> packed_columns(10, 16), packed_columns(32, 16)
    (16, 32)
    """
    return -(-columns // lanes) * lanes


@dataclasses.dataclass(frozen=True)
class Packing:
    """The kernel that packs matrices of one dtype (``source``) into panels of some vectors of another."""

    dtype: DType
    lanes: int
    vectors: int
    source: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        lanes = self.lanes
        e = Routine(name, lanes, self.dtype)

        def word(of: str) -> Index:
            return _WORDS.index(e, of)

        def task(number: Index) -> None:
            rest, term_block = e.split(number, word("term_blocks"))
            pair, column_block = e.split(rest, word("column_blocks"))
            outer, inner = e.split(pair, word("inner"))
            source, packed = [
                e.at(
                    _WORDS.pointer(e, of),
                    e.times(outer, word(f"{of}_outer")),
                    e.times(inner, word(f"{of}_inner")),
                    dtype=dtype,
                )
                for of, dtype in (("source", self.source), ("packed", self.dtype))
            ]
            first_term = e.times(term_block, word("block_terms"))
            depth = e.least(word("block_terms"), e.minus(word("terms"), first_term))
            first_column, columns = part(e, column_block, word("column_blocks"), word("columns"), lanes)
            source = e.at(source, e.times(first_term, word("source_term")), dtype=self.source)
            packed = e.at(packed, e.times(first_term, word("packed_columns")))

            def some(term: Index) -> None:
                count = e.least(str(TERMS), e.minus(depth, term))
                line = e.at(source, e.times(term, word("source_term")), dtype=self.source)

                def panel(column: Index, width: Index, _: Index, padded: Index) -> None:
                    place = e.plus(first_column, column)
                    to = e.at(packed, e.times(place, depth), e.times(term, padded))
                    read = e.at(line, e.times(place, word("source_column")), dtype=self.source)
                    arguments = [f"ptr {to}", f"i64 {padded}", f"ptr {read}", f"i64 {word('source_term')}"]
                    e.invoke("pack", *arguments, f"i64 {word('source_column')}", f"i64 {count}", f"i64 {width}")

                for_each_panel(e, columns, self.vectors, panel)

            e.for_each("0", depth, some, str(TERMS))

        e.for_each("%lo", "%hi", task)
        return module(*self.routines(), e)

    def routines(self) -> list[Routine]:
        """Return the routines that copy a panel; the last one is ``pack``."""
        return pack_routines(self.dtype, self.lanes, self.vectors, self.source)


class Packed(NamedTuple):
    """Packed matrices: their layout, and the launch that packs them."""

    launch: Launch
    operand: Reference
    columns: int
    outer: int
    inner: int
    size: int
    """Size in bytes."""


def packing(
    kernel: Packing,
    sizes: tuple[int, int, int],
    count: tuple[int, int],
    column_blocks: int,
    source: tuple[Reference, int, int, int, int],
    target: Reference,
) -> Packed:
    """Return the launch that packs matrices, and their packed layout.

    Parameters
    ----------
    sizes
        Terms, terms of a block, and columns.
    count
        Matrices along the outer and the inner batch axis; those that are the same along one are packed once.
    column_blocks
        Number of blocks of columns; no two blocks share a panel.
    source
        The operand, and the strides of its terms, columns, and outer and inner matrices.
    target
        Address of the packed matrices.
    """
    terms, block_terms, columns = sizes
    begin, term, column, outer, inner = source
    copies = count[0] if outer else 1, count[1] if inner else 1
    wide, term_blocks = packed_columns(columns, kernel.lanes), -(-terms // block_terms)
    outer_packed, inner_packed = terms * wide * copies[1] if outer else 0, terms * wide if inner else 0
    values: dict[str, int | Reference] = {
        "columns": columns,
        "terms": terms,
        "block_terms": block_terms,
        "term_blocks": term_blocks,
        "column_blocks": column_blocks,
        "inner": copies[1],
        "source": begin,
        "source_term": term,
        "source_column": column,
        "source_outer": outer,
        "source_inner": inner,
        "packed": target,
        "packed_columns": wide,
        "packed_outer": outer_packed,
        "packed_inner": inner_packed,
    }
    launch = Launch(kernel, _WORDS.fill(values), term_blocks * column_blocks * copies[0] * copies[1])
    size = align_up(terms * wide * copies[0] * copies[1] * kernel.dtype.itemsize)
    return Packed(launch, target, wide, outer_packed, inner_packed, size)


def part(e: Routine, block: Index, blocks: Index, size: Index, unit: int) -> tuple[Index, Index]:
    """Return the start and the length of a block of rows or columns; blocks differ by one unit at most."""
    units = e.quotient(e.plus(size, str(unit - 1)), str(unit))
    first, after = [e.times(e.quotient(e.times(n, units), blocks), str(unit)) for n in (block, e.plus(block, "1"))]
    return first, e.minus(e.least(after, size), first)


def for_each_panel(e: Routine, columns: Index, most: int, body: Callable[[Index, Index, Index, Index], None]) -> None:
    """Write ``for panel in columns: body(first column, columns, vectors, columns of whole vectors)``.

    Panels are as wide as possible (``most`` vectors) and nearly equal, so that the last one is not narrow.
    """
    units = e.quotient(e.plus(columns, str(e.lanes - 1)), str(e.lanes))
    panels = e.quotient(e.plus(units, str(most - 1)), str(most))

    def panel(number: Index) -> None:
        column, after = [
            e.times(e.quotient(e.times(n, units), panels), str(e.lanes)) for n in (number, e.plus(number, "1"))
        ]
        width = e.minus(e.least(after, columns), column)
        vectors = e.shift_down(e.plus(width, str(e.lanes - 1)), e.lanes.bit_length() - 1)
        body(column, width, vectors, e.times(vectors, str(e.lanes)))

    e.for_each("0", panels, panel)


#: arguments of the routine ``pack``
PACK_ARGUMENTS = (
    "ptr noalias %panel, i64 %width, ptr noalias %source, i64 %source_term, i64 %source_column, "
    "i64 %terms, i64 %columns"
)


def pack_routines(dtype: DType, lanes: int, vectors: int, source: DType) -> list[Routine]:
    """Return the routines that copy a panel of up to some vectors; the last one is the entry point.

    ``pack`` copies row by row the columns that exist, and stores zeros up to ``%width``.
    """
    e = Routine("pack", lanes, dtype, PACK_ARGUMENTS)
    names = [argument.split()[-1] for argument in PACK_ARGUMENTS.split(",")]
    arguments = [f"{'ptr' if name in ('%panel', '%source') else 'i64'} {name}" for name in names]
    in_order = e.test("eq", "%source_column", "1")
    e.when(in_order, lambda: e.invoke("pack_rows", *arguments), lambda: e.invoke("pack_turned", *arguments))
    return [_pack_rows(dtype, lanes, vectors, source), _pack_turned(dtype, lanes, source), e]


def _pack_rows(dtype: DType, lanes: int, vectors: int, source: DType) -> Routine:
    """Return the routine that copies a panel whose columns are contiguous in memory."""
    e = Routine("pack_rows", lanes, dtype, PACK_ARGUMENTS)
    if source in HALVES:
        # AVX2 has no masked loads of 16 bits: the columns of the last vector that exist are loaded one by one
        whole = e.test("eq", "%columns", "%width")
        masks = []
    else:
        masks = [e.below(e.minus("%columns", str(lanes * vector))) for vector in range(vectors)]

    def rows(count: int, is_whole: bool) -> None:
        def row(term: Index) -> None:
            line = e.at("%source", e.times(term, "%source_term"), dtype=source)
            to = e.at("%panel", e.times(term, str(lanes * count)))
            for vector in range(count):
                place = str(lanes * vector)
                if masks:
                    e.store(to, place, e.get_where(line, masks[vector], place))
                elif is_whole or vector < count - 1:
                    e.store(to, place, e.get(line, place, source))
                else:
                    e.store(to, place, e.zeros())
                    e.for_each(place, "%columns", lambda column: e.put_one(to, e.get_one(line, column, source), column))

        e.for_each("0", "%terms", row)

    def copy(count: int) -> None:
        if masks:
            rows(count, False)
        else:
            e.when(whole, lambda: rows(count, True), lambda: rows(count, False))

    def fewer(count: int) -> None:
        if count == 1:
            copy(1)
        else:
            e.when(e.test("eq", "%width", str(lanes * count)), lambda: copy(count), lambda: fewer(count - 1))

    fewer(vectors)
    return e


def _pack_turned(dtype: DType, lanes: int, read: DType) -> Routine:
    """Return the routine that copies a panel with strided columns; it transposes squares if terms are contiguous."""
    side = square_side(dtype, lanes)
    e = Routine("pack_turned", side, dtype, PACK_ARGUMENTS)
    whole_columns, whole_terms = [e.assign(f"and i64 {size}, {-side}") for size in ("%columns", "%terms")]

    def panel(term: Index, column: Index) -> str:
        return e.at("%panel", e.times(term, "%width"), column)

    def source(term: Index, column: Index) -> str:
        return e.at("%source", e.times(term, "%source_term"), e.times(column, "%source_column"), dtype=read)

    def clear(term: Index) -> None:
        e.for_each(whole_columns, "%width", lambda column: e.store(panel(term, column), "0", e.zeros()), str(side))

    def one_by_one(first_term: Index, first_column: Index, last_column: Index) -> None:
        def line(term: Index) -> None:
            def one(column: Index) -> None:
                e.put_one(panel(term, column), e.get_one(source(term, column), dtype=read))

            e.for_each(first_column, last_column, one)

        e.for_each(first_term, "%terms", line)

    def squares() -> None:
        def square(term: Index) -> None:
            def turn(column: Index) -> None:
                lines = [e.get(source(term, e.plus(column, str(line))), dtype=read) for line in range(side)]
                for line, value in enumerate(e.transpose(lines)):
                    e.store(panel(e.plus(term, str(line)), column), "0", value)

            e.for_each("0", whole_columns, turn, str(side))

        e.for_each("0", whole_terms, square, str(side))
        one_by_one(whole_terms, "0", whole_columns)
        one_by_one("0", whole_columns, "%columns")

    e.when(e.test("slt", whole_columns, "%width"), lambda: e.for_each("0", "%terms", clear))
    e.when(e.test("eq", "%source_term", "1"), squares, lambda: one_by_one("0", "0", "%columns"))
    return e
