"""Measure whole steps inside ``mx.compile`` beside ``jax.jit``: ``python -m benchmarks.compiled [workload ...]``.

The steps of :mod:`benchmarks.workloads_compiled_nd` are compiled as a whole by both libraries, see
:mod:`.side_by_side`. The table shows JAX / phonograd, so above 1 phonograd is faster. ``--write`` keeps the results and
writes the table of README.md.
"""

from __future__ import annotations

import sys

from benchmarks.side_by_side import run
from benchmarks.workloads_compiled_nd import WORKLOADS

if __name__ == "__main__":
    sys.exit(run("compiled", list(WORKLOADS), ("jax",), (__doc__ or "").partition("\n")[0]))
