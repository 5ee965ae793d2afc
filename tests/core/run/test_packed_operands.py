"""Packed operands: kept while weights do not change, never stale, the same bits, freed with the weights."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd, settings
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.disk import program_for
from phonograd.core.run import kernel_cache, packed_operands
from phonograd.core.run.packed_operands import Preparation, packed_bytes
from phonograd.core.run.program import RecipeProgram
from phonograd.gluon import nn

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not kernel_cache.available(), reason="NumPy packs nothing")

RUNS = 9


@pytest.fixture(autouse=True)
def _planned_at_once() -> Iterator[None]:
    with settings.override(tiers="plan"):
        yield


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of an input whenever it is packed."""
    found: list[int] = []
    run = Preparation.run

    def counted(self: Preparation, array: Any) -> Any:
        found.append(self.source)
        return run(self, array)

    monkeypatch.setattr(Preparation, "run", counted)
    return found


def network(prefix: str = "net") -> Any:
    """Return a network with all kinds of weights that are packed: products, columns, tiles."""
    mx.random.seed(3)
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(nn.Conv2D(16, 3, padding=1, in_channels=3), nn.Activation("relu"))
        net.add(nn.Conv2D(16, 3, padding=1, in_channels=16), nn.Conv2D(16, 1, in_channels=16), nn.Flatten())
        net.add(nn.Dense(24, in_units=16 * 64, activation="relu"), nn.Dense(12, in_units=24))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def data(batch: int = 2) -> Any:
    return nd.array(np.random.default_rng(0).standard_normal((batch, 3, 8, 8)).astype(np.float32))


def settle(net: Any, x: Any) -> Any:
    """Call a network until its weights are packed, and return the last result."""
    for _ in range(RUNS):
        found = net(x).asnumpy()
    return found


def expected(net: Any, x: Any) -> Any:
    """Return the values of a network with these weights that was never called, computed operator by operator."""
    with settings.override(tiers="background"):
        copy = network()
        for own, other in zip(copy.collect_params().values(), net.collect_params().values(), strict=True):
            own.set_data(nd.array(other.data().asnumpy()))
        return copy(x).asnumpy()


def test_weights_are_packed_once_with_the_same_bits(packings: list[int]) -> None:
    net, x = network(), data()
    first = net(x).asnumpy()
    for _ in range(RUNS):
        np.testing.assert_array_equal(net(x).asnumpy(), first)
    # two convolutions and two products
    assert len(packings) == 4
    other = data() * 2
    np.testing.assert_array_equal(net(other).asnumpy(), expected(net, other))
    assert len(packings) == 4


def test_nothing_is_kept_without_room(packings: list[int]) -> None:
    net, x = network(), data()
    with settings.override(packed_bytes=0):
        settle(net, x)
    assert not packings


def _trainer_step(net: Any) -> None:
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = net(data()).sum()
    loss.backward()
    trainer.step(2)


def _set_data(net: Any) -> None:
    for parameter in net.collect_params().values():
        parameter.set_data(parameter.data() * 2)


def _assign(net: Any) -> None:
    for parameter in net.collect_params().values():
        parameter.data()[:] = 0.5


def _assign_part(net: Any) -> None:
    for parameter in net.collect_params().values():
        parameter.data()[1] = 7


def _multiply_in_place(net: Any) -> None:
    for parameter in net.collect_params().values():
        array = parameter.data()
        array *= 3
        array.wait_to_read()


def _write_through_a_view(net: Any) -> None:
    for parameter in net.collect_params().values():
        part = parameter.data()[1:3]
        part[:] = -1


def _give_as_out(net: Any) -> None:
    for parameter in net.collect_params().values():
        array = parameter.data()
        nd.broadcast_add(array, nd.ones((1,)), out=array)


def _write_from_another_library(net: Any) -> None:
    for parameter in net.collect_params().values():
        np.from_dlpack(parameter.data())[...] = 0.25


def _update_operator(net: Any) -> None:
    for parameter in net.collect_params().values():
        array = parameter.data()
        nd.sgd_update(array, nd.ones_like(array), lr=0.5, out=array)


