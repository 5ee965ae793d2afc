"""Spending: which inputs of a plan may be written over, because nobody but a trace refers to their arrays.

Reference counts say so, as they say which handles are alive. Whatever else could look at the memory holds a reference:
another array, a view of it, an exported buffer, a record that waits to be differentiated.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .operator import Array
from .plans import Step

__all__ = ["take_out"]

#: without a global lock, counts are not to be relied on
_COUNTS = bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def take_out(leaves: list[Any], step: Step) -> list[int]:
    """Return the numbers of those inputs that a plan can write over, and take them out of the leaves.

    Only ``leaves`` and the list of inputs may refer to them. Should the run be interrupted, nobody can take what is
    left of them for the old values.
    """
    found = []
    for number in step.spendable if _COUNTS else ():
        index, _ = step.inputs[number]
        if index is not None and _references(leaves, index) == _HELD + 1 and _is_own(leaves[index]):
            leaves[index] = None
            found.append(number)
    return found


def _is_own(array: Array) -> bool:
    """Return whether nobody but an array refers to the memory it lies in, which is that of arrays all the way down."""
    if not array.flags.writeable:
        return False
    while not array.flags.owndata:
        if not isinstance(array.base, np.ndarray) or _references_to_base(array) > _BASE_HELD:
            return False
        array = array.base
    return True


def _references(items: list[Any], index: int) -> int:
    return sys.getrefcount(items[index])


def _references_to_base(array: Array) -> int:
    return sys.getrefcount(array.base)


#: what is counted for something that only a list refers to, and for memory that only an array does: interpreters differ
_HELD = _references([np.empty(1)], 0)
_BASE_HELD = _references_to_base(np.empty(2)[1:])
