"""Automatic names for unnamed symbols and blocks (``mxnet.name``)."""

from __future__ import annotations

from collections import Counter

from .base import _MXClassPropertyDescriptor, _MXClassPropertyMetaClass
from .core.base.docstrings import complete_classes
from .core.base.thread_state import ThreadState, thread_state

__all__ = ["NameManager", "Prefix"]


class NameManager(metaclass=_MXClassPropertyMetaClass):
    """A scope that numbers the names it generates.

    >>> with NameManager() as names:
    ...     names.get(None, "fc"), names.get(None, "fc"), names.get("mine", "fc")
    ('fc0', 'fc1', 'mine')
    """

    _current: ThreadState[NameManager | None] = thread_state("names", None)

    def __init__(self) -> None:
        self._counter: Counter[str] = Counter()
        self._outside: list[NameManager | None] = []

    def get(self, name: str | None, hint: str) -> str:
        """Return `name`, or a new name that starts with `hint` if `name` is None."""
        if name:
            return name
        number = self._counter[hint]
        self._counter[hint] += 1
        return f"{hint}{number}"

    def __enter__(self) -> NameManager:
        self._outside.append(NameManager._current.get())
        NameManager._current.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        NameManager._current.set(self._outside.pop())

    @classmethod
    def _innermost(cls) -> NameManager:
        """Return the innermost scope of this thread; create it if there is none."""
        scope = cls._current.get()
        if scope is None:
            scope = NameManager()
            cls._current.set(scope)
        return scope

    @classmethod
    def _replace(cls, scope: NameManager) -> None:
        """Make another scope the innermost one of this thread."""
        cls._current.set(scope)

    current = _MXClassPropertyDescriptor(_innermost, _replace)


class Prefix(NameManager):
    """A scope that prepends a prefix to every name, given or generated.

    >>> with Prefix("net_") as names:
    ...     names.get(None, "fc"), names.get("mine", "fc")
    ('net_fc0', 'net_mine')
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def get(self, name: str | None, hint: str) -> str:
        """Return the prefix followed by `name`, or by a new name if `name` is None."""
        return self._prefix + super().get(name, hint)


complete_classes(globals())
