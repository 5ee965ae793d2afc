"""The planner process: the plans that a thread would make, and threads where there can be no process."""

from __future__ import annotations

import itertools
import marshal
import multiprocessing.process
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan import cache, disk, planner_process, planner_worker, promotion
from phonograd.core.plan.cache import forget_nodes
from phonograd.core.plan.disk import DiskProgram, describe, program_for, recalled_program
from phonograd.core.plan.packed_plans import PackedGraph
from phonograd.core.plan.planner_process import graph_message
from phonograd.core.run import disk_cache, kernel_cache, thread_pool
from phonograd.core.run.reference import order, resolve

from ..ops.checks import leaves_for
from .test_samples import FIRST, SAMPLES, _gradients

FLOAT32 = np.dtype("float32")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory for plans and kernels, and a process that knows no kernel."""
    monkeypatch.setattr(disk_cache, "_STARTED", time.time() + 1e6)
    with settings.override(cache_directory=str(tmp_path)):
        kernel_cache.wait_for_tier_up()
        monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
        monkeypatch.setattr(disk, "_stored", 0)
        yield tmp_path


def _described(targets: Sequence[Node], known: Sequence[Node] = ()) -> tuple[bytes | None, Any]:
    """Return the description of a plan, and the message that would be sent."""
    wanted = [resolve(node) for node in targets]
    inputs, computed = order(wanted, set(known).__contains__)
    message = graph_message(wanted, inputs, computed)
    return describe(wanted, inputs, computed, False), None if message is None else marshal.dumps(message, 2)


def _description(message: bytes) -> bytes | None:
    """Return the description of the plan of a graph that was sent."""
    # as another process: forgetting all nodes takes longer
    for name in {"_leaf", "_item", *[row[0] for row in marshal.loads(message)[0] if row[0]]}:
        REGISTRY[name].table.clear()
    wanted, available = planner_worker.new_graph(marshal.loads(message))
    inputs, computed = order(wanted, available.__contains__)
    return describe(wanted, inputs, computed, False)


def test_a_graph_that_was_sent_has_the_same_description() -> None:
    sent = []
    for sample in SAMPLES:
        nodes, _ = leaves_for(sample.inputs)
        has_gradient = sample.order and any([sample is first for first in FIRST])
        if has_gradient:
            nodes = [variable(n, k) if n is not None and n.dtype.kind == "f" else n for k, n in enumerate(nodes)]
        results = sample.call(nodes)
        heads = [head for head in results if head.marked and head.dtype.kind == "f"]
        targets = [resolve(node) for node in (*results, *(_gradients(heads) if has_gradient and heads else ()))]
        targets = [node for node in dict.fromkeys(targets) if node.inputs]
        description, message = _described(targets)
        assert (description is None) == (message is None), sample
        if targets and message is not None:
            sent.append((sample, description, message))
    assert len(sent) > len(SAMPLES) // 2
    for sample, description, message in sent:
        assert _description(message) == description, sample
    forget_nodes()


def test_available_values_are_described_as_deep_as_rules_look() -> None:
    x = leaf(0, (7, 9), FLOAT32)
    below = REGISTRY["tanh"](x)
    for _ in range(10):
        below = REGISTRY["tanh"](below * 2.0)
    wanted = REGISTRY["exp"](below + x)
    description, message = _described([wanted], [below])
    assert message is not None
    assert len(marshal.loads(message)[0]) < 12
    assert _description(message) == description


def test_a_request_leaves_the_plan_and_its_kernels_on_disk(directory: Path) -> None:
    def targets() -> list[Node]:
        x, y = leaf(0, (7, 11), FLOAT32), leaf(1, (11, 5), FLOAT32)
        z = REGISTRY["tanh"](x * x + 0.5)
        return [matmul(z, y), REGISTRY["gammaln"](z) * 2.0]

    forget_nodes()
    wanted = targets()
    inputs, computed = order(wanted, lambda node: False)
    description = describe(wanted, inputs, computed, True)
    store = kernel_cache.disk_cache()
    assert store is not None
    assert description is not None
    key = store.key(description, "p")
    request = planner_process._request("plan", key, True, graph_message(wanted, inputs, computed), [])
    assert planner_worker.answer(request)
    assert not planner_worker.answer(planner_process._request("plan", "p" + "0" * 64, True, marshal.loads(b"N"), []))
    before = kernel_cache.statistics.snapshot()
    program = program_for(targets(), lambda node: False, True)
    after = kernel_cache.statistics.snapshot()
    assert isinstance(program, disk.DiskProgram)
    assert after["kernels_compiled"] == before["kernels_compiled"]
    improvable = [kernel for kernel in program._used if kernel.improvable]
    assert improvable
    for kernel in improvable:
        assert kernel.key is not None
        assert planner_worker.answer(planner_process._request("improve", kernel.key))
        found = store.load(kernel.key)
        assert found is not None


def test_what_a_program_leaves_is_compiled_in_full(directory: Path) -> None:
    """At its end, the process compiles what waits in the program, and what it has itself compiled quickly."""
    program = program_for([REGISTRY["gammaln"](leaf(0, (7, 11), FLOAT32) * 3.0)], lambda node: False, True)
    keys = [kernel.key for kernel in program.kernels.values() if kernel.improvable]
    store = kernel_cache.disk_cache()
    assert store is not None
    assert keys
    assert set(keys) <= set(kernel_cache.left_to_compile_in_full())
    assert [key for key in keys if store.load(str(key)) is not None] == []
    # a record that cannot be learned changes nothing
    request = planner_process._request("finish", [("s" + "0" * 64, (b"", [[1], [2]]))], [])
    assert planner_worker.answer(request)
    assert [key for key in keys if store.load(str(key)) is None] == []


def test_the_process_goes_on_for_a_limited_time(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_worker, "FINISH_SECONDS", -1.0)
    compiled: list[str] = []
    monkeypatch.setattr(kernel_cache, "compile_in_full", compiled.append)
    assert not planner_worker.answer(planner_process._request("finish", [], ["k" + "0" * 64]))
    assert compiled == []


def test_the_end_of_a_program_leaves_plans_that_take_steady_inputs_packed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_worker, "_left_to_pack", [])

    def targets() -> list[Node]:
        return [REGISTRY["tanh"](matmul(leaf(0, (32, 300), FLOAT32), leaf(1, (300, 200), FLOAT32)))]

    forget_nodes()
    wanted = targets()
    inputs, computed = order(wanted, lambda node: False)
    store, description = kernel_cache.disk_cache(), describe(wanted, inputs, computed, False)
    assert store is not None
    assert description is not None
    message = graph_message(wanted, inputs, computed)
    request = planner_process._request("plan", store.key(description, "p"), False, message, [1])
    assert planner_worker.answer(request)

    def packed_key() -> str:
        program = program_for(targets(), lambda node: False, False)
        graph = PackedGraph.of([node for node, _ in program.kept], program.inputs, [1])
        assert graph is not None
        return graph.key(store) or ""

    def recalled() -> DiskProgram:
        found = recalled_program(targets(), lambda node: False, False)
        assert found is not None
        return found

    assert store.load(packed_key()) is None
    plain = recalled()
    assert plain.packed is None
    assert planner_worker.answer(planner_process._request("finish", [], []))
    assert store.load(packed_key()) is not None
    # a later process takes the input packed from the first run on
    program = recalled()
    assert program.packed is not None
    generator = np.random.default_rng(0)
    values = [generator.standard_normal(shape).astype(FLOAT32) for shape in ((32, 300), (300, 200))]
    for _ in range(3):
        assert program.run(list(values))[0].tobytes() == plain.run(list(values))[0].tobytes()
    assert program.packed.nbytes
    # until other arrays come in every run
    for _ in range(8):
        values[1] = values[1] + 1
        assert program.run(list(values))[0].tobytes() == plain.run(list(values))[0].tobytes()
    assert program.packed is None


def test_inputs_that_stay_the_same_are_named_to_the_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "seeking_ns", lambda size: 0)
    monkeypatch.setattr(cache, "planning_ns", lambda size: 1 << 60)
    shapes: list[set[tuple[int, ...]]] = []

    def prepare(targets: Any, known: Any, keep_all: bool, steady: set[Node]) -> None:
        shapes.append({node.shape for node in steady})

    monkeypatch.setattr(planner_process, "prepare", prepare)
    kept = nd.ones((16, 48))
    with settings.override(tiers="background"):

        def step() -> None:
            nd.tanh(nd.dot(nd.ones((64, 16)) * 1.5, kept)).asnumpy()

        for _ in range(3):
            step()
            promotion.finish()
        for _, _, plan in cache.PLANS.all():
            plan.due_ns = 0
        step()
        promotion.finish()
    assert shapes == [{(16, 48)}]


def _step(x: nd.NDArray, w: nd.NDArray) -> float:
    with autograd.record():
        loss = (nd.tanh(nd.dot(x, w)) * 0.5 + x).sum()
    loss.backward()
    w[:] = w - 0.1 * w.grad
    return float(loss.asscalar())


def _run(steps: int) -> list[float]:
    x, w = nd.array(np.linspace(-1, 1, 37 * 37).reshape(37, 37)), nd.array(np.linspace(0, 1, 37 * 37).reshape(37, 37))
    w.attach_grad()
    return [_step(x, w) for _ in range(steps)]


def _provisional() -> int:
    return sum([plan.is_provisional and plan.program is not None for _, _, plan in cache.PLANS.all()])


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="processes are started by posix_spawn")
def test_another_process_plans_and_compiles(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "planning_ns", lambda size: 0)
    # other tests may keep all cores busy
    monkeypatch.setattr(planner_process, "MOST_SECONDS", 1e6)
    monkeypatch.setattr(planner_process, "STARVED_SECONDS", 1e6)
    with settings.override(tiers="plan"):
        expected = _run(8)
    cache.forget_nodes()
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    for path in (directory / "kernels").iterdir():
        path.unlink()
    before = kernel_cache.statistics.snapshot()
    with settings.override(planner="process", tiers="background"):
        found = _run(3)
        promotion.finish()
        found_later = _run(8)
        promotion.finish()
        kernel_cache.wait_for_tier_up()
        last = _run(8)
    planner_process.end()
    after = kernel_cache.statistics.snapshot()
    assert found == expected[:3]
    assert found_later == expected
    assert last == expected
    assert after["plans_loaded"] > before["plans_loaded"]
    assert after["kernels_improved"] > before["kernels_improved"]
    assert after["kernels_compiled"] == before["kernels_compiled"]


SHORT_PROGRAM = """
import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.plan.sized_records import RECORDS

