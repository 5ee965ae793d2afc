"""The reference executor: evaluates nodes with NumPy, operator by operator. It defines the meaning of every operator.

Takes nodes and their operators' reference functions; hands :class:`ReferenceProgram` to
:func:`phonograd.core.plan.cache.choose_program`. All programs start with :func:`order` and :func:`resolve`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from operator import attrgetter
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..base.dtypes import FLOAT32, HALVES, DType, convert
from ..base.errors import MXNetError, OutOfMemory
from ..base.hot import hot
from ..base.outside import is_from_outside
from ..graph.node import Node
from ..graph.operator import ABSENT, Array, Operator
from ..lower.lowering import alternatives
from ..ops.math.structural import LEAF
from .programs import STEP_BYTES, Note, Part

__all__ = ["ReferenceProgram", "depended_on", "evaluate", "locate_error", "numpy_function", "order", "resolve"]

#: steps above which a program is interpreted: compiling takes about 15 us a step
_LONGEST_STRAIGHT_LINE = 5000


class ReferenceProgram:
    """A :class:`~phonograd.core.run.programs.Program` of NumPy calls, one for each node.

    Values are stored in a list of slots: first the inputs, then one slot per step. A slot is emptied after its last
    use, unless its value is kept. No input is ever written over.
    """

    __slots__ = ("_parts", "compiled", "inputs", "kept", "runs", "steps", "width")

    donatable: tuple[int, ...] = ()
    is_provisional = False
    size = 0
    memory = None

    @property
    def nbytes(self) -> int:
        """The bytes of its steps."""
        return STEP_BYTES * len(self.steps)

    def __init__(self, targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool = False) -> None:
        wanted = [resolve(node) for node in targets]
        #: the nodes whose values a run takes: leaves and available nodes
        self.inputs, computed = order(wanted, available)
        slots = {node: slot for slot, node in enumerate([*self.inputs, *computed])}
        kept = computed if keep_all else [node for node in dict.fromkeys(wanted) if node not in self.inputs]
        #: (node, slot) of every value that a run returns
        self.kept = [
            (node, slots[node]) for node in kept if node.outputs is None and node.operator is not ABSENT.operator
        ]
        self.width = len(slots)
        self.runs = 0
        self.compiled: Callable[..., Any] | None = None
        self._parts: list[Part] | None = None
        self.steps = _steps(computed, slots, {node for node, _ in self.kept})

    @property
    def parts(self) -> list[Part]:
        """The steps as observers see them."""
        if self._parts is None:
            nodes = [step[-1] for step in self.steps]
            self._parts = [Part((n,), (), (*map(resolve, n.inputs), n), (n,)) for n in nodes]
        return self._parts

    def run(self, inputs: list[Any], donated: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes, given those of the inputs (see :class:`.programs.Program`).

        The second run compiles the steps into one Python function.
        """
        self.runs += 1
        with np.errstate(all="ignore"):
            if note is not None:
                return self._step_by_step(inputs, note)
            if self.runs == 2 and len(self.steps) <= _LONGEST_STRAIGHT_LINE:
                self.compiled = self._straight_line()
            if self.compiled is not None:
                try:
                    return self.compiled(*inputs)  # type: ignore[no-any-return]
                except Exception as error:
                    if is_from_outside(error):
                        raise
                    # it fails again step by step, where the node is known
                    return self._step_by_step(inputs)
            return self._step_by_step(inputs)

    def _step_by_step(self, inputs: list[Any], note: Note | None = None) -> list[Array]:
        values: list[Any] = inputs + [None] * (self.width - len(inputs))
        for number, (function, sources, slot, done, node) in enumerate(self.steps):
            start = perf_counter_ns()
            try:
                values[slot] = function(*[values[source] for source in sources])
            except Exception as error:
                if is_from_outside(error):
                    raise
                raise locate_error(error, node) from error
            if note is not None:
                note(self.parts[number], start, perf_counter_ns())
            for last in done:
                values[last] = None
        return [_array(values[slot]) for _, slot in self.kept]

    def _straight_line(self) -> Callable[..., Any]:
        """Return the steps as one Python function without loops or tables.

        ::

            def program(v0, v1):
                v2 = f0(v0, v1)
                v0 = None
                v3 = f1(v2)
                return [array(v3)]
        """
        scope: dict[str, Any] = {"array": _array}
        lines = [f"def program({', '.join(f'v{slot}' for slot in range(len(self.inputs)))}):"]
        for number, (function, sources, slot, done, _) in enumerate(self.steps):
            scope[f"f{number}"] = function
            call = f"v{slot} = f{number}({', '.join(f'v{source}' for source in sources)})"
            lines.append("    " + "; ".join([call, *[f"v{last} = None" for last in done]]))
        lines.append(f"    return [{', '.join(f'array(v{slot})' for _, slot in self.kept)}]")
        exec(compile("\n".join(lines), "<phonograd program>", "exec"), scope)
        return scope["program"]  # type: ignore[no-any-return]


def _array(value: Any) -> Array:
    # NumPy functions of arrays without axes return scalars
    return value if isinstance(value, np.ndarray) else np.asarray(value)


