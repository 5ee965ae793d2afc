"""Run plans of launches on NumPy arrays, in one piece or in many, on one thread or on several."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding

from phonograd.core.kernels.launch import Launch, Plan
from phonograd.core.kernels.target import Machine
from phonograd.core.lower.pattern import Pattern
from phonograd.core.plan.products import plan_product
from phonograd.core.run import kernel_cache
from phonograd.core.run.host import host

from ..matrix_unit import emulate, uses_matrix_unit

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_compiled: dict[Any, tuple[kernel_cache.Kernel, Callable[[int, int, int, int], None]]] = {}

#: bytes around every array that no kernel may write
GUARD = 256


def compiled(launch: Launch) -> Callable[[int, int, int, int], None]:
    """Return the function of a launch, checked by LLVM's verifier and compiled once."""
    found = _compiled.get(launch.structure)
    if found is None:
        name = f"planned{len(_compiled)}"
        text = launch.structure.write(name)
        if uses_matrix_unit(text) and not host().matrix_unit:
            text = emulate(text)
        with binding.parse_assembly(text) as module:
            module.verify()
        kernel = kernel_cache.compile_text(text, name)
        found = _compiled[launch.structure] = kernel, _PROTOTYPE(kernel.address)
    return found[1]


def guarded(shape: tuple[int, ...], dtype: Any, fill: int = 0x7F) -> tuple[np.ndarray, np.ndarray]:
    """Return an array and the memory around it, which begins at a multiple of 64 bytes and is filled with a byte.

    Bytes of 0xFF are NaN: what is read without having been written shows.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.full(size + 2 * GUARD + 64, fill, np.uint8)
    start = -raw.ctypes.data % 64
    memory = raw[start : start + size + 2 * GUARD]
    return memory[GUARD : GUARD + size].view(dtype).reshape(shape), memory


def run(
    plan: Plan,
    out: tuple[int, ...],
    pieces: int = 1,
    threads: int = 1,
    out_dtype: Any = None,
    **operands: np.ndarray,
) -> np.ndarray:
    """Return what a plan computes, with every range divided into some pieces, of which threads take turns."""
    dtype = out_dtype or next(iter(operands.values())).dtype
    result, around = guarded(out, dtype, 0xFF)
    scratch, scratch_around = guarded((plan.scratch_bytes,), np.uint8, 0xFF)
    arrays = {"out": result, "scratch": scratch, **{name: np.ascontiguousarray(a) for name, a in operands.items()}}
    bases = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays.values()])
    places = {name: (number, 0) for number, name in enumerate(arrays)}
    for launch in plan.launches:
        function, table = compiled(launch), np.array(launch.table(places), np.int64)
        step = max(1, -(-launch.extent // pieces))
        ranges = [(start, min(start + step, launch.extent)) for start in range(0, launch.extent, step)]
        # pieces in another order: nothing may depend on it
        ranges = ranges[1::2] + ranges[::2]

        def work(first: int, table: Any = table, function: Any = function, ranges: Any = ranges) -> None:
            for start, stop in ranges[first::threads]:
                function(table.ctypes.data, ctypes.addressof(bases), start, stop)

        others = [threading.Thread(target=work, args=(number,)) for number in range(1, threads)]
        for other in others:
            other.start()
        work(0)
        for other in others:
            other.join()
    for memory in (around, scratch_around):
        assert np.all(memory[:GUARD] == 0xFF), "written before the beginning"
        assert np.all(memory[-GUARD:] == 0xFF), "written beyond the end"
    return result


def run_product(
    lhs: np.ndarray,
    rhs: np.ndarray,
    machine: Machine,
    old: np.ndarray | None = None,
    uses: int = 1,
    **options: Any,
) -> np.ndarray:
    """Return the product of matrices, wherever they lie in memory of their own, as a plan for a machine computes it."""
    patterns = [Pattern(a.shape, tuple([stride // a.itemsize for stride in a.strides])) for a in (lhs, rhs)]
    how = plan_product(patterns[0], patterns[1], lhs.dtype, machine, adds=old is not None, uses=uses)
    assert how is not None
    memory = [np.swapaxes(a, -1, -2) if a.strides[-1] != a.itemsize else a for a in (lhs, rhs)]
    operands = {"lhs": memory[0], "rhs": memory[1], **({} if old is None else {"old": old})}
    for operand, name, packed in how.before:
        operands[name] = run(Plan((packed.launch,)), (packed.size // 4,), pieces=2, rhs=operands[operand])
    return run(how.plan, (*lhs.shape[:-1], rhs.shape[-1]), **operands, **options)
