"""Measure how much memory a training step takes beyond its inputs: ``python -m benchmarks.memory``.

Each case runs in its own process. A small step first loads and compiles the code, then the inputs of the large step are
made, and then the peak memory of the process during some steps is compared with the memory before them (Linux reports
both). PyTorch is measured if a Python has it (:mod:`benchmarks.compare` describes how it is found). One thread on both
sides.

``python -m benchmarks.memory --models [model ...]`` measures whole processes instead, for each model of
:mod:`benchmarks.models`: the peak of a process that imports the library, makes the model and runs some steps, and the
growth of its peak beyond the import. Plans have taken over from single operators by then. phonograd runs twice, and the
second process counts, which finds kernels in the cache directory. The last row is a process that trains all models in
turn, and drops each. It takes a few minutes. ``--write`` keeps the results of all and writes the table.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STEPS = 3
#: steps of the small size: enough for plans, and for machine code of calls, to take over
SMALL_STEPS = 12
#: steps of a model: the first are computed operator by operator, and plans take over after about ten
MODEL_STEPS = 15
#: the name of the process that trains all models
IN_TURN = "all, in turn"

#: the function of a workload, a small and a large size, by case
CASES: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "lstm 35x256x256": ("lstm", {"batch": 2, "hidden": 16}, {"batch": 256, "hidden": 256}),
    "elem 16M": ("elem4m", {"size": 1000}, {"size": 16_000_000}),
    "mlp 4096": ("mlp", {"batch": 4}, {"batch": 4096}),
    "lenet 256": ("lenet", {"batch": 2}, {"batch": 256}),
    "resnet18 16x128x128": ("resnet18", {"batch": 2, "side": 32}, {"batch": 16, "side": 128}),
    "bert 16x128": ("bert", {"batch": 1, "length": 8}, {"batch": 16, "length": 128}),
}


def status(name: str) -> int:
    """Return one of the system's figures about this process, in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise LookupError(name)


def answer(library: str, case: str) -> None:
    """Print the peak memory of a step and the memory of its inputs, in MiB, as one line of JSON."""
    sys.path.insert(0, str(HERE))
    module: Any = importlib.import_module(library)
    family = "nd" if library == "phonograd" else library
    name, small, large = CASES[case]
    models = importlib.import_module(f"workloads_models_{family}").WORKLOADS
    workload = models.get(name) or getattr(importlib.import_module(f"workloads_{family}"), name)
    if library == "torch":
        module.set_num_threads(1)
    else:
        module.settings.update(executor="native", num_threads=1)
    tiny = workload(module, **small)
    for _ in range(SMALL_STEPS):
        tiny()
    if library == "phonograd":
        # load the compiler, which takes 70 MB, before the memory of the large step is measured
        importlib.import_module("phonograd.core.run.kernel_cache").wait_for_tier_up()
    without = status("VmRSS")
    step = workload(module, **large)
    if library == "phonograd":
        module.nd.waitall()
    gc.collect()
    # reset the peak
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    for _ in range(STEPS):
        step()
    print(json.dumps({"inputs": (before - without) / 1024, "step": (status("VmHWM") - before) / 1024}))


def trained(names: Iterable[str]) -> list[str]:
    """Return those of the models that are trained.

    >>> trained(["gp", "infer-mlp-1"])
    ['gp']
    """
    return [name for name in names if not name.startswith("infer-")]


def answer_model(library: str, name: str) -> None:
    """Print the peak memory of this process after some steps of a model, and beyond the import, as one line of JSON."""
    sys.path.insert(0, str(HERE))
    module: Any = importlib.import_module(library)
    tables = importlib.import_module("workloads_models_" + ("nd" if library == "phonograd" else library))
    if library == "torch":
        module.set_num_threads(1)
    else:
        module.settings.update(executor="native", num_threads=1)
    imported = status("VmRSS")
    for each in trained(tables.WORKLOADS) if name == IN_TURN else [name]:
        step = tables.WORKLOADS[each](module)
        for _ in range(MODEL_STEPS):
            step()
        del step
        gc.collect()
    peak = status("VmHWM")
    print(json.dumps({"process": peak / 1024, "model": (peak - imported) / 1024}))


def ask(python: str, library: str, case: str, question: str = "--here") -> dict[str, float]:
    """Return the figures of a case, or of a model, in a library."""
    command = [python, "-W", "ignore", str(HERE / "memory.py"), question, library, case]
    # installed packages have byte code; compiling sources takes memory that stays with the process
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    facts: dict[str, float] = json.loads(found.stdout)
    return facts


def measure(names: Iterable[str], columns: tuple[str, str], question: str) -> dict[str, dict[str, dict[str, float]]]:
    """Ask all libraries about cases, and print two columns of figures for each."""
    from benchmarks.compare import python_of

    pythons = {"phonograd": sys.executable}
    if torch := python_of("torch"):
        pythons["torch"] = torch
    print(f"{'MiB':24s}" + "".join(f"{library:>22s}" for library in pythons))
    print(f"{'':24s}" + "".join(f"{columns[0]:>12s}{columns[1]:>10s}" for _ in pythons))
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        if question == "--model":
            # the process that counts finds kernels and plans on disk
            ask(sys.executable, "phonograd", name, question)
        results[name] = {library: ask(python, library, name, question) for library, python in pythons.items()}
        figures = [f"{facts[columns[0]]:12.1f}{facts[columns[1]]:10.1f}" for facts in results[name].values()]
        print(f"{name:24s}" + "".join(figures), flush=True)
    return results


def main() -> int:
    """Measure all cases and return an exit status."""
    if sys.argv[1:2] == ["--here"]:
        answer(*sys.argv[2:4])
        return 0
    if sys.argv[1:2] == ["--model"]:
        answer_model(*sys.argv[2:4])
        return 0
    from benchmarks import report
    from benchmarks.workloads_models_nd import WORKLOADS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", action="store_true", help="measure whole processes of the models")
    parser.add_argument("model", nargs="*", default=[], help=f"which (default: all): {', '.join(WORKLOADS)}")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and options.model:
        parser.error("only the results of all models are kept")
    if options.model and not options.models:
        parser.error("name models with --models")
    if options.models:
        results, name = (
            measure(options.model or [*WORKLOADS, IN_TURN], ("process", "model"), "--model"),
            "memory_models",
        )
    else:
        results, name = measure(CASES, ("inputs", "step"), "--here"), "memory"
    if options.write:
        (HERE / "results" / f"{name}.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
