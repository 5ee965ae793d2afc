"""Install the built packages into clean environments, run a first program and the smoke tests there, measure the size.

``make package`` builds the wheel and the sdist, and tries them with the Python that runs this script. ``make
release-check`` tries them with every supported Python that :mod:`tests.project.versions` finds. ``--write`` puts the
table of outcomes and of sizes into docs/releases.md. Nothing in the environments comes from the checkout: the smoke
tests are those of the unpacked sdist.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.project.versions import SUPPORTED, Interpreter, _describe, find_interpreters, prepare_uv, with_table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "releases.md"
BEGIN, END = "<!-- packages: written by make release-check -->", "<!-- end of packages -->"

#: files without which a package is not complete, below the package's directory
REQUIRED = (
    "py.typed",
    "__init__.pyi",
    "ndarray/op.pyi",
    "numpy/__init__.pyi",
    "numpy/examples.txt",
    "core/ops/formulas.txt",
    "core/ops/math/examples.txt",
    "core/run/prebuilt-x86-64-v3.bin",
    "core/run/prebuilt-x86-64-v4.bin",
    "gluon/nn/examples.txt",
    "compat/names.json",
)

PROGRAM = """
import importlib.metadata, json, pathlib, subprocess, sys, warnings
warnings.simplefilter("ignore", RuntimeWarning)
import phonograd as mx
x = mx.nd.array([1.0, 2.0])
x.attach_grad()
with mx.autograd.record():
    y = (x**3).sum()
y.backward()
assert x.grad.asnumpy().tolist() == [3.0, 12.0]
net = mx.gluon.nn.Dense(3)
net.initialize()
assert net(mx.nd.ones((2, 4))).shape == (2, 3)
assert mx.np.sum(mx.np.ones((2, 2))).item() == 4.0
folder = pathlib.Path(mx.__file__).parent
missing = [name for name in json.loads(sys.argv[1]) if not (folder / name).is_file()]
assert not missing, missing
assert ">>>" in mx.nd.softsign.__doc__ and ">>>" in mx.np.sin.__doc__ and ">>>" in mx.gluon.nn.Dense.__doc__
report = subprocess.run([sys.executable, "-m", "phonograd", "doctor"], capture_output=True, text=True, check=True).stdout
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"
print(json.dumps([version("phonograd"), version("numpy"), version("llvmlite")]))
"""


class Outcome(NamedTuple):
    """One line of the table."""

    python: str
    package: str
    numpy: str
    llvmlite: str
    smoke: str
    seconds: float


def _run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def check_contents(package: Path) -> None:
    """Fail if a package lacks a file, or holds some that are not for users."""
    if package.suffix == ".whl":
        names = zipfile.ZipFile(package).namelist()
        prefix = "phonograd/"
    else:
        with tarfile.open(package) as archive:
            names = archive.getnames()
        prefix = f"{package.name.removesuffix('.tar.gz')}/src/phonograd/"
    missing = [name for name in REQUIRED if prefix + name not in names]
    foreign = [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".so"))]
    if missing or foreign:
        raise SystemExit(f"{package.name} lacks {missing} and should not hold {foreign}")


def _install(uv: Path, python: str, package: Path) -> None:
    """Install a package; without llvmlite if there is no wheel of it for this Python."""
    pip = [str(uv), "pip", "install", "--quiet", "--python", python]
    if _run([*pip, "--only-binary", "numpy", "--only-binary", "llvmlite", str(package)]).returncode == 0:
        return
    for command in ([*pip, "--only-binary", ":all:", "numpy"], [*pip, "--no-deps", str(package)]):
        finished = _run(command)
        if finished.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{finished.stderr}")


def check(uv: Path, interpreter: Interpreter, package: Path, tests: Path) -> Outcome:
    """Install one package with one interpreter, run the program and the smoke tests."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "environment"
        subprocess.run([uv, "venv", "--quiet", "--python", interpreter.path, home], check=True)
        python = str(home / "bin" / "python")
        _install(uv, python, package)
        dropped = ("PYTHONPATH", "PYTHONHOME", "PHONOGRAD_EXECUTOR", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in dropped}
        variables["PHONOGRAD_CACHE_DIRECTORY"] = str(Path(folder) / "kernels")
        first = _run([python, "-c", PROGRAM, json.dumps(REQUIRED)], cwd=folder, env=variables)
        if first.returncode:
            raise SystemExit(f"{package.name} does not work with Python {interpreter}:\n{first.stderr}")
        _, numpy, llvmlite = json.loads(first.stdout)
        pip = [str(uv), "pip", "install", "--quiet", "--python", python]
        # older releases of some have wheels for every Python
        subprocess.run([*pip, "--only-binary", ":all:", "pytest>=8.0", "hypothesis>=6.100"], check=True)
        if llvmlite == "none":
            variables["PHONOGRAD_EXECUTOR"] = "reference"
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/smoke"]
        smoke = _run(command, cwd=tests, env=variables)
        lines = smoke.stdout.strip().splitlines() or ["no output"]
        if smoke.returncode:
            raise SystemExit(f"{package.name}, Python {interpreter}:\n{smoke.stdout}{smoke.stderr}")
    kind = "wheel" if package.suffix == ".whl" else "sdist"
    return Outcome(str(interpreter), kind, numpy, llvmlite, lines[-1].partition(" in ")[0], time.monotonic() - start)


