"""Plans for any extents: word for word what the planner makes for these extents, or nothing."""

from __future__ import annotations

import functools
import itertools
import marshal
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan import any_extents, cache
from phonograd.core.plan.any_extents import SIZED, STRUCTURES, Outline, outline_of, sized_draft
from phonograd.core.plan.native_program import recipe_of
from phonograd.core.plan.plan_tree import PlanTree
from phonograd.core.plan.sized_plan import Refused, SizedPlan
from phonograd.core.plan.sizes import Pinned, Size, Trace
from phonograd.core.run import kernel_cache
from phonograd.core.run.program import Recipe
from phonograd.core.run.reference import order, resolve
from phonograd.core.trace.trace import LOCAL

from ..ops.checks import Sample
from .test_samples import SAMPLES

_leaves = itertools.count(500_000)

#: other extents for those of a sample; each is the same for equal ones
CHANGES: tuple[Callable[[int], int], ...] = (
    lambda extent: extent,
    lambda extent: extent * 3 + 2,
    lambda extent: extent * 2,
    lambda extent: extent * 16 + 3,
)


def _outline(sample: Sample, change: Callable[[int], int]) -> Outline | None:
    """Return the outline of a sample and its gradients with other extents; None if there is no such call."""
    nodes: list[Any] = []
    for data in sample.inputs:
        node = None
        if data is not None:
            shape = tuple([change(extent) if extent > 1 else extent for extent in data.shape])
            node = leaf(next(_leaves), shape, data.dtype)
            if sample.order and data.dtype.kind == "f":
                node = variable(node, next(_leaves))
        nodes.append(node)
    try:
        found = sample.call(nodes)
        heads = tuple([head for head in found if head.marked and head.dtype.kind == "f"])
        targets = differentiate(heads, (None,) * len(heads)).targets if heads else {}
    except (MXNetError, AssertionError, ValueError, IndexError):
        return None
    wanted = [resolve(node) for node in [*found, *[grad for grad in targets.values() if grad is not None]]]
    wanted = list(dict.fromkeys(wanted))
    inputs, computed = order(wanted, lambda node: False)
    try:
        return outline_of(wanted, inputs, computed, False) if computed else None
    except Refused:
        return None


def _planned(outline: Outline) -> tuple[Recipe, Any]:
    count = len(outline.inputs)
    return recipe_of(outline.wanted, outline.inputs, outline.nodes[count:], outline.keep_all)


def _sized(outline: Outline, before: Outline) -> SizedPlan:
    draft = functools.partial(sized_draft, outline)
    return SizedPlan(outline.sizes, before.sizes, draft, _planned(outline)[1])


def _recipe(plan: SizedPlan, outline: Outline) -> Recipe | None:
    """Return the recipe of a graph, if a plan holds for it."""
    found = PlanTree([plan]).find(outline.sizes, outline.nodes)
    return None if found is None else found[1]


def _same_as_planned(outline: Outline, recipe: Recipe) -> None:
    assert recipe == _planned(outline)[0]


def test_plans_of_samples_are_those_of_the_planner() -> None:
    held = learned = 0
    for sample in SAMPLES[::97]:
        outlines = [_outline(sample, change) for change in CHANGES]
        alike = [each for each in outlines if each is not None and outlines[0] and each.key == outlines[0].key]
        if len(alike) < 2 or alike[0].sizes == alike[1].sizes:
            continue
        try:
            plan = _sized(alike[1], alike[0])
            plan = SizedPlan.restored(marshal.loads(marshal.dumps(plan.stored())))
        except (Refused, Pinned):
            continue
        learned += 1
        for outline in alike:
            recipe = _recipe(plan, outline)
            if recipe is not None:
                _same_as_planned(outline, recipe)
                held += 1
    assert learned > 4
    assert held > 2 * learned


# -- sizes


def _trace() -> tuple[Trace, Any, Any]:
    trace = Trace()
    return trace, trace.extent(6), trace.extent(10)


def test_sums_and_products_are_no_conditions() -> None:
    trace, rows, columns = _trace()
    assert math.prod((rows, columns, 4)) == rows * 4 * columns
    assert (rows * columns) // columns == rows
    assert not (rows * columns) % rows
    assert sum([rows, rows]) == 2 * rows
    assert rows - rows == 0
    assert rows * columns > 3
    assert rows >= 2
    assert not trace.lines


