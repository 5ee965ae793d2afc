"""Memory of large values in eager programs: elementwise results that stay, or that are written over dead values.

Takes functions of steps from :mod:`~phonograd.core.plan.eager` and :mod:`~phonograd.core.plan.eager_expansion`, and
returns functions that choose the memory of their results. The loops are the same, so no bit changes. See
docs/decisions/0031.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph.node import Node
from ..graph.operator import Array
from ..run import memory_pool
from .eager_launch import Draws, Products
from .eager_stacks import WithNumbers

__all__ = ["LEAST_REUSED", "Steps", "in_place", "reuse"]

#: results take the memory of old values from this size on
LEAST_REUSED = memory_pool.LEAST_MAPPED_BYTES


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
        if maker >= 0 and place in steps.dead[step] and isinstance(steps.functions[maker], InPlace | Products | Draws):
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
_NEW_MEMORY = (np.ufunc, WithNumbers, InPlace, Products, Draws)
