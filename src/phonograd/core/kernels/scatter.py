"""Scatter-add: slices added up at the positions in an index, in order, for any number of threads.

The output has ``extent`` positions, and the index has one of them for each of ``count`` slices. Scalars with few
positions are added in order to sums in double precision. Otherwise a first kernel links the slices of each position, in
order. If most positions have slices, a second one iterates over the positions, adds up the slices of each in registers,
and writes every element of the output once. If few have, the output is cleared, and the second kernel iterates over the
slices: the first slice of each position adds up its list. Threads can share the positions or slices. All ways give the
same bits.

An output that only elementwise operators read need not be made: :func:`sum_slices` stores the sums beside the slices,
and :func:`places` says where the sum of each position is. Nor need one that is added to an array: :func:`add_onto` adds
each sum where the array is read, and may write the result over it.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Sequence
from typing import Literal

from ..base.dtypes import FLOAT64, INT32, INT64, DType, kind_of
from ..graph.node import Node
from ..lower.ir.emitter import ROW, Emitter
from ..lower.ir.function_builder import Index, Value
from ..lower.lowering import Scatter, parameters
from .launch import Launch, Plan, Reference, Words, align_up
from .target import Machine

__all__ = ["add_onto", "add_slices", "places", "plan", "sum_slices"]

#: maximum number of sums of scalars that are kept in scratch memory
FEW_PLACES = 1 << 15
#: elements per chunk of work, and elements that are cleared at a time
CHUNK_ELEMENTS, CLEARED = 1 << 14, 1 << 12
#: positions for each slice from which on slices are iterated over, and not positions
FEW_SLICES = 2
_LANES = 8

_ADD = Words("count", "extent", "data*", "index*", "sums*", "out*")
_LINK = Words("count", "extent", "index*", "heads*", "links*")
_COLLECT = Words("count", "extent", "inner", "data*", "index*", "heads*", "links*", "out*")
_COLLECT_ONTO = Words("count", "extent", "inner", "old*", "data*", "index*", "heads*", "links*", "out*")
_CLEAR = Words("elements", "out*")
_PLACES = Words("count", "extent", "index*", "out*")


def plan(node: Node, lowering: Scatter, machine: Machine) -> Plan:
    """Return how to compute a node that scatters."""
    shapes = [source.shape for source in node.inputs]
    outer, inner, extent = lowering.sizes(*shapes, **parameters(node, lowering.sizes))
    count = math.prod(shapes[-1])
    if lowering.form == "sum":
        return add_slices(outer, inner, extent, count, node.dtype)
    if lowering.form == "onto":
        return add_onto(inner, extent, count, node.dtype)
    return (
        sum_slices(inner, extent, count, node.dtype)
        if lowering.form == "slices"
        else places(extent, count, lowering.form)
    )


def add_slices(outer: int, inner: int, extent: int, count: int, dtype: DType) -> Plan:
    """Return the plan that adds up slices of ``inner`` elements; operands are ``data``, ``index`` and ``out``.

    All are contiguous: data is (outer, count, inner), index (count,), and out (outer, extent, inner).
    """
    sizes: dict[str, int | Reference] = {"count": count, "extent": extent}
    if inner == outer == 1 and extent <= FEW_PLACES:
        words = _ADD.fill({**sizes, "sums": Reference("scratch")})
        return Plan((Launch(_Add(dtype), words, 1),), align_up(8 * (extent + ROW)))
    is_sparse = extent > FEW_SLICES * count
    over = _Over.SLICES if is_sparse else _Over.POSITIONS
    (link, collect), scratch_bytes = _linked(outer, inner, extent, count, dtype, over)
    if not is_sparse:
        return Plan((link, collect), scratch_bytes)
    elements = outer * extent * inner
    blocks = -(-elements // CLEARED)
    clear = Launch(_Clear(dtype), _CLEAR.fill({"elements": elements}), blocks, max(1, CHUNK_ELEMENTS // CLEARED))
    return Plan((clear, link, collect), scratch_bytes)


def sum_slices(inner: int, extent: int, count: int, dtype: DType) -> Plan:
    """Return the plan that stores the sum of each position at its first slice, and zeros at all others.

    Operands are those of :func:`add_slices`, but out is (count + 1, inner): a slice of zeros comes first.
    """
    return Plan(*_linked(1, inner, extent, count, dtype, _Over.SUMS))


def add_onto(inner: int, extent: int, count: int, dtype: DType) -> Plan:
    """Return the plan that adds the sum of each position to a slice of ``old``, which ``out`` may be.

    Other operands are those of :func:`add_slices`. The bits are those of the sums, stored and then added.
    """
    return Plan(*_linked(1, inner, extent, count, dtype, _Over.ONTO))


def places(extent: int, count: int, which: Literal["last", "first"]) -> Plan:
    """Return the plan that finds the last or first occurrence of each position in ``index``.

    ``out`` is int64. Last occurrences count from 0, and -1 means none; first ones count from 1, and 0 means none.
    """
    return Plan((Launch(_Places(which == "first"), _PLACES.fill({"count": count, "extent": extent}), 1),))


class _Over(enum.Enum):
    """The items of the kernel that adds up slices."""

    POSITIONS = "positions"
    """All positions of the output."""
    SLICES = "slices"
    """The slices; the first of each position writes its sum there."""
    SUMS = "sums"
    """The slices; the first of each position writes its sum in its own place, the others zeros."""
    ONTO = "onto"
    """All positions of the output, each of which is a sum of slices and of an old value."""

    @property
    def is_positions(self) -> bool:
        """Return whether the items are positions."""
        return self in (_Over.POSITIONS, _Over.ONTO)


def _linked(
    outer: int, inner: int, extent: int, count: int, dtype: DType, over: _Over
) -> tuple[tuple[Launch, Launch], int]:
    """Return the launches that link slices and add them up, and the bytes of their lists."""
    heads = align_up(4 * (extent + ROW))
    lists: dict[str, int | Reference] = {"heads": Reference("scratch"), "links": Reference("scratch", heads)}
    sizes: dict[str, int | Reference] = {"count": count, "extent": extent, **lists}
    link = Launch(_Link(not over.is_positions), _LINK.fill(sizes), 1)
    items = extent if over.is_positions else count + (over is _Over.SUMS)
    chunk = max(1, CHUNK_ELEMENTS // max(1, inner))
    kernel = _Collect(dtype, 1 if inner == 1 else _LANES, over)
    collect = Launch(kernel, kernel.words.fill({**sizes, "inner": inner}), outer * items, chunk)
    return (link, collect), heads + align_up(4 * max(count, 1))


def _for_each(e: Emitter, count: Index, body: Callable[[Index], None], step: int = 1, start: Index = "0") -> None:
    def turn(index: Index, _: list[Value]) -> Sequence[Value]:
        body(index)
        return ()

    e.loop(start, count, str(step), (), turn)


def _fill(e: Emitter, pointer: str, count: Index, value: Value) -> None:
    """Store a value to some elements, rounding their number up to whole vectors."""
    _for_each(e, count, lambda index: e.store(pointer, index, value), e.lanes)


def _store_all(e: Emitter, pointer: str, count: Index, value: Callable[[Index], Value]) -> None:
    """Store exactly some elements. Whole vectors have no mask, which would take ten times as long."""
    whole = e.assign(f"and i64 {count}, {-e.lanes}")
    _for_each(e, whole, lambda place: e.store(pointer, place, value(place)), e.lanes)

    def part(place: Index) -> None:
        e.store_where(pointer, place, value(place), e.below(e.minus(count, place)))

    _for_each(e, count, part, e.lanes, whole)


def _sum_dtype(dtype: DType) -> DType:
    return FLOAT64 if kind_of(dtype) == "f" else dtype


@dataclasses.dataclass(frozen=True)
class _Add:
    """The kernel that adds scalars in order to sums in scratch memory."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e, wide = Emitter(name, _LANES), _sum_dtype(self.dtype)
        count, extent = _ADD.index(e, "count"), _ADD.index(e, "extent")
        data, index = _ADD.pointer(e, "data"), _ADD.pointer(e, "index")
        sums, out = _ADD.pointer(e, "sums"), _ADD.pointer(e, "out")
        _fill(e, sums, extent, e.constant(0, wide))

        def add(number: Index) -> None:
            place = e.load_word(index, number)
            term = e.load_splat(data, number, self.dtype)
            before = e.load_splat(sums, place, wide)
            e.store_first(sums, place, e.add(before, _as(e, term, wide)))

        _for_each(e, count, add)
        _store_all(e, out, extent, lambda place: _as(e, e.load(sums, place, wide), self.dtype))
        return e.text()


