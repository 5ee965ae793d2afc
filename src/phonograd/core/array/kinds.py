"""Kinds of immediate calls: what a call computes, as a function of arrays that is found by the key of the call.

Takes calls from :mod:`.immediate`. A kind is made once for each operator, parameters, shapes and dtypes
(:data:`CALLS`). Where a kind holds for all shapes (elementwise operators), or for all extents of some patterns
(:mod:`phonograd.core.plan.eager_call`), it is found without the shapes (:data:`ANY_SHAPES`), and nothing is made or
kept for new extents.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import float_errors, processor
from ..base.errors import MXNetError
from ..base.hot import hot, slotted
from ..base.outside import is_from_outside
from ..graph.extents import tracing
from ..graph.generic import Learned, Pattern, pattern_of_shapes
from ..graph.guards import Guards, with_sizes, without_sizes
from ..graph.node import FORGOTTEN, Node, of_one_call, statistics
from ..graph.operator import Array, Operator
from ..ops.math.structural import LEAF, leaf
from ..plan.cache import PLANS, eager_is_available
from ..plan.eager_results import own_all
from ..run import driver, memory_pool
from ..run.reference import order, resolve
from ..trace.evaluation import PROGRESS
from ..trace.novelty import COST_OF_OTHERS
from ..trace.trace import Trace

if TYPE_CHECKING:
    from ..plan.eager import EagerProgram
    from ..plan.eager_call import AnyExtents

__all__ = [
    "ANY_SHAPES",
    "CALLS",
    "COST_BITS",
    "FACTOR",
    "KIND_MASK",
    "MOST_CALLS",
    "MOST_COST",
    "NUMBERS_PER_CALL",
    "Call",
    "General",
    "admit",
    "broadcast_size",
    "make",
    "without_shapes",
]

#: kinds of calls to keep
MOST_CALLS = 4096
#: sequences of calls are numbers: that of the kinds, and in the lowest bits what the calls cost
COST_BITS = 8
MOST_COST = (1 << COST_BITS) - 1
KIND_MASK = (1 << 53) - 1
FACTOR = 1000003
#: the numbers that a ufunc computes while it costs as much as its call
NUMBERS_PER_CALL = 4096
#: combinations of extents of one pattern to meet before it is learned: a program of immediate calls is new all the time
_LEAST_EXTENTS = 2

_new: Any = object.__new__
_UFUNC = np.ufunc
_serial = itertools.count(1)


@slotted
class Call:
    """A kind of call as a function of arrays."""

    __slots__ = ("direct", "function", "is_list", "kept", "limit", "nodes", "number", "results", "steps")

    def __init__(self, targets: Sequence[Node], program: EagerProgram | None, count: int, is_list: bool) -> None:
        self.is_list = is_list
        #: the nodes that are computed
        self.nodes: list[Node] = [] if program is None else program.nodes
        #: for each of them its function, and the numbers of the values that it reads: those of the arguments come first
        self.steps: list[tuple[Any, tuple[int, ...]]] = []
        numbers: dict[Node, int] = {}
        for node in () if program is None else program.inputs:
            numbers[node] = node.attributes[0]
        for number, node in enumerate(self.nodes):
            places = tuple([numbers[resolve(source)] for source in node.inputs])
            assert program is not None
            self.steps.append((program.function(number), places))
            numbers[node] = count + number
        #: stands for the kind in sequences of calls
        self.number = _number_of(self.steps, sum([node.size for node in self.nodes]))
        #: the number of each result among the values
        self.results = [node.attributes[0] if node.operator is LEAF else numbers[node] for node in targets]
        #: the function that computes the only node, if there is one, from the arguments as they are
        self.function: Any = None
        if len(self.steps) == 1 and self.results == [count] and self.steps[0][1] == tuple(range(count)):
            self.function = self.steps[0][0]
        #: the function of arrays that machine code calls; None if it does not
        self.direct: Any = None
        #: for kinds that are found without shapes, the largest result of broadcasting the arguments
        self.limit = 0

    @classmethod
    def of_direct(cls, direct: Callable[..., Any]) -> Call:
        """Return a kind of call that only machine code runs."""
        steps: list[tuple[Any, tuple[int, ...]]] = [(direct, ())]
        call = call_of_steps(steps, 0, [], _number_of(steps, 0))
        call.direct = direct
        return call

    def hasten(self, direct: Callable[..., Any], kept: Any) -> None:
        """Let machine code call a faster function, given the objects that must live as long as calls of it."""
        # each call holds this object
        self.kept = kept
        self.direct = direct

    def allow_direct(self, largest: int) -> None:
        """Let machine code run this kind, given the bytes of the largest array: the first argument, or a result.

        Large arrays are computed in memory of the pool (:func:`_compute_large`), which is left to Python.
        """
        if largest >= memory_pool.SMALLEST_BLOCK:
            return
        if type(self.function) is np.ufunc:
            self.direct = self.function
        elif self.function is not None:
            self.direct = _guarded(self.function)
        elif self.is_list:
            self.direct = _guarded_values(self)
        elif len(self.results) == 1:
            self.direct = _guarded_steps(self)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the results, each in memory of its own."""
        token = float_errors.ignore()
        try:
            values = self._values(arrays)
        finally:
            float_errors.restore(token)
        return own_all(arrays, values, self.results, [True] * len(self.results))

    @hot
    def value(self, arrays: Sequence[Array]) -> Any:
        """Return the first result, which may be a view."""
        values: list[Any] = [*arrays]
        for function, places in self.steps:
            values.append(function(*map(values.__getitem__, places)))
        return values[self.results[0]]

    @hot
    def own_values(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the results, each in memory of its own."""
        values, found = self._values(arrays), []
        for number in self.results:
            value = values[number]
            if type(value) is not np.ndarray or value.nbytes >= memory_pool.SMALLEST_BLOCK:
                return own_all(arrays, values, self.results, [True] * len(self.results))
            if type(value.base) is not np.ndarray:
                return own_all(arrays, values, self.results, [True] * len(self.results))
            # a view of another array, as `own_all` copies it: pieces of an array are nothing else
            found.append(value.copy())
        return found

    @hot
    def _values(self, arrays: Sequence[Array]) -> list[Any]:
        """Return the arguments, and the value of each node."""
        values: list[Any] = [*arrays]
        for function, places in self.steps:
            values.append(function(*map(values.__getitem__, places)))
        return values


@hot
def admit(kind: Any) -> bool:
    """Return whether machine code may run a call of a kind of :mod:`.single`, and count it; if not, Python decides."""
    if kind.left <= 0 or PROGRESS.get() or not (kind.is_small or kind.program.packed is None):
        return False
    kind.left = kind.left - 1
    statistics.evaluations += 1
    driver.prepare()
    return True


@hot
def call_of_steps(steps: list[tuple[Any, tuple[int, ...]]], count: int, nodes: list[Node], number: int) -> Call:
    """Return a kind of call whose result is the last of some steps, given the number of arguments and its own."""
    call = _new(Call)
    call.number, call.steps, call.nodes, call.is_list = number, steps, nodes, False
    call.results = [count + len(steps) - 1]
    call.function = call.direct = None
    call.limit = 0
    if len(steps) == 1 and steps[0][1] == tuple(range(count)):
        call.function = steps[0][0]
    return call  # type: ignore[no-any-return]


@hot
def _number_of(steps: Sequence[tuple[Any, Any]], size: int) -> int:
    """Return the number of a new kind of call in sequences, given its functions and the numbers that they compute."""
    cost = size // NUMBERS_PER_CALL
    for function, _ in steps:
        cost += 1 if type(function) is _UFUNC else COST_OF_OTHERS
    return next(_serial) << COST_BITS | min(cost, MOST_COST)


@hot
def _number_of_key(key: Any, calls: int, size: int) -> int:
    """Return the number in sequences of a kind that is known by its key, given what its calls and numbers cost."""
    return (hash(key) & KIND_MASK) << COST_BITS | min(calls + size // NUMBERS_PER_CALL, MOST_COST)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns None in the place of errors, apart from those of signal handlers."""

    def call(*arrays: Array) -> Any:
        try:
            return function(*arrays)
        except Exception as error:
            if is_from_outside(error):
                raise
            return None

    return call


def _guarded_steps(kind: Call) -> Callable[..., Any]:
    """Return the function of a kind of call of several operators, guarded as :func:`_guarded` does."""

    def call(*arrays: Array) -> Any:
        try:
            return kind.value(arrays)
        except Exception as error:
            if is_from_outside(error):
                raise
            return None

    return call


def _guarded_values(kind: Call) -> Callable[..., Any]:
    """Return the function of a kind of call of several results, guarded as :func:`_guarded` does."""

    def call(*arrays: Array) -> Any:
        try:
            return kind.own_values(arrays)
        except Exception as error:
            if is_from_outside(error):
                raise
            return None

    return call


#: kinds of calls, which machine code finds, too (:mod:`.fastcall.native_immediate`); None for those that become nodes
CALLS: dict[Any, Call | None] = {}
FORGOTTEN.connect(CALLS.clear)
#: kinds of calls that hold for other shapes as well, by their keys without shapes; machine code finds them, too
ANY_SHAPES: dict[Any, Call] = {}
FORGOTTEN.connect(ANY_SHAPES.clear)
#: calls for any extents by operator, attributes and pattern
_patterns: dict[Any, Learned[General]] = {}
FORGOTTEN.connect(_patterns.clear)
#: those of elementwise operators, which hold for all shapes, by operator, attributes and dtypes
_elementwise: dict[Any, General] = {}
FORGOTTEN.connect(_elementwise.clear)
#: the same with tests of the extents, by operator, attributes and dtypes
_guards: dict[Any, Guards[General]] = {}
FORGOTTEN.connect(_guards.clear)


def make(
    key: Any, declared: Operator, arrays: Sequence[Array], attributes: Any, outputs: Any, trace: Trace
) -> Call | None:
    """Return a new kind of call; None if such calls become nodes."""
    if declared.autocast is not None or max([array.size for array in arrays]) > processor.choices().numbers_per_node:
        return None
    if len(CALLS) >= MOST_CALLS:
        CALLS.clear()
    known, sizes, shapes, kind = _find_general(declared, arrays, attributes)
    if known is not None:
        _keep_for_all(key, known, kind, sizes)
        return known.call(key, arrays, sizes)
    others, families = kind[1], kind[2:]
    pattern = pattern_of_shapes(list(zip(families, shapes)), others, ())
    among = None if pattern is None else (declared, others, pattern.key)
    learned = None if among is None else _patterns.get(among)
    if learned is not None and pattern is not None and (known := learned.find_for(shapes)) is not None:
        if len(_guards) >= MOST_CALLS:
            _guards.clear()
        _guards.setdefault(kind, Guards()).learn(shapes, others, pattern, known.condition, known)
        _keep_for_all(key, known, kind, sizes)
        return known.call(key, arrays, sizes)
    if not trace.handles and not trace.leaves:
        # nothing is pending whose nodes have to be found again
        PLANS.trim()
    if not eager_is_available():
        return None
    try:
        found = _learn(key, declared, arrays, attributes, outputs, kind, pattern, among)
    except (MXNetError, ValueError, TypeError, IndexError):
        # the call as a node raises it
        return None
    CALLS[key] = found
    return found


def without_shapes(key: Any) -> tuple[Any, ...]:
    """Return the key of a kind of call without the shapes of its arguments.

    Keys of calls by name begin with operator and parameters, those of methods of binary operators with the operator.
    """
    first = 2 - len(key) % 2
    return (*key[:first], *key[first + 1 :: 2])


def _keep_for_all(key: Any, known: General, kind: Any, sizes: tuple[int, ...]) -> None:
    """Let calls like one be found without their shapes, given what holds for it."""
    short = without_shapes(key)
    if short in ANY_SHAPES:
        return
    if len(ANY_SHAPES) >= MOST_CALLS:
        ANY_SHAPES.clear()
    is_elementwise = known is _elementwise.get(kind)
    ANY_SHAPES[short] = known.for_all_shapes() if is_elementwise else known.for_patterns(_guards[kind], sizes)


def _find_general(
    declared: Operator, arrays: Sequence[Array], attributes: Any
) -> tuple[General | None, Any, list[Any], Any]:
    """Return the kind of call for all extents of a pattern, or for all shapes, that holds for some arrays, or None.

    The sizes among the attributes follow, the shapes, and the key of the guards.
    """
    others: Any = attributes
    sizes: Any = ()
    if declared.sizes:
        others, sizes = without_sizes(declared, attributes)
    shapes: list[Any] = []
    parts: list[Any] = [declared, others]
    for array in arrays:
        shapes.append(array.shape)
        parts.append(array.dtype.num)
    if sizes:
        shapes.append(sizes)
        parts.append(-1)
    kind = tuple(parts)
    known = _elementwise.get(kind)
    if known is not None:
        return known if _is_small(shapes) else None, sizes, shapes, kind
    guards = _guards.get(kind)
    return None if guards is None else guards.find(shapes), sizes, shapes, kind


def _is_small(shapes: Sequence[Any]) -> bool:
    """Return whether arrays of some shapes have a small result if they are broadcast."""
    return broadcast_size(shapes) <= processor.choices().numbers_per_node


def broadcast_size(shapes: Sequence[Any]) -> int:
    """Return the size of arrays that are broadcast."""
    return math.prod(
        [max(extents) for extents in itertools.zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1)]
    )


