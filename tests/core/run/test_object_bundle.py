"""Kernels in several object files: inner functions are compiled in full, and no bit changes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.launch import INNER
from phonograd.core.kernels.matmul.gemm import Gemm
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import elf_loader, kernel_cache, objects, prebuilt
from phonograd.core.run.compiler import FULL, QUICK, Compiler, Library
from phonograd.core.run.host import host
from phonograd.core.run.object_bundle import bundle, object_files, split_module

FLOAT32 = np.dtype("float32")

#: an inner function with constants of its own, called twice, and a function of C's library
TEXT = f"""declare double @fmod(double, double)
{INNER}define internal void @main_inner(ptr %out, double %x) nounwind {{
  %y = fmul double %x, 2.5
  store double %y, ptr %out, align 8
  ret void
}}
define void @main(ptr %out, double %x) nounwind {{
  call void @main_inner(ptr %out, double %x)
  %y = load double, ptr %out, align 8
  %z = call double @fmod(double %y, double 10.0)
  call void @main_inner(ptr %out, double %z)
  ret void
}}
"""


def _called(address: int, x: float) -> float:
    out = ctypes.c_double()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_double)(address)(ctypes.addressof(out), x)
    return out.value


@pytest.fixture(scope="module")
def code() -> bytes:
    parts, compiler = split_module(TEXT), Compiler()
    assert parts is not None
    outer, inner = parts
    assert "main_inner(ptr, double)" in outer
    assert "@main(" not in inner
    return bundle([compiler.emit(outer, QUICK), compiler.emit(inner, FULL)])


@pytest.mark.skipif(not elf_loader.is_supported(), reason="LLVM loads machine code here")
def test_files_of_a_bundle_call_each_other_in_an_image(code: bytes) -> None:
    alone = Compiler().emit(TEXT.replace("main", "other"), QUICK)
    found = elf_loader.load({"main": code, "other": alone})
    assert found is not None
    assert [_called(found.addresses[name], 5.0) for name in ("main", "other")] == [6.25, 6.25]


def test_files_of_a_bundle_call_each_other_where_llvm_loads_them(code: bytes) -> None:
    library = Library(Compiler().binding)
    library.add({"main": code})
    assert _called(library.addresses["main"], 5.0) == 6.25


@pytest.mark.skipif(not elf_loader.is_supported(), reason="LLVM loads machine code here")
def test_bundles_that_are_cut_off_are_not_loaded(code: bytes) -> None:
    assert len(object_files(code)) == 2
    outer, inner = object_files(code)
    assert elf_loader.load({"main": bundle([inner, outer])}) is not None
    assert elf_loader.load({"main": outer}) is None, "it calls what is not there"
    for end in (len(code) - 1, len(code) // 2, len(outer) // 2, 20):
        assert elf_loader.load({"main": code[:end]}) is None


def test_tiles_of_products_are_inner_functions() -> None:
    parts = split_module(Gemm(FLOAT32, host()).write("kernel"))
    assert parts is not None
    rows = Gemm(FLOAT32, host()).tile_rows
    assert f"define void @kernel_tile_{rows}_3(" in parts[1]
    assert "@kernel_tile_1_1(" not in parts[1]
    assert "define void @kernel(" in parts[0]
    assert f"declare void @kernel_tile_{rows}_3(i64, ptr noalias, " in parts[0]


def test_kernels_without_inner_functions_are_one_file() -> None:
    assert split_module("define void @kernel() nounwind {\n  ret void\n}\n") is None


def _programs() -> dict[str, list[Any]]:
    x, w = leaf(0, (41, 37), FLOAT32), leaf(1, (37, 50), FLOAT32)
    data, weight = leaf(0, (2, 8, 12, 12), FLOAT32), leaf(1, (16, 8, 3, 3), FLOAT32)
    few, thin = leaf(0, (2, 1, 20, 20), FLOAT32), leaf(1, (2, 1, 5, 5), FLOAT32)
    convolution, options = REGISTRY["Convolution"], {"no_bias": True}
    return {
        "product": [matmul(x, w)],
        "3x3": [convolution(data, weight, kernel=(3, 3), num_filter=16, pad=(1, 1), **options)],
        "strided": [convolution(data, weight, kernel=(3, 3), num_filter=16, stride=(2, 2), **options)],
        "few": [convolution(few, thin, kernel=(5, 5), num_filter=2, **options)],
    }


@pytest.mark.skipif(not elf_loader.is_supported(), reason="LLVM loads machine code here")
@pytest.mark.parametrize("name", sorted(_programs()))
def test_bits_do_not_depend_on_how_parts_are_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results, bundles = [], []
    monkeypatch.setattr(prebuilt, "find", lambda *arguments: None)
    for way in ("inner in full", "all quickly", "all in full"):
        monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
        with monkeypatch.context() as patch:
            if way == "all quickly":
                patch.setattr(objects, "split_module", lambda text: None)
            if way == "all in full":
                patch.setattr(kernel_cache, "_is_quick", lambda work: False)
            else:
                patch.setattr(kernel_cache, "_is_quick", lambda work: True)
            patch.setattr(objects, "bundle", lambda parts: bundles.append(len(parts)) or bundle(parts))
            targets = _programs()[name]
            program = NativeProgram(targets, lambda node: False)
            chance = np.random.default_rng(0)
            arrays = [chance.normal(size=node.shape).astype(np.float32) for node in program.inputs]
            results.append([array.tobytes() for array in program.run(arrays)])
    assert results[0] == results[1] == results[2]
    assert bundles, "nothing was compiled in parts"
    assert set(bundles) == {2}
