"""npx.image: image operators for mx.np arrays, and all of ``mx.image``."""

from __future__ import annotations

import importlib
from typing import Any

from ..ndarray.namespaces import lookup, public_names

__all__: list[str] = []

#: the module of functions that are not operators; it is in a layer above this one
_FUNCTIONS = "phonograd.image"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = lookup("_image_", name)
    return getattr(importlib.import_module(_FUNCTIONS), name) if found is None else found


def __dir__() -> list[str]:
    return sorted({*public_names("_image_"), *dir(importlib.import_module(_FUNCTIONS))})
