"""Calls for any extents: with extents that they were not made from, they are what the operators make."""

from __future__ import annotations

import math
import random
from typing import Any
from unittest import mock

import numpy as np
import pytest

from phonograd import nd
from phonograd.core.array import immediate, kinds
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.generic import insert, pattern_of, shapes_of, with_extents
from phonograd.core.graph.guards import with_sizes, without_sizes
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.graph.parameters import REQUIRED
from phonograd.core.lower.lowering import Fused, alternatives
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import eager_call
from phonograd.core.plan.eager_call import generalize_call

from ...fuzz import ways
from ..graph.test_generic import OTHERS, without_repeats
from ..ops.checks import Sample
from .test_samples import every_sample


@every_sample
def test_steps_hold_for_other_extents(sample: Sample) -> None:
    declared = REGISTRY[sample.name]
    if declared.random or declared.numbers or not sample.inputs:
        return
    if any([each is None for each in sample.inputs]):
        return
    leaves = [leaf(number, each.shape, each.dtype) for number, each in enumerate(sample.inputs)]
    attributes, sizes = without_sizes(declared, declared.attributes_of(sample.parameters))
    # one more argument, whose extents are the parameters that count elements
    arguments = [*leaves, leaf(len(leaves), sizes, np.dtype("float32"))] if sizes else leaves

    def make(nodes: Any) -> Any:
        given = nodes[len(leaves)].shape if len(nodes) > len(leaves) else sizes
        return declared.apply(tuple(nodes[: len(leaves)]), with_sizes(attributes, given))

    pattern = pattern_of(arguments, attributes)
    target = make(leaves)
    if pattern is None or not pattern.extents or type(target) is not Node:
        return
    found = generalize_call(target, leaves, attributes, pattern, make, sizes)
    if found is None:
        return
    for extents in OTHERS:
        stand_ins = with_extents(arguments, dict(zip(pattern.extents, extents, strict=False)))
        other = pattern_of(stand_ins, attributes)
        if other is None or other[:2] != (pattern.key, extents[: len(pattern.extents)]):
            continue
        others = [leaf(number, each.shape, each.dtype) for number, each in enumerate(stand_ins) if each is not None]
        if max([node.size for node in others]) > 1 << 18:
            # such calls are not immediate
            continue
        shapes = shapes_of(others)
        if not found.condition(shapes):
            continue
        expected = eager_call._steps_of(make(others), others[: len(leaves)])
        assert expected is not None
        inserted = [
            eager_call._Step(
                step.operator, insert(step.attributes, shapes), insert(step.shape, shapes), step.dtype, step.places
            )
            for step in found._steps
        ]
        one, two = [
            without_repeats([(step.places, step._replace(places=())) for step in steps], len(leaves))
            for steps in (inserted, expected)
        ]
        assert one[0] == two[0]


def forget() -> None:
    """Forget all kinds of immediate calls."""
    for known in (immediate.CALLS, kinds._guards, kinds._patterns, kinds._elementwise):
        known.clear()


@pytest.mark.parametrize("name", ["tanh", "log_softmax", "mean", "take", "dot", "Reshape", "broadcast_add"])
def test_common_operators_are_among_them(name: str) -> None:
    chance = np.random.default_rng(0)
    calls: dict[str, Any] = {
        "take": lambda x: nd.take(x, nd.array([1.0, 0.0])),
        "dot": lambda x: nd.dot(x, x, transpose_b=True),
        "Reshape": lambda x: nd.reshape(x, (-1,)),
        "broadcast_add": lambda x: x + x[:, :1],
    }
    call = calls.get(name, getattr(nd, name))
    declared = REGISTRY[name]
    with ways.immediate():
        forget()
        for shape in [(3, 4), (5, 7), (8, 9)]:
            call(nd.array(chance.normal(size=shape)))
            call(nd.array(chance.normal(size=shape)))
        found = [learned for key, learned in kinds._patterns.items() if key[0] is declared]
        is_elementwise = any([key[0] is declared for key in kinds._elementwise])
    assert is_elementwise or any([learned.variants for learned in found])


def _elementwise() -> list[Operator]:
    """Return the elementwise operators that are no composites."""
    found = []
    for declared in {REGISTRY[name] for name in REGISTRY}:
        forms = [] if declared.composite else alternatives(declared.lowering)
        if any([each.fused_as is Fused.STEP for each in forms]):
            found.append(declared)
    return sorted(found, key=lambda declared: declared.name)


@pytest.mark.parametrize("declared", _elementwise(), ids=lambda declared: declared.name)
def test_elementwise_operators_broadcast_as_numpy_does(declared: Operator) -> None:
    shapes = [(3, 1), (1, 4), (4,)]
    count = len(declared.input_names)
    given: dict[str, Any] = {}
    for parameter in declared.parameters:
        if parameter.default is REQUIRED:
            given[parameter.name] = "float64" if parameter.name == "dtype" else 2
    for dtype in ("float32", "int32", "bool"):
        leaves = [leaf(number, shapes[number], np.dtype(dtype)) for number in range(count)]
        try:
            type_ = declared.result_type(tuple(leaves), declared.attributes_of(given))
        except MXNetError:
            # the dtype is refused, whatever the shapes are
            leaves = [leaf(number, (3, 1), np.dtype(dtype)) for number in range(count)]
            with pytest.raises(MXNetError):
                declared.result_type(tuple(leaves), declared.attributes_of(given))
            continue
        assert type_.shape == np.broadcast_shapes(*shapes[:count])


