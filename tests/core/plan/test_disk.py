"""Plans on disk: the same results, nothing planned or compiled twice, and nothing believed that is not certain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phonograd as mx
from phonograd.core.base.errors import NoCompilerWarning
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import constant, full, leaf
from phonograd.core.plan import disk
from phonograd.core.plan.disk import DiskProgram, decode, describe, encode, program_for
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import disk_cache, kernel_cache, objects
from phonograd.core.run.kernel_cache import Kernel
from phonograd.core.run.reference import order, resolve

from .programs import RandomProgram, assert_same_bits, programs, run

FLOAT32 = np.dtype("float32")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for plans and kernels; sources count as unchanged, whoever edits them."""
    monkeypatch.setattr(disk_cache, "_STARTED", time.time() + 1e6)
    with mx.settings.override(cache_directory=str(tmp_path)):
        _new_process(monkeypatch)
        yield tmp_path


def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget every kernel that is in memory."""
    kernel_cache.wait_for_tier_up()
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    monkeypatch.setattr(disk, "_stored", 0)


def _plans(directory: Path) -> list[Path]:
    return sorted(path for path in (directory / "kernels").iterdir() if path.name.startswith("p"))


def test_the_age_of_constants_is_no_part_of_a_description() -> None:
    # of a shape that no other test has, so that its nodes are new
    x = leaf(0, (3, 4, 59), FLOAT32)
    numbers = [constant(number, FLOAT32) for number in (0.125, 0.375)]
    first = REGISTRY["tanh"](x)
    target = REGISTRY["sigmoid"](first * numbers[1]) + numbers[0]
    assert numbers[0].serial < numbers[1].serial < first.serial
    computed = order([target], lambda node: False)[1]
    places = {node: place for place, node in enumerate(computed)}
    assert sorted(places.values()) == list(range(len(computed)))
    for number in numbers:
        users = [places[node] for node in computed if number in node.inputs]
        assert places[number] == min(users) - 1
    assert order([numbers[0]], lambda node: False)[1] == [numbers[0]]


def _targets(width: int = 9) -> list[Node]:
    x, y = leaf(0, (7, width), FLOAT32), leaf(1, (width, 5), FLOAT32)
    z = REGISTRY["tanh"](x * x + 0.5)
    # the logarithm of the gamma function is NumPy's
    return [matmul(z, y), REGISTRY["_sum_to"](z, shape=(width,)), REGISTRY["gammaln"](z) * 2.0]


def _make(targets: list[Node] | None = None, keep_all: bool = False) -> Any:
    return program_for(_targets() if targets is None else targets, lambda node: False, keep_all)


def _results(program: Any) -> dict[Node, Any]:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=node.shape).astype(node.dtype) for node in program.inputs]
    return dict(zip([node for node, _ in program.kept], program.run(inputs), strict=True))


def test_a_plan_is_recalled(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = _make()
    assert isinstance(planned, NativeProgram)
    assert len(_plans(directory)) == 1
    _new_process(monkeypatch)
    before = kernel_cache.statistics.snapshot()
    recalled = _make()
    assert isinstance(recalled, DiskProgram)
    after = kernel_cache.statistics.snapshot()
    assert after["plans_loaded"] == before["plans_loaded"] + 1
    assert after["kernels_loaded"] == before["kernels_loaded"] + len(planned.kernels)
    assert after["kernels_compiled"] == before["kernels_compiled"]
    assert (recalled.inputs, recalled.kept, recalled.memory) == (planned.inputs, planned.kept, planned.memory)
    assert_same_bits(_results(planned), _results(recalled))
    assert len(_plans(directory)) == 1


def test_what_the_planner_knew_is_found_out_again(directory: Path) -> None:
    planned, recalled = _make(), _make()
    assert isinstance(recalled, DiskProgram)
    assert recalled.parts == planned.parts
    assert recalled.kernels.keys() == planned.kernels.keys()
    noted: list[Any] = []
    data = [np.ones(node.shape, node.dtype) for node in recalled.inputs]
    results = recalled.run(data, (), lambda part, begin, end: noted.append(part))
    assert noted == planned.parts
    assert [array.tobytes() for array in results] == [array.tobytes() for array in planned.run(data)]


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "foreign"])
def test_damaged_plans_are_made_again(directory: Path, damage: str) -> None:
    expected = _results(_make())
    (path,) = _plans(directory)
    content = path.read_bytes()
    wrong = {"cut": content[:-9], "bit": content[:90] + bytes([content[90] ^ 4]) + content[91:], "empty": b""}
    path.write_bytes(wrong.get(damage, b"another program's file"))
    again = _make()
    assert isinstance(again, NativeProgram)
    assert_same_bits(expected, _results(again))
    assert path.read_bytes() == content


def test_plans_without_their_kernels_are_made_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make()
    for path in (directory / "kernels").iterdir():
        if path.name.startswith("k"):
            path.unlink()
    assert isinstance(_make(), DiskProgram), "they are in memory"
    _new_process(monkeypatch)
    assert isinstance(_make(), NativeProgram)


def test_other_sources_have_other_plans(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make()
    monkeypatch.setattr(objects, "source_digests", lambda *_: disk_cache.Sources("other sources", "other writers"))
    _new_process(monkeypatch)
    assert isinstance(_make(), NativeProgram)
    assert len(_plans(directory)) == 2


def test_edited_sources_keep_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_STARTED", 0.0)
    _new_process(monkeypatch)
    _make()
    assert _plans(directory) == []


def test_what_never_repeats_itself_does_not_fill_the_disk(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MOST_STORED", 3)
    for width in range(2, 8):
        _make(_targets(width))
    assert len(_plans(directory)) == 3
    monkeypatch.setattr(disk, "_stored", 0)
    monkeypatch.setattr(disk, "LARGEST_BYTES", 100)
    _make(_targets(20))
    assert len(_plans(directory)) == 3


def test_quick_kernels_of_a_recalled_plan_are_improved(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make()
    _new_process(monkeypatch)
    recalled = _make()
    improve_later, may_improve = kernel_cache._cache().improve_later, threading.Event()

    def improve(kernel: Kernel) -> None:
        assert may_improve.wait(60)
        improve_later(kernel)

    monkeypatch.setattr(kernel_cache._cache(), "improve_later", improve)
    expected = _results(recalled)
    assert all(kernel.improvable for kernel in recalled._used)
    assert_same_bits(expected, _results(recalled))
    may_improve.set()
    kernel_cache.wait_for_tier_up()
    assert not any(kernel.improvable for kernel in recalled._used)
    assert_same_bits(expected, _results(recalled))
    # modules that were compiled meanwhile, such as the driver's, may wait for other kernels to be improved
    assert not [kernel.key for kernel in recalled._used if (directory / "kernels" / f"{kernel.key}.quick").exists()]
    assert all((directory / "kernels" / str(kernel.key)).exists() for kernel in recalled._used)


def test_much_work_is_not_left_to_quick_kernels(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = leaf(0, (1 << 16,), FLOAT32), leaf(0, (1 << 26,), FLOAT32)
    _make([REGISTRY["exp"](small)])
    _new_process(monkeypatch)
    assert [kernel.improvable for kernel in _make([REGISTRY["exp"](large)])._used] == [False]
    assert [kernel.improvable for kernel in _make([REGISTRY["exp"](small)])._used] == [False]


def test_a_compiler_that_is_gone(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _results(_make())
    _new_process(monkeypatch)

    def gone(cpu_level: str) -> None:
        raise OSError("the library cannot be loaded")

    monkeypatch.setattr(objects, "Compiler", gone)
    monkeypatch.setattr(kernel_cache, "_missing", None)
    # everything is there
    assert_same_bits(expected, _results(_make()))
    with pytest.warns(NoCompilerWarning, match="the library cannot be loaded"):
        program = _make([REGISTRY["exp"](leaf(0, (3,), FLOAT32))])
    assert np.allclose(program.run([np.zeros(3, np.float32)])[0], 1)
    assert not kernel_cache.available()


# -- what a plan depends on


def _described(targets: list[Node], known: tuple[Node, ...] = (), keep_all: bool = False) -> bytes | None:
    wanted = [resolve(node) for node in targets]
    return describe(wanted, *order(wanted, known.__contains__), keep_all)


def test_descriptions_tell_plans_apart() -> None:
    x, y, z = leaf(0, (4, 4), FLOAT32), leaf(1, (4, 4), FLOAT32), leaf(0, (4, 5), FLOAT32)
    d = leaf(0, (4, 4), np.dtype("float64"))
    exp, clip = REGISTRY["exp"], REGISTRY["clip"]
    deep = exp(exp(x))
    one = full((4, 4), 1.0, FLOAT32)
    cases: list[Any] = [
        _described([x * y]),
        _described([y * x]),
        _described([x + y]),
        _described([exp(x)]),
        _described([exp(z)]),
        _described([exp(d)]),
        _described([deep]),
        _described([deep, exp(x)]),
        _described([deep], keep_all=True),
        _described([deep], known=(exp(x),)),
        _described([clip(x, a_min=0.0, a_max=1.0)]),
        _described([clip(x, a_min=-1.0, a_max=1.0)]),
        _described([x * constant(1.0, FLOAT32)]),
        _described([x * constant(-1.0, FLOAT32)]),
        # what is known about a value that is there
        _described([x * one], known=(one,)),
        _described([x * full((4, 4), 2.0, FLOAT32)], known=(full((4, 4), 2.0, FLOAT32),)),
    ]
    assert None not in cases
    assert len(set(cases)) == len(cases)
    with mx.settings.override(winograd=0):
        first = _described([deep])
        with mx.settings.override(num_threads=mx.settings.current().num_threads + 1):
            assert first != _described([deep])
    with mx.settings.override(winograd=4):
        assert first != _described([deep])


def test_leaves_are_told_apart_by_their_order_only() -> None:
    def case(first: int, second: int) -> bytes | None:
        return _described([leaf(first, (3,), FLOAT32) - leaf(second, (3,), FLOAT32)])

    assert case(100, 101) == case(200, 205)


def test_what_others_declare_is_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(data: Any) -> Any:
        """Return the array twice."""
        return data + data

    mine = Operator(twice, name="_test_doubled")
    monkeypatch.setitem(REGISTRY, "_test_doubled", mine)
    assert _described([mine(leaf(0, (3,), FLOAT32))]) is None
    assert _described([REGISTRY["exp"](leaf(0, (3,), FLOAT32))]) is not None
    monkeypatch.setattr(REGISTRY["exp"], "lowering", REGISTRY["tanh"].lowering.__class__(lambda e, x: e.add(x, x)))
    assert _described([REGISTRY["exp"](leaf(0, (3,), FLOAT32))]) is None


@settings(max_examples=40)
@given(program=programs(), keep_all=st.booleans())
def test_recipes_survive_the_disk(program: RandomProgram, keep_all: bool) -> None:
    made: list[Any] = []

    def recalled(targets: list[Node], available: Any, keep_all: bool = False) -> Any:
        planned = NativeProgram(targets, available, keep_all)
        wanted = [resolve(node) for node in targets]
        inputs, computed = order(wanted, available)
        nodes = [*inputs, *computed]
        # others use these kernels too, so only copies get other names
        kernels = {structure: SimpleNamespace(key=f"k{n}") for n, structure in enumerate(planned.kernels)}
        data = encode(planned.recipe, cast(Any, kernels), planned.work, nodes)
        if data is None:
            # NumPy computes something that an operator was expanded to
            return planned
        found = decode(data, nodes)
        assert found is not None
        recipe, names = found
        assert recipe == planned.recipe
        assert [name for name, _ in names] == [kernel.key for kernel in kernels.values()]
        assert decode(data[:-1], nodes) != found
        assert decode(data[: len(data) // 2], nodes) is None
        made.append(DiskProgram(recipe, list(planned.kernels.values()), wanted, inputs, keep_all))
        return made[-1]

    expected = run(program.targets, program.bindings, keep_all)
    assert_same_bits(expected, run(program.targets, program.bindings, keep_all, recalled))


# -- whole processes

SCRIPT = """
import json, sys
import phonograd as mx
from phonograd import nd, autograd, gluon
from phonograd.core.run import kernel_cache

