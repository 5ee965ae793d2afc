"""Lookups: points of any dtype are checked and merged, and rows are copied, however the work is divided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base.dtypes import FLOAT32, INT64
from phonograd.core.graph.node import Node
from phonograd.core.kernels.fused.body import FAR_BYTES
from phonograd.core.kernels.launch import Launch, Plan, Reference
from phonograd.core.kernels.positions import merge
from phonograd.core.kernels.structure import ANY, SPLAT, UNIT, Load, Store, Structure, Take
from phonograd.core.run import called
from phonograd.core.run.reference import numpy_function

from ..plan.plans import run

EXTENTS = [(50,), (7, 9), (3, 4, 5)]


def _run(index: np.ndarray, extents: tuple[int, ...], *, pieces: int = 1, threads: int = 1, is_signed: bool = True):
    status = np.zeros(1, np.int64)
    plan = merge(index.dtype, index.shape[1], extents, is_signed=is_signed)
    found = run(plan, index.shape[1:], pieces, threads, np.int64, index=index, status=status)
    return found, bool(status[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
@pytest.mark.parametrize("count", [1, 8, 61])
def test_points_are_merged(extents: tuple[int, ...], count: int, dtype: str) -> None:
    generator = np.random.default_rng(count)
    wanted = np.stack([generator.integers(0, extent, count) for extent in extents])
    index = wanted.copy()
    if dtype != "uint8":
        from_end = generator.random(index.shape) < 0.3
        index = np.where(from_end, index - np.array(extents)[:, None], index)
    flat = np.ravel_multi_index(tuple(wanted), extents)
    for pieces, threads in ((1, 1), (3, 2)):
        found, failed = _run(index.astype(dtype), extents, pieces=pieces, threads=threads)
        assert not failed
        assert found.tobytes() == flat.tobytes()


@pytest.mark.parametrize("place", [0, 7, 8, 60])
@pytest.mark.parametrize("wrong", [9, -10, 2**31 - 1, -(2**31)])
def test_numbers_out_of_range_are_reported(wrong: int, place: int) -> None:
    index = np.zeros((2, 61), np.int64)
    index[1, place] = wrong
    for dtype in ("int32", "int64", "float64"):
        assert _run(index.astype(dtype), (7, 9))[1]


def test_negative_numbers_can_be_out_of_range() -> None:
    index = np.array([[3, -1, 2]])
    assert _run(index, (5,), is_signed=False)[1]
    assert not _run(index, (5,))[1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e30])
def test_no_integers_are_out_of_range(value: float) -> None:
    assert _run(np.array([[0, value]]), (5,))[1]


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_kernels_check_the_indices_of_operators(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, index = mx.nd.arange(12).reshape((3, 4)), mx.nd.array([[2, -3], [3, 0]], dtype=dtype)

    computed: list[str] = []

    def noted(node: Node) -> Callable[..., Any]:
        function = numpy_function(node)

        def call(*arrays: np.ndarray) -> Any:
            computed.append(node.operator.name)
            return function(*arrays)

        return call

    monkeypatch.setattr(called, "numpy_function", noted)
    assert mx.nd.gather_nd(data, index).asnumpy().tolist() == [11, 0]
    assert data[index[0]].asnumpy().tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert mx.nd.scatter_nd(mx.nd.array([5, 6]), index, shape=(3, 4)).asnumpy()[2, 3] == 5
    assert not [name for name in computed if "positions" in name]
    with pytest.raises(IndexError, match=r"index 4 is out of bounds for axis 1 with size 4(?s:.*)test_positions.py"):
        mx.nd.gather_nd(data, mx.nd.array([[0, 1], [3, 4]], dtype=dtype)).asnumpy()


def _rows_kernel(*, zero_first: bool = False) -> Structure:
    take = Take(FLOAT32, UNIT, 0, zero_first=zero_first)
    return Structure("KK", 8, (Load(INT64, SPLAT),), (), (take,), (Store(1, UNIT),))


def test_rows_in_no_order_are_prefetched() -> None:
    assert "call void @llvm.prefetch" in _rows_kernel().write("rows")
    # most of these rows are zeros, and are not read
    assert "@llvm.prefetch" not in _rows_kernel(zero_first=True).write("rows")


@pytest.mark.parametrize("count", [1, 7, 8, 21])
def test_rows_are_copied(count: int) -> None:
    data = np.arange(50 * 11, dtype=np.float32).reshape(50, 11)
    index = np.random.default_rng(count).integers(0, 50, count)
    # two extents, index, data with the stride of its index, out
    words = (count, 11, Reference("index"), 1, 0, Reference("data"), 0, 1, 11, Reference("out"), 11, 1)
    plan = Plan((Launch(_rows_kernel(), words, count),))
    for pieces in (1, 3):
        found = run(plan, (count, 11), pieces, 1, np.float32, index=index, data=data)
        assert found.tobytes() == data[index].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("is_same", [False, True], ids=["other indices", "same indices"])
def test_columns_are_copied(dtype: str, is_far: bool, is_same: bool) -> None:
    # large arrays prefetch the next line, which is no other result
    take = Take(np.dtype(dtype), ANY, 0, is_plain=True)
    structure = Structure("KK", 8, (Load(INT64, UNIT),), (), (take,), (Store(1, UNIT),))
    assert structure.write("columns").count("call void @llvm.prefetch") == 8
    rows, count = 16, 21
    columns = FAR_BYTES // (rows * np.dtype(dtype).itemsize) - (not is_far)
    data = np.arange(rows * columns, dtype=dtype).reshape(rows, columns)
    index = np.random.default_rng(0).integers(0, columns, (1 if is_same else rows, count))
    # two extents, index, data with the stride of its index, out
    words = (rows, count, Reference("index"), 0 if is_same else count, 1, Reference("data"), columns, 0, 1)
    plan = Plan((Launch(structure, (*words, Reference("out"), count, 1), rows),))
    for pieces in (1, 3):
        found = run(plan, (rows, count), pieces, 1, np.dtype(dtype), index=index, data=data)
        assert found.tobytes() == np.take_along_axis(data, np.broadcast_to(index, (rows, count)), 1).tobytes()
