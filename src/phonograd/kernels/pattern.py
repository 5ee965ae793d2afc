"""Pattern: where the elements of an array lie in memory, as NumPy has it: an offset and one stride per axis.

Offsets and strides count elements. Reshaping, permuting, slicing and repeating an array that lies in memory compute
nothing: each gives another pattern over the same memory.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from ..node import Shape

__all__ = ["Pattern", "contiguous_strides"]


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: Shape) -> Shape:
    """Return the strides of an array whose elements follow each other.

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
    """The places of the elements of a shape: ``offset + sum(index[a] * strides[a])``."""

    shape: Shape
    strides: Shape
    offset: int = 0

    @staticmethod
    def contiguous(shape: Shape) -> Pattern:
        """Return the pattern of elements that follow each other from the beginning."""
        return Pattern(shape, contiguous_strides(shape))

    def reshape(self, shape: Shape) -> Pattern | None:
        """Return the same elements in another shape, or None if no strides say that.

        >>> Pattern.contiguous((6,)).reshape((2, 3))
        Pattern(shape=(2, 3), strides=(3, 1), offset=0)
        >>> Pattern.contiguous((2, 3)).permute((1, 0)).reshape((6,)) is None
        True
        """
        if 0 in shape:
            return Pattern(shape, contiguous_strides(shape), self.offset)
        runs = _merge(self.shape, self.strides)
        strides = []
        # each run is spent on new axes from its inner end
        left, stride = runs.pop()
        for extent in reversed(shape):
            while left == 1 and runs and extent != 1:
                left, stride = runs.pop()
            if left % extent:
                return None
            strides.append(stride)
            left //= extent
            stride *= extent
        return Pattern(shape, tuple(reversed(strides)), self.offset)

    def permute(self, axes: Sequence[int]) -> Pattern:
        """Return the elements with axes in another order."""
        return Pattern(tuple([self.shape[a] for a in axes]), tuple([self.strides[a] for a in axes]), self.offset)

    def slice(self, begin: Shape, end: Shape, step: Shape) -> Pattern:
        """Return the elements [begin:end:step] of every axis, with explicit bounds."""
        shape = tuple([len(range(b, e, s)) for b, e, s in zip(begin, end, step, strict=True)])
        offset = self.offset
        if 0 not in shape:
            offset += sum([b * stride for b, stride in zip(begin, self.strides, strict=True)])
        return Pattern(shape, tuple([s * stride for s, stride in zip(step, self.strides, strict=True)]), offset)

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
        return Pattern(shape, (0,) * added + tuple(strides), self.offset)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != expected:
                return 0 in self.shape
            expected *= extent
        return True


def _merge(shape: Shape, strides: Shape) -> list[tuple[int, int]]:
    """Return (extent, inner stride) of the runs of axes that can be walked with one stride, outermost first."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 1:
            continue
        if runs and runs[-1][1] == extent * stride:
            runs[-1] = runs[-1][0] * extent, stride
        else:
            runs.append((extent, stride))
    return runs or [(1, 1)]
