"""Pooling adjoints: every element of the result is a sum over the windows that contain it.

===================  ================================================================================================
``Spread``           adjoint of sums: over all of these windows
``SpreadLargest``    adjoint of maxima: over the windows whose largest element it is
``SpreadApart``      the same for windows that do not overlap and have no gaps along x, the usual case
===================  ================================================================================================

Terms are added up in a line of scratch memory, one phase of the stride after the other, and then stored in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ...base.dtypes import BOOL, INT32
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import all_lanes, inside_mask, put_line, sort, unsort
from ..launch import Words
from ..scratch import SLOT_WORDS
from .window_loops import WINDOW_WORDS, PlaneKernel, Windows, find, narrow

__all__ = ["SPREAD", "SPREAD_LARGEST", "Spread", "SpreadApart", "SpreadLargest"]

SPREAD = Words(*WINDOW_WORDS, *SLOT_WORDS, "data*", "out*")
SPREAD_LARGEST = Words(*WINDOW_WORDS, *SLOT_WORDS, "data*", "largest*", "out_grad*", "out*")


@dataclasses.dataclass(frozen=True)
class Spread(PlaneKernel):
    """The kernel of the adjoint of sums over windows; ``single`` if there is one window along x."""

    single: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""

        def plane(windows: Windows, plane: Index, slot: str) -> None:
            e = windows.e
            source = e.at(SPREAD.pointer(e, "data"), e.times(plane, windows["windows"]))
            target = e.at(SPREAD.pointer(e, "out"), e.times(plane, windows["pixels"]))

            def total(z: Index, y: Index, load: Callable[[str], Value]) -> Value:
                """Return the sum over all lines of windows that contain a line of data."""

                def in_line(z: Index, y: Index, partial: list[Value]) -> Sequence[Value]:
                    return [e.add(partial[0], load(e.at(source, windows.row(z, y, "count"))))]

                (value,) = _loop_windows_of(windows, z, y, [e.zeros()], in_line)
                return value

            def line(z: Index, y: Index) -> None:
                place = e.at(target, windows.row(z, y, "extent"))
                if self.single:
                    value = total(z, y, lambda row: e.get_splat(row))
                    first, stop = windows.reach("x", "0")

                    def part(at: Index, mask: Value | None) -> None:
                        met = inside_mask(e, e.minus(at, first), e.minus(stop, first))
                        windows.save(place, at, mask, e.select(met, value, e.zeros()))

                    windows.vectors(windows["extent_x"], part)
                    return

                def some(first: Index, mask: Value | None) -> None:
                    value = total(z, y, lambda row: windows.load(row, first, mask))
                    _each_tap(windows, lambda tap: _add_to_phase(windows, slot, first, tap, value))

                _clear_phases(windows, slot)
                windows.vectors(windows["count_x"], some)
                _write_phases(windows, slot, place)

            windows.rows(line, "extent")

        return self.module(name, SPREAD, plane, dtype=self.dtype)


def _loop_windows_of(
    windows: Windows,
    z: Index,
    y: Index,
    carried: list[Value],
    body: Callable[[Index, Index, list[Value]], Sequence[Value]],
) -> list[Value]:
    """Write a loop over all lines of windows that contain a line of data, and return the carried values."""
    e = windows.e
    planes, lines = windows.windows_of("z", z), windows.windows_of("y", y)

    def in_plane(z: Index, partial: list[Value]) -> Sequence[Value]:
        return e.loop(*lines, "1", partial, lambda y, found: body(z, y, found))

    return e.loop(*planes, "1", carried, in_plane)


@dataclasses.dataclass(frozen=True)
class SpreadLargest(PlaneKernel):
    """The kernel of the adjoint of maxima, given data, maxima, and gradients of the maxima."""

    single: bool
    """True if there is one window along x."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        search = find(f"{name}_find", self, SPREAD_LARGEST)

        def plane(windows: Windows, plane: Index, slot: str) -> None:
            e = windows.e
            data, largest, gradients, target = _operands(windows, plane)
            codes = e.at(slot, windows["codes_at"])
            known = [f"ptr {pointer}" for pointer in (data, largest, codes, slot)]
            e.invoke(search.name, "ptr %table", *known)

            def line(z: Index, y: Index) -> None:
                row = windows.row(z, y, "extent")
                if self.single:
                    self._line_of_one(windows, (z, y), row, (codes, gradients), e.at(target, row))
                    return

                def in_line(window_z: Index, window_y: Index, _: list[Value]) -> Sequence[Value]:
                    place = windows.row(window_z, window_y, "count")

                    def some(first: Index, mask: Value | None) -> None:
                        code = e.load(e.address(codes, place, "i32"), first, INT32)
                        gradient = windows.load(e.at(gradients, place), first, mask)

                        def tap(x: Index) -> None:
                            here = e.compare("eq", code, windows.positions(row, first, x))
                            _add_to_phase(windows, slot, first, x, e.select(here, gradient, e.zeros()))

                        _each_tap(windows, tap)

                    windows.vectors(windows["count_x"], some)
                    return ()

                _clear_phases(windows, slot)
                _loop_windows_of(windows, z, y, [], in_line)
                _write_phases(windows, slot, e.at(target, row))

            windows.rows(line, "extent")

        return self.module(name, SPREAD_LARGEST, plane, search, dtype=self.dtype)

    def _line_of_one(
        self, windows: Windows, place: tuple[Index, Index], row: Index, operands: tuple[str, str], target: str
    ) -> None:
        """Write a line of data that belongs to one window along x."""
        e = windows.e
        codes, gradients = operands

        def part(at: Index, mask: Value | None) -> None:
            here = e.add(narrow(e, e.plus(row, at)), e.steps(INT32))

            def in_line(z: Index, y: Index, partial: list[Value]) -> Sequence[Value]:
                window = windows.row(z, y, "count")
                found = e.compare("eq", here, e.load_splat(codes, window, INT32))
                return [e.add(partial[0], e.select(found, e.get_splat(gradients, window), e.zeros()))]

            (value,) = _loop_windows_of(windows, *place, [e.zeros()], in_line)
            windows.save(target, at, mask, value)

        windows.vectors(windows["extent_x"], part)


