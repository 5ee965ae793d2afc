"""Measure the largest error of every function that kernels compute, in units of the last place, and its speed.

    python -m benchmarks.ulp                     every 61st float32, a million float64 of each sort
    python -m benchmarks.ulp --step 1            every float32 (half an hour)
    python -m benchmarks.ulp --write             put the table into docs/numerics.md
    python -m benchmarks.ulp exp tanh            these functions only

The exact value is NumPy's in the next wider format: float64 for float32, and extended precision for float64 (where the
machine has it). The same table shows NumPy's own float32 and float64 functions for comparison. Nanoseconds are those of
one element on one thread, in arrays that stay in cache.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phonograd import settings
from phonograd.core.base.dtypes import FLOAT32, FLOAT64, DType
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math import special_functions
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 20
_DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "numerics.md"
_BEGIN, _END = "<!-- errors: begin -->\n", "<!-- errors: end -->\n"


class Entry(NamedTuple):
    """What to measure: the function in a wider format, the range of interest in float64, and NumPy's own function."""

    exact: Callable[..., Array]
    low: float
    high: float
    numpy: Callable[..., Array] | None = None
    arguments: int = 1
    #: how many float64 numbers are drawn at once; fewer where the exact value takes long
    block: int = _BLOCK


def _erf(x: Array) -> Array:
    """Return the error function in the format of x: a series of positive terms."""
    if x.dtype == np.float64:
        return special_functions.erf(x)
    size = np.minimum(np.abs(x), np.longdouble(7))
    square = size * size
    term = total = size
    for n in range(1, 220):
        term = term * (2 * square / (2 * n + 1))
        total = total + term
    value = 2 / np.sqrt(np.longdouble(np.pi)) * _PI_CORRECTION * np.exp(-square) * total
    return np.copysign(np.where(np.abs(x) > 6.5, np.longdouble(1), value), x)


#: the root of pi rounded to double, over the root of pi
_PI_CORRECTION = 1 - np.longdouble("1.9490859162596878e-17")


def _erfinv(x: Array) -> Array:
    """Return the inverse error function in the format of x: steps of Newton's from the double precision value.

    Near 1 the error function of extended precision is too flat, so the comparison stops at 0.999.
    """
    y = special_functions.erfinv(x.astype(np.float64)).astype(x.dtype)
    if x.dtype == np.float64:
        return y
    for _ in range(3):
        slope = 2 / np.sqrt(np.longdouble(np.pi)) * np.exp(-y * y)
        y = np.where(np.abs(x) < 0.999, y - (_erf(y) - x) / slope, np.nan)
    return y


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _numpy(function: Callable[..., Array], low: float, high: float, arguments: int = 1) -> Entry:
    return Entry(function, low, high, function, arguments)


#: by operator name
FUNCTIONS: dict[str, Entry] = {
    "exp": _numpy(np.exp, -745.2, 709.8),
    "expm1": _numpy(np.expm1, -40.0, 709.8),
    "log": _numpy(np.log, 0.0, 1e4),
    "log2": _numpy(np.log2, 0.0, 1e4),
    "log10": _numpy(np.log10, 0.0, 1e4),
    "log1p": _numpy(np.log1p, -1.0, 1e4),
    "sin": _numpy(np.sin, -100.0, 100.0),
    "cos": _numpy(np.cos, -100.0, 100.0),
    "tan": _numpy(np.tan, -100.0, 100.0),
    "arcsin": _numpy(np.arcsin, -1.0, 1.0),
    "arccos": _numpy(np.arccos, -1.0, 1.0),
    "arctan": _numpy(np.arctan, -10.0, 10.0),
    "sinh": _numpy(np.sinh, -710.0, 710.0),
    "cosh": _numpy(np.cosh, -710.0, 710.0),
    "tanh": _numpy(np.tanh, -20.0, 20.0),
    "arcsinh": _numpy(np.arcsinh, -100.0, 100.0),
    "arccosh": _numpy(np.arccosh, 1.0, 100.0),
    "arctanh": _numpy(np.arctanh, -1.0, 1.0),
    "sigmoid": Entry(_sigmoid, -40.0, 40.0, _sigmoid),
    "_softrelu": Entry(_softplus, -40.0, 40.0, _softplus),
    "erf": Entry(_erf, -6.0, 6.0, block=1 << 15),
    "erfinv": Entry(_erfinv, -0.999, 0.999, block=1 << 15),
    "cbrt": _numpy(np.cbrt, -100.0, 100.0),
    "rcbrt": Entry(lambda x: 1 / np.cbrt(x), -100.0, 100.0, lambda x: 1 / np.cbrt(x)),
    "sqrt": _numpy(np.sqrt, 0.0, 100.0),
    "rsqrt": Entry(lambda x: 1 / np.sqrt(x), 0.0, 100.0, lambda x: 1 / np.sqrt(x)),
    "broadcast_power": _numpy(np.power, 0.0, 100.0, 2),
    "broadcast_hypot": _numpy(np.hypot, -100.0, 100.0, 2),
    "broadcast_mod": _numpy(np.remainder, -100.0, 100.0, 2),
}


class Kernel:
    """An operator of one or two arrays as a compiled kernel."""

    def __init__(self, name: str, dtype: DType, size: int, arguments: int = 1) -> None:
        sources = [leaf(index, (size,), dtype) for index in range(arguments)]
        self._program = NativeProgram([REGISTRY[name](*sources)], lambda node: False)

    def __call__(self, *data: Array) -> Array:
        """Return the operator of some arrays."""
        return self._program.run(list(data))[0]


