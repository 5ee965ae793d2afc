"""Expansions of eager programs: the functions of an expression one after the other, as one function of arrays.

Takes the order of an expression from :mod:`~phonograd.core.plan.eager`. An expression for certain extents is made by
running the rule of its operator. A program with other extents in each step would do that each time. So an operator that
is met with other extents is expanded with traced ones, as :mod:`phonograd.core.graph.generic` does it for templates.
Where the expressions of three combinations agree, the function holds for all extents with the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.hot import hot, slotted
from ..graph.extents import Condition, Questions
from ..graph.generic import Differ, Learned, Pattern, Unifier, insert, samples_of
from ..graph.node import Node, Shape, new_node, tensor_type
from ..graph.operator import ABSENT, item_operator
from ..lower.lowering import SAME, Fused, Lowering
from ..ops.math.structural import leaf
from ..run.reference import resolve
from .eager_folds import folds_of
from .eager_launch import FEW_CALLS
from .eager_reuse import LEAST_REUSED, reuse
from .eager_rows import Rows, Step, rows_of
from .expansion import Order

__all__ = ["Expansions", "copy_of"]

#: patterns, and functions of each for certain extents, to keep
MOST_PATTERNS = 4096
MOST_SHAPES = 256
#: the size of a constant of an expression up to which it is kept
MOST_CONSTANT_BYTES = 4096

_ITEM = item_operator()
_ABSENT = ABSENT.operator

Function = Callable[..., Any]
#: returns the function of a node that reads leaves, given its lowering, and whether it holds for all shapes
Place = Callable[[Node, Lowering], tuple[Function, bool]]


def copy_of(node: Node, inputs: Sequence[Node]) -> Node:
    """Return a node that no table holds, with other inputs."""
    made = Node(node.operator, tuple(inputs), node.attributes, node.shape, node.dtype, node.outputs, node.context)
    # functions are shared by equal operators of other lines
    made.origin = made.gradient_of = None
    return made


class _Steps(NamedTuple):
    """The operators of an expression in order, the number of its value, and the number of arguments."""

    steps: list[Step]
    result: int
    given: int


def _steps_of(node: Node, order: Order, given: Sequence[Node]) -> _Steps | None:
    """Return the steps of an expression; None if one of them is an output of several."""
    slots = {source: number for number, source in enumerate(given)}
    steps: list[Step] = []
    for step in order.nodes:
        expression, lowering = order.expressions[step], order.lowerings[step]
        if lowering is SAME:
            slots[step] = slots[resolve(expression)]
            continue
        if expression.operator is _ITEM or expression.outputs is not None:
            return None
        places = tuple([slots[source] for source in order.sources[step]])
        attributes, shape = expression.attributes, expression.shape
        steps.append(Step(expression.operator, attributes, shape, expression.dtype, lowering, places))
        slots[step] = slots[expression] = len(given) + len(steps) - 1
    return _in_order(steps, slots[order.source(node)], len(given))


def _in_order(steps: Sequence[Step], result: int, given: int) -> _Steps:
    """Return steps in an order that follows from the expression alone: interned constants may be older or younger."""
    numbers = {number: number for number in range(given)}
    found: list[Step] = []
    stack = [result]
    while stack:
        number = stack[-1]
        if number in numbers:
            stack.pop()
            continue
        step = steps[number - given]
        missing = [place for place in step.places if place not in numbers]
        if missing:
            stack.append(missing[0])
            continue
        numbers[number] = given + len(found)
        found.append(step._replace(places=tuple([numbers[place] for place in step.places])))
    return _Steps(found, numbers[result], given)


class Expansions:
    """The functions of operators that expand, by operator, attributes, dtypes and pattern of extents."""

    def __init__(self, place: Place) -> None:
        self._place = place
        #: functions for any extents
        self._patterns: dict[Any, Learned[_AnyExtents]] = {}

    def forget_extents(self) -> None:
        """Forget functions for certain extents, which may refer to interned nodes; those for any extents stay."""
        for learned in self._patterns.values():
            for found in learned.variants:
                found.forget()

    def known(self, node: Node, given: Sequence[Any], pattern: Pattern, is_varied: bool = False) -> _AnyExtents | None:
        """Return the function for any extents of a pattern, if there is one that holds for those of nodes or arrays.

        If extents vary all the time, the next function of the pattern is for any of them.
        """
        learned = self._patterns.get((node.operator, node.attributes, pattern.key))
        if learned is None:
            return None
        if is_varied:
            learned.least = 0
        return learned.find(given)

    def function(self, node: Node, order: Order, given: Sequence[Node], pattern: Pattern | None) -> Function:
        """Return the function of a node that reads leaves, given the order of its expression."""
        steps = _steps_of(node, order, given)
        if steps is None or pattern is None:
            return self._for_outputs(node, order, given) if steps is None else self._for_these_extents(steps)
        key = node.operator, node.attributes, pattern.key
        learned = self._patterns.get(key)
        if learned is None:
            if len(self._patterns) >= MOST_PATTERNS:
                self._patterns.clear()
            learned = self._patterns[key] = Learned(pattern.extents)
        found = learned.find(given)
        if found is None and learned.is_to_learn(pattern.extents):
            general = _generalize(node, steps, given, pattern)
            found = None if general is None else _AnyExtents(general[0], self._place, general[1])
            learned.learn(found)
        return found or self._for_these_extents(steps)

    def _for_these_extents(self, steps: _Steps) -> Function:
        """Return the steps as a function for the extents that they were made for."""
        return _AnyExtents(steps, self._place, Condition(Questions(0)))

    def _for_outputs(self, node: Node, order: Order, given: Sequence[Node]) -> Function:
        """Return the function of an expression with operators of several outputs."""
        slots = {source: number for number, source in enumerate(given)}
        calls: list[tuple[Function, list[int]]] = []
        for step in order.nodes:
            expression, sources = order.expressions[step], order.sources[step]
            if order.lowerings[step] is SAME:
                slots[step] = slots[resolve(expression)]
                continue
            function: Function
            if expression.operator is _ITEM:
                function = _output(expression)
            else:
                leaves = [leaf(number, source.shape, source.dtype) for number, source in enumerate(sources)]
                function, _ = self._place(_copy(expression, leaves), order.lowerings[step])
            calls.append((function, [slots[source] for source in sources]))
            slots[step] = slots[expression] = len(given) + len(calls) - 1
        result = slots[order.source(node)]

        dead = last_reads([places for _, places in calls], len(given), result)

        def run(*arrays: Any) -> Any:
            return _run(calls, dead, arrays, result)

        return run


def _output(expression: Node) -> Function:
    whole, index = expression.inputs[0], expression.attributes[0]
    split = whole.operator.reference(whole.attributes)
    return lambda array: split(array)[index]


def _copy(expression: Node, inputs: Sequence[Node]) -> Node:
    """Return a node that no table holds, with other inputs."""
    shape, dtype, context = expression.shape, expression.dtype, expression.context
    return new_node(
        expression.operator,
        tuple(inputs),
        expression.attributes,
        tensor_type(shape, dtype, context, False, None),
        None,
        None,
    )


def _run(
    calls: Sequence[tuple[Function, Sequence[int]]], dead: Sequence[Sequence[int]], arrays: Sequence[Any], result: int
) -> Any:
    values = [*arrays]
    for (function, places), last in zip(calls, dead, strict=True):
        values.append(function(*[values[place] for place in places]))
        for place in last:
            values[place] = None
    return values[result]


class _Known(NamedTuple):
    """The functions of steps for certain extents."""

    constants: list[Any]
    """For each step its value if that depends on extents alone, else None."""
    calls: list[tuple[int, Function, tuple[int, ...]]]
    """The other steps: the number of the value, its function, and the numbers of the values that it reads."""

    def add(self, step: Step, function: Function, value: Any, arguments: int, is_result: bool) -> None:
        """Add the next step, given its value: that is kept if it is small, and all that it reads is kept."""
        reads = [place < arguments or self.constants[place - arguments] is None for place in step.places]
        only_moves = step.lowering.only_moves or step.lowering.is_constant
        is_small = type(value) is np.ndarray and (value.base is not None or value.nbytes < MOST_CONSTANT_BYTES)
        if only_moves and is_small and not (is_result or any(reads)):
            # a view: whatever returns it as a result is copied (`own`)
            self.constants.append(value.view())
        else:
            self.calls.append((arguments + len(self.constants), function, step.places))
            self.constants.append(None)


def last_reads(reads: Sequence[Sequence[int]], given: int, result: int) -> list[tuple[int, ...]]:
    """Return for each step the values that no later one reads: neither arguments nor the result.

    >>> last_reads([(0,), (1,), (1, 2)], 1, 3)
    [(), (), (1, 2)]
    """
    found: list[tuple[int, ...]] = [()] * len(reads)
    last = {place: step for step, places in enumerate(reads) for place in places}
    for place, step in last.items():
        if place >= given and place != result:
            found[step] += (place,)
    return found


def _reusable_values(steps: _Steps, dead: Sequence[Sequence[int]]) -> list[int]:
    """Return for each elementwise step a value in new memory that no later step sees; -1 if there is none.

    Products and elementwise operators have new memory. What only moves elements may return a view of it, and any other
    operator may return what it reads.
    """
    #: the values in the same memory, for each value in new memory
    sharing: dict[int, set[int]] = {}
    found: list[int] = []
    gone: set[int] = set()
    for number, (step, last) in enumerate(zip(steps.steps, dead, strict=True), steps.given):
        gone.update(last)
        is_elementwise = step.lowering.fused_as is Fused.STEP
        free = [place for place in last if is_elementwise and sharing.get(place, {-1}) <= gone]
        found.append(free[0] if free else -1)
        if is_elementwise or step.lowering.is_product:
            sharing[number] = {number}
        elif step.lowering.only_moves and len(step.places) == 1 and step.places[0] in sharing:
            sharing[number] = sharing[step.places[0]]
            sharing[number].add(number)
        else:
            for place in step.places:
                for other in sharing.get(place, ()):
                    del sharing[other]
    return found


def _is_fold(lowering: Lowering) -> bool:
    return lowering.fused_as is Fused.FOLD and not lowering.only_moves


@slotted
class _AnyExtents:
    """A function of arrays of any extents of one pattern that meet a condition."""

    __slots__ = (
        "_dead",
        "_folds",
        "_general",
        "_given",
        "_known",
        "_may_be_rows",
        "_place",
        "_result",
        "_reusable",
        "_row_shapes",
        "_rows",
        "_steps",
        "condition",
    )

    def __init__(self, steps: _Steps, place: Place, condition: Condition) -> None:
        self._steps, self._result, self._given = steps
        self._place, self.condition = place, condition
        #: for each step the values that no later one reads, and the one whose memory its result can take (or -1)
        self._dead = last_reads([step.places for step in self._steps], self._given, self._result)
        self._reusable = _reusable_values(steps, self._dead)
        #: the functions of steps that hold for all shapes, once they are made
        self._general: list[Function | None] = [None] * len(self._steps)
        #: the steps that combine elements along axes
        self._folds = [folds_of(step.operator, step.dtype) if _is_fold(step.lowering) else None for step in self._steps]
        #: whether there are sums, or the like, among elementwise steps, which may be one kernel
        kinds = {step.lowering.fused_as for step in self._steps}
        self._may_be_rows = kinds == {Fused.STEP, Fused.FOLD}
        #: that kernel, once it is found
        self._rows: Rows | None = None
        #: the shapes, or their formulas, that have one number for each row then
        self._row_shapes = [step.shape for step in self._steps if _is_fold(step.lowering)]
        #: functions by shapes, or how often these came
        self._known: dict[Any, _Known | int] = {}

    def __call__(self, *arrays: Any) -> Any:
        return self._run(arrays)

    @hot
    def _run(self, arrays: Sequence[Any]) -> Any:
        shapes = tuple([None if array is None else array.shape for array in arrays])
        if self._may_be_rows:
            result = self._run_rows(arrays, shapes)
            if result is not None:
                return result
        known: Any = self._known.get(shapes)
        if known is None or isinstance(known, int):
            known = known or 0
            if known >= FEW_CALLS:
                return self._learn(arrays, shapes)
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            self._known[shapes] = known + 1
            return self._run_new(arrays, shapes)
        values = [*arrays, *known.constants]
        given, dead, reusable = self._given, self._dead, self._reusable
        for number, function, places in known.calls:
            old = reusable[number - given]
            if old >= 0 and values[old].nbytes >= LEAST_REUSED:
                values[number] = reuse(function, [values[place] for place in places], values[old])
            else:
                values[number] = function(*map(values.__getitem__, places))
            for place in dead[number - given]:
                values[place] = None
        return values[self._result]

    def forget(self) -> None:
        """Forget the functions for certain extents."""
        self._known.clear()

    @hot
    def _run_new(self, arrays: Sequence[Any], shapes: tuple[Any, ...]) -> Any:
        """Return the result for shapes for which no functions are kept."""
        values, general, folds = [*arrays], self._general, self._folds
        dead, reusable = self._dead, self._reusable
        extents = [() if shape is None else shape for shape in shapes]
        for number, step in enumerate(self._steps):
            function, fold, places = general[number], folds[number], step.places
            if fold is not None:
                values.append(fold._run(insert(step.attributes, extents), values[places[0]]))
            elif function is not None and reusable[number] < 0:
                values.append(function(*map(values.__getitem__, places)))
            else:
                inputs = [values[place] for place in places]
                if function is None:
                    function = self._function(number, step, extents, inputs)
                old = reusable[number]
                if old >= 0 and values[old].nbytes >= LEAST_REUSED:
                    values.append(reuse(function, inputs, values[old]))
                else:
                    values.append(function(*inputs))
            for place in dead[number]:
                values[place] = None
        return values[self._result]

    def _learn(self, arrays: Sequence[Any], shapes: tuple[Any, ...]) -> Any:
        """Make the functions for shapes that came several times while they run, and keep them."""
        values, general = [*arrays], self._general
        extents = [() if shape is None else shape for shape in shapes]
        known = _Known([], [])
        for number, step in enumerate(self._steps):
            inputs = [values[place] for place in step.places]
            function = general[number] or self._function(number, step, extents, inputs)
            value = function(*inputs)
            known.add(step, function, value, len(arrays), is_result=len(values) == self._result)
            values.append(value)
            for place in self._dead[number]:
                values[place] = None
        self._known[shapes] = known
        return values[self._result]

    @hot
    def _run_rows(self, arrays: Sequence[Any], shapes: tuple[Any, ...]) -> Any:
        """Return the result of all steps as one kernel; None if there is none for these shapes."""
        rows = self._rows
        if rows is None:
            rows = self._find_rows(arrays)
            if rows is None:
                return None
        return rows.run(arrays) if self._has_rows(shapes) else None

    @hot
    def _has_rows(self, shapes: tuple[Any, ...]) -> bool:
        """Return whether sums, or the like, have one number for each row of the first array."""
        row_shape = (*shapes[0][:-1], 1)
        return all([insert(shape, shapes) == row_shape for shape in self._row_shapes])

    def _find_rows(self, arrays: Sequence[Any]) -> Rows | None:
        """Return all steps as one kernel, if there is one, and keep it."""
        is_whole = self._result == len(arrays) + len(self._steps) - 1
        if is_whole and not any([array is None or array.ndim == 0 for array in arrays]):
            self._rows = rows_of(self._steps, arrays)
        self._may_be_rows = self._rows is not None
        return self._rows

    def _function(self, number: int, step: Step, shapes: Sequence[Shape], inputs: Sequence[Any]) -> Function:
        attributes, lowering = insert(step.attributes, shapes), step.lowering
        if lowering.only_moves:
            return step.operator.reference(attributes)
        fold = self._folds[number]
        if fold is not None:
            return fold.function(attributes)
        leaves = tuple([leaf(number, array.shape, array.dtype) for number, array in enumerate(inputs)])
        type_ = tensor_type(insert(step.shape, shapes), step.dtype, leaves[0].context, False, None)
        function, is_general = self._place(new_node(step.operator, leaves, attributes, type_, None, None), lowering)
        if is_general and attributes is step.attributes:
            self._general[number] = function
        return function


def _generalize(node: Node, first: _Steps, given: Sequence[Node], pattern: Pattern) -> tuple[_Steps, Condition] | None:
    """Return the steps of an expression for all extents that meet a condition, which is returned, too; None if none."""

    def steps_for(others: Sequence[Any]) -> _Steps:
        type_ = node.operator.result_type(tuple(others), node.attributes)
        alone = new_node(node.operator, tuple(others), node.attributes, type_, None, None)
        found = _steps_of(alone, Order([alone], others), others)
        if found is None or len(found.steps) != len(first.steps) or found.result != first.result:
            raise Differ
        return found

    steps: list[Step] = []
    try:
        samples = samples_of(steps_for, given, pattern, node.attributes)
        unifier = Unifier(samples.arguments)
        for parts in zip(*[each.steps for each in samples.results]):
            one = parts[0]
            if any([(p.operator, p.places, p.lowering, p.dtype) != (one[0], one[5], one[4], one[3]) for p in parts]):
                return None
            attributes = unifier.unify([part.attributes for part in parts], one.dtype)
            shape = unifier.unify([part.shape for part in parts], one.dtype)
            steps.append(one._replace(attributes=attributes, shape=shape))
    except Differ:
        return None
    return _Steps(steps, first.result, first.given), samples.condition
