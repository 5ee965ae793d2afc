"""Kernels that go through rows, take and scatter, beside NumPy and PyTorch: ``python -m benchmarks.kernels [name ...]``.

Each case is a program on nodes: the forward expression and all its gradients, computed at once. Printed are the CPU
time of one thread and the time on all threads, in microseconds (the best of many rounds), that of the reference
executor, the kernels that are launched, what NumPy evaluates between them, and the bandwidth: bytes that must move at
least, by the time. Where the environment variable ``TORCH_PYTHON`` names an interpreter that has PyTorch, the CPU time
of the same program there (one thread, eagerly) follows, measured between two rounds of ours.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phonograd import settings
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run.reference import Program, resolve

SECONDS = 0.5

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """Nodes to compute, the arrays of the leaves, and the bytes that cannot be avoided."""

    targets: list[Node]
    bindings: dict[Node, Array]
    least_bytes: int


def call(name: str, *inputs: Node, **parameters: object) -> Node:
    """Return the first output of an operator."""
    found = REGISTRY[name](*inputs, **parameters)
    return found if isinstance(found, Node) else found[0]


def case(build: Callable[..., Node], *arrays: Array, constants: tuple[Array, ...] = (), kept: bool = True) -> Case:
    """Return the case of a function of arrays: its value, and the gradient of its sum for the first ones of them."""
    every = [*arrays, *constants]
    leaves = [leaf(number, array.shape, array.dtype) for number, array in enumerate(every)]
    variables = [variable(node, number) for number, node in enumerate(leaves[: len(arrays)])]
    out = build(*variables, *leaves[len(arrays) :])
    grads = [grad for grad in differentiate((out,), (None,)).targets.values() if grad is not None] if arrays else []
    targets = [resolve(node) for node in ([out] if kept else []) + grads]
    sizes = [array.nbytes for array in every] + [node.size * node.dtype.itemsize for node in targets]
    return Case(targets, dict(zip(leaves, every, strict=True)), sum(sizes))


def random(*shape: int) -> Array:
    """Return normally distributed numbers."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def labels(count: int, classes: int) -> Array:
    """Return random classes, as floating point numbers as MXNet has them."""
    return np.random.default_rng(1).integers(0, classes, count).astype(np.float32)


def softmax_cross_entropy(rows: int, classes: int) -> Case:
    def loss(data: Node, label: Node) -> Node:
        return -call("pick", call("log_softmax", data), label)

    return case(loss, random(rows, classes), constants=(labels(rows, classes),))


def weighted(name: str, *shape: int, kept: bool = True, **parameters: object) -> Case:
    """Return the case of an operator of one array, times weights, so that gradients are not all ones."""
    data = random(*shape)
    leaves = leaf(0, data.shape, data.dtype)
    weight = random(*call(name, leaves, **parameters).shape)
    return case(lambda data, weight: call(name, data, **parameters) * weight, data, constants=(weight,), kept=kept)


def batch_norm(*shape: int) -> Case:
    channels = shape[1]
    moving = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def normalize(data: Node, gamma: Node, beta: Node, mean: Node, variance: Node, weight: Node) -> Node:
        out = call("BatchNorm", data, gamma, beta, mean, variance, fix_gamma=False, training=True)
        return call("relu", out) * weight

    return case(normalize, random(*shape), random(channels), random(channels), constants=(*moving, random(*shape)))


def normalized(name: str, *shape: int, width: int | None = None, **named: object) -> Case:
    """Return the case of a normalization with a scale and a shift along axis 1, or for each of some groups."""
    width = width or shape[1]

    def normalize(data: Node, gamma: Node, beta: Node, weight: Node) -> Node:
        return call(name, data, gamma, beta, **named) * weight

    return case(normalize, random(*shape), random(width), random(width), constants=(random(*shape),))


def embedding(words: int, width: int, count: int) -> Case:
    def look_up(table: Node, index: Node, weight: Node) -> Node:
        return call("Embedding", index, table, input_dim=words, output_dim=width) * weight

    return case(look_up, random(words, width), constants=(labels(count, words), random(count, width)))


def one_hot(count: int, classes: int) -> Case:
    return case(lambda label: call("one_hot", label, depth=classes), constants=(labels(count, classes),))


def argmax(rows: int, columns: int) -> Case:
    return case(lambda data: call("argmax", data, axis=1), constants=(random(rows, columns),))


def column_sums(rows: int, columns: int) -> Case:
    return case(lambda data, bias: (data + bias) * data, random(rows, columns), random(columns))


def joined(*widths: int, rows: int = 4096) -> Case:
    def join(*parts: Node) -> Node:
        return call("Concat", *[call("tanh", part) for part in parts], dim=1)

    return case(join, *[random(rows, width) for width in widths])


def dropout(*shape: int) -> Case:
    def drop(data: Node, counter: Node) -> Node:
        return call("Dropout", data, counter, p=0.5, training=True)

    return case(drop, random(*shape), constants=(np.array([1, 2, 3, 4], np.uint32),))


