"""Words: the kernels that combine the small integers of neighboring channels in 32-bit words.

:class:`MakeWords` takes arrays of int8 or uint8 in the shape (outer, channels, inner), and hands on words in the shape
(outer, channels / size, inner); missing channels are zeros. See :mod:`.dots` for the layout of a word.
"""

from __future__ import annotations

import dataclasses
import math

from ...base.dtypes import INT8, INT32, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Reference, Words
from ..matmul.packing import PACK_ARGUMENTS, Packing
from ..routine import Routine, module

__all__ = ["MakeWords", "PackTiles", "PackWords", "make_words", "pack_tiles", "pack_words"]

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
        first = e.times(at, str(self.size))
        place = e.address(source, first, "i8")
        e.put_one(target, _one_word(e, place, "1", e.minus(channels, first), self.size, self.dtype), at)


def _one_word(e: Routine, source: str, distance: Index, existing: Index, size: int, dtype: DType) -> str:
    """Return a word of numbers at some distance, of which only some may exist, at least one."""
    width, word = 32 // size, "0"
    for number in range(size):
        exists = e.test("slt", str(number), existing)
        safe = e.select_index(exists, e.times(str(number), distance), "0")
        byte = e.assign(f"load i8, ptr {e.address(source, safe, 'i8')}, align 1")
        wide = e.assign(f"{'sext' if dtype.kind == 'i' else 'zext'} i8 {byte} to i32")
        wide = e.assign(f"select i1 {exists}, i32 {wide}, i32 0")
        wide = e.assign(f"and i32 {wide}, {(1 << width) - 1}")
        wide = e.assign(f"shl i32 {wide}, {width * number}")
        word = e.assign(f"or i32 {word}, {wide}")
    return word


_PACK = Words("tiles", "filters", "channels", "taps", "weight*", "packed*")


@dataclasses.dataclass(frozen=True)
class PackWords:
    """The kernel that packs int8 weights for the micro-kernels of convolutions; an item is a tile of ``rows`` filters.

    Weights have the shape (groups, filters, channels, taps). The result has the shape (groups, tiles, words, taps,
    rows); missing filters repeat the last one, whose products are not stored.
    """

    size: int
    rows: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, INT32)
        tiles, filters, channels, taps = [_PACK.index(e, word) for word in ("tiles", "filters", "channels", "taps")]
        weight, packed = _PACK.pointer(e, "weight"), _PACK.pointer(e, "packed")
        line = e.times(channels, taps)
        count = e.quotient(e.plus(channels, str(self.size - 1)), str(self.size))

        def tile(item: Index) -> None:
            group, number = e.split(item, tiles)
            first, last = e.times(number, str(self.rows)), e.minus(filters, "1")
            target = e.at(packed, e.times(item, e.times(e.times(count, taps), str(self.rows))))
            lines = []
            for row in range(self.rows):
                filter_ = e.plus(e.times(group, filters), e.least(e.plus(first, str(row)), last))
                lines.append(e.address(weight, e.times(filter_, line), "i8"))

            def word(at: Index) -> None:
                channel = e.times(at, str(self.size))
                existing = e.minus(channels, channel)

                def tap(which: Index) -> None:
                    place = e.plus(e.times(channel, taps), which)
                    into = e.at(target, e.times(e.plus(e.times(at, taps), which), str(self.rows)))
                    for row, source in enumerate(lines):
                        numbers = e.address(source, place, "i8")
                        e.put_one(into, _one_word(e, numbers, taps, existing, self.size, INT8), str(row))

                e.for_each("0", taps, tap)

            e.for_each("0", count, word)

        e.for_each("%lo", "%hi", tile)
        return module(e)


@dataclasses.dataclass(frozen=True)
class PackTiles:
    """The kernel that packs int8 weights for tiles of a matrix unit; an item is ``rows`` filters, one or two tiles.

    Weights have the shape (groups, filters, channels, taps). Steps are words of channels at a tap, in the order (words,
    taps), and zeros up to a multiple of 16. The result has the shape (groups, tiles, steps / 16, rows, 16); missing
    filters repeat the last one, whose products are not used.
    """

    rows: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, INT32)
        tiles, filters, channels, taps = [_PACK.index(e, word) for word in ("tiles", "filters", "channels", "taps")]
        weight, packed = _PACK.pointer(e, "weight"), _PACK.pointer(e, "packed")
        steps = e.times(e.quotient(e.plus(channels, "3"), "4"), taps)
        stored = e.times(e.quotient(e.plus(steps, "15"), "16"), "16")

        def tile(item: Index) -> None:
            group, number = e.split(item, tiles)
            target = e.at(packed, e.times(item, e.times(stored, str(self.rows))))

            def row(inside: Index) -> None:
                last = e.minus(filters, "1")
                which = e.least(e.plus(e.times(number, str(self.rows)), inside), last)
                line = e.times(e.plus(e.times(group, filters), which), e.times(channels, taps))
                source = e.address(weight, line, "i8")

                def put(step: Index, word: str) -> None:
                    block, lane = e.split(step, "16")
                    place = e.plus(e.times(block, str(self.rows)), inside)
                    e.put_one(target, word, e.plus(e.times(place, "16"), lane))

                def one(step: Index) -> None:
                    word, tap = e.split(step, taps)
                    channel = e.times(word, "4")
                    numbers = e.address(source, e.plus(e.times(channel, taps), tap), "i8")
                    put(step, _one_word(e, numbers, taps, e.minus(channels, channel), 4, INT8))

                e.for_each("0", steps, one)
                e.for_each(steps, stored, lambda step: put(step, "0"))

            e.for_each("0", str(self.rows), row)

        e.for_each("%lo", "%hi", tile)
        return module(e)


@dataclasses.dataclass(frozen=True)
class WordPacking(Packing):
    """The kernel that packs int8 weights into panels of words; a term is a word of ``size`` numbers."""

    size: int

    def routines(self) -> list[Routine]:
        """Return the routine that makes the words of a panel."""
        e = Routine("pack", self.lanes, self.dtype, PACK_ARGUMENTS)

        def row(term: Index) -> None:
            line = e.address("%source", e.times(term, "%source_term"), "i8")
            target = e.at("%panel", e.times(term, "%width"))

            def column(number: Index) -> None:
                numbers = e.address(line, e.times(number, "%source_column"), "i8")
                e.put_one(target, _one_word(e, numbers, "1", str(self.size), self.size, INT8), number)

            e.for_each("0", "%columns", column)
            e.for_each("%columns", "%width", lambda number: e.put_one(target, "0", number))

        e.for_each("0", "%terms", row)
        return [e]


def pack_words(size: int, rows: int, tiles: int, shape: tuple[int, int, int, int], target: Reference) -> Launch:
    """Return the launch that packs weights of the shape (groups, filters, channels, taps)."""
    groups, filters, channels, taps = shape
    words = _PACK.fill({"tiles": tiles, "filters": filters, "channels": channels, "taps": taps, "packed": target})
    length = -(-channels // size) * taps * rows
    return Launch(PackWords(size, rows), words, groups * tiles, max(1, _CHUNK_WORDS // length))


def pack_tiles(rows: int, tiles: int, shape: tuple[int, int, int, int], target: Reference) -> Launch:
    """Return the launch that packs weights of the shape (groups, filters, channels, taps) for a matrix unit."""
    groups, filters, channels, taps = shape
    words = _PACK.fill({"tiles": tiles, "filters": filters, "channels": channels, "taps": taps, "packed": target})
    return Launch(PackTiles(rows), words, groups * tiles, max(1, _CHUNK_WORDS // (-(-channels // 4) * taps * rows)))


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
