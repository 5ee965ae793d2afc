"""Prebuilt kernels: found by their text, the same bits as compiled ones, and up to date."""

from __future__ import annotations

import mmap
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base import pace
from phonograd.core.base.assumptions import HAS_GIL
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.kernels.elementwise_loop import ElementwiseLoop
from phonograd.core.kernels.matmul.packing import Packing
from phonograd.core.lower.lowering import Elementwise
from phonograd.core.run import (
    background,
    compiler,
    disk_cache,
    elf_loader,
    host,
    kernel_cache,
    objects,
    prebuilt,
    ufuncs,
)
from phonograd.core.run.compiler import FULL, Compiler, reported_features
from phonograd.core.run.cpu_levels import FEATURES

pytestmark = pytest.mark.skipif(not elf_loader.is_supported(), reason="machine code is loaded by LLVM here")

FLOAT = np.dtype(np.float32)
#: elementwise operators of floating point numbers without parameters
PLAIN: list[Operator] = [
    declared
    for name, declared in sorted(REGISTRY.items())
    if name == declared.name
    and isinstance(declared.lowering, Elementwise)
    and not declared.parameters
    and not name.startswith(("_npi_bitwise", "_select"))
]


def _loop(declared: Operator, lanes: int) -> ElementwiseLoop:
    return ElementwiseLoop(declared.name, (), (FLOAT,) * len(declared.input_names), FLOAT, lanes)


@pytest.mark.parametrize(("level", "lanes"), [("x86-64-v3", 8), ("x86-64-v4", 16), ("aarch64", 4)])
def test_the_package_has_the_kernels_of_its_operators(level: str, lanes: int) -> None:
    linked = prebuilt.read_index(prebuilt.path_of(level).read_bytes()).linked
    missing = [
        declared.name
        for declared in PLAIN
        if "logical" not in declared.name
        and prebuilt.text_digest(_loop(declared, lanes).write(prebuilt.PLACEHOLDER)) not in linked
    ]
    assert not missing, f"{len(missing)} kernels are missing: run `make prebuilt`"


