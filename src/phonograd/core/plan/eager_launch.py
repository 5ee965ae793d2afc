"""Launches of eager programs: the kernels of one operator as a function of arrays, without a recipe.

Takes a :class:`~phonograd.core.kernels.launch.Plan`, made for certain sizes, from :mod:`~phonograd.core.plan.eager`.
Matrix products, sums, random numbers and library kernels run this way. Their plans are those of planned graphs, so the
bits are the same.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import DType, compute_dtype
from ..graph.node import Shape
from ..graph.operator import Array
from ..kernels.launch import Launch, Plan, Reference
from ..kernels.structure import KEPT, REDUCED, UNIT, Draw, Fold, Load, Parameters, Store, Structure
from ..lower.pattern import Pattern
from ..run import kernel_cache, memory_pool
from ..run.driver import Row, prepare
from .assembly import collapse_kept_strides, lanes_for
from .loops import choose_loops
from .partition import CHUNK_ELEMENTS, chunk_of, parts_of, work_of
from .products import plan_new_product

__all__ = ["draw", "fold", "launch", "multiply"]

#: functions to keep for each operator that were made for certain sizes
MOST_SIZES = 1024

_BYTE = np.dtype(np.uint8)
Function = Callable[..., Array]


def launch(plans: Sequence[tuple[Plan, dict[str, str]]], names: Sequence[str], shape: Shape, dtype: DType) -> Function:
    """Return a function of arrays that runs the launches of plans one after the other and returns ``out``.

    Parameters
    ----------
    plans
        Each plan, and the names of arrays by the names of its operands, where these differ.
    names
        The names of the arguments. Other names but ``out`` and ``scratch`` are ``name:bytes`` of temporary arrays.
    shape, dtype
        Those of ``out``.
    """
    if len(plans) == 1 and len(plans[0][0].launches) == 1 and not plans[0][1] and not plans[0][0].scratch_bytes:
        return _launch_one(plans[0][0].launches[0], names, shape, dtype)
    temporaries = list(dict.fromkeys([name for _, where in plans for name in where.values() if ":" in name]))
    numbers = {name: (number, 0) for number, name in enumerate(["out", "scratch", *names, *temporaries])}
    tables: list[tuple[Launch, list[int]]] = []
    for plan, where in plans:
        places = numbers
        if where:
            places = {**numbers, **{operand: numbers[name] for operand, name in where.items()}}
        tables += [(each, each.table(places)) for each in plan.launches]
    kernels = kernel_cache.kernels({each.structure: max(each.extent // each.chunk, each.work) for each, _ in tables})
    row = Row([(kernels[each.structure], table, each.extent, each.chunk) for each, table in tables], len(numbers))
    sizes = [int(name.rpartition(":")[2]) for name in temporaries]
    scratch_bytes = max([plan.scratch_bytes for plan, _ in plans])
    room = memory_pool.room_for(scratch_bytes) if scratch_bytes else 0
    out_room = memory_pool.room_for(math.prod(shape) * dtype.itemsize)
    is_small = out_room < memory_pool.SMALLEST_BLOCK
    if is_small and not room and not sizes:
        return _small(row, shape, dtype)

    def run(*arrays: Array) -> Array:
        out = np.empty(shape, dtype) if is_small else memory_pool.allocate(shape, dtype, out_room)
        scratch = memory_pool.allocate((room,), _BYTE, room) if room else out
        row.run((out, scratch, *arrays, *[np.empty(size, _BYTE) for size in sizes]))
        return out

    return run


def _launch_one(each: Launch, names: Sequence[str], shape: Shape, dtype: DType) -> Function:
    """Return the function of a single launch without scratch memory: new sizes wait for it."""
    structure, words, extent, chunk, work = each
    table: list[int] = []
    for word in words:
        if word.__class__ is Reference:
            operand, offset = word
            table.append(0 if operand == "out" else 2 + names.index(operand))
            table.append(offset)
        else:
            table.append(word)  # type: ignore[arg-type]
    kernel = kernel_cache.kernels({structure: max(extent // chunk, work)})[structure]
    return _run_one(Row.of_one(kernel, table, extent, chunk, 2 + len(names)), shape, dtype)


def _run_one(row: Row, shape: Shape, dtype: DType) -> Function:
    """Return the function of a row without scratch memory."""
    size = math.prod(shape) * dtype.itemsize
    if size < memory_pool.SMALLEST_BLOCK:
        return _small(row, shape, dtype)
    room, run_row = memory_pool.room_for(size), row.run

    def run(*arrays: Array) -> Array:
        out = memory_pool.allocate(shape, dtype, room)
        run_row((out, out, *arrays))
        return out

    return run


def _small(row: Row, shape: Shape, dtype: DType) -> Function:
    """Return the function of a row that has a small result and no scratch memory.

    From the second call on, machine code makes the result and calls the row, if all arguments are contiguous. To make
    it takes longer than a call, and most sizes of a program that is always new come once.
    """
    native: Callable[[list[Any]], bool] | None = None
    is_known = False

    def run(*arrays: Array) -> Array:
        nonlocal native, is_known
        if native is not None:
            prepare()
            values = [None, arrays[0], *arrays]
            if native(values):
                return values[0]  # type: ignore[return-value]
        elif is_known and arrays:
            native = row.launcher(range(2 + len(arrays)), [(0, shape, dtype)], 0)
        is_known = True
        out = np.empty(shape, dtype)
        row.run((out, out, *arrays))
        return out

    return run


def multiply(dtype: DType) -> Function:
    """Return the function that multiplies matrices (the last two axes) of a dtype, with any strides."""
    known: dict[Any, Function] = {}

    def product(lhs: Array, rhs: Array) -> Array:
        key = lhs.shape, lhs.strides, rhs.shape, rhs.strides
        found = known.get(key)
        if found is None:
            found = _remember(known, key, _product(lhs, rhs, dtype) or _of_contiguous(product))
        return found(lhs, rhs)

    return product


def _remember(known: dict[Any, Function], key: Any, function: Function) -> Function:
    if len(known) >= MOST_SIZES:
        known.clear()
    known[key] = function
    return function


def _of_contiguous(function: Function) -> Function:
    return lambda *arrays: function(*[np.ascontiguousarray(array) for array in arrays])


def _product(lhs: Array, rhs: Array, dtype: DType) -> Function | None:
    size = dtype.itemsize
    patterns = [Pattern(array.shape, tuple([stride // size for stride in array.strides])) for array in (lhs, rhs)]
    found = plan_new_product(patterns[0], patterns[1], dtype)
    if found is None:
        return None
    plans, converted = list[tuple[Plan, dict[str, str]]](), dict[str, str]()
    for operand, name, packed in found.before:
        converted[name] = f"{name}:{packed.size}"
        plans.append((Plan((packed.launch,)), {"rhs": operand, "out": converted[name]}))
    plans.append((found.plan, converted))
    return launch(plans, ("lhs", "rhs"), (*lhs.shape[:-1], rhs.shape[-1]), compute_dtype(dtype))


def fold(operator: str, shape: Shape, axes: Shape, out_shape: Shape, dtype: DType) -> Function | None:
    """Return the function that combines the elements of contiguous arrays of a shape along axes.

    None is returned for sums that are divided into parts, and for arrays without elements.
    """
    kinds, extents = _merge(shape, axes)
    if 0 in shape:
        return None
    if REDUCED not in kinds:
        # each element alone is combined with nothing
        return lambda array: array.reshape(out_shape)
    strides = _contiguous(extents)
    if math.prod(extents) <= CHUNK_ELEMENTS:
        structure = _small_fold(operator, kinds, dtype, lanes_for([dtype]))
        kernel, axis = kernel_cache.kernel(structure), structure.range_axis
        table = [*extents, 2, 0, *strides, 0, 0, *collapse_kept_strides(kinds, extents)]
        extent = 1 if axis is None else extents[axis]
        return _of_contiguous(_run_one(Row.of_one(kernel, table, extent, extent, 3), out_shape, dtype))
    structure = choose_loops(_fold_structure(operator, kinds, dtype, lanes_for([dtype])), extents, [strides])
    if parts_of(structure, extents):
        return None
    kept = collapse_kept_strides(kinds, extents)
    words: tuple[int | Reference, ...] = (*extents, Reference("data"), *strides, Reference("out"), *kept)
    axis = structure.range_axis
    each = Launch(structure, words, 1 if axis is None else extents[axis], chunk_of(structure, extents))
    return _of_contiguous(launch([(Plan((each,)), {})], ("data",), out_shape, dtype))


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

    With so few elements the loops, and that it is not divided, follow from the kinds of axes.
    """
    count = len(kinds)
    return choose_loops(_fold_structure(operator, kinds, dtype, lanes), (1,) * count, [(1,) * count])


def draw(operator: str, parameters: Parameters, shape: Shape, dtype: DType) -> Function | None:
    """Return the function that draws random numbers of a shape, given the counter; None for less than two numbers."""
    count = math.prod(shape)
    if count < 2:
        return None
    structure = Structure(
        axes=KEPT,
        lanes=lanes_for([dtype]),
        loads=(),
        draws=(Draw(operator, parameters, dtype),),
        steps=(),
        stores=(Store(0, UNIT),),
    )
    structure = choose_loops(structure, (count,), [])
    words: tuple[int | Reference, ...] = (count, Reference("counter"), 1, Reference("out"), 1)
    each = Launch(structure, words, count, chunk_of(structure, (count,)), int(work_of(structure, (count,))))
    return launch([(Plan((each,)), {})], ("counter",), shape, dtype)


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
            extents[-1] *= extent
        else:
            kinds.append(kind)
            extents.append(extent)
    return "".join(kinds), tuple(extents)


def _contiguous(extents: Shape) -> Shape:
    strides, size = [], 1
    for extent in reversed(extents):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))
