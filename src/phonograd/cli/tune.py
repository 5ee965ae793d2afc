"""``phonograd tune``: measure the speed of this processor and store it for later processes.

::

    phonograd tune          measure, and write the tuning file of this processor
    phonograd tune --show   print the values in force and where they come from
    phonograd tune --forget remove the tuning file

Takes the model of :mod:`phonograd.core.base.processor`, which turns these rates into sizes. Results have the same bits
with all rates (decision 0038).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import phonograd as mx

from ..core.base import processor, settings
from ..core.base.processor import Choices, Rates
from ..core.run import kernel_cache

__all__ = ["main", "measure"]

#: rounds of each measurement; the best counts
_ROUNDS = 7


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="phonograd tune", description=(__doc__ or "").partition("\n")[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--show", action="store_true", help="print the values in force and where they come from")
    choice.add_argument("--forget", action="store_true", help="remove the tuning file of this processor")
    options = parser.parse_args(arguments)
    try:
        if options.show:
            print(describe())
            return 0
        if options.forget:
            return _forget()
        if not processor.path():
            raise ValueError("there is no place for a tuning file: set PHONOGRAD_CACHE_DIRECTORY or PHONOGRAD_TUNING")
        if not kernel_cache.available():
            raise ValueError("there is no compiler (llvmlite), so there are no kernels to tune")
        before = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        measured = measure()
        name = processor.store(measured)
    except (OSError, ValueError) as error:
        parser.exit(2, f"phonograd: {error}\n")
    print(_table(measured, processor.choose(processor.facts(), measured)))
    print(f"stored in {name}; processes that start from now on use it")
    if before > 0.5 * processor.facts().cores:
        print(f"other programs were running (a load of {before:.1f}): measure again when the machine is idle")
    return 0


def _forget() -> int:
    name = processor.path()
    with contextlib.suppress(FileNotFoundError):
        if name:
            os.remove(name)
    print(f"{name or 'no tuning file'}: defaults hold from now on")
    return 0


def describe() -> str:
    """Return a table of the values in force and where they come from."""
    known, source = processor.facts(), processor.source()
    is_off = settings.current().tuning == "off"
    default = "defaults (PHONOGRAD_TUNING=off)" if is_off else "defaults: `phonograd tune` measures them"
    lines = [
        f"processor: {known.model}, {known.cores} cores",
        f"caches: {known.level1_bytes >> 10} KiB, {known.level2_bytes >> 10} KiB, {known.level3_bytes >> 10} KiB",
        f"rates: {source or default}",
        _table(processor.rates(), processor.choices()),
    ]
    return "\n".join(lines)


def _table(rates: Rates, choices: Choices) -> str:
    named = [*rates._asdict().items(), *choices._asdict().items()]
    width = max([len(name) for name, _ in named])
    return "\n".join([f"  {name:<{width}}  {value:,.6g}" for name, value in named])


def measure() -> Rates:
    """Return the rates of this processor; it takes some seconds, with a progress bar."""
    steps: dict[str, Callable[[], float]] = {
        "multiplications_per_second": _multiplications,
        "bytes_per_second": _bytes,
        "wake_seconds": _wake,
        "node_seconds": _node,
        "kernel_seconds": _kernel,
    }
    found: dict[str, float] = {}
    with settings.override(executor="native", tiers="plan", num_threads=1, matrix_unit=False, quick_kernels=True):
        for name in mx.progress(list(steps), "measuring", unit="rate"):
            least, most = processor.RANGES[name]
            found[name] = float(f"{min(max(steps[name](), least), most):.4g}")
    return Rates(**found)


def _best(run: Callable[[], object]) -> float:
    """Return the shortest processor time of a function after a first call: other programs do not count."""
    run()
    kernel_cache.wait_for_tier_up()
    times = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def _multiplications() -> float:
    size = 768
    x = mx.nd.array(np.random.default_rng(0).random((size, size), np.float32))
    return size**3 / _best(lambda: mx.nd.dot(x, x).wait_to_read())


def _bytes() -> float:
    size = 1 << 24
    x, y = mx.nd.ones((size,)), mx.nd.ones((size,))
    out = mx.nd.zeros((size,))

    def run() -> None:
        out[:] = x + 3 * y
        out.wait_to_read()

    return 3 * 4 * size / _best(run)


def _wake() -> float:
    """Return the median time in which a sleeping thread wakes up."""
    bell, answer = threading.Lock(), threading.Semaphore(0)
    bell.acquire()
    woken: list[float] = []
    rounds = 60

    def sleep() -> None:
        for _ in range(rounds):
            bell.acquire()
            woken.append(time.perf_counter())
            answer.release()

    thread = threading.Thread(target=sleep)
    thread.start()
    rung = []
    for _ in range(rounds):
        time.sleep(0.002)
        rung.append(time.perf_counter())
        bell.release()
        answer.acquire()
    thread.join()
    return statistics.median([after - before for before, after in zip(rung, woken, strict=True)])


def _new_graphs(nodes: int) -> Iterator[Callable[[], object]]:
    """Yield functions that plan graphs of some nodes which were never seen before."""
    # cheap ones: long functions take longer to compile, and most operators of a program are cheap
    functions = [mx.nd.relu, mx.nd.square, mx.nd.abs, mx.nd.negative, mx.nd.floor, mx.nd.sqrt, mx.nd.sign, mx.nd.ceil]
    order = random.Random(time.time_ns())
    for length in itertools.count(97):
        x = mx.nd.ones((length,))
        chosen = order.choices(functions, k=nodes)

        def run(x: mx.nd.NDArray = x, chosen: Sequence[Callable[..., mx.nd.NDArray]] = chosen) -> None:
            for function in chosen:
                x = function(x)
            x.wait_to_read()

        yield run


def _first_time(nodes: int) -> float:
    """Return the shortest processor time of the first evaluation of a graph."""
    times = []
    with settings.override(cache_directory=""):
        for run in itertools.islice(_new_graphs(nodes), 1 + _ROUNDS):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
    # the first one loads the planner and the compiler
    return min(times[1:])


def _node() -> float:
    few, many = 8, 72
    return (_first_time(many) - _first_time(few)) / (many - few)


def _kernel() -> float:
    return _first_time(1)
