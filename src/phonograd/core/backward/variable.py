"""Variables: arrays marked for gradients, their gradient buffers, and hooks that see gradients on the way there.

An array with ``attach_grad`` refers to a :class:`Variable`. It takes a gradient from each backward pass
(:mod:`phonograd.core.backward.backward`) that reaches it, and hands it to its buffer.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import immediate
from ..array.extras import extras_of_view
from ..array.handle import Handle, assign, make, make_concrete, node_in, read
from ..base.devices import CPU, Context
from ..base.dtypes import DType, name_of
from ..base.errors import MXNetError, format_shape
from ..base.hot import hot, slotted
from ..graph.node import Shape
from ..ops.math.arithmetic import add
from ..ops.math.structural import detach, full, variable
from ..run import memory_pool
from ..trace.liveness import is_held_once
from ..trace.tape import Target
from ..trace.trace import LOCAL
from .rows import RowGradient, write_gradient

if TYPE_CHECKING:
    from ...ndarray.array import NDArray

__all__ = ["Hook", "Hooks", "Variable", "attach", "mark", "zero_gradient"]

_numbers = itertools.count()
_REQUESTS = ("write", "add", "null")
_LEAST_MAPPED_BYTES = memory_pool.LEAST_MAPPED_BYTES


@slotted
class Hooks:
    """The hooks of one array, in the order in which they were registered."""

    __slots__ = ("__weakref__", "functions")

    @hot
    def __init__(self) -> None:
        self.functions: dict[Hook, Callable[[NDArray], NDArray | None]] = {}

    def add(self, function: Callable[[NDArray], NDArray | None]) -> Hook:
        """Return the handle of one more hook."""
        if not callable(function):
            raise TypeError(f"a hook must be a function of one gradient, not {function!r}")
        hook = Hook(self)
        self.functions[hook] = function
        return hook

    def apply(self, grad: NDArray) -> NDArray:
        """Return a gradient after all hooks: each gets the gradient of the one before and may return another one."""
        shape, dtype = grad.shape, grad._dtype
        if self.functions:
            LOCAL.trace.refuse_capture("a hook sees a gradient")
        for function in tuple(self.functions.values()):
            changed = function(grad)
            if changed is None:
                continue
            if not isinstance(changed, Handle):
                raise TypeError(f"a gradient hook must return an NDArray or None, not {type(changed)}")
            if (changed.shape, changed._dtype) != (shape, dtype):
                raise MXNetError(
                    f"a gradient hook returned {name_of(changed._dtype)}{format_shape(changed.shape)} "
                    f"for a gradient of "
                    f"{name_of(dtype)}{format_shape(shape)}; shape and dtype must be kept"
                )
            grad = changed
        return grad


class Hook:
    """The handle of a registered hook. ``remove()`` ends it; so does leaving a ``with`` block."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = weakref.ref(hooks)

    def remove(self) -> None:
        """Stop calling the function; removing a hook twice does nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.functions.pop(self, None)

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


@slotted
class Variable(Target):
    """The gradient buffer of an array, and whether a new gradient is written or added to it."""

    __slots__ = ("__weakref__", "fresh", "grad", "hooks", "number", "request")

    continues = False

    @hot
    def __init__(self, grad: NDArray, request: str) -> None:
        self.grad = grad
        self.request = request
        self.fresh = 0
        self.number = next(_numbers)
        self.hooks = Hooks()

    def take(self, grad: NDArray) -> None:
        """Write or add a gradient into the buffer."""
        trace = LOCAL.trace
        buffer: Any = self.grad
        if not (grad._takes_rows and buffer._takes_rows and buffer._take_rows(grad, self.request == "add")):
            node = node_in(grad, trace)
            if self.request == "add":
                assign(self.grad, detach(add(node_in(self.grad, trace), node)), trace)
            else:
                write_gradient(self.grad, detach(node), trace)
        self.mark_fresh(1)

    def from_rows(self, grad: RowGradient) -> NDArray:
        """Return a gradient made of rows as an array with the storage of the buffer."""
        buffer: Any = self.grad
        made: NDArray = buffer._made_of_rows(grad.pieces)
        return made

    def mark_fresh(self, fresh: int) -> None:
        """Note whether the buffer holds a gradient that no optimizer has used."""
        self.fresh = fresh
        LOCAL.trace.note_fresh(self, fresh)

    def stand_in(self) -> Variable:
        """Return a variable that stands for this one while a function is captured; its buffer is set later."""
        other = Variable(self.grad, self.request)
        other.fresh, other.hooks = self.fresh, self.hooks
        return other

    def nothing(self) -> NDArray:
        """Return the gradient of a variable that no gradient reached: zeros."""
        grad = self.grad
        zeros: NDArray = make(full(grad.shape, 0, grad._dtype, grad.context), LOCAL.trace, grad._result_class)
        return zeros


def _check_request(request: Any) -> None:
    if request not in _REQUESTS:
        raise KeyError(f"{request!r} is no grad_req: write 'write', 'add' or 'null'")


def _make_variable(array: NDArray, owner: Variable) -> None:
    """Make an array a variable; it is cut from the record of its value."""
    LOCAL.trace.refuse_capture("it marks an array for gradients")
    if array._rows is not None:
        read(array)
    array._variable = owner
    node, trace = array._node, array._trace
    if node is None or trace is None:
        return
    if trace is LOCAL.trace:
        array._node = variable(detach(node), trace.slot(owner))
        return
    if array._buffer is None:
        array._buffer = trace.value(node)
    array._settle()


def attach(array: NDArray, grad_req: str = "write", stype: str | None = None) -> None:
    """Make an array a variable with a new gradient buffer of zeros."""
    _check_request(grad_req)
    if stype is None and _attach_plainly(array, grad_req):
        return
    _leave_unused_base(array)
    zeros: Any = None
    if stype not in (None, "default") or (stype is None and type(array) is not array._result_class):
        zeros = array._zeros_stored(stype or array.stype)
    else:
        zeros = zero_gradient(array.shape, array._dtype, array.context, array._result_class)
    _make_variable(array, Variable(zeros, grad_req))


def zero_gradient(shape: Shape, dtype: DType, context: Context, array_class: type[Any]) -> NDArray:
    """Return an array of zeros; a large one takes no memory before it is written, which those of predictions never are.

    As a node, it could be computed by a kernel, or in memory that was used before.
    """
    trace = LOCAL.trace
    room = memory_pool.room_for(math.prod(shape) * dtype.itemsize)
    zeros: Any = None
    if room >= memory_pool.LEAST_MAPPED_BYTES:
        zeros = make_concrete(memory_pool.allocate(shape, dtype, room, is_zero=True), context, array_class)
    elif trace.is_immediate and context is CPU and immediate.is_possible(trace):
        zeros = immediate.fill(shape, 0, dtype, array_class, trace)
    if zeros is None:
        zeros = make(full(shape, 0, dtype, context), trace, array_class)
    return zeros  # type: ignore[no-any-return]


@hot
def _attach_plainly(array: NDArray, grad_req: str) -> bool:
    """Make an array a variable if it owns its memory, belongs to no trace and has no other attributes."""
    trace, value = LOCAL.trace, array._buffer
    if array._extras is not None or array._node is not None or value.__class__ is not np.ndarray:
        return False
    if array.__class__ is not array._result_class or not immediate.is_possible(trace):
        return False
    if value.nbytes >= _LEAST_MAPPED_BYTES:
        return False
    zeros = immediate.fill(value.shape, 0, value.dtype, array.__class__, trace)
    if zeros is None:
        return False
    extras = extras_of_view(None, None)
    extras.variable = Variable(zeros, grad_req)
    array._extras = extras
    return True


def _leave_unused_base(array: NDArray) -> None:
    """Make a view own its memory if nothing else refers to its base: ``mx.nd.array(values).reshape(shape)``.

    Updates of the variable then need not be written to the base.
    """
    extras = array._extras
    if extras is not None and extras.root is not None and array._node is None and type(array._buffer) is np.ndarray:
        root = extras.root._extras
        if is_held_once(extras, "root") and (root is None or root.root is None):
            extras.root = extras.region = None


def mark(variables: list[Any], gradients: list[Any], requests: list[Any]) -> None:
    """Make arrays variables with given gradient buffers; all are checked before any is marked."""
    if not len(variables) == len(gradients) == len(requests):
        raise ValueError(
            f"mark_variables needs as many gradients and grad_reqs as variables, got {len(variables)} variables, "
            f"{len(gradients)} gradients and {len(requests)} grad_reqs"
        )
    for array, grad, request in zip(variables, gradients, requests, strict=True):
        if not isinstance(array, Handle) or not isinstance(grad, Handle):
            raise TypeError(f"variables and gradients must be NDArrays, not {type(array)} and {type(grad)}")
        if array is grad:
            raise ValueError("an array cannot be its own gradient buffer")
        if (grad.shape, grad._dtype) != (array.shape, array._dtype):
            raise ValueError(
                f"the gradient buffer of a {name_of(array._dtype)}{format_shape(array.shape)} variable "
                f"must have its shape and "
                f"dtype, not {name_of(grad._dtype)}{format_shape(grad.shape)}"
            )
        _check_request(request)
    for array, grad, request in zip(variables, gradients, requests, strict=True):
        _make_variable(array, Variable(grad, request))
