"""The backward pass over arrays: variables, and the sweep through traces and Functions.

Within one trace the reverse pass is a remembered derivation on nodes (:mod:`phonograd.gradient`). It stops at gradient
targets; this module decides what each target is. A :class:`Variable` takes the gradient into its buffer; an
:class:`~phonograd.trace.Origin` hands it on to the trace where the array was recorded; the output of a
:class:`~phonograd.function.Function` collects it until the user's ``backward`` can be called, which then hands gradients
on to the Function's inputs. Later traces come before earlier ones, later Functions before earlier ones.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Callable
from typing import Any

from .errors import MXNetError, format_shape
from .gradient import differentiate
from .ndarray.array import NDArray
from .ndarray.handle import enter, make, read, rebind
from .node import Node
from .operators.arithmetic import add
from .operators.structural import VARIABLE, detach, full, recorded, variable
from .state import FLAGS, RECORDING, TRAINING
from .trace import LOCAL, Origin, Trace

__all__ = ["FunctionCall", "FunctionOutput", "Variable", "attach", "backward_pass", "grad_pass"]

_NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true or use "
    "autograd.record() to save computational graphs for backward. If you want to differentiate the same graph twice, "
    "you need to pass retain_graph=True to backward."
)
_NO_VARIABLES = "There are no inputs in computation graph that require gradients."
_REQUESTS = {"write", "add", "null"}


class Variable:
    """An array's gradient buffer and what to do with a new gradient."""

    __slots__ = ("__weakref__", "fresh", "grad", "hooks", "request")

    def __init__(self, grad: NDArray, request: str) -> None:
        if request not in _REQUESTS:
            raise KeyError(request)
        self.grad = grad
        self.request = request
        self.fresh = 0
        self.hooks: list[Callable[[NDArray], NDArray | None]] = []

    @staticmethod
    def checked(array: Any, grad: Any, request: str) -> Variable:
        """Return a variable whose buffer fits the array, or raise."""
        if not isinstance(array, NDArray) or not isinstance(grad, NDArray):
            raise TypeError(f"variables and gradients must be NDArrays, not {type(array)} and {type(grad)}")
        if (grad.shape, grad._dtype) != (array.shape, array._dtype):
            raise ValueError(
                f"the gradient buffer of a {array._dtype}{format_shape(array.shape)} variable must have its shape and "
                f"dtype, not {grad._dtype}{format_shape(grad.shape)}"
            )
        return Variable(grad, request)

    def mark(self, array: NDArray) -> None:
        """Make an array this variable; whatever was recorded behind it is cut off."""
        array._variable = self
        node = array._node
        trace = array._trace
        if node is not None and trace is not None:
            if trace is LOCAL.trace:
                array._node = variable(detach(node), trace.slot(self))
            else:
                if array._buffer is None:
                    array._buffer = trace.value(node)
                array._settle()

    def take(self, grad: Node, trace: Trace) -> None:
        """Write or add a gradient into the buffer."""
        for hook in self.hooks:
            changed = hook(make(grad, trace))
            if changed is not None:
                grad = detach(enter(changed, trace))
        if self.request == "add":
            grad = add(enter(self.grad, trace), grad)
        rebind(self.grad, detach(grad), trace)
        self.fresh = 1


def attach(array: NDArray, grad_req: str = "write", stype: str | None = None) -> None:
    """Make an array a variable with a new gradient buffer of zeros."""
    if grad_req not in _REQUESTS:
        raise KeyError(grad_req)
    if stype not in (None, "default"):
        raise MXNetError(f"gradient storage type {stype!r} is not available: gradients are dense here")
    trace = LOCAL.trace
    zeros = make(full(array.shape, 0, array._dtype, array.context), trace)
    Variable(zeros, grad_req).mark(array)


class FunctionOutput:
    """One output of a recorded Function call: a gradient target."""

    __slots__ = ("call", "index")

    def __init__(self, call: FunctionCall, index: int) -> None:
        self.call = call
        self.index = index


class FunctionCall:
    """A recorded call of a user's Function: its inputs as nodes, and how to ask it for their gradients."""

    __slots__ = ("backward", "inputs", "number", "outputs", "trace")

    def __init__(
        self,
        trace: Trace,
        number: int,
        inputs: tuple[Node, ...],
        outputs: list[tuple[tuple[int, ...], Any]],
        backward: Callable[[list[Any]], list[Any]],
    ) -> None:
        self.trace = trace
        self.number = number
        self.inputs = inputs
        self.outputs = outputs
        self.backward = backward


