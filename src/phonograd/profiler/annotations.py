"""JAX's names for scopes. All of them make a :class:`.recording.record_function`.

>>> import phonograd as mx
>>> with mx.profiler.profile() as prof:
...     for step in range(2):
...         with mx.profiler.StepTraceAnnotation("train", step_num=step):
...             with mx.profiler.TraceAnnotation("forward", batch=32):
...                 pass
>>> [row["name"] for row in prof.by_step()]
['train 0', 'train 1']
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from .recording import record_function

__all__ = ["StepTraceAnnotation", "TraceAnnotation", "annotate", "annotate_function", "step_annotation"]

Function = TypeVar("Function", bound=Callable[..., Any])


def annotate(name: str, **attributes: Any) -> record_function:
    """Return a scope with attributes, for use as a ``with`` block or a decorator."""
    return record_function(name, None, attributes or None)


def step_annotation(name: str, step_num: int | None = None, **attributes: Any) -> record_function:
    """Return the scope of one training step. ``by_step`` shows one row for each."""
    if step_num is None:
        return annotate(name, **attributes)
    return annotate(name, step_num=int(step_num), **attributes)


@overload
def annotate_function(function: Function, name: str | None = None, **attributes: Any) -> Function: ...


@overload
def annotate_function(
    function: None = None, name: str | None = None, **attributes: Any
) -> Callable[[Function], Function]: ...


def annotate_function(function: Any = None, name: str | None = None, **attributes: Any) -> Any:
    """Return a function that runs inside a scope named after it (or ``name``); without a function, a decorator."""
    if function is None:
        return functools.partial(annotate_function, name=name, **attributes)
    title = name or getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
    return annotate(title, **attributes)(function)


TraceAnnotation = annotate
StepTraceAnnotation = step_annotation
