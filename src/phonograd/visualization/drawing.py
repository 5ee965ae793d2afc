"""Drawing: a graph as shapes on a sheet, for :mod:`.svg` and :mod:`.pdf`.

A kernel is a colored background under its boxes and the edges between them. It therefore touches nothing that belongs
to another kernel, wherever its boxes are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .graph_layout import BoxPosition, Point, Route, arrange
from .labels import Label, Sheet
from .text import room

__all__ = ["Box", "Curve", "Drawing", "Edge", "Figure", "Group", "Label", "Outline", "draw"]

#: font size in boxes
LETTERS = 12.0

_LINE = 15.0
_PADDING = 12.0
_SMALLEST = (70.0, 30.0)
_MARGIN = 24.0
_GROUND = 9.0
_ARROW = (3.5, 8.0)

_INK = "#333333"
_EDGE = "#666666"


@dataclasses.dataclass(frozen=True)
class Box:
    """A node of the graph."""

    name: str
    """Its unique name, which edges and groups refer to."""
    label: str
    """Its text, in lines."""
    fill: str
    shape: str = "box"
    """``"box"`` or ``"oval"``."""
    title: str = ""
    """The tooltip."""


@dataclasses.dataclass(frozen=True)
class Edge:
    """A value that flows from one box to another."""

    source: str
    target: str
    label: str = ""
    dashed: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """Boxes that one kernel computes."""

    label: str
    members: tuple[str, ...]
    fill: str
    title: str = ""


# -- marks


@dataclasses.dataclass(frozen=True)
class Outline:
    """A rectangle or an ellipse around a center."""

    place: BoxPosition
    shape: str
    fill: str
    line: str | None
    title: str = ""
    radius: float = 4.0
    lines: tuple[str, ...] = ()
    """The text in its center."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """A smooth line through points, with vertical tangents; optionally with an arrow head."""

    points: tuple[Point, ...]
    line: str
    thickness: float
    has_head: bool
    dashed: bool = False
    title: str = ""


Figure = Outline | Curve | Label


@dataclasses.dataclass(frozen=True)
class Drawing:
    """All shapes, bottom first, and the size of the sheet."""

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
    sheet = Sheet(places, routes)
    for number, (edge, route) in enumerate(zip(lines, routes)):
        if edge.label:
            figures.append(sheet.label_edge(number, route, edge.label, _EDGE))
    for group in groups:
        figures.append(sheet.label_group([places[numbers[name]] for name in group.members], _GROUND, group.label, _INK))
    ends = [figure.extent()[2] for figure in figures if isinstance(figure, Label)]
    return Drawing(title, max([across + _MARGIN, *ends]) + _MARGIN, down + 2 * _MARGIN, tuple(figures))


def _size(box: Box) -> Point:
    lines = box.label.split("\n")
    across = max([room(line, LETTERS) for line in lines]) + 2 * _PADDING
    down = len(lines) * _LINE + _PADDING
    if box.shape == "oval":
        across, down = across * 1.15, down * 1.15
    return max(across, _SMALLEST[0]), max(down, _SMALLEST[1])


def _ground(group: Group, places: Sequence[BoxPosition], routes: Sequence[Route]) -> list[Figure]:
    """Return the colored background of a group."""
    figures: list[Figure] = [Curve(route.points, group.fill, 2 * _GROUND, False) for route in routes]
    for place in places:
        larger = BoxPosition(place.x, place.y, place.width + 2 * _GROUND, place.height + 2 * _GROUND)
        figures.append(Outline(larger, "box", group.fill, None, group.title, radius=_GROUND))
    return figures


def arrow_head(points: Sequence[Point]) -> tuple[Point, Point, Point]:
    """Return the corners of the arrow head of a line that arrives vertically."""
    x, y = points[-1]
    down = 1.0 if y >= points[-2][1] else -1.0
    half, long = _ARROW
    return (x, y), (x - half, y - down * long), (x + half, y - down * long)
