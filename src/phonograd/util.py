"""Switches for NumPy shape and array semantics, the environment, module names (``mxnet.util``).

In legacy mode, the default, an NDArray file does not distinguish a 0-d array from "no array". NumPy shape semantics
(:func:`set_np_shape`, :func:`np_shape`, :func:`use_np_shape`) does. Here this switch only chooses the file layout,
since 0-d and zero-size arrays compute in both modes. NumPy *array* semantics (:func:`set_np`, :func:`np_array`,
:func:`use_np`) makes functions that create arrays without array arguments (parameters, data sets, metrics) return
arrays of ``mx.np``. Results computed from an array keep its kind in both modes.
"""

from __future__ import annotations

import functools
import inspect
import operator
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .core.base.errors import MXNetError
from .core.base.thread_state import ThreadState, thread_state

__all__ = [
    "get_cuda_compute_capability",
    "get_gpu_count",
    "get_gpu_memory",
    "getenv",
    "is_np_array",
    "is_np_shape",
    "makedirs",
    "np_array",
    "np_shape",
    "np_shape_state",
    "reset_np",
    "set_module",
    "set_np",
    "set_np_shape",
    "setenv",
    "use_np",
    "use_np_array",
    "use_np_shape",
]

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

# A thread or task that never set its own switch follows the process-wide one.
_own_switch: ThreadState[bool | None] = thread_state("np_shape", None)
_everywhere = False
_own_array_switch: ThreadState[bool | None] = thread_state("np_array", None)
_arrays_everywhere = False


def is_np_shape() -> bool:
    """Return whether NumPy shape semantics is on in this thread.

    >>> is_np_shape()
    False
    """
    own = _own_switch.get()
    return _everywhere if own is None else own


def np_shape_state() -> int:
    """Return 0 when NumPy shapes are off, 1 when they are on in this thread, 2 when on in the whole process."""
    if not is_np_shape():
        return 0
    return 2 if _everywhere else 1


def set_np_shape(active: int) -> bool:
    """Turn NumPy shape semantics on or off and return the previous state.

    Parameters
    ----------
    active
        0 or False: off, also for the whole process if it was on there. 1 or True: on in this thread. 2: on in every
        thread that has not set its own switch.
    """
    global _everywhere
    state = operator.index(active)
    if state not in (0, 1, 2):
        raise ValueError(f"set_np_shape takes 0 (off), 1 (on in this thread) or 2 (on everywhere), not {active!r}")
    if not state and is_np_array():
        raise ValueError(
            "Deactivating NumPy shape semantics while NumPy array semantics is still active is not allowed. Please "
            "consider calling `npx.reset_np()` to deactivate both of them."
        )
    previous = is_np_shape()
    if state != 1:
        _everywhere = state == 2
    _own_switch.set(state != 0)
    return previous


class _SwitchScope:
    """A ``with`` block or decorator that turns a switch on or off inside; None leaves it unchanged."""

    def __init__(self, switch: ThreadState[bool | None], inside: bool | None) -> None:
        self._switch = switch
        self._inside = inside
        self._before: list[bool | None] = []

    def __enter__(self) -> None:
        self._before.append(self._switch.get())
        if self._inside is not None:
            self._switch.set(bool(self._inside))

    def __exit__(self, *exception: object) -> None:
        self._switch.set(self._before.pop())

    def __call__(self, function: _Decorated) -> _Decorated:
        return _wrap_with_switch(function, self._switch, self._inside)


def np_shape(active: bool | None = True) -> _SwitchScope:
    """Return a scope that turns NumPy shapes on (or off), for ``with`` or as a decorator.

    >>> with np_shape(True):
    ...     is_np_shape()
    True
    >>> is_np_shape()
    False
    """
    return _SwitchScope(_own_switch, active)


def np_array(active: bool | None = True) -> _SwitchScope:
    """Return a scope that turns NumPy arrays on (or off), for ``with`` or as a decorator.

    >>> with np_array(True):
    ...     is_np_array()
    True
    """
    return _SwitchScope(_own_array_switch, active)


