"""Versions: run the core of the suite on every supported Python, with the oldest and the newest NumPy and llvmlite.

The machine code of this library calls Python's C interface and reads the memory of objects, so a version is supported
if the tests have passed on it, not if nothing is known against it. ``python -m tests.project.versions`` looks for
interpreters, gives each an environment per set of libraries, runs :data:`CORE`, and prints a table. ``make
test-versions`` does so. Each environment keeps its last outcome; with ``--write`` the table of all of them goes into
docs/assumptions.md, so that a few interpreters can be run again.

Interpreters are found in ``PHONOGRAD_PYTHONS`` (paths of interpreters or of directories, separated as in ``PATH``), in
``PATH``, in Debian's places, below pyenv's directory and :data:`PYTHONS`. uv installs the others if it can reach them;
the table names those that are missing. This file needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "assumptions.md"
BEGIN, END = "<!-- versions: written by make test-versions -->", "<!-- end of versions -->"

#: the interpreters that the package promises to run on; t: without the GIL
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t")

#: the sets of libraries, of those versions that pyproject.toml allows and that have wheels
LIBRARIES = ("oldest", "newest")

#: where environments are kept, and interpreters that were built by hand
HOME = Path(os.environ.get("PHONOGRAD_VERSIONS_HOME") or Path.home() / ".cache" / "phonograd-versions")
PYTHONS = Path.home() / ".cache" / "phonograd-pythons"
OUTCOME = "outcome.json"

#: tests of every layer and of every module that test_fences.py lists: what a new interpreter could break
CORE = (
    *("tests/smoke", "tests/core/array", "tests/core/base", "tests/core/capture", "tests/core/events"),
    *(
        "tests/core/backward",
        "tests/core/graph",
        "tests/core/run",
        "tests/core/trace",
        "tests/core/lower",
        "tests/autograd",
    ),
    *("tests/core/kernels/test_kernels.py", "tests/core/kernels/test_reduction_order.py"),
    *("tests/core/ops/test_updates.py", "tests/core/plan/test_bits.py", "tests/core/plan/test_inplace.py"),
    *("tests/core/plan/test_eager.py", "tests/core/plan/test_native_program.py", "tests/core/plan/test_rewrite.py"),
    *("tests/gluon/test_block.py", "tests/gluon/test_hybridize.py", "tests/gluon/test_trainer.py"),
    *("tests/ndarray/test_inplace.py", "tests/ndarray/test_protocols.py", "tests/ndarray/test_views.py"),
    *("tests/numpy/test_ndarray.py", "tests/profiler/test_engine.py", "tests/profiler/test_recording.py"),
    *("tests/profiler/test_session.py", "tests/symbol/test_executor.py", "tests/test_runtime.py"),
    *("tests/project/test_fences.py", "tests/project/test_without_llvmlite.py"),
)

#: long searches and measurements of time and memory; `make test` runs them on one version
LEFT_OUT = (
    "tests/autograd/test_memory.py::test_a_very_long_chain_of_operators",
    "tests/autograd/test_memory.py::test_looking_at_every_step_of_a_long_record_takes_memory_in_proportion",
    "tests/autograd/test_memory.py::test_many_iterations_leave_nothing_behind",
    "tests/autograd/test_memory.py::test_freeing_a_chain_that_was_never_differentiated",
    "tests/autograd/test_memory.py::test_ten_thousand_iterations_make_nothing_new",
    "tests/autograd/test_programs.py",
    "tests/autograd/test_symbol.py::test_a_very_deep_record",
    "tests/core/capture/test_compiled_programs.py",
    "tests/core/plan/test_inplace.py::test_nobody_can_tell",
    "tests/core/run/test_disk_cache.py::test_processes_that_start_at_once",
)

#: describes an interpreter
_DESCRIBE = """
import platform, sys
bits = sys.implementation.name, platform.python_version(), "free-threading" in sys.version
print(*bits, hasattr(sys, "gettotalrefcount"))
"""

#: uses everything that assumes something, and tells which assumptions were tested and which of them hold
_PROBE = """
import importlib.metadata, json, sys, warnings
warnings.simplefilter("ignore")
import phonograd as mx
from phonograd.core.base import assumptions
mx.settings.update(num_threads=2)
x = mx.nd.ones((400, 400))
for _ in range(3):
    x = mx.nd.tanh(mx.nd.dot(x, x) * 0.001 + 1)
    x.wait_to_read()
