"""Compare matrix products with NumPy and PyTorch, on one thread: ``python -m benchmarks.products [sizes]``.

The clock rate of a processor changes all the time, so a case is measured in units of a fixed NumPy product that runs
right before and after it (processor time; the 30 % quantile of many rounds counts). The columns show shares of
the machine's peak, which is a loop of independent multiplications and additions in registers, measured in the same
units. PyTorch (its BLAS is MKL) runs in its own process, with the same fixed product, alternating with ours, if the
environment variable ``TORCH_PYTHON`` names an interpreter that has it. The last columns are our speed divided by that
of the others. ``--plain`` does not use the matrix unit, ``--narrow`` runs our kernel with vectors of 32 bytes and 16
registers, as on a processor with AVX2; ``--set MOST_PACKED_BYTES=0`` and similar options change constants.

``--errors`` prints errors instead: the root mean square over all elements of random products, in units of half a last
place of the sum of the magnitudes of all terms, for numbers of both signs, and of one sign (the right half).
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from phonograd.core.kernels.launch import Launch
from phonograd.core.kernels.matmul import gemm
from phonograd.core.kernels.matmul.gemm import Gemm
from phonograd.core.kernels.target import Machine
from phonograd.core.lower.pattern import Pattern
from phonograd.core.plan.products import plan_product
from phonograd.core.run import kernel_cache
from phonograd.core.run.driver import Row
from phonograd.core.run.host import host

#: rounds per shape, and seconds per library and round
ROUNDS, SECONDS = 5, 0.1

Array = np.ndarray[Any, Any]
Case = Callable[[], object]


class Shape(NamedTuple):
    """Hold the sizes of a product, and which operands are transposed in memory."""

    rows: int
    terms: int
    columns: int
    lhs_turned: bool = False
    rhs_turned: bool = False
    what: str = ""


SHAPES = [
    Shape(2048, 2048, 2048),
    Shape(1024, 1024, 1024),
    Shape(1024, 1024, 1024, True),
    Shape(1024, 1024, 1024, False, True),
    Shape(1000, 1000, 1000),
    Shape(512, 512, 512),
    Shape(512, 512, 512, True),
    Shape(300, 300, 300),
    Shape(64, 64, 64),
    Shape(512, 256, 768, what="attention, forward"),
    Shape(256, 512, 768, True, what="attention, gradient of a weight"),
    Shape(512, 768, 256, False, True, what="attention, gradient of data"),
    Shape(64, 784, 256, what="mlp, forward"),
    Shape(784, 64, 256, True, what="mlp, gradient of a weight"),
    Shape(64, 256, 128),
    Shape(256, 64, 128, True),
    Shape(64, 128, 256, False, True),
    Shape(64, 128, 10),
    Shape(128, 64, 10, True),
    Shape(64, 10, 128, False, True),
    Shape(32, 128, 512, what="lstm, forward"),
    Shape(128, 32, 512, True, what="lstm, gradient of a weight"),
    Shape(32, 512, 128, False, True, what="lstm, gradient of a state"),
    Shape(1120, 128, 512),
    Shape(128, 1120, 512, True),
    Shape(32, 256, 1024, what="lstm of 256 units, forward"),
    Shape(256, 32, 1024, True),
    Shape(32, 1024, 256, False, True),
    Shape(1120, 256, 1024),
    Shape(256, 1120, 1024, True),
    Shape(1120, 1024, 256, False, True),
    Shape(64, 800, 500, False, True, what="lenet, forward"),
    Shape(500, 64, 800, True, what="lenet, gradient of a weight"),
    Shape(64, 500, 800, what="lenet, gradient of data"),
    Shape(64, 784, 576, False, True),
    Shape(64, 1024, 1024, what="rows that are pages apart"),
    Shape(64, 2048, 512),
    Shape(64, 32, 1, what="regression"),
    Shape(32, 64, 1, True),
    Shape(1, 1000, 1000),
    Shape(1, 1000, 1000, False, True),
    Shape(1000, 1000, 1),
]


def aligned(*shape: int) -> Array:
    """Return an array aligned to a cache line, like those of plans and other libraries."""
    size = int(np.prod(shape))
    memory = np.zeros(size + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + size].reshape(shape)


def operands(shape: Shape) -> tuple[Array, Array]:
    """Return the operands as matrices, transposed in memory as the shape says."""
    random = np.random.default_rng(0)
    lhs = aligned(shape.terms, shape.rows).T if shape.lhs_turned else aligned(shape.rows, shape.terms)
    rhs = aligned(shape.columns, shape.terms).T if shape.rhs_turned else aligned(shape.terms, shape.columns)
    for operand in (lhs, rhs):
        operand[...] = random.standard_normal(operand.shape)
    return lhs, rhs


def ours(shape: Shape, machine: Machine) -> Case:
    """Return our product as a case; the chunks of all launches run one after the other."""
    lhs, rhs = operands(shape)
    return product_of(lhs, rhs, aligned(shape.rows, shape.columns), machine)


def product_of(lhs: Array, rhs: Array, out: Array, machine: Machine) -> Case:
    """Return our product of two matrices as a case."""
    patterns = [Pattern(a.shape, tuple([stride // 4 for stride in a.strides])) for a in (lhs, rhs)]
    how = plan_product(patterns[0], patterns[1], lhs.dtype, machine)
    assert how is not None
    arrays = {"lhs": lhs, "rhs": rhs, "out": out, "scratch": aligned(how.plan.scratch_bytes // 4 + 16)}
    launches: list[tuple[Launch, dict[str, str]]] = []
    for operand, name, packed in how.before:
        arrays[name] = aligned(packed.size // 4)
        launches.append((packed.launch, {"rhs": operand, "out": name}))
    launches += [(launch, {name: name for name in arrays}) for launch in how.plan.launches]
    kernels = kernel_cache.kernels({launch.structure: 1 << 30 for launch, _ in launches})
    numbers = {name: number for number, name in enumerate(arrays)}
    row = []
    for launch, names in launches:
        places = {name: (numbers[array], 0) for name, array in names.items()}
        row.append((kernels[launch.structure], launch.table(places), launch.extent, max(1, launch.extent)))
    return partial(Row(row, len(arrays)).run, tuple(arrays.values()))


def print_errors(shapes: list[Shape], machine: Machine) -> None:
    """Print the errors of some products, with the matrix unit, without it, and of NumPy."""
    print(f"{'rows, terms, columns':32}" + "".join([f"{name:>8}" for name in ("ours", "plain", "numpy") * 2]))
    for shape in shapes:
        line = f"{f'{shape.rows}, {shape.terms}, {shape.columns}':32}"
        for one_sign in (False, True):
            lhs, rhs = [np.abs(operand) if one_sign else operand for operand in operands(shape)]
            exact, scale = [
                (a.astype(np.float64) @ b.astype(np.float64)) for a, b in ((lhs, rhs), map(np.abs, (lhs, rhs)))
            ]
            results = [np.matmul(lhs, rhs)]
            for kind in (machine._replace(matrix_unit=False), machine):
                out = aligned(shape.rows, shape.columns)
                product_of(lhs, rhs, out, kind)()
                results.insert(0, out)
            found = [np.sqrt(np.mean(((result - exact) / scale) ** 2)) * 2.0**24 for result in results]
            line += "".join([f"{value:8.2f}" for value in found])
        print(line, flush=True)


def peak_text(machine: Machine) -> str:
    """Return the text of a kernel that multiplies and adds in registers: ``hi`` rounds of several sums."""
    lanes, sums = machine.vector_bytes // 4, 24 if machine.registers >= 32 else 12
    kind = f"<{lanes} x float>"
    name = f"@llvm.fma.v{lanes}f32"
    phis = [f"%s{k} = phi {kind} [ zeroinitializer, %entry ], [ %n{k}, %loop ]" for k in range(sums)]
    rounds = [f"%n{k} = call {kind} {name}({kind} %s{k}, {kind} %x, {kind} %y)" for k in range(sums)]
    total = [f"%t{k} = fadd {kind} %n{k}, {f'%t{k - 1}' if k else '%n0'}" for k in range(sums)]
    return "\n".join(
        [
            f"declare {kind} {name}({kind}, {kind}, {kind})",
            "define void @peak(ptr %table, ptr %bases, i64 %lo, i64 %hi) {",
            "entry:",
            "%base = load ptr, ptr %bases",
            f"%x = load {kind}, ptr %base, align 4",
            f"%y = load {kind}, ptr %base, align 4",
            "br label %loop",
            "loop:",
            "%i = phi i64 [ %lo, %entry ], [ %j, %loop ]",
            *phis,
            *rounds,
            "%j = add i64 %i, 1",
            "%more = icmp slt i64 %j, %hi",
            "br i1 %more, label %loop, label %over",
            "over:",
            *total,
            f"store {kind} %t{sums - 1}, ptr %base, align 4",
            "ret void",
            "}",
        ]
    )


def peak(machine: Machine) -> tuple[Case, float]:
    """Return the case of the peak, and its number of operations."""
    rounds, sums = 20_000, 24 if machine.registers >= 32 else 12
    kernel = kernel_cache.compile_text(peak_text(machine), "peak")
    row = Row([(kernel, [0], rounds, rounds)], 1)
    return partial(row.run, (np.zeros(16, np.float32),)), 2.0 * rounds * sums * machine.vector_bytes / 4


#: the measurement, for this process and for the one that has PyTorch
MEASURE = """
import time
import numpy as np

