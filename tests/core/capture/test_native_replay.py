"""Calls of small networks that machine code repeats return what Python returns, and leave all others to Python."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd, settings
from phonograd.core.capture import native_replay
from phonograd.core.capture.compiled import _Repeatable
from phonograd.core.capture.native_replay import NativeReplay
from phonograd.core.run import kernel_cache, packed_operands

with settings.override(tiers="plan"):
    IS_SUPPORTED = kernel_cache.available() and native_replay.code() is not None
pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="Python repeats all calls here")

#: calls until machine code repeats them: two to capture, eight for the program, eight for that with packed weights
CALLS = 40


@pytest.fixture(autouse=True)
def _planned_at_once() -> Iterator[None]:
    with settings.override(tiers="plan"):
        yield


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list of whether machine code has repeated the calls that it was asked to repeat."""
    found: list[bool] = []
    repeat = NativeReplay.repeat

    def noted(self: NativeReplay, arguments: tuple[Any, ...]) -> Any:
        result = repeat(self, arguments)
        found.append(result is not None)
        return result

    monkeypatch.setattr(NativeReplay, "repeat", noted)
    return found


def network() -> Any:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(24, activation="relu", in_units=16), gluon.nn.Dense(12, in_units=24))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def data(seed: int = 0, batch: int = 1) -> Any:
    made = nd.array(np.random.default_rng(seed).standard_normal((batch, 16)).astype(np.float32))
    made.wait_to_read()
    return made


def python(net: Any, x: Any) -> Any:
    """Return the result of a network, computed operator by operator."""
    weights = [nd.array(parameter.data().asnumpy()) for parameter in net.collect_params().values()]
    hidden = nd.relu(nd.FullyConnected(x, *weights[:2], num_hidden=24))
    return nd.FullyConnected(hidden, *weights[2:], num_hidden=12).asnumpy()


@pytest.fixture(scope="module")
def net() -> Any:
    """Return a network whose calls are repeated by machine code, with packed weights."""
    with settings.override(tiers="plan"):
        return settled()


def settled() -> Any:
    net = network()
    for turn in range(CALLS):
        net(data(turn)).wait_to_read()
    return net


def test_results_are_the_same(net: Any, native: list[bool]) -> None:
    for seed in range(5):
        x = data(100 + seed)
        before = kernel_cache.statistics.native_calls
        found = net(x)
        assert kernel_cache.statistics.native_calls == before + 1
        assert native == [True] * (seed + 1)
        assert type(found) is nd.NDArray
        assert found.context == mx.cpu()
        assert found.asnumpy().tobytes() == python(net, x).tobytes()
    # results are arrays like all others
    found[:] = 1
    with autograd.record():
        assert (found * 2).asnumpy().tolist() == [[2.0] * 12]


def variable(x: Any) -> Any:
    x.attach_grad()
    return x


def read_only(x: Any) -> Any:
    x._readonly = True
    return x


def transposed() -> Any:
    x = data()
    x._buffer = np.ones((1, 32), np.float32)[:, ::2]
    return x


