"""Hot functions: Python functions of the engine that are machine code in most processes.

The loops of tier 0 (nodes, functions of arrays, gradient rules) run once for every operator of a program that is always
new. :func:`hot` marks the functions in these loops, in any layer; :mod:`phonograd.core.run.hot` translates them. The
Python function is the definition, and it runs until the code is loaded, and where there is none. :func:`slotted` marks
the classes whose attributes the code reads directly. See docs/decisions/0053.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

__all__ = ["HOT", "SLOTTED", "hot", "slotted", "uncounted", "untracked"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type[Any])
_Object = TypeVar("_Object")

#: hot functions in the order of their definition
HOT: list[FunctionType] = []
#: classes whose attributes are in slots
SLOTTED: list[type[Any]] = []


def hot(function: _Function) -> _Function:
    """Mark a function or method for translation into machine code; it must keep to the subset that is translated."""
    assert isinstance(function, FunctionType)
    HOT.append(function)
    return function


def slotted(class_: _Class) -> _Class:
    """Mark a class whose ``__slots__`` hot functions read without a look-up."""
    SLOTTED.append(class_)
    return class_


def untracked(value: _Object) -> _Object:
    """Return an object; machine code takes it off the lists of the garbage collector.

    Programs that are always new make many nodes that stay for a while, and full collections would scan all of them. An
    object may only be untracked if it can never be part of a cycle of references, or if the cycle is broken elsewhere.
    """
    return value


def uncounted(value: _Object, objects: int) -> _Object:
    """Return an object; machine code takes it, and others made with it, off the number of new objects.

    The garbage collector looks at new objects when there are 700 more than before. Those that it does not track, and
    that live on, are no reason to look: it would find the arrays of a step that are in use, and count them as
    survivors. ``objects`` is a literal.
    """
    return value
