"""Batches in plans: products by one matrix are one product, with the bits of the products one by one."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pytest

from phonograd import explain, nd, settings
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, single
from phonograd.core.kernels.matmul.amx import MatrixUnit
from phonograd.core.kernels.matmul.gemm import Gemm
from phonograd.core.ops.math.primitives import matmul, swap_last
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import batches, eager_batches
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.trace.novelty import NOVELTY

from .programs import Array, assert_same_bits, run

_TANH = REGISTRY["tanh"]


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> tuple[list[Node], dict[Node, Array]]:
    """Return leaves of some shapes, and values for them."""
    draw = np.random.default_rng(0)
    nodes = [leaf(number, shape, np.dtype(dtype)) for number, shape in enumerate(shapes)]
    return nodes, {node: draw.standard_normal(node.shape).astype(dtype) for node in nodes}


def products_of(targets: list[Node], values: dict[Node, Array]) -> int:
    """Return how many products a plan launches."""
    kernels = [kernel for part in NativeProgram(targets, values.__contains__).parts for kernel in part.kernels]
    return len([kernel for kernel in kernels if isinstance(kernel, Gemm | MatrixUnit)])


def assert_bits_of_single_products(targets: list[Node], values: dict[Node, Array]) -> None:
    """Assert that a plan with batches has the bits of one without."""
    with mock.patch.object(batches, "FEW_ROWS", 0), mock.patch.object(batches, "FEW_ROWS_OF_LARGE", 0):
        alone = run(targets, values)
    assert_same_bits(run(targets, values), alone)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_independent_products_by_one_matrix_are_one(dtype: str, is_transposed: bool) -> None:
    # with different numbers of rows, too
    shapes = [(rows, 40) for rows in (1, 1, 3, 2, 8, 1)]
    (matrix, *data), values = arrays((30, 40) if is_transposed else (40, 30), *shapes, dtype=dtype)
    by = swap_last(matrix) if is_transposed else matrix
    targets = [_TANH(matmul(each, by)) for each in data]
    assert products_of(targets, values) == 1
    assert_bits_of_single_products(targets, values)


def test_products_that_are_results_or_given_are_right() -> None:
    (matrix, *data), values = arrays((12, 9), *[(1, 12)] * 5)
    products = [matmul(each, matrix) for each in data]
    assert products_of(products, values) == 1
    assert_bits_of_single_products([*products, _TANH(products[2])], values)
    values[products[1]] = run([products[1]], values)[products[1]]
    assert_bits_of_single_products([_TANH(each) for each in products], values)


def test_products_of_many_rows_stay_alone() -> None:
    (matrix, *data), values = arrays((12, 9), *[(batches.FEW_ROWS + 1, 12)] * 5)
    assert products_of([matmul(each, matrix) for each in data], values) == 5


def test_products_that_depend_on_each_other_stay_apart() -> None:
    (matrix, first, other), values = arrays((16, 16), (1, 16), (1, 16))
    for _ in range(4):
        first = _TANH(matmul(first, matrix))
    # one of the four can wait for this one, or this one for it
    targets = [first, matmul(_TANH(matmul(other, matrix)), matrix)]
    assert products_of(targets, values) == 4
    assert_bits_of_single_products(targets, values)


def test_products_wait_for_others_by_their_matrix() -> None:
    """The last product of each step waits for all steps: nothing else does."""
    (own, out, state, *data), values = arrays((16, 16), (16, 5), (1, 16), *[(1, 16)] * 6)
    states = []
    for each in data:
        state = _TANH(matmul(state, own) + each)
        states.append(matmul(state, out))
    assert products_of(states, values) == 6 + 1
    assert_bits_of_single_products(states, values)


def test_a_batch_has_a_largest_size() -> None:
    (matrix, *data), values = arrays((12, 9), *[(8, 12)] * 100)
    with mock.patch.object(batches, "MOST_ROWS", 320):
        assert products_of([_TANH(matmul(each, matrix)) for each in data], values) == 3


def test_memory_does_not_grow_with_batches() -> None:
    """Inputs are copied to be together; in turn, the values of single products need no memory."""
    (first, second, *data), values = arrays((64, 64), (64, 64), *[(1, 64)] * 64)
    targets = [matmul(_TANH(matmul(each, first)), second) for each in data]
    made = NativeProgram(targets, values.__contains__)
    with mock.patch.object(batches, "FEW_ROWS", 0):
        alone = NativeProgram(targets, values.__contains__)
    assert made.memory.total <= alone.memory.total + 64 * 64 * 4


def test_no_batches_under_a_memory_limit() -> None:
    (matrix, *data), values = arrays((12, 9), *[(1, 12)] * 5)
    with settings.override(memory_limit_bytes=1 << 30):
        assert products_of([_TANH(matmul(each, matrix)) for each in data], values) == 5


@pytest.mark.parametrize("seed", range(5))
def test_random_programs_have_the_bits_of_single_products(seed: int) -> None:
    chance = random.Random(seed)
    nodes, values = arrays(*[(8, 8)] * 3, *[(rows, 8) for rows in (1, 1, 1, 2, 2, 5, 9)])
    matrices, known = nodes[:3], nodes[3:]
    operators = [_TANH, REGISTRY["broadcast_add"], REGISTRY["broadcast_mul"]]
    for _ in range(40):
        node = chance.choice(known)
        kind = chance.randrange(6)
        if kind < 3:
            made = matmul(node, chance.choice([matrices[0], matrices[1], swap_last(matrices[2])]))
        elif kind == 3:
            other = chance.choice([each for each in known if each.shape == node.shape])
            made = single(chance.choice(operators[1:]).apply((node, other), ()))
        elif kind == 4:
            made = single(_TANH.apply((node,), ()))
        else:
            made = single(REGISTRY["_concatenate"].apply((node, chance.choice(known)), (0,)))
        if made.shape[0] <= 12:
            known.append(made)
    targets = [node for node in chance.sample(known[7:], 8) if node not in values]
    assert_bits_of_single_products(targets, values)


@pytest.mark.skipif(settings.current().executor == "reference", reason="NumPy computes everything")
def test_a_loop_over_examples_is_planned_as_one_product_for_each_layer() -> None:
    first, second = nd.random.normal(shape=(16, 12)), nd.random.normal(shape=(3, 16))
    data = [nd.random.normal(shape=(1, 12)) for _ in range(10)]
    nd.waitall()
    with settings.override(tiers="plan"), explain.plans() as log:
        for each in [
            nd.FullyConnected(
                nd.relu(nd.FullyConnected(one, first, no_bias=True, num_hidden=16)), second, no_bias=True, num_hidden=3
            )
            for one in data
        ]:
            each.wait_to_read()
    products = [kernel for report in log.reports for kernel in report.kernels if "_matmul" in kernel.operators]
    assert sum([kernel.times for kernel in products]) == 2


# -- graphs that are new


def _loop_over_examples(number: int, count: int = 40) -> list[Array]:
    """Return what a network of another width returns for each of some examples, and what it branches on."""
    width = 10 + number
    first, second = nd.ones((width, 12)) * 0.1, nd.ones((3, width)) * 0.2
    found = []
    for place in range(count):
        data = nd.arange(12).reshape((1, 12)) * (0.01 * place)
        hidden = nd.tanh(nd.FullyConnected(data, first, no_bias=True, num_hidden=width))
        out = nd.FullyConnected(hidden, second, no_bias=True, num_hidden=3)
        found += [out, nd.concat(*nd.split(out, num_outputs=3, axis=1)[1:], dim=1), (out * out).sum()]
    return [each.asnumpy() for each in found]


@pytest.mark.skipif(settings.current().executor == "reference", reason="NumPy computes everything")
def test_new_graphs_run_in_batches_with_the_bits_of_single_operators() -> None:
    runs: list[int] = []
    whole = eager_batches.Batches.compute

    def compute(self: eager_batches.Batches, known: object) -> None:
        runs.append(len(self.groups))
        whole(self, known)  # type: ignore[arg-type]

    with settings.override(tiers="background"), mock.patch.object(eager_batches.Batches, "compute", compute):
        for number in range(2):
            NOVELTY.forget()
            eager_batches._policy.note(True)
            begin = len(runs)
            together = _loop_over_examples(number)
            # the graph of all examples is one program
            assert len(runs) == begin + 1
            with mock.patch.object(eager_batches, "LEAST_NODES", 1 << 30), settings.override(tiers="plan"):
                alone = _loop_over_examples(number)
            assert len(runs) == begin + 1
            assert [each.tobytes() for each in together] == [each.tobytes() for each in alone]


@pytest.mark.skipif(settings.current().executor == "reference", reason="NumPy computes everything")
def test_operators_that_fail_in_batches_fail_alone() -> None:
    with mock.patch.object(eager_batches.Batches, "compute", side_effect=ValueError("stacks")) as compute:
        NOVELTY.forget()
        eager_batches._policy.note(True)
        found = _loop_over_examples(50)
    assert compute.called
    assert all([np.isfinite(each).all() for each in found])
