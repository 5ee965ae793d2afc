"""explain: plans in words, reasons for new ones, and counts."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, explain, nd, settings


@pytest.fixture(autouse=True)
def _native() -> Any:
    pytest.importorskip("llvmlite")
    with settings.override(executor="native"):
        yield


def test_what_was_fused() -> None:
    x, y = nd.array(np.ones((4, 5))), nd.array(np.ones((5,)))
    report = explain.plan(nd.tanh(x * y) + x)
    assert (report.values, report.inputs, report.launches, report.numpy_calls) == (1, 2, 1, 0)
    (kernel,) = report.kernels
    assert kernel.operators == ("broadcast_mul", "tanh", "broadcast_add")
    assert kernel.shape == (4, 5)
    assert kernel.touched_bytes == 4 * (20 + 5 + 20)
    assert report.result_bytes == 80
    assert "1 value from 2 arrays: 1 launch of 1 kernel" in str(report)
    assert "broadcast_mul, tanh, broadcast_add; over [4,5], 180 bytes of memory" in str(report)


def test_nothing_is_computed() -> None:
    x = nd.array([1.0, 2.0])
    y = x * 3
    before = explain.statistics()["evaluations"]
    explain.plan(y)
    assert explain.statistics()["evaluations"] == before
    y.wait_to_read()
    assert str(explain.plan(y, x)) == "0 values from 0 arrays: nothing to compute"


def test_numpy_calls_and_memory() -> None:
    x = nd.array(np.eye(3))
    report = explain.plan(nd.linalg.inverse(x * 2) * 2)
    assert report.numpy_calls == 1
    assert "NumPy: _linalg_inverse" in str(report)
    assert report.other_bytes > 0


def test_repetitions_are_counted() -> None:
    x, w = nd.array(np.ones((4, 4))), nd.array(np.ones((4, 4)))
    for _ in range(5):
        x = nd.tanh(nd.dot(x, w))
    report = explain.plan(x)
    assert report.launches > len(report.kernels)
    assert max(kernel.times for kernel in report.kernels) >= 4


def test_long_kernels_are_shortened() -> None:
    kernel = explain.KernelReport(tuple(f"operator{n}" for n in range(30)), (2,), 1, 8, True, True)
    assert "and 18 more" in str(kernel)
    assert "compiled quickly" in str(kernel)


pytestmark = pytest.mark.usefixtures("planned")


def reasons(*calls: Any) -> list[str]:
    # the first time, inputs may be numbered after others that were used before
    calls[0]()
    calls[0]()
    with explain.plans() as log:
        for call in calls[1:]:
            call()
    return [report.reason for report in log.reports]


def test_a_graph_that_was_computed_eagerly() -> None:
    x = nd.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])

    def step() -> None:
        (x * 2 + 1.5).wait_to_read()

    with settings.override(tiers="background"):
        assert reasons(step, step, step) == ["until now it was computed operator by operator"]


def test_repeating_makes_no_plan() -> None:
    x = nd.array([1.0, 2.0])

    def step() -> None:
        (x * 2 + 1).wait_to_read()

    assert reasons(step, step, step) == []


def test_another_shape() -> None:
    def step(size: int) -> None:
        (nd.sin(nd.array(np.ones(size))) * 0.125).wait_to_read()

    assert reasons(lambda: step(7), lambda: step(9)) == ["an input is float32[9] instead of float32[7]"]


def test_another_argument() -> None:
    x = nd.array(np.ones((3, 4)))

    def step(axis: int) -> None:
        nd.expand_dims(nd.cos(x), axis=axis).wait_to_read()

    (reason,) = reasons(lambda: step(0), lambda: step(1))
    assert "shape=(3, 1, 4) instead of (1, 3, 4)" in reason


def test_other_operators() -> None:
    x = nd.array(np.ones((3, 7)))
    (reason,) = reasons(
        lambda: nd.arcsinh(nd.arctan(x)).wait_to_read(), lambda: nd.arcsinh(nd.arctan(nd.arccosh(x))).wait_to_read()
    )
    assert "+ arccosh x1" in reason


def test_other_arrays_alive() -> None:
    x = nd.array(np.ones((3, 9)))

    def step(keep: bool) -> None:
        first = nd.log1p(x)
        second = nd.expm1(first)
        if not keep:
            del first
        second.wait_to_read()

    (reason,) = reasons(lambda: step(False), lambda: step(True))
    # x is one of them
    assert reason == "3 arrays alive instead of 2"


def test_another_executor() -> None:
    x = nd.array(np.ones((3, 11)))

    def step() -> None:
        nd.rsqrt(x).wait_to_read()

    def other() -> None:
        with settings.override(executor="reference"):
            step()

    assert reasons(step, other) == ["the executor is 'reference' instead of 'native'"]


def test_recorded_values_are_kept() -> None:
    x = nd.array(np.ones((3, 13)))
    x.attach_grad()

    def step(is_recording: bool) -> None:
        if is_recording:
            with autograd.record():
                nd.rcbrt(x).wait_to_read()
        else:
            nd.rcbrt(x).wait_to_read()

    (reason,) = reasons(lambda: step(False), lambda: step(True))
    assert reason


def test_the_log_says_what_was_compiled() -> None:
    x = nd.array(np.ones((3, 4)))
    with explain.plans() as log:
        (nd.erf(x) * nd.erf(x * 3) + nd.erf(x * 5) + 17.5).wait_to_read()
    (report,) = log.reports
    assert report.compiled + report.loaded <= len(report.kernels)
    assert str(log) == str(report)
    with explain.plans() as log:
        pass
    assert str(log) == "no plan was made"


def test_statistics() -> None:
    counts = explain.statistics()
    assert {"nodes", "plans", "kernels_compiled", "kernels_improved", "peak_bytes", "blocks_made"} <= set(counts)


def test_only_arrays() -> None:
    with pytest.raises(TypeError, match="only arrays"):
        explain.plan(3)  # type: ignore[arg-type]


def test_the_module_is_found() -> None:
    assert mx.explain is explain


def test_why_values_go_through_memory() -> None:
    x, w = nd.array(np.ones((16, 8))), nd.array(np.ones((8, 4)))
    report = explain.plan(nd.linalg.inverse(nd.dot(nd.tanh(x), w)[:4] * 2) + 1)
    reasons_by_operator = {value.operator: value.reason for value in report.stored}
    assert "read by _matmul, which has kernels of its own" in reasons_by_operator["tanh"]
    assert "computed by _matmul" in reasons_by_operator["_matmul"]
    assert "NumPy reads it in _linalg_inverse: it has no kernel" in reasons_by_operator["broadcast_mul"]
    assert "NumPy computes _linalg_inverse" in reasons_by_operator["_linalg_inverse"]
    assert "through memory: tanh [16,8]; it is read by _matmul" in str(report)


def test_what_one_kernel_computes_is_not_in_memory() -> None:
    x = nd.array(np.ones((4, 5)))
    assert explain.plan(nd.tanh(x * 2) + x).stored == ()


def test_long_chains_are_divided() -> None:
    x = y = nd.array(np.ones((4, 5)))
    for _ in range(200):
        y = nd.tanh(y * x)
    report = explain.plan(y)
    assert report.launches > 1
    assert any("not made larger" in value.reason for value in report.stored)


def test_many_kinds_of_values_are_shortened() -> None:
    values = tuple(explain.ValueReport("tanh", (size,), "why", size) for size in range(1, 13))
    text = str(explain.PlanReport(1, 1, (), 0, 0, 0, stored=values))
    assert "through memory (2 times): tanh [2]; why" in text
    assert "4 more kinds of values" in text


def test_the_time_of_the_compiler() -> None:
    x = nd.array(np.ones((3, 4)))
    with settings.override(cache_directory=""), explain.plans() as log:
        (nd.erf(x) * nd.erf(x * 3) * nd.erfinv(x * 5) + 17.5).wait_to_read()
    (report,) = log.reports
    assert report.compiled == 1
    assert report.seconds > 0
    assert "1 kernel compiled, 0 found on disk, in " in str(report)


def test_plans_are_announced(capsys: pytest.CaptureFixture[str]) -> None:
    x = nd.array(np.ones((3, 17)))
    with settings.override(explain=True):
        (x * 2 + 5).wait_to_read()
        assert "phonograd: 1 value from" in capsys.readouterr().err
        (x * 2 + 5).wait_to_read()
        (x * 2 + 5).wait_to_read()
    capsys.readouterr()
    (x * 2 + 6 + x).wait_to_read()
    assert capsys.readouterr().err == ""
    explain.announce()
    explain.announce()
    (x * 3 - 5 + x).wait_to_read()
    assert capsys.readouterr().err.count("phonograd:") == 1
    explain.announce(False)


def test_the_environment_has_plans_announced() -> None:
    code = "import phonograd as mx; (mx.nd.array([1.0, 2.0]) * 2).wait_to_read()"
    environment = {**os.environ, "PHONOGRAD_EXPLAIN": "1", "PHONOGRAD_EXECUTOR": "native"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert "phonograd: 1 value from" in found.stderr
    assert "new: it is the first plan" in found.stderr
