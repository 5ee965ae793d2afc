"""ArrayExtras: the attributes that only some arrays have, and the list of views of an array.

A view is a handle that names a piece of another array. It keeps the value that it has read there until that array
changes; then it has to read again. Each view is told once, even if the array changes often before the view is used.
"""

from __future__ import annotations

import math
import operator
import weakref
from typing import Any, Generic, TypeVar

import numpy as np

from ..base.devices import CPU, Context
from ..base.hot import hot, slotted
from ..graph.node import Node, Shape
from ..graph.operator import Array
from ..trace.owner import HANDOVER
from ..trace.trace import LOCAL

__all__ = [
    "ArrayExtras",
    "RowsHeld",
    "Seldom",
    "context_of",
    "extras_of_view",
    "mark_views_stale",
    "note_view",
    "piece_of",
    "views_of",
]

#: the number of views from which on the list is searched for dead ones
_FEW_VIEWS = 16


@slotted
class RowsHeld:
    """The parts of a gradient that is zero outside of some rows, from which its value is made if it is read.

    ``node`` is the gradient as an expression of the current trace, and ``parts`` are arrays: the rows and their
    positions. The gradient names no node while no trace uses it.
    """

    __slots__ = ("node", "parts")

    def __init__(self, node: Node, parts: tuple[Any, Any]) -> None:
        self.node = node
        self.parts = parts


@slotted
class ArrayExtras:
    """The attributes that only some arrays have."""

    __slots__ = ("context", "readonly", "region", "root", "rows", "told", "variable", "views")

    def __init__(self, root: Any = None, region: tuple[int, Shape, bool] | None = None) -> None:
        self.variable: Any = None
        self.root = root
        self.region = region
        self.views: list[weakref.ref[Any]] | None = None
        self.told: list[weakref.ref[Any]] | None = None
        self.context = CPU
        self.readonly = False
        self.rows: RowsHeld | None = None


@hot
def context_of(handle: Any) -> Context:
    """Return the context of an array: a view is where the array is that owns its memory."""
    node = handle._node
    while node is None:
        extras = handle._extras
        if extras is None:
            return CPU
        if extras.root is None:
            return extras.context  # type: ignore[no-any-return]
        handle = extras.root
        node = handle._node
    return node.context  # type: ignore[no-any-return]


_new_extras = ArrayExtras.__new__


@hot
def extras_of_view(root: Any, region: tuple[int, Shape, bool] | None) -> ArrayExtras:
    """Return the attributes of a new view, or of an array that is none, as ``ArrayExtras(root, region)`` does."""
    extras = _new_extras(ArrayExtras)
    extras.root, extras.region = root, region
    extras.variable = extras.views = extras.told = extras.rows = None
    extras.context, extras.readonly = CPU, False
    return extras


Kind = TypeVar("Kind")


class Seldom(Generic[Kind]):
    """An attribute of an array that is stored in its ``_extras``, which is made when an attribute is set."""

    __slots__ = ("_default", "_name", "_read")

    def __init__(self, name: str, default: Kind) -> None:
        self._name = name
        self._default = default
        self._read = operator.attrgetter(name)

    def __get__(self, handle: Any, owner: type[Any]) -> Kind:
        extras = handle._extras
        return self._default if extras is None else self._read(extras)

    def __set__(self, handle: Any, value: Kind) -> None:
        extras = handle._extras
        if extras is None:
            extras = handle._extras = ArrayExtras()
        setattr(extras, self._name, value)


@hot
def note_view(root: Any, view: Any) -> None:
    """Add a view, which has read its base, to the list of the array that owns the memory."""
    extras = root._extras
    while extras is not None and extras.root is not None:
        root = extras.root
        extras = root._extras
    if extras is None:
        extras = root._extras = ArrayExtras()
    views = extras.views
    if views is None:
        extras.views = [weakref.ref(view)]
        return
    if len(views) >= _FEW_VIEWS and not len(views) & (len(views) - 1):
        # search at every doubling, so that many live views do not make each new one expensive. Most are dead by now,
        # but the trace still refers to them
        LOCAL.trace.prune()
        views = extras.views = [reference for reference in views if reference() is not None]
    views.append(weakref.ref(view))


@hot
def piece_of(base: Any, start: int, shape: Shape) -> Array:
    """Return a contiguous piece of the known value of an array, in a shape."""
    buffer: Any = base._buffer
    if not buffer.flags.c_contiguous:
        buffer = base._buffer = np.ascontiguousarray(buffer)
    size, rest = math.prod(shape), buffer.shape[1:]
    if size and buffer.shape:
        # rows are one NumPy call instead of three, if the piece does not begin in the middle of one
        if shape == rest:
            first = start // size
            if first * size == start:
                return buffer[first]  # type: ignore[no-any-return]
        elif shape and shape[1:] == rest:
            count = shape[0]
            first = start * count // size
            if first * size == start * count:
                return buffer[first : first + count]  # type: ignore[no-any-return]
    return buffer.reshape(-1)[start : start + size].reshape(shape)  # type: ignore[no-any-return]


def mark_views_stale(extras: ArrayExtras) -> None:
    """Make the views of an array read it again, because it has changed."""
    views, told = extras.views or [], extras.told or []
    extras.views = None
    with HANDOVER:
        for reference in views:
            view = reference()
            if view is not None:
                # readers in other threads rely on this order
                view._trace = None
                view._node = None
                view._buffer = None
    count = len(told)
    told += views
    if len(told) >= _FEW_VIEWS and count.bit_length() != len(told).bit_length():
        # a view that was told several times is in the list with the same reference
        told = list({id(reference): reference for reference in told if reference() is not None}.values())
    extras.told = told


def views_of(handle: Any) -> list[Any]:
    """Return the live views of an array that is not a view."""
    extras = handle._extras
    if extras is None:
        return []
    alive = [view for reference in (*(extras.views or ()), *(extras.told or ())) if (view := reference()) is not None]
    return list({id(view): view for view in alive}.values())
