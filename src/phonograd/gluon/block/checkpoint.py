"""Checkpoints: blocks whose intermediate values are computed again in the backward pass instead of being kept.

The forward pass of such a block runs unrecorded, and only its inputs and outputs stay in memory. When its gradient is
asked for, it runs again from the same inputs with the same random numbers, is recorded, and is differentiated at once.
What it does to moving statistics is done once.
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
from .nesting import filled, flattened, outlined

if TYPE_CHECKING:
    from ...core.graph.operator import Array
    from .plain import Block

__all__ = ["run_checkpointed"]


def run_checkpointed(block: Block, args: tuple[Any, ...]) -> Any:
    """Return what ``block.forward`` does, keeping no more than inputs and outputs for the backward pass."""
    flags = FLAGS.get()
    inputs = flattened(args)
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
    """One call of a checkpointed block."""

    def __init__(
        self, block: Block, args: tuple[Any, ...], flags: int, weights: list[NDArray], statistics: list[NDArray]
    ) -> None:
        self._block = block
        self._outline = outlined(args)
        self._inputs = flattened(args)
        self._flags = flags
        self._weights = weights
        self._statistics = statistics
        self._counters: list[Array] = []

    def run(self) -> Any:
        """Return the outputs of the block, recorded as one call."""
        trace = LOCAL.trace
        sources = sources_of([*self._inputs, *self._weights])
        with flags_set_to(self._flags & ~RECORDING), keeping_counters(self._counters):
            outputs = self._block.forward(*filled(self._outline, iter(self._inputs)))
        outline, results = outlined(outputs), flattened(outputs)
        # an output that is an input, or that is returned twice, becomes an array of its own
        computed = iter(_computed([*results, *self._statistics, *self._inputs]))
        own = [next(computed) for _ in results]
        for array in self._statistics:
            assign(array, node_in(next(computed), trace), trace)
        self._inputs = list(computed)
        # the trace refers to the call: it would stay in memory if the call referred to it
        self._trace = weakref.ref(trace)
        self._nodes = [node for _, node in sources]
        record_call(type(self._block).__name__, self._backward, sources, own)
        return filled(outline, iter(own))

    def _backward(self, *out_grads: NDArray) -> list[NDArray]:
        """Return the gradients of inputs and weights, by running the block again."""
        create_graph = is_recording()
        trace = LOCAL.trace
        owners: list[Variable | None] = []
        given: list[NDArray] = []
        for array, node in zip(self._inputs, self._nodes):
            owner = Variable(array, "write") if node.marked else None
            owners.append(owner)
            entered = make(node_in(array, trace), trace) if owner is None else _fresh(array, owner, trace)
            given.append(entered)
        before = [as_recorded(array) for array in self._statistics]
        with flags_set_to(self._flags | RECORDING), repeating_counters(self._counters):
            outputs = flattened(self._block.forward(*filled(self._outline, iter(given))))
        for array, value in zip(self._statistics, before):
            assign(array, detach(node_in(value, trace)), trace)
        owners += [variable_of(array) for array in self._weights]
        found = grads_where_reached(outputs, list(out_grads), owners, create_graph)
        if create_graph:
            # from now on a gradient that arrives at an input goes on to where that was computed
            home = self._trace()
            assert home is not None, "a call was found through its trace"
            own = zip(owners[: len(given)], self._nodes)
            onward: dict[Any, Any] = {owner: home.tape.target_of(node) for owner, node in own if owner is not None}
            with trace.lock:
                # all places, because gradients of a checkpoint inside of this one go on to inputs of this one
                trace.targets[:] = [onward.get(target, target) for target in trace.targets]
        grads = [_zeros(node, trace) if grad is None else grad for grad, node in zip(found, self._nodes)]
        if not create_graph:
            grads = _computed(grads)
        return grads


def _computed(arrays: list[NDArray]) -> list[NDArray]:
    """Return arrays with the values of others, computed now without keeping anything of what lies between."""
    trace = LOCAL.trace
    nodes = tuple([node_in(array, trace) for array in arrays])
    return [make_concrete(value, node.context) for value, node in zip(trace.evaluate(nodes, Options({})), nodes)]


def _fresh(array: NDArray, owner: Variable, trace: Any) -> NDArray:
    """Return an array with the value of another one at which gradients stop."""
    made: NDArray = make(variable(detach(node_in(array, trace)), trace.slot(owner)), trace)
    made._variable = owner
    return made


def _zeros(node: Any, trace: Any) -> NDArray:
    zeros: NDArray = make(full(node.shape, 0, node.dtype, node.context), trace)
    return zeros
