"""Padding: routines that copy the windows of an image to lines of contiguous elements.

================  =================================================================================================
``fill``          makes the frame of a box: pads with zeros and sorts by phase
``gather_lines``  copies the elements of a box at one tap, one line of windows after the other
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

__all__ = ["FRAME_WORDS", "fill", "frame_values", "gather_lines"]

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
