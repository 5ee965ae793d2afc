"""Declare programs that try one thing after the other, and run them on MXNet or on this library.

A program is a generator: it yields pairs of a label and a value. A value that is a function is called, and an error that
it raises is its outcome. Nothing here imports the library under test.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from ..recorded_lines import text_of, text_of_array

Steps = Iterator[tuple[str, Any]]
PROGRAMS: dict[str, Callable[[Any], Steps]] = {}


def program(function: Callable[[Any], Steps]) -> Callable[[Any], Steps]:
    """Declare a program."""
    assert function.__name__ not in PROGRAMS, function.__name__
    PROGRAMS[function.__name__] = function
    return function


def numbers(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Return the same numbers always."""
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def outcomes(mx: Any, function: Callable[[Any], Steps], skipped: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the label of each step of a program, and its outcome as text; before that, the label alone."""
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for label, value in function(mx):
                if label not in skipped:
                    yield label, ""
                    yield label, _outcome(mx, value)
    except Exception as error:
        yield "end", _error(error)
    finally:
        logging.disable(logging.NOTSET)


def _outcome(mx: Any, value: Any) -> str:
    try:
        result = value() if callable(value) and not isinstance(value, type) else value
        return text_of(result, lambda each: _show(mx, each))
    except Exception as error:
        return _error(error)


def _error(error: Exception) -> str:
    return f"!{type(error).__name__}"


def _show(mx: Any, value: Any) -> str:
    if isinstance(value, mx.nd.NDArray):
        kind = "np" if type(value) is mx.np.ndarray else value.stype
        return f"{kind} {text_of_array(value.asnumpy(), _number)}"
    if isinstance(value, np.ndarray):
        return "numpy " + text_of_array(value, _number)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{key}: {text_of(value[key], lambda each: _show(mx, each))}" for key in value]) + "}"
    if isinstance(value, (float, np.floating)):
        return _number(float(value))
    if isinstance(value, np.integer):
        return str(int(value))
    return re.sub(r"mxnet|phonograd", "LIB", re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


def _number(value: float) -> str:
    text = format(value, ".4g")
    return "0" if text == "-0" else text
