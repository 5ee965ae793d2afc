"""Pooling: kernels of window maxima, sums and argmax positions, and the plans of all pooling kernels.

``Reduce`` combines elements along z and y into a line, then along x; windows with stride 2 or 3 are sorted in
registers. ``Position`` finds the first element of each window that equals the maximum. Adjoints are in
:mod:`~phonograd.core.kernels.pool.adjoints`, kernels for lines shorter than vectors in
:mod:`~phonograd.core.kernels.pool.flat`. The shapes alone determine the order of sums.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ...base.dtypes import FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, DType
from ...graph.node import Shape
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import specialized_stride
from ..launch import Launch, Plan, Words
from ..scratch import SLOT_WORDS, Scratch
from ..target import Machine
from . import whole
from .adjoints import SPREAD, SPREAD_LARGEST, Spread, SpreadApart, SpreadLargest
from .flat import ReduceFlat, SpreadFlat, flat_taps, suits
from .window_loops import REDUCE, WINDOW_WORDS, PlaneKernel, Windows, combine, find, identity

__all__ = ["Pooling", "Position", "Reduce"]

POSITION = Words(*WINDOW_WORDS, *SLOT_WORDS, "data*", "largest*", "out*")

#: elements per chunk, over all planes
_CHUNK_ELEMENTS = 1 << 14


@dataclasses.dataclass(frozen=True)
class Reduce(PlaneKernel):
    """The kernel of the largest element of each window, or of the sum."""

    largest: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return self.module(name, REDUCE, self._plane, dtype=self.dtype)

    def _plane(self, windows: Windows, plane: Index, slot: str) -> None:
        e = windows.e
        source = e.at(REDUCE.pointer(e, "data"), e.times(plane, windows["pixels"]))
        target = e.at(REDUCE.pointer(e, "out"), e.times(plane, windows["windows"]))
        neutral = identity(e, self.largest)
        e.for_each("0", windows["line"], lambda at: e.store(slot, at, neutral), str(self.lanes))
        inner = e.at(slot, windows["pad_x"])

        def line(z: Index, y: Index) -> None:
            planes, lines = windows.reach("z", z), windows.reach("y", y)
            place = e.at(target, windows.row(z, y, "count"))

            def along_columns(first: Index, mask: Value | None) -> None:
                def in_plane(z: Index, partial: list[Value]) -> Sequence[Value]:
                    def in_line(y: Index, partial: list[Value]) -> Sequence[Value]:
                        row = e.at(source, windows.row(z, y, "extent"))
                        return [combine(e, self.largest, partial[0], windows.load(row, first, mask))]

                    return e.loop(*lines, "1", partial, in_line)

                (value,) = e.loop(*planes, "1", [neutral], in_plane)
                e.store(inner, first, value if mask is None else e.select(mask, value, neutral))

            def along_line(first: Index, mask: Value | None) -> None:
                def tap(x: Index, partial: list[Value]) -> Sequence[Value]:
                    return [combine(e, self.largest, partial[0], windows.tap_values(slot, first, x))]

                (value,) = e.loop("0", windows["kernel_x"], "1", [neutral], tap)
                windows.save(place, first, mask, value)

            windows.vectors(windows["extent_x"], along_columns)
            windows.vectors(windows["count_x"], along_line)

        windows.rows(line, "count")


@dataclasses.dataclass(frozen=True)
class Position(PlaneKernel):
    """The kernel of the positions of maxima in the whole array, as int64."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        search = find(f"{name}_find", self, POSITION)

        def plane(windows: Windows, plane: Index, slot: str) -> None:
            e = windows.e
            base = e.times(plane, windows["pixels"])
            start = e.times(plane, windows["windows"])
            source = e.at(POSITION.pointer(e, "data"), base)
            largest = e.at(POSITION.pointer(e, "largest"), start)
            codes = e.at(slot, windows["codes_at"])
            known = [f"ptr {pointer}" for pointer in (source, largest, codes, slot)]
            e.invoke(search.name, "ptr %table", *known)
            target = e.address(POSITION.pointer(e, "out"), start, "i64")

            def widen(first: Index, mask: Value | None) -> None:
                code = e.load(codes, first, INT32)
                wide = e.convert(code, INT64)
                found = e.compare("sge", code, e.constant(0, INT32))
                windows.save(target, first, mask, e.select(found, e.add(wide, e.splat(base, INT64)), wide))

            windows.vectors(windows["windows"], widen)

        return self.module(name, POSITION, plane, search, dtype=self.dtype)


_Kernel = Reduce | ReduceFlat | Position | Spread | SpreadLargest | SpreadApart | SpreadFlat


