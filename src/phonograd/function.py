"""Function: an operation of the user's own, with a forward and a backward written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import MXNetError, format_shape
from .ndarray.array import NDArray
from .ndarray.handle import enter, make, rebind
from .node import Node
from .operators.broadcasting import broadcast, broadcast_shapes
from .operators.primitives import cast
from .operators.structural import detach, variable
from .state import FLAGS, RECORDING
from .sweep import FunctionCall, FunctionOutput
from .trace import LOCAL

__all__ = ["Function", "record_call"]

_OUTPUT_IN_GRAPH = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating "
    "gradients. Please call backward first to clear the graph or do this out side of a record section. Also note that "
    "you cannot use inplace operations like +=, *=, relu(x, out=x), y[idx]=x, etc inside a record section."
)


class Function:
    """An operation with its own gradient. Subclass it, define ``forward`` and ``backward``, and call an instance once.

    >>> import phonograd as mx
    >>> class Sigmoid(mx.autograd.Function):
    ...     def forward(self, x):
    ...         y = 1 / (1 + mx.nd.exp(-x))
    ...         self.save_for_backward(y)
    ...         return y
    ...
    ...     def backward(self, dy):
    ...         (y,) = self.saved_tensors
    ...         return dy * y * (1 - y)
    >>> x = mx.nd.array([0.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = Sigmoid()(x)
    >>> y.backward()
    >>> x.grad
    <BLANKLINE>
    [0.25]
    <NDArray 1 @cpu(0)>

    Both methods may leave the library (``asnumpy``). When ``backward`` is made of operators, it can be differentiated
    again: what ``forward`` saved of its inputs and outputs is then connected to them.
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *args: Any) -> None:
        """Keep objects for ``backward``, which finds them in ``saved_tensors``."""
        self.saved_tensors = args

    def forward(self, *inputs: Any) -> Any:
        """Compute the outputs; runs with recording off."""
        raise NotImplementedError(f"{type(self).__name__} must define forward(self, *inputs)")

    def backward(self, *output_grads: Any) -> Any:
        """Return one gradient per input, given one per output."""
        raise NotImplementedError(f"{type(self).__name__} must define backward(self, *output_grads)")

    def __call__(self, *inputs: Any) -> Any:
        """Return the outputs of ``forward``; recorded if recording is on and an input is."""
        if self._used:
            raise AssertionError("Each Function instance can only be called once. Please create another instance.")
        self._used = True
        flags = FLAGS.get()
        FLAGS.set(flags & ~RECORDING)
        try:
            outputs = self.forward(*inputs)
        finally:
            FLAGS.set(flags)
        if not flags & RECORDING:
            return outputs
        for value in inputs:
            if not isinstance(value, NDArray):
                raise TypeError(
                    f"{type(self).__name__}: inputs of a Function must be NDArrays while recording, not {type(value)}; "
                    "pass other values to __init__"
                )
        results = [outputs] if isinstance(outputs, NDArray) else outputs
        if not isinstance(results, (list, tuple)) or not all(isinstance(r, NDArray) for r in results):
            raise TypeError(f"{type(self).__name__}.forward must return NDArrays while recording, not {type(outputs)}")
        record_call(type(self).__name__, self.backward, inputs, list(results))
        return outputs


def record_call(name: str, backward: Callable[..., Any], inputs: tuple[NDArray, ...], results: list[NDArray]) -> None:
    """Record that some arrays were computed from others in a way only ``backward`` can differentiate.

    ``backward`` takes one gradient per result and returns one per input.
    """
    trace = LOCAL.trace
    nodes = tuple([enter(array, trace) for array in inputs])
    if not any(node.marked for node in nodes):
        return
    for result in results:
        if any(result is array for array in inputs):
            raise MXNetError(f"{_OUTPUT_IN_GRAPH} ({name}.forward returned an input: return a copy)")
    call = FunctionCall(trace, len(trace.targets), nodes, [], _input_grads(name, backward, nodes))
    for index, result in enumerate(results):
        node = enter(result, trace)
        call.outputs.append((node.shape, node.dtype))
        rebind(result, variable(detach(node), trace.slot(FunctionOutput(call, index))), trace)


def _input_grads(
    name: str, backward: Callable[..., Any], nodes: tuple[Node, ...]
) -> Callable[[list[NDArray]], list[NDArray]]:
    specs = [(node.shape, node.dtype) for node in nodes]

    def ask(out_grads: list[NDArray]) -> list[NDArray]:
        for grad in out_grads:
            grad._readonly = True
        found = backward(*out_grads)
        grads = [found] if isinstance(found, NDArray) else found
        if not isinstance(grads, (list, tuple)):
            raise TypeError(f"autograd.Function.backward must return NDArrays, not {type(found)} ({name})")
        if len(grads) != len(specs):
            raise AssertionError(
                f"{name}.backward must return exactly the same number of NDArrays as the number of NDArrays arguments "
                f"to forward.Expecting {len(specs)} got {len(grads)}"
            )
        return [_fitted(name, grad, *spec) for grad, spec in zip(grads, specs, strict=True)]

    return ask


def _fitted(name: str, grad: Any, shape: tuple[int, ...], dtype: Any) -> NDArray:
    """Return a gradient in the shape and dtype of its input: broadcast and converted as an assignment would."""
    if not isinstance(grad, NDArray):
        raise TypeError(f"autograd.Function.backward must return NDArrays, not {type(grad)} ({name})")
    if (grad.shape, grad._dtype) == (shape, dtype):
        return grad
    trace = LOCAL.trace
    node = cast(enter(grad, trace), dtype)
    if node.shape != shape and broadcast_shapes(node.shape, shape) != shape:
        raise MXNetError(
            f"{name}.backward returned a gradient of shape {format_shape(node.shape)} for an input of shape "
            f"{format_shape(shape)}"
        )
    fitted: NDArray = make(broadcast(node, shape), trace)
    return fitted
