"""Events: what a profiler saw, as a tree with times. Made of ranges after the fact, in one pass.

An event's parent is the range that was open in the same thread or task when it began, whatever the clock says. Self
time is found by a sweep over the events of a thread: at each moment the time belongs to one of them, the one that
began last or that was returned to. So no self time is negative and no time is counted twice, however generators and
tasks interleave.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, overload

from ..costs import Cost, of_call
from ..observers import BACKWARD_FUNCTION, FUNCTION, KERNEL, MEMORY, Range, RecordScope
from .credit import NO_CREDIT, Credit, credit_backward, credit_kernels, credit_memory, link

__all__ = ["EventList", "FunctionEvent", "Interval", "Slice", "build", "without_collection"]


class Interval(NamedTuple):
    """A time range in microseconds since the profile began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start


_CHILDLESS: list[Any] = []
_NO_COST = Cost(0.0, 0)


class FunctionEvent:
    """One finished range. Times in ``_ns`` are nanoseconds since the profile began; the others are microseconds."""

    __slots__ = (
        "children",
        "credit",
        "end_ns",
        "id",
        "parent",
        "range",
        "self_ns",
        "start_ns",
        "total_ns",
        "unfinished",
    )

    def __init__(
        self, number: int, source: Range, parent: FunctionEvent | None, start_ns: int, end_ns: int, unfinished: bool
    ) -> None:
        self.id = number
        self.range = source
        self.parent = parent
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.total_ns = end_ns - start_ns
        """The time in which it was open; for a generator or coroutine, in which it ran."""
        self.self_ns = 0
        """The part of it in which none of its children ran."""
        self.unfinished = unfinished
        """Whether it was still open when the profile ended."""
        self.children: list[FunctionEvent] = _CHILDLESS
        self.credit: Credit = NO_CREDIT
        """What it caused: kernels, backward work, memory."""

    @property
    def name(self) -> str:
        """The name, as it was given."""
        return self.range.name

    @property
    def key(self) -> str:
        """The name under which events are averaged: all steps are one."""
        name = self.range.name
        return "ProfilerStep*" if name.startswith("ProfilerStep#") else name

    @property
    def scope(self) -> int:
        """The :class:`~phonograd.observers.RecordScope`, as a number."""
        return self.range.scope

    @property
    def thread(self) -> int:
        """The number of the thread in which it began."""
        return self.range.thread_id

    @property
    def thread_name(self) -> str:
        """The name of the thread in which it began."""
        return self.range.thread_name

    @property
    def fwd_thread(self) -> int:
        """The number of the thread of the forward pass, for a backward event; otherwise 0."""
        return self.range.forward_thread_id

    @property
    def sequence_nr(self) -> int:
        """The number shared by a forward operator and its backward events, or -1."""
        return self.range.sequence_nr

    @property
    def is_async(self) -> bool:
        """Whether it ended in another thread, with a future, or not at all while profiled."""
        return self.range.is_async or self.unfinished

    @property
    def is_user_annotation(self) -> bool:
        """Whether it is a scope of the user's program."""
        return self.range.scope == RecordScope.USER_SCOPE

    @property
    def instant(self) -> bool:
        """Whether it stands for a moment."""
        return self.range.instant

    @property
    def kind(self) -> str:
        """'task', 'frame', 'event', 'counter' or 'marker' for what has MXNet's names; otherwise empty."""
        return self.range.kind

    @property
    def domain(self) -> str:
        """The name of the domain of a task, frame, counter or marker."""
        return self.range.domain

    @property
    def error(self) -> str | None:
        """The exception that left the scope, as ``type: message``."""
        return self.range.error

    @property
    def attributes(self) -> dict[str, Any]:
        """What was said about it: the scope's ``args`` and attributes."""
        found = dict(self.range.attributes or ())
        if self.range.args is not None:
            found.setdefault("args", self.range.args)
        return found

    @property
    def input_shapes(self) -> list[Any]:
        """What the inputs were like, if the profile recorded shapes."""
        return self.range.shapes or []

    @property
    def stack(self) -> tuple[str, ...]:
        """Where the user's code was, innermost call first, if the profile recorded stacks."""
        return self.range.stack or ()

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators that a kernel computes."""
        return self.range.operators

    @property
    def cost(self) -> Cost | None:
        """Operations and bytes, if whoever recorded it knew, or if the profile recorded shapes."""
        source, facts = self.range, self.range.facts
        if facts is None:
            return None
        if facts.flops is not None or facts.moved_bytes is not None:
            return Cost(facts.flops or 0.0, int(facts.moved_bytes or 0))
        if source.scope != FUNCTION or facts.shapes is None:
            return None
        arrays = [entry for entry in facts.shapes if isinstance(entry, list)]
        return of_call(source.name, arrays, facts.parameters)

    @property
    def flops(self) -> float:
        """Arithmetic operations; 0 if they are not known."""
        return (self.cost or _NO_COST).flops

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes taken inside minus bytes given back, if the profile recorded memory."""
        return self.credit.net

    @property
    def self_cpu_memory_usage(self) -> int:
        """The same without what events inside it took and gave back."""
        return self.credit.self_net

    @property
    def path(self) -> tuple[str, ...]:
        """The keys of all events around it and its own, outermost first."""
        names = [self.key]
        around = self.parent
        while around is not None:
            names.append(around.key)
            around = around.parent
        return tuple(reversed(names))

    @property
    def count(self) -> int:
        """One: an average has more."""
        return 1

    @property
    def time_range(self) -> Interval:
        """Start and end in microseconds."""
        return Interval(self.start_ns / 1000, self.end_ns / 1000)

    @property
    def cpu_time_total(self) -> float:
        """Total time in microseconds."""
        return self.total_ns / 1000

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Self time in microseconds."""
        return self.self_ns / 1000

    @property
    def cpu_parent(self) -> FunctionEvent | None:
        """The event inside which it began."""
        return self.parent

    @property
    def cpu_children(self) -> list[FunctionEvent]:
        """The events that began inside it."""
        return self.children

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent {self.name!r} total {self.cpu_time_total:.3f} us, self {self.self_cpu_time_total:.3f} us>"
        )


#: a stretch of time in which an event occupied a thread: start, end, the event, and the one that it returns to
Slice = tuple[int, int, FunctionEvent, FunctionEvent | None]


class EventList(Sequence[FunctionEvent]):
    """The events of a profile, parents before children, with what a trace needs besides."""

    def __init__(
        self,
        events: list[FunctionEvent],
        slices: dict[int, list[Slice]],
        threads: dict[int, str],
        elapsed_ns: int,
        wall_ns: int,
        dropped: int = 0,
        *,
        moments: list[Range] | None = None,
        links: list[tuple[FunctionEvent, FunctionEvent]] | None = None,
        causes: list[tuple[FunctionEvent, FunctionEvent]] | None = None,
        uncredited_ns: int = 0,
        origin_ns: int = 0,
    ) -> None:
        self._events = events
        self.slices = slices
        """By thread number, the stretches of its events in the order of their start."""
        self.threads = threads
        self.elapsed_ns = elapsed_ns
        self.wall_ns = wall_ns
        """The time of day when the profile began, in nanoseconds since the epoch."""
        self.dropped = dropped
        """How many events were not kept because there were too many."""
        self.moments = moments or []
        """Memory as it was taken and given back, in order; see :mod:`.memory`."""
        self.links = links or []
        """Pairs of forward and backward events."""
        self.causes = causes or []
        """Pairs of an event and a kernel that serves it."""
        self.uncredited_ns = uncredited_ns
        """Time of kernels that serve nobody who was recorded."""
        self.origin_ns = origin_ns
        """The moment of ``perf_counter_ns`` from which times are counted."""

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
        """Return the events that have no parent."""
        return [event for event in self._events if event.parent is None]

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of all self times in microseconds."""
        return sum([event.self_ns for event in self._events]) / 1000

    def tree(self, minimum_percent: float = 0.0) -> str:
        """Return the events as an indented tree with times; equal siblings are one line.

        Branches below ``minimum_percent`` of the whole are left out.
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
    """Look for no garbage meanwhile: none is made, and with 200,000 events two thirds of the time would go there."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@without_collection()
