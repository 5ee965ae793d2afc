"""Padding: routines that copy the windows of an image to lines of contiguous elements.

================  =================================================================================================
``fill``          makes the frame of a box: pads with zeros and sorts by phase
``gather_lines``  copies the elements of a box at one tap, one line of windows after the other
``pack_panels``   copies the elements of some windows at all taps, to panels for a product
================  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import inside_mask, sort
from ..launch import Reference, Words
from ..routine import Routine
from .geometry import Frame, Geometry
from .microkernels import WIDTH

__all__ = ["FRAME_WORDS", "fill", "frame_values", "gather_lines", "pack_panels"]

#: table words that describe frames
FRAME_WORDS = (
    *("extent_z", "extent_y", "extent_x"),
    *("stride_z", "stride_y", "stride_x"),
    *("pad_z", "pad_y", "pad_x"),
    *("span_z", "span_y", "span_x"),
    *("phase_z", "plane", "phase_y", "line", "phase_x", "channel"),
)


def frame_values(shape: Geometry, frame: Frame) -> dict[str, int | Reference]:
    """Return the table words that describe a frame."""
    values: dict[str, int | Reference] = {}
    spans = [(width - 1) * gap // step for width, gap, step in zip(shape.kernel, shape.dilate, shape.stride)]
    for name, numbers in (("extent", shape.extent), ("stride", frame.stride), ("pad", shape.pad), ("span", spans)):
        values.update({f"{name}_{axis}": number for axis, number in zip("zyx", numbers)})
    phases = (frame.sizes[0] * frame.plane, frame.sizes[1] * frame.line, frame.sizes[2])
    values.update({f"phase_{axis}": number for axis, number in zip("zyx", phases)})
    return {**values, "plane": frame.plane, "line": frame.line, "channel": frame.channel}


def fill(name: str, lanes: int, dtype: DType, words: Words, x_stride: int) -> Routine:
    """Return the routine that makes the frame of one channel for a box that begins at (z, y, x).

    ``x_stride`` is the stride along x if the kernel is specialized for it (see
    :mod:`~phonograd.core.kernels.deinterleave`), else 0. Lines are stored in whole vectors in the order of their
    addresses: the next line overwrites vectors beyond the end of a line.
    """
    arguments = "ptr %table, ptr noalias %frame, ptr noalias %image, i64 %z, i64 %y, i64 %x, "
    e = Routine(name, lanes, dtype, arguments + "i64 %depth, i64 %height, i64 %width")
    number = {word: words.index(e, word) for word in FRAME_WORDS}

    def along(axis: str, first: Index, count: Index, body: Callable[[Index, Index], None]) -> None:
        """Write the loops over phases and elements along an axis: ``body(offset in the frame, coordinate)``."""
        stride, phase_pitch = number[f"stride_{axis}"], number[f"phase_{axis}"]
        pitch = {"z": number["plane"], "y": number["line"]}[axis]

        def phase(phase: Index) -> None:
            start = e.minus(e.plus(e.times(first, stride), phase), number[f"pad_{axis}"])

            def element(index: Index) -> None:
                place = e.plus(e.times(phase, phase_pitch), e.times(index, pitch))
                body(place, e.plus(start, e.times(index, stride)))

            e.for_each("0", e.plus(number[f"span_{axis}"], count), element)

        e.for_each("0", stride, phase)

    stride = str(x_stride) if x_stride else number["stride_x"]
    count = e.plus(number["span_x"], "%width")

    def line(frame: str, image: str, width: Index) -> None:
        start = e.minus(e.times("%x", stride), number["pad_x"])

        def load(place: Index) -> Value:
            return e.get_where(image, inside_mask(e, place, width), place)

        def all_phases(index: Index) -> None:
            first = e.plus(start, e.times(index, stride))
            vectors = [load(e.plus(first, str(n * lanes))) for n in range(x_stride)]
            for phase, value in enumerate(sort(e, vectors)):
                e.store(frame, e.plus(index, e.times(str(phase), number["phase_x"])), value)

        def one_phase(phase: Index) -> None:
            target = e.at(frame, e.times(phase, number["phase_x"]))

            def vector(index: Index) -> None:
                first = e.total(start, phase, e.times(index, stride))
                mask = inside_mask(e, first, width, stride)
                e.store(target, index, e.gather(image, first, stride, dtype, mask))

            e.for_each("0", count, vector, str(lanes))

        if x_stride:
            e.for_each("0", count, all_phases, str(lanes))
        else:
            e.for_each("0", stride, one_phase)

    def plane(z_place: Index, z: Index) -> None:
        z_inside = e.test("ult", z, number["extent_z"])

        def inner(y_place: Index, y: Index) -> None:
            inside = e.logical_and(z_inside, e.test("ult", y, number["extent_y"]))
            source = e.times(e.plus(e.times(z, number["extent_y"]), y), number["extent_x"])
            # a line outside of the data has no elements: all lanes are masked
            width = e.select_index(inside, number["extent_x"], "0")
            line(e.at("%frame", z_place, y_place), e.at("%image", source), width)

        along("y", "%y", "%height", inner)

    along("z", "%z", "%depth", plane)
    return e


_LINES = "ptr noalias %lines, ptr noalias %seen, i64 %depth, i64 %height, i64 %width, i64 %plane, i64 %line"


def gather_lines(name: str, lanes: int, dtype: DType) -> Routine:
    """Return the routine that copies the elements of a box at a tap, one line after the other without gaps.

    It stores up to a vector beyond the last line, and never reads beyond a line.
    """
    e = Routine(name, lanes, dtype, _LINES)
    last, mask = e.tail("%width")

    def plane(z: Index) -> None:
        def line(y: Index) -> None:
            target = e.at("%lines", e.times(e.plus(e.times(z, "%height"), y), "%width"))
            source = e.at("%seen", e.times(z, "%plane"), e.times(y, "%line"))
            e.for_each("0", last, lambda index: e.store(target, index, e.get(source, index)), str(lanes))
            e.store(target, last, e.get_where(source, mask, last))

        e.for_each("0", "%height", line)

    e.for_each("0", "%depth", plane)
    return e


_PANELS = (
    "ptr noalias %panels, ptr noalias %seen, i64 %first, i64 %count, i64 %depth, i64 %height, i64 %width, i64 %plane, "
    "i64 %line, i64 %image, i64 %channels, i64 %channel, i64 %taps, ptr noalias %places"
)


def pack_panels(name: str, lanes: int, dtype: DType, exactly: bool) -> Routine:
    """Return the routine that copies ``%count`` windows from ``%first`` on, at all taps of some channels.

    A panel is as wide as a product; a line of it holds the elements of its windows at a tap. Windows are numbered along
    the lines of a box, and along the boxes of images at a distance of ``%image``. The routine stores up to two vectors
    beyond the last panel. If ``exactly``, it reads the elements of windows only.
    """
    return _PackPanels(name, lanes, dtype, exactly).write()


class _PackPanels:
    """Writes the routine."""

    def __init__(self, name: str, lanes: int, dtype: DType, exactly: bool) -> None:
        self.e = e = Routine(name, lanes, dtype, _PANELS)
        self.size = WIDTH * lanes
        self.exactly = exactly
        # for each line of windows in a panel: where its elements begin in the data and in the panel, and their number
        self.pieces = e.scratch(3 * self.size)
        self.depth = e.times("%channels", "%taps")

    def write(self) -> Routine:
        e = self.e
        # a 1 by 1 convolution has one line
        in_line = e.test("sle", e.plus("%first", "%count"), "%width")
        e.when(
            in_line,
            lambda: self._lines("%panels", self._copy_line),
            lambda: e.for_each("0", "%count", self._panel, str(self.size)),
        )
        return e

    def _lines(self, panel: str, copy: Callable[[str, str], None]) -> None:
        """Write the loop over all lines of a panel: ``copy(line, place of its tap)``."""
        e = self.e

        def channel(c: Index) -> None:
            above, here = e.times(c, "%taps"), e.at("%seen", e.times(c, "%channel"))

            def tap(t: Index) -> None:
                copy(e.at(panel, e.times(e.plus(above, t), str(self.size))), e.at(here, e.load_word("%places", t)))

            e.for_each("0", "%taps", tap)

        e.for_each("0", "%channels", channel)

    def _get(self, source: str, at: Index, mask: Value | None) -> Value:
        return self.e.get(source, at) if mask is None else self.e.get_where(source, mask, at)

    def _masks(self, length: Index) -> list[Value | None]:
        """Return the masks of elements in the vectors of a line, or None where it is allowed to read beyond them."""
        e = self.e
        return [e.below(e.minus(length, str(v * e.lanes))) if self.exactly else None for v in range(WIDTH)]

    def _copy_line(self, target: str, source: str) -> None:
        """Write the copy of a line of all panels, from elements that are contiguous."""
        e = self.e
        seen = e.at(source, "%first")
        whole = e.times(e.quotient("%count", str(self.size)), str(self.size))

        def copy(first: Index, masks: list[Value | None]) -> None:
            into = e.at(target, e.times(first, self.depth))
            for vector, mask in enumerate(masks):
                at = str(vector * e.lanes)
                e.store(into, at, self._get(seen, e.plus(first, at), mask))

        e.for_each("0", whole, lambda first: copy(first, [None] * WIDTH), str(self.size))
        rest = e.minus("%count", whole)
        e.when(e.test("sgt", rest, "0"), lambda: copy(whole, self._masks(rest)))

    def _panel(self, at: Index) -> None:
        """Write the copy of one panel of windows in several lines."""
        e, lanes = self.e, self.e.lanes
        first = e.plus("%first", at)
        stop = e.plus(first, e.least(str(self.size), e.minus("%count", at)))
        line, end = e.quotient(first, "%width"), e.plus(e.quotient(e.minus(stop, "1"), "%width"), "1")
        e.for_each(line, end, lambda number: self._describe(number, first, stop, e.minus(number, line)))
        count, panel = e.minus(end, line), e.at("%panels", e.times(at, self.depth))
        # lines of a vector or more make at most three pieces, and lines of half a vector at most five
        e.when(
            e.test("sge", "%width", str(lanes)),
            lambda: self._by_count(panel, count),
            lambda: e.when(
                e.test("sge", e.plus("%width", "%width"), str(lanes)),
                lambda: self._few_pieces(panel, 5, 1, count),
                lambda: self._many_pieces(panel, count),
            ),
        )

    def _by_count(self, panel: str, count: Index) -> None:
        e = self.e
        e.when(
            e.test("eq", count, "1"),
            lambda: self._few_pieces(panel, 1, WIDTH, count),
            lambda: e.when(
                e.test("eq", count, "2"),
                lambda: self._few_pieces(panel, 2, WIDTH, count),
                lambda: self._few_pieces(panel, 3, WIDTH, count),
            ),
        )

    def _describe(self, number: Index, first: Index, stop: Index, place: Index) -> None:
        e = self.e
        start = e.times(number, "%width")
        left = e.most(e.minus(first, start), "0")
        right = e.least(e.minus(stop, start), "%width")
        rest, y = e.split(number, "%height")
        image, z = e.split(rest, "%depth")
        begin = e.total(e.times(image, "%image"), e.times(z, "%plane"), e.times(y, "%line"), left)
        piece = e.address(self.pieces, e.times(place, "3"), "i64")
        for word, value in enumerate((begin, e.minus(e.plus(start, left), first), e.minus(right, left))):
            e.store_word(piece, str(word), value)

    # the next piece or the next line overwrites vectors beyond the end of a piece

    def _few_pieces(self, panel: str, number: int, vectors: int, count: Index) -> None:
        """Write the copy of lines in some pieces, each of up to some vectors; missing pieces repeat the last one."""
        e = self.e
        found = []
        for which in range(number):
            piece = e.times(e.least(str(which), e.minus(count, "1")), "3")
            begin, place, length = [e.load_word(self.pieces, e.plus(piece, str(word))) for word in range(3)]
            found.append((begin, place, self._masks(length)[:vectors]))

        def copy(target: str, source: str) -> None:
            for begin, place, masks in found:
                seen, into = e.at(source, begin), e.at(target, place)
                for vector, mask in enumerate(masks):
                    at = str(vector * e.lanes)
                    e.store(into, at, self._get(seen, at, mask))

        self._lines(panel, copy)

    def _many_pieces(self, panel: str, count: Index) -> None:
        """Write the copy of lines in pieces of less than a vector."""
        e = self.e

        def copy(target: str, source: str) -> None:
            def one(number: Index) -> None:
                piece = e.address(self.pieces, e.times(number, "3"), "i64")
                mask = e.below(e.load_word(piece, "2")) if self.exactly else None
                found = self._get(e.at(source, e.load_word(piece, "0")), "0", mask)
                e.store(e.at(target, e.load_word(piece, "1")), "0", found)

            e.for_each("0", count, one)

        self._lines(panel, copy)