def _learn(
    key: Any,
    declared: Operator,
    arrays: Sequence[Array],
    attributes: Any,
    outputs: Any,
    kind: Any,
    pattern: Pattern | None,
    among: Any,
) -> Call | None:
    """Return a kind of call for the extents of some arrays, and learn it for all extents of its pattern."""
    others, sizes = without_sizes(declared, attributes)

    def make(leaves: Sequence[Node]) -> Any:
        given = attributes if len(leaves) == len(arrays) else with_sizes(others, leaves[-1].shape)
        # templates pay for calls that make nodes each time; this one makes them once for its kind
        with of_one_call(), tracing():
            return declared.apply(tuple(leaves[: len(arrays)]), given)

    leaves = [leaf(number, array.shape, array.dtype) for number, array in enumerate(arrays)]
    result = make(leaves)
    several = type(result) is not Node
    nodes = tuple(result) if several else (result,)
    is_list = False
    if outputs is not None and several:
        shown, is_list = outputs(declared, nodes, attributes)
        nodes = nodes[:shown]
    learned = None if several or among is None else _patterns.get(among)
    if learned is not None and pattern is not None and learned.is_to_learn(pattern.extents):
        from ..plan.eager_call import generalize_call

        general = generalize_call(result, leaves, others, pattern, make, sizes)
        known = None if general is None else General(general, order([resolve(result)], _is_leaf)[1])
        learned.learn(known)
        if known is not None:
            return known.call(key, arrays, sizes)
    found = _call_of([resolve(node) for node in nodes], len(arrays), is_list)
    if found is None:
        return None
    found.allow_direct(max([arrays[0].nbytes, *[node.size * node.dtype.itemsize for node in nodes]]))
    if several:
        return found
    from ..plan.eager_call import for_all_shapes

    elementwise = for_all_shapes(result, leaves) if result.operator is declared else None
    if elementwise is not None:
        if len(_elementwise) >= MOST_CALLS:
            _elementwise.clear()
        known = _elementwise[kind] = General(elementwise, found.nodes)
        _keep_for_all(key, known, kind, sizes)
    elif pattern is not None and learned is None:
        if len(_patterns) >= MOST_CALLS:
            _patterns.clear()
        _patterns[among] = Learned(pattern.extents, _LEAST_EXTENTS)
    return found