@dataclasses.dataclass(frozen=True)
class SpreadApart(PlaneKernel):
    """The kernel of the adjoint of maxima for windows that do not overlap.

    There is no padding, and along x the kernel is as wide as the stride, for which the text is specialized. The kernel
    makes two passes over a window's rows: the first checks whether any element equals the maximum, the second finds the
    first one that does.
    """

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""

        def plane(windows: Windows, plane: Index, slot: str) -> None:
            e = windows.e
            data, largest, gradients, target = _operands(windows, plane)
            e.clear_exactly(target, windows["pixels"])

            def line(z: Index, y: Index) -> None:
                place = windows.row(z, y, "count")
                planes, lines = windows.reach("z", z), windows.reach("y", y)

                def some(first: Index, mask: Value | None) -> None:
                    most = windows.load(e.at(largest, place), first, mask)
                    gradient = windows.load(e.at(gradients, place), first, mask)
                    x = e.times(first, windows.step)

                    def loop_rows(carried: Value, body: Callable[[Index, Index, Value], Value]) -> Value:
                        def in_plane(z: Index, partial: list[Value]) -> Sequence[Value]:
                            return e.loop(*lines, "1", partial, lambda y, found: [body(z, y, found[0])])

                        return e.loop(*planes, "1", [carried], in_plane)[0]

                    def matches(row: Index) -> list[Value]:
                        return [e.compare("oeq", phase, most) for phase in self._phases(windows, e.at(data, row), x)]

                    def any_match(z: Index, y: Index, found: Value) -> Value:
                        for match in matches(windows.row(z, y, "extent")):
                            found = e.bits("or", found, match)
                        return found

                    nowhere = e.bits("xor", loop_rows(_NOWHERE, any_match), all_lanes())

                    def put(z: Index, y: Index, taken: Value) -> Value:
                        row = windows.row(z, y, "extent")
                        begins = e.logical_and(e.test("eq", z, planes[0]), e.test("eq", y, lines[0]))
                        kind = e.vector_type(BOOL)
                        # if no element equals the maximum, the first one gets the gradient
                        chosen = f"select i1 {begins}, {kind} {nowhere.text}, {kind} zeroinitializer"
                        extra = Value(e.assign(chosen), BOOL)
                        values = []
                        for number, match in enumerate(matches(row)):
                            match = e.bits("or", match, extra) if number == 0 else match
                            new = e.bits("and", match, e.bits("xor", taken, all_lanes()))
                            taken = e.bits("or", taken, match)
                            values.append(e.select(new, gradient, e.zeros()))
                        for number, value in enumerate(unsort(e, values)):
                            at = e.plus(x, str(number * self.lanes))
                            e.store_where(e.at(target, row), at, value, inside_mask(e, at, windows["extent_x"]))
                        return taken

                    loop_rows(_NOWHERE, put)

                windows.vectors(windows["count_x"], some)

            windows.rows(line, "count")

        return self.module(name, SPREAD_LARGEST, plane, dtype=self.dtype)

    def _phases(self, windows: Windows, row: str, x: Index) -> list[Value]:
        """Return the elements of windows along x in a row of data, one vector per tap; NaN beyond its end."""
        e, vectors = windows.e, []
        for number in range(self.x_stride):
            at = e.plus(x, str(number * self.lanes))
            mask = inside_mask(e, at, windows["extent_x"])
            vectors.append(e.select(mask, e.get_where(row, mask, at), e.constant(np.nan, self.dtype)))
        return sort(e, vectors)


_NOWHERE = Value("zeroinitializer", BOOL)


def _operands(windows: Windows, plane: Index) -> tuple[str, str, str, str]:
    """Return the addresses of the planes of data, maxima, gradients and results."""
    e = windows.e
    start, base = e.times(plane, windows["windows"]), e.times(plane, windows["pixels"])
    data, largest, out_grad, out = [SPREAD_LARGEST.pointer(e, n) for n in ("data", "largest", "out_grad", "out")]
    return e.at(data, base), e.at(largest, start), e.at(out_grad, start), e.at(out, base)


def _clear_phases(windows: Windows, slot: str) -> None:
    windows.e.clear(slot, windows.e.times(windows["line"], windows.step))


def _each_tap(windows: Windows, body: Callable[[Index], None]) -> None:
    """Write a loop over the taps along x, last to first.

    So an element receives the terms of windows in their order, whatever the length of vectors.
    """
    e, last = windows.e, windows.e.minus(windows["kernel_x"], "1")
    e.for_each("0", windows["kernel_x"], lambda number: body(e.minus(last, number)))


def _add_to_phase(windows: Windows, slot: str, first: Index, tap: Index, value: Value) -> None:
    """Add a vector to the line of a tap's phase."""
    e = windows.e
    shift, phase = e.split(tap, windows.step)
    place = e.at(slot, e.times(phase, windows["line"]), e.plus(first, shift))
    e.store(place, "0", e.add(e.get(place), value))


def _write_phases(windows: Windows, slot: str, target: str) -> None:
    e = windows.e
    put_line(
        *(e, windows.x_stride, windows.step, (slot, windows["line"]), (windows["pad_x"], windows["extent_x"])),
        lambda place, value, mask: e.store_where(target, place, value, mask),
        lambda place, value: e.put_one(target, value, place),
    )
