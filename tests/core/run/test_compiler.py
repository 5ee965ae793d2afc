"""The compiler: object files from text, by any number of threads."""

from typing import Any

import pytest

from phonograd.core.run.compiler import FULL, QUICK, Compiler, preload

TEXT = "define void @main(ptr %out) nounwind {\n  store i64 7, ptr %out, align 8\n  ret void\n}\n"


@pytest.mark.parametrize("level", [QUICK, FULL])
def test_code_is_what_llvmlite_emits(level: int) -> None:
    made = Compiler()
    machine = made._machines[QUICK][0]
    if level == QUICK:
        assert made.emit(TEXT, level) == machine.emit_object(made.binding.parse_assembly(TEXT))
    assert made.emit(TEXT, level).startswith(b"\x7fELF")


def test_errors_of_llvm_are_raised() -> None:
    made = Compiler()
    with pytest.raises(RuntimeError, match="parsing error"):
        made.emit("define void @main( {", QUICK)
    assert made.emit(TEXT, QUICK)


def test_code_generators_are_used_again() -> None:
    made = Compiler()
    made.emit(TEXT, QUICK)
    made.emit(TEXT, QUICK)
    assert [len(made._machines[level]) for level in made._machines] == [1]


def test_code_is_generated_without_the_lock_of_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Compiler()
    library = made.binding.ffi.lib
    name = "LLVMPY_TargetMachineEmitToMemory"
    wrapped, locked = getattr(library, name), []

    class Watched:
        def _cfn(self, *arguments: Any) -> Any:
            locked.append(library._lock._lock._is_owned())
            return wrapped._cfn(*arguments)

        def __call__(self, *arguments: Any) -> Any:
            with library._lock:
                return self._cfn(*arguments)

    monkeypatch.setitem(library._fntab, name, Watched())
    code = made.emit(TEXT, QUICK)
    monkeypatch.setattr(made, "_unlocked", False)
    assert made.emit(TEXT, QUICK) == code
    assert locked == [False, True]


def test_loading_it_ahead_changes_nothing() -> None:
    preload()
    preload()
    assert Compiler().emit(TEXT, QUICK)
