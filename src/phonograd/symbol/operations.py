"""Operations between symbols and numbers: Python's operators and functions such as ``maximum``.

Between two symbols MXNet requires equal shapes (``elemwise_add``); ``broadcast_add`` broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .build import build
from .graph import Symbol

__all__ = ["combine", "hypot", "maximum", "minimum", "power"]

_NUMBERS = (int, float, np.number, np.bool_)


class Operation(NamedTuple):
    """The operators of a binary operation: (operator, name prefix) for each combination of symbols and numbers."""

    between: tuple[str, str]
    number_last: tuple[str, str]
    number_first: tuple[str, str]


def _operation(word: str, whole: str = "", reflected: str = "", older: bool = True) -> Operation:
    """Return the operators of a word; name prefixes of the older ones have no underscore before "scalar"."""
    last, first = f"_{word}_scalar", f"_{reflected or word}_scalar"

    def hint(name: str) -> str:
        # MXNet uses the newer name here
        return name.replace("_scalar", "scalar") if older and name != "_rpower_scalar" else name

    return Operation((whole or f"_{word}", f"_{word}"), (last, hint(last)), (first, hint(first)))


_OPERATIONS = {
    "add": _operation("plus", "elemwise_add"),
    "subtract": _operation("minus", "elemwise_sub", "rminus"),
    "multiply": _operation("mul", "elemwise_mul"),
    "divide": _operation("div", "elemwise_div", "rdiv"),
    "modulo": _operation("mod", reflected="rmod"),
    "power": _operation("power", reflected="rpower"),
    "maximum": _operation("maximum"),
    "minimum": _operation("minimum"),
    "hypot": _operation("hypot"),
    "equal": _operation("equal", older=False),
    "not_equal": _operation("not_equal", older=False),
    "greater": _operation("greater", reflected="lesser", older=False),
    "greater_equal": _operation("greater_equal", reflected="lesser_equal", older=False),
    "lesser": _operation("lesser", reflected="greater", older=False),
    "lesser_equal": _operation("lesser_equal", reflected="greater_equal", older=False),
}


def combine(word: str, lhs: Any, rhs: Any) -> Symbol:
    """Return the symbol of an operation on two operands, one of which may be a number."""
    operation = _OPERATIONS[word]
    if isinstance(lhs, Symbol) and isinstance(rhs, Symbol):
        return build(*operation.between, [lhs, rhs], {})
    number = rhs if isinstance(lhs, Symbol) else lhs
    if not isinstance(number, _NUMBERS) or not (isinstance(lhs, Symbol) or isinstance(rhs, Symbol)):
        raise TypeError(f"type {type(number)} not supported")
    if isinstance(lhs, Symbol):
        return build(*operation.number_last, [lhs], {"scalar": str(rhs)})
    return build(*operation.number_first, [rhs], {"scalar": str(lhs)})


def _either(word: str, lhs: Any, rhs: Any, on_numbers: Callable[[Any, Any], Any]) -> Any:
    if isinstance(lhs, _NUMBERS) and isinstance(rhs, _NUMBERS):
        return on_numbers(lhs, rhs)
    return combine(word, lhs, rhs)


def power(base: Any, exp: Any) -> Any:
    """Return base raised to a power; either may be a number."""
    if isinstance(exp, Symbol) and isinstance(base, _NUMBERS):
        # MXNet names this one like the others, but 2**x by its newer name
        return build("_rpower_scalar", "_rpowerscalar", [exp], {"scalar": str(base)})
    return _either("power", base, exp, lambda a, b: a**b)


def maximum(left: Any, right: Any) -> Any:
    """Return the larger operand, element by element; either may be a number."""
    return _either("maximum", left, right, max)


def minimum(left: Any, right: Any) -> Any:
    """Return the smaller operand, element by element; either may be a number."""
    return _either("minimum", left, right, min)


def hypot(left: Any, right: Any) -> Any:
    """Return the hypotenuse of a right triangle with the given legs; either may be a number."""
    return _either("hypot", left, right, math.hypot)
