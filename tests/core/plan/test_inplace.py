"""Assignments to a part of an array: what they write, whose memory they take over, and that nobody can tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.structure import Structure
from phonograd.core.ops.math.primitives import reshape_to, slice_step
from phonograd.core.ops.math.structural import constant, full, leaf
from phonograd.core.ops.vision.regions import assign_flat, assign_step
from phonograd.core.plan import inplace
from phonograd.core.plan.grouping import group_nodes
from phonograd.core.plan.layout import Job, jobs_of
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import donation
from phonograd.core.run.reference import ReferenceProgram, evaluate, resolve

pytestmark = pytest.mark.usefixtures("planned")

FLOAT32 = np.dtype("float32")
ROWS, COLUMNS = 64, 100


def _leaf(number: int = 0, shape: tuple[int, ...] = (ROWS, COLUMNS)) -> Node:
    return leaf(number, shape, FLOAT32)


def _row(node: Node, row: int, count: int = 1) -> Node:
    return slice_step(node, (row, 0), (row + count, COLUMNS))


def _with_row(node: Node, row: int, value: Node, count: int = 1) -> Node:
    return assign_step(node, value, (row, 0), (row + count, COLUMNS))


def _softsign(node: Node) -> Node:
    return REGISTRY["softsign"](node)  # type: ignore[return-value]


def _values(node: Node, seed: int = 0) -> Any:
    return np.random.default_rng(seed + node.serial).normal(size=node.shape).astype(node.dtype)


def _check(targets: list[Node], *leaves: Node) -> NativeProgram:
    """Return the program of some nodes after comparing it with the reference, with inputs that may be written over."""
    bindings = {node: _values(node) for node in leaves}
    targets = [resolve(node) for node in targets]
    program = NativeProgram(targets, bindings.__contains__)
    expected = dict(zip(targets, evaluate(targets, bindings), strict=True))
    inputs = [bindings[node].copy() for node in program.inputs]
    for donated in ((), program.donatable):
        found = program.run(inputs, donated)
        for (node, _), value in zip(program.kept, found, strict=True):
            np.testing.assert_array_equal(value, expected[node], err_msg=str(node))
        if not donated:
            for node, array in zip(program.inputs, inputs, strict=True):
                np.testing.assert_array_equal(array, bindings[node], err_msg="an input was written to")
    return program


def _walked(targets: list[Node]) -> int:
    """Return how many elements the kernels of a plan go through."""
    plan = ReferenceProgram(targets, lambda node: False)
    grouping = group_nodes([step[-1] for step in plan.steps], plan.inputs, targets)
    total = 0
    for job in jobs_of(grouping):
        assert isinstance(job, Job)
        for launch in job.plan.launches:
            assert isinstance(launch.structure, Structure)
            extents = launch.words[: len(launch.structure.axes)]
            total += math.prod([extent for extent in extents if isinstance(extent, int)])
    return total


def _rows_in_turn(node: Node, steps: int, value: Callable[[Node, int], Node]) -> Node:
    for row in range(1, steps + 1):
        node = _with_row(node, row, value(node, row))
    return node


@pytest.mark.parametrize(
    "value",
    [
        lambda node, row: constant(float(row), FLOAT32),
        lambda node, row: _leaf(1, (COLUMNS,)) * float(row),
        lambda node, row: _softsign(_row(node, row - 1)),
        lambda node, row: _row(node, row) + _leaf(1, (COLUMNS,)),
    ],
    ids=["number", "row", "from the row before", "added"],
)
def test_a_loop_over_rows_goes_through_the_rows_alone(value: Callable[[Node, int], Node]) -> None:
    last = _rows_in_turn(_leaf(), 20, value)
    program = _check([last], _leaf(), _leaf(1, (COLUMNS,)))
    assert program.donatable == (program.inputs.index(_leaf()),)
    # values are computed and written, at most in two kernels
    assert _walked([last]) <= 2 * 20 * COLUMNS


def test_what_is_made_here_is_made_once() -> None:
    last = _rows_in_turn(full((ROWS, COLUMNS), 0, FLOAT32), 20, lambda node, row: _softsign(_row(node, row - 1)))
    _check([last])
    assert _walked([last]) <= ROWS * COLUMNS + 2 * 20 * COLUMNS


@pytest.mark.parametrize("number", range(6))
def test_old_values_stay_where_they_are_needed(number: int) -> None:
    versions = [_leaf()]
    for row in range(1, 9):
        versions.append(_with_row(versions[-1], row, _softsign(_row(versions[-1], row - 1))))
    middle, last = versions[4], versions[-1]
    targets = [
        versions[1:],
        [last, middle],
        [last, _row(middle, 2, 3)],
        [last + versions[0]],
        [last * middle, REGISTRY["_sum_to"](middle, shape=(COLUMNS,))],
        [last, REGISTRY["argsort"](middle, axis=1)],
    ][number]
    _check(targets, _leaf())  # type: ignore[arg-type]


def test_writing_through_views() -> None:
    node = _leaf()
    for row in range(1, 9):
        node = assign_flat(node, _leaf(1, (COLUMNS,)) + float(row), row * COLUMNS)
    program = _check([node], _leaf(), _leaf(1, (COLUMNS,)))
    assert program.donatable


def test_parts_with_steps_and_in_reverse() -> None:
    node = _leaf()
    for start in range(4):
        value = slice_step(node, (start, 0), (start + 8, COLUMNS), (2, 1))
        node = assign_step(node, value + 1, (start + 8 - 2, 0), (start - 2 if start > 1 else -1, COLUMNS), (-2, 1))
    _check([node], _leaf())


def test_small_arrays_are_computed_element_by_element() -> None:
    small = leaf(0, (4, 4), FLOAT32)
    node = small
    for row in range(4):
        node = assign_step(node, constant(float(row), FLOAT32), (row, 0), (row + 1, 4))
    program = NativeProgram([node], lambda found: False)
    assert not program.donatable
    assert len(program.parts) == 1


# -- programs at random


@st.composite
def _programs(draw: Any) -> tuple[list[Node], list[Node]]:
    """Draw a program that assigns to parts of two arrays, and which of its values are asked for."""
    shape = (6, 5)
    leaves = [leaf(0, shape, FLOAT32), leaf(1, shape, FLOAT32)]
    current, nodes = list(leaves), list[Node]()
    for _ in range(draw(st.integers(2, 14))):
        which, row, count = draw(st.integers(0, 1)), draw(st.integers(0, 4)), draw(st.integers(1, 2))
        other = draw(st.integers(0, 6 - count))
        source = draw(st.sampled_from([*current, *nodes[-3:]]))
        part = (
            slice_step(reshape_to(source, shape), (other, 0), (other + count, 5)) if source.shape == shape else source
        )
        kind = draw(st.sampled_from(["assign", "assign", "assign", "add", "flat", "read", "whole", "sum"]))
        if kind == "read":
            nodes.append(_softsign(part))
        elif kind == "sum":
            nodes.append(REGISTRY["_sum_to"](current[which], shape=(5,)))  # type: ignore[arg-type]
        elif kind == "whole":
            current[which] = current[which] * 2 + current[1 - which]
        elif kind == "flat":
            value = slice_step(current[1 - which], (other, 0), (other + 1, 5)) + 1
            current[which] = assign_flat(current[which], value, 5 * row)
        else:
            value = part if part.shape == (count, 5) else constant(1.5, FLOAT32)
            if kind == "add":
                value = slice_step(current[which], (row, 0), (row + count, 5)) + value
            current[which] = assign_step(current[which], value, (row, 0), (row + count, 5))
        nodes.append(current[which])
    kept = [node for node in nodes[:-1] if draw(st.integers(0, 5)) == 0]
    targets = list(dict.fromkeys([node for node in [*kept, *current] if node not in leaves]))
    return targets, leaves


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=75)
@given(_programs(), st.sampled_from([1, 2]))
def test_nobody_can_tell(program: tuple[list[Node], list[Node]], threads: int) -> None:
    targets, leaves = program
    with pytest.MonkeyPatch.context() as patch, settings.override(num_threads=threads):
        patch.setattr(inplace, "SMALLEST", 1)
        patch.setattr(inplace, "LEAST_RATIO", 1)
        if targets:
            _check(targets, *leaves)


# -- arrays


@pytest.fixture
def native() -> Any:
    with settings.override(executor="native"):
        yield


def _address(array: Any) -> int:
    array.wait_to_read()
    return int(array._buffer.ctypes.data)


@pytest.mark.skipif(not donation.COUNTS, reason="nothing is donated without counts")
@pytest.mark.usefixtures("native")
def test_an_array_that_nobody_else_has_stays_where_it_is() -> None:
    x = nd.zeros((ROWS, COLUMNS)) + 1
    before = _address(x)
    for row in range(5):
        x[row] = row
        x[row : row + 2] += 1
        assert _address(x) == before
    expected = np.ones((ROWS, COLUMNS), np.float32)
    for row in range(5):
        expected[row] = row
        expected[row : row + 2] += 1
    np.testing.assert_array_equal(x.asnumpy(), expected)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("holder", ["value", "pending", "view", "record", "memory"])
def test_whoever_has_the_old_value_keeps_it(holder: str) -> None:
    x = nd.array(np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)) + 0
    x.wait_to_read()
    old = x.asnumpy().copy()
    other: Any = None
    if holder == "value":
        other = nd.identity(x)
        other.wait_to_read()
    elif holder == "pending":
        other = x * 1
    elif holder == "view":
        other = x._buffer[2:3]
    elif holder == "memory":
        other = x._buffer
    else:
        x.attach_grad()
        with autograd.record():
            other = x * x
    x[2] = -1
    mx.nd.waitall()
    x.wait_to_read()
    if holder == "record":
        other.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), 2 * old)
    elif holder == "view":
        np.testing.assert_array_equal(other, old[2:3])
    else:
        np.testing.assert_array_equal(other if holder == "memory" else other.asnumpy(), old)
    assert (x.asnumpy()[2] == -1).all()


def test_numpy_sees_the_right_shape() -> None:
    node = _with_row(_leaf(), 1, constant(1.0, FLOAT32))
    for row in range(2, 5):
        node = assign_flat(node, _leaf(1, (COLUMNS,)), row * COLUMNS)
    line = node.inputs[0]
    sorted_ones = [REGISTRY[name](line, axis=0) for name in ("argsort", "sort")]
    _check([line, *sorted_ones], _leaf(), _leaf(1, (COLUMNS,)))  # type: ignore[list-item]
    others = [REGISTRY[name](line) for name in ("gamma", "gammaln")]
    program = _check([line, *others], _leaf(), _leaf(1, (COLUMNS,)))  # type: ignore[list-item]
    assert not program.donatable
