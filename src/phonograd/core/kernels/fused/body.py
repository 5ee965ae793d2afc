"""Body: loads, values and stores of a fused kernel at one loop position, vector by vector.

Takes: structure and schedule. Used by: :mod:`.writer`. If the last vector of a line is only partly inside, loads and
stores are masked on a branch of their own; the computation between them is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...base.dtypes import INT64, DType
from ...lower.ir.emitter import Emitter, Index, Value
from ...lower.lowering import Elementwise, lowering_of_kind
from ..structure import ANY, SPLAT, STRIDE, UNIT, Compute, Load, Structure, Take
from .schedule import Pass, Schedule

__all__ = ["Body", "LoopPosition", "Strip"]


#: distance of the row whose beginning is prefetched; rows are in no order, so no processor foresees them
ROWS_AHEAD = 8
#: size of an array from which on the elements that a line takes are prefetched for the next one. With 128 lines in no
#: order and 2,048 or 4,096 elements of each, arrays of 20 MB take half of the time, those of 10 MB a fifth more (Zen 5)
FAR_BYTES = 1 << 24


class Strip(NamedTuple):
    """A vector on the last axis: its first element, the number of elements left, and whether they fill it."""

    first: Index
    left: Index
    full: str


class LoopPosition(NamedTuple):
    """A position of the loops: the offset of every operand, and the position along every axis entered so far."""

    offsets: list[Index]
    positions: dict[int, Index]


class Operand(NamedTuple):
    """Memory that a kernel reads or writes, as described by its table."""

    pointer: str
    start: Index
    """Its first byte according to the table; an element offset if there is no memory."""
    strides: list[Index]
    bounds: dict[int, tuple[Index, Index]]
    index_stride: Index


class Body:
    """The operands of a kernel, and the values computed from them."""

    def __init__(self, structure: Structure, schedule: Schedule, emitter: Emitter) -> None:
        self.structure = structure
        self.schedule = schedule
        self.emitter = emitter
        self.last = len(structure.axes) - 1
        self.extents = [emitter.load_word("%table", str(axis)) for axis in range(len(structure.axes))]
        self.first_draw = len(structure.loads)
        self.first_take = self.first_draw + len(structure.draws)
        self.first_store = self.first_take + len(structure.takes)
        self.first_partial = self.first_store + len(structure.stores)
        takes = [n for n in range(len(schedule.rows)) if isinstance(schedule.value(n), Take)]
        self._take_places = {number: self.first_take + place for place, number in enumerate(takes)}
        #: by operand of a take: the bytes to the next line, while a version of a line is written that prefetches it
        self.next_lines: dict[int, Index] = {}
        self._read_table()

    def _read_table(self) -> None:
        """Write the loads of extents, addresses and those strides that the structure does not fix."""
        structure = self.structure
        count = len(structure.axes)
        self.operands: list[Operand] = []
        word = count
        accesses: list[str] = [load.access for load in structure.loads] + [UNIT] * len(structure.draws)
        accesses += [take.access for take in structure.takes] + [store.access for store in structure.stores]
        # partial results are consecutive along the partitioned axis, which may be the last
        accesses += [STRIDE] * (len(structure.folds) if structure.partitioned else 0)
        for number, access in enumerate(accesses):
            load = structure.loads[number] if number < self.first_draw else None
            self.operands.append(self._operand(number, access, word, load))
            word += 2 + count + (2 * len(load.bounds) if load else 0)
            word += self.first_take <= number < self.first_store

    def _operand(self, number: int, access: str, word: int, load: Load | None) -> Operand:
        e, count = self.emitter, len(self.structure.axes)

        def read(place: int) -> Index:
            return e.load_word("%table", str(word + place))

        start = read(1)
        has_memory = load is None or not load.is_place
        pointer = e.address(e.load_word("%bases", read(0), "ptr"), start, "i8") if has_memory else "null"
        fixed = {SPLAT: "0", UNIT: "1"}
        strides = [
            self._fixed_stride(number, axis)
            or (fixed[access] if axis == self.last and access in fixed else read(2 + axis))
            for axis in range(count)
        ]
        bounds: dict[int, tuple[Index, Index]] = {}
        for place, axis in enumerate(load.bounds if load else ()):
            bounds[axis] = read(2 + count + 2 * place), read(2 + count + 2 * place + 1)
        is_take = self.first_take <= number < self.first_store
        return Operand(pointer, start, strides, bounds, read(2 + count) if is_take else "0")

    def _fixed_stride(self, number: int, axis: int) -> Index | None:
        """Return the stride along an axis if the structure fixes it: 0 for an operand without extent there."""
        structure = self.structure
        if structure.axes[axis] == "K":
            return None
        if number < self.first_draw:
            belongs_to_row = structure.loads[number].row
        elif self.first_take <= number < self.first_store:
            belongs_to_row = structure.takes[number - self.first_take].row
        elif self.first_store <= number < self.first_partial:
            belongs_to_row = structure.stores[number - self.first_store].row
        else:
            # partial results are consecutive along the partitioned axis
            belongs_to_row = number >= self.first_partial and axis != structure.axes.index("R")
        return "0" if belongs_to_row else None

    # -- positions

    def origin(self) -> LoopPosition:
        """Return the position at which loops begin."""
        return LoopPosition(["0"] * len(self.operands), {})

    def advance(self, place: LoopPosition, axis: int, index: Index) -> LoopPosition:
        """Return the loop position at an index on an axis."""
        e = self.emitter
        offsets = [
            e.plus(offset, e.times(index, operand.strides[axis]))
            for offset, operand in zip(place.offsets, self.operands, strict=True)
        ]
        return LoopPosition(offsets, {**place.positions, axis: index})

    def prefetch_rows(self, place: LoopPosition, axis: int, stop: Index) -> None:
        """Write prefetches of rows that an index in memory names for a later position on an axis.

        ::

            %v1 = load i64, ptr %place_in_index, align 8
            %v2 = getelementptr i8, ptr %data, i64 %first_byte_of_row
            call void @llvm.prefetch.p0(ptr %v2, i32 0, i32 3, i32 1)
        """
        e, index = self.emitter, place.positions[axis]
        for number, position in self._take_places.items():
            take = self.schedule.value(number)
            assert isinstance(take, Take), take
            load = self.structure.loads[take.at] if take.at < self.first_draw else None
            if load is None or load.access != SPLAT or load.bounds or load.is_place or load.dtype != INT64:
                continue
            # rows of zeros are mostly not read
            if take.access != UNIT or take.zero_first:
                continue
            source, operand = self.operands[take.at], self.operands[position]
            later = e.minus(e.least(e.plus(index, str(ROWS_AHEAD)), e.minus(stop, "1")), index)
            found = e.load_word(source.pointer, e.plus(place.offsets[take.at], e.times(later, source.strides[axis])))
            row = e.plus(place.offsets[position], e.times(found, operand.index_stride))
            first = e.address(operand.pointer, e.times(row, str(take.dtype.itemsize)), "i8")
            e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            e.line(f"call void @llvm.prefetch.p0(ptr {first}, i32 0, i32 3, i32 1)")

    def far_lines(self, axis: int) -> tuple[str, dict[int, Index]]:
        """Return whether to prefetch the elements that takes read in the next line on an axis, and its distances.

        That line must have the same indices, and the array must be too large for a cache. Distances are in bytes, by
        operand; there is none if no take has its indices in memory.
        """
        e, is_far, distances = self.emitter, "false", dict[int, Index]()
        for number, position in self._take_places.items():
            take = self.schedule.value(number)
            assert isinstance(take, Take), take
            if take.access != ANY or take.at >= self.first_draw:
                continue
            distances[position] = line = e.times(self.operands[position].strides[axis], str(take.dtype.itemsize))
            is_large = e.assign(f"icmp sge i64 {e.times(line, self.extents[axis])}, {FAR_BYTES}")
            is_same = e.assign(f"icmp eq i64 {self.operands[take.at].strides[axis]}, 0")
            is_far = e.assign(f"or i1 {is_far}, {e.logical_and(is_large, is_same)}")
        return is_far, distances

    def strip(self, index: Index, stop: Index) -> Strip:
        """Return the vector that begins at a position on the last axis."""
        e = self.emitter
        left = e.minus(stop, index)
        return Strip(index, left, e.assign(f"icmp sge i64 {left}, {e.lanes}"))

    def whole_strip(self, index: Index) -> Strip:
        """Return a vector known to be full."""
        return Strip(index, str(self.emitter.lanes), "true")

    def _along(self, number: int, place: LoopPosition, strip: Strip | None) -> Index:
        """Return the offset of an operand's first element in a strip."""
        offset = place.offsets[number]
        if strip is None:
            return offset
        return self.emitter.plus(offset, self.emitter.times(strip.first, self.operands[number].strides[self.last]))

    # -- values

    def row_values(self, level: int, place: LoopPosition, strip: Strip | None, known: dict[int, Value]) -> None:
        """Add the row values of a level; without a strip, all lanes are equal."""
        wanted = self.schedule.row_values(level)
        self._read(dict.fromkeys([n for n in wanted if n < self.first_draw]), place, strip, known)
        for number in wanted:
            if number not in known:
                known[number] = self._compute(number, place, strip, known)

    def line_values(self, found: Pass, place: LoopPosition) -> dict[int, Value]:
        """Return the element values that are constant along the last axis."""
        e, loads = self.emitter, self.structure.loads
        known: dict[int, Value] = {}
        for number in found.needed:
            if number < self.first_draw and loads[number].access == SPLAT and not loads[number].bounds:
                known[number] = self._scalar(number, place.offsets[number], e)
        return known

    def element_values(
        self, found: Pass, place: LoopPosition, strip: Strip, known: dict[int, Value]
    ) -> dict[int, Value]:
        """Return all values that a pass needs at a strip, given those of the row, of the line, and the random ones."""
        values = dict(known)
        wanted: dict[int, int | None] = {}
        for number in found.needed:
            if number in found.reads:
                wanted[number] = self.first_store + found.reads[number]
            elif number < self.first_draw and number not in values:
                wanted[number] = None
        self._read(wanted, place, strip, values)
        for number in found.needed:
            if number not in values:
                values[number] = self._compute(number, place, strip, values)
        return values

    def _compute(self, number: int, place: LoopPosition, strip: Strip | None, values: dict[int, Value]) -> Value:
        step = self.schedule.value(number)
        if isinstance(step, Take):
            return self._take(number, step, place, strip, values[step.at])
        assert isinstance(step, Compute), step
        lowering = lowering_of_kind(step.operator, Elementwise)
        return lowering.value(
            self.emitter, [values[source] for source in step.sources], dict(step.parameters), step.dtype
        )

    def value_at(self, number: int, place: LoopPosition, known: dict[int, Value]) -> Value:
        """Return a value at one position in every lane: a load, or one that is computed from known values."""
        if number < self.first_draw:
            return self._scalar(number, place.offsets[number], self.emitter)
        return self._compute(number, place, None, known)

    # -- reading

    def _read(
        self, wanted: dict[int, int | None], place: LoopPosition, strip: Strip | None, values: dict[int, Value]
    ) -> None:
        """Add values read from memory: from their own operands, or from the memory of a store."""
        e, loads = self.emitter, self.structure.loads
        units: list[tuple[int, int, DType]] = []
        mask: Value | None = None
        for number, store in wanted.items():
            if store is not None:
                units.append((number, store, self.structure.dtypes[number]))
                continue
            load = loads[number]
            if strip is None and load.bounds:
                values[number] = self._bounded_scalar(number, place)
            elif strip is None or (load.access == SPLAT and not load.bounds):
                values[number] = self._scalar(number, place.offsets[number], e)
            elif load.is_place:
                values[number] = self._places(number, place, strip)
                if load.bounds:
                    inside = self._bounds_mask(number, place, strip, e.below(strip.left))
                    values[number] = e.select(inside, values[number], e.constant(0, load.dtype))
            elif load.access == UNIT and not load.bounds:
                units.append((number, number, load.dtype))
            elif load.access == UNIT and self.last not in self.operands[number].bounds:
                values[number] = self._load_row(number, place, strip)
            else:
                mask = mask or e.below(strip.left)
                values[number] = self._load_guarded(number, load, place, strip, mask)
        if units:
            assert strip is not None
            found = self._in_strip([(operand, dtype) for _, operand, dtype in units], place, strip)
            values.update(zip([number for number, _, _ in units], found, strict=True))

    def _scalar(self, number: int, offset: Index, e: Emitter) -> Value:
        """Return one element of a load in every lane."""
        operand, load = self.operands[number], self.structure.loads[number]
        if load.is_place:
            return self._as(e.splat(e.plus(operand.start, offset), INT64), load.dtype)
        return e.load_splat(operand.pointer, offset, load.dtype)

    def _bounded_scalar(self, number: int, place: LoopPosition) -> Value:
        """Return one element of a load in every lane, or 0 if it is out of bounds."""
        e, dtype = self.emitter, self.structure.loads[number].dtype
        inside, offset = self._is_inside(number, place), place.offsets[number]
        return e.choose(inside, lambda: [self._scalar(number, offset, e)], lambda: [e.constant(0, dtype)])[0]

    def _load_row(self, number: int, place: LoopPosition, strip: Strip) -> Value:
        """Return consecutive elements of a load, or zeros if the line is out of bounds, without a mask."""
        e, dtype = self.emitter, self.structure.loads[number].dtype
        inside = self._is_inside(number, place)
        zeros = e.constant(0, dtype)
        return e.choose(inside, lambda: self._in_strip([(number, dtype)], place, strip), lambda: [zeros])[0]

    def _is_inside(self, number: int, place: LoopPosition) -> str:
        """Return whether the line of a load is within all bounds."""
        inside = "true"
        for axis, bounds in self.operands[number].bounds.items():
            inside = self.emitter.assign(f"and i1 {inside}, {self._is_between(place.positions[axis], *bounds)}")
        return inside

    def _is_between(self, position: Index, first: Index, end: Index) -> str:
        e = self.emitter
        not_before = e.assign(f"icmp sge i64 {position}, {first}")
        not_after = e.assign(f"icmp slt i64 {position}, {end}")
        return e.assign(f"and i1 {not_before}, {not_after}")

    def _places(self, number: int, place: LoopPosition, strip: Strip) -> Value:
        """Return the offsets of elements from where their memory would begin."""
        e, operand, load = self.emitter, self.operands[number], self.structure.loads[number]
        # 32 bits suffice for the differences between lanes wherever they suffice for the offsets
        first = e.splat(e.plus(operand.start, self._along(number, place, strip)), INT64)
        narrow = self._as(first, load.dtype)
        if load.access == SPLAT:
            return narrow
        steps = e.steps(load.dtype)
        if load.access == STRIDE:
            steps = e.multiply(steps, self._as(e.splat(operand.strides[self.last], INT64), load.dtype))
        return e.add(narrow, steps)

    def _as(self, value: Value, dtype: DType) -> Value:
        return value if value.dtype == dtype else self.emitter.convert(value, dtype)

    def _load_guarded(self, number: int, load: Load, place: LoopPosition, strip: Strip, mask: Value) -> Value:
        """Return the elements of a load whose memory may be read at some positions only."""
        e, operand = self.emitter, self.operands[number]
        mask = self._bounds_mask(number, place, strip, mask)
        offset = self._along(number, place, strip)
        if load.access == UNIT:
            return e.load_where(operand.pointer, offset, load.dtype, mask)
        return e.gather(operand.pointer, offset, operand.strides[self.last], load.dtype, mask)

    def _bounds_mask(self, number: int, place: LoopPosition, strip: Strip, mask: Value) -> Value:
        """Return a mask without the positions at which an operand is out of bounds."""
        e, operand = self.emitter, self.operands[number]
        for axis, (first, end) in operand.bounds.items():
            if axis == self.last:
                inside = e.below(e.minus(end, strip.first))
                before = e.below(e.minus(first, strip.first))
                inside = e.bits("and", inside, e.bits("xor", before, e.constant(1, before.dtype)))
            else:
                inside = e.splat(self._is_between(place.positions[axis], first, end), mask.dtype)
            mask = e.bits("and", mask, inside)
        return mask

    def _in_strip(self, wanted: Sequence[tuple[int, DType]], place: LoopPosition, strip: Strip) -> list[Value]:
        """Return consecutive elements of some operands."""
        e = self.emitter
        places = [(self.operands[n].pointer, self._along(n, place, strip), dtype) for n, dtype in wanted]
        return self._whole_or_part(
            strip,
            lambda: [e.load(*found) for found in places],
            lambda mask: [e.load_where(*found, mask) for found in places],
        )

    def _whole_or_part(
        self, strip: Strip, whole: Callable[[], list[Value]], part: Callable[[Value], list[Value]]
    ) -> list[Value]:
        """Write ``whole()`` for a full vector and ``part(mask)`` for a partial one, and return the values."""
        e = self.emitter
        return e.choose(strip.full, whole, lambda: part(e.below(strip.left)))

    def _take(self, number: int, take: Take, place: LoopPosition, strip: Strip | None, index: Value) -> Value:
        """Return the elements of an array at the positions in an index."""
        e, position = self.emitter, self._take_places[number]
        operand = self.operands[position]
        if take.access != ANY or strip is None:
            first = e.assign(f"extractelement {e.vector_type(index.dtype)} {index.text}, i64 0")
            moved = e.plus(place.offsets[position], e.times(first, operand.index_stride))
            if strip is None or take.access == SPLAT:
                return e.load_splat(operand.pointer, moved, take.dtype)
            stride = operand.strides[self.last]
            offset = e.plus(moved, e.times(strip.first, stride))
            if take.access == STRIDE:
                return e.gather(operand.pointer, offset, stride, take.dtype, e.below(strip.left))
            return self._whole_or_part(
                strip,
                lambda: [e.load(operand.pointer, offset, take.dtype)],
                lambda mask: [e.load_where(operand.pointer, offset, take.dtype, mask)],
            )[0]
        moved = self._along(position, place, strip)
        offsets = index
        if not take.is_plain:
            offsets = e.multiply(index, e.splat(operand.index_stride, INT64))
            offsets = e.add(offsets, e.multiply(e.steps(INT64), e.splat(operand.strides[self.last], INT64)))
        start = e.address(operand.pointer, e.times(moved, str(take.dtype.itemsize)), "i8")

        def whole() -> list[Value]:
            each = self._lane_offsets(take, place, strip, offsets)
            if position in self.next_lines:
                self._prefetch_each(e.address(start, self.next_lines[position], "i8"), each, take.dtype)
            return [e.load_each(start, each, take.dtype)]

        return self._whole_or_part(strip, whole, lambda mask: [e.gather_at(start, offsets, take.dtype, mask)])[0]

    def _prefetch_each(self, start: str, offsets: list[Index], dtype: DType) -> None:
        """Write prefetches of the elements at some offsets.

        ::

            %v1 = getelementptr i8, ptr %start, i64 %offset
            call void @llvm.prefetch.p0(ptr %v1, i32 0, i32 2, i32 1)
        """
        e = self.emitter
        e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for offset in offsets:
            element = e.address(start, e.times(offset, str(dtype.itemsize)), "i8")
            e.line(f"call void @llvm.prefetch.p0(ptr {element}, i32 0, i32 2, i32 1)")

    def _lane_offsets(self, take: Take, place: LoopPosition, strip: Strip, offsets: Value) -> list[Index]:
        """Return the offsets of the elements of a full vector, read one by one from an index in memory."""
        e = self.emitter
        load = self.structure.loads[take.at] if take.at < self.first_draw else None
        if not take.is_plain or load is None or load.access != UNIT or load.bounds or load.is_place:
            kind = e.vector_type(INT64)
            return [e.assign(f"extractelement {kind} {offsets.text}, i64 {lane}") for lane in range(e.lanes)]
        first = self._along(take.at, place, strip)
        return [e.load_word(self.operands[take.at].pointer, e.plus(first, str(lane))) for lane in range(e.lanes)]

    # -- writing

    def store_elements(self, found: Pass, place: LoopPosition, strip: Strip, values: dict[int, Value]) -> None:
        """Write the stores of a pass at a strip."""
        writes = [(values[self.structure.stores[n].source], n) for n in found.stores]
        self._write(writes + [(values[value], n) for value, n in found.parks], place, strip)

    def store_row(self, place: LoopPosition, strip: Strip | None, values: dict[int, Value]) -> None:
        """Write the values of a row."""
        writes = [(values[self.structure.stores[n].source], n) for n in self.schedule.row_stores]
        if strip is not None:
            self._write(writes, place, strip)
            return
        for value, number in writes:
            operand = self.first_store + number
            self.emitter.store_first(self.operands[operand].pointer, place.offsets[operand], value)

    def _write(self, writes: list[tuple[Value, int]], place: LoopPosition, strip: Strip) -> None:
        if not writes:
            return
        e = self.emitter
        places = []
        for value, number in writes:
            operand = self.first_store + number
            found = self.operands[operand]
            spread = self.structure.stores[number].access != UNIT
            places.append((found.pointer, self._along(operand, place, strip), value, found.strides[self.last], spread))

        near = [place[:3] for place in places if not place[4]]
        for pointer, offset, value, stride, spread in places:
            if spread:
                e.store_apart(pointer, offset, stride, value, strip.left)

        def whole() -> list[Value]:
            for pointer, offset, value in near:
                e.store(pointer, offset, value)
            return []

        def part(mask: Value) -> list[Value]:
            for pointer, offset, value in near:
                e.store_where(pointer, offset, value, mask)
            return []

        if near:
            self._whole_or_part(strip, whole, part)
