"""Namespaces made from the registry: ``nd``, ``nd.contrib``, ``nd.linalg``, ``nd.op``, ``nd._internal``.

A name is looked up on first use and then stored, so that importing the library does not create hundreds of
functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.array.call import function_of
from ..core.base.foreign_names import explain_name
from ..core.base.modules import CompleteModule, stored_names
from ..core.graph.operator import REGISTRY
from .functions import with_scalars

__all__ = ["Namespace", "hint", "lookup", "public_names"]

#: MXNet operators that phonograd omits, by prefixes of their names, with the replacement
LEFT_OUT = {
    ("quantize_asym", "quantized_rnn"): "recurrent layers are not quantized: run them in float32",
    ("dgl_csr_neighbor", "dgl_graph_compact"): (
        "phonograd does not sample neighbors: draw them with NumPy from graph.indptr and graph.indices, and take their "
        "dgl_subgraph"
    ),
    ("IdentityAttachKLSparseReg",): "add the penalty to the loss: penalty * (rho * log(rho / mean) + ...).sum()",
    ("backward_", "_backward_"): "phonograd has no separate gradient operators: use autograd.grad",
    ("CachedOp",): "use HybridBlock.hybridize, or mx.compile",
}

#: binary functions that MXNet offers under two names
_OTHER_NAMES = {"true_divide": "divide"}


def public_names(prefix: str = "") -> list[str]:
    """Return the names of operators in a namespace: ``""`` for nd itself, ``"_contrib_"`` for nd.contrib."""
    if prefix == "_":
        return [name for name in REGISTRY if name.startswith("_")]
    if prefix:
        return [name[len(prefix) :] for name in REGISTRY if name.startswith(prefix)]
    scalars = [declared.with_scalars for declared in REGISTRY.values() if declared.with_scalars]
    return sorted({*[name for name in REGISTRY if not name.startswith("_")], *scalars, *_OTHER_NAMES})


def lookup(prefix: str, name: str) -> Callable[..., Any] | None:
    """Return the function with a name in a namespace, or None."""
    declared = REGISTRY.get(name if prefix == "_" else prefix + name)
    if declared is not None and (prefix or not name.startswith("_")):
        return function_of(declared, name)
    if not prefix:
        word = _OTHER_NAMES.get(name, name)
        for candidate in REGISTRY.values():
            if candidate.with_scalars == word:
                return with_scalars(candidate)
    return None


def hint(name: str, known: list[str]) -> str:
    """Return the end of an error about an unknown name: the replacement, or the nearest known name."""
    for beginnings, instead in LEFT_OUT.items():
        if name.startswith(beginnings):
            return f": {instead}"
    return explain_name(name, known)


class Namespace(CompleteModule):
    """A module whose functions are the operators with a common prefix, plus functions set on it."""

    def __init__(self, name: str, prefix: str, doc: str, **functions: Callable[..., Any]) -> None:
        super().__init__(name, doc)
        self._prefix = prefix
        stored_names(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [each for each in self.__dir__() if not each.startswith("_")]
        if not name.startswith("__"):
            function = lookup(self._prefix, name)
            if function is not None:
                setattr(self, name, function)
                return function
        raise AttributeError(f"{self.__name__} has no operator {name!r}{hint(name, self.__dir__())}")

    def __dir__(self) -> list[str]:
        return sorted({*stored_names(self), *public_names(self._prefix)})
