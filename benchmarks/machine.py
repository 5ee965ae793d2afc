"""Describe the machine of a measurement, in words that belong beside every figure."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from pathlib import Path

#: a quiet moment: its seconds, the share of one core that others use in it at most, and how long to wait for one
MOMENT_SECONDS, MOST_USE, MOST_SECONDS = 0.25, 0.1, 30.0


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


#: features of processors that decide about kernels, and what they are called, the most important first
FEATURES = {"amx_tile": "AMX", "avx512f": "AVX-512", "avx2": "AVX2"}


def processor() -> str:
    """Return the name of the processor and its vectors: ``AMD EPYC (AVX-512)``."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    facts = {name.strip(): value.strip() for name, _, value in [line.partition(":") for line in lines]}
    name = facts.get("model name") or platform.processor()
    feature = next((word for flag, word in FEATURES.items() if flag in facts.get("flags", "").split()), None)
    return name if feature is None else f"{name} ({feature})"


def version(distribution: str) -> str | None:
    """Return the version of an installed distribution."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def load() -> list[float]:
    """Return the load averages over 1, 5 and 15 minutes, if the system reports them."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else []


def settle() -> None:
    """Wait until the cores are idle: a process that has ended may leave one behind that still plans or compiles."""
    end = time.monotonic() + MOST_SECONDS
    while Path("/proc/stat").exists() and time.monotonic() < end:
        before = _idle_seconds()
        time.sleep(MOMENT_SECONDS)
        if _idle_seconds() - before >= (cores() - MOST_USE) * MOMENT_SECONDS:
            break


def _idle_seconds() -> float:
    """Return the time that all cores together have been idle since the system was started."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0].split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def description() -> dict[str, object]:
    """Return a description of the machine and of the Python that runs phonograd."""
    return {
        "processor": processor(),
        "cores": cores(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "llvmlite": version("llvmlite"),
    }
