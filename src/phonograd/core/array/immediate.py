"""Immediate calls: operators that compute their results at once, from values to values, without a graph.

Takes calls from :mod:`.call` and :mod:`.binary` while the program of a thread is new all the time
(:mod:`phonograd.core.trace.novelty`) and does not record. A call is a function of arrays: the eager program
(:mod:`phonograd.core.plan.eager`) of the expression of leaves that the operator makes of such arguments, so the bits
are those of every other tier. It is made once for each operator, parameters, dtypes and pattern of extents
(:mod:`phonograd.core.plan.eager_call`). None is returned for calls that are not for this way: arguments without a
value, large results, and all calls that fail. They become nodes, and an error is raised where it would be otherwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import float_errors, processor
from ..base.devices import CPU
from ..base.dtypes import convert_scalar
from ..base.errors import MXNetError
from ..base.hot import hot, slotted
from ..base.outside import is_from_outside
from ..base.settings import active
from ..graph.extents import tracing
from ..graph.generic import Learned, Pattern, pattern_of_shapes
from ..graph.guards import Guards, with_sizes, without_sizes
from ..graph.node import FORGOTTEN, Node, of_one_call
from ..graph.operator import Array, Operator
from ..observe.anomaly import detection
from ..ops.math.structural import LEAF, leaf
from ..plan.cache import EVALUATED, PLANNED, PLANS, REPEATED, eager_is_available, repeating
from ..plan.eager_results import own_all
from ..run import memory_pool
from ..run.reference import resolve
from ..trace.flags import FLAGS, RECORDING
from ..trace.owner import HANDOVER
from ..trace.trace import LOCAL, Trace
from .handle import DENSE

if TYPE_CHECKING:
    from ..plan.eager import EagerProgram
    from ..plan.eager_call import AnyExtents

__all__ = [
    "CALLS",
    "NUMBERS",
    "Call",
    "call",
    "call_binary",
    "change",
    "fill",
    "is_possible",
    "meet",
    "number_beside",
    "own_result",
]

#: kinds of calls to keep
MOST_CALLS = 4096
#: calls after which the machine code of operator calls is loaded
SOME_CALLS = 64

_new: Any = object.__new__
_NDARRAY, _UFUNC = np.ndarray, np.ufunc
#: sequences of calls are numbers: that of the kinds, and in the lowest bits what the calls cost
_COST_BITS = 8
_MOST_COST = (1 << _COST_BITS) - 1
_FACTOR, _MASK = 1000003, (1 << 53) - 1
#: the cost of a function that is no ufunc: it takes about as long as several of these
_COST_OF_OTHERS = 3
#: the length of the keys of binary operators
_BINARY_KEY = 5
#: the numbers that a ufunc computes while it costs as much as its call
_NUMBERS_PER_CALL = 4096
_serial = itertools.count(1)
_python_calls = itertools.count(1)


@slotted
class Call:
    """A kind of call as a function of arrays."""

    __slots__ = ("direct", "function", "is_list", "nodes", "number", "results", "steps")

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

    @classmethod
    def of_direct(cls, direct: Callable[..., Any]) -> Call:
        """Return a kind of call that only machine code runs."""
        call = call_of_steps([(direct, ())], 0, [], 0)
        call.direct = direct
        return call

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
            stay = [True] * len(self.results)
            self.direct = _guarded(lambda *arrays: own_all(arrays, self._values(arrays), self.results, stay))
        elif len(self.results) == 1:
            number = self.results[0]
            self.direct = _guarded(lambda *arrays: self._values(arrays)[number])

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the results, each in memory of its own."""
        token = float_errors.ignore()
        try:
            values = self._values(arrays)
        finally:
            float_errors.restore(token)
        return own_all(arrays, values, self.results, [True] * len(self.results))

    @hot
    def _values(self, arrays: Sequence[Array]) -> list[Any]:
        """Return the arguments, and the value of each node."""
        values: list[Any] = [*arrays]
        for function, places in self.steps:
            values.append(function(*map(values.__getitem__, places)))
        return values


@hot
def call_of_steps(steps: list[tuple[Any, tuple[int, ...]]], count: int, nodes: list[Node], size: int) -> Call:
    """Return a kind of call whose result, of some size, is the last of some steps, given the number of arguments."""
    call = _new(Call)
    call.number, call.steps, call.nodes, call.is_list = _number_of(steps, size), steps, nodes, False
    call.results = [count + len(steps) - 1]
    call.function = call.direct = None
    if len(steps) == 1 and steps[0][1] == tuple(range(count)):
        call.function = steps[0][0]
    return call  # type: ignore[no-any-return]


