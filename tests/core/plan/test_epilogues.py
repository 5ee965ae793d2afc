"""Epilogues: operators in the stores of convolutions and products, with the bits of kernels of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phonograd import settings
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.epilogue import COLUMN, ELEMENT, NUMBER, ROW, Epilogue, Finishing
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.plan.packed_plans import NOTHING, PackedGraph
from phonograd.core.run import disk_cache, kernel_cache
from phonograd.core.run.host import host
from phonograd.core.run.packed_operands import PackedOperands
from phonograd.core.run.reference import resolve

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not kernel_cache.available(), reason="NumPy has no epilogues")

Shape = tuple[int, ...]
FULLY_CONNECTED, RELU, CLIP, EXP = [REGISTRY[name] for name in ("FullyConnected", "relu", "clip", "exp")]


def leaves(*shapes: Shape, dtype: Any = np.float32) -> list[Node]:
    return [leaf(number, shape, np.dtype(dtype)) for number, shape in enumerate(shapes)]


def programs(targets: list[Node], inputs: list[Node]) -> tuple[NativeProgram, NativeProgram]:
    """Return the programs that compute nodes without epilogues, and with them: all inputs but the first are steady."""
    available, wanted = frozenset(inputs).__contains__, [resolve(node) for node in targets]
    return NativeProgram(wanted, available), NativeProgram(wanted, available, steady=frozenset(inputs[1:]))


def check(targets: list[Node], inputs: list[Node]) -> list[Epilogue]:
    """Assert that both programs compute the same bits on any number of threads, and return the epilogues."""
    generator = np.random.default_rng(len(inputs))
    values = {node: generator.normal(size=node.shape).astype(node.dtype) for node in inputs}
    found: list[list[np.ndarray]] = []
    for threads in (1, 3):
        with settings.override(num_threads=threads):
            plain, finished = programs(targets, inputs)
            found.append(plain.run([values[node] for node in plain.inputs]))
            packed = PackedOperands(finished, finished.preparations)
            given = finished.inputs[: len(finished.inputs) - len(finished.preparations)]
            results = packed.run([values[node] for node in given])
            assert results is not None
            found.append(results)
    for results in found[1:]:
        for one, other in zip(found[0], results, strict=True):
            assert one.tobytes() == other.tobytes()
    assert finished.has_epilogues == bool(epilogues(finished))
    return epilogues(finished)


def epilogues(program: NativeProgram) -> list[Epilogue]:
    """Return the epilogues of a program's kernels."""
    return [each.epilogue for each in program.work if isinstance(each, Finishing) and each.epilogue is not None]


def convolved(data: Node, weight: Node, **parameters: Any) -> Node:
    parameters = {"kernel": weight.shape[2:], "num_filter": weight.shape[0], "no_bias": True, **parameters}
    result: Node = REGISTRY["Convolution"](data, weight, **parameters)
    return result


