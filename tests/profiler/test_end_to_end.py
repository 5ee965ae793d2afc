"""Profiles of real programs: operators, kernels, gradients and memory, credited to the scopes that caused them."""

import gc
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core import events as observers
from phonograd.core.events import BACKWARD_FUNCTION, EVALUATION, FUNCTION, KERNEL
from phonograd.profiler import load, profile, record_function, schedule, validate_trace

SIZES = (48, 32, 16)


class Program:
    """A small network that learns something."""

    def __init__(self) -> None:
        batch, inputs, outputs = SIZES
        self.data = nd.array(np.linspace(-1, 1, batch * inputs).reshape(batch, inputs))
        self.weight = nd.array(np.linspace(-1, 1, inputs * outputs).reshape(inputs, outputs))
        self.weight.attach_grad()

    def step(self) -> float:
        with record_function("forward"), autograd.record():
            with record_function("dense"):
                hidden = nd.dot(self.data, self.weight)
            with record_function("loss"):
                loss = nd.tanh(hidden).sum()
        with record_function("backward"):
            loss.backward()
        with record_function("update"):
            self.weight[:] = self.weight - 0.1 * self.weight.grad
        with record_function("read"):
            value = float(loss.asscalar())
            self.weight.wait_to_read()
        return value


@pytest.fixture(scope="module")
def program() -> Program:
    made = Program()
    made.step()
    return made


def test_operators_kernels_and_gradients(program: Program) -> None:
    with profile(with_flops=True) as prof:
        program.step()
    events = prof.events()
    operators = [event for event in events if event.scope == FUNCTION]
    assert {"dot", "tanh", "sum"} <= {event.name for event in operators}
    (dot,) = [event for event in operators if event.name == "dot"]
    batch, inputs, outputs = SIZES
    assert dot.flops == 2 * batch * inputs * outputs
    assert dot.parent is not None
    assert dot.parent.name == "dense"
    kernels = [event for event in events if event.scope == KERNEL]
    assert kernels
    assert all(event.operators for event in kernels)
    assert all(event.parent is not None and event.parent.scope == EVALUATION for event in kernels)
    linked = {(forward.name, backward.name) for forward, backward in events.links}
    assert {("dot", "_backward_dot"), ("tanh", "_backward_tanh"), ("sum", "_backward_sum")} <= linked
    assert all(backward.scope == BACKWARD_FUNCTION for _, backward in events.links)


def test_scopes_are_credited_with_what_they_caused(program: Program) -> None:
    with profile() as prof:
        program.step()
    rows = prof.by_scope()
    kernels = sum(event.total_ns for event in prof.events() if event.scope == KERNEL)
    credited = sum(event.credit.self_kernel_ns for event in prof.events()) + prof.events().uncredited_ns
    assert credited == pytest.approx(kernels)
    assert rows["forward > dense"]["kernel_us"] > 0
    assert rows["forward > dense"]["backward_kernel_us"] > 0, "the gradient of the product is credited to its scope"
    assert rows["read"]["kernel_us"] == 0, "evaluations run where values are asked for, but were not caused there"
    assert sum(row["evaluation_us"] for row in rows if " > " not in row["name"]) > 0


def test_memory_comes_and_goes() -> None:
    source = nd.array(np.ones((64, 64)))
    source.wait_to_read()
    with profile(profile_memory=True) as prof, record_function("scope"):
        made = nd.exp(source)
        made.wait_to_read()
        del made
        mx.nd.waitall()
        gc.collect()
    timeline = prof.memory_timeline()
    assert timeline.peak >= 64 * 64 * 4
    assert timeline.end < timeline.peak
    assert prof.events()[0].credit.peak >= 64 * 64 * 4


def test_every_file_can_be_written(program: Program, tmp_path: Path) -> None:
    steps = schedule(wait=0, warmup=0, active=2, repeat=1)
    with profile(schedule=steps, profile_memory=True, with_flops=True, with_stack=True) as prof:
        for _ in range(2):
            program.step()
            prof.step()
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    assert validate_trace(tmp_path / "trace.json.gz") == []
    prof.export_html(tmp_path / "report.html")
    prof.export_perfetto_trace(tmp_path / "trace.pftrace")
    prof.export_speedscope(tmp_path / "speedscope.json")
    prof.export_pstats(tmp_path / "stats.prof")
    prof.export_folded(tmp_path / "folded.txt", "self_kernel_ns")
    assert "dense" in (tmp_path / "folded.txt").read_text() or "dot" in (tmp_path / "folded.txt").read_text()
    prof.save(tmp_path / "profile.json.gz")
    assert load(tmp_path / "profile.json.gz").table() == prof.table()
    assert [row["name"] for row in prof.by_step()] == ["ProfilerStep#0", "ProfilerStep#1"]


def test_profiling_changes_no_value() -> None:
    plain, profiled = Program(), Program()
    expected = [plain.step() for _ in range(3)]
    with profile(record_shapes=True, with_stack=True, profile_memory=True, with_flops=True):
        found = [profiled.step() for _ in range(3)]
    assert found == expected
    assert plain.weight.asnumpy().tobytes() == profiled.weight.asnumpy().tobytes()
    assert not any(observers.LISTENING)
