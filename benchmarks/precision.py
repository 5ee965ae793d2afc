"""Training steps in float32, bfloat16 and float16: time and memory, beside PyTorch's autocast.

    python -m benchmarks.precision [--torch /path/to/python] [--threads N] [network ...]

Each row runs in processes of its own. ``ms`` is the fastest of some steps, on one thread in processor time (other
programs disturb it least), else in wall time; it is measured after all kernels were compiled in full. ``MB`` is the
peak of the resident memory in such steps, above that of the process with the library loaded: parameters, gradients and
activations. ``activations`` is the growth of that peak from one batch to three, divided by two: the memory that the
examples of a batch take, their data included. ``saved`` is the share of it that float32 needs more. Kernels are compiled
by an earlier process. ROWS lists the networks. PyTorch takes seconds for a step in 16 bits on processors without
instructions for it: such a step is measured once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

#: precisions by library: float16 on a CPU is not PyTorch's
PRECISIONS = {"phonograd": ("float32", "bfloat16", "float16"), "torch": ("float32", "bfloat16")}
#: networks, and the number of steps that are measured
ROWS = {"mlp": 20, "lstm": 12, "encoder": 12, "resnet18": 8}
#: steps before the measurement, if SECONDS suffice for them, and in any case
WARM_UP, LEAST_WARM_UP = 6, 2
#: time that steps before and during the measurement may take; a first step that takes longer is the only one
SECONDS = 3.0

_WIDTH, _LENGTH = 256, 64
_SHAPES = {"mlp": (1024, 1024), "lstm": (64, 32, 128), "resnet18": (16, 3, 112, 112), "encoder": (32, _LENGTH, _WIDTH)}


def _status(name: str) -> float:
    """Return one of the system's figures about this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024


