"""Bodies of loops: what the turns of a loop have in common, as programs for values and for gradients.

Takes the nodes of a turn from :mod:`.loops`, users first. The body is a copy of them, a graph whose leaves are the
values and the gradients that come from outside. When its turns have taken as long as planning takes, a helper has two
programs made: one for the values of a turn that others read, and one for the gradients that it passes on. The backward
pass (:mod:`.eager`) then runs each turn as two programs. The order of all additions is that of the pass without them,
and gradients that are added in another way (:mod:`.deferred`) leave a turn as they would, so the bits are the same.
See docs/decisions/0054.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..base import settings
from ..base.hot import hot
from ..base.outside import is_from_outside
from ..derive.gradient import call_of, differentiate_part
from ..graph.node import Node, of_one_call, type_of
from ..graph.operator import ABSENT, REGISTRY, Array, item_operator, items_of, nothing
from ..ops.math.structural import LEAF, leaf, repeat_call, variable
from ..ops.reduce.accumulation import are_few_terms
from ..plan import promotion
from ..plan.cache import SEEKING_SHARE, planning_ns
from ..plan.eager import function_of_kind
from ..plan.eager_graph import compute_into
from ..plan.record_graph import COMPOSITE, is_fixed
from ..run import kernel_cache
from ..run.programs import Program
from ..run.reference import order, resolve
from .deferred import EMBED, MATMUL, Deferred, defer
from .eager_rules import is_deferrable, stackable_rule

__all__ = ["Body", "Irregular", "Turn", "body_key", "have_plain_rules"]

#: an estimate of the time that a node takes, with its gradient, operator by operator
NODE_NS = 6000
#: nodes of the gradients for each node of a turn, an estimate
GRADIENT_NODES = 2

_ITEM, _ABSENT = item_operator(), ABSENT.operator
_PERMUTE = REGISTRY["_permute"]
#: leaves that stand for values and gradients from outside, numbered apart from those of traces
_FIRST_INPUT, _FIRST_GRADIENT = -(1 << 42), -(1 << 43)

#: where a value comes from: the place of a node in a turn, and the number of its input, or -1 for the node itself
Origin = tuple[int, int]
Total = Callable[[list[Any], Node], Any]


class Irregular(Exception):
    """A turn cannot run as a program after all: its record has to be computed operator by operator."""


def body_key(nodes: Sequence[Node], used: Sequence[bool]) -> tuple[Any, ...]:
    """Return what a turn has in common with all turns of its body, given which of its nodes are used outside.

    Programs depend on the settings, too.
    """
    inside = {node: place for place, node in enumerate(nodes)}
    outside: dict[Node, int] = {}
    key: list[Any] = [settings.current(), *used]
    for node in nodes:
        call = call_of(node)
        attributes = () if call.operator is COMPOSITE else call.attributes
        key += (node.operator, call.operator, type_of(call), len(call.inputs), attributes)
        for source in call.inputs:
            if source in inside:
                key.append(inside[source])
            elif is_fixed(source):
                key += (source.operator, source.attributes)
            else:
                number = outside.setdefault(source, len(outside))
                key += (-1 - number, type_of(source))
    return tuple(key)


class Turn(NamedTuple):
    """A turn of a loop in a record: the place of its first node, its nodes, and its body, which has programs."""

    first: int
    nodes: Sequence[Node]
    body: Body

    def compute(self, known: dict[Node, Any], leaves: Sequence[Any]) -> None:
        """Compute the values of the turn that others read, and what they are computed from."""
        values = self.body.values
        assert values is not None
        results = _run(values.program, _values_at(self.nodes, values.inputs, known, leaves))
        _put(self.nodes, values.kept, results, known)

    def differentiate(self, known: dict[Node, Any], grads: dict[Node, list[Any]], total: Total) -> None:
        """Pass the gradients that have arrived on to the inputs of the turn."""
        body, nodes = self.body, self.nodes
        gradients = body.gradients
        assert gradients is not None
        pool = body.arrived(nodes, grads, total)
        pool += _values_at(nodes, gradients.read, known, ())
        if gradients.program is not None:
            pool += _run(gradients.program, [pool[number] for number in gradients.inputs])
        for (place, number), make in gradients.passed:
            grads.setdefault(call_of(nodes[place]).inputs[number], []).append(make(pool))


def _values_at(nodes: Sequence[Node], origins: Sequence[Origin], known: dict[Node, Any], leaves: Sequence[Any]) -> Any:
    """Return the values of nodes of a turn and of inputs; those that are not known yet are computed."""
    missing: list[Node] = []
    found = _find(nodes, origins, known, missing)
    if missing:
        compute_into(known, missing, leaves)
        found = _find(nodes, origins, known, [])
    return found


@hot
def _find(nodes: Sequence[Node], origins: Sequence[Origin], known: dict[Node, Any], missing: list[Node]) -> list[Any]:
    """Return values that are known, None for others, which are added to ``missing``."""
    found: list[Any] = []
    for place, number in origins:
        node = nodes[place]
        if number >= 0:
            node = call_of(node).inputs[number]
        while node.operator.is_view:
            node = node.inputs[0]
        value = known.get(node)
        if value is None:
            if node.operator is LEAF:
                value = known[node]
            else:
                missing.append(node)
        found.append(value)
    return found


@hot
def _put(nodes: Sequence[Node], places: Sequence[int], results: Sequence[Array], known: dict[Node, Any]) -> None:
    """Add values of nodes of a turn."""
    for place, value in zip(places, results):
        known[nodes[place]] = value


def _run(program: Program, inputs: list[Any]) -> list[Array]:
    try:
        return program.run(inputs)
    except kernel_cache.CompilerLost:
        raise
    except Exception as error:
        if is_from_outside(error):
            raise
        # operator by operator, it fails with the name of the operator
        raise Irregular from error


class _Values(NamedTuple):
    """The program that computes the values of a turn."""

    program: Program
    inputs: list[Origin]
    kept: list[int]
    """The places of the nodes whose values it returns."""


class _Gradients(NamedTuple):
    """The program that computes the gradients that a turn passes on."""

    program: Program | None
    read: list[Origin]
    """The values that it reads. With the gradients that arrive, before them, they are a list."""
    inputs: list[int]
    """Its inputs, by number in the list."""
    passed: list[tuple[Origin, Callable[[Sequence[Any]], Any]]]
    """The inputs of the turn that get gradients, and how each is made of the list, to which results are added."""


class Body:
    """The common structure of the turns of a loop, with its programs once they are made.

    Parameters
    ----------
    nodes
        A turn.
    used
        Which of its nodes are used outside of it, so that their values are kept and gradients arrive at them.
    """

    def __init__(self, nodes: Sequence[Node], used: Sequence[bool]) -> None:
        self._nodes = list(nodes)
        inside = {node: place for place, node in enumerate(nodes)}
        #: where each value from outside is read first, those that get gradients, and where values are read again
        self.inputs: list[Origin] = []
        self._marked: list[Origin] = []
        self._again: list[tuple[Origin, Origin]] = []
        first: dict[Node, Origin] = {}
        readers: dict[int, list[Origin]] = {}
        for place, node in enumerate(nodes):
            for number, source in enumerate(call_of(node).inputs):
                if source in inside:
                    readers.setdefault(inside[source], []).append((place, number))
                elif source in first:
                    self._again.append((first[source], (place, number)))
                elif not is_fixed(source):
                    first[source] = place, number
                    self.inputs.append((place, number))
                    if source.marked:
                        self._marked.append((place, number))
        #: the places at which gradients from outside arrive, and where gradients from inside that follow them come from
        self.arriving = [(place, readers.get(place, [])) for place, is_used in enumerate(used) if is_used]
        #: the places of those whose gradients may have to be added in another way than in order
        self._unordered: set[int] = set()
        self.values: _Values | None = None
        self.gradients: _Gradients | None = None
        self._turns = 0
        #: whether its plans are not on disk, and the queue of the helper that makes its programs
        self._is_sought = False
        self._queue: object = None
        #: why its turns run operator by operator, whatever they take
        self.refusal: Exception | None = None
        self._plans: _Plans | None = None

    @property
    def is_ready(self) -> bool:
        """True if turns can run as programs."""
        return self.values is not None and self.refusal is None

    def fits(self, nodes: Sequence[Node]) -> bool:
        """Return whether a turn reads the same value from outside where the body does, and others where it does not."""
        for (place, number), (other, again) in self._again:
            if call_of(nodes[place]).inputs[number] is not call_of(nodes[other]).inputs[again]:
                return False
        sources = {call_of(nodes[place]).inputs[number] for place, number in self._marked}
        return len(sources) == len(self._marked)

    def refuse(self, reason: Exception) -> None:
        """Run its turns operator by operator from now on."""
        self.refusal = reason

    def find_unordered(self) -> None:
        """Note the places at which gradients arrive that follow those from outside and are added in another way."""
        for place, readers in self.arriving:
            if any([is_deferrable(self._nodes[reader], number) for reader, number in readers]):
                self._unordered.add(place)

    def arrived(self, nodes: Sequence[Node], grads: dict[Node, list[Any]], total: Total) -> list[Any]:
        """Return the gradients that have arrived at nodes from outside, before those from inside are added."""
        arrived: list[Any] = []
        for place, readers in self.arriving:
            found = grads.pop(nodes[place], None)
            if found is None:
                raise Irregular("no gradient arrives")
            if readers and (len(found) > 1 or found[0].__class__ is Deferred):
                is_deferred = any([each.__class__ is Deferred for each in found])
                if is_deferred or place in self._unordered:
                    raise Irregular("gradients are added in another way than in order")
            arrived.append(total(found, nodes[place]))
        return arrived

    def note_turns(self, count: int) -> None:
        """Count turns that ran operator by operator, and have programs made when these have taken long enough."""
        if self.refusal is not None or self.values is not None or promotion.is_current(self._queue):
            return
        self._turns += count
        size = len(self._nodes)
        spent, needed = self._turns * size * NODE_NS, planning_ns((1 + GRADIENT_NODES) * size)
        if spent >= (needed if self._is_sought else needed // SEEKING_SHARE):
            if settings.current().tiers == "background":
                # the helper may be done before this thread goes on
                self._queue = promotion.queue()
                promotion.submit(lambda: self._learn(spent >= needed))
            else:
                self._learn(True)

    def _learn(self, is_due: bool) -> None:
        """Make the programs; if they are not due, only if their plans are on disk."""
        try:
            with of_one_call():
                if self._plans is None:
                    self._plans = _Plans(self, self._nodes)
                if is_due or self._plans.are_stored():
                    self.gradients, self.values = self._plans.make()
                    # a turn holds all nodes below it
                    self._nodes, self._plans = [], None
            self._is_sought = True
        except Exception as error:  # noqa: BLE001 - operator by operator, turns raise the errors of operators
            self.refuse(error)
        self._queue = None


class _Plans:
    """The graphs of a body, and their plans."""

    def __init__(self, body: Body, nodes: Sequence[Node]) -> None:
        if not have_plain_rules(nodes):
            raise Irregular("a rule looks at expressions")
        places = [place for place, _ in body.arriving]
        if any([nodes[place].outputs is not None for place in places]):
            raise Irregular("an item of an operator with several outputs is in another turn")
        body.find_unordered()
        copies = _Copies(nodes, body.inputs)
        self._origins = copies.origins
        self._place_of = copies.place_of
        self._arriving = [leaf(_FIRST_GRADIENT - place, *_type_of(nodes[place])) for place in places]
        arrived = dict(zip([copies.made[place] for place in places], self._arriving, strict=True))
        passed = differentiate_part(copies.made, arrived)
        self._passed = [
            (origin, grad)
            for origin, source in zip(body.inputs, copies.inputs, strict=True)
            for grad in passed.get(source, ())
        ]
        parts = dict.fromkeys([part for _, grad in self._passed for part in _parts_of(grad)])
        known = {*self._origins, *self._arriving}
        self._gradients = [node for node in parts if node not in known]
        read = [*order(self._gradients, known.__contains__)[0], *[node for node in parts if node in known]]
        #: the values that gradients are computed from
        self._read = [node for node in dict.fromkeys(read) if node not in self._arriving]
        kept = [resolve(copies.made[place]) for place in places]
        kept += [node for node in self._read if node in self._place_of]
        self._values = [node for node in dict.fromkeys(kept) if node in self._place_of]

    def _graphs(self) -> list[tuple[list[Node], frozenset[Node]]]:
        """Return what both programs compute, and from which values besides leaves."""
        return [(self._values, frozenset()), (self._gradients, frozenset(self._place_of))]

    def are_stored(self) -> bool:
        """Return whether the plans are on disk."""
        from ..plan import disk

        return all([disk.is_stored(nodes, known, False) for nodes, known in self._graphs() if nodes])

    def make(self) -> tuple[_Gradients, _Values]:
        """Return the programs; another process plans them, if there is one."""
        from ..plan import disk, planner_process

        programs: list[Program] = []
        for nodes, known in self._graphs():
            if nodes:
                planner_process.prepare(nodes, known, False)
                programs.append(disk.program_for(nodes, known.__contains__, False))
        values, gradients = programs[0], programs[1] if len(programs) > 1 else None
        origins = self._origins
        pool = [*self._arriving, *self._read, *([] if gradients is None else [node for node, _ in gradients.kept])]
        numbers = {node: number for number, node in enumerate(pool)}
        return _Gradients(
            gradients,
            [origins[node] for node in self._read],
            [] if gradients is None else [numbers[node] for node in gradients.inputs],
            [(origin, _maker_of(grad, numbers)) for origin, grad in self._passed],
        ), _Values(
            values,
            [origins[node] for node in values.inputs],
            [self._place_of[node] for node, _ in values.kept],
        )


class _Copies:
    """The nodes of a turn as a graph of its own: inputs from outside are leaves, those with gradients variables."""

    def __init__(self, nodes: Sequence[Node], inputs: Sequence[Origin]) -> None:
        self.inputs: list[Node] = []
        #: where the values of leaves and copies come from
        self.origins: dict[Node, Origin] = {}
        copies: dict[Node, Node] = {}
        for number, origin in enumerate(inputs):
            source = call_of(nodes[origin[0]]).inputs[origin[1]]
            copy = leaf(_FIRST_INPUT - number, *_type_of(source))
            self.origins[copy] = origin
            copies[source] = variable(copy, number) if source.marked else copy
            self.inputs.append(copies[source])
        for place in reversed(range(len(nodes))):
            node, call = nodes[place], call_of(nodes[place])
            copy = _copy_of(call, [copies.get(source, source) for source in call.inputs], place)
            copies[node] = copy if call is node else repeat_call(copy, 1 + place)
        self.made = [copies[node] for node in nodes]
        #: by copy that computes something its place
        self.place_of = {
            copy: place for place, copy in enumerate(self.made) if not copy.operator.is_view and copy.outputs is None
        }
        self.origins.update({copy: (place, -1) for copy, place in self.place_of.items()})


def _copy_of(node: Node, inputs: Sequence[Node], place: int) -> Node:
    if node.operator is _ITEM:
        item: Node = items_of(inputs[0])[node.attributes[0]]
        return item
    # labels of calls are all different
    attributes = (("turn", place), 0) if node.operator is COMPOSITE else node.attributes
    given = tuple([None if source.operator is _ABSENT else source for source in inputs])
    made: Node | tuple[Node, ...] = node.operator.apply(given, attributes)
    return made if isinstance(made, Node) else made[0].inputs[0]


def _type_of(node: Node) -> tuple[Any, Any, Any]:
    return node.shape, node.dtype, node.context


def have_plain_rules(nodes: Sequence[Node]) -> bool:
    """Return whether the gradient rules of nodes ask for nothing but types and values."""
    return all([_has_plain_rule(node) for node in nodes])


def _has_plain_rule(node: Node) -> bool:
    """Return whether the gradient rule of a node asks for nothing but types and values."""
    node = call_of(node)
    if node.operator is COMPOSITE or node.operator is _ITEM or node.operator.gradient_rule is nothing:
        return True
    if node.operator.is_view:
        return False
    return stackable_rule(node, [True] * (1 if node.outputs is None else len(node.outputs))) is not None


def _is_deferred_product(grad: Node) -> bool:
    """Return whether a gradient is a product that is added to others in another way (see :mod:`.eager_rules`)."""
    if grad.operator is not MATMUL or grad.inputs[0].operator is not _PERMUTE:
        return False
    return are_few_terms(grad.inputs[0].shape, grad.inputs[1].shape)


def _parts_of(grad: Node) -> list[Node]:
    """Return the nodes whose values a gradient is made of: itself, or the operands if it is deferred."""
    if _is_deferred_product(grad):
        return [resolve(grad.inputs[0].inputs[0]), resolve(grad.inputs[1])]
    return [resolve(grad.inputs[0] if grad.operator is EMBED else grad)]


def _maker_of(grad: Node, numbers: Mapping[Node, int]) -> Callable[[Sequence[Any]], Any]:
    """Return the function that makes a gradient of a list of values, given their numbers."""
    first, *rest = [numbers[part] for part in _parts_of(grad)]
    if not rest and grad.operator is not EMBED:
        return lambda pool: pool[first]
    declared, attributes = grad.operator, grad.attributes
    function = function_of_kind(declared, attributes, list(grad.inputs), type_of(grad))
    if not rest:
        return lambda pool: defer(function, declared, attributes, [pool[first]])
    (second,) = rest
    return lambda pool: defer(function, declared, attributes, [pool[first].T, pool[second]])
