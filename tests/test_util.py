"""The switches of ``mxnet.util``: NumPy shapes per thread and process, scopes, decorators, the environment."""

import asyncio
import os
import threading

import pytest

from phonograd import util
from phonograd.core.base.errors import MXNetError


@pytest.fixture(autouse=True)
def off():
    """Leave the switches as they were found."""
    yield
    util.set_np_shape(0)


def in_another_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_switching_returns_the_previous_state():
    assert util.is_np_shape() is False
    assert util.set_np_shape(True) is False
    assert util.is_np_shape() is True
    assert util.set_np_shape(False) is True
    assert util.is_np_shape() is False


def test_one_is_for_this_thread_and_two_for_all():
    util.set_np_shape(1)
    assert util.np_shape_state() == 1
    assert in_another_thread(util.is_np_shape) is False
    util.set_np_shape(2)
    assert util.np_shape_state() == 2
    assert in_another_thread(util.is_np_shape) is True
    assert in_another_thread(lambda: (util.set_np_shape(0), util.is_np_shape())) == (True, False)
    assert util.is_np_shape() is True
    assert in_another_thread(util.is_np_shape) is False
    util.set_np_shape(0)
    assert util.np_shape_state() == 0


@pytest.mark.parametrize("value", [None, "a", 1.0])
def test_the_switch_takes_whole_numbers(value):
    with pytest.raises(TypeError):
        util.set_np_shape(value)


def test_other_numbers_are_refused():
    with pytest.raises(ValueError, match=r"0 \(off\), 1 \(on in this thread\) or 2"):
        util.set_np_shape(3)


def test_scopes_nest_and_restore():
    scope = util.np_shape(True)
    with scope as bound:
        assert bound is None
        with util.np_shape(False):
            assert not util.is_np_shape()
            with scope:
                assert util.is_np_shape()
            assert not util.is_np_shape()
        assert util.is_np_shape()
    assert not util.is_np_shape()
    with pytest.raises(ZeroDivisionError), util.np_shape():
        raise ZeroDivisionError
    assert not util.is_np_shape()


def test_a_scope_leaves_the_other_threads_alone():
    util.set_np_shape(2)
    with util.np_shape(False):
        assert in_another_thread(util.is_np_shape) is True
    assert util.np_shape_state() == 2


def test_tasks_have_their_own_scopes():
    async def inside(ready, release):
        with util.np_shape(True):
            ready.set()
            await release.wait()
            return util.is_np_shape()

    async def main():
        ready, release = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(inside(ready, release))
        await ready.wait()
        outside = util.is_np_shape()
        release.set()
        return outside, await task

    assert asyncio.run(main()) == (False, True)


def test_functions_are_decorated():
    @util.use_np_shape
    def question(answer, *, suffix=""):
        """Ask."""
        return util.is_np_shape(), answer + suffix

    @util.np_shape(False)
    def opposite():
        return util.is_np_shape()

    assert question("a", suffix="b") == (True, "ab")
    assert (question.__name__, question.__doc__) == ("question", "Ask.")
    with util.np_shape(True):
        assert opposite() is False


def test_classes_are_decorated():
    @util.use_np_shape
    class Net:
        def __init__(self):
            self.made = util.is_np_shape()

        def __call__(self):
            return util.is_np_shape()

        @property
        def active(self):
            """Ask."""
            return util.is_np_shape()

        @active.setter
        def active(self, value):
            self.made = (value, util.is_np_shape())

        @staticmethod
        def static():
            return util.is_np_shape()

        @classmethod
        def of_class(cls):
            return cls, util.is_np_shape()

    net = Net()
    assert (net.made, net(), net.active, Net.static(), Net.of_class()) == (True, True, True, True, (Net, True))
    net.active = 5
    assert net.made == (5, True)
    assert Net.active.__doc__ == "Ask."
    assert not util.is_np_shape()


def test_nothing_else_can_be_decorated():
    with pytest.raises(TypeError, match="use_np_shape can only decorate classes and callable objects"):
        util.use_np_shape(3)


def test_array_semantics():
    assert util.is_np_array() is False
    with pytest.raises(ValueError, match="NumPy Shape semantics is required in using NumPy array semantics"):
        util.set_np(shape=False)
    with util.np_array(False):
        assert not util.is_np_array()
    with util.np_array():
        assert (util.is_np_array(), util.is_np_shape()) == (True, False)
    util.set_np(array=False)
    assert (util.is_np_array(), util.is_np_shape()) == (False, True)
    util.set_np()
    try:
        assert (util.is_np_array(), util.is_np_shape()) == (True, True)
        assert in_another_thread(util.is_np_array)
        with pytest.raises(ValueError, match="still active is not allowed"):
            util.set_np_shape(False)
        with util.np_array(False):
            assert not util.is_np_array()
    finally:
        util.reset_np()
    assert (util.is_np_array(), util.is_np_shape()) == (False, False)


def test_code_that_uses_numpy_semantics():
    @util.use_np
    class Net:
        def __call__(self):
            return util.is_np_array(), util.is_np_shape()

    assert Net()() == util.use_np(lambda: (util.is_np_array(), util.is_np_shape()))() == (True, True)
    assert util.use_np_array(lambda: (util.is_np_array(), util.is_np_shape()))() == (True, False)
    assert not util.is_np_array()
    with pytest.raises(TypeError, match="use_np_array can only decorate classes and callable objects"):
        util.use_np(3)


def test_environment_variables(monkeypatch):
    monkeypatch.delenv("PHONOGRAD_TEST_VARIABLE", raising=False)
    assert util.getenv("PHONOGRAD_TEST_VARIABLE") is None
    assert util.setenv("PHONOGRAD_TEST_VARIABLE", "5") is None
    assert os.environ["PHONOGRAD_TEST_VARIABLE"] == util.getenv("PHONOGRAD_TEST_VARIABLE") == "5"
    util.setenv("PHONOGRAD_TEST_VARIABLE", None)
    util.setenv("PHONOGRAD_TEST_VARIABLE", None)
    assert "PHONOGRAD_TEST_VARIABLE" not in os.environ


def test_gpus(tmp_path):
    from phonograd.core.base import devices

    assert util.get_gpu_count() == 0
    with pytest.raises(MXNetError, match="only supported for MXNet built with CUDA support"):
        util.get_gpu_memory(0)
    with pytest.raises(ValueError, match="Expecting a gpu context"):
        util.get_cuda_compute_capability(devices.cpu())
    with pytest.raises(MXNetError, match="No CUDA device"):
        util.get_cuda_compute_capability(devices.gpu())


def test_directories_and_module_names(tmp_path):
    util.makedirs(tmp_path / "a" / "b")
    util.makedirs(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    assert util.set_module("elsewhere")(lambda: None).__module__ == "elsewhere"
    assert util.set_module(None)(test_gpus).__module__ == __name__
