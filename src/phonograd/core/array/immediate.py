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
from typing import Any

import numpy as np

from ..base import float_errors, processor
from ..base.devices import CPU, current_context
from ..base.dtypes import FLOAT32, convert_scalar
from ..base.hot import hot
from ..base.outside import is_from_outside
from ..base.settings import active
from ..graph.operator import Array, Operator
from ..observe.anomaly import detection
from ..plan.cache import EVALUATED, PLANNED, REPEATED, repeating
from ..plan.eager_results import own_all
from ..run import memory_pool
from ..trace.flags import FLAGS, RECORDING
from ..trace.owner import HANDOVER
from ..trace.trace import Trace, ready_trace
from .handle import DENSE
from .kinds import (
    ANY_SHAPES,
    CALLS,
    COST_BITS,
    FACTOR,
    KIND_MASK,
    MOST_CALLS,
    MOST_COST,
    NUMBERS_PER_CALL,
    Call,
    broadcast_size,
    make,
    without_shapes,
)
from .observed import LISTENERS

__all__ = [
    "ANY_SHAPES",
    "CALLS",
    "NUMBERS",
    "Call",
    "call",
    "call_binary",
    "change",
    "fill",
    "fill_plainly",
    "is_possible",
    "number_beside",
    "own_result",
]

#: combinations of parameters to remember for each operator
MOST_PARAMETERS = 1000
#: calls after which the machine code of operator calls is loaded
SOME_CALLS = 64

_new: Any = object.__new__
_NDARRAY = np.ndarray
_python_calls = itertools.count(1)


def own_result(value: Any, *arrays: Array) -> Array:
    """Return the result of a call in memory of its own, given its arguments."""
    return own_all(arrays, [value], (0,), (True,))[0]


#: numbers beside floating point arrays, as arrays; machine code looks here, too
NUMBERS: dict[Any, Array] = {}
#: numbers that arrays are filled with
_filling: dict[Any, Array] = {}


@hot
def is_possible(trace: Trace) -> bool:
    """Return whether calls are immediate now."""
    if not trace.is_immediate or not active.immediate or detection.on or PLANNED.listeners:
        return False
    return not FLAGS.get() & RECORDING


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
        value = _run_any(kind_of_call, arrays, trace)
        found = CALLS.get(kind_of_call)
    except TypeError:
        # a list among the parameters
        return None
    if value is not None:
        return _concrete(value, array_class)
    if found is None:
        if not arrays or kind_of_call in CALLS:
            return None
        parameters = len(arrays), given
        attributes = known = declared.accepted_parameters.get(parameters)
        if attributes is None and (attributes := new_attributes()) is None:
            return None
        found = make(kind_of_call, declared, arrays, attributes, outputs, trace)
        if found is None:
            return None
        if known is None and len(declared.accepted_parameters) < MOST_PARAMETERS:
            declared.accepted_parameters[parameters] = attributes
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
    value = _run_any(key, (left, right), trace)
    if value is not None:
        return value
    found = CALLS.get(key)
    if found is None:
        if key in CALLS:
            return None
        found = make(key, declared, (left, right), (), None, trace)
        if found is None:
            return None
    if found.function is not None:
        return _run_one(found, (left, right), trace)
    values = _run(found, (left, right), trace)
    return None if values is None else values[0]


@hot
def fill(shape: tuple[int, ...], value: Any, dtype: Any, array_class: type[Any], trace: Trace) -> Any:
    """Return an array filled with a number, or None if it is to become a node."""
    kind = value.__class__
    if (kind is not int and kind is not float) or math.prod(shape) > processor.choices().numbers_per_node:
        return None
    _note_number((hash(shape) & KIND_MASK) << COST_BITS | 1, trace)
    return _concrete(memory_pool.filled(shape, _number(value, dtype, _filling), dtype), array_class)


@hot
def fill_plainly(shape: Any, value: int, array_class: type[Any]) -> Any:
    """Return a float32 array of the current device, filled with a number; None if the call is not that simple.

    The shape must be a tuple of integers, and nothing observes calls.
    """
    if LISTENERS or shape.__class__ is not tuple or current_context() is not CPU:
        return None
    for extent in shape:
        if extent.__class__ is not int or extent < 0:
            return None
    trace = ready_trace()
    return fill(shape, value, FLOAT32, array_class, trace) if is_possible(trace) else None


@hot
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


@hot
def _note_number(number: int, trace: Any) -> None:
    """Add a call, by a number that stands for its kind and its cost, to the sequence of an immediate trace."""
    before = trace.sequence
    kinds = ((before >> COST_BITS) * FACTOR + (number >> COST_BITS)) & KIND_MASK
    trace.sequence = kinds << COST_BITS | min((before & MOST_COST) + (number & MOST_COST), MOST_COST)


def _note(found: Call, trace: Trace) -> None:
    _note_number(found.number, trace)
    _report(found)


def _note_shapes(number: int, arrays: Sequence[Array], size: int, trace: Trace) -> None:
    """Add a call of a kind for all shapes to a sequence, given the shapes of its arguments and the size of its result.

    Other shapes are another number.
    """
    kinds, cost = number >> COST_BITS, (number & MOST_COST) + size // NUMBERS_PER_CALL
    for array in arrays:
        for extent in array.shape:
            kinds = (kinds * FACTOR + extent) & KIND_MASK
    _note_number(kinds << COST_BITS | min(cost, MOST_COST), trace)


def _report(found: Call) -> None:
    if REPEATED.listeners and next(_python_calls) > SOME_CALLS:
        # such a program is mostly Python, and a helper would take its time from it
        repeating(at_once=True)
    if EVALUATED.listeners:
        EVALUATED.emit("immediate", found.nodes, "the last graphs were all new")


def _run_any(key: Any, arrays: Sequence[Array], trace: Trace) -> Array | None:
    """Return the result of a call of a kind for all shapes; None if there is none, if it is large, or if it fails."""
    found = ANY_SHAPES.get(without_shapes(key))
    if found is None or broadcast_size([array.shape for array in arrays]) > found.limit:
        return None
    token = float_errors.ignore()
    try:
        value = found.function(*arrays)
    except Exception as error:
        if is_from_outside(error):
            raise
        return None
    finally:
        float_errors.restore(token)
    if value is None:
        return None
    _note_shapes(found.number, arrays, value.size, trace)
    _report(found)
    return own_all(arrays, [value], (0,), (True,))[0]


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
