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

__all__ = ["HOT", "SLOTTED", "hot", "slotted"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type[Any])

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