def locate_error(error: Exception, node: Node) -> Exception:
    """Return the error with operator and source line added, of the same type where Python allows it.

    An operator that works for others has the parameter ``caller``: the name of the one that the user called.
    """
    text = f"{error}\n  in operator {node.parameters.get('caller') or node.operator.name}"
    if node.origin:
        text += f", called at {node.where()}"
    kind: type[Exception] = MXNetError
    if isinstance(error, MemoryError):
        kind = OutOfMemory
    elif isinstance(error, (MXNetError, IndexError, ValueError)):
        kind = type(error)
    return kind(text)


@hot
def resolve(node: Node) -> Node:
    """Return the node that computes the value of a node: itself, unless it passes on the value of another one."""
    while node.operator.is_view:
        node = node.inputs[0]
    return node


def depended_on(nodes: Iterable[Node], computed: Iterable[Node]) -> set[Node]:
    """Return those of the computed nodes that some resolved nodes depend on, and themselves."""
    found: set[Node] = set()
    stack = list(nodes)
    left = set(computed) if stack else found
    while stack:
        node = stack.pop()
        if node in left:
            left.remove(node)
            found.add(node)
            stack.extend(map(resolve, node.inputs))
    return found


def order(wanted: Iterable[Node], available: Callable[[Node], bool]) -> tuple[tuple[Node, ...], list[Node]]:
    """Return the inputs (leaves and available nodes) and the nodes to compute for some resolved nodes, oldest first.

    A node without inputs is right before its first user: a constant may be as old as the process, and a graph has the
    same order, and so the same plan on disk, whatever was computed before it.
    """
    given: list[Node] = []
    computed: list[Node] = []
    constants: list[Node] = []
    found: set[Node] = set()
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if node.operator is LEAF or available(node):
            given.append(node)
            continue
        if not node.inputs:
            constants.append(node)
            continue
        computed.append(node)
        for source in node.inputs:
            while source.operator.is_view:
                source = source.inputs[0]
            if source not in found:
                stack.append(source)
    serial = attrgetter("serial")
    given.sort(key=serial)
    computed.sort(key=serial)
    return tuple(given), _with_constants(computed, constants) if constants else computed


def _with_constants(computed: list[Node], constants: list[Node]) -> list[Node]:
    """Return nodes with nodes that have no inputs, each right before its first user; the first ones have no user."""
    users: dict[Node, list[Node]] = {}
    left = set(constants)
    for node in computed:
        for source in node.inputs:
            source = resolve(source)
            if source in left:
                left.discard(source)
                users.setdefault(node, []).append(source)
        if not left:
            break
    placed = sorted(left, key=attrgetter("serial"))
    for node in computed:
        placed += users.get(node, ())
        placed.append(node)
    return placed


def _steps(computed: list[Node], slots: dict[Node, int], kept: set[Node]) -> list[Any]:
    steps: list[Any] = []
    last_use: dict[int, int] = {}
    for index, node in enumerate(computed):
        sources = tuple([slots[resolve(source)] for source in node.inputs])
        steps.append([numpy_function(node), sources, slots[node], (), node])
        for source in sources:
            last_use[source] = index
    keep = {slots[node] for node in kept}
    done: dict[int, list[int]] = {}
    for slot, index in last_use.items():
        if slot not in keep:
            done.setdefault(index, []).append(slot)
    for index, freed in done.items():
        steps[index][3] = tuple(freed)
    return [tuple(step) for step in steps]


def numpy_function(node: Node) -> Callable[..., Any]:
    """Return the NumPy function that computes a node.

    Numbers of 16 bits are computed in float32 and rounded once: the function gets float32 arrays, float32 in the place
    of its parameters, and its results are rounded. Functions that only move elements get the arrays as they are.
    """
    operator, attributes = node.operator, node.attributes
    dtypes = [node.dtype] if node.outputs is None else [dtype for _, dtype in node.outputs]
    sources = [source.dtype for source in node.inputs]
    if HALVES.isdisjoint((*dtypes, *sources)) or operator.is_view or _only_moves(operator):
        return operator.reference(attributes)
    if not operator.random:
        attributes = tuple([_wide(value) for value in attributes])
    function, is_one = operator.reference(attributes), node.outputs is None

    def call(*arrays: Any) -> Any:
        result = function(*[_widen(array) for array in arrays])
        if is_one:
            return _narrow(result, dtypes[0])
        return tuple([_narrow(each, dtype) for each, dtype in zip(result, dtypes, strict=True)])

    return call


def _only_moves(operator: Operator) -> bool:
    return any([lowering.only_moves or lowering.replaces_part for lowering in alternatives(operator.lowering)])


def _wide(value: Any) -> Any:
    return FLOAT32 if isinstance(value, np.dtype) and value in HALVES else value


def _widen(array: Any) -> Any:
    return convert(array, FLOAT32) if isinstance(array, (np.ndarray, np.generic)) and array.dtype in HALVES else array


def _narrow(result: Any, dtype: DType) -> Any:
    return result if dtype not in HALVES else convert(result, dtype)


def evaluate(targets: list[Node], bindings: Mapping[Node, Array]) -> list[Array]:
    """Return the values of nodes, given the values of all leaves below them."""
    program = ReferenceProgram(targets, lambda node: node in bindings)
    values = program.run([bindings[node] for node in program.inputs])
    results = dict(zip([node for node, _ in program.kept], values, strict=True))
    return [bindings[resolve(t)] if resolve(t) in bindings else results[resolve(t)] for t in targets]
