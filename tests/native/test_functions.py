"""Elementary functions and random numbers of kernels, against NumPy in a wider format and the reference generator."""

import numpy as np
import pytest

from phonograd import philox
from phonograd.operator import REGISTRY
from phonograd.operators.structural import leaf

from .programs import run

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-40, 5e-324, 1.0, -1.0, 88.73, 89.0, -103.98, -104.0]
SPECIAL += [-87.5, -100.0, 709.79, 710.0, -745.14, -746.0, -720.0, 9.0, 9.2, 19.0, 19.2, 1e30, -1e30, 0.9999999, 1.0001]


def evaluate(name: str, data: np.ndarray) -> np.ndarray:
    source = leaf(0, data.shape, data.dtype)
    target = REGISTRY[name](source)
    return run([target], {source: data})[target]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "function"), [("exp", np.exp), ("tanh", np.tanh)])
def test_special_arguments(name: str, function: np.ufunc, dtype: type) -> None:
    with np.errstate(all="ignore"):
        data = np.array(SPECIAL, dtype)
        exact = function(data.astype(np.longdouble))
        expected = exact.astype(dtype)
    found = evaluate(name, data)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    finite = np.isfinite(expected)
    assert np.array_equal(found[~finite & ~np.isnan(expected)], expected[~finite & ~np.isnan(expected)])
    spacing = np.spacing(np.abs(expected[finite]))
    assert np.all(np.abs(found[finite] - exact[finite]) <= 1.1 * spacing)
    zero = expected == 0
    assert np.array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "function", "bound"), [("exp", np.exp, 1.1), ("tanh", np.tanh, 1.5)])
def test_errors_are_as_documented(name: str, function: np.ufunc, bound: float, dtype: type) -> None:
    # benchmarks/ulp.py measures this on many more numbers
    generator = np.random.default_rng(0)
    data = np.concatenate([generator.uniform(-20, 20, 50_000), generator.normal(size=50_000)]).astype(dtype)
    exact = function(data.astype(np.longdouble))
    error = np.abs(evaluate(name, data) - exact) / np.spacing(np.abs(exact).astype(dtype))
    assert error.max() <= bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 33, 64, 65, 127, 1000, 4099])
def test_random_numbers_are_those_of_the_reference(size: int, dtype: str) -> None:
    counter = leaf(0, (4,), np.dtype("uint32"))
    words = np.array([0xDEADBEEF, 0xFFFFFFFF, 12345, 0x80000001], np.uint32)
    target = REGISTRY["_uniform01"](counter, shape=(size,), dtype=np.dtype(dtype))
    expected = philox.uniform(words[:2], words[2:], size, np.dtype(dtype))
    assert run([target], {counter: words})[target].tobytes() == expected.tobytes()


def test_random_numbers_fuse_with_what_uses_them() -> None:
    counter, data = leaf(0, (4,), np.dtype("uint32")), leaf(1, (30, 7), np.dtype("float32"))
    other = leaf(2, (4,), np.dtype("uint32"))
    noise = REGISTRY["_uniform01"](counter, shape=(30, 7), dtype=np.dtype("float32"))
    more = REGISTRY["_uniform01"](other, shape=(30, 7), dtype=np.dtype("float32"))
    target = REGISTRY["exp"](data * noise + more)
    first, second = np.array([1, 2, 3, 4], np.uint32), np.array([5, 6, 7, 8], np.uint32)
    values = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
    found = run([target], {counter: first, other: second, data: values})[target]
    drawn = [philox.uniform(w[:2], w[2:], 210, np.dtype("float32")).reshape(30, 7) for w in (first, second)]
    np.testing.assert_allclose(found, np.exp(values * drawn[0] + drawn[1]), rtol=3e-7)
