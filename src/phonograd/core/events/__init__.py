"""Observers: whoever wants to know when an operator, a kernel or a user's scope begins and ends. In the base layer.

A :class:`Range` is one observed interval. When it is made it takes a snapshot of the observers that apply at that
moment, in this order: those of the process, those of the thread, those of the asyncio task. They are called at its
start and at its end, whatever is added, removed or switched off in between.

Code that can be observed tests one tuple, and does nothing more while nobody listens::

    if LISTENING[FUNCTION]:
        ...

What operators, kernels, backward passes and memory do then is in :mod:`.hooks`.

A range knows its parent by identity: the current range is a context variable, so threads and tasks never see each
other's. Reading the clock, the parent and the thread is all a range does by itself; tables and traces are made of
finished ranges by :mod:`phonograd.profiler`.
"""

from __future__ import annotations

from .callbacks import (
    Alone,
    DisableRecordFunctionGuard,
    RecordFunctionGuard,
    Surroundings,
    add_collector,
    add_global_callback,
    add_task_local_callback,
    add_thread_local_callback,
    clear_callbacks,
    clear_global_callbacks,
    clear_task_local_callbacks,
    clear_thread_local_callbacks,
    default_node_id,
    disable_callback,
    enable_record_function,
    has_callbacks,
    has_global_callbacks,
    has_task_local_callbacks,
    has_thread_local_callbacks,
    is_record_function_enabled,
    reenable_callback,
    remove_callback,
    remove_collector,
    set_default_node_id,
    set_sampling_seed,
)
from .hooks import CATEGORIES, allocated, begin, record, released
from .range import (
    Range,
    current_range,
    current_thread_id,
)
from .registry import (
    BACKWARD_FUNCTION,
    COMPILATION,
    EVALUATION,
    FUNCTION,
    KERNEL,
    LISTENING,
    MEMORY,
    MODULE,
    USER_SCOPE,
    Observer,
    RecordScope,
)

__all__ = [
    "BACKWARD_FUNCTION",
    "CATEGORIES",
    "COMPILATION",
    "EVALUATION",
    "FUNCTION",
    "KERNEL",
    "LISTENING",
    "MEMORY",
    "MODULE",
    "USER_SCOPE",
    "Alone",
    "DisableRecordFunctionGuard",
    "Observer",
    "Range",
    "RecordFunctionGuard",
    "RecordScope",
    "Surroundings",
    "add_collector",
    "add_global_callback",
    "add_task_local_callback",
    "add_thread_local_callback",
    "allocated",
    "begin",
    "clear_callbacks",
    "clear_global_callbacks",
    "clear_task_local_callbacks",
    "clear_thread_local_callbacks",
    "current_range",
    "current_thread_id",
    "default_node_id",
    "disable_callback",
    "enable_record_function",
    "has_callbacks",
    "has_global_callbacks",
    "has_task_local_callbacks",
    "has_thread_local_callbacks",
    "is_record_function_enabled",
    "record",
    "reenable_callback",
    "released",
    "remove_callback",
    "remove_collector",
    "set_default_node_id",
    "set_sampling_seed",
]
