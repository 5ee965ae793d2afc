"""autograd: record imperative code and differentiate it backward, to every order.

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

Recording only marks expressions (:mod:`phonograd.core.graph.node`); the gradient of an expression is an expression
(:mod:`phonograd.core.derive.gradient`). :mod:`phonograd.core.backward.variable` manages variables, and
:mod:`phonograd.core.backward.backward` continues a backward pass through earlier traces and :class:`Function` objects.
This module holds the public interface: scopes, ``backward`` and ``grad``.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .core.backward.backward import backward_pass, grad_pass
from .core.backward.function import Function, register_hook
from .core.backward.variable import attach as attach
from .core.backward.variable import mark
from .core.base.docstrings import complete_classes
from .core.base.foreign_names import explain_name
from .core.events import Range, RecordScope, add_global_callback, remove_callback
from .core.observe.anomaly import detection
from .core.trace.flags import FLAGS, OPEN_SCOPES, RECORDING, TRAINING, is_recording, is_training, set_flag
from .core.trace.trace import LOCAL, begin_recording_trace
from .ndarray.array import NDArray

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = [
    "Function",
    "NDArray",
    "Symbol",
    "backward",
    "detect_anomaly",
    "get_symbol",
    "grad",
    "is_anomaly_enabled",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "register_hook",
    "set_detect_anomaly",
    "set_recording",
    "set_training",
    "train_mode",
]

Callee = TypeVar("Callee", bound=Callable[..., Any])


def get_symbol(x: NDArray) -> Symbol:
    """Return the recorded computation of an array as a Symbol; see :mod:`phonograd.symbol.tape_to_symbol`.

    Parameters
    ----------
    x
        An array that was computed while recording.

    Examples
    --------
    >>> x = mx.nd.ones(2)
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = mx.nd.exp(x) * 2
    >>> len(mx.autograd.get_symbol(y).list_arguments())
    1
    """
    # lazy import: symbols load on first use
    from .symbol.tape_to_symbol import get_symbol as read_record

    return read_record(x)


if TYPE_CHECKING:
    from .symbol import Symbol as Symbol
else:

    def __getattr__(name: str) -> Any:
        if name == "Symbol":
            from .symbol import Symbol

            return Symbol
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{explain_name(name, list(__all__))}")


def set_recording(is_recording: bool) -> bool:
    """Switch recording on or off and return the previous state.

    Parameters
    ----------
    is_recording
        Whether to record.

    Examples
    --------
    >>> before = mx.autograd.set_recording(True)
    >>> mx.autograd.is_recording(), mx.autograd.set_recording(before)
    (True, True)
    """
    value = _truth(is_recording)
    if value:
        _before_recording()
    return set_flag(RECORDING, value)


def set_training(train_mode: bool) -> bool:
    """Switch training mode on or off and return the previous state.

    Parameters
    ----------
    train_mode
        Whether Dropout, BatchNorm and the like behave as in training.

    Examples
    --------
    >>> before = mx.autograd.set_training(True)
    >>> mx.autograd.is_training(), mx.autograd.set_training(before)
    (True, True)
    """
    return set_flag(TRAINING, _truth(train_mode))


def _truth(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if not isinstance(value, NDArray):
        try:
            return bool(operator.index(value))
        except TypeError:
            pass
    raise TypeError(f"a flag must be True, False or an integer, not {value!r}")


def _before_recording() -> None:
    """Compute pending operators before the outermost scope, so that the next iteration finds the same expressions."""
    if not FLAGS.get() & RECORDING:
        trace = LOCAL.trace
        if trace.handles or trace.leaves:
            trace.flush(end=True)
        begin_recording_trace()


class _RecordingStateScope:
    """A scope that sets the flags; None leaves a flag unchanged.

    Usable in ``with`` and as a decorator, any number of times, inside itself, and by several threads and tasks at once.
    A decorated generator or coroutine has the flags while it runs, and its caller does not.
    """

    def __init__(self, is_record: bool | None, train_mode: bool | None) -> None:
        self._enter_is_record = is_record
        self._enter_train_mode = train_mode
        #: one item for each time it is open; threads share it, and a number would lose changes that coincide
        self._open: list[None] = []

    def __enter__(self) -> None:
        flags = before = FLAGS.get()
        recording, training = self._enter_is_record, self._enter_train_mode
        if recording is not None:
            flags = flags | RECORDING if recording is True or _truth(recording) else flags & ~RECORDING
        if training is not None:
            flags = flags | TRAINING if training is True or _truth(training) else flags & ~TRAINING
        if flags & RECORDING and not before & RECORDING:
            _before_recording()
        OPEN_SCOPES.set((self, before, OPEN_SCOPES.get()))
        self._open.append(None)
        FLAGS.set(flags)

    def __exit__(self, *exception: object) -> None:
        try:
            self._open.pop()
        except IndexError:
            raise TypeError("a recording scope was exited without being entered") from None
        scopes = OPEN_SCOPES.get()
        flags: int | None
        if scopes is not None and scopes[0] is self:
            _, flags, remaining = scopes
        else:
            flags, remaining = _without(scopes, self)
        if flags is None:
            # this task closes a generator that another task entered: its flags are not ours to restore
            return
        OPEN_SCOPES.set(remaining)
        changed = 0 if self._enter_is_record is None else RECORDING
        if self._enter_train_mode is not None:
            changed |= TRAINING
        FLAGS.set((FLAGS.get() & ~changed) | (flags & changed))

    def __call__(self, function: Callee) -> Callee:
        """Return a function that runs inside this scope."""
        scope: Any = functools.partial(_RecordingStateScope, self._enter_is_record, self._enter_train_mode)
        wrapped: Any
        if inspect.isasyncgenfunction(function):
            raise TypeError("a scope cannot decorate an asynchronous generator: use it with `with` inside")
        if inspect.iscoroutinefunction(function):

            async def wrapped(*arguments: Any, **keywords: Any) -> Any:
                with scope():
                    return await function(*arguments, **keywords)

        elif inspect.isgeneratorfunction(function):

            def wrapped(*arguments: Any, **keywords: Any) -> Any:
                return _run_steps_inside(scope, function(*arguments, **keywords))

        else:

            def wrapped(*arguments: Any, **keywords: Any) -> Any:
                with scope():
                    return function(*arguments, **keywords)

        return functools.wraps(function)(wrapped)  # type: ignore[return-value]

    def __getstate__(self) -> dict[str, Any]:
        return {
            "_enter_is_record": self._enter_is_record,
            "_enter_train_mode": self._enter_train_mode,
            "_open": [],
        }


def _without(scopes: Any, scope: _RecordingStateScope) -> tuple[int | None, Any]:
    """Return the flags before the newest opening of a scope, and the open scopes without it."""
    newer: list[tuple[_RecordingStateScope, int]] = []
    while scopes is not None:
        opened, flags, scopes = scopes
        if opened is scope:
            for entry in reversed(newer):
                scopes = (*entry, scopes)
            return flags, scopes
        newer.append((opened, flags))
    return None, None


def _run_steps_inside(scope: Callable[[], Any], generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yield the values of a generator, running each of its steps inside a new scope."""
    resume, argument = generator.send, None
    while True:
        try:
            with scope():
                item = resume(argument)
        except StopIteration as stop:
            return stop.value
        try:
            resume, argument = generator.send, (yield item)
        except GeneratorExit:
            with scope():
                generator.close()
            raise
        except BaseException as error:  # noqa: BLE001 - thrown into the generator, which may let it through
            resume, argument = generator.throw, error


