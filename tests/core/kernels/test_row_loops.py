"""Loops over the parts of an array: what the forward and the backward pass cost, and that they are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phonograd import autograd, nd, settings
from phonograd.core.graph.node import Node
from phonograd.core.kernels.structure import Structure
from phonograd.core.ops.math.structural import leaf
from phonograd.core.ops.reduce import accumulation
from phonograd.core.ops.shape.shape import concatenate, split_at
from phonograd.core.ops.vision import regions
from phonograd.core.plan.grouping import group_nodes
from phonograd.core.plan.layout import Job, jobs_of
from phonograd.core.run.reference import ReferenceProgram, resolve

FLOAT32 = np.dtype("float32")
COLUMNS = 96


def assigned(w: Any, x: Any, count: int) -> Any:
    rows = nd.zeros((count, COLUMNS))
    rows[0] = w
    for row in range(1, count):
        rows[row] = nd.tanh(rows[row - 1] * w + x[row])
    return (rows * rows).sum()


def assigned_from_two(w: Any, x: Any, count: int) -> Any:
    rows = nd.zeros((count, COLUMNS))
    rows[0] = w
    for row in range(2, count):
        rows[row] = nd.tanh(rows[row - 2 : row].sum(axis=0) * w + x[row])
    return (rows * rows).sum()


def added(w: Any, x: Any, count: int) -> Any:
    rows = nd.zeros((count, COLUMNS))
    for row in range(1, count):
        rows[row - 1 : row + 1] += w * x[row]
    return (rows * rows).sum()


def columns_assigned(w: Any, x: Any, count: int) -> Any:
    columns = nd.zeros((COLUMNS, count))
    for column in range(1, count):
        columns[:, column] = nd.tanh(columns[:, column - 1] * w + x[column])
    return (columns * columns).sum()


def read(w: Any, x: Any, count: int) -> Any:
    products = x * w
    total = nd.zeros((1,))
    for row in range(count):
        total = total + (products[row] * products[row]).sum()
    return total


def walked_through(w: Any, x: Any, count: int) -> Any:
    total = nd.zeros((1,))
    for row in x * w:
        total = total + (row * row).sum()
    return total


def views_of_views(w: Any, x: Any, count: int) -> Any:
    products = (x * w).reshape((count // 2, 2, COLUMNS))
    total = nd.zeros((1,))
    for pair in range(count // 2):
        total = total + (products[pair][1] * products[pair][0]).sum()
    return total


def stacked(w: Any, x: Any, count: int) -> Any:
    state, states = w, []
    for row in range(count):
        state = nd.tanh(state * w + x[row])
        states.append(state)
    return nd.square(nd.stack(*states)).sum() + nd.concat(*states, dim=0).sum()


LOOPS = [assigned, assigned_from_two, added, columns_assigned, read, walked_through, views_of_views, stacked]
every_loop = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)


def _walked(target: Node) -> int:
    """Return how many elements the kernels of a plan go through."""
    plan = ReferenceProgram([resolve(target)], lambda node: False)
    grouping = group_nodes([step[-1] for step in plan.steps], plan.inputs, [resolve(target)])
    total = 0
    for job in jobs_of(grouping):
        assert isinstance(job, Job)
        for launch in job.plan.launches:
            if isinstance(launch.structure, Structure):
                extents = launch.words[: len(launch.structure.axes)]
                total += math.prod([extent for extent in extents if isinstance(extent, int)])
    return total


def _gradient(loop: Callable[[Any, Any, int], Any], count: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(count)
    w, x = nd.array(draw.normal(size=COLUMNS) / 2), nd.array(draw.normal(size=(count, COLUMNS)))
    w.attach_grad()
    x.wait_to_read()
    with autograd.record():
        loss = loop(w, x, count)
    loss.backward()
    return w.grad, loss


@pytest.mark.usefixtures("planned")
@every_loop
def test_the_cost_is_that_of_the_parts(loop: Any) -> None:
    with settings.override(executor="native"):
        few, many = [_walked(_gradient(loop, count)[0]._node) for count in (64, 192)]
    # three times as many rows: the square of that would be nine times as many elements
    assert many < 4.5 * few


@every_loop
@pytest.mark.parametrize("count", [6, 70])
def test_gradients_of_loops(loop: Any, count: int) -> None:
    found = []
    for executor in ("native", "reference"):
        with settings.override(executor=executor):
            grad, loss = _gradient(loop, count)
            found.append((grad.asnumpy(), loss.asscalar()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4)


@pytest.mark.parametrize("count", [4, 40])
def test_assignments_give_the_gradients_of_a_stack(count: int) -> None:
    draw = np.random.default_rng(1)
    x = nd.array(draw.normal(size=(count, COLUMNS)))
    grads = []
    for way in ("assign", "stack"):
        w = nd.array(np.linspace(-1, 1, COLUMNS))
        w.attach_grad()
        with autograd.record():
            rows, state = [], w
            whole = nd.zeros((count, COLUMNS))
            for row in range(count):
                state = nd.sin((whole[row - 1] if way == "assign" and row else state) * w + x[row])
                rows.append(state)
                whole[row] = state
            loss = (whole if way == "assign" else nd.stack(*rows)) ** 3
        loss.backward()
        grads.append(w.grad.asnumpy())
    np.testing.assert_allclose(*grads, rtol=1e-5, atol=1e-6)


def test_what_was_there_before_gets_its_gradient() -> None:
    x = nd.array(np.ones((100, COLUMNS)))
    x.attach_grad()
    with autograd.record():
        y = x * 2
        for row in range(0, 60, 2):
            y[row] = y[row + 1] * 3
        loss = (y * y).sum()
    loss.backward()
    expected = np.full((100, COLUMNS), 8.0)
    expected[0:60:2] = 0
    expected[1:60:2] = 8 + 2 * 6 * 6
    np.testing.assert_array_equal(x.grad.asnumpy(), expected)


@pytest.mark.parametrize("count", [3, 30])
def test_second_derivatives(count: int) -> None:
    x = nd.array(np.linspace(0.5, 1.5, count * 2).reshape(count, 2))
    x.attach_grad()
    with autograd.record():
        y = nd.zeros((count, 2))
        for row in range(count):
            y[row] = x[row] ** 3
        first = autograd.grad(y.sum(), x, create_graph=True)[0]
        loss = first.sum()
    loss.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 6 * x.asnumpy(), rtol=1e-6)


# -- expressions


def _base() -> Node:
    return leaf(0, (8, 5), FLOAT32)


def _row(number: int) -> tuple[tuple[int, ...], ...]:
    return (number, 0), (number + 1, 5), (1, 1)


def test_what_was_assigned_is_what_is_read() -> None:
    value, node = leaf(1, (1, 5), FLOAT32), _base()
    changed = regions.assign_step(node, value, *_row(3))
    changed = regions.assign_step(changed, value * 2, *_row(1))
    assert regions.part(changed, *_row(3)) is value
    assert regions.part(changed, *_row(5)) is regions.part(node, *_row(5))
    assert resolve(regions.part(changed, (2, 0), (4, 5), (1, 1)).inputs[0]) is changed
    assert regions.part(changed, (3, 1), (4, 2), (1, 1)).inputs[0] is changed


def test_everything_behind_many_assignments_is_found_at_once() -> None:
    node = leaf(0, (1000, 2), FLOAT32)
    changed = node
    for row in range(500):
        changed = regions.assign_step(changed, leaf(1, (1, 2), FLOAT32), (row, 0), (row + 1, 2), (1, 1))
    assert regions.part(changed, (700, 0), (701, 2), (1, 1)).inputs[0] is node
    # another one may be anywhere among them
    assert regions.part(changed, (3, 0), (4, 2), (1, 1)).inputs[0] is changed


def test_many_parts_are_added_where_they_are() -> None:
    node = _base()
    parts = [regions.slice_step(node, *_row(row)) for row in (0, 1, 2, 0)]
    grads = [regions.embed(part, node.shape, *_row(row)) for row, part in zip((0, 1, 2, 0), parts, strict=True)]
    assert not regions.is_assigned(accumulation.total(grads))
    many = accumulation.total(grads * 3)
    assert regions.is_assigned(many)
    value = np.arange(40, dtype=np.float32).reshape(8, 5)
    program = ReferenceProgram([many], lambda given: False)
    expected = np.zeros((8, 5), np.float32)
    expected[0], expected[1], expected[2] = 6 * value[0], 3 * value[1], 3 * value[2]
    np.testing.assert_array_equal(program.run([value])[0], expected)


def test_what_was_joined_need_not_be_parted() -> None:
    pieces = [leaf(number, (size,), FLOAT32) for number, size in enumerate((3, 4, 5))]
    joined = concatenate(pieces, 0)
    assert split_at(joined, (3, 7), 0) == tuple(pieces)
    assert split_at(joined, (3, 8), 0) != tuple(pieces)
