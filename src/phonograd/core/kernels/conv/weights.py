"""Weight packing: weights in the order in which micro-kernels read them, tile by tile and step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index
from ..launch import Launch, Reference, Words
from ..routine import Routine, module

__all__ = ["PackWeights"]

#: packed elements worth a call
_CHUNK_ELEMENTS = 1 << 14
#: short runs are far apart, and processors do not foresee them
_RUNS_AHEAD = 8

_WORDS = Words(
    *("blocks", "tiles", "block_rows", "all_rows", "depth"),
    *("group_stride", "block_stride", "row_stride", "depth_stride", "run"),
    *("weight*", "packed*"),
)

_WEIGHT = Reference("weight")


@dataclasses.dataclass(frozen=True)
class PackWeights:
    """The kernel that packs weights; an item of its range is a tile.

    Rows are divided into blocks of ``block_rows``, and these into tiles of ``rows``. The result has the shape (groups,
    blocks, tiles, depth, rows); missing rows are zeros. Either rows or steps are adjacent in the weights:
    ``consecutive`` means rows, at a distance of ``depth_stride``. Else there are runs of ``run`` adjacent steps, at
    that distance.
    """

    dtype: DType
    lanes: int
    rows: int
    consecutive: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        number = {word: _WORDS.index(e, word) for word in ("blocks", "tiles", "block_rows", "all_rows", "depth")}
        stride = {word: _WORDS.index(e, f"{word}_stride") for word in ("group", "block", "row", "depth")}
        weight, packed = _WORDS.pointer(e, "weight"), _WORDS.pointer(e, "packed")

        def tile(item: Index) -> None:
            rest, tile = e.split(item, number["tiles"])
            group, block = e.split(rest, number["blocks"])
            done = e.times(block, number["block_rows"])
            row = e.times(tile, str(self.rows))
            existing = e.minus(e.least(e.minus(number["all_rows"], done), number["block_rows"]), row)
            source = e.at(
                weight,
                *(e.times(group, stride["group"]), e.times(block, stride["block"]), e.times(row, stride["row"])),
            )
            target = e.at(packed, e.times(item, e.times(number["depth"], str(self.rows))))
            self._steps(e, target, source, existing, number["depth"], stride)

        e.for_each("%lo", "%hi", tile)
        return module(e)

    def _steps(
        self, e: Routine, target: str, source: str, existing: Index, depth: Index, stride: dict[str, Index]
    ) -> None:
        if self.consecutive:
            self._copy(e, target, source, existing, depth, stride["depth"])
        else:
            self._transpose(e, target, source, existing, depth, stride)

    def _copy(self, e: Routine, target: str, source: str, existing: Index, depth: Index, stride: Index) -> None:
        starts = range(0, self.rows, self.lanes)
        read = [e.below(e.minus(existing, str(start))) for start in starts]
        written = [e.below(str(self.rows - start)) for start in starts]

        def step(index: Index, exactly: bool) -> None:
            place = e.times(index, stride)
            for start, known, wanted in zip(starts, read, written):
                value, into = e.get_where(source, known, e.plus(place, str(start))), e.times(index, str(self.rows))
                if exactly:
                    e.store_where(target, e.plus(into, str(start)), value, wanted)
                else:
                    e.store(target, e.plus(into, str(start)), value)

        # the next steps overwrite the lanes beyond the rows of a tile; masked stores take ten times as long
        beyond = len(starts) * self.lanes - self.rows
        free = e.most(e.minus(depth, str(-(-beyond // self.rows))), "0")
        e.for_each("0", free, lambda index: step(index, exactly=False))
        e.for_each(free, depth, lambda index: step(index, exactly=True))

    def _transpose(
        self, e: Routine, target: str, source: str, existing: Index, depth: Index, stride: dict[str, Index]
    ) -> None:
        """Write the steps of a tile, run after run, a square of vectors and lanes at a time."""
        lanes, starts, length = self.lanes, range(0, self.rows, self.lanes), _WORDS.index(e, "run")

        def square(run: Index, first: Index, index: Index) -> None:
            steps = e.minus(length, index)
            squares = []
            for start in starts:
                rows = []
                for row in range(start, start + lanes):
                    if row >= self.rows:
                        rows.append(e.zeros())
                        continue
                    # rows that do not exist have no lanes
                    known = e.select_index(e.test("slt", str(row), existing), steps, "0")
                    rows.append(e.get_where(run, e.below(known), e.plus(e.times(str(row), stride["row"]), index)))
                squares.append(e.transpose(rows))

            def put(step: int, exactly: bool) -> None:
                into = e.at(target, e.times(e.total(first, index, str(step)), str(self.rows)))
                for start, vectors in zip(starts, squares):
                    if exactly:
                        e.store_where(into, str(start), vectors[step], e.below(str(self.rows - start)))
                    else:
                        e.store(into, str(start), vectors[step])

            def all_steps() -> None:
                for step in range(lanes):
                    put(step, exactly=False)

            def some_steps(exactly: bool) -> None:
                for step in range(lanes):
                    e.when(e.test("slt", str(step), steps), lambda step=step: put(step, exactly))  # type: ignore[misc]

            # the next step overwrites the lanes beyond the rows of a tile, except those of the last step
            last = e.plus(e.plus(first, index), str(lanes))
            e.when(
                e.test("slt", last, depth),
                lambda: e.when(
                    e.test("sge", steps, str(lanes)),
                    all_steps,
                    lambda: some_steps(exactly=False),
                ),
                lambda: some_steps(exactly=True),
            )

        def run(first: Index) -> None:
            place = e.at(source, e.times(e.quotient(first, length), stride["depth"]))
            soon = e.at(place, e.times(str(_RUNS_AHEAD), stride["depth"]))
            for row in range(self.rows):
                e.prefetch(soon, e.times(str(row), stride["row"]))
            e.for_each("0", length, lambda index: square(place, first, index), str(lanes))

        e.for_each("0", depth, run, length)

    def launch(self, groups: int, packed: Reference, sizes: Mapping[str, int], weight: Reference = _WEIGHT) -> Launch:
        """Return the launch for weights of some sizes, packed to an address in scratch memory."""
        words = _WORDS.fill({"run": sizes["depth"], **sizes, "weight": weight, "packed": packed})
        chunk = max(1, _CHUNK_ELEMENTS // (sizes["depth"] * self.rows))
        return Launch(self, words, groups * sizes["blocks"] * sizes["tiles"], chunk)
