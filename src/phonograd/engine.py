"""MXNet's bulk size (``mxnet.engine``), kept for old scripts; it has no effect.

MXNet grouped operators into bulks to save scheduling time. phonograd plans all pending operators together, so it
stores and returns the number but does not use it.
"""

from __future__ import annotations

import operator

from .core.base.thread_state import thread_state

__all__ = ["bulk", "set_bulk_size"]

_bulk_size = thread_state("bulk_size", 0)


def set_bulk_size(size: int) -> int:
    """Set the bulk size of this thread and return the previous one.

    >>> previous = set_bulk_size(10)
    >>> set_bulk_size(previous)
    10
    """
    new = operator.index(size)
    if new < 0:
        raise ValueError(f"the bulk size must not be negative, but is {size}")
    previous = _bulk_size.get()
    _bulk_size.set(new)
    return previous


class _BulkScope:
    """A ``with`` block that sets the bulk size."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._previous: list[int] = []

    def __enter__(self) -> _BulkScope:
        self._previous.append(set_bulk_size(self._size))
        return self

    def __exit__(self, *exception: object) -> None:
        set_bulk_size(self._previous.pop())


def bulk(size: int) -> _BulkScope:
    """Return a scope with the given bulk size.

    >>> with bulk(10):
    ...     set_bulk_size(10)
    10
    """
    return _BulkScope(size)