@hot
def _number_of(steps: Sequence[tuple[Any, Any]], size: int) -> int:
    """Return the number of a new kind of call in sequences, given its functions and the numbers that they compute."""
    cost = size // _NUMBERS_PER_CALL
    for function, _ in steps:
        cost += 1 if type(function) is _UFUNC else _COST_OF_OTHERS
    return next(_serial) << _COST_BITS | min(cost, _MOST_COST)


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


def own_result(value: Any, *arrays: Array) -> Array:
    """Return the result of a call in memory of its own, given its arguments."""
    return own_all(arrays, [value], (0,), (True,))[0]


#: kinds of calls, which machine code finds, too (:mod:`.fastcall.native_immediate`); None for those that become nodes
CALLS: dict[Any, Call | None] = {}
FORGOTTEN.connect(CALLS.clear)
#: numbers beside floating point arrays, as arrays; machine code looks here, too
NUMBERS: dict[Any, Array] = {}
#: numbers that arrays are filled with
_filling: dict[Any, Array] = {}


def is_possible(trace: Trace) -> bool:
    """Return whether calls are immediate now."""
    return (
        trace.is_immediate
        and active.immediate
        and not (detection.on or PLANNED.listeners)
        and not FLAGS.get() & RECORDING
    )


def call(
    declared: Operator,
    inputs: tuple[Any, ...],
    given: tuple[Any, ...],
    new_attributes: Callable[[], tuple[Any, ...] | None],
    outputs: Any,
    trace: Trace,
) -> Any:
    """Return the array (or arrays) of a call, or None if it is to become a node.

    ``given`` are the parameters as they stand in the keys of remembered calls. ``new_attributes`` returns the
    attributes if no call had these parameters before, or None. ``outputs`` returns the number of outputs that users
    see, and whether they are a list.
    """
    array_class = plain = DENSE[0]
    arrays: list[Any] = []
    key: list[Any] = [declared, given]
    for handle in inputs:
        kind = type(handle)
        if kind is not plain:
            if kind not in DENSE:
                return None
            array_class = kind
        array = handle._buffer
        if type(array) is not _NDARRAY or (
            (handle._extras is not None or handle._node is not None) and handle.context is not CPU
        ):
            return None
        arrays.append(array)
        key += (array.shape, array.dtype)
    kind_of_call = tuple(key)
    try:
        found = CALLS.get(kind_of_call)
    except TypeError:
        # a list among the parameters
        return None
    if found is None:
        if not arrays or kind_of_call in CALLS:
            return None
        attributes = declared.accepted_parameters.get((len(arrays), given))
        if attributes is None and (attributes := new_attributes()) is None:
            return None
        found = _make(kind_of_call, declared, arrays, attributes, outputs, trace)
        if found is None:
            return None
    if found.function is not None:
        value = _run_one(found, arrays, trace)
        return None if value is None else _concrete(value, array_class)
    values = _run(found, arrays, trace)
    if values is None:
        return None
    made = [_concrete(value, array_class) for value in values]
    return made if found.is_list else made[0]


def call_binary(declared: Operator, lhs: Any, rhs: Any, array_class: type[Any], trace: Trace) -> Any:
    """Return the array of a binary operator on arrays or an array and a number, or None if it is to become a node."""
    value = _binary_value(declared, lhs, rhs, trace)
    return None if value is None else _concrete(value, array_class)


def change(declared: Operator, handle: Any, other: Any, trace: Trace) -> bool:
    """Return whether a binary operator on an array, whose result the array gets, has been computed."""
    extras = handle._extras
    if handle._node is not None or (extras is not None and (extras.root is not None or extras.views)):
        return False
    before = handle._buffer
    value = _binary_value(declared, handle, other, trace)
    if value is None or value.shape != before.shape or value.dtype != before.dtype:
        return False
    with HANDOVER:
        if handle._node is not None or handle._buffer is not before:
            # another thread has changed it meanwhile
            return False
        handle._buffer = value
    return True


def _operand(operand: Any) -> Any:
    """Return the value of an operand, a number or an array with a value, else None."""
    kind = type(operand)
    if kind is float or kind is int:
        return operand
    if kind not in DENSE:
        return None
    array = operand._buffer
    if type(array) is not _NDARRAY or (
        (operand._extras is not None or operand._node is not None) and operand.context is not CPU
    ):
        return None
    return array


def _binary_value(declared: Operator, lhs: Any, rhs: Any, trace: Trace) -> Array | None:
    left, right = _operand(lhs), _operand(rhs)
    if left is None or right is None:
        return None
    if type(left) is not _NDARRAY:
        if right.dtype.kind != "f":
            return None
        left = _number(left, right.dtype, NUMBERS)
    elif type(right) is not _NDARRAY:
        if left.dtype.kind != "f":
            return None
        right = _number(right, left.dtype, NUMBERS)
    key = (declared, left.shape, left.dtype, right.shape, right.dtype)
    found = CALLS.get(key)
    if found is None:
        if key in CALLS:
            return None
        found = _make(key, declared, (left, right), (), None, trace)
        if found is None:
            return None
    if found.function is not None:
        return _run_one(found, (left, right), trace)
    values = _run(found, (left, right), trace)
    return None if values is None else values[0]


