"""Factorizations: right for every size around the edges of blocks, with the same bits however the work is divided."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.factor.plans import plan, rule
from phonograd.core.kernels.target import Machine
from phonograd.core.ops.math.structural import leaf

from ..plan.plans import GUARD, compiled, guarded

MACHINES = [Machine(16, 16), Machine(32, 16), Machine(64, 32)]
#: around vectors, groups of rows, small matrices and halves of larger ones
SIZES = [1, 2, 3, 5, 8, 16, 17, 33, 63, 64, 65, 97, 130, 200]


def matrices(size: int, dtype: str, count: int = 3) -> np.ndarray:
    """Return well conditioned matrices without structure, whose rows must be exchanged."""
    generator = np.random.default_rng(size)
    found = generator.normal(size=(count, size, size)) / np.sqrt(size)
    return (found + 3 * np.eye(size)[::-1]).astype(dtype)


def definite(size: int, dtype: str, count: int = 3) -> np.ndarray:
    """Return symmetric positive definite matrices."""
    factor = matrices(size, "float64", count)
    return (factor @ np.swapaxes(factor, -1, -2) + np.eye(size)).astype(dtype)


def node_of(name: str, arrays: list[np.ndarray], **parameters: Any) -> Node:
    """Return the node of a call of an operator."""
    leaves = [leaf(number, array.shape, array.dtype) for number, array in enumerate(arrays)]
    found: Any = REGISTRY[name](*leaves, **parameters)
    return found[0].inputs[0] if isinstance(found, tuple) else found


def run(
    name: str, routine: str, arrays: list[np.ndarray], machine: Machine, pieces: int = 1, **parameters: Any
) -> tuple[dict[str, np.ndarray], bool]:
    """Return what the kernels of an operator write, and whether one failed; nothing around the arrays may change."""
    node = node_of(name, arrays, **parameters)
    made = plan(node, routine, machine, node.operator.accepted(rule(routine), node.attributes))
    written = {result: guarded(shape, dtype, 0xFF) for result, shape, dtype in made.results}
    written["scratch"] = guarded((made.plan.scratch_bytes,), np.uint8, 0xFF)
    status = np.zeros(1, np.int64)
    given = dict(zip(node.operator.input_names, [np.ascontiguousarray(array) for array in arrays], strict=True))
    everything = {**given, **{key: array for key, (array, _) in written.items()}, "status": status}
    bases = (ctypes.c_void_p * len(everything))(*[array.ctypes.data for array in everything.values()])
    places = {key: (number, 0) for number, key in enumerate(everything)}
    for launch in made.plan.launches:
        function, table = compiled(launch), np.array(launch.table(places), np.int64)
        step = max(1, -(-launch.extent // pieces))
        for start in reversed(range(0, launch.extent, step)):
            stop = min(start + step, launch.extent)
            function(table.ctypes.data, ctypes.addressof(bases), start, stop)
    for key, (_, around) in written.items():
        assert np.all(around[:GUARD] == 0xFF), f"{key}: written before the beginning"
        assert np.all(around[-GUARD:] == 0xFF), f"{key}: written beyond the end"
    return {key: array for key, (array, _) in written.items()}, bool(status[0])


def close(found: np.ndarray, expected: np.ndarray, size: int) -> None:
    """Check results of well conditioned matrices."""
    bound = 40 * np.sqrt(size) * np.finfo(found.dtype).eps * max(1.0, np.abs(expected).max())
    assert np.abs(found - expected).max() < bound


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_cholesky_factors(size: int, dtype: str) -> None:
    data = definite(size, dtype)
    # only the lower triangle is read
    dirty = data + np.triu(np.full((size, size), np.nan, dtype), 1)
    found, failed = run("_linalg_potrf", "potrf", [dirty], MACHINES[1])
    assert not failed
    close(found["out"], np.linalg.cholesky(data.astype("float64")), size)
    assert not np.triu(found["out"], 1).any()
    inverse, _ = run("_linalg_potri", "potri", [found["out"]], MACHINES[1])
    close(inverse["out"], np.linalg.inv(data.astype("float64")), size)
    assert np.array_equal(inverse["out"], np.swapaxes(inverse["out"], -1, -2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_systems_inverses_and_determinants(size: int, dtype: str) -> None:
    data, exact = matrices(size, dtype), matrices(size, dtype).astype("float64")
    right = np.random.default_rng(1).normal(size=(3, size, 5)).astype(dtype)
    solved, failed = run("_npi_solve", "solve", [data, right], MACHINES[1])
    assert not failed
    close(solved["out"], np.linalg.solve(exact, right), size)
    close(run("_linalg_inverse", "inverse", [data], MACHINES[1])[0]["out"], np.linalg.inv(exact), size)
    found = run("_linalg_slogdet", "slogdet", [data], MACHINES[1])[0]
    sign, logarithm = np.linalg.slogdet(exact)
    assert np.array_equal(found["sign"], sign)
    close(found["out"], logarithm, size * size)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("rightside", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("size", [3, 16, 70, 131])
def test_triangular_systems(size: int, transpose: bool, rightside: bool, lower: bool) -> None:
    factor = np.linalg.cholesky(definite(size, "float64"))
    exact = factor if lower else np.swapaxes(factor, -1, -2).copy()
    other = np.full((size, size), np.nan)
    dirty = exact + (np.triu(other, 1) if lower else np.tril(other, -1))
    matrix = np.swapaxes(exact, -1, -2) if transpose else exact
    for count in (1, 9, 40):
        right = np.random.default_rng(2).normal(size=(3, count, size) if rightside else (3, size, count))
        expected = right @ np.linalg.inv(matrix) if rightside else np.linalg.inv(matrix) @ right
        flags = {"transpose": transpose, "rightside": rightside, "lower": lower, "alpha": 2.0}
        close(run("_linalg_trsm", "trsm", [dirty, right], MACHINES[1], **flags)[0]["out"], 2 * expected, size)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("rightside", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("size", [3, 200])
def test_triangular_products(size: int, transpose: bool, rightside: bool, lower: bool) -> None:
    data = np.random.default_rng(size).normal(size=(2, size, size))
    exact = np.tril(data) if lower else np.triu(data)
    other = np.full((size, size), np.nan)
    dirty = exact + (np.triu(other, 1) if lower else np.tril(other, -1))
    matrix = np.swapaxes(exact, -1, -2) if transpose else exact
    right = np.random.default_rng(2).normal(size=(2, 9, size) if rightside else (2, size, 9))
    flags = {"transpose": transpose, "rightside": rightside, "lower": lower}
    found, _ = run("_triangular_product", "triangular_product", [dirty, right], MACHINES[1], **flags)
    close(found["out"], right @ matrix if rightside else matrix @ right, size)


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("shape", [(3, 5), (200, 7), (130, 300), (4, 0)])
def test_symmetric_products(shape: tuple[int, int], transpose: bool) -> None:
    data = np.random.default_rng(3).normal(size=(2, *(shape[::-1] if transpose else shape)))
    found, _ = run("_symmetric_product", "symmetric_product", [data], MACHINES[1], transpose=transpose)
    other = np.swapaxes(data, -1, -2)
    close(found["out"], other @ data if transpose else data @ other, max(shape))
    assert np.array_equal(found["out"], np.swapaxes(found["out"], -1, -2))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose_b", [True, False])
@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("size", [3, 200])
def test_triangles_of_products(size: int, transpose_a: bool, transpose_b: bool, lower: bool) -> None:
    left, right = np.random.default_rng(size).normal(size=(2, 2, size, size + 4))
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b, "lower": lower, "late": False}
    half = np.tril if lower else np.triu
    given = [np.swapaxes(left, -1, -2) if transpose_a else left, right if transpose_b else np.swapaxes(right, -1, -2)]
    found, _ = run("_product_triangle", "product_triangle", given, MACHINES[1], **flags)
    close(found["out"], half(left @ np.swapaxes(right, -1, -2)), size)
    # the zeros of a triangular operand are left out
    square = np.ascontiguousarray(np.triu(left[..., :size]))
    given = [np.swapaxes(square, -1, -2) if transpose_a else square, right[..., :size]]
    if not transpose_b:
        given[1] = np.swapaxes(given[1], -1, -2)
    found, _ = run("_product_triangle", "product_triangle", given, MACHINES[1], **{**flags, "late": True})
    close(found["out"], half(square @ np.swapaxes(right[..., :size], -1, -2)), size)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [7, 70])
def test_bits_depend_on_neither_the_processor_nor_the_division_of_work(size: int, dtype: str) -> None:
    right = np.random.default_rng(3).normal(size=(3, size, 21)).astype(dtype)
    calls: list[tuple[str, str, list[np.ndarray], tuple[str, ...]]] = [
        ("_linalg_potrf", "potrf", [definite(size, dtype)], ("out",)),
        ("_linalg_potri", "potri", [np.linalg.cholesky(definite(size, dtype))], ("out",)),
        ("_linalg_trsm", "trsm", [matrices(size, dtype)[:, ::-1], right], ("out",)),
        ("_npi_solve", "solve", [matrices(size, dtype), right], ("out",)),
        ("_linalg_inverse", "inverse", [matrices(size, dtype)], ("out",)),
        ("_linalg_slogdet", "slogdet", [matrices(size, dtype)], ("out", "sign")),
    ]
    wide = np.random.default_rng(4).normal(size=(3, size + 130, 21)).astype(dtype)
    products: list[tuple[str, list[np.ndarray]]] = [
        ("_symmetric_product", []),
        ("_triangular_product", [wide]),
        ("_product_triangle", [definite(size + 130, dtype)]),
    ]
    flags: dict[str, dict[str, bool]] = {
        "_symmetric_product": {"transpose": False},
        "_triangular_product": {"transpose": True, "rightside": False, "lower": True},
        "_product_triangle": {"transpose_a": True, "transpose_b": False, "lower": True, "late": True},
    }
    calls += [(name, name[1:], [matrices(size + 130, dtype), *more], ("out",)) for name, more in products]
    for name, routine, arrays, results in calls:
        parameters = flags.get(name, {})
        expected = run(name, routine, arrays, MACHINES[0], **parameters)[0]
        for machine, pieces in [(MACHINES[0], 7), (MACHINES[1], 1), (MACHINES[1], 3), (MACHINES[2], 2)]:
            found = run(name, routine, arrays, machine, pieces, **parameters)[0]
            for result in results:
                assert found[result].tobytes() == expected[result].tobytes(), (name, machine, pieces)


@pytest.mark.parametrize("size", [1, 4, 9, 64, 65])
def test_a_matrix_without_a_factorization_is_reported(size: int) -> None:
    for value in (-1.0, 0.0, np.nan, np.inf):
        data = definite(size, "float32")
        data[1, size - 1, size - 1] = value
        found, failed = run("_linalg_potrf", "potrf", [data], MACHINES[1])
        assert failed
        assert np.isnan(found["out"][1, -1, -1])
        assert np.isfinite(found["out"][[0, 2]]).all()
    data = matrices(size, "float32")
    data[2, :, size // 2] = 0
    found, failed = run("_linalg_det", "det", [data], MACHINES[1])
    assert failed
    assert found["out"][2] == 0
    assert found["out"][:2].all()


@pytest.mark.parametrize("size", [1, 3, 8, 13, 65])
def test_nan_moves_no_row_out_of_the_matrix(size: int) -> None:
    data = np.full((2, size, size), np.nan, "float32")
    found = run("_linalg_inverse", "inverse", [data], MACHINES[1])[0]
    assert np.isnan(found["out"]).any()
    assert found["pivots"].min() >= 0
    assert found["pivots"].max() < size


def test_equal_pivots_take_the_first_row() -> None:
    data = np.array([[[0.0, 1.0, 2.0], [-2.0, 1.0, 0.0], [2.0, 3.0, 1.0]]])
    found = run("_linalg_slogdet", "slogdet", [data], MACHINES[1])[0]
    assert found["pivots"].tolist() == [[1, 2, 2]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 8, 17, 24, 32])
def test_matrices_of_a_stack_have_the_bits_of_single_ones(size: int, dtype: str) -> None:
    data = matrices(size, dtype, 11)
    # equal pivots, no pivot, and numbers that are not finite
    data[2], data[4, :, 0], data[6, size // 2, 0], data[7] = 3, 0, np.inf, np.nan
    data[3] = np.round(data[3])
    for machine in MACHINES[:2]:
        found, failed = run("_linalg_inverse", "inverse", [data], machine, pieces=2)
        alone = [run("_linalg_inverse", "inverse", [data[place]], machine) for place in range(len(data))]
        assert failed
        assert any([one_failed for _, one_failed in alone])
        for place, (one, _) in enumerate(alone):
            for key, width in (("out", size), ("lu", size), ("pivots", size)):
                assert np.array_equal(found[key][place, ..., :width], one[key][..., :width], equal_nan=True), (
                    place,
                    key,
                )