CONVOLUTIONS: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "one image": ((1, 20, 9, 9), (24, 20, 1, 1), {}),
    "images of one element": ((3, 20, 1, 1), (24, 20, 1, 1), {}),
    "vectors of filters": ((3, 40, 7, 7), (48, 40, 1, 1), {}),
    "vectors of filters, many images": ((5, 40, 7, 7), (48, 40, 1, 1), {}),
    "vectors of filters, the last one partial": ((3, 40, 7, 7), (125, 40, 1, 1), {}),
    "vectors of filters, after subsampling": ((1, 40, 13, 13), (48, 40, 1, 1), {"stride": (2, 2)}),
    "vectors of filters in groups": ((2, 800, 5, 5), (64, 400, 1, 1), {"num_group": 2}),
    "two blocks of terms": ((2, 400, 5, 5), (10, 400, 1, 1), {}),
    "columns": ((2, 3, 19, 18), (8, 3, 3, 3), {"pad": (1, 1), "stride": (2, 2)}),
    "several blocks of channels": ((2, 70, 9, 9), (10, 70, 3, 3), {"pad": (1, 1), "stride": (2, 2)}),
    "filters in lanes": ((2, 20, 17, 19), (47, 20, 2, 7), {}),
    "filters in lanes, blocks of channels, groups": (
        (2, 100, 19, 19),
        (96, 50, 3, 3),
        {"num_group": 2, "stride": (2, 2)},
    ),
    "lines": ((2, 6, 30, 30), (5, 6, 3, 3), {"pad": (1, 1)}),
    "lines, blocks of channels, groups": ((2, 80, 14, 15), (6, 40, 3, 3), {"num_group": 2, "pad": (1, 1)}),
    "joined images": ((5, 8, 5, 5), (10, 8, 3, 3), {"stride": (2, 2)}),
    "groups": ((2, 12, 9, 9), (18, 4, 3, 3), {"num_group": 3}),
    "depthwise": ((2, 12, 9, 11), (12, 1, 3, 3), {"num_group": 12, "pad": (1, 1)}),
    "depthwise, small images": ((2, 16, 7, 6), (16, 1, 3, 3), {"num_group": 16, "pad": (1, 1)}),
    "depthwise, wide kernels": ((2, 16, 7, 6), (16, 1, 5, 5), {"num_group": 16, "pad": (2, 2)}),
    "depthwise with strides": ((2, 12, 9, 18), (12, 1, 3, 3), {"num_group": 12, "pad": (1, 1), "stride": (2, 2)}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_convolutions_normalize_clip_and_add_in_their_stores(case: tuple[Shape, Shape, dict[str, Any]]) -> None:
    shape, weights, parameters = case
    out = convolved(*leaves(shape, weights), **parameters).shape
    channel = (1, out[1], 1, 1)
    inputs = leaves(shape, weights, channel, channel, channel, out)
    data, weight, mean, scale, shift, residual = inputs
    normalized = (convolved(data, weight, **parameters) - mean) * scale + shift
    (epilogue,) = check([CLIP(normalized, a_min=-0.5, a_max=1.0) + residual], inputs)
    assert set(epilogue.loads) - {NUMBER} == ({ROW, ELEMENT} if out[2:] != (1, 1) else {COLUMN, ELEMENT})


@pytest.mark.skipif(host().matrix_unit, reason="the matrix unit computes these products")
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_products_add_biases_in_their_stores(rows: int) -> None:
    inputs = leaves((rows, 30), (50, 30), (50,), (70, 50), (70,))
    data, first, first_bias, second, second_bias = inputs
    hidden = RELU(FULLY_CONNECTED(data, first, first_bias, num_hidden=50))
    found = check([RELU(FULLY_CONNECTED(hidden, second, second_bias, num_hidden=70)) * 2.0], inputs)
    assert found
    assert all([COLUMN in each.loads or rows == 1 for each in found])


def test_double_precision() -> None:
    inputs = leaves((2, 6, 9, 9), (7, 6, 3, 3), (1, 7, 1, 1), dtype=np.float64)
    data, weight, scale = inputs
    (epilogue,) = check([RELU(convolved(data, weight) * scale)], inputs)
    assert epilogue.dtype == np.float64


def test_a_residual_may_be_the_data_itself() -> None:
    inputs = leaves((2, 16, 12, 12), (16, 16, 1, 1))
    data, weight = inputs
    before = RELU(data * 2.0)
    assert check([RELU(convolved(before, weight) + before)], inputs)


REFUSED: dict[str, Callable[[Node, Node], list[Node]]] = {
    "results that are kept": lambda x, other: [RELU(x), x],
    "much work": lambda x, other: [EXP(EXP(x)) * EXP(x + 1.0)],
    "operands in another order": lambda x, other: [x + REGISTRY["transpose"](other, axes=(0, 1, 3, 2))],
    "sums": lambda x, other: [REGISTRY["sum"](x * 2.0, axis=(2, 3))],
}


@pytest.mark.parametrize("reader", list(REFUSED))
def test_other_readers_keep_their_own_kernels(reader: str) -> None:
    inputs = leaves((2, 6, 9, 9), (8, 6, 1, 1), (2, 8, 9, 9))
    data, weight, other = inputs
    assert not check(REFUSED[reader](convolved(data, weight), other), inputs)


def test_plans_without_steady_inputs_have_no_epilogues() -> None:
    inputs = leaves((2, 6, 9, 9), (8, 6, 1, 1))
    plain, finished = programs([RELU(convolved(*inputs))], inputs)
    assert not plain.has_epilogues
    assert finished.has_epilogues


def test_a_plan_with_epilogues_alone_is_found_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_STARTED", time.time() + 1e6)
    inputs = leaves((1, 20, 9, 9), (24, 20, 1, 1))
    graph = PackedGraph.of([resolve(RELU(convolved(*inputs)))], inputs, [1])
    assert graph is not None
    values: list[Any] = [np.random.default_rng(0).normal(size=node.shape).astype(np.float32) for node in inputs]
    with settings.override(cache_directory=str(tmp_path)):
        monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
        planned, disk = graph.plan(), kernel_cache.disk_cache()
        assert planned is not None
        assert disk is not None
        assert planned.has_epilogues
        assert not planned.preparations
        key = graph.key(disk)
        assert key is not None
        graph.save(disk, key, planned)
        loaded = graph.load(disk, key)
        assert isinstance(loaded, PackedOperands)
        (expected,), found = planned.run(values), loaded.run(values)
        assert found is not None
        assert found[0].tobytes() == expected.tobytes()
        graph.save(disk, key, None)
        assert graph.load(disk, key) is NOTHING
