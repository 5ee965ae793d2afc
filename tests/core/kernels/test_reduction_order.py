"""The order of sums is the documented one: a model of it in NumPy gives the same bits."""

import math

import numpy as np
import pytest

from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import permute
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import assembly

from ..plan.programs import run, same_bits


def _sequence(terms: np.ndarray) -> np.ndarray:
    """Return the sum along the first axis, one term after the other."""
    total = np.zeros(terms.shape[1:], terms.dtype)
    for term in terms:
        total = total + term
    return total


def _blocks(terms: np.ndarray, sizes: tuple[int, ...] = (4096, 64)) -> np.ndarray:
    """Return the sum along the first axis in blocks of blocks."""
    if not sizes:
        return _sequence(terms)
    parts = [_blocks(terms[start : start + sizes[0]], sizes[1:]) for start in range(0, len(terms), sizes[0])]
    return _sequence(np.array(parts)) if parts else np.zeros(terms.shape[1:], terms.dtype)


def _rows(line: np.ndarray) -> np.ndarray:
    """Return the sums along the last axis of sixteen lanes apart, which are the new last axis."""
    padded = np.zeros((*line.shape[:-1], -(-line.shape[-1] // 16) * 16), line.dtype)
    padded[..., : line.shape[-1]] = line
    return _blocks(np.moveaxis(padded.reshape(*line.shape[:-1], -1, 16), -2, 0))


def _join_lanes(lanes: np.ndarray) -> np.ndarray:
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


def ordered_sum(data: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return the sum along axes (dropped from the shape) in the documented order."""
    kept = tuple([extent for axis, extent in enumerate(data.shape) if axis not in axes])
    if data.size == 0:
        return np.zeros(kept, data.dtype)
    runs: list[tuple[bool, int]] = []
    for axis, extent in enumerate(data.shape):
        if extent == 1:
            continue
        if runs and runs[-1][0] == (axis in axes):
            runs[-1] = runs[-1][0], runs[-1][1] * extent
        else:
            runs.append((axis in axes, extent))
    data = data.reshape([extent for _, extent in runs])
    reduced = [axis for axis, (is_reduced, _) in enumerate(runs) if is_reduced]
    if not reduced:
        return data.reshape(kept)
    along_last = reduced[-1] == data.ndim - 1
    total = _nested(data, reduced, along_last)
    return (_join_lanes(total) if along_last else total).reshape(kept)


def _nested(data: np.ndarray, reduced: list[int], along_last: bool) -> np.ndarray:
    """Return the sum along the innermost reduced axis at every position of the outer ones, and these in sequence."""
    moved = np.moveaxis(data, reduced[0], 0)
    if len(reduced) > 1:
        return _sequence(np.array([_nested(part, [a - 1 for a in reduced[1:]], along_last) for part in moved]))
    return _rows(data) if along_last else _blocks(moved)


CASES = [
    ((1,), (0,)),
    ((5,), (0,)),
    ((16,), (0,)),
    ((1000,), (0,)),
    ((1025,), (0,)),
    ((70001,), (0,)),
    ((140000,), (0,)),
    ((3, 1500), (1,)),
    ((1500, 3), (0,)),
    ((9000, 20), (0,)),
    ((1500, 3), (0, 1)),
    ((7, 5, 33), (1,)),
    ((7, 5, 33), (0, 2)),
    ((7, 5, 33), (0, 1)),
    ((4, 1, 6, 1, 19), (0, 2)),
    ((3, 2, 4, 5, 6), (0, 2, 4)),
    ((3, 2, 4, 5, 6), (1, 3)),
    ((2, 70, 3), (1,)),
    ((0, 3), (0,)),
    ((3, 0), (1,)),
    ((0, 3), (1,)),
    ((2, 0, 3), (0, 1)),
    ((3, 0, 2, 5), (1, 3)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axes"), CASES, ids=str)
def test_sums_have_the_documented_order(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    data = np.random.default_rng(math.prod(shape)).normal(size=shape).astype(dtype)
    source = leaf(0, shape, data.dtype)
    target = REGISTRY["_sum_to"](source, shape=tuple([1 if a in axes else n for a, n in enumerate(shape)]))
    expected = ordered_sum(data, axes).reshape(target.shape)
    assert same_bits(run([target], {source: data})[target], expected)


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize(("shape", "axes"), CASES[:12], ids=str)
def test_the_order_does_not_depend_on_the_width_of_vectors(
    shape: tuple[int, ...], axes: tuple[int, ...], lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "lanes_for", lambda dtypes: lanes)
    test_sums_have_the_documented_order(shape, axes, "float32")


def test_the_order_does_not_depend_on_strides() -> None:
    data = np.random.default_rng(0).normal(size=(40, 30, 20)).astype(np.float32)
    source = leaf(0, data.shape, data.dtype)
    for axes in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        moved = permute(source, axes)
        target = REGISTRY["_sum_to"](moved * moved, shape=())
        expected = ordered_sum(np.ascontiguousarray((data * data).transpose(axes)), (0, 1, 2))
        assert same_bits(run([target], {source: data})[target], expected)


def test_integers_are_summed_exactly() -> None:
    data = np.arange(-500, 700, dtype=np.int32).reshape(60, 20)
    source = leaf(0, data.shape, data.dtype)
    target = REGISTRY["_sum_to"](source * source + source, shape=(20,))
    assert np.array_equal(run([target], {source: data})[target], (data * data + data).sum(0))


def test_long_sums_stay_accurate() -> None:
    data = np.random.default_rng(0).random(1 << 22, dtype=np.float32)
    source = leaf(0, data.shape, data.dtype)
    target = REGISTRY["_sum_to"](source, shape=())
    exact = data.sum(dtype=np.float64)
    assert abs(run([target], {source: data})[target] - exact) <= 4 * np.spacing(np.float32(exact))
