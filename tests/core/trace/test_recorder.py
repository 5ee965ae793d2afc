"""The strategies of traces: an ordinary one, and that of a captured function."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd
from phonograd.core.capture.capture import Capture
from phonograd.core.trace import recorder
from phonograd.core.trace.recorder import Recorder
from phonograd.core.trace.tape import Target
from phonograd.core.trace.trace import LOCAL, Trace

POINTS = {name for name in vars(Recorder) if not name.startswith("_")}


def test_the_table_lists_all_points() -> None:
    table = (Recorder.__doc__ or "").split("Leaves")[0]
    assert set(re.findall(r"^ *``(\w+)``", table, re.MULTILINE)) == POINTS


def test_a_capture_decides_at_every_point() -> None:
    assert set(vars(Capture)) >= POINTS
    assert POINTS.isdisjoint(vars(Trace)), "an ordinary trace has the ordinary strategy"


def test_only_captures_know_captures() -> None:
    source = Path(recorder.__file__).parent
    own = {"core/capture/capture.py", "core/capture/compiled.py", "core/capture/replay.py"}
    others = [path for path in source.rglob("*.py") if path.name not in own]
    asking = re.compile(r"isinstance\([^)]*Captur|type\([^)]*\) is (not )?Trace\b|import .*\bCapture\b")
    assert [path.name for path in others if asking.search(path.read_text(encoding="utf-8"))] == []


def test_the_ordinary_strategy_leaves_everything_to_the_caller() -> None:
    trace = Trace()
    array = nd.array([1.0, 2.0])
    assert trace.allows_shortcuts
    assert trace.constant(np.zeros(2, np.float32), array.context) is None
    assert trace.enter_outside(array) is None
    assert not trace.write_outside(array, array._node)
    trace.note_read()
    trace.refuse_capture("it does something")
    trace.note_pass()
    trace.note_gradient(array)
    trace.note_fresh(Target(), 1)
    assert not trace.leaves


def test_a_captured_function_sees_the_other_strategy() -> None:
    seen: list[Any] = []
    outside = nd.array([1.0, 2.0])
    # if earlier tests have left very many nodes, they are dropped now, and not between two calls of the function
    (outside + 1).asnumpy()

    @mx.compile
    def function(x: Any) -> Any:
        trace = LOCAL.trace
        seen.append(trace.allows_shortcuts)
        own = nd.ones((2,))
        seen.append((trace.enter_outside(outside) is not None, trace.enter_outside(own)))
        return x + own + outside

    for number in range(3):
        assert function(nd.array([number, 0.0])).asnumpy().tolist() == [number + 2.0, 3.0]
    assert seen == [False, (True, None)]
    assert LOCAL.trace.allows_shortcuts


def test_a_refusal_says_why() -> None:
    @mx.compile
    def function(x: Any) -> Any:
        x.attach_grad()
        return x * 2

    with pytest.warns(RuntimeWarning, match="it marks an array for gradients"):
        assert function(nd.ones((2,))).asnumpy().tolist() == [2.0, 2.0]


def test_points_are_documented() -> None:
    for name in POINTS - {"allows_shortcuts"}:
        assert inspect.getdoc(getattr(Recorder, name)), name
