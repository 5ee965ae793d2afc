"""Texts of parameters, read by the grammar of MXNet's parser: ``"3"``, ``"(3, 3)"``, ``"[2L, 2L]"``, ``"None"``.

Symbol files store parameters as texts, and calls may pass them. Each function returns the value of a text, or raises
ValueError. :mod:`.parameters` calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["read_bool", "read_float", "read_floats", "read_int", "read_optional_ints", "read_shape"]

_INT = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_FLOAT = re.compile(r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE)
_TUPLE = re.compile(r"\s*[(\[]\s*(?:(.*?)\s*(?:,\s*)?)?[)\]]\s*", re.DOTALL)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _match(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text


def read_int(text: str) -> int:
    """Return an integer.

    >>> read_int(" 2 ")
    2
    """
    return int(_match(_INT, text))


def read_float(text: str) -> float:
    """Return a number; white space may surround it.

    >>> read_float("1e-2")
    0.01
    """
    return float(_match(_FLOAT, text.rstrip()))


def read_bool(text: str) -> bool:
    """Return a truth value.

    >>> read_bool("True"), read_bool("0")
    (True, False)
    """
    found = _TRUTH.get(text.lower())
    if found is None:
        raise ValueError(text)
    return found


def _read_tuple(text: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
    found = _TUPLE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    inside = found[1]
    return tuple([read(item) for item in inside.split(",")]) if inside else ()


def _read_extent(text: str) -> int:
    # Python 2 writes long integers with an L
    return read_int(text.rstrip().removesuffix("L"))


def read_shape(text: str) -> int | tuple[int, ...]:
    """Return a tuple of integers, or the one integer that stands for a tuple.

    >>> read_shape("(2L, 2L)"), read_shape("[1,]"), read_shape("3")
    ((2, 2), (1,), 3)
    """
    if _INT.fullmatch(text):
        return int(text)
    return _read_tuple(text, _read_extent)


def read_optional_ints(text: str) -> int | tuple[int | None, ...] | None:
    """Return a tuple of integers and Nones, or the one item that stands for a tuple.

    >>> read_optional_ints("(None, 1)")
    (None, 1)
    """

    def item(text: str) -> int | None:
        return None if text.strip() == "None" else _read_extent(text)

    return item(text) if text.strip() == "None" or _INT.fullmatch(text) else _read_tuple(text, item)


def read_floats(text: str) -> float | tuple[float, ...]:
    """Return a tuple of numbers, or the one number that stands for a tuple.

    >>> read_floats("(0.5, 1)")
    (0.5, 1.0)
    """

    def item(text: str) -> float:
        return read_float(text)

    return item(text) if _FLOAT.fullmatch(text.rstrip()) else _read_tuple(text, item)
