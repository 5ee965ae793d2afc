"""Kernels that go through rows, take and scatter, against NumPy: ``python -m benchmarks.kernels [name ...]``.

Each case is a program on nodes: the forward expression, the loss and all gradients, computed at once. Printed are the
CPU time of one thread and the time on all threads, in microseconds (the best of many rounds), that of the reference
executor, the kernels that were launched, and the bandwidth: bytes that must move at least, by the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from phonograd import settings
from phonograd.gradient import differentiate
from phonograd.native.layout import Job
from phonograd.native.program import NativeProgram
from phonograd.node import Node
from phonograd.operator import REGISTRY
from phonograd.operators.structural import leaf, variable
from phonograd.reference import Program, resolve

SECONDS = 1.0


class Case(NamedTuple):
    """Nodes to compute, the arrays of the leaves, and the bytes that cannot be avoided."""

    targets: list[Node]
    bindings: dict[Node, np.ndarray]
    least_bytes: int


def call(name: str, *inputs: Node, **parameters: object) -> Node:
    """Return the first output of an operator."""
    found = REGISTRY[name](*inputs, **parameters)
    return found if isinstance(found, Node) else found[0]


def case(
    build: Callable[..., Node], *arrays: np.ndarray, constants: tuple[np.ndarray, ...] = (), kept: bool = True
) -> Case:
    """Return the case of a function of arrays: its value, and the gradient of its sum for all of them."""
    every = [*arrays, *constants]
    leaves = [leaf(number, array.shape, array.dtype) for number, array in enumerate(every)]
    variables = [variable(node, number) for number, node in enumerate(leaves[: len(arrays)])]
    out = build(*variables, *leaves[len(arrays) :])
    grads = [grad for grad in differentiate((out,), (None,)).targets.values() if grad is not None]
    targets = [resolve(node) for node in ([out] if kept else []) + grads]
    sizes = [array.nbytes for array in every] + [node.size * node.dtype.itemsize for node in targets]
    return Case(targets, dict(zip(leaves, every, strict=True)), sum(sizes))


def random(*shape: int) -> np.ndarray:
    """Return normally distributed numbers."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def labels(count: int, classes: int) -> np.ndarray:
    """Return random classes, as floating point numbers as MXNet has them."""
    return np.random.default_rng(1).integers(0, classes, count).astype(np.float32)


def softmax_cross_entropy(rows: int, classes: int) -> Case:
    def loss(data: Node, label: Node) -> Node:
        return -call("pick", call("log_softmax", data), label)

    return case(loss, random(rows, classes), constants=(labels(rows, classes),))


def softmax(*shape: int, axis: int = -1) -> Case:
    return case(
        lambda data, weight: call("softmax", data, axis=axis) * weight, random(*shape), constants=(random(*shape),)
    )


def batch_norm(*shape: int) -> Case:
    channels = shape[1]
    moving = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def normalize(data: Node, gamma: Node, beta: Node, mean: Node, variance: Node, weight: Node) -> Node:
        out = call("BatchNorm", data, gamma, beta, mean, variance, fix_gamma=False, training=True)
        return call("relu", out) * weight

    return case(
        normalize, random(*shape), random(channels), random(channels), constants=(*moving, random(*shape)), kept=False
    )


def layer_norm(rows: int, columns: int) -> Case:
    def normalize(data: Node, gamma: Node, beta: Node, weight: Node) -> Node:
        return call("LayerNorm", data, gamma, beta) * weight

    return case(normalize, random(rows, columns), random(columns), random(columns), constants=(random(rows, columns),))


def embedding(words: int, width: int, count: int) -> Case:
    def look_up(table: Node, index: Node, weight: Node) -> Node:
        return call("Embedding", index, table, input_dim=words, output_dim=width) * weight

    return case(look_up, random(words, width), constants=(labels(count, words), random(count, width)))


def column_sums(rows: int, columns: int) -> Case:
    return case(lambda data, bias: (data + bias) * data, random(rows, columns), random(columns))


def transposed(rows: int, columns: int) -> Case:
    return case(
        lambda data, other: call("transpose", data) * other, random(rows, columns), constants=(random(columns, rows),)
    )


def joined(*widths: int, rows: int = 4096) -> Case:
    def join(*parts: Node) -> Node:
        return call("Concat", *[call("tanh", part) for part in parts], dim=1)

    return case(join, *[random(rows, width) for width in widths])


CASES: dict[str, Callable[[], Case]] = {
    "softmax-CE (64,10)": lambda: softmax_cross_entropy(64, 10),
    "softmax-CE (4096,1000)": lambda: softmax_cross_entropy(4096, 1000),
    "softmax-CE (256,10000)": lambda: softmax_cross_entropy(256, 10000),
    "softmax axis 1 (32,100,400)": lambda: softmax(32, 100, 400, axis=1),
    "BatchNorm+ReLU (16,64,28,28)": lambda: batch_norm(16, 64, 28, 28),
    "BatchNorm+ReLU (256,128)": lambda: batch_norm(256, 128),
    "LayerNorm (4096,768)": lambda: layer_norm(4096, 768),
    "LayerNorm (128,64)": lambda: layer_norm(128, 64),
    "Embedding (10000,128)[1024]": lambda: embedding(10000, 128, 1024),
    "Embedding (1000,300)[20000]": lambda: embedding(1000, 300, 20000),
    "bias gradient (1120,512)": lambda: column_sums(1120, 512),
    "bias gradient (100000,10)": lambda: column_sums(100000, 10),
    "transpose (1000,1000)": lambda: transposed(1000, 1000),
    "transpose (64,50000)": lambda: transposed(64, 50000),
    "concat of tanh (4096,128*4)": lambda: joined(128, 128, 128, 128),
}


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


def measure(name: str, made: Case) -> None:
    """Print one line of the table."""
    found: list[float] = []
    for threads in (1, settings.current().num_threads):
        with settings.override(num_threads=threads, quick_kernels=False):
            program = NativeProgram(made.targets, lambda node: False)
            inputs = [made.bindings[node] for node in program.inputs]
            clock = time.thread_time if threads == 1 else time.perf_counter
            found.append(best(functools.partial(_run, program, inputs), clock))
    reference = Program(made.targets, lambda node: False)
    values = [made.bindings[node] for node in reference.inputs]
    found.append(best(lambda: reference.run(list(values)), time.perf_counter))
    launches = sum([len(job.plan.launches) for job in program.jobs if isinstance(job, Job)])
    others = sum([not isinstance(job, Job) for job in program.jobs])
    bandwidth = made.least_bytes / found[0] / 1e3
    print(f"{name:32}{found[0]:10.0f}{found[1]:10.0f}{found[2]:12.0f}{launches:6}{others:6}{bandwidth:8.1f}")


def main(names: list[str]) -> None:
    """Print the table, or the lines whose names contain one of some words."""
    print(f"{'':32}{'1 thread':>10}{'all':>10}{'reference':>12}{'runs':>6}{'NumPy':>6}{'GB/s':>8}")
    for name, make in CASES.items():
        if not names or any([word in name for word in names]):
            measure(name, make())


if __name__ == "__main__":
    main(sys.argv[1:])
