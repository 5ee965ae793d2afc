"""What is computed: one module per family of operators, each with a ``family`` of cases."""

from __future__ import annotations

import importlib
import pkgutil

from ..case import Family


def families() -> dict[str, Family]:
    """Return all families of cases by the name of their module."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").family for name in names}
