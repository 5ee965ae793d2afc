"""Row blocks: jobs of regions, which run several steps on one block of rows after the other.

The scores of one block of rows stay in a cache; all of them together would be larger than everything else. Takes
regions from :mod:`~phonograd.core.plan.regions`, hands jobs to :mod:`~phonograd.core.plan.layout`, and runs them with
:mod:`~phonograd.core.kernels.row_blocks`. See docs/decisions/0029.

The order of every sum stays as it is. Sums along a row see the whole row. A product that sums over the rows adds up
blocks of terms of a fixed length, in order: blocks of rows have this length, and follow each other on one thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..base import settings
from ..graph.node import Node, Shape
from ..kernels.launch import Launch, Plan, Reference, align_up
from ..kernels.matmul.gemm import Gemm, Matrices, block_panels, block_product, gemm_for
from ..kernels.matmul.tasks import terms_of_block
from ..kernels.row_blocks import Call, Moving, Word, launch_blocks, size_of
from ..kernels.scratch import Scratch
from ..lower.pattern import Pattern
from ..run import kernel_cache, memory_pool
from ..run.host import host
from .assembly import Assembler, Operand
from .group import Group, Read, View, squeeze, strides_without
from .grouping import Grouping
from .products import sums_in_order
from .regions import Finder, Region, is_large_product, order_of, written_by
from .steps import LibraryKernel, PlanStep, sources_of

__all__ = ["RegionJob", "in_regions"]

#: bytes of the values of a block of rows, and the least number of rows: products of fewer are slow
BLOCK_BYTES, LEAST_ROWS = 1 << 19, 128
#: blocks have a multiple of this number of rows, those of a tile of a product
TILE_ROWS = 8
#: elements of a cache line, and lines at multiples of which rows must not begin
LINE, ALIAS_LINES = 16, 8
#: multiplications that count as a chunk of work
CHUNK_WORK = 1 << 22


class RegionJob(NamedTuple):
    """The launch of a region: its plan, operands, the nodes it writes, and all that it computes."""

    plan: Plan
    operands: dict[str, Operand]
    written: list[Node]
    nodes: tuple[Node, ...]


def in_regions(grouping: Grouping, assembler: Assembler) -> list[PlanStep | RegionJob]:
    """Return the steps of a plan in order, with each region as one job."""
    steps = grouping.steps()
    if not settings.current().attention_blocks or grouping.assignments.chosen:
        return list(steps)
    jobs: list[RegionJob] = []
    regions: list[Region] = []
    finder = Finder(grouping, steps)
    taken: set[int] = set()
    for seed in [step for step in steps if is_large_product(step)]:
        region = finder.grow(seed) if id(seed) not in taken else None
        if region is None or not taken.isdisjoint(map(id, region.steps)):
            continue
        if order_of(grouping, steps, [*regions, region]) is None:
            continue
        job = _RegionPlanner(grouping, assembler, region).job()
        if job is not None:
            taken.update(map(id, region.steps))
            jobs.append(job)
            regions.append(region)
    ordered = order_of(grouping, steps, regions)
    assert ordered is not None
    return [jobs[step] if isinstance(step, int) else step for step in ordered]


class _Side(NamedTuple):
    """A matrix operand of a product in a region: its 2-d pattern in one matrix of the batch, and the batch strides."""

    name: str
    source: Node
    pattern: Pattern
    batch: Shape
    """Strides along the axes of the batch."""

    @property
    def size(self) -> int:
        return self.source.dtype.itemsize


class _RegionPlanner:
    """Makes the job of a region."""

    def __init__(self, grouping: Grouping, assembler: Assembler, region: Region) -> None:
        self.grouping = grouping
        self.assembler = assembler
        self.region = region
        spaces = [step.space for step in region.steps if isinstance(step, Group)]
        products = [step for step in region.steps if isinstance(step, LibraryKernel)]
        inside = [step.node.shape for step in products if step.node in region.values]
        shapes = [squeeze(shape) for shape in inside] + [space for space in spaces if len(space) >= 2]
        self.rows, self.columns = inside[0][-2:]
        #: the batch, by as many axes as any step has
        self.batch: Shape = max([shape[:-2] for shape in shapes], key=len)
        self.products = products

    def job(self) -> RegionJob | None:
        """Return the job; None if some step cannot run on blocks."""
        groups = [step for step in self.region.steps if isinstance(step, Group)]
        if not all([self._fits(group) for group in groups]):
            return None
        sides = {id(step): self._sides(step) for step in self.products}
        if any([found is None for found in sides.values()]):
            return None
        self.sides = {key: found for key, found in sides.items() if found is not None}
        self.roles = {id(step): self._role(step, *self.sides[id(step)]) or SCORES for step in self.products}
        self.sums = {key for key, role in self.roles.items() if role in (SUM_LEFT, SUM_RIGHT)}
        if not self._are_aligned():
            return None
        machine = host()
        for step in self.products:
            lhs = step.operands["lhs"].pattern
            sizes = (lhs.shape[-2], lhs.shape[-1], step.node.shape[-1])
            if not sums_in_order(sizes, step.operands["lhs"].source.dtype, machine):
                return None
        return self._plan()

    # -- operands

    def _fits(self, group: Group) -> bool:
        """Return whether a kernel reads and writes values of the region in order, row by row."""
        if group.draws or group.reduced not in (None, (len(group.space) - 1,)):
            return False
        *batch, rows, columns = group.space
        if (rows, columns) != (self.rows, self.columns) or math.prod(batch) != math.prod(self.batch):
            return False
        if not self.assembler.has_blocks(group, self.grouping.writes(group)):
            return False
        for read in [read for member in group.members for read in member.operands if isinstance(read, Read)]:
            if read.source in self.region.values and (read.offset or read.strides != group.strides or read.bounds):
                return False
            if any([axis != len(group.space) - 1 for axis, _, _ in read.bounds]):
                return False
        return not any([target.node in self.region.values for target in group.targets])

    def _are_aligned(self) -> bool:
        """Return whether steps read those results of others that are in memory only at the rows of their block."""
        makers = {node: step for step in self.region.steps for node in written_by(self.grouping, step)}
        for step in self.region.steps:
            if isinstance(step, LibraryKernel):
                if any(
                    [side.source in makers and side.source not in self.region.values for side in self.sides[id(step)]]
                ):
                    return False
                continue
            assert isinstance(step, Group)
            by_rows = strides_without(step.space, (len(step.space) - 1,))
            for read in [read for member in step.members for read in member.operands if isinstance(read, Read)]:
                maker = makers.get(read.source)
                if maker is None or read.source in self.region.values:
                    continue
                same = isinstance(maker, Group) and maker.space == step.space and not maker.targets
                if not same or read.offset or read.strides != by_rows:
                    return False
        return True

    def _matrix(self, name: str, view: View) -> _Side | None:
        """Return an operand of a product over the batch of the region."""
        pattern = view.pattern
        if pattern.bounds:
            return None
        found = pattern.reshape((*self.batch, *pattern.shape[-2:]))
        if found is None:
            return None
        count = len(self.batch)
        matrix = Pattern(found.shape[count:], found.strides[count:])
        return _Side(name, view.source, matrix, found.strides[:count])

    def _sides(self, step: LibraryKernel) -> tuple[_Side, _Side] | None:
        """Return the operands of a product if it can run on blocks of rows, else None."""
        if not step.is_product:
            return None
        lhs, rhs = [self._matrix(name, step.operands[name]) for name in ("lhs", "rhs")]
        return None if lhs is None or rhs is None or self._role(step, lhs, rhs) is None else (lhs, rhs)

    def _role(self, step: LibraryKernel, lhs: _Side, rhs: _Side) -> str | None:
        """Return what a product does with the rows of the region, or None if it cannot run on blocks of them."""
        values = self.region.values
        inside = [side for side in (lhs, rhs) if side.source in values]
        if not inside:
            return SCORES if step.node in values else None
        if len(inside) > 1 or step.node in values or step.operands[inside[0].name].pattern.offset:
            return None
        shape, strides = inside[0].pattern.shape, inside[0].pattern.strides
        forms = ((self.rows, self.columns), (self.columns, 1)), ((self.columns, self.rows), (1, self.columns))
        if (shape, strides) not in forms:
            return None
        is_turned = (shape, strides) == forms[1]
        if inside[0] is lhs:
            return SUM_LEFT if is_turned else ROWS
        return COLUMNS if is_turned else SUM_RIGHT

    # -- the plan

    def _plan(self) -> RegionJob | None:
        axes = self._batch_axes()
        if axes is None:
            return None
        self.count, self._factors = axes
        rows = terms_of_block(self.rows) if self.sums else self._block_rows()
        row_blocks = -(-self.rows // rows)
        tail = self.rows - (row_blocks - 1) * rows
        first, middle, last = (rows, 0), (rows, 1), (tail, row_blocks - 1)
        if row_blocks == 1:
            first = last = (tail, 0)
        self.block_rows = rows
        self.operands: dict[str, Operand] = {}
        self.written: list[Node] = []
        self._head_bytes = 0
        self.row_stride = _row_stride(self.columns)
        memory = Scratch(settings.current().num_threads)
        packing = self._pack(memory, row_blocks)
        offsets, slot_bytes = self._slot(rows)
        built: list[list[Call]] = []
        scratch = 0
        for number, place in (first, middle, last):
            calls, needed = self._calls(number, place, offsets, slot_bytes)
            built.append(calls)
            scratch = max(scratch, needed)
        slots = memory.slots(self._head_bytes + slot_bytes + scratch)
        begin = slots["slot_memory"]
        assert isinstance(begin, Reference)
        start = begin.offset + self._head_bytes
        blocks = [[_placed(call, start) for call in found] for found in built]
        kernels = tuple(dict.fromkeys([call.kernel for found in blocks for call in found]))
        launch = launch_blocks(
            kernels,
            (blocks[0], blocks[1], blocks[2]),
            self.count,
            row_blocks,
            bool(self.sums),
            slots,
            self._work(),
        )
        kernel_cache.precompile(launch.structure, launch.work)
        nodes = [node for step in self.region.steps for node in _computed(step)]
        return RegionJob(
            Plan((memory.clear(), *packing, launch), memory.size), self.operands, self.written, tuple(nodes)
        )

    def _work(self) -> int:
        """Return the number of chunks of work."""
        total = sum([step.node.size * step.operands["lhs"].pattern.shape[-1] for step in self.products])
        return total // CHUNK_WORK

    def _block_rows(self) -> int:
        """Return the rows of a block, if any number will do."""
        row_bytes = self.columns * max([node.dtype.itemsize for node in self.region.values])
        most = max(LEAST_ROWS, BLOCK_BYTES // row_bytes // TILE_ROWS * TILE_ROWS)
        blocks = -(-self.rows // most)
        return min(self.rows, -(-self.rows // blocks // TILE_ROWS) * TILE_ROWS)

    def _batch_axes(self) -> tuple[tuple[int, int], dict[Shape, tuple[int, int]]] | None:
        """Return the extents of two axes that walk the batch, and the strides along them by those along the batch."""
        found: set[Shape] = {side.batch for pair in self.sides.values() for side in pair}
        found |= {self._contiguous_batch(step.node) for step in self.products if step.node not in self.region.values}
        for step in self.region.steps:
            if isinstance(step, Group):
                batches = [
                    self._group_batch(step.space, s)
                    for s in self.assembler.strides_of(step, self.grouping.writes(step))
                ]
                if None in batches:
                    return None
                found |= {batch for batch in batches if batch is not None}
        operands = sorted(found)
        axes: list[tuple[int, list[int]]] = []
        for axis, extent in enumerate(self.batch):
            strides = [operand[axis] for operand in operands]
            if axes and all([outer == inner * extent for outer, inner in zip(axes[-1][1], strides, strict=True)]):
                axes[-1] = axes[-1][0] * extent, strides
            else:
                axes.append((extent, strides))
        if len(axes) > 2:
            return None
        axes = [(1, [0] * len(operands))] * (2 - len(axes)) + axes
        outer, inner = axes
        factors = {operand: (outer[1][n], inner[1][n]) for n, operand in enumerate(operands)}
        return (outer[0], inner[0]), factors

    def _group_batch(self, space: Shape, strides: Shape) -> Shape | None:
        """Return the strides along the axes of the batch of an operand of a kernel over a space."""
        if space[:-2] == self.batch:
            return strides[:-2]
        found = Pattern(space[:-2], strides[:-2]).reshape(self.batch)
        return None if found is None else found.strides

    def _contiguous_batch(self, node: Node) -> Shape:
        """Return the strides of a contiguous result along the axes of the batch."""
        size = node.size // math.prod(self.batch)
        return Pattern.contiguous((*self.batch, size)).strides[:-1]

    def _slot(self, rows: int) -> tuple[dict[Node, int], int]:
        """Return where the values of a block are in the memory of a slot, and its size."""
        first: dict[Node, int] = {}
        last: dict[Node, int] = {}
        for place, step in enumerate(self.region.steps):
            for node in written_by(self.grouping, step):
                if node in self.region.values:
                    first.setdefault(node, place)
                    last[node] = place
            for node in sources_of(step):
                if node in self.region.values:
                    last[node] = place
        lifetimes = [
            memory_pool.Lifetime(rows * self.row_stride * node.dtype.itemsize, first[node], last[node])
            for node in first
        ]
        offsets, size = memory_pool.arrange(lifetimes)
        return dict(zip(first, offsets, strict=True)), align_up(size)

    # -- calls

    def _calls(self, rows: int, block: int, offsets: dict[Node, int], slot_bytes: int) -> tuple[list[Call], int]:
        """Return the calls for a block of some rows, and the scratch memory that they need."""
        self._offsets, self._slot_bytes = offsets, slot_bytes
        calls: list[Call] = []
        scratch = 0
        for number, step in enumerate(self.region.steps):
            if isinstance(step, Group):
                found, needed = self._group_calls(number, step, rows)
            else:
                assert isinstance(step, LibraryKernel)
                found, needed = self._product_calls(number, step, rows, block)
            calls += found
            scratch = max(scratch, needed)
        self._head_bytes = max(self._head_bytes, align_up(size_of(calls)))
        return calls, scratch

    def _moved(self, calls: Sequence[Call], places: dict[str, Moving]) -> list[Call]:
        """Return calls whose operands move from block to block."""
        places["scratch"] = Moving(Reference(_SLOT, self._slot_bytes), in_slot=True)
        return [call._replace(words=tuple([_move(word, places) for word in call.words])) for call in calls]

    def _place(self, name: str, source: Node | bytes, start: int, batch: Shape, row: int) -> Moving:
        """Return how an operand moves from block to block; strides count elements."""
        if isinstance(source, Node) and source in self.region.values:
            return Moving(Reference(_SLOT, self._offsets[source]), in_slot=True)
        self.operands[name] = Operand(source, start)
        size = source.dtype.itemsize if isinstance(source, Node) else 0
        outer, inner = self._factors[batch] if isinstance(source, Node) else (0, 0)
        return Moving(Reference(name), outer * size, inner * size, row * self.block_rows * size)

    def _product_calls(self, number: int, step: LibraryKernel, rows: int, block: int) -> tuple[list[Call], int]:
        """Return the calls of a product for some rows, and the scratch memory that they need."""
        lhs, rhs = self.sides[id(step)]
        is_sum = id(step) in self.sums
        role, (m, k), n = self.roles[id(step)], lhs.pattern.shape, rhs.pattern.shape[1]
        # sizes of a block, and strides of each operand along the rows of the region
        sizes, moves = {
            SCORES: ((rows, k, n), (lhs.pattern.strides[0], 0, n)),
            ROWS: ((rows, k, n), (0, 0, n)),
            COLUMNS: ((m, k, rows), (0, 0, 1)),
            SUM_LEFT: ((m, rows, n), (0, rhs.pattern.strides[0], 0)),
            SUM_RIGHT: ((m, rows, n), (lhs.pattern.strides[1], 0, 0)),
        }[role]
        out_row = self.row_stride if role == SCORES else n
        in_panels = id(step) in self.panels
        plan = block_product(
            sizes,
            self._matrices(lhs),
            self._matrices(rhs),
            Matrices(out_row, 1),
            self._gemm(step),
            adds=is_sum and block > 0,
            in_panels=in_panels,
        )
        starts = [step.operands[name].pattern.offset for name in ("lhs", "rhs")]
        places = {
            "lhs": self._place(f"{number}.lhs", lhs.source, starts[0], lhs.batch, moves[0]),
            "rhs": self.panels[id(step)]
            if in_panels
            else self._place(f"{number}.rhs", rhs.source, starts[1], rhs.batch, moves[1]),
        }
        node = step.node
        batch = self._contiguous_batch(node)
        places["out"] = self._place(f"{number}.out", node, 0, batch, moves[2])
        places["old"] = places["out"]
        if node not in self.region.values and node not in self.written:
            self.written.append(node)
        calls = [Call(launch.structure, launch.words, 0, launch.extent) for launch in plan.launches]
        return self._moved(calls, places), plan.scratch_bytes

    def _gemm(self, step: LibraryKernel) -> Gemm:
        """Return the kernel of a product."""
        return gemm_for(self.sides[id(step)][0].source.dtype, host())

    def _matrices(self, side: _Side) -> Matrices:
        """Return the strides of an operand of a product."""
        row, column = side.pattern.strides
        if side.source in self.region.values:
            row, column = (1, self.row_stride) if row == 1 and column != 1 else (self.row_stride, 1)
        return Matrices(row, column)

    def _pack(self, memory: Scratch, row_blocks: int) -> list[Launch]:
        """Return the launches that pack second operands once for all blocks, if their columns are strided."""
        launches: list[Launch] = []
        self.panels = {}
        for number, step in enumerate(self.region.steps):
            if row_blocks == 1 or self.roles.get(id(step)) not in (SCORES, ROWS):
                continue
            assert isinstance(step, LibraryKernel)
            rhs = self.sides[id(step)][1]
            if rhs.pattern.strides[1] == 1:
                continue
            kernel, (outer, inner) = self._gemm(step), self._factors[rhs.batch]
            matrices = Matrices(rhs.pattern.strides[0], rhs.pattern.strides[1], outer, inner)
            # its size is known after the first call
            size = block_panels(rhs.pattern.shape, self.count, matrices, kernel, Reference("scratch")).size
            packed = block_panels(rhs.pattern.shape, self.count, matrices, kernel, memory.reserve(size))
            name = f"{number}.rhs"
            self.operands[name] = Operand(rhs.source, step.operands["rhs"].pattern.offset)
            words = [
                w._replace(operand=name) if isinstance(w, Reference) and w.operand == "rhs" else w
                for w in packed.launch.words
            ]
            launches.append(packed.launch._replace(words=tuple(words)))
            width = kernel.dtype.itemsize
            self.panels[id(step)] = Moving(packed.operand, packed.outer * width, packed.inner * width)
        return launches

    def _group_calls(self, number: int, group: Group, rows: int) -> tuple[list[Call], int]:
        """Return the calls of a fused kernel for some rows, and the scratch memory that they need."""
        own = self.grouping.writes(group)
        assembly = self.assembler.assemble_block(group, own, rows, dict.fromkeys(self.region.values, self.row_stride))
        places: dict[str, Moving] = {}
        for name, (operand, strides) in assembly.operands.items():
            batch = self._group_batch(group.space, strides)
            assert batch is not None
            places[name] = self._place(f"{number}.{name}", operand.source, operand.start, batch, strides[-2])
        for node in assembly.written:
            if node not in self.region.values and node not in self.written:
                self.written.append(node)
        first, *others = assembly.plan.launches
        words: list[Word] = list(first.words)
        for place, strides in assembly.positions.items():
            batch, word = self._group_batch(group.space, strides), words[place]
            assert batch is not None
            assert isinstance(word, int)
            words[place] = Moving(word, *self._factors[batch], strides[-2] * self.block_rows)
        calls = [Call(first.structure, tuple(words), 0, first.extent)]
        calls += [Call(other.structure, other.words, 0, other.extent) for other in others]
        return self._moved(calls, places), assembly.plan.scratch_bytes


#: what a product does with the rows of a region: it computes scores, multiplies rows or columns by other matrices, or
#: sums over the rows, as its first or its second operand
SCORES, ROWS, COLUMNS, SUM_LEFT, SUM_RIGHT = "scores", "rows", "columns", "sum left", "sum right"

#: the name of the memory of a slot, before it is known where it begins
_SLOT = "slot"


def _move(word: Word, places: dict[str, Moving]) -> Word:
    """Return a word of a table for all blocks."""
    if not isinstance(word, Reference):
        return word
    place = places[word.operand]
    assert isinstance(place.word, Reference)
    return place._replace(word=Reference(place.word.operand, place.word.offset + word.offset))


def _placed(call: Call, begin: int) -> Call:
    """Return a call with the beginning of the memory of slots filled in."""

    def place(word: Word) -> Word:
        if isinstance(word, Moving) and isinstance(word.word, Reference) and word.word.operand == _SLOT:
            return word._replace(word=Reference("scratch", begin + word.word.offset))
        return word

    return call._replace(words=tuple(map(place, call.words)))


def _row_stride(columns: int) -> int:
    """Return the distance between rows of a block: lines at multiples of a power of two share a few sets of a cache.

    >>> _row_stride(1000), _row_stride(1024)
    (1008, 1040)
    """
    lines = -(-columns // LINE)
    return LINE * (lines if lines % ALIAS_LINES else lines + 1)


def _computed(step: PlanStep) -> list[Node]:
    """Return the nodes that a step computes."""
    return [member.expression for member in step.members] if isinstance(step, Group) else [step.node]
