"""HTML tables of arrays, for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

__all__ = ["table_of"]

#: tables skip middle rows and columns beyond these
_ROWS = 10
_COLUMNS = 10


def table_of(values: np.ndarray[Any, Any], caption: str) -> str:
    """Return a table of a matrix, shortened in the middle; of further axes it shows only index 0.

    >>> table_of(np.array([1.5]), "<x>")
    '<table><caption style="white-space:nowrap">&lt;x&gt;</caption><tr><td>1.5</td></tr></table>'
    """
    note = ""
    if values.ndim > 2:
        note = f", the part [{', '.join(['0'] * (values.ndim - 2))}]"
        values = values[(0,) * (values.ndim - 2)] if values.size else values.reshape(0, 0)
    rows = values.reshape(1, -1) if values.ndim < 2 else values
    lines = []
    for row in _ends(rows.shape[0], _ROWS):
        columns = _ends(rows.shape[1], _COLUMNS)
        cells = ["…" if row is None or column is None else f"{rows[row, column]:.6g}" for column in columns]
        lines.append(f"<tr>{''.join([f'<td>{escape(cell)}</td>' for cell in cells])}</tr>")
    # a narrow table would break the caption into many lines
    start = f'<table><caption style="white-space:nowrap">{escape(caption + note)}</caption>'
    return f"{start}{''.join(lines)}</table>"


def _ends(count: int, most: int) -> list[int | None]:
    """Return the indices below a count; None replaces those omitted in the middle."""
    if count <= most:
        return list(range(count))
    half = most // 2
    return [*range(half), None, *range(count - half, count)]