try:
    llvmlite = importlib.metadata.version("llvmlite")
except importlib.metadata.PackageNotFoundError:
    llvmlite = None
found = assumptions.tested()
print(json.dumps([importlib.metadata.version("numpy"), llvmlite, sum(found.values()), len(found)]))
"""


class Interpreter(NamedTuple):
    """A Python that was found."""

    name: str
    """Its name in :data:`SUPPORTED`."""
    version: tuple[int, ...]
    path: Path

    def __str__(self) -> str:
        return ".".join(map(str, self.version)) + "t" * self.name.endswith("t")


class Outcome(NamedTuple):
    """One line of the table."""

    interpreter: str
    libraries: str
    numpy: str
    llvmlite: str
    assumptions: str
    passed: int
    skipped: int
    failed: int
    seconds: float
    day: str
    problem: str = ""


# -- interpreters


def find_interpreters() -> dict[str, Interpreter]:
    """Return the newest release of each supported interpreter that this machine has."""
    found: dict[str, Interpreter] = {}
    for path in dict.fromkeys(_candidates()):
        interpreter = _describe(path)
        if interpreter is not None and interpreter.name in SUPPORTED:
            known = found.get(interpreter.name)
            if known is None or known.version < interpreter.version:
                found[interpreter.name] = interpreter
    return found


def _candidates() -> Iterator[Path]:
    for given in filter(None, os.environ.get("PHONOGRAD_PYTHONS", "").split(os.pathsep)):
        path = Path(given).expanduser()
        yield from [path] if path.is_file() else _below(path)
    for directory in [*os.get_exec_path(), "/usr/bin", "/usr/local/bin"]:
        for name in SUPPORTED:
            yield Path(directory, f"python{name}")
    yield Path(sys.executable)
    yield from _below(Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions")
    yield from _below(PYTHONS)
    yield from _below(Path.home() / ".local" / "share" / "uv" / "python")


def _below(directory: Path) -> list[Path]:
    """Return the interpreters of a directory: its own, and those of installations in it."""
    return [*sorted(directory.glob("bin/python3")), *sorted(directory.glob("*/bin/python3"))]


def _describe(path: Path) -> Interpreter | None:
    """Return which Python a file is; None if it is none, or one that nobody promised to support."""
    if not os.access(path, os.X_OK):
        return None
    finished = subprocess.run([path, "-c", _DESCRIBE], capture_output=True, text=True, check=False)
    words = finished.stdout.split()
    # pyenv has scripts for versions that are not chosen; they fail
    if finished.returncode or len(words) != 4 or words[0] != "cpython" or words[3] == "True":
        return None
    version = re.match(r"(\d+)\.(\d+)\.(\d+)", words[1])
    assert version is not None, words
    major, minor, micro = map(int, version.groups())
    name = f"{major}.{minor}" + "t" * (words[2] == "True")
    return Interpreter(name, (major, minor, micro), path)


def install_interpreter(uv: Path, name: str) -> str | None:
    """Let uv install an interpreter below :data:`PYTHONS`; return why it could not, None if it could."""
    command = [uv, "python", "install", "--no-bin", "--install-dir", PYTHONS, name]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return "uv did not finish in ten minutes"
    lines = finished.stderr.strip().splitlines()
    return None if finished.returncode == 0 else (lines[-1].strip() if lines else "uv failed")


# -- environments


def prepare_uv() -> Path:
    """Return the path of uv, which is installed in an environment of its own."""
    home = HOME / "uv"
    path = home / "bin" / "uv"
    if not path.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", "uv"], check=True)
    return path


def requirements() -> tuple[list[str], list[str]]:
    """Return what the package requires, and what its tests require, as pyproject.toml says."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    # tomllib came with Python 3.11
    found = [re.search(rf"^{name} = (\[.*?\])$", text, re.MULTILINE | re.DOTALL) for name in ("dependencies", "dev")]
    assert None not in found, "pyproject.toml has no list of dependencies, or none of dev"
    package, dev = [ast.literal_eval(match[1]) for match in found if match is not None]
    return package, dev


