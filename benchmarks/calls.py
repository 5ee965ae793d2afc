"""Measure operator calls, as machine code and as Python functions: ``python -m benchmarks.calls``.

Each line is one kind of call in the second and later iterations of a loop, when everything is cached: nanoseconds per
call, the best of many rounds of processor time. Both columns come from fresh, alternating processes. The last lines
measure the other work of a training step for each parameter, the end of a trace with as many arrays, and predictions
of a small network: its block, an import of its export, and an executor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

CALLS = 40
ROUNDS = 400
PROCESSES = 3


def measure() -> dict[str, float]:
    """Return nanoseconds by kind of call, in this process."""
    from phonograd import autograd, nd

    x, w = nd.ones((10,)), nd.ones((10,))
    w.attach_grad()
    kinds: dict[str, Callable[[object], object]] = {
        "y * w": lambda y: y * w,
        "y * 2.0": lambda y: y * 2.0,
        "nd.tanh(y)": lambda y: nd.tanh(y),
        "nd.clip(y, a_min=-1, a_max=1)": lambda y: nd.clip(y, a_min=-1, a_max=1),
        "y.exp()": lambda y: y.exp(),
    }
    found = {
        f"{name}, {'recorded' if recorded else 'not recorded'}": _best(call, x, w, recorded, autograd)
        for name, call in kinds.items()
        for recorded in (True, False)
    }
    return found | _of_parameters(nd, autograd) | _of_networks()


def _best(call: Callable[[object], object], x: object, w: object, recorded: bool, autograd: object) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        with autograd.record() if recorded else autograd.pause():  # type: ignore[attr-defined]
            y = x * w  # type: ignore[operator]
            start = time.thread_time_ns()
            for _ in range(CALLS):
                y = call(y)
            best = min(best, (time.thread_time_ns() - start) / CALLS)
        y.wait_to_read()  # type: ignore[attr-defined]
    return best


def _of_parameters(nd: Any, autograd: Any) -> dict[str, float]:
    """Return nanoseconds for each of many parameters, by what is done with it."""
    x = nd.ones((10,))
    parameters = [nd.ones((10,)) for _ in range(CALLS)]
    for parameter in parameters:
        parameter.attach_grad()
    best = dict.fromkeys(("x * w, when w is new to the trace", "w.grad", "w -= 0.1 * w.grad", "values"), float("inf"))
    for _ in range(ROUNDS):
        clock = [time.thread_time_ns()]
        with autograd.record():
            results = [x * parameter for parameter in parameters]
        clock.append(time.thread_time_ns())
        for parameter in parameters:
            _ = parameter.grad
        clock.append(time.thread_time_ns())
        for parameter in parameters:
            parameter -= 0.1 * parameter.grad
        clock.append(time.thread_time_ns())
        del results
        parameters[0].wait_to_read()
        clock.append(time.thread_time_ns())
        for name, start, end in zip(list(best), clock, clock[1:], strict=False):
            best[name] = min(best[name], (end - start) / CALLS)
    return best


def _of_networks() -> dict[str, float]:
    """Return nanoseconds of predictions by a network of 16, 32 and 16 units, up to values in NumPy."""
    import phonograd as mx
    from phonograd.core.run import kernel_cache

    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu", in_units=16), nn.Dense(16, in_units=32))
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((1, 16))
    net(x).wait_to_read()
    with tempfile.TemporaryDirectory() as directory:
        prefix = f"{directory}/network"
        net.export(prefix)
        block = mx.gluon.SymbolBlock.imports(f"{prefix}-symbol.json", ["data"], f"{prefix}-0000.params")
        symbol, arguments, _ = mx.model.load_checkpoint(prefix, 0)
    executor = symbol.bind(mx.cpu(), {**arguments, "data": x}, grad_req="null")
    kinds = {
        "net(x).asnumpy(), 16-32-16 units": lambda: net(x).asnumpy(),
        "the same, imported": lambda: block(x).asnumpy(),
        "the same, executor.forward()": lambda: executor.forward()[0].asnumpy(),
    }
    best = dict.fromkeys(kinds, float("inf"))
    for _ in range(2):
        for predict in kinds.values():
            for _ in range(CALLS):
                predict()
        kernel_cache.wait_for_tier_up()
    for _ in range(ROUNDS):
        for name, predict in kinds.items():
            start = time.thread_time_ns()
            for _ in range(CALLS):
                predict()
            best[name] = min(best[name], (time.thread_time_ns() - start) / CALLS)
    return best


def main() -> None:
    """Print the table."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(PROCESSES):
        for way in ("1", "0"):
            environment = {**os.environ, "PHONOGRAD_NATIVE_CALLS": way, "PHONOGRAD_EXECUTOR": "native"}
            command = [sys.executable, "-m", "benchmarks.calls", "--here"]
            output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            for name, value in json.loads(output).items():
                entry = found.setdefault(name, {})
                entry[way] = min(value, entry.get(way, value))
    print(f"{'ns per call':48}{'machine code':>14}{'Python':>10}")
    for name, entry in found.items():
        print(f"{name:48}{entry['1']:14.0f}{entry['0']:10.0f}")


if __name__ == "__main__":
    if "--here" in sys.argv:
        print(json.dumps(measure()))
    else:
        main()
