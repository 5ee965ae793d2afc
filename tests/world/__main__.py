"""Install libraries that were written for MXNet, run their models and tests, and write the table of counts.

``python -m tests.world [--only NAME ...] [--parts NAME ...] [--sources DIRECTORY] [--oracle] [--again] [--times] [--write]``.
Libraries get an environment in ``~/.cache/phonograd-world``, with this library as ``mxnet``; ``--oracle`` makes a second
one with real MXNet 1.9.1 (Python 3.11). The tests of a library are those of its repository at the tag of the installed
version: they are cloned, or taken from ``DIRECTORY/<name>``. They run file by file. Results are kept in
``tests/world/results.json``, so an interrupted run continues where it stopped; ``--again`` runs everything again, and
``--parts`` the named models or files of tests. ``--times`` runs the estimators of GluonTS with MXNet, with an empty and
with a filled cache of kernels, and prints the row of seconds.
"""

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
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
    "portalocker==2.0.0",
    "protobuf==3.20.3",
    "sacrebleu==1.5.1",
    "nose",
    "autocfg",
    "tensorboardx",
    "sacremoses",
    "sentencepiece",
    "cython",
    "setuptools<80",
    "opencv-python-headless==4.8.1.78",
    "networkx",
    "graphviz",
    "scikit-learn==1.2.2",
    "easydict",
    "ipython==8.18.1",
    "paramz==0.9.6",
    "GPy==1.13.2",
]


#: relative difference of sums in another order, through hundreds of layers
TOLERANCE = 1e-2

#: the error of a model that downloads weights
NEEDS_FILE = "ConnectionError"

#: seconds for one test, and for all tests of a file
SECONDS_TEST, SECONDS_FILE = 150, 1200


@dataclass
class Library:
    """A library: its package and version, its repository and tag, its tests and the arguments of pytest."""

    name: str
    #: a requirement of pip, or the name of a library that is no package
    package: str
    repository: str
    #: a tag, or a commit of a repository without tags
    tag: str
    tests: str = ""
    #: the directory of the repository in which the tests run
    folder: str = ""
    arguments: list[str] = field(default_factory=list)
    #: a script that prints one line of JSON for each model
    script: str = ""
    what: str = "unit tests that pass"


