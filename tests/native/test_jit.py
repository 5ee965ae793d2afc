"""The compiler: bounded caches, a late import, and what happens without llvmlite."""

import gc
import platform
import subprocess
import sys
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

from phonograd.native import jit
from phonograd.native.program import NativeProgram
from phonograd.operator import REGISTRY
from phonograd.operators.structural import leaf

FLOAT32 = np.dtype("float32")


def _chain(length: int) -> NativeProgram:
    x = leaf(0, (9,), FLOAT32)
    value = x
    for _ in range(length):
        value = value * value + x
    return NativeProgram([value], lambda node: False)


def test_kernels_are_remembered() -> None:
    _chain(3)
    before = jit.statistics.snapshot()
    _chain(3)
    after = jit.statistics.snapshot()
    assert after["kernels_compiled"] == before["kernels_compiled"]
    assert after["kernels_found"] == before["kernels_found"] + 1


def test_the_cache_is_bounded_and_forgotten_code_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite import binding

    monkeypatch.setattr(jit, "KERNEL_LIMIT", 4)
    monkeypatch.setattr(jit, "LIBRARY_SIZE", 2)
    compiler = jit._Compiler(binding)
    monkeypatch.setattr(jit, "_compiler", compiler)
    first = _chain(1)
    library = weakref.ref(next(iter(compiler._kernels.values()))._library)
    for length in range(2, 9):
        _chain(length)
    assert len(compiler._kernels) == 4
    data = np.ones(9, np.float32)
    # a plan keeps its kernels, whatever the cache has forgotten
    assert np.array_equal(first.run([data])[0], data * 2)
    assert library() is not None
    del first
    gc.collect()
    assert library() is None


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names a processor of that family")
def test_the_processor_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite import binding

    x = leaf(0, (37, 29), FLOAT32)
    value = REGISTRY["tanh"](x * x) * REGISTRY["exp"](x)
    targets = [value, *[REGISTRY["_sum_to"](value, shape=shape) for shape in ((29,), (37, 1), ())]]
    data = np.random.default_rng(0).normal(size=(37, 29)).astype(np.float32)
    here = NativeProgram(targets, lambda node: False).run([data])

    # the first processor of the family: no wide vectors, no fused multiply-add
    def oldest(llvm: Any) -> Any:
        return llvm.Target.from_default_triple().create_target_machine(opt=2, cpu="x86-64", features="")

    monkeypatch.setattr(jit, "_target_machine", oldest)
    monkeypatch.setattr(jit, "_compiler", jit._Compiler(binding))
    there = NativeProgram(targets, lambda node: False).run([data])
    assert [array.tobytes() for array in here] == [array.tobytes() for array in there]


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, phonograd.native.program as p, numpy as np\n"
        "assert 'llvmlite' not in sys.modules\n"
        "from phonograd.operators.structural import leaf\n"
        "x = leaf(0, (2,), np.dtype('float32'))\n"
        "program = p.NativeProgram([x + 1.0], lambda node: False)\n"
        "assert 'llvmlite' in sys.modules\n"
        "print(program.run([np.ones(2, np.float32)])[0])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[2. 2.]\n"


def test_without_llvmlite_numpy_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setattr(jit, "_compiler", None)
    monkeypatch.setattr(jit, "_missing", None)
    x = leaf(0, (2, 3), FLOAT32)
    value = REGISTRY["exp"](x) * x
    target = REGISTRY["_sum_to"](value, shape=(3,))
    with pytest.warns(RuntimeWarning, match="pip install llvmlite"):
        program = NativeProgram([target], lambda node: False)
    data = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    assert np.array_equal(program.run([data])[0], (np.exp(data) * data).sum(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(NativeProgram([target], lambda node: False, keep_all=True).kept) == 3
    with pytest.raises(RuntimeError, match="without llvmlite"):
        jit.compile_text("", "")
