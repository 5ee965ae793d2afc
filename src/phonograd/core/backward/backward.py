"""The backward pass over arrays: a pass through traces and Functions, the latest first.

Takes heads and their gradients from :mod:`phonograd.autograd`; hands gradients to variables. Within one trace the
reverse pass is a cached derivation on nodes (:mod:`phonograd.core.derive.gradient`), which stops at gradient targets. A
:class:`~phonograd.core.backward.variable.Variable` takes the gradient into its buffer. An
:class:`~phonograd.core.trace.tape.Origin` passes it on to the trace where the array was recorded. The output of a
:class:`~phonograd.core.backward.function.Function` collects it until the user's ``backward`` can be called, which
returns gradients for the inputs of the Function.

There is one derivation and there are three ways to use its result:

==========================  ================================================  ====================================
way                         for                                               gradients
==========================  ================================================  ====================================
``_write_at_once``          one head; plain variables of the current trace    are pending; buffers name them
``_differentiate_current``  the current trace of the thread                   are pending, like any other result
``_differentiate_other``    a trace that has ended, or of another thread      are computed now, under its lock
==========================  ================================================  ====================================

``_write_at_once`` is the fast path of most training loops: it does what :class:`_BackwardPass` does with
``_differentiate_current``, without collecting. A pass changes nothing before it has succeeded. Then buffers are written
and the record is cleared.
"""

from __future__ import annotations

import functools
import heapq
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..array.binary import call_binary
from ..array.handle import (
    DENSE,
    Handle,
    as_class,
    make,
    make_concrete,
    node_in,
    place_of,
    read,
    replace,
    variable_of,
)
from ..base import collector, settings
from ..base.devices import Context
from ..base.dtypes import DType, name_of
from ..base.errors import MXNetError, format_shape
from ..base.hot import hot
from ..base.settings import active
from ..derive.gradient import NOTHING, Gradient, Nothing, differentiate, is_derived
from ..graph.node import Node, Shape
from ..graph.operator import REGISTRY, Array
from ..ops.math.structural import detach, full, mark_recorded, variable
from ..plan.cache import PLANNED, eager_is_available
from ..run.background import run_apart
from ..trace.evaluation import KEEP, Options
from ..trace.flags import FLAGS, RECORDING, TRAINING, flags_set_to
from ..trace.tape import Origin, Target
from ..trace.trace import LOCAL, Trace
from .rows import RowGradient, row_pieces, stands_alone, write_gradient
from .variable import Variable

if TYPE_CHECKING:
    from ...ndarray.array import NDArray

    Waiting: TypeAlias = NDArray | Nothing | None

__all__ = [
    "FunctionCall",
    "FunctionOutput",
    "backward_pass",
    "grad_pass",
    "grads_or_zeros",
    "grads_where_reached",
    "place_in_record",
]

_NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, "
    "you need to pass retain_graph=True to backward."
)
_NO_VARIABLES = "There are no inputs in computation graph that require gradients."


#: recorded gradients, by trace: the program of the user did not call the operators below these nodes
gradient_nodes: weakref.WeakKeyDictionary[Trace, set[Node]] = weakref.WeakKeyDictionary()


class FunctionOutput(Target):
    """One output of a recorded Function call."""

    __slots__ = ("call", "index")

    def __init__(self, call: FunctionCall, index: int) -> None:
        self.call = call
        self.index = index


class FunctionCall:
    """A recorded call of a user's Function: its inputs as nodes, and the function that returns their gradients."""

    __slots__ = ("_trace", "attributes", "backward", "inputs", "name", "number", "outputs")

    def __init__(
        self,
        name: str | None,
        trace: Trace,
        inputs: list[tuple[Trace, Node]],
        backward: Callable[[list[NDArray]], list[NDArray]],
    ) -> None:
        self.name = name
        """The class of the Function, or None for a call that only runs hooks on a gradient."""
        self.attributes: dict[str, str] | None = None
        """The attributes of a custom operator as symbols write them; a Function has none."""
        self.number = len(trace.targets)
        self.outputs: list[tuple[Shape, DType, Context, type[NDArray]]] = []
        self.backward = backward
        # a call is found through its trace and refers to it weakly, so that both are freed without a garbage collection
        self._trace = weakref.ref(trace)
        self.inputs = [(None if home is trace else home, node) for home, node in inputs]

    @property
    def trace(self) -> Trace:
        """The trace in which the call was recorded."""
        trace = self._trace()
        assert trace is not None, "a Function call was found through its trace"
        return trace

    def sources(self) -> list[tuple[Trace, Node]]:
        """Return the inputs, each with the trace in which it was recorded."""
        return [(home or self.trace, node) for home, node in self.inputs]


