"""The compiler: bounded caches, a late import, and what happens without llvmlite."""

import gc
import os
import platform
import subprocess
import sys
import threading
import time
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

from phonograd.core.base import settings
from phonograd.core.base.errors import NoCompilerWarning
from phonograd.core.base.settings import CPU_LEVELS
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul, permute
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import kernel_cache, objects, prebuilt

FLOAT32 = np.dtype("float32")


def _chain(length: int) -> NativeProgram:
    x = leaf(0, (9,), FLOAT32)
    value = x
    for _ in range(length):
        value = value * value + x
    return NativeProgram([value], lambda node: False)


def test_kernels_are_remembered() -> None:
    _chain(3)
    before = kernel_cache.statistics.snapshot()
    _chain(3)
    after = kernel_cache.statistics.snapshot()
    assert after["kernels_compiled"] == before["kernels_compiled"]
    assert after["kernels_found"] == before["kernels_found"] + 1


def test_the_cache_is_bounded_and_forgotten_code_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    # kernels of other tests would be improved by this compiler, and keep its code alive
    kernel_cache.wait_for_tier_up()
    monkeypatch.setattr(kernel_cache, "KERNEL_LIMIT", 4)
    monkeypatch.setattr(kernel_cache, "LIBRARY_SIZE", 2)
    kernels = kernel_cache._KernelCache()
    monkeypatch.setattr(kernel_cache, "_kernels", kernels)
    first = _chain(1)
    library = weakref.ref(next(iter(kernels._kernels.values()))._memory[0])
    for length in range(2, 9):
        _chain(length)
    assert len(kernels._kernels) == 4
    data = np.ones(9, np.float32)
    # a plan keeps its kernels, whatever the cache has forgotten
    assert np.array_equal(first.run([data])[0], data * 2)
    assert library() is not None
    del first
    gc.collect()
    assert library() is None


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names processors of that family")
@pytest.mark.parametrize("level", CPU_LEVELS)
def test_the_processor_does_not_matter(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    x = leaf(0, (37, 29), FLOAT32)
    value = REGISTRY["tanh"](x * x) * REGISTRY["exp"](x)
    product = matmul(value, permute(x, (1, 0)))
    targets = [value, product, *[REGISTRY["_sum_to"](value, shape=shape) for shape in ((29,), (37, 1), ())]]
    data = np.random.default_rng(0).normal(size=(37, 29)).astype(np.float32)
    here = NativeProgram(targets, lambda node: False).run([data])

    monkeypatch.setattr(settings, "_fixed", {})
    # down to the first processor of the family: no wide vectors, no fused multiply-add
    with settings.override(cpu_level=level, cache_directory=""):
        monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
        there = NativeProgram(targets, lambda node: False).run([data])
    assert [array.tobytes() for array in here] == [array.tobytes() for array in there]


def test_improving_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    x = leaf(0, (41, 37), FLOAT32)
    value = REGISTRY["tanh"](x * x) * REGISTRY["exp"](x)
    product = matmul(value, permute(x, (1, 0)))
    targets = [value, product, *[REGISTRY["_sum_to"](value, shape=shape) for shape in ((37,), (41, 1), ())]]
    program = NativeProgram(targets, lambda node: False)
    data = np.random.default_rng(0).normal(size=(41, 37)).astype(np.float32)
    quick = [array.tobytes() for array in program.run([data])]
    before = [kernel.address for kernel in program.kernels.values()]
    for kernel in program.kernels.values():
        kernel_cache._cache().improve(kernel)
    after = [kernel.address for kernel in program.kernels.values()]
    assert all(old != new for old, new in zip(before, after, strict=True))
    assert [array.tobytes() for array in program.run([data])] == quick


def test_what_is_run_again_is_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    program = _chain(11)
    (kernel,) = program.kernels.values()
    data = np.ones(9, np.float32)
    before = kernel_cache.statistics.kernels_improved
    for _ in range(2):
        assert kernel.improvable
        expected = program.run([data])[0].tobytes()
    while kernel.improvable:
        time.sleep(0.001)
        assert program.run([data])[0].tobytes() == expected
    assert kernel_cache.statistics.kernels_improved == before + 1


def test_much_work_is_compiled_in_full_at_once() -> None:
    def kernels(rows: int) -> list[kernel_cache.Kernel]:
        x = leaf(0, (rows, 1000), np.dtype("float64"))
        value = REGISTRY["exp"](x * x * x + x + float(rows))
        return list(NativeProgram([value], lambda node: False).kernels.values())

    assert [kernel.improvable for kernel in kernels(1_000_000)] == [False]
    # the same kernel serves other sizes, as good as it is
    assert [kernel.improvable for kernel in kernels(50)] == [False]


def test_a_program_may_end_while_kernels_are_improved() -> None:
    code = (
        "import numpy as np\n"
        "from phonograd.core.plan.native_program import NativeProgram\n"
        "from phonograd.core.ops.math.structural import leaf\n"
        "from phonograd.core.graph.operator import REGISTRY\n"
        "x = leaf(0, (9,), np.dtype('float32'))\n"
        "for length in range(1, 12):\n"
        "    value = x\n"
        "    for _ in range(length):\n"
        "        value = REGISTRY['tanh'](value) * x\n"
        "    program = NativeProgram([value], lambda node: False)\n"
        "    for _ in range(3):\n"
        "        program.run([np.ones(9, np.float32)])\n"
    )
    environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": ""}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_can_compile_and_improve() -> None:
    program = _chain(13)
    data = np.ones(9, np.float32)
    for _ in range(3):
        expected = program.run([data])[0]
    child = os.fork()
    if child == 0:
        try:
            other = _chain(14)
            for _ in range(3):
                other.run([data])
            (kernel,) = other.kernels.values()
            end = time.monotonic() + 20
            while kernel.improvable and time.monotonic() < end:
                time.sleep(0.01)
            fine = not kernel.improvable and np.array_equal(program.run([data])[0], expected)
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _product(size: int) -> NativeProgram:
    x = leaf(0, (size, size), FLOAT32)
    return NativeProgram([REGISTRY["tanh"](matmul(x * x, x)) + REGISTRY["exp"](x)], lambda node: False)


def test_much_work_is_compiled_while_the_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[object, str]] = []
    write = objects.write

    def noted(structure: Any, name: str) -> str:
        written.append((structure, threading.current_thread().name))
        return write(structure, name)

    monkeypatch.setattr(objects, "write", noted)
    monkeypatch.setattr(prebuilt, "find", lambda *arguments: None)
    results = []
    for threads in (1, 3):
        monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
        written.clear()
        before = kernel_cache.statistics.snapshot()
        with settings.override(num_threads=threads):
            program = _product(2048)
        after = kernel_cache.statistics.snapshot()
        # each kernel once, whoever compiled it
        assert len({structure for structure, _ in written}) == len(written) == len(program.kernels)
        assert after["kernels_compiled"] == before["kernels_compiled"] + len(written)
        names = {name for _, name in written}
        assert ("phonograd compiler" in names) == (threads > 1)
        assert not all(kernel.improvable for kernel in program.kernels.values())
        results.append(program.run([np.full((2048, 2048), 1e-3, np.float32)])[0].tobytes())
    assert results[0] == results[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_can_be_forked_while_another_thread_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    with settings.override(num_threads=2):
        structures = list(_product(2048).work)
        monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
        for structure in structures:
            kernel_cache.precompile(structure, 0)
        child = os.fork()
        if child == 0:
            try:
                found = kernel_cache.kernels(dict.fromkeys(structures, 0))
                os._exit(0 if len(found) == len(structures) else 1)
            finally:
                os._exit(2)
        assert len(kernel_cache.kernels(dict.fromkeys(structures, 0))) == len(structures)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_new_sizes_compile_nothing() -> None:
    def step(batch: int, length: int, hidden: int) -> None:
        leaves = [leaf(number, (batch, hidden), FLOAT32) for number in range(length)]
        weight, bias = leaf(100, (hidden, hidden), FLOAT32), leaf(101, (hidden,), FLOAT32)
        state = leaf(102, (batch, hidden), FLOAT32)
        for x in leaves:
            state = REGISTRY["tanh"](matmul(state, weight) + x + bias)
        targets = [REGISTRY["_sum_to"](state * state, shape=shape) for shape in ((), (hidden,), (batch, 1))]
        program = NativeProgram(targets, lambda node: False)
        for value in program.run([np.ones(node.shape, np.float32) for node in program.inputs]):
            assert np.all(np.isfinite(value))

    step(4, 3, 5)
    before = kernel_cache.statistics.kernels_compiled
    for sizes in ((8, 3, 5), (4, 9, 5), (33, 2, 17), (3, 20, 64)):
        step(*sizes)
    assert kernel_cache.statistics.kernels_compiled == before


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, phonograd.core.plan.native_program as p, numpy as np\n"
        "loaded = lambda: 'llvmlite' in sys.modules or p.kernel_cache._kernels and p.kernel_cache._kernels.objects._compiler\n"
        "assert not loaded()\n"
        "from phonograd.core.ops.math.structural import leaf\n"
        "x = leaf(0, (2,), np.dtype('float32'))\n"
        "program = p.NativeProgram([x + 1.0], lambda node: False)\n"
        "assert loaded()\n"
        "print(program.run([np.ones(2, np.float32)])[0])\n"
    )
    environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": ""}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout == "[2. 2.]\n"


def test_without_llvmlite_numpy_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setattr(kernel_cache, "_kernels", None)
    monkeypatch.setattr(kernel_cache, "_missing", None)
    x = leaf(0, (2, 3), FLOAT32)
    value = REGISTRY["exp"](x) * x
    target = REGISTRY["_sum_to"](value, shape=(3,))
    with pytest.warns(NoCompilerWarning, match="pip install llvmlite"):
        program = NativeProgram([target], lambda node: False)
    data = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    assert np.array_equal(program.run([data])[0], (np.exp(data) * data).sum(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(NativeProgram([target], lambda node: False, keep_all=True).kept) == 3
    with pytest.raises(RuntimeError, match="without llvmlite"):
        kernel_cache.compile_text("", "")
