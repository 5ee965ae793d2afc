"""Launches of eager programs: the kernels of one operator as a function of arrays, without a recipe.

Takes a :class:`~phonograd.core.kernels.launch.Plan`, made for certain sizes, from :mod:`~phonograd.core.plan.eager`.
Matrix products, sums, random numbers and library kernels run this way. Their plans are those of planned graphs, so the
bits are the same.

Products and sums of new sizes run *at once*: one launch for each kernel, whose sizes are arguments. A function for
certain sizes, which takes less time for each call, is made when they come back.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import DType, compute_dtype
from ..base.hot import hot, slotted
from ..graph.node import Shape
from ..graph.operator import Array
from ..kernels.launch import Launch, Plan, Reference
from ..kernels.matmul.gemm import gemm_for
from ..kernels.matmul.tasks import TASK_WORK
from ..kernels.structure import KEPT, UNIT, Draw, Parameters, Store, Structure
from ..lower.pattern import Pattern
from ..run import kernel_cache, memory_pool
from ..run.driver import Row, SizedLaunch, prepare
from ..run.host import host
from ..run.thread_pool_words import MUCH_WORK
from .assembly import lanes_for
from .loops import choose_loops
from .partition import chunk_of, work_of
from .products import launch_new_product, plan_new_product, takes_one_launch

__all__ = ["Draws", "Products", "draw", "empty", "launch", "of_contiguous", "run_one"]

#: functions to keep for each operator that were made for certain sizes
MOST_SIZES = 1024
#: calls with certain sizes for which no function is made: a forward pass and its gradient have some in common
FEW_CALLS = 3

#: multiplications of a product that is worth waking up other threads: it may be divided into fewer parts
_MANY_TERMS = MUCH_WORK * TASK_WORK

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
    return run_one(Row.of_one(kernel, table, extent, chunk, 2 + len(names)), shape, dtype)


def run_one(row: Row, shape: Shape, dtype: DType) -> Function:
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


class _Sizes(NamedTuple):
    """The launch of a product of certain sizes."""

    sized: SizedLaunch
    words: tuple[int, ...]
    extent: int
    chunk: int
    is_much: bool
    """Whether the work is worth waking up other threads, however few its chunks are."""
    shape: Shape


@slotted
class Products:
    """The products of matrices (the last two axes) of one dtype, with any sizes and strides, a function."""

    __slots__ = ("_dtype", "_known", "_way", "_wide")

    def __init__(self, dtype: DType) -> None:
        self._dtype, self._wide = dtype, compute_dtype(dtype)
        #: by sizes, the launch, a function where one launch is not all it takes, or how often these came
        self._known: dict[Any, Function | _Sizes | int] = {}
        #: the processor without the features that settings turn off, the kernel for it, and its launch
        self._way: tuple[Any, Any, Any] = None, None, None

    def __call__(self, lhs: Array, rhs: Array) -> Any:
        return self._run(lhs, rhs)

    @hot
    def _run(self, lhs: Array, rhs: Array) -> Any:
        key, known = (lhs.shape, lhs.strides, rhs.shape, rhs.strides), self._known
        found: Any = known.get(key)
        if found.__class__ is _Sizes:
            sized, words, extent, chunk, is_much, shape = found
            out = empty(shape, self._wide)
            sized.run(words, extent, chunk, (out, out, lhs, rhs), is_much)
            return out
        if found is None or isinstance(found, int):
            found = found or 0
            if found < FEW_CALLS:
                if len(known) >= MOST_SIZES:
                    known.clear()
                known[key] = found + 1
                result = self._run_at_once(key, lhs, rhs) if lhs.ndim == 2 else None
                if result is not None:
                    return result
            found = known[key] = _product(lhs, rhs, self._dtype) or of_contiguous(self)
        return found(lhs, rhs)

    def _run_at_once(self, key: Any, lhs: Array, rhs: Array) -> Array | None:
        """Return the product of two matrices, and keep its launch; None if it takes more than one launch."""
        machine, kernel, sized = self._way
        dtype, present = self._dtype, host()
        if machine is not present:
            machine, kernel = present, gemm_for(dtype, present)
            sized = SizedLaunch(kernel_cache.kernel(kernel), 4)
            self._way = machine, kernel, sized
        shape = rows, columns = lhs.shape[0], rhs.shape[1]
        is_special = machine.matrix_unit or machine.bfloat16_pairs
        if is_special and not takes_one_launch((rows, lhs.shape[1], columns), dtype, machine):
            return None
        each = launch_new_product(lhs, rhs, dtype.itemsize, kernel)
        if each is None:
            return None
        words, extent, chunk, work = each
        if sized.kernel.improvable and (work := max(extent // chunk, work)) > kernel_cache.MUCH_WORK:
            # it was compiled quickly for a smaller launch
            kernel_cache.kernels({kernel: work})
        out = empty(shape, self._wide)
        is_much = rows * lhs.shape[1] * columns >= _MANY_TERMS
        self._known[key] = _new_sizes((sized, words, extent, chunk, is_much, shape))
        sized.run(words, extent, chunk, (out, out, lhs, rhs), is_much)
        return out


#: a tenth of the time of making it by name
_new_sizes = functools.partial(tuple.__new__, _Sizes)


@hot
def empty(shape: Shape, dtype: DType) -> Array:
    """Return an array of uninitialized elements; large ones are blocks of the pool."""
    size = math.prod(shape) * dtype.itemsize
    if size < memory_pool.SMALLEST_BLOCK:
        return np.empty(shape, dtype)
    return memory_pool.allocate(shape, dtype, memory_pool.room_for(size))


def of_contiguous(function: Function) -> Function:
    """Return a function of contiguous arrays as one of any arrays."""
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


class Draws:
    """The function that draws random numbers, given the counter: its results are in memory of their own."""

    __slots__ = ("_function",)

    def __init__(self, function: Function) -> None:
        self._function = function

    def __call__(self, counter: Array) -> Array:
        return self._function(counter)


def draw(operator: str, parameters: Parameters, shape: Shape, dtype: DType) -> Draws | None:
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
    return Draws(launch([(Plan((each,)), {})], ("counter",), shape, dtype))
