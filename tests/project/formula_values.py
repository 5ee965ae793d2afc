"""Evaluate the formulas of docstrings: the LaTeX of ``core/base/formulas.py``, on numbers and rows of numbers.

A formula is a row of statements, ``m = \\mu m - \\eta g; w = w + m``. Juxtaposition is multiplication and binds like
``/``; a function without brackets takes the next factor. Sums and products run over all elements of rows, and reach to
the next ``/``, ``+`` or ``-``. Prose behind ", with" is left out; a piece of the form ``a where c, else b`` is a
choice. Everything else raises :class:`NotEvaluable`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["NotEvaluable", "evaluate"]

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|(\\[A-Za-z]+)|([A-Za-z]+)|([-+/^_{}()|,=<>!]))")
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(np, name) for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "log", "tanh", "sign")
}
_FUNCTIONS |= {"ln": np.log, "sqrt": np.sqrt, "det": np.linalg.det}
_SEVERAL = {"max": np.maximum, "min": np.minimum}
_CONSTANTS = {"pi": math.pi, "e": math.e}


class NotEvaluable(ValueError):
    """A formula that says more than arithmetic: indices, integrals, matrices, prose."""


def evaluate(formula: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all names after the statements of a formula.

    >>> round(float(evaluate(r"y = 1 / (1 + e^{-x})", {"x": 2.0})["y"]), 4)
    0.8808
    >>> evaluate(r"m = \\mu m - \\eta g; w = w + m", {"m": 1, "mu": 0.5, "eta": 2, "g": 3, "w": 10})["w"]
    4.5
    """
    known = {**_CONSTANTS, **values}
    for statement in formula.partition(", with ")[0].split("; "):
        # an index of the result: the whole row
        name, equals, text = re.sub(r"^(\w)_[ij] =", r"\1 =", statement).partition(" = ")
        if not equals or not re.fullmatch(r"\\?\w+", name):
            raise NotEvaluable(statement)
        choice = re.fullmatch(r"(.*) where (.*) > (.*), else (.*)", text)
        if choice is None:
            known[name.lstrip("\\")] = _Reader(text, known).whole()
        else:
            yes, left, right, no = [_Reader(part, known).whole() for part in choice.groups()]
            known[name.lstrip("\\")] = np.where(left > right, yes, no)
    return known


class _Reader:
    """A recursive descent over the tokens of an expression."""

    def __init__(self, text: str, values: Mapping[str, Any]) -> None:
        self._tokens: list[str] = []
        place = 0
        text = text.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise NotEvaluable(text)
            self._tokens.append(match[0].strip())
            place = match.end()
        self._text, self._values = text, values

    def whole(self) -> Any:
        value = self._sum()
        if self._tokens:
            raise NotEvaluable(self._text)
        return value

    def _take(self, *wanted: str) -> str:
        """Return the next token if it is one of some, else an empty text."""
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in wanted else ""

    def _expect(self, wanted: str) -> None:
        if not self._take(wanted):
            raise NotEvaluable(f"{self._text}: no {wanted}")

    def _sum(self) -> Any:
        value = -self._product() if self._take("-") else self._product()
        while sign := self._take("+", "-"):
            value = value + self._product() if sign == "+" else value - self._product()
        return value

    def _product(self) -> Any:
        value = self._power()
        while True:
            if self._take("/"):
                value = value / self._power()
            elif self._tokens and self._tokens[0] not in ("+", "-", ")", "}", "|", ",", "=", "<", ">", "!", "_", "^"):
                value = value * self._power()
            else:
                return value

    def _power(self) -> Any:
        value = self._atom()
        return value ** self._argument() if self._take("^") else value

    def _argument(self) -> Any:
        """Return the value behind ^: a group in braces, or one token."""
        return self._group("{", "}") if self._tokens[:1] == ["{"] else self._atom()

    def _group(self, opening: str, closing: str) -> Any:
        self._expect(opening)
        value = self._sum()
        self._expect(closing)
        return value

    def _atom(self) -> Any:
        if self._take("|"):
            value = self._sum()
            self._expect("|")
            return np.abs(value)
        if self._tokens[:1] == ["("]:
            return self._group("(", ")")
        if not self._tokens:
            raise NotEvaluable(self._text)
        token = self._tokens.pop(0)
        if token[0].isdigit():
            return float(token)
        name = token.lstrip("\\")
        if name in ("sum", "prod") and token.startswith("\\"):
            return self._over_elements(np.sum if name == "sum" else np.prod)
        if name in _SEVERAL:
            return self._of_several(_SEVERAL[name])
        if name in _FUNCTIONS and name not in self._values:
            return self._of_one(name)
        return self._variable(name)

    def _over_elements(self, combine: Callable[[Any], Any]) -> Any:
        if self._take("_"):
            index = self._tokens.pop(0)
            if index not in ("i", "j", "n"):
                raise NotEvaluable(self._text)
        value = self._power()
        while self._tokens and self._tokens[0] not in ("+", "-", "/", ")", "}", "|", ","):
            value = value * self._power()
        if self._tokens[:1] == ["/"] and "/" in self._text.partition("\\sum")[0]:
            raise NotEvaluable(self._text)
        return combine(value)

    def _of_several(self, combine: Callable[[Any, Any], Any]) -> Any:
        self._expect("(")
        value = self._sum()
        while self._take(","):
            value = combine(value, self._sum())
        self._expect(")")
        return value

    def _of_one(self, name: str) -> Any:
        function = _FUNCTIONS[name]
        if name == "log" and self._take("_"):
            base = self._argument()
            return np.log(self._power()) / math.log(base)
        if self._tokens[:1] == ["{"]:
            return function(self._group("{", "}"))
        return function(self._power())

    def _variable(self, name: str) -> Any:
        if self._take("_"):
            braced = self._take("{")
            index = self._tokens.pop(0)
            if braced:
                self._expect("}")
            elif index in ("i", "j", "n") and name in self._values:
                # an element of a row: the sum runs over all of them
                return self._values[name]
            name = f"{name}_{index}"
        if name not in self._values:
            raise NotEvaluable(f"{self._text}: no {name}")
        return self._values[name]
