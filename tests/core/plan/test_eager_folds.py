"""Sums and products of arrays whose shapes are new run at once; functions are made for shapes that come back."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

import numpy as np
import pytest

from phonograd.core.base.dtypes import FLOAT32, FLOAT64, INT32, DType
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.lower.lowering import Reduction, alternatives
from phonograd.core.plan import eager_folds, eager_launch
from phonograd.core.plan.eager_folds import Folds
from phonograd.core.plan.eager_launch import FEW_CALLS, Products

#: names, attributes and shapes; the last shapes are divided among threads, and into parts
SUMS: list[tuple[str, Any, tuple[int, ...]]] = [
    ("_sum_to", ((1, 7),), (5, 7)),
    ("_sum_to", ((7,),), (3, 5, 7)),
    ("_sum_to", ((5, 1),), (5, 7)),
    ("_sum_to", ((),), (5, 7)),
    ("_sum_to", ((5, 7),), (5, 7)),
    ("_largest", ((0, 2),), (3, 5, 7)),
    ("_smallest", ((1,),), (3, 5, 7)),
    ("_product", ((0,),), (3, 5, 7)),
    ("_sum_to", ((300,),), (101, 300)),
    ("_sum_to", ((4, 1),), (4, 9_001)),
    ("_sum_to", ((300,),), (401, 300)),
    ("_sum_to", ((1,),), (70_001,)),
    ("_sum_to", ((0, 1),), (0, 7)),
    ("_sum_to", ((1, 7),), (0, 7)),
]


def _folds(name: str) -> Folds:
    declared = REGISTRY[name]
    lowering = next(each for each in alternatives(declared.lowering) if isinstance(each, Reduction))
    return Folds(declared, lowering)


def _array(shape: tuple[int, ...], dtype: DType = FLOAT32) -> Any:
    found = np.random.default_rng(0).uniform(-2, 2, shape).astype(dtype)
    return found + dtype.type(dtype.kind == "i")


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT32])
@pytest.mark.parametrize(("name", "attributes", "shape"), SUMS)
def test_sums_have_the_same_bits_at_each_call(name: str, attributes: Any, shape: tuple[int, ...], dtype: DType) -> None:
    function = _folds(name).function(attributes)
    array = _array(shape, dtype)
    first, *others = [function(array) for _ in range(FEW_CALLS + 3)]
    expected = REGISTRY[name].reference(attributes)(array) if array.size else np.zeros(first.shape, dtype)
    assert first.shape == expected.shape
    assert first.dtype == dtype
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-3)
    assert [other.tobytes() for other in others] == [first.tobytes()] * len(others)
    # any layout is another way to read the same elements
    assert function(np.asfortranarray(array)).tobytes() == first.tobytes()


def test_an_empty_maximum_is_the_smallest_number() -> None:
    found = _folds("_largest").function(((0,),))(np.zeros((0, 2), np.float32))
    assert found.tolist() == [[-np.inf, -np.inf]]


@pytest.mark.usefixtures("python_functions")
def test_new_shapes_make_no_functions() -> None:
    total = _folds("_sum_to")
    total.function(((1, 1),))(_array((3, 4)))
    with mock.patch.object(eager_folds, "fold", side_effect=AssertionError("a function was made")):
        for rows in range(5, 30):
            assert total.function(((1, 1),))(np.ones((rows, 6), np.float32)).tolist() == [[rows * 6.0]]
        # for sizes that come back, one is made
        for _ in range(FEW_CALLS - 1):
            total.function(((1, 1),))(np.ones((29, 6), np.float32))
        with pytest.raises(AssertionError, match="a function was made"):
            total.function(((1, 1),))(np.ones((29, 6), np.float32))


@pytest.mark.usefixtures("python_functions")
def test_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager_folds, "MOST_SHAPES", 5)
    monkeypatch.setattr(eager_launch, "MOST_SIZES", 5)
    total, product = _folds("_sum_to"), Products(FLOAT32)
    known = product._known
    for number in range(1, 20):
        total.function(((1,),))(_array((number,)))
        product(_array((number, 2)), _array((2, 3)))
        assert 0 < len(total._known) <= 5
        assert 0 < len(known) <= 5


@pytest.mark.parametrize(
    "sizes", [(5, 3, 7), (1, 9, 4), (40, 600, 33), (3, 8, 1), (200, 64, 300), (0, 3, 4), (2, 0, 3)]
)
@pytest.mark.parametrize("swapped", ["", "lhs", "rhs"])
def test_products_have_the_same_bits_at_each_call(sizes: tuple[int, int, int], swapped: str) -> None:
    rows, terms, columns = sizes
    lhs, rhs = _array((terms, rows)).T if swapped == "lhs" else _array((rows, terms)), _array((terms, columns))
    if swapped == "rhs":
        rhs = np.ascontiguousarray(rhs.T).T
    product = Products(FLOAT32)
    with mock.patch.object(eager_launch, "_product", side_effect=AssertionError("a function was made")) as made:
        try:
            first = product(lhs, rhs)
        except AssertionError:
            # it packs an operand
            assert rows >= 96
            assert made.called
            first = Products(FLOAT32)(lhs, rhs)
    others = [product(lhs, rhs) for _ in range(FEW_CALLS + 2)]
    np.testing.assert_allclose(first, lhs @ rhs, rtol=1e-4, atol=1e-3)
    assert [other.tobytes() for other in others] == [first.tobytes()] * len(others)


@pytest.mark.usefixtures("python_functions")
def test_products_of_known_sizes_keep_their_launch() -> None:
    product, lhs, rhs = Products(FLOAT32), _array((5, 7)), _array((7, 3))
    first = product(lhs, rhs)
    with (
        mock.patch.object(eager_launch, "launch_new_product", side_effect=AssertionError("a launch was made")),
        mock.patch.object(eager_launch, "_product", side_effect=AssertionError("a function was made")),
    ):
        for _ in range(FEW_CALLS + 3):
            assert product(lhs, rhs).tobytes() == first.tobytes()
        with pytest.raises(AssertionError, match="a launch was made"):
            product(lhs.T.copy().T, rhs)


def test_threads_launch_one_kernel_with_different_sizes() -> None:
    total, product, wrong = _folds("_sum_to"), Products(FLOAT32), list[Any]()

    def work(first: int) -> None:
        for number in range(first, first + 200, 4):
            ones = np.ones((number, 40), np.float32)
            if total.function(((1, 40),))(ones).tolist() != [[number] * 40]:
                wrong.append(number)
            if (product(ones, ones.T) != 40).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
