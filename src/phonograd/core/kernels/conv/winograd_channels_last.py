"""Pictures: images in channels-last layout, with as many channels as a vector has lanes.

``turn_in`` copies a part of an image to a picture, padded with zeros; ``turn_out`` copies a picture to an image. Both
transpose lanes and elements in registers, a square at a time.
"""

from __future__ import annotations

from ...base.dtypes import FLOAT32, DType
from ...lower.ir.function_builder import Index
from ..routine import Routine

__all__ = ["turn_in", "turn_out"]


def turn_in(name: str, lanes: int, dtype: DType = FLOAT32) -> Routine:
    """Return the routine that makes a picture of ``%height`` lines of ``%width`` elements.

    Its first element is the image's at (``%y``, ``%x``); elements outside of ``%rows`` by ``%columns`` are zeros. There
    are ``%channels`` channels at a distance of ``%pixels``; lanes beyond them repeat the last one. Up to a square of
    lanes is stored beyond the end of the picture.
    """
    arguments = (
        "ptr noalias %picture, ptr noalias %image, i64 %pixels, i64 %channels, i64 %rows, i64 %columns, "
        "i64 %y, i64 %x, i64 %height, i64 %width"
    )
    e = Routine(name, lanes, dtype, arguments)
    last = e.minus("%channels", "1")
    planes = [e.at("%image", e.times(e.least(str(lane), last), "%pixels")) for lane in range(lanes)]
    left = e.least(e.most(e.minus("0", "%x"), "0"), "%width")
    # the end of the data in a line of the picture
    right = e.most(e.least(e.minus("%columns", "%x"), "%width"), left)

    def zeros(line: str, start: Index, stop: Index) -> None:
        e.for_each(start, stop, lambda index: e.store(line, e.times(index, str(lanes)), e.zeros()))

    def line(number: Index) -> None:
        row = e.plus("%y", number)
        target = e.at("%picture", e.times(e.times(number, "%width"), str(lanes)))
        source = e.plus(e.times(row, "%columns"), "%x")

        def square(index: Index) -> None:
            mask = e.below(e.minus(right, index))
            place = e.plus(source, index)
            turned = e.transpose([e.get_where(plane, mask, place) for plane in planes])
            for element, value in enumerate(turned):
                e.store(target, e.times(e.plus(index, str(element)), str(lanes)), value)

        def data_line() -> None:
            zeros(target, "0", left)
            e.for_each(left, right, square, str(lanes))
            zeros(target, right, "%width")

        e.when(e.test("ult", row, "%rows"), data_line, lambda: zeros(target, "0", "%width"))

    e.for_each("0", "%height", line)
    return e


def turn_out(name: str, lanes: int) -> Routine:
    """Return the routine that copies ``%height`` lines of ``%columns`` elements of a picture to an image.

    Lines are ``%width`` elements apart in the picture and ``%pitch`` in the image. There are ``%channels`` channels, at
    a distance of ``%pixels``; lanes beyond them are skipped.
    """
    arguments = (
        "ptr noalias %image, ptr noalias %picture, i64 %pixels, i64 %channels, i64 %pitch, i64 %columns, i64 %height, "
        "i64 %width"
    )
    e = Routine(name, lanes, FLOAT32, arguments)
    whole = e.test("sge", "%channels", str(lanes))

    def line(number: Index) -> None:
        source = e.at("%picture", e.times(e.times(number, "%width"), str(lanes)))
        target = e.at("%image", e.times(number, "%pitch"))

        def square(index: Index) -> None:
            mask = e.below(e.minus("%columns", index))
            picture = [e.get(source, e.times(e.plus(index, str(element)), str(lanes))) for element in range(lanes)]
            for lane, value in enumerate(e.transpose(picture)):
                place = e.plus(e.times(str(lane), "%pixels"), index)
                exists = e.assign(f"or i1 {whole}, {e.test('slt', str(lane), '%channels')}")
                e.when(exists, lambda value=value, place=place: e.store_where(target, place, value, mask))  # type: ignore[misc]

        e.for_each("0", "%columns", square, str(lanes))

    e.for_each("0", "%height", line)
    return e