def _initialize_again(net: Any) -> None:
    net.initialize(mx.init.Normal(0.3), force_reinit=True)


def _in_another_thread(net: Any) -> None:
    thread = threading.Thread(target=_multiply_in_place, args=(net,))
    thread.start()
    thread.join()


WRITES = [
    *(_trainer_step, _set_data, _assign, _assign_part, _multiply_in_place, _write_through_a_view, _give_as_out),
    *(_write_from_another_library, _update_operator, _initialize_again, _in_another_thread),
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
def test_no_write_leaves_a_stale_result(write: Callable[[Any], None]) -> None:
    net, x = network(), data()
    before = settle(net, x)
    write(net)
    found = net(x).asnumpy()
    assert not np.array_equal(found, before)
    np.testing.assert_array_equal(found, expected(net, x))
    # and once more, when the new weights are packed
    write(net)
    np.testing.assert_array_equal(settle(net, x), expected(net, x))


def test_loaded_parameters_are_packed_anew(tmp_path: Path) -> None:
    net, x = network(), data()
    settle(net, x)
    other = network("net")
    other.initialize(mx.init.Normal(0.2), force_reinit=True)
    other.save_parameters(str(tmp_path / "net.params"))
    net.load_parameters(str(tmp_path / "net.params"))
    np.testing.assert_array_equal(net(x).asnumpy(), expected(other, x))


def test_copies_for_numpy_do_not_write() -> None:
    net, x = network(), data()
    before = settle(net, x)
    for parameter in net.collect_params().values():
        parameter.data().asnumpy()[...] = 9
    np.testing.assert_array_equal(net(x).asnumpy(), before)


def test_another_dtype_takes_other_weights() -> None:
    net, x = network(), data()
    before = settle(net, x)
    net.cast("float64")
    found = settle(net, x.astype("float64"))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, before, rtol=1e-4, atol=1e-5)


def test_weights_that_change_in_every_run_are_not_packed(packings: list[int]) -> None:
    net, x = network(), data()
    settle(net, x)
    packings.clear()
    for _ in range(8):
        _assign_part(net)
        _multiply_in_place(net)
        found = net(x).asnumpy()
    # each of the four is packed three times more, and then never again
    assert len(packings) == 4 * packed_operands.MOST_MISSES
    np.testing.assert_array_equal(found, expected(net, x))


def test_an_operand_that_changes_does_not_unpack_the_others(packings: list[int]) -> None:
    @mx.compile
    def products(x: Any, w: Any, v: Any) -> Any:
        return nd.dot(nd.dot(x, w, transpose_b=True), v, transpose_b=True)

    rng = np.random.default_rng(0)
    x, w, v = [nd.array(rng.standard_normal(shape).astype(np.float32)) for shape in ((3, 32), (48, 32), (16, 48))]
    for _ in range(RUNS):
        products(x, w, v).asnumpy()
    packings.clear()
    for number in range(20):
        v = nd.array(rng.standard_normal((16, 48)).astype(np.float32))
        assert products(x, w, v).asnumpy().shape == (3, 16), number
    # `w` was packed again once, for the plan without `v`
    assert packings.count(1) == 1
    assert packings.count(2) == packed_operands.MOST_MISSES


def test_memory_is_returned_with_the_network() -> None:
    gc.collect()
    before = packed_bytes()
    net, x = network(), data()
    settle(net, x)
    assert packed_bytes() - before > 4 * 16 * 64 * 24
    assert mx.memory_info().packed == packed_bytes()
    del net
    gc.collect()
    assert packed_bytes() == before


def test_packed_weights_are_shared_by_batch_sizes(packings: list[int]) -> None:
    net = network()
    settle(net, data(2))
    packings.clear()
    settle(net, data(3))
    # panels of products depend on the number of rows
    assert len(packings) <= 2


