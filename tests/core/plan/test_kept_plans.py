"""Which plans and expressions are kept: few for a program that never repeats, all that a program repeats."""

from collections.abc import Iterator

import numpy as np
import pytest

import phonograd as mx
from phonograd import explain
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.plan import cache
from phonograd.core.plan.cache import PLANS

LENGTH = 60


def evaluate(columns: int) -> None:
    """Evaluate a graph that is new for every number of columns."""
    y = mx.nd.ones((2, columns))
    for _ in range(LENGTH):
        y = y * 2 - y
    assert np.array_equal(y.asnumpy(), np.ones((2, columns)))


def interned() -> int:
    """Return how many expressions there are."""
    return sum([len(declared.table) for declared in set(REGISTRY.values())])


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what earlier tests left, and plan everything."""
    cache._forget_except(set())
    for position, key, _ in PLANS.all():
        position.following.pop(key, None)
    for name, value in {"_count": 0, "_nodes_kept": 0, "_returned": 0, "_dropped": {}}.items():
        monkeypatch.setattr(PLANS, name, value)
    monkeypatch.setattr(PLANS, "_nodes_before", cache.statistics.nodes)
    with mx.settings.override(executor="reference", tiers="plan", node_limit=16_000):
        yield


@pytest.mark.usefixtures("fresh")
def test_a_program_that_never_repeats_keeps_little() -> None:
    most = 0
    for columns in range(1, 150):
        evaluate(columns)
        most = max(most, interned())
    # an eighth of the limit, and the graphs that are being evaluated
    assert most < 16_000 // 8 + 8 * LENGTH, most
    assert len(PLANS.all()) < 40


@pytest.mark.usefixtures("planned")
@pytest.mark.usefixtures("fresh")
def test_a_program_that_repeats_after_a_long_time_keeps_everything() -> None:
    """More than an eighth of the limit is needed: it is kept after some of it has been planned again."""
    plans = []
    for _ in range(6):
        before = explain.statistics()["plans"]
        for columns in range(1, 41):
            evaluate(columns)
        plans.append(explain.statistics()["plans"] - before)
    assert plans[0] >= 40
    assert plans[-1] == 0, plans


@pytest.mark.usefixtures("fresh")
def test_small_graphs_that_come_back_do_not_raise_the_limit() -> None:
    most = 0
    for columns in range(1, 150):
        evaluate(columns)
        if columns % 10 == 0:
            (mx.nd.ones((3, 3)) + 1).asnumpy()
        most = max(most, interned())
    assert most < 16_000 // 8 + 10 * LENGTH, most
