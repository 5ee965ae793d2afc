"""Pooling: native kernels of the largest element and the sum of windows, and of their adjoints.

==================  =================================================================================================
``Reduce``          the largest element or the sum of each window: along z and y into a line, then along x
``Position``        where the first element of each window is that equals the largest
``Spread``          the adjoint of sums: every element of the data is the sum over the windows it belongs to
``SpreadLargest``   the adjoint of largest elements: the same, over the windows whose largest element it is
==================  =================================================================================================

An item of a range is a plane: one channel of an image. In a line of working memory, what lies beyond the data is an
element that changes nothing (the lowest number, zero, NaN), so that windows along x need no bounds; windows with stride
2 or 3 are sorted in registers. The order of sums follows from the shapes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ..dtypes import FLOAT32, FLOAT64, INT32, INT64, DType
from ..node import Shape
from .function import Index, Value
from .launch import Launch, Plan, Words
from .machine import Machine
from .phases import everywhere, known_stride, put_line, take
from .routine import Routine, module
from .slots import SLOT_WORDS, Scratch, in_slot

__all__ = ["Pooling", "Position", "Reduce", "Spread", "SpreadLargest"]

_SHAPE = (
    *("extent_z", "extent_y", "extent_x", "count_z", "count_y", "count_x", "kernel_z", "kernel_y", "kernel_x"),
    *("stride_z", "stride_y", "stride_x", "pad_z", "pad_y", "pad_x", "pixels", "windows", "line", "codes_at"),
)
REDUCE = Words(*_SHAPE, *SLOT_WORDS, "data*", "out*")
POSITION = Words(*_SHAPE, *SLOT_WORDS, "data*", "largest*", "out*")
SPREAD = Words(*_SHAPE, *SLOT_WORDS, "data*", "out*")
SPREAD_LARGEST = Words(*_SHAPE, *SLOT_WORDS, "data*", "largest*", "out_grad*", "out*")

#: elements of all planes of a chunk
_CHUNK_ELEMENTS = 1 << 14


class _Windows:
    """A routine while it is written: the numbers of its table, and where windows meet the data."""

    def __init__(self, e: Routine, words: Words, x_stride: int) -> None:
        self.e, self.x_stride = e, x_stride
        self.number = {word: words.index(e, word) for word in _SHAPE}
        self.step = str(x_stride) if x_stride else self["stride_x"]

    def __getitem__(self, word: str) -> Index:
        return self.number[word]

    def reach(self, axis: str, window: Index) -> tuple[Index, Index]:
        """Return the range of the data that a window has along an axis."""
        e = self.e
        start = e.minus(e.times(window, self[f"stride_{axis}"]), self[f"pad_{axis}"])
        stop = e.plus(start, self[f"kernel_{axis}"])
        return e.most(start, "0"), e.least(stop, self[f"extent_{axis}"])

    def met(self, axis: str, element: Index) -> tuple[Index, Index]:
        """Return the range of the windows that an element belongs to along an axis."""
        e = self.e
        place, stride = e.plus(element, self[f"pad_{axis}"]), self[f"stride_{axis}"]
        # the first window that does not end before the element; dividing what may not be negative
        before = e.most(e.plus(e.minus(place, self[f"kernel_{axis}"]), stride), "0")
        return e.quotient(before, stride), e.least(e.plus(e.quotient(place, stride), "1"), self[f"count_{axis}"])

    def rows(self, body: Callable[[Index, Index], None], name: str) -> None:
        """Write the loop over planes and lines of windows (``count``) or of data (``extent``): ``body(z, y)``."""
        e = self.e
        e.each("0", self[f"{name}_z"], lambda z: e.each("0", self[f"{name}_y"], lambda y: body(z, y)))

    def row(self, z: Index, y: Index, name: str) -> Index:
        """Return where a line of windows (``count``) or of data (``extent``) begins."""
        e = self.e
        return e.times(e.plus(e.times(z, self[f"{name}_y"]), y), self[f"{name}_x"])

    def seen(self, line: str, first: Index, tap: Index) -> Value:
        """Return what a tap sees of the windows from ``first`` on, in a line that begins with the padding."""
        e = self.e
        place = e.at(line, e.times(first, self.step), tap)
        return take(
            e,
            self.x_stride,
            lambda number: e.get(place, str(number * e.lanes)),
            lambda: e.gather(place, "0", self.step, e.dtype, everywhere()),
        )

    def vectors(self, width: Index, body: Callable[[Index, Value | None], None]) -> None:
        """Write a loop over a line: ``body(first, None)`` for whole vectors, then ``body(first, mask)``."""
        e = self.e
        last, mask = e.tail(width)
        e.each("0", last, lambda first: body(first, None), str(e.lanes))
        body(last, mask)

    def load(self, pointer: str, first: Index, mask: Value | None, dtype: DType | None = None) -> Value:
        """Return a vector of a line, of which only the lanes of the mask are read."""
        e, kind = self.e, dtype or self.e.dtype
        return e.load(pointer, first, kind) if mask is None else e.load_where(pointer, first, kind, mask)

    def save(self, pointer: str, first: Index, mask: Value | None, value: Value) -> None:
        """Write a vector of a line, or the lanes of the mask."""
        if mask is None:
            self.e.store(pointer, first, value)
        else:
            self.e.store_where(pointer, first, value, mask)

    def positions(self, row: Index, first: Index, tap: Index) -> Value:
        """Return where a tap of the windows from ``first`` on lies in its plane, as 32-bit numbers."""
        e = self.e
        start = e.minus(e.total(row, e.times(first, self.step), tap), self["pad_x"])
        lanes = e.multiply(e.steps(INT32), _narrow(e, self.step))
        return e.add(_narrow(e, start), lanes)


def _narrow(e: Routine, number: Index) -> Value:
    return e.splat(e.assign(f"trunc i64 {number} to i32"), INT32)


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """What the kernels have in common."""

    dtype: DType
    lanes: int
    x_stride: int
    """The stride along x where it is known, else 0."""

    def _module(
        self, name: str, words: Words, item: Callable[[_Windows, Index, str], None], *routines: Routine, dtype: DType
    ) -> str:
        e = Routine(name, self.lanes, dtype)
        windows = _Windows(e, words, self.x_stride)
        in_slot(e, words, lambda slot: e.each("%lo", "%hi", lambda plane: item(windows, plane, slot)))
        return module(*routines, e)


@dataclasses.dataclass(frozen=True)
class Reduce(_Kernel):
    """The kernel of the largest element of each window, or of the sum."""

    largest: bool

    def write(self, name: str) -> str:
        """Return the text of the module."""
        return self._module(name, REDUCE, self._plane, dtype=self.dtype)

    def _identity(self, e: Routine) -> Value:
        return e.constant(np.finfo(self.dtype).min if self.largest else 0, self.dtype)

    def _combine(self, e: Routine, total: Value, value: Value) -> Value:
        if not self.largest:
            return e.add(total, value)
        # a comparison with NaN is false, so NaN is never the largest
        return e.select(e.compare("ogt", value, total), value, total)

    def _plane(self, windows: _Windows, plane: Index, slot: str) -> None:
        e = windows.e
        source = e.at(REDUCE.pointer(e, "data"), e.times(plane, windows["pixels"]))
        target = e.at(REDUCE.pointer(e, "out"), e.times(plane, windows["windows"]))
        identity = self._identity(e)
        e.each("0", windows["line"], lambda at: e.store(slot, at, identity), str(self.lanes))
        inner = e.at(slot, windows["pad_x"])

        def line(z: Index, y: Index) -> None:
            planes, lines = windows.reach("z", z), windows.reach("y", y)
            place = e.at(target, windows.row(z, y, "count"))

            def along_columns(first: Index, mask: Value | None) -> None:
                def in_plane(z: Index, partial: list[Value]) -> Sequence[Value]:
                    def in_line(y: Index, partial: list[Value]) -> Sequence[Value]:
                        row = e.at(source, windows.row(z, y, "extent"))
                        return [self._combine(e, partial[0], windows.load(row, first, mask))]

                    return e.loop(*lines, "1", partial, in_line)

                (value,) = e.loop(*planes, "1", [identity], in_plane)
                e.store(inner, first, value if mask is None else e.select(mask, value, identity))

            def along_line(first: Index, mask: Value | None) -> None:
                def tap(x: Index, partial: list[Value]) -> Sequence[Value]:
                    return [self._combine(e, partial[0], windows.seen(slot, first, x))]

                (value,) = e.loop("0", windows["kernel_x"], "1", [identity], tap)
                windows.save(place, first, mask, value)

            windows.vectors(windows["extent_x"], along_columns)
            windows.vectors(windows["count_x"], along_line)

        windows.rows(line, "count")


def _find(name: str, kernel: _Kernel, words: Words) -> Routine:
    """Return the routine that writes the position in its plane of each window's largest element, as 32-bit numbers.

    It is that of the first element that equals the largest, or of the first one if none does, or -1 for an empty
    window. Up to a vector is written beyond the end.
    """
    arguments = "ptr %table, ptr noalias %data, ptr noalias %largest, ptr noalias %codes, ptr noalias %line"
    e = Routine(name, kernel.lanes, kernel.dtype, arguments)
    windows = _Windows(e, words, kernel.x_stride)
    nothing = e.constant(np.nan, kernel.dtype)
    none = e.constant(-1, INT32)
    e.each("0", windows["line"], lambda at: e.store("%line", at, nothing), str(kernel.lanes))
    inner = e.at("%line", windows["pad_x"])

    def line(z: Index, y: Index) -> None:
        planes, lines = windows.reach("z", z), windows.reach("y", y)
        start = windows.row(z, y, "count")
        codes = e.address("%codes", start, "i32")
        occupied = e.both(e.test("slt", *planes), e.test("slt", *lines))

        def begin(first: Index, mask: Value | None) -> None:
            here = windows.positions("0", first, "0")
            zero = e.constant(0, INT32)
            inner_place = e.select(e.compare("sgt", here, zero), here, zero)
            end = e.add(here, _narrow(e, windows["kernel_x"]))
            width = _narrow(e, windows["extent_x"])
            end = e.select(e.compare("slt", end, width), end, width)
            place = e.add(inner_place, _narrow(e, windows.row(planes[0], lines[0], "extent")))
            known = e.select(e.compare("slt", inner_place, end), place, none)
            e.store(codes, first, known)

        def row(backwards_z: Index, backwards_y: Index) -> None:
            row = windows.row(backwards_z, backwards_y, "extent")
            source = e.at("%data", row)

            def copy(first: Index, mask: Value | None) -> None:
                value = windows.load(source, first, mask)
                e.store(inner, first, value if mask is None else e.select(mask, value, nothing))

            def match(first: Index, mask: Value | None) -> None:
                largest = windows.load(e.at("%largest", start), first, mask)

                def tap(number: Index, code: list[Value]) -> Sequence[Value]:
                    x = e.minus(e.minus(windows["kernel_x"], "1"), number)
                    equal = e.compare("oeq", windows.seen("%line", first, x), largest)
                    return [e.select(equal, windows.positions(row, first, x), code[0])]

                (code,) = e.loop("0", windows["kernel_x"], "1", [e.load(codes, first, INT32)], tap)
                e.store(codes, first, code)

            windows.vectors(windows["extent_x"], copy)
            windows.vectors(windows["count_x"], match)

        def search() -> None:
            windows.vectors(windows["count_x"], begin)
            # from the last row to the first: what is found last is what comes first
            _backwards(e, planes, lambda z: _backwards(e, lines, lambda y: row(z, y)))

        def skip() -> None:
            windows.vectors(windows["count_x"], lambda first, mask: e.store(codes, first, none))

        e.when(occupied, search, skip)

    windows.rows(line, "count")
    return e


def _backwards(e: Routine, span: tuple[Index, Index], body: Callable[[Index], None]) -> None:
    last = e.minus(span[1], "1")
    e.each("0", e.minus(span[1], span[0]), lambda number: body(e.minus(last, number)))


@dataclasses.dataclass(frozen=True)
class Position(_Kernel):
    """The kernel of the positions of largest elements in the whole array, as 64-bit numbers."""

    def write(self, name: str) -> str:
        """Return the text of the module."""
        find = _find(f"{name}_find", self, POSITION)

        def plane(windows: _Windows, plane: Index, slot: str) -> None:
            e = windows.e
            base = e.times(plane, windows["pixels"])
            start = e.times(plane, windows["windows"])
            source = e.at(POSITION.pointer(e, "data"), base)
            largest = e.at(POSITION.pointer(e, "largest"), start)
            codes = e.at(slot, windows["codes_at"])
            known = [f"ptr {pointer}" for pointer in (source, largest, codes, slot)]
            e.invoke(find.name, "ptr %table", *known)
            target = e.address(POSITION.pointer(e, "out"), start, "i64")

            def widen(first: Index, mask: Value | None) -> None:
                code = e.load(codes, first, INT32)
                wide = e.convert(code, INT64)
                found = e.compare("sge", code, e.constant(0, INT32))
                windows.save(target, first, mask, e.select(found, e.add(wide, e.splat(base, INT64)), wide))

            windows.vectors(windows["windows"], widen)

        return self._module(name, POSITION, plane, find, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class Spread(_Kernel):
    """The kernel of the adjoint of sums over windows."""

    def write(self, name: str) -> str:
        """Return the text of the module."""

        def plane(windows: _Windows, plane: Index, slot: str) -> None:
            e = windows.e
            source = e.at(SPREAD.pointer(e, "data"), e.times(plane, windows["windows"]))
            target = e.at(SPREAD.pointer(e, "out"), e.times(plane, windows["pixels"]))

            def line(z: Index, y: Index) -> None:
                planes, lines = windows.met("z", z), windows.met("y", y)
                _clear_phases(windows, slot)

                def some(first: Index, mask: Value | None) -> None:
                    def in_plane(z: Index, partial: list[Value]) -> Sequence[Value]:
                        def in_line(y: Index, partial: list[Value]) -> Sequence[Value]:
                            row = e.at(source, windows.row(z, y, "count"))
                            return [e.add(partial[0], windows.load(row, first, mask))]

                        return e.loop(*lines, "1", partial, in_line)

                    (value,) = e.loop(*planes, "1", [e.zeros()], in_plane)
                    e.each("0", windows["kernel_x"], lambda tap: _add_to_phase(windows, slot, first, tap, value))

                windows.vectors(windows["count_x"], some)
                _write_phases(windows, slot, e.at(target, windows.row(z, y, "extent")))

            windows.rows(line, "extent")

        return self._module(name, SPREAD, plane, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class SpreadLargest(_Kernel):
    """The kernel of the adjoint of largest elements, given data, largest elements, and gradients of these."""

    def write(self, name: str) -> str:
        """Return the text of the module."""
        find = _find(f"{name}_find", self, SPREAD_LARGEST)

        def plane(windows: _Windows, plane: Index, slot: str) -> None:
            e = windows.e
            start, base = e.times(plane, windows["windows"]), e.times(plane, windows["pixels"])
            data, out = SPREAD_LARGEST.pointer(e, "data"), SPREAD_LARGEST.pointer(e, "out")
            largest = e.at(SPREAD_LARGEST.pointer(e, "largest"), start)
            codes = e.at(slot, windows["codes_at"])
            known = [f"ptr {pointer}" for pointer in (e.at(data, base), largest, codes, slot)]
            e.invoke(find.name, "ptr %table", *known)
            gradients, target = e.at(SPREAD_LARGEST.pointer(e, "out_grad"), start), e.at(out, base)

            def line(z: Index, y: Index) -> None:
                row = windows.row(z, y, "extent")
                _clear_phases(windows, slot)

                def in_line(window_z: Index, window_y: Index) -> None:
                    place = windows.row(window_z, window_y, "count")

                    def some(first: Index, mask: Value | None) -> None:
                        code = e.load(e.address(codes, place, "i32"), first, INT32)
                        gradient = windows.load(e.at(gradients, place), first, mask)

                        def tap(x: Index) -> None:
                            here = e.compare("eq", code, windows.positions(row, first, x))
                            _add_to_phase(windows, slot, first, x, e.select(here, gradient, e.zeros()))

                        e.each("0", windows["kernel_x"], tap)

                    windows.vectors(windows["count_x"], some)

                lines = windows.met("y", y)
                e.each(*windows.met("z", z), lambda wz: e.each(*lines, lambda wy: in_line(wz, wy)))
                _write_phases(windows, slot, e.at(target, row))

            windows.rows(line, "extent")

        return self._module(name, SPREAD_LARGEST, plane, find, dtype=self.dtype)


def _clear_phases(windows: _Windows, slot: str) -> None:
    windows.e.clear(slot, windows.e.times(windows["line"], windows.step))


def _add_to_phase(windows: _Windows, slot: str, first: Index, tap: Index, value: Value) -> None:
    """Write the sum of a vector and what is in the line of a tap's phase."""
    e = windows.e
    shift, phase = e.split(tap, windows.step)
    place = e.at(slot, e.times(phase, windows["line"]), e.plus(first, shift))
    e.store(place, "0", e.add(e.get(place), value))