@dataclasses.dataclass(frozen=True)
class _Clear:
    """The kernel that stores zeros, over a range of blocks of elements."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, _LANES)
        elements, out = _CLEAR.index(e, "elements"), _CLEAR.pointer(e, "out")
        zero = e.constant(0, self.dtype)

        def block(item: Index) -> None:
            start = e.times(item, str(CLEARED))
            stop = e.least(e.plus(start, str(CLEARED)), elements)
            whole = e.plus(start, e.assign(f"and i64 {e.minus(stop, start)}, {-_LANES}"))
            _for_each(e, whole, lambda place: e.store(out, place, zero), _LANES, start)
            _for_each(e, stop, lambda place: e.store_first(out, place, zero), 1, whole)

        _for_each(e, "%hi", block, start="%lo")
        return e.text()


@dataclasses.dataclass(frozen=True)
class _Link:
    """The kernel that links slices: the first of each position, and the next of each slice; -1 ends a list."""

    is_sparse: bool
    """Whether only the positions of slices have lists, else all of them."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, ROW)
        count, extent = _LINK.index(e, "count"), _LINK.index(e, "extent")
        index, heads, links = (_LINK.pointer(e, word) for word in ("index", "heads", "links"))

        def begin(number: Index) -> None:
            place = e.address(heads, e.load_word(index, number), "i32")
            e.line(f"store i32 -1, ptr {place}, align 4")

        if self.is_sparse:
            _for_each(e, count, begin)
        else:
            _fill(e, heads, extent, e.constant(-1, INT32))

        def link(turn: Index) -> None:
            # in reverse, so that each list begins with the first slice
            number = e.minus(e.minus(count, "1"), turn)
            place, own = e.address(heads, e.load_word(index, number), "i32"), e.address(links, number, "i32")
            before, short = e.assign(f"load i32, ptr {place}, align 4"), e.assign(f"trunc i64 {number} to i32")
            e.line(f"store i32 {before}, ptr {own}, align 4")
            e.line(f"store i32 {short}, ptr {place}, align 4")

        _for_each(e, count, link)
        return e.text()


