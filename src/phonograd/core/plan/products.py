"""Matrix products in a plan: from the patterns of the operands to the launch that multiplies them.

The second of two products computes their sum, by adding to the first: see :func:`sums_of_products`. Takes the order of
nodes from :mod:`~phonograd.core.plan.expansion`, and hands launches to :mod:`~phonograd.core.plan.library_kernels`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import processor, settings
from ..base.dtypes import BFLOAT16, FLOAT32, HALVES, DType, compute_dtype
from ..graph.node import Node, Shape
from ..graph.operator import REGISTRY, Array, Operator
from ..kernels.convert import in_float32
from ..kernels.launch import Plan
from ..kernels.matmul.bf16_split import PARTS, Split
from ..kernels.matmul.bf16x3 import is_worth, product_by_parts, split_before
from ..kernels.matmul.gemm import Gemm, Matrices, gemm_for, panels, product, product_in_place
from ..kernels.matmul.packing import Packed
from ..kernels.matmul.pairs import in_pairs
from ..kernels.matmul.pairs import is_worth as are_pairs_worth
from ..kernels.matmul.rounded import is_worth_rounding, rounded_product
from ..kernels.matmul.tasks import SHARED_ROWS
from ..kernels.matmul.tiles import DEPTH
from ..kernels.target import Machine
from ..lower.pattern import Pattern, contiguous_strides
from ..run.host import host
from .expansion import Order

__all__ = [
    "Product",
    "Sum",
    "is_large",
    "keeps_bits_of_rows",
    "launch_new_product",
    "panels_of",
    "plan_new_product",
    "plan_product",
    "plan_rounded_product",
    "roundings_of_products",
    "sums_in_order",
    "sums_of_products",
    "takes_one_launch",
    "uses_of_operands",
    "widenings_of_operands",
]

#: products of few rows for which the transposed matrix that they share is copied to panels: otherwise each of them
#: copies panels of it, which takes a third of its time
ENOUGH_USES = 3
#: rows of all such products together for which a matrix is copied to panels although it can be read as it is
ENOUGH_ROWS = 512

_ADD, _CAST = REGISTRY["broadcast_add"], REGISTRY["_cast"]


def _panels(data: Any) -> Any:
    """Return matrices in another order: by columns a few vectors wide."""
    raise AssertionError("panels are made by plans alone, for their own kernels")


#: the operator of a matrix that several products share, as it is packed for them
_PANELS = Operator(_panels, cost=0.0)


def panels_of(source: Node, size: int, reader: Node) -> Node:
    """Return a node whose memory holds a value in another order, in some bytes; ``reader`` is the first to read it."""
    dtype = compute_dtype(source.dtype)
    node = Node(_PANELS, (source,), (), (size // dtype.itemsize,), dtype)
    node.gradient_of = reader
    return node


class Sum(NamedTuple):
    """A sum of products: the product, which has no other reader, and the term that it is added to."""

    product: Node
    old: Node


def sums_of_products(order: Order, kept: Iterable[Node]) -> dict[Node, Sum]:
    """Return the sums that are computed together with a product, by their node.

    They are those of two products, or of such a sum and a product: gradients of a parameter that is used many times,
    gates of recurrent layers. So are those of a large product and a bias, if no other kernel could add it. A product of
    several blocks of terms is not among them: its blocks must be added up first.
    """
    lowerings, expressions = order.lowerings, order.expressions
    products = {node: number for number, node in enumerate(order.nodes) if lowerings[node].is_product}
    found: dict[Node, Sum] = {}
    if not products:
        return found
    readers = _readers(order, kept)
    for node in [node for node in order.nodes if expressions[node].operator is _ADD]:
        first, second = order.sources[node]
        if first in products and readers[first] == 1 and _is_bias(order, node, first, second):
            found[node] = Sum(first, second)
            continue
        if first.shape != second.shape or first not in products or second not in products:
            continue
        old, late = (first, second) if products[first] < products[second] else (second, first)
        for product_node, other in ((late, old), (old, late)):
            if product_node not in found and readers[product_node] == 1 and _can_be_added(order, product_node):
                found[node] = Sum(product_node, other)
                products[node] = products[late]
                break
    return found


def _is_bias(order: Order, node: Node, product_node: Node, bias: Node) -> bool:
    """Return whether a large product and a vector are summed, and other products alone read the sum in the plan."""
    shape = product_node.shape
    near_bytes = processor.choices().near_bytes
    is_large_matrix = len(shape) == 2 and shape[1] > 1 and node.size * node.dtype.itemsize >= near_bytes
    if not is_large_matrix or bias.shape not in (shape[1:], (1, *shape[1:])) or host().matrix_unit:
        return False
    if len({node.dtype, product_node.dtype, bias.dtype}) > 1 or not _can_be_added(order, product_node):
        return False
    sums = {node}
    for reader in order.nodes:
        if not sums.isdisjoint(order.sources[reader]):
            if order.lowerings[reader].is_view:
                sums.add(reader)
            elif not order.lowerings[reader].is_product:
                return False
    return True


def roundings_of_products(order: Order, kept: Iterable[Node]) -> dict[Node, Node]:
    """Return by node the product that is rounded to 16 bits and has no other reader, if it is worth a kernel."""
    casts = [node for node in order.nodes if order.expressions[node].operator is _CAST and node.dtype in HALVES]
    if not casts:
        return {}
    readers, found = _readers(order, kept), {}
    for node in casts:
        (product_node,) = order.sources[node]
        lowering = order.lowerings.get(product_node)
        if lowering is None or not lowering.is_product or readers[product_node] != 1:
            continue
        lhs, rhs = [source.shape for source in order.expressions[product_node].inputs]
        if product_node.dtype == FLOAT32 and len(lhs) == 2 and _rounds((*lhs, rhs[1]), product_node.dtype, host()):
            found[node] = product_node
    return found


def _rounds(sizes: tuple[int, int, int], dtype: DType, machine: Machine) -> bool:
    """Return whether products of these sizes are rounded in parts, or else as a whole by the next kernel."""
    return not (machine.matrix_unit and is_worth(sizes)) and is_worth_rounding(sizes, gemm_for(dtype, machine))


def _readers(order: Order, kept: Iterable[Node]) -> Counter[Node]:
    """Return how often values are read, by node."""
    readers = Counter(kept)
    readers.update(itertools.chain.from_iterable(order.sources.values()))
    # a value that is read through a location has other readers
    readers.update(order.below.values())
    return readers


def widenings_of_operands(order: Order, kept: Iterable[Node]) -> set[Node]:
    """Return float32 copies of 16-bit values that need not be in memory: products convert what they read.

    They are large, and no other kernels of their own read them.
    """
    found = {node for node in order.nodes if order.expressions[node].operator is _CAST and _is_large_widening(node)}
    found = {node for node in found if order.sources[node][0].dtype in HALVES}
    if not found or host().matrix_unit:
        return set()
    below = order.below
    for node in [*kept, *[s for n in order.nodes if n not in below for s in _read_by_other_kernels(order, n)]]:
        while node in below:
            node = below[node]
        found.discard(node)
    return found


def _is_large_widening(node: Node) -> bool:
    return node.dtype == FLOAT32 and node.size * FLOAT32.itemsize >= processor.choices().near_bytes


def _read_by_other_kernels(order: Order, node: Node) -> Sequence[Node]:
    lowering = order.lowerings[node]
    return () if lowering.is_product else order.sources[node][lowering.memory_inputs]


def uses_of_operands(order: Order) -> Counter[Node]:
    """Return how many products of few rows read a value as their second operand, by node, if several products do."""
    readers: dict[Node, list[Node]] = {}
    for node in order.nodes:
        if order.lowerings[node].is_product:
            readers.setdefault(order.sources[node][1], []).append(node)
    # nothing follows from the rows of a product that is the only one
    several = {read: nodes for read, nodes in readers.items() if len(nodes) > 1}
    return Counter({read: sum([n.shape[-2] < SHARED_ROWS for n in nodes]) for read, nodes in several.items()})


def _can_be_added(order: Order, node: Node) -> bool:
    """Return whether a product has one block of terms, and does not read scores, which are computed by blocks."""
    lhs, rhs = order.expressions[node].inputs
    is_one_block = lhs.shape[-1] <= DEPTH
    of_scores = is_large(lhs.shape, node.shape[-1], lhs.dtype.itemsize) or is_large(
        rhs.shape, node.shape[-2], rhs.dtype.itemsize
    )
    return is_one_block and not (of_scores and settings.current().attention_blocks)


class Before(NamedTuple):
    """The conversion of an operand to another form before the product, once for all products that share it."""

    operand: str
    name: str
    """The name of the converted operand."""
    packed: Packed | Split


class Product(NamedTuple):
    """Return the plan to multiply matrices (the last two axes) with given patterns in memory."""

    plan: Plan
    """Its operands are ``lhs``, ``rhs``, ``out`` (contiguous), ``old`` if it is added to that, and converted ones."""
    before: tuple[Before, ...] = ()
    """Conversions of operands."""


def plan_product(
    lhs: Pattern,
    rhs: Pattern,
    dtype: DType,
    machine: Machine | None = None,
    adds: bool = False,
    uses: int = 1,
    is_steady: bool = False,
    second: DType | None = None,
    to_rows: bool = False,
) -> Product | None:
    """Return how to multiply matrices, or None where the axes before the last two cannot be walked with two strides.

    They can for operands that are contiguous. Operands of 16 bits have a float32 product. ``adds`` says whether the
    product is added to a contiguous ``old``, and ``to_rows`` whether that is one row, for all rows; ``uses`` how many
    products of few rows read ``rhs``, and ``is_steady`` that packing ``rhs`` costs nothing, because it is the same in
    many runs. ``second`` is the dtype of ``rhs`` if it is another one: 16 bits beside float32, or float32 beside 16
    bits.
    """
    return _known_plan(lhs, rhs, dtype, machine or host(), adds, uses, is_steady, second or dtype, to_rows)


def is_large(shape: Shape, terms: int, itemsize: int) -> bool:
    """Return whether products of a batch of matrices are large, and larger than their operands."""
    if len(shape) < 3:
        return False
    rows, columns = shape[-2:]
    larger = min(rows, columns) > 1 and rows * columns >= terms * (rows + columns)
    return larger and math.prod(shape) * itemsize >= processor.choices().near_bytes


def sums_in_order(sizes: tuple[int, int, int], dtype: DType, machine: Machine) -> bool:
    """Return whether the sums of a product add up blocks of terms one after the other.

    Products of blocks of the operands then have the bits of the whole product. Blocks of terms that are added up must
    have the length that :func:`~phonograd.core.kernels.matmul.tasks.terms_of_block` returns.
    """
    return not (machine.matrix_unit and compute_dtype(dtype) == FLOAT32 and is_worth(sizes))


def plan_rounded_product(lhs: Pattern, rhs: Pattern, dtype: DType, out: DType) -> Plan:
    """Return how to multiply two matrices for a result of 16 bits: the float32 product, rounded."""
    sizes, machine = (lhs.shape[0], lhs.shape[1], rhs.shape[1]), host()
    left, right = Matrices(*lhs.strides), Matrices(*rhs.strides)
    if _multiplies_pairs(sizes, dtype, dtype, machine):
        return in_pairs(
            sizes,
            (1, 1),
            left,
            right,
            machine,
            lambda of, a, b, gemm, block: rounded_product(of, a, b, out, gemm, block),
        )
    return rounded_product(sizes, left, right, out, gemm_for(dtype, machine))


def _multiplies_pairs(sizes: tuple[int, int, int], dtype: DType, second: DType, machine: Machine) -> bool:
    """Return whether a product is computed in pairs of terms; it has the same bits."""
    return machine.bfloat16_pairs and dtype == second == BFLOAT16 and are_pairs_worth(sizes)


def keeps_bits_of_rows(rows: int, terms: int, columns: int) -> bool:
    """Return whether each row of a product of these sizes has the bits of the product of this row alone."""
    # products by parts add up in another order, and only those of many rows are computed this way
    return not (host().matrix_unit and is_worth((rows, terms, columns)))


def plan_new_product(lhs: Pattern, rhs: Pattern, dtype: DType) -> Product | None:
    """Return how to multiply matrices whose sizes are probably new."""
    return _plan(lhs, rhs, dtype, host(), False, 1, False, dtype)


def launch_new_product(lhs: Array, rhs: Array, size: int, kernel: Gemm) -> tuple[tuple[int, ...], int, int, int] | None:
    """Return words, extent, chunk and work of a product of two matrices whose sizes are probably new.

    None if a single launch is not all it takes. ``size`` is the bytes of an element. The words are those of a row:
    array 0 is the result, 2 and 3 are the operands.
    """
    (rows, terms), columns = lhs.shape, rhs.shape[1]
    (row, term), (second_term, column) = lhs.strides, rhs.strides
    # a quarter of the time of making them by name
    left, right = _new((row // size, term // size, 0, 0)), _new((second_term // size, column // size, 0, 0))
    if columns == 1:
        # as in _plan
        return product_in_place((1, terms, rows), right.transposed, left.transposed, kernel, _TRANSPOSED)
    return product_in_place((rows, terms, columns), left, right, kernel, _IN_ORDER)


_new = functools.partial(tuple.__new__, Matrices)
#: the arrays and offsets of both operands, the result and the result again
_IN_ORDER, _TRANSPOSED = ((2, 0), (3, 0), (0, 0), (0, 0)), ((3, 0), (2, 0), (0, 0), (0, 0))


def takes_one_launch(sizes: tuple[int, int, int], dtype: DType, machine: Machine) -> bool:
    """Return whether a product is one launch if no operand is packed: it needs no special unit of the processor."""
    return not ((machine.matrix_unit and is_worth(sizes)) or _multiplies_pairs(sizes, dtype, dtype, machine))


def _plan(
    lhs: Pattern,
    rhs: Pattern,
    dtype: DType,
    machine: Machine,
    adds: bool,
    uses: int,
    is_steady: bool,
    second: DType,
    to_rows: bool = False,
) -> Product | None:
    rows, terms = lhs.shape[-2:]
    columns = rhs.shape[-1]
    sizes, count, kernel = (rows, terms, columns), (1, 1), gemm_for(np.dtype(dtype), machine, second)
    if len(lhs.shape) == 2:
        left, right, result = Matrices(*lhs.strides), Matrices(*rhs.strides), Matrices(columns, 1)
    else:
        out_strides = contiguous_strides((*lhs.shape[:-2], rows, columns))
        axes = _merge_axes(lhs.shape[:-2], (lhs.strides[:-2], rhs.strides[:-2], out_strides[:-2]))
        if len(axes) > 2:
            return None
        (outer, outer_strides), (inner, inner_strides) = [(1, (0, 0, 0))] * (2 - len(axes)) + axes
        count = outer, inner
        left, right, result = [
            Matrices(strides[-2], strides[-1], outer_stride, inner_stride)
            for strides, outer_stride, inner_stride in zip(
                (lhs.strides, rhs.strides, out_strides), outer_strides, inner_strides, strict=True
            )
        ]
    old, names = result if adds else None, ("lhs", "rhs")
    if old is not None and to_rows:
        old = old._replace(row=0)
    if machine.matrix_unit and dtype in HALVES and is_worth(sizes):
        if min(*lhs.strides, *rhs.strides) < 0:
            return None
        plan = product_by_parts(sizes, count, left, right, result, old, uses, parts=PARTS[dtype])
        return Product(in_float32(plan, {"lhs": _span(lhs), "rhs": _span(rhs)}, 0, dtype, machine))
    if machine.matrix_unit and dtype == FLOAT32 and is_worth(sizes):
        ready = split_before(sizes, count, left, right, uses)
        plan = product_by_parts(sizes, count, left, right, result, old, uses, ready)
        splits = ("lhs", "left", ready.left), ("rhs", "right", ready.right)
        return Product(plan, tuple([Before(of, name, split) for of, name, split in splits if split is not None]))
    if _multiplies_pairs(sizes, dtype, second, machine):

        def multiply(of: tuple[int, int, int], a: Matrices, b: Matrices, gemm: Gemm, block: int) -> Plan:
            return product(of, count, a, b, result, gemm, old, block_terms=block)

        return Product(in_pairs(sizes, count, left, right, machine, multiply))
    if columns == 1 and dtype == second:
        # a column is a row of the transposed product, and many columns fill vectors
        sizes, left, right, names = (1, terms, rows), right.transposed, left.transposed, ("rhs", "lhs")
    shared = (is_steady or uses >= ENOUGH_USES) and columns > 1 and math.prod(rhs.shape) > 0
    shared = shared and (right.column != 1 or is_steady or uses * rows >= ENOUGH_ROWS)
    plan = product(sizes, count, left, right, result, kernel, old, names, uses, shared)
    return Product(plan, (Before("rhs", "rhs", panels(sizes, count, right, kernel, uses)),) if shared else ())


_known_plan = functools.lru_cache(maxsize=1024)(_plan)


def _span(pattern: Pattern) -> int:
    """Return the number of elements from the first to the last in memory."""
    return 1 + sum([(extent - 1) * stride for extent, stride in zip(pattern.shape, pattern.strides, strict=True)])


def _merge_axes(shape: Shape, operands: tuple[Shape, Shape, Shape]) -> list[tuple[int, tuple[int, int, int]]]:
    """Return extent and strides of as few axes as can walk all operands.

    >>> _merge_axes((2, 3, 1, 4), ((12, 4, 4, 1), (12, 4, 4, 1), (24, 8, 8, 1)))
    [(6, (4, 4, 8)), (4, (1, 1, 1))]
    """
    axes: list[tuple[int, tuple[int, int, int]]] = []
    for extent, strides in zip(shape, zip(*operands, strict=True), strict=True):
        if extent == 1:
            continue
        if axes and all([outer == inner * extent for outer, inner in zip(axes[-1][1], strides, strict=True)]):
            axes[-1] = axes[-1][0] * extent, strides
        else:
            axes.append((extent, strides))
    return axes
