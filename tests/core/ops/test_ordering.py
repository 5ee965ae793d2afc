"""The first elements of long lines are found without sorting all, and are those of a stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.ops.reduce import ordering


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("values", [3, 50, 100_000])
@pytest.mark.parametrize(("shape", "axis"), [((600,), 0), ((3, 600), 1), ((600, 2), 0), ((2, 700, 2), 1)])
def test_few_of_many_are_those_of_a_stable_sort(
    shape: tuple[int, ...], axis: int, values: int, ascending: bool
) -> None:
    draw = np.random.RandomState(values)
    for count, unknown in ((1, 0), (9, 1), (70, 40), (75, 400)):
        data = draw.randint(0, values, shape).astype("float32")
        data.flat[draw.randint(0, data.size, unknown)] = np.nan
        whole = ordering._sorted_indices(data, axis, ascending)
        expected = np.take(whole, np.arange(count), axis=axis)
        np.testing.assert_array_equal(ordering._first_indices(data, axis, count, ascending), expected)
