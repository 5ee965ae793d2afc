"""Credit: attribute kernels, backward work and memory to the events that caused them.

Kernels run when a value is read, long after the operator calls; gradients are derived later still. Each kernel is split
evenly among the ranges that called its operators, and counts for the ranges around those too. Backward work counts for
the range of the forward operator. Memory counts for the range that allocated it. The columns of a scope therefore show
both its own work and the work it caused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.events import BACKWARD_FUNCTION, FUNCTION, KERNEL, MODULE, USER_SCOPE, Range

if TYPE_CHECKING:
    from .event import FunctionEvent

__all__ = ["NO_CREDIT", "Credit", "credit_backward", "credit_kernels", "credit_memory", "link"]

Found = dict[Range, "FunctionEvent"]


class Credit:
    """The work attributed to one event. Times are nanoseconds, memory is bytes."""

    __slots__ = (
        "allocated",
        "backward_bytes",
        "backward_kernel_ns",
        "backward_ns",
        "caused_bytes",
        "forward_kernel_ns",
        "freed",
        "kernel_flops",
        "peak",
        "self_kernel_ns",
        "self_net",
    )

    def __init__(self) -> None:
        self.forward_kernel_ns = 0.0
        """Time of kernels that computed operators called inside."""
        self.backward_kernel_ns = 0.0
        """Time of kernels that computed gradients of operators called inside."""
        self.self_kernel_ns = 0.0
        """The part of both kernel times that belongs to no nested event."""
        self.backward_ns = 0
        """Time spent deriving gradients of operators called inside."""
        self.kernel_flops = 0.0
        self.caused_bytes = 0
        """Bytes allocated, anywhere, for values of operators called inside."""
        self.backward_bytes = 0
        """Bytes allocated, anywhere, for gradients of operators called inside."""
        self.allocated = 0
        """Bytes allocated inside."""
        self.freed = 0
        """Bytes freed inside."""
        self.peak = 0
        """The most bytes allocated inside that were held at once."""
        self.self_net = 0
        """Bytes allocated minus bytes freed, without nested events."""

    @property
    def kernel_ns(self) -> float:
        """The time of all kernels."""
        return self.forward_kernel_ns + self.backward_kernel_ns

    @property
    def net(self) -> int:
        """Bytes allocated minus bytes freed."""
        return self.allocated - self.freed


#: the shared credit of events that caused nothing
NO_CREDIT = Credit()


def _of(event: FunctionEvent) -> Credit:
    if event.credit is NO_CREDIT:
        event.credit = Credit()
    return event.credit


def _event_of(source: Range | None, found: Found) -> FunctionEvent | None:
    """Return the event of a range, or of its nearest recorded ancestor."""
    while source is not None and source not in found:
        source = source.parent
    return None if source is None else found[source]


def credit_memory(moments: Iterable[Range], found: Found) -> None:
    """Credit every allocation and deallocation to the events around it."""
    for moment in moments:
        delta = int(moment.value)
        event = _event_of(moment.parent, found)
        if event is not None:
            _of(event).self_net += delta
        while event is not None:
            credit = _of(event)
            if delta > 0:
                credit.allocated += delta
                credit.peak = max(credit.peak, credit.allocated - credit.freed)
            else:
                credit.freed -= delta
            event = event.parent
        if delta > 0 and moment.serves:
            _credit_cause(moment, delta, found)


def _credit_cause(moment: Range, size: int, found: Found) -> None:
    backward = moment.attributes is not None
    (cause,) = moment.serves
    around = None if isinstance(cause, str) else _event_of(cause, found)
    while around is not None:
        credit = _of(around)
        if backward:
            credit.backward_bytes += size
        else:
            credit.caused_bytes += size
        around = around.parent


def credit_kernels(
    events: Sequence[FunctionEvent], found: Found
) -> tuple[int, list[tuple[FunctionEvent, FunctionEvent]]]:
    """Credit every kernel to the events it serves. Return the uncredited kernel time, and pairs of cause and kernel.

    A name in ``serves`` refers to the scope of that name that began last before the kernel.
    """
    named: dict[str, FunctionEvent] = {}
    uncredited = 0
    causes: list[tuple[FunctionEvent, FunctionEvent]] = []
    seen: set[tuple[FunctionEvent, FunctionEvent | None]] = set()
    for event in events:
        source = event.range
        if source.scope != KERNEL:
            named[source.name] = event
            continue
        served = [named.get(who) if isinstance(who, str) else _event_of(who, found) for who in source.serves]
        receivers = [receiver for receiver in served if receiver is not None]
        if not receivers:
            uncredited += event.total_ns
            continue
        # kernels of one evaluation are siblings: only the first one that runs for a scope is linked to it
        for cause in _causes(receivers, event):
            if (cause, event.parent) not in seen:
                seen.add((cause, event.parent))
                causes.append((cause, event))
        backward = (source.attributes or {}).get("phase") == "backward"
        share, flops = event.total_ns / len(receivers), (source.flops or 0.0) / len(receivers)
        # an unrecorded operator has no gradient, for example a weight update fused with a gradient
        numbered = any([receiver.range.sequence_nr != -1 for receiver in receivers])
        for receiver in receivers:
            derived = backward and (receiver.range.sequence_nr != -1 or not numbered)
            _of(receiver).self_kernel_ns += share
            around: FunctionEvent | None = receiver
            while around is not None:
                credit = _of(around)
                credit.kernel_flops += flops
                if derived:
                    credit.backward_kernel_ns += share
                else:
                    credit.forward_kernel_ns += share
                around = around.parent
    return uncredited, causes


def _causes(receivers: Iterable[FunctionEvent], kernel: FunctionEvent) -> list[FunctionEvent]:
    """Return the scopes (or operators outside scopes) that caused a kernel, except those it runs inside."""
    found: dict[FunctionEvent, None] = {}
    for receiver in receivers:
        scope: FunctionEvent | None = receiver
        while scope is not None and scope.range.scope not in (USER_SCOPE, MODULE):
            scope = scope.parent
        found[scope or receiver] = None
    around = kernel.parent
    while around is not None:
        found.pop(around, None)
        around = around.parent
    return list(found)


def link(events: Sequence[FunctionEvent], found: Found) -> list[tuple[FunctionEvent, FunctionEvent]]:
    """Return pairs of forward and backward events, for every backward pass.

    The backward range usually refers to its forward range. If only the sequence number is left, the forward event is
    the last one of its thread that had this number when the backward event began.
    """
    numbered: dict[tuple[int, int], FunctionEvent] = {}
    links: list[tuple[FunctionEvent, FunctionEvent]] = []
    for event in events:
        source = event.range
        if source.scope == BACKWARD_FUNCTION:
            forward = found.get(source.forward) if source.forward is not None else None
            if forward is None and source.forward is None and source.sequence_nr != -1:
                forward = numbered.get((source.forward_thread_id or source.thread_id, source.sequence_nr))
            if forward is not None and forward is not event:
                links.append((forward, event))
        # operators called by a backward pass have sequence numbers too: this links second derivatives
        if source.scope == FUNCTION and source.sequence_nr != -1:
            numbered[source.thread_id, source.sequence_nr] = event
    return links


def credit_backward(links: Iterable[tuple[FunctionEvent, FunctionEvent]]) -> None:
    """Credit the time of backward events to their forward events and to the events around those."""
    for forward, backward in links:
        around: FunctionEvent | None = backward.parent
        while around is not None and around.range.scope != BACKWARD_FUNCTION:
            around = around.parent
        if around is not None:  # the outer event is credited already
            continue
        around = forward
        while around is not None:
            _of(around).backward_ns += backward.total_ns
            around = around.parent
