"""Products of matrices: one kernel per dtype, for any sizes, strides and number of products.

Tiles of the result stay in registers while they are summed up: with 32 registers 8 rows of 3 vectors are 24 sums, and
there is room for 3 vectors of the second operand and a number of the first in every lane (:mod:`.tiles`). The first
operand is read where it lies, the second by panels, 3 vectors wide, which whoever needs one copies. Large operands are
packed once for all tasks, by launches of their own (:mod:`.packing`): the second one if many rows of the result share
it, the first one if it lies transposed and its terms are far apart. A second operand that several products share is
packed for all of them (:func:`panels`). For a single row of the result a second operand
that lies transposed is turned in registers instead: it is read only once anyway.

**The order of a sum** depends on its length alone: terms are added one after the other, each product rounded together
with its sum, in blocks of equal length of at most 384 terms, and the blocks are added up in sequence. Tiles, panels and
the division among threads are chosen for speed: bits do not depend on them, nor on how the operands lie in memory.

A product of one block may be **added** to another matrix, where the sum would otherwise be a kernel of its own: it is
rounded in the same order.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from ...base.dtypes import DType
from ..launch import Launch, Plan, Reference
from ..target import Machine
from .packing import Packed, Packing, packing
from .tiles import DEPTH, WIDTH, WORDS, product_text

__all__ = ["DEPTH", "LEAST_PACKED_BYTES", "MOST_PACKED_BYTES", "SHARED_ROWS", "Gemm", "Matrices", "panels", "product"]

#: rows of the result above which packing operands costs less than reading scattered lines
SHARED_ROWS = 96
#: rows of the result above which panels are copied whose rows read badly where they are
COPIED_ROWS = 24
#: size of a cache line
LINE_BYTES = 64
#: rows of the result that are computed with one panel before the next, and how many are not divided at all
BLOCK_ROWS, WHOLE_ROWS = 192, 256
#: columns of the result that are computed with one block of rows, which then stays in a cache
BLOCK_COLUMNS = 256
#: memory for an operand that is packed: as much as the result takes, but at least and at most so much; if need be some
#: blocks of terms are packed after the others. Where even one would take more, each task copies panels by itself
LEAST_PACKED_BYTES, MOST_PACKED_BYTES = 1 << 22, 1 << 24
#: terms and columns from which on a first operand that lies transposed is packed, if its terms are far apart
PACKED_TERMS, PACKED_COLUMNS = 192, 192
#: distance from which on terms of a transposed operand are far apart
APART_BYTES = 1024
#: lines at multiples of this distance take each other's place in a cache
ALIAS_BYTES = 2048
#: multiplications worth handing to another thread: 5 to 10 microseconds of work
TASK_WORK = 1 << 19
#: multiplications that count as a chunk when it is decided whether to compile in full at once. That takes a tenth of a
#: second for products, whose tiles always are: without it they lose a hundredth
QUICK_WORK = 50_000_000
#: size of an operand that is not worth packing, and of one that fits into the cache of every processor
SMALL_BYTES, CACHED_BYTES = 1 << 19, 1 << 20
#: tasks of a large product: enough for many threads, and large enough to use again what is in a cache
TASKS = 16
#: blocks of columns that may be narrow, and vectors of a block where there are more: panels are wide then
FEW_BLOCKS, BLOCK_VECTORS = 4, 8


class Matrices(NamedTuple):
    """Where some matrices of one shape lie: elements between rows, columns, and along two axes of matrices."""

    row: int
    column: int
    outer: int = 0
    inner: int = 0

    @property
    def transposed(self) -> Matrices:
        """The same matrices with rows as columns."""
        return Matrices(self.column, self.row, self.outer, self.inner)


def product(
    sizes: tuple[int, int, int],
    count: tuple[int, int],
    lhs: Matrices,
    rhs: Matrices,
    out: Matrices,
    kernel: Gemm,
    old: Matrices | None = None,
    names: tuple[str, str] = ("lhs", "rhs"),
    uses: int = 1,
    in_panels: bool = False,
) -> Plan:
    """Return the launches that compute ``out = lhs · rhs`` for ``count[0] * count[1]`` pairs of matrices.

    Parameters
    ----------
    sizes
        Rows of ``lhs``, terms of a sum, columns of ``rhs``.
    count
        Matrices along the outer and the inner axis.
    lhs, rhs, out
        The strides of the operands; columns of ``out`` follow each other.
    old
        If given, the strides of matrices to which the products are added; their columns follow each other, and they
        may lie where ``out`` does. Sums have one block of terms then.
    names
        What the first two operands are called.
    uses
        How many products read ``rhs``.
    in_panels
        Whether ``rhs`` has been packed, as :func:`panels` does it for the same arguments.
    """
    rows, terms, columns = sizes
    assert old is None or terms <= DEPTH, sizes
    block_terms = _block_terms(terms)
    row_blocks, column_blocks = blocks = _tasks(sizes, in_panels or rhs.column == 1, kernel, uses)
    sides = _sides(sizes, lhs, rhs, names, blocks, kernel)
    if in_panels:
        sides = sides[0], sides[1]._replace(packer=None, ready=panels(sizes, count, rhs, kernel, uses))
    most = min(max(LEAST_PACKED_BYTES, math.prod((rows, columns, *count)) * kernel.dtype.itemsize), MOST_PACKED_BYTES)
    needed = [side.block_bytes(block_terms, count) for side in sides]
    sides = tuple([side if n <= most else side._replace(packer=None) for side, n in zip(sides, needed)])
    largest = max([n for n in needed if n <= most], default=0)
    # a pass is over as many blocks of terms as can be packed at once
    pass_terms = block_terms * (most // largest) if largest else max(1, terms)
    launches: list[Launch] = []
    scratch_bytes = 0
    for first in range(0, max(1, terms), pass_terms):
        length, start = min(pass_terms, terms - first), 0
        words: dict[str, int | Reference] = {}
        for side, name in zip(sides, ("lhs", "rhs"), strict=True):
            packed = side.packed(first, (length, block_terms), count, Reference("scratch", start))
            if packed is not None:
                launches.append(packed.launch)
                start += packed.size
            words |= side.words(name, first, packed, kernel)
        scratch_bytes = max(scratch_bytes, start)
        adds, before = (old is not None, old or out) if first == 0 else (True, out)
        words |= {
            "rows": rows,
            "columns": columns,
            "terms": length,
            "block_terms": block_terms,
            "row_blocks": row_blocks,
            "column_blocks": column_blocks,
            "inner": count[1],
            "copied_rows": max(kernel.tile_rows, SHARED_ROWS if _reads_well(rhs, kernel) else COPIED_ROWS),
            "out_row": out.row,
            "out_outer": out.outer,
            "out_inner": out.inner,
            "old": Reference("old" if old is not None and first == 0 else "out"),
            "old_row": before.row,
            "old_outer": before.outer,
            "old_inner": before.inner,
            "adds": int(adds),
        }
        tasks = row_blocks * column_blocks * count[0] * count[1] if rows and columns else 0
        work = max(rows, kernel.tile_rows) * max(1, length) * columns // (row_blocks * column_blocks)
        total = rows * length * columns * count[0] * count[1]
        chunk = max(1, TASK_WORK // max(1, work))
        launches.append(Launch(kernel, WORDS.fill(words), tasks, chunk, total // QUICK_WORK))
    return Plan(tuple(launches), scratch_bytes)


def panels(sizes: tuple[int, int, int], count: tuple[int, int], rhs: Matrices, kernel: Gemm, uses: int) -> Packed:
    """Return how the second operand of several products, which is called ``rhs``, is packed for all to ``out``."""
    blocks = _tasks(sizes, True, kernel, uses)
    side = _Side("rhs", rhs, sizes[2], blocks[1], rhs.row, rhs.column, _panel_packing(kernel))
    packed = side.packed(0, (sizes[1], _block_terms(sizes[1])), count, Reference("out"))
    assert packed is not None
    return packed


def _panel_packing(kernel: Gemm) -> Packing:
    return Packing(kernel.dtype, kernel.lanes, WIDTH)


def _block_terms(terms: int) -> int:
    """Return the terms of a block: blocks are equal, and as long as they may be."""
    return max(1, -(-terms // max(1, -(-terms // DEPTH))))


class _Side(NamedTuple):
    """An operand as packing sees it: terms, and rows or columns of the result, which are ``lines`` here."""

    name: str
    place: Matrices
    lines: int
    blocks: int
    term: int
    """The distance between terms."""
    line: int
    packer: Packing | None
    ready: Packed | None = None
    """Where it lies packed, if it does."""

    def block_bytes(self, block_terms: int, count: tuple[int, int]) -> int:
        """Return how much memory a block of terms takes, if it is packed."""
        packed = self.packed(0, (block_terms, block_terms), count, Reference("scratch"))
        return 0 if packed is None else packed.size

    def packed(self, first: int, terms: tuple[int, int], count: tuple[int, int], target: Reference) -> Packed | None:
        """Return how some terms are packed, of which each block has ``terms[1]``."""
        if self.packer is None:
            return None
        begin = Reference(self.name, first * self.term * self.packer.dtype.itemsize)
        source = (begin, self.term, self.line, self.place.outer, self.place.inner)
        return packing(self.packer, (*terms, self.lines), count, self.blocks, source, target)

    def words(self, name: str, first: int, packed: Packed | None, kernel: Gemm) -> dict[str, int | Reference]:
        """Return the words of a table that say where the operand lies."""
        row, column, outer, inner = self.place
        if self.ready is not None:
            begin = first * self.ready.columns * kernel.dtype.itemsize
            packed = self.ready._replace(operand=Reference(self.name, begin))
        if packed is not None:
            outer, inner = packed.outer, packed.inner
            row, column = (1, kernel.tile_rows) if name == "lhs" else (0, 1)
        second = {"lhs": ("row", "term"), "rhs": ("term", "column")}[name]
        return {
            name: Reference(self.name, first * self.term * kernel.dtype.itemsize) if packed is None else packed.operand,
            f"{name}_{second[0]}": row,
            f"{name}_{second[1]}": column,
            f"{name}_outer": outer,
            f"{name}_inner": inner,
            f"{name}_packed": 0 if packed is None else packed.columns,
        }


def _sides(
    sizes: tuple[int, int, int],
    lhs: Matrices,
    rhs: Matrices,
    names: tuple[str, str],
    blocks: tuple[int, int],
    kernel: Gemm,
) -> tuple[_Side, ...]:
    """Return the operands, and which of them are packed."""
    rows, terms, columns = sizes
    size, many = kernel.dtype.itemsize, rows // blocks[0] >= SHARED_ROWS
    is_far = lhs.row == 1 and lhs.column * size >= APART_BYTES
    by_row = many and is_far and terms >= PACKED_TERMS and columns >= PACKED_COLUMNS
    is_large = terms * columns * size > SMALL_BYTES or (rhs.column != 1 and terms > 0)
    by_column = many and blocks[0] > 1 and is_large
    return (
        _Side(
            names[0],
            lhs,
            rows,
            blocks[0],
            lhs.column,
            lhs.row,
            Packing(kernel.dtype, kernel.tile_rows, 1) if by_row else None,
        ),
        _Side(
            names[1],
            rhs,
            columns,
            blocks[1],
            rhs.row,
            rhs.column,
            _panel_packing(kernel) if by_column else None,
        ),
    )


def _reads_well(rhs: Matrices, kernel: Gemm) -> bool:
    """Return whether panels lie so that their rows are whole cache lines which do not take each other's place."""
    distance = rhs.row * kernel.dtype.itemsize
    return distance % LINE_BYTES == 0 and distance % ALIAS_BYTES != 0