@dataclasses.dataclass(frozen=True)
class _Collect:
    """The kernel that adds up the slices of each position, over a range of positions, or of slices if these are few."""

    dtype: DType
    lanes: int
    over: _Over

    @property
    def words(self) -> Words:
        """Return the words of the kernel's table."""
        return _COLLECT_ONTO if self.over is _Over.ONTO else _COLLECT

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e, words = Emitter(name, self.lanes), self.words
        count, extent, inner = (words.index(e, word) for word in ("count", "extent", "inner"))
        data, index, heads, links, out = [words.pointer(e, word) for word in ("data", "index", "heads", "links", "out")]
        old = words.pointer(e, "old") if self.over is _Over.ONTO else None

        def store(where: Index, value: Value, mask: Value | None) -> None:
            if old is not None:
                value = e.add(self._slice(e, old, where, mask), value)
            if mask is None:
                e.store(out, where, value)
            else:
                e.store_where(out, where, value, mask)

        def add_up(outer: Index, head: Index, row: Index) -> None:
            slices = e.times(e.times(outer, count), inner)

            def strip(first: Index, mask: Value | None) -> None:
                total = self._total(e, head, links, data, e.plus(slices, first), inner, mask)
                store(e.plus(row, first), total, mask)

            own = e.plus(slices, e.times(head, inner))

            def only(first: Index, mask: Value | None) -> None:
                # as a sum from 0: makes 0 of -0
                value = self._slice(e, data, e.plus(own, first), mask)
                store(e.plus(row, first), e.add(value, e.constant(0, self.dtype)), mask)

            is_only = e.test("slt", _number(e, links, head), "0")
            e.when(is_only, lambda: self._strips(e, inner, only), lambda: self._strips(e, inner, strip))

        def clear(row: Index) -> None:
            zero = e.constant(0, self.dtype)
            self._strips(e, inner, lambda first, mask: store(e.plus(row, first), zero, mask))

        def place(item: Index) -> None:
            outer = e.assign(f"udiv i64 {item}, {extent}")
            head = _number(e, heads, e.minus(item, e.times(outer, extent)))
            row = e.times(item, inner)
            e.when(e.test("slt", head, "0"), lambda: clear(row), lambda: add_up(outer, head, row))

        def slice_(item: Index) -> None:
            outer = e.assign(f"udiv i64 {item}, {count}")
            number = e.minus(item, e.times(outer, count))
            where = e.load_word(index, number)
            row = e.times(e.plus(e.times(outer, extent), where), inner)
            e.when(e.test("eq", _number(e, heads, where), number), lambda: add_up(outer, number, row))

        def sum_(item: Index) -> None:
            number, row = e.minus(item, "1"), e.times(item, inner)
            # the item before the first slice is no head
            where = e.load_word(index, e.select_index(e.test("eq", item, "0"), "0", number))
            is_head = e.test("eq", _number(e, heads, where), number)
            e.when(is_head, lambda: add_up("0", number, row), lambda: clear(row))

        body = {_Over.SLICES: slice_, _Over.SUMS: sum_}.get(self.over, place)
        _for_each(e, "%hi", body, start="%lo")
        return e.text()

    def _strips(self, e: Emitter, inner: Index, body: Callable[[Index, Value | None], None]) -> None:
        """Write ``body(first, mask)`` for whole vectors without a mask, as masked stores are slow, and for the rest."""
        if self.lanes == 1:
            _for_each(e, inner, lambda first: body(first, None))
            return
        whole = e.assign(f"and i64 {inner}, {-self.lanes}")
        _for_each(e, whole, lambda first: body(first, None), self.lanes)
        _for_each(e, inner, lambda first: body(first, e.below(e.minus(inner, first))), self.lanes, whole)

    def _slice(self, e: Emitter, data: str, place: Index, mask: Value | None) -> Value:
        return e.load(data, place, self.dtype) if mask is None else e.load_where(data, place, self.dtype, mask)

    def _total(
        self, e: Emitter, head: Index, links: str, data: str, start: Index, inner: Index, mask: Value | None
    ) -> Value:
        """Return the sum of a strip of the slices of a list."""
        wide = _sum_dtype(self.dtype)
        zero = e.constant(0, INT64)

        def proceed(carried: list[Value]) -> str:
            return e.any(e.relation("ge", carried[0], zero))

        def add(carried: list[Value]) -> list[Value]:
            number = e.assign(f"extractelement {e.vector_type(INT64)} {carried[0].text}, i64 0")
            term = self._slice(e, data, e.plus(start, e.times(number, inner)), mask)
            return [e.splat(_number(e, links, number), INT64), e.add(carried[1], _as(e, term, wide))]

        total = e.repeat([e.splat(head, INT64), e.constant(0, wide)], proceed, add)[1]
        return _as(e, total, self.dtype)


@dataclasses.dataclass(frozen=True)
class _Places:
    """The kernel that finds the last or first occurrence of each position in an index."""

    is_first: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, _LANES)
        count, extent = _PLACES.index(e, "count"), _PLACES.index(e, "extent")
        index, out = _PLACES.pointer(e, "index"), _PLACES.pointer(e, "out")
        absent = e.constant(0 if self.is_first else -1, INT64)

        def note(turn: Index) -> None:
            number = e.minus(e.minus(count, "1"), turn) if self.is_first else turn
            e.store_word(out, e.load_word(index, number), e.plus(number, "1") if self.is_first else number)

        _store_all(e, out, extent, lambda place: absent)
        _for_each(e, count, note)
        return e.text()


def _number(e: Emitter, pointer: str, place: Index) -> Index:
    """Return an entry of a list."""
    found = e.assign(f"load i32, ptr {e.address(pointer, place, 'i32')}, align 4")
    return e.assign(f"sext i32 {found} to i64")


def _as(e: Emitter, value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else e.convert(value, dtype)
