"""Products of matrices: one kernel per dtype, for any sizes, strides and number of products.

Tiles of the result stay in registers while they are summed up: with 32 registers 8 rows of 3 vectors are 24 sums, and
there is room for 3 vectors of the second operand and a number of the first in every lane (:mod:`.tiles`). The first
operand is read where it lies, the second by panels, 3 vectors wide, which whoever needs one copies. Large operands are
packed once for all tasks, by launches of their own (:mod:`.packing`): the second one if many rows of the result share
it, the first one if it lies transposed and its terms are pages apart. For a single row of the result a second operand
that lies transposed is turned in registers instead: it is read only once anyway.

**The order of a sum** depends on its length alone: terms are added one after the other, each product rounded together
with its sum, in blocks of equal length of at most 384 terms, and the blocks are added up in sequence. Tiles, panels and
the division among threads are chosen for speed: bits do not depend on them, nor on how the operands lie in memory.

A product of one block may be **added** to another matrix, where the sum would otherwise be a kernel of its own: it is
rounded in the same order.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ..dtypes import DType
from .launch import Launch, Plan, Reference
from .machine import Machine
from .packing import Packed, Packing, packing
from .tiles import DEPTH, WIDTH, WORDS, product_text

__all__ = ["DEPTH", "PACKED_BYTES", "SHARED_ROWS", "Gemm", "Matrices", "product"]

#: rows of the result above which packing operands costs less than reading scattered lines
SHARED_ROWS = 96
#: rows of the result above which panels are copied whose rows read badly where they are
COPIED_ROWS = 24
#: size of a cache line
LINE_BYTES = 64
#: rows of the result that are computed with one panel before the next
BLOCK_ROWS = 192
#: columns of the result that are computed with one block of rows, which then stays in a cache
BLOCK_COLUMNS = 256
#: memory for an operand that is packed; where it would be more, each task copies panels by itself
PACKED_BYTES = 1 << 24
#: terms and columns from which on a first operand that lies transposed is packed, if its terms are far apart
PACKED_TERMS, PACKED_COLUMNS = 192, 192
#: distance from which on lines are far apart; those at multiples of it take each other's place in a cache
FAR_BYTES = 2048
#: multiplications worth handing to another thread: 5 to 10 microseconds of work
TASK_WORK = 1 << 19
#: multiplications that a kernel which was compiled quickly takes as long for as others for a chunk
QUICK_WORK = 20_000
#: size of an operand that fits into the cache of every processor, beside others
SMALL_BYTES = 1 << 19
#: tasks of a large product: enough for many threads, and large enough to use again what is in a cache
TASKS = 16


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
    """
    rows, terms, columns = sizes
    assert old is None or terms <= DEPTH, sizes
    block_terms = max(1, -(-terms // max(1, -(-terms // DEPTH))))
    row_blocks, column_blocks = _tasks(sizes, rhs.column == 1, kernel, uses)
    packed: list[Packed] = []
    lhs_name, lhs_packed, rhs_name, rhs_packed = Reference(names[0]), 0, Reference(names[1]), 0
    if rows // row_blocks >= SHARED_ROWS:
        size = terms * columns * kernel.dtype.itemsize
        if row_blocks > 1 and (size > SMALL_BYTES or (size and rhs.column != 1)):
            to_pack = (names[1], rhs.row, rhs.column, rhs.outer, rhs.inner)
            packing_kernel = Packing(kernel.dtype, kernel.lanes, WIDTH)
            found = packing(packing_kernel, (terms, block_terms, columns), count, column_blocks, to_pack)
            if found.size <= PACKED_BYTES:
                packed.append(found)
                rhs_name, rhs_packed, rhs = found.operand, found.columns, rhs._replace(**found.distances)
        is_far = lhs.row == 1 and lhs.column * kernel.dtype.itemsize >= FAR_BYTES
        if is_far and terms >= PACKED_TERMS and columns >= PACKED_COLUMNS:
            to_pack = (names[0], lhs.column, lhs.row, lhs.outer, lhs.inner)
            packing_kernel = Packing(kernel.dtype, kernel.tile_rows, 1)
            start = sum([before.size for before in packed])
            found = packing(packing_kernel, (terms, block_terms, rows), count, row_blocks, to_pack, start)
            if found.size <= PACKED_BYTES:
                packed.append(found)
                lhs = Matrices(1, kernel.tile_rows, **found.distances)
                lhs_name, lhs_packed = found.operand, found.columns
    values: dict[str, int | Reference] = {
        "rows": rows,
        "columns": columns,
        "terms": terms,
        "block_terms": block_terms,
        "row_blocks": row_blocks,
        "column_blocks": column_blocks,
        "inner": count[1],
        "copied_rows": max(kernel.tile_rows, SHARED_ROWS if _reads_well(rhs, kernel) else COPIED_ROWS),
        "lhs": lhs_name,
        "lhs_row": lhs.row,
        "lhs_term": lhs.column,
        "lhs_outer": lhs.outer,
        "lhs_inner": lhs.inner,
        "lhs_packed": lhs_packed,
        "rhs": rhs_name,
        "rhs_term": rhs.row,
        "rhs_column": rhs.column,
        "rhs_outer": rhs.outer,
        "rhs_inner": rhs.inner,
        "rhs_packed": rhs_packed,
        "out_row": out.row,
        "out_outer": out.outer,
        "out_inner": out.inner,
        "old": Reference("out" if old is None else "old"),
        "old_row": 0 if old is None else old.row,
        "old_outer": 0 if old is None else old.outer,
        "old_inner": 0 if old is None else old.inner,
        "adds": int(old is not None),
    }
    tasks = row_blocks * column_blocks * count[0] * count[1] if rows and columns else 0
    work = max(rows, kernel.tile_rows) * max(1, terms) * columns // (row_blocks * column_blocks)
    total = rows * terms * columns * count[0] * count[1]
    launch = Launch(kernel, WORDS.fill(values), tasks, max(1, TASK_WORK // max(1, work)), total // QUICK_WORK)
    return Plan((*[before.launch for before in packed], launch), sum([before.size for before in packed]))


def _reads_well(rhs: Matrices, kernel: Gemm) -> bool:
    """Return whether panels lie so that their rows are whole cache lines which do not take each other's place."""
    distance = rhs.row * kernel.dtype.itemsize
    return distance % LINE_BYTES == 0 and distance % FAR_BYTES != 0


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
    is_small = terms * columns * kernel.dtype.itemsize <= SMALL_BYTES
    if readable and rows < SHARED_ROWS and is_small and terms * columns <= uses * rows * (terms + columns):
        row_blocks = _evenly(min(wanted, tiles))
        return row_blocks, _evenly(min(panels, max(1, wanted // row_blocks)))
    row_blocks = -(-rows // BLOCK_ROWS)
    column_blocks = max(_evenly(min(panels, max(1, wanted // row_blocks))), -(-columns // BLOCK_COLUMNS))
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
