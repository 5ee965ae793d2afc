"""Everything works without llvmlite: NumPy evaluates, and a process says once that it would be faster with it.

``make test-reference`` runs all tests this way; here is a handful in processes of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
TIME_LIMIT_SECONDS = 120
GRADIENT = """
import sys
import phonograd as mx
assert "llvmlite" not in sys.modules and "phonograd.core.plan.native_program" not in sys.modules
x = mx.nd.array([1.0, 2.0, 3.0])
x.attach_grad()
for _ in range(3):
    with mx.autograd.record():
        y = (mx.nd.tanh(x) * x).sum()
    y.backward()
    print(*[f"{value:.4f}" for value in x.grad.asnumpy()])
"""
ANSWER = "1.1816 1.1053 1.0247\n" * 3


def run(*arguments: str, executor: str | None = None, blocked: bool = True) -> subprocess.CompletedProcess[str]:
    """Return how a Python process ended."""
    environment = {name: value for name, value in os.environ.items() if name != "PHONOGRAD_EXECUTOR"}
    if executor is not None:
        environment["PHONOGRAD_EXECUTOR"] = executor
    if blocked:
        environment["PYTHONPATH"] = str(TESTS / "without_llvmlite")
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=TESTS.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_SECONDS,
        check=False,
    )


@pytest.mark.parametrize("executor", [None, "auto", "native"])
def test_it_is_said_once_and_computed(executor: str | None) -> None:
    finished = run("-c", GRADIENT, executor=executor)
    assert finished.stdout == ANSWER, finished.stderr
    assert finished.stderr.count("NoCompilerWarning") == 1
    assert finished.stderr.startswith("<string>:8: ")
    assert "pip install llvmlite" in finished.stderr


def test_nothing_is_said_when_numpy_is_asked_for() -> None:
    finished = run("-W", "error", "-c", GRADIENT, executor="reference")
    assert (finished.stdout, finished.stderr) == (ANSWER, "")


def test_nothing_is_said_at_import() -> None:
    finished = run("-W", "error", "-c", "import phonograd as mx; x = mx.nd.array([1.0]) + 1; print(x.shape)")
    assert (finished.stdout, finished.stderr) == ("(1,)\n", "")


def test_the_compiler_is_used_where_there_is_one() -> None:
    pytest.importorskip("llvmlite")
    code = GRADIENT + "assert mx.explain.statistics()['native_calls'] > 0\n"
    finished = run("-W", "error", "-c", code, blocked=False)
    assert (finished.stdout, finished.stderr) == (ANSWER, "")


def test_a_library_that_cannot_be_loaded_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "llvmlite.py").write_text("raise OSError('libllvm.so: cannot open shared object file')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + GRADIENT
    finished = run("-c", code, blocked=False)
    assert finished.stdout == ANSWER, finished.stderr
    assert "cannot open shared object file" in finished.stderr


def test_tests_pass() -> None:
    chosen = ("autograd/test_grad.py", "ndarray/test_indexing.py", "test_runtime.py")
    finished = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", *[f"tests/{name}" for name in chosen], executor="reference"
    )
    assert finished.returncode == 0, finished.stdout
