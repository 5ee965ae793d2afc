"""Measure scopes and profiles beside PyTorch's: ``TORCH_PYTHON=/path/to/python python -m benchmarks.profiler``.

Each library runs in its own process; rounds alternate between them and the best of all rounds counts. The cost of a
scope is shown beside that of an empty ``with`` block in the same process, which reveals a busy machine. Batches are
short, so that some of them are not interrupted. Figures with a limit show it; the exit status tells whether all limits
are kept. The last figures are the seconds and the peak memory that a large profile takes, by the kind of its file.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 5
EVENTS = 1_000
BATCH = 500
REPEATS = 30
#: events of the profile whose files are measured
MANY = 500_000

#: the largest allowed figure, and the smallest allowed ratio to PyTorch's
LIMITS = {
    "scope, off [us]": 0.4,
    "scope, on [us]": 1.5,
    "operator, on, more [us]": 2.0,
    "recorded operator, on, more [us]": 2.0,
    "empty profile [us]": 50.0,
    "events and averages, per event [us]": 3.0,
    "export, per event [us]": 2.0,
    "trace, per event [bytes]": 120.0,
    "compressed trace, per event [bytes]": 12.0,
    "operator, off, after a profile [ratio]": 1.1,
    "events of a large profile, more memory [MB]": 200.0,
    "large trace.json, more memory [MB]": 16.0,
    "large trace.json.gz, more memory [MB]": 16.0,
    "large trace.pftrace, more memory [MB]": 16.0,
    "large speedscope.json, more memory [MB]": 16.0,
}
RATIOS = {"scope, off [us]": 15.0}


class Null:
    """Do nothing, as a context manager."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...


def best(statement: str, names: dict[str, Any], surrounding: Callable[[], Any] = Null) -> float:
    """Return the shortest time of a statement in microseconds."""
    timer = timeit.Timer(statement, globals=names)
    times = []
    for _ in range(REPEATS):
        with surrounding():
            times.append(timer.timeit(BATCH) / BATCH * 1e6)
    return min(times)


def measure(library: str) -> dict[str, float]:
    """Return the figures of one library."""
    if library == "torch":
        import torch

        profile: Any = lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])  # noqa: E731
        record_function: Any = torch.profiler.record_function
    else:
        from phonograd.profiler import profile, record_function

    def nothing() -> None: ...

    names = {
        "record_function": record_function,
        "null": Null(),
        "scope": record_function("x"),
        "decorated": record_function("x")(nothing),
        "nothing": nothing,
    }
    statements = {
        "empty with block": "with null: pass",
        "scope": "with record_function('x'): pass",
        "scope, reused": "with scope: pass",
        "decorator": "decorated()",
        "undecorated call": "nothing()",
    }
    figures = {f"{label}, off [us]": best(statement, names) for label, statement in statements.items()}
    operators(library)  # calls become machine code once a plan is reused
    before = operators(library)
    for label in ("scope", "scope, reused", "decorator"):
        figures[f"{label}, on [us]"] = best(statements[label], names, profile)
    figures |= before
    again, observed = operators(library), operators(library, profile)
    for label in before:
        figures[label] = min(before[label], again[label])
    figures["operator, off, before a profile [us]"] = before["operator, off [us]"]
    figures["operator, off, after a profile [us]"] = again["operator, off [us]"]
    figures["operator, on, more [us]"] = observed["operator, off [us]"] - figures["operator, off [us]"]
    more = observed["recorded operator, off [us]"] - figures["recorded operator, off [us]"]
    figures["recorded operator, on, more [us]"] = more
    for _ in range(5):
        for label, value in after(profile, record_function).items():
            figures[label] = min(value, figures.get(label, value))
    return figures


def operators(library: str, surrounding: Callable[[], Any] = Null) -> dict[str, float]:
    """Return the time of operator calls on small arrays."""
    if library == "torch":
        import torch

        x, y, w = torch.ones(4), torch.ones(4), torch.ones(4, requires_grad=True)
        record: Callable[[], Any] = Null
    else:
        import phonograd as mx

        x, y, w = mx.nd.ones((4,)), mx.nd.ones((4,)), mx.nd.ones((4,))
        w.attach_grad()
        mx.nd.waitall()
        record = mx.autograd.record

    @contextlib.contextmanager
    def recording() -> Any:
        with record(), surrounding():
            yield

    names = {"x": x, "y": y, "w": w}
    return {
        "operator, off [us]": best("x + y", names, surrounding),
        "recorded operator, off [us]": best("w * y", names, recording),
    }


