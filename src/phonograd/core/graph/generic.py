"""Generic templates: templates for calls of one kind with any extents.

Takes rules from :mod:`phonograd.core.graph.templates`. A template is made for certain shapes. A program whose shapes
are always new (batches of another size, sequences of another length) would run every rule each time. So a rule that
meets another combination of extents is recorded with traced extents (:mod:`phonograd.core.graph.extents`): each number
in the template is then a formula of the shapes, and what the rule has asked of the extents is known. Other extents that
give the same answers lead to the same template with other numbers. It is recorded for two more, made up, combinations
with these answers, because functions of C see plain numbers: all three templates must have the same steps and formulas,
and a number without a formula must be the same in all of them, or the same product of extents.

Combinations of extents of one *pattern* have the same places of zeros, ones, equal extents and extents that are numbers
among the attributes, and the other extents lie between the same numbers. Most questions of rules are answered by the
pattern alone. The made-up extents are as small as the pattern allows in one combination and as large in the other, and
grow in the order of the pattern in one and shrink in the other, wherever that gives the same answers. Extents beyond a
limit have no pattern: nothing was recorded for such large ones.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import math
import random
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from ..base.dtypes import DType, convert_scalar
from ..base.errors import MXNetError
from ..base.hot import hot, slotted, untracked
from .extents import Condition, Formula, Questions, is_traced, is_tracing, numbers_of, traced_shapes, tracing
from .node import Node, Recipe, Shape, TensorType, creation_facts, new_node, statistics, tensor_type, type_of

if TYPE_CHECKING:
    from .operator import Operator
    from .templates import Template

__all__ = [
    "Differ",
    "GenericTemplate",
    "Learned",
    "Pattern",
    "Samples",
    "Unifier",
    "generalize",
    "insert",
    "made_up_extents",
    "pattern_of",
    "pattern_of_shapes",
    "samples_of",
    "shapes_of",
    "with_extents",
]

#: a pattern with more different extents has no generic template
_MOST_EXTENTS = 10
#: the largest extents of patterns, by the number of axes or different extents; an expression may grow with its extents
_LIMITS = {1: 1 << 17, 2: 1 << 13, 3: 1 << 12}
_LIMIT = 2081
#: combinations of extents of one pattern to meet before it is learned: that takes three to five times as long as the
#: rule does for one of them, and the layers of most networks have fewer
LEAST_EXTENTS = 4
#: combinations of extents of one pattern that are learned from, each of which led a rule another way
_MOST_TRIES = 4
#: combinations of extents that are tried to find some that lead a rule the same way
_MOST_COMBINATIONS = 64

Arguments = Sequence["Node | None"]


class Pattern(NamedTuple):
    """A key that calls with other extents share, and the extents of one call in order of appearance."""

    key: tuple[Any, ...]
    extents: tuple[int, ...]
    limit: int
    """The largest extent that the pattern allows."""


@hot
def pattern_of(arguments: Arguments, attributes: tuple[Any, ...]) -> Pattern | None:
    """Return the pattern of the arguments of a call with attributes.

    None is returned if an argument has several outputs, or an extent is very large.
    """
    parts: list[tuple[Any, Shape]] = []
    for node in arguments:
        if node is None:
            parts.append((None, ()))
            continue
        type_ = node.type or type_of(node)
        if type_.outputs is not None:
            return None
        parts.append((type_.family, type_.shape))
    others = [arguments.index(node) for node in arguments] if len(set(arguments)) != len(arguments) else []
    return pattern_of_shapes(parts, attributes, others)


@hot
def pattern_of_shapes(
    parts: Sequence[tuple[Any, Shape]], attributes: tuple[Any, ...], others: Sequence[int]
) -> Pattern | None:
    """Return the pattern of a call, given for each argument what stands for its dtype, and its shape.

    ``others`` is one more part of the key. None is returned if an extent is very large.
    """
    bounds: Sequence[int] = ()
    numbers: dict[int, int] = {}
    if attributes:
        bounds, numbers = numbers_of(attributes)
    fixed = len(numbers)
    key: list[Any] = [*others]
    axes = 0
    for family, shape in parts:
        if len(shape) > axes:
            axes = len(shape)
        key.append(family)
        key.append(tuple([e if e < 2 else numbers.setdefault(e, fixed - 1 - len(numbers)) for e in shape]))
    extents = tuple(numbers)[fixed:]
    limit = _LIMITS.get(max(axes, len(extents)), _LIMIT)
    if extents and max(extents) > limit:
        return None
    if bounds:
        key.append(tuple([bisect.bisect(bounds, extent) for extent in extents]))
    return Pattern(tuple(key), extents, limit)


@hot
def shapes_of(arguments: Sequence[Any]) -> list[Shape]:
    """Return the shapes of nodes or arrays, of which some may be left out."""
    return [() if each is None else each.shape for each in arguments]


@hot
def insert(value: Any, shapes: Sequence[Shape]) -> Any:
    """Return attributes, or a shape, for arguments of certain shapes."""
    return value(shapes) if value.__class__ is Formula else value


class _Conditional(Protocol):
    """Something that holds for arguments whose shapes meet a condition."""

    condition: Condition


_T = TypeVar("_T", bound=_Conditional)


class Learned(Generic[_T]):
    """What was learned about calls of one pattern: nothing at first, then one thing for each way a rule may take."""

    __slots__ = ("_extents", "_tries", "least", "variants")

    def __init__(self, extents: tuple[int, ...], least: int = 0) -> None:
        #: extents that were met before anything was learned, and how many combinations of them it takes
        self._extents, self.least = {extents}, least or LEAST_EXTENTS
        self.variants: tuple[_T, ...] = ()
        self._tries = 0

    def find(self, arguments: Sequence[Any]) -> _T | None:
        """Return what was learned for arguments like these, which are nodes or arrays."""
        return self.find_for(shapes_of(arguments)) if self.variants else None

    def find_for(self, shapes: Sequence[Shape]) -> _T | None:
        """Return what was learned for arguments of these shapes."""
        for each in self.variants:
            if each.condition(shapes):
                return each
        return None

    def is_to_learn(self, extents: tuple[int, ...]) -> bool:
        """Return whether to learn from extents for which there is nothing yet: they are new, and so were others."""
        if self._tries >= _MOST_TRIES or extents in self._extents:
            return False
        if len(self._extents) + 1 < self.least:
            self._extents.add(extents)
            return False
        return True

    def learn(self, found: _T | None) -> None:
        """Note what was learned, None if nothing holds for all extents."""
        self._tries += 1
        if found is not None:
            self.variants = (*self.variants, found)


class Differ(Exception):
    """Two templates differ in more than extents."""


@slotted
class GenericTemplate:
    """A template whose attributes are numbers, or products of extents of its arguments."""

    __slots__ = ("_constants", "_results", "_steps", "condition", "rule")

    def __init__(self, constants: list[Any], steps: list[Any], results: Any, condition: Condition) -> None:
        self._constants, self._steps, self._results = constants, steps, results
        #: for which shapes of arguments it holds
        self.condition = condition
        #: the function of arrays that it stands for
        self.rule: Any = None

    @hot
    def constants(self, arguments: Arguments) -> list[Node]:
        """Return the constants for certain arguments."""
        values: list[Any] = [*arguments]
        shapes = shapes_of(arguments) if self._constants else []
        for declared, places, attributes, type_ in self._constants:
            attributes = insert(attributes, shapes)
            if places:
                values.append(declared.apply(tuple([values[place] for place in places]), attributes))
            else:
                values.append(declared.source(attributes, insert(type_[0], shapes), type_[1], type_[2]))
        return values[len(arguments) :]

    @property
    def attributes(self) -> list[Any]:
        """The attributes of constants and steps; :func:`insert` inserts extents."""
        return [part[2] for part in (*self._constants, *self._steps)]

    def has_new_shape(self, number: int) -> bool:
        """Return whether the shape of a constant depends on extents."""
        return self._constants[number][3][0].__class__ is Formula

    def template(self, arguments: Arguments) -> Template:
        """Return the template for certain arguments."""
        from .templates import Template

        constants = self.constants(arguments)
        shapes = shapes_of(arguments)
        values: list[Any] = [*arguments, *constants]
        steps: list[Any] = []
        for declared, places, attributes, item, shape, facts in self._steps:
            inputs = tuple([values[place] for place in places])
            attributes = insert(attributes, shapes)
            if item.__class__ is int:
                type_ = type_of(inputs[0]).items[item]
            else:
                type_ = _type(declared, inputs, attributes, insert(shape, shapes), facts)
            recipe = Recipe(attributes, type_) if item is None else None
            steps.append((declared, places, attributes, type_, item, recipe))
            values.append(new_node(declared, inputs, attributes, type_, None, None))
        made = Template(constants, steps, self._results)
        made.generic = self
        return made

    @hot
    def apply(self, arguments: Arguments) -> Any:
        """Return the results of the rule for arguments, as the template for their extents does."""
        values: list[Any] = [*arguments, *self.constants(arguments)]
        line, gradient_of = creation_facts()
        shapes = shapes_of(arguments)
        made = 0
        for declared, places, attributes, item, shape, facts in self._steps:
            inputs = untracked(tuple([values[place] for place in places]))
            if item is None:
                attributes = insert(attributes, shapes)
            elif item.__class__ is int:
                # one output of an operator with several
                values.append(inputs[0][item])
                continue
            elif item is True:
                values.append(declared.apply(inputs, insert(attributes, shapes)))
                continue
            else:
                call = item.operator, tuple([values[place] for place in item.places]), item.attributes
                attributes = untracked((untracked(call), item.index))
            key, table = untracked((inputs, attributes)), declared.table
            found = table.get(key)
            if found is None:
                made += 1
                type_ = _type(declared, inputs, attributes, insert(shape, shapes), facts)
                found = new_node(declared, inputs, attributes, type_, line, gradient_of, None)
                if item is not None:
                    found.call = attributes[0]
                found = table.setdefault(key, found)
            values.append(found)
        statistics.nodes += made
        results = self._results
        if results.__class__ is tuple:
            return tuple([None if place is None else values[place] for place in results])
        return None if results is None else values[results]


@hot
def _type(
    declared: Operator, inputs: tuple[Node, ...], attributes: Any, shape: Shape | None, facts: tuple[Any, ...]
) -> TensorType:
    """Return the type of a step's result; its shape is None if it is not made of extents in a simple way."""
    return declared.result_type(inputs, attributes) if shape is None else tensor_type(*(shape, *facts))


