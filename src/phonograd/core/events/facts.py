"""Facts: what few ranges have, so that those that do not have it take neither time nor memory for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .range import Range

__all__ = ["Described", "Facts", "Segment"]


class Segment(NamedTuple):
    """An interval in which a generator or coroutine ran, the thread, and the range that had resumed it."""

    start_ns: int
    end_ns: int
    thread_id: int
    outer: Range | None


class Facts:
    """What most ranges have in common; only what differs is stored."""

    handle = 0
    """A number of its own, if an observer of the scope needs ids; otherwise 0."""
    forward_thread_id = 0
    is_async = False
    """Whether it ends in another thread than it began in, or when a future completes."""
    debug_handle = -1
    kind = ""
    """What made it, if it was not an ordinary scope: 'task', 'frame', 'event', 'counter' or 'marker'."""
    domain = ""
    value: float = 0
    """The value of a counter; for memory, the bytes taken, or given back if negative."""
    forward: Range | None = None
    """For a backward range: the range of the forward operator whose gradient it computes."""
    parameters: dict[str, Any] | None = None
    """The parameters of an operator by name, if an observer asked for inputs."""
    operators: tuple[str, ...] = ()
    """The names of the operators that a kernel computes."""
    serves: tuple[Range | str, ...] = ()
    """The ranges in which those operators were called, or the names of their scopes: for whom a kernel works."""
    flops: float | None = None
    """Arithmetic operations, if whoever made the range knows; otherwise they follow from the inputs' shapes."""
    moved_bytes: float | None = None
    """Bytes read and written, if whoever made the range knows."""
    closing_ns = 0
    """When it ended, while its end callbacks run."""
    category = ""
    """What memory is for: 'parameter', 'gradient', 'activation', ..."""
    identity = 0
    """The identity of the memory that is taken or given back."""
    shapes: list[Any] | None = None
    """What the inputs were like, if a profiler asked for it."""
    stack: tuple[str, ...] | None = None
    """Where the user's code was, innermost call first, if a profiler asked for it."""
    instant = False
    """Whether it stands for a moment, not for an interval."""
    args: str | None = None
    attributes: dict[str, Any] | None = None
    error: str | None = None
    """The exception that left the scope, as ``type: message``."""
    segments: list[Segment] | None = None
    """For a generator or coroutine: the intervals in which it ran, but the last."""
    _phase = ""
    _inputs: tuple[Any, ...] = ()
    _outputs: tuple[Any, ...] = ()
    _contexts: list[Any] | None = None
    _resumed: tuple[int, Range | None] | None = None
    _inner: Range | None = None


def _fact(name: str) -> property:
    """Return the property by which a range has a fact: the default until it is set."""
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
    Described = Facts
else:

    class Described:
        """Something that has facts as attributes, and an object for them once one of them is set."""

        __slots__ = ("facts",)

    for _name in vars(Facts):
        if not _name.startswith("__"):
            setattr(Described, _name, _fact(_name))
