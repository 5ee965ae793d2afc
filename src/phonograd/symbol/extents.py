"""Extents: the two ways to write shapes with unknown parts, and the form in which inference computes with them.

Without NumPy shapes, users write 0 for an unknown extent and () for an unknown shape. With them (``mx.util.np_shape``),
they write -1 and None; 0 is an empty axis and () a scalar. Inference uses 0 and None for what is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..util import is_np_shape

__all__ = ["as_partial", "real_shape"]

#: Stands for an extent that is really 0, because 0 stands for unknown extents. It is a prime number, so that sizes
#: computed from it are reduced correctly: its multiples are 0, and its sum with 3 is 3.
_EMPTY = (1 << 31) - 1


def as_partial(shape: Iterable[int], with_empty: bool | None = None) -> tuple[int, ...] | None:
    """Return a shape that users wrote as a partial shape.

    With NumPy shapes (or ``with_empty``), -1 is unknown, 0 is an empty axis and () is a scalar. Else 0 is unknown.
    """
    extents = tuple(shape)
    if with_empty if with_empty is not None else is_np_shape():
        return tuple([0 if extent < 0 else extent or _EMPTY for extent in extents])
    return tuple([max(extent, 0) for extent in extents]) or None


def real_shape(shape: tuple[int, ...], unknown: int = 0) -> tuple[int, ...]:
    """Return a shape as users see it; ``unknown`` takes the place of unknown extents."""
    if not shape or (max(shape) < _EMPTY and 0 not in shape):
        return shape
    return tuple([extent % _EMPTY if extent >= _EMPTY else extent or unknown for extent in shape])
