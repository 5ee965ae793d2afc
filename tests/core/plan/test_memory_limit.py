"""A memory limit: plans compute values again, with the same bits, in less memory."""

import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

import phonograd as mx
from phonograd.core.base import settings
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.base.errors import MemoryLimitWarning
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import disk, memory_limit
from phonograd.core.plan.cache import PLANS
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import disk_cache, kernel_cache
from phonograd.core.run.memory_pool import budget_bytes, pool

from .programs import RandomProgram, assert_same_bits, programs, run

_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture(autouse=True)
def needs_kernels() -> None:
    if not kernel_cache.available():
        pytest.skip("without a compiler there are no plans")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the values that plans compute again."""
    found: list[int] = []
    evict = memory_limit.evict

    def count(draft: Any, given: Any, targets: Any, share: float) -> Any:
        result = evict(draft, given, targets, share)
        found.append(0 if result is None else sum([new is not old for old, new in result.items()]))
        return result

    monkeypatch.setattr(memory_limit, "evict", count)
    return found


@hypothesis_settings(suppress_health_check=_CHECKS, max_examples=10)
@given(programs())
def test_random_programs_have_the_same_bits(program: RandomProgram) -> None:
    _check_bits(program)


@pytest.mark.slow
@hypothesis_settings(suppress_health_check=_CHECKS, max_examples=300)
@given(programs())
def test_many_random_programs_have_the_same_bits(program: RandomProgram) -> None:
    _check_bits(program)


def _check_bits(program: RandomProgram) -> None:
    free = run(program.targets, program.bindings)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # everything that can be is computed again
        patch.setattr(memory_limit, "SMALLEST", 1)
        warnings.simplefilter("ignore", MemoryLimitWarning)
        with settings.override(memory_limit_bytes=1):
            limited = run(program.targets, program.bindings)
            kept = run(program.targets, program.bindings, keep_all=True)
    assert_same_bits(limited, free)
    assert_same_bits(kept, {**run(program.targets, program.bindings, keep_all=True)})


# -- training steps

Step = Callable[[], list[Any]]


def _trained(weights: list[Any], loss: Callable[[], Any], seed: int = 3) -> Step:
    for weight in weights:
        weight.attach_grad()
    mx.nd.waitall()

    def step() -> list[Any]:
        mx.random.seed(seed)
        with mx.autograd.record():
            value = loss()
        value.backward()
        found = [value, *[weight.grad for weight in weights]]
        mx.nd.waitall()
        return found

    return step


def _dense() -> Step:
    """Return a step of a deep perceptron with dropout, whose masks are random."""
    width = 96
    draw = np.random.RandomState(0)
    weights = [mx.nd.array(draw.randn(width, width) * width**-0.5) for _ in range(8)]
    x = mx.nd.array(draw.randn(512, width))

    def loss() -> Any:
        y = x
        for weight in weights:
            y = mx.nd.Dropout(mx.nd.tanh(mx.nd.dot(y, weight)), p=0.3)
        return mx.nd.mean(y * y)

    return _trained(weights, loss)


def _convolutional() -> Step:
    """Return a step of convolutions with normalization, rectifiers, a sum and pooling."""
    filters = 8
    draw = np.random.RandomState(1)
    shapes = [(filters, 3, 3, 3), *[(filters, filters, 3, 3)] * 2]
    weights = [mx.nd.array(draw.randn(*shape) * 0.2) for shape in shapes]
    scales = [mx.nd.ones(filters) for _ in weights]
    zeros, ones = mx.nd.zeros(filters), mx.nd.ones(filters)
    x = mx.nd.array(draw.randn(16, 3, 24, 24))

    def loss() -> Any:
        y = x
        for weight, scale in zip(weights, scales, strict=True):
            new = mx.nd.Convolution(y, weight, kernel=(3, 3), pad=(1, 1), num_filter=filters, no_bias=True)
            new = mx.nd.relu(mx.nd.BatchNorm(new, scale, zeros, zeros.copy(), ones.copy(), fix_gamma=False))
            y = new if y is x else new + y
        return mx.nd.sum(mx.nd.Pooling(y, kernel=(2, 2), stride=(2, 2), pool_type="max") ** 2)

    return _trained([*weights, *scales], loss)


def _recurrent() -> Step:
    """Return a step of a recurrent cell that assigns to parts of an array."""
    hidden = 64
    draw = np.random.RandomState(2)
    weight, x = mx.nd.array(draw.randn(hidden, hidden) * 0.1), mx.nd.array(draw.randn(8, 256, hidden))

    def loss() -> Any:
        state, seen = mx.nd.zeros((256, hidden)), mx.nd.zeros((8, 256, hidden))
        for number in range(8):
            state = mx.nd.tanh(mx.nd.dot(state, weight) + x[number])
            seen[number] = state
        return mx.nd.mean(mx.nd.softmax(seen) ** 2)

    return _trained([weight], loss)


def _measured(step: Step, limit: int = 0) -> tuple[list[bytes], int]:
    """Return the bits of a step, planned under a limit, and its peak memory."""
    # existing plans stay as they are
    PLANS.root.following.clear()
    with settings.override(tiers="plan", memory_limit_bytes=limit), warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        step()
        pool.sort_in()
        before = pool.peak_bytes = pool.used_bytes
        found = step()
        peak = pool.peak_bytes - before
    return [each.asnumpy().tobytes() for each in found], peak


@pytest.mark.parametrize("make", [_dense, _convolutional, _recurrent])
def test_training_takes_less_memory_and_has_the_same_bits(
    make: Callable[[], Step], counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_limit, "SMALLEST", 1 << 12)
    step = make()
    free, peak = _measured(step)
    assert not counted
    with settings.override(num_threads=1):
        limited, lower = _measured(step, pool.used_bytes + peak * 3 // 4)
    assert sum(counted) > 0
    assert lower < 0.9 * peak
    assert limited == free
    # a limit that cannot be met is met as far as possible
    least, lowest = _measured(step, 1)
    assert lowest <= peak
    assert least == free


def test_a_step_that_was_printed_has_the_same_bits() -> None:
    """The values that a backward pass needs are kept, but not all of them."""
    draw = np.random.RandomState(4)
    weights = [mx.nd.array(draw.randn(64, 64) * 0.1) for _ in range(8)]
    for weight in weights:
        weight.attach_grad()
    x = mx.nd.array(draw.randn(512, 64))

    def step() -> list[Any]:
        with mx.autograd.record():
            y = x
            for weight in weights:
                y = mx.nd.sigmoid(mx.nd.dot(y, weight))
            loss = mx.nd.mean(y)
        kept = loss.asscalar(), pool.used_bytes
        loss.backward()
        found = [weight.grad for weight in weights]
        mx.nd.waitall()
        sizes.append(kept[1])
        return found

    sizes: list[int] = []
    free, peak = _measured(step)
    with_limit, _ = _measured(step, sizes[0] + peak // 2)
    assert with_limit == free
    assert sizes[-1] < sizes[0]


def test_a_new_graph_is_planned_at_once_if_all_its_values_exceed_the_limit() -> None:
    x = mx.nd.ones((64, 1024))
    x.wait_to_read()
    with settings.override(memory_limit_bytes=pool.used_bytes + (1 << 20)):
        PLANS.root.following.clear()
        y = x
        for _ in range(9):
            y = mx.nd.sin(y) + x
        before = pool.peak_bytes = pool.used_bytes
        y.wait_to_read()
        # one fused kernel, and not 18 arrays of 256 KB
        assert pool.peak_bytes - before < 1 << 20


def test_a_limit_that_cannot_be_met_is_said_with_figures() -> None:
    PLANS.root.following.clear()
    with settings.override(memory_limit_bytes=1000, tiers="plan"):
        with pytest.warns(MemoryLimitWarning, match=r"memory_limit_bytes is 1,000, but .* needs 1,048,576 more"):
            (mx.nd.ones((512, 512)) * 3 + 1).wait_to_read()
        PLANS.root.following.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error", MemoryLimitWarning)
            with pytest.raises(MemoryLimitWarning):
                (mx.nd.ones((512, 512)) * 3 + 1).wait_to_read()


def test_the_limit_is_checked() -> None:
    with pytest.raises(ValueError, match="memory_limit_bytes must not be negative"):
        settings.update(memory_limit_bytes=-1)
    assert budget_bytes(5) is None
    with settings.override(memory_limit_bytes=pool.used_bytes + 6400):
        budget = budget_bytes(0)
        assert budget is not None
        assert 0 <= budget <= 6400


def test_waiting_memory_counts() -> None:
    mx.cpu().empty_cache()
    for size in (300, 310, 320):
        mx.nd.ones((size, 1000)).wait_to_read()
    with settings.override(memory_limit_bytes=pool.used_bytes + (2 << 20), spare_bytes=1 << 30):
        mx.nd.ones((330, 1000)).wait_to_read()
        assert pool.used_bytes + pool.spare_bytes <= settings.current().memory_limit_bytes


def _there_and_back() -> list[Node]:
    """Return a graph that reads its values again in the opposite order; NumPy computes some of them."""
    x, w = leaf(0, (128, 64), FLOAT32), leaf(1, (64, 64), FLOAT32)
    values = [x]
    for number in range(6):
        value = REGISTRY["tanh"](matmul(values[-1], w))
        values.append(REGISTRY["gammaln"](value) if number == 3 else value)
    back = values[-1]
    for value in reversed(values):
        back = matmul(back, w) * value
    return [back]


def test_plans_under_a_limit_are_kept_on_disk_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # sources count as unchanged, whoever edits them
    monkeypatch.setattr(disk_cache, "_STARTED", time.time() + 1e6)
    monkeypatch.setattr(disk, "_stored", 0)
    kernel_cache.wait_for_tier_up()
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    limit = max(pool.used_bytes, 48 << 10) + (250 << 10)
    made: list[Any] = []
    with settings.override(cache_directory=str(tmp_path)):
        for bytes_ in (0, limit, limit, 0):
            with settings.override(memory_limit_bytes=bytes_):
                made.append(disk.program_for(_there_and_back(), lambda node: False, False))
    free, limited, limited_again, free_again = made
    assert [type(each) for each in made] == [NativeProgram, NativeProgram, disk.DiskProgram, disk.DiskProgram]
    assert limited.is_limited
    assert limited.memory == limited_again.memory
    assert limited.memory.total < free.memory.total == free_again.memory.total
    inputs = [np.random.default_rng(5).normal(size=node.shape).astype("f") for node in free.inputs]
    assert len({each.run(list(inputs))[0].tobytes() for each in made}) == 1


def test_threads_plan_under_a_limit() -> None:
    """Plans of several threads fit or warn, each by itself, and none changes a bit."""
    # without random numbers: all threads draw from one stream
    step = _convolutional()
    free, peak = _measured(step)
    PLANS.root.following.clear()
    results: list[bool] = []

    def work() -> None:
        results.append([each.asnumpy().tobytes() for each in _convolutional()()] == free)

    with settings.override(memory_limit_bytes=pool.used_bytes + 3 * peak, tiers="plan"), warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 3
