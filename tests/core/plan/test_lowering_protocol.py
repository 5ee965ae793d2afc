"""The protocol between operators and the planner: new kinds of lowering need no change of the library."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import phonograd
from phonograd.core.base.dtypes import FLOAT32, DType
from phonograd.core.derive.costs import flops_of
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.lower import lowering as kinds
from phonograd.core.lower.lowering import WIDE_FLOATS, Fused, Library, Lowering, Planner
from phonograd.core.lower.pattern import Pattern
from phonograd.core.ops.math.primitives import permute
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.plan.report import boundaries
from phonograd.core.run.disk_cache import is_ours
from phonograd.core.run.program import NumpyStep

from . import running_maximum
from .programs import assert_same_bits, run, run_singly, same_bits, values_of

# -- two kinds that the library does not know


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RunningMaximum(Library):
    """A kernel of its own."""

    kernel = running_maximum.__name__
    combines = True

    dtypes: frozenset[DType] = WIDE_FLOATS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Mirror(Lowering):
    """A view, declared without the kinds of the library."""

    fused_as = Fused.COPY
    is_view = True
    only_moves = True

    dtypes: frozenset[DType] = WIDE_FLOATS

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Read the input from its end."""
        planner.view(node, _mirrored, {})


def _mirrored(pattern: Pattern) -> Pattern | None:
    if pattern.bounds:
        return None
    last = sum([(extent - 1) * stride for extent, stride in zip(pattern.shape, pattern.strides, strict=True)])
    return Pattern(pattern.shape, tuple([-stride for stride in pattern.strides]), pattern.offset + last)


def _maximum(data: np.ndarray) -> np.ndarray:
    """Return the largest element so far, along rows."""
    return np.maximum.accumulate(data, -1)


def _mirror(data: np.ndarray) -> np.ndarray:
    """Return the array from its end."""
    return np.flip(data)


@pytest.fixture
def maximum(monkeypatch: pytest.MonkeyPatch) -> Operator:
    declared = Operator(_maximum, name="_test_running_maximum", lowering=RunningMaximum())
    monkeypatch.setitem(REGISTRY, declared.name, declared)
    return declared


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Operator:
    declared = Operator(_mirror, name="_test_mirror", lowering=Mirror())
    monkeypatch.setitem(REGISTRY, declared.name, declared)
    return declared


def _data(*shape: int) -> tuple[Node, dict[Node, np.ndarray]]:
    node = leaf(0, shape, FLOAT32)
    return node, {node: values_of(shape, FLOAT32, 3, special=False)}


def _planned(*targets: Node) -> NativeProgram:
    return NativeProgram(targets, lambda node: False)


# -- what they compute


@pytest.mark.parametrize("shape", [(6, 37), (5,), (3, 4, 1)])
def test_a_new_kernel_is_planned_between_fused_ones(maximum: Operator, shape: tuple[int, ...]) -> None:
    x, bindings = _data(*shape)
    found = maximum(x * x)
    targets = [found, REGISTRY["tanh"](found) + x]
    program = _planned(*targets)
    assert not any(isinstance(step, NumpyStep) for step in program.recipe.steps)
    assert running_maximum.RunningMaximum(FLOAT32) in program.kernels
    results = run(targets, bindings)
    assert same_bits(results[found], np.maximum.accumulate(bindings[x] ** 2, -1))
    assert_same_bits(results, run_singly(targets, bindings))
    assert_same_bits(run(targets, bindings, make=EagerProgram), results)


def test_a_new_kernel_reads_views_as_contiguous_copies(maximum: Operator) -> None:
    x, bindings = _data(8, 5)
    target = maximum(permute(x, (1, 0)))
    assert same_bits(run([target], bindings)[target], np.maximum.accumulate(bindings[x].T, -1))


def test_numpy_evaluates_where_a_kernel_declines(maximum: Operator) -> None:
    x, bindings = _data(3, 0)
    target = maximum(x + x)
    assert [step.node for step in _planned(target).recipe.steps if isinstance(step, NumpyStep)] == [target]
    assert run([target], bindings)[target].shape == (3, 0)


def test_a_new_kernel_only_takes_the_dtypes_it_declares(maximum: Operator) -> None:
    x = leaf(0, (4,), np.dtype("int32"))
    target = maximum(x)
    assert [step.node for step in _planned(target).recipe.steps if isinstance(step, NumpyStep)] == [target]


def test_facts_of_a_new_kernel_reach_costs_reports_and_the_disk_cache(maximum: Operator) -> None:
    x, _ = _data(64, 64)
    found = maximum(x * x)
    program = _planned(REGISTRY["tanh"](found))
    reasons = {boundary.node: boundary.reason for boundary in boundaries(program.parts, [])}
    assert reasons[found] == "it is computed by _test_running_maximum, which has kernels of its own"
    assert flops_of(found) == x.size
    # its code may change without the library: plans with it are not kept
    assert not is_ours(maximum)
    assert not is_ours(Operator(REGISTRY["tanh"].function, name="tanh", lowering=RunningMaximum()))
    assert is_ours(REGISTRY["tanh"])


def test_a_new_view_moves_no_element(mirror: Operator) -> None:
    x, bindings = _data(6, 7)
    found = mirror(mirror(x * x) + x)
    target = REGISTRY["_sum_to"](found, shape=(6, 1))
    assert len(_planned(REGISTRY["tanh"](mirror(x) + x)).parts) == 1
    assert flops_of(mirror(x)) == 0
    results = run([found, target], bindings)
    assert same_bits(results[found], np.flip(np.flip(bindings[x] ** 2) + bindings[x]))
    assert_same_bits(results, run_singly([found, target], bindings))


# -- the library itself

_KINDS = {name for name, kind in vars(kinds).items() if isinstance(kind, type) and issubclass(kind, Lowering)}
_SOURCE = Path(phonograd.__file__).parent


def _tested_kinds(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of every kind of lowering that a module tests objects for."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(("lowering", "lowering_protocol"))
        for alias in node.names
        if alias.name in _KINDS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            for inner in ast.walk(node.args[1]):
                if isinstance(inner, ast.Name) and inner.id in imported:
                    yield node.lineno, inner.id


def test_no_module_tests_for_kinds_of_lowering() -> None:
    found = [f"{path}:{line}: {kind}" for path in _SOURCE.rglob("*.py") for line, kind in _tested_kinds(path)]
    assert not found, "ask the lowering instead:\n" + "\n".join(found)


@pytest.mark.parametrize("kind", [kind for kind in Library.__subclasses__() if kind.__module__ == kinds.__name__])
def test_library_kernels_are_where_their_lowering_says(kind: type[Library]) -> None:
    assert callable(importlib.import_module(kind.kernel).plan)
