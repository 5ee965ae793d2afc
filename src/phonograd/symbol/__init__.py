"""sym: computations as named graphs, with MXNet's API. Functions of operators are created at first use.

>>> import phonograd as mx
>>> x = mx.sym.var("x")
>>> y = mx.sym.FullyConnected(x, num_hidden=2, name="fc")
>>> y
<Symbol fc>
>>> y.list_arguments()
['x', 'fc_weight', 'fc_bias']
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.base.errors import MXNetError
from ..core.base.modules import make_complete, stored_names
from ..core.graph.operator import REGISTRY, Operator
from ..ndarray.namespaces import Namespace, hint, public_names
from . import control, json_format, loops, random
from .build import function_of, var
from .calls import known_operator
from .creation import arange, eye, full, linspace, ones, split_v2, zeros
from .customs import Custom
from .entry import Entry
from .graph import Group, Symbol
from .operations import hypot, maximum, minimum, power
from .valued import boolean_mask, histogram

Variable = var
pow = power  # noqa: A001 - MXNet's name

__all__ = [
    "Custom",
    "Entry",
    "Group",
    "Symbol",
    "Variable",
    "arange",
    "contrib",
    "eye",
    "full",
    "histogram",
    "hypot",
    "image",
    "linalg",
    "linspace",
    "load",
    "load_json",
    "maximum",
    "minimum",
    "ones",
    "op",
    "pow",
    "power",
    "random",
    "sparse",
    "split_v2",
    "var",
    "zeros",
]
del loops


def load_json(json_str: str) -> Symbol:
    """Return the symbol described by a text in MXNet's JSON format."""
    return Symbol(json_format.read(json_str))


def load(fname: str | os.PathLike[str]) -> Symbol:
    """Return the symbol stored in a file; it reads files of MXNet too."""
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError("fname need to be string")
    try:
        with open(fname, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise MXNetError(f'Open "{os.fspath(fname)}": {error.strerror or error}') from error
    except UnicodeDecodeError as error:
        raise MXNetError(f"{os.fspath(fname)} is not a symbol file: {error}") from None
    try:
        return load_json(text)
    except MXNetError as error:
        raise MXNetError(f"{os.fspath(fname)}: {error}") from None


def _find_operator(prefix: str, name: str) -> Operator | None:
    """Return the operator of a name in a namespace, or None."""
    whole = name if prefix == "_" else prefix + name
    known = whole in REGISTRY and known_operator(whole) is not None and (prefix or not name.startswith("_"))
    return REGISTRY[whole] if known else None


def lookup(prefix: str, name: str) -> Callable[..., Any] | None:
    """Return the function of a name in a namespace, or None."""
    declared = _find_operator(prefix, name)
    return None if declared is None else function_of(declared, name)


class SymbolNamespace(Namespace):
    """A module with a function for each operator with a common prefix, plus functions set explicitly."""

    def __getattr__(self, name: str) -> Any:
        function = None if name.startswith("__") else lookup(self._prefix, name)
        if name == "__all__":
            return [each for each in self.__dir__() if not each.startswith("_")]
        if function is None:
            raise AttributeError(f"{self.__name__} has no operator {name!r}{hint(name, self.__dir__())}")
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        names = [name for name in public_names(self._prefix) if _find_operator(self._prefix, name) is not None]
        return sorted({*stored_names(self), *names})


class SparseNamespace(SymbolNamespace):
    """All operators by their plain names, plus those that exist only for sparse arrays."""

    def __getattr__(self, name: str) -> Any:
        function = None if name.startswith("__") else lookup("_sparse_", name)
        if function is None:
            return super().__getattr__(name)
        setattr(self, name, function)
        return function


if TYPE_CHECKING:
    from . import contrib, image, linalg, op
    from . import op as sparse
else:
    contrib = SymbolNamespace(
        "phonograd.symbol.contrib",
        "_contrib_",
        "Operators of MXNet's sym.contrib, loops and branches.",
        boolean_mask=boolean_mask,
        cond=control.cond,
        foreach=control.foreach,
        rand_zipfian=random.rand_zipfian,
        while_loop=control.while_loop,
    )
    image = SymbolNamespace(
        "phonograd.symbol.image", "_image_", "Images (height, width, channel): size, colors, tensors."
    )
    linalg = SymbolNamespace(
        "phonograd.symbol.linalg", "_linalg_", "Linear algebra: factorizations, solvers, triangles."
    )
    op = SymbolNamespace("phonograd.symbol.op", "", "All operators by their plain names.", Custom=Custom)
    sparse = SparseNamespace("phonograd.symbol.sparse", "", "Operators for sparse arrays; symbols compute densely.")
    _internal = SymbolNamespace("phonograd.symbol._internal", "_", "Operators whose names begin with an underscore.")
    for _module in (contrib, image, linalg, op, sparse, _internal):
        sys.modules[_module.__name__] = _module
# MXNet has it only in sym.contrib
del boolean_mask


if TYPE_CHECKING:
    from .op import *  # noqa: F403

    __all__ += op.__all__
else:
    #: this module, whose name may become MXNet's
    _this = sys.modules[__name__]

    def __getattr__(name: str) -> Any:
        if name == "symbol":
            # MXNet keeps Symbol in sym.symbol
            return _this
        if name in ("np", "npx"):
            from . import numpy_symbols

            return numpy_symbols.namespace if name == "np" else numpy_symbols.extension
        function = None if name.startswith("__") else lookup("", name) or lookup("_", name)
        if function is None:
            raise AttributeError(f"module 'phonograd.sym' has no attribute {name!r}{hint(name, __dir__())}")
        globals()[name] = function
        return function


def __dir__() -> list[str]:
    return sorted({*__all__, *[name for name in public_names() if known_operator(name)]})


make_complete(__name__)
