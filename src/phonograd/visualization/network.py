"""plot_network: a symbol as a picture, with MXNet's arguments, labels and colors."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ..core.base.dtypes import name_of
from ..symbol import Entry, Symbol
from .drawing import Box, Edge
from .families import ARGUMENT, color_of_operator
from .picture import Picture
from .text import shorten

__all__ = ["infer_outputs", "is_weight", "plot_network"]

_WEIGHTS = (
    "_weight",
    "_bias",
    "_beta",
    "_gamma",
    "_moving_var",
    "_moving_mean",
    "_running_var",
    "_running_mean",
    "_parameters",
)

#: longer names and attributes are shortened in boxes; tooltips show them in full
_LONGEST = 40

Head = tuple[Entry, int]


def is_weight(name: str) -> bool:
    """Return whether an argument is a layer's parameter, judging by its name."""
    return name.endswith(_WEIGHTS)


def infer_outputs(symbol: Symbol, shape: Mapping[str, Any]) -> dict[Head, tuple[int, ...]]:
    """Return the shapes of all outputs inside a symbol, given shapes of arguments."""
    internals = symbol.get_internals()
    _, shapes, _ = internals.infer_shape(**shape)
    if shapes is None:
        raise ValueError("Input shape is incomplete")
    return dict(zip(internals._heads, shapes))


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Any] | None = None,
    dtype: Mapping[str, Any] | None = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Picture:
    """Return a picture of a symbol, with the inputs at the bottom.

    Parameters
    ----------
    symbol
        The symbol to draw.
    title
        The name of the picture and of its files.
    save_format
        The format of :meth:`~phonograd.visualization.picture.Picture.render`: ``"svg"``, ``"pdf"`` or ``"dot"``.
    shape
        Shapes of arguments by name. If given, edges show the shapes of their values without the first axis.
    dtype
        Types of arguments by name. If given, edges show types.
    node_attrs
        Attributes of all boxes in the DOT text; ``shape`` (``"box"`` or ``"oval"``) and ``fillcolor`` are also drawn.
    hide_weights
        Omit the parameters of layers: arguments with names such as ``fc_weight``.

    Compatibility
    -------------
    MXNet returns a ``graphviz.Digraph``; this object has its ``render``, ``view``, ``save``, ``pipe`` and ``source``
    but needs no Graphviz. Boxes fit their text.

    >>> import phonograd as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    >>> picture = mx.viz.plot_network(net, shape={"data": (2, 5)})
    >>> picture
    <Picture plot: 2 boxes, 1 edge>
    >>> picture.edges[0].label
    '5'
    """
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be a Symbol")
    shapes = infer_outputs(symbol, shape) if shape is not None else {}
    types = _infer_types(symbol, dtype) if dtype is not None else {}
    given = dict(node_attrs or {})
    attributes: dict[str, Mapping[str, str]] = {}
    entries = symbol._entries()
    hidden = {entry for entry in entries if hide_weights and entry.is_argument and is_weight(entry.name)}
    names = _unique_names(entries)
    boxes = []
    for entry in entries:
        if entry in hidden:
            continue
        box = _box(entry, names[entry], given)
        if (entry, 0) in shapes:
            box = Box(box.name, box.label, box.fill, box.shape, f"{box.title}\n{shapes[entry, 0]}")
        boxes.append(box)
        attributes[box.name] = {"fixedsize": "true", "height": "0.8034", "width": "1.3", **given, "shape": box.shape}
    edges = [
        Edge(names[head[0]], names[entry], _edge_label(head, shapes, types))
        for entry in entries
        for head in entry.inputs
        if head[0] not in hidden
    ]
    return Picture(title, boxes, edges, format=save_format, node_attributes=attributes, upward=True)


def _unique_names(entries: list[Entry]) -> dict[Entry, str]:
    """Return a unique name for each entry."""
    names: dict[Entry, str] = {}
    taken: dict[str, int] = {}
    for entry in entries:
        count = taken[entry.name] = taken.get(entry.name, 0) + 1
        names[entry] = entry.name if count == 1 else f"{entry.name} ({count})"
    return names


def _infer_types(symbol: Symbol, dtype: Mapping[str, Any]) -> dict[Head, str]:
    internals = symbol.get_internals()
    _, types, _ = internals.infer_type(**dtype)
    if types is None:
        raise ValueError("Input type is incomplete")
    return {head: name_of(kind) for head, kind in zip(internals._heads, types)}


def _edge_label(head: Head, shapes: Mapping[Head, tuple[int, ...]], types: Mapping[Head, str]) -> str:
    extents = "x".join([str(extent) for extent in shapes[head][1:]]) if head in shapes else ""
    return f"{extents}({types[head]})" if head in types else extents


def _box(entry: Entry, name: str, given: Mapping[str, str]) -> Box:
    oval = {"oval": "oval", "ellipse": "oval", "circle": "oval"}
    shape = oval.get(given.get("shape", "box"), "box")
    if entry.is_argument:
        return Box(name, shorten(entry.name, _LONGEST), given.get("fillcolor", ARGUMENT), "oval", _title(entry))
    label = "\n".join([shorten(line, _LONGEST) for line in _label(entry).split("\n")])
    return Box(name, label, given.get("fillcolor", color_of_operator(entry.operator)), shape, _title(entry))


def _title(entry: Entry) -> str:
    """Return the tooltip of a box: name, operator and attributes."""
    lines = [entry.name if entry.is_argument else f"{entry.name}: {entry.operator}"]
    lines += [f"{key} = {shorten(value, 200)}" for key, value in sorted(entry.attributes.items())]
    return "\n".join(lines)


def _label(entry: Entry) -> str:
    attributes = entry.attributes
    if entry.operator in ("Convolution", "Deconvolution"):
        stride = _extents(attributes.get("stride", "1"))
        filters = attributes.get("num_filter", "?")
        return f"{entry.operator}\n{_extents(attributes.get('kernel', '()'))}/{stride}, {filters}"
    if entry.operator == "FullyConnected":
        return f"FullyConnected\n{attributes.get('num_hidden', '?')}"
    if entry.operator in ("Activation", "LeakyReLU"):
        default = "leaky" if entry.operator == "LeakyReLU" else "?"
        return f"{entry.operator}\n{attributes.get('act_type', default)}"
    if entry.operator == "Pooling":
        kind = attributes.get("pool_type", "max")
        if attributes.get("global_pool", "False") in ("True", "1", "true"):
            return f"Pooling\n{kind}, global"
        kernel, stride = _extents(attributes.get("kernel", "()")), _extents(attributes.get("stride", "1"))
        return f"Pooling\n{kind}, {kernel}/{stride}"
    if entry.operator == "Custom":
        return attributes.get("op_type", entry.name)
    return entry.name


def _extents(text: str) -> str:
    """Return a tuple attribute as display text.

    >>> _extents("(3, 3)"), _extents("1")
    ('3x3', '1')
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return "x".join([str(extent) for extent in value]) if isinstance(value, (tuple, list)) else str(value)
