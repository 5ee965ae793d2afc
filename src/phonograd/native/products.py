"""Matrix products in a plan: from where the operands lie to the launch that multiplies them."""

from __future__ import annotations

import functools

import numpy as np

from ..dtypes import DType
from ..kernels.gemm import Gemm, Matrices, product
from ..kernels.launch import Plan
from ..kernels.pattern import Pattern, contiguous_strides
from ..node import Shape
from .machine import host

__all__ = ["plan_product"]


@functools.lru_cache(maxsize=1024)
def plan_product(lhs: Pattern, rhs: Pattern, dtype: DType) -> Plan | None:
    """Return how to multiply matrices (the last two axes) that lie somewhere in memory.

    The operands of the plan are ``lhs``, ``rhs`` and ``out``, which is contiguous. None is returned where the other
    axes cannot be walked with two strides; they can for operands that are contiguous.
    """
    rows, terms = lhs.shape[-2:]
    columns = rhs.shape[-1]
    out_strides = contiguous_strides((*lhs.shape[:-2], rows, columns))
    axes = _merged(lhs.shape[:-2], (lhs.strides[:-2], rhs.strides[:-2], out_strides[:-2]))
    if len(axes) > 2:
        return None
    (outer, outer_strides), (inner, inner_strides) = [(1, (0, 0, 0))] * (2 - len(axes)) + axes
    left, right, result = [
        Matrices(strides[-2], strides[-1], outer_stride, inner_stride)
        for strides, outer_stride, inner_stride in zip(
            (lhs.strides, rhs.strides, out_strides), outer_strides, inner_strides, strict=True
        )
    ]
    sizes, count, kernel = (rows, terms, columns), (outer, inner), Gemm(np.dtype(dtype), host())
    return Plan((product(sizes, count, left, right, result, kernel),))


def _merged(shape: Shape, operands: tuple[Shape, Shape, Shape]) -> list[tuple[int, tuple[int, int, int]]]:
    """Return extent and strides of as few axes as can walk all operands.

    >>> _merged((2, 3, 1, 4), ((12, 4, 4, 1), (12, 4, 4, 1), (24, 8, 8, 1)))
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
