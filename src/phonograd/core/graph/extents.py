"""Traced extents: numbers that know how they follow from the shapes of arguments, and what was asked of them.

Used by :mod:`phonograd.core.graph.generic`. A rule that is recorded with traced extents computes with them as with
other numbers. Each result has the *formula* that it was computed by, as an expression of ``s``, the shapes of the
arguments: ``s[0][1] * 2``. Each comparison becomes a *question* with its answer: ``s[0][1] == 3``, False. Other shapes
that give the same answers lead the rule to the same formulas.

Functions of C see the value alone: ``range``, ``int``, those of NumPy, and the product of a float and an extent. Their
results are plain numbers, which are compared for several extents instead.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..base.hot import hot, slotted

if TYPE_CHECKING:
    from .node import Shape

__all__ = [
    "Condition",
    "Extent",
    "Formula",
    "Questions",
    "TracedFloat",
    "is_traced",
    "is_tracing",
    "numbers_of",
    "traced_shapes",
    "tracing",
]


def numbers_of(attributes: tuple[Any, ...]) -> tuple[list[int], dict[int, int]]:
    """Return the sizes of numbers in attributes with which a rule may compare extents, and each number by itself."""
    numbers = _numbers_in(attributes)
    bounds = sorted({abs(number) for number in numbers if abs(number) > 1}) if numbers else numbers
    return bounds, {number: number for number in numbers}


def _numbers_in(value: Any) -> list[int]:
    """Return the numbers in attributes, in order."""
    if value.__class__ is int:
        return [value]
    return [number for part in value for number in _numbers_in(part)] if value.__class__ is tuple else []


class _State(threading.local):
    depth = 0


_state = _State()


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Note for a block that this thread records a rule with traced extents."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1


def is_tracing() -> bool:
    """Return whether this thread records a rule with traced extents."""
    return _state.depth > 0


class Questions:
    """The questions that a rule has asked of traced extents.

    Attributes
    ----------
    answers
        For each question, an expression of the shapes ``s``, its answer.
    limit
        The largest extent of an argument; the smallest is 2.
    """

    __slots__ = ("answers", "limit")

    def __init__(self, limit: int) -> None:
        self.answers: dict[str, bool] = {}
        self.limit = limit

    def copy(self) -> Questions:
        """Return the questions so far."""
        made = Questions(self.limit)
        made.answers = dict(self.answers)
        return made


#: a sum of products, by factors in order: extents of arguments, and quotients and the like, which begin with "("
_Terms = dict[tuple[str, ...], int]


class _Traced:
    """The base of traced integers and floats: a plain value, a formula, and the questions asked."""

    plain: Any
    questions: Questions

    def __hash__(self) -> int:
        # tables and caches must not give a plain number, or one of another recording, instead of this one
        return hash((self.plain, id(self.questions)))

    def __repr__(self) -> str:
        return repr(self.plain)

    def __str__(self) -> str:
        return str(self.plain)

    def __format__(self, specification: str) -> str:
        return format(self.plain, specification)

    def __bool__(self: Any) -> bool:
        return bool(self != 0)

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> Any:
        return other // self, other % self

    def to_float(self) -> Any:
        """Return the number as a float."""
        return _text(float(self.plain), f"float({_formula_of(self)})", self.questions)


class Extent(_Traced, int):
    """An integer that follows from the shapes of arguments: a sum of products."""

    terms: _Terms

    @property
    def formula(self) -> str:
        """The expression by which it follows from the shapes."""
        return _written(self.terms)


class TracedFloat(_Traced, float):
    """A float that follows from the shapes of arguments."""

    formula: str


def is_traced(value: Any) -> bool:
    """Return whether a number is a traced one."""
    return isinstance(value, _Traced)


def _written(terms: _Terms) -> str:
    """Return the formula of a sum of products."""
    parts = []
    for factors, count in terms.items():
        text = " * ".join([str(count), *factors] if count != 1 or not factors else factors)
        parts.append(text)
    return parts[0] if len(parts) == 1 and "*" not in parts[0] else f"({' + '.join(parts)})"


def _formula_of(traced: Any) -> str:
    return traced.formula  # type: ignore[no-any-return]


def _sum(value: int, terms: _Terms, questions: Questions) -> int:
    """Return a traced number with a value; a plain one if it is the same for all extents."""
    if len(terms) > 1 or 0 in terms.values():
        terms = {factors: terms[factors] for factors in sorted(terms) if terms[factors]}
    if not terms or (len(terms) == 1 and () in terms):
        return value
    made = int.__new__(Extent, value)
    made.plain, made.terms, made.questions = value, terms, questions
    return made


def _text(value: Any, formula: str, questions: Questions) -> Any:
    """Return a traced number with a formula of its own."""
    if value.__class__ is int:
        return _sum(value, {(formula,): 1}, questions)
    made = float.__new__(TracedFloat, value)
    made.plain, made.formula, made.questions = value, formula, questions
    return made


def _operand(value: Any) -> tuple[Any, Any, _Terms | None] | None:
    """Return the value, the number itself and, for an integer, the terms of an operand; None if it is no number."""
    kind = value.__class__
    if kind is Extent:
        return value.plain, value, value.terms
    if kind is int:
        return value, value, {(): value} if value else {}
    if kind is TracedFloat:
        return value.plain, value, None
    if hasattr(value, "item") and not getattr(value, "shape", 1):
        # a number of NumPy
        value = value.item()
    if not isinstance(value, (int, float)):
        return None
    return value, value, {(): int(value)} if isinstance(value, int) else None


def _expression(number: Any) -> str:
    """Return how a formula refers to a number."""
    return _formula_of(number) if isinstance(number, _Traced) else repr(number)


def _added(one: _Terms, two: _Terms, sign: int) -> _Terms:
    found = dict(one)
    for factors, count in two.items():
        found[factors] = found.get(factors, 0) + sign * count
    return found


def _multiplied(one: _Terms, two: _Terms) -> _Terms:
    found: _Terms = {}
    for factors, count in one.items():
        for others, times in two.items():
            key = tuple(sorted(factors + others))
            found[key] = found.get(key, 0) + count * times
    return found


def _divided(one: _Terms, two: _Terms) -> _Terms | None:
    """Return the quotient if it is a sum of products for all extents; None if not."""
    if len(two) != 1:
        return None
    ((divisors, number),) = two.items()
    if any([factor[0] == "(" for factor in divisors]) or number == 0:
        # it may be zero
        return None
    found: _Terms = {}
    for factors, count in one.items():
        left = list(factors)
        for factor in divisors:
            if factor not in left:
                return None
            left.remove(factor)
        if count % number:
            return None
        found[tuple(left)] = count // number
    return found


def _calculated(symbol: str, one: _Terms, two: _Terms) -> _Terms | None:
    """Return the terms of a result; None if it is no sum of products."""
    if symbol == "+" or symbol == "-":
        return _added(one, two, 1 if symbol == "+" else -1)
    if symbol == "*":
        return _multiplied(one, two)
    if symbol == "//":
        return _divided(one, two)
    if symbol == "%" and _divided(one, two) is not None:
        return {}
    return None


def _calculate(symbol: str, function: Callable[[Any, Any], Any], one: Any, two: Any, questions: Questions) -> Any:
    """Return the result of an operator."""
    value = function(one[0], two[0])
    if value.__class__ is int and one[2] is not None and two[2] is not None:
        terms = _calculated(symbol, one[2], two[2])
        if terms is not None:
            return _sum(value, terms, questions)
    return _text(value, f"({_expression(one[1])} {symbol} {_expression(two[1])})", questions)


def _add_arithmetic(name: str, symbol: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: Any, other: Any) -> Any:
        found = _operand(other)
        return NotImplemented if found is None else _calculate(symbol, function, _operand(self), found, self.questions)

    def backward(self: Any, other: Any) -> Any:
        found = _operand(other)
        return NotImplemented if found is None else _calculate(symbol, function, found, _operand(self), self.questions)

    setattr(_Traced, f"__{name}__", forward)
    setattr(_Traced, f"__r{name}__", backward)


def _add_comparison(name: str, symbol: str, function: Callable[[Any, Any], bool]) -> None:
    def compare(self: Any, other: Any) -> Any:
        found = _operand(other)
        if found is None:
            return NotImplemented
        answer = function(self.plain, found[0])
        if self.__class__ is Extent and other.__class__ is int:
            ends = _ends(self.terms, self.questions.limit)
            if ends is not None and (other < ends[0] or other > ends[1]):
                return answer
        mine = _operand(self)
        assert mine is not None
        if mine[2] is None or found[2] is None:
            is_known = _expression(mine[1]) == _expression(found[1])
        else:
            is_known = _is_known(_added(mine[2], found[2], -1), symbol, self.questions.limit)
        if not is_known:
            self.questions.answers[f"{_expression(mine[1])} {symbol} {_expression(found[1])}"] = answer
        return answer

    setattr(_Traced, f"__{name}__", compare)


def _ends(terms: _Terms, limit: int) -> tuple[int, int] | None:
    """Return the least and the largest value of a sum for all extents of a pattern; None if they are unknown."""
    least = most = 0
    for factors, count in terms.items():
        for factor in factors:
            if factor[0] == "(":
                return None
        small, large = count << len(factors), count * limit ** len(factors)
        least, most = (least + small, most + large) if count > 0 else (least + large, most + small)
    return least, most


def _is_known(difference: _Terms, symbol: str, limit: int) -> bool:
    """Return whether the sign of a difference is the same for all extents of a pattern."""
    terms = {factors: count for factors, count in difference.items() if count}
    are_extents = all([len(factors) == 1 and factors[0][0] != "(" for factors in terms])
    if symbol in ("==", "!=") and are_extents and sorted(terms.values()) == [-1, 1]:
        # the pattern tells them apart
        return True
    ends = _ends(terms, limit)
    if ends is None:
        return False
    least, most = ends
    if least == most:
        return True
    if symbol in ("==", "!="):
        return least > 0 or most < 0
    return least >= 0 or most < 0 if symbol in ("<", ">=") else least > 0 or most <= 0


def _add_function(name: str, text: str, function: Callable[[Any], Any]) -> None:
    def apply(self: Any, *others: Any) -> Any:
        if others:
            # of round: how many digits
            return function(self.plain, *others)
        return _text(function(self.plain), text.format(_formula_of(self)), self.questions)

    setattr(_Traced, name, apply)


for _name, _symbol in {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}.items():
    _add_arithmetic(_name, _symbol, getattr(operator, f"{_name}_" if _name in ("and", "or") else _name))
for _name, _symbol in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    _add_comparison(_name, _symbol, getattr(operator, _name))
for _name, _formula, _function in (
    ("__invert__", "(~{})", operator.invert),
    ("__abs__", "(abs({}))", abs),
    ("__floor__", "(math.floor({}))", math.floor),
    ("__ceil__", "(math.ceil({}))", math.ceil),
    ("__trunc__", "(math.trunc({}))", math.trunc),
    ("__round__", "(round({}))", round),
    ("bit_length", "(({}).bit_length())", int.bit_length),
):
    _add_function(_name, _formula, _function)
for _name, _factor in (("__neg__", -1), ("__pos__", 1)):
    setattr(_Traced, _name, functools.partialmethod(operator.mul, _factor))


def traced_shapes(shapes: Sequence[Shape], others: dict[int, int], questions: Questions) -> list[Shape]:
    """Return shapes with other extents, by extent, as traced ones; extents that are not among them stay."""
    made: dict[int, Any] = {}
    found: list[Shape] = []
    for argument, shape in enumerate(shapes):
        for axis, extent in enumerate(shape):
            if extent in others and extent not in made:
                made[extent] = _text(others[extent], f"s[{argument}][{axis}]", questions)
        found.append(tuple([made.get(extent, extent) for extent in shape]))
    return found


@functools.lru_cache(4096)
def _compiled(text: str) -> Callable[[Sequence[Shape], tuple[Any, ...]], Any]:
    # the text consists of numbers, extents, operators and values that are kept
    return eval(f"lambda s, k: {text}", {"math": math, "inf": math.inf, "nan": math.nan})  # type: ignore[no-any-return]


@slotted
class Formula:
    """A function of the shapes of arguments, given as an expression of ``s``, and of ``k``, the values it keeps."""

    __slots__ = ("_function", "_kept")

    def __init__(self, text: str, kept: tuple[Any, ...] = ()) -> None:
        self._function, self._kept = _compiled(text), kept

    @hot
    def __call__(self, shapes: Sequence[Shape]) -> Any:
        """Return its value."""
        return self._function(shapes, self._kept)


class Condition:
    """Tells whether the shapes of arguments give the same answers to questions."""

    __slots__ = ("_function",)

    def __init__(self, questions: Questions) -> None:
        answers = questions.answers.items()
        text = " and ".join([question if answer else f"not {question}" for question, answer in answers])
        self._function = _compiled(text) if text else None

    def __call__(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the answers are the same."""
        if self._function is None:
            return True
        try:
            return bool(self._function(shapes, ()))
        except ArithmeticError:
            # a division by zero: the rule raises it, too
            return False