CASES: dict[str, Callable[[], Case]] = {
    "softmax-CE (64,10)": lambda: softmax_cross_entropy(64, 10),
    "softmax-CE (4096,1000)": lambda: softmax_cross_entropy(4096, 1000),
    "softmax-CE (256,10000)": lambda: softmax_cross_entropy(256, 10000),
    "softmax (4096,1000)": lambda: weighted("softmax", 4096, 1000),
    "log_softmax (4096,1000)": lambda: weighted("log_softmax", 4096, 1000),
    "softmax (20000,10)": lambda: weighted("softmax", 20000, 10),
    "softmax axis 1 (32,100,400)": lambda: weighted("softmax", 32, 100, 400, axis=1),
    "BatchNorm+ReLU (16,64,28,28)": lambda: batch_norm(16, 64, 28, 28),
    "BatchNorm+ReLU (256,128)": lambda: batch_norm(256, 128),
    "LayerNorm (4096,768)": lambda: normalized("LayerNorm", 4096, 768),
    "LayerNorm (128,64)": lambda: normalized("LayerNorm", 128, 64),
    "InstanceNorm (16,64,28,28)": lambda: normalized("InstanceNorm", 16, 64, 28, 28),
    "GroupNorm (16,64,28,28)": lambda: normalized("GroupNorm", 16, 64, 28, 28, width=8, num_groups=8),
    "L2Normalization (4096,256)": lambda: weighted("L2Normalization", 4096, 256),
    "argmax (4096,1000)": lambda: argmax(4096, 1000),
    "norm (4096,1000)": lambda: weighted("norm", 4096, 1000, axis=1),
    "Embedding (10000,128)[1024]": lambda: embedding(10000, 128, 1024),
    "Embedding (1000,300)[20000]": lambda: embedding(1000, 300, 20000),
    "one_hot (4096,1000)": lambda: one_hot(4096, 1000),
    "dropout (1000000)": lambda: dropout(1000000),
    "bias gradient (1120,512)": lambda: column_sums(1120, 512),
    "bias gradient (100000,10)": lambda: column_sums(100000, 10),
    "sum axis 1 (64,500,100)": lambda: weighted("sum", 64, 500, 100, axis=1, kept=False),
    "mean (0,2,3) (16,64,28,28)": lambda: weighted("mean", 16, 64, 28, 28, axis=(0, 2, 3)),
    "max (16,64,28,28)": lambda: weighted("max", 16, 64, 28, 28, axis=(2, 3)),
    "cumsum axis 1 (1000,1000)": lambda: weighted("cumsum", 1000, 1000, axis=1),
    "cumsum axis 0 (1000,1000)": lambda: weighted("cumsum", 1000, 1000, axis=0),
    "transpose (1000,1000)": lambda: weighted("transpose", 1000, 1000),
    "transpose (64,50000)": lambda: weighted("transpose", 64, 50000),
    "transpose NCHW (16,64,28,28)": lambda: weighted("transpose", 16, 64, 28, 28, axes=(0, 2, 3, 1)),
    "slice (1000,1000)": lambda: weighted("slice", 1000, 1000, begin=(100, 100), end=(900, 900)),
    "flip (1000,1000)": lambda: weighted("flip", 1000, 1000, axis=1),
    "tile (500,500)": lambda: weighted("tile", 500, 500, reps=(2, 2)),
    "repeat (500,500)": lambda: weighted("repeat", 500, 500, repeats=2, axis=1),
    "concat of tanh (4096,128*4)": lambda: joined(128, 128, 128, 128),
}


# -- measuring


def best(run: Callable[[], object], clock: Callable[[], float], seconds: float = SECONDS) -> float:
    """Return the shortest time of a call, in microseconds."""
    run()
    times = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times) < 3:
        start = clock()
        run()
        times.append(clock() - start)
    return 1e6 * min(times)


def _run(program: NativeProgram, inputs: list[Array]) -> object:
    return program.run(list(inputs))


class Peer:
    """A process that times PyTorch."""

    def __init__(self, python: str) -> None:
        script = str(Path(__file__).with_name("kernels_torch.py"))
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([python, "-W", "ignore", script], stdin=pipe, stdout=pipe, text=True)

    def ask(self, name: str) -> float | None:
        """Return the time of a case in microseconds, or None if the peer does not have it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([name, SECONDS]) + "\n")
        process.stdin.flush()
        found: float | None = json.loads(process.stdout.readline())
        return found


def measure(name: str, made: Case, peer: Peer | None) -> None:
    """Print one line of the table."""
    found: list[float] = []
    theirs: float | None = None
    for threads in (1, settings.current().num_threads):
        with settings.override(num_threads=threads, quick_kernels=False):
            program = NativeProgram(made.targets, lambda node: False)
            inputs = [made.bindings[node] for node in program.inputs]
            run = functools.partial(_run, program, inputs)
            found.append(best(run, time.thread_time if threads == 1 else time.perf_counter))
            if threads == 1 and peer is not None:
                theirs = peer.ask(name)
                found[0] = min(found[0], best(run, time.thread_time))
    reference = Program(made.targets, lambda node: False)
    values = [made.bindings[node] for node in reference.inputs]
    found.append(best(lambda: reference.run(list(values)), time.perf_counter))
    launches = sum([len(part.kernels) for part in program.parts])
    others = sum([not part.kernels and bool(part.memory) for part in program.parts])
    bandwidth = made.least_bytes / found[0] / 1e3
    line = f"{name:32}{found[0]:10.0f}{found[1]:10.0f}{found[2]:12.0f}{launches:6}{others:6}{bandwidth:8.1f}"
    print(line + (f"{theirs:10.0f}{theirs / found[0]:8.2f}" if theirs else ""), flush=True)


def main(names: list[str]) -> None:
    """Print the table, or the lines whose names contain one of some words."""
    peer = Peer(os.environ["TORCH_PYTHON"]) if os.environ.get("TORCH_PYTHON") else None
    print(
        f"{'':32}{'1 thread':>10}{'all':>10}{'reference':>12}{'runs':>6}{'NumPy':>6}{'GB/s':>8}"
        + (f"{'PyTorch':>10}{'ratio':>8}" if peer else "")
    )
    for name, make in CASES.items():
        if not names or any([word in name for word in names]):
            measure(name, make(), peer)


if __name__ == "__main__":
    main(sys.argv[1:])
