"""Add and remove observers, enable and disable observation, and carry it over to another thread."""

from __future__ import annotations

from collections.abc import Collection

from .range import CURRENT, Range, current_range
from .registry import AMBIENT, LOCAL, REGISTRY, Ambient, End, Observer, Selection, Start, logger

__all__ = [
    "DisableRecordFunctionGuard",
    "ExclusiveObservation",
    "ObservationContext",
    "RecordFunctionGuard",
    "add_global_callback",
    "add_task_local_callback",
    "add_thread_local_callback",
    "clear_callbacks",
    "clear_global_callbacks",
    "clear_task_local_callbacks",
    "clear_thread_local_callbacks",
    "default_node_id",
    "disable_callback",
    "enable_record_function",
    "has_callbacks",
    "has_global_callbacks",
    "has_task_local_callbacks",
    "has_thread_local_callbacks",
    "is_record_function_enabled",
    "reenable_callback",
    "remove_callback",
    "set_default_node_id",
    "set_sampling_seed",
]


def add_global_callback(
    start: Start | None,
    end: End | None = None,
    *,
    scopes: Collection[int] | None = None,
    needs_inputs: bool = False,
    needs_outputs: bool = False,
    needs_ids: bool = False,
    sampling_probability: float = 1.0,
) -> int:
    """Observe ranges of every thread, and return a handle for :func:`remove_callback`.

    See :class:`Observer` for the parameters.

    >>> seen = []
    >>> handle = add_global_callback(lambda fn: fn.name, lambda fn, context: seen.append(context))
    >>> scope = Range()
    >>> scope.before("work")
    >>> scope.end()
    >>> remove_callback(handle)
    >>> seen
    ['work']
    """
    observer = _observer(start, end, scopes, needs_inputs, needs_outputs, needs_ids, sampling_probability)
    with REGISTRY.lock:
        REGISTRY.observers += (observer,)
        REGISTRY.publish()
    return observer.handle


def add_thread_local_callback(
    start: Start | None,
    end: End | None = None,
    *,
    scopes: Collection[int] | None = None,
    needs_inputs: bool = False,
    needs_outputs: bool = False,
    needs_ids: bool = False,
    sampling_probability: float = 1.0,
) -> int:
    """Observe the ranges of this thread, and return a handle. See :func:`add_global_callback`."""
    observer = _observer(start, end, scopes, needs_inputs, needs_outputs, needs_ids, sampling_probability)
    thread = LOCAL.thread
    REGISTRY.watch(observer)
    thread.observers += (observer,)
    REGISTRY.publish()
    return observer.handle


def add_task_local_callback(
    start: Start | None,
    end: End | None = None,
    *,
    scopes: Collection[int] | None = None,
    needs_inputs: bool = False,
    needs_outputs: bool = False,
    needs_ids: bool = False,
    sampling_probability: float = 1.0,
) -> int:
    """Observe the ranges of this asyncio task and of the tasks it creates, and return a handle.

    See :func:`add_global_callback`. Outside asyncio the callback belongs to the thread's context.
    """
    observer = _observer(start, end, scopes, needs_inputs, needs_outputs, needs_ids, sampling_probability)
    ambient = AMBIENT.get()
    REGISTRY.watch(observer)
    AMBIENT.set(ambient.replace(ambient.enabled, (*ambient.observers, observer)))
    REGISTRY.publish()
    return observer.handle


def _observer(
    start: Start | None,
    end: End | None,
    scopes: Collection[int] | None,
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
    sampling_probability: float,
) -> Observer:
    return Observer(
        start,
        end,
        scopes=scopes,
        needs_inputs=needs_inputs,
        needs_outputs=needs_outputs,
        needs_ids=needs_ids,
        sampling_probability=sampling_probability,
    )


def add_collector(observer: Observer) -> None:
    """Add the observer of a profiler. Users cannot remove it by accident, because it has no handle."""
    with REGISTRY.lock:
        observer.removed = False
        REGISTRY.collectors += (observer,)
        REGISTRY.publish()


def remove_collector(observer: Observer) -> None:
    """Remove an observer that :func:`add_collector` added."""
    with REGISTRY.lock:
        observer.removed = True
        REGISTRY.collectors = tuple([o for o in REGISTRY.collectors if o is not observer])
        REGISTRY.publish()
    # other threads drop their references to it when they begin their next range
    LOCAL.thread.refresh(AMBIENT.get())


def _find(handle: int) -> Observer | None:
    """Return an observer of this task, this thread or the process by its handle; log a warning if there is none."""
    for observer in (*AMBIENT.get().observers, *LOCAL.thread.observers, *REGISTRY.observers):
        if observer.handle == handle and not observer.removed:
            return observer
    logger.warning("Requested callback is not found: %s", handle)
    return None


def remove_callback(handle: int) -> None:
    """Remove an observer. Open ranges still notify it at their end; an unknown handle only logs a warning."""
    observer = _find(handle)
    if observer is not None:
        _remove([observer])


def _remove(observers: Collection[Observer]) -> None:
    with REGISTRY.lock:
        for observer in observers:
            observer.removed = True
        thread, ambient = LOCAL.thread, AMBIENT.get()
        REGISTRY.observers = tuple([o for o in REGISTRY.observers if not o.removed])
        thread.observers = tuple([o for o in thread.observers if not o.removed])
        if any([o.removed for o in ambient.observers]):
            left = tuple([o for o in ambient.observers if not o.removed])
            AMBIENT.set(ambient.replace(ambient.enabled, left))
        REGISTRY.publish()