def fill(shape: tuple[int, ...], value: Any, dtype: Any, array_class: type[Any], trace: Trace) -> Any:
    """Return an array filled with a number, or None if it is to become a node."""
    if math.prod(shape) > processor.choices().numbers_per_node or (type(value) is not int and type(value) is not float):
        return None
    _note_number((hash(shape) & _MASK) << _COST_BITS | 1, trace)
    return _concrete(memory_pool.filled(shape, _number(value, dtype, _filling), dtype), array_class)


def _number(value: Any, dtype: Any, numbers: dict[Any, Array]) -> Array:
    """Return a number as an array, remembered among others."""
    # 0.0 and -0.0 are equal as keys
    key = (value or repr(value), dtype)
    found = numbers.get(key)
    if found is None:
        if len(numbers) >= MOST_CALLS:
            numbers.clear()
        found = numbers[key] = convert_scalar(value, dtype)
    return found


def number_beside(value: Any, dtype: Any) -> Array | None:
    """Return a number as an array of the dtype of the array beside it; None if that is no plain floating one."""
    return _number(value, dtype, NUMBERS) if dtype.kind == "f" else None


@hot
def _concrete(value: Array, array_class: type[Any]) -> Any:
    handle = _new(array_class)
    handle._trace = handle._node = handle._extras = None
    handle._buffer = value
    return handle


def _note_number(number: int, trace: Any) -> None:
    """Add a call, by a number that stands for its kind and its cost, to the sequence of an immediate trace."""
    before = trace.sequence
    kinds = ((before >> _COST_BITS) * _FACTOR + (number >> _COST_BITS)) & _MASK
    trace.sequence = kinds << _COST_BITS | min((before & _MOST_COST) + (number & _MOST_COST), _MOST_COST)


def _note(found: Call, trace: Trace) -> None:
    _note_number(found.number, trace)
    if REPEATED.listeners and next(_python_calls) > SOME_CALLS:
        # such a program is mostly Python, and a helper would take its time from it
        repeating(at_once=True)
    if EVALUATED.listeners:
        EVALUATED.emit("immediate", found.nodes, "the last graphs were all new")


def _run_one(found: Call, arrays: Sequence[Array], trace: Trace) -> Array | None:
    """Return the result of a call of one operator; None if it fails: as a node, it fails where its value is needed."""
    _note(found, trace)
    function, token = found.function, float_errors.ignore()
    try:
        # the first may be a number beside the second
        largest = max(arrays[0].nbytes, arrays[-1].nbytes)
        if largest >= memory_pool.SMALLEST_BLOCK and type(function) is np.ufunc:
            return _compute_large(found, arrays)
        value = function(*arrays)
    except Exception as error:
        if is_from_outside(error):
            raise
        return None
    finally:
        float_errors.restore(token)
    return own_all(arrays, [value], (0,), (True,))[0]


def _compute_large(found: Call, arrays: Sequence[Array]) -> Array:
    """Return the result of an elementwise operator, computed where it stays."""
    shape, dtype = arrays[-1].shape, found.nodes[-1].dtype
    if len(arrays) > 2 or (arrays[0].shape and arrays[0].shape != shape):
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
    out = memory_pool.allocate(shape, dtype, memory_pool.room_for(math.prod(shape) * dtype.itemsize))
    found.function(*arrays, out=out)
    return out


def _run(found: Call, arrays: Sequence[Array], trace: Trace) -> list[Array] | None:
    """Return the results of a call; None if it fails."""
    _note(found, trace)
    try:
        return found.run(arrays)
    except Exception as error:
        if is_from_outside(error):
            raise
        return None


#: calls for any extents by operator, attributes and pattern
_patterns: dict[Any, Learned[_General]] = {}
FORGOTTEN.connect(_patterns.clear)
#: the same with tests of the extents, by operator, attributes and dtypes
_guards: dict[Any, Guards[_General]] = {}
FORGOTTEN.connect(_guards.clear)


