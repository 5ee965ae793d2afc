"""Adjoint of im2col: every element of the data is the sum of the elements of columns copied from it.

For each line of the data, the routine adds up in registers the lines of columns that overlap it, tap by tap, each
shifted by its offset in the window. With a stride along x, elements with the same taps (a *phase*) are summed up
together. If the routine knows the taps, it sorts the sums of all phases in registers; else it stores each phase to a
line of scratch memory first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...base.dtypes import DType
from ...graph.node import Shape
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import inside_mask, put_line, specialized_stride, unsort
from ..launch import Reference, Words
from ..routine import Routine
from .geometry import Geometry

__all__ = ["ADJOINT_WORDS", "KnownTaps", "adjoint_values", "collect", "known_taps", "line_buffer"]

#: table words that describe the adjoint; the unnamed words hold the positions of taps
ADJOINT_WORDS = (
    *("extent_z", "extent_y", "extent_x", "stride_z", "stride_y", "stride_x", "pad_z", "pad_y", "pad_x"),
    *("kernel_z", "kernel_y", "kernel_x", "span_z", "span_y", "span_x", "phase_x", "adding"),
)

#: widest kernel that routines are specialized for
_MOST_TAPS = 8

#: sums computed side by side
_CHAINS = 3

#: for each vector of a line, a position and a mask
_Shifted = list[tuple[Index, Value]]
#: adds a tap along x to the sums of some vectors: ``tap(x, sums, positions)``
_Tap = Callable[[Index, list[Value], _Shifted], list[Value]]

#: vectors of a line summed up at once
_WIDTH = 2


class KnownTaps(NamedTuple):
    """Facts about a kernel along x that a routine is specialized for."""

    stride: int
    """Stride, or 0 if the routine is not specialized for it."""
    width: int
    """Number of taps, or 0 if the routine is not specialized for it."""
    phase: int
    """Phase of the first element of a line, if the routine is specialized for strides and taps."""


def known_taps(shape: Geometry) -> KnownTaps:
    """Return what a routine knows about a kernel."""
    stride, width = specialized_stride(shape.stride[2]), shape.kernel[2]
    if not stride or width > _MOST_TAPS or (stride > 1 and shape.dilate[2] > 1):
        return KnownTaps(stride, 0, 0)
    return KnownTaps(stride, width, shape.pad[2] % stride)


def adjoint_values(shape: Geometry, lanes: int, boxes: int) -> dict[str, int | Reference]:
    """Return the table words of the adjoint for some boxes."""
    values: dict[str, int | Reference] = {"adding": int(boxes > 1), "phase_x": line_buffer(shape, lanes)}
    # the greatest distance of an element from the first one of a window that contains it
    spans = [(width - 1) * gap for width, gap in zip(shape.kernel, shape.dilate)]
    named: Sequence[tuple[str, Shape | list[int]]] = (
        *(("extent", shape.extent), ("stride", shape.stride), ("pad", shape.pad)),
        *(("kernel", shape.kernel), ("span", spans)),
    )
    for name, numbers in named:
        values.update({f"{name}_{axis}": number for axis, number in zip("zyx", numbers)})
    return values


def line_buffer(shape: Geometry, lanes: int) -> int:
    """Return the number of elements of scratch memory for a phase of a line."""
    if shape.stride[2] == 1:
        return 0
    return (shape.extent[2] - 1 + shape.pad[2]) // shape.stride[2] + 1 + _WIDTH * lanes


class _Collect:
    """Writes the routine."""

    def __init__(self, name: str, lanes: int, dtype: DType, words: Words, known: KnownTaps, weighted: bool) -> None:
        arguments = (
            "ptr %table, ptr noalias %image, ptr noalias %columns, i64 %columns_line, ptr noalias %buffer, "
            "i64 %z, i64 %y, i64 %x, i64 %depth, i64 %height, i64 %width"
        )
        arguments += ", ptr noalias %weight, i64 %filters" if weighted else ""
        self.e = e = Routine(name, lanes, dtype, arguments)
        self.number = {word: words.index(e, word) for word in ADJOINT_WORDS}
        self.known = known
        self.weighted = weighted
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
                below = e.minus(number["extent_y"], y)
                lines = e.plus(e.times(e.minus(e.minus(number["extent_z"], z), "1"), number["extent_y"]), below)
                rest = e.times(lines, number["extent_x"])
                if self.known.stride == 1:
                    self._line(target, places, rest)
                elif self.known.width:
                    self._sorted_line(target, places, rest)
                else:
                    self._phases(target, places)

            e.for_each(*self._meeting("y"), line)

        e.for_each(*self._meeting("z"), plane)
        return e

    def _meeting(self, axis: str) -> tuple[Index, Index]:
        """Return the range of the data along an axis that the box overlaps, or all of it if there is only one box."""
        e, number = self.e, self.number
        first = e.minus(e.times(f"%{axis}", number[f"stride_{axis}"]), number[f"pad_{axis}"])
        count = {"z": "%depth", "y": "%height", "x": "%width"}[axis]
        reach = e.plus(e.times(e.minus(count, "1"), number[f"stride_{axis}"]), number[f"span_{axis}"])
        stop = e.plus(e.plus(first, reach), "1")
        return (
            e.select_index(self.adding, e.most(first, "0"), "0"),
            e.select_index(self.adding, e.least(stop, number[f"extent_{axis}"]), number[f"extent_{axis}"]),
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
        """Write the loop over taps along an axis whose windows are in the box: ``body(tap, window, sums)``."""
        e = self.e
        element, phase = place

        def tap(index: Index, partial: list[Value]) -> list[Value]:
            step = e.address(self.steps[axis], e.times(index, "2"), "i64")
            window = e.minus(e.minus(element, e.load_word(step, "1")), f"%{axis}")
            meets = e.logical_and(e.test("eq", e.load_word(step, "0"), phase), e.test("ult", window, count))
            return e.choose(meets, lambda: body(index, window, partial), lambda: partial)

        return e.loop("0", self.number[f"kernel_{axis}"], "1", sums, tap)

    def _sums(self, places: dict[str, tuple[Index, Index]], first: Index, phase: Index, vectors: int) -> list[Value]:
        """Return the sums of all columns that overlap some vectors of a line, which begin at window ``first``."""
        e, number, width = self.e, self.number, self.known.width if self.known.stride == 1 else 0
        # each addition waits for the one before, so several sums run side by side
        chains = min(max(width, 1), _CHAINS)
        known = [self._tap_positions(first, str(x), vectors) for x in range(width)]

        def x_taps(partial: list[Value], tap: _Tap) -> list[Value]:
            if width:
                found = list(partial)
                for x, shifted in enumerate(known):
                    chain = slice(x % chains * vectors, (x % chains + 1) * vectors)
                    found[chain] = tap(str(x), found[chain], shifted)
                return found

            def one(x: Index, found: list[Value]) -> list[Value]:
                if self.known.stride == 1:
                    return tap(x, found, self._tap_positions(first, x, vectors))
                meets = e.test("eq", e.load_word(self.steps["x"], e.times(x, "2")), phase)
                return e.choose(meets, lambda: tap(x, found, self._tap_positions(first, x, vectors)), lambda: found)

            return e.loop("0", number["kernel_x"], "1", partial, one)

        sums = self._lines_of_taps(places, [e.zeros()] * (vectors * chains), x_taps)
        for chain in range(1, chains):
            sums[:vectors] = [e.add(a, b) for a, b in zip(sums, sums[chain * vectors : (chain + 1) * vectors])]
        return sums[:vectors]

    def _lines_of_taps(
        self,
        places: dict[str, tuple[Index, Index]],
        sums: list[Value],
        x_taps: Callable[[list[Value], _Tap], list[Value]],
    ) -> list[Value]:
        """Write the loops over taps along z and y, and over filters: ``x_taps(sums, tap)`` adds the taps along x."""
        e, number = self.e, self.number

        def z_tap(z: Index, plane: Index, partial: list[Value]) -> list[Value]:
            def y_tap(y: Index, line: Index, partial: list[Value]) -> list[Value]:
                row = e.times(e.plus(e.times(z, number["kernel_y"]), y), number["kernel_x"])
                start = e.times(e.plus(e.times(plane, "%height"), line), "%width")
                if self.weighted:
                    return self._filters(start, row, partial, x_taps)
                lines = e.at("%columns", e.times(row, "%columns_line"), start)

                def tap(x: Index, found: list[Value], shifted: _Shifted) -> list[Value]:
                    here = e.at(lines, e.times(x, "%columns_line"))
                    return [e.add(value, e.get_where(here, mask, at)) for value, (at, mask) in zip(found, shifted)]

                return x_taps(partial, tap)

            return self._taps("y", places["y"], "%height", partial, y_tap)

        return self._taps("z", places["z"], "%depth", sums, z_tap)

    def _tap_positions(self, first: Index, x: Index, vectors: int) -> _Shifted:
        """Return, for each vector, its position in a line of windows at a tap, and the mask of lanes in the line."""
        e = self.e
        window = e.minus(first, e.load_word(self.steps["x"], e.plus(e.times(x, "2"), "1")))
        places = [e.plus(window, str(vector * e.lanes)) for vector in range(vectors)]
        return [(place, inside_mask(e, place, "%width")) for place in places]

    def _filters(
        self,
        start: Index,
        row: Index,
        sums: list[Value],
        x_taps: Callable[[list[Value], _Tap], list[Value]],
    ) -> list[Value]:
        """Write the loop over filters, whose lines are those of gradients times weights."""
        e, number = self.e, self.number
        taps = e.times(e.times(number["kernel_z"], number["kernel_y"]), number["kernel_x"])

        def one(filter_: Index, partial: list[Value]) -> list[Value]:
            source = e.at("%columns", e.times(filter_, "%columns_line"), start)
            numbers = e.at("%weight", e.times(filter_, taps), row)

            def tap(x: Index, found: list[Value], shifted: _Shifted) -> list[Value]:
                weight = e.get_splat(numbers, x)
                terms = [e.get_where(source, mask, place) for place, mask in shifted]
                return [e.fma(weight, term, value) for value, term in zip(found, terms)]

            return x_taps(partial, tap)

        return e.loop("0", "%filters", "1", sums, one)

    def _vectors(self, start: Index, stop: Index, body: Callable[[Index, int], None]) -> None:
        """Write a loop over a line, two vectors at once, or one if one is enough."""
        e = self.e

        def some(index: Index) -> None:
            wide = e.test("sgt", e.minus(stop, index), str(e.lanes))
            e.when(wide, lambda: body(index, _WIDTH), lambda: body(index, 1))

        e.for_each(start, stop, some, str(_WIDTH * e.lanes))

    # -- lines of data

    def _line(self, target: str, places: dict[str, tuple[Index, Index]], rest: Index) -> None:
        """Write the sums of a line; ``rest`` elements of the image begin with it."""
        e, number = self.e, self.number
        start, stop = self._meeting("x")

        def some(index: Index, vectors: int) -> None:
            first = e.minus(e.plus(index, number["pad_x"]), "%x")
            for vector, value in enumerate(self._sums(places, first, "0", vectors)):
                self._put_vector(target, e.plus(index, str(vector * e.lanes)), value, stop, rest)

        self._vectors(start, stop, some)

    def _put_vector(self, target: str, at: Index, value: Value, stop: Index, rest: Index) -> None:
        """Store a vector of a line up to ``stop``, or add it to the sums of other boxes.

        Later lines overwrite what is stored beyond the end of a line; masked stores take ten times as long.
        """
        e = self.e
        limit = e.select_index(self.adding, stop, rest)

        def whole() -> None:
            (total,) = e.choose(self.adding, lambda: [e.add(e.get(target, at), value)], lambda: [value])
            e.store(target, at, total)

        def part() -> None:
            self._put(target, at, value, e.below(e.minus(stop, at)))

        e.when(e.test("sle", e.plus(at, str(e.lanes)), limit), whole, part)

    def _put(self, target: str, at: Index, value: Value, mask: Value) -> None:
        """Store a part of a vector of a line, or add it to the sums of other boxes."""
        e = self.e
        (total,) = e.choose(self.adding, lambda: [e.add(e.get_where(target, mask, at), value)], lambda: [value])
        e.store_where(target, at, total, mask)

    def _sorted_line(self, target: str, places: dict[str, tuple[Index, Index]], rest: Index) -> None:
        """Write the sums of a line, sorting phases in registers; ``rest`` elements of the image begin with it."""
        e, number, (stride, width, phase) = self.e, self.number, self.known
        shift = e.quotient(number["pad_x"], str(stride))

        def some(index: Index) -> None:
            # lane k of vector n belongs to element index + stride * k + n of the line
            first = e.plus(e.quotient(index, str(stride)), shift)
            taps = [(n, x, (n + phase - x) // stride) for x in range(width) for n in range(stride)]
            known = [(n, x, e.plus(first, str(step))) for n, x, step in taps if (n + phase - x) % stride == 0]
            shifted = [(n, x, (window, inside_mask(e, window, "%width"))) for n, x, window in known]

            def x_taps(partial: list[Value], tap: _Tap) -> list[Value]:
                found = list(partial)
                for n, x, position in shifted:
                    found[n : n + 1] = tap(str(x), found[n : n + 1], [position])
                return found

            sums = self._lines_of_taps(places, [e.zeros()] * stride, x_taps)
            for vector, value in enumerate(unsort(e, sums)):
                self._put_vector(target, e.plus(index, str(vector * e.lanes)), value, number["extent_x"], rest)

        e.for_each("0", number["extent_x"], some, str(stride * e.lanes))

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

        e.for_each("0", stride, phase)
        put_line(
            *(e, self.known.stride, stride, ("%buffer", number["phase_x"]), (pad, width)),
            lambda place, value, mask: self._put(target, place, value, mask),
            lambda place, value: self._put_one(e.at(target, place), value),
        )

    def _put_one(self, place: str, value: str) -> None:
        """Store an element, or add it to the sums of other boxes."""
        e = self.e
        e.when(
            self.adding,
            lambda: e.put_one(place, e.add_one(e.get_one(place), value)),
            lambda: e.put_one(place, value),
        )


def collect(name: str, lanes: int, dtype: DType, words: Words, known: KnownTaps, weighted: bool = False) -> Routine:
    """Return the routine that adds up the columns of a box to one channel of data.

    If ``weighted``, the lines of columns are those of gradients times weights: there is one channel, and some filters.
    With a stride along x, the lines of a box are whole.
    """
    return _Collect(name, lanes, dtype, words, known, weighted).write()
