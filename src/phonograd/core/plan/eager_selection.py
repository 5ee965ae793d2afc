"""Selections of eager programs: the first elements in sorted order, as a function of arrays of any shapes.

Takes the kernel from :mod:`phonograd.core.kernels.selection`. Its sizes are arguments, so nothing is made for new
shapes or another number of elements: a beam search has both in each step. See docs/decisions/0018.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..base.dtypes import INT64, DType
from ..base.hot import hot, slotted
from ..graph.operator import Array, Operator
from ..kernels.selection import is_selected, kernel_for, lines_of_chunk
from ..run import kernel_cache
from ..run.driver import SizedLaunch
from .eager_launch import Function, empty

__all__ = ["selections_of"]


@slotted
class Selections:
    """An operator that finds the first elements of one dtype in sorted order, for any attributes and shapes."""

    __slots__ = ("_dtype", "_operator", "_sized")

    def __init__(self, declared: Operator, dtype: DType) -> None:
        self._operator, self._dtype = declared, dtype
        #: launches, by the order and whether the elements of a line are side by side
        self._sized: dict[tuple[bool, bool], SizedLaunch] = {}

    def function(self, attributes: tuple[Any, ...]) -> Function:
        """Return the function of arrays for some attributes."""
        return functools.partial(self._run, attributes)

    @hot
    def _run(self, attributes: tuple[Any, ...], array: Array) -> Any:
        axis, count, ascending = attributes
        shape = array.shape
        extent, elements = shape[axis], array.size
        if not is_selected(extent, count, elements):
            return self._sort(attributes, array)
        inner = 1 if len(shape) == 1 else math.prod(shape[axis + 1 :])
        sized = self._sized.get((ascending, inner == 1))
        if sized is None:
            sized = self._make(ascending, inner)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        out = empty((*shape[:axis], count, *shape[axis + 1 :]), INT64)
        # array 0 is the result, and 2 the argument
        words = (count, extent, inner, 2, 0, 0, 0)
        sized.run(words, elements // extent, lines_of_chunk(extent), (out, out, array), False)
        return out

    def _make(self, ascending: bool, inner: int) -> SizedLaunch:
        kernel = kernel_cache.kernel(kernel_for(self._dtype, ascending, inner))
        found = self._sized[ascending, inner == 1] = SizedLaunch(kernel, 3)
        return found

    def _sort(self, attributes: tuple[Any, ...], array: Array) -> Array:
        """Let NumPy sort all elements."""
        found: Array = self._operator.reference(attributes)(np.ascontiguousarray(array))
        return found


@functools.cache
def selections_of(declared: Operator, dtype: DType) -> Selections:
    """Return an operator that finds the first elements of a dtype."""
    return Selections(declared, dtype)
