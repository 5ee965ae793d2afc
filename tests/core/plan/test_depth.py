"""Deep programs: time and kernels in proportion, or less; nothing is recursive, and nothing grows without bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, explain, nd, settings
from phonograd.core.kernels.structure import Structure
from phonograd.core.plan import cache
from phonograd.core.plan.native_program import NativeProgram

pytestmark = pytest.mark.usefixtures("planned")


@pytest.fixture(autouse=True)
def _native() -> Any:
    with settings.override(executor="native"):
        yield


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[NativeProgram]:
    found: list[NativeProgram] = []
    choose = cache.choose_program
    monkeypatch.setattr(cache, "choose_program", lambda *arguments: found.append(choose(*arguments)) or found[-1])
    return found


def chain(length: int) -> np.ndarray:
    w, x = nd.array([0.5, 0.25, 1.5]), nd.array(np.ones((2, 3)))
    w.attach_grad()
    with autograd.record():
        y = x
        for _ in range(length):
            y = nd.tanh(y * w)
    y.backward()
    return w.grad.asnumpy()


def sums(length: int) -> np.ndarray:
    w, x = nd.array([0.5, 0.25, 1.5]), nd.array(np.ones((2, 3)))
    w.attach_grad()
    with autograd.record():
        state, loss = x, 0.0
        for _ in range(length):
            state = nd.tanh(state * w) + x
            loss = loss + (state * state).sum()
    loss.backward()
    return w.grad.asnumpy()


def accumulation(length: int) -> np.ndarray:
    terms = [nd.array([1.0, 2.0, number % 7]) for number in range(length)]
    w = nd.array([0.5, 0.25, 1.5])
    w.attach_grad()
    with autograd.record():
        total = nd.zeros((3,))
        for term in terms:
            total = total + term * w
    total.backward()
    return w.grad.asnumpy()


@pytest.mark.parametrize("program", [chain, sums, accumulation])
def test_kernels_are_bounded_and_shared(program: Callable[[int], np.ndarray], made: list[NativeProgram]) -> None:
    expected = program(1000)
    largest = max(made, key=lambda plan: len(plan.parts))
    structures = [kernel for kernel in largest.kernels if isinstance(kernel, Structure)]
    assert max([len(kernel.steps) for kernel in structures]) <= 200
    # what is repeated is repeated by the same kernels
    assert len(largest.kernels) <= 15
    assert len(largest.parts) > len(largest.kernels)
    before = explain.statistics()
    assert program(1000).tobytes() == expected.tobytes()
    after = explain.statistics()
    assert after["kernels_compiled"] == before["kernels_compiled"]


def test_there_are_no_more_kernels_in_deeper_programs(made: list[NativeProgram]) -> None:
    counts = []
    for length in (500, 1000, 2000):
        sums(length)
        counts.append(len(made[-1].kernels))
    # their number follows from what is repeated, not from how often
    assert max(counts) <= 50


def test_depth_changes_no_bit() -> None:
    fused = chain(300)
    with settings.override(naive=True):
        assert chain(300).tobytes() == fused.tobytes()


def test_very_deep() -> None:
    # far beyond the limit of Python's recursion
    assert np.isfinite(chain(8_000)).all()


def test_a_chain_of_views_is_followed_step_by_step() -> None:
    data = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    x, expected = nd.array(data) * 1, data
    for _ in range(500):
        x, expected = x.T.reshape((4, 6))[::-1].T.reshape((4, 6)), expected.T.reshape(4, 6)[::-1].T.reshape(4, 6)
    assert np.array_equal(x.asnumpy(), expected)


def test_many_independent_values() -> None:
    values = [nd.array([1.0, 2.0]) * number for number in range(3000)]
    total = sum([float(value.asnumpy()[1]) for value in values])
    assert total == 2 * sum(range(3000))


def test_a_program_beyond_the_limit_of_nodes_is_remembered() -> None:
    with settings.override(node_limit=500):
        for _ in range(3):
            chain(400)
        before = explain.statistics()
        for _ in range(5):
            chain(400)
        after = explain.statistics()
    assert after["plans"] == before["plans"]
    assert after["nodes"] - before["nodes"] < 100


def test_programs_beyond_the_limit_of_nodes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    from phonograd.core.graph.operator import REGISTRY
    from phonograd.core.plan.cache import PLANS

    # a larger program before it raises the limit
    monkeypatch.setattr(PLANS, "_nodes_kept", 0)
    with settings.override(node_limit=500):
        for length in range(200, 230):
            chain(length)
        mx.nd.waitall()
        nodes = sum([len(declared.table) for declared in set(REGISTRY.values())])
    # the last one, and less than as much again
    assert nodes < 4 * 230 * 5


def updates(parameters: list[Any], grads: list[Any]) -> None:
    for parameter, grad in zip(parameters, grads):
        parameter[:] = parameter - 0.1 * (grad + 0.01 * parameter)


def copies(parameters: list[Any], grads: list[Any]) -> None:
    grads[:] = [(grad.T * parameter).reshape((3,)) for parameter, grad in zip(parameters, grads)]


@pytest.mark.parametrize("step", [updates, copies])
def test_what_is_too_much_to_wait_is_divided_in_the_same_places(step: Callable[[list[Any], list[Any]], None]) -> None:
    parameters = [nd.array([1.0, 2.0, number]) for number in range(300)]
    grads = [nd.array([1.0, 2.0, number]) for number in range(300)]
    nd.waitall()
    with settings.override(pending_limit=200):
        counts = []
        for _ in range(6):
            before = explain.statistics()
            step(parameters, grads)
            nd.waitall()
            after = explain.statistics()
            counts.append([after[name] - before[name] for name in ("plans", "evaluations")])
    assert counts[0][0] >= 1
    assert counts[0][1] >= 4, "it is divided"
    # the turns after the first find what it left
    assert [plans for plans, _ in counts[2:]] == [0] * 4
    assert len({evaluations for _, evaluations in counts[1:]}) == 1


def test_random_numbers_of_many_arrays_are_drawn_by_one_kernel(made: list[NativeProgram]) -> None:
    mx.random.seed(3)
    together = [nd.random.normal(loc=1.0, scale=0.1, shape=(40, 30)) for _ in range(9)]
    nd.waitall()
    assert [len(plan.kernels) for plan in made] == [1]
    mx.random.seed(3)
    for array in together:
        assert nd.random.normal(loc=1.0, scale=0.1, shape=(40, 30)).asnumpy().tobytes() == array.asnumpy().tobytes()
