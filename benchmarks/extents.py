"""Measure training steps with batches that always have another size: ``python -m benchmarks.extents [--records]``.

Every graph is planned (``tiers="plan"``). Steps alternate: one may use plans for any extents, which were learned from
the first steps, and the next one may not. The figures are milliseconds of processor time: the best time of planning in
a step (to the program, ready to run), and of a whole step.

With ``--records``, the settings are the default ones, and steps alternate between plans for all records of a structure,
which the planner process has made meanwhile, and tier 0. The figures are medians by the clock on the wall.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from typing import Any
from unittest import mock

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.plan import disk, promotion
from phonograd.core.plan.any_extents import STRUCTURES
from phonograd.core.plan.sized_records import RECORDS
from phonograd.core.run import kernel_cache

#: sizes of batches from which plans are learned, and others
FIRST, OTHERS = (33, 35, 37, 39), range(41, 61)


class _Tagger(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = gluon.rnn.LSTM(32, layout="NTC")
        self.dense = gluon.nn.Dense(10)

    def hybrid_forward(self, F: Any, data: Any) -> Any:
        return self.dense(self.lstm(data))


def _network(name: str) -> tuple[gluon.HybridBlock, tuple[int, ...]]:
    """Return a network and the shape of an example."""
    if name == "lstm":
        return _Tagger(), (12, 20)
    net = gluon.nn.HybridSequential()
    if name == "mlp":
        net.add(gluon.nn.Dense(64, activation="relu"), gluon.nn.Dense(64, activation="relu"), gluon.nn.Dense(10))
        return net, (50,)
    for channels in (8, 16):
        net.add(gluon.nn.Conv2D(channels, 3, activation="relu"), gluon.nn.MaxPool2D())
    net.add(gluon.nn.BatchNorm(), gluon.nn.Dense(10))
    return net, (1, 28, 28)


def _measure(name: str) -> dict[bool, tuple[float, float]]:
    """Return the times of planning and of steps, with plans for any extents and without."""
    net, shape = _network(name)
    net.initialize()
    net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    planning = 0.0
    plan = disk.program_for

    def timed(*arguments: Any) -> Any:
        nonlocal planning
        begin = time.thread_time()
        program = plan(*arguments)
        planning += time.thread_time() - begin
        return program

    def step(batch: int) -> tuple[float, float]:
        nonlocal planning
        data, label = nd.random.uniform(shape=(batch, *shape)), nd.array(np.arange(batch) % 10)
        nd.waitall()
        planning, begin = 0.0, time.process_time()
        with autograd.record():
            value = loss(net(data), label)
        value.backward()
        trainer.step(batch)
        nd.waitall()
        return planning, time.process_time() - begin

    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    with mock.patch.object(disk, "program_for", timed):
        for batch in FIRST:
            step(batch)
        for batch in OTHERS:
            if batch % 2:
                found[True].append(step(batch))
            else:
                with mock.patch.object(STRUCTURES, "find", return_value=None):
                    found[False].append(step(batch))
    return {key: (min([p for p, _ in times]), min([s for _, s in times])) for key, times in found.items()}


def _measure_records(name: str, hybridizes: bool) -> dict[bool, float]:
    """Return the median seconds of a step, with plans for records of any extents and without."""
    net, shape = _network(name)
    net.initialize()
    if hybridizes:
        net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})

    def step(batch: int) -> float:
        data, label = nd.random.uniform(shape=(batch, *shape)), nd.array(np.arange(batch) % 10)
        nd.waitall()
        begin = time.perf_counter()
        with autograd.record():
            value = loss(net(data), label)
        value.backward()
        trainer.step(batch)
        nd.waitall()
        return time.perf_counter() - begin

    batches = list(range(20, 260))
    random.Random(1).shuffle(batches)
    for number, batch in enumerate(batches[:80]):
        step(batch)
        if number % 20 == 19:
            promotion.finish()
            kernel_cache.wait_for_tier_up()
    found: dict[bool, list[float]] = {True: [], False: []}
    for one, two in zip(batches[80:200:2], batches[81:200:2], strict=True):
        found[True].append(step(one))
        with mock.patch.object(RECORDS, "find", return_value=None), mock.patch.object(RECORDS, "note"):
            found[False].append(step(two))
    return {key: statistics.median(times) for key, times in found.items()}


def _print_records(names: list[str]) -> None:
    print(f"{'milliseconds':22}{'tier 0':>10}{'any extents':>14}")
    for name in names:
        for hybridizes in (False, True):
            found = _measure_records(name, hybridizes)
            label = f"{name}, hybridized" if hybridizes else name
            print(f"{label:22}{1e3 * found[False]:10.2f}{1e3 * found[True]:14.2f}")


def main() -> int:
    """Measure all networks and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extents", description=__doc__.partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=["mlp", "lstm", "convnet"])
    parser.add_argument("--records", action="store_true", help="measure records with the default settings")
    options = parser.parse_args()
    names = options.networks
    if options.records:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
            mx.settings.override(cache_directory=directory),
        ):
            _print_records(names)
        return 0
    print(f"{'milliseconds':16}{'planned':>12}{'any extents':>14}{'step':>12}{'any extents':>14}")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        mx.settings.override(tiers="plan", cache_directory=directory),
    ):
        for name in names:
            found = _measure(name)
            times = [found[False][0], found[True][0], found[False][1], found[True][1]]
            print(f"{name:16}" + "".join([f"{1e3 * t:{w}.2f}" for t, w in zip(times, (12, 14, 12, 14), strict=True)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
