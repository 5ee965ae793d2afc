"""Floating point errors: let NumPy ignore them, in less time than ``numpy.errstate`` takes.

NumPy keeps what it does about an overflow or a division by zero in a context variable. :func:`ignore` sets the variable
and :func:`restore` sets it back, which takes a tenth of the microsecond and more that a scope of ``numpy.errstate``
takes. NumPy 1 has no such variable, and a later version may have another one; there, a scope is opened. Eager programs
(:mod:`phonograd.core.plan.eager`) use it: their operators often take less than a microsecond.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import numpy as np

from .assumptions import assumption_holds

__all__ = ["context_variable", "ignore", "restore"]

_variable: ContextVar[Any] | None = None
_ignored: Any = None


def _find() -> bool:
    """Find the variable and the value that stands for ignored errors; return whether they work."""
    global _variable, _ignored
    from numpy._core import umath

    variable: ContextVar[Any] = umath._extobj_contextvar
    ignored = umath._make_extobj(all="ignore")
    with np.errstate(all="raise"):
        token = variable.set(ignored)
        is_ignored = set(np.geterr().values()) == {"ignore"} and bool(np.isinf(np.divide(1.0, 0.0)))
        variable.reset(token)
        if not is_ignored or set(np.geterr().values()) != {"raise"}:
            return False
    _variable, _ignored = variable, ignored
    return True


def ignore() -> Any:
    """Ignore floating point errors in this thread, and return what :func:`restore` needs."""
    if _variable is not None:
        return _variable.set(_ignored)
    scope = np.errstate(all="ignore")
    scope.__enter__()
    return scope


def context_variable() -> tuple[ContextVar[Any] | None, Any]:
    """Return the variable, None if there is none, and the value that stands for ignored errors."""
    return _variable, _ignored


def restore(token: Any) -> None:
    """Treat errors as before :func:`ignore`."""
    if _variable is not None:
        _variable.reset(token)
    else:
        token.__exit__(None, None, None)


if not np.__version__.startswith("1."):
    assumption_holds(
        "NumPy keeps what it does about floating point errors in a context variable",
        "Operators of new graphs take a microsecond longer",
        _find,
    )
