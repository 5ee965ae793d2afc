"""The comparison of factors takes any choice that mathematics leaves open, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from .cases import families
from .factors import Array, differences, is_fixed
from .store import Recording
from .tolerance import relative

TOLERANCE = 1e-6


def _orthonormal(size: int, seed: int) -> Array:
    return np.asarray(np.linalg.qr(np.random.RandomState(seed).randn(size, size))[0])


def _turned(vectors: Array, first: int, last: int) -> Array:
    """Return rows of which some are replaced by another basis of the space that they span."""
    turned = vectors.copy()
    turned[first:last] = _orthonormal(last - first, 9) @ vectors[first:last]
    return turned


@pytest.fixture
def singular() -> list[Array]:
    """Return U, S and V of a 6 by 5 matrix with two equal singular values and two that are zero."""
    left, right = _orthonormal(6, 1).T[:5], _orthonormal(5, 2)
    signs = np.sign(right[np.arange(5), np.abs(right).argmax(1)])
    return [(left * signs[:, None]).T, np.array([3.0, 2.0, 2.0, 0.0, 0.0]), right * signs[:, None]]


def _both_turned(factors: list[Array], first: int, last: int) -> list[Array]:
    left, values, right = factors
    return [_turned(left.T, first, last).T, values, _turned(right, first, last)]


def test_bases_of_equal_singular_values_are_free(singular: list[Array]) -> None:
    left, values, right = singular
    assert not differences("svd", singular, singular, TOLERANCE)
    assert not differences("svd", _both_turned(singular, 1, 3), singular, TOLERANCE)
    # where the value is zero, both sides are free by themselves
    assert not differences("svd", [left, values, _turned(right, 3, 5)], singular, TOLERANCE)
    assert not differences("svd", [_turned(left.T, 3, 5).T, values, right], singular, TOLERANCE)


def test_singular_vectors_outside_of_their_space_are_wrong(singular: list[Array]) -> None:
    left, values, right = singular
    assert differences("svd", _both_turned(singular, 0, 2), singular, TOLERANCE)
    assert differences("svd", _both_turned(singular, 2, 4), singular, TOLERANCE)
    # one side alone: its product with the other changes
    assert differences("svd", [left, values, _turned(right, 1, 3)], singular, TOLERANCE)


@pytest.mark.parametrize("part", [0, 1, 2])
@pytest.mark.parametrize("index", [0, 2, 4])
def test_every_element_of_a_singular_value_decomposition_counts(singular: list[Array], part: int, index: int) -> None:
    wrong = [array.copy() for array in singular]
    wrong[part][..., index] += 1e-3
    assert differences("svd", wrong, singular, TOLERANCE)
    wrong[part][..., index] = np.nan
    assert differences("svd", wrong, singular, TOLERANCE)


def test_signs_are_fixed_by_the_largest_component(singular: list[Array]) -> None:
    left, values, right = singular
    flip = np.array([-1.0, 1, 1, 1, 1])
    assert differences("svd", [left * flip, values, right * flip[:, None]], singular, TOLERANCE)
    assert differences("svd", [left * flip, values, right], singular, TOLERANCE)


def test_signs_are_free_where_two_components_are_equally_large() -> None:
    half = 0.5**0.5
    right = np.array([[half, -half], [half, half]])
    factors = [np.eye(2), np.array([2.0, 1.0]), right]
    assert not differences("svd", [np.diag([-1.0, 1.0]), factors[1], right * [[-1.0], [1.0]]], factors, TOLERANCE)
    # but the signs of both sides belong together, and where both components have one sign it is fixed
    assert differences("svd", [np.eye(2), factors[1], right * [[-1.0], [1.0]]], factors, TOLERANCE)
    assert differences("svd", [np.diag([1.0, -1.0]), factors[1], right * [[1.0], [-1.0]]], factors, TOLERANCE)
    assert not is_fixed(factors[1], right, TOLERANCE)
    assert is_fixed(factors[1], np.eye(2), TOLERANCE)
    assert not is_fixed(np.ones(2), np.eye(2), TOLERANCE)


def test_eigenvectors() -> None:
    rows = _orthonormal(4, 3)
    rows *= np.sign(rows[np.arange(4), np.abs(rows).argmax(1)])[:, None]
    factors = [rows, np.array([-1.0, 0.0, 0.0, 5.0])]
    assert not differences("syevd", [_turned(rows, 1, 3), factors[1]], factors, TOLERANCE)
    assert differences("syevd", [_turned(rows, 0, 2), factors[1]], factors, TOLERANCE)
    assert differences("syevd", [rows[::-1], factors[1]], factors, TOLERANCE)
    assert differences("syevd", [-rows, factors[1]], factors, TOLERANCE)
    assert differences("syevd", [rows, factors[1] + 1e-3], factors, TOLERANCE)
    assert differences("syevd", [rows * [[1.0], [1.001], [1.0], [1.0]], factors[1]], factors, TOLERANCE)


def test_triangular_factors() -> None:
    rows = _orthonormal(4, 4)[:3]
    lower = np.tril(np.random.RandomState(5).randn(3, 3)) + 3 * np.eye(3)
    signs = np.array([1.0, -1.0, -1.0])
    assert not differences("gelqf", [rows * signs[:, None], lower * signs], [rows, lower], TOLERANCE)
    assert differences("gelqf", [rows * signs[:, None], lower], [rows, lower], TOLERANCE)
    turn = _orthonormal(3, 6)
    assert differences("gelqf", [turn @ rows, lower @ turn.T], [rows, lower], TOLERANCE)
    # a second row that is a multiple of the first leaves the second and the third vector open, but not the product
    lower = np.array([[1.0, 0, 0], [2, 0, 0], [1, 0, 0]])
    assert not differences("gelqf", [_turned(rows, 1, 3), lower], [rows, lower], TOLERANCE)
    assert differences("gelqf", [_turned(rows, 0, 2), lower], [rows, lower], TOLERANCE)


def test_shapes_dtypes_and_every_matrix_of_a_stack_count(singular: list[Array]) -> None:
    stack = [np.stack([array, array]) for array in singular]
    assert not differences("svd", stack, stack, TOLERANCE)
    wrong = [stack[0], stack[1] + [[0.0], [1.0]], stack[2]]
    assert all(text.startswith("matrix (1,): ") for text in differences("svd", wrong, stack, TOLERANCE))
    assert differences("svd", wrong, stack, TOLERANCE)
    assert differences("svd", singular, stack, TOLERANCE)
    assert differences("svd", [array.astype(np.float32) for array in singular], singular, TOLERANCE)


def test_recorded_derivatives_are_those_of_eigenvectors_that_are_fixed() -> None:
    recording = Recording("linalg")
    cases = [case for case in families()["linalg"] if case.call.endswith("syevd")]
    assert cases
    for case in cases:
        rows, values = recording.outcome(case.name).outputs
        for place in np.ndindex(*values.shape[:-1]):
            assert is_fixed(values[place], rows[place], relative(values.dtype, case.tolerance)), case.name
