"""Observation: notify observers when an operator, a kernel or a user scope begins and ends.

A :class:`Range` is one observed interval. On creation it takes a snapshot of the observers that apply: those of the
process, then those of the thread, then those of the asyncio task. It calls them in this order at its start and at its
end, even if observers are added, removed or disabled in between.

Observable code tests one tuple, and does nothing more while no observer listens::

   if LISTENING[FUNCTION]:
       ...

:mod:`.hooks` describes the calls for operators, kernels, backward passes and memory.

A range refers to its parent. The current range is a context variable, so threads and tasks never see each other's. A
range only reads the clock, its parent and its thread; :mod:`phonograd.profiler` makes tables and traces of finished
ranges.
"""

from __future__ import annotations

from .callbacks import (
    DisableRecordFunctionGuard,
    ExclusiveObservation,
    ObservationContext,
    RecordFunctionGuard,
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
from .hooks import CATEGORIES, begin, note_allocation, note_release, record
from .range import (
    Range,
    current_range,
    current_thread_id,
)
from .registry import (
    BACKWARD_FUNCTION,
    COMPILATION,
    CUSTOM_OPERATORS,
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
    "CUSTOM_OPERATORS",
    "EVALUATION",
    "FUNCTION",
    "KERNEL",
    "LISTENING",
    "MEMORY",
    "MODULE",
    "USER_SCOPE",
    "Alone",
    "DisableRecordFunctionGuard",
    "ExclusiveObservation",
    "ObservationContext",
    "Observer",
    "Range",
    "RecordFunctionGuard",
    "RecordScope",
    "add_collector",
    "add_global_callback",
    "add_task_local_callback",
    "add_thread_local_callback",
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
    "note_allocation",
    "note_release",
    "record",
    "reenable_callback",
    "remove_callback",
    "remove_collector",
    "set_default_node_id",
    "set_sampling_seed",
]
