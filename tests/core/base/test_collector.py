"""Pauses of the garbage collector end, whatever happens in them, and what is made in them need not be looked at."""

import gc
import os
import subprocess
import sys

import pytest

from phonograd import autograd, nd
from phonograd.core.base import collector
from phonograd.core.base.collector import paused


@pytest.fixture(autouse=True)
def enabled():
    gc.enable()
    yield
    gc.enable()


def test_pauses_may_be_nested():
    with paused():
        with paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_pauses_may_overlap():
    first, second = paused(), paused()
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert gc.isenabled()
    second.__exit__()
    assert gc.isenabled()


def test_a_program_may_switch_it_off():
    gc.disable()
    with paused():
        pass
    assert not gc.isenabled()


def test_errors_end_pauses():
    with pytest.raises(KeyError), paused():
        raise KeyError
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_it_runs_in_a_child_that_was_forked_meanwhile():
    with paused():
        child = os.fork()
        if not child:
            # a thread of the parent has made the pause
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_it_runs_after_backward_passes():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = nd.tanh(x) * 3
    y.backward()
    assert gc.isenabled()
    assert x.grad.shape == (2,)


@pytest.fixture
def nothing_frozen():
    """Have the collector look at the collected tests, which conftest.py has set aside."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_many_new_objects_are_old_at_once():
    gc.enable()
    gc.collect()
    with paused(stay=True):
        objects = [[] for _ in range(2 * collector.MANY)]
    assert gc.get_freeze_count() < collector.FROZEN
    assert gc.get_count()[0] < len(objects), "they count as new no more"
    # garbage among them is found when everything is looked at
    loop = []
    loop.append(loop)
    del loop
    assert gc.collect() >= 1


def test_what_others_have_frozen_stays_so(monkeypatch):
    gc.enable()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: collector.FROZEN)
    monkeypatch.setattr(gc, "unfreeze", lambda: pytest.fail("it was others' to do"))
    with paused(stay=True):
        objects = [[] for _ in range(2 * collector.MANY)]
    assert len(objects) == 2 * collector.MANY
    assert gc.isenabled()


def test_the_modules_of_the_first_evaluation_are_old_at_once():
    program = """
import gc
import phonograd as mx

(mx.nd.ones((2,)) + 1).asnumpy()
print(len(gc.get_objects(0)) + len(gc.get_objects(1)))
"""
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(found.stdout) < collector.MANY // 2, "a collection in one of the first steps would look at them"
