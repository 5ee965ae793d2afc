"""Flags, scopes and switches belong to a thread, also where threads inherit the context of their parent."""

import contextvars
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import phonograd
from phonograd.core.base import thread_state

SOURCE = Path(phonograd.__file__).parent

#: sets every state, and tells what a new thread, a task and a captured state see of it
PROGRAM = """
import asyncio, json, sys, threading
import phonograd as mx
from phonograd import autograd, profiler
from phonograd.profiler.continuation import Captured
from phonograd.profiler.control import _prefix

def states():
    block = mx.gluon.nn.Dense(1)
    return [
        autograd.is_recording(), autograd.is_training(), mx.is_np_shape(), mx.util.is_np_array(), str(mx.current_context()),
        mx.AttrScope.current.get({}), mx.name.NameManager.current.get(None, "x"), block.prefix.startswith("outer_"),
        mx.engine._bulk_size.get(), _prefix.get(),
    ]

def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]

async def in_task():
    async def task():
        return states()
    return await asyncio.create_task(task())

fresh = in_thread(states)
outer = mx.gluon.nn.Sequential(prefix="outer_")
with autograd.record(), mx.util.np_shape(True), mx.util.np_array(True), mx.cpu(3), mx.AttrScope(a="1"):
    with mx.name.Prefix("p_"), mx.engine.bulk(7), profiler.scope("s"), outer.name_scope():
        here, task = states(), asyncio.run(in_task())
        there = in_thread(states)
        captured = Captured()
after = in_thread(states)
carried = in_thread(lambda: [captured.run(states), states()])
print(json.dumps([fresh, here, task, there, after, carried, bool(getattr(sys.flags, "thread_inherit_context", 0))]))
"""

#: a counter is part of the names, so only prefixes are compared
NAME = 6


def _without_counters(states: list[Any]) -> list[Any]:
    return [value.rstrip("0123456789") if place == NAME else value for place, value in enumerate(states)]


@pytest.mark.parametrize("inherits", ["0", "1"])
def test_new_threads_start_afresh_and_tasks_inherit(inherits: str) -> None:
    if inherits == "1" and sys.version_info < (3, 14):
        pytest.skip("threads never inherit a context before CPython 3.14")
    options = [f"-Xthread_inherit_context={inherits}"] if sys.version_info >= (3, 14) else []
    found = subprocess.run([sys.executable, *options, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    *states, carried, does_inherit = json.loads(found.stdout)
    assert does_inherit == (inherits == "1")
    fresh, here, task, there, after, inside, outside = map(_without_counters, [*states, *carried])
    assert fresh == [False, False, False, False, "cpu(0)", {}, "x", False, 0, ""]
    assert here == [True, True, True, True, "cpu(3)", {"a": "1"}, "outer_x", True, 7, "s:"]
    assert task == inside == here
    assert there == after == outside == fresh


def test_a_copied_context_of_another_thread_counts_for_nothing_until_it_is_adopted() -> None:
    state: thread_state._OwnedState[int] = thread_state._OwnedState("of a test", 5)
    try:
        state.set(6)
        context, owner = contextvars.copy_context(), thread_state.thread_identity()
        seen: list[int] = []

        def look() -> None:
            seen.append(state.get())
            thread_state.adopt(object())
            seen.append(state.get())
            thread_state.adopt(owner)
            seen.append(state.get())

        thread = threading.Thread(target=lambda: context.run(look))
        thread.start()
        thread.join()
        assert (seen, state.get()) == ([5, 5, 6], 6)
    finally:
        thread_state._owned.remove(state)


def test_all_state_of_threads_is_made_in_one_place() -> None:
    making = [path for path in SOURCE.rglob("*.py") if "ContextVar(" in path.read_text("utf-8")]
    assert [path.name for path in making] == ["thread_state.py"]
