"""Memory timeline: bytes held over time by category, and the largest allocations.

The allocations of individual events are in their :class:`~phonograd.profiler.credit.Credit`.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..core.array.handle import Handle, buffer_of
from ..core.events import CATEGORIES, Range
from ..core.observe.allocations import Allocation, live_allocations, roles_of
from .events import EventList
from .tables import bytes_text, printable, text_table

__all__ = ["HeldMemory", "MemoryTimeline", "inventory", "live_objects"]


def inventory() -> list[Allocation]:
    """Return the allocations that arrays hold now, each with its category."""
    arrays = live_objects(Handle)
    roles = roles_of(arrays)
    held = [(buffer_of(array), roles.get(id(array), "input")) for array in arrays]
    known = [(buffer, role) for buffer, role in held if buffer is not None]
    return live_allocations(known)


def live_objects(kind: type[Any]) -> list[Any]:
    """Return all objects of a class and of classes derived from it."""
    tracked = gc.get_objects()
    kinds = {found for found in set(map(type, tracked)) if issubclass(found, kind)}
    return [found for found in tracked if type(found) in kinds]


class HeldMemory(NamedTuple):
    """An allocation that is held."""

    nbytes: int
    category: str
    since_ns: int
    """The time of the allocation since the profile began."""
    path: tuple[str, ...]
    """The names of the ranges around the allocation, outermost first."""
    stack: tuple[str, ...]
    """The call stack of the operator whose value it holds, innermost call first, if the profile recorded stacks. For
    memory that holds no operator's value, the call stack of the allocation."""
    value_of: tuple[str, ...] = ()
    """The names of the ranges around that call and of the operator itself."""


class MemoryTimeline:
    """Memory over time, by category.

    Memory held before the profile began counts from the beginning, as ``preexisting``. It consists of the memory of the
    arrays that existed then, and of memory freed later without a recorded allocation, so that no number is negative.
    With ``preexisting=False`` the timeline shows only memory allocated since.

    The category of an allocation may change later: an array becomes a parameter when a gradient is attached to it. The
    last known category applies to the whole lifetime.
    """

    def __init__(self, events: EventList, preexisting: bool = True) -> None:
        self._origin_ns = events.origin_ns
        self._moments = events.moments
        held_ns = [(time, found if preexisting else []) for time, found in events.held] or [(0, [])]
        finals, self._held = _categorize(held_ns, self._moments)
        taken = {identity for identity in [m.identity for m in self._moments if m.value > 0] if identity}
        own = self._moments if preexisting else [m for m in self._moments if m.value > 0 or m.identity in taken]
        self.preexisting = _preexisting(self._held[0], ((m, finals[m]) for m in own))
        """Bytes held before the profile began, by category."""
        named = {*self.preexisting, *finals.values(), *[c for found in self._held for _, _, c in found]}
        self.categories = [*[c for c in CATEGORIES if c in named], *sorted(named.difference(CATEGORIES))]
        self.times_ns: list[int] = [0]
        self.sizes: list[tuple[int, ...]] = []
        """For each time, the bytes held from then on, by category in the order of ``categories``."""
        places = {category: place for place, category in enumerate(self.categories)}
        held = [self.preexisting.get(category, 0) for category in self.categories]
        self.sizes.append(tuple(held))
        later = list(zip(held_ns[1:], self._held[1:], strict=True))
        for moment in own:
            time = moment.start_ns - self._origin_ns
            while preexisting and later and later[0][0][0] <= time:
                # allocations between two cycles were not recorded, but those held when the next one began are known
                (began, _), found = later.pop(0)
                held = [sum([size for _, size, c in found if c == category]) for category in self.categories]
                self.times_ns.append(began)
                self.sizes.append(tuple(held))
            if moment.value:
                place = places[finals[moment]]
                held[place] = max(held[place] + int(moment.value), 0)
                self.times_ns.append(time)
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
        """Return the bytes by category at one of the times; at the peak by default."""
        sizes = self.sizes[self._peak_index if index is None else index]
        return dict(zip(self.categories, sizes, strict=True))

    def largest(self, count: int = 10, at_end: bool = False) -> list[HeldMemory]:
        """Return the largest allocations held at the peak (or at the end), with their origin."""
        alive = {
            identity: HeldMemory(size, category, 0, ("(before the profile)",), ())
            for identity, size, category in self._held[0]
        }
        finals, _ = _categorize([(0, [])], self._moments)
        until = self._origin_ns + (self.times_ns[-1] if at_end else self.peak_ns)
        for number, moment in enumerate(self._moments):
            if moment.start_ns > until:
                break
            # an allocation without an identity gets a unique negative key
            if moment.value > 0:
                taken = moment.start_ns - self._origin_ns
                piece = HeldMemory(int(moment.value), finals[moment], taken, _path(moment), *_cause(moment))
                alive[moment.identity or -1 - number] = piece
            elif moment.value < 0:
                alive.pop(moment.identity, None)
        return sorted(alive.values(), key=lambda piece: -piece.nbytes)[:count]

    def as_dict(self) -> dict[str, Any]:
        """Return the timeline as a dictionary that JSON can hold."""
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
        """Return the peak by category and the largest allocations held at the peak."""
        rows = [[name, bytes_text(size)] for name, size in self.by_category().items()]
        lines = [f"Peak: {bytes_text(self.peak)} after {self.peak_ns / 1e6:.3f}ms", ""]
        lines += text_table(["Category", "At the peak"], rows)
        pieces = [
            [
                printable(" > ".join(piece.path)) or "(no scope)",
                printable(" > ".join(piece.value_of)),
                piece.category,
                bytes_text(piece.nbytes),
            ]
            for piece in self.largest(count)
        ]
        if pieces:
            lines += ["", *text_table(["Taken in", "Value of", "Category", "Size"], pieces)]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.table()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the table in IPython and notebooks."""
        printer.text(str(self))


def _cause(moment: Range) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the call stack and path of the operator whose value the memory holds."""
    (cause,) = moment.serves or ("",)
    if isinstance(cause, str):
        return moment.stack or (), ()
    return cause.stack or moment.stack or (), (*_path(cause), cause.name)


