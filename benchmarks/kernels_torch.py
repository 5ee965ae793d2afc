"""Time the cases of :mod:`benchmarks.kernels` in PyTorch: answer ``[name, seconds]`` with microseconds, in JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

Tensor = Any


def _labels(count: int, classes: int) -> Tensor:
    return torch.randint(0, classes, (count,))


def case(build: Callable[..., Tensor], *inputs: Tensor, constants: tuple[Tensor, ...] = ()) -> Callable[[], object]:
    """Return a call that computes a function of arrays and the gradient of its sum."""
    for tensor in inputs:
        tensor.requires_grad_()
    ones = torch.ones_like(build(*inputs, *constants)) if inputs else None

    def call() -> object:
        out = build(*inputs, *constants)
        return out if ones is None else torch.autograd.grad(out, inputs, ones)

    return call


def weighted(build: Callable[[Tensor], Tensor], *shape: int) -> Callable[[], object]:
    """Return the case of a function of one array, times weights."""
    data = torch.randn(shape)
    weight = torch.randn(build(data).shape)
    return case(lambda data: build(data) * weight, data)


def normalized(build: Callable[..., Tensor], width: int, *shape: int) -> Callable[[], object]:
    """Return the case of a normalization with a scale and a shift, times weights."""
    weight = torch.randn(shape)
    return case(lambda *arrays: build(*arrays) * weight, torch.randn(shape), torch.randn(width), torch.randn(width))


def softmax_cross_entropy(rows: int, classes: int) -> Callable[[], object]:
    label = _labels(rows, classes)
    return case(lambda data: functional.cross_entropy(data, label, reduction="none"), torch.randn(rows, classes))


def batch_norm(*shape: int) -> Callable[[], object]:
    mean, variance = torch.zeros(shape[1]), torch.ones(shape[1])

    def normalize(data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return functional.relu(functional.batch_norm(data, mean, variance, gamma, beta, True))

    return normalized(normalize, shape[1], *shape)


def embedding(words: int, width: int, count: int) -> Callable[[], object]:
    index, weight = _labels(count, words), torch.randn(count, width)
    return case(lambda table: functional.embedding(index, table) * weight, torch.randn(words, width))


def joined(*widths: int, rows: int = 4096) -> Callable[[], object]:
    return case(
        lambda *parts: torch.cat([torch.tanh(part) for part in parts], 1), *[torch.randn(rows, w) for w in widths]
    )


def column_sums(rows: int, columns: int) -> Callable[[], object]:
    return case(lambda data, bias: (data + bias) * data, torch.randn(rows, columns), torch.randn(columns))


def one_hot(count: int, classes: int) -> Callable[[], object]:
    return case(lambda label: functional.one_hot(label, classes).float(), constants=(_labels(count, classes),))


CASES: dict[str, Callable[[], Callable[[], object]]] = {
    "softmax-CE (64,10)": lambda: softmax_cross_entropy(64, 10),
    "softmax-CE (4096,1000)": lambda: softmax_cross_entropy(4096, 1000),
    "softmax-CE (256,10000)": lambda: softmax_cross_entropy(256, 10000),
    "softmax (4096,1000)": lambda: weighted(lambda x: x.softmax(-1), 4096, 1000),
    "log_softmax (4096,1000)": lambda: weighted(lambda x: x.log_softmax(-1), 4096, 1000),
    "softmax (20000,10)": lambda: weighted(lambda x: x.softmax(-1), 20000, 10),
    "softmax axis 1 (32,100,400)": lambda: weighted(lambda x: x.softmax(1), 32, 100, 400),
    "BatchNorm+ReLU (16,64,28,28)": lambda: batch_norm(16, 64, 28, 28),
    "BatchNorm+ReLU (256,128)": lambda: batch_norm(256, 128),
    "LayerNorm (4096,768)": lambda: normalized(lambda x, g, b: functional.layer_norm(x, (768,), g, b), 768, 4096, 768),
    "LayerNorm (128,64)": lambda: normalized(lambda x, g, b: functional.layer_norm(x, (64,), g, b), 64, 128, 64),
    "InstanceNorm (16,64,28,28)": lambda: normalized(
        lambda x, g, b: functional.instance_norm(x, None, None, g, b), 64, 16, 64, 28, 28
    ),
    "GroupNorm (16,64,28,28)": lambda: normalized(
        lambda x, g, b: functional.group_norm(x, 8, g, b), 64, 16, 64, 28, 28
    ),
    "L2Normalization (4096,256)": lambda: weighted(lambda x: functional.normalize(x, dim=1), 4096, 256),
    "argmax (4096,1000)": lambda: case(lambda x: x.argmax(1), constants=(torch.randn(4096, 1000),)),
    "norm (4096,1000)": lambda: weighted(lambda x: x.norm(dim=1), 4096, 1000),
    "Embedding (10000,128)[1024]": lambda: embedding(10000, 128, 1024),
    "Embedding (1000,300)[20000]": lambda: embedding(1000, 300, 20000),
    "one_hot (4096,1000)": lambda: one_hot(4096, 1000),
    "dropout (1000000)": lambda: case(lambda x: functional.dropout(x, 0.5, True), torch.randn(1000000)),
    "bias gradient (1120,512)": lambda: column_sums(1120, 512),
    "bias gradient (100000,10)": lambda: column_sums(100000, 10),
    "sum axis 1 (64,500,100)": lambda: weighted(lambda x: x.sum(1), 64, 500, 100),
    "mean (0,2,3) (16,64,28,28)": lambda: weighted(lambda x: x.mean((0, 2, 3)), 16, 64, 28, 28),
    "max (16,64,28,28)": lambda: weighted(lambda x: x.amax((2, 3)), 16, 64, 28, 28),
    "cumsum axis 1 (1000,1000)": lambda: weighted(lambda x: x.cumsum(1), 1000, 1000),
    "cumsum axis 0 (1000,1000)": lambda: weighted(lambda x: x.cumsum(0), 1000, 1000),
    "transpose (1000,1000)": lambda: weighted(lambda x: x.t().contiguous(), 1000, 1000),
    "transpose (64,50000)": lambda: weighted(lambda x: x.t().contiguous(), 64, 50000),
    "transpose NCHW (16,64,28,28)": lambda: weighted(lambda x: x.permute(0, 2, 3, 1).contiguous(), 16, 64, 28, 28),
    "slice (1000,1000)": lambda: weighted(lambda x: x[100:900, 100:900], 1000, 1000),
    "flip (1000,1000)": lambda: weighted(lambda x: x.flip(1), 1000, 1000),
    "tile (500,500)": lambda: weighted(lambda x: x.repeat(2, 2), 500, 500),
    "repeat (500,500)": lambda: weighted(lambda x: x.repeat_interleave(2, 1), 500, 500),
    "concat of tanh (4096,128*4)": lambda: joined(128, 128, 128, 128),
}


def main() -> None:
    """Answer the questions of the comparing process."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        name, seconds = json.loads(line)
        if name not in CASES:
            print("null", flush=True)
            continue
        call = CASES[name]()
        call()
        shortest, stop = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < stop:
            start = time.process_time()
            call()
            shortest = min(shortest, time.process_time() - start)
        print(json.dumps(1e6 * shortest), flush=True)


if __name__ == "__main__":
    main()
