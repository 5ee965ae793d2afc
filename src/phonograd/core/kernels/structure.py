"""Structure: what a kernel computes, without any size. It is the key under which compiled code is found again.

A kernel walks over the axes of an iteration space. ``axes`` has a letter for each: ``K`` for an axis that is kept and
``R`` for one along which elements are combined. The positions along the reduced axes that belong to one position along
the kept ones are a *row*. Values belong to a row (results of folds, and what is computed from them) or to each element
of it. They are numbered in this order: loads, draws, steps. Steps compute, take elements of an array at places that
another value names, or fold a value of elements to one of rows; elements may be computed from values of their row, so a
kernel may go through each row several times (see :mod:`~phonograd.core.kernels.fused.schedule`).

When it runs, a kernel reads everything else from its table of 64-bit words:

* the extent of every axis;
* for every operand (loads, draws, takes, stores, partial results, in this order) the number of the array it lies in,
  where it begins there in bytes, and its stride along every axis in elements. After that come, for a load with bounds,
  the first position and the one after the last along each axis that has bounds, and for a take the distance in
  elements from one index to the next.

A kernel is launched over the first axis that is kept, or another one (``range_axis``). One that is *partitioned* is
launched over parts of the outermost reduced axis instead, and writes partial results, which
:class:`~phonograd.core.kernels.fused.join.Join` combines. A part is one position on that axis if it is not the only
reduced one, else 4096 terms of its sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..base.dtypes import DType

__all__ = [
    "ANY",
    "KEPT",
    "REDUCED",
    "SPLAT",
    "STRIDE",
    "UNIT",
    "Compute",
    "Draw",
    "Fold",
    "Load",
    "Store",
    "Structure",
    "Take",
]

KEPT, REDUCED = "K", "R"

#: how an operand lies along the last axis: one element after the other, one element for all, at equal distances, or
#: (of a take) anywhere
UNIT, SPLAT, STRIDE, ANY = "unit", "splat", "stride", "any"

Parameters = tuple[tuple[str, Any], ...]


class Load(NamedTuple):
    """A value read from memory."""

    dtype: DType
    access: str
    row: bool = False
    """Whether it is the same all along a row."""
    bounds: tuple[int, ...] = ()
    """The axes along which only some positions lie in memory; the value is 0 at the others."""
    is_place: bool = False
    """Whether there is no memory: the value is the distance in elements from where memory would begin."""


class Draw(NamedTuple):
    """A random value; the operand is its counter."""

    operator: str
    parameters: Parameters
    dtype: DType


class Compute(NamedTuple):
    """A value computed from others by an elementwise operator."""

    operator: str
    parameters: Parameters
    sources: tuple[int, ...]
    dtype: DType
    row: bool = False


class Take(NamedTuple):
    """A value read from memory at the place that another value (``at``, int64) names."""

    dtype: DType
    access: str
    at: int
    row: bool = False


class Fold(NamedTuple):
    """A value of each row: another value combined along it."""

    operator: str
    source: int
    dtype: DType


class Store(NamedTuple):
    """A value that is written to memory."""

    source: int
    access: str = UNIT
    row: bool = False
    """Whether it is written once for each row."""


class Structure(NamedTuple):
    """A kernel without sizes."""

    axes: str
    lanes: int
    loads: tuple[Load, ...]
    draws: tuple[Draw, ...]
    steps: tuple[Compute | Take | Fold, ...]
    stores: tuple[Store, ...]
    range_axis: int | None = 0
    """The axis that a launch can be divided along; None if nothing is kept."""
    partitioned: bool = False
    tile: int | None = None
    """An axis that is walked in blocks together with the last one, because some operands lie along it."""
    width: int = 1
    """Vectors along the last axis that are gone through together, if it is kept and others are reduced."""

    def write(self, name: str) -> str:
        """Return the text of a module in which ``name`` is the kernel."""
        from .fused.writer import write  # the writer is made of what stands here

        return write(self, name)

    @property
    def folds_rows(self) -> bool:
        """Whether elements are combined along the last axis, in sixteen lanes that are summed apart."""
        return self.axes[-1] == REDUCED

    @property
    def takes(self) -> tuple[Take, ...]:
        """The steps that take elements of an array."""
        return tuple([step for step in self.steps if isinstance(step, Take)])

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The steps that fold."""
        return tuple([step for step in self.steps if isinstance(step, Fold)])

    @property
    def dtypes(self) -> list[DType]:
        """The dtypes of all values, by number."""
        return [value.dtype for value in (*self.loads, *self.draws, *self.steps)]
