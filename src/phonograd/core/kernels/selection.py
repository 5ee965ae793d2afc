"""Selection: the positions of the first elements in sorted order along an axis, for any sizes.

An element and its place in the line are one signed 64-bit *key*: keys are greater where elements come first, and all
keys of a line differ. The greatest keys so far are sorted. A vector of further elements is compared with the last of
them, and only elements that come before it are inserted. Equal elements keep their order, and NaN is greater than every
number, as in :mod:`phonograd.core.ops.reduce.ordering`.
"""

from __future__ import annotations

import dataclasses
import math

from ..base.dtypes import INT32, INT64, DType, kind_of
from ..graph.node import Node
from ..lower.ir.emitter import ROW, Emitter
from ..lower.ir.function_builder import FunctionBuilder, Index, Value
from ..lower.lowering import Selection, parameters
from .launch import Launch, Plan, Words
from .target import Machine

__all__ = ["MOST", "Select", "is_selected", "kernel_for", "lines_of_chunk", "plan", "select"]

#: elements that are kept sorted: each one that is inserted moves all after it
MOST = 64
#: the extent of lines whose places fit the lower half of a key
_MOST_EXTENT = (1 << 31) - 1
#: keys that are moved at once
_MOVED = 8
#: elements per chunk of work
_CHUNK_ELEMENTS = 1 << 14

_WORDS = Words("count", "extent", "inner", "data*", "out*")


def plan(node: Node, lowering: Selection, machine: Machine) -> Plan | None:
    """Return how to select elements; None if NumPy sorts all of them."""
    axis, count, ascending = lowering.along(**parameters(node, lowering.along))
    source = node.inputs[0]
    if not is_selected(source.shape[axis], count, source.size):
        return None
    outer, inner = math.prod(source.shape[:axis]), math.prod(source.shape[axis + 1 :])
    return select(outer, source.shape[axis], inner, count, source.dtype, ascending)


def is_selected(extent: int, count: int, elements: int) -> bool:
    """Return whether the kernel selects some of the elements of each line."""
    return elements > 0 and 0 < count <= MOST and extent <= _MOST_EXTENT


def select(outer: int, extent: int, inner: int, count: int, dtype: DType, ascending: bool) -> Plan:
    """Return the plan that selects along the middle one of three axes; operands are ``data`` and ``out``."""
    words = _WORDS.fill({"count": count, "extent": extent, "inner": inner})
    return Plan((Launch(kernel_for(dtype, ascending, inner), words, outer * inner, lines_of_chunk(extent)),))