class _BackwardPass:
    """One backward pass: gradients waiting at nodes of traces and at outputs of Functions."""

    def __init__(self, create_graph: bool, by_rows: bool = False) -> None:
        self.create_graph = create_graph
        #: whether row_sparse buffers take rows
        self.by_rows = by_rows
        self.waiting: dict[Trace, list[tuple[Node, Waiting]]] = {}
        self.order: list[int] = []
        self.traces: dict[int, Trace] = {}
        self.calls: dict[Trace, list[tuple[int, FunctionCall]]] = {}
        self.outputs: dict[FunctionCall, dict[int, list[NDArray]]] = {}
        self.found: dict[Variable, list[NDArray | RowGradient]] = {}
        self.visited: dict[Trace, list[frozenset[Node]]] = {}

    def start(self, trace: Trace, node: Node, grad: Waiting) -> None:
        """Add a gradient (an array, None for ones, or NOTHING) to those that wait at a node."""
        self._open(trace)
        self.waiting.setdefault(trace, []).append((node, grad))

    def _open(self, trace: Trace) -> None:
        if trace.number not in self.traces:
            self.traces[trace.number] = trace
            heapq.heappush(self.order, -trace.number)

    def run(self) -> None:
        """Differentiate until no gradient waits: latest trace first, and in it all nodes before the latest Function."""
        while self.order:
            trace = self.traces[-self.order[0]]
            if self.waiting.get(trace):
                self._sweep_trace(trace)
            elif self.calls.get(trace):
                _, call = heapq.heappop(self.calls[trace])
                self._sweep_call(call)
            else:
                heapq.heappop(self.order)
                del self.traces[trace.number]

    def _sweep_trace(self, trace: Trace) -> None:
        waiting = self.waiting.pop(trace)
        heads = tuple([node for node, _ in waiting])
        grads = [grad for _, grad in waiting]
        result, arrays = (self._differentiate_current if trace is LOCAL.trace else self._differentiate_other)(
            trace, heads, grads
        )
        if active.watched:
            trace.attributed().note_backward(result)
        self.visited.setdefault(trace, []).append(result.visited)
        for node, array in zip(result.targets, arrays, strict=True):
            self._deliver(trace.targets[node.attributes[0]], array)

    def _differentiate_current(
        self, trace: Trace, heads: tuple[Node, ...], grads: list[Waiting]
    ) -> tuple[Gradient, list[NDArray | RowGradient | None]]:
        """Differentiate in this thread's current trace, where the gradients are pending like any other result."""
        nodes = [node_in(grad, trace) if isinstance(grad, Handle) else grad for grad in grads]
        if not self.create_graph:
            nodes = [detach(node) if isinstance(node, Node) else node for node in nodes]
        result = differentiate(heads, tuple(nodes))
        found = self._wanted(trace, result)
        return result, [_gather([make(self._final(node), trace) for node in part]) for part in found]

    def _differentiate_other(
        self, trace: Trace, heads: tuple[Node, ...], grads: list[Waiting]
    ) -> tuple[Gradient, list[NDArray | RowGradient | None]]:
        """Differentiate in a trace that has ended or is another thread's; the gradients are computed at once."""
        # read before taking the lock, because this may compute in the current trace
        values = {id(grad): read(grad) for grad in grads if isinstance(grad, Handle)}
        with trace.lock:
            nodes: list[Node | Nothing | None] = []
            lent: dict[Node, Array] = {}
            for grad in grads:
                if not isinstance(grad, Handle):
                    nodes.append(grad)
                    continue
                value = values[id(grad)]
                if self.create_graph:
                    nodes.append(_link(grad, trace.tape.lend(value, grad.context), trace))
                else:
                    node = trace.tape.lend(value, grad.context, len(lent))
                    lent[node] = value
                    nodes.append(node)
            result = differentiate(heads, tuple(nodes))
            found = [[self._final(node) for node in part] for part in self._wanted(trace, result)]
            wanted = tuple([node for part in found for node in part])
            computed = iter(trace.evaluate(wanted, KEEP if self.create_graph else Options(lent)))
        return result, [_gather([self._array_of(node, trace, next(computed)) for node in part]) for part in found]

    def _wanted(self, trace: Trace, result: Gradient) -> list[list[Node]]:
        """Return the nodes to compute for each target: none, its gradient, or the pieces of one made of rows."""
        wanted: list[list[Node]] = []
        for node, grad in result.targets.items():
            target = trace.targets[node.attributes[0]]
            takes_rows = self.by_rows and isinstance(target, Variable) and target.grad._takes_rows
            pieces = row_pieces(grad) if takes_rows and grad is not None else None
            wanted.append(pieces or ([] if grad is None else [grad]))
        return wanted

    def _final(self, grad: Node) -> Node:
        return mark_recorded(grad) if self.create_graph else detach(grad)

    def _array_of(self, node: Node, trace: Trace, value: Array) -> NDArray:
        if not self.create_graph:
            return make_concrete(value, node.context)  # type: ignore[no-any-return]
        array: NDArray = make(node, trace)
        array._buffer = value
        return array

    def _deliver(self, target: Target, grad: NDArray | RowGradient | None) -> None:
        if isinstance(target, Variable):
            found = self.found.setdefault(target, [])
            if grad is not None:
                found.append(grad)
            return
        assert not isinstance(grad, RowGradient), target
        if isinstance(target, Origin):
            self.start(target.trace, target.node, NOTHING if grad is None else grad)
        elif isinstance(target, FunctionOutput):
            call = target.call
            if call not in self.outputs:
                self.outputs[call] = {}
                self._open(call.trace)
                heapq.heappush(self.calls.setdefault(call.trace, []), (-call.number, call))
            if grad is not None:
                self.outputs[call].setdefault(target.index, []).append(grad)
        else:
            target.refuse()

    def _sweep_call(self, call: FunctionCall) -> None:
        arrived = self.outputs.pop(call)
        out_grads = []
        for index, (shape, dtype, context, array_class) in enumerate(call.outputs):
            given = arrived.get(index)
            grad = _total(given) if given else make(full(shape, 0, dtype, context), LOCAL.trace)
            out_grads.append(as_class(grad, array_class))
        for (trace, node), grad in zip(call.sources(), call.backward(out_grads), strict=True):
            if node.marked:
                self.start(trace, node, grad)

    # -- results

    def gradient(self, owner: Variable) -> NDArray:
        """Return the whole gradient of a variable that was reached, after its hooks."""
        grads = self.arrays(owner)
        total = _total(grads) if grads else owner.nothing()
        return owner.hooks.apply(total if total._takes_rows else as_class(total, owner.grad._result_class))

    def arrays(self, owner: Variable) -> list[NDArray]:
        """Return the gradients that reached a variable; those that are made of rows are one array."""
        found = self.found.get(owner, [])
        rows = [piece for grad in found if isinstance(grad, RowGradient) for piece in grad.pieces]
        whole = [grad for grad in found if not isinstance(grad, RowGradient)]
        return [owner.from_rows(RowGradient(rows)), *whole] if rows else whole

    def clear(self) -> None:
        """Take the swept nodes off the tapes."""
        for trace, parts in self.visited.items():
            trace.tape.clear(parts[0] if len(parts) == 1 else frozenset().union(*parts))


