"""Define the models of :mod:`benchmarks.workloads_models_torch` with networks compiled by ``torch.compile``.

Compiling needs a C++ compiler. A model that cannot be compiled, or not within :data:`LIMIT_SECONDS`, has no step.
"""

import functools
import os
import signal
import sys

import torch

import workloads_models_torch as eager

#: time for compiling a model, forward and backward
LIMIT_SECONDS = 120

eager.prepare = torch.compile
# read when the first network is compiled: processes of its own would take seconds to start, and outlive a limit
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def _give_up(number, frame):
    raise TimeoutError(f"not compiled within {LIMIT_SECONDS} s")


def _compiled(name, module):
    """Return the step of a model after its first run, which compiles it, or None."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(LIMIT_SECONDS)
    try:
        step = eager.WORKLOADS[name](module)
        step()
    except Exception as error:  # noqa: BLE001 - whatever the compiler raises is the result
        print(f"torch.compile fails for {name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        return None
    finally:
        signal.alarm(0)
    return step


WORKLOADS = {name: functools.partial(_compiled, name) for name in eager.WORKLOADS}