def build(
    buffers: dict[int, tuple[str, list[Range]]], start_ns: int, stop_ns: int, wall_ns: int, dropped: int = 0
) -> EventList:
    """Return the events of the ranges that each thread began, with parents, self times, slices and credit."""
    found: dict[Range, FunctionEvent] = {}
    events: list[FunctionEvent] = []
    ranges = [source for _, (_, collected) in sorted(buffers.items()) for source in list(collected) if source.start_ns]
    # what was measured elsewhere comes later than what has begun since
    ranges.sort(key=_started)
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
            if around.children is _CHILDLESS:
                around.children = []
            around.children.append(event)
        found[source] = event
        events.append(event)
    slices = _slices(events, found, start_ns, stop_ns)
    for stretches in slices.values():
        _share(stretches)
    threads = {number: name for number, (name, _) in sorted(buffers.items())}
    links = link(events, found) if BACKWARD_FUNCTION in scopes else []
    credit_backward(links)
    credit_memory(moments, found)
    nobody, causes = credit_kernels(events, found) if KERNEL in scopes else (0, [])
    return EventList(
        events,
        slices,
        threads,
        stop_ns - start_ns,
        wall_ns,
        dropped,
        moments=moments,
        links=links,
        causes=causes,
        uncredited_ns=nobody,
        origin_ns=start_ns,
    )