def _gather(arrays: list[NDArray]) -> NDArray | RowGradient | None:
    """Return one gradient: an array, or pairs of positions and rows."""
    if len(arrays) < 2:
        return arrays[0] if arrays else None
    return RowGradient(_pairs(arrays))


def _pairs(arrays: list[NDArray]) -> list[tuple[NDArray, NDArray]]:
    """Return pairs of positions and rows, given one after the other."""
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def _link(array: NDArray, node: Node, trace: Trace) -> Node:
    """Return the node of an array's value in another trace as a target that leads back to the array."""
    home, origin, _ = place_of(array)
    if home is not None and origin is not None and origin.marked:
        return variable(node, trace.slot(home.tape.target_of(origin)))
    owner = variable_of(array)
    return node if owner is None else variable(node, trace.slot(owner))


def place_in_record(array: NDArray) -> tuple[Trace, Node]:
    """Return the trace in which an array was recorded and its node there; an unmarked one if it was not."""
    trace, node, _ = place_of(array)
    current = LOCAL.trace
    # a captured function enters every array from outside, so that its calls can be repeated with others
    if trace is None or node is None or not node.marked or not (trace is current or current.allows_shortcuts):
        trace = current
        node = node_in(array, trace)
    return trace, node


def _total(arrays: list[NDArray]) -> NDArray:
    total = arrays[0]
    for array in arrays[1:]:
        total = call_binary(REGISTRY["broadcast_add"], total, array, total._result_class)
    return total


