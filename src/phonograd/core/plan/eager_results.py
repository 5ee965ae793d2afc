"""The results of eager programs: arrays that are contiguous, each in memory of its own.

Functions of operators (:mod:`~phonograd.core.plan.eager`) may return views of their inputs, inputs themselves, and
arrays with any strides. Values that a program returns, or that a backward pass keeps, are none of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.hot import hot
from ..graph.node import Node
from ..graph.operator import REGISTRY, Array
from ..run import memory_pool

__all__ = ["memory_of", "own", "own_all", "repeated"]

_FULL = REGISTRY["_full"]


def repeated(node: Node) -> Callable[[], Array] | None:
    """Return the function of a large array with one number in all places; None for other nodes.

    Its value is that number, repeated without memory: :func:`own` takes the memory of results, and others need none.
    """
    if node.operator is not _FULL or math.prod(node.shape) * node.dtype.itemsize < memory_pool.SMALLEST_BLOCK:
        return None
    shape, number, dtype, _ = node.attributes
    value = np.ndarray(shape, dtype, number, strides=(0,) * len(shape))
    return lambda: value


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


@hot
def own(value: Any, taken: set[int], stays: bool) -> Array:
    """Return a result as a contiguous array in memory that is not ``taken``, and take it.

    ``stays`` says that a user may keep it for long.
    """
    if type(value) is not np.ndarray:
        value = _as_array(value)
    if value.base is None:
        # kernels read it faster from aligned memory
        moves = id(value) in taken or (stays and value.nbytes >= memory_pool.SMALLEST_BLOCK)
    else:
        moves = id(value.base) in taken or not memory_pool.is_block(value.base) or 2 * value.nbytes < value.base.nbytes
    if moves or not value.flags.c_contiguous:
        value = _copy(value, stays)
    taken.add(id(value if value.base is None else value.base))
    return value  # type: ignore[no-any-return]


def _as_array(value: Any) -> Array:
    return np.array(value, order="C")


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