def generalize(
    rule: Callable[[Any], Any],
    arguments: Arguments,
    attributes: tuple[Any, ...],
    record: Callable[[Callable[[Any], Any], Arguments], tuple[Sequence[int], Any]],
    may_ask: Sequence[int],
) -> GenericTemplate | None:
    """Return the generic template of a rule, given some arguments; None if there is none.

    ``record`` records the rule; it may ask for the operators of the arguments at some places.
    """
    from .templates import Template

    pattern = None if is_tracing() else pattern_of(arguments, attributes)
    if pattern is None or not pattern.extents:
        return None

    def record_one(others: Arguments) -> Template:
        asked, template = record(rule, others)
        if not set(asked) <= set(may_ask) or not isinstance(template, Template):
            raise Differ
        for node in template.constants:
            if _has_traced((node.attributes, node.shape)):
                # nothing else refers to it
                node.operator.table.pop((node.inputs, node.attributes), None)
        return template

    try:
        return _unify(samples_of(record_one, arguments, pattern, attributes))
    except Differ:
        return None


_R = TypeVar("_R")


class Samples(Generic[_R]):
    """What a rule does for three combinations of extents that lead it the same way."""

    __slots__ = ("arguments", "condition", "results")

    def __init__(self, results: list[_R], arguments: list[Arguments], condition: Condition) -> None:
        #: the condition tells whether shapes of arguments lead the rule that way
        self.results, self.arguments, self.condition = results, arguments, condition


