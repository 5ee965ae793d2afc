"""Picture: a drawn graph. Notebooks display it, and it can be written to files or converted to DOT text.

It has the methods of ``graphviz.Digraph`` that users of MXNet call, but needs no Graphviz.
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
    """A graph to display or save.

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
        self.format = _check_format(format)
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
        """The default name of the DOT file."""
        return f"{self.name}.gv"

    @property
    def source(self) -> str:
        """The graph as DOT text."""
        return dot_of(self.name, self.boxes, self.edges, self.groups, self._node_attributes, self._upward)

    def __str__(self) -> str:
        return self.source

    @functools.cached_property
    def drawing(self) -> Drawing:
        """The shapes of the picture."""
        return draw(self.name, self.boxes, self.edges, self.groups, self._upward)

    def pipe(self, format: str | None = None) -> bytes:  # noqa: A002 - graphviz's name
        """Return the contents of a picture file: ``"svg"``, ``"pdf"``, or ``"dot"`` for the text."""
        chosen = self.format if format is None else _check_format(format)
        if chosen == "svg":
            return svg_of(self.drawing).encode()
        return pdf_of(self.drawing) if chosen == "pdf" else self.source.encode()

    def save(self, filename: str | os.PathLike[str] | None = None, directory: str | os.PathLike[str] = "") -> str:
        """Write the DOT text to a file and return its path."""
        return self._write(os.path.join(directory, filename or self.filename), self.source.encode())

    def render(
        self,
        filename: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] = "",
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,  # noqa: A002 - graphviz's name
    ) -> str:
        """Write the picture to a file, and return its path: the given one with the format appended.

        Parameters
        ----------
        filename, directory
            The DOT file; default ``<title>.gv``. The picture is written beside it.
        view
            Open the picture too.
        cleanup
            Write no DOT file.
        format
            ``"svg"``, ``"pdf"``, or ``"dot"``; default: the picture's format.
        """
        chosen = self.format if format is None else _check_format(format)
        path = os.path.join(directory, filename or self.filename)
        rendered = self._write(f"{path}.{chosen}", self.pipe(chosen))
        if not cleanup:
            self._write(path, self.source.encode())
        if view:
            webbrowser.open(pathlib.Path(rendered).absolute().as_uri())
        return rendered

    def view(
        self,
        filename: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        cleanup: bool = False,
    ) -> str:
        """Write the picture to a file, open it, and return its path; without a name, use a temporary directory."""
        if directory is None:
            directory = tempfile.mkdtemp(prefix="phonograd-") if filename is None else ""
        return self.render(filename, directory, view=True, cleanup=cleanup)

    def _write(self, path: str, content: bytes) -> str:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        write_atomically(path, [content])
        return path

    def _repr_svg_(self) -> str:
        return svg_of(self.drawing)

    def _repr_html_(self) -> str:
        """Return the picture in a scrolling frame for notebooks."""
        style = "overflow: auto; max-height: 48em; border: 1px solid #dddddd; resize: vertical"
        return f'<div style="{style}">{self._repr_svg_()}</div>'


def _check_format(name: str) -> str:
    lower = str(name).lower()
    if lower not in _FORMATS:
        raise ValueError(
            f"unknown picture format {name!r}{nearest(lower, list(_FORMATS))}; formats are "
            f"{', '.join(_FORMATS)}. Graphviz can convert the DOT text (picture.source) to others."
        )
    return lower
