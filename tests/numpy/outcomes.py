"""What a line of code does with arrays of mx.np, as one line of text: for comparing libraries.

A line is an expression, or statements separated by `` ;; `` of which the last one may be an expression. It sees the
arrays of :func:`names`. Nothing here imports the library under test, so real MXNet can be looked at the same way.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as onp


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
    *statements, last = line.split(" ;; ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for statement in statements:
                exec(statement, scope)
            try:
                value = eval(compile(last, "<line>", "eval"), scope)
            except SyntaxError:
                exec(last, scope)
                value = scope.get("r", "-")
            return show(value, mx)
    except Exception as error:
        return f"!{type(error).__name__}: {sentence(error)}"


def show(value: Any, mx: Any) -> str:
    """Return a value as text."""
    if isinstance(value, mx.np.ndarray):
        return "mx " + elements(value.asnumpy())
    if isinstance(value, mx.nd.NDArray):
        return "nd " + elements(value.asnumpy())
    if isinstance(value, (onp.ndarray, onp.generic)):
        return "np " + elements(onp.asarray(value))
    if isinstance(value, (list, tuple)):
        inside = ", ".join([show(item, mx) for item in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, type):
        return value.__name__.rstrip("_")
    if isinstance(value, float):
        return format(value, ".5g")
    return re.sub(r"mxnet|phonograd", "LIB", repr(value))


def elements(array: Any) -> str:
    """Return the dtype, shape and elements of an array as text."""
    shape = "x".join(map(str, array.shape))
    # 0 and -0 are told apart only where that is asked for
    numbers = [float(format(float(v), ".4g")) + 0.0 for v in array.reshape(-1)]
    return f"{array.dtype.name}({shape}) " + " ".join([format(v, "g") for v in numbers])


def sentence(error: Exception) -> str:
    """Return the last line of an error's text, in which MXNet says what is wrong."""
    lines = [line.strip() for line in re.sub(r"mxnet|phonograd", "LIB", str(error)).splitlines() if line.strip()]
    return (lines or [""])[-1][:160]


def agree(theirs: str, ours: str) -> bool:
    """Return whether two outcomes are the same: equal values, or errors of one type."""
    if theirs.startswith("!") and ours.startswith("!"):
        return theirs.split(":")[0] == ours.split(":")[0]
    return theirs == ours
