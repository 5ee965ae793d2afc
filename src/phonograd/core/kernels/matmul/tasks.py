"""Tasks of matrix products: how a product is divided among threads, and into blocks of terms.

Takes the sizes of products from :mod:`.gemm`. The bits depend on :func:`terms_of_block` alone, whose argument is the
number of terms; all else is chosen for speed. The functions are decisions: a plan for any extents calls them again.
"""

from __future__ import annotations

from ...base import processor
from ...graph.decisions import decision
from .tiles import DEPTH, LINE_BYTES, WIDTH

__all__ = [
    "BLOCK_COLUMNS",
    "SHARED_ROWS",
    "TASK_WORK",
    "chunk_of_tasks",
    "copied_rows",
    "divide",
    "divide_rows",
    "packed_operands",
    "terms_of_block",
]

#: pack operands when the result has more rows than this: it costs less than reading scattered lines
SHARED_ROWS = 96
#: columns of the result computed with one block of rows, which then stays in a cache
BLOCK_COLUMNS = 256
#: copy badly aligned panels when the result has more rows than this
COPIED_ROWS = 24
#: rows of the result computed with one panel before the next, and the maximum number of rows that are not divided
BLOCK_ROWS, WHOLE_ROWS = 192, 256
#: lines at multiples of this distance compete for the same cache sets
ALIAS_BYTES = 2048
#: multiplications worth handing to another thread: 5 to 10 microseconds of work
TASK_WORK = 1 << 19
#: least number of rows of a task, if work is divided by rows
TASK_ROWS = 32
#: minimum number of terms and columns for packing a transposed first operand whose terms are far apart
PACKED_TERMS, PACKED_COLUMNS = 192, 192
#: minimum distance at which terms of a transposed operand count as far apart
APART_BYTES = 1024
#: number of column blocks that may be narrow, and vectors per block if there are more: panels are wide then
FEW_BLOCKS, BLOCK_VECTORS = 4, 8


@decision
def divide(
    rows: int, terms: int, columns: int, readable: bool, tile_rows: int, lanes: int, itemsize: int, uses: int
) -> tuple[int, int]:
    """Return the numbers of blocks of rows and of columns of a product.

    Kernels before and after a product often work on whole rows, which are in the cache of one processor. So rows are
    divided if a few of them are multiplied by the same matrix several times: the matrix is soon in every cache. A
    matrix that is used once, and probably changed before its next use, would have to move from one cache to all others.
    Then columns are divided, and each processor reads a part. Columns are also divided if tasks copy panels, because a
    copy should serve as many rows as possible.
    """
    rows, terms, columns = rows or 1, terms or 1, columns or 1
    # with fewer rows than a tile has, reading dominates
    total = max(rows, tile_rows) * terms * columns
    choices = processor.choices()
    wanted = min(choices.tasks, max(1, total // TASK_WORK))
    tiles, panels = -(-rows // tile_rows), -(-columns // (WIDTH * lanes))
    is_small = terms * columns * itemsize <= choices.near_bytes
    if readable and rows < SHARED_ROWS and is_small and terms * columns <= uses * rows * (terms + columns):
        row_blocks = _evenly(min(wanted, tiles))
        return row_blocks, _evenly(min(panels, max(1, wanted // row_blocks)))
    row_blocks = 1 if rows <= WHOLE_ROWS else -(-rows // BLOCK_ROWS)
    most = max(min(panels, FEW_BLOCKS), -(-columns // lanes) // BLOCK_VECTORS)
    column_blocks = max(_evenly(min(most, max(1, wanted // row_blocks))), -(-columns // BLOCK_COLUMNS))
    while readable and not column_blocks % 2 and rows >= 2 * row_blocks * TASK_ROWS:
        vectors = -(-columns // (lanes * column_blocks))
        if vectors > WIDTH + 1 or vectors == WIDTH:
            break
        # panels of two vectors are slower than those of three
        row_blocks, column_blocks = 2 * row_blocks, column_blocks // 2
    if column_blocks >= FEW_BLOCKS:
        return row_blocks, column_blocks
    # with few columns, only rows remain to be divided
    most = max(1, min(rows // SHARED_ROWS, wanted // column_blocks))
    return max(row_blocks, _evenly(most)), column_blocks


@decision
def divide_rows(rows: int, work: int, wanted: int) -> int:
    """Return the number of blocks of rows, about as many as wanted; ``work`` is the multiplications of a row."""
    work = rows * work // TASK_WORK
    fewest, most = -(-rows // BLOCK_ROWS), rows // TASK_ROWS
    # an odd number of large blocks would leave one of two threads idle for the time of a block
    threads = max(1, wanted // 2) if work > 1 else 1
    return max(fewest, min(wanted, work, most), min(-(-fewest // threads) * threads, most))


def _evenly(blocks: int) -> int:
    """Return a number of blocks, or fewer, that two or four threads can share equally.

    >>> [_evenly(blocks) for blocks in range(1, 9)]
    [1, 2, 2, 4, 4, 4, 4, 8]
    """
    return blocks // 4 * 4 if blocks >= 4 else min(blocks, 2)


@decision
def packed_operands(
    rows: int, terms: int, columns: int, row_blocks: int, lhs_row: int, lhs_column: int, rhs_column: int, itemsize: int
) -> int:
    """Return which operands of a product are packed: 1 for none, 1 more for the first one, 2 more for the second one.

    The distances are those of rows and columns, in elements.
    """
    if rows // row_blocks < SHARED_ROWS:
        return 1
    is_far = lhs_row == 1 and lhs_column * itemsize >= APART_BYTES
    by_row = is_far and terms >= PACKED_TERMS and columns >= PACKED_COLUMNS
    by_column = row_blocks > 1
    if by_column and (rhs_column == 1 or terms == 0):
        by_column = terms * columns * itemsize > processor.choices().near_bytes // 2
    return 1 + by_row + 2 * by_column


@decision
def chunk_of_tasks(rows: int, terms: int, columns: int, tile_rows: int, blocks: int) -> int:
    """Return how many tasks of a product are worth handing to another thread."""
    work = (tile_rows if rows < tile_rows else rows) * (terms or 1) * columns // blocks
    return max(1, TASK_WORK // (work or 1))


@decision
def terms_of_block(terms: int) -> int:
    """Return the terms of a block: blocks are equal, and as long as possible."""
    return max(1, -(-terms // max(1, -(-terms // DEPTH))))


@decision
def copied_rows(distance: int, tile_rows: int) -> int:
    """Return from how many rows on a panel is copied whose rows are some bytes apart."""
    # rows of panels are whole cache lines that do not compete for the same cache sets
    reads_well = distance % LINE_BYTES == 0 and distance % ALIAS_BYTES != 0
    return max(tile_rows, SHARED_ROWS if reads_well else COPIED_ROWS)
