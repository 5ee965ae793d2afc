"""The calls of a gradient rule of arrays: those that depend on extents, and elementwise ones that are joined.

Takes functions from :mod:`phonograd.core.plan.eager`, and hands calls to :mod:`.eager_rules`. A rule such as that of
``sigmoid`` is a difference and two products: three ufuncs on few numbers take longer than the rest of the rule. Where
the package brings one loop for all of them along, they are one call, with the same bits: each number is rounded as the
operators would round it. See docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..base.dtypes import FLOAT32, FLOAT64
from ..graph.generic import insert
from ..graph.node import Node, Shape, TensorType, new_node
from ..graph.operator import Operator
from ..kernels.elementwise_loop import ElementwiseLoop
from ..kernels.structure import Compute
from ..plan.eager import Function, function_for_any_shapes
from ..plan.eager_stacks import StackedFunction, elementwise_stack
from ..run.ufuncs import linked_ufunc, loop_of
from .deferred import Deferrable

__all__ = ["Calls", "Remade", "join_calls"]

#: values that a loop reads at most
MOST_SOURCES = 5

_DTYPES = (FLOAT32, FLOAT64)


class Remade(NamedTuple):
    """A call whose function depends on the extents of the arguments."""

    number: int
    operator: Operator
    attributes: Any
    sources: list[Node]
    type: TensorType
    simple: Callable[[tuple[Any, ...]], Function] | None
    """Returns the function for some attributes, which holds for arrays of any shapes."""

    def function(self, shapes: Sequence[Shape]) -> Function:
        """Return the function for certain shapes of the arguments."""
        attributes = insert(self.attributes, shapes)
        if self.simple is not None:
            return self.simple(attributes)
        node = new_node(self.operator, tuple(self.sources), attributes, self.type, None, None)
        return function_for_any_shapes(node, self.sources)


class Calls(NamedTuple):
    """Calls in order, each with the numbers of the values that it takes, and the stacked form of each."""

    calls: list[tuple[Function, list[int]]]
    stacked: list[StackedFunction | None]
    ranks: list[int]
    """The number of axes of each result."""


def join_calls(given: Calls, first: int, rank_of: Callable[[int], int], results: list[Any]) -> Calls:
    """Return the calls with elementwise ones joined that only lead to one another; ``results`` get their new numbers.

    Parameters
    ----------
    first
        The number of the value of the first call.
    rank_of
        Returns the number of axes of a value before it.
    """
    calls, count = given.calls, len(given.calls)
    loops = [loop_of(function) for function, _ in calls]
    uses = [0] * count
    for places in [*[places for _, places in calls], *[_places_of(result) for result in results]]:
        for place in places:
            if place >= first:
                uses[place - first] += 1
    made = Calls([], [], [])
    numbers: dict[int, int] = {}
    pending: dict[int, _Expression] = {}
    for number, (function, places) in enumerate(calls):
        loop = loops[number]
        expression = None if loop is None else _expression(loop, places, pending, first)
        following = [other for other in range(number + 1, count) if first + number in calls[other][1]]
        if expression is not None and uses[number] == 1 and following and loops[following[0]] is not None:
            # it may become a part of the call that reads it
            pending[first + number] = expression
            continue
        joined = None if expression is None or len(expression.steps) == 1 else linked_ufunc(expression.loop())
        if joined is not None and expression is not None:
            sources = expression.sources
            missing = [
                given.ranks[number] - (rank_of(place) if place < first else given.ranks[place - first])
                for place in sources
            ]
            form: StackedFunction | None = elementwise_stack(joined, missing)
            _add(made, numbers, first, number, joined, sources, form, given.ranks[number])
            continue
        for place in places:
            # what was held back for this call is called on its own
            _add_pending(place, given, made, numbers, pending, first)
        _add(made, numbers, first, number, function, places, given.stacked[number], given.ranks[number])
    for number, result in enumerate(results):
        if result.__class__ is int:
            results[number] = numbers.get(result, result)
        elif isinstance(result, Deferrable):
            result.places = [numbers.get(place, place) for place in result.places]
    return made


class _Expression(NamedTuple):
    """Elementwise operators, whose last one is the result, and the numbers of the values that they read."""

    steps: tuple[Compute, ...]
    sources: list[int]
    last: ElementwiseLoop

    def loop(self) -> ElementwiseLoop:
        """Return the loop of all of them."""
        dtype = self.last.dtype
        return ElementwiseLoop(self.last.operator, (), (dtype,) * len(self.sources), dtype, self.last.lanes, self.steps)


def _places_of(result: Any) -> Sequence[int]:
    if result.__class__ is int:
        return (result,)
    return () if result is None else result.places


def _expression(
    loop: ElementwiseLoop, places: Sequence[int], pending: dict[int, _Expression], first: int
) -> _Expression | None:
    """Return a call with the expressions that it reads; None if that is no loop."""
    if loop.dtype not in _DTYPES or any([dtype != loop.dtype for dtype in loop.sources]):
        return None
    sources: list[int] = []
    for place in places:
        below = pending.get(place)
        sources += [place] if below is None else below.sources
    sources = list(dict.fromkeys(sources))
    if len(sources) > MOST_SOURCES:
        return None
    steps: list[Compute] = []
    read: list[int] = []
    for place in places:
        below = pending.get(place)
        if below is None:
            read.append(sources.index(place))
            continue
        if below.last.lanes != loop.lanes or below.last.dtype != loop.dtype:
            return None
        before, own = len(steps), len(below.sources)
        for step in below.steps:
            moved = [
                sources.index(below.sources[at]) if at < own else len(sources) + before + at - own
                for at in step.sources
            ]
            steps.append(step._replace(sources=tuple(moved)))
        read.append(len(sources) + len(steps) - 1)
    steps.append(Compute(loop.operator, loop.parameters, tuple(read), loop.dtype))
    return _Expression(tuple(steps), sources, loop)


def _add_pending(
    place: int,
    given: Calls,
    made: Calls,
    numbers: dict[int, int],
    pending: dict[int, _Expression],
    first: int,
) -> None:
    """Add a call that was held back, after those that it reads."""
    if place not in pending or place in numbers:
        return
    number = place - first
    function, places = given.calls[number]
    for each in places:
        _add_pending(each, given, made, numbers, pending, first)
    _add(made, numbers, first, number, function, places, given.stacked[number], given.ranks[number])


def _add(
    made: Calls,
    numbers: dict[int, int],
    first: int,
    number: int,
    function: Function,
    places: Sequence[int],
    form: StackedFunction | None,
    rank: int,
) -> None:
    numbers[first + number] = first + len(made.calls)
    made.calls.append((function, [numbers.get(place, place) for place in places]))
    made.stacked.append(form)
    made.ranks.append(rank)
