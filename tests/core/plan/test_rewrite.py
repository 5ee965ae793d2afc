"""Rewriting: what need not be computed, what must be, and that no bit changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import cast, permute, reshape_to, slice_step
from phonograd.core.ops.math.structural import constant, constant_value, full, leaf, variable
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.plan.rewrite import Rewriting
from phonograd.core.run.reference import ReferenceProgram, order, resolve

from .programs import SPECIAL, same_bits

FLOAT32, FLOAT64, INT32 = np.dtype("float32"), np.dtype("float64"), np.dtype("int32")
x = leaf(0, (3, 4), FLOAT32)
row = leaf(1, (4,), FLOAT32)
whole = leaf(2, (3, 4), INT32)
ones = full((3, 4), 1, FLOAT32)
neg, sum_to, broadcast = (REGISTRY[name] for name in ("negative", "_sum_to", "_broadcast"))
divide, subtract = REGISTRY["broadcast_div"], REGISTRY["broadcast_sub"]


def left_to_compute(target: Node, *available: Node) -> tuple[Node, list[Node]]:
    inputs, computed = order([target], available.__contains__)
    rewriting = Rewriting(computed, inputs, [target])
    return rewriting.source(target), rewriting.computed


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (x * ones, x),
        (ones * x, x),
        (x * constant(1, FLOAT32), x),
        (divide(x, ones), x),
        (x + constant(-0.0, FLOAT32), x),
        (subtract(x, constant(0, FLOAT32)), x),
        (whole + constant(0, INT32), whole),
        (whole * constant(1, INT32), whole),
        (neg(neg(x)), x),
        (neg(neg(neg(neg(x)))), x),
        (reshape_to(reshape_to(x, (12,)), (3, 4)), x),
        (permute(permute(x, (1, 0)), (1, 0)), x),
        (slice_step(x, (0, 0), (3, 4)), x),
        (REGISTRY["_broadcast"].apply((x,), ((3, 4),)), x),
        (REGISTRY["_sum_to"].apply((x,), ((3, 4),)), x),
        (REGISTRY["identity"](x), x),
        (REGISTRY["_cast"].apply((x,), (FLOAT32,)), x),
        (cast(cast(x, FLOAT64), FLOAT32), x),
        ((x * ones) * (ones * ones), x),
    ],
    ids=repr,
)
def test_identities(target: Node, expected: Node) -> None:
    assert left_to_compute(target) == (expected, [])


@pytest.mark.parametrize(
    ("target", "value"),
    [
        (ones * constant(0.1, FLOAT32), 0.1),
        (ones + ones, 2),
        (divide(constant(1, FLOAT32), constant(3, FLOAT32)), np.float32(1) / np.float32(3)),
        (subtract(constant(1, FLOAT32), ones), 0),
        (neg(constant(0, FLOAT32)), -0.0),
        (sum_to(ones, shape=()), 12),
        (sum_to(ones, shape=(4,)), 3),
        (broadcast(constant(2, FLOAT32), shape=(5, 5)), 2),
        (reshape_to(full((2, 3), 7, FLOAT32), (6,)), 7),
        (permute(full((2, 3), 7, FLOAT32), (1, 0)), 7),
        (slice_step(full((9,), 7, FLOAT32), (2,), (5,)), 7),
        (REGISTRY["ones_like"](x), 1),
        (REGISTRY["zeros_like"](x), 0),
    ],
    ids=repr,
)
def test_numbers_are_folded(target: Node, value: float) -> None:
    found, computed = left_to_compute(target)
    assert computed == [found]
    result = constant_value(found)
    assert result == np.float32(value)
    assert np.signbit(result) == np.signbit(value)
    assert (found.shape, found.dtype) == (target.shape, target.dtype)


@pytest.mark.parametrize(
    "target",
    [
        x + constant(0, FLOAT32),
        x * constant(0, FLOAT32),
        x * constant(-1, FLOAT32),
        subtract(x, constant(-0.0, FLOAT32)),
        subtract(constant(0, FLOAT32), x),
        divide(ones, x),
        sum_to(full((10,), 0.1, FLOAT32), shape=()),
        sum_to(full((1 << 25,), 1, FLOAT32), shape=()),
        cast(cast(x, INT32), FLOAT32),
        permute(permute(leaf(3, (2, 3, 4), FLOAT32), (1, 2, 0)), (1, 2, 0)),
    ],
    ids=repr,
)
def test_what_is_not_always_equal_is_computed(target: Node) -> None:
    found, computed = left_to_compute(target)
    assert found is target
    assert target in computed


def test_ones_that_repeat() -> None:
    found, computed = left_to_compute(full((3, 4), 1, FLOAT32) * row)
    assert computed == [found]
    assert found is broadcast(row, shape=(3, 4))


def test_values_that_are_not_there_are_not_used() -> None:
    # neg(neg(x)) is x, but of the two only neg(x) is known
    inner = neg(x)
    found, computed = left_to_compute(neg(inner), inner)
    assert found is neg(inner)
    assert computed == [found]


def test_seeds_of_gradients_disappear() -> None:
    w = variable(x, 0)
    loss = sum_to(w * leaf(4, (3, 4), FLOAT32), shape=())
    (grad,) = differentiate((loss,), (None,)).targets.values()
    assert grad is not None
    found, computed = left_to_compute(resolve(grad))
    assert found is leaf(4, (3, 4), FLOAT32)
    assert computed == []


def test_wanted_values_may_be_inputs_or_shared() -> None:
    targets = [x * ones, neg(neg(x)), REGISTRY["exp"](x) * ones, REGISTRY["exp"](x), ones * ones]
    program = NativeProgram(targets, lambda node: False)
    data = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    results = dict(zip([node for node, _ in program.kept], program.run([data]), strict=True))
    assert set(results) == set(targets)
    assert results[targets[0]] is data
    assert results[targets[2]] is results[targets[3]]
    assert np.array_equal(results[targets[4]], np.ones((3, 4), np.float32))


_values = st.sampled_from([*SPECIAL, 1.0, -1.0, 0.1, 3.0])
_trees = st.recursive(
    st.sampled_from([x, row, ones, full((3, 4), 0, FLOAT32)]) | _values.map(lambda value: constant(value, FLOAT32)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div"]), inner, inner),
        st.tuples(st.sampled_from(["negative", "turn", "flatten", "sum", "repeat", "identity"]), inner),
    ),
    max_leaves=12,
)


def _built(tree: Node | tuple[object, ...]) -> Node:
    if isinstance(tree, Node):
        return tree
    name, *parts = tree
    operands = [_built(part) for part in parts]  # type: ignore[arg-type]
    first = operands[0]
    special: dict[str, Callable[[], Node]] = {
        "turn": lambda: permute(first, tuple(reversed(range(first.ndim)))),
        "flatten": lambda: reshape_to(first, (first.size,)),
        "sum": lambda: sum_to(first, shape=(1,) * first.ndim),
        "repeat": lambda: broadcast(first, shape=(2, *first.shape)) if first.size < 200 else first,
    }
    if name in special:
        return special[str(name)]()
    if len(operands) == 2:
        try:
            np.broadcast_shapes(operands[0].shape, operands[1].shape)
        except ValueError:
            return first
    return REGISTRY[str(name)](*operands)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=75)
@given(_trees, st.integers(0, 10))
def test_no_bit_changes(tree: Node | tuple[object, ...], seed: int) -> None:
    target = resolve(_built(tree))
    if target.operator.name == "_leaf":
        return
    generator = np.random.default_rng(seed)
    data = {
        node: generator.choice(np.array([*SPECIAL, 1.0, -2.0, 0.1], np.float32), size=node.shape) for node in (x, row)
    }
    program = NativeProgram([target], lambda node: False)
    found = program.run([data[node] for node in program.inputs])[0]
    reference = ReferenceProgram([target], lambda node: False)
    values = dict(data)
    for step in reference.steps:
        node = step[-1]
        alone = NativeProgram([node], values.__contains__)
        if alone.kept:
            values[node] = alone.run([values[source] for source in alone.inputs])[0]
    assert same_bits(found, values[target])
