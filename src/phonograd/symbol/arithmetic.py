"""Arithmetic: Python's operators between symbols and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base import NotImplementedForSymbol

if TYPE_CHECKING:
    from .graph import Symbol

__all__ = ["Arithmetic"]


class Arithmetic:
    """Python's operators, each of which makes a new symbol."""

    # keeps NumPy from evaluating ``array * symbol`` element by element
    __array_priority__ = 1000.0

    __slots__ = ()

    def _combine(self, word: str, other: Any, reflected: bool = False) -> Symbol:
        from .operations import combine

        return combine(word, other, self) if reflected else combine(word, self, other)

    def __add__(self, other: Any) -> Symbol:
        return self._combine("add", other)

    __radd__ = __iadd__ = __add__

    def __sub__(self, other: Any) -> Symbol:
        return self._combine("subtract", other)

    __isub__ = __sub__

    def __rsub__(self, other: Any) -> Symbol:
        return self._combine("subtract", other, reflected=True)

    def __mul__(self, other: Any) -> Symbol:
        return self._combine("multiply", other)

    __rmul__ = __imul__ = __mul__

    def __truediv__(self, other: Any) -> Symbol:
        return self._combine("divide", other)

    __itruediv__ = __div__ = __truediv__

    def __rtruediv__(self, other: Any) -> Symbol:
        return self._combine("divide", other, reflected=True)

    __rdiv__ = __rtruediv__

    def __mod__(self, other: Any) -> Symbol:
        return self._combine("modulo", other)

    __imod__ = __mod__

    def __rmod__(self, other: Any) -> Symbol:
        return self._combine("modulo", other, reflected=True)

    def __pow__(self, other: Any) -> Symbol:
        return self._combine("power", other)

    def __rpow__(self, other: Any) -> Symbol:
        return self._combine("power", other, reflected=True)

    def __neg__(self) -> Symbol:
        return self * -1.0

    def __abs__(self) -> Symbol:
        from .methods import method_of

        return method_of(self, "abs")()  # type: ignore[arg-type, no-any-return]

    def __eq__(self, other: object) -> Symbol:  # type: ignore[override]
        return self._combine("equal", other)

    def __ne__(self, other: object) -> Symbol:  # type: ignore[override]
        return self._combine("not_equal", other)

    def __gt__(self, other: Any) -> Symbol:
        return self._combine("greater", other)

    def __ge__(self, other: Any) -> Symbol:
        return self._combine("greater_equal", other)

    def __lt__(self, other: Any) -> Symbol:
        return self._combine("lesser", other)

    def __le__(self, other: Any) -> Symbol:
        return self._combine("lesser_equal", other)

    # == makes a symbol, so hashing uses identity
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise NotImplementedForSymbol(self.__bool__, "bool")
