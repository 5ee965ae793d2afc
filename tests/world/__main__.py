"""Install libraries that were written for MXNet, run their models and tests, and write the table of counts.

``python -m tests.world [--only NAME ...] [--sources DIRECTORY] [--oracle] [--write]``. Each library gets an environment
in ``~/.cache/phonograd-world``, with this library as ``mxnet``; ``--oracle`` makes a second one with real MXNet 1.9.1
(Python 3.11). The tests of a library are those of its repository at the tag of the installed version: they are cloned,
or taken from ``DIRECTORY/<name>``. Results are kept in ``tests/world/results.json``.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "compatibility.md"
HOME = Path(os.environ.get("PHONOGRAD_WORLD", Path.home() / ".cache" / "phonograd-world"))
BEGIN, END = "<!-- world: begin -->", "<!-- world: end -->"

#: the libraries were written for NumPy 1; MXNet needs an older one than this library allows
OURS = ["numpy==1.26.4", "llvmlite>=0.45"]
ORACLE = ["numpy==1.23.5", "mxnet==1.9.1"]
COMMON = [
    "pytest<8",
    "pytest-timeout",
    "flaky",
    "scipy",
    "pandas==1.5.3",
    "pydantic<2",
    "pillow",
    "matplotlib",
    "requests",
    "tqdm",
    "toolz",
    "typing-extensions",
    "yacs",
    "portalocker",
    "autocfg",
    "tensorboardx",
    "sacremoses",
    "sentencepiece",
    "cython",
    "setuptools<80",
    "opencv-python-headless==4.8.1.78",
]


@dataclass
class Library:
    """A library: its package and version, its repository and tag, and the arguments of its tests."""

    name: str
    package: str
    repository: str
    tag: str
    tests: list[str] = field(default_factory=list)


LIBRARIES = {
    each.name: each
    for each in (
        Library("gluoncv", "gluoncv==0.10.5", "https://github.com/dmlc/gluon-cv", "v0.10.0"),
        Library(
            "gluonnlp",
            "gluonnlp==0.10.0",
            "https://github.com/dmlc/gluon-nlp",
            "v0.10.0",
            ["tests/unittest", "-m", "not remote_required and not gpu"],
        ),
        Library("gluonts", "gluonts==0.13.7", "https://github.com/awslabs/gluonts", "v0.13.7", ["test/mx"]),
    )
}


def run(command, **options):
    """Run a command and return its output; errors are part of it."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options).stdout


def environment(oracle):
    """Return the Python of the environment, after installing everything into it."""
    place = HOME / ("oracle" if oracle else "phonograd")
    python = place / "bin" / "python"
    ready = place / "ready"
    if not ready.exists():
        subprocess.run(["python3.11", "-m", "venv", place], check=True)
        install = [python, "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *(ORACLE if oracle else OURS), *COMMON], check=True)
        packages = [library.package for library in LIBRARIES.values()]
        subprocess.run([*install, "--no-deps", *packages], check=True)
        ready.touch()
    return python


def source_of(library, sources):
    """Return the directory with the repository of a library."""
    if sources is not None:
        return Path(sources) / library.name
    place = HOME / f"{library.name}-{library.tag}"
    if not place.exists():
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", library.tag, library.repository, place]
        subprocess.run(clone, check=True)
    return place


def variables(oracle):
    """Return the environment variables under which ``import mxnet`` means one or the other."""
    if oracle:
        return dict(os.environ)
    source = ROOT / "src"
    return {**os.environ, "PYTHONPATH": f"{source}:{source / 'phonograd' / 'compat' / 'mxnet_path'}"}


def count_models(oracle):
    """Return the number of GluonCV's models that run and of those tried, and the errors."""
    command = [environment(oracle), Path(__file__).with_name("gluoncv_models.py")]
    found = [json.loads(line) for line in run(command, env=variables(oracle)).splitlines() if line.startswith("{")]
    errors = {each["model"]: each["error"] for each in found if "error" in each}
    return {"passed": len(found) - len(errors), "total": len(found), "failures": errors}


def count_tests(library, sources, oracle):
    """Return the number of a library's tests that pass and of those run, and the names of the others."""
    command = [environment(oracle), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=no", "-rfE"]
    output = run(
        [*command, "--timeout", "120", "--continue-on-collection-errors", *library.tests],
        cwd=source_of(library, sources),
        env=variables(oracle),
    )
    return summary_of(output)


def summary_of(output):
    """Return the counts in the output of pytest."""
    numbers = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|errors?|xpassed)", output)}
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    passed = numbers.get("passed", 0)
    return {"passed": passed, "total": passed + numbers.get("failed", 0), "failures": failures}


def table(results):
    """Return the lines of the table in docs/compatibility.md."""
    lines = ["| library | what | here | MXNet 1.9.1 |", "|---|---|---|---|"]
    for name, library in LIBRARIES.items():
        what = "models that build and compute" if not library.tests else "unit tests that pass"
        cells = [
            f"{found['passed']:,} of {found['total']:,}" if (found := results.get(name, {}).get(kind)) else "not run"
            for kind in ("here", "mxnet")
        ]
        if cells != ["not run"] * 2:
            lines.append(f"| {library.package.replace('==', ' ')} | {what} | {cells[0]} | {cells[1]} |")
    return lines


def write(results):
    """Write the table into docs/compatibility.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + "\n".join([BEGIN, *table(results), END]) + after, encoding="utf-8")


def main():
    """Run the libraries and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(LIBRARIES), choices=list(LIBRARIES))
    parser.add_argument("--sources", help="a directory with the repositories of the libraries")
    parser.add_argument("--oracle", action="store_true", help="run with real MXNet 1.9.1 instead")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in arguments.only:
        library = LIBRARIES[name]
        oracle = arguments.oracle
        found = count_tests(library, arguments.sources, oracle) if library.tests else count_models(oracle)
        results.setdefault(name, {})["mxnet" if oracle else "here"] = found
        print(f"{library.package}: {found['passed']} of {found['total']}", file=sys.stderr)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if arguments.write:
        write(results)


if __name__ == "__main__":
    main()
