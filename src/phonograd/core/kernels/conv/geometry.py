"""Geometry: sizes of a convolution over three spatial axes, and of the pieces it is computed in.

One and two axes become three by leading axes of size one, and axes that a convolution does not mix (kernel and stride
1, no padding) are merged: a 1 by 1 convolution has one long axis.

A convolution walks over *boxes* of windows. The windows of a box follow each other in the output: a box is a part of a
line, or some whole lines, or some whole planes.

Windows are not read from the data itself but from a *frame*: the part of the padded data that a box sees, with the
elements that neighbouring windows have in common one after the other. With stride 2 along an axis, the even elements
come first, then the odd ones, so that an offset into a window (a *tap*) always sees a line of consecutive elements.
Without padding and strides the data is its own frame.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import product

from ...graph.node import Shape
from ...lower.ir.emitter import ROW

__all__ = ["Frame", "Geometry", "box_of", "evenly", "geometry", "rounded", "steps_of"]

#: products that count as a chunk when it is decided whether to compile in full at once: what is done beside them (see
#: core/kernels/matmul/gemm.py) takes more of the time here
_QUICK_WORK = 10_000_000


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The sizes of a convolution; channels and filters are those of one group."""

    batch: int
    groups: int
    channels: int
    filters: int
    extent: Shape
    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape
    counts: Shape

    @property
    def pixels(self) -> int:
        """Elements of one channel of an image."""
        return math.prod(self.extent)

    @property
    def windows(self) -> int:
        """Elements of one filter's output for an image."""
        return math.prod(self.counts)

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return math.prod(self.kernel)

    @property
    def work(self) -> int:
        """How many chunks of other kernels take as long as one pass does with kernels that were compiled quickly."""
        return self.batch * self.groups * self.filters * self.channels * self.taps * self.windows // _QUICK_WORK

    @property
    def plain(self) -> bool:
        """Whether the data is its own frame."""
        return not any(self.pad) and all([step == 1 for step in self.stride])

    @property
    def pointwise(self) -> bool:
        """Whether the data is the matrix of its windows."""
        return self.plain and self.taps == 1


