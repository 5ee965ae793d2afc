"""Drawing: a graph as marks on a sheet, which :mod:`.svg` and :mod:`.pdf` write down.

Kernels are shown as coloured ground under their boxes and under the edges between them, so that the ground of a kernel
touches nothing that does not belong to it, wherever its boxes stand.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from .layout import Place, Point, Route, arrange
from .text import width

__all__ = ["Box", "Curve", "Drawing", "Edge", "Figure", "Group", "Label", "Outline", "draw"]

#: sizes of the letters in boxes, and beside edges and grounds
LETTERS = 12.0
SMALL_LETTERS = 10.0

_LINE = 15.0
_PADDING = 12.0
_SMALLEST = (70.0, 30.0)
_MARGIN = 24.0
_GROUND = 9.0
_ARROW = (3.5, 8.0)

#: where the label of an edge may stand, in parts of its last piece; the first that is free is taken
_LABEL_PLACES = (0.6, 0.45, 0.75, 0.3)

_INK = "#333333"
_EDGE = "#666666"


@dataclasses.dataclass(frozen=True)
class Box:
    """A node of the graph."""

    name: str
    """What edges and groups call it; unique."""
    label: str
    """What stands in it, in lines."""
    fill: str
    shape: str = "box"
    """``"box"`` or ``"oval"``."""
    title: str = ""
    """What is shown when one points at it."""


@dataclasses.dataclass(frozen=True)
class Edge:
    """A value that goes from one box to another."""

    source: str
    target: str
    label: str = ""
    dashed: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """Boxes that are computed together."""

    label: str
    members: tuple[str, ...]
    fill: str
    title: str = ""


# -- marks


@dataclasses.dataclass(frozen=True)
class Outline:
    """A rectangle or an ellipse, with its centre at a place."""

    place: Place
    shape: str
    fill: str
    line: str | None
    title: str = ""
    radius: float = 4.0
    lines: tuple[str, ...] = ()
    """Text in its middle."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """A smooth line through points, with vertical tangents; perhaps with a head at its end."""

    points: tuple[Point, ...]
    line: str
    thickness: float
    has_head: bool
    dashed: bool = False
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Label:
    """A line of small text; ``x`` is its left end, ``y`` its baseline."""

    x: float
    y: float
    text: str
    colour: str


Figure = Outline | Curve | Label


@dataclasses.dataclass(frozen=True)
class Drawing:
    """All marks, the lowest first, and the size of the sheet."""

    title: str
    width: float
    height: float
    figures: tuple[Figure, ...]


def draw(
    title: str, boxes: Sequence[Box], edges: Sequence[Edge], groups: Sequence[Group] = (), upward: bool = False
) -> Drawing:
    """Return the drawing of a graph."""
    numbers = {box.name: number for number, box in enumerate(boxes)}
    lines = list(dict.fromkeys([edge for edge in edges if edge.source in numbers and edge.target in numbers]))
    pairs = [(numbers[edge.source], numbers[edge.target]) for edge in lines]
    families = {numbers[name]: index for index, group in enumerate(groups) for name in group.members}
    places, routes, (across, down) = arrange([_size(box) for box in boxes], pairs, families, upward)
    for place in places:
        place.x, place.y = place.x + _MARGIN, place.y + _MARGIN
    routes = [Route(tuple([(x + _MARGIN, y + _MARGIN) for x, y in route.points])) for route in routes]
    figures: list[Figure] = []
    for index, group in enumerate(groups):
        inner = [route for route, pair in zip(routes, pairs) if {families.get(n) for n in pair} == {index}]
        figures += _ground(group, [places[numbers[name]] for name in group.members], inner)
    figures += [Curve(route.points, _EDGE, 1.2, True, edge.dashed) for edge, route in zip(lines, routes)]
    for box, place in zip(boxes, places):
        figures.append(Outline(place, box.shape, box.fill, _INK, box.title, lines=tuple(box.label.split("\n"))))
    names = [_name(group, [places[numbers[name]] for name in group.members]) for group in groups]
    figures += [*names, *_labels(lines, routes, names)]
    ends = [label.x + width(label.text, SMALL_LETTERS) for label in figures if isinstance(label, Label)]
    return Drawing(title, max([across + _MARGIN, *ends]) + _MARGIN, down + 2 * _MARGIN, tuple(figures))


def _size(box: Box) -> Point:
    lines = box.label.split("\n")
    across = max([width(line, LETTERS) for line in lines]) + 2 * _PADDING
    down = len(lines) * _LINE + _PADDING
    if box.shape == "oval":
        across, down = across * 1.15, down * 1.15
    return max(across, _SMALLEST[0]), max(down, _SMALLEST[1])


def _ground(group: Group, places: Sequence[Place], routes: Sequence[Route]) -> list[Figure]:
    """Return the coloured ground of a group."""
    figures: list[Figure] = [Curve(route.points, group.fill, 2 * _GROUND, False) for route in routes]
    for place in places:
        larger = Place(place.x, place.y, place.width + 2 * _GROUND, place.height + 2 * _GROUND)
        figures.append(Outline(larger, "box", group.fill, None, group.title, radius=_GROUND))
    return figures


def _name(group: Group, places: Sequence[Place]) -> Label:
    """Return the name of a group, over its first box."""
    first = min(places, key=lambda place: (place.y, place.x))
    y = first.y - first.height / 2 - _GROUND - 2
    return Label(first.x - first.width / 2 - _GROUND + 2, y, group.label, _INK)


def _labels(edges: Sequence[Edge], routes: Sequence[Route], taken: Sequence[Label]) -> list[Label]:
    """Return the labels of edges, where possible clear of each other and of those that are there already."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for label in taken:
        _claim(rows, label)
    labels = []
    for edge, route in zip(edges, routes):
        if edge.label:
            places = [_on_curve(route.points[-2], route.points[-1], part) for part in _LABEL_PLACES]
            tried = [Label(x + 4, y + SMALL_LETTERS / 3, edge.label, _EDGE) for x, y in places]
            chosen = next((label for label in tried if _is_clear(rows, label)), tried[0])
            _claim(rows, chosen)
            labels.append(chosen)
    return labels


