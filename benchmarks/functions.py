"""Measure transcendental functions beside JAX: ``python -m benchmarks.functions [function ...] [--threads 2]``.

The functions of :mod:`benchmarks.workloads_functions_nd` run on arrays in a cache and on 4 million numbers, in
phonograd and in JAX (compiled by ``jax.jit``), see :mod:`.side_by_side`. The table shows JAX / phonograd, so above 1
phonograd is faster. ``--write`` keeps the results and writes the table of docs/performance.md.
"""

from __future__ import annotations

import sys

from benchmarks.side_by_side import run
from benchmarks.workloads_functions_nd import WORKLOADS

if __name__ == "__main__":
    sys.exit(run("functions", list(WORKLOADS), ("jax",), (__doc__ or "").partition("\n")[0]))
