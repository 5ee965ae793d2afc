"""Restore what NumPy removed, for scripts that were written before: ``np.int``, ``np.NaN``, ragged ``np.array``, ...

NumPy's module asks a function for names that it lacks. :func:`restore_names` puts one before it that knows the old
names; each of them warns once. ``np.array`` and ``np.asarray`` make an array of objects again if the lengths of nested
lists differ, and ``np.fromstring`` reads bytes. Other names that NumPy has are not touched. :func:`advice_for` has
advice for errors that remain.
"""

from __future__ import annotations

import functools
import math
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["OLD_METHODS", "OLD_NAMES", "advice_for", "give_advice", "remove_names", "restore_names", "stop_advice"]

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
    "asscalar": lambda a: a.item(),
    "trapz": lambda *args, **kwargs: np.trapezoid(*args, **kwargs),
    "msort": lambda a: np.sort(a, axis=0),
    "mat": np.asmatrix,
    "cfloat": np.complex128,
    "singlecomplex": np.complex64,
    "longfloat": np.longdouble,
    "longcomplex": np.clongdouble,
    "clongfloat": np.clongdouble,
    "bytes0": np.bytes_,
    "str0": np.str_,
    "void0": np.void,
    "math": math,
    "os": os,
    "sys": sys,
    "warnings": warnings,
    "find_common_type": lambda array_types, scalar_types: np.result_type(*array_types, *scalar_types),
    "issubsctype": lambda arg1, arg2: np.issubdtype(arg1, arg2),
    "disp": lambda mesg, device=None, linefeed=True: print(mesg, end="\n" * linefeed, file=device),
    **{
        name: getattr(np.exceptions, name)
        for name in ("AxisError", "ComplexWarning", "RankWarning", "TooHardError", "VisibleDeprecationWarning")
        if hasattr(np, "exceptions") and hasattr(np.exceptions, name)
    },
}

#: methods of arrays that NumPy removed, and what to write instead; they cannot be restored
OLD_METHODS = {
    "itemset": "a[index] = value",
    "newbyteorder": "a.view(a.dtype.newbyteorder(order))",
    "ptp": "np.ptp(a)",
    "tostring": "a.tobytes()",
}

_before: list[Callable[[str], Any]] = []
_warned: set[str] = set()
_replaced: dict[str, Callable[..., Any]] = {}
_hooks: list[Callable[..., Any]] = []
#: a part of NumPy's error for lists of different lengths
_RAGGED = "inhomogeneous shape"


def _find_old_name(name: str) -> Any:
    """Return the value of a removed name, with one warning; ask NumPy for all others."""
    if name not in OLD_NAMES:
        return _before[0](name)
    _warn_once(
        name,
        f"NumPy {np.__version__} has no np.{name}; phonograd provides it to this program "
        "(install_as_mxnet(numpy_aliases=True))",
    )
    return OLD_NAMES[name]


def _warn_once(what: str, text: str) -> None:
    if what not in _warned:
        _warned.add(what)
        warnings.warn(text, DeprecationWarning, stacklevel=3)


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
        for name in ("array", "asarray"):
            _replaced[name] = getattr(np, name)
            setattr(np, name, _accept_ragged(_replaced[name]))
        _replaced["fromstring"] = np.fromstring
        np.fromstring = _accept_bytes(np.fromstring)


def remove_names() -> None:
    """Undo :func:`restore_names`."""
    if _before:
        vars(np)["__getattr__"] = _before.pop()
        _warned.clear()
        for name, function in _replaced.items():
            setattr(np, name, function)
        _replaced.clear()


def _accept_ragged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy that makes an array of objects of nested lists with different lengths."""

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            if _RAGGED not in str(error) or len(args) > 1 or kwargs.get("dtype") is not None:
                raise
        _warn_once(
            "ragged",
            f"NumPy {np.__version__} makes no arrays of lists with different lengths; phonograd makes an array of "
            "objects for this program. Write np.array(..., dtype=object)",
        )
        return function(*args, **{**kwargs, "dtype": object})

    return make


def _accept_bytes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``np.fromstring`` with its binary mode: a copy of the bytes as numbers."""

    @functools.wraps(function)
    def make(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "", like: Any = None) -> Any:
        if sep != "" or like is not None:
            return function(string, dtype, count, sep=sep, **({} if like is None else {"like": like}))
        _warn_once("fromstring", f"NumPy {np.__version__} reads no bytes with np.fromstring; write np.frombuffer")
        return np.frombuffer(string.encode("latin-1") if isinstance(string, str) else string, dtype, count).copy()

    return make


def advice_for(error: BaseException) -> str | None:
    """Return advice for an error that an old program meets with a new NumPy, or None.

    >>> advice_for(AttributeError("module 'numpy' has no attribute 'int'. `np.int` was a deprecated alias"))
    'NumPy removed np.int: install_as_mxnet(numpy_aliases=True), or `python -m phonograd run`, restores it'
    """
    text = str(error)
    removed = re.match(r"(?:module 'numpy' has no attribute '|`np\.)(\w+)", text)
    if isinstance(error, AttributeError) and removed and removed[1] in OLD_NAMES:
        return (
            f"NumPy removed np.{removed[1]}: install_as_mxnet(numpy_aliases=True), or `python -m phonograd run`, "
            "restores it"
        )
    lacking = re.match(r"'numpy\.ndarray' object has no attribute '(\w+)'", text)
    if isinstance(error, AttributeError) and lacking and lacking[1] in OLD_METHODS:
        return f"NumPy removed the method {lacking[1]} of arrays: write {OLD_METHODS[lacking[1]]}, or install numpy<2"
    if isinstance(error, ValueError) and text.startswith("The binary mode of fromstring is removed"):
        return (
            "NumPy removed np.fromstring for bytes: install_as_mxnet(numpy_aliases=True), or "
            "`python -m phonograd run`, restores it"
        )
    if isinstance(error, ValueError) and _RAGGED in text:
        return (
            "NumPy makes no arrays of lists with different lengths any more: install_as_mxnet(numpy_aliases=True), or "
            "`python -m phonograd run`, restores them"
        )
    if isinstance(error, IndexError) and text.startswith("only integers, slices"):
        return "NumPy takes no list of slices as an index any more: write a[tuple(index)] instead of a[index]"
    return None


def report_with_advice(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print an uncaught error as Python does, and advice below it if there is any."""
    _hooks[0](kind, error, trace)
    advice = advice_for(error)
    if advice is not None:
        sys.stderr.write(f"phonograd: {advice}\n")


def give_advice() -> None:
    """Print advice below uncaught errors that a new NumPy causes; further calls have no effect."""
    if not _hooks:
        _hooks.append(sys.excepthook)
        sys.excepthook = report_with_advice


def stop_advice() -> None:
    """Undo :func:`give_advice`, unless the program has set a hook of its own since."""
    if _hooks and sys.excepthook is report_with_advice:
        sys.excepthook = _hooks.pop()
