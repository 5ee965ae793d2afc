"""What memory of real arrays is for, how much of it there is, and to whom it is credited."""

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd, settings
from phonograd.core.events import LISTENING, MEMORY
from phonograd.profiler import load, profile, record_function, schedule

KILO = 1024


@pytest.fixture(params=["reference", "native"])
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "native":
        pytest.importorskip("llvmlite")
    with settings.override(executor=request.param):
        yield request.param


def array(*shape: int) -> nd.NDArray:
    return nd.array(np.linspace(0.1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))


class Training:
    """A network of two layers that learns with Adam."""

    def __init__(self) -> None:
        self.network = gluon.nn.Sequential()
        self.network.add(gluon.nn.Dense(256, activation="relu", in_units=100), gluon.nn.Dense(50, in_units=256))
        self.network.initialize()
        self.trainer = gluon.Trainer(self.network.collect_params(), "adam")
        self.weights = sum(parameter.data().size * 4 for parameter in self.network.collect_params().values())

    def step(self, look: bool = False) -> None:
        data, labels = array(64, 100), array(64, 50)
        with record_function("forward"), autograd.record():
            loss = ((self.network(data) - labels) ** 2).mean()
        if look:
            loss.wait_to_read()
        with record_function("backward"):
            loss.backward()
        with record_function("update"):
            self.trainer.step(64)
        loss.wait_to_read()
        mx.nd.waitall()


def test_every_category_of_a_training_step(executor: str) -> None:
    training = Training()
    training.step()
    # what other tests have left would be given back meanwhile
    gc.collect()
    with profile(profile_memory=True) as prof:
        training.step(look=True)
        training.step()
    timeline = prof.memory_timeline()
    at_end = timeline.by_category(-1)
    weights = training.weights
    known = {name: timeline.preexisting.get(name, 0) for name in ("parameter", "optimizer", "gradient")}
    assert known["parameter"] >= weights
    assert known["optimizer"] >= 2 * weights
    assert {name: at_end[name] for name in known} == known, "training neither takes nor gives back memory of these"
    columns = zip(*timeline.sizes, strict=True)
    most = {name: max(column) for name, column in zip(timeline.categories, columns, strict=True)}
    assert most["input"] >= 64 * 150 * 4
    assert most["activation"] >= 64 * 50 * 4
    assert at_end["activation"] == at_end.get("temporary", 0) == at_end.get("arena", 0) == 0
    if executor == "native":
        assert most["arena"] > 0, "what only kernels see lies in an arena while they run"


def test_results_outside_of_a_record_are_temporary(nothing_held: None) -> None:
    x = array(64, 16)
    with profile(profile_memory=True) as prof:
        y = nd.exp(x)
        y.wait_to_read()
        del y
    timeline = prof.memory_timeline()
    assert timeline.by_category()["temporary"] == 64 * 16 * 4
    assert timeline.by_category()["input"] == 64 * 16 * 4, "what was there before shows when it is first used"
    assert timeline.by_category(-1)["temporary"] == 0


def test_what_memory_is_for_may_turn_out_later(nothing_held: None) -> None:
    with profile(profile_memory=True) as prof:
        w = array(8, 32)
        w.attach_grad()
        with autograd.record():
            loss = (w * w).sum()
        loss.backward()
        w.grad.wait_to_read()
    timeline = prof.memory_timeline()
    assert timeline.categories[:2] == ["parameter", "gradient"]
    assert timeline.by_category(-1)["parameter"] == timeline.by_category(-1)["gradient"] == KILO
    assert timeline.by_category(-1).get("input", 0) == 0
    assert [size for size, *_ in timeline.sizes][:2] == [0, KILO], "it was one all the time"
    assert {piece.category for piece in timeline.largest(2, at_end=True)} == {"parameter", "gradient"}


def test_views_and_results_in_place_are_counted_once(nothing_held: None, executor: str) -> None:
    x = array(256, 256)
    x.wait_to_read()
    with profile(profile_memory=True) as prof:
        for _ in range(3):
            x += 1
            x.wait_to_read()
        row = x[3]
        nd.exp(row).wait_to_read()
    timeline = prof.memory_timeline()
    assert timeline.peak <= 2 * 256 * KILO + 4 * KILO
    assert timeline.end <= 256 * KILO + 2 * KILO


def test_scope_that_takes_and_gives_back() -> None:
    x = array(1024, 1024)
    x.wait_to_read()
    gc.collect()
    with profile(profile_memory=True) as prof:
        with record_function("scope"):
            y = x + x
            y.wait_to_read()
            del y
        with record_function("keeps"):
            kept = x * 3
            kept.wait_to_read()
    scopes = prof.by_scope()
    assert scopes["scope"]["net_bytes"] == 0
    assert scopes["scope"]["allocated_bytes"] == scopes["scope"]["peak_bytes"] == 4 << 20
    assert scopes["keeps"]["net_bytes"] == scopes["keeps"]["peak_bytes"] == 4 << 20


def test_memory_is_credited_to_the_scope_that_called_the_operators() -> None:
    x, w = array(32, 64), array(64, 16)
    w.attach_grad()
    mx.nd.waitall()
    gc.collect()
    with profile(profile_memory=True) as prof:
        with record_function("forward"), autograd.record():
            loss = nd.dot(x, w).sum()
        with record_function("backward"):
            loss.backward()
        with record_function("elsewhere"):
            w.grad.wait_to_read()
    forward = prof.by_scope()["forward"]
    assert forward["backward_bytes"] == 64 * 16 * 4, "its gradient is credited to the forward scope"
    assert forward["caused_bytes"] > 0
    assert forward["allocated_bytes"] == 0
    assert prof.by_scope()["elsewhere"]["allocated_bytes"] >= forward["backward_bytes"]
    assert "Caused Mem  Backward Mem" in prof.table()


def test_between_cycles_memory_is_looked_at_again() -> None:
    kept = []
    steps = schedule(wait=1, warmup=0, active=1, repeat=2)
    with profile(schedule=steps, profile_memory=True) as prof:
        for _ in range(4):
            kept.append(array(128, 1024))
            prof.step()
        whole = prof.memory_timeline()
    before = whole.preexisting.get("input", 0)
    assert whole.by_category(-1)["input"] == before + 3 * 512 * KILO, "also what nobody saw coming"


def test_saved_and_read_again_it_is_the_same(tmp_path: Path) -> None:
    training = Training()
    with profile(profile_memory=True) as prof:
        training.step()
    prof.save(tmp_path / "profile.json")
    again = load(tmp_path / "profile.json")
    assert again.memory_timeline().as_dict() == prof.memory_timeline().as_dict()
    assert again.by_scope().to_json() == prof.by_scope().to_json()


def test_nothing_is_kept_alive_and_nobody_is_told_without_asking() -> None:
    with profile(profile_memory=True):
        x = array(4, 4)
        x.wait_to_read()
    assert not LISTENING[MEMORY]
    del x
    gc.collect()
    with profile(profile_memory=True) as prof:
        pass
    assert not prof.events().moments