def unpack_tests(sdist: Path, folder: Path) -> Path:
    """Unpack the tests of the sdist, without the package, and return their directory."""
    with tarfile.open(sdist) as archive:
        members = [one for one in archive.getmembers() if "/src/" not in one.name]
        archive.extractall(folder, members, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    return next(folder.iterdir())


# -- size


def _kind(path: Path) -> str:
    if path.suffix == ".bin":
        return "prebuilt kernels"
    if path.suffix == ".pyi":
        return "type stubs"
    return "code" if path.suffix == ".py" else "data"


def sizes(interpreter: Interpreter, wheel: Path) -> str:
    """Return a table of what ``pip install`` of the wheel downloads and puts on the disk, in Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        wheels, target = Path(folder) / "wheels", Path(folder) / "target"
        pip = [str(interpreter.path), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "download", "--only-binary", ":all:", "--dest", wheels, wheel], check=True)
        found = sorted(wheels.iterdir())
        command = ["install", "--no-index", "--find-links", wheels, "--no-compile", "--target", target, wheel]
        subprocess.run([*pip, *command], check=True)
        lines = ["| package | download, MB | on the disk, MB |", "|---|---|---|"]
        total = [0.0, 0.0]
        for path in found:
            name = re.split(r"-", path.name)[0]
            places = [one for one in target.iterdir() if re.split(r"[-.]", one.name)[0] == name]
            disk = sum([one.stat().st_size for place in places for one in place.rglob("*") if one.is_file()])
            total = [total[0] + path.stat().st_size, total[1] + disk]
            lines.append(
                f"| {path.name.split('-')[0]} {path.name.split('-')[1]} | {_mb(path.stat().st_size)} | {_mb(disk)} |"
            )
        lines.append(f"| together | {_mb(total[0])} | {_mb(total[1])} |")
        parts: Counter[str] = Counter()
        for path in (target / "phonograd").rglob("*"):
            if path.is_file():
                parts[_kind(path)] += path.stat().st_size
        shown = ", ".join([f"{kind} {_mb(size)} MB" for kind, size in parts.most_common()])
    return "\n".join([*lines, "", f"Of phonograd: {shown}."])


def _mb(size: float) -> str:
    return f"{size / 1e6:.1f}"


def outcomes_table(outcomes: list[Outcome], missing: list[str]) -> str:
    """Return the table of outcomes, in Markdown."""
    lines = ["| Python | package | NumPy | llvmlite | smoke tests |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(one[:5])} |" for one in outcomes]
    lines += [f"\nNot tried: Python {name}." for name in missing]
    return "\n".join(lines)


def main() -> None:
    """Check every package in dist/ with every interpreter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true", help="try every supported Python of this machine")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.relative_to(ROOT)}")
    parser.add_argument("interpreters", nargs="*", type=Path, help="paths of interpreters; by default this one")
    options = parser.parse_args()
    packages = sorted([*ROOT.glob("dist/*.whl"), *ROOT.glob("dist/*.tar.gz")])
    if len(packages) != 2:
        raise SystemExit(f"dist/ must hold one wheel and one sdist, not {[path.name for path in packages]}")
    sdist, wheel = sorted(packages, key=lambda path: path.suffix)
    for package in packages:
        check_contents(package)
    if options.all:
        known = find_interpreters()
        chosen = [known[name] for name in SUPPORTED if name in known]
        missing = [name for name in SUPPORTED if name not in known]
    else:
        described = [_describe(path) for path in options.interpreters or [Path(sys.executable)]]
        chosen, missing = [one for one in described if one is not None], []
    outcomes, uv = [], prepare_uv()
    with tempfile.TemporaryDirectory() as folder:
        tests = unpack_tests(sdist, Path(folder))
        for package in (wheel, sdist):
            for interpreter in chosen:
                outcomes.append(check(uv, interpreter, package, tests))
                print(*outcomes[-1], flush=True)
    # a Python for which llvmlite has a wheel
    complete = {one.python for one in outcomes if one.llvmlite != "none"}
    measured = [sizes(one, wheel) for one in [one for one in chosen if str(one) in complete][:1]]
    text = "\n\n".join([outcomes_table(outcomes, missing), *measured])
    print(text)
    if options.write:
        PAGE.write_text(with_table(PAGE.read_text("utf-8"), text, BEGIN, END), "utf-8")


if __name__ == "__main__":
    main()
