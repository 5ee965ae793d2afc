"""Measure lookups and scatters beside other libraries: ``python -m benchmarks.lookups [workload ...]``.

The workloads of :mod:`benchmarks.workloads_lookups_nd` run in MXNet, PyTorch and JAX (compiled by ``jax.jit``), see
:mod:`.side_by_side`. The table shows peer / phonograd, so above 1 phonograd is faster. ``--write`` keeps the results
and writes the table of docs/performance.md.
"""

from __future__ import annotations

import sys

from benchmarks.side_by_side import run
from benchmarks.workloads_lookups_nd import WORKLOADS

if __name__ == "__main__":
    sys.exit(run("lookups", list(WORKLOADS), ("mxnet", "torch", "jax"), (__doc__ or "").partition("\n")[0]))
