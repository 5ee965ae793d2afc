"""Generic templates: with extents that they were not made from, they are what the rules make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.base import MXNetError
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.graph import generic, templates
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, composite
from phonograd.core.graph.templates import Template, Templates
from phonograd.core.ops.math.structural import leaf

from ..ops.checks import Sample
from ..plan.test_samples import every_sample
from .test_templates import build, unregistered

__all__ = ["unregistered"]

#: extents that no generic template was made from
OTHERS = (
    (29, 31, 37, 41, 43, 47, 53, 59),
    (4, 6, 8, 10, 12, 14, 16, 18),
    (130, 257, 500, 64, 1000, 32, 96, 7),
    (2, 3, 5, 4, 7, 9, 8, 6),
    (3, 2, 4, 5, 6, 8, 9, 7),
    (5, 4, 3, 2, 6, 8, 9, 7),
    (8, 16, 4, 12, 24, 32, 64, 6),
    (2048, 2080, 2000, 1024, 2050, 2070, 1500, 2),
    (7000, 8001, 2000, 1999, 1998, 1997, 1996, 1995),
    (100_000, 5000, 100, 99, 98, 97, 96, 95),
)


def without_repeats(steps: Sequence[tuple[Sequence[int], Any]], first: int) -> tuple[list[Any], dict[int, int]]:
    """Return steps, each with places and facts, without equal ones, and the new number of each step's value.

    The value of the first step has the number ``first``. Nodes that are equal for certain extents only are one node.
    """
    numbers: dict[int, int] = {}
    known: dict[Any, int] = {}
    for number, (places, facts) in enumerate(steps, first):
        key = tuple([numbers.get(place, place) for place in places]), repr(facts)
        numbers[number] = known.setdefault(key, first + len(known))
    return list(known), numbers


def _facts(template: Template, count: int) -> Any:
    """Return all that determines the nodes a template makes for a number of arguments."""
    constants = [
        (node.operator, node.attributes, node.shape, node.dtype, len(node.inputs)) for node in template.constants
    ]
    steps: list[Any] = []
    for declared, places, attributes, type_, item, _ in template.steps:
        label = (item.operator, item.places, item.attributes, item.index) if isinstance(item, templates.Label) else item
        facts = type_.shape, type_.dtype, type_.context, type_.marked, type_.outputs
        steps.append((places, (declared, None if item is not None else attributes, facts, label)))
    merged, numbers = without_repeats(steps, count + len(constants))
    results = template.results if isinstance(template.results, tuple) else (template.results,)
    return constants, merged, [None if place is None else numbers.get(place, place) for place in results]


def _check(rule: Callable[[Any], Any], arguments: Sequence[Any], attributes: tuple[Any, ...]) -> bool:
    """Compare the generic template of a rule, if there is one, with what the rule makes of other extents."""
    asked, first = templates.record(rule, arguments)
    pattern = generic.pattern_of(arguments, attributes)
    if not isinstance(first, Template) or pattern is None:
        return False
    found = generic.generalize(rule, arguments, attributes, templates.record, asked)
    if found is None:
        return False
    for extents in OTHERS:
        others = generic.with_extents(arguments, dict(zip(pattern.extents, extents, strict=False)))
        other = generic.pattern_of(others, attributes)
        if other is None or other.key != pattern.key or other.extents != extents[: len(pattern.extents)]:
            continue
        if not found.condition(generic.shapes_of(others)):
            continue
        try:
            _, expected = templates.record(rule, others)
        except AssertionError:
            # the result of the operator has other extents, so its gradient rule never meets these
            continue
        assert isinstance(expected, Template)
        assert _facts(found.template(others), len(others)) == _facts(expected, len(others))
    return True


@every_sample
def test_generic_templates_hold_for_other_extents(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(self: Any, arguments: Any, attributes: Any, rule: Any, at_once: bool = False) -> None:
        _check(rule, arguments, attributes)

    monkeypatch.setattr(Templates, "find", find)
    build(sample, 60)


@pytest.mark.parametrize("name", ["mean", "dot", "log_softmax", "FullyConnected", "LayerNorm"])
def test_common_operators_have_generic_templates(name: str) -> None:
    shapes: dict[str, list[tuple[int, ...]]] = {
        "dot": [(6, 9), (9, 14)],
        "FullyConnected": [(6, 9), (14, 9), (14,)],
        "LayerNorm": [(6, 9), (9,), (9,)],
    }
    nodes = tuple([leaf(n, shape, FLOAT32) for n, shape in enumerate(shapes.get(name, [(6, 9)]), 90_000)])
    declared = REGISTRY[name]
    attributes = declared.attributes_of({"num_hidden": 14} if name == "FullyConnected" else {})
    named = dict(zip(declared.parameter_names, attributes, strict=True))
    assert declared.composite
    assert _check(lambda given: declared.function(*given, **named), nodes, attributes)


def test_a_rule_that_compares_with_a_bound_is_learned_on_both_sides(unregistered: None) -> None:
    @composite()
    def _bounded(data: Any) -> Any:
        return data * 2 if data.shape[0] > 100 else data + data

    for extent in range(2, 300):
        node = leaf(91_000, (extent,), FLOAT32)
        expected = node * 2 if extent > 100 else node + node
        assert _bounded(node).inputs[0] is expected
    (learned,) = _bounded.body_templates._patterns.values()
    assert [[each.condition([(extent,)]) for extent in (50, 100, 101)] for each in learned.variants] == [
        [True, True, False],
        [False, False, True],
    ]


def test_a_rule_that_looks_for_one_extent(unregistered: None) -> None:
    @composite()
    def _of_colors(data: Any) -> Any:
        return data * 2 if data.shape[-1] == 3 and data.shape[0] % 4 else data + data

    for rows in range(2, 12):
        for extent in (5, 7, 4, 3, 8):
            node = leaf(91_000, (rows, 30, extent), FLOAT32)
            expected = node * 2 if extent == 3 and rows % 4 else node + node
            assert _of_colors(node).inputs[0] is expected


def test_images_of_three_colors_among_others() -> None:
    for shape in [(5, 4, 5), (7, 4, 7), (6, 4, 6), (3, 4, 3), (9, 4, 9), (3, 8, 3)]:
        image = nd.ones(shape)
        change = (nd.image.adjust_lighting(image, alpha=(0.1, 0.2, -0.3)) - image).asnumpy()
        assert (change != 0).all() if shape[-1] == 3 else (change == 0).all()


def test_a_rule_that_tells_ones_apart(unregistered: None) -> None:
    @composite()
    def _squeezing(data: Any) -> Any:
        return data * 2 if data.shape[1] == 1 else data + data

    for extent in (*range(2, 30), 1, *range(30, 40), 1):
        node = leaf(91_000, (5, extent), FLOAT32)
        expected = node * 2 if extent == 1 else node + node
        assert _squeezing(node).inputs[0] is expected


def test_numbers_are_products_of_extents(unregistered: None) -> None:
    reshape, full = REGISTRY["_reshape"], REGISTRY["_full"]
    assert full.composite is False

    @composite()
    def _averaged(data: Any) -> Any:
        rows, columns = data.shape
        flat = reshape(data, shape=(rows * columns,))
        return flat * (1 / (rows * columns)) + float(columns)

    made = 0
    for rows in range(2, 12):
        node: Node = leaf(92_000, (rows, rows + 20), FLOAT32)
        before = len(_averaged.body_templates._patterns)
        result = _averaged(node)
        made += len(_averaged.body_templates._patterns) > before
        count = rows * (rows + 20)
        expected = reshape(node, shape=(count,)) * (1 / count) + float(rows + 20)
        assert result.inputs[0] is expected
    assert made == 1
    assert any([learned.variants for learned in _averaged.body_templates._patterns.values()])


def test_gradients_of_new_shapes_are_right() -> None:
    for extent in range(3, 40, 3):
        x = nd.array(np.random.RandomState(extent).rand(extent, extent + 5).astype("float32"))
        x.attach_grad()
        with autograd.record():
            y = nd.mean(nd.square(nd.tanh(x)) * nd.log_softmax(x).sum(axis=1, keepdims=True))
        y.backward()
        found = x.grad.asnumpy()
        step = np.zeros(x.shape, "float32")
        step[1, 2] = 1e-2

        def value(array: np.ndarray) -> float:
            a = array.astype("float64")
            log_softmax = a - np.log(np.exp(a).sum(axis=1, keepdims=True))
            return float((np.tanh(a) ** 2 * log_softmax.sum(axis=1, keepdims=True)).mean())

        expected = (value(x.asnumpy() + step) - value(x.asnumpy() - step)) / 2e-2
        np.testing.assert_allclose(found[1, 2], expected, rtol=2e-2, atol=1e-5)


def test_extents_between_other_numbers_are_another_pattern() -> None:
    for extent in (5000, 6000, 7000, 200_000, 90_000, 120_000):
        part = nd.slice(nd.zeros((extent,)), begin=(0,), end=(100_000,))
        assert part.shape == (min(extent, 100_000),)
    for extent in (50, 60, 70, 20, 21, 22, 90):
        part = nd.slice(nd.zeros((extent,)), begin=(0,), end=(40,))
        assert part.shape == (min(extent, 40),)


def test_very_large_extents_are_checked() -> None:
    for extent in (50, 60, 70):
        nd.argsort(nd.zeros((extent,)))
    with pytest.raises(MXNetError, match="does not have a sufficient precision"):
        nd.argsort(nd.zeros((1 << 25,)))


def test_the_number_of_largest_elements_may_change() -> None:
    for extent, count in ((50, 7), (60, 7), (70, 7), (300, 7), (8, 7), (7, 7), (5000, 40), (4000, 40), (41, 40)):
        values = nd.array(np.arange(extent)[::-1])
        assert nd.topk(values, k=count).asnumpy().tolist() == list(range(count))
    with pytest.raises(MXNetError, match="k must be smaller than 6"):
        nd.topk(nd.zeros((6,)), k=7)


def test_made_up_extents_differ_wherever_they_can() -> None:
    data = leaf(0, (2, 2, 3, 7), np.dtype(np.float32))
    # 3 is the only prime number between 2 and 5
    pattern = generic.pattern_of((data,), (2, 5))
    assert pattern is not None
    small, large = generic.made_up_extents(pattern, (2, 5), lambda _: True)
    assert small[3] != large[3]
    assert small[7] != large[7]


def test_adaptive_pooling_of_other_extents_is_differentiated_with_them() -> None:
    def gradient(rows: int, columns: int) -> Any:
        x = nd.array(np.ones((2, 2, 5, 7), np.float32))
        x.attach_grad()
        with autograd.record():
            y = nd.contrib.AdaptiveAvgPooling2D(x, output_size=(rows, columns))
        y.backward()
        return x.grad.asnumpy()

    for _ in range(2):
        for rows, columns in [(3, 7), (4, 6), (3, 6), (4, 7)]:
            np.testing.assert_allclose(gradient(rows, columns).sum(), 4 * rows * columns, rtol=1e-5)


def test_a_pattern_is_learned_when_several_extents_were_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generic, "LEAST_EXTENTS", 4)
    learned = generic.Learned[Any]((2,))
    met = [(2,), (3,), (3,), (5,), (2,), (7,), (5,), (9,)]
    assert [extents for extents in met if learned.is_to_learn(extents)] == [(7,), (9,)]
