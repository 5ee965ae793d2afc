"""Random functions do the same whether they are called plainly, compiled or hybridized, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx
from phonograd import settings

from .compiled import WAYS, Case, compare, describe, random_case, run, shrink

ROOT = Path(__file__).resolve().parents[2]

each_way = pytest.mark.parametrize("way", WAYS)


def check(way: str, executor: str, seeds: range) -> None:
    """Compare the cases of some seeds, and report the first that differs as small as it gets."""
    if executor == "native":
        pytest.importorskip("llvmlite")
    with settings.override(executor=executor, node_limit=100_000_000):
        for seed in seeds:
            case = random_case(seed)
            if not compare(case, way):
                pytest.fail(f"{way}, {executor}:\n{describe(shrink(case, lambda smaller: not compare(smaller, way)))}")


@each_way
@pytest.mark.parametrize(("executor", "count"), [("reference", 150), ("native", 40)])
def test_functions(way: str, executor: str, count: int) -> None:
    check(way, executor, range(count))


@pytest.mark.slow
def test_many_functions() -> None:
    counts = run(600, seed=1)
    assert not counts.failures, counts.failures[0]


def test_machine_code_never_goes_on_after_an_error() -> None:
    """Run functions with machine code that stops the process if it returns an object although an error is set."""
    pytest.importorskip("llvmlite")
    code = (
        "from tests.fuzz.test_compiled import check\n"
        "from phonograd.core.trace.owner import MACHINE_CODE\n"
        "check('compile', 'native', range(600, 612))\n"
        "print('machine code', MACHINE_CODE.settle is not None)\n"
    )
    environment = {**os.environ, "PHONOGRAD_CHECK_CALLS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "machine code" in done.stdout


def test_a_difference_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break compiled functions on purpose: the search must notice it."""
    original = mx.compile

    class Wrong:
        def __init__(self, function: Any) -> None:
            self._function, self._calls = original(function), 0

        def __call__(self, *arguments: Any) -> Any:
            self._calls += 1
            if self._calls == 3:
                arguments[0][:] = arguments[0] + 1
            return self._function(*arguments)

    monkeypatch.setattr(mx, "compile", Wrong)

    def differs(case: Case) -> bool:
        return not compare(case, "compile")

    found = [case for case in map(random_case, range(20)) if 0 not in case.shapes[0] and differs(case)]
    assert len(found) > 10
    small = shrink(found[0], differs)
    assert len(small.statements) <= 1
    assert len(small.calls) == 3
    assert f"seed {small.seed}" in describe(small)
