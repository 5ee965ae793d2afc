"""Train and predict with all estimators of GluonTS, a few batches each: ``python -m benchmarks.estimators``.

The script of :mod:`tests.world` runs in its environments, which ``python -m tests.world --only gluonts-estimators
--again`` makes, once as it is and once with ``--oracle``: one with phonograd as ``mxnet``, one with MXNet. Rounds alternate between phonograd with an empty cache
directory (*cold*), with the one that the cold run leaves behind (*warm*), and MXNet; the best round of each counts. The
figures are the seconds of the estimators that all of them run, and those of the whole process. ``--write`` keeps them
and writes the documents' figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import world
from tests.world.__main__ import HOME, variables

from benchmarks import machine, report

HERE = Path(__file__).parent
SCRIPT = Path(world.__file__).with_name("gluonts_estimators.py")


def run(python: Path, oracle: bool, directory: str) -> tuple[dict[str, float], float]:
    """Return the seconds of each estimator that works, and those of the process."""
    environment = {**variables(oracle), "PHONOGRAD_CACHE_DIRECTORY": directory}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    machine.settle()
    start = time.perf_counter()
    found = subprocess.run([python, SCRIPT], env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    lines = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: line["seconds"] for line in lines if "forecasts" in line}, seconds


def main() -> int:
    """Measure, and print the seconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the results and write the documents' figures")
    options = parser.parse_args()
    here, oracle = [HOME / name / "bin" / "python" for name in ("phonograd", "oracle")]
    missing = [str(python) for python in (here, oracle) if not python.exists()]
    if missing:
        command = "python -m tests.world --only gluonts-estimators --again"
        sys.exit(
            f"{' and '.join(missing)} do not exist; `{command}` makes the environment of phonograd, and with `--oracle` "
            "that of MXNet (PHONOGRAD_WORLD: where)"
        )
    facts = {**machine.description(), "load_before": machine.load()}
    found: dict[str, list[tuple[dict[str, float], float]]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as directory:
            for kind, python in (("cold", here), ("warm", here), ("mxnet", oracle)):
                found.setdefault(kind, []).append(run(python, kind == "mxnet", directory))
    common = set.intersection(*[set(times) for rounds in found.values() for times, _ in rounds])
    best = {
        kind: {
            "estimators": sum([min([times[name] for times, _ in rounds]) for name in common]),
            "process": min([seconds for _, seconds in rounds]),
        }
        for kind, rounds in found.items()
    }
    for name in sorted(common):
        times = {kind: min([times[name] for times, _ in rounds]) for kind, rounds in found.items()}
        print(f"{name:40}", " ".join([f"{kind} {seconds:.3f}" for kind, seconds in times.items()]))
    for kind, seconds in best.items():
        print(f"{kind:8}{seconds['estimators']:8.2f} s for {len(common)} estimators,{seconds['process']:8.2f} s in all")
    if options.write:
        kept = {"machine": facts, "rounds": options.rounds, "estimators": sorted(common), "seconds": best}
        (HERE / "results" / "gluonts.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
