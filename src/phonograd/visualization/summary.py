"""print_summary: a table of a symbol's layers, with MXNet's arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..symbol import Entry, Symbol
from .network import Head, infer_outputs

__all__ = ["print_summary", "summary_of"]

_POSITIONS = (0.44, 0.64, 0.74, 1.0)


def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Any] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = _POSITIONS,
) -> None:
    """Print a table of a symbol's layers: output shapes, parameter counts and previous layers.

    Parameters
    ----------
    symbol
        The symbol to describe.
    shape
        Shapes of arguments by name. Without them, the table has no shapes and skips parameters of unknown shape.
    line_length
        The width of the table.
    positions
        The ends of its four columns, as fractions of the width or in characters.

    Compatibility
    -------------
    MXNet counts the parameters of some layers only; this function counts all. A parameter shared by several layers
    counts at its first use. All arguments with a given shape have a row, not only the first.

    >>> import phonograd as mx
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    >>> mx.viz.print_summary(net, shape={"data": (2, 5)}, line_length=80)
    ________________________________________________________________________________
    Layer (type)                       Output Shape    Param # Previous Layer
    ================================================================================
    data(null)                         5               0
    ________________________________________________________________________________
    fc(FullyConnected)                 3               18      data
    ================================================================================
    Total params: 18
    ________________________________________________________________________________
    """
    print(summary_of(symbol, shape, line_length, positions))


def summary_of(
    symbol: Symbol,
    shape: Mapping[str, Any] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = _POSITIONS,
) -> str:
    """Return the table that :func:`print_summary` prints."""
    if not isinstance(symbol, Symbol):
        raise TypeError("symbol must be Symbol")
    shapes: dict[Head, tuple[int, ...]] = {}
    if shape is not None:
        shapes = infer_outputs(symbol, shape)
    ends = [int(line_length * position) for position in positions] if positions[-1] <= 1 else list(map(int, positions))
    given = shape or {}
    entries = symbol._entries()
    parameters = _parameters(symbol, given)
    counted: set[Entry] = set()
    blocks, total = [], 0
    for index, entry in enumerate(entries):
        if entry.is_argument and index > 0 and entry.name not in given:
            continue
        own = [source for source, _ in entry.inputs if source in parameters and source not in counted]
        counted.update(own)
        count = sum([parameters[source] for source in dict.fromkeys(own)])
        total += count
        extents = "x".join([str(extent) for extent in shapes.get((entry, 0), ())[1:]])
        before = [
            source.name
            for source, _ in entry.inputs
            if not source.is_argument or source is entries[0] or source.name in given
        ]
        row = [f"{entry.name}({entry.operator})", extents, str(count), *before[:1]]
        blocks.append("\n".join([_row(row, ends), *[_row(["", "", "", name], ends) for name in before[1:]]]))
    thin, thick = "_" * line_length, "=" * line_length
    head = _row(["Layer (type)", "Output Shape", "Param #", "Previous Layer"], ends)
    return "\n".join([thin, head, thick, f"\n{thin}\n".join(blocks), thick, f"Total params: {total}", thin])


def _parameters(symbol: Symbol, given: Mapping[str, Any]) -> dict[Entry, int]:
    """Return the sizes of learned arguments: those that are not given, labels, or auxiliary or initial states."""
    shapes = dict(zip(symbol.list_arguments(), symbol._partial_shapes(given)[0]))
    entries = symbol._entries()
    labels = {
        source
        for entry in entries
        if not entry.is_argument
        for (source, _), name in zip(entry.inputs, entry.call.argument_names)
        if name == "label"
    }
    found = {}
    for entry in entries:
        other = entry in labels or entry.name.endswith(("label", "_state", "_state_cell"))
        if entry.is_argument and entry.name in shapes and entry.name not in given and not other:
            shape = shapes[entry.name]
            found[entry] = math.prod(shape) if shape else 0
    return found


def _row(fields: Sequence[str], ends: Sequence[int]) -> str:
    line = ""
    for field, end in zip(fields, ends):
        line = (line + field)[:end].ljust(end)
    return line.ljust(ends[-1])
