"""Eager programs, tier 0: compute a graph operator by operator, at once, without planning it.

Takes nodes from :func:`phonograd.core.plan.cache.choose_program`. Each operator has a function of arrays that is made
once and works for every graph:

* an elementwise operator is a NumPy ufunc of machine code (:mod:`phonograd.core.run.ufuncs`), for any shapes;
* an operator that only moves elements is its NumPy reference, which returns a view where it can;
* matrix products, sums, random numbers and library kernels are launches (:mod:`phonograd.core.plan.eager_launch`), made
  for their shapes;
* an operator that expands to others is the sequence of their functions;
* anything else is a small plan of this one operator, made for its shapes and shared by all graphs.

Fusion never changes a bit, so only the time differs. A graph that comes back gets another program: docs/decisions/0018.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..base import float_errors
from ..base.dtypes import compute_dtype, convert_scalar
from ..base.hot import hot, slotted
from ..base.outside import is_from_outside
from ..graph.generic import Pattern as ExtentPattern
from ..graph.generic import pattern_of, pattern_of_shapes
from ..graph.guards import Guards
from ..graph.node import UNLEARNED, Node, Shape, TensorType, new_node, of_one_call, type_of
from ..graph.operator import ABSENT, Array, Operator, item_operator
from ..kernels.elementwise_loop import ElementwiseLoop, emit_rule
from ..kernels.launch import Plan
from ..kernels.target import Machine
from ..lower.lowering import Fused, Gather, Lowering, Random, alternatives, lowering_of_kind
from ..lower.pattern import Pattern
from ..ops.math.structural import leaf
from ..run import kernel_cache
from ..run.background import run_apart
from ..run.called import function_of_node
from ..run.host import host
from ..run.programs import STEP_BYTES, Note, Part, Progress
from ..run.reference import ReferenceProgram, depended_on, locate_error, numpy_function, order, resolve
from ..run.ufuncs import ufunc_of
from .assembly import parameters_of
from .disk import program_for
from .eager_expansion import Expansions, copy_of
from .eager_folds import folds_of
from .eager_launch import Products, draw, launch
from .eager_results import own_all, repeated
from .eager_reuse import Steps, in_place
from .eager_selection import selections_of
from .eager_stacks import WithNumbers
from .expansion import Order, lowerings_of

__all__ = [
    "SIMPLE",
    "AnyShapes",
    "EagerProgram",
    "Function",
    "function_for",
    "function_for_any_shapes",
    "function_of",
    "function_of_kind",
    "of_contiguous_arrays",
    "simple_function",
    "source_of",
]

#: functions to keep, of either kind: a slice of other elements is another function
MOST_FUNCTIONS = 8192
#: functions to keep for each step of a gradient rule that were made for certain shapes
MOST_SHAPES = 256

Function = Callable[..., Any]

_ITEM = item_operator()
_ABSENT = ABSENT.operator

#: functions for any shapes, by operator, attributes and dtypes
_general: dict[Any, Function] = {}
#: functions for certain shapes
_special: dict[Any, Function] = {}
#: makes functions for any shapes of attributes alone, for operators that only move elements, or only combine them along
#: axes; by operator and dtypes of result and inputs
SIMPLE: dict[Any, Callable[[tuple[Any, ...]], Function]] = {}


class EagerProgram:
    """A program that computes nodes one by one, and keeps the values that ``recorded`` targets depend on."""

    __slots__ = (
        "_are_asked",
        "_computed",
        "_dead",
        "_is_known",
        "_numbers",
        "_places",
        "_steps",
        "inputs",
        "kept",
        "nbytes",
        "size",
    )

    donatable: tuple[int, ...] = ()
    is_provisional = True
    memory = None

    def __init__(
        self,
        targets: Iterable[Node],
        available: Callable[[Node], bool],
        recorded: Iterable[Node] = (),
        ordered: tuple[tuple[Node, ...], list[Node]] | None = None,
    ) -> None:
        wanted = [resolve(node) for node in targets]
        self.inputs, self._computed = order(wanted, available) if ordered is None else ordered
        #: the number of nodes that a run computes
        self.size = len(self._computed)
        self.nbytes = STEP_BYTES * self.size
        asked = set(wanted)
        asked.difference_update(self.inputs)
        returned = asked | depended_on(recorded, self._computed)
        #: (node, number) of every value that a run returns
        self.kept = [
            (node, number)
            for number, node in enumerate(self._computed, len(self.inputs))
            if node in returned and node.outputs is None and node.operator is not _ABSENT
        ]
        self._numbers = [number for _, number in self.kept]
        #: whether each of them is a target, and not only kept for later
        self._are_asked = [node in asked for node, _ in self.kept]
        self._places, self._dead = self._place()
        #: the functions that compute the nodes, as far as they are known; several threads may run the program at once
        self._steps: list[Function | None] = [None] * self.size
        #: whether all of them are known
        self._is_known = False

    def _place(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Return for each node the numbers of the values that it reads, and of those that no later one reads."""
        numbers = {node: number for number, node in enumerate((*self.inputs, *self._computed))}
        # tuples of numbers are nothing to the garbage collector
        places: list[tuple[int, ...]] = []
        last_uses = [-1] * len(numbers)
        for step, node in enumerate(self._computed):
            found = []
            for source in node.inputs:
                number = numbers[source_of(source)]
                found.append(number)
                last_uses[number] = step
            places.append(tuple(found))
        for _, number in self.kept:
            last_uses[number] = -1
        dead: list[tuple[int, ...]] = [()] * len(places)
        for number, step in enumerate(last_uses):
            if step >= 0:
                dead[step] += (number,)
        return places, dead

    @property
    def nodes(self) -> list[Node]:
        """The nodes that a run computes, in order."""
        return self._computed

    @property
    def parts(self) -> list[Part]:
        """The operators in order."""
        return list(map(_part, self._computed))

    def run(self, inputs: list[Any], donated: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes (see :class:`..run.programs.Program`); no input is written over."""
        values: list[Any] = list(inputs)
        try:
            if self._is_known and note is None:
                self._repeat(values)
            else:
                self._compute(values, note)
        except kernel_cache.CompilerLost as error:
            kernel_cache.disable_compiler(error)
            return self._run_with_numpy(inputs)
        return self._own(inputs, values)

    def _compute(self, values: list[Any], note: Note | None) -> None:
        """Compute all nodes and add their values."""
        steps, step, known = self._steps, -1, Steps(len(self.inputs), self._steps, self._places, self._dead)
        asked = self._asked_steps() if isinstance(note, Progress) else {}
        with np.errstate(all="ignore"):
            try:
                for step, (places, last) in enumerate(zip(self._places, self._dead)):
                    function = steps[step]
                    if function is None:
                        function = steps[step] = in_place(self.function(step), self._computed[step], known, step)
                    if note is None:
                        values.append(function(*[values[place] for place in places]))
                    else:
                        self._observe(step, function, values, note)
                        if step in asked and isinstance(note, Progress):
                            # no later function writes to it
                            note.receive(asked[step], values[-1])
                    for place in last:
                        values[place] = None
            except kernel_cache.CompilerLost:
                raise
            except Exception as error:
                if is_from_outside(error):
                    raise
                raise locate_error(error, self._computed[step]) from error
        self._is_known = True

    def _repeat(self, values: list[Any]) -> None:
        """Compute all nodes as :meth:`_compute` does; their functions are known, and nothing observes them."""
        first, token = len(values), float_errors.ignore()
        try:
            _call_all(values, self._steps, self._places, self._dead)
        except kernel_cache.CompilerLost:
            raise
        except Exception as error:
            if is_from_outside(error):
                raise
            raise locate_error(error, self._computed[len(values) - first]) from error
        finally:
            float_errors.restore(token)

    def _own(self, inputs: Sequence[Any], values: list[Any]) -> list[Array]:
        """Return the kept values: contiguous, each in memory of its own."""
        return own_all(inputs, values, self._numbers, self._are_asked)

    def _asked_steps(self) -> dict[int, Node]:
        """Return the targets by the step that computes each."""
        first = len(self.inputs)
        return {number - first: node for (node, number), is_asked in zip(self.kept, self._are_asked) if is_asked}

    def _run_with_numpy(self, inputs: list[Any]) -> list[Array]:
        """Return the values of the kept nodes from NumPy: a kernel was needed, and llvmlite does not work."""
        values = dict(zip(self.inputs, inputs))
        program = ReferenceProgram([node for node, _ in self.kept], values.__contains__, keep_all=False)
        results = program.run([values[node] for node in program.inputs])
        values.update(zip([node for node, _ in program.kept], results))
        return [values[node] for node, _ in self.kept]

    def function(self, step: int) -> Function:
        """Return the function that computes a node."""
        return function_for(self._computed[step])

    def _observe(self, step: int, function: Function, values: list[Any], note: Note) -> None:
        start = perf_counter_ns()
        values.append(function(*[values[place] for place in self._places[step]]))
        node = self._computed[step]
        if node.operator is not _ABSENT:
            note(_part(node), start, perf_counter_ns())


@hot
def _call_all(values: list[Any], steps: Sequence[Any], places: Sequence[Shape], dead: Sequence[Shape]) -> None:
    """Append the result of each step, given the numbers of the values that it reads, and of those to drop then."""
    for function, read, last in zip(steps, places, dead):
        values.append(function(*map(values.__getitem__, read)))
        for place in last:
            values[place] = None


@hot
def source_of(node: Node) -> Node:
    """Return the node whose value a node has."""
    while node.operator.is_view:
        node = node.inputs[0]
    return node


def _part(node: Node) -> Part:
    """Return an operator as observers see it."""
    return Part((node,), (), (*map(resolve, node.inputs), node), (node,))


# -- functions


@hot
def function_for(node: Node) -> Function:
    """Return the function that computes a node."""
    recipe = node.recipe
    if recipe is None:
        return function_of(node, [source_of(source) for source in node.inputs])
    if recipe.function is None:
        recipe.function = function_of(node, [source_of(source) for source in node.inputs])
    return recipe.function  # type: ignore[no-any-return]


@hot
def function_of(node: Node, sources: Sequence[Node]) -> Function:
    """Return the function that computes a node from the values of others; make it if there is none."""
    kinds = (node.operator, node.attributes, node.kind, *[source.kind for source in sources])
    found = _general.get(kinds)
    if found is not None:
        return found
    simple = SIMPLE.get((node.operator, node.kind, *kinds[3:]))
    if simple is not None:
        # made in less time than a look-up by extents takes
        return repeated(node) or simple(node.attributes)
    key = (*kinds, *[source.shape for source in sources], *[source.operator is _ABSENT for source in sources])
    found = _special.get(key)
    if found is None:
        found, is_general = _make(node, sources)
        kept, name = (_general, kinds) if is_general else (_special, key)
        if len(kept) >= MOST_FUNCTIONS:
            kept.clear()
        kept[name] = found
    return found


def _make(node: Node, sources: Sequence[Node]) -> tuple[Function, bool]:
    """Return the function of a node, and whether it is general."""
    has_absent = _ABSENT in [source.operator for source in sources]
    pattern = None if has_absent else pattern_of(sources, node.attributes)
    if pattern is not None:
        known = _expansions.known(node, sources, pattern)
        if known is not None:
            return known, False
    maker = _Maker(pattern)
    with of_one_call():
        maker.make(node, sources)
    if maker.simple is not None and not has_absent:
        if len(SIMPLE) >= MOST_FUNCTIONS:
            SIMPLE.clear()
        SIMPLE[(node.operator, node.kind, *[source.kind for source in sources])] = maker.simple
    return maker.function, maker.is_general


def function_for_any_shapes(node: Node, sources: Sequence[Node], is_varied: bool = False) -> Function:
    """Return a function that computes nodes like a node, with the same attributes, from inputs of any shapes."""
    kinds = (node.operator, node.attributes, node.kind, *[source.kind for source in sources])
    found = _general.get(kinds)
    if found is not None:
        return found
    simple = SIMPLE.get((node.operator, node.kind, *kinds[3:]))
    if simple is not None:
        return simple(node.attributes)
    return AnyShapes(node, sources, is_varied)


def function_of_kind(
    declared: Operator, attributes: tuple[Any, ...], sources: list[Node], type_: TensorType
) -> Function:
    """Return a function that computes nodes of an operator with some attributes from inputs of any shapes."""
    node = new_node(declared, tuple(sources), attributes, type_, None, None)
    # if the function holds for any shapes, it is then known, and needs no look-up of shapes
    function_of(node, sources)
    return function_for_any_shapes(node, sources)


@slotted
class AnyShapes:
    """A function of arrays of any shapes that computes nodes like a node: others, for certain shapes or patterns."""

    __slots__ = ("_families", "_guards", "_is_varied", "_known", "_node", "_sources")

    def __init__(self, node: Node, sources: Sequence[Node], is_varied: bool = False) -> None:
        #: ``is_varied`` says that shapes are new all the time, so that functions for patterns are learned at once
        self._node, self._sources, self._is_varied = node, sources, is_varied
        #: functions by shapes, and for all extents of a pattern
        self._known, self._guards = dict[Any, Function](), Guards[Function]()
        has_absent = _ABSENT in [each.operator for each in sources]
        self._families = [] if has_absent else [type_of(each).family for each in sources]

    def __call__(self, *arrays: Any) -> Any:
        return self.for_shapes(arrays)(*arrays)

    @hot
    def for_shapes(self, arrays: Sequence[Any]) -> Function:
        """Return the function for the shapes of some arrays."""
        shapes = tuple([array.shape for array in arrays if array is not None])
        found = self._guards.find(shapes) or self._known.get(shapes)
        return self._new(arrays, shapes) if found is None else found

    def _new(self, arrays: Sequence[Any], shapes: tuple[Any, ...]) -> Function:
        node, families = self._node, self._families
        pattern = pattern_of_shapes(list(zip(families, shapes)), node.attributes, ()) if families else None
        known = None if pattern is None else _expansions.known(node, arrays, pattern, self._is_varied)
        if known is not None and pattern is not None:
            self._guards.learn(shapes, node.attributes, pattern, known.condition, known)
        found = _function_for_shapes(node, self._sources, arrays) if known is None else known
        if len(self._known) >= MOST_SHAPES:
            self._known.clear()
        self._known[shapes] = found
        return found


def _function_for_shapes(node: Node, sources: Sequence[Node], arrays: Sequence[Any]) -> Function:
    """Return the function of a node like another one, on arrays."""
    leaves = [
        source if array is None else leaf(number, array.shape, source.dtype, source.context)
        for number, (source, array) in enumerate(zip(sources, arrays))
    ]
    type_ = node.operator.result_type(tuple(leaves), node.attributes)
    return function_of(new_node(node.operator, tuple(leaves), node.attributes, type_, None, None), leaves)


class _Maker:
    """Makes the function of one node: the :class:`~phonograd.core.lower.lowering_protocol.Planner` of eager programs.

    Attributes
    ----------
    function
        A function of the values of the node's inputs.
    is_general
        Whether it fits inputs of any shapes.
    simple
        Returns the function of another node of this operator and these dtypes, given its attributes; or None.
    """

    def __init__(self, pattern: ExtentPattern | None = None) -> None:
        self.function: Function = _nothing
        self.is_general = True
        self.simple: Callable[[tuple[Any, ...]], Function] | None = None
        self._pattern = pattern

    def make(self, node: Node, sources: Sequence[Node]) -> None:
        """Make the function of a node, given the nodes whose values it reads."""
        if node.operator is _ABSENT:
            return
        if node.operator is _ITEM:
            self.function = operator.itemgetter(node.attributes[0])
            return
        given = [
            source if source.operator is _ABSENT else leaf(number, source.shape, source.dtype)
            for number, source in enumerate(sources)
        ]
        alone = copy_of(node, given)
        if alone.outputs is not None:
            lowerings = lowerings_of(alone)
            if lowerings and lowerings[0].only_moves:
                self.function, self.simple = numpy_function(alone), node.operator.reference
                return
            self.evaluate(alone)
            self.is_general &= _ABSENT not in [source.operator for source in sources]
            return
        candidates = lowerings_of(alone)
        if candidates and candidates[-1].replaces_part:
            # its expansion tells of every element whether it is replaced
            self.place(alone, candidates[-1])
            return
        if candidates and not candidates[0].is_expansion:
            self.simple = simple_function(alone, candidates[0])
            if candidates[0].selects and self.simple is not None:
                self.function = self.simple(alone.attributes)
            else:
                self.place(alone, candidates[0])
            return
        if candidates and node.operator.moves:
            # NumPy chooses and places the same elements
            self._move(alone)
            return
        steps = Order([alone], [source for source in given if source.operator is not _ABSENT])
        if steps.nodes == [alone] and steps.expressions[alone] is alone:
            self.place(alone, steps.lowerings[alone])
        else:
            self.function, self.is_general = _expansions.function(alone, steps, given, self._pattern), False
        # the same dtypes without absent inputs are another function
        self.is_general &= _ABSENT not in [source.operator for source in sources]

    def place(self, node: Node, lowering: Lowering) -> None:
        """Make the function of a node that reads leaves."""
        if lowering.is_constant or lowering.needs_no_memory:
            self._move(node)
        else:
            lowering.place(self, node, node)

    @property
    def machine(self) -> Machine:
        """The processor that kernels are written for."""
        return host()

    def source(self, node: Node, /) -> Node:
        """Return the node itself: it is a leaf."""
        return node

    def compute(self, node: Node, expression: Node, lowering: Lowering) -> None:
        """Call a ufunc, with run-time numbers as further operands."""
        declared, dtype = node.operator, node.dtype
        numbers: list[Any] = []
        if lowering.numbers is not None:
            given = lowering.numbers(dtype, **declared.accepted(lowering.numbers, node.attributes))
            numbers = [convert_scalar(number, compute_dtype(dtype)) for number in given]
        dtypes = [source.dtype for source in node.inputs] + [compute_dtype(dtype)] * len(numbers)
        lanes = min([host().lanes(kind) for kind in (*dtypes, dtype)])
        static = tuple(declared.accepted(emit_rule(declared.name), node.attributes).items())
        ufunc = ufunc_of(ElementwiseLoop(declared.name, static, tuple(dtypes), dtype, lanes))
        if ufunc is None:
            self._plan(node)
        else:
            self.function = WithNumbers(ufunc, numbers) if numbers else ufunc

    def fold(self, node: Node, expression: Node, lowering: Lowering, axes: Shape) -> None:
        """Launch the kernel that combines elements."""
        self.function = folds_of(node.operator, node.dtype).function(node.attributes)

    def take(self, node: Node, expression: Node, lowering: Gather) -> None:
        """Let NumPy take elements."""
        self._move(node)

    def draw(self, node: Node, lowering: Lowering) -> None:
        """Launch the kernel that draws random numbers."""
        convert = lowering_of_kind(node.operator.name, Random).convert
        parameters = parameters_of(node.operator, convert, node.attributes)
        found = draw(node.operator.name, parameters, node.shape, node.dtype)
        if found is None:
            self._plan(node)
        else:
            self.function, self.is_general = found, False

    def view(self, node: Node, move: Callable[..., Pattern | None], named: Mapping[str, Any]) -> None:
        """Let NumPy return a view, where it can."""
        self._move(node)

    def join(self, node: Node, sources: Sequence[Node], begins: Sequence[Shape]) -> None:
        """Let NumPy join arrays."""
        self._move(node)

    def replace(self, node: Node, expression: Node, part: Pattern) -> None:
        """Let NumPy replace a part of a copy."""
        self._move(node)

    def multiply(self, node: Node, expression: Node) -> None:
        """Launch the kernel of matrix products."""
        self.function = Products(expression.inputs[0].dtype)

    def launch(self, node: Node, expression: Node, plan: Plan) -> None:
        """Launch kernels that read contiguous inputs."""
        pairs = zip(node.operator.input_names, node.inputs, strict=True)
        names = [name for name, source in pairs if source.operator is not _ABSENT]
        run = launch([(plan, {})], names, node.shape, node.dtype)
        self.is_general = False
        self.function = lambda *arrays: run(*[np.ascontiguousarray(array) for array in arrays if array is not None])

    def evaluate(self, node: Node) -> None:
        """Call NumPy, or kernels: the last bits of NumPy's results may depend on the layout of operands."""
        # a lowering may depend on the shapes
        self.function = of_contiguous_arrays(function_of_node(node))
        self.is_general = not alternatives(node.operator.lowering)

    def _move(self, node: Node) -> None:
        """Let NumPy move elements."""
        self.function = repeated(node) or numpy_function(node)

    def _plan(self, node: Node) -> None:
        """Plan this one node."""
        # planning and compiling are the work of helpers, which no signal handler interrupts
        program = run_apart(lambda: program_for([node], set(node.inputs).__contains__, False))
        run, places = program.run, [source.attributes[0] for source in program.inputs]
        self.function, self.is_general = lambda *arrays: run([arrays[place] for place in places])[0], False


def simple_function(node: Node, lowering: Lowering) -> Callable[[tuple[Any, ...]], Function] | None:
    """Return what makes the functions of nodes like one, for any shapes, given their attributes; None if nothing does.

    Such nodes only move elements, combine them along axes, or select some of them.
    """
    if lowering.only_moves:
        return node.operator.reference
    if lowering.fused_as is Fused.FOLD:
        return folds_of(node.operator, node.dtype).function
    if lowering.selects:
        return selections_of(node.operator, node.inputs[0].dtype).function
    return None


def of_contiguous_arrays(function: Function) -> Function:
    """Return a function that needs contiguous arrays, and returns any numbers, as one of arrays."""

    def call(*arrays: Any) -> Any:
        result = function(*[None if array is None else np.asarray(array, order="C") for array in arrays])
        return result if type(result) is tuple else np.asarray(result)

    return call


def _nothing() -> None:
    """Return the value of an input that was left out."""


def _place(node: Node, lowering: Lowering) -> tuple[Function, bool]:
    """Return the function of one step of an expansion, which reads leaves, and whether it holds for all shapes."""
    maker = _Maker()
    maker.place(node, lowering)
    return maker.function, maker.is_general


_expansions = Expansions(_place)


def _forget() -> None:
    """Forget functions that may refer to interned nodes."""
    _special.clear()
    _expansions.forget_extents()


UNLEARNED.connect(_forget)
