"""Plans of factorizations: for each operator, the launches and the arrays that they write.

Operands have the names of the operator's inputs. All arrays are contiguous. ``out`` is the result of most of them; the
operators that factorize by row exchanges get ``lu`` and ``pivots``, too.
"""

from __future__ import annotations

import math
from typing import Any

from ...base.dtypes import INT64, DType
from ...graph.node import Node, Shape
from ..launch import CalledPlan
from ..target import Machine
from . import cholesky, eigen, lq, lu, singular
from .blocks import SMALL, Launches, View
from .determinant import determinants
from .moves import Filling, fill, mirror
from .stacks import factorize_stack, is_stack
from .substitution import solve

__all__ = ["plan", "rule"]

#: columns of the inverse of a triangle that are solved together
_INVERSE_BLOCK = SMALL


def plan(node: Node, routine: str, machine: Machine, attributes: dict[str, Any]) -> CalledPlan | None:
    """Return the plan of a node, given the name of its routine and the operator's parameters.

    It is None if there are no kernels for the size of the matrices.
    """
    made: CalledPlan | None = _ROUTINES[routine](node, machine, **attributes)
    return made


def _launches(node: Node, machine: Machine) -> tuple[Launches, int]:
    """Return no launches yet for the matrices of the first input, and their size."""
    matrices = node.inputs[0]
    return Launches(matrices.dtype, machine, math.prod(matrices.shape[:-2])), matrices.shape[-1]


def _view(name: str, rows: int, columns: int) -> View:
    return View(name, 0, columns, 1, rows * columns)


def _potrf(node: Node, machine: Machine) -> CalledPlan:
    launches, size = _launches(node, machine)
    data, out = _view("A", size, size), _view("out", size, size)
    if size > SMALL:
        fill(launches, Filling.LOWER, data, out, (size, size))
        data = out
    cholesky.factorize(launches, data, out, size)
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype),))


def _trsm(node: Node, machine: Machine, *, transpose: bool, rightside: bool, lower: bool, alpha: float) -> CalledPlan:
    launches, size = _launches(node, machine)
    rows, columns = node.shape[-2:]
    matrix, right, out = _view("A", size, size), _view("B", rows, columns), _view("out", rows, columns)
    if size > SMALL:
        fill(launches, Filling.COPY, right, out, (rows, columns), alpha)
        right, alpha = out, 1.0
    # X * M = R is transpose(M) * transpose(X) = transpose(R)
    if transpose != rightside:
        matrix, lower = matrix.transposed, not lower
    if rightside:
        right, out = right.transposed, out.transposed
    count = rows if rightside else columns
    if count and launches.count:
        solve(launches, matrix, right, out, (size, count), lower=lower, alpha=alpha)
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype),))


def _potri(node: Node, machine: Machine) -> CalledPlan:
    launches, size = _launches(node, machine)
    factor, inverse, out = (_view(name, size, size) for name in ("A", "inverse", "out"))
    fill(launches, Filling.IDENTITY, inverse, inverse, (size, size))
    _invert_lower(launches, factor, inverse, size)
    for first in range(0, size, _INVERSE_BLOCK):
        last = min(size, first + _INVERSE_BLOCK)
        below = inverse.at(first, 0)
        sizes = last - first, size - first, last
        launches.multiply(out.at(first, 0), below.at(0, first).transposed, below, sizes)
    mirror(launches, out, size)
    shape, dtype = node.shape, node.dtype
    return CalledPlan(launches.plan(), (("out", shape, dtype), ("inverse", shape, dtype)))


def _invert_lower(launches: Launches, factor: View, out: View, size: int, *, unit: bool = False) -> None:
    """Replace the identity by the inverse of a lower triangle: some columns after the other, from the diagonal on."""
    for first in range(0, size, _INVERSE_BLOCK):
        right = out.at(first, first)
        sizes = size - first, min(size - first, _INVERSE_BLOCK)
        solve(launches, factor.at(first, first), right, right, sizes, lower=True, unit=unit)


def _blocks(size: int) -> list[tuple[int, int]]:
    """Return the first and the last row of each block of a product of which a triangle is computed, or zero.

    Small blocks save more work, and pack operands more often.

    >>> _blocks(150), _blocks(1000)[:2]
    ([(0, 64), (64, 128), (128, 150)], [(0, 128), (128, 256)])
    """
    step = SMALL if size < 8 * SMALL else 2 * SMALL
    return [(first, min(size, first + step)) for first in range(0, size, step)]


