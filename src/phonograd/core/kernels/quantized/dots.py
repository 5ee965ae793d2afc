"""Dots: the instruction that multiplies the small integers of two words and adds the products to a sum.

A *word* has 32 bits: a pair of int16, or four bytes. Kernels multiply matrices of words as if they were numbers. Every
step is exact, so results depend neither on the instructions nor on the order of sums.

===========  ==================================  ==============================================================
machine      int8 data                           uint8 data
===========  ==================================  ==============================================================
``vnni``     pairs, ``vpdpwssd``                 bytes, ``vpdpbusd`` (unsigned data times signed weights)
``pmaddwd``  pairs, ``vpmaddwd`` and ``vpaddd``  the same
``plain``    pairs, shifts and multiplications   the same
===========  ==================================  ==============================================================

``amx`` is VNNI and a matrix unit, which multiplies tiles of bytes where that is faster (:mod:`.tiles`).

Processors without VNNI have ``vpmaddubsw`` for bytes. Its sums of two products saturate at 16 bits, and it multiplies
no more numbers per cycle than ``vpmaddwd``, because another multiplication must widen its result.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import INT32, UINT8, DType
from ...lower.ir.function_builder import Value
from ..routine import Routine
from ..target import Machine

__all__ = ["PAIRS", "Dot", "dot_of", "pair_products"]


@dataclasses.dataclass(frozen=True)
class Dot:
    """One step of a sum of products of words."""

    size: int
    """Numbers in a word: 2 or 4."""
    instructions: str
    """``vnni``, ``pmaddwd`` or ``plain``."""

    def write(self, e: Routine, weights: Value, data: Value, total: Value) -> Value:
        """Return the sum, after the products of the numbers in each lane are added.

        ::

            %v1 = call <8 x i32> @llvm.x86.avx512.vpdpbusd.256(<8 x i32> %total, <8 x i32> %data, <8 x i32> %weights)
        """
        if self.instructions == "vnni":
            name = "vpdpbusd" if self.size == 4 else "vpdpwssd"
            return self._call(e, f"@llvm.x86.avx512.{name}.{32 * e.lanes}", (total, data, weights))
        if self.instructions == "pmaddwd":
            return self._pairs(e, weights, data, total)
        return self._plain(e, weights, data, total)

    def _call(self, e: Routine, name: str, values: tuple[Value, ...]) -> Value:
        kind = e.vector_type(INT32)
        e.declare(f"declare {kind} {name}({', '.join([kind] * len(values))})")
        return Value(e.assign(f"call {kind} {name}({', '.join([f'{kind} {v.text}' for v in values])})"), INT32)

    def _pairs(self, e: Routine, weights: Value, data: Value, total: Value) -> Value:
        return e.add(total, pair_products(e, data, weights))

    def _plain(self, e: Routine, weights: Value, data: Value, total: Value) -> Value:
        width = 32 // self.size
        unsigned_bytes = self.size == 4
        for number in range(self.size):
            left = 32 - width * (number + 1)
            operands = []
            for value, down in ((weights, "ashr"), (data, "lshr" if unsigned_bytes else "ashr")):
                top = e.bits("shl", value, e.like(value, left)) if left else value
                operands.append(e.bits(down, top, e.like(value, 32 - width)))
            total = e.add(total, e.multiply(*operands))
        return total


def pair_products(e: Routine, first: Value, second: Value) -> Value:
    """Return the sums of the two products of pairs of int16: ``vpmaddwd``."""
    kind, halves = e.vector_type(INT32), f"<{2 * e.lanes} x i16>"
    name = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[e.lanes]
    e.declare(f"declare {kind} @llvm.x86.{name}({halves}, {halves})")
    operands = [e.assign(f"bitcast {kind} {value.text} to {halves}") for value in (first, second)]
    return Value(e.assign(f"call {kind} @llvm.x86.{name}({halves} {operands[0]}, {halves} {operands[1]})"), INT32)


#: the step that every processor can do
PAIRS = Dot(2, "plain")


def dot_of(data: DType, machine: Machine) -> Dot:
    """Return how a machine multiplies data of a dtype by int8 weights.

    >>> dot_of(UINT8, Machine(64, 32, dots="vnni")), dot_of(UINT8, Machine())
    (Dot(size=4, instructions='vnni'), Dot(size=2, instructions='plain'))
    """
    instructions = "vnni" if machine.dots == "amx" else machine.dots
    return Dot(4 if instructions == "vnni" and data == UINT8 else 2, instructions)
