"""Writer: from the structure of a fused kernel to its LLVM IR.

Kept axes are the outer loops, reduced axes the inner loops, and vectors run along the last axis. For every position
along the kept axes (a whole vector of positions if the last axis is kept), the kernel makes the passes of the
:mod:`~phonograd.core.kernels.fused.schedule` over the row.

**The order of a sum** (of any fold) depends on the shape of the summed array alone. It does not depend on the vector
width, strides, other results of the kernel, or its division among threads. Axes of size one are dropped and adjacent
reduced axes are merged. Then, along the innermost reduced axis:

* if it is the last axis, element *i* belongs to lane *i* mod 16, and the sixteen lanes are summed separately;
  otherwise every element of the last axis has a sum of its own;
* each sum consists of blocks of 64 terms, and of blocks of 64 such blocks, added up in sequence:
  64 terms, 64 blocks, and then all of those. Rounding errors grow with 128 + n / 4096, not with n.

Sums along further reduced axes add the results of the inner one in sequence. A partitioned kernel leaves the outermost
of these sequences to :mod:`~phonograd.core.kernels.fused.join`. At the very end, lanes are added by halves: lane *i*
and *i* + 8, then *i* and *i* + 4, + 2, + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.dtypes import UINT32
from ...lower.ir import philox_ir
from ...lower.ir.emitter import ROW, Emitter, Index, Value
from ...lower.lowering import Random, Reduction, lowering_of_kind
from ..structure import KEPT, REDUCED, Fold, Structure
from .body import Body, LoopPosition, Strip
from .schedule import Pass, Schedule
from .unchanged import find_unchanged

__all__ = ["BLOCKS", "fold_lanes", "write"]

#: terms in the blocks of a sum, outer blocks first
BLOCKS = (4096, 64)
#: number of elements whose random values are drawn together
_DRAWN = 4 * ROW
#: sides of a tile: sixteen elements fill a cache line, and 64 lines are a part of the L1 cache
_TILE, _TILE_LAST = 16, 64


def write(structure: Structure, name: str) -> str:
    """Return the LLVM IR of a kernel as a module of its own."""
    writer = _Writer(structure, name)
    writer.kernel()
    return writer.emitter.text()


class _Writer:
    """Writes one kernel."""

    def __init__(self, structure: Structure, name: str) -> None:
        self.structure = structure
        self.emitter = Emitter(name, structure.lanes)
        self.schedule = Schedule(structure)
        self.body = Body(structure, self.schedule, self.emitter)
        axes = structure.axes
        self.last = len(axes) - 1
        self.kept = [axis for axis, kind in enumerate(axes) if kind == KEPT]
        self.reduced = [axis for axis, kind in enumerate(axes) if kind == REDUCED]
        #: vectors of a partial result: a whole row of lanes if the lanes are summed separately
        self.parts = ROW // structure.lanes if structure.folds_rows else 1
        self.scratch: list[str] = []
        self.counters: list[philox_ir.Counter] = []
        #: index of the current part, if the kernel is partitioned
        self.part: Index | None = None
        #: how rows that do not change are recognized, and whether there can be any
        self.unchanged = find_unchanged(structure, self.schedule)
        self.can_skip = "false"

    # -- loops over kept axes

    def kernel(self) -> None:
        """Write the whole body."""
        place = self.body.origin()
        if self.unchanged is not None:
            self.can_skip = self.unchanged.is_possible(self.body, place)
        if self.structure.draws:
            self._write_draws(place)
        elif self.structure.partitioned:
            self._write_parts(place)
        elif self.structure.tile is not None:
            apart = self.structure.tile, self.last
            self._outer([axis for axis in self.kept if axis not in apart], place, self._tiles)
        else:
            self._write_near_or_far([axis for axis in self.kept if axis != self.last], place)

    def _write_near_or_far(self, axes: list[int], place: LoopPosition) -> None:
        """Write all lines, and a version of them that prefetches the next line if elements are taken in no order."""
        body = self.body
        far, distances = body.far_lines(axes[-1]) if axes else ("false", {})
        if not distances:
            self._outer(axes, place, self._lines)
            return

        def prefetching() -> None:
            body.next_lines = distances
            self._outer(axes, place, self._lines)
            body.next_lines = {}

        self.emitter.when(far, prefetching, lambda: self._outer(axes, place, self._lines))

    def _write_parts(self, place: LoopPosition) -> None:
        """Write the loop over parts of the outermost reduced axis."""
        e, body, axis = self.emitter, self.body, self.reduced[0]

        def part(index: Index, _: list[Value]) -> Sequence[Value]:
            self.part = index
            offsets = list(place.offsets)
            for number in range(body.first_partial, len(offsets)):
                offsets[number] = e.times(index, body.operands[number].strides[axis])
            kept = [axis for axis in self.kept if axis != self.last]
            self._outer(kept, LoopPosition(offsets, place.positions), self._lines)
            return ()

        e.loop("%lo", "%hi", "1", (), part)

    def _range(self, axis: int) -> tuple[Index, Index]:
        """Return the positions on a kept axis that a call covers."""
        divided = axis == self.structure.range_axis and self.part is None
        return ("%lo", "%hi") if divided else ("0", self.body.extents[axis])

    def _outer(self, axes: list[int], place: LoopPosition, inside: Callable[[LoopPosition], None]) -> None:
        if not axes:
            inside(place)
            return

        start, stop = self._range(axes[0])

        def line(index: Index, _: list[Value]) -> Sequence[Value]:
            inner = self.body.advance(place, axes[0], index)
            if len(axes) == 1:
                self.body.prefetch_rows(inner, axes[0], stop)
            self._outer(axes[1:], inner, inside)
            return ()

        self.emitter.loop(start, stop, "1", (), line)

    def _lines(self, place: LoopPosition) -> None:
        """Write the code for all positions of the last axis if it is kept, else for one row."""
        if self.structure.folds_rows:
            self._row(place, [])
            return
        start, stop = self._range(self.last)

        def strips() -> None:
            known = {} if self.reduced else self.body.line_values(self.schedule.passes[0], place)
            self._strips(place, start, stop, known)

        if self.unchanged is None:
            strips()
            return
        e = self.emitter
        e.when(e.logical_and(self.can_skip, self.unchanged.is_here(self.body, place)), lambda: None, strips)

    def _strips(self, place: LoopPosition, start: Index, stop: Index, known: dict[int, Value]) -> None:
        """Write the loop over vectors along the last axis, which is kept."""
        e, body = self.emitter, self.body

        def vector(index: Index, _: list[Value]) -> Sequence[Value]:
            if self.reduced:
                self._row(place, [body.strip(index, stop)])
            else:
                self._round(self.schedule.passes[0], place, body.strip(index, stop), known)
            return ()

        if self.structure.width > 1:
            start = self._wide_strips(place, start, stop, known)
        e.loop(start, stop, str(e.lanes), (), vector)

    def _wide_strips(self, place: LoopPosition, start: Index, stop: Index, known: dict[int, Value]) -> Index:
        """Write the loop over several full vectors at a time; return its end."""
        e, step = self.emitter, self.structure.width * self.emitter.lanes
        bits = step.bit_length() - 1
        rounds = e.shift_down(e.minus(stop, start), bits)
        end = e.plus(start, e.times(rounds, str(step)))

        def vectors(index: Index, _: list[Value]) -> Sequence[Value]:
            starts = [e.plus(index, str(number * e.lanes)) for number in range(self.structure.width)]
            strips = [self.body.whole_strip(first) for first in starts]
            if self.reduced:
                self._row(place, strips)
                return ()
            for strip in strips:
                self._round(self.schedule.passes[0], place, strip, known)
            return ()

        e.loop(start, end, str(step), (), vectors)
        return end

    def _tiles(self, place: LoopPosition) -> None:
        """Write loops over tiles of two axes, so that operands contiguous along either one stay in a cache."""
        e, tile = self.emitter, self.structure.tile
        assert tile is not None
        (start, stop), (first, end) = self._range(tile), self._range(self.last)

        def rows(row: Index, _: list[Value]) -> Sequence[Value]:
            row_stop = e.least(e.plus(row, str(_TILE)), stop)

            def columns(column: Index, _: list[Value]) -> Sequence[Value]:
                column_stop = e.least(e.plus(column, str(_TILE_LAST)), end)

                def line(index: Index, _: list[Value]) -> Sequence[Value]:
                    inner = self.body.advance(place, tile, index)
                    self._strips(inner, column, column_stop, self.body.line_values(self.schedule.passes[0], inner))
                    return ()

                e.loop(row, row_stop, "1", (), line)
                return ()

            e.loop(first, end, str(_TILE_LAST), (), columns)
            return ()

        e.loop(start, stop, str(_TILE), (), rows)

    # -- random numbers

    def _write_draws(self, place: LoopPosition) -> None:
        """Write the loop of a kernel with random values: groups of 64 elements, whose values are drawn first."""
        e, body = self.emitter, self.body
        for number, draw in enumerate(self.structure.draws):
            self.scratch.append(e.scratch(_DRAWN * draw.dtype.itemsize // 8))
            counter = body.operands[body.first_draw + number].pointer
            first, second, third, fourth = [e.load_splat(counter, str(word), UINT32) for word in range(4)]
            self.counters.append((first, second, third, fourth))
        known = body.line_values(self.schedule.passes[0], place)

        def group(start: Index, _: list[Value]) -> Sequence[Value]:
            for number in range(len(self.structure.draws)):
                self._fill(number, start)

            def vector(index: Index, _: list[Value]) -> Sequence[Value]:
                drawn = {
                    body.first_draw + number: e.load(self.scratch[number], e.minus(index, start), draw.dtype)
                    for number, draw in enumerate(self.structure.draws)
                }
                self._round(self.schedule.passes[0], place, body.strip(index, "%hi"), {**known, **drawn})
                return ()

            return e.loop(start, e.least(e.plus(start, str(_DRAWN)), "%hi"), str(e.lanes), (), vector)

        e.loop("%lo", "%hi", str(_DRAWN), (), group)

    def _fill(self, number: int, start: Index) -> None:
        """Draw the random values of 64 elements from ``start`` on into scratch memory."""
        e, draw = self.emitter, self.structure.draws[number]
        convert = lowering_of_kind(draw.operator, Random).convert
        size = philox_ir.elements_per_group(draw.dtype)
        for part in range(_DRAWN // size):
            group = e.plus(e.shift_down(start, size.bit_length() - 1), str(part))
            for lane in range(0, ROW, e.lanes):
                rows = philox_ir.words(e, self.counters[number], group, lane)
                for row, value in enumerate(convert(e, rows, draw.dtype, **dict(draw.parameters))):
                    e.store(self.scratch[number], str(part * size + row * ROW + lane), value)

    # -- one row

    def _row(self, place: LoopPosition, strips: list[Strip]) -> None:
        """Write all passes over a row, or over the rows of some strips together."""
        body = self.body
        each: list[Strip | None] = [*strips] or [None]
        known: list[dict[int, Value]] = [{} for _ in each]
        for strip, values in zip(each, known):
            body.row_values(0, place, strip, values)
        for level, found in enumerate(self.schedule.passes):
            if not found.folds:
                self._walk(self.reduced, found, place, strips, known)
                continue
            partial = self._combine(self.reduced, found, place, strips, known)
            if self.part is not None:
                self._store_partial(found, partial, place, strips)
                return
            for strip, values in zip(each, known):
                for number in found.folds:
                    vectors, partial = partial[: self.parts], partial[self.parts :]
                    values[number] = vectors[0] if strip else self._join_lanes(number, vectors)
                body.row_values(level + 1, place, strip, values)
        for strip, values in zip(each, known):
            body.store_row(place, strip, values)

    def _join_lanes(self, number: int, vectors: list[Value]) -> Value:
        """Return the result of a fold along the last axis in every lane."""
        e = self.emitter
        total = fold_lanes(e, self._reduction(number), vectors)
        first = e.assign(f"extractelement {e.vector_type(total.dtype)} {total.text}, i64 0")
        return e.splat(first, total.dtype)

    def _round(self, found: Pass, place: LoopPosition, strip: Strip, known: dict[int, Value]) -> list[Value]:
        """Write the code for one vector; return the values to fold, with identities in lanes outside."""
        e = self.emitter
        values = self.body.element_values(found, place, strip, known)
        self.body.store_elements(found, place, strip, values)
        folded = [values[self.schedule.sources(number)[0]] for number in found.folds]
        if not self.structure.folds_rows:
            return folded

        def part() -> list[Value]:
            mask = e.below(strip.left)
            identities = [e.like(value, self._identity(n, value)) for value, n in zip(folded, found.folds)]
            return [e.select(mask, value, identity) for value, identity in zip(folded, identities)]

        return e.choose(strip.full, lambda: folded, part) if folded else []

    def _walk(
        self, axes: list[int], found: Pass, place: LoopPosition, strips: list[Strip], known: list[dict[int, Value]]
    ) -> None:
        """Write a pass without folds."""
        e, body = self.emitter, self.body
        if not axes or (not strips and len(axes) == 1):
            line = body.line_values(found, place)
            for strip, values in zip(strips, known):
                self._round(found, place, strip, {**values, **line})
            if not strips:

                def vector(index: Index, _: list[Value]) -> Sequence[Value]:
                    self._round(found, place, body.strip(index, body.extents[self.last]), {**known[0], **line})
                    return ()

                e.loop("0", body.extents[self.last], str(e.lanes), (), vector)
            return

        def inner(index: Index, _: list[Value]) -> Sequence[Value]:
            self._walk(axes[1:], found, body.advance(place, axes[0], index), strips, known)
            return ()

        e.loop("0", body.extents[axes[0]], "1", (), inner)

    # -- folds

    def _reduction(self, number: int) -> Reduction:
        step = self.schedule.value(number)
        assert isinstance(step, Fold), step
        return lowering_of_kind(step.operator, Reduction)

    def _identity(self, number: int, value: Value) -> float:
        return self._reduction(number).start(value.dtype)

    def _identities(self, found: Pass, strips: list[Strip]) -> list[Value]:
        """Return the initial partial results: for each strip, for each fold, for each vector of a row."""
        e, dtypes = self.emitter, self.structure.dtypes
        return [
            e.constant(self._reduction(number).start(dtypes[number]), dtypes[number])
            for _ in range(len(strips) or 1)
            for number in found.folds
            for _ in range(self.parts)
        ]

    def _join(self, found: Pass, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
        """Return the combination of two sets of partial results."""
        combines = [self._reduction(number).combine for number in found.folds for _ in range(self.parts)]
        combines *= len(first) // len(combines)
        return [combine(self.emitter, a, b) for combine, a, b in zip(combines, first, second, strict=True)]

    def _combine(
        self, axes: list[int], found: Pass, place: LoopPosition, strips: list[Strip], known: list[dict[int, Value]]
    ) -> list[Value]:
        """Return the partial results over some reduced axes; without strips, vectors run along the last one."""
        e, body, axis = self.emitter, self.body, axes[0]
        part = self.part if axis == self.reduced[0] else None
        identities = self._identities(found, strips)
        if len(axes) > 1:

            def inner(index: Index) -> list[Value]:
                return self._combine(axes[1:], found, body.advance(place, axis, index), strips, known)

            def turn(index: Index, partial: list[Value]) -> list[Value]:
                return self._join(found, partial, inner(index))

            return inner(part) if part else e.loop("0", body.extents[axis], "1", identities, turn)
        terms = body.extents[axis]
        if not strips:
            terms = e.shift_down(e.plus(terms, str(ROW - 1)), ROW.bit_length() - 1)
            known = [{**known[0], **body.line_values(found, place)}]

        def blocks(start: Index, stop: Index, sizes: tuple[int, ...]) -> list[Value]:
            if not sizes:
                if not strips:
                    return self._row_block(start, stop, found, place, known[0])
                return self._column_block(start, stop, found, place, strips, known)

            def block(first: Index, partial: list[Value]) -> list[Value]:
                end = e.least(e.plus(first, str(sizes[0])), stop)
                return self._join(found, partial, blocks(first, end, sizes[1:]))

            return e.loop(start, stop, str(sizes[0]), identities, block)

        if part:
            start = e.times(part, str(BLOCKS[0]))
            return blocks(start, e.least(e.plus(start, str(BLOCKS[0])), terms), BLOCKS[1:])
        return blocks("0", terms, BLOCKS)

    def _column_block(
        self,
        start: Index,
        stop: Index,
        found: Pass,
        place: LoopPosition,
        strips: list[Strip],
        known: list[dict[int, Value]],
    ) -> list[Value]:
        """Return the partial results of a block of terms, for each element of some vectors along the last axis."""

        def term(index: Index, partial: list[Value]) -> list[Value]:
            moved = self.body.advance(place, self.reduced[-1], index)
            line = self.body.line_values(found, moved)
            folded: list[Value] = []
            for strip, values in zip(strips, known, strict=True):
                folded += self._round(found, moved, strip, {**values, **line})
            return self._join(found, partial, folded)

        return self.emitter.loop(start, stop, "1", self._identities(found, strips), term)

    def _row_block(
        self, start: Index, stop: Index, found: Pass, place: LoopPosition, known: dict[int, Value]
    ) -> list[Value]:
        """Return the partial results of a block of rows along the last axis, with separate lanes.

        A row may take several vectors. Their partial results rotate in a ring, so that each vector meets its own; a
        whole number of rows brings the ring back to its first position.
        """
        e, parts = self.emitter, self.parts

        def vector(index: Index, partial: list[Value]) -> list[Value]:
            strip = self.body.strip(e.times(index, str(e.lanes)), self.body.extents[self.last])
            folded = self._round(found, place, strip, known)
            passed: list[Value] = []
            for position, (number, value) in enumerate(zip(found.folds, folded, strict=True)):
                ring = partial[position * parts : (position + 1) * parts]
                passed += [*ring[1:], self._reduction(number).combine(e, ring[0], value)]
            return passed

        first, end = e.times(start, str(parts)), e.times(stop, str(parts))
        return e.loop(first, end, "1", self._identities(found, []), vector)

    def _store_partial(self, found: Pass, partial: list[Value], place: LoopPosition, strips: list[Strip]) -> None:
        """Store the partial results of a part: all lanes of a row, or those lanes of a strip that are inside."""
        e, body = self.emitter, self.body
        values = iter(partial)
        each: list[Strip | None] = [*strips] or [None]
        for strip in each:
            for number in range(body.first_partial, body.first_partial + len(found.folds)):
                pointer, offset = body.operands[number].pointer, place.offsets[number]
                if strip is not None:
                    e.store_where(pointer, e.plus(offset, strip.first), next(values), e.below(strip.left))
                    continue
                for vector in range(self.parts):
                    e.store(pointer, e.plus(offset, str(vector * e.lanes)), next(values))


def fold_lanes(e: Emitter, fold: Reduction, vectors: Sequence[Value]) -> Value:
    """Return the lanes of a row, combined by halves, in the first lane."""
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
