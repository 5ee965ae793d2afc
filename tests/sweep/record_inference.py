"""Write ``inference.json.gz``: what the symbols of MXNet 1.9.1 infer in all trials of :mod:`.inference`.

Run it with a Python that has mxnet 1.9.1 (Python 3.11, NumPy 1.23.5): ``python tests/sweep/record_inference.py``.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MXNET_ENGINE_TYPE="NaiveEngine")
import mxnet

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.sweep.inference import Trial, cases_with_inputs, outcome, trials
from tests.sweep.store import INFERENCE, save

CASES = 3


def output_of(path: str, case: Any) -> Any:
    """Return the shape and dtype of the first output of a call, or None if it fails."""
    start = Trial("shapes", tuple(spec.shape for spec in case.inputs), None)
    types = Trial("types", tuple(spec.dtype for spec in case.inputs), None)
    shapes, dtypes = outcome(mxnet, path, case, start), outcome(mxnet, path, case, types)
    if shapes.startswith("!") or dtypes.startswith("!") or not shapes.endswith("whole"):
        return None
    return eval(shapes.rpartition(" ")[0])[1][0], eval(dtypes)[1][0]


def record(path: str, cases: list[Any], results: Any) -> None:
    """Send the outcomes of all trials of the first calls that work, of different numbers of inputs or axes."""
    found: dict[str, Any] = {}
    kinds = set()
    for case in cases:
        kind = tuple(len(spec.shape) for spec in case.inputs)
        if kind in kinds or len(found) == CASES:
            continue
        output = output_of(path, case)
        if output is not None and output[1] is not None:
            kinds.add(kind)
            table = {trial.key: outcome(mxnet, path, case, trial) for trial in trials(case, output)}
            found[case.identifier] = {"output": output, "trials": table}
    results.send(found)


def main() -> None:
    """Record all operators; each in a process of its own, because MXNet may die."""
    found, context = {}, multiprocessing.get_context("fork")
    for path, cases in sorted(cases_with_inputs().items()):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=record, args=(path, cases, sender))
        child.start()
        sender.close()
        try:
            if receiver.poll(60):
                found[path] = receiver.recv()
        except EOFError:
            print("lost:", path)
        child.kill()
        child.join()
    save(INFERENCE, found)
    print(sum(len(c["trials"]) for cases in found.values() for c in cases.values()), "trials")


if __name__ == "__main__":
    main()