def prepare(uv: Path, interpreter: Interpreter, libraries: str, fresh: bool) -> Path:
    """Return the Python of an environment with the oldest or the newest NumPy and llvmlite that it can have."""
    package, dev = requirements()
    home = HOME / f"{interpreter}-{libraries}"
    python, ready = home / "bin" / "python", home / "ready.json"
    wanted = json.dumps([str(interpreter.path), package, dev])
    if fresh or not ready.exists() or ready.read_text("utf-8") != wanted:
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", interpreter.path, home], check=True)
        numpy = [name for name in package if name.startswith("numpy")]
        resolution = "lowest-direct" if libraries == "oldest" else "highest"
        # llvmlite has no wheels for some interpreters: NumPy evaluates everything there
        if not _install(uv, python, package, resolution) and not _install(uv, python, numpy, resolution):
            raise SystemExit(f"{interpreter}: {uv} finds no NumPy for it")
        frozen = subprocess.run([uv, "pip", "freeze", "--python", python], capture_output=True, text=True, check=True)
        kept = frozen.stdout.split()
        if not _install(uv, python, [*kept, *dev]):
            # one by one: some have no wheels for some interpreters, and the tests that need them are skipped
            missing = [name for name in dev if not _install(uv, python, [*kept, name])]
            print(f"== {interpreter}: not to be had for it: {', '.join(missing)}", flush=True)
        ready.write_text(wanted, "utf-8")
    # quick, and always of this checkout
    command = [uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "--editable", ROOT]
    subprocess.run(command, check=True)
    return python


def _install(uv: Path, python: Path, names: Sequence[str], resolution: str = "highest") -> bool:
    """Install wheels; return whether there are some."""
    command = [uv, "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:"]
    command += ["--resolution", resolution, *names]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# -- tests


