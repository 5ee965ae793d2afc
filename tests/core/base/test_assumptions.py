"""Assumptions about CPython, NumPy and LLVM: each is broken in turn, and the library says so and computes the same."""

import json
import os
import subprocess
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

from phonograd.core.base import assumptions
from phonograd.core.base.errors import AssumptionWarning

native = pytest.mark.skipif(
    os.environ.get("PHONOGRAD_EXECUTOR") == "reference", reason="the assumptions of kernels are never tested here"
)

#: small and large arrays, dropped and kept ones, weights that are updated in place, calls that repeat
PROGRAM = """
import hashlib, json, warnings
import numpy as np
warnings.simplefilter("always")
told = []
warnings.showwarning = lambda message, category, *place: told.append([category.__name__, str(message)])
BREAK
import phonograd as mx
from phonograd import nd
mx.settings.update(num_threads=2)
mx.random.seed(3)
weights = [nd.random.normal(shape=(300, 300)), nd.random.normal(shape=(300,))]
means = [nd.zeros(weight.shape) for weight in weights]
kept = weights[0] * 1
alias = weights[1]
x = nd.random.normal(shape=(500, 300))
for weight in weights:
    weight.attach_grad()
seen = []
for turn in range(5):
    with mx.autograd.record():
        y = nd.tanh(nd.dot(x, weights[0]) * 0.01 + weights[1])
        loss = (y * y).sum(axis=1).mean()
        dropped = nd.exp(loss) + nd.sum(y)
        del dropped
    loss.backward()
    for weight, mean in zip(weights, means):
        mean[:] = 0.9 * mean + 0.1 * weight.grad
        weight -= 0.1 * mean
    small = nd.array([1.0, 2.0, 3.0])
    for _ in range(5):
        small = nd.relu(2 - small * 0.5) + small
    seen += [loss.asscalar().item(), small.asnumpy().tolist()]
arrays = [value.asnumpy() for value in (*weights, *means, kept, alias)]
digests = [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]
print(json.dumps([seen, digests, [float(abs(array).sum()) for array in arrays], told]))
"""


class Outcome(NamedTuple):
    """What the program prints."""

    seen: list[Any]
    digests: list[str]
    sums: list[float]
    told: list[list[str]]


