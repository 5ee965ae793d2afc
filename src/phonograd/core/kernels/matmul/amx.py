"""The AMX kernel: multiplies split matrices on a processor's matrix unit.

A matrix unit has eight registers, tiles of 1 KB. Two tiles of each operand and four of sums cover 32 rows and 32
columns of the result. A single last tile of rows keeps all its parts in registers. Each task accumulates the sums of
its passes in scratch memory until they are complete.

Tasks may split the parts of the operands that no other task needs: their rows, and a few columns at a time. A processor
splits and multiplies in parallel if the two alternate in small steps. So for up to 32 rows, the kernel alternates after
each block of terms, with the sums in registers. For more rows, it splits all terms of a pass at once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from .bf16_split import (
    BLOCK_TERMS,
    PART_WORDS,
    SCALE,
    TILE_LINES,
    TURNED_WORDS,
    Tile,
    split_routines,
    split_tile,
    tile_words,
)
from .packing import part

__all__ = ["PASS_BLOCKS", "SIDE", "TASK_ROWS", "WORDS", "MatrixUnit", "configure_tiles", "release_tiles"]

#: maximum number of rows of a task, and of blocks of a pass: these need 100 KB of a thread's stack
TASK_ROWS, PASS_BLOCKS = 256, 12
#: rows and columns computed at once: two tiles of each operand
SIDE = 2 * TILE_LINES
#: rows whose sums are stored together, and rows whose sums are recomputed together
GROUP_ROWS, AGAIN_ROWS = 2, 4

_LANES = 16
#: scale of complete sums: it undoes the scaling of both factors
_UNSCALE = 1 / (SCALE * SCALE)
#: pairs of parts that are multiplied, in an order that reuses one part in each step. The order defines the result of
#: a product
_PARTS = ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0))

WORDS = Words(
    *("rows", "columns", "terms", "blocks", "pass_blocks", "row_blocks", "column_blocks", "inner"),
    *("lhs*", "lhs_outer", "lhs_inner", "rhs*", "rhs_outer", "rhs_inner"),
    *("lhs_ready", "rhs_ready", "panels*", "panel_words"),
    *("whole_lhs*", "whole_lhs_row", "whole_lhs_term", "whole_lhs_outer", "whole_lhs_inner"),
    *("whole_rhs*", "whole_rhs_term", "whole_rhs_column", "whole_rhs_outer", "whole_rhs_inner"),
    *("out*", "out_row", "out_outer", "out_inner"),
    *("old*", "old_row", "old_outer", "old_inner", "adds"),
)


@dataclasses.dataclass(frozen=True)
class MatrixUnit:
    """The kernel that multiplies matrices that are split into some parts.

    The bits do not depend on the number of parts, as long as the others would be zero.
    """

    parts: int = 3

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        parts = self.parts
        multiplying = _multiply_tiles(1, parts), _multiply_tiles(2, parts), _add_sums(), _add_again()
        others = _ask_for_lines(), _write_sums(), _Writer(name, parts).routine
        return module(*split_routines(parts), *multiplying, *others)


class _Writer:
    """Writes the kernel, task by task."""

    def __init__(self, name: str, parts: int) -> None:
        self.routine = e = Routine(name, _LANES, FLOAT32)
        self.tile_words = tile_words(parts)
        self.sums, self.flag, self.zeros = e.scratch(TASK_ROWS * SIDE // 2), e.scratch(1), e.scratch(SIDE // 2)
        # a single last tile of rows leaves half of these unset, and their results are not read
        self.pass_sums = e.scratch(SIDE * SIDE // 2)
        self.right_panel = e.scratch(2 * PASS_BLOCKS * self.tile_words // 2)
        self.turned = e.scratch(TURNED_WORDS)
        configure_tiles(e)
        e.clear(self.zeros, str(SIDE))
        e.for_each("%lo", "%hi", self._task)
        release_tiles(e)

    def word(self, name: str) -> Index:
        """Return an integer of the table."""
        return WORDS.index(self.routine, name)

    def _task(self, number: Index) -> None:
        e, word = self.routine, self.word
        blocks, column_block = e.split(number, word("column_blocks"))
        pair, row_block = e.split(blocks, word("row_blocks"))
        outer, inner = e.split(pair, word("inner"))

        def operand(of: str) -> str:
            return e.at(WORDS.pointer(e, of), e.times(outer, word(f"{of}_outer")), e.times(inner, word(f"{of}_inner")))

        self.first_row, self.rows = part(e, row_block, word("row_blocks"), word("rows"), TILE_LINES)
        first_column, columns = part(e, column_block, word("column_blocks"), word("columns"), SIDE)
        panels = WORDS.pointer(e, "panels")
        self.left_panel = e.at(panels, e.times(number, word("panel_words")))
        self.lhs, self.rhs, self.out, self.old = [operand(of) for of in ("lhs", "rhs", "out", "old")]
        self.whole_lhs, self.whole_rhs = operand("whole_lhs"), operand("whole_rhs")
        self.blocks, self.ready = word("blocks"), e.test("ne", word("rhs_ready"), "0")
        self.lhs_ready = e.test("ne", word("lhs_ready"), "0")
        e.when(self.lhs_ready, lambda: None, self._split_rows)
        there = e.at(self.lhs, self._tile(self.first_row, "0"))
        self.left = e.assign(f"select i1 {self.lhs_ready}, ptr {there}, ptr {self.left_panel}")
        self.last_column = e.plus(first_column, columns)
        e.for_each(first_column, self.last_column, self._columns, str(SIDE))

    def _columns(self, column: Index) -> None:
        """Write the code for some columns: split their terms if needed, multiply, and store the results."""
        e = self.routine
        width = e.least(e.minus(self.last_column, column), str(SIDE))
        several = e.assign(f"or i1 {self.ready}, {e.test('sgt', self.rows, str(SIDE))}")
        pass_blocks = self.word("pass_blocks")
        step = e.select_index(several, pass_blocks, "1")

        def one_pass(start: Index) -> None:
            stop = e.least(e.plus(start, pass_blocks), self.blocks)
            is_first = e.test("eq", start, "0")

            def some_blocks(first: Index) -> None:
                count = e.least(step, e.minus(stop, first))
                e.when(self.ready, lambda: None, lambda: self._split_columns(column, width, first, count))
                self._multiply((column, width), (first, count), is_first, (start, stop))

            e.for_each(start, stop, some_blocks, step)

        e.for_each("0", self.blocks, one_pass, pass_blocks)

    def _multiply(
        self, columns: tuple[Index, Index], blocks: tuple[Index, Index], is_first: str, ends: tuple[Index, Index]
    ) -> None:
        """Write the product of all rows with some columns, over some blocks of terms within a pass.

        Columns and blocks are given by their first and their number. Complete sums are stored.
        """
        e = self.routine
        (column, width), (first, count) = columns, blocks
        there = e.at(self.rhs, self._tile(column, first))
        right = e.assign(f"select i1 {self.ready}, ptr {there}, ptr {self.right_panel}")
        right_tile = e.times(e.select_index(self.ready, self.blocks, count), str(self.tile_words))
        left_tile = e.times(self.blocks, str(self.tile_words))
        begins, stops = e.test("eq", first, ends[0]), e.test("eq", e.plus(first, count), ends[1])
        adds = e.logical_and(stops, e.assign(f"xor i1 {is_first}, true"))
        is_last = e.logical_and(stops, e.test("eq", ends[1], self.blocks))

        def some_rows(row: Index) -> None:
            left, sums = e.at(self.left, self._tile(row, first)), self._sums(row)
            to = e.assign(f"select i1 {is_first}, ptr {sums}, ptr {self.pass_sums}")
            places = [f"ptr {to}", f"ptr {left}", f"i64 {left_tile}", f"ptr {right}", f"i64 {right_tile}"]
            places += [f"i64 {count}", f"i1 {begins}", f"i1 {stops}"]
            height = e.least(e.minus(self.rows, row), str(SIDE))

            def ask() -> None:
                out = e.at(self.out, e.times(e.plus(self.first_row, row), self.word("out_row")), column)
                e.invoke("ask_for_lines", f"ptr {out}", f"i64 {self.word('out_row')}", f"i64 {height}")

            e.when(is_last, ask)
            e.when(
                e.test("sgt", e.minus(self.rows, row), str(TILE_LINES)),
                lambda: e.invoke("multiply_tiles_2", *places),
                lambda: e.invoke("multiply_tiles_1", *places),
            )

            e.when(adds, lambda: e.invoke("add_sums", f"ptr {sums}", f"ptr {self.pass_sums}"))
            e.when(is_last, lambda: self._finish(row, height, column, width))

        e.for_each("0", self.rows, some_rows, str(SIDE))

    def _tile(self, line: Index, block: Index) -> Index:
        """Return the offset of the tile of a line and a block in a split operand."""
        e = self.routine
        place = e.plus(e.times(e.quotient(line, str(TILE_LINES)), self.blocks), block)
        return e.times(place, str(self.tile_words))

    def _sums(self, row: Index) -> str:
        return self.routine.at(self.sums, self.routine.times(row, str(SIDE)))

    def _split_rows(self) -> None:
        """Write the code that splits the rows of a task."""
        e, word = self.routine, self.word
        line, term = word("whole_lhs_row"), word("whole_lhs_term")

        def tile(first_line: Index) -> None:
            def block(number: Index) -> None:
                first_term = e.times(number, str(BLOCK_TERMS))
                place = e.plus(self.first_row, first_line)
                source = e.at(self.whole_lhs, e.times(place, line), e.times(first_term, term))
                lines, terms = e.minus(self.rows, first_line), e.minus(word("terms"), first_term)
                to = e.at(self.left_panel, self._tile(first_line, number))
                split_tile(e, Tile(to, source, line, term, lines, terms), "true", self.turned)

            e.for_each("0", self.blocks, block)

        e.for_each("0", self.rows, tile, str(TILE_LINES))

    def _split_columns(self, column: Index, width: Index, first: Index, count: Index) -> None:
        """Write the code that splits some columns of the second operand, over some blocks of terms."""
        e, word = self.routine, self.word
        line, term = word("whole_rhs_column"), word("whole_rhs_term")

        def block(number: Index) -> None:
            first_term = e.times(e.plus(first, number), str(BLOCK_TERMS))
            for tile in range(2):
                first_line = e.plus(column, str(tile * TILE_LINES))
                to = e.at(self.right_panel, e.times(e.plus(number, e.times(str(tile), count)), str(self.tile_words)))
                source = e.at(self.whole_rhs, e.times(first_line, line), e.times(first_term, term))
                lines, terms = e.minus(width, str(tile * TILE_LINES)), e.minus(word("terms"), first_term)
                split_tile(e, Tile(to, source, line, term, lines, terms), "false", self.turned)

        e.for_each("0", count, block)

    def _finish(self, row: Index, rows: Index, column: Index, width: Index) -> None:
        """Write the code that stores sums, and recomputes those that are not finite."""
        e, word = self.routine, self.word
        sums, place = self._sums(row), e.plus(self.first_row, row)
        adds = e.test("ne", word("adds"), "0")
        old = e.at(self.old, e.times(place, word("old_row")), column)
        result = [
            f"ptr {sums}",
            f"ptr {e.assign(f'select i1 {adds}, ptr {old}, ptr {self.zeros}')}",
            f"i64 {e.select_index(adds, word('old_row'), '0')}",
            f"ptr {e.at(self.out, e.times(place, word('out_row')), column)}",
            f"i64 {word('out_row')}",
            f"i64 {rows}",
            f"i64 {width}",
            f"ptr {self.flag}",
        ]
        e.store_word(self.flag, "0", "0")
        e.invoke("write_sums", *result, "i64 -1", "i1 true", f"float {e.literal(_UNSCALE, FLOAT32)}")
        left = e.load_word(self.flag, "0")

        def recompute() -> None:
            operands = [
                f"ptr {e.at(self.whole_lhs, e.times(place, word('whole_lhs_row')))}",
                f"i64 {word('whole_lhs_row')}",
                f"i64 {word('whole_lhs_term')}",
                f"ptr {e.at(self.whole_rhs, e.times(column, word('whole_rhs_column')))}",
                f"i64 {word('whole_rhs_term')}",
                f"i64 {word('whole_rhs_column')}",
            ]
            e.invoke("add_again", f"ptr {sums}", *operands, f"i64 {word('terms')}", f"i64 {rows}", f"i64 {width}")
            e.invoke("write_sums", *result, f"i64 {left}", "i1 false", f"float {e.literal(1.0, FLOAT32)}")

        e.when(e.test("ne", left, "0"), recompute)


def configure_tiles(e: Routine) -> None:
    """Write the configuration of the unit: all tiles have 16 rows of 64 bytes; call this in the entry block only."""
    place = e.scratch(8)
    # palette 1; row sizes in bytes of all tiles from byte 16 on, and row counts from byte 48 on
    for number, word in enumerate([1, 0, *[64 * 0x1000100010001] * 2, 0, 0, 16 * 0x101010101010101, 0]):
        e.store_word(place, str(number), str(word))
    e.declare("declare void @llvm.x86.ldtilecfg(ptr)")
    e.line(f"call void @llvm.x86.ldtilecfg(ptr {place})")


def release_tiles(e: Routine) -> None:
    """Write the end of the use of the unit: otherwise the system would save the tiles at each context switch."""
    e.declare("declare void @llvm.x86.tilerelease()")
    e.line("call void @llvm.x86.tilerelease()")


def _multiply_tiles(height: int, parts: int) -> Routine:
    """Return the routine that adds up products of some blocks for one or two tiles of rows and 32 columns.

    Sums stay in registers between the call that begins a pass and the call that stops it.
    """
    arguments = (
        "ptr noalias %sums, ptr noalias %lhs, i64 %lhs_tile, ptr noalias %rhs, i64 %rhs_tile, i64 %blocks, "
        "i1 %begins, i1 %stops"
    )
    e = Routine(f"multiply_tiles_{height}", _LANES, FLOAT32, arguments, inner=True)
    e.declare("declare void @llvm.x86.tilezero(i8)")
    e.declare("declare void @llvm.x86.tileloadd64(i8, ptr, i64)")
    e.declare("declare void @llvm.x86.tilestored64(i8, ptr, i64)")
    e.declare("declare void @llvm.x86.tdpbf16ps(i8, i8, i8)")
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    words = tile_words(parts)
    pairs = [pair for pair in _PARTS if max(pair) < parts]
    sums = [(row, column) for row in range(height) for column in range(2)]
    places = [e.at("%sums", str(row * TILE_LINES * SIDE + column * _LANES)) for row, column in sums]

    def all_sums(text: str, *rest: str) -> None:
        for number, place in enumerate(places):
            operands = [f"i8 {number}", *([f"ptr {place}", *rest] if rest else [])]
            e.line(f"call void @llvm.x86.{text}({', '.join(operands)})")

    e.when("%begins", lambda: all_sums("tilezero"))
    starts = [["%lhs", e.at("%lhs", "%lhs_tile")][:height], ["%rhs", e.at("%rhs", "%rhs_tile")]]

    def block(number: Index) -> None:
        place = e.times(number, str(words))
        # a single tile of rows keeps all its parts
        left = 3 if height == 1 else 2
        free = [list(range(len(sums), len(sums) + left)), list(range(len(sums) + left, 8))]
        #: by side, the register that holds a part of a tile
        held: list[dict[tuple[int, int], int]] = [{}, {}]

        def register(side: int, tile: int, wanted: int) -> int:
            found = held[side].get((tile, wanted))
            if found is None:
                if not free[side]:
                    # evict the part that was loaded first
                    free[side].append(held[side].pop(next(iter(held[side]))))
                found = held[side][tile, wanted] = free[side].pop()
                at = e.at(starts[side][tile], e.plus(place, str(wanted * PART_WORDS)))
                e.line(f"call void @llvm.x86.tileloadd64(i8 {found}, ptr {at}, i64 64)")
            return found

        # the second operand of the next block comes from the L2 cache: prefetch it meanwhile
        lines = [(start, words + word) for start in starts[1] for word in range(0, words, _LANES)]
        share = len(lines) // (len(pairs) * len(sums))
        for first, second in pairs:
            for total, (row, column) in enumerate(sums):
                factors = f"i8 {register(0, row, first)}, i8 {register(1, column, second)}"
                e.line(f"call void @llvm.x86.tdpbf16ps(i8 {total}, {factors})")
                for start, word in lines[:share]:
                    e.line(
                        f"call void @llvm.prefetch.p0(ptr {e.at(start, e.plus(place, str(word)))}, i32 0, i32 3, i32 1)"
                    )
                del lines[:share]

    e.for_each("0", "%blocks", block)
    e.when("%stops", lambda: all_sums("tilestored64", f"i64 {4 * SIDE}"))
    return e


def _add_sums() -> Routine:
    """Return the routine that adds the sums of a pass to those before."""
    e = Routine("add_sums", _LANES, FLOAT32, "ptr noalias %sums, ptr noalias %more", inner=True)

    def some(place: Index) -> None:
        for vector in range(4):
            at = e.plus(place, str(vector * _LANES))
            e.store("%sums", at, e.add(e.get("%sums", at), e.get("%more", at)))

    e.for_each("0", str(SIDE * SIDE), some, str(4 * _LANES))
    return e


def _ask_for_lines() -> Routine:
    """Return the routine that prefetches, for writing, the cache lines of some rows and 32 columns of the result."""
    e = Routine("ask_for_lines", _LANES, FLOAT32, "ptr %out, i64 %out_row, i64 %rows", inner=True)
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")

    def row(number: Index) -> None:
        for vector in range(2):
            place = e.at("%out", e.plus(e.times(number, "%out_row"), str(vector * _LANES)))
            e.line(f"call void @llvm.prefetch.p0(ptr {place}, i32 1, i32 3, i32 1)")

    e.for_each("0", "%rows", row)
    return e


def _add_again() -> Routine:
    """Return the routine that recomputes, term by term, the sums that are not finite.

    Scaled factors alone may have made them overflow. The routine leaves all sums unscaled.
    """
    arguments = (
        "ptr noalias %sums, ptr noalias %lhs, i64 %lhs_row, i64 %lhs_term, ptr noalias %rhs, i64 %rhs_term, "
        "i64 %rhs_column, i64 %terms, i64 %rows, i64 %columns"
    )
    e = Routine("add_again", _LANES, FLOAT32, arguments)
    in_order = e.test("eq", "%rhs_column", "1")
    firsts = range(0, SIDE, _LANES)
    masks = [e.below(e.minus("%columns", str(first))) for first in firsts]
    starts = [e.at("%rhs", e.times(str(first), "%rhs_column")) for first in firsts]

    def is_wrong(value: Value) -> Value:
        rest = e.multiply(value, e.zeros())
        return e.compare("uno", rest, rest)

    def some_rows(row: Index) -> None:
        # if there are fewer rows, repeat the last one
        rows = [e.least(e.plus(row, str(number)), e.minus("%rows", "1")) for number in range(AGAIN_ROWS)]
        lines = [e.at("%lhs", e.times(number, "%lhs_row")) for number in rows]
        places = [e.plus(e.times(number, str(SIDE)), str(first)) for number in rows for first in firsts]
        sums = [e.get("%sums", place) for place in places]
        unscaled = [e.multiply(value, e.constant(_UNSCALE, FLOAT32)) for value in sums]

        def term(index: Index, totals: list[Value]) -> list[Value]:
            at = e.times(index, "%rhs_term")
            factors = e.choose(
                in_order,
                lambda: [e.get_where(start, mask, at) for start, mask in zip(starts, masks, strict=True)],
                lambda: [
                    e.gather(start, at, "%rhs_column", FLOAT32, mask) for start, mask in zip(starts, masks, strict=True)
                ],
            )
            others = [e.get_splat(line, e.times(index, "%lhs_term")) for line in lines]
            pairs = [(other, factor) for other in others for factor in factors]
            return [e.fma(*pair, total) for pair, total in zip(pairs, totals, strict=True)]

        def recompute() -> None:
            totals = e.loop("0", "%terms", "1", [e.zeros()] * len(sums), term)
            for place, value, other, total in zip(places, sums, unscaled, totals, strict=True):
                e.store("%sums", place, e.select(is_wrong(value), total, other))

        def keep() -> None:
            for place, other in zip(places, unscaled, strict=True):
                e.store("%sums", place, other)

        rest = functools.reduce(e.add, [e.multiply(value, e.zeros()) for value in sums])
        e.when(e.any(e.compare("uno", rest, rest)), recompute, keep)

    e.for_each("0", "%rows", some_rows, str(AGAIN_ROWS))
    return e


def _write_sums() -> Routine:
    """Return the routine that stores sums, added to the old result.

    If it ``%checks``, it skips groups of rows with sums that are not finite, and sets a bit of ``%flag`` for each. It
    stores only the groups whose bits are set in ``%groups``, multiplied by ``%scale``.
    """
    arguments = (
        "ptr noalias %sums, ptr %old, i64 %old_row, ptr %out, i64 %out_row, i64 %rows, i64 %columns, "
        "ptr noalias %flag, i64 %groups, i1 %checks, float %scale"
    )
    e = Routine("write_sums", _LANES, FLOAT32, arguments, inner=True)
    wide = e.test("eq", "%columns", str(SIDE))
    masks = [e.below(e.minus("%columns", str(first))) for first in (0, _LANES)]
    zeros, scale = e.zeros(), e.splat("%scale", FLOAT32)

    def read(row: Index) -> list[Value]:
        start = e.times(row, str(SIDE))
        return [e.get("%sums", e.plus(start, str(vector * _LANES))) for vector in range(2)]

    def write(row: Index, sums: list[Value], masked: bool) -> None:
        old, out = [e.at(f"%{name}", e.times(row, f"%{name}_row")) for name in ("old", "out")]
        for vector, (mask, value) in enumerate(zip(masks, sums, strict=True)):
            place = str(vector * _LANES)
            before = e.get_where(old, mask, place) if masked else e.get(old, place)
            # turn sums of -0 into 0 before every store, so that adding them to ``old`` gives the same bits
            total = e.add(before, e.add(zeros, e.multiply(value, scale)))
            if masked:
                e.store_where(out, place, total, mask)
            else:
                e.store(out, place, total)

    def write_if_finite(total: Value, bit: Index, then: Callable[[], None]) -> None:
        """Write ``then()`` unless a sum is not finite: times zero, it is NaN."""
        wrong = e.logical_and("%checks", e.any(e.compare("uno", total, total)))

        def note() -> None:
            e.store_word("%flag", "0", e.assign(f"or i64 {e.load_word('%flag', '0')}, {bit}"))

        e.when(wrong, note, then)

    def group(row: Index) -> None:
        bit = e.assign(f"shl i64 1, {e.shift_down(row, GROUP_ROWS.bit_length() - 1)}")
        last = e.least(e.plus(row, str(GROUP_ROWS)), "%rows")

        def at_once() -> None:
            rows = [e.plus(row, str(number)) for number in range(GROUP_ROWS)]
            sums = [read(number) for number in rows]
            totals = [zeros] * 4
            for number, value in enumerate([value for values in sums for value in values]):
                totals[number % 4] = e.fma(value, zeros, totals[number % 4])

            def all_rows() -> None:
                for number, values in zip(rows, sums, strict=True):
                    write(number, values, masked=False)

            write_if_finite(functools.reduce(e.add, totals), bit, all_rows)

        def one_by_one() -> None:
            def look(number: Index, totals: list[Value]) -> list[Value]:
                return [e.fma(value, zeros, total) for value, total in zip(read(number), totals, strict=True)]

            totals = e.loop(row, last, "1", [zeros] * 2, look)

            def write_rows() -> None:
                e.for_each(row, last, lambda number: write(number, read(number), masked=True))

            write_if_finite(e.add(*totals), bit, write_rows)

        whole = e.logical_and(wide, e.test("eq", last, e.plus(row, str(GROUP_ROWS))))
        asked = e.test("ne", e.assign(f"and i64 %groups, {bit}"), "0")
        e.when(asked, lambda: e.when(whole, at_once, one_by_one))

    e.for_each("0", "%rows", group, str(GROUP_ROWS))
    return e
