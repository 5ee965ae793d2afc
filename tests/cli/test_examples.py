"""Every example and the demonstration run to their end; each asserts its own result."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TIME_LIMIT_SECONDS = 300


def run(arguments: list[str], directory: Path) -> str:
    """Return what a Python process prints, with warnings as errors; fail if it does."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=directory,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    assert run([str(path)], tmp_path).strip()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


def test_demo(tmp_path: Path) -> None:
    printed = run(["-m", "phonograd.cli.demo", "--output", "report.html"], tmp_path)
    assert "f'''" in printed
    accuracy = float(printed.partition("test accuracy ")[2].partition("%")[0])
    assert accuracy >= 98.0
    assert "Self CPU" in printed
    assert str(tmp_path / "report.html") in printed
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    for part in ("digits_conv0", "Conv2D-", "<svg", "data:image/png;base64,", "<iframe srcdoc="):
        assert part in page
    # nothing is fetched from elsewhere
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_demo_refuses_a_directory_that_is_not_there(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "phonograd.cli.demo", "--output", str(tmp_path / "nowhere" / "report.html")],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_SECONDS,
        check=False,
    )
    assert finished.returncode == 2
    assert "there is no directory" in finished.stderr