def outcome(broken: str = "", cache: str = "") -> Outcome:
    """Run the program in a process of its own, after some lines that break an assumption."""
    # no helper may still be at work when the program ends
    environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": cache, "PHONOGRAD_TIERS": "blocking"}
    environment.pop("PYTHONWARNINGS", None)
    command = [sys.executable, "-c", PROGRAM.replace("BREAK", broken)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    return Outcome(*json.loads(found.stdout))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return where kernels are kept, so that one process compiles for all."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def expected(cache: str) -> Outcome:
    found = outcome(cache=cache)
    assert found.told == []
    return found


LIVE = "sys.getrefcount sees one reference more"
EXACT = "sys.getrefcount is exact"
CALLS = "Operator calls stay Python functions"
HOT = "The loops of programs that are always new stay Python functions"

COUNTS = {
    "counts": (
        "import sys; sys.getrefcount = lambda value: 5",
        {LIVE: "All arrays of a trace count as used", EXACT: "No result takes the place of an input"},
    ),
    "counts of arrays": (
        "import sys; sys.getrefcount = lambda value, count=sys.getrefcount: "
        "3 if isinstance(value, np.ndarray) else count(value)",
        {EXACT: "No result takes the place of an input"},
    ),
}
KERNELS = {
    "locks": (
        "import ctypes; from phonograd.core.run import pointers\n"
        "always = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(lambda lock, wait: 1)\n"
        "place, real = ctypes.cast(always, ctypes.c_void_p).value, pointers.python_function\n"
        "pointers.python_function = lambda name: place if name == 'PyThread_acquire_lock' else real(name)",
        {"PyThread_acquire_lock and": "one thread runs each kernel"},
    ),
    "addresses of arrays": (
        "from phonograd.core.run import object_layout as objects; objects.DATA = 24",
        {"arrays keep their data address": "NumPy is asked for addresses"},
    ),
    "flags": (
        "from phonograd.core.run import object_layout as objects; objects.FLAGS = 72",
        {"arrays keep their type in the second word": "Python prepares each run"},
    ),
    "NumPy's table": (
        "from phonograd.core.run import object_layout as objects; objects._BINARY_VERSIONS = ()",
        {"the function table of NumPy": "Python makes the arrays"},
    ),
    "executable memory": (
        "import ctypes; from phonograd.core.run import elf_loader as image\n"
        "class Library(ctypes.CDLL):\n"
        "    @property\n"
        "    def mprotect(self): return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)"
        "(lambda *arguments: -1)\n"
        "ctypes.CDLL = Library",
        {"code that is written to memory": "LLVM loads all code"},
    ),
    "relocations": (
        "from phonograd.core.run import elf_relocations as image\n"
        "image._WRITERS = {machine: {} for machine in image._WRITERS}",
        {"code that is written to memory": "LLVM loads all code"},
    ),
    "llvmlite": (
        "from llvmlite.binding import ffi\n"
        "class Locked:\n"
        "    def __init__(self, function): self.call = function\n"
        "    def __call__(self, *arguments): return self.call(*arguments)\n"
        "table, name = ffi.lib._fntab, 'LLVMPY_TargetMachineEmitToMemory'\n"
        "table[name] = Locked(table[name])",
        {"llvmlite keeps its lock": "Threads compile one after the other"},
    ),
    "C interface": (
        "from phonograd.core.array.fastcall import native_call; native_call.API += ('PyNothing_OfThisName',)",
        {"the C interface of Python": CALLS},
    ),
    "order in arrays": (
        "import types; from phonograd.core.array.fastcall import native_call\n"
        "native_call.np = types.SimpleNamespace(empty=lambda shape, dtype: np.empty((4, 5, 7), dtype)[1:])",
        {"arrays keep number of axes": CALLS},
    ),
    "slots": (
        "from phonograd.core.array.fastcall import native_call\n"
        "class ArrayExtras: variable = root = views = readonly = context = None\n"
        "native_call.ArrayExtras = ArrayExtras",
        {"objects keep their type": CALLS},
    ),
    "vectorcalls": (
        "from phonograd.core.array.fastcall import native_call; native_call.FunctionType = type(len)",
        {"types say where": CALLS},
    ),
    "layout of functions": (
        "from phonograd.core.array.fastcall import native_call\n"
        "from phonograd.core.run import native_function\n"
        "native_function.vectorcall_offset = lambda kind: 0",
        {"a type made by Python's C interface": HOT},
    ),
    "C interface of hot functions": (
        "from phonograd.core.run.hot import installation\n"
        "installation.API = {**installation.API, 'PyNothing_OfThisName': ('ptr', '')}",
        {"the C interface of Python": HOT},
    ),
    "rows": (
        "from phonograd.core.run.hot import installation; installation.list = tuple",
        {"lists and tuples keep their length": HOT},
    ),
    "descriptors": (
        "from phonograd.core.run import native_function; native_function.slot_offset = lambda class_, name: 8",
        {"descriptors of slots": HOT},
    ),
    "count of new objects": (
        "from phonograd.core.run import object_layout as objects; objects._MANY = 0",
        {"objects that the garbage collector knows": "more collections of garbage"},
    ),
    "place of counts": (
        "from phonograd.core.trace import liveness; from phonograd.core.array.fastcall import native_install\n"
        "class Calls(native_install.Calls):\n"
        "    def __init__(self, *arguments):\n"
        "        super().__init__(*arguments)\n"
        "        self.live_handles = liveness._all\n"
        "native_install.Calls = Calls",
        {"objects keep their count": "Python counts the references"},
    ),
}


#: what is tested without the GIL, too: the rest is not used there, and known not to be
WITHOUT_GIL = {"locks", "addresses of arrays", "executable memory", "relocations", "llvmlite"}


def _check(found: Outcome, expected: Outcome, warned: dict[str, str]) -> None:
    assert found[:3] == expected[:3]
    starts = [start for _, text in found.told for start in warned if text.startswith(start)]
    assert sorted(starts) == sorted(warned), found.told
    assert len(found.told) == len(warned)
    for start, (kind, text) in zip(starts, found.told, strict=True):
        consequence = warned[start]
        assert kind == "AssumptionWarning"
        assert consequence in text
        assert f"does not hold with {assumptions.versions().partition(', llvmlite')[0]}" in text


@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_are_not_as_assumed_are_told_and_not_relied_on(name: str, expected: Outcome, cache: str) -> None:
    broken, warned = COUNTS[name]
    _check(outcome(broken, cache), expected, warned if assumptions.HAS_GIL else {})


@native
@pytest.mark.parametrize("name", KERNELS)
def test_memory_that_is_not_as_assumed_is_told_and_not_relied_on(name: str, expected: Outcome, cache: str) -> None:
    broken, warned = KERNELS[name]
    warned = warned if assumptions.HAS_GIL or name in WITHOUT_GIL else {}
    # llvmlite is asked for nothing that is there
    _check(outcome(broken, "" if name == "llvmlite" else cache), expected, warned)


@native
def test_without_addresses_numpy_evaluates_everything(expected: Outcome) -> None:
    # ctypes itself calls its function for sizes since CPython 3.14
    found = outcome(
        "import ctypes, types; from phonograd.core.run import pointers\n"
        "pointers.ctypes = types.SimpleNamespace(**{**vars(ctypes), 'sizeof': lambda kind: 4})"
    )
    assert [kind for kind, _ in found.told] == ["AssumptionWarning", "NoCompilerWarning"]
    assert found.told[0][1].startswith("addresses have 64 bits")
    assert found.sums == pytest.approx(expected.sums, rel=1e-5)


#: uses arrays from several threads at once, and tells what was assumed
WITHOUT_LOCK = """
import json, sys, threading
import phonograd as mx
from phonograd import nd
from phonograd.core.base import assumptions
mx.settings.update(num_threads=2)
weight = nd.ones((64, 64))
weight.attach_grad()
sums = [0.0] * 4
def work(number):
    for turn in range(20):
        with mx.autograd.record():
            y = nd.tanh(nd.dot(weight, weight) * 0.01 + number)
            z = mx.autograd.grad([y.sum()], [weight])[0]
        sums[number] = float(z.sum().asscalar())
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
names = sorted(name for name in assumptions.tested() if "referenc" in name or "getrefcount" in name or "second" in name)
print(json.dumps([sums, names, sys._is_gil_enabled(), type(nd.tanh).__name__]))
"""


@pytest.mark.skipif(assumptions.HAS_GIL, reason="this interpreter has the GIL")
@pytest.mark.parametrize("lock", ["0", "1"])
def test_counts_and_layouts_are_not_used_by_interpreters_without_the_gil(lock: str) -> None:
    command = [sys.executable, "-W", "error::phonograd.core.base.errors.AssumptionWarning", "-c", WITHOUT_LOCK]
    # running with the lock makes counts no more exact, and moves no attribute
    environment = {**os.environ, "PYTHON_GIL": lock}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    sums, names, has_lock, kind = json.loads(found.stdout)
    assert (names, has_lock, kind) == ([], lock == "1", "function")
    expected = [64 * 64 * 2 * 0.01 * 64 * (1 - np.tanh(0.64 + number) ** 2) for number in range(4)]
    assert sums == pytest.approx(expected, rel=1e-4)


def test_an_assumption_is_tested_and_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assumptions, "_known", {})
    tests: list[int] = []

    def test() -> bool:
        tests.append(1)
        raise LookupError("nothing there")

    with pytest.warns(
        AssumptionWarning, match=r"the moon is near: .* \(LookupError: nothing there\)\. We walk\."
    ) as told:
        assert not assumptions.assumption_holds("the moon is near", "We walk", test)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not assumptions.assumption_holds("the moon is near", "We walk", test)
        assert assumptions.assumption_holds("the sun is far", "We stay", lambda: True)
    assert len(tests) == 1
