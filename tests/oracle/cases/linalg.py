"""Cases of the linalg namespace."""

from __future__ import annotations

from ..case import (
    Family,
    Spec,
    normal,
    positive_definite,
    triangular,
    uniform,
    values,
    well_conditioned,
)

family = Family("linalg", tolerance="solve")

BATCHES: list[tuple[int, ...]] = [(), (2,), (2, 2)]
PRECISIONS = ("float32", "float64")


def matrices(batch: tuple[int, ...], rows: int, columns: int, dtype: str) -> Spec:
    """Return a batch of general matrices."""
    return normal(*batch, rows, columns, dtype=dtype)


for dtype in PRECISIONS:
    for batch in BATCHES:
        for first in (False, True):
            for second in (False, True):
                left = matrices(batch, *((4, 2) if first else (2, 4)), dtype)
                right = matrices(batch, *((3, 4) if second else (4, 3)), dtype)
                flags = {"transpose_a": first, "transpose_b": second}
                if batch != (2, 2) or first == second:
                    family.call("nd.linalg.gemm2", left, right, **flags)
                    family.call("nd.linalg.gemm", left, right, matrices(batch, 2, 3, dtype), **flags)
    left, right = matrices((2,), 2, 4, dtype), matrices((2,), 4, 3, dtype)
    family.call("nd.linalg.gemm2", left, right, alpha=0.5)
    family.call("nd.linalg.gemm", left, right, matrices((2,), 2, 3, dtype), alpha=0.5, beta=-2.0)
    family.call("nd.linalg.gemm2", normal(2, 3, 4, dtype=dtype), normal(4, 3, 5, dtype=dtype), axis=0)
    family.call(
        "nd.linalg.gemm",
        normal(2, 3, 4, dtype=dtype),
        normal(4, 3, 5, dtype=dtype),
        normal(2, 3, 5, dtype=dtype),
        axis=-3,
    )
    for batch in BATCHES:
        family.call("nd.linalg.potrf", positive_definite(*batch, 3, 3, dtype=dtype))
        family.call("nd.linalg.potri", triangular(*batch, 3, 3, dtype=dtype))
        family.call("nd.linalg.sumlogdiag", triangular(*batch, 3, 3, dtype=dtype))
        family.call("nd.linalg.det", well_conditioned(*batch, 3, 3, dtype=dtype))
        family.call("nd.linalg.slogdet", well_conditioned(*batch, 3, 3, dtype=dtype))
        family.call("nd.linalg.inverse", well_conditioned(*batch, 3, 3, dtype=dtype))
        family.call("nd.linalg.gelqf", matrices(batch, 2, 3, dtype))
        family.call("nd.linalg.syevd", positive_definite(*batch, 3, 3, dtype=dtype))
        for transpose in (False, True):
            family.call("nd.linalg.syrk", matrices(batch, 2, 3, dtype), transpose=transpose, alpha=1.5)
    for operator in ("trmm", "trsm"):
        for lower in (True, False):
            for transpose in (False, True):
                for rightside in (False, True):
                    shape = (2, 3) if rightside else (3, 2)
                    flags = {"transpose": transpose, "rightside": rightside, "lower": lower}
                    pair = triangular(3, 3, dtype=dtype), matrices((), *shape, dtype)
                    family.call(f"nd.linalg.{operator}", *pair, **flags)
        pair = triangular(2, 3, 3, dtype=dtype), matrices((2,), 3, 2, dtype)
        family.call(f"nd.linalg.{operator}", *pair, alpha=-0.5)
    for offset in (0, 1, -1):
        family.call("nd.linalg.extractdiag", matrices((2,), 3, 3, dtype), offset=offset)
        family.call("nd.linalg.makediag", normal(2, 3, dtype=dtype), offset=offset)
        for lower in (True, False):
            family.call("nd.linalg.extracttrian", matrices((2,), 3, 3, dtype), offset=offset, lower=lower)
            family.call("nd.linalg.maketrian", normal(2, 6, dtype=dtype), offset=offset, lower=lower)

for call in ("nd.linalg_gemm2", "nd.linalg_gemm"):
    third = [normal(2, 3)] if call.endswith("gemm") else []
    family.call(call, normal(2, 4), normal(4, 3), *third)
for name in ("potrf", "sumlogdiag", "potri", "det", "slogdet", "inverse"):
    family.call(f"nd.linalg_{name}", positive_definite(3, 3))
for name in ("trmm", "trsm"):
    family.call(f"nd.linalg_{name}", triangular(3, 3), normal(3, 2))
family.call("nd.linalg_syrk", normal(2, 3))
family.call("nd.linalg_gelqf", normal(2, 3))
family.call("nd.linalg_extractdiag", normal(3, 3))
family.call("nd.linalg_makediag", normal(3))
family.call("nd.linalg_extracttrian", normal(3, 3))
family.call("nd.linalg_maketrian", normal(6))

family.call("nd.linalg.gemm2", normal(2, 3), normal(4, 3))
family.call("nd.linalg.gemm2", normal(2, 2, 3), normal(3, 3, 2))
family.call("nd.linalg.gemm2", normal(2, 3, dtype="float16"), normal(3, 2, dtype="float16"))
family.call("nd.linalg.potrf", values([[1.0, 2.0], [2.0, 1.0]]), tag="indefinite")
family.call("nd.linalg.potrf", normal(2, 3))
family.call("nd.linalg.trsm", triangular(3, 3), normal(2, 3))
family.call("nd.linalg.inverse", values([[1.0, 2.0], [2.0, 4.0]]), tag="singular")
family.call("nd.linalg.det", values([[1.0, 2.0], [2.0, 4.0]]), tag="singular")
family.call("nd.linalg.slogdet", values([[1.0, 2.0], [2.0, 4.0]]), tag="singular")
family.call("nd.linalg.det", values([[0.0, 2.0], [1.0, 4.0]]), tag="pivoting")
family.call("nd.linalg.sumlogdiag", uniform(4, 4, low=0.5, high=2))
family.expression("nd.linalg.sumlogdiag(nd.linalg.potrf(x))", positive_definite(3, 3))
family.expression(
    "nd.linalg.trsm(nd.linalg.potrf(x), y)", positive_definite(3, 3, dtype="float64"), normal(3, 1, dtype="float64")
)
