"""Cumulative sums: each element is the sum of those up to it along an axis, or (reversed) from it on.

Elements are added in order, in the dtype itself, as NumPy adds them. If there are inner axes, the kernel adds each line
to the line before it. Otherwise it computes eight sums side by side, because each addition waits for the one before.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ..base.dtypes import DType
from ..graph.node import Node
from ..lower.ir.emitter import ROW, Emitter
from ..lower.ir.function_builder import Index, Value
from ..lower.lowering import Cumulative, parameters
from .launch import Launch, Plan, Words
from .target import Machine

__all__ = ["plan", "running_sums"]

#: sums computed side by side
_CHAINS = 8
#: elements of a line per block: all lines of a block stay in the cache
_BLOCK = 1024
#: elements per chunk of work
_CHUNK_ELEMENTS = 1 << 14

_WORDS = Words("lines", "extent", "inner", "blocks", "data*", "out*")


def plan(node: Node, lowering: Cumulative, machine: Machine) -> Plan:
    """Return how to compute a node of running sums."""
    axis, reverse = lowering.along(**parameters(node, lowering.along))
    outer, inner = math.prod(node.shape[:axis]), math.prod(node.shape[axis + 1 :])
    return running_sums(outer, node.shape[axis], inner, node.dtype, reverse)


def running_sums(outer: int, extent: int, inner: int, dtype: DType, reverse: bool) -> Plan:
    """Return the plan of cumulative sums along the middle one of three axes; operands are ``data`` and ``out``."""
    if outer * extent * inner == 0:
        return Plan(())
    blocks = -(-inner // _BLOCK)
    words = _WORDS.fill({"lines": outer * inner, "extent": extent, "inner": inner, "blocks": blocks})
    if inner >= _CHAINS:
        width = min(inner, _BLOCK)
        chunk = max(1, _CHUNK_ELEMENTS // (extent * width))
        lanes = ROW // 2 if dtype.itemsize == 8 else ROW
        return Plan((Launch(_Lines(dtype, reverse, lanes), words, outer * blocks, chunk),))
    chunk = max(1, _CHUNK_ELEMENTS // (extent * _CHAINS))
    return Plan((Launch(_Chains(dtype, reverse), words, -(-outer * inner // _CHAINS), chunk),))


def _sum(e: Emitter, before: Value, term: Value, dtype: DType) -> Value:
    return e.add(before, term)


@dataclasses.dataclass(frozen=True)
class _Lines:
    """The kernel that adds each line to the line before it, over a range of blocks of lines."""

    dtype: DType
    reverse: bool
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, self.lanes)
        extent, inner, blocks = (_WORDS.index(e, word) for word in ("extent", "inner", "blocks"))
        data, out = _WORDS.pointer(e, "data"), _WORDS.pointer(e, "out")
        last = e.minus(extent, "1")

        def block(item: Index, _: list[Value]) -> Sequence[Value]:
            outer = e.assign(f"udiv i64 {item}, {blocks}")
            begin = e.times(e.minus(item, e.times(outer, blocks)), str(_BLOCK))
            end = e.least(e.plus(begin, str(_BLOCK)), inner)
            first = e.times(e.times(outer, extent), inner)

            def line(number: Index, _: list[Value]) -> Sequence[Value]:
                position = e.minus(last, number) if self.reverse else number
                start = e.plus(first, e.times(position, inner))
                before = e.plus(start, inner) if self.reverse else e.minus(start, inner)
                is_first = e.assign(f"icmp eq i64 {number}, 0")

                def strip(index: Index, _: list[Value]) -> Sequence[Value]:
                    mask = e.below(e.minus(end, index))
                    term = e.load_where(data, e.plus(start, index), self.dtype, mask)

                    def add_to_line_before() -> list[Value]:
                        return [_sum(e, e.load_where(out, e.plus(before, index), self.dtype, mask), term, self.dtype)]

                    total = e.choose(is_first, lambda: [term], add_to_line_before)[0]
                    e.store_where(out, e.plus(start, index), total, mask)
                    return ()

                return e.loop(begin, end, str(e.lanes), (), strip)

            return e.loop("0", extent, "1", (), line)

        e.loop("%lo", "%hi", "1", (), block)
        return e.text()


@dataclasses.dataclass(frozen=True)
class _Chains:
    """The kernel that computes eight sums at a time, over a range of such groups."""

    dtype: DType
    reverse: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Emitter(name, 1)
        lines, extent, inner = (_WORDS.index(e, word) for word in ("lines", "extent", "inner"))
        data, out = _WORDS.pointer(e, "data"), _WORDS.pointer(e, "out")
        final = e.minus(lines, "1")
        distance = e.minus("0", inner) if self.reverse else inner
        begin = e.times(e.minus(extent, "1"), inner) if self.reverse else "0"

        def start_of(line: Index) -> Index:
            outer = e.assign(f"udiv i64 {line}, {inner}")
            within = e.minus(line, e.times(outer, inner))
            return e.plus(e.plus(e.times(e.times(outer, extent), inner), within), begin)

        def group(item: Index, _: list[Value]) -> Sequence[Value]:
            first = e.times(item, str(_CHAINS))
            # the last group is filled up with copies of the last line
            starts = [start_of(e.least(e.plus(first, str(chain)), final)) for chain in range(_CHAINS)]
            sums = [e.load(data, start, self.dtype) for start in starts]
            for start, value in zip(starts, sums, strict=True):
                e.store(out, start, value)

            def step(number: Index, before: list[Value]) -> Sequence[Value]:
                moved = e.times(number, distance)
                places = [e.plus(start, moved) for start in starts]
                terms = [e.load(data, place, self.dtype) for place in places]
                totals = [_sum(e, value, term, self.dtype) for value, term in zip(before, terms, strict=True)]
                for place, total in zip(places, totals, strict=True):
                    e.store(out, place, total)
                return totals

            e.loop("1", extent, "1", sums, step)
            return ()

        e.loop("%lo", "%hi", "1", (), group)
        return e.text()