LIBRARIES = {
    each.name: each
    for each in (
        Library(
            "gluoncv-models",
            "gluoncv==0.10.5",
            "https://github.com/dmlc/gluon-cv",
            "v0.10.0",
            script="gluoncv_models.py",
            what="models that build, compute, and train for one step",
        ),
        Library(
            "gluoncv-pipelines",
            "gluoncv==0.10.5",
            "https://github.com/dmlc/gluon-cv",
            "v0.10.0",
            script="gluoncv_pipelines.py",
            what="pipelines of training scripts, with workers, that load all batches",
        ),
        Library("gluoncv", "gluoncv==0.10.5", "https://github.com/dmlc/gluon-cv", "v0.10.0", "tests/unittests"),
        Library(
            "gluonnlp",
            "gluonnlp==0.10.0",
            "https://github.com/dmlc/gluon-nlp",
            "v0.10.0",
            "tests/unittest",
            arguments=["-m", "not remote_required and not gpu"],
        ),
        Library(
            "gluonnlp-models",
            "gluonnlp==0.10.0",
            "https://github.com/dmlc/gluon-nlp",
            "v0.10.0",
            script="gluonnlp_models.py",
            what="models that build, compute, and train for one step; beam search",
        ),
        Library(
            "exchange",
            "gluoncv==0.10.5",
            "https://github.com/dmlc/gluon-cv",
            "v0.10.0",
            script="exchange.py",
            what="models of GluonCV and GluonNLP whose files from the other library are read, with its outputs",
        ),
        Library("sockeye", "sockeye==2.3.24", "https://github.com/awslabs/sockeye", "2.3.24", "test/unit"),
        Library("mxboard", "mxboard==0.1.0", "https://github.com/awslabs/mxboard", "v0.1.0", "tests/python/unittest"),
        Library(
            "mxfusion",
            "MXFusion==0.3.1",
            "https://github.com/amzn/MXFusion",
            "v0.3.1",
            "testing",
            arguments=["-o", "addopts="],
        ),
        Library(
            "xfer",
            "xfer-ml==1.1.0",
            "https://github.com/amzn/xfer",
            "860ec41aa7472027862a24aa10dbe65498c9a323",
            "tests/unit",
            folder="xfer-ml",
        ),
        Library(
            "d2l",
            "d2l==0.17.6",
            "https://github.com/d2l-ai/d2l-en",
            "v0.17.6",
            script="d2l_models.py",
            what="models and functions of the chapters that train on made-up data",
        ),
        Library(
            "insightface",
            "InsightFace, arcface_mxnet",
            "https://github.com/deepinsight/insightface",
            "7fadd420c2351d0ffa8cac403421c1a3ed733365",
            script="insightface_networks.py",
            what="networks and losses that compute, and train for one step",
        ),
        Library("gluonts", "gluonts==0.13.7", "https://github.com/awslabs/gluonts", "v0.13.7", "test/mx"),
        Library(
            "gluonts-estimators",
            "gluonts==0.13.7",
            "https://github.com/awslabs/gluonts",
            "v0.13.7",
            script="gluonts_estimators.py",
            what="estimators that train, predict, and predict again after serialization",
        ),
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
        packages = sorted({library.package for library in LIBRARIES.values() if "==" in library.package})
        subprocess.run([*install, "--no-deps", *packages], check=True)
        ready.touch()
    return python


def source_of(library, sources):
    """Return the directory with the repository of a library."""
    if sources is not None:
        return Path(sources) / library.name
    place = HOME / f"{library.name}-{library.tag}"
    if not place.exists():
        subprocess.run(["git", "init", "--quiet", place], check=True)
        for command in (["fetch", "--depth", "1", library.repository, library.tag], ["checkout", "FETCH_HEAD"]):
            subprocess.run(["git", "-C", place, *command, "--quiet"], check=True)
    return place


def variables(oracle, cache=None):
    """Return the environment variables under which ``import mxnet`` means one or the other, with a cache of kernels."""
    files = {"PHONOGRAD_WORLD_FILES": str(HOME / "files")}
    if oracle:
        return {**os.environ, **files}
    source = ROOT / "src"
    found = {**os.environ, **files, "PYTHONPATH": f"{source}:{source / 'phonograd' / 'compat' / 'mxnet_path'}"}
    if cache is not None:
        found["PHONOGRAD_CACHE_DIRECTORY"] = cache
    return found


def run_script(library, sources, oracle, known, chosen, cache=None):
    """Yield the name and the result of each model or estimator that the script of a library tries.

    The script prints a line with ``begin`` before each of them. It is started again after the one that ended it.
    """
    done, begun = list(known), ""
    options = variables(oracle, cache)
    if "==" not in library.package:
        options["PHONOGRAD_WORLD_SOURCE"] = str(source_of(library, sources))
    while begun is not None:
        command = [environment(oracle), Path(__file__).with_name(library.script), *chosen, "--skip", *done]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=options
        ) as process:
            begun = None
            for line in process.stdout:
                found = json.loads(line) if line.startswith("{") else {}
                if "begin" in found:
                    begun = found["begin"]
                if "name" in found:
                    begun = None
                    done.append(found["name"])
                    yield found.pop("name"), counts_of(found)
        if begun is not None:
            done.append(begun)
            yield begun, counts_of({"error": "the process ended early"})


def counts_of(found):
    """Return the result of a model with its counts, and with the values that it has."""
    error = found.pop("error", None)
    failures = [] if error is None else [error]
    return {"passed": 1 - len(failures), "total": 1, "failures": failures, **found}


def run_files(library, sources, oracle, known, chosen):
    """Yield the name and the result of each file of tests."""
    source = source_of(library, sources) / library.folder
    command = [environment(oracle), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=no", "-rfE"]
    folder = source / library.tests
    for path in sorted([*folder.rglob("test_*.py"), *folder.rglob("*_test.py")]):
        name = str(path.relative_to(source))
        if name in known or (chosen and name not in chosen):
            continue
        arguments = ["--timeout", str(SECONDS_TEST), *library.arguments, name]
        try:
            output = run([*command, *arguments], cwd=source, env=variables(oracle), timeout=SECONDS_FILE)
        except subprocess.TimeoutExpired:
            yield name, {"passed": 0, "total": 0, "failures": [f"{name}: more than {SECONDS_FILE} seconds"]}
            continue
        if re.search(r" in [\d.]+s", output) is None:
            yield name, {"passed": 0, "total": 0, "failures": [f"{name}: the process ended early"]}
            continue
        yield name, summary_of(output)


def summary_of(output):
    """Return the counts in the output of pytest."""
    numbers = {kind: int(number) for number, kind in re.findall(r"(\d+) (passed|failed|errors?|xpassed)", output)}
    failures = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    passed, errors = numbers.get("passed", 0), numbers.get("error", 0) + numbers.get("errors", 0)
    return {"passed": passed, "total": passed + numbers.get("failed", 0) + errors, "failures": failures}


def sums(results, name):
    """Return the counts of a library here and with MXNet, over the parts that both have run if both have any."""
    kinds = {kind: results.get(name, {}).get(kind, {}) for kind in ("here", "mxnet")}
    used = [set(parts) for parts in kinds.values() if parts]
    common = set.intersection(*used) if used else set()
    return {
        kind: tuple(sum([parts[part][count] for part in common]) for count in ("passed", "total")) if parts else None
        for kind, parts in kinds.items()
    }


def is_close(one, two, scale=0):
    """Return whether two numbers of a model are equal but for rounding; None is NaN, or a number left to chance."""
    if one is None or two is None:
        return one is two
    return abs(one - two) <= TOLERANCE * max(abs(one), abs(two), scale) + 1e-6


def is_equal(here, there):
    """Return whether two results of a model have outputs of equal shapes, means and deviations.

    Means are as exact as the elements, so their tolerance is a part of the deviation.
    """
    pairs = list(zip(here["outputs"], there["outputs"]))
    return len(here["outputs"]) == len(there["outputs"]) and all(
        [one[0] == two[0] and is_close(one[1], two[1], two[2] or 0) and is_close(one[2], two[2]) for one, two in pairs]
    )


def comparisons(results, name):
    """Return a line with the number of models whose outputs are those of MXNet, and one with seconds, if known."""
    kinds = results.get(name, {})
    package = LIBRARIES[name].package.replace("==", " ")
    here, there = kinds.get("here", {}), kinds.get("mxnet", {})
    both = [each for each in here if "outputs" in here[each] and "outputs" in there.get(each, {})]
    lines = []
    counts = [sum([NEEDS_FILE in str(found["failures"]) for found in parts.values()]) for parts in (here, there)]
    if any(counts):
        lines.append(
            f"| {package} | of those that fail: need a file of weights from the network | {counts[0]} | {counts[1]} |"
        )
    if both:
        equal = sum([is_equal(here[each], there[each]) for each in both])
        what = "of those that compute with both: outputs with the means and deviations of MXNet's"
        lines.append(f"| {package} | {what} | {equal:,} of {len(both):,} | |")
    if "cold" in kinds:
        timed = [kinds["cold"], here, there]
        common = set.intersection(*[{each for each in parts if parts[each]["passed"]} for parts in timed])
        cold, warm, other = [sum([parts[each]["seconds"] for each in common]) for parts in timed]
        what = f"seconds for {len(common)} estimators, with an empty and a filled cache of kernels"
        lines.append(f"| {package} | {what} | {cold:.0f} and {warm:.0f} | {other:.0f} |")
    return lines


def table(results):
    """Return the lines of the table in docs/compatibility.md."""
    lines = ["| library | what | here | MXNet 1.9.1 |", "|---|---|---|---|"]
    for name, library in LIBRARIES.items():
        counts = sums(results, name)
        if any(counts.values()):
            cells = ["{:,} of {:,}".format(*counts[kind]) if counts[kind] else "not run" for kind in ("here", "mxnet")]
            lines.append(f"| {library.package.replace('==', ' ')} | {library.what} | {cells[0]} | {cells[1]} |")
            lines += comparisons(results, name)
    return lines


def write(results):
    """Write the table into docs/compatibility.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + "\n".join([BEGIN, *table(results), END]) + after, encoding="utf-8")


def stored():
    """Return the results of earlier runs."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def store(name, kind, part, found):
    """Add a result to those of earlier runs, and of other processes that run at the same time."""
    with open(RESULTS.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = stored()
        results.setdefault(name, {}).setdefault(kind, {})[part] = found
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def keep(name, kind, parts):
    """Store the results of parts of a library as they come."""
    for part, found in parts:
        store(name, kind, part, found)
        print(f"{part}: {found['passed']} of {found['total']}", file=sys.stderr, flush=True)


def time_estimators():
    """Run the estimators of GluonTS with MXNet, with an empty and with a filled cache of kernels; print the seconds."""
    name = "gluonts-estimators"
    with tempfile.TemporaryDirectory() as cache:
        for kind in ("mxnet", "cold", "here"):
            keep(name, kind, run_script(LIBRARIES[name], None, kind == "mxnet", [], [], cache))
    print(comparisons(stored(), name)[-1])


def main():
    """Run the libraries and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(LIBRARIES), choices=list(LIBRARIES))
    parser.add_argument("--parts", nargs="*", default=[], help="models or files of tests to run again, instead of all")
    parser.add_argument("--sources", help="a directory with the repositories of the libraries")
    parser.add_argument("--oracle", action="store_true", help="run with real MXNet 1.9.1 instead")
    parser.add_argument(
        "--times", action="store_true", help="time the estimators of GluonTS, and print a row of seconds"
    )
    parser.add_argument("--again", action="store_true", help="run again what has results already")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    arguments = parser.parse_args()
    if arguments.times:
        time_estimators()
    kind = "mxnet" if arguments.oracle else "here"
    for name in arguments.only if not arguments.times else ():
        library = LIBRARIES[name]
        known = {} if arguments.again or arguments.parts else stored().get(name, {}).get(kind, {})
        common = library, arguments.sources, arguments.oracle, known, arguments.parts
        keep(name, kind, run_script(*common) if library.script else run_files(*common))
    if arguments.write:
        write(stored())


if __name__ == "__main__":
    main()
