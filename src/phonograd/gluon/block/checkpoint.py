"""Rematerialize blocks: recompute their intermediate values in the backward pass instead of keeping them.

The forward pass of a checkpointed block is not recorded, and only its inputs and outputs stay in memory. The backward
pass runs the block again from the same inputs with the same random numbers, records it, and differentiates it at once.
Moving statistics are updated once.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ...core.array.handle import assign, make, make_concrete, node_in, variable_of
from ...core.backward.backward import grads_where_reached
from ...core.backward.function import as_recorded, record_call, sources_of
from ...core.backward.variable import Variable
from ...core.ops.math.structural import detach, full, variable
from ...core.trace.evaluation import Options
from ...core.trace.flags import FLAGS, RECORDING, flags_set_to, is_recording
from ...core.trace.rng import keeping_counters, repeating_counters
from ...core.trace.trace import LOCAL
from ...ndarray.array import NDArray
from .nesting import fill_outline, flatten_arrays, make_outline

if TYPE_CHECKING:
    from ...core.graph.operator import Array
    from .plain import Block

__all__ = ["run_checkpointed"]


def run_checkpointed(block: Block, args: tuple[Any, ...]) -> Any:
    """Return the result of ``block.forward``, and keep only inputs and outputs for the backward pass."""
    flags = FLAGS.get()
    inputs = flatten_arrays(args)
    parameters = block.collect_params().values()
    if (
        not flags & RECORDING
        or not LOCAL.trace.allows_shortcuts
        or not all([isinstance(array, NDArray) for array in inputs])
        or any([parameter._deferred_init is not None for parameter in parameters])
    ):
        return block.forward(*args)
    context = inputs[0].context
    weights = [parameter.data(context) for parameter in parameters if parameter.grad_req != "null"]
    statistics = [parameter.data(context) for parameter in parameters if parameter.grad_req == "null"]
    call = _Call(block, args, flags, weights, statistics)
    return call.run()


class _Call:
    """Run one call of a checkpointed block, forward and backward."""

    def __init__(
        self, block: Block, args: tuple[Any, ...], flags: int, weights: list[NDArray], statistics: list[NDArray]
    ) -> None:
        self._block = block
        self._outline = make_outline(args)
        self._inputs = flatten_arrays(args)
        self._flags = flags
        self._weights = weights
        self._statistics = statistics
        self._counters: list[Array] = []

    def run(self) -> Any:
        """Return the outputs of the block, recorded as one call."""
        trace = LOCAL.trace
        sources = sources_of([*self._inputs, *self._weights])
        with flags_set_to(self._flags & ~RECORDING), keeping_counters(self._counters):
            outputs = self._block.forward(*fill_outline(self._outline, iter(self._inputs)))
        outline, results = make_outline(outputs), flatten_arrays(outputs)
        # an output that is also an input, or is returned twice, becomes a separate array
        computed = iter(_compute_now([*results, *self._statistics, *self._inputs]))
        own = [next(computed) for _ in results]
        for array in self._statistics:
            assign(array, node_in(next(computed), trace), trace)
        self._inputs = list(computed)
        # the trace refers to this call: a strong reference back would be a cycle that keeps both in memory
        self._trace = weakref.ref(trace)
        self._nodes = [node for _, node in sources]
        record_call(type(self._block).__name__, self._backward, sources, own)
        return fill_outline(outline, iter(own))

    def _backward(self, *out_grads: NDArray) -> list[NDArray]:
        """Run the block again, and return the gradients of inputs and weights."""
        create_graph = is_recording()
        trace = LOCAL.trace
        owners: list[Variable | None] = []
        given: list[NDArray] = []
        for array, node in zip(self._inputs, self._nodes):
            owner = Variable(array, "write") if node.marked else None
            owners.append(owner)
            entered = make(node_in(array, trace), trace) if owner is None else _make_variable(array, owner, trace)
            given.append(entered)
        before = [as_recorded(array) for array in self._statistics]
        with flags_set_to(self._flags | RECORDING), repeating_counters(self._counters):
            outputs = flatten_arrays(self._block.forward(*fill_outline(self._outline, iter(given))))
        for array, value in zip(self._statistics, before):
            assign(array, detach(node_in(value, trace)), trace)
        owners += [variable_of(array) for array in self._weights]
        found = grads_where_reached(outputs, list(out_grads), owners, create_graph)
        if create_graph:
            # connect the gradients at the inputs to the graph that computed the inputs
            home = self._trace()
            assert home is not None, "the trace of a recorded call is alive"
            own = zip(owners[: len(given)], self._nodes)
            onward: dict[Any, Any] = {owner: home.tape.target_of(node) for owner, node in own if owner is not None}
            with trace.lock:
                # all targets, because gradients of a nested checkpoint end at inputs of this one
                trace.targets[:] = [onward.get(target, target) for target in trace.targets]
        grads = [_zeros(node, trace) if grad is None else grad for grad, node in zip(found, self._nodes)]
        if not create_graph:
            grads = _compute_now(grads)
        return grads


def _compute_now(arrays: list[NDArray]) -> list[NDArray]:
    """Return new arrays with the values of others, computed now without keeping intermediate values."""
    trace = LOCAL.trace
    nodes = tuple([node_in(array, trace) for array in arrays])
    return [make_concrete(value, node.context) for value, node in zip(trace.evaluate(nodes, Options({})), nodes)]


def _make_variable(array: NDArray, owner: Variable, trace: Any) -> NDArray:
    """Return a new array with the value of another one, at which gradients stop."""
    made: NDArray = make(variable(detach(node_in(array, trace)), trace.slot(owner)), trace)
    made._variable = owner
    return made


def _zeros(node: Any, trace: Any) -> NDArray:
    zeros: NDArray = make(full(node.shape, 0, node.dtype, node.context), trace)
    return zeros
