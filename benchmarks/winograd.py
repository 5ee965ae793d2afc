"""Measure the accuracy of convolutions: ``python -m benchmarks.winograd`` prints the table of docs/numerics.md.

For each value of the setting ``winograd``, the table shows the largest difference of an output from the same
convolution in float64 (without Winograd's algorithm), as a share of the largest output: the worst of the forward pass
and both gradients, over several random inputs. A plan keeps its setting, so each value has its own process.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from phonograd import autograd, nd

SETTINGS = ("8", "6", "4", "0")
#: kernel, stride, channels and filters
CASES = (
    ((3, 3), 1, 64),
    ((3, 3), 1, 512),
    ((5, 5), 1, 64),
    ((4, 4), 2, 256),
    ((3,), 1, 512),
    ((5,), 1, 512),
    ((7,), 1, 512),
)
SEEDS = range(5)


def name(kernel: tuple[int, ...], stride: int, channels: int) -> str:
    """Return the title of a column."""
    return (
        " by ".join(map(str, (*kernel, 1)[:2]))
        + (f", stride {stride}" if stride > 1 else "")
        + f", {channels} channels"
    )


def results(kernel: tuple[int, ...], stride: int, channels: int, seed: int, dtype: str) -> list[np.ndarray]:
    """Return the output of a convolution of normal data and the gradients of data and weights."""
    generator = np.random.default_rng(seed)
    size, window = (20,) * len(kernel), {"kernel": kernel, "stride": (stride,) * len(kernel)}
    pad = tuple([(width - 1) // 2 for width in kernel])
    data = nd.array(generator.normal(size=(4, channels, *size)).astype(np.float32), dtype=dtype)
    weight = nd.array(generator.normal(size=(channels, channels, *kernel)).astype(np.float32), dtype=dtype)
    data.attach_grad()
    weight.attach_grad()
    with autograd.record():
        out = nd.Convolution(data, weight, no_bias=True, num_filter=channels, pad=pad, **window)
    out.backward(nd.array(generator.normal(size=out.shape).astype(np.float32), dtype=dtype))
    return [array.asnumpy() for array in (out, data.grad, weight.grad)]


def error(kernel: tuple[int, ...], stride: int, channels: int) -> float:
    """Return the largest error over all seeds and passes."""
    worst = 0.0
    for seed in SEEDS:
        exact, found = [results(kernel, stride, channels, seed, dtype) for dtype in ("float64", "float32")]
        worst = max([worst, *[np.abs(f - e).max() / np.abs(e).max() for f, e in zip(found, exact, strict=True)]])
    return worst


def main() -> None:
    """Print the table, or one row of it."""
    if len(sys.argv) > 1:
        print(f"| {sys.argv[1]} |", " | ".join([f"{error(*case) * 1e6:.1f}e-6" for case in CASES]), "|")
        return
    print("| `winograd` |", " | ".join([name(*case) for case in CASES]), "|")
    print("|---" * (len(CASES) + 1) + "|", flush=True)
    for winograd in SETTINGS:
        environment = {**os.environ, "PHONOGRAD_WINOGRAD": winograd}
        subprocess.run([sys.executable, "-m", "benchmarks.winograd", winograd], env=environment, check=True)


if __name__ == "__main__":
    main()
