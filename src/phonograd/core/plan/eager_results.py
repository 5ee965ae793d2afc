"""The results of eager programs: arrays that are contiguous, each in memory of its own.

Functions of operators (:mod:`~phonograd.core.plan.eager`) may return views of their inputs, inputs themselves, and
arrays with any strides. Values that a program returns, or that a backward pass keeps, are none of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..graph.operator import Array
from ..run import memory_pool

__all__ = ["memory_of", "own", "own_all"]


def own_all(inputs: Iterable[Any], values: Sequence[Any], numbers: Sequence[int], stay: Sequence[bool]) -> list[Array]:
    """Return some values by number, each as :func:`own` does; ``inputs`` have their memory."""
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
        else:
            value = own(value, taken, stays)
        found.append(value)
    return found


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
    if type(value) is not np.ndarray or not value.flags.c_contiguous:
        value = np.array(value, order="C")
    elif value.base is None:
        if id(value) in taken:
            value = value.copy()
    elif id(value.base) in taken or not memory_pool.is_block(value.base) or 2 * value.nbytes < value.base.nbytes:
        value = value.copy()
    if stays and value.base is None and value.nbytes >= memory_pool.SMALLEST_BLOCK:
        # kernels read it faster from aligned memory
        aligned = memory_pool.allocate(value.shape, value.dtype, memory_pool.room_for(value.nbytes))
        aligned[...] = value
        value = aligned
    taken.add(id(value if value.base is None else value.base))
    return value  # type: ignore[no-any-return]
