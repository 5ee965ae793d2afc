"""Templates: the nodes that they make are those of the rules, for every sample of every operator and its gradient."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive import gradient
from phonograd.core.graph import templates
from phonograd.core.graph.node import Node, ancestors
from phonograd.core.graph.operator import REGISTRY, composite, operator
from phonograd.core.ops.math.structural import LEAF, leaf, variable

from ..ops.checks import Sample, leaves_for
from ..plan.test_samples import every_sample

#: leaves of different runs have different numbers
_APART = 10_000


def _moved(nodes: list[Any], run: int, marked: bool) -> list[Any]:
    """Return the same leaves with other numbers, as variables if gradients are wanted."""
    found = []
    for node in nodes:
        if node is None:
            found.append(None)
            continue
        other = leaf(node.attributes[0] + run * _APART, node.shape, node.dtype)
        found.append(variable(other, node.attributes[0]) if marked and node.dtype.kind == "f" else other)
    return found


def _numbered(heads: list[Node | None], contents: dict[Any, int]) -> list[int | None]:
    """Return a number for each head: nodes of equal contents have equal numbers, whatever the numbers of leaves are."""
    numbers: dict[Node, int] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Node):
            return numbers.get(value) or _numbered([value], contents)[0]
        return tuple([plain(part) for part in value]) if isinstance(value, tuple) else value

    for node in ancestors([head for head in heads if head is not None]):
        attributes = node.attributes
        if node.operator is LEAF:
            attributes = (attributes[0] % _APART, *attributes[1:])
        facts = node.shape, node.dtype, node.marked, node.context, node.outputs, node.kind
        sources = tuple([numbers[source] for source in node.inputs])
        call = None if node.call is None else (node.call[0], plain(node.call[1]), plain(node.call[2]))
        content = node.operator, plain(attributes), sources, facts, call
        numbers[node] = contents.setdefault(content, len(contents))
    return [None if head is None else numbers[head] for head in heads]


def build(sample: Sample, run: int) -> list[Node | None]:
    """Return the results of a sample and the gradients of its inputs, on leaves of this run."""
    nodes, _ = leaves_for(sample.inputs)
    given = _moved(nodes, run, bool(sample.order))
    found = list(sample.call(given))
    heads = tuple([head for head in found if head.marked and head.dtype.kind == "f"])
    if not heads:
        return found
    try:
        targets = gradient.differentiate(heads, (None,) * len(heads)).targets
    except MXNetError:
        return found
    return [*found, *[targets.get(node) for node in given if node is not None]]


@every_sample
def test_equal_nodes(sample: Sample) -> None:
    templates._forget()
    contents: dict[Any, int] = {}
    by_rules = _numbered(build(sample, 1), contents)
    # the second run records templates, and the third one uses them
    assert _numbered(build(sample, 2), contents) == by_rules
    assert _numbered(build(sample, 3), contents) == by_rules


def _recorded(declared: Any) -> list[Any]:
    return [type(entry).__name__ for entry in declared.body_templates._kinds.values()]


@pytest.fixture
def unregistered():
    before = set(REGISTRY)
    yield
    for name in set(REGISTRY) - before:
        del REGISTRY[name]


def test_a_rule_that_looks_below_its_inputs_has_no_template(unregistered: None) -> None:
    tanh = REGISTRY["tanh"]

    @composite()
    def _looks(data: Any) -> Any:
        return data.inputs[0] if data.operator is tanh else data

    x, y, z = [leaf(number, (2, 3), FLOAT32) for number in (70_001, 70_002, 70_003)]
    for node in (x, y, z):
        assert _looks(node).inputs[0] is node
    assert _recorded(_looks) == ["_ByOperator"]
    # another operator is another template; this one has none
    for node in (x, y, z):
        assert _looks(tanh(node)).inputs[0] is node


def test_equal_arguments_are_another_kind(unregistered: None) -> None:
    add, mul = REGISTRY["broadcast_add"], REGISTRY["broadcast_mul"]

    @composite()
    def _twice(lhs: Any, rhs: Any) -> Any:
        return mul(lhs, 2) if lhs is rhs else add(lhs, rhs)

    nodes = [leaf(number, (2, 3), FLOAT32) for number in range(71_000, 71_009)]
    for one, two in itertools.pairwise(nodes):
        assert _twice(one, two).inputs[0] is add(one, two)
        assert _twice(one, one).inputs[0] is mul(one, 2)


def test_templates_are_bounded(unregistered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_KINDS", 8)

    @composite()
    def _same(data: Any) -> Any:
        return data * 1

    for size in range(50):
        _same(leaf(72_000, (size + 1,), FLOAT32))
    assert len(_recorded(_same)) <= 8


def test_an_operator_declared_with_its_own_rule(unregistered: None) -> None:
    @operator(gradient=lambda out_grad, out, data, *, scale: out_grad * scale)
    def _scaled(data: Any, *, scale: float = 1.0) -> Any:
        return data * scale

    for number in range(4):
        for scale in (2.0, 3.0):
            x = variable(leaf(73_000 + number, (2,), FLOAT32), 0)
            y = _scaled(x, scale=scale)
            (found,) = gradient.differentiate((y,), (None,)).targets.values()
            assert found is not None
            expected = gradient.full((2,), 1, found.dtype) * scale
            assert found is expected