def _started(source: Range) -> int:
    return source.start_ns


def _slices(
    events: list[FunctionEvent], found: dict[Range, FunctionEvent], start_ns: int, stop_ns: int
) -> dict[int, list[Slice]]:
    """Return the stretches in which events occupied each thread, and set the running time of those that waited."""
    slices: dict[int, list[Slice]] = {}
    interrupted = False
    for event in events:
        source = event.range
        facts = source.facts
        if facts is not None and facts.kind == "task":  # stands beside what the thread does
            continue
        thread = source.thread_id
        own = slices.get(thread)
        if own is None:
            own = slices[thread] = []
        if facts is None or facts.segments is None:
            own.append((event.start_ns, event.end_ns, event, event.parent))
            continue
        interrupted = True
        event.total_ns = 0
        stretches = [*facts.segments]
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
    if interrupted:
        for own in slices.values():
            own.sort(key=_placed)
    return slices


def _placed(stretch: Slice) -> tuple[int, int, int]:
    return stretch[0], -stretch[1], stretch[2].id


def _share(stretches: list[Slice]) -> None:
    """Give each moment of a thread to one event, as self time."""
    running: set[FunctionEvent] = set()
    stack: list[Slice] = []  # by falling end
    owner: FunctionEvent | None = None
    last = 0
    for stretch in stretches:
        start, end, event, _ = stretch
        while stack and stack[-1][1] <= start:
            over = stack.pop()
            if owner is not None:
                owner.self_ns += over[1] - last
            last = over[1]
            owner = _owner_after(over, owner, running)
        if owner is not None:
            owner.self_ns += start - last
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
            owner.self_ns += over[1] - last
        last = over[1]
        owner = _owner_after(over, owner, running)


def _owner_after(over: Slice, owner: FunctionEvent | None, running: set[FunctionEvent]) -> FunctionEvent | None:
    """Return who owns the time after a stretch is over."""
    event = over[2]
    running.discard(event)
    if owner is not event:
        inner = owner
        while inner is not None and inner is not event:
            inner = inner.parent
        if inner is not None:
            return owner  # what began inside goes on
    following = over[3]
    while following is not None and following not in running:
        following = following.parent
    return following
