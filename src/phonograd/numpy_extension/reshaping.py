"""The codes of ``npx.reshape``: negative numbers that refer to extents of the array."""

from __future__ import annotations

import math

from ..core.base.errors import MXNetError, format_shape

__all__ = ["resolve"]


def resolve(source: tuple[int, ...], codes: tuple[int, ...], reverse: bool = False) -> tuple[int, ...]:
    """Return the shape that codes mean for an array of a shape; with ``reverse``, codes match from the end.

    >>> resolve((2, 3, 4), (-5, -4)), resolve((8, 3), (-6, 2, -1, -2)), resolve((1, 2, 3), (-3, -1))
    ((6, 4), (2, 4, 3), (6,))
    """
    if reverse:
        return _forward(source[::-1], codes[::-1])[::-1]
    return _forward(source, codes)


def _forward(source: tuple[int, ...], codes: tuple[int, ...]) -> tuple[int, ...]:
    found: list[int] = []
    used = place = 0

    def next_extent() -> int:
        nonlocal used
        if used >= len(source):
            raise _error(source, codes, "there are more codes than axes")
        used += 1
        return source[used - 1]

    while place < len(codes):
        code = codes[place]
        place += 1
        if code >= 0:
            found.append(code)
            used += 1
        elif code == -1:
            found.append(-1)
            used += 1
        elif code == -2:
            found.append(next_extent())
        elif code == -3:
            if next_extent() != 1:
                raise _error(source, codes, "-3 index should only be used to skip dimension size 1")
        elif code == -4:
            found += source[used:]
            used = len(source)
        elif code == -5:
            if used >= len(source) - 1:
                raise _error(source, codes, "Not enough dimensions left for the product")
            found.append(next_extent() * next_extent())
        elif code == -6:
            found += _split(source, codes, next_extent(), codes[place : place + 2])
            place += 2
        else:
            raise _error(source, codes, f"Dimension size must be greater than or equal to -6, not {code}")
    return _infer_unknown(source, codes, found)


def _split(source: tuple[int, ...], codes: tuple[int, ...], extent: int, parts: tuple[int, ...]) -> list[int]:
    if len(parts) != 2 or parts == (-1, -1):
        raise _error(source, codes, "-6 must be followed by two extents, one of which may be -1")
    known = next(part for part in parts if part != -1)
    if known <= 0 or extent % known:
        raise _error(source, codes, f"an axis of {extent} cannot be split into {parts}")
    made = [extent // known if part == -1 else part for part in parts]
    if math.prod(made) != extent:
        raise _error(source, codes, f"an axis of {extent} cannot be split into {parts}")
    return made


def _infer_unknown(source: tuple[int, ...], codes: tuple[int, ...], found: list[int]) -> tuple[int, ...]:
    """Return the shape with -1 replaced by the inferred extent."""
    size = math.prod(source)
    if found.count(-1) > 1:
        raise _error(source, codes, "Can only specify one unknown dimension")
    if -1 in found:
        known = math.prod([extent for extent in found if extent != -1])
        if known == 0 or size % known:
            raise _error(source, codes, "the known extents do not divide the number of elements")
        found[found.index(-1)] = size // known
    if math.prod(found) != size:
        raise _error(source, codes, f"{format_shape(tuple(found))} has another number of elements")
    return tuple(found)


def _error(source: tuple[int, ...], codes: tuple[int, ...], reason: str) -> MXNetError:
    return MXNetError(
        f"Cannot reshape array of shape {format_shape(source)} into shape {format_shape(codes)}: {reason}"
    )
