"""Range: one observed interval, and the current range of a thread or task."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from ..base.outside import is_from_outside
from ..base.thread_state import ThreadState, thread_state
from .facts import Facts, Segment, WithFacts
from .registry import (
    AMBIENT,
    LOCAL,
    REGISTRY,
    SILENCE,
    USER_SCOPE,
    RecordScope,
    Snapshot,
    logger,
    past_thread,
)

__all__ = [
    "CURRENT",
    "OVER",
    "Range",
    "Segment",
    "collect_with_inputs",
    "current_range",
    "current_thread_id",
    "start_range",
]

_range_handles = itertools.count(1)

#: the snapshot of a range that has ended
OVER = SILENCE[0].always


class Range(WithFacts):
    """One observed interval with a snapshot of its observers, begun by :meth:`before`, ended by :meth:`end`.

    Times are nanoseconds of ``time.perf_counter_ns``; ``end_ns`` is 0 while the range is open.
    """

    # frequently used attributes are slots, rare ones are facts
    __slots__ = (
        "__weakref__",
        "_snapshot",
        "_thread",
        "attached",
        "end_ns",
        "hidden",
        "name",
        "parent",
        "scope",
        "sequence_nr",
        "start_ns",
    )

    facts: Facts | None
    parent: Range | None
    sequence_nr: int
    """The number that a forward operator shares with its backward ranges, or -1."""
    start_ns: int
    end_ns: int
    attached: bool
    """True if a future ends it, so that leaving the scope does not."""
    hidden: bool
    """True if it is not the parent of new ranges: its scope was left, or it is unobserved."""

    def __init__(self, scope: int = USER_SCOPE) -> None:
        thread = LOCAL.thread
        ambient = AMBIENT.get()
        if thread.version != REGISTRY.version or thread.ambient is not ambient:
            thread.refresh(ambient)
        selection = thread.selections[scope]
        self._snapshot = selection.sample() if selection.sampled else selection.always
        self._thread = thread
        self.scope = scope
        self.name = ""
        self.parent = None
        self.sequence_nr = -1
        self.start_ns = self.end_ns = 0
        self.attached = self.hidden = False
        self.facts = None

    @classmethod
    def restore(cls, name: str, scope: int, thread_id: int, thread_name: str, start_ns: int, end_ns: int) -> Range:
        """Return an unobserved range with given times, for example one read from a file."""
        made = cls.__new__(cls)
        made._snapshot = OVER
        made._thread = past_thread(thread_id, thread_name)
        made.scope, made.name, made.parent = scope, name, None
        made.sequence_nr = -1
        made.start_ns, made.end_ns = start_ns, end_ns
        made.attached = made.hidden = False
        made.facts = None
        return made

    @property
    def active(self) -> bool:
        """Return whether any observer sees it."""
        return bool(self._snapshot.observers or self._snapshot.collectors)

    @property
    def needs_inputs(self) -> bool:
        """Return whether an observer of its scope needs inputs."""
        return self._snapshot.needs[0]

    @property
    def needs_outputs(self) -> bool:
        """Return whether an observer of its scope needs outputs."""
        return self._snapshot.needs[1]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs, available only in start callbacks: a range keeps no object alive."""
        if self._phase != "start":
            raise RuntimeError("Called inputs() outside RecordFunction start callback")
        return self._inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs, available only in end callbacks."""
        if self._phase != "end":
            raise RuntimeError("Called outputs() outside RecordFunction end callback")
        return self._outputs

    @property
    def thread_id(self) -> int:
        """The number of the thread in which it began: small, from 1, never reused."""
        return self._thread.number

    @property
    def thread_name(self) -> str:
        """The name of the thread in which it began."""
        return self._thread.name

    def before(self, name: str, inputs: tuple[Any, ...] = (), sequence_nr: int = -1) -> None:
        """Begin the range: call the start callbacks in the order of the snapshot."""
        snapshot = self._snapshot
        if not snapshot.collectors and not snapshot.observers:
            return
        self.name = name
        self.sequence_nr = sequence_nr
        parent = CURRENT.get()
        while parent is not None and (parent.end_ns or parent.hidden):
            parent = parent.parent
        self.parent = parent
        if snapshot.demanding:
            self._begin(snapshot, inputs)
        else:
            for collect in snapshot.collectors:
                collect(self)
        CURRENT.set(self)
        self.start_ns = perf_counter_ns()

    def _begin(self, snapshot: Snapshot, inputs: tuple[Any, ...]) -> None:
        if snapshot.needs[2]:
            self.handle = next(_range_handles)
        if snapshot.needs[0]:
            self._inputs = inputs
        if snapshot.observers:
            self._contexts = self._call("start", [None] * len(snapshot.observers))
        self._phase = "start"
        for collect in snapshot.collectors:
            collect(self)
        self._phase, self._inputs = "", ()

    def _call(self, phase: str, contexts: list[Any]) -> list[Any]:
        """Return the results of the callbacks of a phase, which run unobserved; their exceptions are logged."""
        thread = LOCAL.thread
        selections, busy = thread.selections, thread.busy
        thread.selections, thread.busy, self._phase = SILENCE, True, phase
        results: list[Any] = []
        try:
            for observer, context in zip(self._snapshot.observers, contexts, strict=True):
                result = None
                try:
                    if phase == "end":
                        if observer.end is not None:
                            observer.end(self, context)
                    elif observer.start is not None:
                        result = observer.start(self)
                except Exception as error:
                    # an observer must not disturb the observed code
                    if is_from_outside(error):
                        raise
                    observer.errors += 1
                    if observer.errors == 1:
                        what = f"{type(error).__name__}: {error}"
                        logger.warning("Exception in RecordFunction callback: %s , for the range %s", what, self.name)
                results.append(result)
        finally:
            thread.selections, thread.busy, self._phase = selections, busy, ""
        return results

    def complete(self, name: str, start_ns: int, end_ns: int, parent: Range | None = None) -> None:
        """Begin and end the range at times measured elsewhere. It never becomes the current range.

        Collectors receive it last: a profile that another thread stops meanwhile has it whole or not at all.
        """
        snapshot = self._snapshot
        self.name = name
        self.parent = parent or current_range()
        self.start_ns = start_ns
        if snapshot.needs[2]:
            self.handle = next(_range_handles)
        if snapshot.observers:
            contexts = self._call("start", [None] * len(snapshot.observers))
            self.closing_ns = end_ns
            self._call("end", contexts)
        self.end_ns = end_ns
        self._snapshot = OVER
        for collect in snapshot.collectors:
            collect(self)

    def mark(self) -> None:
        """Push this unobserved range on the stack of open ranges of this thread or task."""
        self.parent = CURRENT.get()
        self.hidden = True
        self.start_ns = 1
        CURRENT.set(self)

    def step_out(self) -> None:
        """Pop this range from the current context without ending it."""
        found = current_range()
        if found is self:
            CURRENT.set(self.parent)
        else:
            self.hidden = True

    def set_outputs(self, *outputs: Any) -> None:
        """Set the outputs, for end callbacks that need them."""
        if self._snapshot.needs[1] and self.start_ns and not self.end_ns:
            self._outputs = outputs

    def end(self) -> None:
        """End the range: call the end callbacks in the order of the snapshot. Only the first call has an effect."""
        if self.end_ns or not self.start_ns:
            return
        now = perf_counter_ns()
        if self._thread is not LOCAL.thread:
            self.is_async = True
        if not self._snapshot.observers:
            self.end_ns = now
            # a stored range must not keep its observers' objects alive
            self._snapshot = OVER
            return
        with REGISTRY.lock:
            if self.closing_ns or self.end_ns:
                # another thread is ending it
                return
            # the range counts as open until its callbacks have run
            self.closing_ns = now
            contexts, self._contexts = self._contexts, None
        if contexts is not None:
            self._call("end", contexts)
            self._outputs = ()
        self.end_ns = now
        self._snapshot = OVER

    def suspend(self) -> None:
        """Stop the clock when a generator or coroutine yields control, and restore the range that resumed it."""
        if not self.start_ns:
            return
        now = perf_counter_ns()
        current = CURRENT.get()
        inside: list[Range] = []
        found = current
        while found is not None and found is not self:
            inside.append(found)
            found = found.parent
        self._inner = current if found is self else self
        began, outer = self._resumed or (self.start_ns, self.parent)
        for other in inside if found is self else ():
            if not other.end_ns:
                other._stop(now, max(began, other.start_ns), other.parent)
        self._stop(now, began, outer)
        CURRENT.set(outer)

    def _stop(self, now: int, began: int, outer: Range | None) -> None:
        segment = Segment(began, now, LOCAL.thread.number, outer)
        if self.segments is None:
            # never empty: another thread that reads the range finds it suspended or not
            self.segments = [segment]
        else:
            self.segments.append(segment)
        self._resumed = None

    def resume(self) -> None:
        """Restart the clock, in the current thread."""
        if not self.start_ns:
            return
        outer = CURRENT.get()
        inner: Range | None = self._inner
        now = perf_counter_ns()
        CURRENT.set(inner)
        while inner is not None and inner is not self:
            inner._resumed = (now, inner.parent)
            inner = inner.parent
        self._resumed = (now, outer)

    def ran_ns(self, until_ns: int) -> int:
        """Return the time it had been open at a moment; for a generator or coroutine, the time it had run."""
        began, _ = self.running()
        waited = sum([segment.end_ns - segment.start_ns for segment in self.segments or ()])
        return waited + (until_ns - began if began else 0)

    def running(self) -> tuple[int, Range | None]:
        """Return the start of its last running interval (0 if suspended), and the range around it."""
        if self.segments is None:
            return self.start_ns, self.parent
        return self._resumed or (0, None)

    def leave(self) -> None:
        """End a range that was resumed, and restore the range that resumed it as current."""
        if not self.start_ns:
            return
        outer = self._resumed[1] if self._resumed else self.parent
        self.end()
        CURRENT.set(outer)

    def __enter__(self) -> Range:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.error = f"{type(error).__name__}: {error}"
        self.end()

    def __repr__(self) -> str:
        state = "open" if not self.end_ns else f"{(self.end_ns - self.start_ns) / 1000:.3f} us"
        return f"<{type(self).__name__} {self.name!r} {RecordScope(self.scope).name} {state}>"


CURRENT: ThreadState[Range | None] = thread_state("phonograd.range", None)


def start_range(
    scope: int, name: str, sequence_nr: int = -1, describe: Callable[..., tuple[Any, ...]] | None = None, *what: Any
) -> Range:
    """Return a new range that has begun; equivalent to creating it and calling ``before``, but faster.

    If an observer needs inputs, ``describe(entry, *what)`` returns them.
    """
    thread = LOCAL.thread
    ambient = AMBIENT.get()
    if thread.version != REGISTRY.version or thread.ambient is not ambient:
        thread.refresh(ambient)
    snapshot = thread.selections[scope].quick
    if snapshot is None:
        return _start_observed(scope, name, sequence_nr, describe, what)
    entry = _new(Range)
    entry._snapshot = snapshot
    entry._thread = thread
    entry.scope = scope
    entry.name = name
    entry.sequence_nr = sequence_nr
    # another thread may read the range as soon as the collector has it: until its clock starts it has not begun
    entry.start_ns = entry.end_ns = 0
    entry.attached = entry.hidden = False
    entry.facts = None
    parent = CURRENT.get()
    while parent is not None and (parent.end_ns or parent.hidden):
        parent = parent.parent
    entry.parent = parent
    if describe is not None and snapshot.needs[0]:
        collect_with_inputs(entry, describe(entry, *what))
    else:
        snapshot.collect(entry)
    CURRENT.set(entry)
    entry.start_ns = perf_counter_ns()
    return entry


def collect_with_inputs(entry: Range, inputs: tuple[Any, ...]) -> None:
    """Set the inputs of a range while its only collector receives it."""
    facts = entry.facts
    if facts is None:
        facts = entry.facts = Facts()
    facts._inputs = inputs
    facts._phase = "start"
    entry._snapshot.collect(entry)
    # restore the class defaults
    del facts._inputs, facts._phase


def _start_observed(
    scope: int, name: str, sequence_nr: int, describe: Callable[..., tuple[Any, ...]] | None, what: tuple[Any, ...]
) -> Range:
    """Return a new range that has begun, for any set of observers."""
    entry = Range(scope)
    inputs = describe(entry, *what) if describe is not None and entry._snapshot.needs[0] else ()
    entry.before(name, inputs, sequence_nr)
    return entry


_new = object.__new__


def current_range() -> Range | None:
    """Return the innermost open range of this thread or task; None if there is none."""
    found = CURRENT.get()
    while found is not None and (found.end_ns or found.hidden):
        found = found.parent
    return found


def current_thread_id() -> int:
    """Return the number of this thread: small, from 1, assigned at first use and never reused."""
    return LOCAL.thread.number
