"""Products in plans: sums of products, operands that many share, and launches that run at the same time."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

import phonograd as mx
from phonograd import explain, nd, settings
from phonograd.core.base import processor
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.matmul.amx import MatrixUnit
from phonograd.core.kernels.matmul.bf16_split import Splitting
from phonograd.core.kernels.matmul.gemm import DEPTH, Gemm
from phonograd.core.kernels.matmul.packing import Packing
from phonograd.core.ops.math.primitives import matmul, swap_last
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan import native_program
from phonograd.core.plan.layout import REGION_CHUNKS, Job, jobs_of, regions_of
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import driver, program
from phonograd.core.run.host import host
from phonograd.core.run.reference import resolve

from .programs import Array, RandomProgram, assert_same_bits, programs, run, run_singly

FLOAT32 = np.dtype("float32")


def leaves(*shapes: tuple[int, ...]) -> tuple[list[Node], dict[Node, Array]]:
    """Return leaves of some shapes, and arrays for them."""
    random = np.random.default_rng(0)
    nodes = [leaf(number, shape, FLOAT32) for number, shape in enumerate(shapes)]
    return nodes, {node: random.standard_normal(node.shape).astype(np.float32) for node in nodes}


def recurrent(steps: int, batch: int = 8, width: int = 20) -> tuple[list[Node], dict[Node, Array]]:
    """Return the gradients of a recurrent network's parameters, and arrays for its leaves."""
    shapes = [(batch, width)] * steps + [(width, width)] * 2
    nodes, bindings = leaves(*shapes)
    own, other = [variable(node, number) for number, node in enumerate(nodes[-2:])]
    state = nodes[0]
    for data in nodes[1:steps]:
        state = REGISTRY["tanh"](matmul(data, own) + matmul(state, other))
    gradients = differentiate((state,), (None,)).targets.values()
    return [resolve(node) for node in gradients if node is not None], bindings


def products_of(made: NativeProgram) -> int:
    """Return how many parts of a plan are products."""
    return len(
        [part for part in made.parts if any([isinstance(kernel, (Gemm, MatrixUnit)) for kernel in part.kernels])]
    )


@pytest.mark.parametrize("steps", [2, 3, 7])
def test_gradients_of_shared_parameters_have_the_bits_of_single_operators(steps: int) -> None:
    targets, bindings = recurrent(steps)
    assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})


def test_products_are_added_up_where_they_are_computed() -> None:
    targets, bindings = recurrent(9)
    made = NativeProgram(targets, bindings.__contains__)
    sums = [
        part
        for part in made.parts
        if not any([isinstance(kernel, (Gemm, MatrixUnit)) for kernel in part.kernels])
        and any([node.shape == (20, 20) and node.operator.name == "broadcast_add" for node in part.nodes])
    ]
    assert not sums
    # one for all data; in each step, one forward and two for gradients, and one for the state, but for the first
    assert products_of(made) == 1 + 8 + 8 * 2 + 7


def test_sums_take_the_place_of_what_is_added_to() -> None:
    (x, y, z, w), bindings = leaves((64, 32), (64, 32), (64, 32), (32, 64))
    total = matmul(x, w) + matmul(y, w) + matmul(z, w)
    made = NativeProgram([REGISTRY["tanh"](total)], bindings.__contains__)
    assert made.memory.arena == 64 * 64 * 4


def added(shape: Callable[[Node, Node, Node], Node], *sizes: tuple[int, ...]) -> tuple[NativeProgram, int]:
    (x, y, z), bindings = leaves(*sizes)
    target = shape(x, y, z)
    assert_same_bits(run([target], bindings), {**bindings, **run_singly([target], bindings)})
    made = NativeProgram([target], bindings.__contains__)
    return made, len(made.parts)


def test_what_is_read_elsewhere_is_not_overwritten() -> None:
    # the first product is added to, and is an operand of the second as well
    def twice(x: Node, y: Node, z: Node) -> Node:
        first = matmul(x, y)
        return first + matmul(first, z)

    assert added(twice, (30, 40), (40, 30), (30, 30))[1] == 2

    def shared(x: Node, y: Node, z: Node) -> Node:
        first, second = matmul(x, y), matmul(x, z)
        return (first + second) * second

    added(shared, (30, 40), (40, 30), (40, 30))


def test_long_sums_are_added_by_themselves() -> None:
    made, parts = added(lambda x, y, z: matmul(x, y) + matmul(x, z), (5, DEPTH + 1), (DEPTH + 1, 6), (DEPTH + 1, 6))
    assert (parts, products_of(made)) == (3, 2)
    assert added(lambda x, y, z: matmul(x, y) + matmul(x, z), (5, DEPTH), (DEPTH, 6), (DEPTH, 6))[1] == 2


