"""Operators as methods of symbols (``net.reshape((2, 3))``, ``net.sum(axis=1)``), and errors for others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..base import NotImplementedForSymbol
from ..core.base.errors import MXNetError
from ..core.graph.operator import REGISTRY
from ..ndarray.array import NDArray
from .build import function_of
from .graph import Symbol

__all__ = ["method_of"]

_OF_ARRAYS = ("asnumpy", "asscalar", "wait_to_read", "as_in_context", "copy", "detach", "backward")

#: operators that are methods of symbols, while arrays implement their own method
_MORE = ("broadcast_like", "broadcast_to")


def _reshape(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    """Return the symbol with another shape: ``reshape(2, 3)``, ``reshape((2, 3))`` or ``reshape(shape=(2, 3))``."""
    reshape = function_of(REGISTRY["Reshape"], "reshape")
    if args and isinstance(args[0], int):
        return reshape(self, shape=args, **kwargs)  # type: ignore[no-any-return]
    return reshape(self, *args, **kwargs)  # type: ignore[no-any-return]


def _astype(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    """Return the symbol with another dtype."""
    return function_of(REGISTRY["Cast"], "cast")(self, *args, **kwargs)  # type: ignore[no-any-return]


def _split_v2(self: Symbol, *args: Any, **kwargs: Any) -> Symbol:
    from .creation import split_v2

    return split_v2(self, *args, **kwargs)


def _itself(self: Symbol) -> Symbol:
    return self


def _gradient(self: Symbol, wrt: Any) -> Symbol:
    raise MXNetError(
        "the gradient of a symbol needs arrays of known shapes: bind the symbol (simple_bind, "
        "forward(is_train=True), backward), or record it (autograd.record, autograd.grad with "
        "create_graph=True) and read the gradient with autograd.get_symbol"
    )


def _as_np_ndarray(self: Symbol) -> Symbol:
    """Return the symbol with NumPy semantics."""
    from .numpy_symbols import as_np

    return as_np(self)


def _optimize_for(self: Symbol, backend: str, *args: Any, **kwargs: Any) -> Symbol:
    """Return the symbol unchanged: graphs are fused and compiled at evaluation, for any backend."""
    return self


def _get_backend_symbol(self: Symbol, backend: str) -> Symbol:
    """Return the symbol unchanged for the backends of MXNet on CPUs: graphs are fused and compiled at evaluation."""
    if backend in ("MKLDNN", "MKLDNN_QUANTIZE", "default"):
        return self
    raise MXNetError(f"unknown backend {backend!r}: graphs are fused and compiled at evaluation, without backends")


_OWN: dict[str, Callable[..., Any]] = {
    "as_nd_ndarray": _itself,
    "as_np_ndarray": _as_np_ndarray,
    "astype": _astype,
    "get_backend_symbol": _get_backend_symbol,
    "gradient": _gradient,
    "optimize_for": _optimize_for,
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
        return functools.partial(_refuse, getattr(NDArray, name))
    raise AttributeError(f"'Symbol' object has no attribute {name!r}")


def _refuse(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    raise NotImplementedForSymbol(function, None)
