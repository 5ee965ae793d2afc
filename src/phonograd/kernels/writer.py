"""Writer: from the structure of a kernel to its text.

Kept axes are the outer loops, reduced ones the inner loops, and vectors lie along the last axis, whichever it is. The
body stands in the text once: where the last vector of a line is only partly inside, loads and stores go through a mask
on a branch of their own, and everything between is shared.

**The order of a sum** (of any fold) depends on the shape of what is summed alone: not on the vectors of the machine, on
strides, on what else the kernel computes, or on how it is divided. Axes of size one are dropped and neighbouring
reduced axes are taken as one. Then, along the innermost reduced axis:

* if it is the last axis, element *i* belongs to lane *i* mod 16, and the sixteen lanes are summed apart;
  otherwise every element of the last axis has a sum of its own;
* each sum is made of blocks of 64 terms, and of blocks of 64 such blocks, added up in sequence:
  64 terms, 64 blocks, and then as many as there are. Rounding errors grow with 128 + n / 4096, not with n.

Sums along further reduced axes take the results of the inner one in sequence. A kernel that is parted leaves the
outermost of these sequences to :mod:`~phonograd.kernels.join`. At the very end lanes are added by
halves: lane *i* and *i* + 8, then *i* and *i* + 4, + 2, + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..dtypes import UINT32
from . import philox
from .emitter import ROW, Emitter, Index, Value
from .lowering import Elementwise, Random, Reduction, declared
from .structure import KEPT, REDUCED, SPLAT, STRIDE, UNIT, Structure

__all__ = ["BLOCKS", "fold_lanes", "write"]

#: terms of the blocks of a sum, the outer ones first
BLOCKS = (4096, 64)
#: elements for which random numbers are drawn at once
_DRAWN = 4 * ROW


def write(structure: Structure, name: str) -> str:
    """Return the text of a kernel as a module of its own."""
    writer = _Writer(structure, name)
    writer.kernel()
    return writer.emitter.text()


class _Strip(NamedTuple):
    """Where a vector stands on the last axis: its first element, how many are left, and whether they fill it."""

    first: Index
    left: Index
    full: str


class _Operand(NamedTuple):
    pointer: str
    strides: list[Index]


class _Writer:
    """The state of writing one kernel."""

    def __init__(self, structure: Structure, name: str) -> None:
        self.structure = structure
        self.emitter = Emitter(name, structure.lanes)
        axes = structure.axes
        self.last = len(axes) - 1
        self.kept = [axis for axis, kind in enumerate(axes) if kind == KEPT]
        self.reduced = [axis for axis, kind in enumerate(axes) if kind == REDUCED]
        #: partial results of a fold: with the lanes of a row apart, as many vectors as make a row
        self.parts = ROW // structure.lanes if structure.folds_rows else 1
        self._read_table()
        self.folds: list[tuple[Reduction, int]] = [
            (declared(fold.operator, Reduction), fold.source) for fold in structure.folds
        ]
        self.scratch: list[str] = []
        self.counters: list[philox.Counter] = []
        #: the part that is being computed, if the kernel is parted
        self.part: Index | None = None

    def _read_table(self) -> None:
        """Write the loads of extents, addresses and those strides that are not known from the structure."""
        e, structure = self.emitter, self.structure
        count = len(structure.axes)
        self.extents = [e.load_word("%table", str(axis)) for axis in range(count)]
        fixed = {SPLAT: "0", UNIT: "1"}
        accesses = [load.access for load in structure.loads]
        accesses += [UNIT] * (structure.operands - len(accesses))
        first_fold = structure.operands - len(structure.folds)
        self.operands: list[_Operand] = []
        place = count
        for number, access in enumerate(accesses):
            base = e.load_word("%table", str(place))
            start = e.load_word("%table", str(place + 1))
            pointer = e.address(e.load_word("%bases", base, "ptr"), start, "i8")
            strides = []
            for axis in range(count):
                stride = e.load_word("%table", str(place + 2 + axis))
                if number >= first_fold and axis in self.reduced:
                    # partial results lie one after the other, a result has no extent along a reduced axis
                    strides.append(stride if structure.parted and axis == self.reduced[0] else "0")
                elif axis == self.last and access != STRIDE:
                    strides.append(fixed[access])
                else:
                    strides.append(stride)
            self.operands.append(_Operand(pointer, strides))
            place += 2 + count

    # -- operands by role

    def _load(self, number: int) -> _Operand:
        return self.operands[number]

    def _draw(self, number: int) -> _Operand:
        return self.operands[len(self.structure.loads) + number]

    def _store_place(self, number: int) -> int:
        return len(self.structure.loads) + len(self.structure.draws) + number

    def _fold_place(self, number: int) -> int:
        return self._store_place(len(self.structure.stores) + number)

    # -- loops over kept axes

    def kernel(self) -> None:
        """Write the whole body."""
        offsets: list[Index] = ["0"] * len(self.operands)
        if self.structure.draws:
            self._drawn(offsets)
        elif self.structure.parted:
            self._parted(offsets)
        else:
            self._outer(self.kept, offsets)

    def _parted(self, offsets: list[Index]) -> None:
        """Write the loop over parts of the outermost reduced axis."""
        e, axis, first_fold = self.emitter, self.reduced[0], self._fold_place(0)

        def part(index: Index, _: list[Value]) -> Sequence[Value]:
            self.part = index
            places = [e.times(index, operand.strides[axis]) for operand in self.operands[first_fold:]]
            self._outer(self.kept, offsets[:first_fold] + places)
            return ()

        e.loop("%lo", "%hi", "1", (), part)

    def _outer(self, axes: list[int], offsets: list[Index]) -> None:
        e = self.emitter
        if not axes:
            self._finish(self._combined(self.reduced, offsets, None), offsets)
            return
        axis, inner = axes[0], axes[1:]
        divided = axis == self.kept[0] and self.part is None
        start, stop = ("%lo", "%hi") if divided else ("0", self.extents[axis])
        if axis != self.last:

            def line(index: Index, _: list[Value]) -> Sequence[Value]:
                self._outer(inner, self._advance(offsets, axis, index))
                return ()

            e.loop(start, stop, "1", (), line)
            return
        splats = None if self.reduced else self._splats(offsets)

        def vector(index: Index, _: list[Value]) -> Sequence[Value]:
            strip = self._strip(index, stop)
            if splats is not None:
                self._round(offsets, strip, splats)
            else:
                self._store_columns(self._combined(self.reduced, offsets, strip), offsets, strip)
            return ()

        e.loop(start, stop, str(e.lanes), (), vector)

    def _drawn(self, offsets: list[Index]) -> None:
        """Write the loop of a kernel that draws: groups of 64 elements, whose random values are made first."""
        e = self.emitter
        for number, draw in enumerate(self.structure.draws):
            self.scratch.append(e.scratch(_DRAWN * draw.dtype.itemsize // 8))
            counter = self._draw(number).pointer
            first, second, third, fourth = [e.load_splat(counter, str(word), UINT32) for word in range(4)]
            self.counters.append((first, second, third, fourth))
        splats = self._splats(offsets)

        def group(start: Index, _: list[Value]) -> Sequence[Value]:
            for number in range(len(self.structure.draws)):
                self._fill(number, start)

            def vector(index: Index, _: list[Value]) -> Sequence[Value]:
                self._round(offsets, self._strip(index, "%hi"), splats, start)
                return ()

            return e.loop(start, e.least(e.plus(start, str(_DRAWN)), "%hi"), str(e.lanes), (), vector)

        e.loop("%lo", "%hi", str(_DRAWN), (), group)

    def _fill(self, number: int, start: Index) -> None:
        """Write the random values of 64 elements from ``start`` on to memory of the kernel's own."""
        e, draw = self.emitter, self.structure.draws[number]
        convert = declared(draw.operator, Random).convert
        size = philox.elements_per_group(draw.dtype)
        for part in range(_DRAWN // size):
            group = e.plus(e.shift_down(start, size.bit_length() - 1), str(part))
            for lane in range(0, ROW, e.lanes):
                rows = philox.words(e, self.counters[number], group, lane)
                for row, value in enumerate(convert(e, rows, draw.dtype, **dict(draw.parameters))):
                    e.store(self.scratch[number], str(part * size + row * ROW + lane), value)

    def _advance(self, offsets: list[Index], axis: int, index: Index) -> list[Index]:
        """Return the offsets of all operands at a position on an axis."""
        e = self.emitter
        return [
            e.plus(offset, e.times(index, operand.strides[axis]))
            for offset, operand in zip(offsets, self.operands, strict=True)
        ]

    def _strip(self, index: Index, stop: Index) -> _Strip:
        e = self.emitter
        left = e.minus(stop, index)
        return _Strip(index, left, e.assign(f"icmp sge i64 {left}, {e.lanes}"))

    # -- one vector

    def _splats(self, offsets: list[Index]) -> dict[int, Value]:
        """Return the loads that are the same all along the last axis."""
        return {
            number: self.emitter.load_splat(self._load(number).pointer, offsets[number], load.dtype)
            for number, load in enumerate(self.structure.loads)
            if load.access == SPLAT
        }

    def _round(
        self, offsets: list[Index], strip: _Strip, splats: dict[int, Value], start: Index | None = None
    ) -> list[Value]:
        """Write everything that is done for one vector; return the values to fold, with identities outside."""
        e, structure = self.emitter, self.structure
        values = self._loaded(offsets, strip, splats)
        for number, draw in enumerate(structure.draws):
            assert start is not None
            values.append(e.load(self.scratch[number], e.minus(strip.first, start), draw.dtype))
        for step in structure.steps:
            sources = [values[source] for source in step.sources]
            lowering = declared(step.operator, Elementwise)
            values.append(lowering.value(e, sources, dict(step.parameters), step.dtype))
        folded = [values[source] for _, source in self.folds]

        def place(number: int) -> tuple[str, Index]:
            operand = self._store_place(number)
            return self.operands[operand].pointer, e.plus(offsets[operand], strip.first)

        def whole() -> list[Value]:
            for number, source in enumerate(structure.stores):
                e.store(*place(number), values[source])
            return folded

        def part() -> list[Value]:
            mask = e.below(strip.left)
            for number, source in enumerate(structure.stores):
                e.store_where(*place(number), values[source], mask)
            if self.last in self.kept:
                return folded
            identities = [e.like(value, fold.identity) for value, (fold, _) in zip(folded, self.folds)]
            return [e.select(mask, value, identity) for value, identity in zip(folded, identities)]

        if not structure.stores and self.last in self.kept:
            return folded
        return e.choose(strip.full, whole, part)

    def _loaded(self, offsets: list[Index], strip: _Strip, splats: dict[int, Value]) -> list[Value]:
        e, loads = self.emitter, self.structure.loads
        units = [number for number, load in enumerate(loads) if load.access == UNIT]
        places = {number: e.plus(offsets[number], strip.first) for number in units}

        def whole() -> list[Value]:
            return [e.load(self._load(n).pointer, places[n], loads[n].dtype) for n in units]

        def part() -> list[Value]:
            mask = e.below(strip.left)
            return [e.load_where(self._load(n).pointer, places[n], loads[n].dtype, mask) for n in units]

        found = dict(splats)
        if units:
            found.update(zip(units, e.choose(strip.full, whole, part), strict=True))
        mask: Value | None = None
        for number, load in enumerate(loads):
            if load.access == STRIDE:
                mask = mask or e.below(strip.left)
                pointer, strides = self._load(number)
                place = e.plus(offsets[number], e.times(strip.first, strides[self.last]))
                found[number] = e.gather(pointer, place, strides[self.last], load.dtype, mask)
        return [found[number] for number in range(len(loads))]

    # -- folds

    def _identities(self) -> list[Value]:
        e, structure = self.emitter, self.structure
        dtypes = [load.dtype for load in structure.loads]
        dtypes += [draw.dtype for draw in structure.draws] + [step.dtype for step in structure.steps]
        return [e.constant(fold.identity, dtypes[source]) for fold, source in self.folds for _ in range(self.parts)]

    def _join(self, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
        """Return two sets of partial results combined."""
        combines = [fold.combine for fold, _ in self.folds for _ in range(self.parts)]
        return [combine(self.emitter, a, b) for combine, a, b in zip(combines, first, second, strict=True)]

    def _combined(self, axes: list[int], offsets: list[Index], strip: _Strip | None) -> list[Value]:
        """Return the partial results over some reduced axes; ``strip`` is None where vectors lie along the last."""
        e, axis = self.emitter, axes[0]
        part = self.part if axis == self.reduced[0] else None
        if len(axes) > 1:

            def inner(index: Index) -> list[Value]:
                return self._combined(axes[1:], self._advance(offsets, axis, index), strip)

            def turn(index: Index, partial: list[Value]) -> list[Value]:
                return self._join(partial, inner(index))

            return inner(part) if part else e.loop("0", self.extents[axis], "1", self._identities(), turn)
        terms = self.extents[axis]
        if strip is None:
            terms = e.shift_down(e.plus(terms, str(ROW - 1)), ROW.bit_length() - 1)
        splats = {} if strip else self._splats(offsets)

        def blocks(start: Index, stop: Index, sizes: tuple[int, ...]) -> list[Value]:
            if not sizes:
                if strip is None:
                    return self._row_block(start, stop, offsets, splats)
                return self._column_block(start, stop, axis, offsets, strip)

            def block(first: Index, partial: list[Value]) -> list[Value]:
                end = e.least(e.plus(first, str(sizes[0])), stop)
                return self._join(partial, blocks(first, end, sizes[1:]))

            return e.loop(start, stop, str(sizes[0]), self._identities(), block)

        if part:
            start = e.times(part, str(BLOCKS[0]))
            return blocks(start, e.least(e.plus(start, str(BLOCKS[0])), terms), BLOCKS[1:])
        return blocks("0", terms, BLOCKS)

    def _column_block(self, start: Index, stop: Index, axis: int, offsets: list[Index], strip: _Strip) -> list[Value]:
        """Return a block of terms, one after the other, for each element of a vector along the last axis."""

        def term(index: Index, partial: list[Value]) -> list[Value]:
            moved = self._advance(offsets, axis, index)
            return self._join(partial, self._round(moved, strip, self._splats(moved)))

        return self.emitter.loop(start, stop, "1", self._identities(), term)

    def _row_block(self, start: Index, stop: Index, offsets: list[Index], splats: dict[int, Value]) -> list[Value]:
        """Return a block of rows along the last axis, the lanes of a row apart.

        A row may take several vectors. Their partial results are passed on in a ring, so that each vector meets its
        own; a whole number of rows brings the ring back to where it was.
        """
        e, parts = self.emitter, self.parts

        def vector(index: Index, partial: list[Value]) -> list[Value]:
            strip = self._strip(e.times(index, str(e.lanes)), self.extents[self.last])
            found = self._round(offsets, strip, splats)
            passed: list[Value] = []
            for number, ((fold, _), value) in enumerate(zip(self.folds, found, strict=True)):
                ring = partial[number * parts : (number + 1) * parts]
                passed += [*ring[1:], fold.combine(e, ring[0], value)]
            return passed

        return e.loop(e.times(start, str(parts)), e.times(stop, str(parts)), "1", self._identities(), vector)

    def _finish(self, partial: list[Value], offsets: list[Index]) -> None:
        """Write the results of folds along the last axis: the lanes combined, or all of them if they are partial."""
        e = self.emitter
        for number, (fold, _) in enumerate(self.folds):
            vectors = partial[number * self.parts : (number + 1) * self.parts]
            operand = self._fold_place(number)
            pointer = self.operands[operand].pointer
            if self.part is None:
                e.store_first(pointer, offsets[operand], fold_lanes(e, fold, vectors))
                continue
            for vector, value in enumerate(vectors):
                e.store(pointer, e.plus(offsets[operand], str(vector * e.lanes)), value)

    def _store_columns(self, partial: list[Value], offsets: list[Index], strip: _Strip) -> None:
        """Write the results of folds for the elements of a vector along the last axis."""
        e = self.emitter

        def place(number: int) -> tuple[str, Index]:
            operand = self._fold_place(number)
            return self.operands[operand].pointer, e.plus(offsets[operand], strip.first)

        def whole() -> list[Value]:
            for number, value in enumerate(partial):
                e.store(*place(number), value)
            return []

        def part() -> list[Value]:
            mask = e.below(strip.left)
            for number, value in enumerate(partial):
                e.store_where(*place(number), value, mask)
            return []

        e.choose(strip.full, whole, part)


def fold_lanes(e: Emitter, fold: Reduction, vectors: Sequence[Value]) -> Value:
    """Return the lanes of a row combined by halves, in the first lane."""
    vectors = list(vectors)
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [fold.combine(e, a, b) for a, b in zip(vectors[:half], vectors[half:])]
    total = vectors[0]
    distance = e.lanes // 2
    while distance:
        total = fold.combine(e, total, e.fold_lanes(total, distance))
        distance //= 2
    return total