def _measure(
    step: Callable[[], None], steps: int, before: float, threads: int, tidy: Callable[[], None] | None = None
) -> dict[str, float]:
    """Return the figures of steps; ``tidy`` compiles all kernels, and returns memory that is not used."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[float] = []

    def timed() -> None:
        start = clock()
        step()
        times.append(clock() - start)

    timed()
    if times[0] < SECONDS:
        begin = time.perf_counter()
        # graphs that return are planned in the background
        for number in range(WARM_UP):
            step()
            if number >= LEAST_WARM_UP and time.perf_counter() - begin > SECONDS:
                break
        if tidy is not None:
            for _ in range(3):
                tidy()
                step()
            tidy()
        # resets the peak of resident memory
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        times.clear()
        begin = time.perf_counter()
        while len(times) < steps and (not times or time.perf_counter() - begin < SECONDS):
            timed()
    return {"milliseconds": 1e3 * min(times), "megabytes": _status("VmHWM") - before}


def _shape(name: str, batches: int) -> tuple[int, ...]:
    return (batches * _SHAPES[name][0], *_SHAPES[name][1:])


def _network(name: str) -> Any:
    from phonograd import gluon

    nn = gluon.nn
    if name == "resnet18":
        return gluon.model_zoo.vision.resnet18_v1(classes=10)
    net = nn.HybridSequential()
    if name == "mlp":
        for _ in range(3):
            net.add(nn.Dense(1024, activation="relu"))
    elif name == "lstm":
        net.add(gluon.rnn.LSTM(256, 2, layout="NTC"))
    else:
        for _ in range(2):
            net.add(_layer())
    net.add(nn.Dense(10))
    return net


def _layer() -> Any:
    """Return a layer of an encoder: attention and a feed-forward network, each with a residual connection."""
    from phonograd import gluon

    class Layer(gluon.HybridBlock):
        heads = 4

        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.parts = gluon.nn.Dense(3 * _WIDTH, flatten=False)
                self.joined = gluon.nn.Dense(_WIDTH, flatten=False)
                self.inner = gluon.nn.Dense(4 * _WIDTH, flatten=False, activation="relu")
                self.outer = gluon.nn.Dense(_WIDTH, flatten=False)
                self.first, self.second = gluon.nn.LayerNorm(), gluon.nn.LayerNorm()

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            parts = F.transpose(self.parts(x), axes=(1, 0, 2))
            scores = F.softmax(F.contrib.interleaved_matmul_selfatt_qk(parts, heads=self.heads))
            mixed = F.contrib.interleaved_matmul_selfatt_valatt(parts, scores, heads=self.heads)
            x = self.first(F.broadcast_add(x, self.joined(F.transpose(mixed, axes=(1, 0, 2)))))
            return self.second(F.broadcast_add(x, self.outer(self.inner(x))))

    return Layer()


def run_phonograd(name: str, precision: str, batches: int, threads: int) -> dict[str, float]:
    """Return the figures of training steps with this library."""
    import phonograd as mx
    from phonograd import autograd, gluon, nd
    from phonograd.contrib import amp
    from phonograd.core.run import kernel_cache

    mx.settings.update(num_threads=threads)
    (nd.ones((8, 8)) * 2).asnumpy()
    before = _status("VmRSS")
    is_mixed = precision != "float32"
    if is_mixed:
        amp.init(precision)
    mx.random.seed(0)
    net = _network(name)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    data = nd.random.normal(shape=_shape(name, batches))
    label = nd.array(np.random.default_rng(0).integers(0, 10, data.shape[0]))
    net(data)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-3})
    if is_mixed:
        amp.init_trainer(trainer)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

    def step() -> None:
        with autograd.record():
            loss = loss_of(net(data), label)
            if is_mixed:
                with amp.scale_loss(loss, trainer) as scaled:
                    autograd.backward(scaled)
        if not is_mixed:
            loss.backward()
        trainer.step(data.shape[0])
        nd.waitall()

    def tidy() -> None:
        kernel_cache.wait_for_tier_up()
        mx.cpu().empty_cache()

    figures = _measure(step, ROWS[name] if batches == 1 else 3, before, threads, tidy)
    counts = kernel_cache.statistics
    return {**figures, "compiled": counts.kernels_compiled + counts.kernels_improved}


def run_torch(name: str, precision: str, batches: int, threads: int) -> dict[str, float]:
    """Return the figures of training steps with PyTorch and autocast."""
    import torch
    from torch import nn

    class Last(nn.Module):  # type: ignore[misc, unused-ignore]
        def forward(self, x: Any) -> Any:
            return (x[0] if isinstance(x, tuple) else x).flatten(1)

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    torch.mm(torch.randn(64, 64), torch.randn(64, 64))
    before, shape = _status("VmRSS"), _shape(name, batches)
    if name == "mlp":
        layers = [layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
        net = nn.Sequential(*layers, nn.Linear(1024, 10))
    elif name == "lstm":
        net = nn.Sequential(nn.LSTM(128, 256, 2, batch_first=True), Last(), nn.Linear(32 * 256, 10))
    elif name == "encoder":
        one = nn.TransformerEncoderLayer(_WIDTH, 4, 4 * _WIDTH, dropout=0.0, batch_first=True)
        net = nn.Sequential(nn.TransformerEncoder(one, 2), Last(), nn.Linear(_LENGTH * _WIDTH, 10))
    else:
        from benchmarks.distributed_worker import network_of_torch

        net = network_of_torch("resnet18")[0]
    data = torch.randn(*shape)
    label = torch.randint(0, 10, (shape[0],))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    dtype = torch.float16 if precision == "float16" else torch.bfloat16

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype, enabled=precision != "float32"):
            loss = nn.functional.cross_entropy(net(data), label)
        loss.backward()
        optimizer.step()

    return _measure(step, ROWS[name] if batches == 1 else 3, before, threads)


_LIBRARIES = {"phonograd": run_phonograd, "torch": run_torch}


def _row(python: str, *row: str) -> dict[str, float] | str:
    """Return the figures of a process, or its error."""
    command = [python, "-W", "ignore", "-m", "benchmarks.precision", "--row", *row]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _figures(python: str, name: str, library: str, precision: str, threads: int) -> dict[str, float] | str:
    """Return the figures of a row: those of one batch, and the memory that each of two more batches takes."""
    found = []
    for batches in ("1", "3"):
        row = name, library, precision, batches, str(threads)
        each = _row(python, *row)
        for _ in range(2):
            # the memory of the compiler is not counted: kernels are compiled by earlier processes
            if isinstance(each, dict) and each.get("compiled"):
                each = _row(python, *row)
        if isinstance(each, dict) and each.get("compiled"):
            return "kernels were still compiled in the third process: run it again"
        if isinstance(each, str):
            return each
        found.append(each)
    return {**found[0], "activations": (found[1]["megabytes"] - found[0]["megabytes"]) / 2}


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(ROWS), help="networks to measure")
    parser.add_argument("--torch", help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--row", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.row:
        name, library, precision, batches, threads = given.row
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
        print(json.dumps(_LIBRARIES[library](name, precision, int(batches), int(threads))))
        return
    pythons = {"phonograd": sys.executable, **({"torch": given.torch} if given.torch else {})}
    print("| network | library | precision | ms | of float32 | MB | activations, MB | saved |\n" + "|---" * 8 + "|")
    for name in given.networks:
        for library, python in pythons.items():
            single: dict[str, float] | None = None
            for precision in PRECISIONS[library]:
                found = _figures(python, name, library, precision, given.threads)
                if isinstance(found, str):
                    print(f"| {name} | {library} | {precision} | {found} | | | | |", flush=True)
                    continue
                single = single or found
                speed = single["milliseconds"] / found["milliseconds"]
                saved = 1 - found["activations"] / single["activations"]
                figures = f"{found['milliseconds']:.1f} | {speed:.2f} | {found['megabytes']:.0f}"
                memory = f"{found['activations']:.0f} | {saved:.0%}"
                print(f"| {name} | {library} | {precision} | {figures} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
