"""Measure operators of many inputs: ``python -m benchmarks.joins [n ...]``.

``stack``, ``concat`` and ``add_n`` of n arrays of 4 numbers, forward alone and with backward. The arrays are rows of a
larger one (views) or arrays of their own. The first call plans and compiles, with an empty disk cache. The second is
of another number of arrays, one kernel's worth more. The third repeats the second. Figures are seconds of processor time (of all
threads), because a busy machine makes others meaningless. MXNet is measured if a Python has it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COUNTS = (10, 100, 2000, 6000)
#: a multiple of the blocks that one kernel copies
MORE = 8


def operators(mx: Any) -> dict[str, Callable[[list[Any]], Any]]:
    """Return what is measured, by name."""
    nd = mx.nd
    return {
        "stack": lambda arrays: nd.stack(*arrays),
        "concat": lambda arrays: nd.concat(*arrays, dim=0),
        "add_n": lambda arrays: nd.add_n(*arrays),
    }


def step(mx: Any, operator: Callable[[list[Any]], Any], count: int, views: bool, backward: bool) -> Callable[[], None]:
    """Return a call of an operator that ends when its result, or its gradient, is in memory."""
    nd = mx.nd
    if views:
        base = nd.ones((count, 4))
        variables = [base]
    else:
        variables = [nd.ones((4,)) for _ in range(count)]
    for variable in variables:
        variable.attach_grad()
        variable.wait_to_read()

    def run() -> None:
        if not backward:
            operator([base[row] for row in range(count)] if views else variables).asnumpy()
            return
        with mx.autograd.record():
            result = operator([base[row] for row in range(count)] if views else variables)
        result.backward()
        variables[-1].grad.asnumpy()

    return run


def seconds(run: Callable[[], None]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def answer(library: str, counts: list[int]) -> None:
    """Print the figures of a library as one line of JSON: first call, another number of inputs, the same again."""
    mx = importlib.import_module(library)
    found: dict[str, list[float]] = {}
    for name, operator in operators(mx).items():
        for count in counts:
            for views in (True, False):
                for backward in (False, True):
                    other = step(mx, operator, count + MORE, views, backward)
                    times = [seconds(step(mx, operator, count, views, backward)), seconds(other), seconds(other)]
                    what = f"{name}, {count} {'views' if views else 'arrays'}{', backward' if backward else ''}"
                    found[what] = [round(value, 4) for value in times]
    print(json.dumps(found))


def ask(python: str, library: str, counts: list[int]) -> dict[str, list[float]]:
    """Return the figures of a library, measured by another process with an empty disk cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-W", "ignore", str(HERE / "joins.py"), "--here", library, *map(str, counts)]
        environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": folder}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    figures: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> int:
    """Measure both libraries, print the figures side by side and return an exit status."""
    if sys.argv[1:2] == ["--here"]:
        answer(sys.argv[2], [int(word) for word in sys.argv[3:]])
        return 0
    from benchmarks.compare import python_of

    counts = [int(word) for word in sys.argv[1:]] or list(COUNTS)
    pythons = {"phonograd": sys.executable}
    if mxnet := python_of("mxnet"):
        pythons["mxnet"] = mxnet
    results = {library: ask(python, library, counts) for library, python in pythons.items()}
    print(f"{'seconds: first, other number, again':40s}" + "".join([f"{library:>30s}" for library in results]))
    for what in results["phonograd"]:
        cells = ["".join([f"{value:10.4f}" for value in figures[what]]) for figures in results.values()]
        print(f"{what:40s}" + "".join(cells))
    if counts == list(COUNTS):
        (HERE / "results" / "joins.json").write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