def test_calls_that_do_not_exist_for_made_up_extents_have_none() -> None:
    leaves = [leaf(0, (4, 6), np.dtype("float32"))]
    declared = REGISTRY["Reshape"]

    def make(nodes: Any) -> Any:
        if nodes[0].shape != (4, 6):
            raise MXNetError("no")
        return declared(*nodes, shape=(6, 4))

    attributes = declared.attributes_of({"shape": (6, 4)})
    pattern = pattern_of(leaves, ())
    assert pattern is not None
    assert generalize_call(make(leaves), leaves, attributes, pattern, make) is None


#: calls with parameters that count elements, given an array and two sizes, and the same in NumPy
SIZED: dict[str, tuple[Any, Any]] = {
    "topk": (lambda x, one, two: nd.topk(x, k=one), lambda x, one, two: np.argsort(-x, kind="stable")[:one]),
    "slice_axis": (
        lambda x, one, two: nd.slice_axis(x, axis=0, begin=one, end=two),
        lambda x, one, two: x[one:two],
    ),
    "repeat": (lambda x, one, two: nd.repeat(x, repeats=one), lambda x, one, two: np.repeat(x, one)),
    "one_hot": (lambda x, one, two: nd.one_hot(x, depth=one), lambda x, one, two: np.eye(100)[x.astype(int), :one]),
}


@pytest.mark.parametrize("name", SIZED)
def test_calls_hold_for_other_sizes_that_parameters_count(name: str) -> None:
    chance = np.random.default_rng(0)
    call, expected = SIZED[name]
    with ways.immediate():
        forget()
        with mock.patch.object(kinds, "_learn", wraps=kinds._learn) as learned:
            for extent, one, two in [(30, 4, 9), (40, 5, 17), (50, 6, 49), (61, 7, 21), (45, 20, 44), (23, 18, 19)]:
                values = chance.permutation(extent).astype("float32")
                found = call(nd.array(values), one, two)
                assert type(found._buffer) is np.ndarray
                np.testing.assert_array_equal(found.asnumpy(), expected(values, one, two))
        assert learned.call_count == 2


def test_sizes_are_checked() -> None:
    with ways.immediate():
        for extent, count in [(30, 4), (40, 5), (50, 6)]:
            nd.topk(nd.ones((extent,)), k=count)
        with pytest.raises(MXNetError, match="k must be smaller than 21, get k = 22"):
            nd.topk(nd.ones((21,)), k=22)


def test_sparse_results_of_new_parameters_are_sparse() -> None:
    with ways.immediate():
        for stype in ("csr", "row_sparse", "default"):
            assert nd.cast_storage(nd.array([[0, 1], [0, 0]]), stype=stype).stype == stype


def test_parameters_that_are_new_are_checked() -> None:
    data = nd.array([3.0, 1.0, 2.0])
    with ways.immediate():
        for count in (1, 2, 3):
            found = nd.topk(data, k=count)
            assert type(found._buffer) is np.ndarray
        with pytest.raises(MXNetError, match="Invalid Parameter format for k"):
            nd.topk(data, k="many")


def _random_call(chance: random.Random) -> Any:
    """Return a call with sizes of all kinds: negative, zero, one, an extent, more than that."""
    shape = [chance.choice([1, 2, 5, 13, chance.randint(1, 60)]) for _ in range(chance.randint(1, 2))]
    values = np.random.default_rng(chance.randrange(1 << 30)).permutation(math.prod(shape)).reshape(shape)
    data, axis = values.astype("float32"), chance.randrange(-len(shape), len(shape))
    extent = shape[axis]
    one, two = [
        chance.choice([-2, -1, 0, 1, 2, 3, extent, extent - 1, extent // 2, extent + 1, chance.randint(1, 70)])
        for _ in range(2)
    ]
    calls = [
        lambda: nd.topk(nd.array(data), axis=axis, k=one, ret_typ="indices"),
        lambda: nd.topk(nd.array(data), axis=None, k=one, ret_typ="value", is_ascend=True),
        lambda: nd.slice_axis(nd.array(data), axis=axis, begin=one, end=two),
        lambda: nd.slice_axis(nd.array(data), axis=axis, begin=one, end=None),
        lambda: nd.one_hot(nd.array(data % 7), depth=one),
        lambda: nd.repeat(nd.array(data), repeats=one, axis=axis),
    ]
    return chance.choice(calls)


def _outcome(call: Any) -> Any:
    """Return the values of a call, or its error."""
    try:
        found = call()
        return found.shape, found.dtype, found.asnumpy().tobytes()
    except MXNetError as error:
        return str(error).partition("\n")[0]


@pytest.mark.parametrize("seed", range(3))
def test_sizes_of_all_kinds_have_the_results_of_nodes(seed: int) -> None:
    chance = random.Random(seed)
    calls = [_random_call(chance) for _ in range(800)]
    expected = [_outcome(call) for call in calls]
    with ways.immediate():
        forget()
        for _ in range(2):
            assert [_outcome(call) for call in calls] == expected
        assert any([learned.variants for learned in kinds._patterns.values()])
