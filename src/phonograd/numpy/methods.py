"""Functions of mx.np that are methods of its arrays, made when they are first asked for."""

from __future__ import annotations

from typing import Any

from ..core.array.call import FASTER, OTHER_CLASSES
from .declaration import FUNCTIONS, method
from .elementwise import OPERATORS
from .multiarray import ndarray

__all__ = ["install"]

#: functions whose first argument is the array
_METHODS = [
    *OPERATORS,
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "cumsum",
    "diag",
    "diagonal",
    "dot",
    "expand_dims",
    "flip",
    "max",
    "mean",
    "min",
    "nansum",
    "nanprod",
    "nonzero",
    "prod",
    "ptp",
    "repeat",
    "round",
    "split",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "tile",
    "trace",
    "tril",
    "triu",
    "var",
    "abs",
    "degrees",
    "radians",
    "rint",
    "zeros_like",
    "ones_like",
    "pad",
]


class _Method:
    """A function as a method of arrays."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, array: Any, owner: type[Any]) -> Any:
        setattr(ndarray, self._name, method(self._name))
        return getattr(owner if array is None else array, self._name)


def install() -> None:
    """Make functions methods of arrays, and make calls with arrays fast."""
    for name in _METHODS:
        assert name in FUNCTIONS, name
        setattr(ndarray, name, _Method(name))
    OTHER_CLASSES.append(ndarray)
    for faster in FASTER:
        faster.accept(ndarray)