def record(train_mode: bool | None = True) -> _RecordingStateScope:
    """Return a scope that records operators; it sets training mode to ``train_mode``.

    Parameters
    ----------
    train_mode
        Whether Dropout, BatchNorm and the like behave as in training; None leaves the mode unchanged.

    Examples
    --------
    >>> x = mx.nd.array([1.0, 2.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.asnumpy()
    array([2., 4.], dtype=float32)
    """
    return _RecordingStateScope(True, train_mode)


def pause(train_mode: bool | None = False) -> _RecordingStateScope:
    """Return a scope that records nothing; it sets training mode to ``train_mode``.

    Parameters
    ----------
    train_mode
        Whether Dropout, BatchNorm and the like behave as in training; None leaves the mode unchanged.

    Examples
    --------
    >>> with mx.autograd.record():
    ...     with mx.autograd.pause():
    ...         print(mx.autograd.is_recording())
    False
    """
    return _RecordingStateScope(False, train_mode)


def train_mode() -> _RecordingStateScope:
    """Return a scope in training mode that leaves recording unchanged.

    Examples
    --------
    >>> with mx.autograd.train_mode():
    ...     print(mx.autograd.is_recording(), mx.autograd.is_training())
    False True
    """
    return _RecordingStateScope(None, True)


def predict_mode() -> _RecordingStateScope:
    """Return a scope in prediction mode that leaves recording unchanged.

    Examples
    --------
    >>> with mx.autograd.record(), mx.autograd.predict_mode():
    ...     print(mx.autograd.is_recording(), mx.autograd.is_training())
    True False
    """
    return _RecordingStateScope(None, False)


