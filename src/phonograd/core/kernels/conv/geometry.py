"""Geometry: sizes of a convolution over three spatial axes, and its division into boxes.

One and two axes become three with leading axes of size one. Adjacent axes that a convolution does not mix (kernel and
stride 1, no padding) are merged: a 1 by 1 convolution has one long axis. If the kernel is as large as the image, all
elements are channels of one pixel: such a convolution is a product of matrices.

A convolution iterates over *boxes* of windows. The windows of a box are contiguous in the output: a box is a part of a
line, or some whole lines, or some whole planes.

Windows are read from a *frame* instead of the data itself. A frame is the part of the padded data that a box covers,
sorted so that the elements at one offset into adjacent windows are adjacent. With stride 2 along an axis, the even
elements come first, then the odd ones. So the elements at an offset into the windows of a line (a *tap*) are always
contiguous. Without padding and strides, the data is its own frame.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import product

from ...graph.node import Shape
from ...lower.ir.emitter import ROW

__all__ = ["Frame", "Geometry", "box_of", "evenly", "geometry", "round_up", "steps_of"]

#: multiplications that count as a chunk in the decision whether to optimize fully at the first compilation. Code
#: around the products (see core/kernels/matmul/gemm.py) takes a larger share of the time here
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
        """Number of elements in one channel of an image."""
        return math.prod(self.extent)

    @property
    def windows(self) -> int:
        """Number of elements in one filter's output for an image."""
        return math.prod(self.counts)

    @property
    def taps(self) -> int:
        """Number of elements in the kernel."""
        return math.prod(self.kernel)

    @property
    def work(self) -> int:
        """Amount of work in chunks of other kernels, for one pass without full optimization."""
        return self.batch * self.groups * self.filters * self.channels * self.taps * self.windows // _QUICK_WORK

    @property
    def plain(self) -> bool:
        """Return whether the data is its own frame."""
        return not any(self.pad) and all([step == 1 for step in self.stride])

    @property
    def pointwise(self) -> bool:
        """Return whether the data is its own matrix of columns."""
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
    if kernel == extent and not any(pad):
        # one window is the whole image, and its elements are so many channels
        ones = (1, 1, 1)
        channels = data[1] // groups * math.prod(kernel)
        return Geometry(data[0], groups, channels, filters // groups, ones, ones, ones, ones, pad, ones)
    counts = tuple(
        [(size + 2 * border - gap * (width - 1) - 1) // step + 1 for size, width, step, gap, border in merged]
    )
    return Geometry(data[0], groups, data[1] // groups, filters // groups, extent, kernel, stride, dilate, pad, counts)


@dataclasses.dataclass(frozen=True)
class Frame:
    """Memory layout of the part of an image that a box covers, per channel.

    The order of the elements is (phase along z, z, phase along y, y, phase along x, x), where the phase is the
    remainder of a padded coordinate by the stride.
    """

    sizes: Shape
    """Elements along z, y and x of one phase."""
    stride: Shape
    plane: int
    """Distance between windows adjacent along z."""
    line: int
    """Distance between windows adjacent along y."""
    channel: int
    """Distance between channels."""
    taps: tuple[int, ...]
    """Offset of each element of a window from its first."""

    @staticmethod
    def of_box(shape: Geometry, box: Shape, always: bool = False) -> Frame:
        """Return the frame of a box of windows; with ``always``, data is copied even if it is its own frame."""
        if shape.plain and not always:
            _, height, width = shape.extent
            pitches = ((0, height * width), (0, width), (0, 1))
            return Frame(shape.extent, (1, 1, 1), height * width, width, shape.pixels, _taps(shape, pitches))
        spans = [(width - 1) * gap // step for width, gap, step in zip(shape.kernel, shape.dilate, shape.stride)]
        sizes = [span + windows for span, windows in zip(spans, box)]
        # phases are stored side by side, in vectors that may go beyond the end of a line
        x_phase = sizes[2] if shape.stride[2] == 1 else round_up(sizes[2], ROW)
        y = shape.stride[2] * x_phase
        y_phase = sizes[1] * y
        z = shape.stride[1] * y_phase
        z_phase = sizes[0] * z
        taps = _taps(shape, ((z_phase, z), (y_phase, y), (x_phase, 1)))
        return Frame((*sizes[:2], x_phase), shape.stride, z, y, shape.stride[0] * z_phase, taps)


def _taps(shape: Geometry, pitches: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the offset of each element of a window, given the distances of phases and elements along each axis."""
    by_axis = []
    for width, gap, step, (phase, element) in zip(shape.kernel, shape.dilate, shape.stride, pitches):
        by_axis.append([gap * at % step * phase + gap * at // step * element for at in range(width)])
    return tuple([sum(places) for places in product(*by_axis)])


def steps_of(shape: Geometry) -> list[int]:
    """Return the phase of every tap, and its position in the phase, along z, then y, then x.

    >>> steps_of(geometry((1, 1, 9), 1, (3,), (2,), (1,), (0,), 1))
    [0, 0, 0, 0, 0, 0, 1, 0, 0, 1]
    """
    words: list[int] = []
    for width, gap, step in zip(shape.kernel, shape.dilate, shape.stride):
        for at in range(width):
            words += [gap * at % step, gap * at // step]
    return words


def box_of(counts: Shape, target: int, unit: int = 1) -> Shape:
    """Return the box of at most about ``target`` windows with the least waste if boxes consist of whole units.

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
    """Return the number of items of some size to process at once, out of ``count``."""
    most = min(count, target // size)
    if size == 1 and most > unit:
        return min(count, round_up(evenly(count, most // unit * unit), unit))

    def units(part: int) -> int:
        whole, rest = divmod(count, part)
        return whole * -(-part * size // unit) + -(-rest * size // unit)

    # the largest of the best; parts of half the target or less would only add overhead
    candidates = range(max(1, most // 2), most + 1)
    least = min([units(part) for part in candidates])
    best = max([part for part in candidates if units(part) == least])
    even = evenly(count, best)
    return even if units(even) == least else best


def evenly(count: int, most: int) -> int:
    """Return the size of nearly equal parts: as few as possible, none larger than ``most``.

    >>> evenly(20, 14), evenly(64, 14), evenly(5, 14)
    (10, 13, 5)
    """
    parts = -(-count // max(most, 1))
    return -(-count // max(parts, 1))


def round_up(count: int, unit: int) -> int:
    """Return a count, rounded up to a multiple.

    >>> round_up(17, 16)
    32
    """
    return -(-count // unit) * unit
