"""Templates: the nodes that a call or a gradient rule makes, kept to be made again for other inputs.

Takes rules of operators from :mod:`phonograd.core.graph.operator`: the bodies of composites, and gradient rules. Such a
rule depends on the shapes, dtypes and attributes of its inputs, rarely on the expressions below them. So the second
call of its kind is *recorded*: the rule runs with placeholders, and the nodes that it makes become the steps of a
:class:`Template`. Later calls of this kind make these nodes for their own inputs, without the rule. A program whose
expressions are always new consists of such calls.

A placeholder notices if the rule looks at the expression that it stands for. If the rule asks for its operator, there
is one template for each operator. If it asks for more, there is none, and the rule runs each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..base.hot import hot, slotted, untracked
from .extents import is_tracing
from .generic import GenericTemplate, Learned, Pattern, generalize, pattern_of, shapes_of
from .guards import Guards, guards_for
from .node import UNLEARNED, Node, Recipe, TensorType, creation_facts, new_node, statistics, type_of

if TYPE_CHECKING:
    from .operator import Operator

__all__ = ["Label", "Places", "Template", "Templates", "record"]

#: kinds of calls that are remembered for each rule
MOST_KINDS = 2048

Arguments = Sequence["Node | None"]
#: where a step finds its inputs: numbers of earlier values
Places = tuple[int, ...]
#: operator, places of inputs, attributes, type, which output it is or of which call it is a label, recipe
Step = tuple["Operator", Places, Any, TensorType, Any, "Recipe | None"]


class _Looked(Exception):
    """A rule has looked at the expression below one of its inputs."""


class _Placeholder(Node):
    """An input of a rule that is recorded: it has a type, and tells whether the rule asks for more."""

    __slots__ = ("_is_asked", "_stands_for")

    def __init__(self, stands_for: Node) -> None:
        super().__init__(
            stands_for.operator, (), (), stands_for.shape, stands_for.dtype, stands_for.outputs, stands_for.context
        )
        self.marked = stands_for.marked
        self._stands_for = stands_for
        self._is_asked = False

    @property
    def operator(self) -> Operator:
        self._is_asked = True
        return self._stands_for.operator

    @operator.setter
    def operator(self, value: Operator) -> None:
        pass

    def _refuse(self) -> Any:
        raise _Looked

    def _ignore(self, value: Any) -> None:
        pass

    inputs = property(_refuse, _ignore)
    attributes = property(_refuse, _ignore)
    serial = property(_refuse, _ignore)
    call = property(_refuse, _ignore)


@slotted
class Label:
    """The attributes of a label, which name the inputs of a call."""

    __slots__ = ("attributes", "index", "operator", "places")

    def __init__(self, operator: Operator, places: Places, attributes: tuple[Any, ...], index: int) -> None:
        self.operator, self.places, self.attributes, self.index = operator, places, attributes, index


@slotted
class Template:
    """The nodes that a rule makes, in order; their inputs are arguments or earlier nodes."""

    __slots__ = ("constants", "generic", "results", "steps")

    def __init__(
        self,
        constants: list[Node],
        steps: list[Step],
        results: tuple[int | None, ...] | int | None,
    ) -> None:
        self.constants = constants
        self.steps = steps
        self.results = results
        #: the template for any extents that it was made from
        self.generic: GenericTemplate | None = None

    @hot
    def apply(self, arguments: Arguments) -> Any:
        """Return the results of the rule for arguments."""
        values: list[Any] = [*arguments, *self.constants]
        line, gradient_of = creation_facts()
        made, newest = 0, None
        for operator, places, attributes, type_, item, recipe in self.steps:
            inputs = untracked(tuple([values[place] for place in places]))
            if item is not None:
                if item.__class__ is int:
                    # one output of an operator with several
                    values.append(inputs[0][item])
                    continue
                if item.__class__ is Label:
                    call = item.operator, tuple([values[place] for place in item.places]), item.attributes
                    attributes = untracked((untracked(call), item.index))
                else:
                    values.append(operator.apply(inputs, attributes))
                    continue
            key = untracked((inputs, attributes))
            table = operator.table
            # nothing was made of a node that is new itself
            found = None if newest is not None and inputs[0] is newest else table.get(key)
            if found is None:
                made += 1
                found = new_node(operator, inputs, attributes, type_, line, gradient_of, recipe)
                if item is not None:
                    found.call = attributes[0]
                newest = found
                found = table.setdefault(key, found)
            values.append(found)
        statistics.nodes += made
        results = self.results
        if results.__class__ is tuple:
            return tuple([None if place is None else values[place] for place in results])
        return None if results is None else values[results]  # type: ignore[index]


#: marks of kinds that were seen once, and of those that have no template
_SEEN, _REFUSED = object(), object()


class _ByOperator:
    """Templates by the operators of the arguments that the rule asks for."""

    __slots__ = ("known", "places")

    def __init__(self, places: Places) -> None:
        self.places = places
        self.known: dict[Any, Any] = {}


#: the templates of all rules
_all: list[dict[Any, Any]] = []


def _forget() -> None:
    """Forget all templates."""
    for kinds in _all:
        kinds.clear()


UNLEARNED.connect(_forget)


def constants_of_templates() -> list[Node]:
    """Return the interned nodes that templates refer to: they hold as long as these are not made anew."""
    found: list[Node] = []
    for kinds in _all:
        for made in kinds.copy().values():
            for template in made.known.copy().values() if made.__class__ is _ByOperator else (made,):
                if template.__class__ is Template:
                    found += template.constants
    return found


@slotted
class Templates:
    """The templates of one rule, by kind of call: attributes, types of arguments, and which arguments are the same."""

    __slots__ = ("_guards", "_kinds", "_patterns", "asked")

    def __init__(self) -> None:
        self._kinds: dict[Any, Any] = {}
        #: generic templates by attributes and pattern
        self._patterns: dict[Any, Learned[GenericTemplate]] = {}
        #: generic templates with tests of the extents, by attributes and what else the pattern contains
        self._guards: dict[Any, Guards[GenericTemplate]] = {}
        #: the places of arguments whose operators the rule asks for
        self.asked: Places = ()
        _all.append(self._kinds)

    def known(self, arguments: Arguments, attributes: tuple[Any, ...]) -> tuple[Template | None, Places]:
        """Return the template of a call that was made before, and the places of arguments whose operators matter."""
        found, places = self._kinds.get(_kind(arguments, attributes)), Places()
        if found.__class__ is _ByOperator:
            places = found.places
            found = found.known.get(_operators(arguments, places))
        return (found if found.__class__ is Template else None), places

    @hot
    def generic(self, arguments: Arguments, attributes: tuple[Any, ...]) -> GenericTemplate | None:
        """Return the template for any extents that fits a call, if there is one."""
        guards = None if self.asked or is_tracing() else guards_for(self._guards, attributes, arguments)
        if guards is not None:
            known = guards.find(shapes_of(arguments))
            if known is not None:
                return known
        pattern = pattern_of(arguments, attributes)
        if pattern is None:
            return None
        learned = self._patterns.get(self._pattern_key(pattern, arguments, attributes))
        found = None if learned is None else learned.find(arguments)
        if found is not None and guards is not None:
            guards.learn(shapes_of(arguments), attributes, pattern, found.condition, found)
        return found

    def _pattern_key(self, pattern: Pattern, arguments: Arguments, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        places = [place for place in self.asked if place < len(arguments) and arguments[place] is not None]
        return attributes, pattern.key, _operators(arguments, tuple(places))

    def find(
        self, arguments: Arguments, attributes: tuple[Any, ...], rule: Callable[[Any], Any], at_once: bool = False
    ) -> Template | GenericTemplate | None:
        """Return the template for a call, or one for any extents at the first of its kind; None if the rule must run.

        Parameters
        ----------
        arguments
            The nodes that the rule is given; None for those that were left out.
        attributes
            The attributes of the call.
        rule
            A function of such arguments, which is recorded at the second call of a kind.
        at_once
            Whether to record it at the first call.
        """
        kind = _kind(arguments, attributes)
        kinds = self._kinds
        found: Any = kinds.get(kind)
        if found.__class__ is Template:
            return found
        if found is None:
            if is_tracing():
                # the rule of another operator is recorded, with extents that are its own
                return None
            if len(kinds) >= MOST_KINDS:
                kinds.clear()
            generic = self._from_pattern(arguments, attributes, rule)
            if generic is not None:
                if generic.__class__ is Template:
                    self._keep(kind, arguments, generic)
                else:
                    kinds[kind] = generic
                return generic
            found = kinds[kind] = _SEEN
            if not at_once:
                return None
        if found is _REFUSED:
            return None
        if found.__class__ is GenericTemplate:
            # the kind comes back: its own template is quicker
            made = found.template(arguments)
            self._keep(kind, arguments, made)
            return made
        if found is _SEEN:
            made = self._record(arguments, rule)
            self._keep(kind, arguments, made)
            return made if made.__class__ is Template else None
        made = found.known.get(_operators(arguments, found.places))
        if made is None:
            made = self._record(arguments, rule)
            self._keep(kind, arguments, made)
        return made if made.__class__ is Template else None

    def _record(self, arguments: Arguments, rule: Callable[[Any], Any]) -> Any:
        """Return the template of a call, or the mark for none; note what the rule asks for."""
        asked, made = record(rule, arguments)
        if not set(asked) <= set(self.asked):
            self.asked = tuple(sorted({*asked, *self.asked}))
            self._patterns.clear()
            self._guards.clear()
        return made

    def _keep(self, kind: Any, arguments: Arguments, made: Any) -> None:
        """Keep the template of a kind of calls, or the mark for none."""
        places = tuple([place for place in self.asked if place < len(arguments) and arguments[place] is not None])
        if not places:
            self._kinds[kind] = made
            return
        found = self._kinds.get(kind)
        if found.__class__ is not _ByOperator or found.places != places:
            found = self._kinds[kind] = _ByOperator(places)
        found.known[_operators(arguments, places)] = made

    def _from_pattern(
        self, arguments: Arguments, attributes: tuple[Any, ...], rule: Callable[[Any], Any]
    ) -> Template | GenericTemplate | None:
        """Return a template for a call whose pattern is known with other extents."""
        pattern = pattern_of(arguments, attributes)
        if pattern is None:
            return None
        key = self._pattern_key(pattern, arguments, attributes)
        learned = self._patterns.get(key)
        if learned is None:
            if len(self._patterns) >= MOST_KINDS:
                self._patterns.clear()
            self._patterns[key] = Learned(pattern.extents)
            return None
        found = learned.find(arguments)
        if found is None and learned.is_to_learn(pattern.extents):
            before = self.asked
            generic = generalize(rule, arguments, attributes, record, before)
            if generic is not None:
                learned.learn(generic)
                # for these extents, too, so that what is made of it holds for any
                return generic.template(arguments)
            made = self._record(arguments, rule)
            if self.asked == before:
                learned.learn(None)
                return made if made.__class__ is Template else None
        return found


def _kind(arguments: Arguments, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    key: list[Any] = [None if node is None else node.type or type_of(node) for node in arguments]
    if len(set(arguments)) != len(arguments):
        key += [arguments.index(node) for node in arguments]
    return (attributes, *key)


def _operators(arguments: Arguments, places: Places) -> tuple[Operator, ...]:
    return tuple([arguments[place].operator for place in places])  # type: ignore[union-attr]


def record(rule: Callable[[Any], Any], arguments: Arguments) -> tuple[Places, Any]:
    """Return the arguments whose operators the rule asks for, and the template of its nodes, or the mark for none."""
    stand_ins: dict[Node, _Placeholder] = {}
    given: list[Node | None] = []
    for node in arguments:
        given.append(None if node is None else stand_ins.get(node) or stand_ins.setdefault(node, _Placeholder(node)))
    try:
        results = rule(given)
        made: Any = _template(given, results)
    except _Looked:
        made = _REFUSED
    asked = [number for number, node in enumerate(given) if isinstance(node, _Placeholder) and node._is_asked]
    return tuple(asked), made


def _is_label(node: Node) -> bool:
    """Return whether a node only names the call that it is the result of; the call is its first attribute."""
    return node.operator.name == "_composite"


def _template(given: Arguments, results: Any) -> Any:
    """Return the template of the nodes between arguments and results; the mark for none if it cannot be made."""
    places: dict[Node, int] = {}
    for number, node in enumerate(given):
        if node is not None:
            places.setdefault(node, number)
    heads = [results] if isinstance(results, Node) else [node for node in results or () if node is not None]
    ordered = _ordered(heads, places)
    depends = set(places)
    for node in ordered:
        if any([source in depends for source in _sources(node)]):
            depends.add(node)
    constants = [node for node in ordered if node not in depends]
    count = len(given) + len(constants)
    for number, node in enumerate(constants, len(given)):
        places[node] = number
    steps: list[Step] = []
    for node in ordered:
        if node not in depends or node in given:
            continue
        item: Any = None
        attributes: Any = node.attributes
        if node.outputs is not None:
            item = True
        elif node.inputs and node.inputs[0].outputs is not None:
            item = node.attributes[0]
        elif _is_label(node):
            called, inputs, others = node.attributes[0]
            if _names_node(others):
                return _REFUSED
            item = Label(called, tuple([places[source] for source in inputs]), others, node.attributes[1])
        elif _names_node(attributes):
            return _REFUSED
        places[node] = count + len(steps)
        # nothing else refers to an expression of placeholders
        node.operator.table.pop((node.inputs, node.attributes), None)
        type_ = type_of(node)
        recipe = Recipe(attributes, type_) if item is None else None
        sources = tuple([places[source] for source in node.inputs])
        steps.append((node.operator, sources, attributes, type_, item, recipe))
    if isinstance(results, Node):
        return Template(constants, steps, places[results])
    if results is None:
        return Template(constants, steps, None)
    return Template(constants, steps, tuple([None if node is None else places[node] for node in results]))


def _sources(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node refers to: its inputs, and those of the call that it is a label of."""
    return (*node.inputs, *node.attributes[0][1]) if _is_label(node) else node.inputs


def _names_node(value: Any) -> bool:
    return isinstance(value, Node) or (isinstance(value, tuple) and any([_names_node(part) for part in value]))


def _ordered(heads: Sequence[Node], known: dict[Node, int]) -> list[Node]:
    """Return the nodes below heads up to known ones, each after its sources."""
    found: list[Node] = []
    seen: set[Node] = set(known)
    stack = [(node, False) for node in reversed(heads)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend([(source, False) for source in reversed(_sources(node)) if source not in seen])
    return found
