"""Positions: index arrays of any dtype, checked and merged in one pass.

The index has a row of ``count`` numbers for each of some axes. The kernel reads it in its own dtype, counts negative
numbers from the end of their axis, and writes the place of each point among all elements of these axes, as int64. A
number out of range sets the status: Python then finds the number and raises the error. Takes nodes of the operators of
:mod:`phonograd.core.ops.vision.points`; hands plans to :mod:`phonograd.core.run.called`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from ..base.dtypes import INT64, DType
from ..graph.node import Node, Shape
from ..lower.ir.emitter import Emitter
from ..lower.ir.function_builder import Index, Value
from ..lower.vector_math.conversion import cast
from .launch import CalledPlan, Launch, Plan, Words
from .target import Machine

__all__ = ["merge", "plan", "rule"]

_LANES = 8
#: vectors per chunk of work
_CHUNK = 1 << 11


def plan(node: Node, routine: str, machine: Machine, attributes: dict[str, Any]) -> CalledPlan | None:
    """Return the plan of a node, given the name of its routine and the operator's parameters."""
    made: CalledPlan | None = _ROUTINES[routine](node, **attributes)
    return made


def rule(routine: str) -> Any:
    """Return the function that plans a routine; it names the parameters of the operator that it needs."""
    return _ROUTINES[routine]


def _positions(node: Node, *, extent: int, mode: Literal["clip", "wrap", "raise", "index"]) -> CalledPlan | None:
    return _checked(node, (extent,), mode == "index")


def _points(node: Node, *, extents: Shape) -> CalledPlan | None:
    return _checked(node, extents, True)


_ROUTINES: dict[str, Any] = {"positions": _positions, "points": _points}


def _checked(node: Node, extents: Shape, is_signed: bool) -> CalledPlan | None:
    if node.size == 0 or 0 in extents or not extents:
        return None
    (source,) = node.operator.input_names
    made = merge(node.inputs[0].dtype, node.size, extents, source, is_signed=is_signed)
    return CalledPlan(made, (("out", node.shape, INT64),))


def merge(dtype: DType, count: int, extents: Shape, source: str = "index", *, is_signed: bool = True) -> Plan:
    """Return the plan that checks and merges ``count`` points; operands are the source, ``out`` and ``status``.

    ``is_signed`` says whether negative numbers count from the end; otherwise they are out of range.
    """
    kernel = _Merge(dtype, len(extents), is_signed)
    words = kernel.words(source).fill({"count": count, **{f"extent{n}": extent for n, extent in enumerate(extents)}})
    return Plan((Launch(kernel, words, -(-count // _LANES), max(1, _CHUNK // len(extents))),))


@dataclasses.dataclass(frozen=True)
class _Merge:
    """The kernel that checks and merges points, over a range of vectors of them."""

    dtype: DType
    rows: int
    is_signed: bool

    def words(self, source: str = "index") -> Words:
        """Return the words of the kernel's table."""
        return Words("count", *[f"extent{row}" for row in range(self.rows)], f"{source}*", "out*", "status*")

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e, words = Emitter(name, _LANES), self.words()
        count, index, out, status = words.index(e, "count"), *[words.pointer(e, w) for w in ("index", "out", "status")]
        extents = [words.index(e, f"extent{row}") for row in range(self.rows)]
        zero = e.constant(0, INT64)

        def numbers(row: int, first: Index, mask: Value | None) -> Value:
            place = e.plus(e.times(count, str(row)), first)
            found = e.load(index, place, self.dtype) if mask is None else e.load_where(index, place, self.dtype, mask)
            return found if self.dtype == INT64 else cast(e, found, INT64)

        def merged(first: Index, mask: Value | None) -> list[Value]:
            """Return the places of a vector of points, and a mask of those out of range."""
            total, wrong = zero, e.relation("lt", zero, zero)
            for row, extent in enumerate(extents):
                size, number = e.splat(extent, INT64), numbers(row, first, mask)
                if self.is_signed:
                    number = e.select(e.relation("lt", number, zero), e.add(number, size), number)
                outside = e.bits("or", e.relation("lt", number, zero), e.relation("ge", number, size))
                wrong = e.bits("or", wrong, outside)
                total = number if row == 0 else e.add(e.multiply(total, size), number)
            return [total, wrong]

        def vector(item: Index) -> None:
            first = e.times(item, str(_LANES))
            left = e.minus(count, first)

            def whole() -> None:
                total, wrong = merged(first, None)
                e.store(out, first, total)
                e.when(e.any(wrong), lambda: e.store_word(status, "0", "1"))

            def part() -> None:
                mask = e.below(left)
                total, wrong = merged(first, mask)
                e.store_where(out, first, total, mask)
                # lanes behind the last point are zeros, which are in range
                e.when(e.any(wrong), lambda: e.store_word(status, "0", "1"))

            e.when(e.test("sge", left, str(_LANES)), whole, part)

        e.for_each("%lo", "%hi", vector)
        return e.text()