def _symmetric_product(node: Node, machine: Machine, *, transpose: bool) -> CalledPlan:
    launches, _ = _launches(node, machine)
    size, (rows, columns) = node.shape[-1], node.inputs[0].shape[-2:]
    data, out = _view("A", rows, columns), _view("out", size, size)
    if transpose:
        data = data.transposed
    for first, last in _blocks(size) if launches.count else ():
        sizes = last - first, rows if transpose else columns, last
        launches.multiply(out.at(first, 0), data.at(first, 0), data.transposed, sizes)
    mirror(launches, out, size)
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype),))


def _triangular_product(node: Node, machine: Machine, *, transpose: bool, rightside: bool, lower: bool) -> CalledPlan:
    launches, size = _launches(node, machine)
    rows, columns = node.shape[-2:]
    factor, right, out = _view("factor", size, size), _view("B", rows, columns), _view("out", rows, columns)
    fill(launches, Filling.LOWER if lower else Filling.UPPER, _view("A", size, size), factor, (size, size))
    if transpose:
        factor = factor.transposed
    for first, last in _blocks(size) if launches.count else ():
        # the terms of a block are those up to its end, or from its beginning on
        begin, end = (0, last) if (lower != transpose) != rightside else (first, size)
        if rightside:
            sizes = rows, end - begin, last - first
            launches.multiply(out.at(0, first), right.at(0, begin), factor.at(begin, first), sizes)
        else:
            sizes = last - first, end - begin, columns
            launches.multiply(out.at(first, 0), factor.at(first, begin), right.at(begin, 0), sizes)
    triangle = "factor", node.inputs[0].shape, node.dtype
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype), triangle))


def _product_triangle(
    node: Node, machine: Machine, *, transpose_a: bool, transpose_b: bool, lower: bool, late: bool
) -> CalledPlan:
    launches, _ = _launches(node, machine)
    size = node.shape[-1]
    left, right = [_view(name, *source.shape[-2:]) for name, source in zip("AB", node.inputs, strict=True)]
    terms = node.inputs[0].shape[-2 if transpose_a else -1]
    left, right = left.transposed if transpose_a else left, right.transposed if transpose_b else right
    out = _view("out", size, size)
    for first, last in _blocks(size) if launches.count else ():
        begin, (start, stop) = first if late else 0, (0, last) if lower else (first, size)
        sizes = last - first, terms - begin, stop - start
        launches.multiply(out.at(first, start), left.at(first, begin), right.at(begin, start), sizes)
    fill(launches, Filling.LOWER if lower else Filling.UPPER, out, out, (size, size))
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype),))


def _factorize_by_rows(
    node: Node, machine: Machine, inverse: View | None = None
) -> tuple[Launches, View, tuple[Any, ...]]:
    """Return the launches of an LU factorization, its factors, and the arrays that they write.

    Those of a stack of small matrices compute the inverse, too.
    """
    launches, size = _launches(node, machine)
    matrices = node.inputs[0]
    distance = lu.padded(size, matrices.dtype)
    factors = View("lu", 0, distance, 1, size * distance)
    data = _view("A", size, size)
    if is_stack(launches, size):
        factorize_stack(launches, data, factors, size, inverse)
    else:
        fill(launches, Filling.COPY, data, factors, (size, size))
        lu.factorize(launches, factors, size)
    lead = matrices.shape[:-2]
    results = ("lu", (*lead, size, distance), matrices.dtype), ("pivots", (*lead, size), INT64)
    return launches, factors, results


