"""Routine: builder for functions on elements of one dtype, and for modules of several such functions.

Takes: :class:`~phonograd.core.lower.ir.emitter.Emitter`. Used by kernels with loops of their own (matrix products,
convolution, pooling). Offsets count elements, and routines may shuffle the lanes of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base.dtypes import BFLOAT16, BOOL, FLOAT16, INT64, DType
from ..lower.ir.emitter import ARGUMENTS, Emitter
from ..lower.ir.function_builder import Index, Value
from .launch import INNER

__all__ = ["Routine", "module"]


class Routine(Emitter):
    """Builder for a function whose pointers refer to elements of one floating point dtype.

    An ``inner`` routine takes most of its kernel's time and calls no other routine.
    """

    def __init__(self, name: str, lanes: int, dtype: DType, arguments: str = ARGUMENTS, *, inner: bool = False) -> None:
        super().__init__(name, lanes, arguments)
        self.inner = inner
        self.dtype = dtype
        self.scalar = self.scalar_type(dtype)

    # -- control

    def invoke(self, routine: str, *arguments: str) -> None:
        """Call a routine of the same module; arguments carry their types: ``"ptr %p"``, ``"i64 3"``."""
        self.line(f"call void @{routine}({', '.join(arguments)})")

    # -- integers

    def split(self, number: Index, size: Index) -> tuple[Index, Index]:
        """Return the quotient and the remainder of a non-negative integer."""
        if size == "1":
            return number, "0"
        quotient = self.quotient(number, size)
        return quotient, self.minus(number, self.times(quotient, size))

    def total(self, *numbers: Index) -> Index:
        """Return the sum of several integers."""
        result = "0"
        for number in numbers:
            result = self.plus(result, number)
        return result

    def most(self, first: Index, second: Index) -> Index:
        """Return the larger of two integers."""
        return self.select_index(self.test("sgt", first, second), first, second)

    # -- memory

    def at(self, pointer: str, *offsets: Index, dtype: DType | None = None) -> str:
        """Return an address, advanced by a number of elements of the dtype of the routine, or of another one."""
        return self.address(pointer, self.total(*offsets), self._memory_type(dtype or self.dtype))

    def get(self, pointer: str, offset: Index = "0", dtype: DType | None = None) -> Value:
        """Return the vector of consecutive elements at an address; those of 16 bits are widened."""
        return self.widen(self.load(pointer, offset, dtype or self.dtype))

    def get_where(self, pointer: str, mask: Value, offset: Index = "0") -> Value:
        """Return consecutive elements where the mask is true, else 0."""
        return self.load_where(pointer, offset, self.dtype, mask)

    def get_splat(self, pointer: str, offset: Index = "0", dtype: DType | None = None) -> Value:
        """Return one element in every lane; one of 16 bits is widened."""
        return self.widen(self.load_splat(pointer, offset, dtype or self.dtype))

    def zeros(self) -> Value:
        """Return a vector of zeros."""
        return Value("zeroinitializer", self.dtype)

    def get_one(self, pointer: str, offset: Index = "0", dtype: DType | None = None) -> str:
        """Return the name of a loaded scalar; one of 16 bits is widened.

        ::

            %v1 = load i16, ptr %p, align 2
            %v2 = zext i16 %v1 to i32
            %v3 = shl i32 %v2, 16
            %v4 = bitcast i32 %v3 to float
        """
        dtype = dtype or self.dtype
        place = self.at(pointer, offset, dtype=dtype)
        loaded = self.assign(f"load {self._memory_type(dtype)}, ptr {place}, align {dtype.itemsize}")
        if dtype == BFLOAT16:
            wide = self.assign(f"zext i16 {loaded} to i32")
            return self.assign(f"bitcast i32 {self.assign(f'shl i32 {wide}, 16')} to float")
        if dtype == FLOAT16:
            return self.assign(f"fpext half {self.assign(f'bitcast i16 {loaded} to half')} to float")
        return loaded

    def put_one(self, pointer: str, element: str, offset: Index = "0") -> None:
        """Store a scalar."""
        self.line(f"store {self.scalar} {element}, ptr {self.at(pointer, offset)}, align {self.dtype.itemsize}")

    def add_one(self, first: str, second: str) -> str:
        """Return the sum of two scalars."""
        return self.assign(f"fadd {self.scalar} {first}, {second}")

    def scatter(self, pointer: str, stride: Index, value: Value, mask: Value) -> None:
        """Store the lanes where the mask is true to elements at a constant stride."""
        self.scatter_at(pointer, self.multiply(self.splat(stride, INT64), self.steps(INT64)), value, mask)

    def scatter_at(self, pointer: str, offsets: Value, value: Value, mask: Value) -> None:
        """Store the lanes where the mask is true to elements at int64 offsets from a pointer."""
        kind, pointers = self.vector_type(value.dtype), f"<{self.lanes} x ptr>"
        name = f"@llvm.masked.scatter.{self._suffix(value.dtype)}.v{self.lanes}p0"
        self.declare(f"declare void {name}({kind}, {pointers}, i32, {self.vector_type(BOOL)})")
        places = self.assign(f"getelementptr {self.scalar}, ptr {pointer}, {self._with_type(offsets)}")
        size = self.dtype.itemsize
        self.line(
            f"call void {name}({self._with_type(value)}, {pointers} {places}, i32 {size}, {self._with_type(mask)})"
        )

    def prefetch(self, pointer: str, offset: Index = "0") -> None:
        """Fetch the cache line of an element that is read soon.

        ::

            call void @llvm.prefetch.p0(ptr %v1, i32 0, i32 3, i32 1)
        """
        self.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.line(f"call void @llvm.prefetch.p0(ptr {self.at(pointer, offset)}, i32 0, i32 3, i32 1)")

    def tail(self, width: Index) -> tuple[Index, Value]:
        """Return the start of the last vector of a row, and the mask of its lanes (at least one is true)."""
        whole = self.shift_down(self.minus(width, "1"), self.lanes.bit_length() - 1)
        start = self.times(whole, str(self.lanes))
        return start, self.below(self.minus(width, start))

    def clear(self, pointer: str, count: Index) -> None:
        """Store zeros, rounding the count up to whole vectors."""
        self.for_each("0", count, lambda index: self.store(pointer, index, self.zeros()), str(self.lanes))

    def clear_exactly(self, pointer: str, count: Index) -> None:
        """Store exactly ``count`` zeros, at least one."""
        last, mask = self.tail(count)
        self.clear(pointer, last)
        self.store_where(pointer, last, self.zeros(), mask)

    # -- lanes

    def shuffle(self, first: Value, second: Value, order: Sequence[int]) -> Value:
        """Return the lanes of two vectors in another order; those of the second are numbered after the first's."""
        kind = self.vector_type(first.dtype)
        places = ", ".join([f"i32 {place}" for place in order])
        text = f"shufflevector {kind} {first.text}, {kind} {second.text}, <{len(order)} x i32> <{places}>"
        return Value(self.assign(text), first.dtype)

    def transpose(self, rows: Sequence[Value]) -> list[Value]:
        """Return the transpose of a square of vectors and lanes, with log2(lanes) shuffles per vector."""
        lanes, vectors = self.lanes, list(rows)
        assert len(vectors) == lanes, len(vectors)
        distance = 1
        while distance < lanes:
            # exchange blocks of side `distance` across the diagonal of blocks twice as large
            low = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
            high = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
            turned = list(vectors)
            for row in range(lanes):
                if not row & distance:
                    first, second = vectors[row], vectors[row + distance]
                    turned[row] = self.shuffle(first, second, low)
                    turned[row + distance] = self.shuffle(first, second, high)
            vectors = turned
            distance *= 2
        return vectors

    def lane_sums(self, vectors: Sequence[Value]) -> Value:
        """Return a vector whose lane n is the sum over the lanes of vector n.

        Takes at most as many vectors as there are lanes. Halves of two vectors are added in one instruction, then
        quarters of four, and so on.
        """
        lanes = self.lanes
        bits = lanes.bit_length() - 1
        # bit-reversed order: after the last round, the sum of vector p is in lane p
        places = [int(f"{place:0{bits}b}"[::-1], 2) if bits else 0 for place in range(lanes)]
        level: list[Value | None] = [vectors[place] if place < len(vectors) else None for place in places]
        distance = lanes // 2
        while distance:
            near = [lane if not lane & distance else lanes + lane for lane in range(lanes)]
            far = [lane + distance if not lane & distance else lanes + lane - distance for lane in range(lanes)]
            level = [self._fold(level[place], level[place + 1], near, far) for place in range(0, len(level), 2)]
            distance //= 2
        total = level[0]
        assert total is not None
        return total

    def _fold(self, first: Value | None, second: Value | None, near: list[int], far: list[int]) -> Value | None:
        if first is None and second is None:
            return None
        known = first or second
        assert known is not None
        first, second = first or known, second or known
        return self.add(self.shuffle(first, second, near), self.shuffle(first, second, far))


def module(*routines: Routine) -> str:
    """Return the LLVM IR of a module. The last routine is the kernel; the others are internal to the module."""
    declarations: dict[str, None] = {}
    functions = []
    for routine in routines:
        lines = routine.text().split("\n")
        declarations.update(dict.fromkeys([line for line in lines if line.startswith("declare")]))
        functions.append("\n".join([line for line in lines if not line.startswith("declare")]))
    hidden = [
        f"{INNER if routine.inner else ''}{text.replace('define void', 'define internal void', 1)}"
        for routine, text in zip(routines, functions[:-1])
    ]
    return "\n".join([*declarations, *hidden, functions[-1]])
