"""Kernels themselves: they touch no memory outside of their operands, and can be divided."""

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import pytest

from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.fused.writer import write
from phonograd.core.kernels.structure import (
    SPLAT,
    STRIDE,
    UNIT,
    Compute,
    Fold,
    Load,
    Store,
    Structure,
)
from phonograd.core.lower.ir.emitter import ROW, Emitter
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import kernel_cache
from phonograd.core.run.driver import Row

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")

ADD = Compute("broadcast_add", (), (0, 1), FLOAT32)


def launch(structure: Structure, extents: list[int], operands: list[list[int]], arrays: list[Any], span: int) -> None:
    """Run one kernel; each operand is (array, byte offset, strides...)."""
    table = [*extents, *[word for operand in operands for word in operand]]
    Row([(kernel_cache.kernel(structure), table, span, max(span, 1))], len(arrays)).run(tuple(arrays))


@pytest.mark.parametrize("size", [0, 1, 3, 15, 16, 17, 31, 64, 65, 100])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_nothing_is_written_outside(size: int, dtype: np.dtype) -> None:
    step = Compute("exp", (), (0,), dtype)
    lanes = ROW // (dtype.itemsize // 4)
    structure = Structure("K", lanes, (Load(dtype, UNIT),), (), (step,), (Store(1),))
    source = np.linspace(-1, 1, size).astype(dtype)
    memory = np.full(size + 80, 7, dtype)
    launch(structure, [size], [[0, 0, 1], [1, 40 * dtype.itemsize, 1]], [source, memory], size)
    assert np.all(memory[:40] == 7)
    assert np.all(memory[40 + size :] == 7)
    np.testing.assert_allclose(memory[40 : 40 + size], np.exp(source), rtol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages by Linux's mprotect")
@pytest.mark.parametrize("size", [1, 5, 16, 33])
def test_nothing_is_read_outside(size: int) -> None:
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(memory, np.float32)
    start = whole.ctypes.data
    whole[:] = 1
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    try:
        # the last element before the page that cannot be touched
        last = page // 4
        ends = {}
        for access, stride in ((UNIT, 1), (STRIDE, 2), (STRIDE, -1)):
            first = last - size if stride == 1 else last - 2 * size + 1 if stride == 2 else last - 1
            structure = Structure("K", ROW, (Load(FLOAT32, access), Load(FLOAT32, SPLAT)), (), (ADD,), (Store(2),))
            out = np.empty(size, np.float32)
            operands = [[0, 4 * first, stride], [0, 4 * (last - 1), 0], [1, 0, 1]]
            launch(structure, [size], operands, [whole, out], size)
            ends[access, stride] = out
        for out in ends.values():
            assert np.all(out == 2)
    finally:
        libc.mprotect(ctypes.c_void_p(start + page), page, mmap.PROT_READ | mmap.PROT_WRITE)


def _call(structure: Structure, table: list[int], arrays: list[np.ndarray], ranges: list[tuple[int, int]]) -> None:
    """Call a kernel directly, once for each range."""
    words = np.array(table, np.int64)
    bases = np.array([array.ctypes.data for array in arrays], np.int64)
    kernel = kernel_cache.kernel(structure)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(kernel.address)
    for low, high in ranges:
        function(words.ctypes.data, bases.ctypes.data, low, high)


@pytest.mark.parametrize(
    ("axes", "extents", "strides", "out_strides"),
    [
        ("K", [100], [1], [1]),
        ("KK", [37, 29], [29, 1], [29, 1]),
        ("KR", [37, 29], [29, 1], [1, 0]),
        ("RK", [37, 29], [29, 1], [0, 1]),
        ("RKR", [5, 37, 29], [37 * 29, 29, 1], [0, 1, 0]),
    ],
)
def test_a_divided_range_gives_the_same_bits(
    axes: str, extents: list[int], strides: list[int], out_strides: list[int]
) -> None:
    source = np.random.default_rng(0).normal(size=extents).astype(np.float32)
    folds = "R" in axes
    structure = Structure(
        axes,
        ROW,
        (Load(FLOAT32, UNIT),),
        (),
        (Compute("tanh", (), (0,), FLOAT32), *([Fold("_sum_to", 1, FLOAT32)] if folds else [])),
        (Store(2, row=True) if folds else Store(1),),
        axes.index("K"),
    )
    table = [*extents, 0, 0, *strides, 1, 0, *out_strides]
    axis = structure.range_axis
    assert axis is not None
    extent = extents[axis]
    size = int(np.prod([n for n, kind in zip(extents, axes) if kind == "K"]))
    whole, parts = np.zeros(size, np.float32), np.zeros(size, np.float32)
    _call(structure, table, [source, whole], [(0, extent)])
    _call(structure, table, [source, parts], [(20, extent), (7, 20), (0, 7)])
    assert whole.tobytes() == parts.tobytes()


def test_the_text_of_a_kernel() -> None:
    structure = Structure("K", 4, (Load(FLOAT32, UNIT), Load(FLOAT32, SPLAT)), (), (ADD,), (Store(2),))
    text = write(structure, "sum")
    assert "define void @sum(ptr %table, ptr %bases, i64 %lo, i64 %hi) nounwind {" in text
    assert text.count("fadd <4 x float>") == 1
    assert "fast" not in text
    assert "contract" not in text


def test_vectors_divide_a_row() -> None:
    with pytest.raises(ValueError, match="do not divide a row"):
        Emitter("wrong", lanes=5)


def test_numbers_are_read_at_run_time() -> None:
    # x + 2 and x + 3 differ in nothing that is compiled
    source = leaf(0, (10,), FLOAT32)
    data = np.arange(10, dtype=np.float32)
    NativeProgram([source + 2.0], lambda node: False)
    before = kernel_cache.statistics.kernels_compiled
    program = NativeProgram([source + 3.0], lambda node: False)
    assert kernel_cache.statistics.kernels_compiled == before
    assert np.array_equal(program.run([data])[0], data + 3)


def test_sizes_are_read_at_run_time() -> None:
    def build(rows: int, columns: int) -> None:
        first, second = leaf(0, (rows, columns), FLOAT32), leaf(1, (columns,), FLOAT32)
        value = REGISTRY["tanh"](first * second)
        targets = [REGISTRY["_sum_to"](value, shape=(columns,)), REGISTRY["_sum_to"](value, shape=(rows, 1))]
        NativeProgram(targets, lambda node: False)

    build(8, 5)
    before = kernel_cache.statistics.kernels_compiled
    for rows, columns in ((9, 5), (100, 50), (2, 17)):
        build(rows, columns)
    assert kernel_cache.statistics.kernels_compiled == before