def samples_of(
    rule: Callable[[Arguments], _R], arguments: Arguments, pattern: Pattern, attributes: tuple[Any, ...]
) -> Samples[_R]:
    """Return what a rule does for the extents of some arguments, and for two more combinations that are made up.

    Differ is raised if there are none that lead it the same way.
    """
    shapes = shapes_of(arguments)
    result, given, questions = _run(rule, arguments, {extent: extent for extent in pattern.extents}, pattern.limit)
    results, every, holds = [result], [given], Condition(questions)
    for others in made_up_extents(pattern, attributes, lambda others: holds(_replaced(shapes, others))):
        result, given, more = _run(rule, arguments, others, pattern.limit)
        if more.answers != questions.answers:
            # it depends on something that is not traced
            raise Differ
        results.append(result)
        every.append(given)
    if len(results) < 3:
        raise Differ
    return Samples(results, every, holds)


def _run(
    rule: Callable[[Arguments], _R], arguments: Arguments, others: dict[int, int], limit: int
) -> tuple[_R, Arguments, Questions]:
    """Return the result of a rule for other extents, by extent, the arguments that it was given, and its questions."""
    questions = Questions(limit)
    given = with_extents(arguments, others, questions)
    try:
        with tracing():
            result = rule(given)
    except (MXNetError, AssertionError, ValueError, TypeError, IndexError, KeyError, ZeroDivisionError) as error:
        # no such call exists: the extents depend on each other
        raise Differ from error
    # what is compared later is not asked by the rule
    return result, given, questions.copy()


