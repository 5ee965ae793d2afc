"""Running sums: to the last bit what NumPy computes, however the work is divided."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.kernels.cumsum import running_sums

from ..plan.plans import run

#: lines inside, at the edge of what is summed side by side or line by line, and of a block
CASES = [(1, 1, 1), (1, 1000, 1), (9, 40, 1), (8, 5, 1), (3, 17, 3), (2, 4, 7), (3, 5, 8), (1, 6, 40), (2, 3, 1025)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("sizes", CASES, ids=str)
def test_sums_are_those_of_numpy(sizes: tuple[int, int, int], dtype: str, reverse: bool) -> None:
    data = (10 * np.random.default_rng(sum(sizes)).normal(size=sizes)).astype(dtype)
    data[0, 0, 0] = -0.0 if data.dtype.kind == "f" else 0
    line = np.flip(data, 1) if reverse else data
    expected = np.cumsum(line, 1, data.dtype)
    expected = np.flip(expected, 1) if reverse else expected
    plan = running_sums(*sizes, data.dtype, reverse)
    for pieces, threads in ((1, 1), (3, 1), (7, 2)):
        found = run(plan, sizes, pieces, threads, data=data)
        assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


def test_nothing_is_done_for_empty_arrays() -> None:
    assert running_sums(3, 0, 4, np.dtype("float32"), False).launches == ()
