"""Pooling in native plans: kernels compute it, as the reference does, with the same bits in any company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phonograd import settings
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import kernel_cache
from phonograd.core.run.reference import evaluate, resolve

from .programs import assert_same_bits, run, run_singly, same_bits

Shape = tuple[int, ...]
POOLING = REGISTRY["Pooling"]

WINDOWS: list[tuple[Shape, dict[str, Any]]] = [
    ((2, 3, 24, 24), {"kernel": (2, 2), "stride": (2, 2)}),
    ((3, 5, 8, 8), {"kernel": (2, 2), "stride": (2, 2)}),
    ((3, 5, 7, 7), {"kernel": (2, 2), "stride": (2, 2)}),
    ((3, 5, 7, 7), {"kernel": (2, 2), "stride": (2, 2), "pooling_convention": "full"}),
    ((2, 3, 12, 13), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ((2, 3, 12, 33), {"kernel": (3, 2), "stride": (1, 1)}),
    ((2, 3, 9, 9), {"kernel": (3, 3), "stride": (3, 3)}),
    ((2, 3, 6, 5), {"global_pool": True}),
    ((2, 3, 21), {"kernel": (4,), "stride": (3,), "pad": (2,)}),
    ((2, 2, 5, 6, 7), {"kernel": (2, 2, 2), "stride": (2, 2, 2)}),
    ((2, 2, 4, 4), {"kernel": (3, 3), "stride": (4, 4), "pad": (2, 2), "pooling_convention": "full"}),
]


def graph(shape: Shape, kind: str, dtype: Any = "float32", **parameters: Any) -> tuple[list[Node], list[Node]]:
    """Return the targets and leaves of pooling among elementwise operators, with its first two derivatives."""
    data = leaf(0, shape, np.dtype(dtype))
    source = variable(data, 0)
    out = POOLING(source * 2.0, pool_type=kind, **parameters)
    head = leaf(1, out.shape, out.dtype)
    (grad,) = [grad for grad in differentiate((out * out,), (head,)).targets.values() if grad is not None]
    (second,) = [grad for grad in differentiate((grad * grad,), (None,)).targets.values() if grad is not None]
    return [resolve(out), resolve(grad), resolve(second)], [data, head]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["max", "avg", "sum"])
@pytest.mark.parametrize(("shape", "parameters"), WINDOWS, ids=str)
def test_pooling(shape: Shape, parameters: dict[str, Any], kind: str, dtype: str) -> None:
    targets, leaves = graph(shape, kind, dtype, **parameters)
    generator = np.random.default_rng(sum(shape))
    # few different numbers, so that windows have several largest elements
    bindings = {node: generator.integers(-5, 6, node.shape).astype(dtype) / 4 for node in leaves}
    program = NativeProgram(targets, bindings.__contains__)
    numpy = {part.nodes[0].operator.name for part in program.parts if not part.kernels}
    assert not numpy - {"_reshape"}
    found = run(targets, bindings)
    for node, expected in zip(targets, evaluate(targets, bindings), strict=True):
        np.testing.assert_allclose(found[node], expected, rtol=20 * np.finfo(dtype).eps, atol=1e-5, err_msg=str(node))
    assert_same_bits(found, {**bindings, **run_singly(targets, bindings)})
    for threads in (1, 3):
        with settings.override(num_threads=threads):
            assert_same_bits(run(targets, bindings), {**bindings, **found})


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("shape", "parameters"), WINDOWS, ids=str)
def test_nan_and_infinities_are_those_of_the_reference(shape: Shape, parameters: dict[str, Any], dtype: str) -> None:
    data = leaf(0, shape, np.dtype(dtype))
    out = POOLING(variable(data, 0), pool_type="max", **parameters)
    head = leaf(1, out.shape, out.dtype)
    (grad,) = [grad for grad in differentiate((out,), (head,)).targets.values() if grad is not None]
    targets = [resolve(out), resolve(grad)]
    generator = np.random.default_rng(sum(shape))
    values = generator.choice([np.nan, np.inf, -np.inf, 1.0, -0.0, 0.0], size=shape, p=[0.5, 0.1, 0.2, 0.1, 0.05, 0.05])
    # gradients that add up exactly
    bindings = {data: values.astype(dtype), head: generator.integers(-4, 5, out.shape).astype(dtype)}
    found = run(targets, bindings)
    for node, expected in zip(targets, evaluate(targets, bindings), strict=True):
        assert np.array_equal(found[node], expected), node


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_new_sizes_compile_nothing(kind: str) -> None:
    def compute(*shape: int) -> int:
        data = leaf(0, shape, np.dtype("float32"))
        out = POOLING(variable(data, 0), pool_type=kind, kernel=(2, 2), stride=(2, 2))
        head = leaf(1, out.shape, out.dtype)
        (grad,) = [grad for grad in differentiate((out,), (head,)).targets.values() if grad is not None]
        before = kernel_cache.statistics.kernels_compiled
        bindings = {node: np.ones(node.shape, node.dtype) for node in (data, head)}
        run([resolve(out), resolve(grad)], bindings)
        return kernel_cache.statistics.kernels_compiled - before

    compute(4, 3, 24, 26)
    assert [compute(*shape) for shape in ((1, 3, 24, 26), (7, 5, 24, 26), (4, 3, 40, 36))] == [0, 0, 0]


def test_no_images() -> None:
    for kind in ("max", "avg"):
        targets, leaves = graph((0, 3, 8, 8), kind, kernel=(2, 2))
        bindings = {node: np.zeros(node.shape, node.dtype) for node in leaves}
        found = run(targets, bindings)
        for node, expected in zip(targets, evaluate(targets, bindings), strict=True):
            assert same_bits(found[node], np.asarray(expected))
