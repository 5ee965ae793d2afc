"""PDF: drawings for print. One page of the drawing's size, with a standard font."""

from __future__ import annotations

import zlib

from .drawing import LETTERS, Curve, Drawing, Figure, Outline, arrow_head
from .graph_layout import Point
from .labels import SMALL_LETTERS, control_points
from .text import width

__all__ = ["pdf_of"]

#: maximum page size that readers must support; a larger drawing is scaled down
_LARGEST = 14_400.0

#: distance of the control points of a quarter ellipse from its ends, as a fraction of the radius
_ROUND = 0.5523

_LINE = 1.25
_BASELINE = 0.35


def pdf_of(drawing: Drawing) -> bytes:
    """Return a drawing as a PDF file."""
    scale = min(1.0, _LARGEST / max(drawing.width, drawing.height, 1.0))
    # the origin of PDF is at the lower edge
    commands = [f"{scale:.5f} 0 0 {-scale:.5f} 0 {drawing.height * scale:.2f} cm"]
    for figure in drawing.figures:
        commands += _figure(figure)
    content = zlib.compress("\n".join(commands).encode("ascii"))
    box = f"[0 0 {drawing.width * scale:.2f} {drawing.height * scale:.2f}]"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Contents 4 0 R "
        "/Resources << /Font << /F 5 0 R >> >> >>".encode(),
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(content) + content + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    return _file(objects)


def _file(objects: list[bytes]) -> bytes:
    parts = [b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"]
    places, length = [], len(parts[0])
    for number, content in enumerate(objects, 1):
        places.append(length)
        parts.append(b"%d 0 obj\n" % number + content + b"\nendobj\n")
        length += len(parts[-1])
    rows = b"".join([b"%010d 00000 n \n" % place for place in places])
    count = len(objects) + 1
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % count + rows)
    parts.append(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, length))
    return b"".join(parts)


def _figure(figure: Figure) -> list[str]:
    if isinstance(figure, Outline):
        return _outline(figure)
    if isinstance(figure, Curve):
        return _curve(figure)
    return _text(figure.x, figure.y, figure.text, SMALL_LETTERS, figure.color)


def _color(name: str, command: str) -> str:
    """Return the command that selects a color; named colors become gray."""
    digits = name[1:]
    if not (name.startswith("#") and len(digits) == 6 and set(digits.lower()) <= set("0123456789abcdef")):
        digits = "cccccc"
    parts = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    return " ".join([f"{part:.3f}" for part in parts]) + f" {command}"


def _pair(point: Point) -> str:
    return f"{point[0]:.2f} {point[1]:.2f}"


def _outline(figure: Outline) -> list[str]:
    place = figure.place
    half_x, half_y = place.width / 2, place.height / 2
    radius = (half_x, half_y) if figure.shape == "oval" else (figure.radius, figure.radius)
    commands = [_color(figure.fill, "rg")]
    if figure.line is not None:
        commands += [_color(figure.line, "RG"), "1 w"]
    commands += _rounded_rectangle(place.x, place.y, half_x, half_y, radius)
    commands.append("f" if figure.line is None else "b")
    step = LETTERS * _LINE
    first = place.y - step * (len(figure.lines) - 1) / 2 + LETTERS * _BASELINE
    for index, line in enumerate(figure.lines):
        commands += _text(place.x - width(line, LETTERS) / 2, first + step * index, line, LETTERS, "#000000")
    return commands


def _rounded_rectangle(x: float, y: float, half_x: float, half_y: float, radius: Point) -> list[str]:
    """Return the path of a rectangle with rounded corners."""
    across, down = radius
    inner_x, inner_y = half_x - across, half_y - down
    commands = [f"{_pair((x - inner_x, y - half_y))} m"]
    for sign_x, sign_y, turned in ((1, -1, False), (1, 1, True), (-1, 1, False), (-1, -1, True)):
        flat = (x + sign_x * inner_x, y + sign_y * half_y)
        steep = (x + sign_x * half_x, y + sign_y * inner_y)
        flat_control = (x + sign_x * (inner_x + across * _ROUND), flat[1])
        steep_control = (steep[0], y + sign_y * (inner_y + down * _ROUND))
        if turned:
            start, first, second, end = steep, steep_control, flat_control, flat
        else:
            start, first, second, end = flat, flat_control, steep_control, steep
        commands += [f"{_pair(start)} l", f"{_pair(first)} {_pair(second)} {_pair(end)} c"]
    return [*commands, "h"]


def _curve(figure: Curve) -> list[str]:
    commands = ["q", _color(figure.line, "RG"), f"{figure.thickness:.2f} w {0 if figure.has_head else 1} J"]
    if figure.dashed:
        commands.append("[5 3] 0 d")
    commands.append(f"{_pair(figure.points[0])} m")
    commands += [" ".join([_pair(point) for point in piece]) + " c" for piece in control_points(figure.points)]
    commands += ["S", "Q"]
    if figure.has_head:
        tip, left, right = arrow_head(figure.points)
        commands += [_color(figure.line, "rg"), f"{_pair(tip)} m {_pair(left)} l {_pair(right)} l f"]
    return commands


def _text(x: float, y: float, text: str, size: float, color: str) -> list[str]:
    # the page is flipped, so letters are flipped back
    letters = text.encode("cp1252", "replace").hex()
    return [_color(color, "rg"), f"BT /F {size:.1f} Tf 1 0 0 -1 {_pair((x, y))} Tm <{letters}> Tj ET"]
