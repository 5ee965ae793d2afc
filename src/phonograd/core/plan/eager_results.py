"""The results of eager programs: arrays that are contiguous, each in memory of its own.

Functions of operators (:mod:`~phonograd.core.plan.eager`) may return views of their inputs, inputs themselves, and
arrays with any strides. Values that a program returns, or that a backward pass keeps, are none of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.hot import hot
from ..graph.node import Node
from ..graph.operator import REGISTRY, Array
from ..run import memory_pool
from .eager_launch import Products
from .eager_stacks import WithNumbers

__all__ = ["LEAST_REUSED", "Steps", "in_place", "memory_of", "own", "own_all", "repeated", "reuse"]

_FULL = REGISTRY["_full"]
#: results take the memory of old values from this size on
LEAST_REUSED = memory_pool.LEAST_MAPPED_BYTES


def repeated(node: Node) -> Callable[[], Array] | None:
    """Return the function of a large array with one number in all places; None for other nodes.

    Its value is that number, repeated without memory: :func:`own` takes the memory of results, and others need none.
    """
    if node.operator is not _FULL or math.prod(node.shape) * node.dtype.itemsize < memory_pool.SMALLEST_BLOCK:
        return None
    shape, number, dtype, _ = node.attributes
    value = np.ndarray(shape, dtype, number, strides=(0,) * len(shape))
    return lambda: value


class InPlace:
    """The function of a large result of an elementwise operator, which is computed where it stays."""

    __slots__ = ("_dtype", "_function", "_old", "_room", "_shape")

    def __init__(self, function: Callable[..., Any], node: Node, room: int, old: int) -> None:
        self._function, self._shape, self._dtype, self._room = function, node.shape, node.dtype, room
        #: the number of the argument whose memory the result takes, if it fits; -1 for new memory
        self._old = old

    def __call__(self, *arrays: Array) -> Any:
        """Return the result."""
        if self._old >= 0:
            old = arrays[self._old]
            if _fits(self._function, arrays, old):
                return self._function(*arrays, out=old)
        return self._function(*arrays, out=memory_pool.allocate(self._shape, self._dtype, self._room))


class Steps(NamedTuple):
    """The steps of a program: their functions, as far as they are known, and the numbers of the values that they read.

    The inputs are the first values, and each step makes the next one. ``dead`` are those that no later step reads.
    """

    inputs: int
    functions: Sequence[Callable[..., Any] | None]
    places: Sequence[Sequence[int]]
    dead: Sequence[Sequence[int]]


def in_place(function: Callable[..., Any], node: Node, steps: Steps, step: int) -> Callable[..., Any]:
    """Return the function of a step, which computes large results of elementwise operators where they stay."""
    room = memory_pool.room_for(math.prod(node.shape) * node.dtype.itemsize)
    if room < memory_pool.SMALLEST_BLOCK or not isinstance(function, np.ufunc | WithNumbers):
        return function
    return InPlace(function, node, room, _old_argument(steps, step) if room >= LEAST_REUSED else -1)


def _old_argument(steps: Steps, step: int) -> int:
    """Return the number of an argument in new memory that nothing reads after a step; -1 if there is none."""
    for number, place in enumerate(steps.places[step]):
        maker = place - steps.inputs
        if maker >= 0 and place in steps.dead[step] and isinstance(steps.functions[maker], InPlace | Products):
            between = zip(steps.functions[maker:step], steps.places[maker:step], strict=True)
            # others may return a view
            if all([isinstance(each, _NEW_MEMORY) for each, places in between if place in places]):
                return number
    return -1


def _fits(function: Any, arrays: Sequence[Array], old: Array) -> bool:
    """Return whether an elementwise function of arrays can write its result over one of them."""
    if not (old.flags.c_contiguous and old.flags.writeable and function.types[0][-1] == old.dtype.char):
        return False
    return bool(np.broadcast_shapes(*[array.shape for array in arrays]) == old.shape)


def reuse(function: Callable[..., Any], arrays: Sequence[Array], old: Array) -> Any:
    """Return the result of an elementwise function in the memory of an old value, if it fits, else in other memory."""
    if isinstance(function, np.ufunc | WithNumbers) and _fits(function, arrays, old):
        return function(*arrays, out=old)
    return function(*arrays)


#: functions whose results are in memory of their own
_NEW_MEMORY = (np.ufunc, WithNumbers, InPlace, Products)


@hot
def own_all(inputs: Iterable[Any], values: list[Any], numbers: Sequence[int], stay: Sequence[bool]) -> list[Array]:
    """Return some values by number, each as :func:`own` does; ``inputs`` have their memory.

    Large ``values`` are dropped when they are copied, so that the memory of one serves the next.
    """
    taken, found = memory_of(inputs), []
    for number, stays in zip(numbers, stay):
        value = values[number]
        if (
            type(value) is np.ndarray
            and value.base is None
            and id(value) not in taken
            and value.nbytes < memory_pool.SMALLEST_BLOCK
            and value.flags.c_contiguous
        ):
            # `own` would do the same
            taken.add(id(value))
        elif type(value) is np.ndarray and type(value.base) is np.ndarray and value.nbytes < memory_pool.SMALLEST_BLOCK:
            # and here: the base is no block
            value = value.copy()
            taken.add(id(value))
        else:
            owned = own(value, taken, stays)
            if owned is not value and owned.nbytes >= memory_pool.SMALLEST_BLOCK and numbers.count(number) == 1:
                values[number] = None
            value = owned
        found.append(value)
    return found


@hot
def memory_of(arrays: Iterable[Any]) -> set[int]:
    """Return what :func:`own` needs to know of arrays in use."""
    taken = set()
    for array in arrays:
        taken.add(id(array))
        if array.__class__ is tuple:
            taken |= memory_of(array)
        elif array is not None and array.base is not None:
            taken.add(id(array.base))
    return taken


def own(value: Any, taken: set[int], stays: bool) -> Array:
    """Return a result as a contiguous array in memory that is not ``taken``, and take it.

    ``stays`` says that a user may keep it for long.
    """
    if type(value) is not np.ndarray:
        value = np.array(value, order="C")
    if value.base is None:
        # kernels read it faster from aligned memory
        moves = id(value) in taken or (stays and value.nbytes >= memory_pool.SMALLEST_BLOCK)
    else:
        moves = id(value.base) in taken or not memory_pool.is_block(value.base) or 2 * value.nbytes < value.base.nbytes
    if moves or not value.flags.c_contiguous:
        value = _copy(value, stays)
    taken.add(id(value if value.base is None else value.base))
    return value  # type: ignore[no-any-return]


def _copy(value: Array, stays: bool) -> Array:
    """Return a contiguous copy of an array, in aligned memory if it is large and stays."""
    if not stays or value.nbytes < memory_pool.SMALLEST_BLOCK:
        return value.copy()
    room = memory_pool.room_for(value.nbytes)
    if not any(value.strides) and not any(value[(0,) * value.ndim].tobytes()):
        # zeros of new memory take no pages: most gradients are replaced before they are read
        return memory_pool.allocate(value.shape, value.dtype, room, is_zero=True)
    aligned = memory_pool.allocate(value.shape, value.dtype, room)
    aligned[...] = value
    return aligned