def lines_of_chunk(extent: int) -> int:
    """Return the number of lines of a chunk of work."""
    return max(1, _CHUNK_ELEMENTS // extent)


def kernel_for(dtype: DType, ascending: bool, inner: int) -> Select:
    """Return the kernel for elements of a dtype, given the distance of the elements of a line."""
    return Select(dtype, ascending, 1 if inner > 1 else ROW)


@dataclasses.dataclass(frozen=True)
class Select:
    """The kernel that selects elements, over a range of lines."""

    dtype: DType
    ascending: bool
    lanes: int
    """The elements that are compared at once; 1 if those of a line are apart."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, self.lanes)
        # a key that is greater than all others comes before the first
        keys = e.address(e.scratch(_MOVED + MOST), str(_MOVED), "i64")
        ranks = e.scratch(ROW)
        count, extent, inner = [_WORDS.index(e, word) for word in ("count", "extent", "inner")]
        data, out = _WORDS.pointer(e, "data"), _WORDS.pointer(e, "out")
        e.store_word(keys, "-1", str((1 << 63) - 1))
        last = e.minus(count, "1")
        # the first elements enter whatever they are
        known = e.least(e.times(e.quotient(e.plus(last, str(self.lanes)), str(self.lanes)), str(self.lanes)), extent)

        def line(item: Index) -> None:
            outer = e.quotient(item, inner)
            low = e.minus(item, e.times(outer, inner))
            first = e.plus(e.times(e.times(outer, extent), inner), low)
            begin = e.plus(e.times(e.times(outer, count), inner), low)

            def vector(place: Index, mask: Value | None, is_first: bool) -> None:
                start = e.plus(first, e.times(place, inner))
                loaded = (
                    e.load(data, start, self.dtype) if mask is None else e.load_where(data, start, self.dtype, mask)
                )
                rank = self._rank(e, loaded)
                worst = e.load_splat(keys, e.plus(e.times(last, "2"), "1"), INT32)
                enters = e.relation("ge" if is_first else "gt", rank, worst)
                if mask is not None:
                    enters = e.bits("and", enters, mask)

                def enter() -> None:
                    e.store(ranks, "0", rank)
                    lanes = e.assign(f"bitcast <{self.lanes} x i1> {enters.text} to i{self.lanes}")
                    bits = e.assign(f"zext i{self.lanes} {lanes} to i64")
                    e.line(f"call void @{name}_enter(ptr {keys}, i64 {count}, ptr {ranks}, i64 {bits}, i64 {place})")

                e.when(e.any(enters), enter)

            def scan(start: Index, stop: Index, is_first: bool) -> None:
                whole = e.plus(start, e.assign(f"and i64 {e.minus(stop, start)}, {-self.lanes}"))
                e.for_each(start, whole, lambda place: vector(place, None, is_first), str(self.lanes))
                if self.lanes > 1:
                    mask = e.below(e.minus(stop, whole))
                    e.when(e.test("slt", whole, stop), lambda: vector(whole, mask, is_first))

            def finish(number: Index) -> None:
                place = e.assign(f"and i64 {e.minus('-1', e.load_word(keys, number))}, {(1 << 32) - 1}")
                where = e.plus(begin, e.times(number, inner))
                e.store_word(out, where, e.plus(first, e.times(place, inner)))

            e.for_each("0", str(MOST), lambda number: e.store_word(keys, number, str(-(1 << 63))))
            scan("0", known, True)
            scan(known, extent, False)
            e.for_each("0", count, finish)

        e.for_each("%lo", "%hi", line)
        return f"{_enter(f'{name}_enter')}\n{e.text()}"

    def _rank(self, e: Emitter, value: Value) -> Value:
        """Return the upper halves of keys: signed integers in the order of elements, or in the opposite order."""
        if kind_of(self.dtype) == "f":
            # zeros of both signs are equal
            bits = e.reinterpret(e.add(value, e.like(value, 0)), INT32)
            signs = Value(e.assign(f"ashr {e.vector_type(INT32)} {bits.text}, {e.constant(31, INT32).text}"), INT32)
            ordered = e.bits("xor", bits, e.bits("and", signs, e.constant((1 << 31) - 1, INT32)))
            rank = e.select(e.compare("uno", value, value), e.constant((1 << 31) - 1, INT32), ordered)
        else:
            rank = value if self.dtype == INT32 else e.convert(value, INT32)
        return e.bits("xor", rank, e.constant(-1, INT32)) if self.ascending else rank


def _enter(name: str) -> str:
    """Return the function that inserts elements, given by a mask, into the sorted keys of a line.

    A key is moved to the next place if the new one is greater, which gets the place of the first of these::

        new[i] = max(old[i], min(old[i - 1], key))
    """
    f = FunctionBuilder(name, "ptr %keys, i64 %count, ptr %ranks, i64 %bits, i64 %place", internal=True)
    kind, variant = f"<{_MOVED} x i64>", f"v{_MOVED}i64"
    f.declare("declare i64 @llvm.cttz.i64(i64, i1)")
    for word in ("smax", "smin"):
        f.declare(f"declare {kind} @llvm.{word}.{variant}({kind}, {kind})")
    last = f.address("%keys", f.minus("%count", "1"), "i64")
    blocks = f.shift_down(f.plus("%count", str(_MOVED - 1)), _MOVED.bit_length() - 1)

    def insert(key: Index) -> None:
        one = f.assign(f"insertelement {kind} poison, i64 {key}, i64 0")
        every = f.assign(f"shufflevector {kind} {one}, {kind} poison, <{_MOVED} x i32> zeroinitializer")

        def move(turn: Index) -> None:
            # the last ones first: the keys before them are read, too
            where = f.address("%keys", f.times(f.minus(f.minus(blocks, "1"), turn), str(_MOVED)), "i64")
            old = f.assign(f"load {kind}, ptr {where}, align 8")
            before = f.assign(f"load {kind}, ptr {f.address(where, '-1', 'i64')}, align 8")
            least = f.assign(f"call {kind} @llvm.smin.{variant}({kind} {before}, {kind} {every})")
            new = f.assign(f"call {kind} @llvm.smax.{variant}({kind} {old}, {kind} {least})")
            f.line(f"store {kind} {new}, ptr {where}, align 8")

        f.for_each("0", blocks, move)

    def element(carried: list[Value]) -> list[Value]:
        bits = carried[0].text
        lane = f.assign(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 true)")
        rank = f.assign(f"load i32, ptr {f.address('%ranks', lane, 'i32')}, align 4")
        upper = f.assign(f"shl i64 {f.assign(f'sext i32 {rank} to i64')}, 32")
        key = f.assign(f"or i64 {upper}, {f.minus(str((1 << 32) - 1), f.plus('%place', lane))}")
        f.when(f.test("sgt", key, f.load_word(last, "0")), lambda: insert(key))
        return [Value(f.assign(f"and i64 {bits}, {f.minus(bits, '1')}"), INT64)]

    f.repeat([Value("%bits", INT64)], lambda carried: f.test("ne", carried[0].text, "0"), element)
    return f.text()
