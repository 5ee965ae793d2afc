"""Emitter: builder for LLVM IR functions on vectors, all with the same number of lanes.

A :class:`Value` is a vector with one lane per element; its dtype selects integer or floating point instructions.
Booleans are bytes in memory and masks in registers. float16 and bfloat16 numbers are float32 in registers; code that
computes one must round it (:meth:`Emitter.round_to`). No instruction has a fast-math flag: sums are not reordered, and
products are not contracted into the sums of other operators. :meth:`Emitter.fma` is an explicit fused multiply-add.

>>> e = Emitter("twice", lanes=4)
>>> x = e.load("%table", "0", FLOAT32)
>>> e.store("%table", "0", e.add(x, x))
>>> print(e.body())
  %v1 = load <4 x float>, ptr %table, align 1
  %v2 = fadd <4 x float> %v1, %v1
  store <4 x float> %v2, ptr %table, align 1
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ...base.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    HALVES,
    INT8,
    INT32,
    INT64,
    UINT8,
    UINT32,
    UINT64,
    DType,
    convert_scalar,
    kind_of,
    widen,
)
from .. import vector_math
from .function_builder import FunctionBuilder, Index, Value

__all__ = ["ARGUMENTS", "ROW", "SUPPORTED", "Emitter", "Index", "Value"]

#: lanes of a row. Rows define the order of sums and random numbers, so the lanes of a kernel divide a row
ROW = 16

#: a kernel's arguments: its table of integers, the addresses of the arrays, and the range to process
ARGUMENTS = "ptr %table, ptr %bases, i64 %lo, i64 %hi"

#: dtypes that kernels load and store
SUPPORTED: frozenset[DType] = frozenset([FLOAT16, BFLOAT16, FLOAT32, FLOAT64, INT8, UINT8, INT32, INT64, BOOL])

_SCALARS: dict[DType, str] = {
    FLOAT16: "float",
    BFLOAT16: "float",
    FLOAT32: "float",
    FLOAT64: "double",
    INT8: "i8",
    UINT8: "i8",
    INT32: "i32",
    UINT32: "i32",
    INT64: "i64",
    UINT64: "i64",
    BOOL: "i1",
}

#: types in memory, if they differ
_STORED = {FLOAT16: "i16", BFLOAT16: "i16", BOOL: "i8"}

_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Emitter(FunctionBuilder):
    """Builder for a function on vectors. Every value has as many lanes as the emitter."""

    def __init__(self, name: str, lanes: int = ROW, arguments: str = ARGUMENTS) -> None:
        if ROW % lanes:
            raise ValueError(f"vectors of {lanes} lanes do not divide a row of {ROW}")
        super().__init__(name, arguments)
        self.lanes = lanes

    # -- types

    def scalar_type(self, dtype: DType) -> str:
        """Return the type of one element: ``float``, ``i32``, ..."""
        return _SCALARS[dtype]

    def vector_type(self, dtype: DType) -> str:
        """Return the type of a value: ``<16 x float>``, ..."""
        return f"<{self.lanes} x {_SCALARS[dtype]}>"

    def _suffix(self, dtype: DType) -> str:
        return self._variant(_SCALARS[dtype])

    def _variant(self, scalar: str) -> str:
        # LLVM's suffix of overloaded functions: v16f32
        return f"v{self.lanes}" + {"float": "f32", "double": "f64"}.get(scalar, scalar)

    def _with_type(self, value: Value) -> str:
        return f"{self.vector_type(value.dtype)} {value.text}"

    # -- constants

    def literal(self, number: Any, dtype: DType) -> str:
        """Return a number in LLVM's syntax; floating point numbers as the bits of a double.

        >>> Emitter("f").literal(0.1, FLOAT32)
        '0x3FB99999A0000000'
        """
        if kind_of(dtype) != "f":
            return str(int(number))
        exact = float(widen(convert_scalar(number, dtype)))
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"

    def constant(self, number: Any, dtype: DType) -> Value:
        """Return a number in every lane: ``splat (float 0x3FF0000000000000)``."""
        return Value(f"splat ({_SCALARS[dtype]} {self.literal(number, dtype)})", dtype)

    def like(self, value: Value, number: Any) -> Value:
        """Return a number in every lane, in the dtype of a value."""
        return self.constant(number, value.dtype)

    def steps(self, dtype: DType) -> Value:
        """Return 0, 1, 2, ... in the lanes: ``<i32 0, i32 1, ...>``."""
        scalar = _SCALARS[dtype]
        return Value("<" + ", ".join([f"{scalar} {lane}" for lane in range(self.lanes)]) + ">", dtype)

    def splat(self, scalar: str, dtype: DType) -> Value:
        """Return a scalar in every lane.

        ::

            %v1 = insertelement <16 x float> poison, float %scalar, i64 0
            %v2 = shufflevector <16 x float> %v1, <16 x float> poison, <16 x i32> zeroinitializer
        """
        return Value(self._splat_scalar(self.vector_type(dtype), _SCALARS[dtype], scalar), dtype)

    def _splat_scalar(self, kind: str, element: str, scalar: str) -> str:
        first = self.assign(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.assign(f"shufflevector {kind} {first}, {kind} poison, <{self.lanes} x i32> zeroinitializer")

    # -- arithmetic

    def _binary(self, floating: str, integer: str, first: Value, second: Value) -> Value:
        assert first.dtype == second.dtype, (floating, integer, first, second)
        word = floating if kind_of(first.dtype) == "f" else integer
        return Value(self.assign(f"{word} {self._with_type(first)}, {second.text}"), first.dtype)

    def add(self, first: Value, second: Value) -> Value:
        """Return the sum: ``fadd``, or ``add`` for integers, which wrap."""
        return self._binary("fadd", "add", first, second)

    def subtract(self, first: Value, second: Value) -> Value:
        """Return the difference: ``fsub``, or ``sub`` for integers."""
        return self._binary("fsub", "sub", first, second)

    def multiply(self, first: Value, second: Value) -> Value:
        """Return the product: ``fmul``, or ``mul`` for integers."""
        return self._binary("fmul", "mul", first, second)

    def divide(self, first: Value, second: Value) -> Value:
        """Return the quotient of floating point values: ``fdiv``."""
        assert kind_of(first.dtype) == "f", first
        return self._binary("fdiv", "", first, second)

    def integer_quotient(self, first: Value, second: Value) -> Value:
        """Return the quotient of integers, towards zero: ``sdiv`` or ``udiv``. Zero and overflow trap."""
        return self._binary("", "sdiv" if kind_of(first.dtype) == "i" else "udiv", first, second)

    def integer_remainder(self, first: Value, second: Value) -> Value:
        """Return the remainder of integers, with the sign of the first: ``srem`` or ``urem``."""
        return self._binary("", "srem" if kind_of(first.dtype) == "i" else "urem", first, second)

    def negative(self, value: Value) -> Value:
        """Return the negative: ``fneg``, or for integers ``sub 0, value``, which wraps."""
        if kind_of(value.dtype) == "f":
            return Value(self.assign(f"fneg {self._with_type(value)}"), value.dtype)
        return self.subtract(self.like(value, 0), value)

    def maximum(self, first: Value, second: Value) -> Value:
        """Return the larger value; NaN wins, and of equal ones the second."""
        larger = self.select(self.relation("gt", first, second), first, second)
        return self._unless_nan(first, larger)

    def minimum(self, first: Value, second: Value) -> Value:
        """Return the smaller value; NaN wins, and of equal ones the second."""
        smaller = self.select(self.relation("lt", first, second), first, second)
        return self._unless_nan(first, smaller)

    def _unless_nan(self, value: Value, other: Value) -> Value:
        return self.select(self.compare("uno", value, value), value, other) if kind_of(value.dtype) == "f" else other

    def fma(self, first: Value, second: Value, third: Value) -> Value:
        """Return first * second + third, rounded once: ``call @llvm.fma.v16f32``."""
        return self.call("fma", first, second, third)

    def absolute(self, value: Value) -> Value:
        """Return the absolute value: ``call @llvm.fabs.v16f32``; the smallest integer stays unchanged."""
        if kind_of(value.dtype) == "f":
            return self.call("fabs", value)
        if kind_of(value.dtype) == "u":
            return value
        return self.select(self.relation("lt", value, self.like(value, 0)), self.negative(value), value)

    def with_sign_of(self, value: Value, sign: Value) -> Value:
        """Return a floating point value with the sign of another: ``call @llvm.copysign.v16f32``."""
        return self.call("copysign", value, sign)

    def call(self, function: str, *values: Value) -> Value:
        """Return an LLVM intrinsic, elementwise; arguments and result have one type."""
        dtype = values[0].dtype
        kind, name = self.vector_type(dtype), f"@llvm.{function}.{self._suffix(dtype)}"
        self.declare(f"declare {kind} {name}({', '.join([kind] * len(values))})")
        arguments = ", ".join([self._with_type(value) for value in values])
        return Value(self.assign(f"call {kind} {name}({arguments})"), dtype)

    # -- functions built from the above

    def exp(self, value: Value) -> Value:
        """Return the exponential; see :func:`phonograd.core.lower.vector_math.exp`."""
        return vector_math.exp(self, value)

    def tanh(self, value: Value) -> Value:
        """Return the hyperbolic tangent; see :func:`phonograd.core.lower.vector_math.tanh`."""
        return vector_math.tanh(self, value)

    # -- bits and selection

    def bits(self, operation: str, first: Value, second: Value) -> Value:
        """Return ``and``, ``or``, ``xor``, ``shl``, ``lshr`` or ``ashr`` of integer values."""
        assert kind_of(first.dtype) != "f", first
        return self._binary("", operation, first, second)

    def bits_of_first(self, value: Value) -> str:
        """Return the first lane as an integer with its type: ``i32 %v2``."""
        kind = f"i{8 * value.dtype.itemsize}"
        first = self.assign(f"extractelement {self._with_type(value)}, i64 0")
        return f"{kind} {self.assign(f'bitcast {self.scalar_type(value.dtype)} {first} to {kind}')}"

    def reinterpret(self, value: Value, dtype: DType) -> Value:
        """Return the same bits as another dtype of the same size: ``bitcast``."""
        return Value(self.assign(f"bitcast {self._with_type(value)} to {self.vector_type(dtype)}"), dtype)

    def convert(self, value: Value, dtype: DType) -> Value:
        """Return the value in another dtype: ``zext``, ``sext``, ``trunc``, ``sitofp``, ``uitofp``, ``fpext``, ..."""
        source = value.dtype
        if _SCALARS[source] == _SCALARS[dtype]:
            return Value(value.text, dtype)
        if source == BOOL:
            return self.select(value, self.constant(1, dtype), self.constant(0, dtype))._replace(truth=value.text)
        if source.kind == "f" and kind_of(dtype) == "f":
            word = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
        elif kind_of(dtype) == "f":
            word = "sitofp" if source.kind == "i" else "uitofp"
        elif source.kind == "f":
            raise TypeError("floating point numbers may be outside of the integer range: clamp them first")
        elif dtype == BOOL:
            return self.truth(value)
        elif dtype.itemsize < source.itemsize:
            word = "trunc"
        else:
            word = "sext" if source.kind == "i" else "zext"
        return Value(self.assign(f"{word} {self._with_type(value)} to {self.vector_type(dtype)}"), dtype)

    def compare(self, predicate: str, first: Value, second: Value) -> Value:
        """Return a mask of the lanes in which a comparison holds: ``fcmp olt``, ``icmp slt``, ..."""
        word = "fcmp" if kind_of(first.dtype) == "f" else "icmp"
        return Value(self.assign(f"{word} {predicate} {self._with_type(first)}, {second.text}"), BOOL)

    def truncate(self, value: Value, dtype: DType) -> Value:
        """Return a floating point value truncated to a signed integer, which it must fit: ``fptosi``."""
        return Value(self.assign(f"fptosi {self._with_type(value)} to {self.vector_type(dtype)}"), dtype)

    def relation(self, name: str, first: Value, second: Value) -> Value:
        """Return a mask of the lanes in which a relation (``eq``, ``lt``, ...) holds; with NaN, only ``ne`` does.

        ::

            %v1 = fcmp olt <16 x float> %first, %second
        """
        assert name in _RELATIONS, name
        kind = kind_of(first.dtype)
        if kind == "f":
            return self.compare(("u" if name == "ne" else "o") + name, first, second)
        signed = "" if name in ("eq", "ne") else "s" if kind == "i" else "u"
        return self.compare(signed + name, first, second)

    def truth(self, value: Value) -> Value:
        """Return a mask of the lanes that are not zero; NaN is not zero."""
        if value.dtype == BOOL:
            return value
        if value.truth is not None:
            return Value(value.truth, BOOL)
        return self.relation("ne", value, self.like(value, 0))

    def any(self, mask: Value) -> str:
        """Return whether a mask is true in some lane, as a scalar ``i1``.

        ::

            %v1 = bitcast <16 x i1> %mask to i16
            %v2 = icmp ne i16 %v1, 0
        """
        bits = self.assign(f"bitcast {self._with_type(mask)} to i{self.lanes}")
        return self.assign(f"icmp ne i{self.lanes} {bits}, 0")

    def select(self, mask: Value, first: Value, second: Value) -> Value:
        """Return the first value where the mask is true, else the second: ``select``."""
        chosen = f"select {self._with_type(mask)}, {self._with_type(first)}, {self._with_type(second)}"
        return Value(self.assign(chosen), first.dtype)

    def fold_lanes(self, value: Value, distance: int) -> Value:
        """Return the value with its lanes moved down by a distance; the upper lanes are undefined.

        ::

            %v1 = shufflevector <4 x float> %value, <4 x float> poison, <4 x i32> <i32 2, i32 3, i32 poison, i32 poison>
        """
        kind = self.vector_type(value.dtype)
        lanes = [f"i32 {lane + distance if lane < distance else 'poison'}" for lane in range(self.lanes)]
        order = f"<{self.lanes} x i32> <{', '.join(lanes)}>"
        return Value(self.assign(f"shufflevector {kind} {value.text}, {kind} poison, {order}"), value.dtype)

    def widen(self, value: Value) -> Value:
        """Return a value in its compute format: the 16-bit types as float32, which they already are in registers."""
        return Value(value.text, FLOAT32) if value.dtype in HALVES else value

    def round_to(self, value: Value, dtype: DType) -> Value:
        """Return a computed value in a dtype: float32 is rounded to 16 bits; any other dtype must match already.

        ::

            %v1 = fptrunc <16 x float> %value to <16 x half>
            %v2 = fpext <16 x half> %v1 to <16 x float>
        """
        if dtype == FLOAT16:
            return self._from_half(self._to_half(value))
        if dtype == BFLOAT16:
            return self._round_to_bfloat16(value)
        assert value.dtype == dtype, (value, dtype)
        return value

    def _round_to_bfloat16(self, value: Value) -> Value:
        """Return float32 numbers rounded to the nearest bfloat16, ties to even; NaN becomes quiet.

        The processors that have an instruction for it flush denormal numbers to zero, so integer instructions do it.

        ::

            %v1 = bitcast <16 x float> %value to <16 x i32>
            %v2 = lshr <16 x i32> %v1, splat (i32 16)
            %v3 = and <16 x i32> %v2, splat (i32 1)
            %v4 = add <16 x i32> %v3, splat (i32 32767)
            %v5 = add <16 x i32> %v1, %v4
            %v6 = or <16 x i32> %v1, splat (i32 4194304)
            %v7 = fcmp uno <16 x float> %value, %value
            %v8 = select <16 x i1> %v7, <16 x i32> %v6, <16 x i32> %v5
            %v9 = and <16 x i32> %v8, splat (i32 -65536)
            %v10 = bitcast <16 x i32> %v9 to <16 x float>
        """
        assert _SCALARS[value.dtype] == "float", value
        value = Value(value.text, FLOAT32)
        bits = self.reinterpret(value, INT32)
        last = self.bits("and", self.bits("lshr", bits, self.like(bits, 16)), self.like(bits, 1))
        nearest = self.add(bits, self.add(last, self.like(bits, 0x7FFF)))
        quiet = self.bits("or", bits, self.like(bits, 0x400000))
        rounded = self.select(self.compare("uno", value, value), quiet, nearest)
        return self.reinterpret(self.bits("and", rounded, self.like(bits, -0x10000)), BFLOAT16)

    def _to_half(self, value: Value) -> str:
        assert _SCALARS[value.dtype] == "float", value
        return self.assign(f"fptrunc {self._with_type(value)} to <{self.lanes} x half>")

    def _from_half(self, half: str) -> Value:
        return Value(self.assign(f"fpext <{self.lanes} x half> {half} to {self.vector_type(FLOAT16)}"), FLOAT16)

    # -- memory. Arrays of other libraries may begin anywhere, so no alignment is assumed

    def _from_memory(self, text: str, dtype: DType) -> Value:
        """Return a loaded value in its register format."""
        if dtype == FLOAT16:
            return self._from_half(self.assign(f"bitcast <{self.lanes} x i16> {text} to <{self.lanes} x half>"))
        if dtype == BFLOAT16:
            wide = self.assign(f"zext <{self.lanes} x i16> {text} to <{self.lanes} x i32>")
            bits = Value(wide, INT32)
            return self.reinterpret(self.bits("shl", bits, self.like(bits, 16)), BFLOAT16)
        if dtype == BOOL:
            return Value(self.assign(f"icmp ne <{self.lanes} x i8> {text}, zeroinitializer"), BOOL)
        return Value(text, dtype)

    def _to_memory(self, value: Value) -> str:
        """Return a value in its memory format."""
        if value.dtype == FLOAT16:
            return self.assign(f"bitcast <{self.lanes} x half> {self._to_half(value)} to <{self.lanes} x i16>")
        if value.dtype == BFLOAT16:
            bits = self.reinterpret(value, INT32)
            upper = self.bits("lshr", bits, self.like(bits, 16))
            return self.assign(f"trunc {self._with_type(upper)} to <{self.lanes} x i16>")
        if value.dtype == BOOL:
            return self.assign(f"zext {self._with_type(value)} to <{self.lanes} x i8>")
        return value.text

    def _memory_type(self, dtype: DType) -> str:
        return _STORED.get(dtype, _SCALARS[dtype])

    def below(self, count: Index) -> Value:
        """Return a mask of the lanes whose index is below a count."""
        return self.compare("slt", self.steps(INT64), self.splat(count, INT64))

    def load(self, pointer: str, offset: Index, dtype: DType) -> Value:
        """Return consecutive elements: ``load <16 x float>, ptr %p, align 1``."""
        scalar = self._memory_type(dtype)
        place = self.address(pointer, offset, scalar)
        return self._from_memory(self.assign(f"load <{self.lanes} x {scalar}>, ptr {place}, align 1"), dtype)

    def load_where(self, pointer: str, offset: Index, dtype: DType, mask: Value) -> Value:
        """Return consecutive elements where the mask is true, else 0; memory of other lanes is not read."""
        scalar = self._memory_type(dtype)
        kind, name = f"<{self.lanes} x {scalar}>", f"@llvm.masked.load.{self._variant(scalar)}.p0"
        self.declare(f"declare {kind} {name}(ptr, i32, {self.vector_type(BOOL)}, {kind})")
        place = self.address(pointer, offset, scalar)
        loaded = f"call {kind} {name}(ptr {place}, i32 1, {self._with_type(mask)}, {kind} zeroinitializer)"
        return self._from_memory(self.assign(loaded), dtype)

    def gather(self, pointer: str, offset: Index, stride: Index, dtype: DType, mask: Value) -> Value:
        """Return elements at a constant stride where the mask is true, else 0."""
        offsets = self.multiply(self.splat(stride, INT64), self.steps(INT64))
        return self.gather_at(self.address(pointer, offset, self._memory_type(dtype)), offsets, dtype, mask)

    def gather_at(self, pointer: str, offsets: Value, dtype: DType, mask: Value) -> Value:
        """Return the elements at int64 offsets from a pointer where the mask is true, else 0."""
        scalar = self._memory_type(dtype)
        kind, name = f"<{self.lanes} x {scalar}>", f"@llvm.masked.gather.{self._variant(scalar)}.v{self.lanes}p0"
        pointers = f"<{self.lanes} x ptr>"
        self.declare(f"declare {kind} {name}({pointers}, i32, {self.vector_type(BOOL)}, {kind})")
        places = self.assign(f"getelementptr {scalar}, ptr {pointer}, {self._with_type(offsets)}")
        gathered = f"call {kind} {name}({pointers} {places}, i32 1, {self._with_type(mask)}, {kind} zeroinitializer)"
        return self._from_memory(self.assign(gathered), dtype)

    def load_each(self, pointer: str, offsets: Sequence[Index], dtype: DType) -> Value:
        """Return the elements at some offsets, one for each lane, by as many loads.

        A gather takes longer on most processors, and one with a mask is a branch for each lane on some.

        ::

            %v1 = load float, ptr %p, align 1
            %v2 = insertelement <16 x float> poison, float %v1, i64 0
        """
        scalar = self._memory_type(dtype)
        kind, text = f"<{self.lanes} x {scalar}>", "poison"
        for lane, offset in enumerate(offsets):
            loaded = self.assign(f"load {scalar}, ptr {self.address(pointer, offset, scalar)}, align 1")
            text = self.assign(f"insertelement {kind} {text}, {scalar} {loaded}, i64 {lane}")
        return self._from_memory(text, dtype)

    def load_splat(self, pointer: str, offset: Index, dtype: DType) -> Value:
        """Return one element in every lane.

        ::

            %v1 = load float, ptr %p, align 1
            %v2 = insertelement <16 x float> poison, float %v1, i64 0
            %v3 = shufflevector <16 x float> %v2, <16 x float> poison, <16 x i32> zeroinitializer
        """
        scalar = self._memory_type(dtype)
        kind = f"<{self.lanes} x {scalar}>"
        loaded = self.assign(f"load {scalar}, ptr {self.address(pointer, offset, scalar)}, align 1")
        return self._from_memory(self._splat_scalar(kind, scalar, loaded), dtype)

    def store(self, pointer: str, offset: Index, value: Value) -> None:
        """Store consecutive elements: ``store <16 x float> %v, ptr %p, align 1``."""
        scalar = self._memory_type(value.dtype)
        text, place = self._to_memory(value), self.address(pointer, offset, scalar)
        self.line(f"store <{self.lanes} x {scalar}> {text}, ptr {place}, align 1")

    def store_where(self, pointer: str, offset: Index, value: Value, mask: Value) -> None:
        """Store consecutive elements where the mask is true; memory of other lanes is not written."""
        scalar = self._memory_type(value.dtype)
        kind, name = f"<{self.lanes} x {scalar}>", f"@llvm.masked.store.{self._variant(scalar)}.p0"
        self.declare(f"declare void {name}({kind}, ptr, i32, {self.vector_type(BOOL)})")
        text, place = self._to_memory(value), self.address(pointer, offset, scalar)
        self.line(f"call void {name}({kind} {text}, ptr {place}, i32 1, {self._with_type(mask)})")

    def store_first(self, pointer: str, offset: Index, value: Value) -> None:
        """Store the first lane as one element."""
        scalar = self._memory_type(value.dtype)
        first = self.assign(f"extractelement <{self.lanes} x {scalar}> {self._to_memory(value)}, i64 0")
        self.line(f"store {scalar} {first}, ptr {self.address(pointer, offset, scalar)}, align 1")

    def store_apart(self, pointer: str, offset: Index, stride: Index, value: Value, count: Index) -> None:
        """Store the first ``count`` lanes at a constant stride, with a loop over the lanes."""
        scalar = self._memory_type(value.dtype)
        text, first = self._to_memory(value), self.address(pointer, offset, scalar)

        def one(lane: Index, _: list[Value]) -> tuple[()]:
            element = self.assign(f"extractelement <{self.lanes} x {scalar}> {text}, i64 {lane}")
            place = self.address(first, self.times(lane, stride), scalar)
            self.line(f"store {scalar} {element}, ptr {place}, align 1")
            return ()

        self.loop("0", self.least(count, str(self.lanes)), "1", (), one)

    def scratch(self, words: int) -> str:
        """Return the address of 64-bit words that live as long as the call; call this in the entry block only.

        ::

            %v1 = alloca i64, i64 32, align 64
        """
        assert self.block == "entry"
        return self.assign(f"alloca i64, i64 {words}, align 64")
