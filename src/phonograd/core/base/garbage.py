"""Objects that the garbage collector need not look at: collections take less time with fewer of them.

Graphs have several objects for each node, and the nodes of programs that are always new live long enough to be scanned
several times. A node refers to older nodes and to plain values, so that counting references frees it. Only a node and
its detached form refer to each other; they are parted when the tables drop them
(:mod:`phonograd.core.plan.cache`). See docs/decisions/0018.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import Any

from .assumptions import HAS_GIL, assumption_holds

__all__ = ["untrack"]


def _leave(each: Any, /) -> None:
    """Leave an object as it is."""


def _function() -> Callable[[Any], Any]:
    """Return the function of Python's C interface, or one that does nothing."""
    if sys.implementation.name != "cpython" or not HAS_GIL:
        return _leave
    function = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("PyObject_GC_UnTrack", ctypes.pythonapi))

    def test() -> bool:
        each: Any = ([],)
        before = gc.is_tracked(each)
        function(each)
        # a second time changes nothing
        function(each)
        return before and not gc.is_tracked(each)

    holds = assumption_holds(
        "PyObject_GC_UnTrack takes an object off the lists of the garbage collector",
        "Collections of garbage take longer",
        test,
    )
    return function if holds else _leave


#: let the garbage collector ignore an object, which must not be part of a cycle when nothing else refers to it any more
untrack = _function()
