"""Picture: what drawing a graph returns. Shown by notebooks, written to files, with its DOT text.

It has the methods of ``graphviz.Digraph`` that users of MXNet call, and needs no program: SVG and PDF are drawn here.
"""

from __future__ import annotations

import functools
import os
import pathlib
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence

from ..core.base.errors import nearest
from ..core.base.files import write_atomically
from .dot import dot_of
from .drawing import Box, Drawing, Edge, Group, draw
from .pdf import pdf_of
from .svg import svg_of

__all__ = ["Picture"]

_FORMATS = ("svg", "pdf", "dot", "gv")


class Picture:
    """A graph that can be looked at.

    >>> picture = Picture("two", [Box("a", "a", "#ffffff"), Box("b", "b", "#ffffff")], [Edge("a", "b", "3")])
    >>> picture
    <Picture two: 2 boxes, 1 edge>
    >>> picture.pipe("svg")[:4]
    b'<svg'
    """

    def __init__(
        self,
        name: str,
        boxes: Sequence[Box],
        edges: Sequence[Edge],
        groups: Sequence[Group] = (),
        *,
        format: str = "svg",  # noqa: A002 - graphviz's name
        node_attributes: Mapping[str, Mapping[str, str]] | None = None,
        upward: bool = False,
    ) -> None:
        self.name = name
        self.format = _checked(format)
        self.boxes = tuple(boxes)
        self.edges = tuple(edges)
        self.groups = tuple(groups)
        self._node_attributes = node_attributes or {}
        self._upward = upward

    def __repr__(self) -> str:
        edges = "1 edge" if len(self.edges) == 1 else f"{len(self.edges)} edges"
        boxes = "1 box" if len(self.boxes) == 1 else f"{len(self.boxes)} boxes"
        return f"<Picture {self.name}: {boxes}, {edges}>"

    @property
    def filename(self) -> str:
        """The name of the DOT file, where none is given."""
        return f"{self.name}.gv"

    @property
    def source(self) -> str:
        """The graph as DOT text."""
        return dot_of(self.name, self.boxes, self.edges, self.groups, self._node_attributes, self._upward)

    def __str__(self) -> str:
        return self.source

    @functools.cached_property
    def drawing(self) -> Drawing:
        """The marks that the picture consists of."""
        return draw(self.name, self.boxes, self.edges, self.groups, self._upward)

    def pipe(self, format: str | None = None) -> bytes:  # noqa: A002 - graphviz's name
        """Return the picture as the contents of a file: ``"svg"``, ``"pdf"``, or ``"dot"`` for the text."""
        chosen = self.format if format is None else _checked(format)
        if chosen == "svg":
            return svg_of(self.drawing).encode()
        return pdf_of(self.drawing) if chosen == "pdf" else self.source.encode()

    def save(self, filename: str | os.PathLike[str] | None = None, directory: str | os.PathLike[str] = "") -> str:
        """Write the DOT text to a file and return its path."""
        return self._written(os.path.join(directory, filename or self.filename), self.source.encode())

    def render(
        self,
        filename: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] = "",
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,  # noqa: A002 - graphviz's name
    ) -> str:
        """Write the picture to a file and return its path: the given one with the format appended.

        Parameters
        ----------
        filename, directory
            Where the DOT text goes; by default ``<title>.gv``. The picture stands beside it.
        view
            Whether to show the picture too.
        cleanup
            Whether to leave the DOT text out.
        format
            ``"svg"``, ``"pdf"``, or ``"dot"``; by default that of the picture.
        """
        chosen = self.format if format is None else _checked(format)
        path = os.path.join(directory, filename or self.filename)
        rendered = self._written(f"{path}.{chosen}", self.pipe(chosen))
        if not cleanup:
            self._written(path, self.source.encode())
        if view:
            webbrowser.open(pathlib.Path(rendered).absolute().as_uri())
        return rendered

    def view(
        self,
        filename: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        cleanup: bool = False,
    ) -> str:
        """Write the picture to a file, show it, and return its path; without a name, to a temporary directory."""
        if directory is None:
            directory = tempfile.mkdtemp(prefix="phonograd-") if filename is None else ""
        return self.render(filename, directory, view=True, cleanup=cleanup)

    def _written(self, path: str, content: bytes) -> str:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        write_atomically(path, [content])
        return path

    def _repr_svg_(self) -> str:
        return svg_of(self.drawing)

    def _repr_html_(self) -> str:
        """Return the picture in a frame that scrolls, as notebooks show it."""
        style = "overflow: auto; max-height: 48em; border: 1px solid #dddddd; resize: vertical"
        return f'<div style="{style}">{self._repr_svg_()}</div>'


def _checked(name: str) -> str:
    lower = str(name).lower()
    if lower not in _FORMATS:
        raise ValueError(
            f"a picture cannot be written as {name!r}{nearest(lower, list(_FORMATS))}; formats are "
            f"{', '.join(_FORMATS)}. Graphviz makes others of the DOT text (picture.source)."
        )
    return lower