def test_the_least_recently_used_network_makes_room() -> None:
    gc.collect()
    nets = [network(f"net{number}") for number in range(2)]
    x = data()
    settle(nets[0], x)
    size = packed_bytes()
    with settings.override(packed_bytes=size + size // 2):
        values = settle(nets[1], x)
        assert packed_bytes() <= size + size // 2
        np.testing.assert_array_equal(nets[0](x).asnumpy(), values)
        assert packed_bytes() <= size + size // 2


def test_threads_use_one_network_at_once() -> None:
    net, x = network(), data()
    value = settle(net, x)
    wrong: list[Any] = []

    def predict() -> None:
        for _ in range(20):
            if not np.array_equal(net(x).asnumpy(), value):
                wrong.append(1)

    threads = [threading.Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_writes_its_own_weights() -> None:
    net, x = network(), data()
    before = settle(net, x)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            _multiply_in_place(net)
            os.write(write, net(x).asnumpy().tobytes())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = np.frombuffer(os.read(read, 1 << 16), np.float32).reshape(before.shape)
    os.close(read)
    os.close(write)
    np.testing.assert_array_equal(net(x).asnumpy(), before)
    _multiply_in_place(net)
    np.testing.assert_array_equal(found, net(x).asnumpy())


def programs_of(run: Callable[[], Any]) -> list[Any]:
    """Return the programs that a function runs."""
    found: list[Any] = []

    with pytest.MonkeyPatch.context() as patch:
        before = RecipeProgram.run

        def noted(self: Any, *arguments: Any) -> Any:
            found.append(self)
            return before(self, *arguments)

        patch.setattr(RecipeProgram, "run", noted)
        run()
    return found


def test_other_settings_of_algorithms_are_not_mixed() -> None:
    net, x = network(), data()
    program = programs_of(lambda: [net(x).asnumpy() for _ in range(3)])[-1]
    assert program.has_same_choices()
    with settings.override(winograd=0):
        assert not program.has_same_choices()
        program._pack([1, 3])
        assert program.packed is None
    program._pack([1, 3])
    assert program.packed is not None


@pytest.mark.parametrize(
    ("batch", "channels", "filters", "extent", "groups"),
    [(1, 160, 130, 7, 1), (3, 800, 34, 5, 1), (2, 320, 260, 6, 2), (1, 900, 70, 1, 1), (5, 256, 131, 1, 1)],
)
def test_weights_of_pointwise_convolutions_are_packed(
    batch: int, channels: int, filters: int, extent: int, groups: int, packings: list[int]
) -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(filters, 1, in_channels=channels, groups=groups), nn.Activation("relu"))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.random.normal(shape=(batch, channels, extent, extent))
    found = settle(net, x)
    assert packings == [1]
    values = [parameter.data() for parameter in net.collect_params().values()]
    with settings.override(tiers="background"):
        plain = nd.Convolution(x, *values, kernel=(1, 1), num_filter=filters, num_group=groups)
        assert found.tobytes() == nd.relu(plain).asnumpy().tobytes()


def test_weights_of_quantized_networks_are_kept(packings: list[int]) -> None:
    x = data()
    calibrated = mx.contrib.quantization.quantize_net_v2(network(), calib_data=[x], calib_mode="naive")
    calibrated.hybridize()
    with settings.override(packed_bytes=0):
        wanted = calibrated(x).asnumpy()
    found = settle(calibrated, x)
    assert found.tobytes() == wanted.tobytes()
    # two products, and convolutions by tiles and by columns
    assert len(packings) >= 4
    before = len(packings)
    settle(calibrated, x)
    assert len(packings) == before


@pytest.mark.parametrize("is_donated", [False, True])
def test_runs_that_write_over_inputs_ask_for_no_packing(is_donated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    float32 = np.dtype("float32")
    weight, data, other = [leaf(n, shape, float32) for n, shape in enumerate([(32, 200), (32, 300), (300, 200)])]
    program = program_for([weight - matmul(data, other) * 0.1], lambda node: False, False)
    assert program.donatable == (0,)
    asked: list[list[int]] = []
    monkeypatch.setattr(type(program), "_pack", lambda self, numbers: asked.append(numbers))
    values = [np.ones(node.shape, float32) for node in program.inputs]
    for _ in range(8):
        program.run(list(values), {0} if is_donated else ())
    assert asked == ([] if is_donated else [[0, 1, 2]])
