"""Pauses of the garbage collector, for work that makes very many objects none of which is garbage.

Modules and plans consist of objects that stay: collections take a tenth of the time of an import and up to a third of
that of planning. A backward pass over a large new record makes thousands of lists, and all are dropped when it ends.
The collector would look at them several times, count them as survivors, and soon look at all objects of the process,
which takes tens of milliseconds (docs/decisions/0053).
"""

from __future__ import annotations

import gc

from . import fork

__all__ = ["FROZEN", "MANY", "paused"]

#: number of new objects above which they skip the young generation; importing tier 0 makes 9,700
MANY = 5_000
#: number of frozen objects above which the program has frozen them. CPython 3.12 counts its immortal objects as frozen,
#: which are 375; ``gc.freeze`` in a process that has imported nothing freezes 4,700 and more
FROZEN = 2_000


class _Pause:
    """A scope without garbage collections; scopes of several threads may overlap."""

    __slots__ = ("_is_first", "_stay")

    def __init__(self, stay: bool) -> None:
        self._stay = stay

    def __enter__(self) -> None:
        self._is_first = gc.isenabled()
        if self._is_first:
            _pauses.append(self)
            gc.disable()

    def __exit__(self, *error: object) -> None:
        # in a child of a process that was forked meanwhile, the collector is on already
        if self._is_first and self in _pauses:
            _pauses.remove(self)
            if self._stay:
                _make_old()
            gc.enable()


def _make_old() -> None:
    """Move all objects to the oldest generation if very many are new: a full collection would follow in the next step.

    Objects that are frozen and released are in the oldest generation.
    """
    # it imports NumPy, which may be imported during a pause
    from .assumptions import HAS_GIL

    # the collector of interpreters without the GIL has no generations, and objects that the program has frozen stay so
    if HAS_GIL and gc.get_count()[0] > MANY and hasattr(gc, "freeze") and gc.get_freeze_count() < FROZEN:
        gc.freeze()
        gc.unfreeze()


#: the pause that has switched the collector off, if there is one
_pauses: list[_Pause] = []


def paused(stay: bool = False) -> _Pause:
    """Return a scope in which the garbage collector does not run; nothing changes if the program has switched it off.

    ``stay`` says that the objects that are made in it live on.

    >>> with paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    return _Pause(stay)


def _resume_in_child() -> None:
    """Switch the collector on in a process whose other threads are gone, and their pauses with them."""
    if _pauses:
        _pauses.clear()
        gc.enable()


fork.register("garbage collector", after_in_child=_resume_in_child)
