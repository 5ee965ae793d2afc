"""mx.np: arrays and functions with NumPy's interface, recorded and differentiated like those of mx.nd.

>>> from phonograd import np
>>> x = np.arange(4)
>>> x[x > 1].sum()
array(5.)
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core.base.errors import nearest
from ..core.base.modules import make_complete
from . import (
    arithmetic,
    creation,
    diagonals,
    einsum,
    elementwise,
    facts,
    fallback,
    joining,
    ordering,
    products,
    reductions,
    selection,
    shaping,
    statistics,
)
from .declaration import FUNCTIONS as _FUNCTIONS
from .declaration import function as _function
from .facts import CONSTANTS as _CONSTANTS
from .methods import install as _install
from .multiarray import ndarray

__all__ = ["ndarray"]

_MODULES = ("linalg", "random")

_install()
globals().update(_CONSTANTS)
del _install, arithmetic, creation, diagonals, einsum, elementwise, facts, fallback, joining, ordering
del products, reductions, selection, shaping, statistics


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _FUNCTIONS or name.startswith("_"):
        raise AttributeError(f"module 'phonograd.np' has no attribute {name!r}{nearest(name, __dir__())}")
    value = globals()[name] = _function(name)
    return value


def __dir__() -> list[str]:
    return sorted({"ndarray", *_CONSTANTS, *[name for name in _FUNCTIONS if not name.startswith("_")], *_MODULES})


make_complete(__name__)
