"""Folded stacks: one line per call path with its own weight, the input of flame graph tools."""

from __future__ import annotations

from collections.abc import Callable

from ..core.base.errors import nearest
from .events import EventList, FunctionEvent

__all__ = ["METRICS", "folded_stacks"]

#: the metrics that can weigh lines
METRICS: dict[str, Callable[[FunctionEvent], float]] = {
    "self_cpu_time_total": lambda event: event.self_ns / 1000,
    "self_ns": lambda event: event.self_ns,
    "self_kernel_ns": lambda event: event.credit.self_kernel_ns,
    "self_cpu_memory_usage": lambda event: max(event.credit.self_net, 0),
    "count": lambda event: 1,
}

_FORBIDDEN = str.maketrans({";": "_", "\n": "_", "\r": "_", "\t": "_", " ": "_"})


def folded_stacks(events: EventList, metric: str = "self_ns") -> str:
    """Return lines ``outer;inner weight``, heaviest first.

    A path consists of scopes and operators. If the profile recorded stacks, function calls come before them.

    Parameters
    ----------
    metric : {"self_ns", "self_cpu_time_total", "self_kernel_ns", "self_cpu_memory_usage", "count"}
        The weight: nanoseconds, microseconds, nanoseconds of kernels caused, bytes, or calls.
    """
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, not {metric!r}{nearest(metric, list(METRICS))}")
    weigh = METRICS[metric]
    weights: dict[tuple[str, ...], float] = {}
    for event in events:
        if not event.range.instant:
            weight = weigh(event)
            if weight:
                frames = frames_of(event)
                weights[frames] = weights.get(frames, 0) + weight
    lines: dict[str, int] = {}
    for frames, weight in weights.items():
        line = ";".join([frame.translate(_FORBIDDEN) or "_" for frame in frames])
        lines[line] = lines.get(line, 0) + round(weight)
    ordered = sorted(lines.items(), key=lambda entry: (-entry[1], entry[0]))
    return "".join([f"{line} {weight}\n" for line, weight in ordered if weight])


def frames_of(event: FunctionEvent) -> tuple[str, ...]:
    """Return the path of an event, outermost first, with the function calls that led to it."""
    if event.range.stack is not None:
        return (*reversed(event.range.stack), event.key)
    return event.path
