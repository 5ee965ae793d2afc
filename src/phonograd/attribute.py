"""Attributes for all symbols created in a ``with`` block (``mxnet.attribute``)."""

from __future__ import annotations

from collections.abc import Mapping

from .base import _MXClassPropertyDescriptor, _MXClassPropertyMetaClass
from .core.base.docstrings import complete_classes
from .core.base.thread_state import ThreadState, thread_state

__all__ = ["AttrScope"]


class AttrScope(metaclass=_MXClassPropertyMetaClass):
    """A scope that gives its string attributes to the symbols created inside; inner scopes extend outer ones.

    >>> with AttrScope(group="1", layer="a"):
    ...     with AttrScope(layer="b"):
    ...         AttrScope.current.get({"name": "fc"})
    {'group': '1', 'layer': 'b', 'name': 'fc'}
    """

    _current: ThreadState[AttrScope | None] = thread_state("attributes", None)

    def __init__(self, **kwargs: str) -> None:
        if not all(isinstance(value, str) for value in kwargs.values()):
            raise ValueError("Attributes need to be string")
        self._own = kwargs
        self._attr = dict(kwargs)
        self._outside: list[tuple[AttrScope | None, dict[str, str]]] = []

    def get(self, attr: Mapping[str, str] | None) -> dict[str, str]:
        """Return the scope's attributes, overridden by those of one symbol."""
        return {**self._attr, **(attr or {})}

    def __enter__(self) -> AttrScope:
        outer = AttrScope._current.get()
        self._outside.append((outer, self._attr))
        self._attr = {**(outer._attr if outer else {}), **self._own}
        AttrScope._current.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        outer, self._attr = self._outside.pop()
        AttrScope._current.set(outer)

    @classmethod
    def _innermost(cls) -> AttrScope:
        """Return the innermost scope of this thread; create it if there is none."""
        scope = cls._current.get()
        if scope is None:
            scope = AttrScope()
            cls._current.set(scope)
        return scope

    @classmethod
    def _replace(cls, scope: AttrScope) -> None:
        """Make another scope the innermost one of this thread."""
        cls._current.set(scope)

    current = _MXClassPropertyDescriptor(_innermost, _replace)


complete_classes(globals())
