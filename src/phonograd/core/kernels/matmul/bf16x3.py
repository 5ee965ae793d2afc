"""Products of float32 and 16-bit matrices on a matrix unit (AMX), which multiplies tiles of bfloat16: the plan.

Operands are split into three parts each (:mod:`.bf16_split`). Of the nine products of parts, the six largest are added
up; the other three are below the last bit of a product rounded to float32. The unit adds 32 products to each other
before it adds them to the sum so far, so sums have fewer roundings than terms. Results are more accurate than those of
sequential multiply-adds, and faster (docs/decisions/0017). Numbers of float16 have two parts, those of bfloat16 have
one: the other products would be zero, so leaving them out changes no bit.

**The order of a sum** depends on its length alone: blocks of 32 terms in order, in passes of equal length of at most
384 terms. The passes are added up in sequence: the first three (or fewer), then the next ones, and so on. The division
of the work and the memory layout of the operands change nothing.

A sum that is not finite is recomputed from the original operands by sequential multiply-adds: infinities have no parts,
large numbers have infinite ones, and sums above 2^80 overflow because both factors are scaled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from ..launch import Launch, Plan, Reference
from .amx import PASS_BLOCKS, SIDE, TASK_ROWS, WORDS, MatrixUnit
from .bf16_split import BLOCK_TERMS, TILE_LINES, Split, splitting, tile_words, tiles_of
from .gemm import Matrices

__all__ = ["PASS_TERMS", "Ready", "is_worth", "product_by_parts", "split_before"]

#: terms summed up by the unit in a pass, and passes before the memory for parts is reused. This defines the result of
#: a product: other numbers give other last bits
PASS_TERMS, PASSES = PASS_BLOCKS * BLOCK_TERMS, 3
#: memory of an operand that is split at once; larger ones are split in pieces of some lines or matrices
MOST_SPLIT_BYTES = 1 << 24
#: rows and columns of a task: its parts of both operands stay in the L2 cache
TASK_LINES = 128
#: maximum number of rows for which tasks split the second operand themselves
ROWS_ALONE = 384
#: maximum number of tiles of rows that a task splits itself
ROW_TILES = 32
#: upper limit of few rows, and memory of a split matrix that stays in the cache of every processor
FEW_ROWS, CACHED_BYTES = 96, 5 << 18
#: maximum number of blocks of columns that may each split the same few rows
COLUMNS_ALONE = 4
#: multiplications worth handing to another thread
TASK_WORK = 1 << 20
#: multiplications and terms of the smallest product that is worth it: for short sums, stores dominate
LEAST_WORK, LEAST_TERMS = 1 << 20, 96
#: enough tasks for a few threads
TASKS = 8
#: multiplications that count as a chunk in the decision whether to optimize fully at the first compilation
QUICK_WORK = 50_000_000


def is_worth(sizes: tuple[int, int, int]) -> bool:
    """Return whether products of some sizes (rows, terms, columns) are computed by parts.

    Only the sizes may decide, because the choice changes bits. Costs are counted in cycles.
    """
    rows, terms, columns = sizes
    padded = [-(-size // side) * side for size, side in zip(sizes, (TILE_LINES, BLOCK_TERMS, SIDE), strict=True)]
    work = rows * terms * columns
    by_parts = padded[0] * padded[1] * padded[2] / 75 + (rows + columns) * terms / 2 + rows * columns / 2
    return rows >= TILE_LINES and terms >= LEAST_TERMS and work >= LEAST_WORK and by_parts < work / 27


class Ready(NamedTuple):
    """Operands that are split before a product, once for all products that need them in this form."""

    left: Split | None = None
    right: Split | None = None


class _Side(NamedTuple):
    """An operand: its name, and the strides of lines and terms."""

    name: str
    line: int
    term: int
    place: Matrices
    by_lines: bool

    def start(self, box: _Box) -> int:
        """Return the first element of the operand's part in a box."""
        first = box.rows[0] if self.by_lines else box.columns[0]
        start = first * self.line + box.terms[0] * self.term
        return start + box.outer[0] * self.place.outer + box.inner[0] * self.place.inner

    def split(self, box: _Box, target: Reference, parts: int, name: str = "") -> Split:
        """Return the splitting of the operand's part in a box."""
        sizes = (box.rows if self.by_lines else box.columns)[1], box.terms[1]
        begin = Reference(name or self.name, 4 * self.start(box))
        source = (begin, self.line, self.term, self.place.outer, self.place.inner)
        return splitting(sizes, (box.outer[1], box.inner[1]), self.by_lines, source, target, parts)


def _sides(lhs: Matrices, rhs: Matrices) -> tuple[_Side, _Side]:
    first = _Side("lhs", lhs.row, lhs.column, lhs, by_lines=True)
    return first, _Side("rhs", rhs.column, rhs.row, rhs, by_lines=False)