def _wrap_with_switch(function: _Decorated, switch: ThreadState[bool | None], active: bool | None) -> _Decorated:
    """Return a function that runs with a switch set."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _SwitchScope(switch, active):
            return function(*args, **kwargs)

    return cast(_Decorated, wrapper)


#: methods that mean something else if a class overrides them
_OVERRIDDEN = ("forward", "hybrid_forward")


def _decorate_with_switch(func: _Decorated, switch: ThreadState[bool | None], decorator: str) -> _Decorated:
    """Return a function or class whose code runs with a switch on."""
    if inspect.isclass(func):
        for name, member in inspect.getmembers(func, inspect.isfunction):
            # methods of users' classes around it: initialize then makes arrays of mx.np, too
            if name not in vars(func) and not name.startswith("_") and name not in _OVERRIDDEN:
                setattr(func, name, _wrap_with_switch(member, switch, True))
        for name, member in list(vars(func).items()):
            if isinstance(member, staticmethod | classmethod):
                setattr(func, name, type(member)(_wrap_with_switch(member.__func__, switch, True)))
            elif isinstance(member, property):
                getter, setter, deleter = [
                    part and _wrap_with_switch(cast(Any, part), switch, True)
                    for part in (member.fget, member.fset, member.fdel)
                ]
                setattr(func, name, property(getter, setter, deleter, member.__doc__))
            elif inspect.isfunction(member):
                setattr(func, name, _wrap_with_switch(member, switch, True))
        return cast(_Decorated, func)
    if callable(func):
        return _wrap_with_switch(func, switch, True)
    raise TypeError(f"{decorator} can only decorate classes and callable objects, while received a {type(func)}")


def use_np_shape(func: _Decorated) -> _Decorated:
    """Return a function or class whose code runs with NumPy shapes on.

    For a class, this wraps its methods, and its own properties, static methods and class methods.

    >>> @use_np_shape
    ... def question():
    ...     return is_np_shape()
    >>> question(), is_np_shape()
    (True, False)
    """
    return _decorate_with_switch(func, _own_switch, "use_np_shape")


def is_np_array() -> bool:
    """Return whether NumPy array semantics is on: new arrays are then those of ``mx.np``.

    >>> is_np_array()
    False
    """
    own = _own_array_switch.get()
    return _arrays_everywhere if own is None else own


def use_np_array(func: _Decorated) -> _Decorated:
    """Return a function or class whose code runs with NumPy arrays on; see :func:`use_np_shape`."""
    return _decorate_with_switch(func, _own_array_switch, "use_np_array")


def use_np(func: _Decorated) -> _Decorated:
    """Return a function or class whose code runs with NumPy shapes and arrays on; see :func:`use_np_shape`.

    >>> @use_np
    ... def question():
    ...     return is_np_shape(), is_np_array()
    >>> question(), is_np_array()
    ((True, True), False)
    """
    return use_np_shape(use_np_array(func))


def set_np(shape: bool = True, array: bool = True) -> None:
    """Turn NumPy shape and array semantics on (or off) in every thread that has not set its own switches.

    Parameters
    ----------
    shape
        Whether shapes are NumPy's: ``()`` is a 0-d array, and an extent of 0 is an empty one.
    array
        Whether Gluon makes arrays of ``mx.np`` instead of ``mx.nd``.

    Examples
    --------
    >>> import phonograd as mx
    >>> mx.npx.set_np()
    >>> mx.npx.is_np_array()
    True
    >>> mx.npx.reset_np()

    Compatibility
    -------------
    In MXNet the switches belong to one thread.

    Raises
    ------
    ValueError
        If arrays would be on while shapes are off.
    """
    global _arrays_everywhere
    if array and not shape:
        raise ValueError("NumPy Shape semantics is required in using NumPy array semantics.")
    _arrays_everywhere = bool(array)
    _own_array_switch.set(None)
    set_np_shape(2 if shape else 0)
    _own_switch.set(None)


def reset_np() -> None:
    """Turn NumPy shape and array semantics off.

    Examples
    --------
    >>> import phonograd as mx
    >>> mx.npx.reset_np()
    >>> mx.npx.is_np_array()
    False
    """
    set_np(shape=False, array=False)


def set_module(module: str | None) -> Callable[[_Decorated], _Decorated]:
    """Return a decorator that sets ``__module__`` of a function or class, unless `module` is None."""

    def decorate(target: _Decorated) -> _Decorated:
        if module is not None:
            target.__module__ = module
        return target

    return decorate


def makedirs(d: str | os.PathLike[str]) -> None:
    """Create a directory with its parents unless it exists."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def get_gpu_count() -> int:
    """Return the number of GPUs that arrays can live on: always 0."""
    return 0


def get_gpu_memory(gpu_dev_id: int) -> tuple[int, int]:
    """Raise: there is no GPU memory to report."""
    raise MXNetError("This call is only supported for MXNet built with CUDA support.")


def get_cuda_compute_capability(ctx: Any) -> int:
    """Raise: a CPU has no compute capability, and arrays on GPUs are not supported.

    Parameters
    ----------
    ctx
        A context.

    Examples
    --------
    >>> import phonograd as mx
    >>> mx.util.get_cuda_compute_capability(mx.gpu())
    Traceback (most recent call last):
    phonograd...MXNetError: No CUDA device is available: phonograd computes on the CPU only.
    """
    if getattr(ctx, "device_type", None) != "gpu":
        raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")
    raise MXNetError("No CUDA device is available: phonograd computes on the CPU only.")


def getenv(name: str) -> str | None:
    """Return an environment variable, or None if it is not set."""
    return os.environ.get(name)


def setenv(name: str, value: str | None) -> None:
    """Set an environment variable; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
