"""Merged traces: one Chrome trace of all ranks, with their clocks aligned.

Takes a finished profile of each rank; rank 0 writes one file that https://ui.perfetto.dev opens, with a process for
each rank.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from ..core.base.files import write_atomically
from ..profiler.results import Results
from .world import world

__all__ = ["export_trace"]


def export_trace(results: Results, path: str | os.PathLike[str]) -> None:
    """Write one Chrome trace of the profiles of all ranks. All ranks must call it; rank 0 writes the file.

    Parameters
    ----------
    results
        The profile of this rank.
    path
        The file. Times are those of rank 0; clocks of other ranks are shifted by the measured differences.
    """
    group = world()
    offset = group.clock_offset_ns()
    with tempfile.TemporaryDirectory() as folder:
        own = os.path.join(folder, "trace.json")
        results.export_chrome_trace(own)
        with open(own, encoding="utf-8") as file:
            text = file.read()
    message = json.dumps({"origin_ns": results.events().origin_ns - offset, "trace": text})
    received = [json.loads(each) for each in group.gather_texts(message, "merging of traces")]
    if group.rank == 0:
        write_atomically(os.fspath(path), [json.dumps(_merge(received)).encode()])


def _merge(received: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the trace of all ranks."""
    merged: dict[str, Any] = {}
    events: list[dict[str, Any]] = []
    for rank, message in enumerate(received):
        trace = json.loads(message["trace"])
        shift = (message["origin_ns"] - received[0]["origin_ns"]) / 1000
        for event in trace.pop("traceEvents"):
            event["pid"] = rank
            if "ts" in event:
                event["ts"] += shift
            if "id" in event:
                # arrows connect events of one rank
                event["id"] = f"{rank}.{event['id']}"
            if event["name"] == "process_name":
                event["args"] = {"name": f"rank {rank}"}
            events.append(event)
        merged = merged or trace
    merged["distributedInfo"] = {"ranks": len(received)}
    merged["traceEvents"] = events
    return merged
