"""Epilogues: elementwise operators that a kernel applies to its results before it stores them.

An epilogue computes normalizations, activations and residual sums of a convolution or a product in registers, which
saves a pass over memory. It writes the instructions of the operators' own emitters, in their order, so the bits are
those of a kernel of its own. Takes steps from :mod:`~phonograd.core.plan.epilogues`; kernels of products and
convolutions use it. See docs/decisions/0042.

A launch with an epilogue has words before those of the kernel: two for each operand, and two for the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from ..base.dtypes import DType
from ..lower.ir.function_builder import Index, Value
from ..lower.lowering import Elementwise, lowering_of_kind
from .launch import Launch, Reference, Written, operand
from .routine import Routine
from .structure import Compute

__all__ = [
    "COLUMN",
    "ELEMENT",
    "NUMBER",
    "ROW",
    "Epilogue",
    "Finish",
    "Finishing",
    "entry",
    "with_epilogue",
    "write_stores",
]

#: operands of an epilogue: one element for each row of the result (a channel of a convolution), for each column, for
#: each element, or one for all
ROW, COLUMN, ELEMENT, NUMBER = "row", "column", "element", "number"


class Epilogue(NamedTuple):
    """The operators that are applied to a result, without sizes: a part of the description of a kernel.

    Values are numbered in this order: the result of the kernel, operands, steps. The last step is stored.
    """

    dtype: DType
    loads: tuple[str, ...]
    steps: tuple[Compute, ...]

    @property
    def word_count(self) -> int:
        """The words of a table before those of the kernel."""
        return 2 * (len(self.loads) + 1)

    def context(self, e: Routine) -> str:
        """Return the address of the operands' addresses, in the entry block of a kernel that :func:`entry` calls."""
        place = e.scratch(len(self.loads) + 1)
        for number in range(len(self.loads) + 1):
            e.store_word(place, str(number), operand(e, 2 * number - self.word_count), "ptr")
        return place


class Finish:
    """Writes an epilogue in a routine that gets the address of its operands' addresses."""

    def __init__(self, epilogue: Epilogue, e: Routine, context: str = "%context") -> None:
        self.epilogue, self.e = epilogue, e
        *self._pointers, self._out = [e.load_word(context, str(n), "ptr") for n in range(len(epilogue.loads) + 1)]
        self._numbers = self._splats(NUMBER, "0")

    def _splats(self, kind: str, index: Index) -> dict[int, Value]:
        loads = enumerate(self.epilogue.loads)
        return {n + 1: self.e.get_splat(self._pointers[n], index) for n, each in loads if each == kind}

    def row(self, index: Index) -> dict[int, Value]:
        """Return the operands that are the same all along a row."""
        return {**self._numbers, **self._splats(ROW, index)}

    def value(
        self,
        row: dict[int, Value],
        result: Value,
        target: str,
        offset: Index,
        mask: Value | None = None,
        column: Index | None = None,
    ) -> Value:
        """Return the value to store in place of a result.

        Parameters
        ----------
        row
            The operands of the row.
        result
            A vector of results.
        target, offset
            The place of the vector in the memory of the result.
        mask
            The lanes that exist; all if it is None.
        column
            The number of its first column, if there are operands of columns.
        """
        e = self.e
        values = {**row, 0: result}
        for number, kind in enumerate(self.epilogue.loads):
            if kind == ELEMENT:
                there, at = self._beside(number, target), offset
            elif kind == COLUMN:
                assert column is not None
                there, at = self._pointers[number], column
            else:
                continue
            values[number + 1] = e.get(there, at) if mask is None else e.get_where(there, mask, at)
        return self.steps(values)

    def lanes_of_rows(self, index: Index, mask: Value | None = None) -> dict[int, Value]:
        """Return the operands of as many rows as a vector has lanes; each lane that exists belongs to a row."""
        e, places = self.e, [(n, place) for n, place in enumerate(self._pointers) if self.epilogue.loads[n] == ROW]
        found = {n + 1: e.get(at, index) if mask is None else e.get_where(at, mask, index) for n, at in places}
        return {**self._numbers, **found}

    def elements(self, target: str) -> dict[int, str]:
        """Return the addresses of operands that belong to the element at an address in the memory of the result."""
        loads = enumerate(self.epilogue.loads)
        return {n + 1: self._beside(n, target) for n, kind in loads if kind == ELEMENT}

    def _beside(self, number: int, target: str) -> str:
        ends = [self.e.assign(f"ptrtoint ptr {place} to i64") for place in (target, self._out)]
        return self.e.address(self._pointers[number], self.e.minus(*ends), "i8")

    def steps(self, values: dict[int, Value]) -> Value:
        """Return the last step, given the result of the kernel and the operands by their numbers."""
        e, values = self.e, dict(values)
        first = len(self.epilogue.loads) + 1
        for number, step in enumerate(self.epilogue.steps, first):
            lowering = lowering_of_kind(step.operator, Elementwise)
            sources = [values[source] for source in step.sources]
            values[number] = lowering.value(e, sources, dict(step.parameters), step.dtype)
        return values[first + len(self.epilogue.steps) - 1]


def write_stores(epilogue: Epilogue | None, e: Routine, write: Callable[[Finish | None], None]) -> None:
    """Write the stores of a routine, with the epilogue where its argument ``%complete`` is not 0."""
    if epilogue is None:
        write(None)
        return
    finish = Finish(epilogue, e)
    e.when(e.test("ne", "%complete", "0"), lambda: write(finish), lambda: write(None))


def entry(name: str, epilogue: Epilogue, body: str) -> Routine:
    """Return the kernel that calls another one with the table behind the words of an epilogue.

    ::

        %v1 = getelementptr i64, ptr %table, i64 6
        call void @name_body(ptr %v1, ptr %bases, i64 %lo, i64 %hi)
    """
    e = Routine(name, 1, epilogue.dtype)
    table = e.address("%table", str(epilogue.word_count), "i64")
    e.invoke(body, f"ptr {table}", "ptr %bases", "i64 %lo", "i64 %hi")
    return e


@runtime_checkable
class Finishing(Protocol):
    """The description of a kernel that can apply an epilogue."""

    @property
    def epilogue(self) -> Epilogue | None:
        """The operators that it applies to its results."""

    def finished(self, epilogue: Epilogue) -> Written | None:
        """Return the kernel with an epilogue; None if it has no such operands, or has an epilogue already."""


def with_epilogue(launch: Launch, epilogue: Epilogue, operands: tuple[str, ...]) -> Launch | None:
    """Return a launch that applies an epilogue to what it writes to ``out``; None if its kernel cannot."""
    kernel = launch.structure
    finished = kernel.finished(epilogue) if isinstance(kernel, Finishing) else None
    if finished is None:
        return None
    words = [Reference(name) for name in (*operands, "out")]
    return launch._replace(structure=finished, words=(*words, *launch.words))
