"""Sums of eager programs, and the like: operators that combine elements along axes, as functions of arrays.

Takes their lowerings from :mod:`~phonograd.core.plan.eager`. Arrays of new shapes are combined *at once*: there is one
launch for each kernel, whose sizes are arguments. When a shape comes back, a function is made for it, which takes less
time for each call. See docs/decisions/0018.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.hot import hot, slotted
from ..graph.node import Shape
from ..graph.operator import Array, Operator
from ..kernels.launch import Launch, Plan, Reference
from ..kernels.structure import KEPT, REDUCED, UNIT, Fold, Load, Store, Structure
from ..lower.lowering import Reduction, lowering_of_kind
from ..run import kernel_cache
from ..run.driver import Row, SizedLaunch
from .assembly import collapse_kept_strides, lanes_for
from .eager_launch import FEW_CALLS, Function, empty, launch, of_contiguous, run_one
from .loops import choose_loops, range_axis
from .partition import CHUNK_ELEMENTS, PART_ELEMENTS, Result, chunk_of, partition, parts_of

__all__ = ["folds_of"]

#: shapes to remember for each operator, with or without functions
MOST_SHAPES = 1024
#: kernels to keep for each operator
MOST_KERNELS = 64


@slotted
class Folds:
    """An operator that combines elements along axes, for any attributes and arrays of any shapes."""

    __slots__ = ("_known", "_lowering", "_operator", "_sized")

    def __init__(self, declared: Operator, lowering: Reduction) -> None:
        self._operator, self._lowering = declared, lowering
        #: functions by attributes and shape, or how often these came
        self._known: dict[Any, Function | int] = {}
        #: kernels and their launches, by kinds of axes and the axis that is divided
        self._sized: dict[Any, tuple[Structure, SizedLaunch]] = {}

    def function(self, attributes: tuple[Any, ...]) -> Function:
        """Return the function of arrays for some attributes."""
        return functools.partial(self._run, attributes)

    @hot
    def _run(self, attributes: tuple[Any, ...], array: Array) -> Any:
        key, known = (attributes, array.shape), self._known
        found = known.get(key)
        if found is None or isinstance(found, int):
            found = found or 0
            axes, shape = self._lowering.folded(self._operator, attributes, array.shape)
            if array.size == 0:
                return np.full(shape, self._lowering.start(array.dtype), array.dtype)
            if found < FEW_CALLS:
                if len(known) >= MOST_SHAPES:
                    known.clear()
                known[key] = found + 1
                result = self._run_at_once(array, axes, shape)
                if result is not None:
                    return result
            found = known[key] = fold(self._operator.name, array.shape, axes, shape, array.dtype)
        return found(array)

    @hot
    def _run_at_once(self, array: Array, axes: Shape, out_shape: Shape) -> Array | None:
        """Return the elements of an array combined along axes, as :func:`fold` does; None if that makes a function."""
        kinds, extents = _merge(array.shape, axes)
        elements = array.size
        # no kernel is worth compiling in full for so few elements
        if REDUCED not in kinds or elements >= PART_ELEMENTS:
            return None
        axis = range_axis(kinds, extents)
        known = self._sized.get((kinds, axis))
        if known is None:
            known = self._make_sized(kinds, array.dtype, axis)
        structure, sized = known
        extent = 1 if axis is None else extents[axis]
        chunk = extent if elements <= CHUNK_ELEMENTS else chunk_of(structure, extents)
        out = empty(out_shape, array.dtype)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        table = (*extents, 2, 0, *_contiguous(extents), 0, 0, *collapse_kept_strides(kinds, extents))
        sized.run(table, extent, chunk, (out, out, array), False)
        return out

    def _make_sized(self, kinds: str, dtype: DType, axis: int | None) -> tuple[Structure, SizedLaunch]:
        """Return the kernel that combines elements, divided along an axis, and its launch."""
        if len(self._sized) >= MOST_KERNELS:
            self._sized.clear()
        structure = _small_fold(self._operator.name, kinds, dtype, lanes_for([dtype]))._replace(range_axis=axis)
        found = self._sized[kinds, axis] = structure, SizedLaunch(kernel_cache.kernel(structure), 3)
        return found


#: operators that combine elements, by dtype
_folds: dict[Any, Folds] = {}


def folds_of(declared: Operator, dtype: DType) -> Folds:
    """Return an operator that combines elements of a dtype along axes."""
    found = _folds.get((declared, dtype))
    if found is None:
        found = _folds[declared, dtype] = Folds(declared, lowering_of_kind(declared.name, Reduction))
    return found


def fold(operator: str, shape: Shape, axes: Shape, out_shape: Shape, dtype: DType) -> Function:
    """Return the function that combines the elements of arrays of a shape along axes."""
    kinds, extents = _merge(shape, axes)
    if REDUCED not in kinds:
        # each element alone is combined with nothing
        return lambda array: array.reshape(out_shape)
    strides = _contiguous(extents)
    if math.prod(extents) <= CHUNK_ELEMENTS:
        structure = _small_fold(operator, kinds, dtype, lanes_for([dtype]))
        kernel, axis = kernel_cache.kernel(structure), structure.range_axis
        table = [*extents, 2, 0, *strides, 0, 0, *collapse_kept_strides(kinds, extents)]
        extent = 1 if axis is None else extents[axis]
        return of_contiguous(run_one(Row.of_one(kernel, table, extent, extent, 3), out_shape, dtype))
    structure = choose_loops(_fold_structure(operator, kinds, dtype, lanes_for([dtype])), extents, [strides])
    words: list[int | Reference] = [*extents, Reference("data"), *strides]
    out, kept, parts = Reference("out"), collapse_kept_strides(kinds, extents), parts_of(structure, extents)
    if parts:
        plan = partition(structure, extents, words, [Result(operator, dtype, out, kept)], parts)
    else:
        axis = structure.range_axis
        extent = 1 if axis is None else extents[axis]
        plan = Plan((Launch(structure, (*words, out, *kept), extent, chunk_of(structure, extents)),))
    return of_contiguous(launch([(plan, {})], ("data",), out_shape, dtype))


def _fold_structure(operator: str, kinds: str, dtype: DType, lanes: int) -> Structure:
    return Structure(
        axes=kinds,
        lanes=lanes,
        loads=(Load(dtype, UNIT),),
        draws=(),
        steps=(Fold(operator, 0, dtype),),
        stores=(Store(1, UNIT, row=True),),
    )


@functools.lru_cache(maxsize=256)
def _small_fold(operator: str, kinds: str, dtype: DType, lanes: int) -> Structure:
    """Return the kernel that combines at most one chunk of elements.

    The loops, but for the axis that is divided, follow from the kinds of axes.
    """
    count = len(kinds)
    return choose_loops(_fold_structure(operator, kinds, dtype, lanes), (1,) * count, [(1,) * count])


@hot
def _merge(shape: Shape, axes: Shape) -> tuple[str, Shape]:
    """Return the kinds and extents of merged axes of a contiguous array, without axes of size one.

    >>> _merge((2, 3, 1, 4), (3,))
    ('KR', (6, 4))
    """
    kinds: list[str] = []
    extents: list[int] = []
    for axis, extent in enumerate(shape):
        kind = REDUCED if axis in axes else KEPT
        if extent == 1:
            continue
        if kinds and kinds[-1] == kind:
            extents[-1] = extents[-1] * extent
        else:
            kinds.append(kind)
            extents.append(extent)
    return "".join(kinds), tuple(extents)


def _contiguous(extents: Shape) -> Shape:
    count = len(extents)
    if count <= 2:
        return (extents[1], 1) if count == 2 else (1,) * count
    strides, size = [], 1
    for extent in reversed(extents):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))
