"""Training steps in float32, bfloat16 and float16: time and memory, beside PyTorch's autocast.

    python -m benchmarks.precision [--torch /path/to/python] [network ...]

Each row runs in a process of its own: the fastest of some steps in milliseconds, and the peak of its resident memory
above that of the process before the first step. Rows are (network, library, precision); ROWS lists the networks.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

PRECISIONS = ("float32", "bfloat16", "float16")
#: networks, and the number of steps that are measured
ROWS = {"mlp": 20, "lstm": 8, "resnet18": 5, "encoder": 8}
WARM_UP = 6

_BATCH, _WIDTH, _LENGTH = 32, 256, 64
_SHAPES = {"mlp": (256, 1024), "lstm": (_BATCH, 32, 128), "resnet18": (8, 3, 112, 112), "encoder": (8, _LENGTH, _WIDTH)}


def _measure(step: Callable[[], None], steps: int) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"milliseconds": 1e3 * min(times), "megabytes": (peak - before) / 1024}


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


def run_phonograd(name: str, precision: str) -> dict[str, float]:
    """Return the figures of training steps with this library."""
    import phonograd as mx
    from phonograd import autograd, gluon, nd
    from phonograd.contrib import amp

    is_mixed = precision != "float32"
    if is_mixed:
        amp.init(precision)
    mx.random.seed(0)
    net = _network(name)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    data = nd.random.normal(shape=_SHAPES[name])
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

    return _measure(step, ROWS[name])


def run_torch(name: str, precision: str) -> dict[str, float]:
    """Return the figures of training steps with PyTorch and autocast."""
    import torch
    from torch import nn

    class Last(nn.Module):  # type: ignore[misc, unused-ignore]
        def forward(self, x: Any) -> Any:
            return (x[0] if isinstance(x, tuple) else x).flatten(1)

    torch.manual_seed(0)
    shape = _SHAPES[name]
    if name == "mlp":
        layers = [layer for _ in range(3) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
        net = nn.Sequential(*layers, nn.Linear(1024, 10))
    elif name == "lstm":
        net = nn.Sequential(nn.LSTM(128, 256, 2, batch_first=True), Last(), nn.Linear(32 * 256, 10))
    elif name == "encoder":
        one = nn.TransformerEncoderLayer(_WIDTH, 4, 4 * _WIDTH, dropout=0.0, batch_first=True)
        net = nn.Sequential(nn.TransformerEncoder(one, 2), Last(), nn.Linear(_LENGTH * _WIDTH, 10))
    else:
        import torchvision

        net = torchvision.models.resnet18(num_classes=10)
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

    return _measure(step, ROWS[name])


_LIBRARIES = {"phonograd": run_phonograd, "torch": run_torch}


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(ROWS), help="networks to measure")
    parser.add_argument("--torch", help="a Python with PyTorch")
    parser.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.row:
        name, library, precision = given.row
        print(json.dumps(_LIBRARIES[library](name, precision)))
        return
    pythons = {"phonograd": sys.executable, **({"torch": given.torch} if given.torch else {})}
    print("| network | library | precision | ms | of float32 | MB |\n|---|---|---|---|---|---|")
    for name in given.networks:
        for library, python in pythons.items():
            single = None
            for precision in PRECISIONS:
                command = [python, "-m", "benchmarks.precision", "--row", name, library, precision]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"| {name} | {library} | {precision} | {done.stderr.strip().splitlines()[-1]} | | |")
                    continue
                found = json.loads(done.stdout.splitlines()[-1])
                single = single or found["milliseconds"]
                speed = single / found["milliseconds"]
                figures = f"{found['milliseconds']:.1f} | {speed:.2f} | {found['megabytes']:.0f}"
                print(f"| {name} | {library} | {precision} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
