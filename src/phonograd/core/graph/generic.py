"""Generic templates: templates for calls of one kind with any extents.

Takes rules from :mod:`phonograd.core.graph.templates`. A template is made for certain shapes. A program whose shapes
are always new (batches of another size, sequences of another length) would run every rule each time. So a rule that
meets another combination of extents is recorded for two more, made up, combinations. If all three templates have the
same steps, and every number in them is the same or the same product of extents, then the steps hold for all
combinations: the template of another one is made by inserting its extents.

Combinations of extents of one *pattern* have the same places of zeros, ones, equal extents and extents that are numbers
among the attributes, and the other extents lie between the same numbers, so a rule that tells such cases apart is
recorded for each of them. The made-up extents are as small as the pattern allows in one combination and as large in the
other, so a rule that compares extents with a bound gives different templates, and there is no generic one. They grow in
the order of the pattern in one and shrink in the other, so the same is true of a rule that compares extents with each
other. Extents beyond a limit have no pattern: nothing was recorded for such large ones.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.dtypes import DType, convert_scalar
from ..base.errors import MXNetError
from .node import Node, Recipe, Shape, TensorType, creation_facts, new_node, statistics, tensor_type, type_of

if TYPE_CHECKING:
    from .operator import Operator
    from .templates import Template

__all__ = [
    "Differ",
    "GenericTemplate",
    "Pattern",
    "Unifier",
    "generalize",
    "insert",
    "is_inserted",
    "made_up_extents",
    "pattern_of",
    "pattern_of_shapes",
    "with_extents",
]

#: a pattern with more different extents has no generic template
_MOST_EXTENTS = 10
#: the largest extents of patterns, by the number of axes or different extents; an expression may grow with its extents
_LIMITS = {1: 1 << 17, 2: 1 << 13, 3: 1 << 12}
_LIMIT = 2081

Arguments = Sequence["Node | None"]


class Pattern(NamedTuple):
    """A key that calls with other extents share, and the extents of one call in order of appearance."""

    key: tuple[Any, ...]
    extents: tuple[int, ...]
    limit: int
    """The largest extent that the pattern allows."""


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


def pattern_of_shapes(
    parts: Sequence[tuple[Any, Shape]], attributes: tuple[Any, ...], others: Sequence[int] = ()
) -> Pattern | None:
    """Return the pattern of a call, given for each argument what stands for its dtype, and its shape.

    ``others`` is one more part of the key. None is returned if an extent is very large.
    """
    bounds: Sequence[int] = ()
    numbers: dict[int, int] = {}
    if attributes:
        bounds, numbers = _numbers_of(attributes)
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


def _numbers_of(attributes: tuple[Any, ...]) -> tuple[list[int], dict[int, int]]:
    """Return the sizes of numbers in attributes with which a rule may compare extents, and each number by itself."""
    numbers = _numbers_in(attributes)
    bounds = sorted({abs(number) for number in numbers if abs(number) > 1}) if numbers else numbers
    return bounds, {number: number for number in numbers}


def _numbers_in(value: Any) -> list[int]:
    """Return the numbers in attributes, in order."""
    if value.__class__ is int:
        return [value]
    return [number for part in value for number in _numbers_in(part)] if value.__class__ is tuple else []


class _Product(NamedTuple):
    """The product of some neighbouring extents of an argument, or a number made of it."""

    argument: int
    first: int
    last: int
    convert: Callable[[int], Any]


def _same(value: int) -> int:
    return value


def _float(value: int) -> float:
    return float(value)


class _Inserted(NamedTuple):
    """A tuple with products among its parts."""

    parts: tuple[Any, ...]


class Differ(Exception):
    """Two templates differ in more than extents."""


class GenericTemplate:
    """A template whose attributes are numbers, or products of extents of its arguments."""

    __slots__ = ("_constants", "_results", "_steps", "rule")

    def __init__(self, constants: list[Any], steps: list[Any], results: Any) -> None:
        self._constants, self._steps, self._results = constants, steps, results
        #: the function of arrays that it stands for
        self.rule: Any = None

    def constants(self, arguments: Arguments) -> list[Node]:
        """Return the constants for certain arguments."""
        values: list[Any] = [*arguments]
        for declared, places, attributes, type_ in self._constants:
            attributes = insert(attributes, arguments)
            if places:
                made = declared.apply(tuple([values[place] for place in places]), attributes)
            else:
                made = declared.source(attributes, insert(type_[0], arguments), *type_[1:])
            values.append(made)
        return values[len(arguments) :]

    @property
    def attributes(self) -> list[Any]:
        """The attributes of constants and steps; :func:`insert` inserts extents."""
        return [part[2] for part in (*self._constants, *self._steps)]

    def has_new_shape(self, number: int) -> bool:
        """Return whether the shape of a constant depends on extents."""
        return is_inserted(self._constants[number][3][0])

    def template(self, arguments: Arguments) -> Template:
        """Return the template for certain arguments."""
        from .templates import Template

        constants = self.constants(arguments)
        values: list[Any] = [*arguments, *constants]
        steps: list[Any] = []
        for declared, places, attributes, item, shape, facts in self._steps:
            inputs = tuple([values[place] for place in places])
            attributes = insert(attributes, arguments)
            if item.__class__ is int:
                type_ = type_of(inputs[0]).items[item]
            else:
                type_ = _type(declared, inputs, attributes, insert(shape, arguments), facts)
            recipe = Recipe(attributes, type_) if item is None else None
            steps.append((declared, places, attributes, type_, item, recipe))
            values.append(new_node(declared, inputs, attributes, type_, None, None))
        made = Template(constants, steps, self._results)
        made.generic = self
        return made

    def apply(self, arguments: Arguments) -> Any:
        """Return the results of the rule for arguments, as the template for their extents does."""
        values: list[Any] = [*arguments, *self.constants(arguments)]
        line, gradient_of = creation_facts()
        made = 0
        for declared, places, attributes, item, shape, facts in self._steps:
            inputs = tuple([values[place] for place in places])
            if item is None:
                attributes = insert(attributes, arguments)
            elif item.__class__ is int:
                # one output of an operator with several
                values.append(inputs[0][item])
                continue
            elif item is True:
                values.append(declared.apply(inputs, insert(attributes, arguments)))
                continue
            else:
                call = item.operator, tuple([values[place] for place in item.places]), item.attributes
                attributes = call, item.index
            key, table = (inputs, attributes), declared.table
            found = table.get(key)
            if found is None:
                made += 1
                type_ = _type(declared, inputs, attributes, insert(shape, arguments), facts)
                found = new_node(declared, inputs, attributes, type_, line, gradient_of)
                if item is not None:
                    found.call = attributes[0]
                found = table.setdefault(key, found)
            values.append(found)
        statistics.nodes += made
        results = self._results
        if results.__class__ is tuple:
            return tuple([None if place is None else values[place] for place in results])
        return None if results is None else values[results]


def _type(
    declared: Operator, inputs: tuple[Node, ...], attributes: Any, shape: Shape | None, facts: tuple[Any, ...]
) -> TensorType:
    """Return the type of a step's result; its shape is None if it is not made of extents in a simple way."""
    return declared.result_type(inputs, attributes) if shape is None else tensor_type(shape, *facts)


