"""Machine code that is put into memory without LLVM: the same functions, or none at all."""

from __future__ import annotations

import ctypes
import gc
import platform
import random
import weakref
from pathlib import Path

import pytest

from phonograd.core.run import elf_loader
from phonograd.core.run.compiler import FULL, QUICK, Compiler

pytestmark = pytest.mark.skipif(not elf_loader.is_supported(), reason="LLVM loads machine code here")

#: constants, a table of functions, memory of its own, and a function of C's library
TEXT = """
@table = internal constant [2 x ptr] [ptr @twice, ptr @thrice]
@count = internal global i64 40
@room = internal global [5 x i64] zeroinitializer
declare double @fmod(double, double)
define internal double @twice(double %x) {
  %y = fmul double %x, 2.0
  ret double %y
}
define internal double @thrice(double %x) {
  %y = fmul double %x, 3.0
  ret double %y
}
define double @main(i64 %which, double %x) {
  %place = getelementptr ptr, ptr @table, i64 %which
  %function = load ptr, ptr %place
  %y = call double %function(double %x)
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  store i64 %new, ptr getelementptr (i64, ptr @room, i64 4)
  %z = frem double %y, 10.0
  %copy = load i64, ptr getelementptr (i64, ptr @room, i64 4)
  %counted = sitofp i64 %copy to double
  %sum = fadd double %z, %counted
  ret double %sum
}
"""


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler()


@pytest.mark.parametrize("level", [QUICK, FULL])
def test_functions_tables_and_memory(compiler: Compiler, level: int) -> None:
    found = elf_loader.load({"main": compiler.emit(TEXT, level)})
    assert found is not None
    main = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(found.addresses["main"])
    assert main(0, 7.0) == 4.0 + 41
    assert main(1, 7.0) == 1.0 + 42


def test_several_files_in_one_image(compiler: Compiler) -> None:
    texts = {f"f{number}": f"define i64 @f{number}() {{\n  ret i64 {number}\n}}\n" for number in range(40)}
    found = elf_loader.load({name: compiler.emit(text, QUICK) for name, text in texts.items()})
    assert found is not None
    assert [ctypes.CFUNCTYPE(ctypes.c_int64)(found.addresses[f"f{n}"])() for n in range(40)] == list(range(40))


def test_memory_is_returned_with_the_image(compiler: Compiler) -> None:
    found = elf_loader.load({"main": compiler.emit(TEXT, QUICK)})
    assert found is not None
    # whose end is that of the mapping
    memory = weakref.ref(found._memory)
    assert memory() is not None
    del found
    gc.collect()
    assert memory() is None


def test_code_cannot_be_written_to(compiler: Compiler) -> None:
    found = elf_loader.load({"main": compiler.emit(TEXT, QUICK)})
    assert found is not None
    with open("/proc/self/maps", encoding="ascii") as lines:
        kinds = [line.split()[1] for line in lines if _range(line)[0] <= found.addresses["main"] < _range(line)[1]]
    assert kinds == ["r-xp"]


def _range(line: str) -> tuple[int, int]:
    low, high = line.split()[0].split("-")
    return int(low, 16), int(high, 16)


def test_what_is_not_known_is_left_to_llvm(compiler: Compiler) -> None:
    code = compiler.emit(TEXT, QUICK)
    assert elf_loader.load({"other": code}) is None, "there is no function of this name"
    assert elf_loader.load({"main": b""}) is None
    assert elf_loader.load({"main": code[: len(code) // 2]}) is None
    assert elf_loader.load({"main": code.replace(b"fmod\0", b"fmox\0")}) is None, "there is no such function"
    for machine in (3, 62, 183):
        if machine != code[18]:
            assert elf_loader.load({"main": code[:18] + bytes([machine, 0]) + code[20:]}) is None
    if platform.machine() == "aarch64":
        # LLVM writes no code for the model that loaded code has
        return
    one_per_thread = (
        "@own = thread_local global i64 5\ndefine i64 @main() {\n  %x = load i64, ptr @own\n  ret i64 %x\n}\n"
    )
    assert elf_loader.load({"main": compiler.emit(one_per_thread, QUICK)}) is None


def test_damage_is_noticed_or_harmless(compiler: Compiler) -> None:
    """Whatever the heads and tables of a file say, nothing is read or written outside of it and of the image."""
    code, chance = compiler.emit(TEXT, QUICK), random.Random(0)
    for _ in range(2000):
        damaged = bytearray(code)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(code))] = chance.randrange(256)
        elf_loader.load({"main": bytes(damaged)})


MOVABLE = """
@table = internal constant [2 x double] [double 2.0, double 3.0]
define double @main(i64 %which, double %x) {
  %place = getelementptr double, ptr @table, i64 %which
  %factor = load double, ptr %place
  %y = fmul double %factor, %x
  ret double %y
}
"""


def test_linked_code_runs_from_a_file(tmp_path: Path) -> None:
    from llvmlite import binding

    target = binding.Target.from_default_triple()
    objects = {}
    for name, text in {"constants": MOVABLE, "memory of its own": TEXT}.items():
        for model in ("small", "large"):
            machine = target.create_target_machine(reloc="pic", codemodel=model)
            with binding.parse_assembly(text, binding.create_context()) as module:
                objects[name, model] = machine.emit_object(module)
    objects["damaged", "small"] = b"\x7fELF"
    code, places = elf_loader.link(objects, "main")
    # the large model of some machines depends on no address, either
    assert {("constants", "small")} <= places.keys() <= {("constants", "small"), ("constants", "large")}
    path = tmp_path / "code"
    path.write_bytes(bytes(elf_loader.MAPPED_IN) + code)
    with path.open("rb") as file:
        mapped = elf_loader.map_code(file.fileno(), elf_loader.MAPPED_IN, len(code))
        assert elf_loader.map_code(file.fileno(), elf_loader.MAPPED_IN, 0) is None
        assert elf_loader.map_code(file.fileno(), 1, len(code)) is None
    assert mapped is not None
    for place in places.values():
        main = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(mapped.address + place)
        assert (main(0, 7.0), main(1, 7.0)) == (14.0, 21.0)
