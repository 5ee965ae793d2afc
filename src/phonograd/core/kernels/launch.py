"""Launches: what a planner needs to run kernels that are not made of fused operators.

A :class:`Plan` is a row of :class:`Launch` objects and the number of bytes of scratch memory that they share. A launch
names its operands (``"data"``, ``"out"``, ``"scratch"``, ...); :meth:`Launch.table` puts in where they lie: the number
of an array and a distance in bytes. Everything else in a table is a size and known from the shapes.

Every kernel takes ``(ptr table, ptr bases, i64 begin, i64 end)`` and may be called for parts of its range, by several
threads at once. What it computes for an item of the range depends on nothing but the item, so the result is the same
however the range is divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ..lower.ir.function_builder import FunctionBuilder, Index

__all__ = ["INNER", "Launch", "Plan", "Reference", "Words", "Written", "operand"]

#: scratch memory is divided at multiples of this
ALIGNMENT = 64
#: stands before functions of a module that take most of the time of their kernel, and call no others of the module
INNER = "; inner\n"


class Written(Protocol):
    """The description of a kernel without sizes: hashable, the key under which compiled code is found again."""

    def write(self, name: str) -> str:
        """Return the text of a module in which ``name`` is the kernel."""

    def __hash__(self) -> int: ...


class Reference(NamedTuple):
    """Two words of a table that say where an operand lies."""

    operand: str
    offset: int = 0


class Launch(NamedTuple):
    """One kernel with the sizes it runs with."""

    structure: Written
    words: tuple[int | Reference, ...]
    extent: int
    """The range is ``0 .. extent``; any part of it can be run on its own."""
    chunk: int = 1
    """How many items are worth a call."""
    work: int = 0
    """How much there is to do, in chunks, where their number does not say it: a small chunk may be much work."""

    def table(self, places: Mapping[str, tuple[int, int]]) -> list[int]:
        """Return the words of the table, given the base number and the first byte of each operand.

        >>> Launch(None, (7, Reference("out", 64)), 1).table({"out": (2, 1000)})
        [7, 2, 1064]
        """
        words: list[int] = []
        for word in self.words:
            if isinstance(word, Reference):
                base, start = places[word.operand]
                words += [base, start + word.offset]
            else:
                words.append(word)
        return words


class Plan(NamedTuple):
    """Launches that follow each other, and the scratch memory they need, which begins at a multiple of 64 bytes."""

    launches: tuple[Launch, ...]
    scratch_bytes: int = 0


class Words:
    """The names of a table's words in their order; what comes after them has no names.

    >>> words = Words("batch", "data*", "width")
    >>> words.fill({"batch": 2, "width": 5}, tail=[9])
    (2, Reference(operand='data', offset=0), 5, 9)

    A star marks an operand, which takes two words.
    """

    def __init__(self, *names: str) -> None:
        self._places: dict[str, int] = {}
        self._operands: set[str] = set()
        self.count = 0
        for name in names:
            plain = name.rstrip("*")
            self._places[plain] = self.count
            if plain != name:
                self._operands.add(plain)
            self.count += 2 if plain != name else 1

    def fill(self, values: Mapping[str, int | Reference], tail: Sequence[int] = ()) -> tuple[int | Reference, ...]:
        """Return the words of a launch; an operand that is not given bears its own name."""
        known = {name: Reference(name) for name in self._operands}
        return (*[values[name] if name in values else known[name] for name in self._places], *tail)

    def index(self, function: FunctionBuilder, name: str) -> Index:
        """Return a number of the table, in a function that has it as ``%table``."""
        return function.load_word("%table", str(self._places[name]))

    def pointer(self, function: FunctionBuilder, name: str) -> str:
        """Return the address of an operand, in a function that has ``%table`` and ``%bases``."""
        return operand(function, self._places[name])

    def tail(self, function: FunctionBuilder) -> str:
        """Return the address of the words without names."""
        return function.address("%table", str(self.count), "i64")


def operand(function: FunctionBuilder, place: int) -> str:
    """Return the address of the operand whose two words stand at a place of ``%table``."""
    base = function.load_word("%table", str(place))
    start = function.load_word("%table", str(place + 1))
    return function.address(function.load_word("%bases", base, "ptr"), start, "i8")


def aligned(size: int) -> int:
    """Return a number of bytes rounded up to the alignment.

    >>> aligned(1), aligned(64)
    (64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT
