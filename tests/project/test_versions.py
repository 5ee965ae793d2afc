"""The runner of other versions knows what the package promises; see :mod:`tests.project.versions`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from . import versions
from .versions import Interpreter, Outcome

PYPROJECT = (versions.ROOT / "pyproject.toml").read_text("utf-8")


def test_what_is_run_is_what_the_package_promises() -> None:
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    assert [name for name in versions.SUPPORTED if not name.endswith("t")] == promised
    assert f'requires-python = ">={promised[0]}"' in PYPROJECT
    assert "Programming Language :: Python :: Free Threading" in PYPROJECT


def test_the_core_is_there() -> None:
    missing = [name for name in versions.CORE if not (versions.ROOT / name).exists()]
    assert not missing
    for name in versions.LEFT_OUT:
        path, _, test = name.partition("::")
        assert f"def {test}" in (versions.ROOT / path).read_text("utf-8"), name


def test_requirements_are_read() -> None:
    package, dev = versions.requirements()
    assert [name.partition(">")[0] for name in package] == ["numpy", "llvmlite"]
    assert {"pytest>=8.0", "hypothesis>=6.100"} <= set(dev)


def test_interpreters_are_found_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "3.x" / "bin"
    home.mkdir(parents=True)
    (home / "python3").symlink_to(sys.executable)
    broken = tmp_path / "python3.12"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PHONOGRAD_PYTHONS", f"{broken}:{tmp_path}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(versions, "PYTHONS", tmp_path)
    assert {*versions._candidates()} >= {broken, home / "python3"}
    assert versions._describe(broken) is None
    found = versions._describe(home / "python3")
    assert found is not None
    assert found.version == sys.version_info[:3]
    assert found.name == f"3.{sys.version_info.minor}" + "t" * ("free-threading" in sys.version)


def test_the_newest_release_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        Path("a"): Interpreter("3.12", (3, 12, 9), Path("a")),
        Path("b"): Interpreter("3.12", (3, 12, 10), Path("b")),
        Path("c"): Interpreter("3.9", (3, 9, 1), Path("c")),
        Path("d"): None,
    }
    monkeypatch.setattr(versions, "_candidates", lambda: iter(found))
    monkeypatch.setattr(versions, "_describe", found.__getitem__)
    assert versions.find_interpreters() == {"3.12": found[Path("b")]}


def test_the_table_names_failures_and_missing_interpreters() -> None:
    fine = Outcome("3.12.1", "newest", "2.5.4", "0.50.0", "14 of 14", 9, 1, 0, 3.0, "2026-01-02")
    dead = Outcome("3.14.4t", "oldest", "2.3.2", "none", "2 of 2", 0, 0, 1, 3.0, "2026-01-02", "pytest ended with -11")
    text = versions.table([fine, dead], {"3.13t": "no route to host"})
    assert "| 3.12.1 | 2.5.4 | 0.50.0 | 14 of 14 | 9 | 1 | 0 | 2026-01-02 |" in text
    assert "| 0 | 0 | 1 (pytest ended with -11) |" in text
    assert "Not tried: Python 3.13t (no route to host)." in text
    page = f"before\n{versions.BEGIN}\nold\n{versions.END}\nafter\n"
    assert versions.with_table(page, text) == f"before\n{versions.BEGIN}\n\n{text}\n\n{versions.END}\nafter\n"


def test_the_page_has_no_failures() -> None:
    _, mark, rest = versions.PAGE.read_text("utf-8").partition(versions.BEGIN)
    assert mark
    text = rest.partition(versions.END)[0]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| 3.")]
    assert rows or "No run is recorded yet" in text
    assert {row[6] for row in rows} <= {"0"}


def test_reports_are_counted(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="9" skipped="2" failures="1" errors="3"/></testsuites>')
    assert versions._counts(report) == (9, 2, 4)
