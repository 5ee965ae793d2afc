"""Pauses of the garbage collector end, whatever happens in them."""

import gc
import os

import pytest

from phonograd import autograd, nd
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
