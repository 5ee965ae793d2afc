"""Costs: operations and bytes of operators, by closed forms."""

import math

import numpy as np
import pytest

from phonograd.core.derive.costs import Cost, of_call, of_nodes
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf


def flops(name: str, *shapes: tuple[int, ...], dtype: str = "float32", **parameters: object) -> float:
    found = of_call(name, [(shape, dtype) for shape in shapes], parameters)
    assert found is not None
    return found.flops


def test_matrix_products() -> None:
    assert of_call("dot", [((5, 7), "float32"), ((7, 3), "float32")]) == Cost(2 * 5 * 7 * 3, 4 * (35 + 21 + 15))
    assert flops("dot", (7, 5), (7, 3), transpose_a=True) == 2 * 5 * 7 * 3
    assert flops("batch_dot", (4, 5, 7), (4, 7, 3)) == 4 * 2 * 5 * 7 * 3
    assert flops("FullyConnected", (8, 100), (10, 100), (10,), num_hidden=10) == 2 * 8 * 100 * 10 + 8 * 10
    assert flops("FullyConnected", (8, 100), (10, 100), num_hidden=10, no_bias=True) == 2 * 8 * 100 * 10


@pytest.mark.parametrize("groups", [1, 3])
def test_convolution(groups: int) -> None:
    found = flops(
        "Convolution",
        (2, 3, 12, 12),
        (6, 3 // groups, 5, 5),
        kernel=(5, 5),
        num_filter=6,
        num_group=groups,
        no_bias=True,
    )
    assert found == 2 * (2 * 6 * 8 * 8) * (3 // groups * 25)


def test_elementwise_and_reductions() -> None:
    assert flops("broadcast_add", (4, 1), (1, 5)) == 20
    assert flops("sum", (4, 5), axis=0) == 20
    assert flops("sum", (4, 5)) == 20
    assert flops("relu", (4, 5)) == 20
    assert flops("exp", (4, 5)) > 20
    assert flops("softmax", (4, 5)) > flops("exp", (4, 5))
    assert flops("Pooling", (1, 1, 8, 8), kernel=(2, 2), stride=(2, 2), pool_type="max") >= 3 * 16


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [
        ("transpose", (4, 5), {}),
        ("reshape", (4, 5), {"shape": (5, 4)}),
        ("slice_axis", (4, 5), {"axis": 0, "begin": 1, "end": 3}),
        ("broadcast_to", (1, 5), {"shape": (4, 5)}),
        ("BlockGrad", (4, 5), {}),
        ("identity", (4, 5), {}),
        ("im2col", (2, 3, 8, 8), {"kernel": (3, 3)}),
        ("SequenceReverse", (4, 2, 3), {}),
        ("SequenceMask", (4, 2, 3), {}),
        ("_shuffle", (4, 5), {}),
    ],
)
def test_what_only_moves_costs_nothing(name: str, shape: tuple[int, ...], parameters: dict[str, object]) -> None:
    found = of_call(name, [(shape, "float64")], parameters)
    assert found is not None
    assert found.flops == 0
    assert found.moved_bytes > 0
    assert found.intensity == 0


def test_dtype_decides_the_bytes() -> None:
    sizes = [of_call("exp", [((10,), dtype)]) for dtype in ("float16", "float32", "float64")]
    assert [cost.moved_bytes for cost in sizes if cost is not None] == [40, 80, 160]


def test_what_is_unknown_has_no_cost() -> None:
    assert of_call("no such operator", []) is None
    assert of_call("dot", [((3,), "float32"), ((4,), "float32")]) is None
    assert of_call("exp", [((3,), "no such dtype")]) is None
    assert of_call("sum", [((3,), "float32")], {"axis": [0, {}]}) is None


def test_every_operator_of_one_array_has_a_cost() -> None:
    """Every operator that takes one array and needs nothing else has a finite cost."""
    without = []
    for name, declared in REGISTRY.items():
        required = [p for p in declared.parameters if repr(p.default) == "REQUIRED"]
        if declared.required_inputs != 1 or required or name.startswith("_") or declared.variadic:
            continue
        found = of_call(name, [((4, 4), "float32")]) or of_call(name, [((1, 4, 4, 4), "float32")])
        if found is None:
            without.append(name)
        else:
            assert math.isfinite(found.flops), name
            assert found.flops >= 0, name
    assert len(without) < 60, without


def test_kernels_of_many_nodes() -> None:
    first = leaf(0, (4, 5), np.dtype("float32"))
    middle = REGISTRY["relu"](first)
    last = REGISTRY["negative"](middle)
    assert of_nodes([middle, last], [first], [last]) == Cost(40.0, 4 * 40)
