"""Functions of expressions for any extents: with extents that they were not made from, they are what the rules make."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from phonograd import autograd, nd, settings
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.graph.generic import Pattern, insert, pattern_of, shapes_of, with_extents
from phonograd.core.graph.node import Node, new_node
from phonograd.core.graph.operator import REGISTRY, single
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import eager_expansion
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.plan.eager_expansion import Expansions
from phonograd.core.plan.expansion import Order, lowerings_of
from phonograd.core.run.reference import resolve

from ..graph.test_generic import OTHERS, without_repeats
from ..graph.test_templates import build
from ..ops.checks import Sample
from .test_samples import every_sample


def _check(node: Node, order: Order, given: Sequence[Node], pattern: Pattern) -> None:
    """Compare the steps of an expression for any extents, if there are some, with those for other extents."""
    steps = eager_expansion._steps_of(node, order, given)
    found = None if steps is None else eager_expansion._generalize(node, steps, given, pattern)
    if found is None:
        return
    general, condition = found
    for extents in OTHERS:
        stand_ins = with_extents(given, dict(zip(pattern.extents, extents, strict=False)))
        other = pattern_of(stand_ins, node.attributes)
        if other is None or other[:2] != (pattern.key, extents[: len(pattern.extents)]):
            continue
        leaves = [leaf(number, each.shape, each.dtype) for number, each in enumerate(stand_ins) if each is not None]
        shapes = shapes_of(leaves)
        if not condition(shapes):
            continue
        type_ = node.operator.result_type(tuple(leaves), node.attributes)
        alone = new_node(node.operator, tuple(leaves), node.attributes, type_, None, None)
        expected = eager_expansion._steps_of(alone, Order([alone], leaves), leaves)
        assert expected is not None
        inserted = [
            step._replace(attributes=insert(step.attributes, shapes), shape=insert(step.shape, shapes))
            for step in general.steps
        ]
        (one, first), (two, second) = [
            without_repeats([(step.places, step._replace(places=())) for step in steps], len(leaves))
            for steps in (inserted, expected.steps)
        ]
        assert one == two
        assert first.get(general.result, general.result) == second.get(expected.result, expected.result)


@every_sample
def test_steps_hold_for_other_extents(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    function = Expansions.function

    def checked(self: Any, node: Any, order: Any, given: Any, pattern: Any) -> Any:
        if pattern is not None and pattern.extents:
            _check(node, order, given, pattern)
        return function(self, node, order, given, pattern)

    monkeypatch.setattr(Expansions, "function", checked)
    monkeypatch.setattr(Expansions, "known", lambda *_: None)
    targets = [resolve(node) for node in build(sample, 70) if node is not None]
    program = EagerProgram(targets, lambda node: node.operator.name == "_leaf")
    for step in range(program.size):
        program.function(step)


@pytest.mark.parametrize("name", ["_log_softmax", "_softmax"])
def test_common_operators_are_among_them(name: str) -> None:
    data = leaf(93_000, (6, 9), FLOAT32)
    node = single(REGISTRY[name].apply((data,), (1,)))
    pattern = pattern_of((data,), (1,))
    assert pattern is not None
    order = Order([node], [data])
    steps = eager_expansion._steps_of(node, order, [data])
    assert steps is not None
    assert eager_expansion._generalize(node, steps, [data], pattern) is not None


@pytest.mark.parametrize("name", ["log_softmax", "softmax", "mean", "take", "pick", "LayerNorm"])
def test_new_shapes_have_the_bits_of_plans(name: str) -> None:
    draw = np.random.RandomState(3)
    for number in range(12):
        rows, columns = draw.randint(2, 60, 2)
        data = draw.randn(rows, columns).astype("float32")
        index = draw.randint(0, rows, 2 + number).astype("float32")
        results = []
        for tiers in ("background", "plan"):
            with settings.override(tiers=tiers):
                x = nd.array(data)
                x.attach_grad()
                with autograd.record():
                    if name == "take":
                        y = nd.take(x, nd.array(index)) * 2
                    elif name == "pick":
                        y = nd.pick(x, nd.array(np.arange(rows) % columns))
                    elif name == "LayerNorm":
                        y = nd.LayerNorm(x, nd.ones((columns,)), nd.zeros((columns,)))
                    else:
                        y = getattr(nd, name)(x)
                    loss = nd.square(y).sum()
                loss.backward()
                results.append((y.asnumpy().tobytes(), x.grad.asnumpy().tobytes()))
        assert results[0] == results[1], (name, rows, columns)


def _gelu(x: nd.NDArray) -> nd.NDArray:
    return nd.LeakyReLU(x, act_type="gelu")


_LARGE = {
    "FullyConnected": lambda x: nd.FullyConnected(x, x[:300], x[:300, 0], num_hidden=300),
    "gelu": _gelu,
    "softmax": lambda x: nd.softmax(x, axis=0),
    "LayerNorm": lambda x: nd.LayerNorm(x, x[0], x[1]),
    "smooth_l1": lambda x: nd.smooth_l1(x, scalar=2.0),
    "hard_sigmoid": lambda x: nd.hard_sigmoid(x),
}


@pytest.mark.parametrize("name", _LARGE)
def test_large_results_in_memory_of_old_values_have_the_bits_of_plans(name: str) -> None:
    data = np.random.RandomState(3).randn(400, 300).astype("float32")
    results = []
    for tiers in ("background", "plan"):
        with settings.override(tiers=tiers):
            x = nd.array(data)
            # functions are kept from the third call on
            found = [_LARGE[name](x) for _ in range(4)]
            results.append([array.asnumpy().tobytes() for array in found])
            assert x.asnumpy().tobytes() == data.tobytes()
    assert results[0] == results[1]


def test_values_are_reused_where_nothing_sees_them() -> None:
    data = leaf(93_100, (6, 9), FLOAT32)
    node = single(REGISTRY["_log_softmax"].apply((data,), (1,)))
    steps = eager_expansion._steps_of(node, Order([node], [data]), [data])
    assert steps is not None
    dead = eager_expansion.last_reads([step.places for step in steps.steps], steps.given, steps.result)
    reusable = eager_expansion._reusable_values(steps, dead)
    by_name = {step.operator.name: number for number, step in enumerate(steps.steps)}
    shifted = next(number for number, step in enumerate(steps.steps) if step.operator.name == "broadcast_sub")
    assert reusable[steps.result - steps.given] == shifted + steps.given
    # the exponential is followed by another reader of its argument
    assert reusable[by_name["exp"]] == -1
    # a view of the value stays
    (moving,) = lowerings_of(REGISTRY["_reshape"](data, shape=(9, 6)))
    assert moving.only_moves
    view = steps.steps[0]._replace(lowering=moving, places=(shifted + steps.given,))
    viewed = [*steps.steps[: shifted + 1], view]
    last = steps.steps[steps.result - steps.given]
    viewed += [last._replace(places=(shifted + steps.given, 0)), last._replace(places=(shifted + 2, shifted + 3))]
    again = eager_expansion._Steps(viewed, len(viewed), 1)
    dead = eager_expansion.last_reads([step.places for step in again.steps], again.given, again.result)
    assert eager_expansion._reusable_values(again, dead)[shifted + 2] == -1


def test_steps_drop_values_after_their_last_use() -> None:
    size = 1 << 20
    data = nd.ones((size,))
    with settings.override(tiers="background"):
        nd.waitall()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            _gelu(data).wait_to_read()
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
    assert peak < 4 * 4 * size, "gelu has more steps than that"
