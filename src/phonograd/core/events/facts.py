"""Facts: rare attributes of ranges, stored apart so that other ranges spend no time or memory on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .range import Range

__all__ = ["Facts", "Segment", "WithFacts"]


class Segment(NamedTuple):
    """An interval in which a generator or coroutine ran: its times, its thread, and the range that resumed it."""

    start_ns: int
    end_ns: int
    thread_id: int
    outer: Range | None


class Facts:
    """The rare attributes of a range. Class attributes hold the defaults; an instance stores only differences."""

    handle = 0
    """A unique number, if an observer of the scope needs ids; otherwise 0."""
    forward_thread_id = 0
    is_async = False
    """True if it ends in another thread than it began in, or when a future completes."""
    debug_handle = -1
    kind = ""
    """Its origin unless it is an ordinary scope: 'task', 'frame', 'event', 'counter' or 'marker'."""
    domain = ""
    value: float = 0
    """The value of a counter; for memory, the bytes allocated, or freed if negative."""
    forward: Range | None = None
    """For a backward range: the range of the forward operator whose gradient it computes."""
    parameters: dict[str, Any] | None = None
    """The parameters of an operator by name, if an observer needs inputs."""
    operators: tuple[str, ...] = ()
    """The names of the operators that a kernel computes."""
    serves: tuple[Range | str, ...] = ()
    """The ranges in which a kernel's operators were called, or the names of their scopes."""
    flops: float | None = None
    """Arithmetic operations, if the creator of the range knows them; otherwise input shapes determine them."""
    moved_bytes: float | None = None
    """Bytes read and written, if the creator of the range knows them."""
    closing_ns = 0
    """The end time, while the end callbacks run."""
    category = ""
    """The category of memory: 'parameter', 'gradient', 'activation', ..."""
    identity = 0
    """The identity of the memory that is allocated or freed."""
    shapes: list[Any] | None = None
    """Descriptions of the inputs, if a profiler needs them."""
    stack: tuple[str, ...] | None = None
    """The user's call stack, innermost call first, if a profiler needs it."""
    instant = False
    """True for a moment without duration."""
    args: str | None = None
    attributes: dict[str, Any] | None = None
    error: str | None = None
    """The exception that left the scope, as ``type: message``."""
    segments: list[Segment] | None = None
    """For a generator or coroutine: the intervals in which it ran, except the last one."""
    _phase = ""
    _inputs: tuple[Any, ...] = ()
    _outputs: tuple[Any, ...] = ()
    _contexts: list[Any] | None = None
    _resumed: tuple[int, Range | None] | None = None
    _inner: Range | None = None


def _fact(name: str) -> property:
    """Return the property that reads and writes a fact of a range; it has the default until set."""
    default = getattr(Facts, name)

    def read(self: Any) -> Any:
        facts = self.facts
        return default if facts is None else getattr(facts, name)

    def write(self: Any, value: Any) -> None:
        if self.facts is None:
            self.facts = Facts()
        setattr(self.facts, name, value)

    return property(read, write)


if TYPE_CHECKING:
    WithFacts = Facts
else:

    class WithFacts:
        """Base class with facts as attributes; it allocates a :class:`Facts` when the first one is set."""

        __slots__ = ("facts",)

    for _name in vars(Facts):
        if not _name.startswith("__"):
            setattr(WithFacts, _name, _fact(_name))
