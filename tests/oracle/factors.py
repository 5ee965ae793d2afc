"""Compares factors of matrices with recorded ones, as far as mathematics fixes them.

A factorization leaves some of its factors to the library that computes it, and LAPACK chooses by processor. Vectors of
equal singular values or eigenvalues span a space, in which any orthonormal basis will do; vectors of a singular value of
zero need only be orthonormal; a vector may have either sign unless a convention says which. MXNet's convention, which
this library follows, is that the largest component of an eigenvector and of a right singular vector is positive: it says
nothing where two components are equally large.

Everything else is compared: values, products, spaces, orthonormality, triangles, and the signs that are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Factors = Sequence[Array]


def differences(kind: str, actual: Factors, expected: Factors, tolerance: float) -> list[str]:
    """Return what distinguishes the factors of one matrix, or of a stack of them, from the expected ones.

    Parameters
    ----------
    kind
        ``"svd"``: U, S, V with A = U diag(S) V. ``"syevd"``: U, L with A = U^T diag(L) U. ``"gelqf"``: Q, L with A = L Q.
    tolerance
        The error that is allowed, relative to the largest value. What lies within its square root counts as equal when
        it is asked which vectors are fixed: vectors of nearer values are exact to fewer digits than the tolerance.
    """
    forms = [[(array.shape, array.dtype) for array in factors] for factors in (actual, expected)]
    if forms[0] != forms[1]:
        return [f"shapes and dtypes are {forms[0]} instead of {forms[1]}"]
    found = []
    for place in np.ndindex(*expected[0].shape[:-2]):
        mine, theirs = ([array[place].astype(np.float64) for array in factors] for factors in (actual, expected))
        found += [f"matrix {place}: {text}" for text in _CHECKS[kind](mine, theirs, tolerance)]
    return found


def is_fixed(values: Array, rows: Array, tolerance: float) -> bool:
    """Return whether mathematics and the convention fix every vector: no two values are equal, and no sign is open.

    Derivatives of vectors can be compared with recorded ones only then.
    """
    near = tolerance**0.5
    return all([len(group) == 1 for group in _groups(values, near)]) and all([_has_sign(row, near) for row in rows])


def _svd(actual: Factors, expected: Factors, tolerance: float) -> Iterator[str]:
    (left, values, right), (wanted_left, wanted_values, wanted_right) = actual, expected
    largest = np.abs(wanted_values).max(initial=0)
    yield from _different("singular values", values, wanted_values, tolerance * largest)
    yield from _not_orthonormal("columns of U", left.T, tolerance)
    yield from _not_orthonormal("rows of V", right, tolerance)
    for group in _groups(wanted_values, tolerance**0.5):
        if wanted_values[group].max() <= tolerance**0.5 * largest:
            # the other vectors are orthogonal to these: they span what is left, and no more is known
            continue
        product, wanted_product = left[:, group] @ right[group], wanted_left[:, group] @ wanted_right[group]
        yield from _different(f"the product of vectors {group}", product, wanted_product, tolerance)
        yield from _different_spaces(right[group], wanted_right[group], group, tolerance)


def _syevd(actual: Factors, expected: Factors, tolerance: float) -> Iterator[str]:
    (rows, values), (wanted_rows, wanted_values) = actual, expected
    largest = np.abs(wanted_values).max(initial=0)
    yield from _different("eigenvalues", values, wanted_values, tolerance * largest)
    yield from _not_orthonormal("rows of U", rows, tolerance)
    for group in _groups(wanted_values, tolerance**0.5):
        yield from _different_spaces(rows[group], wanted_rows[group], group, tolerance)


def _gelqf(actual: Factors, expected: Factors, tolerance: float) -> Iterator[str]:
    (rows, lower), (wanted_rows, wanted_lower) = actual, expected
    scale = np.abs(wanted_lower).max(initial=0)
    yield from _not_orthonormal("rows of Q", rows, tolerance)
    yield from _different("what is above the diagonal of L", np.triu(lower, 1), np.zeros_like(lower), 0.0)
    yield from _different("L Q", lower @ rows, wanted_lower @ wanted_rows, tolerance * scale)
    for index, wanted in enumerate(wanted_rows):
        if abs(wanted_lower[index, index]) <= tolerance**0.5 * scale:
            # a row that depends on those before it: its vector is free, and so are those after it
            return
        sign = 1 if rows[index] @ wanted > 0 else -1
        yield from _different(f"row {index} of Q, up to its sign", sign * rows[index], wanted, tolerance)


_CHECKS: dict[str, Callable[[Factors, Factors, float], Iterator[str]]] = {
    "svd": _svd,
    "syevd": _syevd,
    "gelqf": _gelqf,
}
KINDS = tuple(_CHECKS)


def _groups(values: Array, near: float) -> list[list[int]]:
    """Return the positions of ordered values, those of equal ones together."""
    limit = near * np.abs(values).max(initial=0)
    groups: list[list[int]] = []
    for index, value in enumerate(values):
        if groups and abs(value - values[index - 1]) <= limit:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _has_sign(row: Array, near: float) -> bool:
    """Return whether the convention fixes the sign of a vector: one component is clearly the largest, or all are."""
    ordered = row[np.argsort(-np.abs(row))]
    rivals = ordered[np.abs(ordered) >= abs(ordered[0]) - near]
    return bool((rivals > 0).all() or (rivals < 0).all())


def _different(name: str, actual: Array, expected: Array, allowed: float) -> Iterator[str]:
    # NaN is not within any distance
    if not (np.abs(actual - expected) <= allowed).all():
        yield f"{name}: {actual.tolist()} instead of {expected.tolist()}"


def _not_orthonormal(name: str, rows: Array, tolerance: float) -> Iterator[str]:
    yield from _different(f"products of {name}", rows @ rows.T, np.eye(len(rows)), tolerance)


def _different_spaces(rows: Array, expected: Array, group: list[int], tolerance: float) -> Iterator[str]:
    """Compare vectors that belong to one value: themselves where that fixes them, else the projectors on their space."""
    if len(group) == 1 and _has_sign(expected[0], tolerance**0.5):
        yield from _different(f"vector {group[0]}", rows[0], expected[0], tolerance)
    else:
        yield from _different(f"the projector on vectors {group}", rows.T @ rows, expected.T @ expected, tolerance)
