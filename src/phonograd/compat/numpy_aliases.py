"""Restore names that NumPy removed, for scripts that were written before: ``np.int``, ``np.float``, ``np.NaN``, ...

NumPy's module asks a function for names that it lacks. :func:`restore_names` puts one before it that knows the old
names; each of them warns once. Names that NumPy has are not touched.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["OLD_NAMES", "remove_names", "restore_names"]

#: the values of removed names; NumPy 2 has its own ``np.bool`` again
OLD_NAMES: dict[str, Any] = {
    "bool": bool,
    "bool8": np.bool_,
    "complex": complex,
    "complex_": np.complex128,
    "float": float,
    "float_": np.float64,
    "int": int,
    "int0": np.intp,
    "long": int,
    "object": object,
    "object0": np.object_,
    "str": str,
    "unicode": str,
    "unicode_": np.str_,
    "string_": np.bytes_,
    "uint0": np.uintp,
    "Inf": np.inf,
    "Infinity": np.inf,
    "infty": np.inf,
    "NaN": np.nan,
    "NAN": np.nan,
    "NINF": -np.inf,
    "PINF": np.inf,
    "NZERO": -0.0,
    "PZERO": 0.0,
    "alltrue": np.all,
    "sometrue": np.any,
    "product": np.prod,
    "cumproduct": np.cumprod,
    "asfarray": lambda a, dtype=np.float64: np.asarray(a, dtype=dtype),
    "in1d": lambda *args, **kwargs: np.isin(*args, **kwargs),
    "row_stack": np.vstack,
    "round_": np.round,
}

_before: list[Callable[[str], Any]] = []
_warned: set[str] = set()


def _find_old_name(name: str) -> Any:
    """Return the value of a removed name, with one warning; ask NumPy for all others."""
    if name not in OLD_NAMES:
        return _before[0](name)
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            f"NumPy {np.__version__} has no np.{name}; phonograd provides it to this program "
            "(install_as_mxnet(numpy_aliases=True))",
            DeprecationWarning,
            stacklevel=2,
        )
    return OLD_NAMES[name]


def restore_names() -> None:
    """Let ``numpy`` offer its old names again; further calls have no effect.

    >>> restore_names()
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     np.float is float, np.NaN != np.NaN
    (True, True)
    >>> remove_names()
    """
    if not _before:
        _before.append(vars(np)["__getattr__"])
        vars(np)["__getattr__"] = _find_old_name


def remove_names() -> None:
    """Undo :func:`restore_names`."""
    if _before:
        vars(np)["__getattr__"] = _before.pop()
        _warned.clear()
