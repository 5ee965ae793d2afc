"""FunctionEvent: a finished range with its times, children, cost and credit, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..core.derive.costs import Cost, of_call
from ..core.events import FUNCTION, Range, RecordScope, default_node_id
from .credit import NO_CREDIT, Credit
from .tables import time_text

__all__ = ["CHILDLESS", "FunctionEvent", "Interval", "WithoutDevice", "costs_of", "strides_of"]


class WithoutDevice:
    """PyTorch's device attributes with the values of a CPU-only profile."""

    __slots__ = ()

    overload_name = ""
    use_device = None
    device_type = "cpu"
    device_index = 0
    is_remote = False
    is_legacy = False
    device_time = 0.0
    device_time_total = 0.0
    self_device_time_total = 0.0
    device_memory_usage = 0
    self_device_memory_usage = 0
    cuda_time = 0.0
    cuda_time_total = 0.0
    self_cuda_time_total = 0.0
    cuda_memory_usage = 0
    self_cuda_memory_usage = 0

    @property
    def node_id(self) -> int:
        """The number of this process in a distributed program; see :func:`set_default_node_id`."""
        return default_node_id()


class Interval(NamedTuple):
    """A time range in microseconds since the profile began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start


CHILDLESS: list[Any] = []
_NO_COST = Cost(0.0, 0)


class FunctionEvent(WithoutDevice):
    """A finished range. Times in ``_ns`` are nanoseconds since the profile began; other times are microseconds."""

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
        """The time it was open; for a generator or coroutine, the time it ran."""
        self.self_ns = 0
        """The part of the total time in which none of its children ran."""
        self.unfinished = unfinished
        """True if it was still open when the profile ended."""
        self.children: list[FunctionEvent] = CHILDLESS
        self.credit: Credit = NO_CREDIT
        """The work it caused: kernels, backward work, memory."""

    @property
    def name(self) -> str:
        """The name as given."""
        return self.range.name

    @property
    def key(self) -> str:
        """The name under which events are averaged; all scheduled steps share one."""
        name = self.range.name
        return "ProfilerStep*" if name.startswith("ProfilerStep#") else name

    @property
    def scope(self) -> int:
        """The :class:`~phonograd.core.events.RecordScope`, as a number."""
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
        """Return whether it ended in another thread, with a future, or not at all while profiled."""
        return self.range.is_async or self.unfinished

    @property
    def is_user_annotation(self) -> bool:
        """Return whether it is a user scope."""
        return self.range.scope == RecordScope.USER_SCOPE

    @property
    def instant(self) -> bool:
        """Return whether it is an instant without duration."""
        return self.range.instant

    @property
    def kind(self) -> str:
        """'task', 'frame', 'event', 'counter' or 'marker' for MXNet's profiling objects; otherwise empty."""
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
        """The ``args`` and attributes of the scope."""
        found = dict(self.range.attributes or ())
        if self.range.args is not None:
            found.setdefault("args", self.range.args)
        return found

    @property
    def input_shapes(self) -> list[list[int]]:
        """The shapes of the inputs if the profile recorded shapes; empty for inputs that are not arrays."""
        return [known[0] if isinstance(known, list) else [] for known in self.range.shapes or ()]

    structured_input_shapes = input_shapes

    @property
    def structured_input_strides(self) -> list[list[int]]:
        """The strides of the inputs in elements."""
        return [strides_of(shape) for shape in self.input_shapes]

    @property
    def input_dtypes(self) -> list[str]:
        """The dtypes of array inputs and the type names of other inputs."""
        return [known[1] if isinstance(known, list) else type(known).__name__ for known in self.range.shapes or ()]

    @property
    def concrete_inputs(self) -> list[Any]:
        """The values of inputs that are not arrays; None in place of arrays."""
        return [None if isinstance(known, list) else known for known in self.range.shapes or ()]

    @property
    def kwinputs(self) -> dict[str, Any]:
        """The parameters of an operator by name, if the profile recorded shapes."""
        return dict(self.range.parameters or ())

    @property
    def trace_name(self) -> str:
        """The name in traces: the same as ``name``."""
        return self.range.name

    @property
    def stack(self) -> tuple[str, ...]:
        """The user's call stack at the start, innermost call first, if the profile recorded stacks."""
        return self.range.stack or ()

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators that a kernel computes."""
        return self.range.operators

    @property
    def cost(self) -> Cost | None:
        """Operations and bytes, if the range carries them or the profile recorded shapes."""
        source, facts = self.range, self.range.facts
        if facts is None:
            return None
        if facts.flops is not None or facts.moved_bytes is not None:
            return Cost(facts.flops or 0.0, int(facts.moved_bytes or 0))
        if source.scope != FUNCTION or facts.shapes is None:
            return None
        return of_call(source.name, with_numbers(facts.shapes), facts.parameters)

    @property
    def flops(self) -> float:
        """Arithmetic operations; 0 if unknown."""
        return (self.cost or _NO_COST).flops

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes allocated inside minus bytes freed inside, if the profile recorded memory."""
        return self.credit.net

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes allocated minus bytes freed, without nested events."""
        return self.credit.self_net

    @property
    def path(self) -> tuple[str, ...]:
        """The keys of its ancestors and its own key, outermost first."""
        names = [self.key]
        around = self.parent
        while around is not None:
            names.append(around.key)
            around = around.parent
        return tuple(reversed(names))

    @property
    def count(self) -> int:
        """Always 1; an average has more."""
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

    cpu_time_str = property(lambda self: time_text(self.cpu_time))
    cpu_time_total_str = property(lambda self: time_text(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: time_text(self.self_cpu_time_total))

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


def strides_of(shape: Sequence[int]) -> list[int]:
    """Return the strides in elements of a contiguous row-major array.

    >>> strides_of([2, 3, 4])
    [12, 4, 1]
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    return strides


def with_numbers(shapes: Sequence[Any]) -> list[Any]:
    """Return shapes and dtypes of inputs, with each number as a 0-d array of the first array's dtype."""
    dtype = next((entry[1] for entry in shapes if isinstance(entry, list)), "float32")
    return [entry if entry is None or isinstance(entry, list) else [[], dtype] for entry in shapes]


def costs_of(events: Iterable[FunctionEvent]) -> list[Cost]:
    """Return the known costs of events; calls of one kind are evaluated once."""
    known: dict[Any, Cost | None] = {}
    found: list[Cost] = []
    for event in events:
        facts = event.range.facts
        if facts is None:
            continue
        shapes = facts.shapes
        if shapes is None or facts.flops is not None or facts.moved_bytes is not None:
            cost = event.cost
        else:
            # id() is a valid key: one description object exists per shape and dtype
            places = tuple([id(known) if known.__class__ is list else known for known in shapes])
            key = event.range.name, places, repr(facts.parameters) if facts.parameters else ""
            cost = known[key] if key in known else known.setdefault(key, event.cost)
        if cost is not None:
            found.append(cost)
    return found