def _write_phases(windows: _Windows, slot: str, target: str) -> None:
    e = windows.e
    put_line(
        *(e, windows.x_stride, windows.step, (slot, windows["line"]), (windows["pad_x"], windows["extent_x"])),
        lambda place, value, mask: e.store_where(target, place, value, mask),
        lambda place, value: e.put_one(target, value, place),
    )


class Pooling:
    """Plans of the primitives of :mod:`phonograd.operators.pooling`, run by at most ``slots`` threads at once.

    The operands are named as there: ``data``, ``largest``, ``out_grad``, ``out``; and ``scratch``.
    """

    def __init__(self, machine: Machine, slots: int = 1) -> None:
        self.machine = machine
        self.slots = slots

    @staticmethod
    def suits(dtype: DType, extent: Shape, counts: Shape) -> bool:
        """Return whether there are kernels for planes of data of an extent and so many windows along each axis."""
        return dtype in (FLOAT32, FLOAT64) and 0 < _product(extent) < 1 << 31 and 0 < _product(counts) < 1 << 31

    def largest(self, data: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> Plan:
        """Return the plan of ``_window_max``."""
        known = self._known(dtype, stride)
        return self._plan(Reduce(*known, largest=True), REDUCE, data[:2], data[2:], kernel, stride, pad, counts)

    def sum(self, data: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> Plan:
        """Return the plan of ``_window_sum``."""
        known = self._known(dtype, stride)
        return self._plan(Reduce(*known, largest=False), REDUCE, data[:2], data[2:], kernel, stride, pad, counts)

    def position(self, data: Shape, largest: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape) -> Plan:
        """Return the plan of ``_window_argmax``; its output has the dtype int64."""
        known = self._known(dtype, stride)
        return self._plan(Position(*known), POSITION, data[:2], data[2:], kernel, stride, pad, largest[2:])

    def spread(self, data: Shape, dtype: DType, *, extent: Shape, kernel: Shape, stride: Shape, pad: Shape) -> Plan:
        """Return the plan of ``_window_spread``."""
        return self._plan(Spread(*self._known(dtype, stride)), SPREAD, data[:2], extent, kernel, stride, pad, data[2:])

    def spread_largest(
        self, data: Shape, largest: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape
    ) -> Plan:
        """Return the plan of ``scatter_add(out_grad, _window_argmax(data, largest), data.shape)``.

        The gradients of empty windows go nowhere.
        """
        known = self._known(dtype, stride)
        return self._plan(SpreadLargest(*known), SPREAD_LARGEST, data[:2], data[2:], kernel, stride, pad, largest[2:])

    def _known(self, dtype: DType, stride: Shape) -> tuple[DType, int, int]:
        return dtype, self.machine.lanes(dtype), known_stride(stride[-1])

    def _plan(
        self,
        kernel: Reduce | Position | Spread | SpreadLargest,
        words: Words,
        planes: Shape,
        extent: Shape,
        size: Shape,
        stride: Shape,
        pad: Shape,
        counts: Shape,
    ) -> Plan:
        lanes, itemsize = kernel.lanes, kernel.dtype.itemsize
        pixels, windows = _product(extent), _product(counts)
        if not planes[0] * planes[1]:
            return Plan(())
        assert pixels, "kernels need data; the reference knows what windows without any are"
        assert windows
        missing = 3 - len(extent)
        named: list[tuple[str, Shape, int]] = [("extent", extent, 1), ("count", counts, 1), ("kernel", size, 1)]
        named += [("stride", stride, 1), ("pad", pad, 0)]
        values: dict[str, int] = {"pixels": pixels, "windows": windows}
        for name, numbers, default in named:
            full = (*(default,) * missing, *numbers)
            values.update({f"{name}_{axis}": number for axis, number in zip("zyx", full)})
        # room for the padding, what windows reach beyond it, and vectors beyond that
        length = max(pad[-1] + extent[-1], (counts[-1] - 1) * stride[-1] + size[-1]) + (stride[-1] + 2) * lanes
        line = -(-length // lanes) * lanes
        values.update(line=line, codes_at=line * stride[-1])
        elements = line * stride[-1] + (0 if words is REDUCE or words is SPREAD else windows + lanes)
        scratch = Scratch(self.slots)
        slots = scratch.slots(elements * itemsize)
        chunk = max(1, _CHUNK_ELEMENTS // max(pixels, windows))
        launch = Launch(kernel, words.fill({**values, **slots}), planes[0] * planes[1], chunk)
        return Plan((scratch.clear(), launch), scratch.size)


def _product(shape: Shape) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
