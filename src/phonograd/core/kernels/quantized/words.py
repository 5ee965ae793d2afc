"""Words: the kernel that combines the small integers of neighboring channels in 32-bit words.

Takes arrays of int8 or uint8 in the shape (outer, channels, inner), and hands on words in the shape (outer,
channels / size, inner); missing channels are zeros. See :mod:`.dots` for the layout of a word.
"""

from __future__ import annotations

import dataclasses
import math

from ...base.dtypes import INT32, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Reference, Words
from ..routine import Routine, module

__all__ = ["MakeWords", "make_words"]

#: words worth a call
_CHUNK_WORDS = 1 << 13

_WORDS = Words("channels", "inner", "numbers*", "words*")


@dataclasses.dataclass(frozen=True)
class MakeWords:
    """The kernel; an item is a line of words. If ``inner`` is false, a line has one word, and an item is a row."""

    dtype: DType
    lanes: int
    size: int
    inner: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, INT32)
        channels, inner = _WORDS.index(e, "channels"), _WORDS.index(e, "inner")
        numbers, words = _WORDS.pointer(e, "numbers"), _WORDS.pointer(e, "words")
        count = e.quotient(e.plus(channels, str(self.size - 1)), str(self.size))

        def line(item: Index) -> None:
            outer, word = e.split(item, count)
            first = e.times(word, str(self.size))
            source = e.address(numbers, e.times(e.plus(e.times(outer, channels), first), inner), "i8")
            target = e.at(words, e.times(item, inner))
            last, mask = e.tail(inner)
            places = [e.times(str(number), inner) for number in range(self.size)]
            # channels beyond the last one read the first one, and count as zeros
            exist = [e.test("slt", e.plus(first, str(number)), channels) for number in range(self.size)]
            places = [e.select_index(exists, place, "0") for exists, place in zip(exist, places)]

            def vector(index: Index) -> None:
                lines = [e.load(source, e.plus(place, index), self.dtype) for place in places]
                e.store(target, index, self._join(e, lines, exist))

            e.for_each("0", last, vector, str(self.lanes))
            lines = [e.load_where(source, e.plus(place, last), self.dtype, mask) for place in places]
            e.store_where(target, last, self._join(e, lines, exist), mask)

        def row(item: Index) -> None:
            source = e.address(numbers, e.times(item, channels), "i8")
            target = e.at(words, e.times(item, count))
            whole = e.quotient(channels, str(self.size))
            steps = e.times(e.quotient(whole, str(self.lanes)), str(self.lanes))
            e.for_each("0", steps, lambda at: e.store(target, at, self._adjacent(e, source, at)), str(self.lanes))
            e.for_each(steps, count, lambda at: self._single(e, source, target, at, channels))

        e.for_each("%lo", "%hi", line if self.inner else row)
        return module(e)

    def _join(self, e: Routine, lines: list[Value], exist: list[str]) -> Value:
        """Return words whose numbers are in several vectors."""
        width = 32 // self.size
        found: Value | None = None
        for number, (line, exists) in enumerate(zip(lines, exist)):
            wide = e.convert(line, INT32)
            if number:
                wide = Value(e.assign(f"select i1 {exists}, {e._with_type(wide)}, {e._with_type(e.zeros())}"), INT32)
            if number < self.size - 1:
                wide = e.bits("and", wide, e.like(wide, (1 << width) - 1))
            moved = e.bits("shl", wide, e.like(wide, width * number)) if number else wide
            found = moved if found is None else e.bits("or", found, moved)
        assert found is not None
        return found

    def _adjacent(self, e: Routine, source: str, at: Index) -> Value:
        """Return words whose numbers are adjacent in memory."""
        count = self.lanes * self.size
        place = e.address(source, e.times(at, str(self.size)), "i8")
        text = e.assign(f"load <{count} x i8>, ptr {place}, align 1")
        if self.size == 2:
            extend = "sext" if self.dtype.kind == "i" else "zext"
            text = e.assign(f"{extend} <{count} x i8> {text} to <{count} x i16>")
        kind = f"<{count} x i{32 // self.size}>"
        return Value(e.assign(f"bitcast {kind} {text} to {e.vector_type(INT32)}"), INT32)

    def _single(self, e: Routine, source: str, target: str, at: Index, channels: Index) -> None:
        """Write one word, whose last numbers may be missing."""
        width, first, word = 32 // self.size, e.times(at, str(self.size)), "0"
        for number in range(self.size):
            place = e.plus(first, str(number))
            exists = e.test("slt", place, channels)
            safe = e.select_index(exists, place, "0")
            byte = e.assign(f"load i8, ptr {e.address(source, safe, 'i8')}, align 1")
            wide = e.assign(f"{'sext' if self.dtype.kind == 'i' else 'zext'} i8 {byte} to i32")
            wide = e.assign(f"select i1 {exists}, i32 {wide}, i32 0")
            wide = e.assign(f"and i32 {wide}, {(1 << width) - 1}")
            wide = e.assign(f"shl i32 {wide}, {width * number}")
            word = e.assign(f"or i32 {word}, {wide}")
        e.put_one(target, word, at)


def make_words(
    dtype: DType, lanes: int, size: int, shape: tuple[int, int, int], source: Reference, target: Reference
) -> Launch:
    """Return the launch that makes words of an array of the shape (outer, channels, inner)."""
    outer, channels, inner = shape
    count = -(-channels // size)
    kernel = MakeWords(dtype, lanes, size, inner > 1)
    words = _WORDS.fill({"channels": channels, "inner": inner, "numbers": source, "words": target})
    items, length = (outer * count, inner) if inner > 1 else (outer, count)
    return Launch(kernel, words, items, max(1, _CHUNK_WORDS // length), math.prod(shape) >> 20)