def test_answers_that_depend_on_extents_are_conditions() -> None:
    trace, rows, columns = _trace()
    assert rows < columns
    assert rows != columns
    assert max(rows, 4) is rows
    assert -(-columns // 4) == 3
    assert trace.conditions == 4


def test_values_that_c_needs_are_noticed() -> None:
    trace, rows, columns = _trace()
    for use in (range, int, float, np.zeros, lambda size: [0] * size, lambda size: f"{size}", math.gcd):
        with pytest.raises(Pinned):
            use(rows)
    assert list(range(columns // 4)) == [0, 1]
    assert trace.conditions == 1
    assert isinstance(rows, int)
    assert type(0.5 * rows).__name__ == "Ratio"


def test_look_ups_compare_sizes() -> None:
    trace, rows, columns = _trace()
    assert {(rows, 1): "found"}.get((columns, 1)) is None
    assert {rows + 4: "found"}[columns] == "found"
    assert trace.conditions == 2


# -- programs


@pytest.fixture
def structures() -> Iterator[None]:
    def forget() -> None:
        LOCAL.trace.flush(end=True)
        cache.PLANS.root.following.clear()
        STRUCTURES.clear()

    with mx.settings.override(tiers="plan", cache_directory=""):
        forget()
        SIZED.connect(_same_as_planned)
        yield
        SIZED.disconnect(_same_as_planned)
        forget()


def _train(batches: list[int]) -> list[bytes]:
    mx.random.seed(3)
    weight, bias = nd.random.uniform(shape=(9, 12)), nd.random.uniform(shape=(12,))
    weight.attach_grad()
    bias.attach_grad()
    results = []
    for batch in batches:
        data = nd.array(np.random.RandomState(batch).rand(batch, 9).astype("float32"))
        with autograd.record():
            value = nd.tanh(nd.dot(data, weight) + bias).mean()
        value.backward()
        weight -= weight.grad
        bias -= bias.grad
        results += [value.asnumpy().tobytes(), weight.asnumpy().tobytes()]
    return results


def test_another_batch_size_is_not_planned(structures: None, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [16, 20, 22, 24, 26, 28, 27]
    before = kernel_cache.statistics.plans_sized
    found = _train(batches)
    assert kernel_cache.statistics.plans_sized - before >= 2
    monkeypatch.setattr(STRUCTURES, "find", lambda outline: None)
    LOCAL.trace.flush(end=True)
    cache.PLANS.root.following.clear()
    assert _train(batches) == found


def test_no_plan_of_other_integers_is_used() -> None:
    def outline(rows: int, columns: int) -> Outline:
        data = leaf(next(_leaves), (rows, columns), FLOAT32)
        wanted = [resolve((data * 2.0 + data) / 3.0)]
        return outline_of(wanted, *order(wanted, lambda node: False), keep_all=False)

    # constants are made with the first graph
    _, first, second = outline(2, 8), outline(6, 8), outline(9, 8)
    plan = _sized(second, first)
    other = outline(11, 8)
    assert _recipe(plan, other) == _planned(other)[0]
    for refused in (outline(11, 7), outline(8, 8), outline(1 << 25, 8)):
        assert refused.key == first.key
        assert _recipe(plan, refused) is None


def _tanh(rows: int) -> Outline:
    wanted = [resolve(REGISTRY["tanh"](leaf(next(_leaves), (rows, 3), FLOAT32)))]
    return outline_of(wanted, *order(wanted, lambda node: False), keep_all=False)


def test_extents_of_one_are_not_generalized() -> None:
    first, second = _tanh(1), _tanh(5)
    with pytest.raises(Refused):
        _sized(second, first)


def test_a_plan_that_differs_from_the_planner_is_not_used() -> None:
    first, second = _tanh(4), _tanh(5)

    class Planned:
        recipe, structures = _planned(second)
        kernels = dict.fromkeys(structures)

    planned: Any = Planned
    assert any_extents.sized_plan(second, first.sizes, planned) is not None
    planned.recipe = planned.recipe._replace(width=0)
    assert any_extents.sized_plan(second, first.sizes, planned) is None


def test_sizes_stand_for_integers() -> None:
    _, rows, _ = _trace()
    assert type(rows) is Size
    with pytest.raises(TypeError):
        rows.__class__ = float
