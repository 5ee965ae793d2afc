"""SVG: drawings for browsers and notebooks."""

from __future__ import annotations

from html import escape

from .drawing import LETTERS, Curve, Drawing, Figure, Outline, arrow_head
from .labels import SMALL_LETTERS, Label, control_points
from .text import FONT

__all__ = ["svg_of"]

#: distance from the middle of a line of text to its baseline, as a fraction of the font size
_BASELINE = 0.35
_LINE = 1.25


def svg_of(drawing: Drawing) -> str:
    """Return a drawing as SVG in its full size; readers scroll and zoom."""
    wide, high = _number(drawing.width), _number(drawing.height)
    body = "\n".join([_figure(figure) for figure in drawing.figures])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'font-family="{FONT}" font-size="{_number(LETTERS)}">\n'
        f"<title>{_escape(drawing.title)}</title>\n"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _escape(text: str) -> str:
    """Return a text escaped for XML, without characters that XML does not allow."""
    allowed = "".join([letter if letter >= " " or letter in "\n\t" else "\ufffd" for letter in text])
    return escape(allowed.encode("utf-8", "replace").decode("utf-8"))


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _figure(figure: Figure) -> str:
    if isinstance(figure, Outline):
        return _outline(figure)
    if isinstance(figure, Curve):
        return _curve(figure)
    return _label(figure)


def _outline(figure: Outline) -> str:
    place = figure.place
    line = "none" if figure.line is None else figure.line
    style = f'fill="{_escape(figure.fill)}" stroke="{line}"'
    if figure.shape == "oval":
        middle = f'cx="{_number(place.x)}" cy="{_number(place.y)}"'
        shape = f'<ellipse {middle} rx="{_number(place.width / 2)}" ry="{_number(place.height / 2)}" {style}/>'
    else:
        corner = f'x="{_number(place.x - place.width / 2)}" y="{_number(place.y - place.height / 2)}"'
        size = f'width="{_number(place.width)}" height="{_number(place.height)}" rx="{_number(figure.radius)}"'
        shape = f"<rect {corner} {size} {style}/>"
    step = LETTERS * _LINE
    first = place.y - step * (len(figure.lines) - 1) / 2 + LETTERS * _BASELINE
    texts = [
        f'<text x="{_number(place.x)}" y="{_number(first + step * index)}" text-anchor="middle">{_escape(line)}</text>'
        for index, line in enumerate(figure.lines)
    ]
    title = f"<title>{_escape(figure.title)}</title>" if figure.title else ""
    return f"<g>{title}{shape}{''.join(texts)}</g>"


def _curve(figure: Curve) -> str:
    pieces = [f"M{_pair(figure.points[0])}"]
    for piece in control_points(figure.points):
        first, second, end = piece
        is_straight = _number(first[0]) == _number(second[0])
        pieces.append(f"V{_number(end[1])}" if is_straight else f"C{' '.join([_pair(point) for point in piece])}")
    dashes = ' stroke-dasharray="5 3"' if figure.dashed else ""
    round_ends = "" if figure.has_head else ' stroke-linecap="round"'
    path = (
        f'<path d="{"".join(pieces)}" fill="none" stroke="{_escape(figure.line)}" '
        f'stroke-width="{_number(figure.thickness)}"{dashes}{round_ends}/>'
    )
    if not figure.has_head:
        return path
    corners = " ".join([_pair(point) for point in arrow_head(figure.points)])
    return f'{path}<polygon points="{corners}" fill="{_escape(figure.line)}"/>'


def _label(figure: Label) -> str:
    return (
        f'<text x="{_number(figure.x)}" y="{_number(figure.y)}" fill="{_escape(figure.color)}" '
        f'font-size="{_number(SMALL_LETTERS)}" stroke="#ffffff" stroke-width="3" paint-order="stroke">'
        f"{_escape(figure.text)}</text>"
    )


def _pair(point: tuple[float, float]) -> str:
    return f"{_number(point[0])},{_number(point[1])}"
