"""Other processors: how this one runs the tests as if it were an older or smaller one.

What is computed depends on the processor in three places, and each can be told to leave features out: the kernels of
this library (``PHONOGRAD_CPU_LEVEL``), NumPy's own loops (``NPY_DISABLE_CPU_FEATURES``), and OpenBLAS, which NumPy
multiplies and factorizes with (``OPENBLAS_CORETYPE``). A :class:`Processor` sets all three alike.

``python -m tests.project.processors`` runs the numeric tests on each processor that this one can imitate, or the tests that are
named; ``make test-processors`` does so. ``test_processors.py`` runs a few of them with every ``make test``.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]

#: the tests whose results come from kernels, NumPy or OpenBLAS
NUMERIC = (
    *("tests/autograd", "tests/book", "tests/contrib", "tests/gluon", "tests/module", "tests/ndarray"),
    *(
        "tests/numpy",
        "tests/numpy_extension",
        "tests/core/kernels",
        "tests/core/ops",
        "tests/core/plan",
        "tests/core/run",
        "tests/rnn",
        "tests/symbol",
        "tests/oracle/test_oracle.py",
    ),
    *(
        "tests/core/capture/test_compilation.py",
        "tests/core/capture/test_compiled_programs.py",
        "tests/core/lower/test_philox.py",
        "tests/core/lower/test_variates.py",
    ),
)

#: arguments for a few of them, which take some seconds: factors that LAPACK is free to choose, products, sums
FEW = (
    *("tests/numpy_extension/test_recorded.py", "tests/core/ops/test_linalg.py", "tests/core/kernels/test_gemm.py"),
    *("tests/core/kernels/test_reduction_order.py", "-k", "not test_line or linalg"),
)

#: by level the loops of NumPy that processors of that level run: names of NumPy 2.4 first, then those of older versions
_SECOND = {"X86_V2", "SSE", "SSE2", "SSE3", "SSSE3", "SSE41", "POPCNT", "SSE42"}
_THIRD = _SECOND | {"X86_V3", "AVX", "F16C", "FMA3", "AVX2"}
_FOURTH = _THIRD | {"X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX"}
_LOOPS = {"x86-64": _SECOND, "x86-64-v2": _SECOND, "x86-64-v3": _THIRD, "x86-64-v4": _FOURTH}


class Processor(NamedTuple):
    """A processor to run tests on."""

    core: str
    """OpenBLAS's name of it."""
    level: str
    """The level of x86-64 that kernels are compiled for."""
    needs: str
    """The features, by Linux's names, without which OpenBLAS's code for it dies."""


#: the newest first; Sandybridge has AVX but no fused multiply-add, so kernels see the level below it
PROCESSORS = (
    Processor("SkylakeX", "x86-64-v4", "avx512f avx512bw avx512dq avx512vl"),
    Processor("Zen", "x86-64-v3", "avx2 fma"),
    Processor("Haswell", "x86-64-v3", "avx2 fma"),
    Processor("Sandybridge", "x86-64-v2", "avx"),
    Processor("Prescott", "x86-64", "pni"),
)


def environment(processor: Processor) -> dict[str, str]:
    """Return the variables under which a process computes as on a processor."""
    disabled = [name for name in _numpy_loops() if name not in _LOOPS[processor.level]]
    return {
        "OPENBLAS_CORETYPE": processor.core,
        "PHONOGRAD_CPU_LEVEL": processor.level,
        "NPY_DISABLE_CPU_FEATURES": " ".join(disabled),
    }


def _numpy_loops() -> list[str]:
    """Return the features of this processor for which NumPy has loops of their own."""
    try:
        configuration = np.show_config(mode="dicts")
    except TypeError:  # before NumPy 1.26 the configuration could only be printed
        return []
    assert isinstance(configuration, dict)
    return list(configuration["SIMD Extensions"].get("found", []))


@functools.cache
def reason_to_skip(processor: Processor) -> str | None:
    """Return why tests cannot run on a processor here, or need not; None if they can."""
    if platform.machine().lower() not in ("x86_64", "amd64") or not sys.platform.startswith("linux"):
        return "processors are imitated on Linux and x86-64 only"
    missing = [name for name in processor.needs.split() if name not in _flags()]
    if missing:
        return f"this processor has no {missing[0]}"
    used = _used_core(processor)
    for other in PROCESSORS[PROCESSORS.index(processor) + 1 :]:
        if used is not None and other.level == processor.level and _used_core(other) == used:
            return f"this OpenBLAS computes as on {other.core}"
    return None


@functools.cache
def _flags() -> set[str]:
    """Return the features of this processor by Linux's names."""
    found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return set() if found is None else set(found[1].split())


@functools.cache
def _used_core(processor: Processor) -> str | None:
    """Return the name of the code that OpenBLAS uses for a processor; None where NumPy has no OpenBLAS."""
    variables = os.environ | {"OPENBLAS_CORETYPE": processor.core, "OPENBLAS_VERBOSE": "2"}
    command = [sys.executable, "-c", "import numpy"]
    finished = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    found = re.search(r"^Core: (\S+)", finished.stdout + finished.stderr, re.MULTILINE)
    return None if found is None else found[1]


def run(processor: Processor, arguments: list[str], capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Return how pytest ended on a processor."""
    command = [sys.executable, "-m", "pytest", *arguments]
    # a run inside of a worker is no worker itself
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    variables = outside | environment(processor)
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=capture, text=True, check=False)


def main(arguments: list[str]) -> int:
    """Run the numeric tests on every processor; return how many of these runs failed.

    Arguments are those of pytest.
    """
    tests = [] if any([argument.startswith("tests/") for argument in arguments]) else NUMERIC
    failed = 0
    for processor in PROCESSORS:
        reason = reason_to_skip(processor)
        if reason is not None:
            print(f"== {processor.core}: skipped, {reason}", flush=True)
            continue
        print(f"== {processor.core} ({environment(processor)})", flush=True)
        start = time.monotonic()
        code = run(processor, ["-q", "-m", "not slow", *arguments, *tests]).returncode
        print(f"== {processor.core}: {'failed' if code else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
        failed += bool(code)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
