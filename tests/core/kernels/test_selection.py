"""Selection: the same positions as a stable sort of NumPy gives, however the work is divided."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.kernels.selection import is_selected, select
from phonograd.core.ops.reduce.ordering import _order

from ..plan.plans import run

#: outer extent, extent, inner extent, and elements to select: all, one, less and more than a vector
CASES = [
    (1, 1, 1, 1),
    (1, 1000, 1, 30),
    (3, 40, 1, 40),
    (2, 37, 5, 7),
    (9, 16, 1, 2),
    (2, 65, 3, 1),
    (1, 33, 1, 16),
    (3, 200, 1, 64),
]


def _values(sizes: tuple[int, ...], dtype: str, distinct: int) -> np.ndarray:
    data = np.random.default_rng(sum(sizes)).integers(0, distinct, sizes).astype(dtype)
    if data.dtype.kind == "f" and data.size > 8:
        data.flat[:: max(3, data.size // 5)] = np.nan
        data.flat[5], data.flat[6], data.flat[7] = -0.0, np.inf, -np.inf
    elif data.size > 8:
        limits = np.iinfo(data.dtype)
        data.flat[:: max(3, data.size // 5)], data.flat[5] = limits.min, limits.max
    return data


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32"])
@pytest.mark.parametrize("sizes", CASES, ids=str)
def test_positions_are_those_of_a_stable_sort(sizes: tuple[int, int, int, int], dtype: str, ascending: bool) -> None:
    outer, extent, inner, count = sizes
    for distinct in (2, 100):
        data = _values((outer, extent, inner), dtype, distinct)
        expected = _order.reference((1, count, ascending))(data)
        made = select(outer, extent, inner, count, data.dtype, ascending)
        for pieces, threads in ((1, 1), (3, 1), (7, 2)):
            found = run(made, (outer, count, inner), pieces, threads, "int64", data=data)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("ascending", [False, True])
def test_a_line_of_nan_keeps_its_order(ascending: bool) -> None:
    data = np.full((1, 50, 1), np.nan, np.float32)
    made = select(1, 50, 1, 6, data.dtype, ascending)
    found = run(made, (1, 6, 1), 1, 1, "int64", data=data)
    np.testing.assert_array_equal(found.ravel(), np.arange(6))


@pytest.mark.parametrize("direction", [1, -1])
def test_sorted_lines_are_the_worst_case(direction: int) -> None:
    data = np.arange(3000, dtype=np.float32)[None, ::direction, None].copy()
    made = select(1, 3000, 1, 20, data.dtype, False)
    found = run(made, (1, 20, 1), 1, 1, "int64", data=data).ravel()
    np.testing.assert_array_equal(data.ravel()[found], np.arange(2999, 2979, -1))


def test_numpy_selects_many_elements() -> None:
    assert is_selected(64, 64, 64)
    assert not is_selected(4000, 65, 4000)
    assert not is_selected(4000, 0, 4000)
    assert not is_selected(64, 3, 0)
