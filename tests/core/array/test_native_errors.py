"""Machine code of operator calls never goes on after an error: every call of Python's C interface is checked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from phonograd import nd, settings
from phonograd.core.trace.owner import MACHINE_CODE
from phonograd.core.trace.trace import LOCAL

from . import machine_code

pytest.importorskip("llvmlite")
native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
if not native_call.possible():
    pytest.skip("this interpreter runs calls in Python", allow_module_level=True)

from phonograd.core.array.fastcall import native_code, native_text  # noqa: E402 - after the skips


@pytest.fixture(autouse=True)
def compiled() -> Any:
    machine_code.install()
    with settings.override(executor="native"):
        yield


OFFSETS = dict.fromkeys(
    (
        *("trace", "node", "buffer", "extras", "marked", "kind", "detached", "shape", "dtype", "context", "operator"),
        *("attributes", "thread", "scalars", "made", "handles", "prune_at", "bound", "leaves", "slots", "targets"),
        *("repeats", "variable", "root", "views", "readonly", "place", "attentive", "type", "item", "vectorcall"),
        *("memory_axes", "memory_extents", "memory_base", "memory_dtype", "entry", "immediate", "on", "listeners"),
        *("sequence", "number", "direct", "limit"),
    ),
    16,
)


def test_a_call_without_a_check_cannot_be_written() -> None:
    f = native_text.Code("function", "", OFFSETS)
    with pytest.raises(ValueError, match="PyList_GetItem needs a label for errors"):
        f.api("PyList_GetItem", "ptr %row, i64 0")
    with pytest.raises(ValueError, match="Py_IncRef never fails"):
        f.api("Py_IncRef", "ptr %row", "error")


def test_every_function_of_the_interface_goes_through_the_check() -> None:
    """No text but that of ``api`` may call by way of the table, and no text but that of ``give`` may return."""
    for name in ("code", "enter", "immediate"):
        module = sys.modules[f"phonograd.core.array.fastcall.native_{name}"]
        assert module.__file__ is not None
        with open(module.__file__, encoding="utf-8") as file:
            source = file.read()
        assert not re.search(r"line\(f?\"(ret|call)", source)
    plain = native_code.module_text(OFFSETS, 2, [1])
    checked = native_code.module_text({**OFFSETS, "checked": 1}, 2, [1])
    assert "call void %" in checked
    # one more question for an error at each return of an object
    fatal = str(len(native_text.OBJECTS) + native_text.API.index("Py_FatalError"))
    assert len(re.findall(rf"@state, i64 {fatal}\b", plain)) == 0
    assert len(re.findall(rf"@state, i64 {fatal}\b", checked)) > 25


def test_lists_that_are_too_short() -> None:
    """Give ``settle`` fewer values than arrays, or a variable that its trace does not know: it raises."""
    x = nd.array([1.0, 2.0]) + 1
    trace = LOCAL.trace
    pairs = trace.live()
    assert [pair[0] for pair in pairs] == [x]
    assert MACHINE_CODE.settle is not None
    with pytest.raises(IndexError):
        MACHINE_CODE.settle(trace, pairs, [], False)
    w = nd.array([1.0])
    w.attach_grad()
    y = w * 2  # noqa: F841 - w is in the trace now
    targets, trace.targets = trace.targets, []
    try:
        with pytest.raises(IndexError):
            MACHINE_CODE.settle(trace, [(w, w._node)], [w._buffer], True)
    finally:
        trace.targets = targets
    assert x.asnumpy().tolist() == [2.0, 3.0]


class Interrupt(BaseException):
    """Raised where no handler expects it."""


def test_errors_of_python_code_are_not_cleared() -> None:
    """Raise once in Python code that machine code calls, as a signal handler does: the error arrives."""
    raised: list[int] = []

    class Parameter:
        def __hash__(self) -> int:
            if not raised:
                raised.append(1)
                raise Interrupt
            return 1

    x = nd.ones((2, 2))
    nd.sum(x, axis=0).wait_to_read()
    x = nd.ones((2, 2)) * 1
    with pytest.raises(Interrupt):
        nd.sum(x, axis=Parameter())
    # a list has no hash, either: Python converts it
    assert nd.sum(x, axis=[0, 1]).asscalar() == 4.0


_BROKEN = """
from phonograd import nd
from phonograd.core.array.fastcall import native_text
from phonograd.core.trace.owner import MACHINE_CODE
from phonograd.core.trace.trace import LOCAL

if {broken}:
    native_text.Code._check = lambda *arguments: None
for _ in range(3):
    (nd.ones((2,)) + 1).wait_to_read()
x = nd.ones((2,)) + 1
try:
    MACHINE_CODE.settle(LOCAL.trace, LOCAL.trace.live(), [], False)
except IndexError:
    print("raised")
"""


@pytest.mark.parametrize("broken", [False, True])
def test_the_self_check_stops_the_process(broken: bool) -> None:
    environment = {**os.environ, "PHONOGRAD_CHECK_CALLS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"PHONOGRAD_CACHE_DIRECTORY": "", "PHONOGRAD_TIERS": "blocking"}
    done = subprocess.run(
        [sys.executable, "-c", _BROKEN.format(broken=broken)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if broken:
        assert done.returncode != 0
        assert "although an error is set" in done.stderr
    else:
        assert (done.returncode, done.stdout.strip()) == (0, "raised"), done.stderr
