"""Every sample of every operator, with its gradient, on the native executor: the reference's values, in mixed plans."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest

from phonograd.gradient import differentiate
from phonograd.node import Node
from phonograd.operators.structural import variable
from phonograd.reference import evaluate, resolve

from .. import operators as samples
from ..operators.checks import Sample, leaves_for
from .programs import assert_same_bits, run, run_singly

SAMPLES: list[Sample] = [
    sample
    for module in pkgutil.iter_modules(samples.__path__)
    if module.name.startswith("samples_")
    for sample in importlib.import_module(f"{samples.__name__}.{module.name}").SAMPLES
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
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
        value = found[node]
        assert (value.shape, value.dtype) == (node.shape, node.dtype)
        if node.dtype.kind != "f":
            assert np.array_equal(value, expected)
            continue
        scale = np.abs(expected[np.isfinite(expected)]).max(initial=1)
        tolerance = 300 * np.finfo(node.dtype).eps
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance * scale, err_msg=str(node))
    assert_same_bits(found, {**bindings, **run_singly(targets, bindings)})


def _gradients(heads: list[Node]) -> list[Node]:
    grads = differentiate(tuple(heads), (None,) * len(heads)).targets
    return [resolve(grad) for grad in grads.values() if grad is not None]
