"""Methods of mx.np arrays: functions of mx.np, bound on first access."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.graph.operator import DECLARED, Operator
from ..core.trace.owner import MACHINE_CODE
from .declaration import FUNCTIONS, METHODS, method
from .elementwise import offer
from .multiarray import ndarray

__all__ = ["install"]


class _Method:
    """A function of mx.np as a method of arrays."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, array: Any, owner: type[Any]) -> Any:
        setattr(ndarray, self._name, method(self._name))
        return getattr(owner if array is None else array, self._name)


def _offer_new(name: str, declared: Operator) -> None:
    """Offer an operator that is declared after mx.np was imported."""
    if declared.numpy and name == declared.name:
        known = set(METHODS)
        offer(declared)
        _add_methods(METHODS - known)


def _add_methods(names: Iterable[str]) -> None:
    for name in names:
        assert name in FUNCTIONS, name
        setattr(ndarray, name, _Method(name))


def install() -> None:
    """Add functions to the methods of arrays, and enable fast calls with arrays."""
    _add_methods(METHODS)
    DECLARED.connect(_offer_new)
    if MACHINE_CODE.functions is not None:
        # the machine code was compiled before this package was imported
        MACHINE_CODE.functions.accept(ndarray)
