"""Sized plans: one plan as a function of extents, for all graphs that lead the planner the same way.

Takes a planner that can be run on *sizes* (:mod:`~phonograd.core.plan.sizes`) in the place of integers, from
:mod:`~phonograd.core.plan.any_extents` for graphs and from :mod:`~phonograd.core.plan.record_graph` for records. The
recipe that it makes is a Python function of the extents, with a condition for each answer that the planner got. It can
be stored on disk. See docs/decisions/0047.

A plan is used only if it holds: each integer that did not differ is the same, each that did is the same multiple of the
extents, and all conditions have the same answers.
"""

from __future__ import annotations

import marshal
import math
import operator
import re
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
from .sizes import LARGEST, SMALLEST, Data, Joined, Size, Trace, text_of

__all__ = ["DTYPES", "Draft", "Refused", "SizedPlan"]

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


class _Facts(NamedTuple):
    """Everything that a plan consists of, as plain data."""

    same: list[int]
    """The places of integers that are the same in all graphs."""
    values: tuple[Any, ...]
    extents: list[int]
    """The places of the extents, and of constants that are read from each graph."""
    data: list[int]
    differ: list[int]
    """The places of all integers that are not the same."""
    kept: list[Any]
    """Bytes, and numbers of dtypes in lists."""
    integers: frozenset[int]
    conditions: int
    code: bytes


class SizedPlan:
    """A plan for all graphs whose integers lead the planner the same way.

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
        #: by pair of integers the size
        sizes: dict[tuple[Any, Any], Any] = {}
        extents: list[tuple[int, int]] = []
        for pair in sorted([pair for pair in pairs if type(pair[0]) is int]):
            if min(pair) < SMALLEST or max(pair) > LARGEST:
                raise Refused("an extent is out of range")
            found = _as_product(pair, extents, sizes)
            if found is None:
                extents.append(pair)
                found = trace.extent(pair[1])
            sizes[pair] = found
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
        names = [f"a{number}" for number in range(len(extents))], [f"d{number}" for number in range(len(data))]
        expected = [text_of(given[place]) for place in differ]
        writer = _Writer({node: number for number, node in enumerate(drafted.nodes)})
        text = _text(drafted.recipe, writer, trace, names, expected)
        self._facts = _Facts(
            same,
            _getter(same)(now),
            [firsts[pair] for pair in extents],
            [firsts[each] for each in data],
            differ,
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
        self._same, self._differ = _getter(facts.same), _getter(facts.differ)
        self._extents, self._data = _getter(facts.extents), _getter(facts.data)
        space = {**_SPACE, **DECISIONS, "integers": facts.integers}
        space["kept"] = [DTYPES[each[0]] if isinstance(each, list) else each for each in facts.kept]
        # the module consists of one function, whose text has names of this module, numbers and their operators
        module: CodeType = marshal.loads(facts.code)
        code = next(each for each in module.co_consts if isinstance(each, CodeType))
        self._function = FunctionType(code, space)

    @property
    def conditions(self) -> int:
        """The number of conditions."""
        return self._facts.conditions

    def stored(self) -> tuple[Any, ...]:
        """Return the plan as plain data, for the Python version that runs this."""
        return tuple(self._facts)

    @classmethod
    def restored(cls, stored: tuple[Any, ...]) -> SizedPlan:
        """Return a plan that was stored."""
        plan = cls.__new__(cls)
        plan._facts = _Facts(*stored)
        plan._prepare()
        return plan

    def recipe(self, sizes: Sequence[Any], nodes: Sequence[Any]) -> Recipe | None:
        """Return the plan of a graph; None if it does not hold for its integers.

        Parameters
        ----------
        nodes
            The nodes that it refers to, by number.
        """
        if self._same(sizes) != self._facts.values:
            return None
        extents = self._extents(sizes)
        if extents and (min(extents) < SMALLEST or max(extents) > LARGEST):
            return None
        try:
            return self._function(extents, self._data(sizes), self._differ(sizes), nodes)  # type: ignore[no-any-return]
        except ArithmeticError:
            # a division by zero, which the planner would not get to
            return None


def _text(
    recipe: Recipe, writer: _Writer, trace: Trace, names: tuple[list[str], list[str]], expected: Sequence[str]
) -> str:
    """Return the function of extents, constants, the integers that follow from them, and nodes, for the recipe.

    A size that was looked up in a table of the planner must not be one of the other integers of the graph.
    """
    result = writer.text(recipe)
    if trace.conditions > MOST_CONDITIONS or writer.count > MOST_SIZES:
        raise Refused("there are too many conditions")
    lines = [f"({' '.join([f'{name},' for name in each])}) = {of}" for each, of in zip(names, ("extents", "data"))]
    lines += [f"if differ != ({', '.join(expected)},): return None", *_quick_first(trace.lines)]
    lines += [f"if {text} in integers: return None" for text in sorted(trace.looked_up)] + [f"return {result}"]
    return "def plan(extents, data, differ, nodes):\n" + "".join([f"    {line}\n" for line in lines])


def _quick_first(lines: Sequence[str]) -> list[str]:
    """Return the lines of a trace with calls, and what follows from them, last: most plans do not hold for most graphs.

    >>> _quick_first(["a1 = divide(a0)", "if a1 < 0: return None", "if a0 < 9: return None"])
    ['if a0 < 9: return None', 'a1 = divide(a0)', 'if a1 < 0: return None']
    """
    late: set[str] = set()
    quick, slow = list[str](), list[str]()
    for line in lines:
        names = _NAMES.findall(line)
        if late.isdisjoint(names) and not _CALL.search(line):
            quick.append(line)
        else:
            slow.append(line)
            if not line.startswith("if "):
                late.update(_NAMES.findall(line.partition(" = ")[0]))
    return quick + slow


#: the names of atoms, and calls
_NAMES, _CALL = re.compile(r"\ba\d+\b"), re.compile(r"\w\(")


def _integers(nodes: Iterable[Node]) -> frozenset[int]:
    """Return the extents, strides and sizes of nodes that do not follow from extents."""
    found: set[Any] = set()
    for shape in [node.shape for node in nodes]:
        found.update([*shape, *contiguous_strides(shape), math.prod(shape)])
    return frozenset([size for size in found if type(size) is int and size > 1])


def _bytes_of(value: float, kind: int) -> bytes:
    return convert_scalar(value, DTYPES[kind]).tobytes()


def _number_in(data: bytes, kind: int) -> float:
    return float(np.frombuffer(data, DTYPES[kind])[0])


def _getter(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that takes the integers at some places, as a tuple."""
    if not places:
        return lambda sizes: ()
    if len(places) == 1:
        (place,) = places
        return lambda sizes: (sizes[place],)
    return operator.itemgetter(*places)