def _path(moment: Range) -> tuple[str, ...]:
    names: list[str] = []
    around = moment.parent
    while around is not None:
        names.append(around.name)
        around = around.parent
    return tuple(reversed(names))


def _categorize(
    held_ns: Sequence[tuple[int, list[Allocation]]], moments: Sequence[Range]
) -> tuple[dict[Range, str], list[list[Allocation]]]:
    """Return the category of each moment and of the allocations held at some times: the last known ones."""
    latest: dict[int, str] = {}
    finals: dict[Range, str] = {}
    for moment in reversed(moments):
        identity, category = moment.identity, moment.category
        if not identity or moment.value < 0:
            latest[identity] = finals[moment] = category
        else:
            finals[moment] = latest.setdefault(identity, category)
            if moment.value > 0:  # the identity is reused: the older allocation was another one
                del latest[identity]
    held = [[piece._replace(category=latest.get(piece.identity, piece.category)) for piece in h] for _, h in held_ns]
    return finals, held


def _preexisting(there: Iterable[Allocation], moments: Iterable[tuple[Range, str]]) -> dict[str, int]:
    """Return the bytes held before by category: at least as many as keep every category non-negative."""
    known: set[int] = set()
    held: dict[str, int] = {}
    before: dict[str, int] = {}
    for identity, size, category in there:
        known.add(identity)
        before[category] = held[category] = before.get(category, 0) + size
    for moment, category in moments:
        value = int(moment.value)
        if value > 0:
            known.add(moment.identity)
        elif value < 0 and moment.identity and moment.identity not in known:
            before[category] = before.get(category, 0) - value
            continue
        held[category] = held.get(category, 0) + value
        if held[category] < 0:
            before[category] = before.get(category, 0) - held[category]
            held[category] = 0
    return before