def after(profile: Any, record_function: Any) -> dict[str, float]:
    """Return the cost per event after a profile has ended."""
    empty = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        with profile():
            pass
        empty = min(empty, time.perf_counter() - start)
    with profile() as prof:
        for _ in range(EVENTS // 20):
            with record_function("step"):
                for _ in range(19):
                    with record_function("layer1.forward"):
                        pass
    start = time.perf_counter()
    events = prof.events()
    built = time.perf_counter()
    averages = prof.key_averages()
    averaged = time.perf_counter()
    averages.table()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        begun = time.perf_counter()
        prof.export_chrome_trace(str(path))
        exported = time.perf_counter()
        size = path.stat().st_size
        packed = len(gzip.compress(path.read_bytes(), 6))
    assert len(events) >= EVENTS
    return {
        "empty profile [us]": empty * 1e6,
        "events, per event [us]": (built - start) / EVENTS * 1e6,
        "averages, per event [us]": (averaged - built) / EVENTS * 1e6,
        "events and averages, per event [us]": (averaged - start) / EVENTS * 1e6,
        "export, per event [us]": (exported - begun) / EVENTS * 1e6,
        "trace, per event [bytes]": size / EVENTS,
        "compressed trace, per event [bytes]": packed / EVENTS,
    }


def peak_memory() -> float:
    """Return the largest resident size of this process since the last call, in MB."""
    text = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def large(kind: str) -> dict[str, float]:
    """Return the time and memory of the events of a large profile, and of one kind of its files."""
    from phonograd.profiler import profile, record_function

    with profile() as prof:
        scope = record_function("layer1.forward")
        for _ in range(MANY // 20):
            with record_function("step"):
                for _ in range(19):
                    with scope:
                        pass
    exports = {"trace.json": prof.export_chrome_trace, "trace.json.gz": prof.export_chrome_trace}
    exports |= {"trace.pftrace": prof.export_perfetto_trace, "speedscope.json": prof.export_speedscope}
    exports |= {"saved.json": prof.save, "report.html": prof.export_html}
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for label, act in (
            ("events of a large profile", lambda: prof.events()),
            (f"large {kind}", lambda: exports[kind](Path(folder) / kind)),
        ):
            peak_memory()
            before, start = peak_memory(), time.perf_counter()
            act()
            figures[f"{label} [s]"] = time.perf_counter() - start
            figures[f"{label}, more memory [MB]"] = max(peak_memory() - before, 0)
    return figures


LARGE = ("trace.json", "trace.json.gz", "trace.pftrace", "speedscope.json", "saved.json", "report.html")


def run(python: str, *arguments: str) -> dict[str, float]:
    """Return the figures that a new process prints."""
    command = [python, "-W", "ignore", str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure both libraries, print the figures side by side, and return the number of violated limits."""
    pythons = {"phonograd": sys.executable}
    if os.environ.get("TORCH_PYTHON"):
        pythons["torch"] = os.environ["TORCH_PYTHON"]
    figures: dict[str, dict[str, float]] = {library: {} for library in pythons}
    for _ in range(ROUNDS):
        for library, python in pythons.items():
            for name, value in run(python, library).items():
                figures[library][name] = min(value, figures[library].get(name, value))
    print(f"{'':40}" + "".join([f"{library:>12}" for library in pythons]) + "       ratio       limit")
    for found in figures.values():
        first, second = [found[f"operator, off, {when} a profile [us]"] for when in ("before", "after")]
        found["operator, off, after a profile [ratio]"] = second / first
    if Path("/proc/self/clear_refs").exists():
        for kind in LARGE:
            figures["phonograd"] |= run(sys.executable, "large", kind)
    missed = 0
    for name, value in figures["phonograd"].items():
        cells = [figures[library][name] for library in pythons if name in figures[library]]
        ratio = f"{cells[1] / value:11.1f}x" if len(cells) > 1 else " " * 12
        kept = value <= LIMITS.get(name, value) and (len(cells) < 2 or cells[1] / value >= RATIOS.get(name, 0))
        missed += not kept
        limit = f"{LIMITS[name]:12g}" if name in LIMITS else ""
        limit += f", {RATIOS[name]:g}x" if name in RATIOS else ""
        print(
            f"{name:40}" + "".join([f"{cell:12.3f}" for cell in cells]) + ratio + limit + ("" if kept else "  MISSED")
        )
    return missed


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(large(sys.argv[2]) if sys.argv[1] == "large" else measure(sys.argv[1])))
    else:
        sys.exit(main())
