"""Pattern: the memory layout of an array, as in NumPy: an offset and one stride per axis.

Offsets and strides count elements. Reshaping, permuting, slicing and repeating an array in memory compute nothing: each
gives another pattern over the same memory. A pattern may have *bounds*: along some axes, only a range of positions is
in memory, and all other elements are zero, as in an array embedded in a larger one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from ..graph.node import Shape
from ..graph.shapes import sliced_shape

__all__ = ["Pattern", "contiguous_strides"]

#: by axis: the first position in memory and the end, or None if all positions are in memory
Bounds = tuple[tuple[int, int] | None, ...]


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: Shape) -> Shape:
    """Return the strides of a contiguous array.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    size = 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


class Pattern(NamedTuple):
    """The offsets of the elements of a shape: ``offset + sum(index[a] * strides[a])``."""

    shape: Shape
    strides: Shape
    offset: int = 0
    bounds: Bounds = ()
    """Empty if all positions are in memory."""

    @staticmethod
    def contiguous(shape: Shape) -> Pattern:
        """Return the pattern of contiguous elements from the beginning."""
        return Pattern(shape, contiguous_strides(shape))

    def reshape(self, shape: Shape) -> Pattern | None:
        """Return the same elements in another shape, or None if no strides describe that.

        >>> Pattern.contiguous((6,)).reshape((2, 3))
        Pattern(shape=(2, 3), strides=(3, 1), offset=0, bounds=())
        >>> Pattern.contiguous((2, 3)).permute((1, 0)).reshape((6,)) is None
        True
        """
        if self.bounds:
            return self._reshape_bounded(shape)
        if 0 in shape:
            return Pattern(shape, contiguous_strides(shape), self.offset)
        strides = _reshape_strides(self.shape, self.strides, shape)
        return None if strides is None else Pattern(shape, strides, self.offset)

    def _reshape_bounded(self, shape: Shape) -> Pattern | None:
        """Return the same elements in another shape, which must contain all bounded axes, or None."""
        if 0 in shape:
            return Pattern(shape, contiguous_strides(shape), self.offset)
        strides: list[int] = []
        bounds: list[tuple[int, int] | None] = []
        place = start = 0
        for axis, bound in enumerate((*self.bounds, None)):
            if bound is None and axis < len(self.shape):
                continue
            # the axes before this one, and then this one itself
            size = math.prod(self.shape[start:axis])
            first = place
            while place < len(shape) and (size > 1 or (shape[place] == 1 and axis == len(self.shape))):
                if size % shape[place]:
                    return None
                size //= shape[place]
                place += 1
            found = _reshape_strides(self.shape[start:axis], self.strides[start:axis], shape[first:place])
            if size > 1 or found is None:
                return None
            strides += found
            bounds += [None] * (place - first)
            start = axis + 1
            if axis < len(self.shape):
                while place < len(shape) and shape[place] == 1 != self.shape[axis]:
                    strides.append(0)
                    bounds.append(None)
                    place += 1
                if place == len(shape) or shape[place] != self.shape[axis]:
                    return None
                strides.append(self.strides[axis])
                bounds.append(bound)
                place += 1
        return Pattern(shape, tuple(strides), self.offset, tuple(bounds))

    def permute(self, axes: Sequence[int]) -> Pattern:
        """Return the elements with axes in another order."""
        bounds = tuple([self.bounds[a] for a in axes]) if self.bounds else ()
        shape, strides = tuple([self.shape[a] for a in axes]), tuple([self.strides[a] for a in axes])
        return Pattern(shape, strides, self.offset, bounds)

    def slice(self, begin: Shape, end: Shape, step: Shape) -> Pattern:
        """Return the elements [begin:end:step] of every axis, with explicit bounds."""
        shape = sliced_shape(begin, end, step)
        offset = self.offset
        if 0 not in shape:
            offset += sum([b * stride for b, stride in zip(begin, self.strides, strict=True)])
        strides = tuple([s * stride for s, stride in zip(step, self.strides, strict=True)])
        bounds = [_slice_bounds(*found) for found in zip(self.bounds, begin, step, shape)]
        return Pattern(shape, strides, offset, _simplify(bounds))

    def diagonal(self, offset: int) -> Pattern | None:
        """Return a diagonal of the last two axes, which have equal extents; None if there are bounds.

        >>> Pattern.contiguous((3, 3)).diagonal(1)
        Pattern(shape=(2,), strides=(4,), offset=1, bounds=())
        """
        if self.bounds:
            return None
        *outer, rows, columns = self.strides
        shape = (*self.shape[:-2], max(self.shape[-1] - abs(offset), 0))
        start = self.offset + (rows * max(-offset, 0) + columns * max(offset, 0) if 0 not in shape else 0)
        return Pattern(shape, (*outer, rows + columns), start)

    def broadcast(self, shape: Shape) -> Pattern:
        """Return the elements repeated along size-one and new leading axes.

        >>> Pattern.contiguous((3, 1)).broadcast((2, 3, 4)).strides
        (0, 1, 0)
        """
        if shape == self.shape:
            return self
        added = len(shape) - len(self.shape)
        strides = [
            0 if extent != wide else stride for extent, stride, wide in zip(self.shape, self.strides, shape[added:])
        ]
        bounds: list[tuple[int, int] | None] = []
        for bound, extent, wide in zip(self.bounds, self.shape, shape[added:]):
            # the only position is repeated: all copies are in memory, or none is
            if bound is not None and extent != wide:
                bound = _simple(0, wide if bound[1] > bound[0] else 0, wide)
            bounds.append(bound)
        return Pattern(shape, (0,) * added + tuple(strides), self.offset, _simplify([None] * added + bounds))

    def embed(self, shape: Shape, begin: Shape) -> Pattern:
        """Return the elements as a block of a larger array, which is zero elsewhere.

        >>> Pattern.contiguous((2,)).embed((5,), (1,))
        Pattern(shape=(5,), strides=(1,), offset=-1, bounds=((1, 3),))
        """
        bounds = []
        for axis, (first, extent) in enumerate(zip(begin, self.shape, strict=True)):
            own = self.bounds[axis] if self.bounds else None
            low, high = own or (0, extent)
            bounds.append(_simple(low + first, high + first, shape[axis]))
        offset = self.offset - sum([b * stride for b, stride in zip(begin, self.strides, strict=True)])
        return Pattern(shape, self.strides, offset, _simplify(bounds))

    @property
    def is_contiguous(self) -> bool:
        """Return whether the elements are contiguous, and all of them in memory."""
        if self.bounds:
            return False
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != expected:
                return 0 in self.shape
            expected *= extent
        return True