def _make(
    key: Any, declared: Operator, arrays: Sequence[Array], attributes: Any, outputs: Any, trace: Trace
) -> Call | None:
    """Return a new kind of call; None if such calls become nodes."""
    if declared.autocast is not None or max([array.size for array in arrays]) > processor.choices().numbers_per_node:
        return None
    if len(CALLS) >= MOST_CALLS:
        CALLS.clear()
    known, sizes, shapes, kind = _find_general(declared, arrays, attributes)
    if known is not None:
        return known.call(key, len(arrays), sizes)
    others, families = kind[1], kind[2:]
    pattern = pattern_of_shapes(list(zip(families, shapes)), others, ())
    among = None if pattern is None else (declared, others, pattern.key)
    learned = None if among is None else _patterns.get(among)
    if learned is not None and pattern is not None and (known := learned.find_for(shapes)) is not None:
        if len(_guards) >= MOST_CALLS:
            _guards.clear()
        _guards.setdefault(kind, Guards()).learn(shapes, others, pattern, known.condition, known)
        return known.call(key, len(arrays), sizes)
    if not trace.handles and not trace.leaves:
        # nothing is pending whose nodes have to be found again
        PLANS.trim()
    if not eager_is_available():
        return None
    try:
        found = _learn(declared, arrays, attributes, outputs, pattern, among)
    except (MXNetError, ValueError, TypeError, IndexError):
        # the call as a node raises it
        return None
    CALLS[key] = found
    return found


@hot
def _find_general(
    declared: Operator, arrays: Sequence[Array], attributes: Any
) -> tuple[_General | None, Any, list[Any], Any]:
    """Return the kind of call for all extents of a pattern that holds for some arrays, or None.

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
    guards = _guards.get(kind)
    return None if guards is None else guards.find(shapes), sizes, shapes, kind


def meet(key: tuple[Any, ...], *arrays: Array) -> Array | None:
    """Return the result of the first call with some extents, in memory of its own; None if its pattern is not known.

    Machine code calls it for keys that are not among the kinds. Parameters are part of the keys of calls by name, and
    not of those of methods of binary operators.
    """
    declared = key[0]
    attributes = () if len(key) == _BINARY_KEY else declared.accepted_parameters.get((len(arrays), key[1]))
    if attributes is None or declared.autocast is not None or key in CALLS:
        return None
    if max([array.size for array in arrays]) > processor.choices().numbers_per_node:
        return None
    known, sizes, _, _ = _find_general(declared, arrays, attributes)
    if known is None:
        return None
    if len(CALLS) >= MOST_CALLS:
        CALLS.clear()
    token = float_errors.ignore()
    try:
        value, found = known.first(key, arrays, sizes)
    except Exception as error:
        if is_from_outside(error):
            raise
        return None
    finally:
        float_errors.restore(token)
    _note(found, LOCAL.trace)
    return own_result(value, *arrays)


def _learn(
    declared: Operator, arrays: Sequence[Array], attributes: Any, outputs: Any, pattern: Pattern | None, among: Any
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
    found = _call_of([resolve(node) for node in nodes], len(arrays), is_list)
    if found is not None:
        found.allow_direct(max([arrays[0].nbytes, *[node.size * node.dtype.itemsize for node in nodes]]))
    if pattern is None or several or found is None:
        return found
    learned = _patterns.get(among)
    if learned is None:
        if len(_patterns) >= MOST_CALLS:
            _patterns.clear()
        _patterns[among] = Learned(pattern.extents)
    elif learned.is_to_learn(pattern.extents):
        from ..plan.eager_call import generalize_call

        general = generalize_call(result, leaves, others, pattern, make, sizes)
        learned.learn(None if general is None else _General(general, found.nodes))
    return found


@slotted
class _General:
    """A kind of call for all extents of a pattern that meet a condition."""

    __slots__ = ("_function", "_nodes", "condition")

    def __init__(self, function: AnyExtents, nodes: list[Node]) -> None:
        self._function, self._nodes, self.condition = function, nodes, function.condition

    def call(self, key: Any, count: int, sizes: tuple[int, ...]) -> Call:
        """Return the call for new extents, which is remembered with its functions when it has run."""

        def run(*arrays: Array) -> Any:
            return self.first(key, arrays, sizes)[0]

        return call_of_steps([(run, tuple(range(count)))], count, self._nodes, 0)

    @hot
    def first(self, key: Any, arrays: Sequence[Array], sizes: tuple[int, ...]) -> tuple[Any, Call]:
        """Return the result of the first call with some extents, and its kind, which is remembered from now on."""
        value, steps = self._function.run(arrays, sizes)
        found = call_of_steps(steps, len(arrays), self._nodes, value.size)
        found.allow_direct(max(arrays[0].nbytes, value.nbytes))
        CALLS[key] = found
        return value, found


def _call_of(targets: list[Node], count: int, is_list: bool) -> Call | None:
    """Return the function of arrays that computes nodes of leaves; None if they are to be planned."""
    wanted = [node for node in targets if node.operator is not LEAF]
    if not wanted:
        return Call(targets, None, count, is_list)
    # imported late: programs that repeat themselves do not need it
    from ..plan.eager import EagerProgram

    program = EagerProgram(wanted, lambda node: node.operator is LEAF)
    nodes = program.nodes
    if sum([node.size for node in nodes]) > processor.choices().numbers_per_node * len(nodes):
        return None
    return None if any([node.operator.random for node in nodes]) else Call(targets, program, count, is_list)
