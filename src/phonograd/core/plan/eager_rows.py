"""Rows of eager programs: an expression that combines elements along the last axis, as one kernel.

Takes the steps of an expression from :mod:`~phonograd.core.plan.eager_expansion`. ``softmax`` is a largest element, a
difference, a power, a sum and a quotient: five functions, each with its own array. All of them read and write rows of
one shape, or one number for each row. The fused kernel of a plan for such an expression has two axes, and its sizes are
arguments. So it serves tier 0 as well, with the same bits, by one launch for arrays of any shapes. See
docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import FLOAT32, FLOAT64, DType
from ..base.hot import hot, slotted
from ..graph.extents import Formula
from ..graph.generic import insert
from ..graph.node import Shape
from ..graph.operator import Array, Operator
from ..kernels.structure import KEPT, REDUCED, UNIT, Compute, Fold, Load, Store, Structure
from ..lower.lowering import Elementwise, Fused, Lowering, Reduction, lowering_of_kind
from ..run import kernel_cache
from ..run.driver import SizedLaunch
from .assembly import lanes_for, parameters_of
from .eager_launch import empty
from .loops import choose_loops
from .partition import PART_ELEMENTS, chunk_of, work_of

__all__ = ["Rows", "Step", "rows_of"]

#: kernels to keep
MOST_KERNELS = 256

_DTYPES = (FLOAT32, FLOAT64)


class Step(NamedTuple):
    """One operator of an expression."""

    operator: Operator
    attributes: Any
    shape: Any
    dtype: DType
    lowering: Lowering
    places: tuple[int, ...]
    """The numbers of the values that it reads: those of the arguments, then those of earlier steps."""


@slotted
class Rows:
    """An expression as one kernel, for arrays of one shape each time, and of any one with rows of several elements."""

    __slots__ = ("_dtype", "_is_row", "_sized", "_unit_work", "structure")

    def __init__(self, structure: Structure, dtype: DType) -> None:
        # the choice follows from the axes: those of all sizes are one kept and one combined axis
        self.structure = choose_loops(structure, (1, 1), [(1, 1)] * len(structure.loads))
        self._dtype, self._is_row = dtype, structure.stores[0].row
        self._sized = SizedLaunch(kernel_cache.kernel(self.structure), 2 + len(structure.loads))
        #: the chunks of work of one element
        self._unit_work = work_of(self.structure, (1, 1))

    @hot
    def run(self, arrays: Sequence[Any]) -> Any:
        """Return the result for arrays; None if their shapes are not for this kernel."""
        shape = arrays[0].shape
        elements, length = arrays[0].size, shape[-1]
        if not _is_fit(length, elements):
            return None
        given: list[Any] = []
        table = [elements // length, length]
        for number, array in enumerate(arrays):
            if array.shape != shape:
                return None
            given.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
            table += (2 + number, 0, length, 1)
        if self._is_row:
            shape = (*shape[:-1], 1)
            table += (0, 0, 1, 0)
        else:
            table += (0, 0, length, 1)
        rows = table[0]
        out = empty(shape, self._dtype)
        # two chunks of work are worth handing one to another thread
        chunk = rows if elements * self._unit_work < 2 else chunk_of(self.structure, (rows, length))
        self._sized.run(tuple(table), rows, chunk, (out, out, *given), False)
        return out


@hot
def _is_fit(length: int, elements: int) -> bool:
    """Return whether the rows of a length of some elements are combined: sums of more may be divided into parts."""
    return length > 1 and elements > 0 and elements < PART_ELEMENTS


#: kernels by structure
_known: dict[Structure, Rows] = {}


def rows_of(steps: Sequence[Step], arrays: Sequence[Array]) -> Rows | None:
    """Return an expression, whose value is the last of some steps, as one kernel for arrays like some; None if none."""
    structure = _structure(steps, [array.shape for array in arrays], [array.dtype for array in arrays])
    if structure is None:
        return None
    found = _known.get(structure)
    if found is None:
        if len(_known) >= MOST_KERNELS:
            _known.clear()
        found = _known[structure] = Rows(structure, steps[-1].dtype)
    return found


def _structure(steps: Sequence[Step], shapes: Sequence[Shape], dtypes: Sequence[DType]) -> Structure | None:
    """Return the kernel of an expression; None if it does more than to combine elements of rows, and with them.

    It holds for all shapes with as many axes for which each fold still has one number for each row: elementwise
    operators broadcast rows and their numbers as NumPy does.
    """
    shape = shapes[0]
    row_shape, last = (*shape[:-1], 1), len(shape) - 1
    are_rows = [False] * len(dtypes)
    found: list[Compute | Fold] = []
    for step in steps:
        sources, lowering = step.places, step.lowering
        if not sources:
            return None
        if lowering.fused_as is Fused.FOLD:
            if are_rows[sources[0]]:
                return None
            reduction = lowering_of_kind(step.operator.name, Reduction)
            if reduction.folded(step.operator, insert(step.attributes, shapes), shape) != ((last,), row_shape):
                return None
            found.append(Fold(step.operator.name, sources[0], step.dtype))
            are_rows.append(True)
        elif lowering.fused_as is Fused.STEP and lowering.numbers is None and step.attributes.__class__ is not Formula:
            is_row = all([are_rows[source] for source in sources])
            emit = lowering_of_kind(step.operator.name, Elementwise).emit
            parameters = parameters_of(step.operator, emit, step.attributes)
            found.append(Compute(step.operator.name, parameters, sources, step.dtype, is_row))
            are_rows.append(is_row)
        else:
            return None
    every = [*dtypes, *[step.dtype for step in steps]]
    if True not in are_rows or any([dtype not in _DTYPES for dtype in every]):
        return None
    return Structure(
        axes=KEPT + REDUCED,
        lanes=lanes_for(every),
        loads=tuple([Load(dtype, UNIT) for dtype in dtypes]),
        draws=(),
        steps=tuple(found),
        stores=(Store(len(every) - 1, UNIT, row=are_rows[-1]),),
    )
