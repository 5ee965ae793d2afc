"""Convolutions in native plans: kernels compute them, as the reference does, with the same bits in any company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from phonograd import settings
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, single
from phonograd.core.ops.math.primitives import cast
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import kernel_cache
from phonograd.core.run.reference import evaluate, resolve

from .programs import assert_same_bits, run, run_singly, same_bits

Shape = tuple[int, ...]
Bindings = dict[Node, np.ndarray]

CONVOLUTION, DECONVOLUTION = REGISTRY["Convolution"], REGISTRY["Deconvolution"]
_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def leaves(dtype: Any, *shapes: Shape) -> Bindings:
    """Return variables of some shapes with random values."""
    generator = np.random.default_rng(len(shapes) + sum(map(sum, shapes)))
    nodes = [leaf(number, shape, np.dtype(dtype)) for number, shape in enumerate(shapes)]
    return {node: generator.normal(size=node.shape).astype(dtype) for node in nodes}


def layer(bindings: Bindings, **parameters: Any) -> list[Node]:
    """Return a convolution with bias among elementwise operators, and the gradients of everything."""
    data, weight, bias = [variable(node, number) for number, node in enumerate(bindings)]
    declared = DECONVOLUTION if parameters.pop("transposed", False) else CONVOLUTION
    out = REGISTRY["relu"](declared(data * 0.5, weight, bias, no_bias=False, **parameters)) * 2.0
    grads = differentiate((out * out,), (None,)).targets
    return [resolve(out), *[resolve(grad) for grad in grads.values() if grad is not None]]


def operators_of_numpy(targets: list[Node], bindings: Bindings) -> set[str]:
    """Return the names of the operators that NumPy evaluates."""
    parts = NativeProgram(targets, bindings.__contains__).parts
    return {part.nodes[0].operator.name for part in parts if not part.kernels}


def check(targets: list[Node], bindings: Bindings) -> None:
    """Assert that values are those of the reference, whatever else is computed and on however many threads."""
    found = run(targets, bindings)
    for node, expected in zip(targets, evaluate(targets, bindings), strict=True):
        scale = np.abs(expected).max(initial=1)
        assert np.abs(found[node] - expected).max(initial=0) <= 40 * np.finfo(node.dtype).eps * scale, node
    assert_same_bits(found, {**bindings, **run_singly(targets, bindings)})
    for threads in (1, 3):
        with settings.override(num_threads=threads):
            assert_same_bits(run(targets, bindings), {**bindings, **found})


CASES: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 3, 9, 8), (5, 3, 3, 3), {"pad": (1, 1)}),
    ((2, 3, 19, 18), (8, 3, 7, 7), {"pad": (3, 3), "stride": (2, 2)}),
    ((2, 16, 11, 9), (20, 16, 3, 3), {"pad": (1, 1)}),
    ((3, 17, 9, 9), (18, 17, 5, 5), {}),
    ((2, 16, 9, 9), (24, 16, 1, 1), {}),
    ((2, 16, 9, 9), (24, 16, 1, 1), {"stride": (2, 2)}),
    ((3, 16, 21, 20), (32, 16, 3, 3), {"pad": (1, 1), "stride": (2, 2)}),
    ((3, 128, 9, 9), (130, 128, 3, 3), {"pad": (1, 1)}),
    ((2, 12, 9, 9), (12, 1, 3, 3), {"pad": (1, 1), "num_group": 12}),
    ((2, 12, 9, 9), (24, 1, 3, 3), {"stride": (2, 2), "num_group": 12}),
    ((2, 6, 12, 12), (9, 2, 3, 2), {"dilate": (2, 3), "num_group": 3}),
    ((3, 4, 21), (5, 4, 4), {"stride": (3,), "pad": (2,)}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"pad": (1, 0, 1), "stride": (1, 2, 1)}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("data", "weight", "parameters"), CASES, ids=str)
def test_convolutions(data: Shape, weight: Shape, parameters: dict[str, Any], dtype: str) -> None:
    bindings = leaves(dtype, data, weight, (weight[0],))
    targets = layer(bindings, kernel=weight[2:], num_filter=weight[0], **parameters)
    assert not operators_of_numpy(targets, bindings) - {"_reshape"}
    check(targets, bindings)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("data", "weight", "parameters"),
    [
        ((2, 5, 6, 7), (5, 3, 3, 3), {"stride": (2, 2), "pad": (1, 1), "adj": (1, 1)}),
        ((2, 16, 6, 7), (16, 17, 3, 3), {}),
        ((2, 6, 8), (6, 2, 4), {"stride": (2,), "num_group": 3}),
        ((2, 4, 6, 7), (4, 1, 2, 2), {"stride": (3, 2), "num_group": 4}),
    ],
    ids=str,
)
def test_transposed_convolutions(data: Shape, weight: Shape, parameters: dict[str, Any], dtype: str) -> None:
    filters = weight[1] * parameters.get("num_group", 1)
    bindings = leaves(dtype, data, weight, (filters,))
    targets = layer(bindings, transposed=True, kernel=weight[2:], num_filter=filters, **parameters)
    assert not operators_of_numpy(targets, bindings) - {"_reshape"}
    check(targets, bindings)


@hypothesis_settings(suppress_health_check=_CHECKS, max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_random_convolutions(choices: st.DataObject) -> None:
    spatial, groups = choices.draw(st.integers(1, 2)), choices.draw(st.sampled_from([1, 1, 2]))
    channels, filters = choices.draw(st.sampled_from([1, 2, 16, 19])), choices.draw(st.sampled_from([1, 3, 17]))
    sizes = [
        (n, k, s, p, d)
        for n, k, s, p, d in choices.draw(
            st.lists(
                st.tuples(
                    st.integers(7, 13), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2)
                ),
                min_size=spatial,
                max_size=spatial,
            )
        )
    ]
    extent, kernel, stride, pad, dilate = [tuple(column) for column in zip(*sizes)]
    data = (choices.draw(st.integers(1, 3)), channels * groups, *extent)
    bindings = leaves(
        choices.draw(st.sampled_from(["float32", "float64"])),
        *(data, (filters * groups, channels, *kernel), (filters * groups,)),
    )
    window = {"stride": stride, "pad": pad, "dilate": dilate, "num_group": groups}
    check(layer(bindings, kernel=kernel, num_filter=filters * groups, **window), bindings)


def test_other_layouts_and_parts_of_arrays() -> None:
    bindings = leaves("float32", (2, 10, 9, 4), (6, 3, 3, 4))
    data, weight = bindings
    inner = REGISTRY["slice_axis"](data, axis=1, begin=1, end=9)
    out = CONVOLUTION(inner, weight, kernel=(3, 3), num_filter=6, no_bias=True, layout="NHWC")
    assert not operators_of_numpy([resolve(out)], bindings)
    check([resolve(out)], bindings)


def test_halves_are_computed_in_single_precision() -> None:
    bindings = leaves("float16", (2, 5, 9, 9), (4, 5, 3, 3))
    data, weight = bindings
    window = {"kernel": (3, 3), "num_filter": 4, "no_bias": True}
    out = resolve(CONVOLUTION(data, weight, **window))
    wide = cast(CONVOLUTION(cast(data, np.float32), cast(weight, np.float32), **window), np.float16)
    assert not operators_of_numpy([out], bindings)
    assert same_bits(run([out], bindings)[out], run([wide], bindings)[wide])


@pytest.mark.parametrize("weight", [(20, 1, 5, 5), (17, 16, 3, 3), (6, 3, 2, 2), (8, 4, 1, 1)], ids=str)
def test_new_batch_sizes_compile_nothing(weight: Shape) -> None:
    def compute(batch: int) -> int:
        data = (batch, weight[1], 12, 12)
        bindings = leaves("float32", data, weight)
        sources = [variable(node, number) for number, node in enumerate(bindings)]
        out = CONVOLUTION(*sources, kernel=weight[2:], num_filter=weight[0], no_bias=True)
        head = leaf(2, out.shape, out.dtype)
        targets = [out, *[grad for grad in differentiate((out,), (head,)).targets.values() if grad is not None]]
        before = kernel_cache.statistics.kernels_compiled
        run(list(map(resolve, targets)), {**bindings, head: np.ones(head.shape, head.dtype)})
        return kernel_cache.statistics.kernels_compiled - before

    compute(32)
    assert [compute(batch) for batch in (1, 5, 33, 64)] == [0, 0, 0, 0]


def test_no_images_and_no_channels() -> None:
    for data, weight in (((0, 16, 6, 6), (17, 16, 3, 3)), ((2, 0, 4, 4), (3, 0, 2, 2))):
        bindings = leaves("float32", data, weight, (weight[0],))
        check(layer(bindings, kernel=weight[2:], num_filter=weight[0]), bindings)


def test_winograd_is_a_setting() -> None:
    bindings = leaves("float32", (2, 32, 12, 12), (32, 32, 3, 3))
    data, weight = bindings
    out = resolve(single(CONVOLUTION(data, weight, kernel=(3, 3), num_filter=32, no_bias=True)))
    exact = evaluate([resolve(cast(out, np.float64))], bindings)[0]
    errors, ways = {}, {}
    for tile in (0, 4, 6, 8):
        with settings.override(winograd=tile):
            program = NativeProgram([out], bindings.__contains__)
        ways[tile] = {type(kernel).__module__.rpartition(".")[2] for kernel in program.parts[0].kernels}
        (found,) = program.run([bindings[node] for node in program.inputs])
        errors[tile] = np.abs(found - exact).max() / np.abs(exact).max()
    assert "winograd" not in ways[0]
    assert "winograd" in ways[4] & ways[6] & ways[8]
    assert max(errors[0], errors[4]) < 2e-6
    assert max(errors[6], errors[8]) < 6e-6
    with pytest.raises(ValueError, match="winograd must be 0, 4, 6 or 8"):
        settings.update(winograd=5)
