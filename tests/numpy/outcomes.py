"""What a line of code does with arrays of mx.np, as one line of text: for comparing libraries.

A line sees the arrays of :func:`names`. Nothing here imports the library under test, so real MXNet can be looked at the
same way.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as onp

from ..recorded_lines import text_of, text_of_array, value_of


def names(mx: Any) -> dict[str, Any]:
    """Return the names that a line of code can use, arrays of each kind among them."""
    np = mx.np
    return {
        "mx": mx,
        "nd": mx.nd,
        "np": np,
        "npx": mx.npx,
        "onp": onp,
        "autograd": mx.autograd,
        "x": np.array(onp.arange(12).reshape(3, 4), dtype="float32"),
        "y": np.array(onp.arange(12).reshape(3, 4) * 0.5 - 2, dtype="float32"),
        "f": np.array([1.0, 2.0, 3.0]),
        "g": np.array([-1.5, 0.5, 2.5]),
        "i": np.array([1, 2, 3], dtype="int32"),
        "j": np.array([2, -1, 0], dtype="int64"),
        "u": np.array([1, 2, 250], dtype="uint8"),
        "s": np.array([-3, 5, 100], dtype="int8"),
        "d": np.array([1.0, 2.0, 3.0], dtype="float64"),
        "h": np.array([1.0, 2.0, 3.0], dtype="float16"),
        "b": np.array([1, 0, 1], dtype="bool"),
        "t": np.array(onp.arange(24).reshape(2, 3, 4), dtype="float32"),
        "z": np.array(2, dtype="int32"),
        "q": np.array(1.5),
        "e": np.zeros((0, 3)),
        "n": np.array([1.0, onp.nan, onp.inf, -onp.inf]),
        "L": mx.nd.array([1.0, 2.0, 3.0]),
    }


def outcome(mx: Any, line: str) -> str:
    """Return the value of a line of code, or the type of error it raises, as text."""
    scope = names(mx)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return text_of(value_of(line, scope), lambda value: show(value, mx))
    except Exception as error:
        return f"!{type(error).__name__}: {sentence(error)}"


def show(value: Any, mx: Any) -> str:
    """Return an array or another single value as text."""
    if isinstance(value, mx.np.ndarray):
        return "mx " + text_of_array(value.asnumpy(), _number)
    if isinstance(value, mx.nd.NDArray):
        return "nd " + text_of_array(value.asnumpy(), _number)
    if isinstance(value, (onp.ndarray, onp.generic)):
        return "np " + text_of_array(onp.asarray(value), _number)
    if isinstance(value, float):
        return format(value, ".5g")
    return re.sub(r"mxnet|phonograd", "LIB", repr(value))


def _number(value: float) -> str:
    # 0 and -0 are told apart only where that is asked for
    return format(float(format(value, ".4g")) + 0.0, "g")


def sentence(error: Exception) -> str:
    """Return the last line of an error's text, in which MXNet says what is wrong."""
    lines = [line.strip() for line in re.sub(r"mxnet|phonograd", "LIB", str(error)).splitlines() if line.strip()]
    return (lines or [""])[-1][:160]


def agree(theirs: str, ours: str) -> bool:
    """Return whether two outcomes are the same: equal values, or errors of one type."""
    if theirs.startswith("!") and ours.startswith("!"):
        return theirs.split(":")[0] == ours.split(":")[0]
    return theirs == ours
