"""The adjoint of making columns: every element of the data is the sum of the elements of columns that come from it.

For each line of the data, the lines of columns that meet it are added up in registers, tap by tap, each shifted by its
place in the window. With a stride along x, elements that meet the same taps (a *phase*) are summed up together and
written to a line of memory first, from which they go to their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dtypes import DType
from ...node import Shape
from ..function import Index, Value
from ..launch import Reference, Words
from ..routine import Routine
from .frames import inside
from .geometry import Geometry

__all__ = ["ADJOINT_WORDS", "adjoint_values", "collect", "line_buffer"]

#: words of a table that describe the way back; where taps lie stands in the words without names
ADJOINT_WORDS = (
    *("extent_z", "extent_y", "extent_x", "stride_z", "stride_y", "stride_x", "pad_z", "pad_y", "pad_x"),
    *("kernel_z", "kernel_y", "kernel_x", "span_z", "span_y", "span_x", "phase_x", "adding"),
)

#: vectors of a line that are summed up at once
_WIDTH = 2


def adjoint_values(shape: Geometry, lanes: int, boxes: int) -> dict[str, int | Reference]:
    """Return the words that describe the way back from columns of some boxes."""
    values: dict[str, int | Reference] = {"adding": int(boxes > 1), "phase_x": line_buffer(shape, lanes)}
    # how far an element can lie from the first of a window that it belongs to
    spans = [(width - 1) * gap for width, gap in zip(shape.kernel, shape.dilate)]
    named: Sequence[tuple[str, Shape | list[int]]] = (
        *(("extent", shape.extent), ("stride", shape.stride), ("pad", shape.pad)),
        *(("kernel", shape.kernel), ("span", spans)),
    )
    for name, numbers in named:
        values.update({f"{name}_{axis}": number for axis, number in zip("zyx", numbers)})
    return values


def line_buffer(shape: Geometry, lanes: int) -> int:
    """Return how many elements of memory a phase of a line takes."""
    if shape.stride[2] == 1:
        return 0
    return (shape.extent[2] - 1 + shape.pad[2]) // shape.stride[2] + 1 + _WIDTH * lanes


class _Collect:
    """The routine while it is written."""

    def __init__(self, name: str, lanes: int, dtype: DType, words: Words, x_stride: int) -> None:
        arguments = (
            "ptr %table, ptr noalias %image, ptr noalias %columns, i64 %columns_line, ptr noalias %buffer, "
            "i64 %z, i64 %y, i64 %x, i64 %depth, i64 %height, i64 %width"
        )
        self.e = e = Routine(name, lanes, dtype, arguments)
        self.number = {word: words.index(e, word) for word in ADJOINT_WORDS}
        self.x_stride = x_stride
        self.steps: dict[str, str] = {}
        place: Index = "0"
        for axis in "zyx":
            self.steps[axis] = e.address(words.tail(e), place, "i64")
            place = e.plus(place, e.times(self.number[f"kernel_{axis}"], "2"))
        self.adding = e.test("ne", self.number["adding"], "0")

    def write(self) -> Routine:
        e, number = self.e, self.number

        def plane(z: Index) -> None:
            z_element, z_phase = e.split(e.plus(z, number["pad_z"]), number["stride_z"])

            def line(y: Index) -> None:
                y_element, y_phase = e.split(e.plus(y, number["pad_y"]), number["stride_y"])
                target = e.at("%image", e.times(e.plus(e.times(z, number["extent_y"]), y), number["extent_x"]))
                places = {"z": (z_element, z_phase), "y": (y_element, y_phase)}
                if self.x_stride == 1:
                    self._line(target, places)
                else:
                    self._phases(target, places)

            e.each(*self._meeting("y"), line)

        e.each(*self._meeting("z"), plane)
        return e

    def _meeting(self, axis: str) -> tuple[Index, Index]:
        """Return the range of the data along an axis that the box meets, or all of it if there is only one box."""
        e, number = self.e, self.number
        first = e.minus(e.times(f"%{axis}", number[f"stride_{axis}"]), number[f"pad_{axis}"])
        count = {"z": "%depth", "y": "%height", "x": "%width"}[axis]
        reach = e.plus(e.times(e.minus(count, "1"), number[f"stride_{axis}"]), number[f"span_{axis}"])
        stop = e.plus(e.plus(first, reach), "1")
        return (
            e.either(self.adding, e.most(first, "0"), "0"),
            e.either(self.adding, e.least(stop, number[f"extent_{axis}"]), number[f"extent_{axis}"]),
        )

    # -- sums over taps

    def _taps(
        self,
        axis: str,
        place: tuple[Index, Index],
        count: Index,
        sums: list[Value],
        body: Callable[[Index, Index, list[Value]], list[Value]],
    ) -> list[Value]:
        """Write the loop over taps along an axis whose windows lie in the box: ``body(tap, window, sums)``."""
        e = self.e
        element, phase = place

        def tap(index: Index, partial: list[Value]) -> list[Value]:
            step = e.address(self.steps[axis], e.times(index, "2"), "i64")
            window = e.minus(e.minus(element, e.load_word(step, "1")), f"%{axis}")
            meets = e.both(e.test("eq", e.load_word(step, "0"), phase), e.test("ult", window, count))
            return e.choose(meets, lambda: body(index, window, partial), lambda: partial)

        return e.loop("0", self.number[f"kernel_{axis}"], "1", sums, tap)

    def _sums(self, places: dict[str, tuple[Index, Index]], first: Index, phase: Index, vectors: int) -> list[Value]:
        """Return the sums of all that meets some vectors of a line; the first element is that of window ``first``."""
        e, number = self.e, self.number

        def z_tap(z: Index, plane: Index, partial: list[Value]) -> list[Value]:
            def y_tap(y: Index, line: Index, partial: list[Value]) -> list[Value]:
                row = e.times(e.plus(e.times(z, number["kernel_y"]), y), number["kernel_x"])
                start = e.times(e.plus(e.times(plane, "%height"), line), "%width")
                lines = e.at("%columns", e.times(row, "%columns_line"), start)
                return e.loop("0", number["kernel_x"], "1", partial, lambda x, found: x_tap(x, lines, found))

            return self._taps("y", places["y"], "%height", partial, y_tap)

        def x_tap(x: Index, lines: str, partial: list[Value]) -> list[Value]:
            step = e.address(self.steps["x"], e.times(x, "2"), "i64")
            source = e.at(lines, e.times(x, "%columns_line"))
            window = e.minus(first, e.load_word(step, "1"))

            def add() -> list[Value]:
                found = []
                for vector, value in enumerate(partial):
                    at = e.plus(window, str(vector * e.lanes))
                    found.append(e.add(value, e.get_where(source, inside(e, at, "%width"), at)))
                return found

            if self.x_stride == 1:
                return add()
            return e.choose(e.test("eq", e.load_word(step, "0"), phase), add, lambda: partial)

        return self._taps("z", places["z"], "%depth", [e.zeros()] * vectors, z_tap)

    def _vectors(self, start: Index, stop: Index, body: Callable[[Index, int], None]) -> None:
        """Write a loop over a line, two vectors at once, or one where one is enough."""
        e = self.e

        def some(index: Index) -> None:
            wide = e.test("sgt", e.minus(stop, index), str(e.lanes))
            e.when(wide, lambda: body(index, _WIDTH), lambda: body(index, 1))

        e.each(start, stop, some, str(_WIDTH * e.lanes))

    # -- lines of data

    def _line(self, target: str, places: dict[str, tuple[Index, Index]]) -> None:
        e, number = self.e, self.number
        start, stop = self._meeting("x")

        def some(index: Index, vectors: int) -> None:
            first = e.minus(e.plus(index, number["pad_x"]), "%x")
            for vector, value in enumerate(self._sums(places, first, "0", vectors)):
                at = e.plus(index, str(vector * e.lanes))
                self._put(target, at, value, e.below(e.minus(stop, at)))

        self._vectors(start, stop, some)

    def _put(self, target: str, at: Index, value: Value, mask: Value) -> None:
        """Write a vector of a line, or add it to what other boxes have left there."""
        e = self.e
        (total,) = e.choose(self.adding, lambda: [e.add(e.get_where(target, mask, at), value)], lambda: [value])
        e.store_where(target, at, total, mask)

    def _phases(self, target: str, places: dict[str, tuple[Index, Index]]) -> None:
        e, number = self.e, self.number
        pad, width, stride = number["pad_x"], number["extent_x"], number["stride_x"]
        count = e.plus(e.quotient(e.total(pad, width, "-1"), stride), "1")

        def phase(at: Index) -> None:
            buffer = e.at("%buffer", e.times(at, number["phase_x"]))

            def some(index: Index, vectors: int) -> None:
                for vector, value in enumerate(self._sums(places, e.minus(index, "%x"), at, vectors)):
                    e.store(buffer, e.plus(index, str(vector * e.lanes)), value)

            self._vectors("0", count, some)

        e.each("0", stride, phase)
        if self.x_stride == 2:
            self._interleave(target)
        else:
            self._distribute(target)

    def _interleave(self, target: str) -> None:
        """Write a line whose even and odd elements lie apart."""
        e, number = self.e, self.number
        pad, width = number["pad_x"], number["extent_x"]

        def pair(place: Index) -> None:
            index = e.shift_down(place, 1)
            even, odd = e.get("%buffer", index), e.get(e.at("%buffer", number["phase_x"]), index)
            for half in range(2):
                first = half * e.lanes // 2
                order = [lane // 2 + first + lane % 2 * e.lanes for lane in range(e.lanes)]
                at = e.minus(e.plus(place, str(half * e.lanes)), pad)
                self._put(target, at, e.shuffle(even, odd, order), inside(e, at, width))

        e.each(e.assign(f"and i64 {pad}, -2"), e.plus(pad, width), pair, str(2 * e.lanes))

    def _distribute(self, target: str) -> None:
        """Write a line whose phases lie apart, element by element."""
        e, number = self.e, self.number
        pad, width, stride = number["pad_x"], number["extent_x"], number["stride_x"]

        def phase(at: Index) -> None:
            # the first and the last element of this phase that belong to the data
            first = e.quotient(e.minus(e.total(pad, stride, "-1"), at), stride)
            stop = e.quotient(e.minus(e.total(width, pad, stride, "-1"), at), stride)

            def element(index: Index) -> None:
                place = e.at(target, e.minus(e.plus(e.times(index, stride), at), pad))
                value = e.get_one("%buffer", e.plus(e.times(at, number["phase_x"]), index))
                e.when(
                    self.adding,
                    lambda: e.put_one(place, e.add_one(e.get_one(place), value)),
                    lambda: e.put_one(place, value),
                )

            e.each(first, stop, element)

        e.each("0", stride, phase)


def collect(name: str, lanes: int, dtype: DType, words: Words, x_stride: int) -> Routine:
    """Return the routine that makes one channel of data of the columns of a box, or adds to it."""
    return _Collect(name, lanes, dtype, words, x_stride).write()
