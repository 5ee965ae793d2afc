"""Methods of symbols that are operators: ``net.reshape((2, 3))``, ``net.sum(axis=1)``; and those only arrays have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..operator import REGISTRY
from .build import function_of
from .graph import NotImplementedForSymbol, Symbol

__all__ = ["method_of"]

_OF_ARRAYS = ("asnumpy", "asscalar", "wait_to_read", "as_in_context", "copy", "detach", "backward")

#: operators that are methods of symbols, where arrays have a method of their own
_MORE = ("broadcast_like", "broadcast_to")


def _reshape(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    """Return the symbol in another shape: ``reshape(2, 3)``, ``reshape((2, 3))`` or ``reshape(shape=(2, 3))``."""
    reshape = function_of(REGISTRY["Reshape"], "reshape")
    if args and isinstance(args[0], int):
        return reshape(self, shape=args, **kwargs)  # type: ignore[no-any-return]
    return reshape(self, *args, **kwargs)  # type: ignore[no-any-return]


def _astype(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    """Return the symbol in another dtype."""
    return function_of(REGISTRY["Cast"], "cast")(self, *args, **kwargs)  # type: ignore[no-any-return]


def _split_v2(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    from .creation import split_v2

    return split_v2(self, *args, **kwargs)


def _itself(self: Symbol) -> Symbol:
    return self


_OWN: dict[str, Callable[..., Any]] = {
    "as_nd_ndarray": _itself,
    "astype": _astype,
    "reshape": _reshape,
    "split_v2": _split_v2,
}


def method_of(symbol: Symbol, name: str) -> Any:
    """Return a method of a symbol."""
    if name in _OWN:
        return functools.partial(_OWN[name], symbol)
    declared = REGISTRY.get(name)
    if declared is not None and (declared.method or name in _MORE):
        return functools.partial(function_of(declared, name), symbol)
    if name in _OF_ARRAYS:
        return functools.partial(_refuse, name)
    raise AttributeError(f"'Symbol' object has no attribute {name!r}")


def _refuse(name: str, *args: Any, **kwargs: Any) -> None:
    raise NotImplementedForSymbol(name)
