"""The convolution of words: im2col on words in the place of numbers, and finished sums (:mod:`.finish`).

Sums of a box of windows stay in a slot of scratch memory until all channels are added; then they are finished, line by
line. An item is the same as in :class:`~phonograd.core.kernels.conv.im2col.Im2colForward`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ...base.dtypes import FLOAT32, INT32
from ...lower.ir.function_builder import Index, Value
from ..conv.im2col import BOX_WORDS, JOINED_WORDS, Box, Im2colForward, Im2colWriter
from ..conv.padding import FRAME_WORDS
from ..epilogue import Epilogue
from ..launch import Words
from ..routine import Routine
from ..scratch import SLOT_WORDS
from .dots import PAIRS, Dot
from .finish import REAL, Finish, store_some

__all__ = ["QUANTIZED", "QuantizedForward"]

QUANTIZED = Words(
    *(*BOX_WORDS, *JOINED_WORDS, "tiles", "parts", *FRAME_WORDS, *SLOT_WORDS),
    *("data*", "packed*", "scale*", "bias*", "out*"),
)


@dataclasses.dataclass(frozen=True)
class QuantizedForward(Im2colForward):
    """The kernel of a convolution of words."""

    words: ClassVar[Words] = QUANTIZED

    dot: Dot = PAIRS
    finish: Finish = REAL

    def finished(self, epilogue: Epilogue) -> None:
        """Return None: sums are finished otherwise."""

    def multiply_add(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        """Return one step of a sum of products; the first operand is the weights."""
        return self.dot.write(e, first, second, total)

    def _one(
        self,
        walk: Im2colWriter,
        box: Box,
        slot: str,
        image: tuple[Index, Index],
        weight: str,
        tiles: tuple[Index, Index],
    ) -> None:
        """Write the code for one box of one image: its sums, and the finished elements of each filter."""
        e = walk.e
        sums, line = e.at(slot, walk["joined_at"]), walk["columns_line"]
        self._sums(walk, box, slot, image, weight, (sums, line), tiles)
        rows = [e.times(tile, str(self.rows)) for tile in tiles]

        def row(number: Index) -> None:
            place = e.plus(e.times(image[0], walk["filters"]), number)
            channel = e.plus(e.times(image[1], walk["filters"]), number)
            first = e.plus(e.times(place, walk["windows"]), box.start)
            self._finish_line(walk, channel, first, e.at(sums, e.times(number, line)), box.columns)

        e.for_each(rows[0], e.least(rows[1], walk["filters"]), row)

    def _put_line(self, walk: Im2colWriter, place: Index, found: str, channel: Index) -> None:
        """Write the finished elements of one filter of one of several joined images."""
        e = walk.e
        self._finish_line(walk, channel, e.times(place, walk["windows"]), found, walk["windows"])

    def _finish_line(self, walk: Im2colWriter, channel: Index, first: Index, sums: str, count: Index) -> None:
        """Write finished elements from ``first`` on; all have the scale and the bias of one channel."""
        e, finish = walk.e, self.finish
        target = e.address(self.words.pointer(e, "out"), first, finish.element(e))
        factors: list[Value | None] = [None, None]
        if finish.is_scaled:
            factors = [
                e.load_splat(self.words.pointer(e, name), channel, dtype)
                for name, dtype in (("scale", FLOAT32), ("bias", INT32))
            ]
        last, mask = e.tail(count)

        def vector(at: Index) -> None:
            e.store(target, at, finish.write(e, e.get(sums, at), *factors))

        e.for_each("0", last, vector, str(self.lanes))
        found = finish.write(e, e.get_where(sums, mask, last), *factors)
        store_some(e, target, last, found, e.minus(count, last))
