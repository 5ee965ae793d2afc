"""New graphs are computed operator by operator; those that come back are planned, in the background or at once."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, profiler, settings
from phonograd.core.base import processor
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.base.errors import MXNetError
from phonograd.core.base.signals import Signal
from phonograd.core.graph.node import statistics
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf
from phonograd.core.ops.vision.regions import assign_step
from phonograd.core.plan import cache, disk, eager, promotion
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import background, donation, kernel_cache
from phonograd.core.run.programs import Part
from phonograd.core.trace import novelty

PLENTY = 90


#: another size for each test, so that its graphs are new
_size = [3]


def chain(length: int, start: float = 0.5) -> nd.NDArray:
    """Return a value that takes some number of operators, another graph for each number."""
    x = nd.full((_size[0],), start)
    for step in range(length):
        x = nd.tanh(x * 0.5) if step % 3 else x + 1
    return x


def is_eager(value: nd.NDArray) -> bool:
    """Return whether a value that is asked for is computed eagerly."""
    before = len(_runs)
    value.asnumpy()
    return len(_runs) > before


_runs: list[int] = []


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    run = EagerProgram.run

    def counted(self, inputs, donated=(), note=None):  # type: ignore[no-untyped-def]
        _runs.append(1)
        return run(self, inputs, donated, note)

    monkeypatch.setattr(EagerProgram, "run", counted)
    # calls make nodes, although all graphs are new
    monkeypatch.setattr(novelty, "MANY_NEW", 1 << 30)


@pytest.fixture(params=["background", "blocking"], autouse=True)
def tiers(request: pytest.FixtureRequest) -> Iterator[str]:
    _size[0] += 1
    with mx.settings.override(tiers=request.param):
        yield request.param
        promotion.finish()


def test_new_graphs_are_computed_eagerly() -> None:
    assert all([is_eager(chain(PLENTY + number)) for number in range(12)])
    assert all([is_eager(chain(number, 0.25)) for number in range(1, 12)])


def test_a_graph_that_comes_back_is_planned(tiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "planning_ns", lambda size: 0)
    first = chain(PLENTY + 210)
    assert is_eager(first)
    again = chain(PLENTY + 210)
    assert is_eager(again) == (tiers == "background")
    promotion.finish()
    # and this is the plan that is found from then on
    made = statistics.plans
    third = chain(PLENTY + 210)
    assert not is_eager(third)
    assert first.asnumpy().tobytes() == again.asnumpy().tobytes() == third.asnumpy().tobytes()
    assert statistics.plans == made


def test_planning_has_to_be_worth_it(tiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiers == "blocking":
        pytest.skip("planned at the second evaluation")
    monkeypatch.setattr(cache, "planning_ns", lambda size: 10**12)
    assert all([is_eager(chain(PLENTY + 220)) for _ in range(5)])


@pytest.mark.skipif(
    not donation.COUNTS, reason="without counts, evaluations compute other parts of the graph each time"
)
def test_errors_of_the_helper_are_raised_by_the_next_evaluation(tiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiers == "blocking":
        pytest.skip("there is no helper")
    monkeypatch.setattr(cache, "planning_ns", lambda size: 0)

    def fail(*arguments: object) -> None:
        raise RuntimeError("no plan today")

    expected = chain(PLENTY + 230).asnumpy()
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_native_program", fail)
        assert chain(PLENTY + 230).asnumpy().tobytes() == expected.tobytes()
        promotion.finish()
        with pytest.raises(RuntimeError, match="no plan today"):
            chain(PLENTY + 230).asnumpy()
    assert chain(PLENTY + 230).asnumpy().tobytes() == expected.tobytes()


def test_plans_of_other_settings_are_not_used(tiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiers == "blocking":
        pytest.skip("there is no helper")
    monkeypatch.setattr(cache, "planning_ns", lambda size: 0)
    begin, go = threading.Event(), threading.Event()
    native = cache._native_program

    def slow(*arguments: Any) -> Any:
        begin.set()
        assert go.wait(30)
        return native(*arguments)

    chain(PLENTY + 250).asnumpy()
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_native_program", slow)
        chain(PLENTY + 250).asnumpy()
        assert begin.wait(30)
        with mx.settings.override(num_threads=1):
            go.set()
            promotion.finish()
    # it is planned again
    assert is_eager(chain(PLENTY + 250))
    promotion.finish()
    assert not is_eager(chain(PLENTY + 250))


def wait_for_helpers() -> None:
    """Wait until no helper works for later; those that load machine code do, too."""
    end = time.monotonic() + 60
    while background._giving_way._inside and time.monotonic() < end:
        time.sleep(0.001)


def test_the_interval_of_threads_is_restored(tiers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "planning_ns", lambda size: 0)
    before = sys.getswitchinterval()
    for _ in range(2):
        chain(PLENTY + 260).asnumpy()
    promotion.finish()
    wait_for_helpers()
    assert sys.getswitchinterval() == before


def test_it_can_be_switched_off() -> None:
    with mx.settings.override(tiers="plan"):
        assert not any([is_eager(chain(PLENTY + number)) for number in range(400, 403)])


def large_chain(number: int) -> nd.NDArray:
    x = nd.ones((2 * processor.choices().numbers_per_node,)) * number
    for _ in range(PLENTY):
        x = x + 1
    return x


@pytest.mark.parametrize(
    ("plans", "nodes", "is_loaded"), [(17, 100, True), (5, 2001, True), (16, 2000, False), (4, 9000, False)]
)
def test_many_plans_or_large_ones_load_the_machine_code_of_calls(
    plans: int, nodes: int, is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[bool] = []
    signal: Signal[[]] = Signal()
    signal.connect(lambda: loaded.append(True))
    monkeypatch.setattr(cache, "REPEATED", signal)
    monkeypatch.setattr(statistics, "plans", plans)
    monkeypatch.setattr(statistics, "nodes", nodes)
    cache.note_plans()
    assert bool(loaded) is is_loaded


def test_large_arrays_are_planned() -> None:
    assert not is_eager(large_chain(1))


@pytest.fixture
def new_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget every kernel that is in memory: plans on disk name kernels on the same disk."""
    kernel_cache.wait_for_tier_up()
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    monkeypatch.setattr(disk, "_stored", 0)
    monkeypatch.setattr(disk, "STRUCTURES", type(disk.STRUCTURES)())


