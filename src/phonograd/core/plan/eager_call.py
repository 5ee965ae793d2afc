"""Calls of operators as functions of arrays of any extents, for programs whose shapes are new in every step.

Takes calls from :mod:`phonograd.core.array.immediate`. A call makes an expression of leaves: one node, or those of a
composite operator. A call of the same pattern with other extents (:mod:`phonograd.core.graph.generic`) makes the same
nodes with other numbers. So the expression is made with traced extents, for these and two more combinations. Where all
three agree, the call is a sequence of functions, which takes its numbers from the shapes of the arrays. Parameters that
count elements (``k`` of ``topk``) are traced, too: they are the extents of one more shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import HALVES, INT64, DType
from ..base.hot import hot, slotted
from ..graph.extents import Condition, Formula, Questions
from ..graph.generic import Differ, Pattern, Unifier, insert, samples_of
from ..graph.node import Node, Shape, new_node, tensor_type
from ..graph.operator import ABSENT, REGISTRY, Operator
from ..lower.lowering import Fused, Lowering
from ..ops.math.structural import LEAF, leaf
from ..run.reference import resolve
from .eager import AnyShapes, Function, function_for_any_shapes, function_of, of_contiguous_arrays, simple_function
from .expansion import lowerings_of

__all__ = ["AnyExtents", "for_all_shapes", "generalize_call"]

_ABSENT = ABSENT.operator
_POSITIONS, _TAKE_AXIS = REGISTRY["_positions"], REGISTRY["_take_axis"]

#: returns the node of a call, given its arguments
Make = Callable[[Sequence[Node]], Node]


class _Step(NamedTuple):
    """One node of a call."""

    operator: Operator
    attributes: Any
    shape: Any
    dtype: DType
    places: tuple[int, ...]
    """The numbers of the values that it reads: those of the arguments, then those of earlier steps."""
    simple: Callable[[tuple[Any, ...]], Function] | None = None
    """Makes its function from its attributes, if it combines elements along axes, or selects some."""
    is_numpy: bool = False
    """Whether NumPy computes it for all shapes, given its attributes."""


@slotted
class AnyExtents:
    """A call as a function of arrays of any extents of one pattern that meet a condition."""

    __slots__ = ("_functions", "_steps", "are_ufuncs", "condition")

    def __init__(self, steps: Sequence[_Step], functions: Sequence[Function | None], condition: Condition) -> None:
        self._steps, self.condition = steps, condition
        #: the functions that hold for all extents
        self._functions = functions
        #: its functions: whether each is a ufunc
        self.are_ufuncs = [type(function) is np.ufunc for function in functions]

    def fixed(self) -> list[tuple[Function, tuple[int, ...]]] | None:
        """Return the functions that compute it, as :meth:`run` does, if they hold for all extents."""
        found: list[tuple[Function, tuple[int, ...]]] = []
        for step, function in zip(self._steps, self._functions):
            if function is None or isinstance(function, AnyShapes):
                return None
            found.append((function, step.places))
        return found

    @hot
    def run(self, arrays: Sequence[Any], shapes: Sequence[Shape], calls: list[Any] | None) -> Any:
        """Return the value of the call, given the arrays and their shapes.

        Parameters that count elements are one more shape. If there is a list of ``calls``, the functions for these
        shapes are added to it, with the numbers of the values that each reads.
        """
        values = [*arrays]
        for step, function in zip(self._steps, self._functions):
            inputs = [values[place] for place in step.places]
            if function is None:
                function = _function(step, shapes, inputs)
            elif calls is not None and isinstance(function, AnyShapes):
                function = function.for_shapes(inputs)
            if calls is not None:
                calls.append((function, step.places))
            values.append(function(*inputs))
        return values[-1]


def _function(step: _Step, shapes: Sequence[Shape], inputs: Sequence[Any]) -> Function:
    """Return the function of a step whose attributes depend on the shapes of the arrays."""
    attributes, simple = insert(step.attributes, shapes), step.simple
    if simple is not None:
        return simple(attributes)
    if step.is_numpy:
        function = step.operator.reference(attributes)
        return function if step.operator.lowering is not None else of_contiguous_arrays(function)
    leaves = [leaf(number, array.shape, array.dtype) for number, array in enumerate(inputs)]
    type_ = tensor_type(insert(step.shape, shapes), step.dtype, leaves[0].context, False, None)
    return function_of(new_node(step.operator, tuple(leaves), attributes, type_, None, None), leaves)


def _steps_of(target: Node, leaves: Sequence[Node]) -> list[_Step] | None:
    """Return the nodes of an expression of leaves, the target last; None if it has nodes with several outputs.

    Their order follows from the expression alone: interned constants may be older or younger than other nodes.
    """
    numbers = {each: number for number, each in enumerate(leaves)}
    steps: list[_Step] = []
    stack = [resolve(target)]
    while stack:
        node = stack[-1]
        if node in numbers:
            stack.pop()
            continue
        if node.outputs is not None or node.operator is _ABSENT or node.operator is LEAF:
            return None
        sources = [resolve(source) for source in node.inputs]
        missing = [source for source in sources if source not in numbers]
        if missing:
            stack.append(missing[0])
            continue
        places = tuple([numbers[source] for source in sources])
        numbers[node] = len(leaves) + len(steps)
        steps.append(_Step(node.operator, node.attributes, node.shape, node.dtype, places))
    return steps or None


def for_all_shapes(target: Node, leaves: Sequence[Node]) -> AnyExtents | None:
    """Return a call for all shapes, given its node for some leaves; None if it is more than an elementwise operator.

    Elementwise operators broadcast all shapes as NumPy does.
    """
    if target.outputs is not None or target.operator is LEAF or [resolve(node) for node in target.inputs] != [*leaves]:
        return None
    candidates = lowerings_of(target)
    if not candidates or candidates[0].is_expansion or candidates[0].fused_as is not Fused.STEP:
        return None
    function = function_for_any_shapes(target, leaves)
    if isinstance(function, AnyShapes):
        return None
    step = _Step(target.operator, target.attributes, target.shape, target.dtype, tuple(range(len(leaves))))
    return AnyExtents([step], [function], Condition(Questions(0)))


def generalize_call(
    target: Node,
    leaves: Sequence[Node],
    attributes: tuple[Any, ...],
    pattern: Pattern,
    make: Make,
    sizes: Shape = (),
) -> AnyExtents | None:
    """Return a call for all extents of its pattern, given its node for some leaves; None if there is none.

    ``sizes`` are the parameters that count elements. If there are any, ``make`` takes them from the shape of one more
    node, the last, and the shapes of the pattern end with them.
    """
    first = _steps_of(target, leaves)
    if first is None:
        return None
    arguments = [*leaves]
    if sizes:
        type_ = tensor_type(sizes, leaves[0].dtype, leaves[0].context, False, None)
        arguments.append(new_node(LEAF, (), (), type_, None, None))

    def steps_for(others: Sequence[Any]) -> list[_Step]:
        found = _steps_of(make(others), others[: len(leaves)])
        if found is None or len(found) != len(first):
            raise Differ
        return found

    steps: list[_Step] = []
    try:
        samples = samples_of(steps_for, arguments, pattern, attributes)
        unifier = Unifier(samples.arguments)
        for parts in zip(*samples.results):
            one = parts[0]
            if any(
                [(each.operator, each.places, each.dtype) != (one.operator, one.places, one.dtype) for each in parts]
            ):
                return None
            inserted = unifier.unify([part.attributes for part in parts], one.dtype)
            shape = unifier.unify([part.shape for part in parts], one.dtype)
            steps.append(one._replace(attributes=inserted, shape=shape))
    except Differ:
        return None
    return AnyExtents(steps, _functions(first, steps, leaves), samples.condition)


def _functions(first: Sequence[_Step], steps: list[_Step], leaves: Sequence[Node]) -> list[Function | None]:
    """Return the functions of steps that hold for all extents, given the steps for certain extents."""
    nodes = [*leaves]
    found: list[Function | None] = []
    for number, (one, step) in enumerate(zip(first, steps, strict=True)):
        if _is_clipped_later(number, first, len(leaves)):
            found.append(_whole_numbers)
            nodes.append(leaf(len(nodes), one.shape, one.dtype))
            continue
        below = [leaf(number, nodes[place].shape, nodes[place].dtype) for number, place in enumerate(one.places)]
        type_ = tensor_type(one.shape, one.dtype, leaves[0].context, False, None)
        node = new_node(one.operator, tuple(below), one.attributes, type_, None, None)
        nodes.append(node)
        lowering = _simple_lowering(node)
        simple = None if lowering is None or lowering.only_moves else simple_function(node, lowering)
        steps[len(found)] = step._replace(simple=simple, is_numpy=simple is None and _is_numpy(node, lowering))
        is_made_anew = step.attributes.__class__ is Formula
        found.append(None if is_made_anew else function_for_any_shapes(node, below, is_varied=True))
    return found


def _is_clipped_later(number: int, steps: Sequence[_Step], arguments: int) -> bool:
    """Return whether a step clips indices for lookups only, which clip them, too."""
    step, value = steps[number], arguments + number
    if step.operator is not _POSITIONS or "clip" not in step.attributes or number == len(steps) - 1:
        return False
    readers = [later for later in steps if value in later.places]
    return all([reader.operator is _TAKE_AXIS and reader.places[0] != value for reader in readers])


def _whole_numbers(index: Any) -> Any:
    """Return indices as ``_positions`` has them before it clips them; errors of NumPy are ignored in eager calls."""
    return index.astype(INT64)


def _is_numpy(node: Node, lowering: Lowering | None) -> bool:
    """Return whether the function of a node is its NumPy function, given its simple lowering if it has one."""
    if lowering is not None:
        return True
    candidates = lowerings_of(node)
    has_halves = not HALVES.isdisjoint([node.dtype, *[source.dtype for source in node.inputs]])
    if node.operator.lowering is None and node.outputs is None and not has_halves:
        return True
    if not candidates or has_halves or candidates[-1].replaces_part:
        return False
    return candidates[0].is_expansion and node.operator.moves


def _simple_lowering(node: Node) -> Lowering | None:
    """Return the lowering of a node if it is all that is needed to compute it."""
    candidates = lowerings_of(node)
    if not candidates or candidates[0].is_expansion or candidates[-1].replaces_part:
        return None
    first = candidates[0]
    return first if first.is_constant or first.only_moves or simple_function(node, first) is not None else None
