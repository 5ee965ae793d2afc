"""Matrix products: the plan of a blocked GEMM, one kernel per dtype for any sizes, strides and batches.

Tiles of the result stay in registers while they are summed up. With 32 registers, 8 rows of 3 vectors are 24 sums, with
room for 3 vectors of the second operand and a broadcast scalar of the first (:mod:`.tiles`). The kernel reads the first
operand in place, and the second in panels of 3 vectors; a task copies the panels that it needs. Launches of their own
pack large operands once for all tasks (:mod:`.packing`): the second operand if many rows of the result share it, the
first if it is transposed and its terms are far apart. A second operand that several products share is packed for all of
them (:func:`panels`). Matrices of 16 bits are converted to float32 as they are read: panels are float32. If the result
has a single row, the kernel transposes a transposed second operand in registers instead, because it reads it only once
anyway.

**The order of a sum** depends on its length alone. Terms are added in order with fused multiply-adds, in blocks of
equal length of at most 384 terms, and the blocks are added up in sequence. Tiles, panels and the division among threads
are chosen for speed: the bits do not depend on them, nor on the memory layout of the operands.

A product of one block may be **added** to another matrix, which saves a kernel for the sum. It is rounded in the same
order.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...base.dtypes import HALVES, DType, compute_dtype
from ...lower.ir.function_builder import Value
from ..epilogue import Epilogue
from ..launch import Launch, Plan, Reference
from ..routine import Routine, module
from ..target import Machine
from .packing import Packed, Packing, packing
from .tasks import (
    BLOCK_COLUMNS,
    SHARED_ROWS,
    chunk_of_tasks,
    copied_rows,
    divide,
    divide_rows,
    packed_operands,
    terms_of_block,
)
from .tiles import DEPTH, WIDTH, WORDS, product_routines

__all__ = [
    "LEAST_PACKED_BYTES",
    "MOST_PACKED_BYTES",
    "Gemm",
    "Matrices",
    "block_panels",
    "block_product",
    "gemm_for",
    "panels",
    "product",
    "product_in_place",
]

#: memory of a packed operand: the size of the result, within these limits. If that is too little for all blocks of
#: terms, they are packed in several passes. If even one block exceeds it, each task copies its panels
LEAST_PACKED_BYTES, MOST_PACKED_BYTES = 1 << 22, 1 << 24
#: the same limit for a first operand of 16 bits, which is read at half the speed if it is not packed
MOST_PACKED_HALVES_BYTES = 1 << 26
#: multiplications that count as a chunk in the decision whether to optimize fully at the first compilation. That
#: takes a tenth of a second. The tiles are always optimized, so products lose only a hundredth without it
QUICK_WORK = 50_000_000


class Matrices(NamedTuple):
    """Strides of matrices of one shape, in elements: between rows, columns, and along two batch axes."""

    row: int
    column: int
    outer: int = 0
    inner: int = 0

    @property
    def transposed(self) -> Matrices:
        """The same matrices, transposed."""
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
    row_tasks: int = 0,
    block_terms: int = 0,
    packed_first: bool = False,
    summed: bool = False,
) -> Plan:
    """Return the launches that compute ``out = lhs · rhs`` for ``count[0] * count[1]`` pairs of matrices.

    Parameters
    ----------
    sizes
        Rows of ``lhs``, terms of a sum, columns of ``rhs``.
    count
        Matrices along the outer and the inner batch axis.
    lhs, rhs, out
        The strides of the operands; columns of ``out`` are contiguous.
    old
        If given, the strides of matrices to which the products are added. Their columns are contiguous, and they may
        share the memory of ``out``. Sums must have a single block of terms.
    names
        The names of the first two operands.
    uses
        Number of products that read ``rhs``; 0 if it is so large that tasks should read parts of it alone.
    in_panels
        Whether ``rhs`` is packed already, by :func:`panels` with the same arguments.
    row_tasks
        If not 0, work is divided by rows, into about so many tasks if that is worth it: ``lhs`` is the large operand,
        and ``rhs`` stays in every cache.
    block_terms
        If not 0, the terms of a block. This changes the order of sums.
    packed_first
        Whether ``lhs`` is packed in any case: it is the same in many products, and larger than a cache.
    summed
        Whether the products of all ``count[0]`` pairs are added up, in order, each as a block of terms; ``count[1]`` is
        1. All of ``lhs`` is contiguous, and all of ``rhs`` has at most :data:`MOST_PACKED_BYTES` if it is packed.
    """
    terms = sizes[1]
    block_terms = block_terms or terms_of_block(terms)
    assert old is None or terms <= DEPTH, sizes
    if row_tasks:
        blocks = divide_rows(sizes[0], terms * sizes[2] * count[0] * count[1], row_tasks), 1
    else:
        known = in_panels or summed or rhs.column == 1
        blocks = _tasks((sizes[0], terms * count[0], sizes[2]) if summed else sizes, known, kernel, uses)
    # an empty batch has nothing to pack, and no memory to pack it into
    packs = any(_packed_sides(sizes, lhs, rhs, blocks, kernel)) and not (kernel.reads_halves and 0 in count)
    if not (in_panels or packed_first or summed or packs):
        operands = (Reference(names[0]),), (Reference(names[1]),), (_OUT,), (_OUT if old is None else _OLD,)
        places = [None if each is None else (each.row, each.outer, each.inner) for each in (out, old)]
        return Plan(
            (Launch(kernel, *_in_place(sizes, count, lhs, rhs, places, kernel, operands, blocks, block_terms)),)
        )
    sides = _sides(sizes, lhs, rhs, names, blocks, kernel)
    if packed_first:
        sides = sides[0]._replace(packer=Packing(kernel.dtype, kernel.tile_rows, 1, kernel.lhs)), sides[1]
    if in_panels:
        sides = sides[0], sides[1]._replace(packer=None, ready=panels(sizes, count, rhs, kernel, uses, block_terms))
    if summed:
        sides = sides[0]._replace(packer=None), sides[1]._replace(packer=kernel.panel_packing)
    return _in_passes(sizes, count, sides, out, kernel, old, blocks, block_terms, summed)


def _in_passes(
    sizes: tuple[int, int, int],
    count: tuple[int, int],
    sides: tuple[_Side, ...],
    out: Matrices,
    kernel: Gemm,
    old: Matrices | None,
    blocks: tuple[int, int],
    block_terms: int,
    summed: bool = False,
) -> Plan:
    """Return the launches of a product, or of a sum of products, in as many passes as packed operands need."""
    rows, terms, columns = sizes
    row_blocks, column_blocks = blocks
    rhs = sides[1].place
    needed = [side.block_bytes(block_terms, count) for side in sides]
    most = min(max(LEAST_PACKED_BYTES, math.prod((rows, columns, *count)) * kernel.dtype.itemsize), MOST_PACKED_BYTES)
    if summed:
        most = MOST_PACKED_BYTES
    elif kernel.lhs in HALVES:
        # a block at a time: both operands are packed, and memory is what 16 bits save
        most = min(max(LEAST_PACKED_BYTES, needed[0]), MOST_PACKED_HALVES_BYTES)
    sides = tuple([side if n <= most else side._replace(packer=None) for side, n in zip(sides, needed)])
    largest = max([n for n in needed if n <= most], default=0)
    # a pass covers as many blocks of terms as can be packed at once
    pass_terms = block_terms * (most // largest) if largest else max(1, terms)
    launches: list[Launch] = []
    scratch_bytes, copies = 0, 1 if summed else count[0] * count[1]
    for number in range(-(-max(1, terms) // pass_terms)):
        first, start = number * pass_terms, 0
        length = min(pass_terms, terms - first)
        words: dict[str, int | Reference] = {}
        for side, name in zip(sides, ("lhs", "rhs"), strict=True):
            packed = side.pack(first, (length, block_terms), count, Reference("scratch", start))
            if packed is not None:
                launches.append(packed.launch)
                start += packed.size
            words |= side.words(name, first, packed, kernel)
        if summed:
            # tiles of rows are as far apart as packed ones, and so are blocks of terms
            words["lhs_packed"] = rows
        # it reads packed operands as they are packed
        reading = _gemm_reading(kernel, *[kernel.dtype if side.is_packed else side.dtype for side in sides])
        scratch_bytes = max(scratch_bytes, start)
        adds, before = (old is not None, old or out) if number == 0 else (True, out)
        words |= {
            "rows": rows,
            "columns": columns,
            # packed terms of a pair follow those of the pair before it
            "terms": length * count[0] if summed else length,
            "block_terms": block_terms,
            "row_blocks": row_blocks,
            "column_blocks": column_blocks,
            "inner": count[1],
            "copied_rows": _copied_rows(rhs, kernel),
            "out_row": out.row,
            "out_outer": out.outer,
            "out_inner": out.inner,
            "old": Reference("old" if old is not None and number == 0 else "out"),
            "old_row": before.row,
            "old_outer": before.outer,
            "old_inner": before.inner,
            "adds": int(adds),
        }
        tasks = row_blocks * column_blocks * copies if rows and columns else 0
        total = rows * length * columns * count[0] * count[1]
        chunk = chunk_of_tasks(rows, length, columns, kernel.tile_rows, row_blocks * column_blocks)
        launches.append(Launch(reading, WORDS.fill(words), tasks, chunk, total // QUICK_WORK))
    return Plan(tuple(launches), scratch_bytes)


def _in_place(
    sizes: tuple[int, int, int],
    count: tuple[int, int],
    lhs: Matrices,
    rhs: Matrices,
    places: Sequence[Any],
    kernel: Gemm,
    operands: tuple[tuple[int | Reference, ...], ...],
    blocks: tuple[int, int],
    block_terms: int,
) -> tuple[tuple[Any, ...], int, int, int]:
    """Return words, extent, chunk and work of the launch of a product that packs no operand.

    ``operands`` are the words of both operands, the result and ``old``; ``places`` the strides of rows and batch axes
    of the result and of ``old``, or None. It is what :func:`_in_passes` returns, in a tenth of the time: small products
    of new sizes wait for it.
    """
    (rows, terms, columns), (row_blocks, column_blocks), (out, old) = sizes, blocks, places
    pairs = count[0] * count[1]
    # in the order of WORDS
    words = (
        *(rows, columns, terms, block_terms, row_blocks, column_blocks, count[1], _copied_rows(rhs, kernel)),
        *(*operands[0], *lhs, 0, *operands[1], *rhs, 0),
        *(*operands[2], *out, *operands[3], *(old or out), int(old is not None)),
    )
    tasks = row_blocks * column_blocks * pairs if rows and columns else 0
    chunk = chunk_of_tasks(rows, terms, columns, kernel.tile_rows, row_blocks * column_blocks)
    return words, tasks, chunk, rows * terms * columns * pairs // QUICK_WORK


def product_in_place(
    sizes: tuple[int, int, int], lhs: Matrices, rhs: Matrices, kernel: Gemm, operands: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, ...], int, int, int] | None:
    """Return words, extent, chunk and work of the launch of one product; None if :func:`product` packs an operand.

    The result is contiguous. ``operands`` are the array and the offset of ``lhs``, ``rhs``, the result and the result.
    """
    blocks = _tasks(sizes, rhs.column == 1, kernel, 1)
    may_pack = kernel.reads_halves or sizes[0] // blocks[0] >= SHARED_ROWS
    if may_pack and any(_packed_sides(sizes, lhs, rhs, blocks, kernel)):
        return None
    places, block_terms = ((sizes[2], 0, 0), None), terms_of_block(sizes[1])
    return _in_place(sizes, (1, 1), lhs, rhs, places, kernel, operands, blocks, block_terms)


_OUT, _OLD = Reference("out"), Reference("old")


def panels(
    sizes: tuple[int, int, int], count: tuple[int, int], rhs: Matrices, kernel: Gemm, uses: int, block_terms: int = 0
) -> Packed:
    """Return the packing of a second operand that several products share, from ``rhs`` to ``out``."""
    blocks = _tasks(sizes, True, kernel, uses)
    side = _Side("rhs", rhs, sizes[2], blocks[1], rhs.row, rhs.column, kernel.rhs, kernel.panel_packing)
    packed = side.pack(0, (sizes[1], block_terms or terms_of_block(sizes[1])), count, Reference("out"))
    assert packed is not None
    return packed


def block_product(
    sizes: tuple[int, int, int],
    lhs: Matrices,
    rhs: Matrices,
    out: Matrices,
    kernel: Gemm,
    adds: bool = False,
    in_panels: bool = False,
) -> Plan:
    """Return the launches of a product that one thread computes as a part of a larger one.

    Parameters
    ----------
    adds
        Whether the product is added to ``old``, which has the layout of ``out``.
    in_panels
        Whether ``rhs`` is packed already, by :func:`block_panels`.
    """
    blocks = 1, _block_columns(sizes[2])
    sides = _sides(sizes, lhs, rhs, ("lhs", "rhs"), blocks, kernel)
    if in_panels:
        packed = block_panels(sizes[1:], (1, 1), rhs, kernel, Reference("rhs"))
        sides = sides[0], sides[1]._replace(packer=None, ready=packed)
    return _in_passes(sizes, (1, 1), sides, out, kernel, out if adds else None, blocks, terms_of_block(sizes[1]))


def block_panels(
    sizes: tuple[int, ...], count: tuple[int, int], rhs: Matrices, kernel: Gemm, target: Reference
) -> Packed:
    """Return the packing of second operands of :func:`block_product`, with some terms and columns."""
    terms, columns = sizes
    source = Reference("rhs"), rhs.row, rhs.column, rhs.outer, rhs.inner
    layout = terms, terms_of_block(terms), columns
    return packing(kernel.panel_packing, layout, count, _block_columns(columns), source, target)


def _block_columns(columns: int) -> int:
    return -(-columns // BLOCK_COLUMNS)


class _Side(NamedTuple):
    """An operand from the view of packing: terms, and ``lines`` (rows or columns of the result)."""

    name: str
    place: Matrices
    lines: int
    blocks: int
    term: int
    """Distance between terms."""
    line: int
    dtype: DType
    packer: Packing | None
    ready: Packed | None = None
    """Its packed form, if it is packed already."""

    @property
    def is_packed(self) -> bool:
        """Return whether the kernel reads its packed form."""
        return self.packer is not None or self.ready is not None

    def block_bytes(self, block_terms: int, count: tuple[int, int]) -> int:
        """Return the bytes that a block of terms takes if it is packed, else 0."""
        packed = self.pack(0, (block_terms, block_terms), count, Reference("scratch"))
        return 0 if packed is None else packed.size

    def pack(self, first: int, terms: tuple[int, int], count: tuple[int, int], target: Reference) -> Packed | None:
        """Return the packing of ``terms[0]`` terms from ``first`` on, in blocks of ``terms[1]``, or None."""
        if self.packer is None:
            return None
        begin = Reference(self.name, first * self.term * self.dtype.itemsize)
        source = (begin, self.term, self.line, self.place.outer, self.place.inner)
        return packing(self.packer, (*terms, self.lines), count, self.blocks, source, target)

    def words(self, name: str, first: int, packed: Packed | None, kernel: Gemm) -> dict[str, int | Reference]:
        """Return the table words that describe the operand."""
        row, column, outer, inner = self.place
        if self.ready is not None:
            begin = first * self.ready.columns * kernel.dtype.itemsize
            packed = self.ready._replace(operand=Reference(self.name, begin))
        if packed is not None:
            outer, inner = packed.outer, packed.inner
            row, column = (1, kernel.tile_rows) if name == "lhs" else (0, 1)
        second = {"lhs": ("row", "term"), "rhs": ("term", "column")}[name]
        return {
            name: Reference(self.name, first * self.term * self.dtype.itemsize) if packed is None else packed.operand,
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
    """Return both operands, with their packing."""
    rows, _, columns = sizes
    by_row, by_column = _packed_sides(sizes, lhs, rhs, blocks, kernel)
    return (
        _Side(
            names[0],
            lhs,
            rows,
            blocks[0],
            lhs.column,
            lhs.row,
            kernel.lhs,
            Packing(kernel.dtype, kernel.tile_rows, 1, kernel.lhs) if by_row else None,
        ),
        _Side(
            names[1],
            rhs,
            columns,
            blocks[1],
            rhs.row,
            rhs.column,
            kernel.rhs,
            kernel.panel_packing if by_column else None,
        ),
    )


def _packed_sides(
    sizes: tuple[int, int, int], lhs: Matrices, rhs: Matrices, blocks: tuple[int, int], kernel: Gemm
) -> tuple[bool, bool]:
    """Return which operands are packed."""
    rows, terms, columns = sizes
    both = packed_operands(rows, terms, columns, blocks[0], *lhs[:2], rhs.column, kernel.dtype.itemsize)
    # a comparison for each answer would be a condition of a plan for any extents
    by_row, by_column = (False, False) if both == 1 else (both % 2 == 0, both > 2)
    if kernel.lhs in HALVES and min(sizes) > 0:
        # a number of 16 bits that is repeated in a vector as it is read takes twice the time of one of 32 bits
        by_row = True
    return by_row, by_column


def _copied_rows(rhs: Matrices, kernel: Gemm) -> int:
    """Return the number of rows of the result from which on the first tile copies the panel that it reads."""
    if kernel.reads_halves and kernel.rhs in HALVES:
        return kernel.tile_rows
    return copied_rows(rhs.row * kernel.dtype.itemsize, kernel.tile_rows)


def _tasks(sizes: tuple[int, int, int], readable: bool, kernel: Gemm, uses: int) -> tuple[int, int]:
    """Return the numbers of blocks of rows and of columns of a result; each pair of blocks is a task."""
    return divide(*sizes, readable, kernel.tile_rows, kernel.lanes, kernel.dtype.itemsize, uses)


@dataclasses.dataclass(frozen=True)
class Gemm:
    """The kernel of products in one dtype."""

    dtype: DType
    machine: Machine
    epilogue: Epilogue | None = dataclasses.field(default=None, kw_only=True)

    def finished(self, epilogue: Epilogue) -> Gemm | None:
        """Return the kernel with an epilogue."""
        if self.epilogue or epilogue.dtype != self.dtype:
            return None
        return dataclasses.replace(self, epilogue=epilogue)

    @property
    def lhs(self) -> DType:
        """Dtype of the first operand."""
        return self.dtype

    @property
    def rhs(self) -> DType:
        """Dtype of the second operand."""
        return self.dtype

    @functools.cached_property
    def reads_halves(self) -> bool:
        """Whether an operand has 16 bits."""
        return self.lhs in HALVES or self.rhs in HALVES

    @functools.cached_property
    def lanes(self) -> int:
        """Number of elements in a vector."""
        return self.machine.lanes(self.dtype)

    @functools.cached_property
    def panel(self) -> int:
        """Number of columns in a panel of the second operand."""
        return WIDTH * self.lanes

    @property
    def panel_packing(self) -> Packing:
        """The kernel that packs the second operand."""
        return Packing(self.dtype, self.lanes, WIDTH, self.rhs)

    @functools.cached_property
    def tile_rows(self) -> int:
        """Number of rows in a tile: they fit into registers, besides a vector of each operand."""
        return 8 if self.machine.registers >= 32 else 4

    def multiply_add(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        """Return one step of a sum of products."""
        return e.fma(first, second, total)

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return module(*product_routines(self, name))


@dataclasses.dataclass(frozen=True)
class HalfGemm(Gemm):
    """The kernel of float32 products whose operands, or one of them, have 16 bits."""

    first: DType
    second: DType

    @property
    def lhs(self) -> DType:
        """Dtype of the first operand."""
        return self.first

    @property
    def rhs(self) -> DType:
        """Dtype of the second operand."""
        return self.second


def _gemm_reading(kernel: Gemm, lhs: DType, rhs: DType) -> Gemm:
    """Return the kernel like another one for operands of some dtypes."""
    if (lhs, rhs) == (kernel.lhs, kernel.rhs):
        return kernel
    return Gemm(kernel.dtype, kernel.machine) if lhs == rhs else HalfGemm(kernel.dtype, kernel.machine, lhs, rhs)


@functools.lru_cache(64)
def gemm_for(dtype: DType, machine: Machine, second: DType | None = None) -> Gemm:
    """Return the kernel that multiplies matrices of a dtype, or of two; the result of 16 bits is float32."""
    wide, second = compute_dtype(dtype), second or dtype
    return Gemm(wide, machine) if wide == dtype == second else HalfGemm(wide, machine, dtype, second)
