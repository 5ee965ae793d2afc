"""Sizes: integers that know how they follow from the extents of a graph, for plans that hold for any extents.

Used by :mod:`~phonograd.core.plan.any_extents`. The planner computes with sizes as with integers. Each result is a sum
of products of *atoms*: extents, and what is no sum of products, such as quotients. Each comparison whose answer depends
on the extents becomes a *condition*, with its answer. A :class:`Trace` has both in the order in which they were met, as
lines of a Python function that repeats the computation for other extents and stops where an answer is another one.

A size is no ``int``, though ``isinstance`` says so: functions of C that need its value, such as ``range``, have to ask
for it, and it becomes a condition (a quotient) or an error (:class:`Pinned`, an extent). Traced extents
(:mod:`phonograd.core.graph.extents`), which are integers, cannot notice that.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..base.dtypes import DType, convert_scalar
from ..graph.decisions import Symbolic
from ..run import memory_pool
from ..run.memory_pool import Lifetime

__all__ = [
    "LARGEST",
    "SMALLEST",
    "Data",
    "Joined",
    "Line",
    "Pinned",
    "Ratio",
    "Size",
    "Trace",
    "arrange",
    "is_size",
    "joined",
    "text_of",
]

#: the limits of extents for which plans hold; what no extent between them decides otherwise is no condition
SMALLEST, LARGEST = 2, 1 << 24

#: stands for an unknown bound
_FAR = 1 << 200

#: coefficients by atoms, in order; the constant has no atoms
_Terms = tuple[tuple[tuple[int, ...], int], ...]
_Bounds = tuple[int, int]
#: an assignment to atoms, or a condition and its answer
Line = str | tuple[str, bool]


class Pinned(Exception):
    """Something needs the value of an extent: no plan for other extents follows from it."""


class Trace:
    """The computation of a plan from extents: lines, in order, and the answers that it depends on.

    Attributes
    ----------
    lines
        Assignments to atoms (``a0``, ``a1``, ...) and to bytes of constants (``b0``, ``b1``, ...) as Python statements;
        and conditions, each with its answer. The first atoms are the extents.
    conditions
        The number of conditions.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.conditions = 0
        self._atoms: dict[str, int] = {}
        self._bounds: list[_Bounds] = []
        self._answers: dict[str, bool] = {}
        self._data: dict[str, Data] = {}
        self._decided: dict[str, Any] = {}
        #: sizes that were looked up in tables, as expressions
        self.looked_up: set[str] = set()
        #: the first atoms, whose values nothing may ask for
        self._extents = 0
        self.hash = hash(("sizes", id(self)))

    def close(self) -> None:
        """Drop everything that is known, after the lines have been used."""
        self.lines, self._atoms, self._answers, self._data, self.looked_up = [], {}, {}, {}, set()
        self._decided = {}

    def extent(self, value: int) -> Size:
        """Return the next extent, with its value for the graph that is planned."""
        assert self._extents == len(self._bounds)
        self._extents += 1
        self._bounds.append((SMALLEST, LARGEST))
        return Size(self, value, (((len(self._bounds) - 1,), 1),))

    def atom(self, text: str, bounds: _Bounds = (-_FAR, _FAR)) -> int:
        """Return the number of an atom with a definition."""
        number = self._atoms.get(text)
        if number is None:
            number = self._atoms[text] = self.new_atoms(1, bounds)
            self.lines.append(f"a{number} = {text}")
        return number

    def new_atoms(self, count: int, bounds: _Bounds = (-_FAR, _FAR)) -> int:
        """Return the first of some new atoms, which a line of its own defines."""
        self._bounds += [bounds] * count
        return len(self._bounds) - count

    def ask(self, text: str, answer: bool) -> None:
        """Note a condition; every line after it relies on the answer."""
        if text not in self._answers:
            self._answers[text] = answer
            self.conditions += 1
            self.lines.append((text, answer))

    def data(self, plain: bytes, text: str, dtype: DType | None = None) -> Data:
        """Return the bytes of a constant with a definition, or with the name of one that is read from each graph."""
        found = self._data.get(text)
        if found is None:
            name = text
            if not text.isidentifier():
                name = f"b{len(self._data)}"
                self.lines.append(f"{name} = {text}")
            found = self._data[text] = Data(self, plain, name, dtype, text)
        return found

    def decide(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Return what a decision (:mod:`phonograd.core.graph.decisions`) returns; the call is a line of the trace."""
        text = f"{function.__name__}({', '.join([text_of(argument) for argument in arguments])})"
        found = self._decided.get(text)
        if found is None:
            values = function(*[_plain_of(argument) for argument in arguments])
            if isinstance(values, tuple):
                first = self.new_atoms(len(values), (1, _FAR))
                self.lines.append(f"{', '.join([f'a{first + number}' for number in range(len(values))])} = {text}")
                found = tuple([Size(self, value, (((first + n,), 1),)) for n, value in enumerate(values)])
            else:
                found = _opaque(self, values, text, (1, _FAR))
            self._decided[text] = found
        return found

    def compare(self, terms: _Terms, symbol: str, answer: bool) -> None:
        """Note how a sum compares to zero, unless that is the same for all extents."""
        low, high = self.bounds(terms)
        if symbol == "==":
            is_known = low > 0 or high < 0 or low == high
        else:
            is_known = (high < 0 or low >= 0) if symbol == "<" else (high <= 0 or low > 0)
        if not is_known:
            self.ask(f"{written(terms)} {symbol} 0", answer)

    def bounds(self, terms: _Terms) -> _Bounds:
        """Return bounds of a sum."""
        low = high = 0
        for atoms, count in terms:
            least = most = count
            for atom in atoms:
                first, last = self._bounds[atom]
                ends = least * first, least * last, most * first, most * last
                least, most = min(ends), max(ends)
            low, high = low + least, high + most
        return low, high

    def is_pinned_by(self, terms: _Terms) -> bool:
        """Return whether the value of a sum says something about a single extent."""
        return any([atom < self._extents for atoms, _ in terms for atom in atoms])


class _Number(Symbolic):
    """The base of sizes and ratios."""

    __slots__ = ("plain", "trace")

    plain: Any
    trace: Trace

    def __hash__(self) -> int:
        # look-ups among sizes compare them, so that the answer becomes a condition; integers are not found
        self.trace.looked_up.add(text_of(self))
        return self.trace.hash

    def __bool__(self: Any) -> bool:
        return bool(self != 0)

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self: Any) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __repr__(self) -> str:
        return f"<{self.plain}>"


class Size(_Number):
    """An integer that follows from extents: a sum of products."""

    __slots__ = ("terms",)

    def __init__(self, trace: Trace, plain: int, terms: _Terms) -> None:
        self.trace, self.plain, self.terms = trace, plain, terms

    @property
    def __class__(self) -> Any:
        return int

    @__class__.setter
    def __class__(self, other: Any) -> NoReturn:
        raise TypeError(f"a size cannot become a {other}")

    def __index__(self) -> int:
        if self.trace.is_pinned_by(self.terms):
            raise Pinned(f"the value of {written(self.terms)} is asked for")
        self.trace.compare(_added(self.terms, _constant(-self.plain)), "==", True)
        return self.plain  # type: ignore[no-any-return]

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __format__(self, specification: str) -> str:
        return format(self.__index__(), specification)

    def __abs__(self: Any) -> Any:
        return self if self >= 0 else -self

    def __floor__(self) -> Any:
        return self

    __ceil__ = __trunc__ = __round__ = __floor__

    def in_bytes(self, dtype: DType) -> Any:
        """Return the number as the bytes of a constant."""
        return _in_bytes(self, dtype)

    def bit_length(self) -> Any:
        """Return the number of bits."""
        return _opaque(self.trace, self.plain.bit_length(), f"({written(self.terms)}).bit_length()", (0, 64))


class Ratio(_Number):
    """A float that follows from extents."""

    __slots__ = ("data", "text")

    def __init__(self, trace: Trace, plain: float, text: str, data: Data | None = None) -> None:
        self.trace, self.plain, self.text = trace, plain, text
        #: the bytes that it was read from
        self.data = data

    @property
    def __class__(self) -> Any:
        return float

    @__class__.setter
    def __class__(self, other: Any) -> NoReturn:
        raise TypeError(f"a ratio cannot become a {other}")

    def __float__(self) -> float:
        raise Pinned(f"the value of {self.text} is asked for")

    __int__ = __format__ = __float__  # type: ignore[assignment]

    def __floor__(self) -> Any:
        return _opaque(self.trace, math.floor(self.plain), f"math.floor({self.text})")

    def __ceil__(self) -> Any:
        return _opaque(self.trace, math.ceil(self.plain), f"math.ceil({self.text})")

    def __abs__(self: Any) -> Any:
        return self if self >= 0 else -self

    def in_bytes(self, dtype: DType) -> Any:
        """Return the number as the bytes of a constant."""
        if self.data is not None and self.data.dtype == dtype:
            return self.data
        return _in_bytes(self, dtype)


class Data:
    """The bytes of a constant that follow from a graph."""

    __slots__ = ("definition", "dtype", "plain", "text", "trace")

    def __init__(self, trace: Trace, plain: bytes, text: str, dtype: DType | None, definition: str) -> None:
        self.trace, self.plain, self.text, self.dtype, self.definition = trace, plain, text, dtype, definition

    @property
    def __class__(self) -> Any:
        return bytes

    @__class__.setter
    def __class__(self, other: Any) -> NoReturn:
        raise TypeError(f"data cannot become a {other}")

    def number(self, dtype: DType) -> Ratio:
        """Return the number that they are."""
        if dtype.kind != "f" or self.dtype not in (None, dtype):
            raise Pinned("the value of a constant is asked for")
        self.dtype = dtype
        value = float(np.frombuffer(self.plain, dtype)[0])
        return Ratio(self.trace, value, f"a{self.trace.atom(f'number_in({self.text}, {dtype.num})')}", self)


def _in_bytes(number: Any, dtype: DType) -> Data:
    text = f"bytes_of({_text_of(number)}, {dtype.num})"
    return number.trace.data(convert_scalar(number.plain, dtype).tobytes(), text, dtype)  # type: ignore[no-any-return]


class Joined:
    """Bytes of constants one after the other, in eight bytes each, some of which follow from a graph."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)


def joined(parts: Sequence[Any]) -> Any:
    """Return the bytes of different constants one after the other, in eight bytes each."""
    trace = next((part.trace for part in parts if type(part) is Data), None)
    if trace is None:
        return b"".join([part.ljust(8, b"\0") for part in parts]) or bytes(8)
    texts = [part.text if type(part) is Data else repr(part) for part in parts]
    # constants that are the same are one
    trace.lines.append((f"len({{{', '.join(texts)}}}) < {len(parts)}", False))
    return Joined(parts)


def is_size(value: Any) -> bool:
    """Return whether a number is a size or a ratio."""
    return type(value) is Size or type(value) is Ratio


def written(terms: _Terms) -> str:
    """Return a sum of products as an expression.

    >>> written((((), 3), ((0,), 1), ((0, 1), -2)))
    '(3 + a0 + -2 * a0 * a1)'
    """
    parts = []
    for atoms, count in terms:
        factors = [f"a{atom}" for atom in atoms]
        parts.append(" * ".join(factors if count == 1 and factors else [str(count), *factors]))
    return parts[0] if len(parts) == 1 and "*" not in parts[0] else f"({' + '.join(parts)})"


def _constant(value: int) -> _Terms:
    return (((), value),) if value else ()


def _added(one: _Terms, two: _Terms, sign: int = 1) -> _Terms:
    found = dict(one)
    for atoms, count in two:
        found[atoms] = found.get(atoms, 0) + sign * count
    return tuple(sorted([(atoms, count) for atoms, count in found.items() if count]))


def _multiplied(one: _Terms, two: _Terms) -> _Terms:
    found: dict[tuple[int, ...], int] = {}
    for atoms, count in one:
        for others, times in two:
            key = tuple(sorted(atoms + others))
            found[key] = found.get(key, 0) + count * times
    return tuple(sorted([(atoms, count) for atoms, count in found.items() if count]))


def _divided(one: _Terms, two: _Terms, trace: Trace) -> _Terms | None:
    """Return a quotient without a remainder; None if it is no sum of products for all extents."""
    if len(two) != 1:
        return None
    ((divisors, number),) = two
    low, high = trace.bounds(two)
    if low <= 0 <= high:
        return None
    found = []
    for atoms, count in one:
        left = list(atoms)
        for atom in divisors:
            if atom not in left:
                return None
            left.remove(atom)
        if count % number:
            return None
        found.append((tuple(left), count // number))
    return tuple(sorted(found))


def _made(trace: Trace, value: int, terms: _Terms) -> Any:
    """Return a size; a plain integer if it is the same for all extents."""
    if not terms or (len(terms) == 1 and not terms[0][0]):
        return value
    return Size(trace, value, terms)


def _opaque(trace: Trace, value: int, text: str, bounds: _Bounds = (-_FAR, _FAR)) -> Size:
    """Return a size that is an atom."""
    return Size(trace, value, (((trace.atom(text, bounds),), 1),))


def _plain_of(value: Any) -> Any:
    """Return the value of an operand; None if it is no number."""
    if type(value) is Size or type(value) is Ratio:
        return value.plain
    if isinstance(value, (int, float)):
        return value
    if hasattr(value, "item") and not getattr(value, "shape", 1):
        # a number of NumPy
        return value.item()
    return None


def _terms_of(value: Any) -> _Terms | None:
    """Return the terms of an operand; None if it is no integer."""
    if type(value) is Size:
        return value.terms
    plain = _plain_of(value)
    return _constant(int(plain)) if isinstance(plain, int) and type(value) is not Ratio else None


def _text_of(value: Any) -> str:
    if type(value) is Size:
        return written(value.terms)
    return value.text if type(value) is Ratio else f"({_plain_of(value)!r})"


def _calculate(symbol: str, function: Callable[[Any, Any], Any], one: Any, two: Any, trace: Trace) -> Any:
    """Return the result of an operator on two numbers, one of which is a size or a ratio."""
    value = function(_plain_of(one), _plain_of(two))
    first, second = _terms_of(one), _terms_of(two)
    if first is not None and second is not None and isinstance(value, int):
        if symbol == "+" or symbol == "-":
            return _made(trace, value, _added(first, second, 1 if symbol == "+" else -1))
        if symbol == "*":
            return _made(trace, value, _multiplied(first, second))
        bounds = -_FAR, _FAR
        if symbol == "//" or symbol == "%":
            quotient = _divided(first, second, trace)
            if quotient is not None:
                return _made(trace, value, quotient) if symbol == "//" else 0
            low, high = trace.bounds(second)
            if low == high and low > 0:
                least, most = trace.bounds(first)
                bounds = (least // low, most // low) if symbol == "//" else (0, low - 1)
        return _opaque(trace, value, f"{_text_of(one)} {symbol} {_text_of(two)}", bounds)
    text = f"{_text_of(one)} {symbol} {_text_of(two)}"
    if isinstance(value, int):
        return _opaque(trace, value, text)
    return Ratio(trace, value, f"a{trace.atom(text)}")


def _add_arithmetic(name: str, symbol: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: Any, other: Any) -> Any:
        return NotImplemented if _plain_of(other) is None else _calculate(symbol, function, self, other, self.trace)

    def backward(self: Any, other: Any) -> Any:
        return NotImplemented if _plain_of(other) is None else _calculate(symbol, function, other, self, self.trace)

    setattr(_Number, f"__{name}__", forward)
    setattr(_Number, f"__r{name}__", backward)


def _add_comparison(name: str, function: Callable[[Any, Any], bool], symbol: str, is_negated: bool) -> None:
    def compare(self: Any, other: Any) -> Any:
        if self is other:
            return function(0, 0)
        plain = _plain_of(other)
        if plain is None:
            return NotImplemented
        answer = function(self.plain, plain)
        one, two = _terms_of(self), _terms_of(other)
        if one is not None and two is not None:
            self.trace.compare(_added(one, two, -1), symbol, answer is not is_negated)
        elif _text_of(self) != _text_of(other):
            self.trace.ask(f"{_text_of(self)} {symbol} {_text_of(other)}", answer is not is_negated)
        return answer

    setattr(_Number, f"__{name}__", compare)


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
for _name, _symbol, _is_negated in (
    ("eq", "==", False),
    ("ne", "==", True),
    ("lt", "<", False),
    ("ge", "<", True),
    ("le", "<=", False),
    ("gt", "<=", True),
):
    _add_comparison(_name, getattr(operator, _name), _symbol, _is_negated)


def text_of(value: Any) -> str:
    """Return a number as an expression of atoms."""
    if type(value) is Data:
        return value.text
    return _text_of(value) if is_size(value) else repr(value)


def arrange(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return offsets in an arena, and its size (:func:`phonograd.core.run.memory_pool.arrange`).

    For sizes, the arrangement itself is a line of the trace: its comparisons are no conditions.
    """
    trace = next((each.size.trace for each in lifetimes if is_size(each.size)), None)  # type: ignore[attr-defined]
    if trace is None:
        return memory_pool.arrange(lifetimes)
    plain = [each._replace(size=_plain_of(each.size)) for each in lifetimes]
    offsets, end = memory_pool.arrange(plain)
    first = trace.new_atoms(len(offsets) + 1, (0, _FAR))
    names = [f"a{first + number}" for number in range(len(offsets) + 1)]
    rows = [f"Lifetime({text_of(size)}, {begin}, {last}, {over})" for size, begin, last, over in lifetimes]
    trace.lines.append(f"[{', '.join(names[:-1])}], {names[-1]} = arrange([{', '.join(rows)}])")
    sizes = [Size(trace, value, (((first + number,), 1),)) for number, value in enumerate([*offsets, end])]
    return sizes[:-1], sizes[-1]  # type: ignore[return-value]
