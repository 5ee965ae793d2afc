"""What a plan computes of values of which it needs a few elements."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.ops.vision.points import add_along, add_axis, take_along
from phonograd.core.plan.grouping import group_nodes
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run.reference import ReferenceProgram, resolve

from .programs import assert_same_bits, run, run_singly

FLOAT32, INT64 = np.dtype("float32"), np.dtype("int64")
ROWS, CLASSES = 33, 50


def _picked() -> tuple[Node, dict[Node, np.ndarray], Node]:
    """Return the logarithms of probabilities of some classes, the values of leaves, and the first leaf."""
    data, label = leaf(0, (ROWS, CLASSES), FLOAT32), leaf(1, (ROWS,), FLOAT32)
    generator = np.random.default_rng(0)
    bindings = {
        data: generator.normal(size=data.shape).astype(FLOAT32),
        label: generator.integers(0, CLASSES, ROWS).astype(FLOAT32),
    }
    chances = REGISTRY["log_softmax"](variable(data, 0))
    return resolve(REGISTRY["pick"](chances, label)), bindings, data  # type: ignore[arg-type]


def test_what_is_picked_is_all_that_is_computed() -> None:
    picked, bindings, _ = _picked()
    program = NativeProgram([picked], bindings.__contains__)
    # some numbers for each row, and nothing for each class
    assert program.memory.arena < ROWS * CLASSES * 4
    assert_same_bits(run([picked], bindings), {**bindings, **run_singly([picked], bindings)})


def test_the_gradient_of_what_is_picked() -> None:
    picked, bindings, _ = _picked()
    grads = [resolve(grad) for grad in differentiate((picked,), (None,)).targets.values() if grad is not None]
    targets = [picked, *grads]
    assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})


def test_the_gradient_alone_goes_through_the_scores_once() -> None:
    """The kernel that sums up exponentials waits for the head gradients, and writes the gradient itself."""
    picked, bindings, data = _picked()
    grads = [resolve(grad) for grad in differentiate((picked,), (None,)).targets.values() if grad is not None]
    plan = ReferenceProgram(grads, bindings.__contains__)
    grouping = group_nodes([step[-1] for step in plan.steps], plan.inputs, grads)
    writers = [group for group in grouping.groups if grouping.writes(group)]
    assert [group.reduced for group in writers if data in group.sources] == [(1,)]
    assert_same_bits(run(grads, bindings), {**bindings, **run_singly(grads, bindings)})


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_of_sums_and_products(axis: int) -> None:
    shape = (40, 30)
    picked = (40, 1) if axis else (1, 30)
    first, second, index = leaf(0, shape, FLOAT32), leaf(1, (30,), FLOAT32), leaf(2, picked, INT64)
    generator = np.random.default_rng(axis)
    bindings = {
        first: generator.normal(size=shape).astype(FLOAT32),
        second: generator.normal(size=30).astype(FLOAT32),
        index: generator.integers(0, shape[axis], picked),
    }
    value = (first * second + first) * second - 1
    for targets in ([take_along(value, index, axis)], [take_along(value, index, axis), value]):
        assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_lines_with_one_element(axis: int, dtype: str) -> None:
    shape = (4, 1) if axis else (1, 4)
    data, index = leaf(0, shape, np.dtype(dtype)), leaf(1, shape, INT64)
    values = np.array([-0.0, 0.0, 3.0, -7.0]).astype(dtype).reshape(shape)
    bindings = {data: values, index: np.array([0, 4, 2, 16]).reshape(shape)}
    spread = add_along(data, index, axis, 17)
    total = REGISTRY["_sum_to"](spread, shape=shape)
    targets: list[Node] = [total, spread]  # type: ignore[list-item]
    assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})


def test_a_sum_of_slices_stays_where_the_slices_are() -> None:
    rows, index, table = leaf(0, (20, 32), FLOAT32), leaf(1, (20,), INT64), leaf(2, (500, 32), FLOAT32)
    generator = np.random.default_rng(0)
    bindings = {
        rows: generator.normal(size=rows.shape).astype(FLOAT32),
        index: generator.integers(0, 30, 20),
        table: np.where(generator.random(table.shape) < 0.5, -0.0, 1.0).astype(FLOAT32),
    }
    whole = add_axis(rows, index, 0, 500)
    for value in (table - whole * 0.5, table + whole, whole * whole + table):
        targets = [resolve(value)]
        program = NativeProgram(targets, bindings.__contains__)
        assert program.memory.arena < 4 * table.size
        assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})
    kept = [resolve(whole), resolve(table - whole)]
    assert_same_bits(run(kept, bindings), {**bindings, **run_singly(kept, bindings)})


def test_outer_products_are_part_of_elementwise_kernels() -> None:
    column, row, other = leaf(0, (40, 1), FLOAT32), leaf(1, (1, 30), FLOAT32), leaf(2, (40, 30), FLOAT32)
    generator = np.random.default_rng(0)
    bindings = {each: generator.normal(size=each.shape).astype(FLOAT32) for each in (column, row, other)}
    bindings[column][::3] = -0.0
    targets = [resolve(matmul(column, row) * other)]
    assert NativeProgram(targets, bindings.__contains__).memory.arena == 0
    targets.append(resolve(matmul(column, row)))
    assert_same_bits(run(targets, bindings), {**bindings, **run_singly(targets, bindings)})