def _is_leaf(node: Node) -> bool:
    return node.operator is LEAF


@slotted
class General:
    """A kind of call for all extents of a pattern that meet a condition."""

    __slots__ = ("_cost", "_nodes", "condition", "function", "steps")

    def __init__(self, function: AnyExtents, nodes: list[Node]) -> None:
        self.function, self._nodes, self.condition = function, nodes, function.condition
        #: the functions that compute it, with the numbers of the values that they read, if they hold for all extents
        self.steps = function.fixed()
        self._cost = sum([1 if is_ufunc else COST_OF_OTHERS for is_ufunc in function.are_ufuncs])

    def call(self, key: Any, given: Sequence[Array], sizes: tuple[int, ...]) -> Call:
        """Return the call for the shapes of some arrays, which is remembered: it is large, or of one more pattern."""

        def run(*arrays: Array) -> Any:
            return self.function.run(arrays, _shapes_of(arrays, sizes), None)

        count = len(given)
        steps = [(run, tuple(range(count)))] if self.steps is None else self.steps
        number = _number_of_key(key, self._cost, max([array.size for array in given]))
        found = CALLS[key] = call_of_steps(steps, count, self._nodes, number)
        size = broadcast_size([array.shape for array in given])
        found.allow_direct(size * max(given[0].itemsize, self._nodes[-1].dtype.itemsize))
        return found

    def for_all_shapes(self) -> Call:
        """Return the call of an elementwise operator for all shapes.

        It computes large results in memory of the pool, which is left to the call for their shapes.
        """
        assert self.steps is not None
        found = call_of_steps(self.steps, len(self.steps[0][1]), self._nodes, self._number())
        node = self._nodes[-1]
        itemsize = max([node.dtype.itemsize, *[source.dtype.itemsize for source in node.inputs]])
        found.limit = (memory_pool.SMALLEST_BLOCK - 1) // itemsize
        found.allow_direct(0)
        return found

    def for_patterns(self, guards: Guards[General], sizes: tuple[int, ...]) -> Call:
        """Return the call for all patterns that some guards know; for others, its function returns None."""
        found = call_of_steps([(_Patterns(guards, sizes), (0,))], 1, self._nodes, self._number())
        found.limit = processor.choices().numbers_per_node
        found.allow_direct(0)
        return found

    def _number(self) -> int:
        return next(_serial) << COST_BITS | min(self._cost, MOST_COST)


