"""MXNet's profiling objects: Domain, Task, Frame, Event, Counter and Marker.

Every running profiler records them; without a profiler they cost one test. Task, Frame and Event are also context
managers, and may be started again while they run.
"""

from __future__ import annotations

import numbers
from types import TracebackType
from typing import Any

from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError, nearest
from ..core.events import LISTENING, USER_SCOPE, Range
from .handles import text

__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task"]


class Domain:
    """A named group of tasks, frames, counters and markers."""

    def __init__(self, name: str) -> None:
        self.name = text("name", name)

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """Return a new task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """Return a new frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> Counter:
        """Return a new counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """Return a new marker of this domain."""
        return Marker(self, name)


class _Timed:
    """Base class of objects that are started and stopped."""

    kind = ""

    def __init__(self, name: str, domain: Domain | None = None) -> None:
        if domain is not None and not isinstance(domain, Domain):
            raise TypeError(f"domain must be a Domain, not {domain!r}")
        self.name = text("name", name)
        self.domain = domain
        self._open: list[Range] = []

    def start(self) -> None:
        """Start an interval."""
        if LISTENING[USER_SCOPE]:
            entry = _entry(self.kind, self.domain)
            entry.before(self.name)
            if self.kind == "task":
                entry.step_out()
            self._open.append(entry)

    def stop(self) -> None:
        """Stop the interval that was started last; does nothing if none is open."""
        if self._open:
            self._open.pop().end()

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self._open:
            self._open[-1].error = f"{type(error).__name__}: {error}"
        self.stop()

    def __del__(self) -> None:
        for entry in getattr(self, "_open", ()):
            entry.end()

    def __str__(self) -> str:
        return self.name


class Task(_Timed):
    """A piece of work that may overlap others; start and stop it anywhere, in any thread."""

    kind = "task"

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(name, domain)


class Frame(_Timed):
    """One of many similar intervals, such as the steps of a training loop."""

    kind = "frame"

    def __init__(self, domain: Domain, name: str) -> None:
        super().__init__(name, domain)


class Event(_Timed):
    """An interval of the calling thread."""

    kind = "event"

    def __init__(self, name: str) -> None:
        super().__init__(name)


class Counter:
    """A number that changes over time.

    >>> counter = Domain("training").new_counter("samples", 0)
    >>> counter += 32
    >>> counter.value
    32
    """

    def __init__(self, domain: Domain, name: str, value: float | None = None) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain must be a Domain, not {domain!r}")
        self.domain = domain
        self.name = text("name", name)
        self.value: float = 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: float) -> None:
        """Set the counter to a value."""
        if not isinstance(value, numbers.Real) or value != value or abs(value) == float("inf"):
            raise ValueError(f"a counter value must be a finite number, not {value!r}")
        self.value = value
        if LISTENING[USER_SCOPE]:
            entry = _entry("counter", self.domain)
            entry.value = value
            entry.instant = True
            entry.before(self.name)
            entry.end()

    def increment(self, delta: float = 1) -> None:
        """Increase the counter."""
        self.set_value(self.value + delta)

    def decrement(self, delta: float = 1) -> None:
        """Decrease the counter."""
        self.set_value(self.value - delta)

    def __iadd__(self, delta: float) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: float) -> Counter:
        self.decrement(delta)
        return self

    def __str__(self) -> str:
        return self.name


_MARKER_SCOPES = ["global", "marker", "process", "task", "thread"]


class Marker:
    """A moment worth marking."""

    def __init__(self, domain: Domain, name: str) -> None:
        if not isinstance(domain, Domain):
            raise TypeError(f"domain must be a Domain, not {domain!r}")
        self.domain = domain
        self.name = text("name", name)

    def mark(self, scope: str = "process") -> None:
        """Record a marker now. ``scope`` is its extent: 'global', 'process', 'thread', ..."""
        if scope not in _MARKER_SCOPES:
            valid = ", ".join(map(repr, _MARKER_SCOPES))
            raise MXNetError(
                f"Invalid Input: {scope!r}, valid values are: {{{valid}}}{nearest(str(scope), _MARKER_SCOPES)}"
            )
        if LISTENING[USER_SCOPE]:
            entry = _entry("marker", self.domain)
            entry.instant = True
            entry.attributes = {"scope": scope}
            entry.before(self.name)
            entry.end()

    def __str__(self) -> str:
        return self.name


def _entry(kind: str, domain: Domain | None) -> Range:
    entry = Range(USER_SCOPE)
    entry.kind = kind
    if domain is not None:
        entry.domain = domain.name
    return entry


complete_classes(globals())
