"""Plans for any extents: one plan for all graphs of a structure whose extents lead the planner the same way.

Used by :mod:`~phonograd.core.plan.disk`. The *outline* of a graph is its structure, without the integers of shapes and
attributes, and the list of these. When a structure is planned with a second list, a helper plans it once more with
*sizes* (:mod:`~phonograd.core.plan.sizes`) in the place of the integers that differ. The recipe is then a Python
function of the extents, with a condition for each answer that the planner got. A graph of the structure gets its plan
by calling it: nothing is planned, and the kernels are there. See docs/decisions/0047.

A plan is used only if it holds: each integer that did not differ is the same, each that did is the same multiple of the
extents, and all conditions have the same answers. A new plan is compared with the planner's, word for word.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base import collector, processor, settings
from ..base.devices import Context
from ..base.errors import MXNetError
from ..base.hot import hot
from ..base.pace import is_paced, paced
from ..base.signals import Signal
from ..graph.node import Node, new_node, tensor_type
from ..graph.operator import ABSENT, items_of
from ..kernels.launch import Written
from ..ops.math.structural import LEAF
from ..run import kernel_cache
from ..run.host import host
from ..run.program import Recipe, RowStep
from ..run.reference import resolve
from .plan_tree import PlanTree
from .sized_plan import Refused, SizedPlan
from .sizes import Pinned

if TYPE_CHECKING:
    from .native_program import NativeProgram

__all__ = [
    "DEPTH",
    "FAILURES",
    "SIZED",
    "STRUCTURES",
    "Outline",
    "_constants_last",
    "filled",
    "is_much",
    "outline_of",
    "sized_draft",
    "sized_plan",
    "skeleton",
]

#: structures that are known, plans of each, and attempts to make them
MOST_STRUCTURES, MOST_PLANS, MOST_ATTEMPTS = 512, 8, 12
#: how far below an available value rules look at the nodes from which it was computed
DEPTH = 3
#: the use of a structure at which its kernels are compiled in full
_RUNS_OF_REPEATED = 2
#: numbers of leaves of graphs with sizes
_FIRST_LEAF = -(1 << 41)


# -- outlines


class Outline(NamedTuple):
    """A graph as its structure and its integers."""

    key: Hashable
    sizes: list[Any]
    """The integers of shapes and attributes, and the bytes of constants, node by node."""
    nodes: list[Node]
    """The inputs and the nodes to compute."""
    all: list[Node]
    """These, and nodes below inputs that rules look at, each after its inputs."""
    edge: frozenset[Node]
    """Nodes of which the inputs are left out."""
    wanted: list[Node]
    inputs: tuple[Node, ...]
    keep_all: bool


def outline_of(wanted: list[Node], inputs: tuple[Node, ...], computed: Sequence[Node], keep_all: bool) -> Outline:
    """Return the outline of a graph."""
    nodes = [*inputs, *_constants_last(computed)]
    every, edge = nodes, frozenset[Node]()
    if any([node.inputs for node in inputs]):
        every, edge = _with_ancestors(nodes, inputs)
    numbers = {node: number for number, node in enumerate(every)}
    now = settings.current()
    parts: list[Any] = [
        keep_all,
        now.cache_directory,
        now.winograd,
        now.num_threads,
        now.attention_blocks,
        now.matrix_unit,
    ]
    parts += [host(), processor.choices(), len(inputs)]
    sizes: list[Any] = []
    for node in every:
        shape = node.shape
        sizes += shape
        if node in edge:
            parts += (None, len(shape), node.kind)
            continue
        parts += (node.operator, len(shape), node.kind, node.context)
        if node.operator is not LEAF:
            if node.attributes:
                parts.append(skeleton(node.attributes, sizes))
            if node.outputs is not None:
                parts.append(skeleton(node.outputs, sizes))
            for source in node.inputs:
                while source.operator.is_view:
                    source = source.inputs[0]
                parts.append(numbers[source])
    parts += [numbers[node] for node in wanted]
    parts += [numbers[node] for node in inputs]
    return Outline(tuple(parts), sizes, nodes, every, edge, wanted, inputs, keep_all)


def _constants_last(computed: Sequence[Node]) -> list[Node]:
    """Return nodes with constants as late as possible: they may be older than the graph, or not."""
    constants = {node for node in computed if not node.inputs}
    found: dict[Node, None] = {}
    for node in computed:
        if node.inputs:
            found.update([(source, None) for source in map(resolve, node.inputs) if source in constants])
            found[node] = None
    return [*found, *[node for node in computed if node not in found]]


def _with_ancestors(nodes: Sequence[Node], inputs: Sequence[Node]) -> tuple[list[Node], frozenset[Node]]:
    """Return nodes and those below inputs that rules look at, and those of them whose inputs are left out.

    Each comes after its inputs.
    """
    found = set(nodes)
    above: list[Node] = list(inputs)
    for _ in range(DEPTH + 1):
        above = list(dict.fromkeys([resolve(source) for node in above for source in node.inputs]))
        above = [node for node in above if node not in found]
        found.update(above)
    edge = frozenset([node for node in found if any([resolve(source) not in found for source in node.inputs])])
    ordered: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            ordered[node] = None
        elif node not in ordered:
            stack.append((node, True))
            if node not in edge:
                stack += [(source, False) for source in map(resolve, reversed(node.inputs)) if source not in ordered]
    return list(ordered), edge


@hot
def skeleton(value: Any, sizes: list[Any]) -> Any:
    """Return a value without its integers, which are added to ``sizes``; 1, 1.0 and True have different ones."""
    kind = value.__class__
    if kind is tuple:
        return tuple([skeleton(part, sizes) for part in value])
    if kind is int or kind is bytes:
        sizes.append(value)
        return kind
    if value is None or kind is str:
        return value
    if kind is float:
        return repr(value)
    if kind is bool:
        return "yes" if value else "no"
    return _object_part(value)


def _object_part(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (np.dtype, Context)):
        return type(value), value
    raise Refused(f"an attribute is a {type(value)}")


def filled(value: Any, sizes: Iterator[Any]) -> Any:
    """Return a value with other integers."""
    if type(value) is tuple:
        return tuple([filled(part, sizes) for part in value])
    return next(sizes) if type(value) is int or type(value) is bytes else value


def _graph_with(outline: Outline, given: Sequence[Any]) -> dict[Node, Node]:
    """Return by node of a graph the same node with other integers.

    They are interned as calls of the operators would intern them. Leaves have numbers of their own, so that nothing is
    taken for a node of the program.
    """
    made: dict[Node, Node] = {}
    sizes = iter(given)
    for node in outline.all:
        shape = filled(node.shape, sizes)
        if node.operator is LEAF or node in outline.edge:
            attributes: tuple[Any, ...] = (_FIRST_LEAF - len(made), shape, node.dtype, node.context)
            type_ = tensor_type(shape, node.dtype, node.context, False, None)
            made[node] = new_node(LEAF, (), attributes, type_, None, None)
            continue
        attributes = filled(node.attributes, sizes)
        outputs = None if node.outputs is None else filled(node.outputs, sizes)
        inputs = tuple([made[resolve(source)] for source in node.inputs])
        key = tuple([None if source.operator is ABSENT.operator else source for source in inputs]), attributes
        found = node.operator.table.get(key)
        if not isinstance(found, Node):
            type_ = tensor_type(shape, node.dtype, node.context, False, outputs)
            found = new_node(node.operator, inputs, attributes, type_, None, None)
            node.operator.table[key] = found if outputs is None else items_of(found)
        made[node] = found
    return made


class GraphDraft(NamedTuple):
    """The plan of a graph (see :class:`~phonograd.core.plan.sized_plan.Draft`)."""

    recipe: Recipe
    structures: list[Written]
    nodes: Sequence[Node]
    all: Sequence[Node]


def sized_draft(outline: Outline, given: Sequence[Any]) -> GraphDraft:
    """Return the plan of a graph with other integers."""
    # a process that finds its plans on disk need not import the planner
    from .native_program import recipe_of

    made = _graph_with(outline, given)
    nodes = [made[node] for node in outline.nodes]
    inputs, computed = tuple(nodes[: len(outline.inputs)]), nodes[len(outline.inputs) :]
    wanted = [made[node] for node in outline.wanted]
    return GraphDraft(*recipe_of(wanted, inputs, computed, outline.keep_all), nodes, list(made.values()))


# -- structures


class _Structure:
    """What is known of a structure: its latest integers, and plans with their kernels."""

    __slots__ = ("attempts", "is_learned", "latest", "plans", "used")

    def __init__(self, sizes: list[Any]) -> None:
        self.latest = sizes
        #: the plans, and the kernels of each
        self.plans: tuple[PlanTree, list[list[kernel_cache.Kernel]]] = PlanTree(()), []
        #: attempts to make a plan, and whether one is being made
        self.attempts = 0
        self.is_learned = False
        #: how often a plan was used
        self.used = 0


#: a plan and its kernels
Found = tuple[Recipe, list[kernel_cache.Kernel]]


class Structures:
    """The structures that were planned, the least recently used first.

    There is no lock, which a signal handler might find held: if several threads change an entry at once, one change is
    lost, and made again later.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Structure] = OrderedDict()

    def find(self, outline: Outline) -> Found | None:
        """Return the plan of a graph and its kernels, if there is one for its structure that holds for its integers."""
        structure = self._known.pop(outline.key, None)
        if structure is None:
            return None
        self._known[outline.key] = structure
        tree, every = structure.plans
        found = tree.find(outline.sizes, outline.nodes)
        if found is None:
            return None
        number, recipe = found
        kernels = every[number]
        if is_much(recipe, kernels):
            return None
        structure.used += 1
        if structure.used == _RUNS_OF_REPEATED:
            # each plan may run once, but the kernels run again
            kernel_cache.tier_up(kernels)
        kernel_cache.statistics.plans_sized += 1
        SIZED.emit(outline, recipe)
        return recipe, kernels

    def holds(self, outline: Outline) -> bool:
        """Return whether there is a plan for a graph."""
        structure = self._known.get(outline.key)
        return structure is not None and structure.plans[0].find(outline.sizes, outline.nodes) is not None

    def note(self, outline: Outline, planned: Callable[[], NativeProgram]) -> None:
        """Note that a graph was planned; if its structure was planned before, have a plan made for any extents."""
        structure = self._known.get(outline.key)
        if structure is None:
            self._add(outline)
        else:
            self._learn(structure, outline, planned)

    def _learn(self, structure: _Structure, outline: Outline, planned: Callable[[], NativeProgram]) -> None:
        """Have a plan made for any extents, given a graph and how it is planned; the latest one had other integers."""
        before, structure.latest = structure.latest, outline.sizes
        if before == outline.sizes or structure.attempts >= MOST_ATTEMPTS or structure.is_learned:
            return
        structure.attempts += 1
        structure.is_learned = True

        def work() -> None:
            try:
                # a helper that plans has more to do than one that looks a plan up
                with collector.paused(stay=True), paced(is_paced()):
                    made = sized_plan(outline, before, planned())
                if made is not None:
                    plan, kernels = made
                    tree, every = structure.plans
                    structure.plans = PlanTree([plan, *tree.plans][:MOST_PLANS]), [kernels, *every][:MOST_PLANS]
            finally:
                structure.is_learned = False

        if settings.current().tiers == "background":
            from . import promotion

            promotion.submit(work)
        else:
            work()

    def _add(self, outline: Outline) -> None:
        """Add a structure, and drop the least recently used one if there are too many."""
        self._known[outline.key] = _Structure(outline.sizes)
        if len(self._known) > MOST_STRUCTURES:
            self._known.popitem(last=False)

    def clear(self) -> None:
        """Forget all structures."""
        self._known.clear()


