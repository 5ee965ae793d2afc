"""Modules that look up their names on first use, and whose ``__dict__`` contains all of them.

Programs ask ``"box_decode" in F.contrib.__dict__`` before they call an operator. :class:`CompleteModule` looks
up the names that ``dir`` lists when a program reads ``__dict__`` or calls ``vars``. :func:`stored_names` returns the
names that are there already.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, cast

__all__ = ["CompleteModule", "make_complete", "stored_names"]

_dictionary_of = vars(ModuleType)["__dict__"].__get__


def stored_names(module: ModuleType) -> dict[str, Any]:
    """Return the dictionary of a module without completing it."""
    return cast("dict[str, Any]", _dictionary_of(module))


class CompleteModule(ModuleType):
    """A module whose ``__dict__`` contains each name that ``dir`` lists."""

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        stored = stored_names(self)
        for name in dir(self):
            if name not in stored:
                stored[name] = getattr(self, name)
        return stored

    def __dir__(self) -> list[str]:
        # the inherited method reads __dict__
        stored = stored_names(self)
        hook = stored.get("__dir__")
        return sorted(stored) if hook is None else list(hook())


def make_complete(name: str) -> None:
    """Give an imported module a complete ``__dict__``."""
    sys.modules[name].__class__ = CompleteModule