class _Box(NamedTuple):
    """A part of a product that is computed at once: the start and the length along each axis."""

    terms: tuple[int, int]
    outer: tuple[int, int]
    inner: tuple[int, int]
    columns: tuple[int, int]
    rows: tuple[int, int]


def split_before(sizes: tuple[int, int, int], count: tuple[int, int], lhs: Matrices, rhs: Matrices, uses: int) -> Ready:
    """Return the operands of a product to split beforehand, from ``rhs`` to ``out``.

    An operand is None if each task splits its own part, or if the matrices are so large that they are split in pieces.
    ``uses`` is the number of products that read ``rhs``.
    """
    alone = _is_alone(sizes, uses)
    boxes = list(_boxes(sizes, count, lhs, None if alone else rhs, 3))
    if len(boxes) > 1:
        return Ready()
    left, right = [side.split(boxes[0], Reference("out"), 3, "rhs") for side in _sides(lhs, rhs)]
    by_task = _splits_rows(boxes[0], _tasks(boxes[0], uses))
    return Ready(None if by_task else left, None if alone else right)


def product_by_parts(
    sizes: tuple[int, int, int],
    count: tuple[int, int],
    lhs: Matrices,
    rhs: Matrices,
    out: Matrices,
    old: Matrices | None = None,
    uses: int = 1,
    ready: Ready | None = None,
    parts: int = 3,
) -> Plan:
    """Return the launches that compute ``out = lhs · rhs``; see :func:`~phonograd.core.kernels.matmul.gemm.product`.

    Operands in ``ready``, as returned by :func:`split_before` for the same arguments, are called ``left`` and
    ``right``. Both operands are float32, and have some ``parts``.
    """
    alone, ready, terms = _is_alone(sizes, uses), ready or Ready(), sizes[1]
    sides = _sides(lhs, rhs)
    launches: list[Launch] = []
    scratch_bytes = 0
    before: tuple[_Box, Split] | None = None
    for box in _boxes(sizes, count, lhs, None if alone or ready.right else rhs, parts):
        blocks = _tasks(box, uses)
        left, right, start = ready.left, ready.right, 0
        if right is not None:
            right = right._replace(operand=Reference("right"))
        elif not alone:
            # columns change less often than rows
            key = box._replace(rows=(0, 0))
            if before is None or before[0] != key:
                before = key, sides[1].split(box, Reference("scratch"), parts)
                launches.append(before[1].launch)
            right, start = before[1], before[1].size
        if left is not None:
            left = left._replace(operand=Reference("left"))
        elif not _splits_rows(box, blocks):
            left = sides[0].split(box, Reference("scratch", start), parts)
            launches.append(left.launch)
            start += left.size
        old_here = old if box.terms[0] == 0 else out
        panel = start, _row_tiles(box, blocks[0]) * tile_words(parts) if left is None else 0
        splits, kernel = (left, right), MatrixUnit(parts)
        launches.append(_multiplication(kernel, box, _pass_terms(terms), blocks, sides, splits, out, old_here, panel))
        scratch_bytes = max(scratch_bytes, start + 4 * launches[-1].extent * panel[1])
    return Plan(tuple(launches), scratch_bytes)


def _is_alone(sizes: tuple[int, int, int], uses: int) -> bool:
    """Return whether tasks split the second operand themselves: it is used once, for few rows."""
    return uses == 1 and sizes[0] <= ROWS_ALONE


