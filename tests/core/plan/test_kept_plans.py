"""Which plans and expressions are kept: few for a program that never repeats, all that a program repeats."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import explain
from phonograd.core.backward import eager_rules
from phonograd.core.graph.learned import constants_of_kinds, forget_kinds
from phonograd.core.graph.node import FORGOTTEN, UNLEARNED, Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf
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
    forget_kinds()
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


def _are_interned(nodes: list[Node]) -> bool:
    return all([node.operator.table.get((node.inputs, node.attributes)) is node for node in nodes])


@pytest.mark.usefixtures("python_functions")
def test_kinds_stay_learned_when_nodes_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    nd, draw = mx.nd, random.Random(3)
    x, made, dropped = nd.random.normal(shape=(5, 6)), list[str](), list[int]()
    x.attach_grad()
    whole = eager_rules._make_rule

    def make(node: Node, out_grads: Any) -> Any:
        made.append(node.operator.name)
        return whole(node, out_grads)

    monkeypatch.setattr(eager_rules, "_make_rule", make)

    def run(count: int) -> None:
        for _ in range(count):
            with mx.autograd.record():
                y = x
                for _ in range(40):
                    row = draw.randrange(5)
                    y = draw.choice([nd.tanh, nd.softsign, nd.log_softmax])(y) + x[row : row + 1].sum()
            y.backward()
            assert np.isfinite(x.grad.asnumpy()).all()

    def note() -> None:
        dropped.append(len(made))

    forget_kinds()
    with mx.settings.override(node_limit=16_000, tiers="background"):
        run(30)
        monkeypatch.setattr(FORGOTTEN, "listeners", [*FORGOTTEN.listeners, note])
        before = len(made)
        run(60)
    assert before > 3
    assert len(dropped) > 1
    assert len(made) == before
    constants = constants_of_kinds()
    assert constants
    assert _are_interned(constants)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("count", "are_dropped"), [(3, False), (600, True)])
def test_kinds_are_dropped_when_they_hold_many_nodes(
    count: int, are_dropped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [leaf(-1 - number, (number,), np.dtype(np.float32)) for number in range(count)]
    monkeypatch.setattr(cache, "constants_of_kinds", lambda: held)
    drops: list[int] = []
    monkeypatch.setattr(UNLEARNED, "listeners", [*UNLEARNED.listeners, lambda: drops.append(1)])
    with mx.settings.override(node_limit=8 * 1000):
        for columns in range(1, 20):
            evaluate(columns)
    assert bool(drops) is are_dropped
    assert _are_interned(held) is not are_dropped
