"""Labels: place the names of kernels and the shapes on edges, clear of boxes, edges and other labels.

Each label has a few candidate positions. It takes the first one that overlaps nothing, or the one that overlaps least.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from .graph_layout import BoxPosition, Point, Route
from .text import room

__all__ = ["SMALL_LETTERS", "Label", "Sheet", "control_points"]

SMALL_LETTERS = 10.0

#: candidate positions of an edge's label, as fractions of a segment
_PARTS = (0.55, 0.45, 0.65, 0.35, 0.75, 0.25)

#: distance of a label from its edge
_ASIDE = 4.0

#: height of the strips that index shapes
_STRIP = 32.0

#: points of each edge segment that labels avoid; with more segments than the maximum, none
_POINTS = 9
_MOST_PIECES = 4_000

Rectangle = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class Label:
    """A line of small text; ``x`` is its left end, ``y`` its baseline."""

    x: float
    y: float
    text: str
    color: str

    def extent(self) -> Rectangle:
        """Return the left, top, right and bottom of its area."""
        return self.x, self.y - 0.8 * SMALL_LETTERS, self.x + room(self.text, SMALL_LETTERS), self.y + 2.0


def control_points(points: Sequence[Point]) -> list[tuple[Point, Point, Point]]:
    """Return the two control points and the end of each segment of a smooth line."""
    pieces = []
    for (x, y), (end_x, end_y) in itertools.pairwise(points):
        middle = (y + end_y) / 2
        pieces.append(((x, middle), (end_x, middle), (end_x, end_y)))
    return pieces


def on_curve(start: Point, end: Point, part: float) -> Point:
    """Return the point at a fraction of a smooth line."""
    points = (start, *control_points([start, end])[0])
    rest = 1 - part
    weights = (rest**3, 3 * rest**2 * part, 3 * rest * part**2, part**3)
    return (
        sum([weight * x for weight, (x, _) in zip(weights, points)]),
        sum([weight * y for weight, (_, y) in zip(weights, points)]),
    )


def _strips(top: float, bottom: float) -> range:
    return range(int(top // _STRIP), int(bottom // _STRIP) + 1)


class Sheet:
    """The occupied areas of a sheet: boxes, edges and labels."""

    def __init__(self, places: Sequence[BoxPosition], routes: Sequence[Route]) -> None:
        self._areas: dict[int, list[Rectangle]] = {}
        self._points: dict[int, list[tuple[float, float, int]]] = {}
        for place in places:
            half, high = place.width / 2, place.height / 2
            self._claim((place.x - half, place.y - high, place.x + half, place.y + high))
        if sum([len(route.points) for route in routes]) <= _MOST_PIECES:
            for number, route in enumerate(routes):
                for start, end in itertools.pairwise(route.points):
                    for step in range(_POINTS + 1):
                        x, y = on_curve(start, end, step / _POINTS)
                        self._points.setdefault(int(y // _STRIP), []).append((x, y, number))

    def _claim(self, area: Rectangle) -> None:
        for strip in _strips(area[1], area[3]):
            self._areas.setdefault(strip, []).append(area)

    def _touches(self, area: Rectangle, own: int) -> tuple[float, int]:
        """Return the covered part of an area, and the number of points of other edges in it."""
        left, top, right, bottom = area
        covered, crossed = 0.0, 0
        seen: set[Rectangle] = set()
        for strip in _strips(top, bottom):
            for other in self._areas.get(strip, ()):
                if other not in seen:
                    seen.add(other)
                    across = min(right, other[2]) - max(left, other[0])
                    down = min(bottom, other[3]) - max(top, other[1])
                    covered += max(across, 0.0) * max(down, 0.0)
            for x, y, number in self._points.get(strip, ()):
                crossed += number != own and left <= x <= right and top <= y <= bottom
        return covered, crossed

    def _put(self, places: Iterator[Label], own: int) -> Label:
        best: tuple[tuple[float, int], Label] | None = None
        for label in places:
            touched = self._touches(label.extent(), own)
            if best is None or touched < best[0]:
                best = touched, label
            if touched == (0.0, 0):
                break
        assert best is not None
        self._claim(best[1].extent())
        return best[1]

    def label_edge(self, number: int, route: Route, text: str, color: str) -> Label:
        """Return the label of an edge, near its end or its beginning."""
        pieces = list(itertools.pairwise(route.points))
        across = room(text, SMALL_LETTERS)

        def places() -> Iterator[Label]:
            for start, end in (pieces[-1], pieces[0]) if len(pieces) > 1 else pieces:
                for part in _PARTS:
                    x, y = on_curve(start, end, part)
                    for left in (x + _ASIDE, x - _ASIDE - across):
                        if left >= 0:
                            yield Label(left, y + SMALL_LETTERS / 3, text, color)

        return self._put(places(), number)

    def label_group(self, members: Sequence[BoxPosition], distance: float, text: str, color: str) -> Label:
        """Return the name of a group, at a corner of one of its first boxes."""
        across = room(text, SMALL_LETTERS)

        def places() -> Iterator[Label]:
            for place in sorted(members, key=lambda place: (place.y, place.x))[:4]:
                left, right = place.x - place.width / 2 - distance, place.x + place.width / 2 + distance
                above = place.y - place.height / 2 - distance - 3
                below = place.y + place.height / 2 + distance + SMALL_LETTERS
                for y in (above, below):
                    for x in (left + 2, right - across - 2):
                        if x >= 0:
                            yield Label(x, y, text, color)
                yield Label(right + 3, place.y + SMALL_LETTERS / 3, text, color)

        return self._put(places(), -1)
