"""Donation: lets a program write its results over inputs to which only the trace refers.

Takes the leaves of a trace (:mod:`phonograd.core.trace.evaluation`) or the buffers of arrays
(:mod:`phonograd.core.capture.replay`), and hands a :class:`Donation` to the program. Reference counts decide, as they
do for the liveness of handles: every other user of the memory holds a reference, be it another array, a view, an
exported buffer, or a record that waits to be differentiated. See docs/decisions/0009 and 0014.

The user may interrupt a program at any moment (``KeyboardInterrupt``) and go on with the arrays. Weights that were
being updated in place must then have their old or their new values: :class:`Donation` notes which.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.assumptions import HAS_GIL, assumption_holds
from ..graph.operator import Array
from . import memory_pool

__all__ = ["COUNTS", "Donation", "donate", "is_unshared"]

_NOT_BEGUN, _DONE, _IN_PIECES = 0, 1, 2


class Donation:
    """The numbers of the inputs that a run may write over, and the progress of the run.

    ``give_back`` restores the inputs to their owners.
    """

    __slots__ = ("_flag", "_give_back", "_numbers", "_values")

    def __init__(self, numbers: Sequence[int], give_back: Callable[[], None]) -> None:
        self._numbers = numbers
        self._give_back = give_back
        self._flag = np.zeros(1, np.int64)
        self._values: list[Any] | None = None

    def __contains__(self, number: object) -> bool:
        return number in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def begin(self, values: list[Any], is_one_call: bool) -> Array:
        """Return the word that the run sets when it is done; ``values`` is the list of all values of the run."""
        self._values = values
        if not is_one_call:
            self._flag[0] = _IN_PIECES
        return self._flag

    def run(self, program: Any, run: Callable[[], list[Array]], keep: Callable[[list[Array]], None]) -> None:
        """Run a program and keep its results, even if it is interrupted after it has computed them.

        If it is interrupted before it has begun, the inputs are given back.
        """
        try:
            keep(run())
        except BaseException:
            state = int(self._flag[0])
            if state == _DONE and self._values is not None:
                keep(program.results(self._values))
            elif state == _NOT_BEGUN:
                self._give_back()
            raise


def donate(leaves: list[Any], donatable: Sequence[int], inputs: Sequence[tuple[int | None, Any]]) -> Donation | None:
    """Take the inputs that a plan can write over out of the leaves and return them; None if there is none.

    Only ``leaves`` and the list of inputs may refer to such an input.
    """
    numbers, taken = [], []
    for number in donatable if COUNTS else ():
        index, _ = inputs[number]
        if index is not None and is_unshared(leaves, index, 1):
            taken.append((index, leaves[index]))
            leaves[index] = None
            numbers.append(number)
    if not numbers:
        return None

    def give_back() -> None:
        for index, array in taken:
            leaves[index] = array

    return Donation(numbers, give_back)


def is_unshared(items: list[Any], index: int, others: int) -> bool:
    """Return whether an array of a list may be written over: nothing else can see its memory.

    Its count of references must be exactly that of the list and of ``others`` more, which the caller knows. It must be
    writable. If it is a view of another array, only it may refer to that one, and so on to the owner, which is an array
    or pages of the memory pool. Other memory is shared: what it belongs to is unknown.
    """
    if _references(items, index) != _HELD + others:
        return False
    array = items[index]
    if not array.flags.writeable:
        return False
    while not array.flags.owndata:
        if _references_to_base(array) > _BASE_HELD:
            return False
        if not isinstance(array.base, np.ndarray):
            return memory_pool.is_pages(array.base)
        array = array.base
    return True


def _references(items: list[Any], index: int) -> int:
    return sys.getrefcount(items[index])


def _references_to_base(array: Array) -> int:
    return sys.getrefcount(array.base)


#: reference counts of an item that only a list refers to, and of a base that only an array does: interpreters differ
_HELD = _references([np.empty(1)], 0)
_BASE_HELD = _references_to_base(np.empty(2)[1:])


def _sharing_is_seen() -> bool:
    """Return whether :func:`is_unshared` distinguishes unshared arrays from shared ones."""
    for others in range(3):
        lists = [[np.empty(3)] for _ in range(11)]
        lists[1] = [np.empty(6)[::2]]
        lists[2] = [np.ndarray((3,), np.float64, np.empty(24, np.uint8).view(_Memory))]
        lists[3] = [np.ndarray((3,), np.float64, memory_pool.new_pages(24).view(_Memory))]
        # the following arrays are shared
        owner = np.empty(6)
        lists[4] = [owner[:3]]
        name, view, exported = lists[5][0], lists[6][0][1:], lists[7][0].data
        lists[8][0].flags.writeable = False
        pages = memory_pool.new_pages(48)
        lists[9] = [pages[:24].view(np.float64)]
        lists[10] = [np.frombuffer(bytearray(24))]
        held = [[items[0] for items in lists] for _ in range(others)]
        seen = [is_unshared(items, 0, others) for items in lists]
        if seen != [True] * 4 + [False] * 7:
            return False
        del owner, name, view, exported, pages, held
    return True


class _Memory(np.ndarray[Any, Any]):
    """Bytes behind results, like those of the memory pool."""

    __slots__ = ()


#: whether inputs are ever donated. Without the GIL, reference counts are not reliable
COUNTS = HAS_GIL and assumption_holds(
    "sys.getrefcount is exact for the items of a list and for the bases of arrays",
    "No result takes the place of an input, so updates of weights take more time and memory",
    _sharing_is_seen,
)
