"""LLVM without llvmlite's Python: the same functions, the same code, and what happens with other versions."""

import ctypes
from typing import Any

import pytest
from llvmlite import binding

from phonograd.core.run import compiler, llvm_library
from phonograd.core.run.compiler import FULL, QUICK, Compiler

TEXT = "define void @main(ptr %out) nounwind {\n  store i64 7, ptr %out, align 8\n  ret void\n}\n"

pytestmark = pytest.mark.skipif(llvm_library.version() is None, reason="its functions are not known here")


def _is_alike(ours: Any, theirs: Any) -> bool:
    """Return whether two declarations say the same; addresses are plain here and typed in llvmlite."""
    if ours is ctypes.c_void_p:
        return theirs is ctypes.c_void_p or issubclass(theirs, ctypes._Pointer)
    return ctypes.sizeof(ours) == ctypes.sizeof(theirs) and (ours is theirs or ours._type_ == theirs._type_)


@pytest.mark.parametrize("name", sorted(llvm_library.DECLARATIONS))
def test_functions_are_declared_as_llvmlite_declares_them(name: str) -> None:
    result, arguments = llvm_library.DECLARATIONS[name]
    theirs = getattr(binding.ffi.lib, name)
    assert _is_alike(result, theirs.restype)
    if theirs.argtypes is not None:
        assert len(arguments) == len(theirs.argtypes)
        assert all(_is_alike(ours, other) for ours, other in zip(arguments, theirs.argtypes, strict=True))


@pytest.mark.parametrize("level", [QUICK, FULL])
def test_code_and_description_are_those_of_llvmlite(monkeypatch: pytest.MonkeyPatch, level: int) -> None:
    direct = Compiler()
    monkeypatch.setattr(compiler, "version", lambda: None)
    imported = Compiler()
    assert direct.emit(TEXT, level) == imported.emit(TEXT, level)
    assert direct.description() == imported.description()


@pytest.mark.parametrize("direct", [True, False])
def test_what_llvm_says_about_a_wrong_text_is_told(monkeypatch: pytest.MonkeyPatch, direct: bool) -> None:
    if not direct:
        monkeypatch.setattr(compiler, "version", lambda: None)
    made = Compiler()
    with pytest.raises(RuntimeError, match="parsing error"):
        made.emit("define void @main( {", QUICK)
    assert made.emit(TEXT, QUICK)


def test_code_generators_are_used_again() -> None:
    made = Compiler()
    made.emit(TEXT, QUICK)
    made.emit(TEXT, QUICK)
    assert [len(made._machines[level]) for level in made._machines] == [1]


@pytest.mark.parametrize("text", ["version_version = '99.1.0'\n", "nothing is said here\n"])
def test_other_versions_are_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, text: str) -> None:
    library = tmp_path / "binding" / "libllvmlite.so"
    library.parent.mkdir()
    library.touch()
    (tmp_path / "_version.py").write_text(text)
    monkeypatch.setattr(llvm_library, "path", lambda: str(library))
    assert llvm_library.version() is None
    (tmp_path / "_version.py").write_text(f"version_version = '{llvm_library.VERSIONS[0]}.7'\n")
    assert llvm_library.version() == f"{llvm_library.VERSIONS[0]}.7"


def test_a_library_without_the_functions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_library, "path", lambda: None)
    with pytest.raises(OSError, match="no version of llvmlite"):
        llvm_library.LLVM()


def test_loading_it_ahead_changes_nothing() -> None:
    llvm_library.preload()
    llvm_library.preload()
    assert Compiler().emit(TEXT, QUICK)