def _tasks(sizes: tuple[int, int, int], readable: bool, kernel: Gemm, uses: int) -> tuple[int, int]:
    """Return into how many blocks the rows and the columns of a result are divided; each pair of blocks is a task.

    What is read or written by whole rows elsewhere lies in the cache of the processor that has those rows, so rows are
    divided where few of them are multiplied by the same matrix several times: it soon is in every cache. A matrix that
    is used once, and probably changed before it is used again, would have to go from one cache to all others: columns
    are divided, and each processor reads a part. So they are where panels are copied: whoever copies one should use it
    for as many rows as possible.
    """
    rows, terms, columns = [max(1, size) for size in sizes]
    # with fewer rows than a tile has, time is spent on reading
    total = max(rows, kernel.tile_rows) * terms * columns
    wanted = min(TASKS, max(1, total // TASK_WORK))
    tiles, panels = -(-rows // kernel.tile_rows), -(-columns // kernel.panel)
    is_small = terms * columns * kernel.dtype.itemsize <= CACHED_BYTES
    if readable and rows < SHARED_ROWS and is_small and terms * columns <= uses * rows * (terms + columns):
        row_blocks = _evenly(min(wanted, tiles))
        return row_blocks, _evenly(min(panels, max(1, wanted // row_blocks)))
    row_blocks = 1 if rows <= WHOLE_ROWS else -(-rows // BLOCK_ROWS)
    most = max(min(panels, FEW_BLOCKS), -(-columns // kernel.lanes) // BLOCK_VECTORS)
    column_blocks = max(_evenly(min(most, max(1, wanted // row_blocks))), -(-columns // BLOCK_COLUMNS))
    if column_blocks >= FEW_BLOCKS:
        return row_blocks, column_blocks
    # with few columns only rows are left to be divided
    most = max(1, min(rows // SHARED_ROWS, wanted // column_blocks))
    return max(row_blocks, _evenly(most)), column_blocks


def _evenly(blocks: int) -> int:
    """Return a number of blocks, or fewer, that are as many for each of two or four threads.

    >>> [_evenly(blocks) for blocks in range(1, 9)]
    [1, 2, 2, 4, 4, 4, 4, 8]
    """
    return blocks // 4 * 4 if blocks >= 4 else min(blocks, 2)


@dataclasses.dataclass(frozen=True)
class Gemm:
    """The kernel of products in one dtype."""

    dtype: DType
    machine: Machine

    @property
    def lanes(self) -> int:
        """How many elements a vector holds."""
        return self.machine.lanes(self.dtype)

    @property
    def panel(self) -> int:
        """How many columns of the second operand are taken at once."""
        return WIDTH * self.lanes

    @property
    def tile_rows(self) -> int:
        """How many rows of a tile fit into registers, besides a vector of each operand."""
        return 8 if self.machine.registers >= 32 else 4

    def write(self, name: str) -> str:
        """Return the text of the module."""
        return product_text(self, name)