def test_biases_of_large_results_are_added_by_products() -> None:
    rows = processor.choices().near_bytes // (500 * 4) + 1
    sizes = (rows, 30), (30, 500), (500,)
    assert added(lambda x, y, z: matmul(x, y) + z, *sizes)[1] == (2 if host().matrix_unit else 1)
    # an elementwise kernel adds the bias with the rest, and products of many terms are added up first
    assert added(lambda x, y, z: REGISTRY["tanh"](matmul(x, y) + z), *sizes)[1] == 2
    assert added(lambda x, y, z: matmul(x, y) + z, (rows, DEPTH + 1), (DEPTH + 1, 500), (500,))[1] >= 2


def test_a_transposed_operand_of_many_products_is_copied_once() -> None:
    nodes, bindings = leaves(*[(12, 30)] * 5, (20, 30))
    *rows, weight = nodes
    targets = [matmul(row, swap_last(weight)) for row in rows]
    made = NativeProgram(targets, bindings.__contains__)
    assert len(made.parts) == len(rows) + 1
    assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})


# -- regions


class ReversedRow(driver.Row):
    """A row whose regions run from their last launch to their first."""

    def __init__(self, launches: list[Any], arrays: int, regions: list[int], flag: int = -1) -> None:
        turned, first = [], 0
        for size in regions:
            turned += launches[first : first + size][::-1]
            first += size
        super().__init__(turned, arrays, flag=flag)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(programs())
def test_launches_of_a_region_may_run_in_any_order(random: RandomProgram) -> None:
    expected = run(random.targets, random.bindings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "Row", ReversedRow)
        assert_same_bits(run(random.targets, random.bindings), {**random.bindings, **expected})


def test_regions_of_a_recurrent_network() -> None:
    targets, bindings = recurrent(9)
    with pytest.MonkeyPatch.context() as patch:
        found: list[list[Any]] = []
        patch.setattr(native_program, "jobs_of", lambda *what: found.append(jobs_of(*what)) or found[-1])
        made = NativeProgram(targets, bindings.__contains__)
        expected = run(targets, bindings)
        patch.setattr(program, "Row", ReversedRow)
        assert_same_bits(run(targets, bindings), {**bindings, **expected})
    regions = regions_of(found[0])
    assert len(regions) == len(made.parts)
    assert regions == sorted(regions)
    # the gradients of both parameters and of the state follow from the same value
    assert max([regions.count(number) for number in regions]) >= 3
    assert max(regions) + 1 < len(regions)
    for number in range(max(regions) + 1):
        jobs = [job for job, region in zip(found[0], regions, strict=True) if region == number]
        assert len(jobs) == 1 or sum([job.chunks for job in jobs]) <= REGION_CHUNKS
        for job in jobs:
            others = {node for other in jobs if other is not job and isinstance(other, Job) for node in other.written}
            assert others.isdisjoint([source for source, _ in job.operands.values()])


def test_random_numbers_in_a_loop_over_batches_are_the_same_on_two_threads() -> None:
    def states() -> list[Array]:
        mx.random.seed(3)
        weight = nd.random.normal(0, 0.1, shape=(256, 256))
        state, found = nd.ones((32, 256)), []
        for _ in range(8):
            state = nd.Dropout(nd.tanh(nd.dot(state, weight)), p=0.3, mode="always")
            found.append(state)
        return [each.asnumpy() for each in reversed(found)]

    with settings.override(executor="native", num_threads=1):
        alone = states()
    with settings.override(executor="native", num_threads=2):
        for _ in range(5):
            assert all([np.array_equal(one, other) for one, other in zip(alone, states(), strict=True)])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_no_product_is_left_to_numpy(dtype: str) -> None:
    stack, other = nd.ones((3, 4, 5), dtype=dtype), nd.ones((3, 5, 6), dtype=dtype)
    weight = nd.ones((7, 20), dtype=dtype)
    with settings.override(executor="native"):
        cases = [
            nd.dot(stack[0], other[0]),
            nd.dot(stack[0], stack[1], transpose_b=True),
            nd.dot(stack[0], stack[1], transpose_a=True),
            nd.dot(stack, other[0]),
            nd.dot(stack[0, 0], stack[0, 1]),
            nd.batch_dot(stack, other),
            nd.batch_dot(stack, stack, transpose_a=True),
            nd.batch_dot(stack, stack, transpose_b=True),
            nd.FullyConnected(stack, weight, no_bias=True, num_hidden=7),
        ]
        assert [explain.plan(case).numpy_calls for case in cases] == [0] * len(cases)


def test_gradients_of_transposed_weights_are_computed_as_the_weights_lie() -> None:
    (x, w), bindings = leaves((5, 7), (6, 7))
    weight = variable(w, 0)
    out = REGISTRY["FullyConnected"](x, weight, no_bias=True, num_hidden=6)
    gradient = differentiate((out * out,), (None,)).targets[weight]
    assert gradient is not None
    assert gradient.operator.name == "_matmul"
    # x itself, which was never turned
    assert gradient.inputs[1] is x
    found = run([resolve(gradient)], bindings)[resolve(gradient)]
    expected = 2 * (bindings[x] @ bindings[w].T).T @ bindings[x]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("turned", [False, True])
