"""Backward passes in batches: the bits of a plan, and few calls."""

from __future__ import annotations

import importlib.util
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.backward import eager
from phonograd.core.plan import eager_batches

pytestmark = pytest.mark.skipif(
    mx.settings.current().executor == "reference" or importlib.util.find_spec("llvmlite") is None,
    reason="NumPy computes everything",
)

Program = Callable[[nd.NDArray, nd.NDArray], nd.NDArray]
#: another extent for each program, so that its record is new
_extents = itertools.count(3)


def independent_branches(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    total = 0
    for row in range(12):
        total = total + nd.tanh(nd.dot(nd.sigmoid(x[row : row + 1]), w)) * 0.5
    return total


def trees(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    draw, total = random.Random(5), 0
    for _ in range(6):
        level = [(x[row : row + 1], x[row : row + 1] * 0) for row in range(draw.randint(3, 9))]
        while len(level) > 1:
            place = draw.randrange(len(level) - 1)
            (left, one), (right, two) = level[place : place + 2]
            both = nd.dot(left + right, w) + w[0]
            gate, other, _ = nd.split(both, num_outputs=3, axis=1)
            cell = nd.concat(nd.sigmoid(gate), nd.tanh(other), gate * other, dim=1) + one * two
            level[place : place + 2] = [(nd.tanh(cell) * cell, cell)]
        total = total + level[0][0].sum()
    return total


def many_uses_of_each_value(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    rows = [nd.tanh(nd.dot(x[row : row + 1], w)) for row in range(6)]
    total = 0
    for one, two in itertools.combinations(rows, 2):
        total = total + one * two + nd.sin(one)
    return total + rows[0] * rows[0] * rows[0]


def repeated_calls(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return sum([nd.tanh(x) * nd.tanh(x) + nd.sigmoid(w[0]) * nd.sigmoid(w[0]) for _ in range(4)])


def outputs_that_some_leave_out(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    total = 0
    for row in range(6):
        one, two, three = nd.split(nd.dot(x[row : row + 1], w), num_outputs=3, axis=1)
        total = total + one * (two if row % 2 else three)
    return total


def gradients_that_end(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return sum([nd.BlockGrad(nd.sin(x[row])) * nd.cos(x[row]) + w[row % 3] for row in range(8)])


def sums_and_losses(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    rows = [nd.make_loss(nd.square(x[row]).sum() + nd.log_softmax(x[row]).max()) for row in range(8)]
    return sum(rows) + w.sum()


def numbers(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return sum([nd.exp(x[row].mean()) * w[row % 3].max() for row in range(9)])


def several_matrices(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    one, two = nd.tanh(w), nd.sin(w)
    products = [nd.dot(x[row : row + 2], one if row % 2 else two) for row in range(10)]
    return sum([nd.relu(each) + each.T.sum(axis=1, keepdims=True).reshape((1, -1)) for each in products])


PROGRAMS: list[Program] = [
    independent_branches,
    trees,
    many_uses_of_each_value,
    repeated_calls,
    outputs_that_some_leave_out,
    gradients_that_end,
    sums_and_losses,
    numbers,
    several_matrices,
]
#: those that batches do not treat
OTHERS = [outputs_that_some_leave_out, gradients_that_end, sums_and_losses]


def gradients(program: Program, extent: int, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Return the value of a program and its gradients."""
    draw = np.random.RandomState(extent)
    x = nd.array(draw.randn(12, 3 * extent).astype(dtype), dtype=dtype)
    w = nd.array(draw.randn(3 * extent, 3 * extent).astype(dtype) / 8, dtype=dtype)
    for array in (x, w):
        array.attach_grad()
    with autograd.record():
        y = program(x, w)
    y.backward()
    return [y.asnumpy(), x.grad.asnumpy(), w.grad.asnumpy()]


@pytest.fixture(autouse=True)
def policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip no records because those of other tests were narrow."""
    monkeypatch.setattr(eager, "_policy", eager_batches.Policy())


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results of passes in batches, None for those that were given up; every new record tries."""
    for name, value in (("LEAST_NODES", 1), ("LEAST_WIDTH", 0.0), ("MOST_SKIPPED", 0)):
        monkeypatch.setattr(eager_batches, name, value)
    found: list[Any] = []
    whole = eager._run_batches

    def run(*arguments: Any) -> Any:
        found.append(whole(*arguments))
        return found[-1]

    monkeypatch.setattr(eager, "_run_batches", run)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bits_are_those_of_operators_one_by_one(
    program: Program, dtype: str, results: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    extents = [next(_extents), next(_extents)]
    found = [gradients(program, extent, dtype) for extent in extents]
    assert [result is None for result in results] == [program in OTHERS] * 2
    eager._seen.clear()
    monkeypatch.setattr(eager, "_run_batches", lambda *arguments: None)
    alone = [gradients(program, extent, dtype) for extent in extents]
    for one, two in zip(itertools.chain(*found), itertools.chain(*alone), strict=True):
        assert one.tobytes() == two.tobytes()


def test_the_bits_are_those_of_a_plan(results: list[Any]) -> None:
    extent = next(_extents)
    found = gradients(independent_branches, extent, "float32")
    assert len(results) == 1
    with mx.settings.override(tiers="plan"):
        planned = gradients(independent_branches, extent, "float32")
    for one, two in zip(found, planned, strict=True):
        assert one.tobytes() == two.tobytes()


def _many(extent: int) -> None:
    x, w = nd.ones((40, extent)), nd.ones((extent, extent))
    for array in (x, w):
        array.attach_grad()
    with autograd.record():
        y = sum([nd.tanh(nd.dot(x[row : row + 1], w)) for row in range(40)])
    y.backward()
    w.grad.wait_to_read()


def test_equal_operators_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    whole = eager_batches.Batches.compute

    def compute(self: Any, known: Any) -> None:
        whole(self, known)
        found.extend([(group.calls[0].operator.name, len(group.members)) for group in self.groups])

    monkeypatch.setattr(eager_batches.Batches, "compute", compute)
    monkeypatch.setattr(eager_batches, "LEAST_NODES", 1)
    monkeypatch.setattr(eager_batches, "LEAST_WIDTH", 0.0)
    _many(next(_extents))
    for name in ("tanh", "_matmul"):
        counts = [count for operator, count in found if operator == name]
        # the first calls of a kind are no others of this kind yet
        assert sum(counts) == 40
        assert len(counts) <= 3


def test_narrow_records_are_tried_less_and_less() -> None:
    policy, tried = eager_batches.Policy(), 0
    for _ in range(100):
        if policy.tries(1000):
            tried += 1
            policy.note(False)
    assert tried == 6
    assert not policy.tries(eager_batches.LEAST_NODES - 1)


def test_values_that_exist_are_not_computed_again(results: list[Any]) -> None:
    x = nd.ones((4, next(_extents)))
    x.attach_grad()
    with autograd.record():
        y = nd.sin(x)
        y.wait_to_read()
        z = (y * y).sum()
    z.backward()
    assert results in ([None], [])
