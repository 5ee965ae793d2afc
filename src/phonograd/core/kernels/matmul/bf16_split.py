"""Splitting: float32 matrices as sums of three bfloat16 matrices, in the tile layout of a matrix unit.

A bfloat16 is the upper half of a float32: 8 of its 24 bits. The first part of a number is the nearest bfloat16 (ties
away from zero), the second has the next 8 bits of the remainder, and the third has the rest. Their sum is exactly the
number. Infinities and NaN have a part that is NaN. Numbers that were 16-bit ones have fewer parts (PARTS): the others
are zero, and are left out.

A matrix unit flushes inputs and results below 2^-126 to zero. Therefore numbers are multiplied by 2^24 before they are
split: then no part is that small, not even of the smallest denormal number, and products keep every significant bit.
Numbers above 2^104 have parts that are not finite.

An operand has *lines* (rows of the first, columns of the second) of *terms*. A tile holds one part of 16 lines of 32
terms: 1 KB, 16 rows of 16 *pairs* of terms. Term t is paired with t + 16, so that two vectors are combined lane by
lane. The rows of a tile are lines for the first operand, and pairs for the second. In memory, the parts of a tile are
followed by further terms of the same lines, then by further lines. Missing lines and terms are zeros.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ...base.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Reference, Words, align_up
from ..routine import Routine, module
from .packing import square_side

__all__ = [
    "BLOCK_TERMS",
    "PADDED_COLUMNS",
    "PARTS",
    "PART_WORDS",
    "SCALE",
    "TILE_LINES",
    "TURNED_WORDS",
    "Split",
    "Splitting",
    "Tile",
    "split_routines",
    "split_tile",
    "splitting",
    "tile_words",
    "tiles_of",
]

#: lines and terms of a tile
TILE_LINES, BLOCK_TERMS = 16, 32
#: 4-byte words of a part of a tile
PART_WORDS = 256
#: parts of numbers by the dtype that they have, or had before they were converted: 24, 11 and 8 bits
PARTS: dict[DType, int] = {FLOAT32: 3, FLOAT16: 2, BFLOAT16: 1}
#: scale of numbers before they are split: it turns the smallest denormal number into a normal one
SCALE = 2.0**24
#: 64-bit words of the buffer in which a tile is transposed
TURNED_WORDS = TILE_LINES * BLOCK_TERMS // 2
#: columns are padded to a multiple of this: products take two tiles of a second operand at once
PADDED_COLUMNS = 2 * TILE_LINES
#: tiles and blocks of terms split together: along both axes, they span several cache lines
ITEM_TILES, ITEM_BLOCKS = 8, 4
#: items worth handing to another thread
CHUNK_ITEMS = 1

_LANES = 16
_HALF = BLOCK_TERMS // 2
_UPPER = -0x10000

_WORDS = Words(
    *("lines", "terms", "tiles", "blocks", "tile_groups", "block_groups", "inner", "by_lines"),
    *("source*", "source_line", "source_term", "source_outer", "source_inner"),
    *("split*", "split_outer", "split_inner"),
)


@dataclasses.dataclass(frozen=True)
class Splitting:
    """The kernel that splits matrices into some parts."""

    parts: int = 3

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, _LANES, FLOAT32)
        turned = e.scratch(TURNED_WORDS)

        def word(of: str) -> Index:
            return _WORDS.index(e, of)

        def item(number: Index) -> None:
            rest, block_group = e.split(number, word("block_groups"))
            pair, tile_group = e.split(rest, word("tile_groups"))
            outer, inner = e.split(pair, word("inner"))
            source, split = [
                e.at(_WORDS.pointer(e, of), e.times(outer, word(f"{of}_outer")), e.times(inner, word(f"{of}_inner")))
                for of in ("source", "split")
            ]
            first_tile, first_block = e.times(tile_group, str(ITEM_TILES)), e.times(block_group, str(ITEM_BLOCKS))
            last_tile = e.least(e.plus(first_tile, str(ITEM_TILES)), word("tiles"))
            last_block = e.least(e.plus(first_block, str(ITEM_BLOCKS)), word("blocks"))

            tiles, blocks = e.minus(last_tile, first_tile), e.minus(last_block, first_block)
            # iterate in the order of memory
            lines_first = e.test("eq", word("source_line"), "1")

            def one(number: Index) -> None:
                quotient, rest = e.split(number, e.select_index(lines_first, tiles, blocks))
                tile_number = e.plus(first_tile, e.select_index(lines_first, rest, quotient))
                block_number = e.plus(first_block, e.select_index(lines_first, quotient, rest))
                first_line, first_term = (
                    e.times(tile_number, str(TILE_LINES)),
                    e.times(block_number, str(BLOCK_TERMS)),
                )
                line, term = word("source_line"), word("source_term")
                place = e.plus(e.times(tile_number, word("blocks")), block_number)
                tile = Tile(
                    e.at(split, e.times(place, str(tile_words(self.parts)))),
                    e.at(source, e.times(first_line, line), e.times(first_term, term)),
                    *(line, term, e.minus(word("lines"), first_line), e.minus(word("terms"), first_term)),
                )
                split_tile(e, tile, e.test("ne", word("by_lines"), "0"), turned)

            e.for_each("0", e.times(tiles, blocks), one)

        e.for_each("%lo", "%hi", item)
        return module(*split_routines(self.parts), e)


class Tile(NamedTuple):
    """A tile to split: its target and source, the strides of lines and terms, and the number left of each."""

    to: str
    source: str
    line: Index
    term: Index
    lines: Index
    terms: Index


def tile_words(parts: int) -> int:
    """Return the number of 4-byte words of all parts of a tile."""
    return parts * PART_WORDS


def split_routines(parts: int) -> list[Routine]:
    """Return the routines that a module needs to split tiles into some parts."""
    return [_split_rows(parts), _turn(), _split_partly(parts)]


def split_tile(e: Routine, tile: Tile, by_lines: str, turned: str) -> None:
    """Write the call that splits a tile: in vectors along its rows, along its columns, or number by number.

    ``by_lines`` (an ``i1``) tells whether the rows of the tile are lines, and ``turned`` is a buffer for a tile.
    """
    row, lane = e.select_index(by_lines, tile.line, tile.term), e.select_index(by_lines, tile.term, tile.line)
    places = [f"ptr {tile.to}", f"ptr {tile.source}", f"i64 {e.times(str(_HALF), tile.term)}"]
    whole = e.logical_and(e.test("sge", tile.lines, str(TILE_LINES)), e.test("sge", tile.terms, str(BLOCK_TERMS)))

    def partly() -> None:
        rest = [f"i64 {row}", f"i64 {lane}", f"i64 {tile.lines}", f"i64 {tile.terms}", f"i1 {by_lines}"]
        e.invoke("split_partly", *places, *rest)

    def by_columns() -> None:
        e.invoke("turn", f"ptr {turned}", *places[1:], f"i64 {lane}")
        e.invoke("split_rows", places[0], f"ptr {turned}", f"i64 {_HALF}", f"i64 {BLOCK_TERMS}")

    def not_by_rows() -> None:
        e.when(e.logical_and(whole, e.test("eq", row, "1")), by_columns, partly)

    by_rows = e.logical_and(whole, e.test("eq", lane, "1"))
    e.when(by_rows, lambda: e.invoke("split_rows", *places, f"i64 {row}"), not_by_rows)


def _split_rows(parts: int) -> Routine:
    """Return the routine that splits a whole tile with contiguous rows."""
    arguments = "ptr noalias %to, ptr noalias %source, i64 %half, i64 %row"
    e = Routine("split_rows", _LANES, FLOAT32, arguments, inner=True)
    second = e.at("%source", "%half")

    def row(number: Index) -> None:
        place = e.times(number, "%row")
        _store_parts(e, parts, e.times(number, str(_LANES)), e.get("%source", place), e.get(second, place))

    e.for_each("0", str(TILE_LINES), row)
    return e


def _turn() -> Routine:
    """Return the routine that transposes a tile with contiguous columns, so that its rows become contiguous."""
    arguments = "ptr noalias %to, ptr noalias %source, i64 %half, i64 %lane"
    side = square_side(FLOAT32, _LANES)
    e = Routine("turn", side, FLOAT32, arguments, inner=True)

    def half(number: Index) -> None:
        start = e.at("%source", e.times(number, "%half"))

        def lanes(lane: Index) -> None:
            def rows(row: Index) -> None:
                place = e.at(start, row, e.times(lane, "%lane"))
                lines = [e.get(e.at(place, e.times(str(line), "%lane"))) for line in range(side)]
                to = e.at("%to", e.times(row, str(BLOCK_TERMS)), e.times(number, str(_HALF)), lane)
                for line, value in enumerate(e.transpose(lines)):
                    e.store(to, str(line * BLOCK_TERMS), value)

            e.for_each("0", str(TILE_LINES), rows, str(side))

        e.for_each("0", str(_LANES), lanes, str(side))

    e.for_each("0", "2", half)
    return e


def _split_partly(parts: int) -> Routine:
    """Return the routine that splits a tile at an edge of the matrix, or with strides in both directions."""
    arguments = (
        "ptr noalias %to, ptr noalias %source, i64 %half, i64 %row, i64 %lane, i64 %lines, i64 %terms, i1 %by_lines"
    )
    e = Routine("split_partly", _LANES, FLOAT32, arguments)
    by_lines = "%by_lines"

    def rows(row: Index) -> None:
        halves = []
        for first_term, start in (("0", "%source"), (str(_HALF), e.at("%source", "%half"))):
            terms = e.minus("%terms", first_term)
            inside = e.test("slt", row, e.select_index(by_lines, "%lines", terms))
            count = e.select_index(inside, e.select_index(by_lines, terms, "%lines"), "0")
            halves.append(e.gather(start, e.times(row, "%row"), "%lane", FLOAT32, e.below(count)))
        _store_parts(e, parts, e.times(row, str(_LANES)), *halves)

    e.for_each("0", str(TILE_LINES), rows)
    return e


def _store_parts(e: Routine, parts: int, place: Index, low: Value, high: Value) -> None:
    """Store the parts of two vectors, whose lanes are pairs, to a position in the tile ``%to``."""
    low, high = [e.multiply(value, e.constant(SCALE, FLOAT32)) for value in (low, high)]
    upper, half = e.constant(_UPPER, INT32), e.constant(0x8000, INT32)
    shift = e.constant(16, INT32)
    for part in range(parts):
        cut = []
        for value in (low, high):
            bits = e.reinterpret(value, INT32)
            # the third part needs no mask: only bits that fit are left
            bits = bits if part == 2 else e.bits("and", e.add(bits, half) if part == 0 else bits, upper)
            cut.append(bits)
        pairs = e.bits("or", e.bits("lshr", cut[0], shift), e.bits("and", cut[1], upper))
        e.store("%to", e.plus(place, str(part * PART_WORDS)), pairs)
        if part < parts - 1:
            low, high = [e.subtract(value, e.reinterpret(bits, FLOAT32)) for value, bits in zip((low, high), cut)]


class Split(NamedTuple):
    """Split matrices: their layout, and the launch that splits them."""

    launch: Launch
    operand: Reference
    outer: int
    inner: int
    size: int
    """Size in bytes."""


def tiles_of(lines: int, by_lines: bool) -> int:
    """Return the number of tiles for some lines of a first operand (``by_lines``) or a second one."""
    return -(-lines // TILE_LINES) if by_lines else 2 * -(-lines // PADDED_COLUMNS)


def splitting(
    sizes: tuple[int, int],
    count: tuple[int, int],
    by_lines: bool,
    source: tuple[Reference, int, int, int, int],
    target: Reference,
    parts: int = 3,
) -> Split:
    """Return the launch that splits matrices, and their split layout.

    Parameters
    ----------
    sizes
        Lines and terms.
    count
        Matrices along the outer and the inner batch axis; those that are the same along one are split once.
    by_lines
        Whether rows of tiles are lines, as in a first operand, or pairs of terms, as in a second one.
    source
        The operand, and the strides of its lines, terms, and outer and inner matrices.
    target
        Address of the split matrices.
    parts
        The number of parts.
    """
    lines, terms = sizes
    begin, line, term, outer, inner = source
    copies = count[0] if outer else 1, count[1] if inner else 1
    tiles, blocks = tiles_of(lines, by_lines), -(-terms // BLOCK_TERMS)
    one = tiles * blocks * tile_words(parts)
    outer_split, inner_split = one * copies[1] if outer else 0, one if inner else 0
    tile_groups, block_groups = -(-tiles // ITEM_TILES), -(-blocks // ITEM_BLOCKS)
    values: dict[str, int | Reference] = {
        "lines": lines,
        "terms": terms,
        "tiles": tiles,
        "blocks": blocks,
        "tile_groups": tile_groups,
        "block_groups": block_groups,
        "inner": copies[1],
        "by_lines": int(by_lines),
        "source": begin,
        "source_line": line,
        "source_term": term,
        "source_outer": outer,
        "source_inner": inner,
        "split": target,
        "split_outer": outer_split,
        "split_inner": inner_split,
    }
    items = tile_groups * block_groups * copies[0] * copies[1]
    launch = Launch(Splitting(parts), _WORDS.fill(values), items, CHUNK_ITEMS)
    return Split(launch, target, outer_split, inner_split, align_up(one * copies[0] * copies[1] * 4))