def _boxes(
    sizes: tuple[int, int, int], count: tuple[int, int], lhs: Matrices, rhs: Matrices | None, parts: int
) -> Iterator[_Box]:
    """Return the parts of a product whose split operands are not too large; pass None for one that needs no memory."""
    rows, terms, columns = sizes
    box_terms = min(PASSES * _pass_terms(terms), -(-terms // BLOCK_TERMS) * BLOCK_TERMS)
    line_bytes = box_terms // BLOCK_TERMS * tile_words(parts) * 4 // TILE_LINES
    most_lines = max(SIDE, MOST_SPLIT_BYTES // line_bytes // SIDE * SIDE)
    box_rows, box_columns = min(rows, most_lines), columns if rhs is None else min(columns, most_lines)
    box_inner, box_outer = count[1], count[0]
    for place, lines in ((lhs, box_rows), (rhs, box_columns)):
        one = tiles_of(lines, by_lines=False) * TILE_LINES * line_bytes
        if place is not None and place.inner:
            box_inner = min(box_inner, max(1, MOST_SPLIT_BYTES // one))
            one *= box_inner
        if place is not None and place.outer:
            box_outer = min(box_outer, max(1, MOST_SPLIT_BYTES // one))
    axes = ((terms, box_terms), (count[0], box_outer), (count[1], box_inner), (columns, box_columns), (rows, box_rows))
    ranges = [[(first, min(step, size - first)) for first in range(0, size, step)] for size, step in axes]
    return itertools.starmap(_Box, itertools.product(*ranges))


def _pass_terms(terms: int) -> int:
    """Return the terms of a pass: passes are equal, and as long as possible."""
    passes = -(-terms // PASS_TERMS)
    return -(-terms // (passes * BLOCK_TERMS)) * BLOCK_TERMS


def _multiplication(
    kernel: MatrixUnit,
    box: _Box,
    pass_terms: int,
    blocks: tuple[int, int],
    sides: tuple[_Side, _Side],
    splits: tuple[Split | None, Split | None],
    out: Matrices,
    old: Matrices | None,
    panel: tuple[int, int],
) -> Launch:
    """Return the launch that multiplies split matrices and adds the old result.

    ``panel`` is the start of scratch memory for rows that tasks split themselves, and the number of words per task.
    """
    rows, columns, terms = box.rows[1], box.columns[1], box.terms[1]
    matrices = box.outer[1] * box.inner[1]
    row_blocks, column_blocks = blocks

    def result(place: Matrices) -> int:
        return 4 * (box.rows[0] * place.row + box.columns[0] + box.outer[0] * place.outer + box.inner[0] * place.inner)

    values: dict[str, int | Reference] = {
        "rows": rows,
        "columns": columns,
        "terms": terms,
        "blocks": -(-terms // BLOCK_TERMS),
        "pass_blocks": pass_terms // BLOCK_TERMS,
        "row_blocks": row_blocks,
        "column_blocks": column_blocks,
        "inner": box.inner[1],
        "lhs_ready": int(splits[0] is not None),
        "rhs_ready": int(splits[1] is not None),
        "panels": Reference("scratch", panel[0]) if panel[1] else Reference("out"),
        "panel_words": panel[1],
        "out": Reference("out", result(out)),
        "out_row": out.row,
        "out_outer": out.outer,
        "out_inner": out.inner,
        "adds": int(old is not None),
    }
    before = old or out
    is_first = box.terms[0] == 0 and old is not None
    values |= {
        "old": Reference("old" if is_first else "out", result(before)),
        "old_row": before.row,
        "old_outer": before.outer,
        "old_inner": before.inner,
    }
    for name, side, split in zip(("lhs", "rhs"), sides, splits, strict=True):
        whole = Reference(side.name, 4 * side.start(box))
        values |= {
            name: whole if split is None else split.operand,
            f"{name}_outer": 0 if split is None else split.outer,
            f"{name}_inner": 0 if split is None else split.inner,
            f"whole_{name}": whole,
            f"whole_{name}_{'row' if side.by_lines else 'column'}": side.line,
            f"whole_{name}_term": side.term,
            f"whole_{name}_outer": side.place.outer,
            f"whole_{name}_inner": side.place.inner,
        }
    tasks = row_blocks * column_blocks * matrices
    total = rows * terms * columns * matrices
    chunk = max(1, TASK_WORK * tasks // max(1, total))
    return Launch(kernel, WORDS.fill(values), tasks, chunk, total // QUICK_WORK)


def _tasks(box: _Box, uses: int) -> tuple[int, int]:
    """Return the numbers of blocks of rows and of columns of a result; each pair of blocks is a task.

    A few rows that are multiplied by a shared matrix are divided: the matrix is soon in every cache, and the kernels
    before and after use the rows in the cache of the same processor. Tasks that split the second operand themselves
    have as many rows as possible.
    """
    rows, terms, columns, matrices = box.rows[1], box.terms[1], box.columns[1], box.outer[1] * box.inner[1]
    wanted = min(TASKS, rows * terms * columns * matrices // TASK_WORK)
    if uses > 1 and rows < FEW_ROWS and columns * terms * 6 <= CACHED_BYTES:
        return -(-rows // TILE_LINES) if wanted > 1 else 1, 1
    if rows < FEW_ROWS and _row_tiles(box, 1) <= ROW_TILES:
        return 1, min(max(1, wanted), COLUMNS_ALONE, -(-columns // SIDE))
    most_rows = TASK_ROWS if _is_alone((rows, terms, columns), uses) else TASK_LINES
    row_blocks, column_blocks = -(-rows // most_rows), -(-columns // TASK_LINES)
    while row_blocks * column_blocks * matrices < wanted:
        if columns >= 2 * SIDE * column_blocks:
            column_blocks *= 2
        elif rows >= 2 * TILE_LINES * row_blocks:
            row_blocks *= 2
        else:
            break
    return row_blocks, column_blocks


def _row_tiles(box: _Box, row_blocks: int) -> int:
    """Return the number of tiles in a block of rows."""
    return -(-tiles_of(box.rows[1], by_lines=True) // row_blocks) * -(-box.terms[1] // BLOCK_TERMS)


def _splits_rows(box: _Box, blocks: tuple[int, int]) -> bool:
    """Return whether tasks split their rows themselves: the rows are few, and few other tasks need them."""
    return (blocks[1] == 1 or box.rows[1] < FEW_ROWS) and _row_tiles(box, blocks[0]) <= ROW_TILES
