"""Gradient rules as functions of arrays, for backward passes that compute at once (:mod:`.eager`).

Takes the rules of operators (:func:`phonograd.core.graph.gradient_rules.gradient_call`). A rule is recorded once for
each kind of node, as a :class:`~phonograd.core.graph.templates.Template`; the nodes of the template become functions of
arrays. Nodes of the same kind are then differentiated without making nodes.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.hot import hot, slotted
from ..graph.extents import Formula
from ..graph.generic import GenericTemplate, pattern_of, shapes_of
from ..graph.gradient_rules import gradient_attributes, gradient_call
from ..graph.guards import Guards, guards_for
from ..graph.node import UNLEARNED, Node, TensorType, of_one_call, tensor_type, type_of
from ..graph.operator import ABSENT, Array, Operator, items_of
from ..graph.templates import Label, Template, Templates
from ..ops.math.structural import leaf
from ..plan.eager import SIMPLE, EagerProgram, Function, function_of_kind
from ..plan.eager_stacks import StackedFunction, call_each, stacked_function
from ..run.reference import resolve
from .deferred import EMBED, MATMUL, Deferrable, Postponed
from .rule_calls import Calls, Remade, join_calls

__all__ = ["gradients_of", "is_deferrable", "passes_through", "stackable_rule", "values_read"]

#: kinds of nodes whose rules are kept
MOST_KINDS = 8192
#: the largest constant that is kept, in bytes
MOST_CONSTANT_BYTES = 64

_ABSENT = ABSENT.operator

#: the function of a rule, by operator, attributes and types
_rules: dict[Any, Any] = {}
UNLEARNED.connect(_rules.clear)


@slotted
class _Rule:
    """The functions of a template, one after the other.

    Attributes
    ----------
    reads
        The numbers of the arguments that they read, without the gradients of the outputs.
    constants
        Small values that follow the arguments.
    calls
        Functions, each with the numbers of the values that it takes; its result is the next value.
    results
        For each input the number of its gradient, None if there is none or none is needed; or how to defer it.
    """

    __slots__ = ("_inserted", "_maker", "_stacked", "calls", "constants", "is_general", "reads", "results")

    def __init__(self, template: Template, types: list[TensorType | None], outs: int, wanted: Sequence[bool]) -> None:
        maker = _RuleMaker(template, types)
        found: Sequence[int | None] = template.results if isinstance(template.results, tuple) else (template.results,)
        results: list[Any] = []
        for place, is_wanted in zip(found, wanted, strict=True):
            if place is None or not is_wanted:
                results.append(None)
            else:
                results.append(maker.defer(place) or maker.need(place))
        self.reads = [place for place in sorted(maker.read) if place >= outs]
        given = Calls(maker.calls, maker.stacked, maker.ranks)
        if not maker.remade and not maker.new_constants:
            given = join_calls(given, len(types) + len(maker.constants), maker.rank_of, results)
        self.constants, self.calls, self.results = maker.constants, given.calls, results
        #: the stacked form of each call, None where there is none
        self._stacked: list[StackedFunction | None] = given.stacked
        #: whether it holds for all extents, if the template does
        self.is_general = maker.is_general
        self._maker = maker if maker.generic is not None and (maker.remade or maker.new_constants) else None
        #: the calls whose functions a run makes from the extents of its arguments
        self._inserted: Sequence[Remade] = ()
        if self._maker is not None and not maker.new_constants and all([each.simple for each in maker.remade]):
            self._inserted = maker.remade

    @classmethod
    def of_adjoint(cls, node: Node) -> _Rule:
        """Return the rule of a node whose gradient is a call of one operator, without recording it."""
        declared, (source,) = node.operator, node.inputs
        assert declared.adjoint_rule is not None
        adjoint, attributes = declared.adjoint_rule(source.shape, **node.parameters)

        def make() -> Function:
            type_ = tensor_type(source.shape, source.dtype, source.context, False, None)
            return function_of_kind(adjoint, attributes, [leaf(0, node.shape, node.dtype, node.context)], type_)

        rule = cls.__new__(cls)
        rule._maker, rule.is_general, rule._inserted = None, False, ()
        rule.reads, rule.constants, rule.calls, rule._stacked = [], [], [], []
        if adjoint is EMBED:
            # most gradients of parts are added in their place, and need no function
            rule.results = [Deferrable(Postponed(make), adjoint, attributes, [0])]
        else:
            function = make()
            # the gradient of the output, the output and the input are the values before it
            rule.calls, rule.results = [(function, [0])], [3]
            ranks = [len(node.shape)]
            rule._stacked = [stacked_function(adjoint, attributes, ranks, len(source.shape), function)]
        return rule

    def for_extents(self, arguments: Sequence[Node | None]) -> _Rule:
        """Return the rule for arguments of other extents, if it was made from a template for any extents."""
        return self if self._maker is None or self._inserted else self.for_these_extents(arguments)

    def for_these_extents(self, arguments: Sequence[Node | None]) -> _Rule:
        """Return the rule for arguments of other extents, and for no others."""
        if self._maker is None:
            return self
        other = _Rule.__new__(_Rule)
        other._maker, other.is_general, other._inserted = None, False, ()
        other.reads, other.results = self.reads, self.results
        other.constants, other.calls = self._maker.insert_extents(arguments)
        # attributes of calls that were made anew are those of other extents
        remade = {each.number for each in self._maker.remade}
        other._stacked = [None if number in remade else each for number, each in enumerate(self._stacked)]
        return other

    @hot
    def run(self, out_grads: Sequence[Any], others: Sequence[Node | None], known: Mapping[Node, Any]) -> list[Any]:
        """Return the gradients of the inputs, given the gradients of the outputs and the values of nodes."""
        values: list[Any] = [*out_grads, *others]
        first = len(out_grads)
        for place in self.reads:
            node = others[place - first]
            if node is not None:
                while node.operator.is_view:
                    node = node.inputs[0]
                values[place] = known[node]
        values += self.constants
        for function, places in self._calls_for(others) if self._inserted else self.calls:
            values.append(function(*map(values.__getitem__, places)))
        found: list[Any] = []
        for result in self.results:
            if result.__class__ is int:
                found.append(values[result])
            elif result is None:
                found.append(None)
            else:
                found.append(result.gradient(values))
        return found

    def _calls_for(self, others: Sequence[Node | None]) -> list[tuple[Function, list[int]]]:
        """Return the calls for arguments of other extents."""
        node = others[0]
        assert node is not None
        calls, shapes = self.calls.copy(), [node.shape, *shapes_of(others)]
        for each in self._inserted:
            calls[each.number] = each.function(shapes), calls[each.number][1]
        return calls

    @hot
    def run_stacked(self, count: int, arrays: list[Any], are_stacked: list[bool]) -> list[Any]:
        """Return the gradients of the inputs of several nodes at once: for each input a stack or a list, or None.

        Parameters
        ----------
        arrays
            The gradients of the outputs, then the arguments; those that the rule does not read may be None.
        are_stacked
            Which of them are stacks.
        """
        values, stacked = [*arrays, *self.constants], [*are_stacked, *[False] * len(self.constants)]
        for (function, places), form in zip(self.calls, self._stacked):
            inputs, are_stacks = [values[place] for place in places], [stacked[place] for place in places]
            is_stack = True in are_stacks
            if not is_stack:
                found = function(*inputs)
            else:
                found = None if form is None else form(count, inputs, are_stacks)
                if found is None:
                    found = call_each(function, count, inputs, are_stacks)
            values.append(found)
            stacked.append(is_stack)
        results: list[Any] = []
        for result in self.results:
            if result is None:
                results.append(None)
            elif result.__class__ is int:
                value = values[result]
                results.append(value if stacked[result] else [value] * count)
            else:
                results.append(result.gradients(count, values, stacked))
        return results


class _RuleMaker:
    """Makes the functions that some results of a template need."""

    def __init__(self, template: Template, types: list[TensorType | None]) -> None:
        self._template = template
        self.generic = template.generic
        #: attributes of constants and steps into which extents are inserted
        self._forms = [] if self.generic is None else self.generic.attributes
        #: calls with such attributes
        self.remade: list[Remade] = []
        #: the constants that depend on extents: their numbers among the template's, and among those that are kept
        self.new_constants: list[tuple[int, int]] = []
        self._types: list[TensorType | None] = [*types]
        self._types += [type_of(node) for node in template.constants]
        self._types += [step[3] for step in template.steps]
        self._first = len(types)
        self._first_step = self._first + len(template.constants)
        self._slots: dict[int, int] = {}
        self.read: set[int] = set()
        self.constants: list[Any] = []
        self.calls: list[tuple[Function, list[int]]] = []
        self.stacked: list[StackedFunction | None] = []
        #: the numbers of axes of the results of calls
        self.ranks: list[int] = []
        self.is_general = True
        self._collect_constants()

    def _collect_constants(self) -> None:
        """Compute the small constants, which come first among the values."""
        for number, node in enumerate(self._template.constants, self._first):
            if node.operator is _ABSENT:
                self._slots[number] = self._first + len(self.constants)
                self._types[number] = None
                self.constants.append(None)
            elif node.outputs is None and self._is_small(number - self._first, node):
                self._slots[number] = self._first + len(self.constants)
                if self._is_inserted(number):
                    self.new_constants.append((number - self._first, len(self.constants)))
                self.constants.append(_value(node))

    def _is_small(self, number: int, node: Node) -> bool:
        """Return whether a constant is small for all extents."""
        if self.generic is not None and self.generic.has_new_shape(number):
            return False
        return node.size * node.dtype.itemsize <= MOST_CONSTANT_BYTES

    def insert_extents(self, arguments: Sequence[Node | None]) -> tuple[list[Any], list[tuple[Function, list[int]]]]:
        """Return the constants and calls for arguments of other extents."""
        constants, calls = self.constants, self.calls
        if self.new_constants:
            assert self.generic is not None
            constants, nodes = constants.copy(), self.generic.constants(arguments)
            for number, place in self.new_constants:
                constants[place] = _value(nodes[number])
        if self.remade:
            calls, shapes = calls.copy(), shapes_of(arguments)
            for each in self.remade:
                calls[each.number] = each.function(shapes), calls[each.number][1]
        return constants, calls

    def need(self, place: int) -> int:
        """Return the number of a value, and note how it is computed."""
        found = self._slots.get(place)
        if found is not None:
            return found
        if place < self._first:
            self.read.add(place)
            self._slots[place] = place
            return place
        declared, places, attributes, type_, item, _ = self._step(place)
        if declared.is_view or isinstance(item, Label):
            found = self.need(places[0])
        else:
            sources = [self.need(source) for source in places]
            function: Function
            form: StackedFunction | None = None
            if item.__class__ is int:
                # of a tuple of stacks or of arrays
                function = operator.itemgetter(item)
                form = _item_of_stacks(function)
            else:
                below = self._leaves(places)
                function = function_of_kind(declared, attributes, below, type_)
                ranks = [len(source.shape) for source in below]
                form = stacked_function(declared, attributes, ranks, len(type_.shape), function)
                if self._is_inserted(place):
                    inserted = self._forms[place - self._first]
                    simple = SIMPLE.get((declared, type_.dtype.num, *[source.kind for source in below]))
                    self.remade.append(Remade(len(self.calls), declared, inserted, below, type_, simple))
            found = self._first + len(self.constants) + len(self.calls)
            self.calls.append((function, sources))
            self.stacked.append(form)
            self.ranks.append(len(type_.shape))
        self._slots[place] = found
        return found

    def rank_of(self, place: int) -> int:
        """Return the number of axes of an argument or of a constant that is kept."""
        if place >= self._first:
            return int(np.ndim(self.constants[place - self._first]))
        type_ = self._types[place]
        return 0 if type_ is None else len(type_.shape)

    def defer(self, place: int) -> Deferrable | None:
        """Return how to defer the value at a place; None if it is of no such kind."""
        if place < self._first_step:
            return None
        declared, places, attributes, type_, _, _ = self._step(place)
        if declared is MATMUL:
            if places[0] < self._first_step or self._step(places[0])[0].name != "_permute":
                return None
        elif declared is not EMBED:
            return None
        self.is_general = not self._is_inserted(place)
        sources = [self.need(source) for source in places]
        return Deferrable(
            function_of_kind(declared, attributes, self._leaves(places), type_), declared, attributes, sources
        )

    def _is_inserted(self, place: int) -> bool:
        """Return whether the attributes at a place depend on the extents of the arguments."""
        return bool(self._forms) and self._forms[place - self._first].__class__ is Formula

    def _step(self, place: int) -> Any:
        """Return a step of the template; constants are steps, too."""
        if place >= self._first_step:
            return self._template.steps[place - self._first_step]
        node = self._template.constants[place - self._first]
        numbers = {constant: self._first + number for number, constant in enumerate(self._template.constants)}
        item = node.attributes[0] if node.inputs and node.inputs[0].outputs is not None else None
        return node.operator, [numbers[source] for source in node.inputs], node.attributes, type_of(node), item, None

    def _is_absent(self, place: int) -> bool:
        """Return whether a place is that of an input that the rule leaves out."""
        if not self._first <= place < self._first_step:
            return False
        return self._template.constants[place - self._first].operator is _ABSENT

    def _leaves(self, places: Sequence[int]) -> list[Node]:
        """Return stand-ins for the values at some places."""
        found = []
        for number, place in enumerate(places):
            source = None if self._is_absent(place) else self._types[place]
            found.append(ABSENT() if source is None else leaf(number, source.shape, source.dtype, source.context))
        return found


def _item_of_stacks(function: Function) -> StackedFunction:
    return lambda count, arrays, are_stacked: function(arrays[0])


def _value(node: Node) -> Array:
    """Return the value of a constant."""
    if node.operator.lowering is not None and node.operator.lowering.is_constant:
        return node.operator.reference(node.attributes)()  # type: ignore[no-any-return]
    return EagerProgram([node], lambda _: False).run([])[0]


#: the mark of a rule that looks at the expressions below its inputs, so that it runs each time
_REFUSED = object()


@hot
def gradients_of(node: Node, out_grads: Sequence[Any], known: Mapping[Node, Any]) -> Sequence[Any]:
    """Return the gradients of the marked inputs of a node as arrays; None for the others and where there is none.

    Parameters
    ----------
    out_grads
        The gradient of each output, None where there is none.
    known
        The values of nodes.
    """
    if node.operator.is_view:
        passes = _passes_of(node)
        if passes is not None:
            return [out_grads[0] if passed else None for passed in passes]
    recipe = node.recipe
    if recipe is not None and recipe.rule is not None:
        if node.outputs is None:
            return recipe.rule.run(out_grads, (node, *node.inputs), known)  # type: ignore[no-any-return]
        if _are_complete(out_grads):
            return recipe.rule.run(out_grads, (*items_of(node), *node.inputs), known)  # type: ignore[no-any-return]
    found = _rule_of(node, out_grads)
    if found is not _REFUSED:
        others = (node, *node.inputs) if node.outputs is None else gradient_call(node)[0]
        return found.run(out_grads, others, known)  # type: ignore[no-any-return]
    return _run_rule(node, out_grads, known)


@hot
def _are_complete(out_grads: Sequence[Any]) -> bool:
    """Return whether all outputs of a node have gradients."""
    for grad in out_grads:  # noqa: SIM110 - hot functions have no generators
        if grad is None:
            return False
    return True


def values_read(node: Node) -> list[Node]:
    """Return the nodes whose values :func:`gradients_of` reads if all outputs of a node have gradients."""
    if node.operator.is_view and _passes_of(node) is not None:
        return []
    out_grads = [True] * (1 if node.outputs is None else len(node.outputs))
    found = _rule_of(node, out_grads)
    others: Sequence[Node | None] = (node, *node.inputs)
    if found is not _REFUSED:
        others = others if node.outputs is None else gradient_call(node)[0]
        others = [others[place - len(out_grads)] for place in found.reads]
    return [resolve(other) for other in others if other is not None and other.operator is not _ABSENT]


@hot
def stackable_rule(node: Node, out_grads: Sequence[Any]) -> _Rule | None:
    """Return the rule of a node if it holds for all nodes of its kind, given which outputs have gradients."""
    if node.operator in _curious:
        return None
    found: Any = _rule_of(node, out_grads)
    if found is _REFUSED or node.operator in _curious:
        return None
    if node.outputs is None:
        return found.for_these_extents((node, node, *node.inputs))  # type: ignore[no-any-return]
    return found  # type: ignore[no-any-return]


def is_deferrable(node: Node, number: int) -> bool:
    """Return whether the gradient of an input of a node, whose rule is plain, may be added in another way."""
    rule = None if node.operator.is_view else stackable_rule(node, [True])
    return rule is not None and isinstance(rule.results[number], Deferrable)


def passes_through(node: Node) -> bool:
    """Return whether a node that stands for its first input passes its gradient to that one, unchanged."""
    passes = _passes_of(node)
    return passes is not None and passes[0] and not any(passes[1:])


@hot
def _passes_of(node: Node) -> list[bool] | None:
    """Return to which inputs of a node that stands for an input its gradient passes; None if not unchanged."""
    declared = node.operator
    if declared not in _passing:
        _passing[declared] = _passes(declared, node)
    return _passing[declared]


@hot
def _rule_of(node: Node, out_grads: Sequence[Any]) -> Any:
    """Return the rule of a node, or the mark for none, given which of its outputs have gradients."""
    declared, inputs, recipe = node.operator, node.inputs, node.recipe
    has_several = node.outputs is not None
    if has_several and (not _are_complete(out_grads) or len(inputs) > declared.required_inputs):
        # another rule than that of other nodes of its kind
        recipe = None
    if recipe is not None and recipe.rule is not None:
        return recipe.rule
    found = None if has_several or declared.adjoint_rule is not None else _from_pattern(node)
    if found is not None:
        if recipe is not None:
            recipe.rule = found
        return found
    key = (
        declared,
        node.attributes,
        node.type or type_of(node),
        *[source.type or type_of(source) for source in inputs],
        *([grad is None for grad in out_grads] if node.outputs is not None else ()),
    )
    if len(inputs) > 1 and len(set(inputs)) != len(inputs):
        key += tuple([inputs.index(source) for source in inputs])
    if declared in _curious:
        key += tuple([source.operator for source in inputs])
    found = _rules.get(key)
    if found is None:
        if len(_rules) >= MOST_KINDS:
            _rules.clear()
        asks, found = _make_rule(node, out_grads)
        if asks and declared not in _curious:
            _curious.add(declared)
            key += tuple([source.operator for source in inputs])
        _rules[key] = found
    if found is not _REFUSED and recipe is not None and declared not in _curious:
        recipe.rule = found
    return found


#: rules for any extents, and the templates that say for which, by operator, attributes and pattern of extents
_of_patterns: dict[Any, GenericTemplate] = {}
UNLEARNED.connect(_of_patterns.clear)
#: the same with tests of the extents, by operator, attributes and what else the pattern contains
_guards: dict[Any, Guards[_Rule]] = {}
UNLEARNED.connect(_guards.clear)


@hot
def _from_pattern(node: Node) -> _Rule | None:
    """Return the rule of a node if one for any extents is known that fits."""
    declared, inputs = node.operator, node.inputs
    if declared in _curious:
        return None
    if len(inputs) > declared.required_inputs and _ABSENT in [source.operator for source in inputs]:
        return None
    attributes = gradient_attributes(node) if node.attributes else ()
    # it takes nothing but shapes from the arguments, and the gradient has that of the node
    shapes = [node.shape, node.shape, *[source.shape for source in inputs]]
    guards = guards_for(_guards, (declared, attributes), (node, *inputs))
    if guards is not None:
        known = guards.find(shapes)
        if known is not None:
            return known
    pattern = pattern_of((node, *inputs), attributes)
    generic = None if pattern is None else _of_patterns.get((declared, attributes, pattern.key))
    if generic is None or not generic.condition(shapes):
        return None
    rule: _Rule = generic.rule.for_extents((node, node, *inputs))
    if guards is not None and pattern is not None and rule is generic.rule:
        guards.learn(shapes, attributes, pattern, generic.condition, rule)
    return rule


#: operators whose rules ask for the operators of their inputs
_curious: set[Operator] = set()
#: to which inputs a gradient passes, for operators that stand for an input; None if it does not pass unchanged
_passing: dict[Operator, list[bool] | None] = {}


def _passes(declared: Operator, node: Node) -> list[bool] | None:
    others, rule = gradient_call(node)
    grad = leaf(0, node.shape, node.dtype, node.context)
    found = rule((grad, *others))
    return [each is not None for each in found] if all([each is None or each is grad for each in found]) else None


def _stand_ins(node: Node, out_grads: Sequence[Any]) -> list[Node | None]:
    """Return leaves for the gradients of the outputs, numbered apart from those of traces."""
    specs = node.outputs or ((node.shape, node.dtype),)
    return [
        None if grad is None else leaf(-(1 << 40) - number, shape, dtype, node.context)
        for number, (grad, (shape, dtype)) in enumerate(zip(out_grads, specs, strict=True))
    ]


def _make_rule(node: Node, out_grads: Sequence[Any]) -> tuple[bool, Any]:
    """Return whether the rule asks for the operators of inputs, and its functions, or the mark for none."""
    if node.operator.adjoint_rule is not None:
        return False, _Rule.of_adjoint(node)
    others, rule = gradient_call(node)
    arguments = (*_stand_ins(node, out_grads), *others)
    templates, attributes = node.operator.leaf_gradient_templates, gradient_attributes(node)
    generic = templates.generic(arguments, attributes)
    if generic is not None and generic.rule is not None:
        asks = _asks(templates, out_grads)
        if not asks:
            _keep_generic(node, attributes, generic)
        return asks, generic.rule.for_extents(arguments)
    with of_one_call():
        template = templates.find(arguments, attributes, rule, at_once=True)
        asks = _asks(templates, out_grads)
        if template is None:
            return asks, _REFUSED
        if isinstance(template, GenericTemplate):
            template = template.template(arguments)
        generic = template.generic
        types = [None if each is None else type_of(each) for each in arguments]
        wanted = [source.marked for source in node.inputs]
        found = _Rule(template, types, len(out_grads), wanted)
        if generic is not None and found.is_general:
            generic.rule = found
            if not asks:
                _keep_generic(node, attributes, generic)
        return asks, found


def _keep_generic(node: Node, attributes: tuple[Any, ...], generic: GenericTemplate) -> None:
    """Remember the template, with its rule, for nodes of the pattern of a node."""
    if node.operator in _curious or _ABSENT in [source.operator for source in node.inputs]:
        return
    pattern = pattern_of((node, *node.inputs), attributes)
    if pattern is not None:
        if len(_of_patterns) >= MOST_KINDS:
            _of_patterns.clear()
        _of_patterns[node.operator, attributes, pattern.key] = generic


def _asks(templates: Templates, out_grads: Sequence[Any]) -> bool:
    """Return whether a rule asks for the operators of outputs or inputs."""
    return any([place >= len(out_grads) for place in templates.asked])


def _run_rule(node: Node, out_grads: Sequence[Any], known: Mapping[Node, Any]) -> Sequence[Any]:
    """Return the gradients of inputs by running the rule, and then the nodes that it returns."""
    others, rule = gradient_call(node)
    stand_ins = _stand_ins(node, out_grads)
    lent = {each: grad for each, grad in zip(stand_ins, out_grads, strict=True) if each is not None}
    with of_one_call():
        grads = rule((*stand_ins, *others))
    found = [
        None if grad is None or not source.marked else resolve(grad)
        for grad, source in zip(grads, node.inputs, strict=True)
    ]
    program = EagerProgram([grad for grad in found if grad is not None], lambda each: each in lent or each in known)
    results = program.run([lent[each] if each in lent else known[each] for each in program.inputs])
    values: dict[Node, Any] = {**lent, **dict(zip([each for each, _ in program.kept], results))}
    return [None if grad is None else values[grad] if grad in values else known[grad] for grad in found]