def _extent(label: Label) -> tuple[range, float, float]:
    """Return the rows of a few points' height that a label covers, and its two ends."""
    rows = range(int((label.y - SMALL_LETTERS) // 4), int(label.y // 4) + 1)
    return rows, label.x, label.x + width(label.text, SMALL_LETTERS)


def _claim(rows: dict[int, list[tuple[float, float]]], label: Label) -> None:
    covered, left, right = _extent(label)
    for row in covered:
        rows.setdefault(row, []).append((left, right))


def _is_clear(rows: dict[int, list[tuple[float, float]]], label: Label) -> bool:
    covered, left, right = _extent(label)
    return not any([start < right and left < end for row in covered for start, end in rows.get(row, ())])


def _on_curve(start: Point, end: Point, part: float) -> Point:
    """Return the point of a smooth line after a part of it."""
    points = (start, *control_points([start, end])[0])
    rest = 1 - part
    weights = (rest**3, 3 * rest**2 * part, 3 * rest * part**2, part**3)
    return (
        sum([weight * x for weight, (x, _) in zip(weights, points)]),
        sum([weight * y for weight, (_, y) in zip(weights, points)]),
    )


def control_points(points: Sequence[Point]) -> list[tuple[Point, Point, Point]]:
    """Return the two control points and the end of each piece of a smooth line."""
    pieces = []
    for (x, y), (end_x, end_y) in itertools.pairwise(points):
        middle = (y + end_y) / 2
        pieces.append(((x, middle), (end_x, middle), (end_x, end_y)))
    return pieces


def arrow_head(points: Sequence[Point]) -> tuple[Point, Point, Point]:
    """Return the corners of the head at the end of a line, which arrives vertically."""
    x, y = points[-1]
    down = 1.0 if y >= points[-2][1] else -1.0
    half, long = _ARROW
    return (x, y), (x - half, y - down * long), (x + half, y - down * long)
