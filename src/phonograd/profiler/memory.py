"""Memory: how much was held at each moment, by category, and which pieces were the largest.

What individual events took and gave back is in their :class:`~phonograd.profiler.credit.Credit`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..observers import CATEGORIES, Range
from .events import EventList
from .tables import bytes_text, printable, text_table

__all__ = ["HeldMemory", "MemoryTimeline"]


class HeldMemory(NamedTuple):
    """A piece of memory that is held."""

    nbytes: int
    category: str
    since_ns: int
    """When it was taken, since the profile began."""
    path: tuple[str, ...]
    """The names of the ranges inside of which it was taken, outermost first."""
    stack: tuple[str, ...]
    """Where the user's code was then, innermost call first, if the profile recorded stacks."""


class MemoryTimeline:
    """Memory over time.

    Memory that is given back without having been taken was there before: it counts from the beginning, as
    ``preexisting``, so that no number is negative.
    """

    def __init__(self, events: EventList) -> None:
        self._origin_ns = events.origin_ns
        self._moments = events.moments
        self.preexisting = _preexisting(self._moments)
        """Bytes that were there before the profile began and were given back, by category."""
        found = {moment.category for moment in self._moments}
        self.categories = [*[c for c in CATEGORIES if c in found], *sorted(found.difference(CATEGORIES))]
        self.times_ns: list[int] = [0]
        self.sizes: list[tuple[int, ...]] = []
        """For each time, the bytes held from then on, by category in the order of ``categories``."""
        places = {category: place for place, category in enumerate(self.categories)}
        held = [self.preexisting.get(category, 0) for category in self.categories]
        self.sizes.append(tuple(held))
        for moment in self._moments:
            held[places[moment.category]] += int(moment.value)
            self.times_ns.append(moment.start_ns - self._origin_ns)
            self.sizes.append(tuple(held))
        totals = [sum(sizes) for sizes in self.sizes]
        self.peak = max(totals)
        """The most bytes held at once."""
        self._peak_index = totals.index(self.peak)
        self.peak_ns = self.times_ns[self._peak_index]
        self.end = totals[-1]
        """Bytes held at the end."""

    def __len__(self) -> int:
        return len(self.times_ns)

    def by_category(self, index: int | None = None) -> dict[str, int]:
        """Return the bytes by category at one of the times; at the peak if none is given."""
        sizes = self.sizes[self._peak_index if index is None else index]
        return dict(zip(self.categories, sizes, strict=True))

    def largest(self, count: int = 10, at_end: bool = False) -> list[HeldMemory]:
        """Return the largest pieces held at the peak (or at the end), with where they were taken."""
        alive: dict[int, Range] = {}
        until = len(self._moments) if at_end else self._peak_index
        for number, moment in enumerate(self._moments[:until]):
            # without an identity, a piece is known only by its number
            if moment.value > 0:
                alive[moment.identity or -1 - number] = moment
            else:
                alive.pop(moment.identity, None)
        chosen = sorted(alive.values(), key=lambda moment: -moment.value)[:count]
        return [
            HeldMemory(int(m.value), m.category, m.start_ns - self._origin_ns, _path(m), m.stack or ()) for m in chosen
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "unit": {"time": "ns", "size": "bytes"},
            "categories": self.categories,
            "times": self.times_ns,
            "sizes": [list(sizes) for sizes in self.sizes],
            "peak": {"time": self.peak_ns, "size": self.peak, "categories": self.by_category()},
            "preexisting": self.preexisting,
        }

    def to_json(self) -> str:
        """Return the timeline as JSON."""
        return json.dumps(self.as_dict())

    def to_csv(self) -> str:
        """Return the timeline as comma-separated values: time in nanoseconds, bytes of each category."""
        lines = [",".join(["time_ns", *self.categories])]
        lines += [",".join(map(str, (time, *sizes))) for time, sizes in zip(self.times_ns, self.sizes, strict=True)]
        return "\n".join(lines) + "\n"

    def table(self, count: int = 10) -> str:
        """Return the peak by category and the largest pieces held then."""
        rows = [[name, bytes_text(size)] for name, size in self.by_category().items()]
        lines = [f"Peak: {bytes_text(self.peak)} after {self.peak_ns / 1e6:.3f}ms", ""]
        lines += text_table(["Category", "At the peak"], rows)
        pieces = [
            [printable(" > ".join(piece.path)) or "(no scope)", piece.category, bytes_text(piece.nbytes)]
            for piece in self.largest(count)
        ]
        if pieces:
            lines += ["", *text_table(["Taken in", "Category", "Size"], pieces)]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.table()


def _path(moment: Range) -> tuple[str, ...]:
    names: list[str] = []
    around = moment.parent
    while around is not None:
        names.append(around.name)
        around = around.parent
    return tuple(reversed(names))


def _preexisting(moments: Iterable[Range]) -> dict[str, int]:
    """Return what must have been there before for no category ever to be negative."""
    known: set[int] = set()
    held: dict[str, int] = {}
    before: dict[str, int] = {}
    for moment in moments:
        category, value = moment.category, int(moment.value)
        if value > 0:
            known.add(moment.identity)
        elif moment.identity and moment.identity not in known:
            before[category] = before.get(category, 0) - value
            continue
        held[category] = held.get(category, 0) + value
        if held[category] < 0:
            before[category] = before.get(category, 0) - held[category]
            held[category] = 0
    return before
