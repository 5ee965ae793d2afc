"""Micro-kernels: products of small matrices that stay in registers while they are summed up.

``product``  (rows x 2 vectors) = (depth x rows, one scalar broadcast) · (depth x 2 vectors)

``dots``     (rows x columns) dot products of lines of two operands, whose vectors run along the direction of the sum

Both run at the speed of the multipliers: with 32 registers, 14 rows of two vectors are 28 sums, two vectors of the
second operand, and one of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..epilogue import Epilogue, Finish, write_stores
from ..routine import Routine
from ..target import Machine

__all__ = ["WIDTH", "DotTile", "dot_tile", "dots", "most_rows", "product"]

#: vectors side by side in the result of a product
WIDTH = 2
#: steps of a sum after which a line of weights is read that is prefetched: they often come from memory
_AHEAD = 64


def most_rows(machine: Machine) -> int:
    """Return the number of rows of a product that fit into registers.

    >>> most_rows(Machine(64, 32)), most_rows(Machine(32, 16))
    (14, 6)
    """
    # two registers for the second operand, and one (of 16: two, the compiler needs room) for the first
    return (machine.registers - (3 if machine.registers >= 32 else 4)) // WIDTH


def product(
    name: str,
    lanes: int,
    dtype: DType,
    rows: int,
    width: int,
    masked: bool,
    multiply_add: Callable[..., Value] = Routine.fma,
    lines: bool = False,
    epilogue: Epilogue | None = None,
) -> Routine:
    """Return the routine of a product; ``multiply_add(routine, first, second, sum)`` writes one step of a sum.

    Its arguments are the depth of the sum; the two operands and the result, each with the distance of its lines (a line
    of the first operand has ``rows`` scalars); the number of existing lines of the result; and whether to add to the
    result. The result is ``width`` vectors wide. If ``masked``, it has ``%columns`` existing lanes, and if it is one
    vector wide, the second operand is not read beyond them. If ``lines``, the lines of the first operand are its rows;
    of those that do not exist in the result, the last existing one is read. With an ``epilogue``, its operands, the
    number of the first line among all channels, and whether the sums are complete are the last arguments.
    """
    arguments = (
        "i64 %depth, ptr noalias %first, i64 %first_line, ptr noalias %second, i64 %second_line, "
        "ptr noalias %result, i64 %result_line, i64 %rows, i64 %add"
    )
    arguments += ", i64 %columns" if masked else ""
    arguments += "" if epilogue is None else ", ptr noalias %context, i64 %channel, i64 %complete"
    e = Routine(name, lanes, dtype, arguments, inner=not masked)
    mask = e.below(e.minus("%columns", str((width - 1) * lanes))) if masked else None

    def get(pointer: str, vector: int, exactly: bool = True) -> Value:
        offset = str(vector * lanes)
        # all vectors but the last are whole
        if mask is None or vector < width - 1 or not exactly:
            return e.get(pointer, offset)
        return e.get_where(pointer, mask, offset)

    def put(pointer: str, vector: int, value: Value) -> None:
        offset = str(vector * lanes)
        if mask is None or vector < width - 1:
            e.store(pointer, offset, value)
        else:
            e.store_where(pointer, offset, value, mask)

    last = e.minus("%rows", "1")
    row_lines = (
        [e.at("%first", e.times(e.least(str(row), last), "%first_line")) for row in range(rows)] if lines else []
    )

    def step(index: Index, sums: list[Value]) -> list[Value]:
        line = e.at("%second", e.times(index, "%second_line"))
        numbers = "" if lines else e.at("%first", e.times(index, "%first_line"))
        vectors = [get(line, vector, width == 1) for vector in range(width)]
        if not lines:
            e.prefetch(numbers, str(_AHEAD * rows))
        found = []
        for row in range(rows):
            number = e.get_splat(row_lines[row], index) if lines else e.get_splat(numbers, str(row))
            found += [multiply_add(e, number, vectors[v], sums[row * width + v]) for v in range(width)]
        return found

    sums = e.loop("0", "%depth", "1", [e.zeros()] * (rows * width), step)

    def write(adding: bool, finish: Finish | None) -> None:
        for row in range(rows):

            def line(row: int = row) -> None:
                target = e.at("%result", e.times(str(row), "%result_line"))
                operands = {} if finish is None else finish.row(e.plus("%channel", str(row)))
                for vector in range(width):
                    value = sums[row * width + vector]
                    value = e.add(get(target, vector), value) if adding else value
                    if finish is not None:
                        part = mask if vector == width - 1 else None
                        value = finish.value(operands, value, target, str(vector * lanes), part)
                    put(target, vector, value)

            e.when(e.test("slt", str(row), "%rows"), line)

    def write_sums(finish: Finish | None) -> None:
        e.when(e.test("ne", "%add", "0"), lambda: write(True, finish), lambda: write(False, finish))

    write_stores(epilogue, e, write_sums)
    return e


class DotTile(NamedTuple):
    """Number of lines of each operand in a tile of dot products."""

    rows: int
    columns: int

    def padded_size(self, lanes: int) -> int:
        """Return the number of elements that the sums of a tile take in memory: whole vectors."""
        return -(-self.rows * self.columns // lanes) * lanes


def dot_tile(machine: Machine) -> DotTile:
    """Return the tile of sums that fits into registers.

    >>> dot_tile(Machine(64, 32)), dot_tile(Machine(32, 16))
    (DotTile(rows=5, columns=5), DotTile(rows=3, columns=4))
    """
    return DotTile(5, 5) if machine.registers >= 32 else DotTile(3, 4)


def dots(name: str, lanes: int, dtype: DType, tile: DotTile) -> Routine:
    """Return the routine that adds dot products of lines of two operands to a tile of sums in memory.

    Lines have ``%width`` elements. ``%rows`` and ``%columns`` are the numbers of existing lines. For missing lines, the
    routine reads the last existing one; their sums have no meaning.
    """
    arguments = (
        "i64 %width, ptr noalias %first, i64 %first_line, i64 %rows, "
        "ptr noalias %second, i64 %second_line, i64 %columns, ptr noalias %sums"
    )
    e = Routine(name, lanes, dtype, arguments, inner=True)

    def lines(operand: str, count: int, existing: Index) -> list[str]:
        last = e.minus(existing, "1")
        return [e.at(operand, e.times(e.least(str(n), last), f"{operand}_line")) for n in range(count)]

    first, second = lines("%first", tile.rows, "%rows"), lines("%second", tile.columns, "%columns")
    last, mask = e.tail("%width")

    def combine(left: list[Value], right: list[Value], sums: list[Value]) -> list[Value]:
        found = []
        for row in range(tile.rows):
            found += [
                e.fma(left[row], right[column], sums[row * tile.columns + column]) for column in range(tile.columns)
            ]
        return found

    def vector(index: Index, sums: list[Value]) -> list[Value]:
        return combine([e.get(line, index) for line in first], [e.get(line, index) for line in second], sums)

    sums = e.loop("0", last, str(lanes), [e.zeros()] * (tile.rows * tile.columns), vector)
    sums = combine(
        [e.get_where(line, mask, last) for line in first], [e.get_where(line, mask, last) for line in second], sums
    )
    for start in range(0, len(sums), lanes):
        total = e.lane_sums(sums[start : start + lanes])
        e.store("%sums", str(start), e.add(e.get("%sums", str(start)), total))
    return e
