"""Holdings: which memory arrays hold and what for, told to observers while somebody asks for it.

A piece of memory is known by the object that owns it, so that views and results that are written into the memory of
their inputs are not counted twice. What it is for follows from who holds it: a variable's value is a parameter, its
buffer a gradient, the states of an optimiser are the optimiser's. Who holds it may be known later than that it is
there; observers are then told of it again, as a moment of no bytes with the right category. They are told in the same
way of the first time that something is computed from it.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..events import LISTENING, MEMORY, Range, allocated, released
from ..graph.operator import Array

__all__ = ["OPTIMIZERS", "Allocation", "borrowed", "hold", "owner_of", "pieces", "roles_of", "use"]

#: what has a dictionary ``states``: arrays, or tuples and lists of them, that an optimiser keeps for each weight
OPTIMIZERS: weakref.WeakSet[Any] = weakref.WeakSet()

#: categories that follow from who holds something; the others only say how it came to be
_ROLES = ("parameter", "gradient", "optimizer")

#: identities of memory that no array owns: above all addresses
_numbers = itertools.count(1 << 62)


class Allocation(NamedTuple):
    """A piece of memory that is held."""

    identity: int
    nbytes: int
    category: str


#: everything that observers were told of and that is still there, by identity
_held: dict[int, Allocation] = {}
#: those of them that something was computed from
_used: set[int] = set()


def owner_of(value: Array) -> Array:
    """Return the array whose end is the end of the memory that a value lies in."""
    while value.__class__ is np.ndarray and isinstance(value.base, np.ndarray):
        value = value.base
    return value


def hold(value: Array, category: str, cause: Range | None = None, backward: bool = False) -> None:
    """Tell observers of memory that a value takes, or that it is for something else than it seemed.

    ``cause`` is the range of the operator whose value it is, or whose gradient if ``backward``.
    """
    if not LISTENING[MEMORY]:
        return
    owner = owner_of(value)
    identity = id(owner)
    known = _held.get(identity)
    if known is None:
        # a block of a pool is a little larger than what lies in it
        size = owner.nbytes if owner.__class__ is np.ndarray else value.nbytes
        if size and allocated(size, category, identity, cause=cause, backward=backward):
            _held[identity] = Allocation(identity, size, category)
            weakref.finalize(owner, _let_go, identity).atexit = False
    elif category != known.category and (category in _ROLES or known.category == "input"):
        _held[identity] = known._replace(category=category)
        allocated(0, category, identity)


def use(value: Array) -> None:
    """Tell observers, once, that something is computed from a value whose memory they know of."""
    identity = id(owner_of(value))
    known = _held.get(identity)
    if known is not None and identity not in _used and allocated(0, known.category, identity):
        _used.add(identity)


def _let_go(identity: int) -> None:
    _used.discard(identity)
    gone = _held.pop(identity, None)
    if gone is not None:
        released(gone.nbytes, gone.category, identity)


def pieces(arrays: Iterable[tuple[Array, str]]) -> list[Allocation]:
    """Return everything that is held: what observers were told of, and arrays that were there before, by category."""
    for value, category in arrays:
        owner = owner_of(value)
        identity = id(owner)
        if owner.nbytes and (identity not in _held or category in _ROLES):
            if identity not in _held:
                weakref.finalize(owner, _let_go, identity).atexit = False
            size = owner.nbytes if owner.__class__ is np.ndarray else value.nbytes
            _held[identity] = Allocation(identity, size, category)
    return list(_held.values())


@contextlib.contextmanager
def borrowed(sizes: Mapping[str, int]) -> Iterator[None]:
    """Tell observers of memory by category that is taken for the time of a ``with`` block."""
    taken = [(size, category, next(_numbers)) for category, size in sizes.items() if size]
    for size, category, identity in taken:
        allocated(size, category, identity)
    try:
        yield
    finally:
        for size, category, identity in taken:
            released(size, category, identity)


def roles_of(arrays: Iterable[Any]) -> dict[int, str]:
    """Return what arrays are for that somebody keeps for a purpose, by their identities."""
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
