"""Plans keep 16-bit values, not wide ones: inputs are rounded again, and views are converted instead of whole arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.run.host import host

HALVES = ["bfloat16", "float16"]


def _random(*shape: int) -> nd.NDArray:
    return nd.array(np.random.default_rng(sum(shape)).normal(size=shape))


def _planned(compute: Callable[[], list[nd.NDArray]]) -> mx.explain.PlanReport:
    """Return the plan of some values, after comparing it with their values operator by operator."""
    nd.waitall()
    expected = [each.asnumpy().tobytes() for each in compute()]
    with mx.settings.override(tiers="blocking"):
        arrays = compute()
        report = mx.explain.plan(*arrays)
        assert [each.asnumpy().tobytes() for each in arrays] == expected
    return report


def _stored(report: mx.explain.PlanReport, operator: str, shape: tuple[int, ...]) -> int:
    return sum([value.times for value in report.stored if (value.operator, value.shape) == (operator, shape)])


@pytest.mark.parametrize("dtype", HALVES)
def test_inputs_are_rounded_again_for_the_backward_pass(dtype: str) -> None:
    data, first, second = _random(512, 400), _random(400, 352), _random(352, 384)
    for weight in (first, second):
        weight.attach_grad()

    def gradients() -> list[nd.NDArray]:
        with autograd.record():
            inner = nd.relu(nd.dot(data.astype(dtype), first.astype(dtype)))
            loss = nd.square(nd.dot(inner, second.astype(dtype)).astype("float32")).sum()
        loss.backward()
        return [first.grad, second.grad]

    report = _planned(gradients)
    # for the layer and for its gradient; the gradient of the data, which reads the first weight again, is not wanted
    assert _stored(report, "_cast", (512, 400)) == 2
    assert _stored(report, "_cast", (400, 352)) == 1
    assert _stored(report, "_cast", (352, 384)) == 2


def test_small_inputs_are_rounded_once() -> None:
    data, weight = _random(64, 48), _random(48, 32)
    weight.attach_grad()

    def gradient() -> list[nd.NDArray]:
        with autograd.record():
            loss = nd.relu(nd.dot(data.astype("bfloat16"), weight.astype("bfloat16"))).astype("float32").sum()
        loss.backward()
        return [weight.grad]

    assert _stored(_planned(gradient), "_cast", (64, 48)) == 1


@pytest.mark.parametrize("dtype", HALVES)
def test_a_slice_is_converted_instead_of_the_whole(dtype: str) -> None:
    parts, scores = _random(64, 96, 3 * 64).astype(dtype), _random(64, 80, 96)

    def mixed() -> list[nd.NDArray]:
        wide = parts.transpose((0, 1, 2)).astype("float32").reshape((64, 96, 3, 64))
        return [nd.batch_dot(scores, wide.slice_axis(2, 2, 3).reshape((64, 96, 64)))]

    report = _planned(mixed)
    if not host().matrix_unit:
        # neither the float32 array nor its slice is in memory
        assert report.arena_bytes <= 64 * 96 * 64 * 2 + (1 << 16)


def test_gradients_of_a_normalization_share_its_input() -> None:
    first, second, third = [_random(600, 512) for _ in range(3)]
    scale, shift, weight = _random(512), _random(512), _random(512, 400).astype("bfloat16")
    for array in (first, scale, shift):
        array.attach_grad()

    def gradients() -> list[nd.NDArray]:
        with autograd.record():
            # too much work to be done twice
            total = nd.tanh(first) * nd.sigmoid(second) + nd.erf(third)
            normal = nd.LayerNorm(total, scale, shift)
            loss = nd.square(nd.dot(normal.astype("bfloat16"), weight).astype("float32")).sum()
        loss.backward()
        return [first.grad, scale.grad, shift.grad]

    report = _planned(gradients)
    # the sum is kept for them, neither the centered nor the scaled values
    assert _stored(report, "broadcast_add", (600, 512)) == 1
    assert _stored(report, "broadcast_sub", (600, 512)) == _stored(report, "broadcast_mul", (600, 512)) == 0