class Pooling:
    """Plans of the primitives of :mod:`phonograd.core.ops.nn.pooling`, run by at most ``slots`` threads at once.

    The operands are named as there: ``data``, ``largest``, ``out_grad``, ``out``; and ``scratch``.
    """

    def __init__(self, machine: Machine, slots: int = 1) -> None:
        self.machine = machine
        self.slots = slots

    @staticmethod
    def suits(dtype: DType, extent: Shape, counts: Shape) -> bool:
        """Return whether kernels exist for planes of some extent with some number of windows along each axis."""
        return (
            dtype in (FLOAT32, FLOAT64, INT8, UINT8)
            and 0 < math.prod(extent) < 1 << 31
            and 0 < math.prod(counts) < 1 << 31
        )

    def largest(self, data: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> Plan:
        """Return the plan of ``_window_max``."""
        return self._reduce(data, dtype, True, kernel, stride, pad, counts)

    def sum(self, data: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> Plan:
        """Return the plan of ``_window_sum``."""
        return self._reduce(data, dtype, False, kernel, stride, pad, counts)

    def _reduce(
        self, data: Shape, dtype: DType, largest: bool, kernel: Shape, stride: Shape, pad: Shape, counts: Shape
    ) -> Plan:
        known = self._specialization(dtype, stride)
        planes, pixels = data[0] * data[1], math.prod(data[2:])
        is_whole = kernel == data[2:] and not any(pad) and math.prod(counts) == 1
        if is_whole and planes and dtype in (FLOAT32, FLOAT64) and whole.suits(known[1], planes, pixels):
            return whole.plan(*known[:2], largest, planes, pixels, data[-1])
        reduce: Reduce | ReduceFlat = Reduce(*known, largest)
        # no processor gathers bytes
        if dtype.itemsize >= FLOAT32.itemsize and suits(known[1], data[2:], kernel, stride, pad, counts):
            reduce = ReduceFlat(*known[:2], 0, largest)
        return self._plan(reduce, REDUCE, data[:2], data[2:], kernel, stride, pad, counts)

    def position(self, data: Shape, largest: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape) -> Plan:
        """Return the plan of ``_window_argmax``; its output has the dtype int64."""
        known = self._specialization(dtype, stride)
        return self._plan(Position(*known), POSITION, data[:2], data[2:], kernel, stride, pad, largest[2:])

    def spread(self, data: Shape, dtype: DType, *, extent: Shape, kernel: Shape, stride: Shape, pad: Shape) -> Plan:
        """Return the plan of ``_window_spread``."""
        spread = Spread(*self._specialization(dtype, stride), single=data[-1] == 1)
        return self._plan(spread, SPREAD, data[:2], extent, kernel, stride, pad, data[2:])

    def spread_largest(
        self, data: Shape, largest: Shape, dtype: DType, *, kernel: Shape, stride: Shape, pad: Shape
    ) -> Plan:
        """Return the plan of ``scatter_add(out_grad, _window_argmax(data, largest), data.shape)``.

        The gradients of empty windows are dropped.
        """
        known = self._specialization(dtype, stride)
        spread: SpreadLargest | SpreadApart | SpreadFlat = SpreadLargest(*known, single=largest[-1] == 1)
        apart = all([width <= step for width, step in zip(kernel, stride)])
        if apart and suits(known[1], data[2:], kernel, stride, pad, largest[2:]):
            spread = SpreadFlat(*known[:2], 0)
        elif apart and not any(pad) and kernel[-1] == known[2] > 1:
            spread = SpreadApart(*known)
        return self._plan(spread, SPREAD_LARGEST, data[:2], data[2:], kernel, stride, pad, largest[2:])

    def _specialization(self, dtype: DType, stride: Shape) -> tuple[DType, int, int]:
        return dtype, self.machine.lanes(dtype), specialized_stride(stride[-1])

    def _plan(
        self,
        kernel: _Kernel,
        words: Words,
        planes: Shape,
        extent: Shape,
        size: Shape,
        stride: Shape,
        pad: Shape,
        counts: Shape,
    ) -> Plan:
        lanes, itemsize = kernel.lanes, kernel.dtype.itemsize
        pixels, windows = math.prod(extent), math.prod(counts)
        if not planes[0] * planes[1]:
            return Plan(())
        assert pixels, "kernels need data; the reference computes windows without any"
        assert windows
        missing = 3 - len(extent)
        named: list[tuple[str, Shape, int]] = [("extent", extent, 1), ("count", counts, 1), ("kernel", size, 1)]
        named += [("stride", stride, 1), ("pad", pad, 0)]
        values: dict[str, int] = {"pixels": pixels, "windows": windows}
        for name, numbers, default in named:
            full = (*(default,) * missing, *numbers)
            values.update({f"{name}_{axis}": number for axis, number in zip("zyx", full)})
        # room for the padding, the reach of windows beyond it, and vectors beyond that
        length = max(pad[-1] + extent[-1], (counts[-1] - 1) * stride[-1] + size[-1]) + (stride[-1] + 2) * lanes
        line = -(-length // lanes) * lanes
        values.update(line=line, codes_at=line * stride[-1])
        flat = isinstance(kernel, (ReduceFlat, SpreadFlat))
        elements = line * stride[-1] + (0 if words is REDUCE or words is SPREAD else windows + lanes)
        elements = windows + lanes if flat else elements
        scratch = Scratch(self.slots)
        slots = scratch.slots(elements * itemsize)
        chunk = max(1, _CHUNK_ELEMENTS // max(pixels, windows))
        taps = flat_taps(extent, size) if flat else []
        launch = Launch(kernel, words.fill({**values, **slots}, taps), planes[0] * planes[1], chunk)
        return Plan((scratch.clear(), launch), scratch.size)