_square = np.random.default_rng(0).standard_normal((160, 160)).astype(np.float32)
_out = np.zeros_like(_square)


def unit(repeats=4):
    # the first call warms the cache
    np.matmul(_square, _square, out=_out)
    start = time.thread_time()
    for _ in range(repeats):
        np.matmul(_square, _square, out=_out)
    return (time.thread_time() - start) / repeats


def rounds(case, seconds):
    case()
    start = time.perf_counter()
    case()
    repeats = max(1, int(200e-6 / max(time.perf_counter() - start, 1e-7)))
    found, stop = [], time.perf_counter() + seconds
    while len(found) < 3 or time.perf_counter() < stop:
        before = unit()
        start = time.thread_time()
        for _ in range(repeats):
            case()
        spent = (time.thread_time() - start) / repeats
        found.append(2 * spent / (before + unit()))
    return found
"""

TORCH = (
    MEASURE
    + """
import json, sys, torch
torch.set_num_threads(1)
for line in sys.stdin:
    rows, terms, columns, lhs_turned, rhs_turned, seconds = json.loads(line)
    x = torch.randn(terms, rows).T if lhs_turned else torch.randn(rows, terms)
    y = torch.randn(columns, terms).T if rhs_turned else torch.randn(terms, columns)
    out = torch.zeros(rows, columns)
    print(json.dumps(rounds(lambda: torch.mm(x, y, out=out), seconds)), flush=True)
