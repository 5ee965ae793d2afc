"""Blocks of matrices: views of operands, and the products that update one block by two others.

The factorizations of this folder are recursive. They split a matrix into blocks, factorize small blocks by kernels of
their own, and leave all other work to the product kernel (:mod:`..matmul.gemm`). The order of every sum follows from
the sizes alone. See docs/decisions/0027.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import NamedTuple

from ...base.dtypes import DType
from ...lower.ir.function_builder import Value
from ..launch import Launch, Plan, Reference
from ..matmul.gemm import Gemm, Matrices, product
from ..matmul.tiles import DEPTH
from ..routine import Routine
from ..target import Machine

__all__ = ["SMALL", "Launches", "NegativeGemm", "View", "half_of", "lanes_of", "word_of_number"]

#: sizes up to this are factorized without products: the working set fits into the first-level cache
SMALL = 64


class View(NamedTuple):
    """A block of matrices of an operand: its first element, and its strides in elements."""

    operand: str
    offset: int
    row: int
    column: int
    batch: int

    def at(self, row: int, column: int) -> View:
        """Return the block that begins at a row and a column.

        >>> View("out", 0, 10, 1, 100).at(2, 3)
        View(operand='out', offset=23, row=10, column=1, batch=100)
        """
        return self._replace(offset=self.offset + row * self.row + column * self.column)

    @property
    def transposed(self) -> View:
        """The same block, transposed."""
        return self._replace(row=self.column, column=self.row)

    def words(self, name: str, dtype: DType) -> dict[str, int | Reference]:
        """Return the table words of the operand of a kernel."""
        return {
            name: Reference(self.operand, self.offset * dtype.itemsize),
            f"{name}_row": self.row,
            f"{name}_column": self.column,
            f"{name}_batch": self.batch,
        }


@dataclasses.dataclass(frozen=True)
class NegativeGemm(Gemm):
    """The kernel of negative products."""

    def multiply_add(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        """Return one step of a negative sum of products."""
        return e.fma(e.negative(first), second, total)


class Launches:
    """The launches of a factorization in order, for a number of matrices of one dtype."""

    def __init__(self, dtype: DType, machine: Machine, count: int) -> None:
        self.dtype, self.machine, self.count = dtype, machine, count
        self._launches: list[Launch] = []
        self._scratch_bytes = 0

    def add(self, launch: Launch) -> None:
        """Add a launch."""
        self._launches.append(launch)

    def plan(self) -> Plan:
        """Return the plan of all launches."""
        return Plan(tuple(self._launches), self._scratch_bytes)

    def subtract_product(self, out: View, lhs: View, rhs: View, sizes: tuple[int, int, int]) -> None:
        """Compute ``out -= lhs * rhs``, given the rows of ``lhs``, the terms of a sum and the columns of ``rhs``."""
        rows, terms, columns = sizes
        pieces = -(-terms // DEPTH)
        for piece in range(pieces):
            first, last = piece * terms // pieces, (piece + 1) * terms // pieces
            part = rows, last - first, columns
            self._multiply(out, lhs.at(0, first), rhs.at(first, 0), part, NegativeGemm(self.dtype, self.machine), True)

    def multiply(self, out: View, lhs: View, rhs: View, sizes: tuple[int, int, int], *, negative: bool = False) -> None:
        """Compute ``out = lhs * rhs``, or its negative."""
        kernel = NegativeGemm if negative else Gemm
        self._multiply(out, lhs, rhs, sizes, kernel(self.dtype, self.machine), False)

    def _multiply(self, out: View, lhs: View, rhs: View, sizes: tuple[int, int, int], kernel: Gemm, adds: bool) -> None:
        if 0 in (sizes[0], sizes[2]):
            return
        places = [Matrices(view.row, view.column, 0, view.batch) for view in (lhs, rhs, out)]
        assert out.column == 1, out
        old = places[2] if adds else None
        made = product(sizes, (1, self.count), places[0], places[1], places[2], kernel, old)
        views = {"lhs": lhs, "rhs": rhs, "out": out, "old": out}
        self._scratch_bytes = max(self._scratch_bytes, made.scratch_bytes)
        for launch in made.launches:
            words = [_place(word, views, self.dtype) if isinstance(word, Reference) else word for word in launch.words]
            self._launches.append(launch._replace(words=tuple(words)))


def _place(reference: Reference, views: dict[str, View], dtype: DType) -> Reference:
    view = views.get(reference.operand)
    if view is None:
        return reference
    return Reference(view.operand, reference.offset + view.offset * dtype.itemsize)


def half_of(size: int, step: int = SMALL) -> int:
    """Return the size of the first of two parts: about half, and a multiple of a step.

    >>> half_of(65), half_of(1000), half_of(300)
    (64, 512, 128)
    """
    return max(1, (size + step) // (2 * step)) * step


def lanes_of(dtype: DType, machine: Machine) -> int:
    """Return the elements of a vector in kernels that transpose squares of vectors in registers.

    Larger squares take longer to compile than they save. No bit depends on this number.
    """
    return min(machine.lanes(dtype), 32 // dtype.itemsize)


def word_of_number(number: float) -> int:
    """Return the bits of a double as a word of a table."""
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits
