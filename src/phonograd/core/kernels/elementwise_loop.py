"""The inner loop of one elementwise operator, as NumPy's ufuncs call it: any strides, any length.

Takes the lowering of an operator; :mod:`phonograd.core.run.ufuncs` makes a ufunc of the compiled loops. The element
code is that of fused kernels (:meth:`phonograd.core.lower.lowering.Elementwise.value`), so the bits are the same.

Consecutive elements are processed where they are. Elements at other strides, and the last ones that do not fill a
vector, go through buffers on the stack::

    define void @loop(ptr %operands, ptr %counts, ptr %strides, ptr %unused)
        whole = count rounded down to whole vectors, if all strides are unit or 0, else 0
        for begin in range(0, whole, CHUNK):
            pointers = the operands at begin; for stride 0 a buffer that is filled once
            call @loop_chunk(pointers, min(CHUNK, whole - begin))
        for begin in range(whole, count, CHUNK):
            copy inputs to buffers, repeating the last element
            call @loop_chunk(buffers, number of elements rounded up to vectors)
            copy results from their buffer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ..base.dtypes import DType
from ..lower.ir.emitter import Emitter
from ..lower.ir.function_builder import FunctionBuilder, Index, Value
from ..lower.lowering import Elementwise, lowering_of_kind
from .launch import INNER
from .structure import Compute, Parameters

__all__ = ["ElementwiseLoop", "emit_rule"]

#: elements of a buffer on the stack
CHUNK = 256


class ElementwiseLoop(NamedTuple):
    """The loop of an operator, or of several steps, for some dtypes: the key of its machine code."""

    operator: str
    parameters: Parameters
    sources: tuple[DType, ...]
    dtype: DType
    lanes: int
    steps: tuple[Compute, ...] = ()
    """Operators on the operands and on values of earlier steps, in the place of one operator."""

    def write(self, name: str) -> str:
        """Return the LLVM IR of a module in which ``name`` is the loop."""
        return INNER + self._chunk(f"{name}_chunk") + self._loop(name)

    def _chunk(self, name: str) -> str:
        """Return the function that computes whole vectors of consecutive elements."""
        places = [f"%p{number}" for number in range(len(self.sources) + 1)]
        arguments = ", ".join([f"ptr {place}" for place in places])
        e = Emitter(name, self.lanes, f"{arguments}, i64 %count")
        e.internal = True
        count = len(self.sources)
        steps = self.steps or (Compute(self.operator, self.parameters, tuple(range(count)), self.dtype),)

        def vector(index: Index) -> None:
            values = [e.load(place, index, dtype) for place, dtype in zip(places, self.sources)]
            for step in steps:
                sources = [values[source] for source in step.sources]
                lowering = lowering_of_kind(step.operator, Elementwise)
                values.append(lowering.value(e, sources, dict(step.parameters), step.dtype))
            e.store(places[-1], index, values[-1])

        e.for_each("0", "%count", vector, str(self.lanes))
        return e.text()

    def _loop(self, name: str) -> str:
        f = Emitter(name, self.lanes, "ptr %operands, ptr %counts, ptr %strides, ptr %unused")
        sizes = [dtype.itemsize for dtype in (*self.sources, self.dtype)]
        count = f.load_word("%counts", "0")
        places = [f.load_word("%operands", str(k), "ptr") for k in range(len(sizes))]
        strides = [f.load_word("%strides", str(k)) for k in range(len(sizes))]
        buffers = [f.assign(f"alloca i8, i64 {CHUNK * size}, align 64") for size in sizes]
        units = [f.test("eq", stride, str(size)) for stride, size in zip(strides, sizes)]
        direct, repeated = units[-1], []
        for stride, unit in zip(strides[:-1], units):
            repeated.append(f.test("eq", stride, "0"))
            direct = f.logical_and(direct, f.assign(f"or i1 {unit}, {repeated[-1]}"))
        lanes = str(self.lanes)
        vectors = f.times(f.quotient(count, lanes), lanes)
        whole = f.select_index(direct, vectors, "0")
        length = f.least(whole, str(CHUNK))
        for place, buffer, dtype, is_repeated in zip(places, buffers, self.sources, repeated):
            f.when(is_repeated, partial(_fill, f, buffer, place, dtype, length))
        steps = [f.select_index(unit, str(size), "0") for unit, size in zip(units, sizes)]
        starts = [
            f.assign(f"select i1 {unit}, ptr {place}, ptr {buffer}")
            for unit, place, buffer in zip(units, places, buffers)
        ]

        def straight(begin: Index) -> None:
            here = [f.address(start, f.times(begin, step), "i8") for start, step in zip(starts, steps)]
            _call(f, f"{name}_chunk", here, f.least(f.minus(whole, begin), str(CHUNK)))

        def buffered(begin: Index) -> None:
            number = f.least(f.minus(count, begin), str(CHUNK))
            filled = f.times(f.quotient(f.plus(number, str(self.lanes - 1)), lanes), lanes)
            for place, stride, buffer, size in zip(places[:-1], strides, buffers, sizes):
                source = f.address(place, f.times(begin, stride), "i8")
                _copy(f, (buffer, str(size)), (source, stride), size, number, filled)
            _call(f, f"{name}_chunk", buffers, filled)
            target = f.address(places[-1], f.times(begin, strides[-1]), "i8")
            _copy(f, (target, strides[-1]), (buffers[-1], str(sizes[-1])), sizes[-1], number, number)

        f.for_each("0", whole, straight, str(CHUNK))
        f.for_each(whole, count, buffered, str(CHUNK))
        return f.text()


def emit_rule(operator: str) -> Callable[..., Value]:
    """Return the function that writes the instructions of an elementwise operator."""
    return lowering_of_kind(operator, Elementwise).emit


def _call(f: FunctionBuilder, name: str, places: Sequence[str], count: Index) -> None:
    f.line(f"call void @{name}({', '.join([f'ptr {place}' for place in places])}, i64 {count})")


def _fill(e: Emitter, target: str, source: str, dtype: DType, count: Index) -> None:
    """Write the code that stores one number in a buffer of whole vectors."""
    value = e.load_splat(source, "0", dtype)
    e.for_each("0", count, lambda index: e.store(target, index, value), str(e.lanes))


def _copy(
    f: FunctionBuilder, target: tuple[str, Index], source: tuple[str, Index], size: int, count: Index, filled: Index
) -> None:
    """Write the code that copies elements between strides, and repeats the last one up to a number of elements."""
    kind = f"i{8 * size}"
    last = f.minus(count, "1")

    def element(index: Index) -> None:
        place = f.address(source[0], f.times(f.least(index, last), source[1]), "i8")
        value = f.assign(f"load {kind}, ptr {place}, align 1")
        f.line(f"store {kind} {value}, ptr {f.address(target[0], f.times(index, target[1]), 'i8')}, align 1")

    f.for_each("0", filled, element)