"""
)

_measure: dict[str, Any] = {}
exec(MEASURE, _measure)


class Torch:
    """Time PyTorch in its own process."""

    def __init__(self, python: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([python, "-W", "ignore", "-c", TORCH], stdin=pipe, stdout=pipe, text=True)

    def rounds(self, shape: Shape) -> list[float]:
        """Return the times of a product, in units."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([*shape[:5], SECONDS]) + "\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return found


def measured(cases: dict[str, Callable[[], list[float]]]) -> dict[str, float]:
    """Return the time of every case, in units."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            times[name] += case()
    return {name: float(np.quantile(found, 0.3)) for name, found in times.items()}


def rounds(case: Case) -> list[float]:
    """Return the times of a case, in units."""
    found: list[float] = _measure["rounds"](case, SECONDS)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.products", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sizes", nargs="*", help="which to run, as in 64x784x256 (default: all)")
    parser.add_argument("--plain", action="store_true", help="without the matrix unit")
    parser.add_argument("--errors", action="store_true", help="errors instead of speeds")
    parser.add_argument("--narrow", action="store_true", help="vectors of 32 bytes, 16 registers")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=NUMBER", help="constants of phonograd.core.kernels.matmul.gemm"
    )
    arguments = parser.parse_args()
    for setting in arguments.set:
        name, number = setting.split("=")
        assert hasattr(gemm, name), name
        setattr(gemm, name, int(number))
    machine = Machine(32, 16) if arguments.narrow else host()
    machine = machine._replace(matrix_unit=machine.matrix_unit and not arguments.plain)
    shapes = [
        shape
        for shape in SHAPES
        if not arguments.sizes or "x".join([str(size) for size in shape[:3]]) in arguments.sizes
    ]
    if arguments.errors:
        print_errors(shapes, machine)
        return
    torch = Torch(os.environ["TORCH_PYTHON"]) if os.environ.get("TORCH_PYTHON") else None
    loop, operations = peak(machine)
    peers = ["numpy", *(["torch"] if torch else [])]
    kernel = Gemm(np.dtype(np.float32), machine)
    print(f"tiles of {kernel.tile_rows} x {kernel.panel}; shares of the peak, and our speed / others")
    heads = ["ours", *peers, *[f"/{name}" for name in peers]]
    print(f"{'rows, terms, columns':32}" + "".join([f"{head:>8}" for head in heads]))
    for shape in shapes:
        lhs, rhs = operands(shape)
        out = aligned(shape.rows, shape.columns)
        cases: dict[str, Callable[[], list[float]]] = {
            "peak": partial(rounds, loop),
            "ours": partial(rounds, ours(shape, machine)),
            "numpy": partial(rounds, partial(np.matmul, lhs, rhs, out=out)),
        }
        if torch:
            cases["torch"] = partial(torch.rounds, shape)
        times = measured(cases)
        flops = 2.0 * shape.rows * shape.terms * shape.columns
        speeds = {name: flops / times[name] * times["peak"] / operations for name in ("ours", *peers)}
        turned = f"{' lhs^T' if shape.lhs_turned else ''}{' rhs^T' if shape.rhs_turned else ''}"
        line = f"{f'{shape.rows}, {shape.terms}, {shape.columns}{turned}':32}"
        line += "".join([f"{speed:8.2f}" for speed in speeds.values()])
        line += "".join([f"{speeds['ours'] / speeds[name]:8.2f}" for name in peers])
        print(f"{line}  {shape.what}", flush=True)


if __name__ == "__main__":
    main()
