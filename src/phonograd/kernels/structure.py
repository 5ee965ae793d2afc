"""Structure: what a kernel computes, without any size. It is the key under which compiled code is found again.

A kernel walks over the axes of an iteration space. ``axes`` has a letter for each: ``K`` for an axis that is kept and
``R`` for one along which elements are combined. At every point it loads values, draws random ones, computes steps,
stores some of the values and folds others. Values are numbered in that order: loads, draws, steps.

When it runs, a kernel reads everything else from its table of 64-bit words:

* the extent of every axis;
* for every operand (loads, draws, stores, folds, in this order) the number of the array it lies in, where it begins
  there in bytes, and its stride along every axis in elements.

A kernel is launched over the first axis that is kept. One that is *parted* is launched over parts of the outermost
reduced axis instead, and writes partial results, which :class:`~phonograd.kernels.join.Join` combines. A part is one
position on that axis if it is not the only reduced one, else 4096 terms of its sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..dtypes import DType

__all__ = ["KEPT", "REDUCED", "SPLAT", "STRIDE", "UNIT", "Draw", "Fold", "Load", "Step", "Structure"]

KEPT, REDUCED = "K", "R"

#: how an operand lies along the last axis: one element after the other, one element for all, or at equal distances
UNIT, SPLAT, STRIDE = "unit", "splat", "stride"

Parameters = tuple[tuple[str, Any], ...]


class Load(NamedTuple):
    """A value read from memory."""

    dtype: DType
    access: str


class Draw(NamedTuple):
    """A random value; the operand is its counter."""

    operator: str
    parameters: Parameters
    dtype: DType


class Step(NamedTuple):
    """A value computed from others by an elementwise operator."""

    operator: str
    parameters: Parameters
    sources: tuple[int, ...]
    dtype: DType


class Fold(NamedTuple):
    """A value combined along the reduced axes and stored."""

    operator: str
    source: int


class Structure(NamedTuple):
    """A kernel without sizes."""

    axes: str
    lanes: int
    loads: tuple[Load, ...]
    draws: tuple[Draw, ...]
    steps: tuple[Step, ...]
    stores: tuple[int, ...]
    folds: tuple[Fold, ...]
    parted: bool = False

    def write(self, name: str) -> str:
        """Return the text of a module in which ``name`` is the kernel."""
        from .writer import write  # the writer is made of what stands here

        return write(self, name)

    @property
    def operands(self) -> int:
        """How many operands the table describes."""
        return len(self.loads) + len(self.draws) + len(self.stores) + len(self.folds)

    @property
    def folds_rows(self) -> bool:
        """Whether elements are combined along the last axis, in sixteen lanes that are summed apart."""
        return self.axes[-1] == REDUCED

    @property
    def range_axis(self) -> int | None:
        """The axis that a launch can be divided along: the first one that is kept; None if there is none."""
        return self.axes.index(KEPT) if KEPT in self.axes else None
