"""Records the symbols of all calls and networks on Apache MXNet 1.9.1.

Run it with a Python that has mxnet 1.9.1 (Python 3.11, NumPy 1.23.5)::

    python tests/symbol/record.py

It also computes the files in ``recorded/ours``, which this library has written (``python tests/symbol/write.py``).
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import sys
import warnings
from pathlib import Path
from typing import Any

import mxnet
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.symbol import calls, networks, older, programs


def outcomes(call: calls.Call) -> list[Any]:
    """Return the outcomes with all inputs, and with the first one only."""
    found = [calls.outcome(call, mxnet, len(call.inputs))]
    if len(call.inputs) > 1 and not call.arguments:
        found.append(calls.outcome(call, mxnet, 1))
    return found


def record_calls() -> None:
    """Write what MXNet says of every call."""
    recorded: dict[str, Any] = {}
    # a call that kills MXNet kills a worker, and is left out
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=200) as pool:
        for call in calls.calls():
            try:
                recorded[call.key] = pool.apply_async(outcomes, (call,)).get(timeout=20)
            except multiprocessing.TimeoutError:
                print("lost:", call.key)
    text = json.dumps(recorded, separators=(",", ":"), sort_keys=True)
    path = calls.RECORDED / "calls.json.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(recorded), "calls,", path.stat().st_size, "bytes")


def computed(name: str) -> dict[str, Any]:
    """Return what a network computes."""
    symbol = mxnet.sym.load(str(calls.RECORDED / "theirs" / f"{name}-symbol.json"))
    return networks.computed(mxnet, name, symbol)


def record_networks() -> None:
    """Write what MXNet says of every network, its file, and what it computes."""
    facts, values = {}, {}
    for name in networks.NETWORKS:
        facts[name] = networks.facts(mxnet, name)
        (calls.RECORDED / "theirs" / f"{name}-symbol.json").write_text(facts[name].pop("json"), encoding="utf-8")
        values.update({f"{name}/{key}": value for key, value in computed(name).items()})
    (calls.RECORDED / "networks.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    np.savez_compressed(calls.RECORDED / "networks.npz", **values)
    print(len(facts), "networks")


def record_programs() -> None:
    """Write MXNet's records of all programs."""
    found = {program: programs.record_of(mxnet, program) for program in programs.PROGRAMS}
    (calls.RECORDED / "programs.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(len(found), "programs")


def record_older() -> None:
    """Write what MXNet makes of files of its older versions."""
    found = {name: older.facts(mxnet, name) for name in older.OLDER}
    (calls.RECORDED / "older.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(len(found), "older files")


def record_ours() -> None:
    """Write what MXNet makes of files that this library has written."""
    values = {}
    for path in sorted((calls.RECORDED / "ours").glob("*.json")):
        symbol = mxnet.sym.load(str(path))
        feed = programs.feed(mxnet, symbol.list_arguments(), path.stem)
        for index, output in enumerate(symbol.eval(ctx=mxnet.cpu(), **feed)):
            values[f"{path.stem}/{index}"] = output.asnumpy()
    np.savez_compressed(calls.RECORDED / "ours.npz", **values)
    print(len(values), "outputs of files written here")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    (calls.RECORDED / "theirs").mkdir(parents=True, exist_ok=True)
    record_calls()
    record_ours()
    record_programs()
    record_older()
    record_networks()
