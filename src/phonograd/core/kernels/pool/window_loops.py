"""Window loops: code that the pooling kernels share.

An item of their ranges is a plane: one channel of an image. Lines in scratch memory are padded with a neutral element
(the lowest number, zero, NaN), so that windows along x need no bounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ...base.dtypes import INT32, DType
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import all_lanes, take
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, in_slot

__all__ = ["REDUCE", "WINDOW_WORDS", "PlaneKernel", "Windows", "combine", "find", "identity", "narrow"]

WINDOW_WORDS = (
    *("extent_z", "extent_y", "extent_x", "count_z", "count_y", "count_x", "kernel_z", "kernel_y", "kernel_x"),
    *("stride_z", "stride_y", "stride_x", "pad_z", "pad_y", "pad_x", "pixels", "windows", "line", "codes_at"),
)
REDUCE = Words(*WINDOW_WORDS, *SLOT_WORDS, "data*", "out*")


class Windows:
    """The integers of a routine's table, and the overlap of windows with the data."""

    def __init__(self, e: Routine, words: Words, x_stride: int) -> None:
        self.e, self.x_stride = e, x_stride
        self.number = {word: words.index(e, word) for word in WINDOW_WORDS}
        self.step = str(x_stride) if x_stride else self["stride_x"]

    def __getitem__(self, word: str) -> Index:
        return self.number[word]

    def reach(self, axis: str, window: Index) -> tuple[Index, Index]:
        """Return the range of the data that a window covers along an axis."""
        e = self.e
        start = e.minus(e.times(window, self[f"stride_{axis}"]), self[f"pad_{axis}"])
        stop = e.plus(start, self[f"kernel_{axis}"])
        return e.most(start, "0"), e.least(stop, self[f"extent_{axis}"])

    def windows_of(self, axis: str, element: Index) -> tuple[Index, Index]:
        """Return the range of the windows that contain an element along an axis."""
        e = self.e
        place, stride = e.plus(element, self[f"pad_{axis}"]), self[f"stride_{axis}"]
        # the first window that does not end before the element; the dividend must not be negative
        before = e.most(e.plus(e.minus(place, self[f"kernel_{axis}"]), stride), "0")
        return e.quotient(before, stride), e.least(e.plus(e.quotient(place, stride), "1"), self[f"count_{axis}"])

    def rows(self, body: Callable[[Index, Index], None], name: str) -> None:
        """Write the loop over planes and lines of windows (``count``) or of data (``extent``): ``body(z, y)``."""
        e = self.e
        e.for_each("0", self[f"{name}_z"], lambda z: e.for_each("0", self[f"{name}_y"], lambda y: body(z, y)))

    def row(self, z: Index, y: Index, name: str) -> Index:
        """Return the offset of a line of windows (``count``) or of data (``extent``)."""
        e = self.e
        return e.times(e.plus(e.times(z, self[f"{name}_y"]), y), self[f"{name}_x"])

    def tap_values(self, line: str, first: Index, tap: Index) -> Value:
        """Return the elements at a tap of the windows from ``first`` on, in a line that begins with the padding."""
        e = self.e
        place = e.at(line, e.times(first, self.step), tap)
        return take(
            e,
            self.x_stride,
            lambda number: e.get(place, str(number * e.lanes)),
            lambda: e.gather(place, "0", self.step, e.dtype, all_lanes()),
        )

    def vectors(self, width: Index, body: Callable[[Index, Value | None], None]) -> None:
        """Write a loop over a line: ``body(first, None)`` for whole vectors, then ``body(first, mask)``."""
        e = self.e
        last, mask = e.tail(width)
        e.for_each("0", last, lambda first: body(first, None), str(e.lanes))
        body(last, mask)

    def load(self, pointer: str, first: Index, mask: Value | None, dtype: DType | None = None) -> Value:
        """Return a vector of a line, reading only the lanes of the mask."""
        e, kind = self.e, dtype or self.e.dtype
        return e.load(pointer, first, kind) if mask is None else e.load_where(pointer, first, kind, mask)

    def save(self, pointer: str, first: Index, mask: Value | None, value: Value) -> None:
        """Store a vector of a line, or the lanes of the mask."""
        if mask is None:
            self.e.store(pointer, first, value)
        else:
            self.e.store_where(pointer, first, value, mask)

    def positions(self, row: Index, first: Index, tap: Index) -> Value:
        """Return the positions in the plane of a tap of the windows from ``first`` on, as int32."""
        e = self.e
        start = e.minus(e.total(row, e.times(first, self.step), tap), self["pad_x"])
        lanes = e.multiply(e.steps(INT32), narrow(e, self.step))
        return e.add(narrow(e, start), lanes)


