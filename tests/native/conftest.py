"""Every kernel that these tests compile is checked by LLVM's verifier: a wrong module would end the process."""

from typing import Any

import pytest

from phonograd.native import jit


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    binding = pytest.importorskip("llvmlite.binding")
    write = jit.write

    def checked(structure: Any, name: str) -> str:
        text = write(structure, name)
        with binding.parse_assembly(text) as module:
            module.verify()
        return text

    monkeypatch.setattr(jit, "write", checked)