def _simple(low: int, high: int, extent: int) -> tuple[int, int] | None:
    """Return a range of positions, or None if it is all of them."""
    low, high = max(low, 0), min(high, extent)
    return None if (low, high) == (0, extent) else (low, max(high, low))


def _simplify(bounds: Sequence[tuple[int, int] | None]) -> Bounds:
    return tuple(bounds) if any([bound is not None for bound in bounds]) else ()


def _slice_bounds(bound: tuple[int, int] | None, begin: int, step: int, count: int) -> tuple[int, int] | None:
    """Return the positions i < count for which begin + step * i is inside a range."""
    if bound is None:
        return None
    low, high = bound
    if step < 0:
        # mirrored: -begin + |step| * i is inside [1 - high, 1 - low)
        low, high, begin, step = 1 - high, 1 - low, -begin, -step
    return _simple(-(-(low - begin) // step), -(-(high - begin) // step), count)


def _reshape_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Return the strides of the same elements in another shape of the same size, or None if there are none."""
    runs = _merge(shape, strides)
    found = []
    # take new axes from the inner end of each run
    left, stride = runs.pop()
    for extent in reversed(wanted):
        while left == 1 and runs and extent != 1:
            left, stride = runs.pop()
        if left % extent:
            return None
        found.append(stride)
        left //= extent
        stride *= extent
    return tuple(reversed(found))


def _merge(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """Return (extent, inner stride) of the runs of axes that one stride can traverse, outermost first."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = runs[-1][0] * extent, stride
        else:
            runs.append((extent, stride))
    return runs or [(1, 1)]
