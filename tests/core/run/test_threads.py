"""Results do not depend on the number of threads, nor on how work is divided among them."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

import phonograd as mx
from phonograd import settings
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.matmul import tasks
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import assembly, loops, partition
from phonograd.core.plan.cache import PLANS
from phonograd.core.plan.grouping import group_nodes

from ..kernels.test_reduction_order import CASES, ordered_sum
from ..plan.programs import RandomProgram, assert_same_bits, programs, run, same_bits


@contextmanager
def divided(threads: int, elements: int, enough_chunks: int = 8) -> Iterator[None]:
    """Divide work into chunks of some elements, and share them among threads."""
    with pytest.MonkeyPatch.context() as patch, settings.override(num_threads=threads):
        for module in (loops, partition):
            patch.setattr(module, "CHUNK_ELEMENTS", elements)
            patch.setattr(module, "ENOUGH_CHUNKS", enough_chunks)
        patch.setattr(partition, "PART_ELEMENTS", 2 * elements)
        patch.setattr(tasks, "TASK_WORK", elements)
        yield


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(programs())
def test_programs_give_the_same_bits_on_any_number_of_threads(program: RandomProgram) -> None:
    with divided(threads=1, elements=1 << 15):
        alone = run(program.targets, program.bindings)
    for threads, elements in ((2, 1 << 15), (4, 64), (3, 1)):
        with divided(threads, elements):
            assert_same_bits(run(program.targets, program.bindings), {**program.bindings, **alone})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axes"), [*CASES, ((9, 2, 90_000), (0, 2)), ((200_000, 3), (0,))], ids=str)
def test_sums_in_parts_have_the_documented_order(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    data = np.random.default_rng(math.prod(shape)).normal(size=shape).astype(dtype)
    source = leaf(0, shape, data.dtype)
    target = REGISTRY["_sum_to"](source * 1.0, shape=tuple([1 if a in axes else n for a, n in enumerate(shape)]))
    expected = ordered_sum(data, axes).reshape(target.shape)
    for enough_chunks in (0, 1 << 30):
        with divided(3, 1, enough_chunks):
            assert same_bits(run([target], {source: data})[target], expected)


@pytest.mark.parametrize(
    ("shape", "kept", "kernels"),
    [((1000,), (), 1), ((1_000_000,), (), 2), ((100_000, 8), (8,), 2), ((1000, 1000), (1000, 1), 1)],
)
def test_large_sums_are_parted_and_others_are_not(shape: tuple[int, ...], kept: tuple[int, ...], kernels: int) -> None:
    data = leaf(0, shape, np.dtype("float32"))
    (group,) = group_nodes([target := REGISTRY["_sum_to"](data, shape=kept)], [data], [target]).groups
    assert len(assembly.assemble(group, {target}).plan.launches) == kernels


def test_products_of_a_program_are_divided() -> None:
    random = np.random.default_rng(0)
    x, y = [random.normal(size=shape).astype(np.float32) for shape in ((130, 90), (90, 110))]
    lhs, rhs = leaf(0, x.shape, x.dtype), leaf(1, y.shape, y.dtype)
    target = matmul(lhs * 2.0, rhs) + 1.0
    results = []
    for threads, elements in ((1, 1 << 30), (4, 1)):
        with divided(threads, elements):
            results.append(run([target], {lhs: x, rhs: y})[target])
    assert same_bits(*results)
    np.testing.assert_allclose(results[0], 2 * x @ y + 1, rtol=1e-4, atol=1e-4)


def test_threads_of_the_user_share_the_team() -> None:
    def work(number: int) -> None:
        x = mx.nd.array(np.random.default_rng(number).normal(size=(300, 400)).astype(np.float32))
        for _ in range(20):
            y = mx.nd.dot(x, x, transpose_b=True)
            found[number].append(float(mx.nd.sum(mx.nd.exp(x * 0.1) + y.sum()).asscalar()))

    found: dict[int, list[float]] = {number: [] for number in range(4)}
    with settings.override(executor="native", num_threads=3):
        threads = [threading.Thread(target=work, args=(number,)) for number in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
    assert all([len(values) == 20 and len(set(values)) == 1 for values in found.values()])


def _kinds_of_kernels() -> list[mx.nd.NDArray]:
    """Return results and gradients of kernels of all kinds, each large enough to be divided."""
    draw = np.random.RandomState(0)

    def some(*shape: int) -> mx.nd.NDArray:
        array = mx.nd.array(draw.randn(*shape))
        array.attach_grad()
        return array

    images, weights, depth = some(4, 16, 20, 20), some(16, 16, 3, 3), some(16, 1, 3, 3)
    matrix, other, table = some(130, 140), some(140, 150), some(500, 32)
    square = mx.nd.array(draw.randn(90, 90))
    positive = mx.nd.dot(square, square.T) + 90 * mx.nd.eye(90)
    positive.attach_grad()
    index = mx.nd.array(draw.randint(0, 500, 700))
    mx.random.seed(5)
    with mx.autograd.record():
        found = [
            mx.nd.Convolution(images, weights, kernel=(3, 3), pad=(1, 1), num_filter=16, no_bias=True),
            mx.nd.Convolution(images, depth, kernel=(3, 3), num_filter=16, num_group=16, no_bias=True),
            mx.nd.Deconvolution(images, weights, kernel=(3, 3), stride=(2, 2), num_filter=16),
            mx.nd.Pooling(images, kernel=(3, 3), stride=(2, 2), pool_type="max"),
            mx.nd.softmax(mx.nd.dot(matrix, other)),
            mx.nd.Embedding(index, table, input_dim=500, output_dim=32),
            mx.nd.linalg.potrf(positive),
            mx.nd.cumsum(matrix, axis=1),
            mx.nd.Dropout(mx.nd.exp(images), p=0.5),
            mx.nd.LayerNorm(matrix, mx.nd.ones(140), mx.nd.zeros(140)),
            mx.nd.sort(matrix, axis=1),
        ]
        loss = mx.nd.add_n(*[mx.nd.sum(each * each) for each in found])
    loss.backward()
    arrays = (images, weights, depth, matrix, other, table, positive)
    return [*found, *[array.grad for array in arrays]]


def test_kernels_of_all_kinds_have_the_same_bits_on_more_threads_than_cores() -> None:
    bits = []
    for threads in (1, 2, 3, 8):
        with settings.override(num_threads=threads, tiers="plan", cache_directory=""):
            PLANS.root.following.clear()
            bits.append([each.asnumpy().tobytes() for each in _kinds_of_kernels()])
    assert bits[1:] == bits[:1] * 3
