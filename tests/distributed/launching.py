"""Start scripts as several ranks, as the tests of this folder do."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]

#: the tests of this folder need what the extra `mpi` installs
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or sys.platform == "win32", reason="mpi4py is not installed"
)


def environment() -> dict[str, str]:
    """Return the variables of a process that finds the library and the tests."""
    variables = {name: value for name, value in os.environ.items() if name != "PHONOGRAD_NUM_THREADS"}
    found = [path for path in (variables.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT)) if path]
    return {**variables, "PYTHONPATH": os.pathsep.join(found)}


def launch(
    ranks: int, script: str, *arguments: str, options: tuple[str, ...] = (), timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder with a number of ranks; it must end in time."""
    command = [sys.executable, "-m", "phonograd", "launch", "-n", str(ranks), *options, str(FOLDER / script)]
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env=environment(),
        cwd=ROOT,
    )
