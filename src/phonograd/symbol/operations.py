"""Operations between symbols and numbers: Python's operators and functions such as ``maximum``.

Between two symbols MXNet requires equal shapes (``elemwise_add``); ``broadcast_add`` broadcasts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.base.errors import unsupported_operand
from ..core.graph.operator import NAMES, Operator
from .build import build
from .graph import Symbol

__all__ = ["combine", "hypot", "maximum", "minimum", "power"]

_NUMBERS = (int, float, np.number, np.bool_)


class Operation(NamedTuple):
    """The operators that combine two operands, each with the text that names are made of."""

    between: tuple[str, str]
    number_last: tuple[str, str]
    number_first: tuple[str, str]


def _hint(form: Operator, whole: Operator) -> str:
    """Return what the name of a call is made of: for arithmetic, the older name of the operator."""
    # MXNet calls one of them by its newer name
    is_newer = whole.family == "comparison" or form.name == "_rpower_scalar"
    return form.name if is_newer else form.aliases[0].lower()


@functools.cache
def _operation(word: str) -> Operation:
    """Return the operators of a word such as "add"."""
    whole = NAMES["with_scalars"][word]
    between, last, first = [whole.forms[kind] for kind in ("equal_shapes", "number_last", "number_first")]
    return Operation(
        (between.name, last.name.removesuffix("_scalar")),
        (last.name, _hint(last, whole)),
        (first.name, _hint(first, whole)),
    )


def combine(word: str, lhs: Any, rhs: Any) -> Symbol:
    """Return the symbol of an operation on two operands, of which one may be a number."""
    operation = _operation(word)
    if isinstance(lhs, Symbol) and isinstance(rhs, Symbol):
        return build(*operation.between, [lhs, rhs], {})
    number = rhs if isinstance(lhs, Symbol) else lhs
    if not isinstance(number, _NUMBERS) or not (isinstance(lhs, Symbol) or isinstance(rhs, Symbol)):
        raise unsupported_operand(number)
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
