"""JAX's names for scopes, and the fixture for tests of speed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import phonograd as mx
from phonograd.profiler import (
    StepTraceAnnotation,
    TraceAnnotation,
    annotate,
    annotate_function,
    profile,
    step_annotation,
)


def test_annotations_are_scopes_with_attributes() -> None:
    with profile() as prof, TraceAnnotation("outer", batch=3), annotate("inner"):
        pass
    outer, inner = prof.events()
    assert (outer.name, outer.attributes, inner.parent) == ("outer", {"batch": 3}, outer)
    assert TraceAnnotation is annotate
    assert StepTraceAnnotation is step_annotation


def test_steps_have_rows() -> None:
    with profile() as prof:
        for number in range(3):
            with StepTraceAnnotation("train", step_num=number):
                mx.nd.exp(mx.nd.ones(3)).wait_to_read()
        with StepTraceAnnotation("no number"):
            pass
    rows = prof.by_step()
    assert [row["name"] for row in rows] == ["train 0", "train 1", "train 2"]
    assert [(row["operators"], row["kernels"] >= 1) for row in rows] == [(2, True)] * 3


def test_functions() -> None:
    @annotate_function
    def first() -> int:
        return 1

    @annotate_function(name="another name", width=2)
    def second() -> int:
        return 2

    async def third() -> int:
        return 3

    with profile() as prof:
        assert (first(), second(), asyncio.run(annotate_function(third, name="third")())) == (1, 2, 3)
    names = [event.name for event in prof.events()]
    assert names[0].endswith("first")
    assert names[1:] == ["another name", "third"]
    assert prof.events()[1].attributes == {"width": 2}


TEST = """
import time
from phonograd.profiler import record_function

def test_speed(profiled, request):
    with profiled(tolerance=%r):
        for _ in range(12):
            with record_function("work"):
                time.sleep(float(%r))
    print("compared:", [row.key for row in profiled.differences.get("", ())])
"""


def run(folder: Path, seconds: float, *options: str, tolerance: float = 0.5) -> "subprocess.CompletedProcess[str]":
    (folder / "conftest.py").write_text('pytest_plugins = ["phonograd.profiler.fixtures"]\n')
    (folder / "test_it.py").write_text(TEST % (tolerance, str(seconds)))
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_fixture_finds_what_has_become_slower(tmp_path: Path) -> None:
    first = run(tmp_path, 0.001)
    assert first.returncode == 0, first.stdout
    assert "compared: []" in first.stdout
    assert [path.name for path in (tmp_path / ".profiles").iterdir()] == ["test_it.py_test_speed.json.gz"]
    # a busy machine makes short work several times as long
    assert "compared: ['work']" in run(tmp_path, 0.001, tolerance=100.0).stdout
    slower = run(tmp_path, 0.1)
    assert slower.returncode == 1
    assert "'work'" in slower.stdout
    assert "slower by more than 50%" in slower.stdout
    assert run(tmp_path, 0.1, "--profile-update").returncode == 0
    assert run(tmp_path, 0.1).returncode == 0
