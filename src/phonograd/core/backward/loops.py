"""Loops in a new record: stretches whose nodes repeat, turn by turn.

Takes the nodes of a record from :mod:`.eager`, users first, which is the order of the pass. A recurrent network over
another number of steps is another record, which runs operator by operator, but its steps are the same. A *loop* is a
stretch of the record in which each node is like the one a *period* before it: the same operator, and inputs at the same
distance. A *turn* is one period of it. What all turns have in common, in any record, is their *body*, which is planned
once (:mod:`.loop_bodies`). See docs/decisions/0054.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..base.hot import hot
from ..derive.gradient import call_of
from ..graph.node import FORGOTTEN, Node, type_of
from ..ops.math.structural import REPEAT_CALL, VARIABLE
from ..plan.eager_batches import Policy
from ..plan.record_graph import COMPOSITE, is_fixed
from .loop_bodies import Body, Turn, body_key

__all__ = ["find_turns"]

#: turns of a loop, and nodes of a turn, from which on a program takes less time
LEAST_TURNS, LEAST_NODES, MOST_NODES = 4, 6, 1024
#: periods to try in a record
MOST_PERIODS = 3
#: bodies to keep
MOST_BODIES = 256

#: bodies by what turns have in common
_bodies: dict[Any, Body] = {}
#: which records are searched
_policy = Policy()


def _forget_nodes() -> None:
    """Drop the bodies without programs, which hold nodes."""
    for key, body in list(_bodies.items()):
        if not body.is_ready:
            _bodies.pop(key, None)


FORGOTTEN.connect(_forget_nodes)


def find_turns(visited: Sequence[Node]) -> list[Turn]:
    """Return the turns of the loops of a record, users first, that have programs; the others are counted."""
    if not _policy.tries(len(visited)):
        return []
    places = _number(visited)
    stretches = _stretches(visited, places)
    _policy.note(bool(stretches))
    if not stretches:
        return []
    firsts = [stretch.first + turn * stretch.period for stretch in stretches for turn in range(stretch.turns)]
    turn_of = [0] * len(visited)
    for number, first in enumerate(firsts, 1):
        period = _period_at(first, stretches)
        turn_of[first : first + period] = [number] * period
    used = _used_outside(visited, places, turn_of)
    found: list[Turn] = []
    for stretch in stretches:
        found += _turns_of(stretch, visited, used)
    return found


def _period_at(place: int, stretches: Sequence[_Stretch]) -> int:
    """Return the period of the stretch that contains a place."""
    return next(each.period for each in stretches if each.first <= place < each.first + each.period * each.turns)


def _turns_of(stretch: _Stretch, visited: Sequence[Node], used: Sequence[bool]) -> list[Turn]:
    """Return the turns of a stretch that have programs."""
    found: list[Turn] = []
    #: places of turns by which of their nodes are used outside
    firsts: dict[tuple[bool, ...], list[int]] = {}
    for turn in range(stretch.turns):
        first = stretch.first + turn * stretch.period
        firsts.setdefault(tuple(used[first : first + stretch.period]), []).append(first)
    for flags, some in firsts.items():
        if len(some) < LEAST_TURNS - 1:
            # the first or the last turn of a loop
            continue
        nodes = list(visited[some[0] : some[0] + stretch.period])
        key = body_key(nodes, flags)
        body = _bodies.get(key)
        if body is None:
            if len(_bodies) >= MOST_BODIES:
                _bodies.clear()
            body = _bodies[key] = Body(nodes, flags)
        if not body.is_ready:
            body.note_turns(len(some))
            continue
        for first in some:
            turn_nodes = visited[first : first + stretch.period]
            if body.fits(turn_nodes):
                found.append(Turn(first, turn_nodes, body))
    return sorted(found, key=lambda turn: turn.first)


@hot
def _number(visited: Sequence[Node]) -> dict[Node, int]:
    """Return the place of every node."""
    places: dict[Node, int] = {}
    for place, node in enumerate(visited):
        places[node] = place
    return places


@hot
def _occurrences(visited: Sequence[Node]) -> dict[Any, list[int]]:
    """Return by kind of node the places of the nodes of that kind."""
    found: dict[Any, list[int]] = {}
    for place, node in enumerate(visited):
        if node.recipe is not None:
            before = found.get(node.recipe)
            if before is None:
                found[node.recipe] = [place]
            else:
                before.append(place)
    return found


def _periods(visited: Sequence[Node]) -> list[int]:
    """Return distances at which nodes of a rare kind follow each other."""
    counted: dict[int, int] = {}
    for places in sorted(_occurrences(visited).values(), key=len):
        if len(places) >= LEAST_TURNS:
            steps = [two - one for one, two in pairwise(places)]
            step = max(set(steps), key=steps.count)
            if LEAST_NODES <= step <= MOST_NODES and steps.count(step) >= LEAST_TURNS - 1:
                counted.setdefault(step, steps.count(step))
                if len(counted) >= MOST_PERIODS:
                    break
    return list(counted)


@hot
def _runs(visited: Sequence[Node], places: Mapping[Node, int], period: int) -> list[tuple[int, int]]:
    """Return the first places and the ends of rows of nodes that are like the nodes a period before them."""
    found: list[tuple[int, int]] = []
    start = place = period
    for before in visited[: len(visited) - period]:
        if not _is_alike(before, visited[place], places, period):
            if place - start >= period:
                found.append((start, place))
            start = place + 1
        place += 1
    if place - start >= period:
        found.append((start, place))
    return found


@hot
def _is_alike(one: Node, two: Node, places: Mapping[Node, int], period: int) -> bool:
    """Return whether two nodes a period apart have the same operator and attributes, and the same kinds of inputs.

    Inputs within the next period are a period apart, too. Others are outside of the turn, wherever its first node is.
    """
    if one.operator is not two.operator:
        return False
    first, second = places[one] + period, places[two] + period
    if one.operator is REPEAT_CALL:
        one, two = call_of(one), call_of(two)
    if one.recipe is None or one.recipe is not two.recipe:
        declared = one.operator
        if declared is not two.operator or type_of(one) is not type_of(two) or len(one.inputs) != len(two.inputs):
            return False
        if declared.is_view:
            if declared is not COMPOSITE:
                return False
        elif one.attributes != two.attributes:
            return False
    for source, other in zip(one.inputs, two.inputs):
        if source is other:
            # a variable, a constant, or another value that is the same in all turns
            if source.marked and source.operator is not VARIABLE and places[source] < second:
                return False
        elif type_of(source) is not type_of(other):
            return False
        elif source.marked:
            if source.operator is VARIABLE or other.operator is VARIABLE:
                return False
            place, following = places[source], places[other]
            if following - place != period and (place < first or following < second):
                return False
        elif is_fixed(source) or is_fixed(other):
            return False
    return True


class _Stretch(NamedTuple):
    """Turns that follow each other: the place of the first node, the nodes of a turn, and the number of turns."""

    first: int
    period: int
    turns: int


def _stretches(visited: Sequence[Node], places: Mapping[Node, int]) -> list[_Stretch]:
    """Return the loops of a record, in order."""
    found: list[_Stretch] = []
    left = len(visited)
    for period in _periods(visited):
        for start, end in _runs(visited, places, period):
            stretch = _Stretch(start - period, period, (end - start) // period + 1)
            if stretch.turns >= LEAST_TURNS and not any([_overlap(stretch, other) for other in found]):
                found.append(stretch)
                left -= period * stretch.turns
        if left < len(visited) // 2:
            break
    return sorted(found)


def _overlap(one: _Stretch, two: _Stretch) -> bool:
    return one.first < two.first + two.period * two.turns and two.first < one.first + one.period * one.turns


@hot
def _used_outside(visited: Sequence[Node], places: Mapping[Node, int], turn_of: Sequence[int]) -> list[bool]:
    """Return whether a node outside of its turn reads each node, given the numbers of turns, 0 for none."""
    found = [False for _ in visited]
    found[0] = True
    for place, node in enumerate(visited):
        turn = turn_of[place]
        if node.operator is not VARIABLE:
            for source in call_of(node).inputs:
                if source.marked:
                    at = places[source]
                    if not turn or turn_of[at] != turn:
                        found[at] = True
    return found
