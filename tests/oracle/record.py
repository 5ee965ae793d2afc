"""Records the outcomes of all cases on Apache MXNet 1.9.1.

Run it with a Python that has mxnet 1.9.1 (Python 3.11, NumPy 1.23.5)::

    python tests/oracle/record.py                  # record every family
    python tests/oracle/record.py softmax loss     # only these
    python tests/oracle/record.py --check          # record nothing, report what is not repeated bit for bit

Every case runs in a process of its own: a crash of MXNet is an outcome like any other.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import mxnet
import numpy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from oracle import store
from oracle.case import Array, Case, Family
from oracle.cases import families
from oracle.outcome import Outcome, run

SECONDS_PER_CASE = 60
M_PERTURB = -6  # the option of mallopt in glibc that fills what malloc returns


def answer(case: Case, results: Connection, fill: int, settings: dict[str, str]) -> None:
    """Run one case on fresh memory filled with a given byte and send its outcome."""
    os.environ.update(settings)
    ctypes.CDLL(None).mallopt(M_PERTURB, fill)
    results.send(run(case, mxnet))


def isolated(case: Case, fill: int, **settings: str) -> Outcome:
    """Return the outcome of a case, run in a process of its own.

    MXNet may crash, hang, or report a failure of its engine in whatever is computed next.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=answer, args=(case, sender, fill, settings))
    child.start()
    sender.close()
    try:
        if not receiver.poll(SECONDS_PER_CASE):
            raise EOFError
        return cast(Outcome, receiver.recv())
    except EOFError:
        return Outcome("undefined", value="MXNet dies")
    finally:
        child.join(timeout=1)
        child.kill()
        child.join()


def dependable(case: Case, **settings: str) -> Outcome:
    """Return the outcome of a case, undefined if it depends on what is left in memory."""
    first, second = (isolated(case, fill, **settings) for fill in (0xA5, 0x25))
    if identical(first, second):
        return first
    return Outcome("undefined", value="MXNet reads memory that it never wrote")


def broken_by_onednn(outcome: Outcome) -> bool:
    """Return whether MXNet died, or refused what it does without oneDNN."""
    failures = [f for f in (outcome.failure, outcome.gradient_failure) if f is not None]
    signs = ("MKLDNN", "could not create a")
    refused = any(sign in f.message for f in failures for sign in signs)
    return refused or outcome.structure == "undefined"


def record(family: Family) -> tuple[dict[str, Outcome], dict[str, Any]]:
    """Return the outcomes of a family and where they come from.

    MXNet's default build sends float32 work to oneDNN, which cannot do some of it. Those cases are
    run again without oneDNN.
    """
    found = {case.name: dependable(case) for case in family}
    broken = [case for case in family if broken_by_onednn(found[case.name])]
    for case in broken:
        found[case.name] = dependable(case, MXNET_MKLDNN_ENABLED="0")
    origin = {
        "mxnet": mxnet.__version__,
        "numpy": numpy.__version__,
        "without oneDNN": [case.name for case in broken],
    }
    lost = {n: o.value for n, o in found.items() if o.structure == "undefined"}
    print(f"{family.name}: {len(found)} cases", *(f"{v}: {n}" for n, v in lost.items()), sep="\n  ")
    return found, origin


def identical(first: Outcome, second: Outcome) -> bool:
    """Return whether two outcomes agree bit for bit."""

    def parts(outcome: Outcome) -> Any:
        groups: list[list[Array]] = [outcome.outputs]
        groups += [list(outcome.gradients.values()), list(outcome.changed.values())]
        bits = [[(a.dtype.name, a.shape, a.tobytes()) for a in group] for group in groups]
        failures = (outcome.failure, outcome.gradient_failure)
        return outcome.structure, outcome.value, bits, [f and f.types for f in failures]

    return bool(parts(first) == parts(second))


def main() -> int:
    """Return the exit status: 1 if ``--check`` found a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", help="names of case modules; all by default")
    parser.add_argument("--check", action="store_true", help="compare with what is stored")
    options = parser.parse_args()
    # One thread makes the order of MXNet's summations, and so the bits, repeatable.
    os.environ["OMP_NUM_THREADS"] = "1"
    every = families()
    differing = 0
    for family in options.families or every:
        found, origin = record(every[family])
        if options.check:
            stored = store.Recording(family)
            changed = [n for n in found if not identical(found[n], stored.outcome(n))]
            differing += len(changed)
            print(f"  {len(changed)} differ from what is stored", *changed, sep="\n    ")
        else:
            path = store.save(family, found, {case.name: case.digest for case in every[family]}, origin)
            print(f"  {path.stat().st_size} bytes")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