def generalize(
    rule: Callable[[Any], Any],
    arguments: Arguments,
    attributes: tuple[Any, ...],
    first: Template,
    record: Callable[[Callable[[Any], Any], Arguments], tuple[Sequence[int], Any]],
    may_ask: Sequence[int],
) -> GenericTemplate | None:
    """Return the generic template of a rule, given its template for some arguments; None if there is none.

    ``record`` records the rule; it may ask for the operators of the arguments at some places.
    """
    pattern = pattern_of(arguments, attributes)
    if pattern is None or not pattern.extents:
        return None
    samples: list[tuple[Arguments, Template]] = [(arguments, first)]
    for others in made_up_extents(pattern, attributes):
        made_up = with_extents(arguments, others)
        try:
            asked, template = record(rule, made_up)
        except (MXNetError, AssertionError, ValueError, TypeError, IndexError, ZeroDivisionError):
            # no such call exists: the extents depend on each other
            return None
        if not set(asked) <= set(may_ask) or template.__class__ is not first.__class__:
            return None
        samples.append((made_up, template))
    if len(samples) < 3:
        return None
    try:
        return _unify(samples)
    except Differ:
        return None


def made_up_extents(pattern: Pattern, attributes: tuple[Any, ...]) -> list[dict[int, int]]:
    """Return two combinations of other extents, by extent, that have the same pattern; none if there are none."""
    bounds, numbers = _numbers_of(attributes)
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
    return [small, large] if len(pattern.extents) <= _MOST_EXTENTS else []


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


