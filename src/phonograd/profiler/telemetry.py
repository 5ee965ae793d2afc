"""OpenTelemetry: export finished events as spans with their times, and link gradients to operators.

It needs nothing of OpenTelemetry but the tracer that the caller passes::

    from opentelemetry import trace

    prof.export_spans(trace.get_tracer("training"), minimum_duration_us=50, max_spans=10_000)
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core.events import RecordScope
from .events import EventList, FunctionEvent

__all__ = ["export_spans"]


def export_spans(events: EventList, tracer: Any, minimum_duration_us: float = 0.0, max_spans: int | None = None) -> int:
    """Create a span for each event, parents first, and return the number of omitted events.

    Parameters
    ----------
    tracer : opentelemetry.trace.Tracer
        The tracer that starts the spans.
    minimum_duration_us : float
        Shorter events are omitted; their children move to their parents.
    max_spans : int, optional
        Maximum number of spans; the longest events stay.
    """
    trace: Any = importlib.import_module("opentelemetry.trace")

    timed = [event for event in events if not event.instant]
    chosen = [event for event in timed if event.total_ns >= minimum_duration_us * 1000]
    if max_spans is not None and len(chosen) > max_spans:
        longest = set(sorted(chosen, key=lambda event: -event.total_ns)[:max_spans])
        chosen = [event for event in chosen if event in longest]
    forward = {second: first for first, second in events.links}
    spans: dict[FunctionEvent, Any] = {}
    moments: dict[FunctionEvent, list[FunctionEvent]] = {}
    for event in events:
        if event.instant and event.parent is not None:
            moments.setdefault(event.parent, []).append(event)
    for event in chosen:
        around = event.parent
        while around is not None and around not in spans:
            around = around.parent
        links = []
        if event in forward and forward[event] in spans:
            links.append(trace.Link(spans[forward[event]].get_span_context(), {"kind": "fwdbwd"}))
        span = tracer.start_span(
            event.name,
            context=trace.set_span_in_context(spans[around]) if around is not None else None,
            attributes=_attributes(event),
            links=links,
            start_time=events.wall_ns + event.start_ns,
        )
        for moment in moments.get(event, ()):
            span.add_event(moment.name, timestamp=events.wall_ns + moment.start_ns)
        if event.error is not None:
            span.set_status(trace.Status(trace.StatusCode.ERROR, event.error))
        spans[event] = span
    for event, span in reversed(list(spans.items())):
        span.end(end_time=events.wall_ns + event.end_ns)
    return len(timed) - len(chosen)


def _attributes(event: FunctionEvent) -> dict[str, Any]:
    found: dict[str, Any] = {
        "thread.id": event.thread,
        "thread.name": event.thread_name,
        "phonograd.scope": RecordScope(event.scope).name.lower(),
        "phonograd.self_ns": event.self_ns,
    }
    if event.operators:
        found["phonograd.core.ops"] = list(event.operators)
    if event.credit.kernel_ns:
        found["phonograd.kernel_ns"] = event.credit.kernel_ns
    for key, value in event.attributes.items():
        found[key] = value if isinstance(value, str | bool | int | float) else repr(value)
    return found
