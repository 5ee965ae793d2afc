"""Squares: blocks as wide as a vector, transposed in registers between memory and a strip of lanes."""

from __future__ import annotations

from collections.abc import Sequence

from ...lower.ir.function_builder import Index, Value
from ..routine import Routine

__all__ = ["load_square", "store_square"]


def load_square(e: Routine, pointer: str, distance: Index, lines: tuple[Index, Index], width: Index) -> list[Value]:
    """Return the transpose of a square: vector n holds element n of every line.

    Parameters
    ----------
    e
        The function.
    pointer
        The first element of line 0.
    distance
        The elements from one line to the next.
    lines
        The number of the first line, and of all lines; lanes of later lines repeat the last one.
    width
        The elements of a line; later ones are 0.
    """
    first, count = lines
    last = e.minus(count, "1")
    starts = [e.at(pointer, e.times(e.least(e.plus(first, str(lane)), last), distance)) for lane in range(e.lanes)]
    mask = e.below(width)
    rows = e.choose(
        e.test("sge", width, str(e.lanes)),
        lambda: [e.get(start) for start in starts],
        lambda: [e.get_where(start, mask) for start in starts],
    )
    return e.transpose(rows)


def store_square(
    e: Routine,
    pointer: str,
    distance: Index,
    lines: tuple[Index, Index],
    width: Index,
    vectors: Sequence[Value],
) -> None:
    """Store the transpose of a square: the reverse of :func:`load_square`."""
    first, count = lines
    mask = e.below(width)
    rows = e.transpose(vectors)

    def store(is_whole: bool) -> None:
        for lane, row in enumerate(rows):
            line = e.plus(first, str(lane))
            place = e.at(pointer, e.times(line, distance))

            def one(place: str = place, row: Value = row) -> None:
                if is_whole:
                    e.store(place, "0", row)
                else:
                    e.store_where(place, "0", row, mask)

            e.when(e.test("slt", line, count), one)

    e.when(e.test("sge", width, str(e.lanes)), lambda: store(True), lambda: store(False))
