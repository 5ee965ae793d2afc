"""Samples of linear algebra on stacks of matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from phonograd.core.graph.node import Node
from phonograd.core.ops.math.primitives import swap_last

from .checks import Sample

_generator = np.random.default_rng(22)


@dataclasses.dataclass(repr=False)
class SymmetricSample(Sample):
    """A call with a symmetric matrix, whose gradients are those for symmetric changes of it."""

    def call(self, nodes: Sequence[Node | None]) -> list[Node]:
        """Return the output nodes for input nodes, made symmetric first."""
        (matrix,) = nodes
        assert matrix is not None
        return super().call([(matrix + swap_last(matrix)) * 0.5])


def array(*shape: int) -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(np.float32)


def definite(*shape: int) -> np.ndarray:
    """Return symmetric positive definite matrices of shape (..., n, n)."""
    factor = array(*shape)
    return factor @ np.swapaxes(factor, -1, -2) + 2 * np.eye(shape[-1], dtype=np.float32)


def regular(*shape: int) -> np.ndarray:
    """Return well conditioned matrices without structure: neither triangle is zero."""
    return array(*shape) / 2 + 2 * np.eye(shape[-1], dtype=np.float32)


SAMPLES: list[Sample] = [
    Sample("_linalg_gemm2", [array(2, 3), array(3, 2)]),
    Sample("_linalg_gemm2", [array(2, 3, 2), array(2, 4, 3)], {"transpose_a": 1, "transpose_b": 1, "alpha": 0.5}),
    Sample("_linalg_gemm2", [array(2, 2, 1, 3), array(2, 3, 1, 2)], {"axis": 1, "alpha": 2.0}),
    Sample("_linalg_gemm", [array(2, 3), array(3, 2), array(2, 2)]),
    Sample("_linalg_gemm", [array(2, 3), array(2, 2), array(3, 2)], {"transpose_a": True, "alpha": 2.0, "beta": 0.5}),
    Sample("_linalg_gemm", [array(2, 2, 3), array(3, 2, 2), array(2, 2, 2)], {"axis": 0, "beta": -1.0}),
    Sample("_linalg_gemm", [array(2, 3), array(3, 2), array(2, 2)], {"beta": 0.0}, wrt=(0, 1)),
    Sample("_linalg_syrk", [array(2, 3)]),
    Sample("_linalg_syrk", [array(2, 2, 3)], {"transpose": True, "alpha": 0.5}),
    *[
        Sample(
            name,
            [regular(*batch, 3, 3), array(*batch, *((2, 3) if rightside else (3, 2)))],
            {"transpose": transpose, "rightside": rightside, "lower": lower, "alpha": alpha},
        )
        for name in ("_linalg_trmm", "_linalg_trsm")
        for transpose, rightside, lower, alpha, batch in [
            (False, False, True, 1.0, ()),
            (True, False, True, 2.0, (2,)),
            (False, True, True, 0.5, (2,)),
            (True, True, True, 1.0, ()),
            (False, False, False, 1.0, (1, 2)),
            (True, False, False, 1.0, ()),
            (False, True, False, 1.0, ()),
            (True, True, False, -1.0, ()),
        ]
    ],
    Sample("_symmetric_product", [array(2, 3, 2)], {"transpose": False}),
    Sample("_symmetric_product", [array(3, 2)], {"transpose": True}),
    *[
        Sample(
            "_triangular_product",
            [array(2, 3, 3), array(2, 2, 3) if rightside else array(2, 3, 2)],
            {"transpose": transpose, "rightside": rightside, "lower": lower},
        )
        for transpose in (False, True)
        for rightside in (False, True)
        for lower in (False, True)
    ],
    *[
        Sample(
            "_product_triangle",
            [array(2, 2, 3) if transpose_a else array(2, 3, 2), array(2, 3, 2) if transpose_b else array(2, 2, 3)],
            {"transpose_a": transpose_a, "transpose_b": transpose_b, "lower": lower, "late": False},
        )
        for transpose_a in (False, True)
        for transpose_b in (False, True)
        for lower in (False, True)
    ],
    Sample("_triangle", [array(2, 3, 3)], {"lower": True, "offset": -1}),
    Sample("_triangle", [array(3, 3)], {"lower": False, "offset": 0}),
    Sample("_linalg_sumlogdiag", [definite(3, 3)]),
    Sample("_linalg_sumlogdiag", [definite(2, 1, 3, 3)]),
    Sample("_linalg_extractdiag", [array(3, 3)]),
    Sample("_linalg_extractdiag", [array(2, 3, 3)], {"offset": 1}),
    Sample("_linalg_extractdiag", [array(3, 3)], {"offset": -2}),
    Sample("_linalg_makediag", [array(3)]),
    Sample("_linalg_makediag", [array(2, 2)], {"offset": -1}),
    Sample("_linalg_makediag", [array(2)], {"offset": 2}),
    Sample("_linalg_extracttrian", [array(3, 3)]),
    Sample("_linalg_extracttrian", [array(2, 3, 3)], {"lower": False}),
    Sample("_linalg_extracttrian", [array(3, 3)], {"offset": 1}),
    Sample("_linalg_extracttrian", [array(3, 3)], {"offset": -1, "lower": False}),
    Sample("_linalg_maketrian", [array(6)]),
    Sample("_linalg_maketrian", [array(2, 3)], {"lower": False}),
    Sample("_linalg_maketrian", [array(3)], {"offset": 1}),
    Sample("_linalg_maketrian", [array(3)], {"offset": -1}),
    SymmetricSample("_linalg_potrf", [definite(1, 1)]),
    SymmetricSample("_linalg_potrf", [definite(3, 3)]),
    SymmetricSample("_linalg_potrf", [definite(2, 1, 2, 2)]),
    SymmetricSample("_linalg_potrf", [definite(0, 2, 2)], order=0),
    Sample("_linalg_potri", [regular(3, 3)]),
    Sample("_linalg_potri", [regular(2, 2, 2)]),
    Sample("_linalg_gelqf", [array(2, 3)]),
    Sample("_linalg_gelqf", [regular(2, 3, 3)]),
    Sample("_linalg_gelqf", [array(2, 1, 2, 4)]),
    SymmetricSample("_linalg_syevd", [np.diag([1, 3, 6]).astype(np.float32) + array(3, 3) / 4]),
    SymmetricSample("_linalg_syevd", [np.diag([1, 3]).astype(np.float32) + array(2, 2, 2) / 4]),
    Sample("_linalg_inverse", [regular(3, 3)]),
    Sample("_linalg_inverse", [regular(2, 1, 2, 2)]),
    Sample("_linalg_det", [regular(3, 3)]),
    Sample("_linalg_det", [regular(2, 2, 2)]),
    Sample("_linalg_det", [np.array([[1.0, 2.0], [2.0, 4.0]], np.float32)], order=1),
    Sample("_cofactors", [regular(2, 3, 3)]),
    Sample("_linalg_slogdet", [-regular(3, 3)]),
    Sample("_linalg_slogdet", [regular(2, 2, 2)]),
]
