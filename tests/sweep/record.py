"""Write ``calls.json.gz``: the outcomes of all calls of the sweep on MXNet 1.9.1.

Run it with a Python that has mxnet 1.9.1 (Python 3.11, NumPy 1.23.5): ``python tests/sweep/record.py``. Every base runs
in a process of its own; a call in which MXNet dies, hangs or reads memory that it never wrote has no outcome.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import sys
from pathlib import Path
from typing import Any

# one thread makes the order of summations repeatable, and the simple engine reports errors in the call that made them
os.environ.update(OMP_NUM_THREADS="1", MXNET_ENGINE_TYPE="NaiveEngine")
import mxnet

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.sweep.calls import OUTCOMES, Change, bases, changes, find
from tests.sweep.store import CALLS, load, save

SECONDS_PER_CALL = 6
BYTES = 8 << 30
M_PERTURB = -6  # the option of mallopt in glibc that fills what malloc returns
ARRAY = ("NDArray", "Symbol")

Work = list[tuple[str, Change]]


def described(path: str) -> tuple[list[str], dict[str, str]]:
    """Return the names of the arrays of an operator, and the descriptions of its parameters by name."""
    text = find(mxnet.nd, path).__doc__ or ""
    arrays, parameters = [], {}
    lines = text[text.find("Parameters\n") : text.find("Returns\n")].splitlines()[2:]
    for line in lines:
        name, separator, kind = line.strip().partition(" : ")
        if not separator or not name.isidentifier() or name in ("out", "name"):
            continue
        if kind.startswith(ARRAY):
            arrays.append(name)
        else:
            parameters[name] = kind.replace("''", "'")
    return arrays, parameters


def answer(path: str, case: Any, work: Work, names: list[str], fill: int, results: Any) -> None:
    """Run calls one by one, and send their outcomes."""
    ctypes.CDLL(None).mallopt(M_PERTURB, fill)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    for kind, change in work:
        results.send(OUTCOMES[kind](mxnet, path, case, change, names))


def outcomes(path: str, case: Any, work: Work, names: list[str], fill: int) -> list[str]:
    """Return the outcomes of calls; "died" for those that end the process."""
    found: list[str] = []
    context = multiprocessing.get_context("fork")
    while len(found) < len(work):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=answer, args=(path, case, work[len(found) :], names, fill, sender))
        child.start()
        sender.close()
        try:
            while len(found) < len(work):
                if not receiver.poll(SECONDS_PER_CALL):
                    raise EOFError
                found.append(receiver.recv())
        except EOFError:
            found.append("died")
        child.kill()
        child.join()
        receiver.close()
    return found


def record(path: str, cases: list[Any]) -> Any:
    """Return the outcomes of all changes of the first case that works, and of one with more parameters."""
    names, parameters = described(path)
    chosen = []
    start: Work = [("nd", Change("base", "", ""))]
    for case in sorted(cases, key=lambda c: (bool(c.arguments), "float32" not in [s.dtype for s in c.inputs])):
        if len(chosen) == 2:
            break
        if chosen and len(case.parameters) <= len(chosen[0].parameters):
            continue
        if not outcomes(path, case, start, names, 0)[0].startswith(("!", "died")):
            chosen.append(case)
    found: dict[str, Any] = {}
    for case in chosen:
        work: Work = [(kind, change) for kind in OUTCOMES for change in changes(parameters, dict(case.parameters))]
        first, second = (outcomes(path, case, work, names, fill) for fill in (0xA5, 0x25))
        for (kind, change), one, other in zip(work, first, second):
            found.setdefault(case.identifier, {}).setdefault(kind, {})[change.key] = one if one == other else "unstable"
    return {"arrays": names, "parameters": parameters, "cases": found}


def main() -> None:
    """Record all operators, those that are named, or those that are missing (``--missing``)."""
    chosen = sys.argv[1:]
    found = load(CALLS) if chosen else {}
    for path, cases in sorted(bases().items()):
        if path in found if chosen == ["--missing"] else chosen and path not in chosen:
            continue
        found[path] = record(path, cases)
        calls = sum(len(t) for c in found[path]["cases"].values() for t in c.values())
        print(path, calls, "calls", flush=True)
        save(CALLS, found)


if __name__ == "__main__":
    main()
