"""Stacked calls: the bits of the calls one by one."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.eager import function_of
from phonograd.core.plan.eager_launch import Products
from phonograd.core.plan.eager_stacks import call_each, rows_of, stacked_function

pytestmark = pytest.mark.skipif(
    mx.settings.current().executor == "reference" or importlib.util.find_spec("llvmlite") is None,
    reason="NumPy computes everything",
)

#: terms and columns of products: fewer and more than vectors, tiles and blocks of terms have
SIZES = [(1, 1), (7, 9), (64, 1), (128, 256), (513, 40), (2049, 3)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_rows_of_a_product_do_not_depend_on_the_others(dtype: str, is_transposed: bool) -> None:
    draw, function = np.random.default_rng(0), Products(np.dtype(dtype))
    for terms, columns in SIZES:
        matrix = draw.standard_normal((terms, columns)).astype(dtype)
        if is_transposed:
            matrix = np.ascontiguousarray(matrix.T).T
        for rows, count in [(1, 2), (1, 7), (1, 33), (1, 100), (2, 3), (3, 13), (5, 8)]:
            stack = draw.standard_normal((count, rows, terms)).astype(dtype)
            alone = np.stack([function(each, matrix) for each in stack])
            together = function(stack.reshape(-1, terms), matrix).reshape(alone.shape)
            assert alone.tobytes() == together.tobytes(), (terms, columns, rows, count)


CALLS: list[tuple[str, tuple[Any, ...], list[tuple[int, ...]]]] = [
    ("_concatenate", (1,), [(2, 3), (2, 4)]),
    ("_concatenate", (0,), [(2,), (1,), (3,)]),
    ("_split", ((1, 3), 1), [(2, 4)]),
    ("_split", ((2,), 0), [(5,)]),
    ("_reshape", ((3, 2),), [(2, 3)]),
    ("_reshape", ((),), [(1, 1)]),
    ("_permute", ((1, 2, 0),), [(2, 3, 4)]),
    ("_permute", ((1, 0),), [(2, 3)]),
    ("_sum_to", ((3,),), [(1, 3)]),
    ("_sum_to", ((1, 3),), [(4, 3)]),
    ("broadcast_add", (), [(2, 3), (3,)]),
    ("broadcast_mul", (), [(), (2, 3)]),
    ("tanh", (), [(3,)]),
    ("tanh", (), [()]),
    ("_matmul", (), [(2, 3), (3, 5)]),
]


def test_every_stacked_rule_has_a_case() -> None:
    declared = {name for name, each in REGISTRY.items() if each.stacked_rule is not None}
    assert declared <= {name for name, _, _ in CALLS}


@pytest.mark.parametrize(("name", "attributes", "shapes"), CALLS)
def test_stacked_calls_are_the_calls_one_by_one(
    name: str, attributes: tuple[Any, ...], shapes: list[tuple[int, ...]]
) -> None:
    declared, count, draw = REGISTRY[name], 3, np.random.default_rng(1)
    leaves = [leaf(number, shape, np.dtype("float32")) for number, shape in enumerate(shapes)]
    made: Any = declared.apply(tuple(leaves), attributes)
    node = made[0].inputs[0] if isinstance(made, tuple) else made
    function = function_of(node, leaves)
    stacked = stacked_function(declared, attributes, [len(shape) for shape in shapes], len(node.shape), function)
    assert stacked is not None
    for are_stacked in itertools.product([True, False], repeat=len(shapes)):
        arrays = [
            draw.standard_normal((count, *shape) if is_stacked else shape).astype("float32")
            for shape, is_stacked in zip(shapes, are_stacked, strict=True)
        ]
        expected = call_each(function, count, arrays, are_stacked)
        found = stacked(count, arrays, are_stacked)
        if found is None:
            # the caller calls for each element
            continue
        for one, two in zip(*[each if isinstance(each, tuple) else (each,) for each in (found, expected)], strict=True):
            assert one.shape == two.shape
            assert one.dtype == two.dtype
            assert one.tobytes() == two.tobytes()


def test_sums_of_several_elements_are_not_stacked() -> None:
    rule: Any = REGISTRY["_sum_to"].stacked_rule
    assert rule(np.ones((2, 4, 3), "float32"), shape=(1, 3)) is None


def test_elements_without_axes_are_arrays() -> None:
    assert [type(row) for row in rows_of(np.arange(3.0))] == [np.ndarray] * 3