@pytest.mark.usefixtures("new_kernels")
def test_a_plan_on_disk_takes_over_sooner(tiers: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if tiers != "background":
        pytest.skip("there is no helper")
    size = 2 * cache.LEAST_SOUGHT
    monkeypatch.setattr(cache, "planning_ns", lambda size: 10**12)
    monkeypatch.setattr(cache, "SEEKING_SHARE", 10**12)
    with mx.settings.override(cache_directory=str(tmp_path)):
        for _ in range(5):
            assert is_eager(chain(size)), "planning is not worth its time"
            promotion.finish()
        with mx.settings.override(tiers="plan"):
            cache.forget_nodes()
            assert not is_eager(chain(size))
        cache.forget_nodes()
        for _ in range(3):
            # the first that is counted is the second; then it is looked for
            assert is_eager(chain(size))
            promotion.finish()
        assert not is_eager(chain(size))


@pytest.mark.usefixtures("new_kernels")
def test_no_planner_is_imported_for_large_arrays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cache, "_planner_is_imported", lambda: False)
    with mx.settings.override(cache_directory=str(tmp_path)):
        assert is_eager(large_chain(2)), "it is new"
        with monkeypatch.context() as patched:
            patched.setattr(cache, "MOST_UNPLANNED", 1000)
            cache.forget_nodes()
            assert not is_eager(large_chain(2)), "it is too large"
        cache.forget_nodes()
        assert not is_eager(large_chain(2)), "its plan is on disk"
        assert is_eager(large_chain(2)[1:]), "this one is not"


def test_unknown_tiers_are_refused() -> None:
    with pytest.raises(ValueError, match="tiers must be"):
        mx.settings.update(tiers="fast")