def errors(found: Array, exact: Array) -> Array:
    """Return the errors in units of the last place of the found values; equal infinities and two NaNs count as 0.

    Where only one of the two is finite, the error counts as infinite unless the exact value rounds to the found one.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        spacing = np.spacing(np.abs(rounded)).astype(exact.dtype)
        result = np.abs(found.astype(exact.dtype) - exact) / spacing
    same = (found == rounded) & ~np.isfinite(rounded) | (np.isnan(found) & np.isnan(exact))
    return np.where(same, 0, np.where(np.isnan(result), np.inf, result))


def every_float32(step: int) -> Iterator[list[Array]]:
    """Yield all float32 numbers, or every n-th, in blocks of equal size."""
    for start in range(0, 1 << 32, step * _BLOCK):
        bits = np.arange(start, start + step * _BLOCK, step, dtype=np.uint64).astype(np.uint32)
        yield [bits.view(np.float32)]


def some_numbers(entry: Entry, dtype: DType, count: int) -> Iterator[list[Array]]:
    """Yield random numbers: spread evenly over the function's range, around zero, and over all bit patterns."""
    generator = np.random.default_rng(1)
    integer, size = np.dtype(f"u{dtype.itemsize}"), entry.block
    for _ in range(0, count, _BLOCK):
        for low, high in ((entry.low, entry.high), (-2.0, 2.0), (-0.01, 0.01)):
            yield [generator.uniform(low, high, size).astype(dtype) for _ in range(entry.arguments)]
        limit = 1 << 8 * dtype.itemsize
        words = [generator.integers(0, limit, size, np.uint64).astype(integer) for _ in range(entry.arguments)]
        yield [word.view(dtype) for word in words]
        if entry.arguments == 2:
            # the first over all magnitudes, the second of ordinary size
            yield [words[0].view(dtype), generator.uniform(-20, 20, size).astype(dtype)]


class Measured(NamedTuple):
    """The largest error of the kernel and where it occurs, the largest of NumPy, and nanoseconds per element of both."""

    worst: float
    place: tuple[float, ...]
    other: float | None
    time: float
    other_time: float | None


def measure(name: str, dtype: DType, step: int, count: int) -> Measured:
    """Return what is known about one function in one format."""
    entry = FUNCTIONS[name]
    exhaustive = dtype == FLOAT32 and entry.arguments == 1
    kernel = Kernel(name, dtype, _BLOCK if exhaustive else entry.block, entry.arguments)
    wide = np.float64 if dtype == FLOAT32 else np.longdouble
    worst, place, other = 0.0, (0.0,) * entry.arguments, 0.0
    for block in every_float32(step) if exhaustive else some_numbers(entry, dtype, count):
        with np.errstate(all="ignore"):
            exact = entry.exact(*[array.astype(wide) for array in block])
            known = ~np.isnan(exact) if name == "erfinv" and wide is np.longdouble else np.True_
            found = np.where(known, errors(kernel(*block), exact), 0)
            if entry.numpy is not None:
                other = max(other, float(np.where(known, errors(entry.numpy(*block), exact), 0).max()))
        index = int(found.argmax())
        if found[index] > worst:
            worst, place = float(found[index]), tuple([float(array[index]) for array in block])
    speed, other_speed = _speed(name, dtype)
    return Measured(worst, place, None if entry.numpy is None else other, speed, other_speed)


def _speed(name: str, dtype: DType) -> tuple[float, float | None]:
    """Return nanoseconds per element of the kernel and of NumPy."""
    entry, size = FUNCTIONS[name], 1 << 15
    generator = np.random.default_rng(2)
    low, high = max(entry.low, -20.0), min(entry.high, 20.0)
    data = [generator.uniform(low, high, size).astype(dtype) for _ in range(entry.arguments)]
    functions = [Kernel(name, dtype, size, entry.arguments)] + ([entry.numpy] if entry.numpy else [])
    times = []
    for function in functions:
        best = float("inf")
        for _ in range(100):
            start = time.perf_counter()
            with np.errstate(all="ignore"):
                function(*data)
            best = min(best, time.perf_counter() - start)
        times.append(1e9 * best / size)
    return times[0], times[1] if len(times) > 1 else None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="functions, by operator name; default: all")
    parser.add_argument(
        "--step", type=int, default=61, help="take every n-th float32 (an odd step, or low bits are always zero)"
    )
    parser.add_argument("--count", type=int, default=_BLOCK, help="float64 numbers of each sort")
    parser.add_argument("--write", action="store_true", help=f"put the table into {_DOCUMENT.name}")
    options = parser.parse_args()
    if np.finfo(np.longdouble).nmant <= 52:
        sys.exit("this machine has no format wider than float64 to compare with")
    settings.update(num_threads=1)
    lines = [
        "| function | dtype | largest error | NumPy's | ns | NumPy's ns |",
        "|---|---|---|---|---|---|",
    ]
    print(f"{'function':16} {'dtype':8} {'error':>8} {'NumPy':>8} {'ns':>6} {'NumPy':>6}   worst argument")
    for name in options.names or FUNCTIONS:
        for dtype in (FLOAT32, FLOAT64):
            found = measure(name, dtype, options.step, options.count)
            numbers = _number(found.worst), _number(found.other), _number(found.time), _number(found.other_time)
            print(
                f"{name:16} {dtype.name:8} {numbers[0]:>8} {numbers[1]:>8} {numbers[2]:>6} {numbers[3]:>6}"
                f"   {', '.join(map(repr, found.place))}",
                flush=True,
            )
            lines.append(f"| {name} | {dtype.name} | {' | '.join(numbers)} |")
    if options.write:
        text = _DOCUMENT.read_text(encoding="utf-8")
        before, _, rest = text.partition(_BEGIN)
        after = rest.partition(_END)[2]
        _DOCUMENT.write_text(before + _BEGIN + "\n".join(lines) + "\n" + _END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
