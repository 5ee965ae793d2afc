"""Namespaces made from the registry: ``nd``, ``nd.contrib``, ``nd.linalg``, ``nd.op``, ``nd._internal``.

A name is looked up when it is first used and then stored, so importing the library does not build hundreds of
functions.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ..errors import nearest
from ..operator import REGISTRY
from .call import function_of
from .functions import with_scalars

__all__ = ["Namespace", "lookup", "public_names"]

#: functions of two operands that MXNet has under two names
_OTHER_NAMES = {"true_divide": "divide"}


def public_names(prefix: str = "") -> list[str]:
    """Return the names that operators have in a namespace: ``""`` for nd itself, ``"_contrib_"`` for nd.contrib."""
    if prefix == "_":
        return [name for name in REGISTRY if name.startswith("_")]
    if prefix:
        return [name[len(prefix) :] for name in REGISTRY if name.startswith(prefix)]
    scalars = [declared.with_scalars for declared in REGISTRY.values() if declared.with_scalars]
    return sorted({*[name for name in REGISTRY if not name.startswith("_")], *scalars, *_OTHER_NAMES})


def lookup(prefix: str, name: str) -> Callable[..., Any] | None:
    """Return the function a name has in a namespace, or None."""
    declared = REGISTRY.get(name if prefix == "_" else prefix + name)
    if declared is not None and (prefix or not name.startswith("_")):
        return function_of(declared, name)
    if not prefix:
        word = _OTHER_NAMES.get(name, name)
        for candidate in REGISTRY.values():
            if candidate.with_scalars == word:
                return with_scalars(candidate)
    return None


class Namespace(types.ModuleType):
    """A module whose functions are the operators with a common prefix, and others that are set on it."""

    def __init__(self, name: str, prefix: str, doc: str, **functions: Callable[..., Any]) -> None:
        super().__init__(name, doc)
        self._prefix = prefix
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            function = lookup(self._prefix, name)
            if function is not None:
                setattr(self, name, function)
                return function
        raise AttributeError(f"{self.__name__} has no operator {name!r}{nearest(name, self.__dir__())}")

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *public_names(self._prefix)})