def geometry(
    data: Shape, filters: int, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> Geometry:
    """Return the geometry of a convolution of data of a shape.

    >>> geometry((2, 8, 5, 6), 4, (1, 1), (1, 1), (1, 1), (0, 0), 1).extent
    (1, 1, 30)
    """
    axes = [
        # a dilated kernel of one element is not dilated
        (size, width, step, gap if width > 1 else 1, border)
        for size, width, step, gap, border in zip(data[2:], kernel, stride, dilate, pad)
    ]
    merged: list[tuple[int, int, int, int, int]] = []
    for axis in axes:
        if merged and axis[1:] == (1, 1, 1, 0) == merged[-1][1:]:
            merged[-1] = (merged[-1][0] * axis[0], 1, 1, 1, 0)
        else:
            merged.append(axis)
    merged = [(1, 1, 1, 1, 0)] * (3 - len(merged)) + merged
    extent, kernel, stride, dilate, pad = [tuple(values) for values in zip(*merged)]
    counts = tuple(
        [(size + 2 * border - gap * (width - 1) - 1) // step + 1 for size, width, step, gap, border in merged]
    )
    return Geometry(data[0], groups, data[1] // groups, filters // groups, extent, kernel, stride, dilate, pad, counts)


@dataclasses.dataclass(frozen=True)
class Frame:
    """How the part of an image that a box sees lies in memory, per channel.

    The order of the elements is (phase along z, z, phase along y, y, phase along x, x), where the phase is the
    remainder of a padded coordinate by the stride.
    """

    sizes: Shape
    """Elements along z, y and x of one phase."""
    stride: Shape
    plane: int
    """Distance between windows that are neighbours along z."""
    line: int
    """Distance between windows that are neighbours along y."""
    channel: int
    """Distance between channels."""
    taps: tuple[int, ...]
    """Where each element of a window lies, from its first."""

    @staticmethod
    def of_box(shape: Geometry, box: Shape, always: bool = False) -> Frame:
        """Return the frame of a box of windows; with ``always`` data is copied even where it is its own frame."""
        if shape.plain and not always:
            _, height, width = shape.extent
            pitches = ((0, height * width), (0, width), (0, 1))
            return Frame(shape.extent, (1, 1, 1), height * width, width, shape.pixels, _taps(shape, pitches))
        spans = [(width - 1) * gap // step for width, gap, step in zip(shape.kernel, shape.dilate, shape.stride)]
        sizes = [span + windows for span, windows in zip(spans, box)]
        # phases are written side by side, in vectors that may go beyond the end of a line
        x_phase = sizes[2] if shape.stride[2] == 1 else rounded(sizes[2], ROW)
        y = shape.stride[2] * x_phase
        y_phase = sizes[1] * y
        z = shape.stride[1] * y_phase
        z_phase = sizes[0] * z
        taps = _taps(shape, ((z_phase, z), (y_phase, y), (x_phase, 1)))
        return Frame((*sizes[:2], x_phase), shape.stride, z, y, shape.stride[0] * z_phase, taps)


def _taps(shape: Geometry, pitches: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the place of each element of a window, given the distances between phases and elements along each axis."""
    by_axis = []
    for width, gap, step, (phase, element) in zip(shape.kernel, shape.dilate, shape.stride, pitches):
        by_axis.append([gap * at % step * phase + gap * at // step * element for at in range(width)])
    return tuple([sum(places) for places in product(*by_axis)])


def steps_of(shape: Geometry) -> list[int]:
    """Return phase and place in its phase of every offset into a window, along z, then y, then x.

    >>> steps_of(geometry((1, 1, 9), 1, (3,), (2,), (1,), (0,), 1))
    [0, 0, 0, 0, 0, 0, 1, 0, 0, 1]
    """
    words: list[int] = []
    for width, gap, step in zip(shape.kernel, shape.dilate, shape.stride):
        for at in range(width):
            words += [gap * at % step, gap * at // step]
    return words


def box_of(counts: Shape, target: int, unit: int = 1) -> Shape:
    """Return the box of at most about ``target`` windows that wastes least if boxes are computed in whole units.

    >>> box_of((1, 28, 28), 224, 32), box_of((1, 1, 1000), 300), box_of((4, 3, 5), 400)
    ((1, 8, 28), (1, 1, 250), (4, 3, 5))
    """
    depth, height, width = counts
    if depth > 1 and height * width <= target:
        return _part(depth, height * width, target, unit), height, width
    if width <= target:
        return 1, _part(height, width, target, unit), width
    return 1, 1, _part(width, 1, target, unit)


def _part(count: int, size: int, target: int, unit: int) -> int:
    """Return how many things of a size should be taken at once of so many."""
    most = min(count, target // size)
    if size == 1 and most > unit:
        return min(count, rounded(evenly(count, most // unit * unit), unit))

    def units(part: int) -> int:
        whole, rest = divmod(count, part)
        return whole * -(-part * size // unit) + -(-rest * size // unit)

    # the largest of the best; parts of half the target or less would be made for nothing
    candidates = range(max(1, most // 2), most + 1)
    least = min([units(part) for part in candidates])
    best = max([part for part in candidates if units(part) == least])
    even = evenly(count, best)
    return even if units(even) == least else best


def evenly(count: int, most: int) -> int:
    """Return the size of as few parts as possible, none larger than ``most``, that are nearly equal.

    >>> evenly(20, 14), evenly(64, 14), evenly(5, 14)
    (10, 13, 5)
    """
    parts = -(-count // max(most, 1))
    return -(-count // max(parts, 1))


def rounded(count: int, unit: int) -> int:
    """Return a count rounded up to a multiple.

    >>> rounded(17, 16)
    32
    """
    return -(-count // unit) * unit
