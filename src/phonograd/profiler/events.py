"""Events: build the tree of timed events from recorded ranges, in one pass after the recording.

The parent of an event is the range that was open in the same thread or task when it began, regardless of the clock.
Self time comes from a sweep over the events of a thread. Each moment belongs to exactly one event: the one that began
last or that control returned to. Self times are therefore never negative, and no time counts twice, even if generators
and tasks interleave.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, overload

from ..core.events import BACKWARD_FUNCTION, KERNEL, MEMORY, Range
from ..core.observe.allocations import Allocation
from .credit import credit_backward, credit_kernels, credit_memory, link
from .event import CHILDLESS, FunctionEvent
from .tables import write_text

if TYPE_CHECKING:
    import os

    from .averages import Average, AverageList

__all__ = ["EventList", "FunctionEvent", "Slice", "build", "thread_owners", "without_collection"]


#: a stretch of time in which an event occupied a thread: start, end, the event, and the event it returns to
Slice = tuple[int, int, FunctionEvent, FunctionEvent | None]


class WholeSlices(Sequence[Slice]):
    """The slices of events that were never suspended. They are made when they are read: stored, they take 80 bytes."""

    def __init__(self) -> None:
        self.events: list[FunctionEvent] = []

    @overload
    def __getitem__(self, index: int) -> Slice: ...

    @overload
    def __getitem__(self, index: slice) -> list[Slice]: ...

    def __getitem__(self, index: int | slice) -> Slice | list[Slice]:
        if isinstance(index, slice):
            return [(event.start_ns, event.end_ns, event, event.parent) for event in self.events[index]]
        event = self.events[index]
        return event.start_ns, event.end_ns, event, event.parent

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Slice]:
        for event in self.events:
            yield event.start_ns, event.end_ns, event, event.parent


class EventList(Sequence[FunctionEvent]):
    """The events of a profile, parents before children, with the additional data that traces need."""

    def __init__(
        self,
        events: list[FunctionEvent],
        slices: Mapping[int, Sequence[Slice]],
        threads: dict[int, str],
        elapsed_ns: int,
        wall_ns: int,
        dropped: int = 0,
        *,
        moments: list[Range] | None = None,
        held: list[tuple[int, list[Allocation]]] | None = None,
        links: list[tuple[FunctionEvent, FunctionEvent]] | None = None,
        causes: list[tuple[FunctionEvent, FunctionEvent]] | None = None,
        uncredited_ns: int = 0,
        origin_ns: int = 0,
    ) -> None:
        self._events = events
        self.slices = slices
        """The stretches of each thread's events, ordered by start, by thread number."""
        self.threads = threads
        self.elapsed_ns = elapsed_ns
        self.wall_ns = wall_ns
        """The wall-clock start of the profile, in nanoseconds since the epoch."""
        self.dropped = dropped
        """The number of events discarded because of the limit."""
        self.moments = moments or []
        """Allocations and deallocations in order; see :mod:`.memory`."""
        self.held = held or []
        """For each cycle, its start time and the memory that arrays held at that time."""
        self.links = links or []
        """Pairs of forward and backward events."""
        self.causes = causes or []
        """Pairs of a scope (or an operator outside scopes) and the first kernel of an evaluation that runs for it
        elsewhere."""
        self.uncredited_ns = uncredited_ns
        """Time of kernels that serve no recorded event."""
        self.origin_ns = origin_ns
        """The ``perf_counter_ns`` value at which times start."""

    @overload
    def __getitem__(self, index: int) -> FunctionEvent: ...

    @overload
    def __getitem__(self, index: slice) -> list[FunctionEvent]: ...

    def __getitem__(self, index: int | slice) -> FunctionEvent | list[FunctionEvent]:
        return self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[FunctionEvent]:
        return iter(self._events)

    def roots(self) -> list[FunctionEvent]:
        """Return the events without a parent."""
        return [event for event in self._events if event.parent is None]

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of all self times in microseconds."""
        return sum([event.self_ns for event in self._events]) / 1000

    # -- PyTorch's names

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> AverageList:
        """Return the averages of all events with one name."""
        from .averages import key_averages

        return key_averages(self, group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Average:
        """Return the average of all events together."""
        from .averages import total_average

        return total_average(self)

    def table(self, **options: Any) -> str:
        """Return the table of averages; options as in :meth:`AverageList.table`."""
        return self.key_averages().table(**options)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for ``chrome://tracing`` and https://ui.perfetto.dev; compressed if called ``.gz``."""
        from .chrome import write_chrome_trace

        write_chrome_trace(self, path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write folded stacks in microseconds."""
        from .folded import folded_stacks

        write_text(path, folded_stacks(self, metric))

    def tree(self, minimum_percent: float = 0.0) -> str:
        """Return the events as an indented tree with times; equal siblings share one line.

        Branches below ``minimum_percent`` of the total time are omitted.
        """
        whole = sum([event.total_ns for event in self.roots()]) or 1
        lines: list[str] = []

        def show(events: Iterable[FunctionEvent], depth: int) -> None:
            groups: dict[str, list[FunctionEvent]] = {}
            for event in events:
                groups.setdefault(event.key, []).append(event)
            for key, members in groups.items():
                total = sum([event.total_ns for event in members])
                percent = 100 * total / whole
                if percent >= minimum_percent:
                    count = f" x{len(members)}" if len(members) > 1 else ""
                    lines.append(f"{percent:6.2f}%  {total / 1e6:10.3f}ms  {'  ' * depth}{key}{count}")
                    show([child for event in members for child in event.children], depth + 1)

        show(self.roots(), 0)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<EventList of {len(self)} events in {self.elapsed_ns / 1e6:.3f} ms>"


@contextmanager
def without_collection() -> Iterator[None]:
    """Disable garbage collection: no garbage arises here, and with 200,000 events it would take 2/3 of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@without_collection()
def build(
    buffers: dict[int, tuple[str, list[Range]]],
    start_ns: int,
    stop_ns: int,
    wall_ns: int,
    dropped: int = 0,
    held: list[tuple[int, list[Allocation]]] | None = None,
    began_ns: int = 1,
) -> EventList:
    """Return the events of all threads' ranges, with parents, self times, slices and credit.

    Times count from ``start_ns``. Only ranges that began between ``began_ns`` and ``stop_ns`` become events.
    """
    found: dict[Range, FunctionEvent] = {}
    events: list[FunctionEvent] = []
    # a thread that was about to begin a range when the recording stopped begins it later, and a kernel that ran when
    # the recording began is measured at its end
    ranges = [
        source
        for _, (_, collected) in sorted(buffers.items())
        for source in list(collected)
        if began_ns <= source.start_ns <= stop_ns
    ]
    # ranges measured elsewhere arrive later than ranges that began after them
    ranges.sort(key=_start_of)
    scopes = {source.scope for source in ranges}
    moments: list[Range] = []
    if MEMORY in scopes:
        moments = [source for source in ranges if source.scope == MEMORY]
        ranges = [source for source in ranges if source.scope != MEMORY]
    for number, source in enumerate(ranges):
        parent = source.parent
        while parent is not None and parent not in found:
            parent = parent.parent
        around = None if parent is None else found[parent]
        end = source.end_ns
        unfinished = not 0 < end <= stop_ns
        event = FunctionEvent(
            number, source, around, source.start_ns - start_ns, (stop_ns if unfinished else end) - start_ns, unfinished
        )
        if around is not None:
            if around.children is CHILDLESS:
                around.children = []
            around.children.append(event)
        found[source] = event
        events.append(event)
    slices = _slices(events, found, start_ns, stop_ns)
    for stretches in slices.values():
        for owner, began, ended in thread_owners(stretches):
            owner.self_ns += ended - began
    threads = {number: name for number, (name, _) in sorted(buffers.items())}
    links = link(events, found) if BACKWARD_FUNCTION in scopes else []
    credit_backward(links)
    credit_memory(moments, found)
    uncredited_ns, causes = credit_kernels(events, found) if KERNEL in scopes else (0, [])
    return EventList(
        events,
        slices,
        threads,
        stop_ns - start_ns,
        wall_ns,
        dropped,
        moments=moments,
        held=held,
        links=links,
        causes=causes,
        uncredited_ns=uncredited_ns,
        origin_ns=start_ns,
    )


def _start_of(source: Range) -> int:
    return source.start_ns


def _slices(
    events: list[FunctionEvent], found: dict[Range, FunctionEvent], start_ns: int, stop_ns: int
) -> Mapping[int, Sequence[Slice]]:
    """Return the stretches in which events occupied each thread, and set the running time of suspended events."""
    whole: dict[int, WholeSlices] = {}
    suspended: list[FunctionEvent] = []
    for event in events:
        source = event.range
        facts = source.facts
        if facts is not None and facts.kind == "task":  # a task may overlap the other events of its thread
            continue
        if facts is not None and facts.segments is not None:
            suspended.append(event)
            continue
        thread = source.thread_id
        own = whole.get(thread)
        if own is None:
            own = whole[thread] = WholeSlices()
        own.events.append(event)
    if not suspended:
        return whole
    slices = {thread: list(own) for thread, own in whole.items()}
    for event in suspended:
        source = event.range
        event.total_ns = 0
        stretches = [*(source.segments or ())]
        resumed, outer = source.running()
        if resumed:
            stretches.append(type(stretches[0])(resumed, event.end_ns + start_ns, stretches[-1].thread_id, outer))
        for began, ended, thread, around in stretches:
            ended = min(ended, stop_ns)
            if began <= ended:
                while around is not None and around not in found:
                    around = around.parent
                stretch = (began - start_ns, ended - start_ns, event, found[around] if around else None)
                slices.setdefault(thread, []).append(stretch)
                event.total_ns += ended - began
    for stretches_of_thread in slices.values():
        stretches_of_thread.sort(key=_slice_order)
    return slices


def _slice_order(stretch: Slice) -> tuple[int, int, int]:
    return stretch[0], -stretch[1], stretch[2].id


def thread_owners(stretches: Iterable[Slice]) -> Iterator[tuple[FunctionEvent, int, int]]:
    """Yield the owner of a thread over time as (event, start, end).

    Each moment belongs to one event: the one that began last or that control returned to.
    """
    running: set[FunctionEvent] = set()
    stack: list[Slice] = []  # sorted by end, latest first
    owner: FunctionEvent | None = None
    last = 0
    for stretch in stretches:
        start, end, event, _ = stretch
        while stack and stack[-1][1] <= start:
            over = stack.pop()
            if owner is not None:
                yield owner, last, over[1]
            last = over[1]
            owner = _owner_after(over, owner, running)
        if owner is not None:
            yield owner, last, start
        owner, last = event, start
        running.add(event)
        if not stack or end <= stack[-1][1]:
            stack.append(stretch)
            continue
        place = len(stack) - 1
        while place and stack[place - 1][1] < end:
            place -= 1
        stack.insert(place, stretch)
    while stack:
        over = stack.pop()
        if owner is not None:
            yield owner, last, over[1]
        last = over[1]
        owner = _owner_after(over, owner, running)


def _owner_after(over: Slice, owner: FunctionEvent | None, running: set[FunctionEvent]) -> FunctionEvent | None:
    """Return the owner of the time after a stretch ends."""
    event = over[2]
    running.discard(event)
    if owner is not event:
        inner = owner
        while inner is not None and inner is not event:
            inner = inner.parent
        if inner is not None:
            return owner  # a nested event continues
    following = over[3]
    while following is not None and following not in running:
        following = following.parent
    return following