class detect_anomaly:  # noqa: N801 - a scope, used like a function
    """A scope that reports NaN and infinity: it names the operator that produced the first one, and its call site.

    Reading an array that contains one raises the error. The check scans computed results, which is nearly free; only
    when it finds something, the library evaluates the computation again, operator by operator.

    >>> import phonograd as mx
    >>> x = mx.nd.array([1.0, 0.0])
    >>> with mx.autograd.detect_anomaly():
    ...     y = mx.nd.log(x) * 2
    ...     try:
    ...         y.asnumpy()
    ...     except mx.MXNetError as error:
    ...         print(str(error).partition(",")[0])
    infinity in the result of operator log
    """

    def __init__(self, check_nan: bool = True, check_inf: bool = True) -> None:
        self._wanted = bool(check_nan), bool(check_inf)
        self._previous: list[tuple[bool, bool, bool]] = []

    def __enter__(self) -> None:
        self._previous.append(_switch_detection(True, *self._wanted))

    def __exit__(self, *exception: object) -> None:
        _switch_detection(*self._previous.pop())


def set_detect_anomaly(mode: bool, check_nan: bool = True, check_inf: bool = True) -> None:
    """Switch the detection of NaN and infinity on or off; see :class:`detect_anomaly`.

    Parameters
    ----------
    mode
        Whether to detect.
    check_nan
        Whether to report NaN.
    check_inf
        Whether to report infinity.

    Examples
    --------
    >>> mx.autograd.set_detect_anomaly(True)
    >>> mx.autograd.is_anomaly_enabled()
    True
    >>> mx.autograd.set_detect_anomaly(False)
    """
    _switch_detection(_truth(mode), bool(check_nan), bool(check_inf))


def is_anomaly_enabled() -> bool:
    """Return whether the detection of NaN and infinity is on.

    Examples
    --------
    >>> mx.autograd.is_anomaly_enabled()
    False
    """
    return detection.on


_scope_observer: list[int] = []


def _switch_detection(on: bool, nan: bool, infinity: bool) -> tuple[bool, bool, bool]:
    if on and not _scope_observer:
        _scope_observer.append(add_global_callback(_note_scope, _leave_scope, scopes=[RecordScope.USER_SCOPE]))
    elif not on and _scope_observer:
        remove_callback(_scope_observer.pop())
    return detection.switch(on, nan, infinity)


def _note_scope(entry: Range) -> None:
    trace = LOCAL.trace
    trace.attributed().change_scope(len(trace.made), trace.handles, _around(entry), entry.name)


def _leave_scope(entry: Range, context: object) -> None:
    trace = LOCAL.trace
    trace.attributed().change_scope(len(trace.made), trace.handles, entry.name, _around(entry))


def _around(entry: Range) -> str:
    return "" if entry.parent is None else entry.parent.name


