"""The profiler: time and memory of a program, by operator and by scope.

>>> import phonograd as mx
>>> with mx.profiler.profile() as prof:
...     with mx.profiler.record_function("training step"):
...         pass
>>> print(prof.key_averages().table(sort_by="self_cpu_time_total"))  # doctest: +SKIP

:func:`add_global_callback` and its siblings add custom observers. :mod:`phonograd.core.events` defines the ranges and
scopes that are observed; this package turns them into tables and traces.
"""

from __future__ import annotations

from ..core.events import (
    DisableRecordFunctionGuard,
    Range,
    RecordFunctionGuard,
    RecordScope,
    add_global_callback,
    add_task_local_callback,
    add_thread_local_callback,
    clear_callbacks,
    clear_global_callbacks,
    clear_task_local_callbacks,
    clear_thread_local_callbacks,
    current_range,
    current_thread_id,
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
    set_default_node_id,
    set_sampling_seed,
)
from .activities import ProfilerActivity, supported_activities
from .annotations import StepTraceAnnotation, TraceAnnotation, annotate, annotate_function, step_annotation
from .averages import Average, AverageList
from .control import (
    dump,
    dump_on_signal,
    dump_profile,
    dumps,
    pause,
    profiler_set_config,
    profiler_set_state,
    resume,
    scope,
    set_config,
    set_kvstore_handle,
    set_state,
    start,
    stop,
)
from .events import EventList, FunctionEvent
from .execution import ExecutionTraceObserver
from .memory import MemoryTimeline
from .objects import Counter, Domain, Event, Frame, Marker, Task
from .recording import record_function
from .results import LoadedProfile
from .session import ProfilerAction, load, profile, schedule, tensorboard_trace_handler, trace_handler
from .validation import validate_trace

__all__ = [
    "Average",
    "AverageList",
    "Counter",
    "DisableRecordFunctionGuard",
    "Domain",
    "Event",
    "EventList",
    "ExecutionTraceObserver",
    "Frame",
    "FunctionEvent",
    "LoadedProfile",
    "Marker",
    "MemoryTimeline",
    "ProfilerAction",
    "ProfilerActivity",
    "Range",
    "RecordFunctionGuard",
    "RecordScope",
    "StepTraceAnnotation",
    "Task",
    "TraceAnnotation",
    "add_global_callback",
    "add_task_local_callback",
    "add_thread_local_callback",
    "annotate",
    "annotate_function",
    "clear_callbacks",
    "clear_global_callbacks",
    "clear_task_local_callbacks",
    "clear_thread_local_callbacks",
    "current_range",
    "current_thread_id",
    "default_node_id",
    "disable_callback",
    "dump",
    "dump_on_signal",
    "dump_profile",
    "dumps",
    "enable_record_function",
    "has_callbacks",
    "has_global_callbacks",
    "has_task_local_callbacks",
    "has_thread_local_callbacks",
    "is_record_function_enabled",
    "load",
    "pause",
    "profile",
    "profiler_set_config",
    "profiler_set_state",
    "record_function",
    "reenable_callback",
    "remove_callback",
    "resume",
    "schedule",
    "scope",
    "set_config",
    "set_default_node_id",
    "set_kvstore_handle",
    "set_sampling_seed",
    "set_state",
    "start",
    "step_annotation",
    "stop",
    "supported_activities",
    "tensorboard_trace_handler",
    "trace_handler",
    "validate_trace",
]