def _as_product(pair: tuple[int, int], extents: Sequence[tuple[int, int]], sizes: dict[tuple[int, int], Any]) -> Any:
    """Return a pair of integers as a multiple of an extent or of a product of two, or as near to an extent; or None."""
    products = [(one, sizes[one]) for one in extents]
    products += [
        ((one[0] * two[0], one[1] * two[1]), sizes[one] * sizes[two])
        for number, one in enumerate(extents)
        for two in extents[number:]
    ]
    for (first, second), size in products:
        if pair[0] % first == 0 and pair[1] % second == 0 and pair[0] // first == pair[1] // second:
            return size * (pair[0] // first)
    for extent in extents:
        distance = pair[0] - extent[0]
        if pair[1] - extent[1] == distance and abs(distance) <= NEAR:
            # the bounds of a slice, say
            return sizes[extent] + distance
    return None


def _as_number(pair: tuple[bytes, bytes], extents: Sequence[tuple[int, int]], sizes: dict[Any, Any]) -> Any:
    """Return the bytes of two constants as those of a multiple of extents, such as the number of terms of a mean."""
    for dtype in (FLOAT32, FLOAT64):
        if len(pair[0]) == len(pair[1]) == dtype.itemsize:
            first, second = [float(np.frombuffer(data, dtype)[0]) for data in pair]
            if first.is_integer() and second.is_integer() and min(first, second) >= SMALLEST:
                size = _as_product((int(first), int(second)), extents, sizes)
                if size is not None and size.in_bytes(dtype).plain == pair[1]:
                    return size.in_bytes(dtype)
    return None


_KINDS = (Recipe, RowStep, RecipeLaunch, NumpyStep, AliasStep, Memory)
#: the names that functions use
_SPACE: dict[str, Any] = {
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
