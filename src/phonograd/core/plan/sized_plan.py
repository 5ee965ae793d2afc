"""Sized plans: one plan as a function of extents, for all graphs that lead the planner the same way.

Takes a planner that can be run on *sizes* (:mod:`~phonograd.core.plan.sizes`) in the place of integers, from
:mod:`~phonograd.core.plan.any_extents` for graphs and from :mod:`~phonograd.core.plan.record_graph` for records. The
recipe that it makes is a Python function of the extents, with a condition for each answer that the planner got. It can
be stored on disk. See docs/decisions/0047.

A plan is used only if it holds: each integer that did not differ is the same, each that did is the same multiple of the
extents, and all conditions have the same answers. :mod:`~phonograd.core.plan.plan_tree` looks for it.
"""

from __future__ import annotations

import marshal
import math
import operator
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base.dtypes import CODES, FLOAT32, FLOAT64, UINT32, UINT64, DType, convert_scalar
from ..graph.decisions import DECISIONS
from ..graph.extents import tracing
from ..graph.node import Node
from ..kernels.launch import Written
from ..kernels.matmul import tasks
from ..lower.pattern import contiguous_strides
from ..run import memory_pool
from ..run.program import AliasStep, NumpyStep, Recipe, RecipeLaunch, RowStep
from ..run.programs import Memory
from . import partition
from .sizes import LARGEST, SMALLEST, Data, Joined, Line, Size, Trace, text_of

__all__ = ["DTYPES", "SPACE", "Draft", "Frame", "Refused", "SizedPlan", "function_of", "getter"]

#: conditions and integers of a plan: with more, planning takes less time
MOST_CONDITIONS, MOST_SIZES = 4000, 200_000
#: how far integers are from an extent that follow from it
NEAR = 4
#: the modules whose decisions plans call
_DECIDERS = tasks, partition
#: the dtypes of arrays by NumPy's numbers
DTYPES: dict[int, DType] = {dtype.num: dtype for dtype in (*CODES, UINT32, UINT64)}


class Refused(Exception):
    """There is no plan for any extents."""