def disable_callback(handle: int) -> None:
    """Disable an observer for new ranges until :func:`reenable_callback`."""
    _switch(handle, False)


def reenable_callback(handle: int) -> None:
    """Enable an observer again for new ranges."""
    _switch(handle, True)


def _switch(handle: int, enabled: bool) -> None:
    observer = _find(handle)
    if observer is not None and observer.enabled != enabled:
        observer.enabled = enabled
        REGISTRY.publish()


def has_global_callbacks() -> bool:
    """Return whether the process has an enabled observer, running profilers included."""
    return any([o.active for o in (*REGISTRY.observers, *REGISTRY.collectors)])


def has_thread_local_callbacks() -> bool:
    """Return whether this thread has an enabled observer of its own."""
    return any([o.active for o in LOCAL.thread.observers])


def has_task_local_callbacks() -> bool:
    """Return whether this task has an enabled observer of its own."""
    return any([o.active for o in AMBIENT.get().observers])


def has_callbacks() -> bool:
    """Return whether an enabled observer sees the ranges of this thread and task."""
    return has_global_callbacks() or has_thread_local_callbacks() or has_task_local_callbacks()


def clear_global_callbacks() -> None:
    """Remove every observer of the process; profilers keep running."""
    _remove(REGISTRY.observers)


def clear_thread_local_callbacks() -> None:
    """Remove every observer of this thread."""
    _remove(LOCAL.thread.observers)


def clear_task_local_callbacks() -> None:
    """Remove every observer of this task."""
    _remove(AMBIENT.get().observers)


def clear_callbacks() -> None:
    """Remove every observer of the process, of this thread and of this task; profilers keep running."""
    clear_global_callbacks()
    clear_thread_local_callbacks()
    clear_task_local_callbacks()


def set_sampling_seed(seed: int | None) -> None:
    """Make sampling reproducible: every thread restarts its random sequence from the seed; None undoes it."""
    with REGISTRY.lock:
        REGISTRY.seed = seed
        REGISTRY.publish()


# -- which process this is


_node_id = [-1]


def default_node_id() -> int:
    """Return the rank of this process in a distributed program, or -1 if none is set."""
    return _node_id[0]


def set_default_node_id(number: int) -> None:
    """Set the rank of this process, which appears in its profiles and traces."""
    if number < 0:
        raise ValueError(f"set_default_node_id expects an id >= 0, not {number}")
    _node_id[0] = number


# -- switches


def is_record_function_enabled() -> bool:
    """Return whether observation is enabled in this thread (or task)."""
    return AMBIENT.get().enabled


def enable_record_function(enabled: bool = True) -> None:
    """Enable or disable observation of this thread (or task) by any observer."""
    ambient = AMBIENT.get()
    if ambient.enabled != enabled:
        AMBIENT.set(ambient.replace(enabled, ambient.observers))


class RecordFunctionGuard:
    """Enable or disable observation of a ``with`` block; guards nest and restore the previous state.

    >>> with RecordFunctionGuard(False):
    ...     is_record_function_enabled()
    False
    """

    __slots__ = ("_previous", "enabled")

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = bool(enabled)
        self._previous: list[bool] = []

    def __enter__(self) -> RecordFunctionGuard:
        self._previous.append(is_record_function_enabled())
        enable_record_function(self.enabled)
        return self

    def __exit__(self, *exception: object) -> None:
        enable_record_function(self._previous.pop())


class DisableRecordFunctionGuard(RecordFunctionGuard):
    """Hide a ``with`` block from every observer."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(False)


class ExclusiveObservation:
    """Restrict observation of this thread to one observer inside a ``with`` block."""

    __slots__ = ("_observer", "_previous")

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._previous: list[tuple[list[Selection], bool]] = []

    def __enter__(self) -> None:
        thread = LOCAL.thread
        thread.refresh(AMBIENT.get())
        self._previous.append((thread.selections, thread.busy))
        # a busy thread does not refresh its selections
        thread.selections, thread.busy = thread.select_by_scope([self._observer]), True

    def __exit__(self, *exception: object) -> None:
        thread = LOCAL.thread
        thread.selections, thread.busy = self._previous.pop()


# -- taking observation to another thread


class ObservationContext:
    """The observers and the current range of this thread, for use in another thread in a ``with`` block."""

    __slots__ = ("_ambient", "_current", "_observers", "_previous")

    def __init__(self) -> None:
        self._observers = LOCAL.thread.observers
        self._ambient = AMBIENT.get()
        self._current = current_range()
        self._previous: list[tuple[tuple[Observer, ...], Ambient, Range | None]] = []

    def __enter__(self) -> None:
        thread = LOCAL.thread
        self._previous.append((thread.observers, AMBIENT.get(), CURRENT.get()))
        self._install(self._observers, self._ambient, self._current)

    def __exit__(self, *exception: object) -> None:
        self._install(*self._previous.pop())

    @staticmethod
    def _install(observers: tuple[Observer, ...], ambient: Ambient, current: Range | None) -> None:
        LOCAL.thread.change_observers(observers)
        AMBIENT.set(ambient)
        CURRENT.set(current)
