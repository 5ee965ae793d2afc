"""Every sample of every operator, with its gradient, on the native executor: the reference's values, in mixed plans."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.run.reference import evaluate, resolve

from .. import ops as samples
from ..ops.checks import Sample, leaves_for
from ..run.test_threads import divided
from .programs import assert_same_bits, run, run_singly

SAMPLES: list[Sample] = [
    sample
    for module in pkgutil.iter_modules(samples.__path__)
    if module.name.startswith("samples_")
    for sample in importlib.import_module(f"{samples.__name__}.{module.name}").SAMPLES
]


every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
#: one sample of each operator that takes numbers
FIRST = list({sample.name: sample for sample in reversed(SAMPLES) if sample.inputs}.values())
DTYPES = ("float16", "float64", "int32")


def _agree(found: np.ndarray, expected: np.ndarray, node: Node) -> None:
    """Assert that two values are equal, or differ by rounding."""
    assert (found.shape, found.dtype) == (node.shape, node.dtype)
    if node.dtype.kind != "f":
        assert np.array_equal(found, expected), node
        return
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    tolerance = 300 * np.finfo(node.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale, err_msg=str(node))


@every_sample
def test_native_agrees_with_the_reference(sample: Sample) -> None:
    nodes, bindings = leaves_for(sample.inputs)
    if sample.order:
        nodes = [variable(n, k) if n is not None and n.dtype.kind == "f" else n for k, n in enumerate(nodes)]
    targets = [resolve(node) for node in sample.call(nodes)]
    heads = [head for head in sample.call(nodes) if head.marked and head.dtype.kind == "f"]
    if sample.order and heads:
        targets += _gradients(heads)
    found = run(targets, bindings)
    for node, expected in zip(targets, evaluate(targets, bindings), strict=True):
        _agree(found[node], expected, node)
    assert_same_bits(found, {**bindings, **run_singly(targets, bindings)})
    assert_same_bits(run(targets, bindings, make=EagerProgram), found)


def _gradients(heads: list[Node]) -> list[Node]:
    grads = differentiate(tuple(heads), (None,) * len(heads)).targets
    return [resolve(grad) for grad in grads.values() if grad is not None]


def _slow_unless(is_quick: bool) -> tuple[pytest.MarkDecorator, ...]:
    return () if is_quick else (pytest.mark.slow,)


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(sample, id=sample.name, marks=_slow_unless(any([sample is first for first in FIRST])))
        for sample in SAMPLES
    ],
)
def test_samples_give_the_same_bits_in_other_programs(sample: Sample) -> None:
    """Beside computed inputs and outputs that are read on, divided among threads, and with gaps between elements."""
    leaves, bindings = leaves_for(sample.inputs)
    nodes = [_computed(node, bindings) if node is not None else None for node in leaves]
    targets = [resolve(node) for node in sample.call(nodes)]
    targets += [_read_on(node) for node in targets if node.dtype.kind in "fiu" and node.dtype.itemsize > 2]
    expected = {**bindings, **run_singly(targets, bindings)}
    assert_same_bits(run(targets, bindings), expected)
    with divided(threads=2, elements=4):
        assert_same_bits(run(targets, bindings), expected)
    apart = {node: _with_gaps(np.asarray(value)) for node, value in bindings.items()}
    assert_same_bits(run(targets, apart), {**expected, **apart})


def _computed(node: Node, bindings: dict[Node, np.ndarray]) -> Node:
    """Return a value that is computed, and equal to that of a node."""
    if node.dtype.kind not in "fi" or node.dtype == np.float16:
        return node
    # -0.0 is what changes nothing when it is added
    zero = leaf(1000 + len(bindings), (), node.dtype)
    bindings[zero] = np.asarray(-0.0).astype(node.dtype)
    return node + zero


def _read_on(node: Node) -> Node:
    return resolve(node * node + node)


def _with_gaps(array: np.ndarray) -> np.ndarray:
    wide = np.full((*array.shape, 2), 7).astype(array.dtype)
    wide[..., 1] = array
    return wide[..., 1]


@pytest.mark.parametrize(
    ("sample", "dtype"),
    [
        # each operator has one of the dtypes in every run, and all with `make fuzz`
        pytest.param(sample, dtype, id=f"{sample.name}-{dtype}", marks=_slow_unless(number % 3 == place))
        for number, sample in enumerate(FIRST)
        for place, dtype in enumerate(DTYPES)
    ],
)
def test_other_precisions_agree_with_the_reference(sample: Sample, dtype: str) -> None:
    with np.errstate(invalid="ignore"):
        arrays = [a.astype(dtype) if a is not None and a.dtype == np.float32 else a for a in sample.inputs]
    leaves, bindings = leaves_for(arrays)
    if dtype == "int32" and sample.name.startswith("_"):
        pytest.skip("operators behind others are asked for what these take")
    try:
        targets = [resolve(node) for node in sample.call(leaves)]
    except MXNetError:
        pytest.skip(f"{sample.name} does not take {dtype}")
    found = run(targets, bindings)
    for node, expected in zip(targets, evaluate(targets, bindings), strict=True):
        _agree(found[node], expected, node)
    assert_same_bits(found, {**bindings, **run_singly(targets, bindings)})
