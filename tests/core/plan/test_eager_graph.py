"""Values of records in tier 0: computed in the order of the pass, with all that they read."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import order_users_first
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, repeat_call, variable
from phonograd.core.plan.eager_graph import compute_in_order, compute_into

pytestmark = pytest.mark.skipif(
    mx.settings.current().executor == "reference" or importlib.util.find_spec("llvmlite") is None,
    reason="NumPy computes everything",
)


def test_nodes_in_order_and_what_they_read_are_computed() -> None:
    x, w = [leaf(number, (3, 4), FLOAT32) for number in range(2)]
    marked = variable(x, 0)
    # not part of the record
    other = REGISTRY["exp"](w)
    call = REGISTRY["broadcast_mul"](marked, other)
    again = repeat_call(call, 1)
    pieces = REGISTRY["SliceChannel"](again, num_outputs=2, axis=1)
    head = REGISTRY["broadcast_add"](pieces[0], pieces[1])
    leaves = [np.random.default_rng(number).random((3, 4), np.float32) for number in range(2)]
    found: dict[Any, Any] = {}
    compute_in_order(found, order_users_first((head,)), leaves)
    expected: dict[Any, Any] = {}
    compute_into(expected, [head], leaves)
    assert found.keys() == expected.keys()
    np.testing.assert_array_equal(found[head], expected[head])


@pytest.mark.parametrize("is_marked", [True, False])
def test_an_error_names_the_operator(is_marked: bool) -> None:
    x = leaf(0, (2, 3), FLOAT32)
    failing = REGISTRY["exp"](variable(x, 0) if is_marked else x)
    head = REGISTRY["broadcast_mul"](variable(x, 0), failing)
    # an array of numbers that are no numbers
    leaves = [np.array([["a", "b", "c"]] * 2, object)]
    with pytest.raises((MXNetError, TypeError), match="exp"):
        compute_in_order({}, order_users_first((head,)), leaves)


def test_moves_are_functions_of_c() -> None:
    data = np.arange(6).reshape(2, 3)
    moves: dict[str, tuple[Any, ...]] = {
        "_reshape": ((3, 2),),
        "_permute": ((1, 0),),
        "_slice_step": ((0, 2), (2, -1), (1, -1)),
        "_split": ((1,), 1),
    }
    for name, attributes in moves.items():
        declared = REGISTRY[name]
        function = declared.reference(attributes)
        expected = declared.function(data, **dict(zip(declared.parameter_names, attributes, strict=True)))
        for one, other in zip(function(data), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        # no frame of Python is made for it
        assert type(function).__module__ == "operator"
    (whole,) = REGISTRY["_split"].reference(((), 0))(data)
    np.testing.assert_array_equal(whole, data)
