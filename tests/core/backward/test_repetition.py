"""Records that come back: gradients are derived in portions, and a later process has them at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.backward import eager, repetition
from phonograd.core.derive import gradient
from phonograd.core.plan import cache

LAYERS = 6


@pytest.fixture(autouse=True)
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Backward passes that computed at once, of records that no other test has seen."""
    found: list[Any] = []
    whole = eager._run
    cache.forget_nodes()

    def run(*arguments: Any) -> Any:
        found.append(whole(*arguments))
        return found[-1]

    monkeypatch.setattr(eager, "_run", run)
    with mx.settings.override(tiers="background", executor="native"):
        yield found


def _gradient(layers: int = LAYERS) -> bytes:
    x, w = nd.arange(12).reshape((3, 4)) / 12, nd.arange(16).reshape((4, 4)) / 16
    w.attach_grad()
    with autograd.record():
        h = x
        for _ in range(layers):
            h = nd.tanh(nd.dot(h, w)) + 0.25
        loss = h.sum()
    loss.backward()
    return bytes(w.grad.asnumpy().tobytes())


def test_gradients_are_derived_in_portions(monkeypatch: pytest.MonkeyPatch, passes: list[Any]) -> None:
    # a portion is at least one node
    monkeypatch.setattr(repetition, "SHARE", 0.0)
    first = _gradient()
    nodes = len(passes[0].visited)
    assert nodes >= repetition.LEAST_NODES
    runs = 1
    while len(passes) == runs:
        assert _gradient() == first
        runs += 1
    # the first two runs derive nothing, and the last one uses the graph
    assert runs == 2 + nodes + 1
    assert _gradient() == first
    assert len(passes) == runs - 1


def test_an_interrupted_portion_begins_anew(monkeypatch: pytest.MonkeyPatch, passes: list[Any]) -> None:
    monkeypatch.setattr(repetition, "SHARE", 0.0)
    first = _gradient()
    visit, visits = gradient._Pass.visit, []

    def interrupted(self: Any, node: Any) -> None:
        visits.append(node)
        visit(self, node)
        if len(visits) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(gradient._Pass, "visit", interrupted)
    for _ in range(5):
        assert _gradient() == first
    with pytest.raises(KeyboardInterrupt):
        _gradient()
    assert len(visits) == 5
    runs = len(passes)
    assert _gradient() == first
    assert visits[5] is visits[0]
    while len(passes) > runs:
        runs = len(passes)
        assert _gradient() == first
    assert _gradient() == first


def test_small_records_are_derived_at_once(passes: list[Any]) -> None:
    first = _gradient(1)
    assert len(passes) == 1
    assert len(passes[0].visited) < repetition.LEAST_NODES
    assert _gradient(1) == first
    assert len(passes) == 1


def test_a_record_that_comes_back_is_not_new(monkeypatch: pytest.MonkeyPatch, passes: list[Any]) -> None:
    monkeypatch.setattr(repetition, "SHARE", 0.0)
    _gradient()
    _gradient()
    before = mx.explain.statistics()["plans"]
    _gradient()
    assert len(passes) == 3
    assert mx.explain.statistics()["plans"] == before


_PROGRAM = """
import json, sys
import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.plan import cache, promotion
from phonograd.core.run import kernel_cache

cache.planning_ns = lambda size: 0
x, w = nd.ones((8, 16)), nd.ones((16, 16)) * 0.03
w.attach_grad()
if sys.argv[1] == "changed":
    x = nd.ones((9, 16))
losses, loaded = [], []
for _ in range(60):
    with autograd.record():
        h = x
        for layer in range(8):
            h = nd.tanh(nd.dot(h, w)) + 0.5
        loss = (h * h).sum()
    loss.backward()
    w -= 0.001 * w.grad
    losses.append(float(loss.asscalar()).hex())
    loaded.append(kernel_cache.statistics.plans_loaded)
    promotion.finish()
print(json.dumps([losses, loaded]))
"""


def _run(directory: Path, word: str = "") -> tuple[list[str], list[int]]:
    environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": str(directory), "PHONOGRAD_TIERS": "background"}
    command = [sys.executable, "-c", _PROGRAM, word]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    losses, loaded = json.loads(found.stdout)
    return losses, loaded


def test_a_later_process_uses_the_plan_in_its_first_step(tmp_path: Path) -> None:
    losses, loaded = _run(tmp_path)
    assert loaded[-1] == 0, "nothing was on disk"
    again, loaded = _run(tmp_path)
    assert again == losses
    assert loaded[0] > 0, "the plan was not found"
    # a record without a mark
    _, loaded = _run(tmp_path, "changed")
    assert loaded[0] == 0


def test_marks_are_looked_for_in_the_first_records_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetition, "MOST_MISSES", 2)
    marks, sought = repetition._Marks(), []

    def is_stored(visited: Any) -> bool:
        sought.append(visited)
        return False

    monkeypatch.setattr(marks, "_is_stored", is_stored)
    visited: list[Any] = [None] * repetition.LEAST_NODES
    for _ in range(5):
        assert not marks.find(visited)
    assert len(sought) == repetition.MOST_MISSES
    assert not marks.find(visited[1:])


def test_records_without_a_mark_need_no_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from phonograd.core.ops.math.structural import leaf

    monkeypatch.setattr(repetition, "MOST_MISSES", 2)
    visited = [leaf(number, (3,), np.dtype("float32")) for number in range(repetition.LEAST_NODES)]
    asked = []
    run_apart = repetition.run_apart
    monkeypatch.setattr(repetition, "run_apart", lambda work: (asked.append(work), run_apart(work))[1])
    with mx.settings.override(cache_directory=str(tmp_path), tiers="background"):
        assert not repetition._Marks().find(visited)
        assert not asked
        repetition._Marks().leave(visited)
        assert repetition._Marks().find(visited)
        assert asked


def test_outlines_tell_records_apart() -> None:
    from phonograd.core.derive.gradient import order_users_first
    from phonograd.core.ops.math.elementary import sigmoid, tanh
    from phonograd.core.ops.math.structural import leaf, variable

    def outline(rows: int, first: Any, second: Any) -> bytes:
        x = variable(leaf(0, (rows, 3), np.dtype("float32")), 0)
        return repetition._outline(order_users_first((first(second(x)),)))

    ways = [outline(2, tanh, sigmoid), outline(2, sigmoid, tanh), outline(3, tanh, sigmoid), outline(2, tanh, tanh)]
    assert len(set(ways)) == 4
    assert outline(2, tanh, sigmoid) == ways[0]