@pytest.mark.skipif(sys.implementation.name != "cpython" or not HAS_GIL, reason="hot functions stay Python here")
def test_the_package_has_the_hot_functions_of_its_sources() -> None:
    """A module with hot functions was changed after ``make prebuilt`` if this fails, be it only a comment."""
    code = (
        "import phonograd.ndarray; from phonograd.core.backward import machine_code; print(machine_code.is_prebuilt())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True\n"


#: a level whose kernels this machine can run, unless its processor is old
LEVEL, LANES = ("aarch64", 4) if platform.machine() == "aarch64" else ("x86-64-v3", 8)
NEEDED = prebuilt.NEEDED[LEVEL]


def test_other_text_is_not_found() -> None:
    text = PACKING.write(prebuilt.PLACEHOLDER)
    assert prebuilt.find(text, NEEDED) is not None
    assert prebuilt.find(f"{text}\n", NEEDED) is None
    assert prebuilt.find(text, FEATURES["x86-64-v2"]) is None
    assert prebuilt.find(text.replace(prebuilt.PLACEHOLDER, "short"), NEEDED, "short") is None


def test_names_are_replaced() -> None:
    name = "k" + "5" * (len(prebuilt.PLACEHOLDER) - 1)
    code = prebuilt.find(PACKING.write(name), NEEDED, name)
    assert code is not None
    assert name.encode() in code
    assert prebuilt.PLACEHOLDER.encode() not in code


def test_another_loop_is_not_found() -> None:
    text = LOOP.write(prebuilt.PLACEHOLDER)
    assert prebuilt.find_linked(prebuilt.text_digest(text), NEEDED)
    assert prebuilt.find_linked(prebuilt.text_digest(text.replace("fmul", "fadd", 1)), NEEDED) is None
    assert prebuilt.find_linked(prebuilt.text_digest(text), FEATURES["x86-64-v2"]) is None


def test_loops_are_compiled_where_no_file_may_be_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    mapping = mmap.mmap

    def refuse(*arguments: Any, **options: Any) -> mmap.mmap:
        if mmap.PROT_READ | mmap.PROT_EXEC in arguments:
            raise PermissionError
        return mapping(*arguments, **options)

    monkeypatch.setattr(elf_loader.mmap, "mmap", refuse)
    file = prebuilt._open(prebuilt.path_of(LEVEL))
    assert file.linked is None
    assert file.places.linked
    monkeypatch.setattr(prebuilt, "_file", lambda features: file)
    assert prebuilt.find_linked(prebuilt.text_digest(LOOP.write(prebuilt.PLACEHOLDER)), NEEDED) is None


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[objects.ObjectCache]:
    """Return a cache of code for which the package brings a kernel and a loop along, found by their descriptions."""
    features = kernel_cache.description().features
    if not prebuilt.has_kernels(features):
        pytest.skip("this processor has no prebuilt kernels")
    writers = "the sources"
    codes, loops, texts = {}, {}, {}
    for structure in (LOOP, PACKING):
        text = structure.write(prebuilt.PLACEHOLDER)
        key, description = prebuilt.text_digest(text), disk_cache.describe(structure)
        assert description is not None
        code = _movable(text) if structure is LOOP else kernel_cache._cache().objects._compile(text, FULL)
        (loops if structure is LOOP else codes)[key] = code
        texts[prebuilt.structure_digest(description, writers)] = key
    path = tmp_path / "kernels.bin"
    path.write_bytes(prebuilt.pack(codes, texts, loops))
    file = prebuilt._open(path)
    monkeypatch.setattr(prebuilt, "_file", lambda _: file)
    monkeypatch.setattr(objects, "source_digests", lambda *_: disk_cache.Sources("whole", writers))
    with mx.settings.override(cache_directory=str(tmp_path)):
        yield objects.ObjectCache(background.Gate())


def _movable(text: str) -> bytes:
    """Return a module as code that depends on no address."""
    from llvmlite import binding

    # it initializes LLVM
    Compiler()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(
        opt=2, cpu="generic" if LEVEL == "aarch64" else LEVEL, reloc="pic", codemodel="small"
    )
    with binding.parse_assembly(text, binding.create_context()) as module:
        return bytes(machine.emit_object(module))


LOOP = _loop(REGISTRY["tanh"], LANES)
PACKING = Packing(FLOAT, LANES, 3, FLOAT)


def test_kernels_are_found_by_their_descriptions(
    described: objects.ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    text = objects.write

    def write(structure: Any, name: str) -> str:
        # helpers may be compiling kernels of earlier tests
        if structure in (LOOP, PACKING):
            written.append(name)
        return text(structure, name)

    monkeypatch.setattr(objects, "write", write)
    assert described.linked(LOOP) is not None
    (packing,) = described.obtain([(PACKING, True)])
    assert not packing.compiled
    # the text, from which a later process compiles it in full, is stored by a helper
    described.finish_keeping()
    assert written == [packing.key]
    assert packing.key is not None
    disk = described.disk_cache()
    assert disk is not None
    stored = disk.load(f"{packing.key}.quick")
    assert stored is not None
    assert packing.code in stored
    assert stored.endswith(text(PACKING, packing.key).encode())
    # a thread for which nothing waits stores it itself
    disk.remove(f"{packing.key}.quick")
    with pace.paced():
        described.obtain([(PACKING, True)])
    assert disk.load(f"{packing.key}.quick") == stored


def test_descriptions_are_not_found_when_sources_have_changed(
    described: objects.ObjectCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    described._writers = "other sources"
    assert described.linked(LOOP) is None
    assert described.linked(LOOP, by_text=True) is not None
    monkeypatch.setattr(prebuilt, "text_digest", lambda text: b"another text")
    assert described.linked(LOOP, by_text=True) is None
    assert [code.compiled for code in described.obtain([(LOOP, False), (PACKING, True)])] == [True, True]


def test_changed_writers_have_another_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("core/kernels/writer.py", "core/plan/planner.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("1", encoding="utf-8")
    monkeypatch.setattr(disk_cache, "_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_STARTED", float("inf"))
    memory = disk_cache.DiskCache(tmp_path / "kept", 1 << 20, "")
    first = disk_cache.source_digests(memory)
    assert first is not None
    assert disk_cache.source_digests(memory) == first, "it is remembered"
    (tmp_path / "core/plan/planner.py").write_text("22", encoding="utf-8")
    second = disk_cache.source_digests(memory)
    assert second is not None
    assert second.whole != first.whole
    assert second.writers == first.writers
    (tmp_path / "core/kernels/writer.py").write_text("22", encoding="utf-8")
    third = disk_cache.source_digests(memory)
    assert third is not None
    assert third.writers != first.writers
    assert third.whole != second.whole


@pytest.mark.parametrize("declared", PLAIN[::4], ids=lambda declared: declared.name)
def test_same_bits_as_compiled_code(declared: Operator) -> None:
    features = kernel_cache.description().features
    if not prebuilt.has_kernels(features):
        pytest.skip("this processor has no prebuilt kernels")
    loop = _loop(declared, LANES)
    name = "k" * len(prebuilt.PLACEHOLDER)
    place = prebuilt.find_linked(prebuilt.text_digest(loop.write(prebuilt.PLACEHOLDER)), NEEDED)
    assert place is not None
    memory = elf_loader.load({name: kernel_cache._cache().objects._compile(loop.write(name), FULL)})
    assert memory is not None
    ufuncs._kept.append(memory)
    results = []
    arrays = [np.random.default_rng(number).normal(size=1000).astype(FLOAT) * 3 for number in range(len(loop.sources))]
    for function in (place, memory.addresses[name]):
        with np.errstate(all="ignore"):
            results.append(ufuncs._make(function, declared.name, loop.sources, loop.dtype)(*arrays))
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the features of other processors are not read")
def test_features_without_llvm() -> None:
    found = reported_features("native")
    assert found is not None
    known = {feature for level in FEATURES.values() for feature in level} - {"64bit", "crc32", "sahf"}
    assert found & known == Compiler().description().features & known
    limited = reported_features("x86-64-v2")
    assert limited is not None
    assert not limited & {"avx", "avx2", "fma"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the features of other processors are not read")
def test_features_of_newer_processors_have_their_names_in_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = "fpu sse4_2 avx2 fma avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx_vnni amx_tile amx_bf16 amx_int8"
    monkeypatch.setattr(compiler, "_processor", lambda text: [f"flags: {flags}"])
    found = reported_features("native")
    assert found is not None
    assert found >= {"avx512vnni", "avx512bf16", "avxvnni", "amx-tile", "amx-bf16", "amx-int8", "sse4.2"}
    assert host._dots(found) == "vnni"


@pytest.mark.skipif(not HAS_GIL, reason="code that starts kernels comes with the package for interpreters with the GIL")
def test_a_first_result_needs_no_compiler(tmp_path: object) -> None:
    if not prebuilt.has_kernels(kernel_cache.description().features):
        pytest.skip("this processor has no prebuilt kernels")
    script = """
import sys
import numpy as np
import phonograd as mx
x = mx.nd.array([[0.1, 0.2], [0.3, 0.4]])
x.attach_grad()
with mx.autograd.record():
    loss = (mx.nd.tanh(x) * 2).sum()
loss.backward()
print(np.allclose(x.grad.asnumpy(), 2 / np.cosh([[0.1, 0.2], [0.3, 0.4]]) ** 2, rtol=1e-5), "llvmlite" in sys.modules)
"""
    command = [sys.executable, "-c", script]
    environment = {"PHONOGRAD_CACHE_DIRECTORY": str(tmp_path), "PATH": ""}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"], found.stdout + found.stderr