def mark_variables(variables: Any, gradients: Any, grad_reqs: Any = "write") -> None:
    """Mark arrays as variables and use the given arrays as their gradient buffers.

    Parameters
    ----------
    variables, gradients
        An array and its gradient buffer, or two lists of equal length. A buffer keeps its initial contents, which
        matters for 'add'.
    grad_reqs
        'write', 'add' or 'null', for all or one per variable.

    Examples
    --------
    >>> x, gradient = mx.nd.ones(2), mx.nd.zeros(2)
    >>> mx.autograd.mark_variables([x], [gradient])
    >>> with mx.autograd.record():
    ...     y = 3 * x
    >>> y.backward()
    >>> gradient.asnumpy()
    array([3., 3.], dtype=float32)
    """
    if isinstance(variables, NDArray):
        if not isinstance(gradients, NDArray):
            raise AssertionError(f"the gradient of one variable must be an NDArray, not {type(gradients)}")
        variables, gradients = [variables], [gradients]
    if isinstance(gradients, NDArray):
        raise TypeError("mark_variables needs a list of gradients for a list of variables, not one NDArray")
    variables, gradients = list(variables), list(gradients)
    mark(variables, gradients, [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs))


def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of the heads with respect to all variables they depend on, into ``.grad``.

    Parameters
    ----------
    heads
        An array or a list of arrays. Gradients of several heads are summed.
    head_grads
        The gradient of each head to start from; ones where it is None.
    retain_graph
        Keep the recorded graph, so that the heads can be differentiated again.
    train_mode
        The training flag while user code (``Function.backward``) runs.

    Examples
    --------
    >>> x = mx.nd.array([1.0, 2.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y, z = x * x, 3 * x
    >>> mx.autograd.backward([y, z])
    >>> x.grad.asnumpy()
    array([5., 7.], dtype=float32)
    """
    heads, head_grads = _pairs(heads, head_grads)
    backward_pass(heads, head_grads, bool(retain_graph), bool(train_mode))


def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """Return the gradients of the heads with respect to variables as new arrays, without touching ``.grad``.

    Parameters
    ----------
    heads
        An array or a list of arrays. Gradients of several heads are summed.
    variables
        An array or a list of arrays, each marked for gradients and an ancestor of a head.
    head_grads
        The gradient of each head to start from; ones where it is None.
    retain_graph
        Keep the recorded graph; defaults to ``create_graph``.
    create_graph
        Record the gradients themselves, so that they can be differentiated again, to any order: with respect to the
        variables, and to head gradients that are variables.
    train_mode
        The training flag while user code (``Function.backward``) runs.

    Examples
    --------
    >>> import phonograd as mx
    >>> x = mx.nd.array([2.0])
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     first = mx.autograd.grad(x**4, x, create_graph=True)[0]
    ...     second = mx.autograd.grad(first, x, create_graph=True)[0]
    ...     third = mx.autograd.grad(second, x)[0]
    >>> float(first), float(second), float(third)
    (32.0, 48.0, 48.0)
    """
    heads, head_grads = _pairs(heads, head_grads)
    variables = [variables] if isinstance(variables, NDArray) else list(variables)
    if not variables:
        raise AssertionError("variables cannot be an empty list.")
    retain = bool(create_graph if retain_graph is None else retain_graph)
    return grad_pass(heads, variables, head_grads, retain, bool(create_graph), bool(train_mode))


def _pairs(heads: Any, head_grads: Any) -> tuple[list[NDArray], list[NDArray | None]]:
    if not isinstance(heads, (NDArray, Iterable)):
        raise TypeError(f"heads must be NDArrays, not {type(heads)}")
    heads = [heads] if isinstance(heads, NDArray) else list(heads)
    if head_grads is None:
        head_grads = [None] * len(heads)
    head_grads = [head_grads] if isinstance(head_grads, NDArray) else list(head_grads)
    if len(heads) != len(head_grads):
        raise AssertionError("heads and head_grads must be lists of the same length")
    for head in heads:
        if not isinstance(head, NDArray):
            raise TypeError(f"heads must be NDArrays, not {type(head)}")
    return heads, head_grads


complete_classes(globals())