def _replaced(shapes: Sequence[Shape], others: dict[int, int]) -> list[Shape]:
    return [tuple([others.get(extent, extent) for extent in shape]) for shape in shapes]


def made_up_extents(
    pattern: Pattern, attributes: tuple[Any, ...], holds: Callable[[dict[int, int]], bool]
) -> list[dict[int, int]]:
    """Return two combinations of other extents, by extent, of the same pattern; fewer if there are none that hold."""
    if len(pattern.extents) > _MOST_EXTENTS:
        return []
    bounds, numbers = numbers_of(attributes)
    ranges: dict[tuple[int, int], list[int]] = {}
    for extent in pattern.extents:
        rank = bisect.bisect(bounds, extent)
        below = bounds[rank - 1] if rank else 1
        above = bounds[rank] if rank < len(bounds) else pattern.limit + 1
        ranges.setdefault((below, above), []).append(extent)
    small: dict[int, int] = {}
    large: dict[int, int] = {}
    for (below, above), extents in ranges.items():
        count = len(extents)
        growing = _between(below + 1, above, 1, count, numbers)
        shrinking = _between(above - 1, below, -1, count, numbers)
        if any([one == two for one, two in zip(growing, shrinking)]):
            # there are few primes between these numbers
            growing = _between(below + 1, above, 1, count, numbers, are_prime=False)
            shrinking = _between(above - 1, below, -1, count, numbers, are_prime=False)
        is_only_one = len(growing) == 1 and above - below == 2
        if len(growing) < count or (any([one == two for one, two in zip(growing, shrinking)]) and not is_only_one):
            return []
        small.update(zip(extents, growing))
        large.update(zip(extents, shrinking))
    met = {extent: extent for extent in pattern.extents}
    found = [others for others in (small, large) if holds(others)]
    chance = random.Random(len(found))
    for attempt in range(_MOST_COMBINATIONS):
        if len(found) == 2:
            break
        # smaller and smaller ones: rules ask for small numbers more often than for large ones
        others: dict[int, int] = {}
        for (below, above), extents in ranges.items():
            free = range(below + 1, max(above >> (attempt // 4), below + 1 + 4 * len(extents)))
            drawn = chance.sample(free, min(len(free), 4 * len(extents)))
            others.update(zip(extents, [number for number in drawn if number < above and number not in numbers]))
        if len(others) < len(met) or others == met or not holds(others):
            continue
        if not found or all([len({met[each], found[0][each], others[each]}) > 1 for each in met]):
            found.append(others)
    return found


def _between(
    first: int, end: int, step: int, count: int, excluded: Container[int], are_prime: bool = True
) -> list[int]:
    """Return some numbers from the first on, prime ones if there are as many: products of them tell their factors."""
    numbers, primes = list[int](), list[int]()
    for number in range(first, end, step)[: 64 * count]:
        if number not in excluded:
            numbers.append(number)
            if are_prime and _is_prime(number):
                primes.append(number)
            if len(primes if are_prime else numbers) == count:
                return primes or numbers
    return numbers[:count]


@functools.lru_cache(1024)
def _is_prime(number: int) -> bool:
    return all([number % divisor for divisor in range(2, math.isqrt(number) + 1)])


def with_extents(arguments: Arguments, others: dict[int, int], questions: Questions | None = None) -> list[Node | None]:
    """Return stand-ins for arguments with other extents, by extent; traced ones if questions are to be noted."""
    shapes = shapes_of(arguments)
    found = _replaced(shapes, others) if questions is None else traced_shapes(shapes, others, questions)
    made: dict[Node, Node] = {}
    for node, shape in zip(arguments, found, strict=True):
        if node is not None and node not in made:
            type_ = type_of(node)
            other = tensor_type(shape, type_.dtype, type_.context, type_.marked, None)
            made[node] = new_node(node.operator, (), (), other, None, None)
    return [None if node is None else made[node] for node in arguments]


def _unify(samples: Samples[Template]) -> GenericTemplate:
    """Return what three templates have in common."""
    templates = samples.results
    first = templates[0]
    for other in templates[1:]:
        if other.results != first.results or len(other.constants) != len(first.constants):
            raise Differ
        if len(other.steps) != len(first.steps):
            raise Differ
    unifier = Unifier(samples.arguments)
    begin = len(samples.arguments[0])
    constants = []
    numbers = [{node: begin + number for number, node in enumerate(each.constants)} for each in templates]
    for nodes in zip(*[each.constants for each in templates]):
        places = [tuple([known[source] for source in node.inputs]) for node, known in zip(nodes, numbers)]
        _check_same([(node.operator, place, node.kind) for node, place in zip(nodes, places)])
        if nodes[0].outputs is not None or nodes[0].context is not nodes[1].context:
            raise Differ
        attributes = unifier.unify([node.attributes for node in nodes], nodes[0].dtype)
        shape = unifier.unify([node.shape for node in nodes], nodes[0].dtype)
        constants.append((nodes[0].operator, places[0], attributes, (shape, nodes[0].dtype, nodes[0].context)))
    steps = []
    for parts in zip(*[each.steps for each in templates]):
        declared, places, _, type_, item, _ = parts[0]
        _check_same([(part[0], part[1], part[3].dtype) for part in parts])
        items = [part[4] for part in parts]
        if item is not None and not all([_is_same_item(item, other) for other in items]):
            raise Differ
        has_attributes = item is None or item is True
        attributes = unifier.unify([part[2] for part in parts], type_.dtype) if has_attributes else ()
        shape = None
        if not isinstance(item, int):
            with contextlib.suppress(Differ):
                shape = unifier.unify([part[3].shape for part in parts], type_.dtype)
        steps.append((declared, places, attributes, item, shape, _facts(type_)))
    return GenericTemplate(constants, steps, first.results, samples.condition)


def _facts(type_: TensorType) -> tuple[Any, ...]:
    """Return what all results of a step have in common, besides the operator: the last arguments of tensor_type."""
    return type_.dtype, type_.context, type_.marked, type_.outputs


def _check_same(values: list[Any]) -> None:
    if any([value != values[0] for value in values]):
        raise Differ


def _is_same_item(one: Any, two: Any) -> bool:
    if isinstance(one, int) or isinstance(two, int):
        return type(one) is type(two) and one == two
    if _has_traced(one.attributes):
        return False
    return all([getattr(one, name) == getattr(two, name) for name in ("operator", "places", "attributes", "index")])


def _has_traced(value: Any) -> bool:
    return any([_has_traced(part) for part in value]) if value.__class__ is tuple else is_traced(value)


class Unifier:
    """Finds the formulas of numbers in three templates."""

    def __init__(self, samples: Sequence[Arguments]) -> None:
        shapes = [[tuple([int(extent) for extent in shape]) for shape in shapes_of(each)] for each in samples]
        #: the formula of each product of neighbouring extents of an argument, by its values in the samples
        self._products: dict[tuple[int, ...], str] = {}
        for argument, shape in enumerate(shapes[0]):
            for first, last in itertools.combinations(range(len(shape) + 1), 2):
                values = tuple([math.prod(sample[argument][first:last]) for sample in shapes])
                text = " * ".join([f"s[{argument}][{axis}]" for axis in range(first, last)])
                self._products.setdefault(values, f"({text})")

    def unify(self, values: list[Any], dtype: DType) -> Any:
        """Return the common form of the attributes of a node in the samples: themselves, or a formula."""
        kept: list[Any] = []
        text = self._text(values, dtype, kept)
        return values[0] if text is None else Formula(text, tuple(kept))

    def _text(self, values: list[Any], dtype: DType, kept: list[Any]) -> str | None:
        """Return a formula; None if the values are the same. Values that are part of it are kept."""
        first = values[0]
        if any([is_traced(value) for value in values]):
            texts = [value.formula if is_traced(value) else None for value in values]
            if any([text is None or text != texts[0] for text in texts]):
                raise Differ
            return texts[0]
        if any([type(value) is not type(first) for value in values[1:]]):
            raise Differ
        if type(first) is tuple:
            if any([len(value) != len(first) for value in values[1:]]):
                raise Differ
            parts = [self._text(list(parts), dtype, kept) for parts in zip(*values)]
            if all([part is None for part in parts]):
                return None
            written = [_keep(value, kept) if part is None else part for value, part in zip(first, parts)]
            return f"({', '.join(written)},)"
        if all([value == first for value in values[1:]]):
            return None
        if type(first) is int:
            return self._product(tuple(values))
        if type(first) is float and all([value == int(value) for value in values]):
            return f"float({self._product(tuple([int(value) for value in values]))})"
        if type(first) is bytes:
            return self._bytes(values, dtype, kept)
        raise Differ

    def _product(self, values: tuple[int, ...]) -> str:
        found = self._products.get(values)
        if found is None:
            raise Differ
        return found

    def _bytes(self, values: list[bytes], dtype: DType, kept: list[Any]) -> str:
        """Return the formula of the bytes of a constant: a product of extents in a dtype, or its inverse."""
        converted: list[Callable[[int], Any]] = [
            lambda product: convert_scalar(product, dtype).tobytes(),
            lambda product: convert_scalar(1 / product, dtype).tobytes(),
        ]
        for convert in converted:
            for products, text in self._products.items():
                if _are_converted(convert, products, values):
                    return f"{_keep(convert, kept)}({text})"
        raise Differ


def _keep(value: Any, kept: list[Any]) -> str:
    """Return how a formula refers to a value that is kept with it."""
    kept.append(value)
    return f"k[{len(kept) - 1}]"


def _are_converted(convert: Callable[[int], Any], products: Sequence[int], values: list[bytes]) -> bool:
    try:
        return [convert(product) for product in products] == values
    except OverflowError:
        # a product of made-up extents that the dtype cannot hold
        return False
