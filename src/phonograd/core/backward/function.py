"""Function: operations whose forward and backward the user writes in Python; and hooks on gradients of any array.

Takes arrays, and hands a :class:`~phonograd.core.backward.backward.FunctionCall` to the tape: a gradient target that
calls ``backward``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..array.handle import (
    Handle,
    SharedMemory,
    buffer_of,
    is_recorded,
    make,
    node_in,
    share_variable,
    variable_of,
)
from ..base.errors import MXNetError, format_shape
from ..graph.node import Node
from ..ops.math.broadcasting import broadcast, broadcast_shapes
from ..ops.math.primitives import cast
from ..ops.math.structural import detach, variable
from ..trace.flags import FLAGS, RECORDING, flags_set_to
from ..trace.trace import LOCAL, Trace
from .backward import FunctionCall, FunctionOutput
from .variable import Hook, Hooks

if TYPE_CHECKING:
    from ...ndarray.array import NDArray

__all__ = ["Function", "as_recorded", "record_call", "register_hook", "sources_of"]

_OUTPUT_IN_GRAPH = (
    "Assigning to NDArrays that are already in a computational graph will cause undefined behavior when evaluating "
    "gradients. Please call backward first to clear the graph or do this out side of a record section. Also note that "
    "you cannot use inplace operations like +=, *=, relu(x, out=x), y[idx]=x, etc inside a record section."
)

Sources = list[tuple[Trace, Node]]


class Function:
    """An operation with its own gradient: subclass it, define ``forward`` and ``backward``, and call an instance once.

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

    Both methods may leave the library (``asnumpy``), record and differentiate. When ``backward`` is made of operators,
    it can be differentiated again: inputs and outputs that ``forward`` saved are then connected to the record. The
    method ``backward`` sees saved arrays as they were when the Function was called.
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *args: Any) -> None:
        """Keep objects for ``backward``, which finds them in ``saved_tensors``."""
        self.saved_tensors = args

    if TYPE_CHECKING:
        # a subclass chooses the arguments
        forward: Callable[..., Any]
        backward: Callable[..., Any]
    else:

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
        if not flags & RECORDING:
            return self.forward(*inputs)
        name = type(self).__name__
        for value in inputs:
            if not isinstance(value, Handle):
                raise TypeError(
                    f"{name}: inputs of a Function must be NDArrays while recording, not {type(value)}; "
                    "pass other values to __init__"
                )
        sources = sources_of(inputs)
        with flags_set_to(flags & ~RECORDING):
            outputs = self.forward(*inputs)
        results = [outputs] if isinstance(outputs, Handle) else outputs
        if not isinstance(results, (list, tuple)) or not all(isinstance(result, Handle) for result in results):
            raise TypeError(f"{name}.forward must return NDArrays while recording, not {type(outputs)}")
        _refuse_recorded(name, results, inputs)
        if record_call(name, self.backward, sources, results):
            self.saved_tensors = tuple([as_recorded(saved) for saved in self.saved_tensors])
        return outputs


def _refuse_recorded(name: str, results: Sequence[NDArray], inputs: Sequence[NDArray]) -> None:
    """Raise if a result is an input, an array that is part of a record already, or listed twice."""
    seen = {id(array) for array in inputs}
    for result in results:
        if id(result) in seen or variable_of(result) is not None or is_recorded(result):
            raise MXNetError(
                f"{_OUTPUT_IN_GRAPH} ({name}.forward returned an input, a recorded array, or an array twice: "
                "return copies)"
            )
        seen.add(id(result))


def as_recorded(saved: Any) -> Any:
    """Return an array that keeps the present value and record of an array; return other objects unchanged."""
    if not isinstance(saved, Handle):
        return saved
    trace = LOCAL.trace
    kept = make(node_in(saved, trace), trace, saved._result_class)
    share_variable(kept, saved)
    return kept


def sources_of(inputs: Sequence[NDArray]) -> Sources:
    """Return the present trace and node of each array; later changes of the arrays do not matter."""
    trace = LOCAL.trace
    return [(trace, node_in(array, trace)) for array in inputs]


def record_call(
    name: str,
    backward: Callable[..., Any],
    sources: Sources,
    results: Sequence[NDArray],
    attributes: dict[str, str] | None = None,
) -> bool:
    """Record that arrays were computed from sources in a way that only ``backward`` can differentiate.

    ``backward`` takes one gradient per result and returns one per source. Return whether the call was recorded, which
    it is if a source is recorded itself.
    """
    if not any([node.marked for _, node in sources]):
        return False
    trace = LOCAL.trace
    call = FunctionCall(name, trace, sources, _input_grads(name, backward, sources))
    call.attributes = attributes
    outputs = []
    for result in results:
        outputs.append(_stand_for(result, call))
        _leave_base(result)
    for output in outputs:
        trace.tape.siblings[output] = tuple(outputs)
    return True