class _Sweep:
    """One backward pass: gradients waiting at nodes of traces and at outputs of Functions."""

    def __init__(self, create_graph: bool) -> None:
        self.create_graph = create_graph
        self.waiting: dict[Trace, dict[Node, list[Any]]] = {}
        self.order: list[int] = []
        self.traces: dict[int, Trace] = {}
        self.calls: dict[Trace, list[tuple[int, FunctionCall]]] = {}
        self.outputs: dict[FunctionCall, dict[int, list[Any]]] = {}
        self.found: dict[Variable, list[Any]] = {}
        self.reached: dict[Variable, None] = {}
        self.visited: dict[Trace, frozenset[Node]] = {}

    def start(self, trace: Trace, node: Node, grad: Any) -> None:
        """Let a gradient (an array, or None for ones) wait at a node."""
        self._open(trace)
        self.waiting.setdefault(trace, {}).setdefault(node, []).append(grad)

    def _open(self, trace: Trace) -> None:
        if trace.number not in self.traces:
            self.traces[trace.number] = trace
            heapq.heappush(self.order, -trace.number)

    def run(self) -> None:
        """Sweep until nothing waits: the latest trace first, in it all nodes before the latest Function."""
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
                self.waiting.pop(trace, None)

    def _sweep_trace(self, trace: Trace) -> None:
        heads, grads = [], []
        for node, given in self.waiting[trace].items():
            for grad in given:
                heads.append(node)
                grads.append(None if grad is None else self._node(grad, trace))
        self.waiting[trace] = {}
        result = differentiate(tuple(heads), tuple(grads))
        self.visited[trace] = self.visited.get(trace, frozenset()) | result.visited
        arrays = self._arrays(trace, [grad for grad in result.targets.values() if grad is not None])
        for node, grad in result.targets.items():
            self._deliver(trace.targets[node.attributes[0]], None if grad is None else arrays[grad])

    def _node(self, array: Any, trace: Trace) -> Node:
        if trace is LOCAL.trace:
            node = enter(array, trace)
        else:
            node = trace.bind(read(array), array.context)
            if array._node is not None and array._node.marked and array._trace is not None:
                node = variable(node, trace.slot(array._trace.target_of(array._node)))
        return node if self.create_graph else detach(node)

    def _arrays(self, trace: Trace, nodes: list[Node]) -> dict[Node, NDArray]:
        """Return gradients as arrays: pending ones in the current trace, computed ones anywhere else."""
        nodes = list(dict.fromkeys(nodes))
        final = [recorded(node) if self.create_graph else detach(node) for node in nodes]
        arrays = {node: make(as_, trace) for node, as_ in zip(nodes, final, strict=True)}
        if trace is not LOCAL.trace:
            for array, value in zip(arrays.values(), trace.evaluate(tuple(final)), strict=True):
                array._buffer = value
                if not self.create_graph:
                    array._settle()
        return arrays

    def _deliver(self, target: Any, grad: NDArray | None) -> None:
        if isinstance(target, Variable):
            self.reached[target] = None
            if grad is not None:
                self.found.setdefault(target, []).append(grad)
        elif isinstance(target, Origin):
            if grad is not None:
                self.start(target.trace, target.node, grad)
        elif isinstance(target, FunctionOutput):
            call = target.call
            if call not in self.outputs:
                self.outputs[call] = {}
                self._open(call.trace)
                heapq.heappush(self.calls.setdefault(call.trace, []), (-call.number, call))
            if grad is not None:
                self.outputs[call].setdefault(target.index, []).append(grad)

    def _sweep_call(self, call: FunctionCall) -> None:
        arrived = self.outputs.pop(call)
        out_grads = []
        for index, (shape, dtype) in enumerate(call.outputs):
            given = arrived.get(index)
            out_grads.append(_total(given) if given else make(full(shape, 0, dtype), LOCAL.trace))
        for node, grad in zip(call.inputs, call.backward(out_grads), strict=True):
            if node.marked:
                self.start(call.trace, node, grad)


def _total(arrays: list[Any]) -> Any:
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total


class _flags:  # noqa: N801 - a scope, used like a function
    """Set recording and training for a backward pass; restored however it ends."""

    def __init__(self, recording: bool, training: bool) -> None:
        self.value = (RECORDING if recording else 0) | (TRAINING if training else 0)

    def __enter__(self) -> None:
        self.previous = FLAGS.get()
        FLAGS.set(self.value)

    def __exit__(self, *exception: object) -> None:
        FLAGS.set(self.previous)