mx.random.seed(3)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(16, activation="tanh", in_units=8), gluon.nn.Dropout(0.3), gluon.nn.Dense(3, in_units=16))
net.initialize(mx.init.Uniform(0.5))
trainer = gluon.Trainer(net.collect_params(), "adam")
loss = gluon.loss.SoftmaxCrossEntropyLoss()
x, y = nd.random.normal(shape=(20, 8)), nd.arange(20) % 3
seen = []
for _ in range(4):
    with autograd.record():
        value = loss(net(x), y).mean()
    value.backward()
    trainer.step(20)
    seen.append(value.asscalar().item())
z = nd.array([[1.0, 2.0], [3.0, 4.0]])
z[0] = z[1] * 2
seen.append(z.asnumpy().tolist())
seen.append(nd.contrib.index_copy(nd.zeros((3, 2)), nd.array([0, 2]), z).asnumpy().tolist())
# what was compiled quickly and is used often is compiled in full
kernel_cache.wait_for_tier_up()
counts = kernel_cache.statistics.snapshot()
modules = [name for name in ("phonograd.core.plan.grouping", "phonograd.core.plan.layout") if name in sys.modules]
loaded = "llvmlite" in sys.modules or kernel_cache._cache().objects._compiler is not None
modules += ["LLVM"] if loaded else []
print(json.dumps([seen, counts, modules]))
"""


def _process(tmp_path: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PHONOGRAD_EXECUTOR": "native", "PHONOGRAD_TIERS": "plan"}
    environment["PHONOGRAD_CACHE_DIRECTORY"] = str(tmp_path / "cache")
    script = tmp_path / "script.py"
    if not script.exists():  # another process may be reading it
        script.write_text(SCRIPT)
    # sources that somebody edits meanwhile would switch the disk off
    start = "import time; time.time = lambda now=time.time: now() + 1e6; exec(open('script.py').read())"
    return subprocess.Popen(
        [sys.executable, "-c", start], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )


def _answer(process: subprocess.Popen[str]) -> Any:
    found = process.communicate(timeout=120)[0]
    assert process.returncode == 0
    return json.loads(found)


def test_a_second_process_plans_and_compiles_nothing(tmp_path: Path) -> None:
    first, counts, modules = _answer(_process(tmp_path))
    assert counts["kernels_compiled"] > 0
    assert counts["plans_loaded"] == 0
    assert len(modules) == 3
    second, counts, modules = _answer(_process(tmp_path))
    assert second == first
    assert counts["kernels_compiled"] == 0
    assert counts["plans_loaded"] > 0
    assert modules == []


def test_processes_that_plan_at_once(tmp_path: Path) -> None:
    answers = [_answer(process)[0] for process in [_process(tmp_path) for _ in range(3)]]
    assert answers[0] == answers[1] == answers[2]
    assert _answer(_process(tmp_path))[0] == answers[0]
