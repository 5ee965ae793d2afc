"""Scatter-add: slices added up at the positions in an index, in order, for any number of threads.

The output has ``extent`` positions, and the index has one of them for each of ``count`` slices. Scalars with few
positions are added in order to sums in double precision. Otherwise a first kernel links the slices of each position, in
order. If most positions have slices, a second one iterates over the positions, adds up the slices of each in registers,
and writes every element of the output once. If few have, the output is cleared, and the second kernel iterates over the
slices: the first slice of each position adds up its list. Threads can share the positions or slices. All ways give the
same bits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from ..base.dtypes import FLOAT64, INT32, INT64, DType, kind_of
from ..graph.node import Node
from ..lower.ir.emitter import ROW, Emitter
from ..lower.ir.function_builder import Index, Value
from ..lower.lowering import Scatter, parameters
from .launch import Launch, Plan, Reference, Words, align_up
from .target import Machine

__all__ = ["add_slices", "last_places", "plan"]

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
_CLEAR = Words("elements", "out*")
_LAST = Words("count", "extent", "index*", "out*")


def plan(node: Node, lowering: Scatter, machine: Machine) -> Plan:
    """Return how to compute a node that scatters."""
    shapes = [source.shape for source in node.inputs]
    outer, inner, extent = lowering.sizes(*shapes, **parameters(node, lowering.sizes))
    count = math.prod(shapes[-1])
    return last_places(extent, count) if lowering.last else add_slices(outer, inner, extent, count, node.dtype)


def add_slices(outer: int, inner: int, extent: int, count: int, dtype: DType) -> Plan:
    """Return the plan that adds up slices of ``inner`` elements; operands are ``data``, ``index`` and ``out``.

    All are contiguous: data is (outer, count, inner), index (count,), and out (outer, extent, inner).
    """
    sizes: dict[str, int | Reference] = {"count": count, "extent": extent}
    if inner == outer == 1 and extent <= FEW_PLACES:
        words = _ADD.fill({**sizes, "sums": Reference("scratch")})
        return Plan((Launch(_Add(dtype), words, 1),), align_up(8 * (extent + ROW)))
    heads = align_up(4 * (extent + ROW))
    lists: dict[str, int | Reference] = {"heads": Reference("scratch"), "links": Reference("scratch", heads)}
    is_sparse = extent > FEW_SLICES * count
    link = Launch(_Link(is_sparse), _LINK.fill({**sizes, **lists}), 1)
    words = _COLLECT.fill({**sizes, **lists, "inner": inner})
    chunk = max(1, CHUNK_ELEMENTS // max(1, inner))
    kernel = _Collect(dtype, 1 if inner == 1 else _LANES, is_sparse)
    collect = Launch(kernel, words, outer * (count if is_sparse else extent), chunk)
    scratch_bytes = heads + align_up(4 * max(count, 1))
    if not is_sparse:
        return Plan((link, collect), scratch_bytes)
    elements = outer * extent * inner
    blocks = -(-elements // CLEARED)
    clear = Launch(_Clear(dtype), _CLEAR.fill({"elements": elements}), blocks, max(1, CHUNK_ELEMENTS // CLEARED))
    return Plan((clear, link, collect), scratch_bytes)


def last_places(extent: int, count: int) -> Plan:
    """Return the plan that finds the last occurrence of each position in ``index``; ``out`` is int64, -1 for none."""
    return Plan((Launch(_Last(), _LAST.fill({"count": count, "extent": extent}), 1),))


def _for_each(e: Emitter, count: Index, body: Callable[[Index], None], step: int = 1, start: Index = "0") -> None:
    def turn(index: Index, _: list[Value]) -> Sequence[Value]:
        body(index)
        return ()

    e.loop(start, count, str(step), (), turn)


def _fill(e: Emitter, pointer: str, count: Index, value: Value) -> None:
    """Store a value to some elements, rounding their number up to whole vectors."""
    _for_each(e, count, lambda index: e.store(pointer, index, value), e.lanes)


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

        def finish(place: Index) -> None:
            total = _as(e, e.load(sums, place, wide), self.dtype)
            e.store_where(out, place, total, e.below(e.minus(extent, place)))

        _for_each(e, count, add)
        _for_each(e, extent, finish, e.lanes)
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
    is_sparse: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, self.lanes)
        count, extent, inner = (_COLLECT.index(e, word) for word in ("count", "extent", "inner"))
        data, index, heads, links, out = [
            _COLLECT.pointer(e, word) for word in ("data", "index", "heads", "links", "out")
        ]

        def store(where: Index, value: Value, mask: Value | None) -> None:
            if mask is None:
                e.store(out, where, value)
            else:
                e.store_where(out, where, value, mask)

        def add_up(outer: Index, head: Index, row: Index) -> None:
            slices = e.times(e.times(outer, count), inner)

            def strip(first: Index, mask: Value | None) -> None:
                total = self._total(e, head, links, data, e.plus(slices, first), inner, mask)
                store(e.plus(row, first), total, mask)

            self._strips(e, inner, strip)

        def place(item: Index) -> None:
            outer = e.assign(f"udiv i64 {item}, {extent}")
            head = _number(e, heads, e.minus(item, e.times(outer, extent)))
            row = e.times(item, inner)

            def clear() -> None:
                zero = e.constant(0, self.dtype)
                self._strips(e, inner, lambda first, mask: store(e.plus(row, first), zero, mask))

            e.when(e.test("slt", head, "0"), clear, lambda: add_up(outer, head, row))

        def slice_(item: Index) -> None:
            outer = e.assign(f"udiv i64 {item}, {count}")
            number = e.minus(item, e.times(outer, count))
            where = e.load_word(index, number)
            row = e.times(e.plus(e.times(outer, extent), where), inner)
            e.when(e.test("eq", _number(e, heads, where), number), lambda: add_up(outer, number, row))

        _for_each(e, "%hi", slice_ if self.is_sparse else place, start="%lo")
        return e.text()

    def _strips(self, e: Emitter, inner: Index, body: Callable[[Index, Value | None], None]) -> None:
        """Write ``body(first, mask)`` for whole vectors without a mask, as masked stores are slow, and for the rest."""
        if self.lanes == 1:
            _for_each(e, inner, lambda first: body(first, None))
            return
        whole = e.assign(f"and i64 {inner}, {-self.lanes}")
        _for_each(e, whole, lambda first: body(first, None), self.lanes)
        _for_each(e, inner, lambda first: body(first, e.below(e.minus(inner, first))), self.lanes, whole)

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
            place = e.plus(start, e.times(number, inner))
            term = e.load(data, place, self.dtype) if mask is None else e.load_where(data, place, self.dtype, mask)
            return [e.splat(_number(e, links, number), INT64), e.add(carried[1], _as(e, term, wide))]

        total = e.repeat([e.splat(head, INT64), e.constant(0, wide)], proceed, add)[1]
        return _as(e, total, self.dtype)


@dataclasses.dataclass(frozen=True)
class _Last:
    """The kernel that finds the last occurrence of each position in an index."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, _LANES)
        count, extent = _LAST.index(e, "count"), _LAST.index(e, "extent")
        index, out = _LAST.pointer(e, "index"), _LAST.pointer(e, "out")

        def clear(place: Index) -> None:
            e.store_where(out, place, e.constant(-1, INT64), e.below(e.minus(extent, place)))

        _for_each(e, extent, clear, e.lanes)
        _for_each(e, count, lambda number: e.store_word(out, e.load_word(index, number), number))
        return e.text()


def _number(e: Emitter, pointer: str, place: Index) -> Index:
    """Return an entry of a list."""
    found = e.assign(f"load i32, ptr {e.address(pointer, place, 'i32')}, align 4")
    return e.assign(f"sext i32 {found} to i64")


def _as(e: Emitter, value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else e.convert(value, dtype)
