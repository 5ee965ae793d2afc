"""Launches: kernels that are not fused from operators, as planners see them.

A :class:`Plan` is a sequence of :class:`Launch` objects and the size of the scratch memory that they share. A launch
names its operands (``"data"``, ``"out"``, ``"scratch"``, ...); :meth:`Launch.table` replaces the names by array numbers
and byte offsets. All other words of a table are sizes, known from the shapes.

Every kernel takes ``(ptr table, ptr bases, i64 begin, i64 end)``. Several threads may call it at once for parts of its
range. The result for an item depends on the item alone, so it is the same however the range is divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ..base.dtypes import DType
from ..graph.node import Shape
from ..lower.ir.function_builder import FunctionBuilder, Index

__all__ = [
    "INNER",
    "CalledPlan",
    "Launch",
    "Plan",
    "Prepared",
    "Reference",
    "Words",
    "Written",
    "operand",
    "prepare_apart",
]

#: alignment of areas in scratch memory
ALIGNMENT = 64
#: comment before functions that take most of their kernel's time and call no other function of the module
INNER = "; inner\n"


class Written(Protocol):
    """The description of a kernel without its sizes: hashable, the key of the compiled-code cache."""

    def write(self, name: str) -> str:
        """Return the LLVM IR of a module in which ``name`` is the kernel."""

    def __hash__(self) -> int: ...


class Reference(NamedTuple):
    """Two words of a table: the array and the byte offset of an operand."""

    operand: str
    offset: int = 0


class Launch(NamedTuple):
    """One kernel, with its sizes."""

    structure: Written
    words: tuple[int | Reference, ...]
    extent: int
    """The range is ``0 .. extent``; the kernel can run on any part of it."""
    chunk: int = 1
    """Smallest number of items that is worth a call."""
    work: int = 0
    """Amount of work in chunks, if their number underestimates it: a small chunk may be much work."""

    def table(self, places: Mapping[str, tuple[int, int]]) -> list[int]:
        """Return the words of the table, given the array number and the first byte of each operand.

        >>> Launch(None, (7, Reference("out", 64)), 1).table({"out": (2, 1000)})
        [7, 2, 1064]
        """
        words: list[int] = []
        for word in self.words:
            if word.__class__ is Reference:
                base, start = places[word.operand]
                words += (base, start + word.offset)
            else:
                words.append(word)  # type: ignore[arg-type]
        return words


class Prepared(NamedTuple):
    """A launch of a plan that reads one operand alone, such as the packing of weights, and the area that it writes."""

    number: int
    """The number of the launch."""
    operand: str
    start: int
    """The first byte of the area in scratch memory."""
    size: int
    """The bytes of the area, a multiple of 64. No other launch writes to it."""


class Plan(NamedTuple):
    """Launches in order, and the size of their scratch memory, which begins at a multiple of 64 bytes."""

    launches: tuple[Launch, ...]
    scratch_bytes: int = 0
    prepared: tuple[Prepared, ...] = ()
    """Launches whose results can be kept as long as their operand does not change."""
    for_steady: Plan | None = None
    """The plan to take instead if the operands that it prepares are the same in many runs."""


class CalledPlan(NamedTuple):
    """A plan of kernels that Python calls, and name, shape and dtype of each array that they write."""

    plan: Plan
    results: tuple[tuple[str, Shape, DType], ...]


def prepare_apart(plan: Plan, prepared: Prepared, name: str) -> tuple[Plan, Launch]:
    """Take a launch out of a plan, which then reads the result of the launch as an operand.

    Return the plan, and the launch, which writes ``out``.

    >>> pack, multiply = [Launch(None, (Reference(of), Reference("scratch", 64)), 1) for of in ("weight", "data")]
    >>> plan, launch = prepare_apart(
    ...     Plan((pack, multiply), 192, (Prepared(0, "weight", 64, 128),)), (0, "weight", 64, 128), "packed"
    ... )
    >>> launch.words[1], plan.launches[0].words[1], plan.scratch_bytes
    (Reference(operand='out', offset=0), Reference(operand='packed', offset=0), 64)
    """
    number, _, start, size = prepared

    def moved(launch: Launch, into: str) -> Launch:
        words: list[int | Reference] = []
        for word in launch.words:
            if isinstance(word, Reference) and word.operand == "scratch" and word.offset >= start:
                is_in_area = word.offset < start + size
                word = Reference(into, word.offset - start) if is_in_area else Reference("scratch", word.offset - size)
            words.append(word)
        return launch._replace(words=tuple(words))

    others = [moved(launch, name) for each, launch in enumerate(plan.launches) if each != number]
    rest = tuple(
        [
            each._replace(number=each.number - (each.number > number), start=each.start - size * (each.start > start))
            for each in plan.prepared
            if each.number != number
        ]
    )
    return Plan(tuple(others), plan.scratch_bytes - size, rest), moved(plan.launches[number], "out")


class Words:
    """Names of a table's words, in order; words of the tail have no names.

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

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def fill(self, values: Mapping[str, int | Reference], tail: Sequence[int] = ()) -> tuple[int | Reference, ...]:
        """Return the words of a launch; an operand without a value refers to its own name."""
        known = {name: Reference(name) for name in self._operands}
        return (*[values[name] if name in values else known[name] for name in self._places], *tail)

    def index(self, function: FunctionBuilder, name: str) -> Index:
        """Return an integer of the table, in a function with the argument ``%table``."""
        return function.load_word("%table", str(self._places[name]))

    def pointer(self, function: FunctionBuilder, name: str) -> str:
        """Return the address of an operand, in a function with the arguments ``%table`` and ``%bases``."""
        return operand(function, self._places[name])

    def tail(self, function: FunctionBuilder) -> str:
        """Return the address of the unnamed words."""
        return function.address("%table", str(self.count), "i64")


def operand(function: FunctionBuilder, place: int) -> str:
    """Return the address of the operand whose two words are at a position in ``%table``."""
    base = function.load_word("%table", str(place))
    start = function.load_word("%table", str(place + 1))
    return function.address(function.load_word("%bases", base, "ptr"), start, "i8")


def align_up(size: int) -> int:
    """Return a number of bytes, rounded up to the alignment.

    >>> align_up(1), align_up(64)
    (64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT
