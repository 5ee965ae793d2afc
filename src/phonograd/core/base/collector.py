"""Pauses of the garbage collector, for work that makes many objects and drops them together.

A backward pass over a large new record makes thousands of lists. None of them is garbage before the pass ends, and all
are dropped then. The collector would look at them several times, count them as survivors, and soon look at all objects
of the process, which takes tens of milliseconds (docs/decisions/0053).
"""

from __future__ import annotations

import gc

from . import fork

__all__ = ["paused"]


class _Pause:
    """A scope without garbage collections; scopes of several threads may overlap."""

    __slots__ = ("_is_first",)

    def __enter__(self) -> None:
        self._is_first = gc.isenabled()
        if self._is_first:
            _pauses.append(self)
            gc.disable()

    def __exit__(self, *error: object) -> None:
        # in a child of a process that was forked meanwhile, the collector is on already
        if self._is_first and self in _pauses:
            _pauses.remove(self)
            gc.enable()


#: the pause that has switched the collector off, if there is one
_pauses: list[_Pause] = []


def paused() -> _Pause:
    """Return a scope in which the garbage collector does not run; nothing changes if the program has switched it off.

    >>> with paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    return _Pause()


def _resume_in_child() -> None:
    """Switch the collector on in a process whose other threads are gone, and their pauses with them."""
    if _pauses:
        _pauses.clear()
        gc.enable()


fork.register("garbage collector", after_in_child=_resume_in_child)