def _gelqf(node: Node, machine: Machine) -> CalledPlan:
    launches, length = _launches(node, machine)
    assert node.outputs is not None
    (out_shape, dtype), (lower_shape, _) = node.outputs
    rows = lower_shape[-1]
    data, out, lower = _view("A", rows, length), _view("out", rows, length), _view("lower", rows, rows)
    results: list[tuple[str, Shape, DType]] = [("out", out_shape, dtype), ("lower", lower_shape, dtype)]
    if length <= SMALL:
        lq.factorize_small(launches, data, out, lower, (rows, length))
        return CalledPlan(launches.plan(), tuple(results))
    lead, distance = out_shape[:-2], lu.padded(length, dtype)
    widths = {"work": distance, "vectors": distance, "triangle": lq.BLOCK, "product": lq.BLOCK, "turned": lq.BLOCK}
    work, *others = (_view(name, rows, width) for name, width in widths.items())
    fill(launches, Filling.PADDED, data, work, (rows, length))
    for zeros, width in ((others[0], distance), (others[1], lq.BLOCK)):
        fill(launches, Filling.ZERO, zeros, zeros, (rows, width))
    fill(launches, Filling.IDENTITY, out, out, (rows, length))
    lq.factorize(launches, work, out, tuple(others), (rows, length))
    fill(launches, Filling.LOWER, work, lower, (rows, rows))
    results += [(name, (*lead, rows, width), dtype) for name, width in widths.items()]
    return CalledPlan(launches.plan(), tuple(results))


def _syevd(node: Node, machine: Machine) -> CalledPlan | None:
    launches, size = _launches(node, machine)
    if size > SMALL:
        return None
    eigen.decompose(launches, _view("A", size, size), _view("out", size, size), size)
    assert node.outputs is not None
    (vectors, dtype), (values, _) = node.outputs
    return CalledPlan(launches.plan(), (("out", vectors, dtype), ("values", values, dtype)))


def _svd(node: Node, machine: Machine) -> CalledPlan | None:
    launches, _ = _launches(node, machine)
    rows, columns = node.inputs[0].shape[-2:]
    few = min(rows, columns)
    if max(rows, columns) > SMALL:
        return None
    views = _view("A", rows, columns), _view("out", rows, few), _view("right", few, columns)
    singular.decompose(launches, *views, (rows, columns))
    assert node.outputs is not None
    (left, dtype), (values, _), (right, _) = node.outputs
    return CalledPlan(launches.plan(), (("out", left, dtype), ("values", values, dtype), ("right", right, dtype)))


def _det(node: Node, machine: Machine) -> CalledPlan:
    launches, factors, results = _factorize_by_rows(node, machine)
    determinants(launches, factors, node.inputs[0].shape[-1], logarithms=False)
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype), *results))


def _slogdet(node: Node, machine: Machine) -> CalledPlan:
    launches, factors, results = _factorize_by_rows(node, machine)
    determinants(launches, factors, node.inputs[0].shape[-1], logarithms=True)
    assert node.outputs is not None
    (sign, dtype), (out, _) = node.outputs
    return CalledPlan(launches.plan(), (("sign", sign, dtype), ("out", out, dtype), *results))


def _solve(node: Node, machine: Machine) -> CalledPlan:
    launches, factors, results = _factorize_by_rows(node, machine)
    rows, columns = node.shape[-2:]
    out = _view("out", rows, columns)
    if columns and launches.count:
        fill(launches, Filling.COPY, _view("B", rows, columns), out, (rows, columns))
        lu.exchange(launches, out, (0, rows), rows, columns)
        solve(launches, factors, out, out, (rows, columns), lower=True, unit=True)
        solve(launches, factors, out, out, (rows, columns), lower=False)
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype), *results))


def _inverse(node: Node, machine: Machine) -> CalledPlan:
    size = node.shape[-1]
    out = _view("out", size, size)
    launches, factors, results = _factorize_by_rows(node, machine, out)
    if launches.count and not is_stack(launches, size):
        fill(launches, Filling.IDENTITY, out, out, (size, size))
        _invert_lower(launches, factors, out, size, unit=True)
        solve(launches, factors, out, out, (size, size), lower=False)
        lu.exchange_columns(launches, out, size)
    return CalledPlan(launches.plan(), (("out", node.shape, node.dtype), *results))


_ROUTINES: dict[str, Any] = {
    "det": _det,
    "gelqf": _gelqf,
    "inverse": _inverse,
    "potrf": _potrf,
    "potri": _potri,
    "product_triangle": _product_triangle,
    "slogdet": _slogdet,
    "solve": _solve,
    "svd": _svd,
    "syevd": _syevd,
    "symmetric_product": _symmetric_product,
    "triangular_product": _triangular_product,
    "trsm": _trsm,
}


def rule(routine: str) -> Any:
    """Return the function that plans a routine; it names the parameters of the operator that it needs."""
    return _ROUTINES[routine]
