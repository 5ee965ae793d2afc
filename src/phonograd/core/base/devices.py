"""Contexts: where an array lives. Every context of this library is host memory; ``gpu()`` arrays do not exist.

A context is a label that MXNet code passes around (``ctx=mx.cpu()``); ``cpu(0)`` and ``cpu(1)`` are different labels
on the same memory. The default is kept per thread (and per asyncio task).
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any, ClassVar

from . import settings
from .docstrings import complete_classes
from .errors import MXNetError
from .hot import hot
from .thread_state import ThreadState, thread_state

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info", "num_gpus"]

_GPU_ADVICE = (
    "GPU is not enabled: phonograd computes on the CPU only. Use ctx=mx.cpu(), or choose the context with "
    "`mx.gpu() if mx.context.num_gpus() else mx.cpu()`. To run a script that names GPUs unchanged, use "
    "`phonograd run --gpu-as-cpu script.py`, or set PHONOGRAD_GPU_AS_CPU=1."
)


@functools.cache
def _warn_of_gpu() -> None:
    """Warn, once in a process, that a GPU is replaced."""
    warnings.warn(
        "gpu_as_cpu is set: mx.gpu(i) means mx.cpu(i), and phonograd computes on the CPU", RuntimeWarning, stacklevel=4
    )


class _DefaultContext:
    """The default context of this thread as an object with a ``value``, the form MXNet keeps it in."""

    @property
    def value(self) -> Context:
        """The default context; assigning to it changes the default."""
        return Context._default.get() or CPU

    @value.setter
    def value(self, context: Context) -> None:
        Context._default.set(_require(context))


class _ContextType(type):
    """The type of Context: where properties of the class itself have to stand."""

    @property
    def default_ctx(cls) -> Context:
        """The default context of this thread. Deprecated: use :func:`current_context` and ``with context:``."""
        _warn_deprecated()
        return current_context()

    @default_ctx.setter
    def default_ctx(cls, value: Context) -> None:
        _warn_deprecated()
        Context._default.set(_require(value))


def _warn_deprecated() -> None:
    warnings.warn(
        "Context.default_ctx has been deprecated. Please use Context.current_context() instead. "
        "Please use test_utils.set_default_context to set a default context",
        DeprecationWarning,
        stacklevel=3,
    )


class Context(metaclass=_ContextType):
    """The place of an array: a device type and a number.

    >>> Context("cpu", 1)
    cpu(1)
    >>> Context("cpu", 1) == cpu(1)
    True
    """

    # pickles and messages show the public name
    __module__ = "phonograd.context"

    devtype2str: ClassVar[dict[int, str]] = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
    devstr2type: ClassVar[dict[str, int]] = {name: code for code, name in devtype2str.items()}
    _default: ClassVar[ThreadState[Context | None]] = thread_state("context", None)
    _default_ctx: ClassVar[_DefaultContext] = _DefaultContext()

    __slots__ = ("_tokens", "device_id", "device_typeid")

    device_typeid: int
    device_id: int
    _tokens: list[Context | None]

    def __init__(self, device_type: str | Context, device_id: int = 0) -> None:
        if isinstance(device_type, Context):
            self.device_typeid, self.device_id = device_type.device_typeid, device_type.device_id
        else:
            if device_type == "gpu" and settings.current().gpu_as_cpu:
                _warn_of_gpu()
                device_type = "cpu"
            self.device_typeid, self.device_id = Context.devstr2type[device_type], device_id
        self._tokens = []

    @property
    def device_type(self) -> str:
        """The name of the device type: 'cpu', 'gpu', 'cpu_pinned' or 'cpu_shared'."""
        return Context.devtype2str[self.device_typeid]

    @property
    def is_gpu(self) -> bool:
        """Return whether the context is a GPU, on which no array can be made."""
        return self.device_typeid == 2

    @hot
    def __hash__(self) -> int:
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Context)
            and self.device_typeid == other.device_typeid
            and self.device_id == other.device_id
        )

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Context, (self.device_type, self.device_id)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # the state of a context that MXNet pickled
        self.device_typeid, self.device_id = state["device_typeid"], state["device_id"]
        self._tokens = []

    def __enter__(self) -> Context:
        self._tokens.append(Context._default.get())
        Context._default.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        Context._default.set(self._tokens.pop())

    def empty_cache(self) -> None:
        """Return the memory of arrays that are gone to the system; it is kept for new arrays for a while otherwise."""
        pool = sys.modules.get("phonograd.core.run.memory_pool")
        if pool is not None:
            pool.pool.clear()


CPU = Context("cpu", 0)
_of_arrays = {(CPU.device_typeid, CPU.device_id): CPU}


def cpu(device_id: int = 0) -> Context:
    """Return the context of host memory with the given number.

    Parameters
    ----------
    device_id
        Number of the context; all of them are the same memory.

    Examples
    --------
    >>> cpu()
    cpu(0)
    """
    return Context("cpu", device_id)


def cpu_pinned(device_id: int = 0) -> Context:
    """Return the pinned host memory context; the same memory as :func:`cpu` here.

    Parameters
    ----------
    device_id
        Number of the context; all of them are the same memory.

    Examples
    --------
    >>> cpu_pinned()
    cpu_pinned(0)
    """
    return Context("cpu_pinned", device_id)


def gpu(device_id: int = 0) -> Context:
    """Return a GPU context. It can be compared and printed; making an array on it raises with advice.

    Parameters
    ----------
    device_id
        Number of the GPU.

    Examples
    --------
    >>> gpu(1), gpu(1) == cpu(1)
    (gpu(1), False)
    """
    return Context("gpu", device_id)


def num_gpus() -> int:
    """Return the number of GPUs that arrays can live on: always 0.

    Examples
    --------
    >>> num_gpus()
    0
    """
    return 0


def gpu_memory_info(device_id: int = 0) -> tuple[int, int]:
    """Raise: there is no GPU memory to report.

    Parameters
    ----------
    device_id
        Number of the GPU.

    Examples
    --------
    >>> gpu_memory_info()
    Traceback (most recent call last):
    phonograd.base.MXNetError: ...
    """
    raise MXNetError(_GPU_ADVICE)


def current_context() -> Context:
    """Return the default context of this thread: the innermost ``with context:`` block, or ``cpu(0)``.

    Examples
    --------
    >>> with cpu(1):
    ...     current_context()
    cpu(1)
    """
    return Context._default.get() or CPU


def as_context(ctx: Context | None) -> Context:
    """Return the context to make an array on; raise with advice for a GPU."""
    chosen = current_context() if ctx is None else _require(ctx)
    if chosen is CPU:
        return chosen
    if chosen.is_gpu:
        raise MXNetError(_GPU_ADVICE)
    # one object for all arrays of a context, so that most comparisons need not look into it
    return _of_arrays.setdefault((chosen.device_typeid, chosen.device_id), chosen)


def _require(value: Any) -> Context:
    if not isinstance(value, Context):
        shape = "; a shape is one argument, as in nd.zeros((2, 3))" if isinstance(value, int) else ""
        raise TypeError(f"ctx must be a Context such as mx.cpu(), not {value!r}{shape}")
    return value


complete_classes(globals(), ["Context"])