def run(interpreter: Interpreter, libraries: str, python: Path, arguments: Sequence[str]) -> Outcome:
    """Run the tests in an environment and return what they came to."""
    home, day = python.parents[1], time.strftime("%Y-%m-%d")
    dropped = ("PYTHONPATH", "PYTHONHOME", "PHONOGRAD_EXECUTOR", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if name not in dropped}
    variables["PHONOGRAD_CACHE_DIRECTORY"] = str(home / "kernels")
    # without a cache the compiler is needed, and what is assumed about it is tested
    uncached = variables | {"PHONOGRAD_CACHE_DIRECTORY": ""}
    probe = [python, "-c", _PROBE]
    finished = subprocess.run(probe, cwd=ROOT, env=uncached, capture_output=True, text=True, check=False)
    if finished.returncode:
        return Outcome(str(interpreter), libraries, "?", "?", "?", 0, 0, 1, 0, day, _last_line(finished.stderr))
    numpy, llvmlite, hold, tested = json.loads(finished.stdout)
    if llvmlite is None:
        variables["PHONOGRAD_EXECUTOR"] = "reference"
    report = home / "report.xml"
    report.unlink(missing_ok=True)
    command = [python, "-X", "faulthandler", "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    command += [f"--junit-xml={report}", *arguments]
    if not _chosen(arguments):
        command += [*[f"--deselect={name}" for name in LEFT_OUT], *CORE]
    start = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    seconds = time.monotonic() - start
    row = (str(interpreter), libraries, numpy, llvmlite or "none", f"{hold} of {tested}")
    tests, skipped, failed = _counts(report) if report.exists() else (0, 0, 0)
    # 0: all passed, 1: some failed; all else is a crash, an interrupt or a mistake in the arguments
    problem = "" if code in (0, 1) and tests else f"pytest ended with {code}"
    passed = tests - skipped - failed
    return Outcome(*row, passed, skipped, max(failed, int(bool(problem))), seconds, day, problem)


def _chosen(arguments: Sequence[str]) -> list[str]:
    """Return the tests that the arguments name."""
    return [argument for argument in arguments if argument.startswith("tests/")]


def _counts(report: Path) -> tuple[int, int, int]:
    """Return how many tests a report has, and how many of them were skipped, and failed."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    numbers = {name: sum([int(suite.get(name, "0")) for suite in suites]) for name in ("tests", "skipped")}
    failed = sum([int(suite.get("failures", "0")) + int(suite.get("errors", "0")) for suite in suites])
    return numbers["tests"], numbers["skipped"], failed


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it ended without a word"


def table(outcomes: Sequence[Outcome], missing: dict[str, str]) -> str:
    """Return the table, in Markdown, with a sentence about each interpreter that could not be had."""
    head = ("Python", "NumPy", "llvmlite", "assumptions that hold", "passed", "skipped", "failed", "day")
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|---|---|---|"]
    for each in outcomes:
        cells = (each.interpreter, each.numpy, each.llvmlite, each.assumptions)
        failed = f"{each.failed} ({each.problem})" if each.problem else each.failed
        lines.append(f"| {' | '.join(map(str, (*cells, each.passed, each.skipped, failed, each.day)))} |")
    lines += [f"\nNot tried: Python {name} ({reason})." for name, reason in missing.items()]
    return "\n".join(lines)


def last_outcomes(found: dict[str, Interpreter]) -> list[Outcome]:
    """Return the last outcome of each environment of these interpreters."""
    paths = [HOME / f"{found[n]}-{libraries}" / OUTCOME for n in SUPPORTED if n in found for libraries in LIBRARIES]
    return [Outcome(*json.loads(path.read_text("utf-8"))) for path in paths if path.exists()]


def with_table(page: str, text: str, begin: str = BEGIN, end: str = END) -> str:
    """Return the text of a page with another table between the marks."""
    before, _, rest = page.partition(begin)
    _, mark, after = rest.partition(end)
    assert mark, f"the page has no {begin} with an {end}"
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def main(arguments: list[str]) -> int:
    """Run the tests on every interpreter; return 1 if one of them failed, or none could be had.

    ``--write`` needs no run of its own: ``--only`` with a few interpreters refreshes their rows.
    """
    parser = argparse.ArgumentParser("python -m tests.project.versions", description="Further arguments go to pytest.")
    parser.add_argument("--only", action="append", choices=SUPPORTED, help="an interpreter; may be repeated")
    parser.add_argument("--libraries", choices=LIBRARIES, help="one set of libraries instead of both")
    parser.add_argument("--fresh", action="store_true", help="make the environments again")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    options, further = parser.parse_known_args(arguments)
    uv = prepare_uv()
    wanted = options.only or SUPPORTED
    found = find_interpreters()
    reasons = {name: install_interpreter(uv, name) for name in wanted if name not in found}
    found |= find_interpreters() if reasons else {}
    missing = {
        name: reason or "uv put it where it is not found" for name, reason in reasons.items() if name not in found
    }
    outcomes = []
    for name in wanted:
        for libraries in (options.libraries,) if options.libraries else LIBRARIES:
            if name in found:
                print(f"== {found[name]} with the {libraries} libraries ({found[name].path})", flush=True)
                python = prepare(uv, found[name], libraries, options.fresh)
                outcomes.append(run(found[name], libraries, python, further))
                print(f"== {outcomes[-1]}", flush=True)
                # a few tests say nothing about a version
                if not _chosen(further):
                    (python.parents[1] / OUTCOME).write_text(json.dumps(outcomes[-1]), "utf-8")
    print(table(outcomes, missing))
    if options.write:
        # a run of a few interpreters did not try to install the others
        unknown = {name: missing.get(name, "not found") for name in SUPPORTED if name not in found}
        text = table(last_outcomes(found), unknown)
        PAGE.write_text(with_table(PAGE.read_text("utf-8"), text), "utf-8")
    return int(not outcomes or any([each.failed for each in outcomes]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
