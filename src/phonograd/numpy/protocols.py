"""Run NumPy's own functions on mx.np arrays: each call goes to the mx.np function of the same name.

A function that mx.np lacks computes on NumPy values; its results become mx.np arrays again where possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array.binary import Numbers
from ..core.array.handle import Handle
from ..core.base.errors import unsupported_operand
from ..ndarray.protocols import array
from .declaration import FUNCTIONS
from .declaration import function as answer

__all__ = ["on_values"]


def _answer(function: Any) -> Any:
    """Return the mx.np function with the name of a NumPy function, or None."""
    name = function.__name__
    if name in FUNCTIONS and getattr(np, name, None) is function:
        return answer(name)
    if getattr(np.linalg, name, None) is function:
        from . import linalg

        return getattr(linalg, name, None)
    return None


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    """Run the mx.np function with the name of a NumPy ufunc, or compute with NumPy."""
    operands = [value[()] if isinstance(value, np.ndarray) and not value.ndim else value for value in inputs]
    for value in operands:
        if not isinstance(value, (Handle, *Numbers)):
            raise unsupported_operand(value)
    target = out[0] if out is not None else None
    if method == "__call__" and (out is None or isinstance(target, Handle)):
        found = _answer(ufunc)
        if found is not None:
            return found(*operands, **({} if target is None else {"out": target}), **kwargs)
    if out is not None and any(isinstance(one, Handle) for one in out):
        raise TypeError("out= of a NumPy function must be a NumPy array; use the mx.np function of the same name")
    values = [array(value) if isinstance(value, Handle) else value for value in operands]
    found = getattr(ufunc, method)(*values, **({"out": out} if out is not None else {}), **kwargs)
    return _to_mx(found) if out is None else found


def array_function(self: Any, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
    """Run the mx.np function with the name of a NumPy function, or compute with NumPy."""
    own = _answer(function)
    if own is not None:
        return own(*arguments, **keywords)
    return on_values(function, arguments, keywords)


def on_values(function: Any, arguments: Any, keywords: Any) -> Any:
    """Run a NumPy function on the values of arrays and convert its results to mx.np arrays."""
    return _to_mx(function(*_numpy(arguments), **{key: _numpy(value) for key, value in keywords.items()}))


def _numpy(value: Any) -> Any:
    if isinstance(value, Handle):
        return array(value)
    if type(value) in (list, tuple):
        return type(value)(_numpy(item) for item in value)
    return value


def _to_mx(value: Any) -> Any:
    """Convert NumPy arrays in a result to mx.np arrays."""
    from .creation import from_values

    if isinstance(value, np.ndarray):
        return from_values(value)
    if type(value) in (list, tuple):
        return type(value)(_to_mx(item) for item in value)
    return value
