"""Streaming statistics per name, without storing events. Memory use grows only with the number of names."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection

from ..core.events import Observer, Range, add_collector, current_thread_id, remove_collector
from .averages import Average, AverageList

__all__ = ["Aggregate", "Aggregation"]

#: adjacent histogram buckets differ by 5 %
_STEP = math.log(1.05)


class Aggregate(Average):
    """All events of one name. It stores only sums and a histogram, so percentiles are exact to 5 %."""

    __slots__ = ("_histogram", "_longest", "_more", "_shortest", "_squares", "_sum_ns")

    def __init__(self, key: str, scope: int) -> None:
        super().__init__(key, scope)
        self._histogram: dict[int, int] = {}
        self._shortest = 0
        self._longest = 0
        self._sum_ns = 0
        self._squares = 0.0
        self._more = dict.fromkeys(self._add_up(), 0.0)

    def count_event(self, source: Range, duration_ns: int, self_ns: int, outermost: bool) -> None:
        """Add one event to the statistics."""
        self._shortest = min(self._shortest, duration_ns) if self.count else duration_ns
        self._longest = max(self._longest, duration_ns)
        self.count += 1
        self._sum_ns += duration_ns
        self._squares += duration_ns * duration_ns
        self.self_ns += self_ns
        if outermost:
            self.total_ns += duration_ns
        bucket = int(math.log(duration_ns) / _STEP) if duration_ns else -1
        self._histogram[bucket] = self._histogram.get(bucket, 0) + 1
        self._more["flops"] += source.flops or 0.0
        self._more["bytes"] += source.moved_bytes or 0.0

    def _sum(self, name: str) -> float:
        return self._more[name]

    @property
    def cpu_time(self) -> float:
        """The mean duration."""
        return self._sum_ns / 1000 / self.count if self.count else 0.0

    @property
    def std(self) -> float:
        """The standard deviation of the durations."""
        mean = self.cpu_time
        return math.sqrt(max(self._squares / 1e6 / self.count - mean * mean, 0.0)) if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the duration that ``percent`` of the events do not exceed, exact to 5 %."""
        if not 0 <= percent <= 100:
            raise ValueError(f"percent must be between 0 and 100, not {percent}")
        if percent in (0, 100):
            return (self._longest if percent else self._shortest) / 1000
        place = (self.count - 1) * percent / 100
        seen = 0
        for bucket, count in sorted(self._histogram.items()):
            seen += count
            if seen > place:
                middle = math.exp((bucket + 0.5) * _STEP) if bucket >= 0 else 0.0
                return min(max(middle, self._shortest), self._longest) / 1000
        return 0.0


class Aggregation:
    """An observer that keeps an :class:`Aggregate` for each name."""

    def __init__(
        self, scopes: Collection[int] | None = None, all_threads: bool = True, sampling_probability: float = 1.0
    ) -> None:
        self._observer = Observer(
            self._on_begin, self._on_end, scopes=scopes, sampling_probability=sampling_probability
        )
        self._only = None if all_threads else current_thread_id()
        self._groups: dict[tuple[str, int], Aggregate] = {}
        self._inside: dict[Range, int] = {}
        self._lock = threading.Lock()
        self.events = 0
        """The number of events counted."""

    def start(self) -> None:
        """Start counting."""
        add_collector(self._observer)

    def stop(self) -> None:
        """Stop counting events that begin from now on."""
        remove_collector(self._observer)

    def pause(self, paused: bool) -> None:
        """Pause (True) or resume (False) counting of new events."""
        remove_collector(self._observer)
        if not paused:
            add_collector(self._observer)

    def _on_begin(self, source: Range) -> bool:
        if source.instant or self._only not in (None, source.thread_id):
            return False
        self._inside[source] = 0
        return True

    def _on_end(self, source: Range, counted: bool | None) -> None:
        if not counted:
            return
        duration = source.ran_ns(source.closing_ns)
        with self._lock:
            inside = self._inside.pop(source)
            key = "ProfilerStep*" if source.name.startswith("ProfilerStep#") else source.name
            outermost = True
            around = source.parent
            if around in self._inside:
                self._inside[around] += duration
            while around is not None and outermost:
                outermost = around.name != source.name or around.scope != source.scope
                around = around.parent
            group = self._groups.get((key, source.scope))
            if group is None:
                group = self._groups[key, source.scope] = Aggregate(key, source.scope)
            group.count_event(source, duration, max(duration - inside, 0), outermost)
            self.events += 1

    def averages(self) -> AverageList:
        """Return the statistics collected so far."""
        with self._lock:
            return AverageList(list(self._groups.values()))