def _begin(heads: list[NDArray], head_grads: list[NDArray | None], create_graph: bool) -> _Sweep:
    sweep = _Sweep(create_graph)
    for position, (head, grad) in enumerate(zip(heads, head_grads, strict=True)):
        if not isinstance(head, NDArray):
            raise TypeError(f"heads must be NDArrays, not {type(head)}")
        if head._node is None and (head._variable is not None or head._root is not None):
            enter(head, LOCAL.trace)
        node, trace = head._node, head._trace
        if node is None or trace is None or not node.marked:
            raise MXNetError(f"{_NOT_RECORDED} (head {position}, shape {format_shape(head.shape)})")
        if grad is not None and (grad.shape, grad._dtype) != (node.shape, node.dtype):
            raise MXNetError(
                f"head gradient {position} has shape {format_shape(grad.shape)} and dtype {grad._dtype}, but its head "
                f"has shape {format_shape(node.shape)} and dtype {node.dtype}; they must be equal"
            )
        if node.operator is VARIABLE and trace is not LOCAL.trace:
            node, trace = enter(head, LOCAL.trace), LOCAL.trace
        sweep.start(trace, node, grad)
    return sweep


def _finish(sweep: _Sweep, retain_graph: bool) -> None:
    if not retain_graph:
        for trace, visited in sweep.visited.items():
            trace.clear(visited)


def backward_pass(heads: list[NDArray], head_grads: list[NDArray | None], retain_graph: bool, train_mode: bool) -> None:
    """Run a backward pass and put the gradients into the buffers of the variables reached."""
    with _flags(False, bool(train_mode)):
        sweep = _begin(heads, head_grads, create_graph=False)
        sweep.run()
        reached = [variable for variable in sweep.reached if variable.request != "null"]
        if not reached:
            raise MXNetError(_NO_VARIABLES)
        totals = [(variable, _total(grads) if (grads := sweep.found.get(variable)) else None) for variable in reached]
        _finish(sweep, retain_graph)
        trace = LOCAL.trace
        for variable, total in totals:
            if total is None:
                buffer = variable.grad
                node = full(buffer.shape, 0, buffer._dtype, buffer.context)
            else:
                node = enter(total, trace)
            variable.take(node, trace)


def grad_pass(
    heads: list[NDArray],
    variables: list[Any],
    head_grads: list[NDArray | None],
    retain_graph: bool,
    create_graph: bool,
    train_mode: bool,
) -> list[NDArray]:
    """Run a backward pass and return the gradients of some variables as new arrays."""
    with _flags(create_graph, bool(train_mode)):
        sweep = _begin(heads, head_grads, create_graph)
        for position, array in enumerate(variables, 1):
            owner = array._variable if isinstance(array, NDArray) else None
            if owner is None or owner.request == "null":
                raise MXNetError(
                    f"Cannot differentiate with respect to the {position}-th variable because it does not require "
                    "gradient."
                )
        sweep.run()
        results = []
        trace = LOCAL.trace
        for position, array in enumerate(variables, 1):
            if array._variable not in sweep.reached:
                raise MXNetError(
                    f"Cannot differentiate with respect to the {position}-th variable because it is unreachable from "
                    "the outputs."
                )
            found = sweep.found.get(array._variable)
            if found:
                total = _total(found)
                results.append(make(enter(total, trace), trace))
            else:
                zero = full(array.shape, 0, array._dtype, array.context)
                results.append(make(recorded(zero) if create_graph else zero, trace))
        _finish(sweep, retain_graph)
        return results


def grads_or_zeros(head: NDArray, variables: list[NDArray]) -> list[NDArray]:
    """Return recorded gradients of one head, zeros for variables it does not depend on."""
    with _flags(True, True):
        sweep = _begin([head], [None], create_graph=True)
        sweep.run()
        trace = LOCAL.trace
        grads = []
        for array in variables:
            found = sweep.found.get(array._variable)
            grads.append(_total(found) if found else make(full(array.shape, 0, array._dtype, array.context), trace))
        return grads


def register_hook(array: NDArray, hook: Callable[[NDArray], NDArray | None]) -> Callable[[], None]:
    """Call ``hook(gradient)`` whenever a backward pass has the gradient of a variable; return a function to remove it.

    The hook may return another array to use instead.
    """
    owner = array._variable
    if owner is None:
        raise MXNetError("hooks are for variables: call attach_grad() on the array first")
    owner.hooks.append(hook)
    reference = weakref.ref(owner)

    def remove() -> None:
        variable = reference()
        if variable is not None and hook in variable.hooks:
            variable.hooks.remove(hook)

    return remove
