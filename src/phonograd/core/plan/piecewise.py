"""Piecewise programs: compute a graph operator by operator, without planning it as a whole.

Takes nodes from :func:`phonograd.core.plan.cache.choose_program`, and small programs from
:mod:`~phonograd.core.plan.disk`. A plan pays if it is used again: making one takes about 200 us for each operator.
Programs whose graphs follow their data (trees, parses, searches) make another graph each time and would plan all the
time. Where the latest plans were hardly ever used again (:class:`phonograd.core.plan.cache.Novelty`), a new graph is
computed operator by operator, each by a small program that is shared by all equal operators on arrays of the same
shapes: a *piece*. Fusion never changes a bit, so only the time differs. A graph that is met for the second time is
planned. See docs/decisions/0018.

A piece is one node together with the nodes below it that only move elements: transposes, repetitions, constants.
Several outputs of one operator are one piece. Taking or replacing a part of an array is no piece, because there are too
many different parts: NumPy does it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ..base.outside import is_from_outside
from ..graph.node import Node
from ..graph.operator import ABSENT, Array, item_operator
from ..ops.math.structural import leaf
from ..run.gc_pause import gc_paused
from ..run.programs import Note, Part
from ..run.reference import order, resolve
from .disk import program_for
from .expansion import lowering_of

__all__ = ["MOST_NUMBERS_PER_NODE", "PiecewiseProgram"]

#: pieces to cache: operators on arrays of certain shapes
MOST_PIECES = 4096
#: the average number of elements of a node below which planning takes longer than writing and reading them again:
#: 25 us or more at some GB/s
MOST_NUMBERS_PER_NODE = 1 << 15
#: nodes that only move elements, one above the other, that are part of one piece
DEEPEST = 6

_ITEM = item_operator()
_ABSENT = ABSENT.operator


class _Piece(NamedTuple):
    """The program of one operator: a function of a list of arrays, the arrays that it reads, and its results."""

    run: Callable[[list[Any]], Sequence[Any]]
    sources: tuple[int, ...]
    results: tuple[int, ...]


#: the function of a piece, its results, the slots that it reads, fills and empties, and its first node
_Step = tuple[Callable[[list[Any]], Sequence[Any]], tuple[int, ...], list[int], list[int], list[int], Node]

_pieces: dict[Any, _Piece] = {}


class PiecewiseProgram:
    """A :class:`~phonograd.core.run.programs.Program` that computes nodes operator by operator, once."""

    __slots__ = ("_steps", "_width", "inputs", "kept")

    donatable: tuple[int, ...] = ()
    is_provisional = True
    memory = None

    def __init__(
        self,
        targets: Iterable[Node],
        available: Callable[[Node], bool],
        keep_all: bool = False,
        ordered: tuple[tuple[Node, ...], list[Node]] | None = None,
    ) -> None:
        with gc_paused():
            self._divide([resolve(node) for node in targets], available, keep_all, ordered)

    def _divide(
        self,
        wanted: list[Node],
        available: Callable[[Node], bool],
        keep_all: bool,
        ordered: tuple[tuple[Node, ...], list[Node]] | None,
    ) -> None:
        self.inputs, computed = order(wanted, available) if ordered is None else ordered
        given = set(self.inputs)
        asked = {node for node in wanted if node not in given and node.operator is not _ABSENT}
        pieces, moved = _split(computed, asked)
        slots = {node: slot for slot, node in enumerate(self.inputs)}
        self._steps: list[_Step] = []
        last_use: dict[int, list[int]] = {}
        for nodes in pieces:
            node = nodes[0]
            piece, read = _moving(node, slots, node in asked) if node in moved else _piece(nodes, slots)
            sources = [slots[read[number]] for number in piece.sources]
            first = len(slots)
            for place, made in enumerate(nodes, first):
                slots[made] = place
            done: list[int] = []
            for source in sources:
                last_use[source] = done
            self._steps.append((piece.run, piece.results, sources, list(range(first, len(slots))), done, node))
        kept = [node for nodes in pieces for node in nodes if node in asked or (keep_all and not moved.get(node))]
        #: (node, slot) of every value that a run returns
        self.kept = [(node, slots[node]) for node in kept]
        keep = {slot for _, slot in self.kept}
        for slot, done in last_use.items():
            if slot not in keep:
                done.append(slot)
        self._width = len(slots)

    @property
    def parts(self) -> list[Part]:
        """The pieces in order; none after the run."""
        return [_part(step[-1]) for step in self._steps]

    def run(self, inputs: list[Any], donated: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes (see :class:`..run.programs.Program`); no input is written over."""
        values: list[Any] = inputs + [None] * (self._width - len(inputs))
        # the plan cache keeps the program, which need not keep its steps
        steps, self._steps = self._steps, []
        for run, results, sources, slots, done, node in steps:
            start = perf_counter_ns() if note is not None else 0
            try:
                found = run([values[source] for source in sources])
            except Exception as error:
                if is_from_outside(error):
                    raise
                raise _at(error, node) from error
            for slot, number in zip(slots, results):
                values[slot] = found[number]
            if note is not None:
                note(_part(node), start, perf_counter_ns())
            for slot in done:
                values[slot] = None
        return [values[slot] for _, slot in self.kept]


