"""All kinds of programs offer the same, and compute the same bits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from phonograd.core.base import settings
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import disk
from phonograd.core.plan.cache import choose_program
from phonograd.core.plan.disk import DiskProgram, program_for
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import disk_cache, kernel_cache
from phonograd.core.run.programs import Memory, Part, Program
from phonograd.core.run.reference import ReferenceProgram

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not kernel_cache.available(), reason="kernels need llvmlite")

Make = Callable[[Iterable[Node], Callable[[Node], bool]], Program]


def targets() -> list[Node]:
    x, y = leaf(0, (3, 4), FLOAT32), leaf(1, (3, 4), FLOAT32)
    total = REGISTRY["sum"](REGISTRY["tanh"](x * y), axis=(1,), keepdims=False, exclude=False)
    return [REGISTRY["exp"](total), x + y * 2.0]


def recalled(wanted: Iterable[Node], available: Callable[[Node], bool]) -> Program:
    """Return a program from disk, which the first call has put there."""
    wanted = list(wanted)
    program_for(wanted, available, False)
    found = program_for(wanted, available, False)
    assert isinstance(found, DiskProgram)
    return found


@pytest.fixture(params=[ReferenceProgram, EagerProgram, NativeProgram, recalled], ids=lambda kind: kind.__name__)
def make(request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterable[Make]:
    # as if the process had just begun: it stores a limited number of plans, and none after a change of the sources
    monkeypatch.setattr(disk, "_stored", 0)
    monkeypatch.setattr(disk_cache, "_STARTED", time.time() + 1e6)
    with settings.override(cache_directory=str(tmp_path)):
        yield request.param


@pytest.fixture
def data() -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [generator.standard_normal((3, 4)).astype(np.float32) for _ in range(2)]


def test_values(make: Make, data: list[np.ndarray]) -> None:
    wanted = targets()
    program: Program = make(wanted, lambda node: False)
    assert [node.attributes[0] for node in program.inputs] == [0, 1]
    assert {node for node, _ in program.kept} == set(wanted)
    results = dict(zip([node for node, _ in program.kept], program.run(list(data)), strict=True))
    x, y = data
    np.testing.assert_allclose(results[wanted[0]], np.exp(np.tanh(x * y).sum(1)), rtol=1e-6)
    np.testing.assert_array_equal(results[wanted[1]], x + y * np.float32(2))


def test_parts_are_noted(make: Make, data: list[np.ndarray]) -> None:
    wanted = targets()
    program: Program = make(wanted, lambda node: False)
    parts = program.parts
    assert parts
    computed = {node.operator.name for part in parts for node in part.nodes}
    assert {"tanh", "exp"} <= computed
    noted: list[tuple[Part, int, int]] = []
    results = program.run(list(data), (), lambda *arguments: noted.append(arguments))
    assert [part.nodes for part, _, _ in noted] == [part.nodes for part in parts]
    assert all([start <= end for _, start, end in noted])
    plain: Program = make(wanted, lambda node: False)
    for one, other in zip(results, plain.run(list(data)), strict=True):
        assert one.tobytes() == other.tobytes()


def test_facts(make: Make) -> None:
    program: Program = make(targets(), lambda node: False)
    assert program.is_provisional == isinstance(program, EagerProgram)
    assert set(program.donatable) <= set(range(len(program.inputs)))
    assert program.memory is None or isinstance(program.memory, Memory)


def test_the_settings_choose_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = targets()
    with settings.override(executor="reference"):
        assert isinstance(choose_program(wanted, (), False), ReferenceProgram)
        assert isinstance(choose_program(wanted, (), False, is_new=True), ReferenceProgram)
    with settings.override(executor="native", cache_directory=""):
        assert isinstance(choose_program(wanted, (), False), NativeProgram)
        assert isinstance(choose_program(wanted, (), False, is_new=True), EagerProgram)
        assert isinstance(choose_program(wanted, (), False), NativeProgram)