class Draft(Protocol):
    """A plan that is being made for any extents."""

    @property
    def recipe(self) -> Recipe:
        """The recipe, whose integers may be sizes."""

    @property
    def structures(self) -> list[Written]:
        """Its kernels, in order."""

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes that the recipe may refer to, by number."""

    @property
    def all(self) -> Sequence[Node]:
        """All nodes of the graph."""


class Frame(NamedTuple):
    """How the integers of a graph are read, as plain data: what a plan assumes before its first condition."""

    same: list[int]
    """The places of integers that are the same in all graphs."""
    values: tuple[Any, ...]
    extents: list[int]
    """The places of the extents, and of constants that are read from each graph."""
    data: list[int]
    differ: list[int]
    """The places of all integers that are not the same."""
    expected: list[str]
    """How these follow from the extents, as expressions."""


class _Facts(NamedTuple):
    """Everything that a plan consists of, as plain data."""

    frame: Frame
    lines: list[Line]
    """What the planner computed and asked, in order."""
    atoms: list[str]
    """The atoms that the recipe is made from, and bytes of constants."""
    kept: list[Any]
    """Bytes, and numbers of dtypes in lists."""
    integers: frozenset[int]
    conditions: int
    code: bytes


class SizedPlan:
    """A plan for all graphs whose integers lead the planner the same way.

    :mod:`~phonograd.core.plan.plan_tree` finds the graphs for which it holds.

    Parameters
    ----------
    now, before
        The integers of two graphs.
    draft
        Returns the plan of the graph with some integers, or sizes.
    structures
        The kernels of the plan of the first graph, in order.
    """

    def __init__(
        self,
        now: Sequence[Any],
        before: Sequence[Any],
        draft: Callable[[Sequence[Any]], Draft],
        structures: list[Written],
    ) -> None:
        differ = [place for place, (one, two) in enumerate(zip(before, now, strict=True)) if one != two]
        same = [place for place, (one, two) in enumerate(zip(before, now)) if one == two]
        pairs = list(dict.fromkeys([(before[place], now[place]) for place in differ]))
        trace = Trace()
        sizes, extents = _sizes_of(pairs, trace)
        data: list[tuple[bytes, bytes]] = []
        for pair in [pair for pair in pairs if type(pair[0]) is bytes]:
            number = _as_number(pair, extents, sizes)
            if number is None:
                number = trace.data(pair[1], f"d{len(data)}")
                data.append(pair)
            sizes[pair] = number
        firsts = {pair: place for place in reversed(differ) for pair in [(before[place], now[place])]}
        given = list(now)
        for place in differ:
            given[place] = sizes[before[place], now[place]]
        with tracing():
            drafted = draft(given)
            # integers in the descriptions of kernels become conditions
            found_structures = drafted.structures
            if len(found_structures) != len(structures) or not all(map(operator.eq, found_structures, structures)):
                raise Refused("the kernels are others")
            integers = _integers(drafted.all)
        writer = _Writer({node: number for number, node in enumerate(drafted.nodes)})
        result = writer.text(drafted.recipe)
        if trace.conditions > MOST_CONDITIONS or writer.count > MOST_SIZES:
            raise Refused("there are too many conditions")
        # a size that was looked up in a table of the planner must not be one of the other integers of the graph
        body = [f"if {text} in integers: return None" for text in sorted(trace.looked_up)] + [f"return {result}"]
        defined = _names_in([line.partition(" = ")[0] for line in trace.lines if type(line) is str])
        defined.update([f"a{number}" for number in range(len(extents))])
        atoms = sorted(_names_in(body) & defined)
        body = [f"({_listed(atoms)}) = atoms", f"({_listed([f'd{n}' for n in range(len(data))])}) = data", *body]
        text = "def plan(atoms, data, nodes):\n" + "".join([f"    {line}\n" for line in body])
        # they are compared before anything is computed
        expected = [each.definition if type(each) is Data else text_of(each) for each in map(given.__getitem__, differ)]
        places = [firsts[pair] for pair in extents], [firsts[each] for each in data]
        self._facts = _Facts(
            Frame(same, getter(same)(now), *places, differ, expected),
            trace.lines,
            atoms,
            writer.kept,
            integers,
            trace.conditions,
            marshal.dumps(compile(text, "<a plan for any extents>", "exec")),
        )
        # caches of the planner still hold sizes
        trace.close()
        self._prepare()

    def _prepare(self) -> None:
        facts = self._facts
        space = {**SPACE, "integers": facts.integers}
        space["kept"] = [DTYPES[each[0]] if isinstance(each, list) else each for each in facts.kept]
        #: returns the recipe for atoms, constants and nodes; None if a table of the planner has another entry for them
        self.recipe: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Recipe | None]
        self.recipe = function_of(facts.code, space)

    @property
    def frame(self) -> Frame:
        """How the integers of a graph are read."""
        return self._facts.frame

    @property
    def lines(self) -> list[Line]:
        """What the planner computed and asked, in order."""
        return self._facts.lines

    @property
    def atoms(self) -> list[str]:
        """The atoms that the recipe is made from, and bytes of constants."""
        return self._facts.atoms

    @property
    def conditions(self) -> int:
        """The number of conditions."""
        return self._facts.conditions

    def stored(self) -> tuple[Any, ...]:
        """Return the plan as plain data, for the Python version that runs this."""
        return (tuple(self._facts.frame), *self._facts[1:])

    @classmethod
    def restored(cls, stored: tuple[Any, ...]) -> SizedPlan:
        """Return a plan that was stored."""
        plan = cls.__new__(cls)
        plan._facts = _Facts(Frame(*stored[0]), *stored[1:])
        plan._prepare()
        return plan


def function_of(code: bytes, space: dict[str, Any]) -> Any:
    """Return the function of a compiled text, which has names of the planner, numbers and their operators."""
    module: CodeType = marshal.loads(code)
    return FunctionType(next(each for each in module.co_consts if isinstance(each, CodeType)), space)


def _names_in(texts: Sequence[str]) -> set[str]:
    """Return the names of atoms and of bytes in expressions, and possibly others."""
    return {name for text in texts for name in _NAMES.findall(text)}


def _listed(names: Sequence[str]) -> str:
    return " ".join([f"{name}," for name in names])


#: the names of atoms, and of bytes of constants
_NAMES = re.compile(r"\b[ab]\d+\b")


def _integers(nodes: Iterable[Node]) -> frozenset[int]:
    """Return the extents, strides and sizes of nodes that do not follow from extents."""
    found: set[Any] = set()
    for shape in [node.shape for node in nodes]:
        found.update([*shape, *contiguous_strides(shape), math.prod(shape)])
    return frozenset([size for size in found if type(size) is int and size > 1])


#: how floating numbers are written, by the number of their dtype: a tenth of the time of an array
_PACKERS: dict[int, struct.Struct] = {FLOAT32.num: struct.Struct("f"), FLOAT64.num: struct.Struct("d")}


def _bytes_of(value: float, kind: int) -> bytes:
    packer = _PACKERS.get(kind)
    if packer is not None and -LARGEST < value < LARGEST:
        return packer.pack(value)
    return convert_scalar(value, DTYPES[kind]).tobytes()


def _number_in(data: bytes, kind: int) -> float:
    packer = _PACKERS.get(kind)
    if packer is not None:
        return packer.unpack(data)[0]  # type: ignore[no-any-return]
    return float(np.frombuffer(data, DTYPES[kind])[0])


def getter(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that takes the integers at some places, as a tuple."""
    if not places:
        return lambda sizes: ()
    if len(places) == 1:
        (place,) = places
        return lambda sizes: (sizes[place],)
    return operator.itemgetter(*places)


