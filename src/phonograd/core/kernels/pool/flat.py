"""Pooling of planes with so few windows along x that vectors of one line would be nearly empty.

Lanes are the windows of a whole plane, across lines, and the elements at a tap are gathered. All windows are inside the
data. The unnamed words of the table hold the offsets of taps from the first element of a window. The kernel computes
the first elements of windows at the beginning of a call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ...base.dtypes import INT32, INT64
from ...graph.node import Shape
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import all_lanes
from ..launch import Words
from ..routine import Routine, module
from ..scratch import in_slot
from .adjoints import SPREAD_LARGEST
from .window_loops import REDUCE, PlaneKernel, Windows, combine, identity, narrow

__all__ = ["ReduceFlat", "SpreadFlat", "flat_taps", "suits"]

#: maximum number of taps and windows of a plane
_MOST_TAPS, _MOST_WINDOWS = 16, 1 << 12


def suits(lanes: int, extent: Shape, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> bool:
    """Return whether such windows are faster plane by plane than line by line."""
    taps, windows = 1, 1
    for size, width, step, border, count in zip(extent, kernel, stride, pad, counts):
        if border or (count - 1) * step + width > size:
            return False
        taps *= width
        windows *= count
    return counts[-1] < lanes and lanes // 2 < windows <= _MOST_WINDOWS and taps <= _MOST_TAPS


def flat_taps(extent: Shape, kernel: Shape) -> list[int]:
    """Return the offsets of a window's elements in its plane, from the first one.

    >>> flat_taps((8, 10), (2, 2))
    [0, 1, 10, 11]
    """
    places = [0]
    for size, width in zip(extent, kernel):
        places = [place * size + at for place in places for at in range(width)]
    return places


class _Flat:
    """Writes one kernel."""

    def __init__(self, name: str, kernel: ReduceFlat | SpreadFlat, words: Words) -> None:
        self.e = e = Routine(name, kernel.lanes, kernel.dtype)
        self.kernel, self.words = kernel, words
        self.windows = Windows(e, words, 0)
        self.places = words.tail(e)
        axes = [self.windows[f"kernel_{axis}"] for axis in "zyx"]
        self.count = e.times(e.times(axes[0], axes[1]), axes[2])

    def planes(self, body: Callable[[Index, str], None]) -> None:
        """Write the loop over planes: ``body(number of the plane, address of the windows' offsets)``."""

        def all_planes(slot: str) -> None:
            self._begin(slot)
            self.e.for_each("%lo", "%hi", lambda plane: body(plane, slot))

        in_slot(self.e, self.words, all_planes)

    def _begin(self, slot: str) -> None:
        """Write the code that computes the offset of each window in its plane."""
        e, windows = self.e, self.windows
        step = e.multiply(e.steps(INT32), narrow(e, windows["stride_x"]))

        def line(z: Index, y: Index) -> None:
            row = windows.row(e.times(z, windows["stride_z"]), e.times(y, windows["stride_y"]), "extent")
            target = e.address(slot, windows.row(z, y, "count"), "i32")

            # the next line overwrites vectors beyond the end of a line
            def some(first: Index) -> None:
                start = e.plus(row, e.times(first, windows["stride_x"]))
                e.store(target, first, e.add(narrow(e, start), step))

            e.for_each("0", windows["count_x"], some, str(e.lanes))

        windows.rows(line, "count")

    def place(self, slot: str, first: Index) -> Value:
        """Return the offsets of the windows from ``first`` on."""
        return self.e.load(slot, first, INT32)

    def taps(self, carried: Value, body: Callable[[Value, Value], Value]) -> Value:
        """Write a loop over all taps, last to first: ``body(offset, carried)``; return the carried value."""
        e = self.e

        def one(number: Index, partial: list[Value]) -> Sequence[Value]:
            place = e.load_word(self.places, e.minus(e.minus(self.count, "1"), number))
            return [body(narrow(e, place), partial[0])]

        return e.loop("0", self.count, "1", [carried], one)[0]

    def column(self, x: Index, carried: Value, body: Callable[[Value, Value], Value]) -> Value:
        """Write a loop over the taps with one place along x, first to last, and return the carried value."""
        e, windows = self.e, self.windows

        def one(row: Index, partial: list[Value]) -> Sequence[Value]:
            place = e.load_word(self.places, e.plus(e.times(row, windows["kernel_x"]), x))
            return [body(narrow(e, place), partial[0])]

        return e.loop("0", e.times(windows["kernel_z"], windows["kernel_y"]), "1", [carried], one)[0]

    def tap_values(self, plane: str, place: Value, tap: Value, mask: Value | None) -> Value:
        """Return the elements of windows at a tap."""
        e = self.e
        return e.gather_at(plane, e.convert(e.add(place, tap), INT64), e.dtype, mask or all_lanes())


@dataclasses.dataclass(frozen=True)
class ReduceFlat(PlaneKernel):
    """The kernel of the largest element of each window, or of the sum."""

    largest: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        flat = _Flat(name, self, REDUCE)
        e, windows = flat.e, flat.windows

        def plane(number: Index, slot: str) -> None:
            source = e.at(REDUCE.pointer(e, "data"), e.times(number, windows["pixels"]))
            target = e.at(REDUCE.pointer(e, "out"), e.times(number, windows["windows"]))

            def some(first: Index, mask: Value | None) -> None:
                place, neutral = flat.place(slot, first), identity(e, self.largest)

                def tap(offset: Value, partial: Value) -> Value:
                    return combine(e, self.largest, partial, flat.tap_values(source, place, offset, mask))

                def column(x: Index, partial: list[Value]) -> Sequence[Value]:
                    return [combine(e, self.largest, partial[0], flat.column(x, neutral, tap))]

                # the order of kernels of lines: which of the two runs depends on the length of vectors
                (value,) = e.loop("0", windows["kernel_x"], "1", [neutral], column)
                windows.save(target, first, mask, value)

            windows.vectors(windows["windows"], some)

        flat.planes(plane)
        return module(e)


@dataclasses.dataclass(frozen=True)
class SpreadFlat(PlaneKernel):
    """The kernel of the adjoint of maxima for windows that do not overlap."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        flat = _Flat(name, self, SPREAD_LARGEST)
        e, windows = flat.e, flat.windows

        def plane(number: Index, slot: str) -> None:
            start, base = e.times(number, windows["windows"]), e.times(number, windows["pixels"])
            data, target = [e.at(SPREAD_LARGEST.pointer(e, operand), base) for operand in ("data", "out")]
            largest, gradients = [
                e.at(SPREAD_LARGEST.pointer(e, operand), start) for operand in ("largest", "out_grad")
            ]
            e.clear_exactly(target, windows["pixels"])

            def some(first: Index, mask: Value | None) -> None:
                place, most = flat.place(slot, first), windows.load(largest, first, mask)

                def tap(offset: Value, chosen: Value) -> Value:
                    match = e.compare("oeq", flat.tap_values(data, place, offset, mask), most)
                    # taps run backwards, so the first match is found last
                    return e.select(match, offset, chosen)

                chosen = flat.taps(e.constant(0, INT32), tap)
                offsets = e.convert(e.add(place, chosen), INT64)
                e.scatter_at(target, offsets, windows.load(gradients, first, mask), mask or all_lanes())

            windows.vectors(windows["windows"], some)

        flat.planes(plane)
        return module(e)
