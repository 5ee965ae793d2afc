"""Conversion: plans of float32 kernels for operands of 16 bits.

:func:`in_float32` takes a :class:`~phonograd.core.kernels.launch.Plan` and returns one whose first launches convert the
operands, and whose last one rounds the result. The float32 numbers are in scratch memory, which is free when the
launches end: no copy of an operand is kept for the backward pass. See docs/decisions/0023.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..base.dtypes import FLOAT32, DType
from ..lower.ir.function_builder import Index
from .launch import Launch, Plan, Reference, Words, align_up
from .routine import Routine, module
from .target import Machine

__all__ = ["Convert", "conversion", "in_float32"]

#: elements of an item, and items of a chunk
BLOCK, CHUNK = 4096, 8

_WORDS = Words("source*", "target*", "size")


@dataclasses.dataclass(frozen=True)
class Convert:
    """The kernel that converts contiguous elements from one dtype to another; one of them is float32."""

    source: DType
    target: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        source, target = _WORDS.pointer(e, "source"), _WORDS.pointer(e, "target")
        size = _WORDS.index(e, "size")

        def vector(first: Index) -> None:
            e.store(target, first, e.round_to(e.get(source, first, self.source), self.target))

        def block(number: Index) -> None:
            first = e.times(number, str(BLOCK))
            stop = e.least(e.plus(first, str(BLOCK)), size)
            whole = e.plus(first, e.assign(f"and i64 {e.minus(stop, first)}, {-self.lanes}"))
            e.for_each(first, whole, vector, str(self.lanes))

            def rest() -> None:
                mask = e.below(e.minus(stop, whole))
                value = e.widen(e.load_where(source, whole, self.source, mask))
                e.store_where(target, whole, e.round_to(value, self.target), mask)

            e.when(e.test("slt", whole, stop), rest)

        e.for_each("%lo", "%hi", block)
        return module(e)


def in_float32(plan: Plan, sizes: Mapping[str, int], out_size: int, dtype: DType, machine: Machine) -> Plan:
    """Return a plan for operands and a result of 16 bits, given one for float32.

    Parameters
    ----------
    sizes
        The number of elements of each operand, by name.
    out_size
        The number of elements of the result; 0 if the plan writes a result of another type, which is not rounded.
    dtype
        The type of the operands.
    """
    end = align_up(plan.scratch_bytes)
    places: dict[str, int] = {}
    before: list[Launch] = []
    for name, size in {**sizes, **({"out": out_size} if out_size else {})}.items():
        places[name] = end
        if name != "out":
            wide = Reference("scratch", end)
            before.append(conversion(dtype, FLOAT32, machine, Reference(name), wide, size))
        end += align_up(size * FLOAT32.itemsize)

    def moved(word: int | Reference) -> int | Reference:
        if isinstance(word, Reference) and word.operand in places:
            return Reference("scratch", places[word.operand] + word.offset)
        return word

    launches = [launch._replace(words=tuple([moved(word) for word in launch.words])) for launch in plan.launches]
    after: list[Launch] = []
    if out_size:
        rounded = Reference("scratch", places["out"])
        after.append(conversion(FLOAT32, dtype, machine, rounded, Reference("out"), out_size))
    return Plan((*before, *launches, *after), end)


def conversion(
    source_dtype: DType, target_dtype: DType, machine: Machine, source: Reference, target: Reference, size: int
) -> Launch:
    """Return the launch that converts contiguous elements; one of the dtypes is float32."""
    kernel = Convert(source_dtype, target_dtype, machine.lanes(FLOAT32))
    return Launch(kernel, _WORDS.fill({"source": source, "target": target, "size": size}), -(-size // BLOCK), CHUNK)