def is_much(recipe: Recipe, kernels: Sequence[kernel_cache.Kernel]) -> bool:
    """Return whether kernels that were compiled quickly would get much work."""
    quick = [kernel.improvable for kernel in kernels]
    if True not in quick:
        return False
    work = [0] * len(kernels)
    for step in recipe.steps:
        if isinstance(step, RowStep):
            for kernel, _, extent, chunk in step.launches:
                work[kernel] += extent // chunk
    return any([each > kernel_cache.MUCH_WORK and is_quick for each, is_quick in zip(work, quick)])


def sized_plan(
    outline: Outline, before: Sequence[Any], planned: NativeProgram
) -> tuple[SizedPlan, list[kernel_cache.Kernel]] | None:
    """Return a plan for any extents with its kernels, given two graphs of a structure and the plan of one.

    Return None if there is none: the planner needs the value of an extent, say.
    """
    try:
        made = SizedPlan(outline.sizes, before, functools.partial(sized_draft, outline), list(planned.kernels))
        found = PlanTree([made]).find(outline.sizes, outline.nodes)
    except (Refused, Pinned, MXNetError, *FAILURES):
        return None
    return (made, list(planned.kernels.values())) if found == (0, planned.recipe) else None


#: errors of a planner that meets something that is no integer
FAILURES = TypeError, ValueError, AttributeError, AssertionError, LookupError, ArithmeticError

#: emitted with a graph and its plan where one for any extents was used
SIZED: Signal[[Outline, Recipe]] = Signal()

STRUCTURES = Structures()
