"""Products of small integers on a matrix unit (AMX-INT8), which multiplies tiles of bytes.

A tile is a register of 16 rows of 16 words, of four bytes each. One instruction adds the product of two tiles to 256
int32 sums: 16 rows, 64 terms and 16 columns. It exists for all combinations of signed and unsigned bytes, and is exact,
so results are those of vectors (:mod:`.dots`). Two tiles of each operand and four of sums are used at once.

The first operand has 16 words of a row in a row of a tile, the second 16 words of 16 columns: *panels* of 32 columns,
as they are in convolutions by im2col. So dense layers multiply data by panels of weights (:class:`TiledProduct`), and
convolutions multiply weights by panels of windows (:class:`TiledForward`). Missing terms are zeros in one operand; the
other one may have any bytes there. See docs/decisions/0024.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from ...base.dtypes import INT8, INT32, UINT8, DType
from ...lower.ir.function_builder import Index, Value
from ..conv.im2col import Im2colWriter
from ..launch import Launch, Plan, Prepared, Reference, Words, align_up
from ..matmul.amx import SIDE, configure_tiles, release_tiles
from ..matmul.bf16_split import PART_WORDS, TILE_LINES
from ..matmul.packing import part
from ..routine import Routine, module
from .convolution import QuantizedForward
from .dense import for_each_square
from .dots import Dot
from .finish import Finish, finish_rectangle

__all__ = [
    "BYTES",
    "TILE_WORDS",
    "TileColumns",
    "TileRows",
    "TiledForward",
    "TiledProduct",
    "dense_plan",
    "filters_of_tile",
    "is_worth",
    "whole_channels",
]

#: words in a row of a tile
TILE_WORDS = 16
#: the words that tiles have: four bytes. No vector instruction multiplies them
BYTES = Dot(4, "amx")

#: greatest number of rows of the result that are computed panel by panel: 192 KB for 1024 terms
_BLOCK_ROWS = 192
#: multiplications that a core with a unit does per cycle, and those of vectors by bytes of a word
_TILE_RATE, _VECTOR_RATE = 1024, 32
#: products worth a call: some microseconds at a half of that rate. Bytes worth a call
_TASK_WORK, _CHUNK_BYTES = 1 << 22, 1 << 14
_LANES, _WORD, _SIZE = 16, 4, 4

_ROWS = Words("rows", "terms", "tile", "data*", "packed*")
_COLUMNS = Words("columns", "terms", "panel", "weight*", "packed*")
_PRODUCT = Words(
    *("rows", "columns", "steps", "row_blocks", "panel", "data_line", "data_block", "data_rows"),
    *("data*", "weight*", "scale*", "bias*", "out*"),
)


def is_worth(sizes: tuple[int, int, int], dot: Dot) -> bool:
    """Return whether tiles take fewer cycles than vectors of words, at the rates that processors are specified with.

    Sizes are rows, terms and columns. The results are the same. Rows of tiles are filled with zeros::

        >>> is_worth((1, 4096, 4096), Dot(4, "vnni")), is_worth((8, 4096, 4096), Dot(4, "vnni"))
        (False, True)
    """
    units = TILE_LINES, TILE_WORDS * _SIZE, SIDE
    padded = math.prod([-(-size // unit) * unit for size, unit in zip(sizes, units, strict=True)])
    return padded * _VECTOR_RATE * dot.size < math.prod(sizes) * _TILE_RATE


def _instruction(first: DType, second: DType) -> str:
    """Return the instruction that multiplies tiles of two dtypes.

    >>> _instruction(UINT8, INT8)
    'tdpbusd'
    """
    signs = ["u" if dtype == UINT8 else "s" for dtype in (first, second)]
    return f"tdpb{''.join(signs)}d"


def tile_product(name: str, height: int, instruction: str) -> Routine:
    """Return the routine that multiplies one or two tiles of rows (``height``) by a panel, over some steps of words.

    Rows of the first operand have a distance of ``%line`` words, and its groups of 16 steps one of ``%block``. Lines of
    a panel have 32 words. Sums are added to the result if ``%add`` is not 0. All rows and columns are stored::

        call void @llvm.x86.tileloadd64(i8 4, ptr %first, i64 64)
        call void @llvm.x86.tileloadd64(i8 6, ptr %panel, i64 128)
        call void @llvm.x86.tdpbusd(i8 0, i8 4, i8 6)
    """
    arguments = (
        "i64 %steps, ptr noalias %first, i64 %line, i64 %block, ptr noalias %panel, ptr noalias %result, "
        "i64 %result_line, i64 %add"
    )
    e = Routine(name, _LANES, INT32, arguments, inner=True)
    e.declare("declare void @llvm.x86.tilezero(i8)")
    e.declare("declare void @llvm.x86.tileloadd64(i8, ptr, i64)")
    e.declare("declare void @llvm.x86.tilestored64(i8, ptr, i64)")
    e.declare(f"declare void @llvm.x86.{instruction}(i8, i8, i8)")
    sums = [(row, column) for row in range(height) for column in range(2)]
    distance = e.times("%result_line", str(_WORD))
    places = [
        e.at("%result", e.times(str(row * TILE_LINES), "%result_line"), str(column * TILE_WORDS))
        for row, column in sums
    ]
    first_line = e.times("%line", str(_WORD))

    def move(what: str) -> None:
        for number, place in enumerate(places):
            e.line(f"call void @llvm.x86.{what}(i8 {number}, ptr {place}, i64 {distance})")

    def clear() -> None:
        for number in range(len(sums)):
            e.line(f"call void @llvm.x86.tilezero(i8 {number})")

    e.when(e.test("ne", "%add", "0"), lambda: move("tileloadd64"), clear)

    def block(number: Index) -> None:
        start, right = e.at("%first", e.times(number, "%block")), e.at("%panel", e.times(number, str(2 * PART_WORDS)))
        for row in range(height):
            place = e.at(start, e.times(str(row * TILE_LINES), "%line"))
            e.line(f"call void @llvm.x86.tileloadd64(i8 {4 + row}, ptr {place}, i64 {first_line})")
        for column in range(2):
            place = e.at(right, str(column * TILE_WORDS))
            e.line(f"call void @llvm.x86.tileloadd64(i8 {6 + column}, ptr {place}, i64 {SIDE * _WORD})")
        for total, (row, column) in enumerate(sums):
            e.line(f"call void @llvm.x86.{instruction}(i8 {total}, i8 {4 + row}, i8 {6 + column})")

    e.for_each("0", e.quotient(e.plus("%steps", str(TILE_WORDS - 1)), str(TILE_WORDS)), block)
    move("tilestored64")
    return e


def _multiply(e: Routine, name: str, rows: Index, *arguments: str) -> None:
    """Write the call of the routine for the rows that exist, one or two tiles of them."""
    e.when(
        e.test("sgt", rows, str(TILE_LINES)),
        lambda: e.invoke(f"{name}_2", *arguments),
        lambda: e.invoke(f"{name}_1", *arguments),
    )


# -- dense layers


@dataclasses.dataclass(frozen=True)
class TileRows:
    """The kernel that copies rows of data to tiles; an item is two tiles of rows, a *side*.

    A side has 16 words of each of its 32 rows, then the next ones. The last row takes the place of missing ones.
    """

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, _LANES, INT32)
        rows, terms, tile = [_ROWS.index(e, word) for word in ("rows", "terms", "tile")]
        data, packed = _ROWS.pointer(e, "data"), _ROWS.pointer(e, "packed")
        spare = e.scratch(_LANES // 2)

        def item(number: Index) -> None:
            target = e.at(packed, e.times(number, tile))

            def row(inside: Index) -> None:
                line = e.least(e.plus(e.times(number, str(SIDE)), inside), e.minus(rows, "1"))
                into = e.at(target, e.times(inside, str(TILE_WORDS)))
                for_each_square(
                    e,
                    terms,
                    [e.address(data, e.times(line, terms), "i8")],
                    lambda step, vectors: e.store(into, e.times(step, str(SIDE)), vectors[0]),
                    spare,
                )

            e.for_each("0", str(SIDE), row)

        e.for_each("%lo", "%hi", item)
        return module(e)


@dataclasses.dataclass(frozen=True)
class TileColumns:
    """The kernel that makes panels of weights; an item is a panel. The last column takes the place of missing ones."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, _LANES, INT32)
        columns, terms, panel = [_COLUMNS.index(e, word) for word in ("columns", "terms", "panel")]
        weight, packed = _COLUMNS.pointer(e, "weight"), _COLUMNS.pointer(e, "packed")
        spare = e.scratch(_LANES // 2)

        def item(number: Index) -> None:
            def half(which: Index) -> None:
                beside = e.times(which, str(TILE_WORDS))
                first, last = e.plus(e.times(number, str(SIDE)), beside), e.minus(columns, "1")
                lines = [
                    e.address(weight, e.times(e.least(e.plus(first, str(lane)), last), terms), "i8")
                    for lane in range(_LANES)
                ]
                target = e.at(packed, e.times(number, panel), beside)

                def square(step: Index, vectors: list[Value]) -> None:
                    into = e.at(target, e.times(step, str(SIDE)))
                    for line, words in enumerate(e.transpose(vectors)):
                        e.store(into, str(line * SIDE), words)

                for_each_square(e, terms, lines, square, spare)

            e.for_each("0", "2", half)

        e.for_each("%lo", "%hi", item)
        return module(e)


@dataclasses.dataclass(frozen=True)
class TiledProduct:
    """The kernel that multiplies data of a dtype, and finishes; an item is a panel of columns of a block of rows."""

    data: DType
    finish: Finish

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, _LANES, INT32)
        rows, columns, steps = [_PRODUCT.index(e, word) for word in ("rows", "columns", "steps")]
        row_blocks, panel, line = [_PRODUCT.index(e, word) for word in ("row_blocks", "panel", "data_line")]
        block, data_rows = _PRODUCT.index(e, "data_block"), _PRODUCT.index(e, "data_rows")
        data, weight = _PRODUCT.pointer(e, "data"), _PRODUCT.pointer(e, "weight")
        operands = [_PRODUCT.pointer(e, word) for word in ("out", "scale", "bias")]
        sums = e.scratch(SIDE * SIDE // 2)
        configure_tiles(e)

        def item(number: Index) -> None:
            which, row_block = e.split(number, row_blocks)
            first, count = part(e, row_block, row_blocks, rows, SIDE)
            column, right = e.times(which, str(SIDE)), e.at(weight, e.times(which, panel))
            stop = e.plus(first, count)

            def some_rows(row: Index) -> None:
                left = e.at(data, e.times(e.quotient(row, str(SIDE)), data_rows))
                existing = e.least(e.minus(stop, row), str(SIDE))
                arguments = (
                    *(f"i64 {steps}", f"ptr {left}", f"i64 {line}", f"i64 {block}", f"ptr {right}"),
                    *(f"ptr {sums}", f"i64 {SIDE}", "i64 0"),
                )
                _multiply(e, f"{name}_tiles", existing, *arguments)

                def sums_of(at: Index, _: Index) -> Callable[[Index], Value]:
                    return lambda inside: e.get(sums, e.plus(e.times(inside, str(SIDE)), at))

                places = (row, existing), (column, e.minus(columns, column))
                finish_rectangle(e, self.finish, operands, *places, columns, SIDE, sums_of)

            e.for_each(first, stop, some_rows, str(SIDE))

        e.for_each("%lo", "%hi", item)
        release_tiles(e)
        return module(*_tile_products(name, _instruction(self.data, INT8)), e)


def _tile_products(name: str, instruction: str) -> list[Routine]:
    return [tile_product(f"{name}_tiles_{height}", height, instruction) for height in (1, 2)]


def dense_plan(sizes: tuple[int, int, int], dtype: DType, finish: Finish) -> Plan:
    """Return the launches of a product of some rows, terms and columns."""
    rows, terms, columns = sizes
    blocks = -(-terms // (TILE_WORDS * _SIZE))
    sides, panels, panel = -(-rows // SIDE), -(-columns // SIDE), blocks * 2 * PART_WORDS
    row_blocks = -(-rows // _BLOCK_ROWS)
    # whole tiles are read where they are
    in_place = rows % TILE_LINES == 0 and terms % (TILE_WORDS * _SIZE) == 0
    data_bytes = 0 if in_place else align_up(sides * panel * _WORD)
    data, weight = Reference("data") if in_place else Reference("scratch"), Reference("scratch", data_bytes)
    line = terms // _SIZE if in_place else TILE_WORDS
    values: dict[str, int | Reference] = {
        "rows": rows,
        "columns": columns,
        "steps": blocks * TILE_WORDS,
        "row_blocks": row_blocks,
        "panel": panel,
        "data_line": line,
        "data_block": TILE_WORDS if in_place else 2 * PART_WORDS,
        "data_rows": SIDE * line if in_place else panel,
        "data": data,
        "weight": weight,
    }
    if not finish.is_scaled:
        values.update(scale=Reference("out"), bias=Reference("out"))
    left = _ROWS.fill({"rows": rows, "terms": terms, "tile": panel, "packed": data})
    right = _COLUMNS.fill({"columns": columns, "terms": terms, "panel": panel, "packed": weight})
    chunk = max(1, _CHUNK_BYTES // (SIDE * terms))
    work = -(-rows // row_blocks) * terms * SIDE
    before = () if in_place else (Launch(TileRows(), left, sides, chunk),)
    launches = (
        *before,
        Launch(TileColumns(), right, panels, chunk),
        Launch(
            TiledProduct(dtype, finish),
            _PRODUCT.fill(values),
            panels * row_blocks,
            max(1, _TASK_WORK // work),
            rows * terms * columns // 50_000_000,
        ),
    )
    weight_bytes = align_up(panels * panel * _WORD)
    return Plan(launches, data_bytes + weight_bytes, (Prepared(len(before), "weight", data_bytes, weight_bytes),))


# -- convolutions


def filters_of_tile(filters: int) -> int:
    """Return the number of filters that are multiplied at once."""
    return SIDE if filters > TILE_LINES else TILE_LINES


def whole_channels(block: int, channels: int, taps: int) -> int:
    """Return the number of words of channels in a block, at least some: its steps fill tiles, or it has all channels.

    >>> whole_channels(30, 64, 9), whole_channels(30, 31, 9), whole_channels(18, 64, 16)
    (32, 31, 18)
    """
    unit = TILE_WORDS // math.gcd(TILE_WORDS, taps)
    return min(channels, -(-block // unit) * unit)


@dataclasses.dataclass(frozen=True)
class TiledForward(QuantizedForward):
    """The kernel of a convolution; tiles of weights are those of :class:`.words.PackTiles`."""

    data: DType = INT8

    def _begin(self, e: Routine) -> None:
        configure_tiles(e)

    def _end(self, e: Routine) -> None:
        release_tiles(e)

    def _products(self, walk: Im2colWriter) -> list[Routine]:
        return _tile_products(walk.name, _instruction(INT8, self.data))

    def _depth(self, walk: Im2colWriter) -> Index:
        e = walk.e
        steps = e.plus(e.times(walk["channels"], walk["taps"]), str(TILE_WORDS - 1))
        return e.times(e.times(e.quotient(steps, str(TILE_WORDS)), str(TILE_WORDS)), str(self.rows))

    def _multiply(
        self,
        walk: Im2colWriter,
        depth: Index,
        operands: tuple[str, str],
        result: tuple[str, Index],
        rows: Index,
        adding: Index,
        columns: Index,
        finishing: tuple[str, ...],
    ) -> None:
        """Write the call of a micro-kernel: sums have room for all columns of a panel, and all rows of a tile."""
        arguments = (
            *(f"i64 {depth}", f"ptr {operands[0]}", f"i64 {TILE_WORDS}", f"i64 {self.rows * TILE_WORDS}"),
            *(f"ptr {operands[1]}", f"ptr {result[0]}", f"i64 {result[1]}", f"i64 {adding}"),
        )
        _multiply(walk.e, f"{walk.name}_tiles", rows, *arguments)
