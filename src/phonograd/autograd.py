"""autograd: record what imperative code does, and play it backwards for gradients of every order.

>>> import phonograd as mx
>>> from phonograd import autograd
>>> x = mx.nd.array([1.0, 2.0, 3.0])
>>> x.attach_grad()
>>> with autograd.record():
...     y = x * x * x
>>> y.backward()
>>> x.grad
<BLANKLINE>
[ 3. 12. 27.]
<NDArray 3 @cpu(0)>

Recording leaves nothing behind but marks on expressions (:mod:`phonograd.node`); the gradient of an expression is an
expression (:mod:`phonograd.gradient`). What this module adds is the connection to arrays: which arrays are variables,
where their gradients go, and how a backward pass continues through :class:`Function` objects and earlier traces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .function import Function
from .ndarray.array import NDArray
from .state import FLAGS, RECORDING, TRAINING, is_recording, is_training, set_flag
from .symbol import Symbol, get_symbol
from .sweep import Variable, attach, backward_pass, grad_pass
from .trace import LOCAL

__all__ = [
    "Function",
    "NDArray",
    "Symbol",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]

Callee = TypeVar("Callee", bound=Callable[..., Any])


def set_recording(is_record: bool) -> bool:
    """Switch recording on or off and return the previous state."""
    value = _truth(is_record)
    if value:
        _before_recording()
    return set_flag(RECORDING, value)


def set_training(train_mode: bool) -> bool:
    """Switch training mode on or off and return the previous state."""
    return set_flag(TRAINING, _truth(train_mode))


def _truth(value: Any) -> bool:
    if hasattr(value, "__index__") or isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise TypeError(f"a flag must be True, False or a whole number, not {value!r}")


def _before_recording() -> None:
    """Compute what is pending before the outermost scope: the next iteration then finds the same expressions."""
    if not FLAGS.get() & RECORDING:
        trace = LOCAL.trace
        if trace.handles or trace.leaves:
            trace.flush(end=True)


class _RecordingStateScope:
    """A scope that sets the flags; None leaves a flag as it is. Usable in ``with`` and as a decorator, any number of times."""

    def __init__(self, is_record: bool | None, train_mode: bool | None) -> None:
        self._enter_is_record = is_record
        self._enter_train_mode = train_mode
        self._previous: list[int] = []

    def __enter__(self) -> None:
        flags = FLAGS.get()
        if self._enter_is_record is not None and _truth(self._enter_is_record):
            _before_recording()
        self._previous.append(flags)
        if self._enter_is_record is not None:
            set_flag(RECORDING, _truth(self._enter_is_record))
        if self._enter_train_mode is not None:
            set_flag(TRAINING, _truth(self._enter_train_mode))

    def __exit__(self, *exception: object) -> None:
        if not self._previous:
            raise TypeError("the scope was left without having been entered")
        previous = self._previous.pop()
        if self._enter_is_record is not None:
            set_flag(RECORDING, bool(previous & RECORDING))
        if self._enter_train_mode is not None:
            set_flag(TRAINING, bool(previous & TRAINING))

    def __call__(self, function: Callee) -> Callee:
        """Return the function run inside this scope."""

        @functools.wraps(function)
        def inside(*arguments: Any, **keywords: Any) -> Any:
            with type(self)(self._enter_is_record, self._enter_train_mode):
                return function(*arguments, **keywords)

        return inside  # type: ignore[return-value]

    def __getstate__(self) -> dict[str, Any]:
        return {"_enter_is_record": self._enter_is_record, "_enter_train_mode": self._enter_train_mode, "_previous": []}


def record(train_mode: bool | None = True) -> _RecordingStateScope:
    """Return a scope in which operators are recorded, in training mode unless ``train_mode`` says otherwise."""
    return _RecordingStateScope(True, train_mode)


def pause(train_mode: bool | None = False) -> _RecordingStateScope:
    """Return a scope in which nothing is recorded, in prediction mode unless ``train_mode`` says otherwise."""
    return _RecordingStateScope(False, train_mode)


def train_mode() -> _RecordingStateScope:
    """Return a scope in training mode; whether operators are recorded stays as it is."""
    return _RecordingStateScope(None, True)


def predict_mode() -> _RecordingStateScope:
    """Return a scope in prediction mode; whether operators are recorded stays as it is."""
    return _RecordingStateScope(None, False)


def mark_variables(variables: Any, gradients: Any, grad_reqs: Any = "write") -> None:
    """Make arrays variables whose gradients go into given arrays.

    Parameters
    ----------
    variables, gradients
        An array and its gradient buffer, or two lists of equal length. Initial contents of a buffer are kept, which
        matters for 'add'.
    grad_reqs
        'write', 'add' or 'null', for all or one per variable.
    """
    if isinstance(variables, NDArray):
        assert isinstance(gradients, NDArray)
        variables, gradients = [variables], [gradients]
    variables, gradients = list(variables), list(gradients)
    requests = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    if not len(variables) == len(gradients) == len(requests):
        raise ValueError(
            f"mark_variables needs as many gradients and grad_reqs as variables, got {len(variables)} variables, "
            f"{len(gradients)} gradients and {len(requests)} grad_reqs"
        )
    checked = [Variable.checked(*triple) for triple in zip(variables, gradients, requests, strict=True)]
    for array, variable in zip(variables, checked, strict=True):
        variable.mark(array)


def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of all variables the heads were computed from, into their ``.grad``.

    Parameters
    ----------
    heads
        An array or a list of arrays. The gradients of several heads are summed.
    head_grads
        The gradient to start each head with; ones where it is None.
    retain_graph
        Keep the record, so that the heads can be differentiated again.
    train_mode
        The training flag while user code (``Function.backward``) runs.
    """
    heads, head_grads = _pairs(heads, head_grads)
    backward_pass(heads, head_grads, retain_graph, train_mode)


def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """Return the gradients of the heads with respect to variables as new arrays; ``.grad`` is left alone.

    Parameters
    ----------
    variables
        An array or a list of arrays, each marked for gradients and an ancestor of a head.
    retain_graph
        Keep the record; by default the same as ``create_graph``.
    create_graph
        Record the gradients themselves, so that they can be differentiated again, to any order.
    """
    heads, head_grads = _pairs(heads, head_grads)
    if isinstance(variables, NDArray):
        variables = [variables]
    if not len(variables):
        raise AssertionError("variables cannot be an empty list.")
    retain = create_graph if retain_graph is None else retain_graph
    return grad_pass(heads, list(variables), head_grads, retain, create_graph, train_mode)


def _pairs(heads: Any, head_grads: Any) -> tuple[list[NDArray], list[NDArray | None]]:
    heads = [heads] if isinstance(heads, NDArray) else list(heads)
    if head_grads is None:
        return heads, [None] * len(heads)
    head_grads = [head_grads] if isinstance(head_grads, NDArray) else list(head_grads)
    if len(heads) != len(head_grads):
        raise AssertionError("heads and head_grads must be lists of the same length")
    for given in head_grads:
        if given is not None and not isinstance(given, NDArray):
            raise TypeError(f"a head gradient must be an NDArray or None, not {type(given)}")
    return heads, head_grads


attach_grad = attach
