"""Measure the largest error of every elementary function that kernels compute, in units of the last place.

    python -m benchmarks.ulp                 every 64th float32, a million float64
    python -m benchmarks.ulp --step 1        every float32 (some minutes)

The exact value is NumPy's in the next wider format: float64 for float32, and extended precision for float64 (where the
machine has it). The same table shows NumPy's own float32 and float64 functions for comparison.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from phonograd.dtypes import FLOAT32, FLOAT64, DType
from phonograd.native.program import NativeProgram
from phonograd.operator import REGISTRY
from phonograd.operators.structural import leaf

Array = np.ndarray[Any, Any]

#: function of NumPy by operator name
FUNCTIONS = {"exp": np.exp, "tanh": np.tanh}
#: where float64 arguments are drawn from: the range of interest and a range around zero
RANGES = {"exp": (-745.2, 709.8), "tanh": (-20.0, 20.0)}
_BLOCK = 1 << 20


class Kernel:
    """An operator of one array as a compiled kernel."""

    def __init__(self, name: str, dtype: DType, size: int) -> None:
        source = leaf(0, (size,), dtype)
        self._program = NativeProgram([REGISTRY[name](source)], lambda node: False)

    def __call__(self, data: Array) -> Array:
        """Return the operator of an array."""
        return self._program.run([data])[0]


def errors(found: Array, exact: Array) -> Array:
    """Return the errors in units of the last place of the found values; equal infinities and two NaNs count as 0.

    Where only one of the two is finite, the error counts as infinite unless the exact value rounds to the found one.
    """
    rounded = exact.astype(found.dtype)
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(rounded)).astype(exact.dtype)
        result = np.abs(found.astype(exact.dtype) - exact) / spacing
    same = (found == rounded) & ~np.isfinite(rounded) | (np.isnan(found) & np.isnan(exact))
    return np.where(same, 0, np.where(np.isnan(result), np.inf, result))


def every_float32(step: int) -> Iterator[Array]:
    """Yield all float32 numbers, or every n-th, in blocks of equal size."""
    for start in range(0, 1 << 32, step * _BLOCK):
        bits = np.arange(start, start + step * _BLOCK, step, dtype=np.uint64).astype(np.uint32)
        yield bits.view(np.float32)


def some_float64(name: str, count: int) -> Iterator[Array]:
    """Yield float64 numbers: spread evenly over the function's range, and over all exponents."""
    generator = np.random.default_rng(1)
    low, high = RANGES[name]
    for _ in range(0, count, _BLOCK):
        yield generator.uniform(low, high, _BLOCK)
        yield generator.uniform(-2, 2, _BLOCK)
        yield generator.integers(0, 1 << 64, _BLOCK, np.uint64).view(np.float64)


def measure(name: str, dtype: DType, step: int, count: int) -> tuple[float, float, float]:
    """Return the largest error of the kernel, where it occurs, and the largest error of NumPy."""
    kernel, function = Kernel(name, dtype, _BLOCK), FUNCTIONS[name]
    wide = np.float64 if dtype == FLOAT32 else np.longdouble
    worst, place, other = 0.0, 0.0, 0.0
    blocks = every_float32(step) if dtype == FLOAT32 else some_float64(name, count)
    for block in blocks:
        with np.errstate(all="ignore"):
            exact = function(block.astype(wide))
            found = errors(kernel(block), exact)
            other = max(other, float(errors(function(block), exact).max()))
        index = int(found.argmax())
        if found[index] > worst:
            worst, place = float(found[index]), float(block[index])
    return worst, place, other


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step", type=int, default=64, help="take every n-th float32")
    parser.add_argument("--count", type=int, default=_BLOCK, help="float64 numbers of each sort")
    options = parser.parse_args()
    if np.finfo(np.longdouble).nmant <= 52:
        sys.exit("this machine has no format wider than float64 to compare with")
    print(f"{'function':10} {'dtype':8} {'kernel':>8} {'NumPy':>8}   worst argument")
    for name in FUNCTIONS:
        for dtype in (FLOAT32, FLOAT64):
            start = time.perf_counter()
            worst, place, other = measure(name, dtype, options.step, options.count)
            seconds = time.perf_counter() - start
            print(f"{name:10} {dtype.name:8} {worst:8.3f} {other:8.3f}   {place!r} ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
