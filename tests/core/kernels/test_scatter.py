"""Scatter-add: the same bits whether positions or slices are iterated over, however the work is divided."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.kernels import scatter
from phonograd.core.kernels.scatter import add_onto, add_slices, places

from ..plan.plans import run

#: outer, count, extent, inner: few and many slices for each position, whole vectors and not, one thousand scalars
CASES = [
    (1, 40, 100, 8),
    (2, 40, 100, 17),
    (3, 1, 50, 3),
    (1, 60, 20, 9),
    (2, 7, 1, 8),
    (2, 30, 40, 1),
    (1, 9, 5000, 1),
]


def expected(data: np.ndarray, index: np.ndarray, extent: int) -> np.ndarray:
    """Return the sums: one slice after the other, in double precision, rounded once."""
    wide = np.float64 if data.dtype.kind == "f" else data.dtype
    sums = np.zeros((data.shape[0], extent, data.shape[2]), wide)
    for number, place in enumerate(index):
        sums[:, place] += data[:, number]
    return sums.astype(data.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("sizes", CASES, ids=str)
def test_sums_are_exact_in_order(sizes: tuple[int, int, int, int], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outer, count, extent, inner = sizes
    generator = np.random.default_rng(count)
    data = (10 * generator.normal(size=(outer, count, inner))).astype(dtype)
    index = generator.integers(0, extent, count)
    index[-1] = index[0]
    # scalars take the other way only if they have many positions
    monkeypatch.setattr(scatter, "FEW_PLACES", 16)
    for few_slices in (0, 1 << 30):
        monkeypatch.setattr(scatter, "FEW_SLICES", few_slices)
        plan = add_slices(outer, inner, extent, count, data.dtype)
        for pieces, threads in ((1, 1), (3, 1), (5, 2)):
            found = run(plan, (outer, extent, inner), pieces, threads, data=data, index=index)
            assert found.tobytes() == expected(data, index, extent).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("sizes", [(40, 100, 8), (40, 100, 17), (60, 20, 9), (7, 1, 8), (30, 40, 1)], ids=str)
def test_sums_are_added_to_an_array(sizes: tuple[int, int, int], dtype: str) -> None:
    count, extent, inner = sizes
    generator = np.random.default_rng(count)
    data = (10 * generator.normal(size=(1, count, inner))).astype(dtype)
    old = (10 * generator.normal(size=(extent, inner))).astype(dtype)
    # the sum of nothing is 0, and that of -0 alone as well: -0 becomes 0
    old[0], data[:, 0] = -0.0, -0.0
    index = generator.integers(0, extent, count)
    index[-1] = index[0]
    plan = add_onto(inner, extent, count, data.dtype)
    for pieces, threads in ((1, 1), (3, 1), (5, 2)):
        found = run(plan, (extent, inner), pieces, threads, old=old, data=data, index=index)
        assert found.tobytes() == (old + expected(data, index, extent)[0]).tobytes()


def test_few_slices_of_many_positions_are_not_searched() -> None:
    many, few = (add_slices(1, 8, extent, 10, np.dtype("float32")) for extent in (15, 1000))
    assert many.launches[-1].extent == 15
    # the last launch has an item for each slice; another one clears the output
    assert few.launches[-1].extent == 10
    assert len(few.launches) == len(many.launches) + 1


@pytest.mark.parametrize("extent", [5, 8, 27])
def test_places_of_occurrences(extent: int) -> None:
    index = np.random.default_rng(extent).integers(0, extent, 12)
    last, first = np.full(extent, -1), np.zeros(extent, np.int64)
    for number, place in enumerate(index):
        last[place] = number
        first[place] = first[place] or number + 1
    for which, expected in (("last", last), ("first", first)):
        found = run(places(extent, index.size, which), (extent,), index=index)
        assert found.tobytes() == expected.tobytes()
