"""Allocations: track the memory that arrays hold and its purpose, and notify observers while any listens.

An allocation is identified by the object that owns it. Views, and results written into the memory of their inputs, are
therefore not counted twice. The category follows from the holder: the value of a variable is a parameter, its gradient
buffer a gradient, the states of an optimizer belong to the optimizer. If the holder becomes known later, observers get
a second event of zero bytes with the right category. They get such an event too on the first use of the memory.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..events import LISTENING, MEMORY, Range, note_allocation, note_release
from ..graph.operator import Array

__all__ = ["OPTIMIZERS", "Allocation", "hold", "live_allocations", "note_temporary", "owner_of", "roles_of", "use"]

#: objects with a dictionary ``states`` that maps weights to arrays, or to tuples and lists of arrays
OPTIMIZERS: weakref.WeakSet[Any] = weakref.WeakSet()

#: categories that follow from the holder; the others only tell the origin
_ROLES = ("parameter", "gradient", "optimizer")

#: identities of memory that no array owns; larger than any address
_numbers = itertools.count(1 << 62)


class Allocation(NamedTuple):
    """A piece of memory in use."""

    identity: int
    nbytes: int
    category: str


#: the live allocations that observers know of, by identity
_held: dict[int, Allocation] = {}
#: identities of the allocations that have been read by a computation
_used: set[int] = set()


def owner_of(value: Array) -> Array:
    """Return the array that owns the memory of a value."""
    while value.__class__ is np.ndarray and isinstance(value.base, np.ndarray):
        value = value.base
    return value


def hold(value: Array, category: str, cause: Range | None = None, backward: bool = False) -> None:
    """Notify observers of the memory of a value, or of a change of its category.

    ``cause`` is the range of the operator whose value it is, or whose gradient if ``backward``.
    """
    if not LISTENING[MEMORY]:
        return
    owner = owner_of(value)
    identity = id(owner)
    known = _held.get(identity)
    if known is None:
        # a block of a pool is slightly larger than its value
        size = owner.nbytes if owner.__class__ is np.ndarray else value.nbytes
        piece = Allocation(identity, size, category)
        # another thread may hold the same value at the same time: one of them notifies
        if size and _held.setdefault(identity, piece) is piece:
            if note_allocation(size, category, identity, cause=cause, backward=backward):
                weakref.finalize(owner, _note_death, identity).atexit = False
            else:
                del _held[identity]
    elif category != known.category and (category in _ROLES or known.category == "input"):
        _held[identity] = known._replace(category=category)
        note_allocation(0, category, identity)


def use(value: Array) -> None:
    """Notify observers of the first use of a value whose memory they know of."""
    identity = id(owner_of(value))
    known = _held.get(identity)
    if known is not None and identity not in _used and note_allocation(0, known.category, identity):
        _used.add(identity)


def _note_death(identity: int) -> None:
    _used.discard(identity)
    gone = _held.pop(identity, None)
    if gone is not None:
        note_release(gone.nbytes, gone.category, identity)


def live_allocations(arrays: Iterable[tuple[Array, str]]) -> list[Allocation]:
    """Return all live allocations: those that observers know of, and the given arrays by category."""
    for value, category in arrays:
        owner = owner_of(value)
        identity = id(owner)
        if owner.nbytes and (identity not in _held or category in _ROLES):
            if identity not in _held:
                weakref.finalize(owner, _note_death, identity).atexit = False
            size = owner.nbytes if owner.__class__ is np.ndarray else value.nbytes
            _held[identity] = Allocation(identity, size, category)
    return list(_held.values())


@contextlib.contextmanager
def note_temporary(sizes: Mapping[str, int]) -> Iterator[None]:
    """Notify observers of memory, by category, that is allocated for the duration of a ``with`` block."""
    taken = [(size, category, next(_numbers)) for category, size in sizes.items() if size]
    for size, category, identity in taken:
        note_allocation(size, category, identity)
    try:
        yield
    finally:
        for size, category, identity in taken:
            note_release(size, category, identity)


def roles_of(arrays: Iterable[Any]) -> dict[int, str]:
    """Return the roles of arrays that are parameters, gradients or optimizer states, by the arrays' identities."""
    roles: dict[int, str] = {}
    for array in arrays:
        extras = array._extras
        if extras is not None and extras.variable is not None:
            roles[id(array)] = "parameter"
            roles.setdefault(id(extras.variable.grad), "gradient")
    for optimizer in list(OPTIMIZERS):
        for state in list(optimizer.states.values()):
            for array in _arrays_of(state):
                roles[id(array)] = "optimizer"
    return roles


def _arrays_of(state: Any) -> Iterator[Any]:
    if isinstance(state, (tuple, list)):
        for part in state:
            yield from _arrays_of(part)
    elif hasattr(state, "_buffer"):
        yield state
