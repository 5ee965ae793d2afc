"""Loops: the loops of a fused kernel, chosen by the sizes of arrays and by the memory that it reads.

Takes the structure of a kernel from :mod:`.assembly` and of a generic one from :mod:`.eager_launch`. No value depends
on the choice.
"""

from __future__ import annotations

import math

from ..graph.node import Shape
from ..graph.operator import REGISTRY
from ..kernels.structure import ANY, KEPT, REDUCED, STRIDE, UNIT, Compute, Structure
from .partition import CHUNK_ELEMENTS, ENOUGH_CHUNKS

__all__ = ["choose_loops", "range_axis"]

#: vectors side by side that are summed up together, in kernels that compute little else
WIDTH, WIDE_STEPS = 4, 12
#: vectors of a function that are computed together, and the operations from which on an operator is one
FUNCTIONS_WIDTH, FUNCTION_COST = 2, 8.0


def choose_loops(structure: Structure, extents: Shape, strides: list[Shape]) -> Structure:
    """Return the structure with loops chosen by size; no value depends on them."""
    chosen = range_axis(structure.axes, extents)
    if chosen is None:
        return structure._replace(range_axis=None)
    structure = structure._replace(range_axis=chosen, tile=_tile(structure, strides))
    if _only_gathers(structure):
        return structure._replace(lanes=1, width=WIDTH)
    if _computes_functions(structure) and math.prod(extents) >= 2 * CHUNK_ELEMENTS:
        return structure._replace(width=FUNCTIONS_WIDTH)
    return structure._replace(width=_width(structure))


def range_axis(kinds: str, extents: Shape) -> int | None:
    """Return the axis that is divided among threads; None if no axis is kept."""
    chosen = kinds.find(KEPT)
    if chosen < 0:
        return None
    if extents[chosen] < ENOUGH_CHUNKS and math.prod(extents) >= 2 * CHUNK_ELEMENTS:
        kept = [axis for axis, kind in enumerate(kinds) if kind == KEPT]
        chosen = max(kept, key=extents.__getitem__)
    return chosen


def _computes_functions(structure: Structure) -> bool:
    """Return whether a kernel computes little else than a function of many instructions, element by element.

    They are a chain, so a processor computes two vectors at once in little more time than one: 4 to 10% less for
    exp, tanh and erf of 4 million numbers (Zen 3, ``python -m benchmarks.functions``).
    """
    if structure.draws or structure.tile is not None or REDUCED in structure.axes or len(structure.steps) > WIDE_STEPS:
        return False
    costs = [REGISTRY[step.operator].cost for step in structure.steps if isinstance(step, Compute)]
    return any([not callable(cost) and cost >= FUNCTION_COST for cost in costs])


def _only_gathers(structure: Structure) -> bool:
    """Return whether a kernel only copies single elements from anywhere: AVX2 gathers them slower than one by one."""
    computed = [step for step in structure.steps if isinstance(step, Compute)]
    if structure.draws or REDUCED in structure.axes or structure.tile is not None:
        return False
    return any([take.access == ANY for take in structure.takes]) and not any([s.dtype.kind == "f" for s in computed])


def _width(structure: Structure) -> int:
    """Return how many vectors along the last axis a kernel reads together.

    Row after row, a single one would touch one cache line of every row, and waste most of the memory fetched with it.
    A kernel that copies rows from any place would spend its time on the tests for the end of a row.
    """
    if structure.axes[-1] == REDUCED or len(structure.steps) > WIDE_STEPS:
        return 1
    copies_rows = any([take.access == UNIT and not take.row for take in structure.takes])
    return WIDTH if REDUCED in structure.axes or copies_rows else 1


def _tile(structure: Structure, strides: list[Shape]) -> int | None:
    """Return an axis along which the elements of a load are neighbors, if it is read across it, or None."""
    if len(structure.axes) < 2 or REDUCED in structure.axes:
        return None
    for load, found in zip(structure.loads, strides):
        if load.access == STRIDE and not load.is_place:
            for axis, stride in enumerate(found[:-1]):
                if abs(stride) == 1:
                    return axis
    return None