def _leave_base(view: NDArray) -> None:
    """Make a view an array of its own, because it would lose its record when its base changes."""
    base = view._root
    if base is None:
        return
    while base._root is not None:
        base = base._root
    base._views = [reference for reference in base._views or () if reference() is not view]
    base._told = [reference for reference in base._told or () if reference() is not view]
    view._root = view._region = None


def _stand_for(result: NDArray, call: FunctionCall) -> Node:
    """Make an array the next output of a call: it keeps its value, and gradients that arrive go to the call."""
    trace = LOCAL.trace
    node = node_in(result, trace)
    output = variable(detach(node), trace.slot(FunctionOutput(call, len(call.outputs))))
    call.outputs.append((node.shape, node.dtype, node.context, result._result_class))
    result._trace, result._node = trace, output
    if type(buffer_of(result)) is SharedMemory:
        # another library may write to this memory, so the record uses the value that is bound to the leaf
        result._buffer = None
    return output


def _input_grads(name: str, backward: Callable[..., Any], sources: Sources) -> Callable[[list[NDArray]], list[NDArray]]:
    specs = [(node.shape, node.dtype) for _, node in sources]

    def ask(out_grads: list[NDArray]) -> list[NDArray]:
        for grad in out_grads:
            grad._readonly = True
        found = backward(*out_grads)
        grads = [found] if isinstance(found, Handle) else found
        if not isinstance(grads, (list, tuple)):
            raise TypeError(f"autograd.Function.backward must return NDArrays, not {type(found)} ({name})")
        if len(grads) != len(specs):
            raise AssertionError(
                f"{name}.backward must return exactly the same number of NDArrays as the number of NDArrays arguments "
                f"to forward.Expecting {len(specs)} got {len(grads)}"
            )
        return [_fit(name, grad, *spec) for grad, spec in zip(grads, specs, strict=True)]

    return ask


def _fit(name: str, grad: Any, shape: tuple[int, ...], dtype: Any) -> NDArray:
    """Return a gradient in the shape and dtype of its input, broadcast and converted as in an assignment."""
    if not isinstance(grad, Handle):
        raise TypeError(f"autograd.Function.backward must return NDArrays, not {type(grad)} ({name})")
    if (grad.shape, grad._dtype) == (shape, dtype):
        return grad  # type: ignore[return-value]
    trace = LOCAL.trace
    node = cast(node_in(grad, trace), dtype)
    try:
        fits = broadcast_shapes(node.shape, shape) == shape
    except MXNetError:
        fits = False
    if not fits:
        raise MXNetError(
            f"{name}.backward returned a gradient of shape {format_shape(node.shape)} for an input of shape "
            f"{format_shape(shape)}"
        )
    fitted: NDArray = make(broadcast(node, shape), trace, grad._result_class)
    return fitted


def register_hook(array: NDArray, hook: Callable[[NDArray], NDArray | None]) -> Hook:
    """Return a handle of a hook: ``hook(gradient)`` is called whenever a backward pass has the gradient of an array.

    The array is a variable, or any other recorded array. For a variable the hook sees the whole gradient of each
    ``backward`` or ``grad`` call before it is written, added or returned. For another recorded array it sees the
    gradient from everything that is computed from the array after the hook was registered, before it goes on to what
    the array was computed from. A hook that returns an array changes the gradient; several hooks run in the order in
    which they were registered. ``handle.remove()`` ends it, as does leaving ``with register_hook(...):``.

    Attaching a new gradient buffer to a variable starts without hooks; clearing the record ends the hooks of other
    arrays.

    Parameters
    ----------
    array
        The array whose gradient the hook sees.
    hook
        A function of the gradient; it returns None or another gradient.

    Examples
    --------
    >>> import phonograd as mx
    >>> x = mx.nd.array([1.0, 2.0])
    >>> x.attach_grad()
    >>> kept = []
    >>> with mx.autograd.record():
    ...     h = x * 3
    ...     handle = mx.autograd.register_hook(h, kept.append)
    ...     y = h * h
    >>> y.backward()
    >>> kept[0]
    <BLANKLINE>
    [ 6. 12.]
    <NDArray 2 @cpu(0)>
    """
    if not isinstance(array, Handle):
        raise TypeError(f"hooks are for NDArrays, not {type(array)}")
    owner = variable_of(array)
    if owner is not None:
        added: Hook = owner.hooks.add(hook)
        return added
    sources = sources_of([array])
    if not sources[0][1].marked:
        raise MXNetError(
            "hooks are for variables and recorded arrays: call attach_grad() on the array, or compute it from a "
            "variable inside autograd.record()"
        )
    hooks = Hooks()
    handle = hooks.add(hook)
    _stand_for(array, FunctionCall(None, LOCAL.trace, sources, lambda grads: [hooks.apply(grads[0])]))
    return handle