def identity(e: Routine, largest: bool) -> Value:
    """Return the neutral element of a maximum or a sum."""
    limits = np.iinfo(e.dtype) if e.dtype.kind in "iu" else np.finfo(e.dtype)
    return e.constant(limits.min if largest else 0, e.dtype)


def combine(e: Routine, largest: bool, total: Value, value: Value) -> Value:
    """Return the larger of two elements, or their sum."""
    if not largest:
        return e.add(total, value)
    # a comparison with NaN is false, so NaN is never the largest
    return e.select(e.relation("gt", value, total), value, total)


def narrow(e: Routine, number: Index) -> Value:
    return e.splat(e.assign(f"trunc i64 {number} to i32"), INT32)


@dataclasses.dataclass(frozen=True)
class PlaneKernel:
    """Base class of the pooling kernels."""

    dtype: DType
    lanes: int
    x_stride: int
    """Stride along x if the kernel is specialized for it, else 0."""

    def module(
        self, name: str, words: Words, item: Callable[[Windows, Index, str], None], *routines: Routine, dtype: DType
    ) -> str:
        e = Routine(name, self.lanes, dtype)
        windows = Windows(e, words, self.x_stride)
        in_slot(e, words, lambda slot: e.for_each("%lo", "%hi", lambda plane: item(windows, plane, slot)))
        return module(*routines, e)


def find(name: str, kernel: PlaneKernel, words: Words) -> Routine:
    """Return the routine that stores the position in its plane of each window's largest element, as int32.

    It is the first element that equals the maximum, or the first one if none does, or -1 for an empty window. Up to a
    vector is stored beyond the end.
    """
    arguments = "ptr %table, ptr noalias %data, ptr noalias %largest, ptr noalias %codes, ptr noalias %line"
    e = Routine(name, kernel.lanes, kernel.dtype, arguments)
    windows = Windows(e, words, kernel.x_stride)
    nothing = e.constant(np.nan, kernel.dtype)
    none = e.constant(-1, INT32)
    e.for_each("0", windows["line"], lambda at: e.store("%line", at, nothing), str(kernel.lanes))
    inner = e.at("%line", windows["pad_x"])

    def line(z: Index, y: Index) -> None:
        planes, lines = windows.reach("z", z), windows.reach("y", y)
        start = windows.row(z, y, "count")
        codes = e.address("%codes", start, "i32")
        occupied = e.logical_and(e.test("slt", *planes), e.test("slt", *lines))

        def begin(first: Index, mask: Value | None) -> None:
            here = windows.positions("0", first, "0")
            zero = e.constant(0, INT32)
            inner_place = e.select(e.compare("sgt", here, zero), here, zero)
            end = e.add(here, narrow(e, windows["kernel_x"]))
            width = narrow(e, windows["extent_x"])
            end = e.select(e.compare("slt", end, width), end, width)
            place = e.add(inner_place, narrow(e, windows.row(planes[0], lines[0], "extent")))
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
                    equal = e.compare("oeq", windows.tap_values("%line", first, x), largest)
                    return [e.select(equal, windows.positions(row, first, x), code[0])]

                (code,) = e.loop("0", windows["kernel_x"], "1", [e.load(codes, first, INT32)], tap)
                e.store(codes, first, code)

            windows.vectors(windows["extent_x"], copy)
            windows.vectors(windows["count_x"], match)

        def search() -> None:
            windows.vectors(windows["count_x"], begin)
            # rows run backwards, so the first match is found last
            _backwards(e, planes, lambda z: _backwards(e, lines, lambda y: row(z, y)))

        def skip() -> None:
            windows.vectors(windows["count_x"], lambda first, mask: e.store(codes, first, none))

        e.when(occupied, search, skip)

    windows.rows(line, "count")
    return e


def _backwards(e: Routine, span: tuple[Index, Index], body: Callable[[Index], None]) -> None:
    last = e.minus(span[1], "1")
    e.for_each("0", e.minus(span[1], span[0]), lambda number: body(e.minus(last, number)))