@slotted
class _Patterns:
    """The function of a kind of call for all patterns that some guards know, with certain sizes among its parameters.

    It returns None for others. Its result may be a view.
    """

    __slots__ = ("_guards", "_known", "_sizes")

    def __init__(self, guards: Guards[General], sizes: tuple[int, ...]) -> None:
        self._guards, self._sizes = guards, sizes
        #: the functions that compute it, by the shapes of the arguments; none for shapes that came once
        self._known: dict[tuple[Any, ...], Sequence[tuple[Any, tuple[int, ...]]]] = {}

    def __call__(self, *arrays: Array) -> Any:
        return self._run(arrays)

    @hot
    def _run(self, arrays: Sequence[Array]) -> Any:
        shapes = tuple([array.shape for array in arrays])
        calls = self._known.get(shapes)
        if not calls:
            return self._run_new(arrays, shapes, calls)
        if len(calls) == 1 and len(arrays) == 1:
            return calls[0][0](arrays[0])
        values: list[Any] = [*arrays]
        for function, places in calls:
            values.append(function(*map(values.__getitem__, places)))
        return values[-1]

    @hot
    def _run_new(self, arrays: Sequence[Array], shapes: tuple[Any, ...], calls: Any) -> Any:
        """Return the result for shapes whose functions are not kept.

        Most shapes of a program with two extents that are new never come back, and the garbage collector scans what is
        kept.
        """
        known = self._guards.find(_shapes_of(arrays, self._sizes))
        if known is None:
            return None
        if calls is None and len(self._known) >= MOST_CALLS:
            self._known.clear()
        steps: Any = known.steps
        if steps is None and calls is not None:
            steps = []
            value = known.function.run(arrays, _shapes_of(arrays, self._sizes), steps)
        else:
            value = known.function.run(arrays, _shapes_of(arrays, self._sizes), None)
        self._known[shapes] = () if steps is None else steps
        return value


@hot
def _shapes_of(arrays: Sequence[Array], sizes: tuple[int, ...]) -> list[Any]:
    """Return the shapes of arrays, and the parameters that count elements as one more, if there are any."""
    shapes: list[Any] = [array.shape for array in arrays]
    if sizes:
        shapes.append(sizes)
    return shapes


def _call_of(targets: list[Node], count: int, is_list: bool) -> Call | None:
    """Return the function of arrays that computes nodes of leaves; None if they are to be planned."""
    wanted = [node for node in targets if node.operator is not LEAF]
    if not wanted:
        return Call(targets, None, count, is_list)
    # imported late: programs that repeat themselves do not need it
    from ..plan.eager import EagerProgram

    program = EagerProgram(wanted, _is_leaf)
    nodes = program.nodes
    if sum([node.size for node in nodes]) > processor.choices().numbers_per_node * len(nodes):
        return None
    return None if any([node.operator.random for node in nodes]) else Call(targets, program, count, is_list)
