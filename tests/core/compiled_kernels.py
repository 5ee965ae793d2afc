"""Every kernel that these tests compile is checked by LLVM's verifier: a wrong module would end the process.

Where llvmlite is missing there is nothing to test here.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from phonograd import settings
from phonograd.core.run import objects

try:
    from llvmlite import binding
except ImportError:
    binding = None
    IGNORED = ["test_*.py"]
else:
    IGNORED = []


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if binding is None:
        # files that the command line names are collected although they are ignored
        pytest.skip("kernels need llvmlite")
    write = objects.write

    def checked(structure: Any, name: str) -> str:
        text = write(structure, name)
        with binding.parse_assembly(text) as module:
            module.verify()
        return text

    monkeypatch.setattr(objects, "write", checked)
    # what comes from the disk is not written, and not checked
    with settings.override(cache_directory=""):
        yield