def with_extents(arguments: Arguments, others: dict[int, int]) -> list[Node | None]:
    """Return stand-ins for arguments with other extents."""
    made: dict[Node, Node] = {}
    for node in arguments:
        if node is not None and node not in made:
            type_ = type_of(node)
            shape = tuple([others.get(extent, extent) for extent in type_.shape])
            other = tensor_type(shape, type_.dtype, type_.context, type_.marked, None)
            made[node] = new_node(node.operator, (), (), other, None, None)
    return [None if node is None else made[node] for node in arguments]


def _unify(samples: list[tuple[Arguments, Template]]) -> GenericTemplate:
    """Return what three templates have in common."""
    templates = [template for _, template in samples]
    first = templates[0]
    for other in templates[1:]:
        if other.results != first.results or len(other.constants) != len(first.constants):
            raise Differ
        if len(other.steps) != len(first.steps):
            raise Differ
    unifier = Unifier([arguments for arguments, _ in samples])
    begin = len(samples[0][0])
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
    return GenericTemplate(constants, steps, first.results)


def _facts(type_: TensorType) -> tuple[Any, ...]:
    """Return what all results of a step have in common, besides the operator: the last arguments of tensor_type."""
    return type_.dtype, type_.context, type_.marked, type_.outputs


def _check_same(values: list[Any]) -> None:
    if any([value != values[0] for value in values]):
        raise Differ


def _is_same_item(one: Any, two: Any) -> bool:
    if isinstance(one, int) or isinstance(two, int):
        return type(one) is type(two) and one == two
    return all([getattr(one, name) == getattr(two, name) for name in ("operator", "places", "attributes", "index")])


class Unifier:
    """Finds the products of extents that numbers in three templates are."""

    def __init__(self, samples: list[Arguments]) -> None:
        shapes = [[() if node is None else node.shape for node in arguments] for arguments in samples]
        #: where each product is found, by its values in the samples
        self._products: dict[tuple[int, ...], tuple[int, int, int]] = {}
        for argument, shape in enumerate(shapes[0]):
            for first, last in itertools.combinations(range(len(shape) + 1), 2):
                values = tuple([math.prod(sample[argument][first:last]) for sample in shapes])
                self._products.setdefault(values, (argument, first, last))

    def unify(self, values: list[Any], dtype: DType) -> Any:
        """Return the common form of the attributes of a node in the samples."""
        first = values[0]
        if all([type(value) is type(first) and value == first for value in values[1:]]):
            return first
        if any([type(value) is not type(first) for value in values[1:]]):
            raise Differ
        if type(first) is tuple:
            if any([len(value) != len(first) for value in values[1:]]):
                raise Differ
            return _Inserted(tuple([self.unify(list(parts), dtype) for parts in zip(*values)]))
        if type(first) is int:
            return self._product(tuple(values), _same)
        if type(first) is float and all([value == int(value) for value in values]):
            return self._product(tuple([int(value) for value in values]), _float)
        if type(first) is bytes:
            return self._bytes(values, dtype)
        raise Differ

    def _product(self, values: tuple[int, ...], convert: Callable[[int], Any]) -> _Product:
        place = self._products.get(values)
        if place is None:
            raise Differ
        return _Product(*place, convert)

    def _bytes(self, values: list[bytes], dtype: DType) -> _Product:
        """Return the form of the bytes of a constant: a product of extents as a number of a dtype, or its inverse."""
        converted: list[Callable[[int], Any]] = [
            lambda product: convert_scalar(product, dtype).tobytes(),
            lambda product: convert_scalar(1 / product, dtype).tobytes(),
        ]
        for convert in converted:
            for products, place in self._products.items():
                if _are_converted(convert, products, values):
                    return _Product(*place, convert)
        raise Differ


def _are_converted(convert: Callable[[int], Any], products: Sequence[int], values: list[bytes]) -> bool:
    try:
        return [convert(product) for product in products] == values
    except OverflowError:
        # a product of made-up extents that the dtype cannot hold
        return False


def is_inserted(value: Any) -> bool:
    """Return whether attributes depend on extents."""
    return value.__class__ is _Product or value.__class__ is _Inserted


def insert(value: Any, arguments: Sequence[Any]) -> Any:
    """Return attributes with the extents of arguments, which are nodes or arrays."""
    if value.__class__ is _Inserted:
        return tuple([insert(part, arguments) for part in value.parts])
    if value.__class__ is _Product:
        return value.convert(math.prod(arguments[value.argument].shape[value.first : value.last]))
    return value