def test_a_fork_while_a_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "planning_ns", lambda size: 0)
    expected = chain(PLENTY + 240).asnumpy().tobytes()
    chain(PLENTY + 240).asnumpy()
    child = os.fork()
    if not child:
        same = [chain(PLENTY + 240).asnumpy().tobytes() == expected for _ in range(3)]
        promotion.finish()
        os._exit(0 if all(same) and not is_eager(chain(PLENTY + 240)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert chain(PLENTY + 240).asnumpy().tobytes() == expected


def test_gradients_and_losses_that_are_looked_at() -> None:
    weight = nd.array([[1.0, -2.0], [0.5, 3.0]])
    weight.attach_grad()
    data = nd.array([[0.3, -0.7]])
    with autograd.record():
        hidden = nd.tanh(nd.dot(data, weight))
        first, second = nd.split(hidden, num_outputs=2, axis=1)
        loss = (first * nd.exp(second)).sum()
    seen = loss.asscalar()
    loss.backward()
    x = data.asnumpy() @ weight.asnumpy()
    a, b = np.tanh(x[0])
    assert seen == pytest.approx(a * np.exp(b), rel=1e-6)
    outer = np.array([np.exp(b) * (1 - a * a), a * np.exp(b) * (1 - b * b)])
    np.testing.assert_allclose(weight.grad.asnumpy(), data.asnumpy().T * outer, rtol=1e-5)
    assert _runs


def test_several_outputs() -> None:
    matrix = nd.array(np.array([[2.0, 1.0], [1.0, 3.0]]))
    vectors, values = nd.linalg.syevd(matrix)
    whole = vectors.asnumpy().T @ np.diag(values.asnumpy()) @ vectors.asnumpy()
    np.testing.assert_allclose(whole, matrix.asnumpy(), rtol=1e-5)
    values, places = nd.topk(nd.array([3.0, 1.0, 2.0]), k=2, ret_typ="both")
    assert (values.asnumpy().tolist(), places.asnumpy().tolist()) == ([3, 2], [0, 2])
    assert _runs


def test_errors_name_the_line_that_asked_for_it() -> None:
    def first() -> nd.NDArray:
        return nd.linalg.potrf(nd.array([[1.0, 2.0], [2.0, 1.0]]))

    def second() -> nd.NDArray:
        return nd.linalg.potrf(nd.array([[1.0, 2.0], [2.0, 1.0]]) * 1.0)

    lines = []
    for function in (first, second):
        with pytest.raises(MXNetError, match="potrf") as raised:
            function().asnumpy()
        lines.append(str(raised.value).rpartition(":")[2])
    start = first.__code__.co_firstlineno
    assert lines == [str(start + 1), str(start + 4)]


def test_profiles_show_what_runs() -> None:
    x = nd.ones((_size[0],))
    x.asnumpy()
    with profiler.profile() as profile:
        y = nd.sin(x) + nd.cos(x)
        assert is_eager(y)
    computed = {event.name for event in profile.events() if event.scope == profiler.RecordScope.KERNEL}
    assert {"sin", "cos"} <= computed
    assert not any(["sin" in name and "cos" in name for name in computed])


def test_who_looks_at_memory_or_plans_sees_plans() -> None:
    x = nd.ones((_size[0],))
    x.asnumpy()
    with profiler.profile(profile_memory=True) as profile:
        y = nd.sin(x) * nd.cos(x)
        assert not is_eager(y)
    assert any(["sin" in row.key and "cos" in row.key for row in profile.key_averages()])
    with mx.explain.plans() as seen:
        z = nd.sin(x) - nd.cos(x)
        assert not is_eager(z)
    assert len(seen.reports) == 1


def test_memory_does_not_grow() -> None:
    def turn(number: int) -> None:
        x = nd.ones((4,)) * number
        for step in range(40):
            x = nd.sin(x) if (number >> (step % 16)) & 1 else x * 0.5
        x.asnumpy()

    with mx.settings.override(plan_limit=50, node_limit=2000):
        for number in range(1, 120):
            turn(number)
        gc.collect()
        before = len(gc.get_objects())
        for number in range(120, 400):
            turn(number)
        gc.collect()
        assert len(gc.get_objects()) < 1.3 * before


@pytest.mark.usefixtures("python_functions")
def test_functions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "MOST_FUNCTIONS", 5)
    monkeypatch.setattr(eager, "_special", {})
    monkeypatch.setattr(eager, "_general", {})
    for number in range(1, 12):
        # it expands to operators
        assert nd.softmax(nd.ones((number, _size[0]))).asnumpy().shape == (number, _size[0])
        # each limit is another function, for any shapes
        limit = number + _size[0]
        assert nd.clip(nd.ones((number,)) * 1e6, 0, limit).asnumpy().tolist() == [limit] * number
        assert 0 < len(eager._special) <= 5
        assert 0 < len(eager._general) <= 5


def test_assignments_are_not_expanded() -> None:
    base, value = leaf(0, (50, _size[0]), FLOAT32), leaf(1, (1, _size[0]), FLOAT32)
    data, row = np.zeros((50, _size[0]), np.float32), np.ones((1, _size[0]), np.float32)
    targets = [assign_step(base, value, (place, 0), (place + 1, _size[0])) for place in range(50)]
    made = statistics.nodes
    for place, result in enumerate(EagerProgram(targets, lambda node: False).run([data, row])):
        assert result.sum(axis=1).tolist() == [_size[0] * (place == number) for number in range(50)]
    # their expansions take several nodes each
    assert statistics.nodes - made < 50


def test_threads_run_a_new_program_at_once() -> None:
    x, data = leaf(0, (3,), FLOAT32), np.full(3, 0.3, np.float32)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for seed in range(60):
            target = x
            for name in np.random.RandomState(seed).choice(["tanh", "sin", "cos", "arctan"], 60):
                target = REGISTRY[str(name)](target)
            program, barrier = EagerProgram([target], lambda node: False), threading.Barrier(4)

            def run(program: EagerProgram = program, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                program.run([data])

            threads = [threading.Thread(target=run) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            expected = EagerProgram([target], lambda node: False).run([data])
            assert np.array_equal(program.run([data]), expected)
    finally:
        sys.setswitchinterval(before)


def test_results_have_memory_of_their_own() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = leaf(0, data.shape, FLOAT32)
    targets = [
        REGISTRY["transpose"](x),
        REGISTRY["reshape"](x, shape=(3, 2)),
        REGISTRY["slice_axis"](x, axis=0, begin=0, end=1),
    ]
    targets += [targets[0] + 1.0, REGISTRY["reshape"](targets[0], shape=(6,))]
    program = EagerProgram(targets, lambda node: False)
    values = program.run([data])
    assert len(values) == len(targets)
    for number, value in enumerate(values):
        assert value.flags.c_contiguous
        assert value.flags.writeable
        assert not any([np.shares_memory(value, other) for other in (data, *values[:number])])


def test_values_are_freed_after_their_last_use() -> None:
    alive: list[int] = []
    # the largest values of a chain are never all alive
    x = leaf(0, (1000, 10), FLOAT32)
    target = x
    for _ in range(50):
        target = REGISTRY["tanh"](target)
    program = EagerProgram([target], lambda node: False)

    def note(part: Part, start: int, end: int) -> None:
        alive.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        program.run([np.zeros((1000, 10), np.float32)], (), note)
    finally:
        tracemalloc.stop()
    assert max(alive) < 4 * 40_000


SHAPES = [(5, 7), (64, 300), (4, 5, 6), (3, 1, 4), (2, 3, 4, 5), (4000, 4), (1, 17), (70_000,), (300, 300)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_have_the_bits_of_planned_ones(shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    node = leaf(0, shape, FLOAT32)
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            target = REGISTRY["sum"](node, axis=axes, keepdims=False, exclude=False)
            found = [make([target], lambda node: False).run([data])[0] for make in (EagerProgram, NativeProgram)]
            assert found[0].tobytes() == found[1].tobytes(), axes


@pytest.mark.parametrize("shape", [(1,), (2,), (63,), (7, 11), (1, 3), (300, 40), (0, 3), (70_000,)])
def test_random_numbers_have_the_bits_of_planned_ones(shape: tuple[int, ...]) -> None:
    def draw(tiers: str) -> list[bytes]:
        mx.random.seed(7)
        with settings.override(tiers=tiers):
            uniform = [nd.random.uniform(shape=shape, dtype=dtype) for dtype in ("float16", "float32", "float64")]
            others = [
                nd.random.normal(shape=shape),
                nd.random.gamma(2, 1, shape=shape),
                nd.random.poisson(3, shape=shape),
            ]
            return [array.asnumpy().tobytes() for array in (*uniform, *others)]

    assert draw("background") == draw("plan")


@pytest.mark.usefixtures("python_functions")
def test_numpy_computes_where_the_compiler_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    # recipes of nodes of other tests have functions
    cache.forget_nodes()
    x = leaf(0, (7,), FLOAT32)
    target = REGISTRY["sinh"](x) * 2.0 + REGISTRY["cosh"](x)

    def lost(*arguments: object) -> None:
        raise kernel_cache.CompilerLost("llvmlite is gone")

    kernel_cache.wait_for_tier_up()
    monkeypatch.setattr(eager, "_general", {})
    monkeypatch.setattr(eager, "_special", {})
    monkeypatch.setattr(eager, "ufunc_of", lost)
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._kernels)
    monkeypatch.setattr(kernel_cache, "_missing", None)
    data = np.linspace(-1, 1, 7, dtype=np.float32)
    program = EagerProgram([target], lambda node: False)
    with pytest.warns(kernel_cache.NoCompilerWarning, match="llvmlite is missing or does not work"):
        (found,) = program.run([data])
    np.testing.assert_allclose(found, np.sinh(data) * 2 + np.cosh(data), rtol=1e-6)


def test_large_results_are_aligned_and_none_is_shared() -> None:
    data = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    x = leaf(0, data.shape, FLOAT32)
    product = REGISTRY["dot"](x, x)
    targets = [
        product,
        REGISTRY["reshape"](product, shape=(90_000,)),
        REGISTRY["slice_axis"](product, axis=0, begin=0, end=2),
        REGISTRY["tanh"](x),
        REGISTRY["identity"](x),
        REGISTRY["Reshape"](x, shape=(0, -1)),
    ]
    program = EagerProgram(targets, lambda node: False)
    for _ in range(2):
        values = program.run([data])
        for number, value in enumerate(values):
            assert value.flags.c_contiguous
            assert value.nbytes < 1 << 16 or value.ctypes.data % 64 == 0
            assert not any([np.shares_memory(value, other) for other in (data, *values[:number])])


def test_tiers_are_told() -> None:
    x = nd.ones((_size[0], 7))
    x.attach_grad()
    x.wait_to_read()
    with mx.explain.tiers() as log:
        with autograd.record():
            y = nd.sin(x) * 3
        y.backward()
        for _ in range(2):
            nd.cos(x).asnumpy()
    found = [(each.tier, each.reason) for each in log.evaluations]
    assert found[0] == ("eager gradient", "the record is new")
    assert found[1] == ("eager", "the graph is new")
    assert len(found) == 3
    with mx.settings.override(tiers="plan"), mx.explain.tiers() as log:
        nd.cos(x).asnumpy()
        nd.arctan(x).asnumpy()
    assert [each.tier for each in log.evaluations] == ["plan", "plan"]
    assert "tiers" in log.evaluations[1].reason
    assert "arctan" in str(log)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_has_the_switch_interval_of_the_program() -> None:
    wait_for_helpers()
    before = sys.getswitchinterval()
    finders = list(sys.meta_path)
    # as between two plans of the helper
    with background._giving_way:
        assert sys.getswitchinterval() == background.SWITCH_SECONDS
        child = os.fork()
        if not child:
            os._exit(int(sys.getswitchinterval() != before or sys.meta_path != finders))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sys.getswitchinterval() == before