weight = nd.ones((16, 8))
weight.attach_grad()
found = []
for batch in range(5, 45):
    data = nd.ones((batch, 16)) * batch
    with autograd.record():
        loss = nd.square(nd.tanh(nd.dot(data, weight)) - 0.5).mean()
    loss.backward()
    found.append(weight.grad.asnumpy().tobytes())
import hashlib
structures = [each for known in RECORDS._by_settings.values() for each in known.values()]
print(hashlib.sha256(b"".join(found)).hexdigest(), sum([each.used for each in structures]))
"""


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="processes are started by posix_spawn")
def test_a_short_program_leaves_its_records_to_the_planner_process(tmp_path: Path) -> None:
    """The next run of the program finds the plans for any extents that this one was too short to learn."""
    names = {"PHONOGRAD_CACHE_DIRECTORY": str(tmp_path), "PHONOGRAD_PLANNER": "process"}
    # the planner process gets no core while other tests run: it has time, but must not be given up
    program = f"from phonograd.core.plan import planner_process as p; p.STARVED_SECONDS = 1e6\n{SHORT_PROGRAM}"
    command = [sys.executable, "-c", program]

    def run() -> tuple[str, int]:
        done = subprocess.run(command, env=os.environ | names, check=True, capture_output=True, text=True)
        digest, used = done.stdout.split()
        return digest, int(used)

    digest, used = run()
    assert used < 40, "all records had plans at once"
    end = time.monotonic() + 60
    again, later = run()
    while later < 30 and time.monotonic() < end:
        time.sleep(0.5)
        again, later = run()
    assert again == digest
    assert later >= 30


def test_a_thread_plans_where_no_process_can_be_started(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "planning_ns", lambda size: 0)
    monkeypatch.setattr(planner_process, "_planner", planner_process.PlannerProcess())
    monkeypatch.setattr(planner_process, "_PROGRAM", "raise SystemExit(3)")
    # one graph of a step is planned
    monkeypatch.setattr(planner_process, "MOST_FAILURES", 1)
    with settings.override(planner="process", tiers="background"):
        assert planner_process.is_used()
        cache.forget_nodes()
        before = kernel_cache.statistics.snapshot()
        _run(3)
        promotion.finish()
        _run(4)
        promotion.finish()
        _run(4)
        promotion.finish()
        assert not planner_process.is_used()
    assert kernel_cache.statistics.kernels_compiled > before["kernels_compiled"]


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="processes are started by posix_spawn")
def test_a_process_that_refuses_everything_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = "import os, socket; s = socket.socket(fileno=0)\nwhile s.recv(1 << 20): s.send(bytes(1))"
    monkeypatch.setattr(
        planner_process, "_PROGRAM", f"import os; os.fork() and os._exit(0); os.write(0, bytes(8))\n{refusing}"
    )
    planner = planner_process.PlannerProcess()
    for _ in range(planner_process.MOST_REFUSALS):
        assert planner.is_usable
        assert not planner.ask(b"anything")
    assert not planner.is_usable
    planner.close()


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="processes are started by posix_spawn")
def test_a_process_that_gets_no_core_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = "import os; os.fork() and os._exit(0); os.write(0, bytes(8)); os.read(0, 1 << 20); os.read(0, 1)"
    monkeypatch.setattr(planner_process, "_PROGRAM", waiting)
    waited = itertools.count(0, int(0.9e9 * planner_process.STARVED_SECONDS))
    monkeypatch.setattr(planner_process, "_processor_ns", lambda process: (0, next(waited)))
    planner = planner_process.PlannerProcess()
    assert not planner.ask(b"anything")
    # once more: the first figures are those before the request
    assert next(waited) >= 3e9 * 0.9 * planner_process.STARVED_SECONDS
    assert not planner.is_usable
    planner.close()


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="processes are started by posix_spawn")
def test_workers_leave_their_cores_to_a_process_that_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    late = "import os, time; os.fork() and os._exit(0); os.write(0, bytes(8)); os.read(0, 99); time.sleep(0.2)"
    monkeypatch.setattr(planner_process, "_PROGRAM", f"{late}; os.write(0, bytes([1]))")
    calls: list[object] = []
    monkeypatch.setattr(thread_pool, "share_cores", calls.append)
    monkeypatch.setattr(thread_pool, "work_alone", lambda seconds: calls.append("alone"))
    times = itertools.count()
    # it waits for a core for twice as long as it runs
    monkeypatch.setattr(planner_process, "_processor_ns", lambda process: ((count := next(times)), 2 * count))
    planner = planner_process.PlannerProcess()
    assert planner.ask(b"anything")
    assert calls[0] is True
    assert calls[-1] is False
    assert set(calls[1:-1]) == {"alone"}
    planner.close()


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="processes are started by posix_spawn")
def test_a_process_finds_the_requests_of_a_program_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "received"
    late = "import os, socket, time; os.fork() and os._exit(0); time.sleep(0.5); s = socket.socket(fileno=0)"
    copy = (
        f"f = open({str(path)!r}, 'wb')\nwhile data := s.recv(99): f.write(data); f.flush()\nf.write(b'end'); f.close()"
    )
    monkeypatch.setattr(planner_process, "_PROGRAM", f"{late}\n{copy}")
    planner = planner_process.PlannerProcess()
    asking = threading.Thread(target=planner.ask, args=(b"first",))
    asking.start()
    deadline = time.monotonic() + 60
    while planner._is_sent is False or planner._socket is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    planner.close(lambda: b"last")
    asking.join()
    while not path.exists() or not path.read_bytes().endswith(b"end"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (
        path.read_bytes() == b"".join(len(each).to_bytes(8, "little") + each for each in (b"first", b"last")) + b"end"
    )


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the system does not tell")
def test_the_system_tells_how_long_a_process_has_run() -> None:
    before = planner_process._processor_ns(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = planner_process._processor_ns(os.getpid())
    assert after[0] - before[0] > 10_000_000
    assert after[1] >= before[1]
    # the number of no process
    assert planner_process._processor_ns(0) == (0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_processes_that_share_the_work_of_a_program_plan_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    with settings.override(planner="process", tiers="background"):
        assert planner_process.is_used()
        child = os.fork()
        if not child:
            os._exit(planner_process.is_used())
        assert os.waitpid(child, 0)[1] == 0
        assert planner_process.is_used()
        # as in a process that multiprocessing has started
        monkeypatch.setattr(multiprocessing.process, "_parent_process", object())
        assert not planner_process.is_used()


@pytest.mark.parametrize("name", ["", "/usr/bin/blender"])
def test_only_interpreters_are_started_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with settings.override(planner="process"):
        monkeypatch.setattr(sys, "executable", "/usr/bin/python3.11")
        assert planner_process.is_used() == hasattr(os, "posix_spawn")
        monkeypatch.setattr(sys, "executable", name)
        assert not planner_process.is_used()


def test_the_setting_is_checked() -> None:
    with pytest.raises(ValueError, match="planner must be 'process' or 'thread', not 'x'"):
        mx.settings.update(planner="x")
