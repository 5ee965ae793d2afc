"""Structure: the description of a fused kernel without its sizes. It is the key of the compiled-code cache.

A kernel iterates over the axes of an iteration space. ``axes`` has a letter for each axis: ``K`` for a kept axis, ``R``
for a reduced one. A *row* is the set of positions along the reduced axes for one position along the kept axes. A value
belongs to a row (results of folds, and values computed from them) or to each element of the row. Values are numbered
in this order: loads, draws, steps. A step computes a value, takes elements of an array at the positions in another
value, or folds a value over the row. Elements may depend on values of their row, so a kernel may make several passes
over each row (see :mod:`~phonograd.core.kernels.fused.schedule`).

At run time, a kernel reads its sizes from a table of 64-bit words:

* the extent of every axis;
* for every operand (loads, draws, takes, stores, partial results, in this order) the number of its array, its first
  byte in that array, and its stride along every axis in elements. For a load with bounds, the first position and the
  end follow for each bounded axis. For a take, the distance in elements from one index to the next follows.

A kernel is launched over ``range_axis``, which is usually the first kept axis. A *partitioned* kernel is launched over
parts of the outermost reduced axis instead. It writes partial results, which
:class:`~phonograd.core.kernels.fused.join.Join` combines. A part is one position on that axis if there are other
reduced axes, else 4096 terms of its sums.
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

#: access to an operand along the last axis: consecutive elements, one element for all lanes, a constant stride,
#: or (takes only) any position
UNIT, SPLAT, STRIDE, ANY = "unit", "splat", "stride", "any"

Parameters = tuple[tuple[str, Any], ...]


class Load(NamedTuple):
    """A value read from memory."""

    dtype: DType
    access: str
    row: bool = False
    """True if the value is constant along a row."""
    bounds: tuple[int, ...] = ()
    """Axes along which only some positions are in memory; the value is 0 elsewhere."""
    is_place: bool = False
    """True if the load reads no memory: its value is the element's offset from the start of the array."""


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
    """A value read from memory at the position in another value (``at``, int64)."""

    dtype: DType
    access: str
    at: int
    row: bool = False
    zero_first: bool = False
    """True if the elements at position 0 are known to be zero."""
    is_plain: bool = False
    """True if positions are offsets in memory: their distance is 1, and the place in the vector adds nothing."""


class Fold(NamedTuple):
    """A value of each row: another value, reduced along the row."""

    operator: str
    source: int
    dtype: DType


class Store(NamedTuple):
    """A value written to memory."""

    source: int
    access: str = UNIT
    row: bool = False
    """True if it is stored once per row."""


class Structure(NamedTuple):
    """The description of a kernel without its sizes."""

    axes: str
    lanes: int
    loads: tuple[Load, ...]
    draws: tuple[Draw, ...]
    steps: tuple[Compute | Take | Fold, ...]
    stores: tuple[Store, ...]
    range_axis: int | None = 0
    """The axis along which a launch can be divided; None if no axis is kept."""
    partitioned: bool = False
    tile: int | None = None
    """An axis that is tiled together with the last one, because some operands are contiguous along it."""
    width: int = 1
    """Number of vectors along the last axis that are processed together, if it is kept."""

    def write(self, name: str) -> str:
        """Return the LLVM IR of a module in which ``name`` is the kernel."""
        from .fused.writer import write  # the writer imports this module

        return write(self, name)

    @property
    def folds_rows(self) -> bool:
        """Return whether elements are reduced along the last axis, in sixteen separate lanes."""
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