OTHERS: dict[str, Callable[[], Any]] = {
    "shape": lambda: data(0, 3),
    "axes": lambda: nd.ones((1, 16, 1)),
    "pending": lambda: data() * 2,
    "view": lambda: nd.ones((4, 16))[1:2],
    "variable": lambda: variable(data()),
    "read-only": lambda: read_only(data()),
    "not contiguous": transposed,
    "shared memory": lambda: mx.nd.from_dlpack(np.ones((1, 16), np.float32).__dlpack__()),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_arguments(kind: str, net: Any, native: list[bool]) -> None:
    expected = python(net, OTHERS[kind]())
    x = OTHERS[kind]()
    assert net(x).asnumpy().tobytes() == expected.tobytes()
    assert True not in native
    y = data(5)
    for _ in range(CALLS):
        found = net(y).asnumpy()
    assert native[-1]
    assert found.tobytes() == python(net, y).tobytes()


def test_two_arguments(native: list[bool]) -> None:
    function = mx.compile(lambda x, y: nd.dot(x, y) + x)
    x, y = nd.random.normal(shape=(16, 16)), nd.random.normal(shape=(16, 16))
    x.wait_to_read()
    y.wait_to_read()
    for _ in range(CALLS):
        found = function(x, y).asnumpy()
    assert native[-1]
    assert found.tobytes() == (nd.dot(x, y) + x).asnumpy().tobytes()
    assert function(y, x).asnumpy().tobytes() == (nd.dot(y, x) + y).asnumpy().tobytes()
    native.clear()
    assert function(x, x).asnumpy().tobytes() == (nd.dot(x, x) + x).asnumpy().tobytes()
    assert True not in native


def test_large_results_and_arenas(native: list[bool]) -> None:
    function = mx.compile(lambda x, y: nd.tanh(nd.dot(nd.dot(x, y) + 1, x)))
    x, y = nd.random.normal(shape=(200, 200)), nd.random.normal(shape=(200, 200))
    x.wait_to_read()
    y.wait_to_read()
    for _ in range(CALLS):
        found = function(x, y)
        found.wait_to_read()
    assert native[-1]
    assert found.asnumpy().tobytes() == nd.tanh(nd.dot(nd.dot(x, y) + 1, x)).asnumpy().tobytes()
    # each call has memory of its own, which is freed with its result
    other = function(y, x)
    memory = weakref.ref(other._buffer)
    assert other._buffer is not found._buffer
    assert not np.shares_memory(other._buffer, found._buffer)
    del other
    assert memory() is None


def test_a_program_that_is_packed_from_its_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # as programs from disk are, which never count their runs
    net, x, programs = settled(), data(6), []
    repeat = NativeReplay.repeat

    def noted(self: NativeReplay, arguments: tuple[Any, ...]) -> Any:
        programs.append(self.program)
        return repeat(self, arguments)

    monkeypatch.setattr(NativeReplay, "repeat", noted)
    net(x).wait_to_read()
    program = programs[-1]
    assert program.packed is not None
    program.runs = 0
    for each in gc.get_objects():
        if isinstance(each, _Repeatable) and each._native is not None and each._native.program is program:
            each._native = None
    programs.clear()
    for _ in range(CALLS):
        found = net(x).asnumpy()
    assert programs[-1] is program
    assert program.runs == 0
    assert found.tobytes() == python(net, x).tobytes()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "set": lambda p: p.set_data(nd.ones(p.shape)),
    "written": lambda p: p.data().__setitem__((slice(None), slice(0, 2)), 3),
    "pending": lambda p: p.data().__imul__(2),
    "no variable": lambda p: setattr(p, "grad_req", "null"),
    "another variable": lambda p: setattr(p, "grad_req", "add"),
    "forgotten": lambda p: [each.drop() for each in packed_operands._holders],
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights(change: str, net: Any, native: list[bool]) -> None:
    x = data(7)
    for _ in range(2):
        CHANGES[change](net[0].weight)
        expected = python(net, x)
        for _ in range(3):
            assert net(x).asnumpy().tobytes() == expected.tobytes()
    native.clear()
    for _ in range(CALLS):
        assert net(x).asnumpy().tobytes() == expected.tobytes()
    assert native[-1]


def test_states_in_which_python_repeats(net: Any, native: list[bool]) -> None:
    x = data(3)
    expected = python(net, x)
    with autograd.record():
        recorded = net(x)
    recorded.backward()
    assert net[1].bias.grad().asnumpy().any()
    with autograd.train_mode():
        found = [net(x).asnumpy()]
    with mx.cpu(1):
        found.append(net(x).asnumpy())
    with settings.override(executor="reference"):
        assert np.allclose(net(x).asnumpy(), expected, atol=1e-5)
    with autograd.detect_anomaly():
        found.append(net(x).asnumpy())
    assert True not in native
    assert {each.tobytes() for each in found} == {expected.tobytes()}


def test_native_calls_can_be_turned_off(native: list[bool]) -> None:
    with settings.override(native_calls=False):
        settled()
    assert not native


def test_references_are_given_back(net: Any, native: list[bool]) -> None:
    x, y = data(1), nd.ones((4, 16))[1:2]
    watched = [None, x, x._buffer, x._buffer.dtype, *[p.data()._buffer for p in net.collect_params().values()]]

    def counts() -> list[int]:
        return [sys.getrefcount(each) for each in watched]

    for argument in (x, y):
        for _ in range(CALLS):
            net(argument).wait_to_read()
        before = counts()
        for _ in range(200):
            net(argument).wait_to_read()
        assert all([abs(first - second) < 50 for first, second in zip(before, counts())])
    assert native.count(True) > 200


def test_several_threads(net: Any) -> None:
    x = data(2)
    weights = [nd.array(np.full((12, 24), value, np.float32)) for value in (1, 2)]
    expected = set()
    for weight in weights:
        net[1].weight.set_data(weight)
        expected.add(python(net, x).tobytes())
    found: set[bytes] = set()

    def call() -> None:
        for _ in range(300):
            found.add(net(x).asnumpy().tobytes())

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    turn = 0
    while any([thread.is_alive() for thread in threads]):
        net[1].weight.set_data(weights[turn % 2])
        turn += 1
    for thread in threads:
        thread.join()
    assert found <= expected