def test_packed_products_in_plans_have_the_bits_of_single_operators_on_any_number_of_threads(turned: bool) -> None:
    shape = (300, 600) if turned else (600, 300)
    (x, w, v), bindings = leaves(shape, (300, 520), (520, 40))
    weight, other = variable(w, 0), variable(v, 1)
    hidden = REGISTRY["tanh"](matmul(swap_last(x) if turned else x, weight))
    gradients = differentiate((matmul(hidden, other),), (None,)).targets.values()
    targets = [resolve(hidden), *[resolve(node) for node in gradients if node is not None]]
    made = NativeProgram(targets, bindings.__contains__)
    kernels = {type(kernel) for part in made.parts for kernel in part.kernels}
    assert kernels >= ({MatrixUnit, Splitting} if host().matrix_unit else {Gemm, Packing})
    with settings.override(num_threads=1):
        alone = run(targets, bindings)
    with settings.override(num_threads=3):
        assert_same_bits(run(targets, bindings), {**bindings, **alone})
    assert_same_bits(alone, {**bindings, **run_singly(targets, bindings)})


# -- weights that every step of a loop uses


def test_gradients_of_all_steps_are_one_product_where_a_step_is_small() -> None:
    targets, bindings = recurrent(9, batch=4, width=64)
    assert [target.operator for target in targets] == [REGISTRY["_matmul"]] * 2
    assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})
    # two products forward, one backward in each step but the first, and two for all of them
    assert products_of(NativeProgram(targets, bindings.__contains__)) <= 3 * 8 + 2


def test_they_are_the_sum_of_the_products_of_each_step() -> None:
    lengths = (1, 2, 3, 2, 1)
    nodes, bindings = leaves(*[(rows, 40) for rows in lengths], (40, 50), *[(rows, 50) for rows in lengths])
    data, weight, factors = nodes[:5], variable(nodes[5], 0), nodes[6:]
    heads = tuple([matmul(rows, weight) * factor for rows, factor in zip(data, factors, strict=True)])
    (gradient,) = differentiate(heads, (None,) * 5).targets.values()
    assert gradient is not None
    found = run([resolve(gradient)], bindings)[resolve(gradient)]
    exact = sum([bindings[rows].T @ bindings[factor] for rows, factor in zip(data, factors, strict=True)])
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_a_mosaic_of_mosaics_is_written_by_those_who_compute_its_pieces() -> None:
    nodes, bindings = leaves(*[(8, 16)] * 6)
    tanh, concatenate = REGISTRY["tanh"], REGISTRY["_concatenate"]
    rows = [concatenate.apply((tanh(a), a * b), (1,)) for a, b in itertools.pairwise(nodes)]
    whole = concatenate.apply(tuple(rows), (0,))
    weight = leaf(9, (32, 3), FLOAT32)
    bindings[weight] = np.ones((32, 3), np.float32)
    # what reads the rows alone makes them lie in memory too
    targets = [whole, *[matmul(row, weight) for row in rows]]
    assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})
    made = NativeProgram(targets, bindings.__contains__)
    assert len(made.parts) <= 2 * len(rows)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(777, 40, 701), (1024, 400, 512)])
def test_products_are_rounded_in_parts(dtype: str, rows: int, terms: int, columns: int) -> None:
    generator = np.random.default_rng(0)
    a, b = [mx.nd.array(generator.normal(size=size)).astype(dtype) for size in ((rows, terms), (columns, terms))]
    expected = mx.nd.dot(a.astype("float32"), b.astype("float32"), transpose_b=True).astype(dtype).asnumpy()
    with mx.settings.override(tiers="blocking"):
        found = mx.nd.dot(a, b, transpose_b=True)
        report = mx.explain.plan(found)
        assert found.asnumpy().tobytes() == expected.tobytes()
    if host().matrix_unit:
        return
    # no float32 result is in memory
    assert report.result_bytes == rows * columns * 2
    assert "_wide_matmul" not in [value.operator for value in report.stored]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_read_16_bit_numbers_beside_float32(dtype: str) -> None:
    generator = np.random.default_rng(0)
    x = mx.nd.array(generator.normal(size=(9, 300, 200))).astype(dtype)
    w = mx.nd.array(generator.normal(size=(9, 200, 30)))
    wide = x.astype("float32")
    mx.nd.waitall()

    def gradients(data: mx.nd.NDArray) -> list[mx.nd.NDArray]:
        data.attach_grad()
        w.attach_grad()
        with mx.autograd.record():
            y = mx.nd.batch_dot(data.astype("float32"), w)
            loss = (y * y).sum()
        loss.backward()
        return [y, data.grad, w.grad]

    with mx.settings.override(tiers="blocking"):
        expected = [array.asnumpy() for array in gradients(wide)]
        found = gradients(x)
        report = mx.explain.plan(*found)
        y, x_grad, w_grad = [array.asnumpy() for array in found]
    assert y.tobytes() == expected[0].tobytes()
    assert x_grad.tobytes() == mx.nd.array(expected[1]).astype(dtype).asnumpy().tobytes()
    assert w_grad.tobytes() == expected[2].tobytes()
    if not host().matrix_unit:
        # no float32 copy of the first operand
        assert "_cast" not in [value.operator for value in report.stored]
