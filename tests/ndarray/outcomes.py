"""What a line of code does, as one line of text that does not depend on the NumPy version: for comparing libraries.

A line sees the arrays of :func:`names`. Nothing here imports the library under test, so real MXNet can be looked at the
same way.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

from ..recorded_lines import text_of, text_of_array, value_of


def names(mx: Any) -> dict[str, Any]:
    """Return the names that a line of code can use, arrays of each kind among them."""
    nd = mx.nd
    return {
        "mx": mx,
        "nd": nd,
        "np": np,
        "x": nd.array(np.arange(6).reshape(2, 3)),
        "y": nd.array(np.arange(6).reshape(2, 3) + 1),
        "v": nd.array([1.0, 2.0, 3.0]),
        "i": nd.array([1, 2, 3], dtype="int32"),
        "b": nd.array([1, 0, 1], dtype="bool"),
        "t": nd.array(np.arange(24).reshape(2, 3, 4)),
        "s": nd.array([2.5]),
    }


def outcome(mx: Any, line: str) -> str:
    """Return the value of a line of code, or the error it raises, as text."""
    scope = names(mx)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = text_of(value_of(line, scope), lambda value: show(value, mx))
            kinds = [w.category.__name__ for w in caught if w.category is RuntimeWarning]
            return " with ".join([result, *kinds])
    except Exception as error:
        return f"!{type(error).__name__}: {sentence(error)}"


def show(value: Any, mx: Any) -> str:
    """Return an array or another single value as text."""
    if isinstance(value, mx.nd.NDArray):
        return "nd " + text_of_array(value.asnumpy(), _number)
    if isinstance(value, (np.ndarray, np.generic)):
        return "np " + text_of_array(np.asarray(value), _number)
    return _neutral(repr(value))


def _number(value: float) -> str:
    return format(value, ".5g")


def _neutral(text: str) -> str:
    text = re.sub(r"(mxnet|phonograd)\.ndarray\.(ndarray|array)\.", "", text)
    return re.sub(r"mxnet|phonograd", "LIB", text)


def sentence(error: Exception) -> str:
    """Return the sentence of an error: without C++ source lines and conditions."""
    text = _neutral(str(error))
    text = re.sub(r"^Traceback.*?\n(  File .*?\n)*", "", text)
    text = re.sub(r"^MXNetError: ", "", text)
    text = re.sub(r"^Check failed: .*?: ", "", text)
    text = re.sub(r", called at .*", "", text)
    return re.sub(r"\s+", " ", text).strip()[:240]


def agree(theirs: str, ours: str) -> bool:
    """Return whether two outcomes are the same: equal values, or errors of one type that say the same."""
    if theirs == ours:
        return True
    if not (theirs.startswith("!") and ours.startswith("!")):
        return False
    (their_type, their_text), (our_type, our_text) = theirs.split(": ", 1), ours.split(": ", 1)
    if their_type != our_type:
        return False
    if our_type == "!AttributeError":
        # the interpreter's own words, which change from version to version
        return True
    clause = re.split(r"[.,;] | in operator", our_text)[0]
    return _words(clause)[:60] in _words(their_text) or _words(their_text)[:40] in _words(our_text)


def _words(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
