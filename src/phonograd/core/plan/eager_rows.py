"""Rows of eager programs: an expression that combines elements along the last axis, as one kernel.

Takes the steps of an expression from :mod:`~phonograd.core.plan.eager_expansion`. ``softmax`` is a largest element, a
difference, a power, a sum and a quotient: five functions, each with its own array. All of them read and write rows of
one shape, or one number for each row. The fused kernel of a plan for such an expression has two axes, and its sizes are
arguments. So it serves tier 0 as well, with the same bits. See docs/decisions/0018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base.dtypes import FLOAT32, FLOAT64, DType
from ..graph.node import Shape
from ..graph.operator import Operator
from ..kernels.launch import Launch, Plan, Reference
from ..kernels.structure import KEPT, REDUCED, UNIT, Compute, Fold, Load, Store, Structure
from ..lower.lowering import Elementwise, Fused, Lowering, Reduction, lowering_of_kind
from .assembly import lanes_for, parameters_of
from .eager_launch import Function, launch
from .loops import choose_loops
from .partition import PART_ELEMENTS, chunk_of, work_of

__all__ = ["RowStep", "function_of_rows"]

_DTYPES = (FLOAT32, FLOAT64)


class RowStep(NamedTuple):
    """One operator of an expression, for certain extents."""

    operator: Operator
    attributes: Any
    shape: Shape
    dtype: DType
    lowering: Lowering
    places: tuple[int, ...]
    """The numbers of the values that it reads: those of the arguments, then those of earlier steps."""


def function_of_rows(steps: Sequence[RowStep], result: int, shape: Shape, dtypes: Sequence[DType]) -> Function | None:
    """Return the function of an expression of contiguous arrays as one kernel; None if there is none.

    Parameters
    ----------
    steps, result
        The expression, and the number of its value.
    shape, dtypes
        The shape of all arguments, and the dtype of each.
    """
    elements = math.prod(shape)
    # with more elements, sums may be divided into parts
    if not shape or shape[-1] < 2 or not 0 < elements < PART_ELEMENTS or result != len(dtypes) + len(steps) - 1:
        return None
    structure = _structure(steps, shape, dtypes)
    if structure is None:
        return None
    length = shape[-1]
    extents, strides = (elements // length, length), (length, 1)
    structure = choose_loops(structure, extents, [strides] * len(dtypes))
    names = [f"data{number}" for number in range(len(dtypes))]
    words: list[int | Reference] = [*extents]
    for name in names:
        words += (Reference(name), *strides)
    is_row = structure.stores[0].row
    words += (Reference("out"), *((1, 0) if is_row else strides))
    each = Launch(structure, tuple(words), extents[0], chunk_of(structure, extents), int(work_of(structure, extents)))
    return launch([(Plan((each,)), {})], names, (*shape[:-1], 1) if is_row else shape, steps[-1].dtype)


def _structure(steps: Sequence[RowStep], shape: Shape, dtypes: Sequence[DType]) -> Structure | None:
    """Return the kernel of an expression; None if it does more than to combine elements of rows, and with them."""
    row_shape, last = (*shape[:-1], 1), len(shape) - 1
    are_rows = [False] * len(dtypes)
    found: list[Compute | Fold] = []
    for step in steps:
        sources, lowering = step.places, step.lowering
        if lowering.fused_as is Fused.FOLD:
            if are_rows[sources[0]]:
                return None
            reduction = lowering_of_kind(step.operator.name, Reduction)
            axes, folded = reduction.folded(step.operator, step.attributes, shape)
            if folded != row_shape or [axis for axis in axes if shape[axis] > 1] != [last]:
                return None
            found.append(Fold(step.operator.name, sources[0], step.dtype))
            are_rows.append(True)
        elif lowering.fused_as is Fused.STEP and lowering.numbers is None:
            is_row = all([are_rows[source] for source in sources])
            if step.shape != (row_shape if is_row else shape):
                return None
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