def _sizes_of(pairs: Sequence[Any], trace: Trace) -> tuple[dict[Any, Any], list[tuple[int, int]]]:
    """Return sizes for pairs of integers, and the pairs that are extents, both in order.

    The smallest are extents, because others are their multiples. They have numbers in the order of the pairs, so that
    the lines of two plans are about the same extents.
    """
    integers = sorted([pair for pair in pairs if type(pair[0]) is int])
    basis: list[tuple[int, int]] = []
    for pair in integers:
        if min(pair) < SMALLEST or max(pair) > LARGEST:
            raise Refused("an extent is out of range")
        if _as_product(pair, basis) is None:
            basis.append(pair)
    sizes: dict[Any, Any] = {pair: trace.extent(pair[1]) for pair in pairs if pair in basis}
    for pair in integers:
        if pair not in sizes:
            factors, times, distance = _as_product(pair, basis) or ((), 1, 0)
            sizes[pair] = math.prod([sizes[factor] for factor in factors]) * times + distance
    return sizes, [pair for pair in pairs if pair in basis]


def _as_product(
    pair: tuple[int, int], extents: Sequence[tuple[int, int]]
) -> tuple[tuple[tuple[int, int], ...], int, int] | None:
    """Return a pair of integers as a multiple of an extent or of a product of two, or as near to an extent; or None.

    The parts are the factors, a number by which their product is multiplied, and one that is added.
    """
    products: list[tuple[tuple[int, int], ...]] = [(one,) for one in extents]
    products += [(one, two) for number, one in enumerate(extents) for two in extents[number:]]
    for factors in products:
        first, second = [math.prod(each) for each in zip(*factors)]
        if pair[0] % first == 0 and pair[1] % second == 0 and pair[0] // first == pair[1] // second:
            return factors, pair[0] // first, 0
    for extent in extents:
        distance = pair[0] - extent[0]
        if pair[1] - extent[1] == distance and abs(distance) <= NEAR:
            # the bounds of a slice, say
            return (extent,), 1, distance
    return None


def _as_number(pair: tuple[bytes, bytes], extents: Sequence[tuple[int, int]], sizes: dict[Any, Any]) -> Any:
    """Return the bytes of two constants as those of a multiple of extents, such as the number of terms of a mean."""
    for dtype in (FLOAT32, FLOAT64):
        if len(pair[0]) == len(pair[1]) == dtype.itemsize:
            first, second = [float(np.frombuffer(data, dtype)[0]) for data in pair]
            if first.is_integer() and second.is_integer() and min(first, second) >= SMALLEST:
                found = _as_product((int(first), int(second)), extents)
                if found is None:
                    continue
                factors, times, distance = found
                data = (math.prod([sizes[factor] for factor in factors]) * times + distance).in_bytes(dtype)
                if data.plain == pair[1]:
                    return data
    return None


_KINDS = (Recipe, RowStep, RecipeLaunch, NumpyStep, AliasStep, Memory)
#: the names that functions use
SPACE: dict[str, Any] = {
    **DECISIONS,
    "arrange": memory_pool.arrange,
    "Lifetime": memory_pool.Lifetime,
    "math": math,
    "_NULL": b"\0",
    "bytes_of": _bytes_of,
    "number_in": _number_in,
    **{kind.__name__: kind for kind in _KINDS},
}


class _Writer:
    """Writes a recipe as a Python expression of atoms, of ``nodes`` and of dtypes, which are kept."""

    def __init__(self, numbers: dict[Node, int]) -> None:
        self._numbers = numbers
        self.kept: list[Any] = []
        self.count = 0

    def text(self, value: Any) -> str:
        """Return a value as an expression."""
        kind = type(value)
        if kind is int:
            return str(value)
        if kind is Size:
            self.count += 1
            return text_of(value)
        if kind is list:
            return f"[{', '.join([self.text(part) for part in value])}]"
        if kind is tuple:
            return f"({''.join([f'{self.text(part)}, ' for part in value])})"
        if kind in _KINDS:
            return f"{kind.__name__}({', '.join([self.text(part) for part in value])})"
        if kind is Joined:
            parts = [part.text if type(part) is Data else repr(part) for part in value.parts]
            return f"b''.join([{', '.join([f'{part}.ljust(8, _NULL)' for part in parts])}])"
        if isinstance(value, Node):
            return f"nodes[{self._number(value)}]"
        if kind is bytes or isinstance(value, np.dtype):
            self.kept.append(value if kind is bytes else [value.num])
            return f"kept[{len(self.kept) - 1}]"
        raise Refused(f"{kind} in a plan")

    def _number(self, node: Node) -> int:
        number = self._numbers.get(node)
        if number is None:
            raise Refused("a plan refers to a node of its own")
        return number
