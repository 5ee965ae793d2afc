"""Graphs that never repeat are computed by pieces, others are planned; nobody can tell but by counting."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, profiler
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import statistics
from phonograd.core.plan import cache, piecewise
from phonograd.core.plan.cache import NOVELTY
from phonograd.core.plan.piecewise import PiecewiseProgram

PLENTY = 90


def chain(length: int, start: float = 0.5) -> nd.NDArray:
    """Return a value that takes some number of operators, another graph for each number."""
    x = nd.full((3,), start)
    for step in range(length):
        x = nd.tanh(x * 0.5) if step % 3 else x + 1
    return x


def by_pieces(value: nd.NDArray) -> bool:
    """Return whether a value that is asked for is computed by pieces."""
    before = len(_runs)
    value.asnumpy()
    return len(_runs) > before


_runs: list[int] = []


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    run = PiecewiseProgram.run

    def counted(self, inputs, donated=()):  # type: ignore[no-untyped-def]
        _runs.append(1)
        return run(self, inputs, donated)

    monkeypatch.setattr(PiecewiseProgram, "run", counted)


#: graphs that are planned before it is clear that none of them is used again
PLANNED = 6


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with mx.settings.override(novel_nodes=PLANNED * PLENTY * 5 // 3):
        yield


def test_what_never_repeats_is_computed_by_pieces() -> None:
    found = [by_pieces(chain(PLENTY + number)) for number in range(12)]
    assert found == [False] * PLANNED + [True] * (12 - PLANNED)


def test_what_repeats_is_planned() -> None:
    for number in range(100, 112):
        for _ in range(2):
            assert not by_pieces(chain(PLENTY + number))


def test_small_graphs_do_not_count() -> None:
    assert not any([by_pieces(chain(number)) for number in range(1, 40)])


def test_one_large_graph_tells_nothing() -> None:
    assert [by_pieces(chain(PLENTY * PLANNED + number)) for number in range(50, 55)] == [False] * 4 + [True]


def test_a_graph_that_is_there_again_is_planned() -> None:
    for number in range(200, 200 + PLANNED):
        chain(PLENTY + number).asnumpy()
    first = chain(PLENTY + 210)
    assert by_pieces(first)
    again = chain(PLENTY + 210)
    assert not by_pieces(again)
    assert first.asnumpy().tobytes() == again.asnumpy().tobytes()
    # and this is the plan that is found from then on
    made = statistics.plans
    assert chain(PLENTY + 210).asnumpy().tobytes() == first.asnumpy().tobytes()
    assert statistics.plans == made


def test_programs_that_begin_to_repeat_are_planned_at_once() -> None:
    for number in range(300, 300 + PLANNED):
        chain(PLENTY + number).asnumpy()
    for _ in range(3):
        for number in range(310, 316):
            chain(PLENTY + number).asnumpy()
    assert not NOVELTY.prevails()
    assert not by_pieces(chain(PLENTY + 320))


def test_it_can_be_switched_off() -> None:
    with mx.settings.override(novel_nodes=0):
        assert not any([by_pieces(chain(PLENTY + number)) for number in range(400, 412)])


def test_large_arrays_are_planned() -> None:
    for number in range(430, 430 + PLANNED):
        chain(PLENTY + number).asnumpy()
    x = nd.ones((2 * piecewise.MOST_NUMBERS_PER_NODE,))
    for _ in range(PLENTY):
        x = x + 1
    assert not by_pieces(x)


@pytest.fixture
def _novel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NOVELTY, "prevails", lambda: True)
    monkeypatch.setattr(cache, "_MANY_NODES", 1)


@pytest.mark.usefixtures("_novel")
def test_gradients_and_losses_that_are_looked_at() -> None:
    weight = nd.array([[1.0, -2.0], [0.5, 3.0]])
    weight.attach_grad()
    data = nd.array([[0.3, -0.7]])
    with autograd.record():
        hidden = nd.tanh(nd.dot(data, weight))
        first, second = nd.split(hidden, num_outputs=2, axis=1)
        loss = (first * nd.exp(second)).sum()
    seen = loss.asscalar()
    loss.backward()
    x = data.asnumpy() @ weight.asnumpy()
    a, b = np.tanh(x[0])
    assert seen == pytest.approx(a * np.exp(b), rel=1e-6)
    outer = np.array([np.exp(b) * (1 - a * a), a * np.exp(b) * (1 - b * b)])
    np.testing.assert_allclose(weight.grad.asnumpy(), data.asnumpy().T * outer, rtol=1e-5)
    assert _runs


@pytest.mark.usefixtures("_novel")
def test_several_outputs_are_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piecewise, "_pieces", {})
    matrix = nd.array(np.array([[2.0, 1.0], [1.0, 3.0]]))
    vectors, values = nd.linalg.syevd(matrix)
    whole = vectors.asnumpy().T @ np.diag(values.asnumpy()) @ vectors.asnumpy()
    np.testing.assert_allclose(whole, matrix.asnumpy(), rtol=1e-5)
    assert len(piecewise._pieces) == 1
    values, places = nd.topk(nd.array([3.0, 1.0, 2.0]), k=2, ret_typ="both")
    assert (values.asnumpy().tolist(), places.asnumpy().tolist()) == ([3, 2], [0, 2])


@pytest.mark.usefixtures("_novel")
def test_errors_name_the_line_that_asked_for_it() -> None:
    def first() -> nd.NDArray:
        return nd.linalg.potrf(nd.array([[1.0, 2.0], [2.0, 1.0]]))

    def second() -> nd.NDArray:
        return nd.linalg.potrf(nd.array([[1.0, 2.0], [2.0, 1.0]]) * 1.0)

    lines = []
    for function in (first, second):
        with pytest.raises(MXNetError, match="potrf") as raised:
            function().asnumpy()
        lines.append(str(raised.value).rpartition(":")[2])
    start = first.__code__.co_firstlineno
    assert lines == [str(start + 1), str(start + 4)]


@pytest.mark.usefixtures("_novel")
def test_who_observes_sees_kernels_of_a_plan() -> None:
    x = nd.ones((5,))
    x.asnumpy()
    with profiler.profile() as profile:
        y = nd.sin(x) + nd.cos(x)
        assert not by_pieces(y)
    assert any(["sin" in row.key and "cos" in row.key for row in profile.key_averages()])
    with mx.explain.plans() as seen:
        z = nd.sin(x) - nd.cos(x)
        assert not by_pieces(z)
    assert len(seen.reports) == 1


@pytest.mark.usefixtures("_novel")
def test_memory_does_not_grow() -> None:
    def turn(number: int) -> None:
        x = nd.ones((4,)) * number
        for step in range(40):
            x = nd.sin(x) if (number >> (step % 16)) & 1 else x * 0.5
        x.asnumpy()

    with mx.settings.override(plan_limit=50, node_limit=2000):
        for number in range(1, 120):
            turn(number)
        gc.collect()
        before = len(gc.get_objects())
        for number in range(120, 400):
            turn(number)
        gc.collect()
        assert len(gc.get_objects()) < 1.3 * before


def test_threads_note_plans_at_the_same_time() -> None:
    class Seen:
        used, made = 1, 0

    errors: list[Exception] = []

    def work() -> None:
        try:
            for number in range(3000):
                NOVELTY.note(Seen(), 64 + number % 50)  # type: ignore[arg-type]
                NOVELTY.prevails()
        except Exception as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []


def test_pieces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NOVELTY, "prevails", lambda: True)
    monkeypatch.setattr(cache, "_MANY_NODES", 1)
    monkeypatch.setattr(piecewise, "MOST_PIECES", 5)
    monkeypatch.setattr(piecewise, "_pieces", {})
    for number in range(1, 12):
        assert nd.ones((number,)).sum().asscalar() * 2 == 2 * number
        assert (nd.ones((number,)) * 3).asnumpy().tolist() == [3] * number
        assert 0 < len(piecewise._pieces) <= 5