def _flags(recording: bool, training: bool) -> flags_set_to:
    return flags_set_to((RECORDING if recording else 0) | (TRAINING if training else 0))


def _begin(
    heads: list[NDArray], head_grads: list[NDArray | None], create_graph: bool, by_rows: bool = False
) -> _BackwardPass:
    for grad in head_grads:
        if grad is not None and not isinstance(grad, Handle):
            raise TypeError(f"a head gradient must be an NDArray or None, not {type(grad)}")
    LOCAL.trace.note_pass()
    backward_pass = _BackwardPass(create_graph, by_rows and LOCAL.trace.allows_shortcuts)
    for position, (head, grad) in enumerate(zip(heads, head_grads, strict=True)):
        trace, node = place_in_record(head)
        if not node.marked:
            raise MXNetError(f"{_NOT_RECORDED} (head {position}, shape {format_shape(head.shape)})")
        if grad is not None and (grad.shape, grad._dtype) != (node.shape, node.dtype):
            raise MXNetError(
                f"head gradient {position} has shape {format_shape(grad.shape)} and dtype "
                f"{name_of(grad._dtype)}, but its head "
                f"has shape {format_shape(node.shape)} and dtype {name_of(node.dtype)}; they must be equal"
            )
        backward_pass.start(trace, node, grad)
    return backward_pass


def backward_pass(heads: list[NDArray], head_grads: list[NDArray | None], retain_graph: bool, train_mode: bool) -> None:
    """Run a backward pass and put the gradients into the buffers of the variables reached."""
    if len(heads) == 1 and head_grads[0] is None and _write_at_once(heads[0], retain_graph):
        return
    with _flags(False, train_mode):
        backward_pass = _begin(heads, head_grads, create_graph=False, by_rows=True)
        backward_pass.run()
        reached = [owner for owner in backward_pass.found if owner.request != "null"]
        if not reached:
            raise MXNetError(_NO_VARIABLES)
        for owner, grad in [(owner, backward_pass.gradient(owner)) for owner in reached]:
            owner.take(grad)
        if not retain_graph:
            backward_pass.clear()


def _write_at_once(head: NDArray, retain_graph: bool) -> bool:
    """Run a backward pass that stays in the current trace and only writes gradients; return whether that was possible.

    The result is that of :class:`_BackwardPass`. No code of the user (a Function, a hook) runs in it.
    """
    trace, node = LOCAL.trace, head._node
    if head._trace is not trace or node is None or not node.marked or not trace.allows_shortcuts:
        return False
    if active.watched:
        return False
    if not (retain_graph or is_derived(node)) and _compute_at_once(trace, node):
        return True
    result = differentiate((node,), (None,))
    if not result.plain:
        return False
    owners: list[tuple[Any, list[Node] | None]] = []
    for (slot, _), grad in zip(result.plain, result.targets.values(), strict=True):
        owner = trace.targets[slot]
        pieces = _pieces_for(owner, grad)
        if not _is_plain(owner, pieces is not None):
            return False
        owners.append((owner, pieces))
    for (owner, pieces), (_, grad) in zip(owners, result.plain, strict=True):
        if pieces is None:
            write_gradient(owner.grad, grad, trace)
            owner.fresh = 1
        else:
            owner.take(owner.from_rows(RowGradient(_pairs([make(detach(piece), trace) for piece in pieces]))))
    if not retain_graph:
        trace.tape.clear(result.visited)
    return True


@hot
def _is_plain(owner: Target, takes_rows: bool) -> bool:
    """Return whether a gradient is just written into the buffer of a variable, which nothing else depends on."""
    if type(owner) is not Variable or owner.request != "write" or owner.hooks.functions:
        return False
    if takes_rows or owner.grad._takes_rows:
        return takes_rows and not FLAGS.get() & RECORDING
    before = owner.grad._node
    return stands_alone(owner.grad) and (before is None or not before.marked)


@hot
def _are_plain(targets: Sequence[Target], variables: list[Node]) -> bool:
    """Return whether the gradients of variable nodes are just written, each into a buffer of its own."""
    slots = [node.attributes[0] for node in variables]
    if len(set(slots)) != len(slots):
        return False
    for slot in slots:  # noqa: SIM110 - hot functions have no generators
        if not _is_plain(targets[slot], False):
            return False
    return True