def _part(node: Node) -> Part:
    """Return a piece as observers see it."""
    return Part((node,), (), (*map(resolve, node.inputs), node), (node,))


def _at(error: Exception, node: Node) -> Exception:
    """Return an error that names the user's line: a piece is shared by several lines."""
    if not node.origin or type(error).__init__ is not Exception.__init__:
        return error
    return type(error)(f"{error}, called at {node.where()}")


def _split(computed: Sequence[Node], asked: Container[Node]) -> tuple[list[list[Node]], dict[Node, bool]]:
    """Return the nodes of each piece whose values are arrays, oldest first.

    Also return the nodes that NumPy makes, and whether each is a part of another array.
    """
    depths: dict[Node, int] = {}
    pieces: list[list[Node]] = []
    moved: dict[Node, bool] = {}
    by_whole: dict[Node, list[Node]] = {}
    for node in computed:
        if node.outputs is not None or node.operator is _ABSENT:
            depths[node] = _depth(node, depths)
            continue
        lowering = lowering_of(node)
        if lowering.is_view or lowering.is_constant:
            if node.inputs and node.operator is not _ITEM and node.size < resolve(node.inputs[0]).size:
                moved[node] = True
            elif (depth := _depth(node, depths)) < DEEPEST:
                depths[node] = depth + 1
                if node not in asked:
                    continue
        elif lowering.replaces_part:
            moved[node] = False
        elif node.operator is _ITEM and node.inputs[0] in by_whole:
            by_whole[node.inputs[0]].append(node)
            continue
        pieces.append([node])
        if node.operator is _ITEM and node not in depths:
            by_whole[node.inputs[0]] = pieces[-1]
    return pieces, moved


def _depth(node: Node, depths: Mapping[Node, int]) -> int:
    """Return the number of nodes below a node, one above the other, that only move elements."""
    return max([depths.get(resolve(source), 0) for source in node.inputs], default=0)


def _moving(node: Node, arrays: Container[Node], apart: bool) -> tuple[_Piece, list[Node]]:
    """Return the piece in which NumPy makes a node that computes nothing, and the nodes whose values it reads.

    With ``apart``, its value has memory of its own.
    """
    read: dict[Node, int] = {}

    def function(one: Node) -> Callable[[list[Any]], Any]:
        if one in arrays:
            return operator.itemgetter(read.setdefault(one, len(read)))
        made, sources = one.operator.reference(one.attributes), [function(resolve(source)) for source in one.inputs]
        return lambda values: made(*[source(values) for source in sources])

    whole = function(node)
    made = (lambda values: (np.array(whole(values)),)) if apart else lambda values: (whole(values),)
    return _Piece(made, tuple(range(len(read))), (0,)), list(read)


def _piece(nodes: Sequence[Node], arrays: Container[Node]) -> tuple[_Piece, list[Node]]:
    """Return the piece that computes some nodes, and the nodes whose values it reads."""
    read: dict[Node, int] = {}
    key = tuple([_describe(node, arrays, read) for node in nodes])
    found = _pieces.get(key)
    if found is None:
        found = _plan(nodes, read)
        if len(_pieces) >= MOST_PIECES:
            _pieces.clear()
        _pieces[key] = found
    return found, list(read)


def _describe(node: Node, arrays: Container[Node], read: dict[Node, int]) -> Any:
    """Return the key of a piece for a node, and note the nodes whose values it reads."""
    sources: list[Any] = []
    for source in node.inputs:
        while source.operator.is_view:
            source = source.inputs[0]
        if source in arrays:
            sources.append((read.setdefault(source, len(read)), source.shape, source.kind))
        else:
            sources.append(_describe(source, arrays, read))
    return node.operator, node.attributes, *sources


def _plan(nodes: Sequence[Node], read: dict[Node, int]) -> _Piece:
    """Return the program of a piece, for the same expressions of other leaves."""
    made: dict[Node, Node] = {node: leaf(number, node.shape, node.dtype) for node, number in read.items()}

    def copied(node: Node) -> Node:
        found = made.get(node)
        if found is None:
            sources = tuple([copied(resolve(source)) for source in node.inputs])
            found = Node(node.operator, sources, node.attributes, node.shape, node.dtype, node.outputs, node.context)
            # equal pieces of other lines share it
            found.origin = found.gradient_of = None
            made[node] = found
        return found

    targets = [copied(node) for node in nodes]
    program = program_for(targets, {made[node] for node in read}.__contains__, False)
    places = {node: number for number, (node, _) in enumerate(program.kept)}
    sources = tuple([node.attributes[0] for node in program.inputs])
    return _Piece(program.run, sources, tuple([places[node] for node in targets]))