def _pieces_for(owner: Target, grad: Node | None) -> list[Node] | None:
    """Return the positions and rows of a gradient if it is made of rows, and the buffer of a variable takes them."""
    takes_rows = type(owner) is Variable and owner.grad._takes_rows
    return row_pieces(grad) if takes_rows and grad is not None else None


@functools.cache
def _eager_passes() -> Any:
    """Import passes that compute at once, apart: a signal handler that interrupts an import finds half of a module."""

    def load() -> Any:
        with collector.paused(stay=True):
            from . import eager
        return eager

    return run_apart(load)


def _compute_at_once(trace: Trace, head: Node) -> bool:
    """Compute the gradients of a record that is new, and write them; return whether that was possible."""
    tiers, executor = settings.current().tiers, settings.active.executor
    if tiers == "plan" or executor == "reference" or PLANNED.listeners or not eager_is_available():
        return False
    eager = _eager_passes()
    targets = trace.targets

    result = eager.differentiate_at_once(trace, head, functools.partial(_are_plain, targets))
    if result is None or any([grad is None for grad in result.targets.values()]):
        return False
    for node, grad in result.targets.items():
        owner: Any = targets[node.attributes[0]]
        replace(owner.grad, grad)
        owner.fresh = 1
    result.finish()
    return True


def grad_pass(
    heads: list[NDArray],
    variables: list[Any],
    head_grads: list[NDArray | None],
    retain_graph: bool,
    create_graph: bool,
    train_mode: bool,
) -> list[NDArray]:
    """Run a backward pass and return the gradients of some variables as new arrays."""
    with _flags(create_graph, train_mode):
        backward_pass = _begin(heads, head_grads, create_graph)
        for position, array in enumerate(variables, 1):
            owner = variable_of(array) if isinstance(array, Handle) else None
            if owner is None or owner.request == "null":
                raise MXNetError(
                    f"Cannot differentiate with respect to the {position}-th variable because it does not require "
                    "gradient."
                )
        backward_pass.run()
        for position, array in enumerate(variables, 1):
            if variable_of(array) not in backward_pass.found:
                raise MXNetError(
                    f"Cannot differentiate with respect to the {position}-th variable because it is unreachable from "
                    "the outputs."
                )
        grads = {owner: backward_pass.gradient(owner) for owner in dict.fromkeys(map(variable_of, variables))}
        results = [_result(grads[variable_of(array)], create_graph, array._result_class) for array in variables]
        if not retain_graph:
            backward_pass.clear()
        return results


def _result(grad: NDArray, create_graph: bool, array_class: type[NDArray]) -> NDArray:
    """Return a gradient as an array of its own, in the current trace."""
    trace = LOCAL.trace
    node = node_in(grad, trace)
    if create_graph:
        gradient_nodes.setdefault(trace, set()).add(mark_recorded(node))
    result: NDArray = make(trace.distinct(mark_recorded(node)) if create_graph else detach(node), trace, array_class)
    return result


def grads_or_zeros(head: NDArray, variables: list[NDArray]) -> list[NDArray]:
    """Return recorded gradients of one head, zeros for variables it does not depend on."""
    with _flags(True, True):
        backward_pass = _begin([head], [None], create_graph=True)
        backward_pass.run()
        owners = [variable_of(array) for array in variables]
        return [backward_pass.gradient(owner) if owner in backward_pass.found else owner.nothing() for owner in owners]


def grads_where_reached(
    heads: list[NDArray], head_grads: list[NDArray], owners: list[Variable | None], create_graph: bool
) -> list[NDArray | None]:
    """Return the gradients of variables before their hooks; None for those that the heads do not depend on."""
    found = [(head, grad) for head, grad in zip(heads, head_grads, strict=True) if place_in_record(head)[1].marked]
    with flags_set_to((FLAGS.get() | RECORDING) if create_graph else FLAGS.get() & ~RECORDING):
        backward_pass = _begin([head for head, _ in found], [grad for _, grad in found], create_graph)
        backward_pass.run()
        grads = [None if owner is None else backward_pass.arrays(owner) for owner in owners]
        totals = [_result(_total(parts), create_graph, DENSE[0]) if parts else None for parts in grads]
        if not create_graph:
            backward_pass.clear()
    return totals
