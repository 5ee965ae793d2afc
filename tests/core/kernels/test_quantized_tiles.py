"""Products of small integers on a matrix unit (AMX-INT8) are exact.

On processors without the unit, kernels run in an emulation (:mod:`..matrix_unit`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd, settings
from phonograd.contrib import quantization
from phonograd.core.base.dtypes import FLOAT32, INT8, INT32, UINT8
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.quantized import plans, tiles
from phonograd.core.kernels.quantized.convolution import QuantizedForward
from phonograd.core.kernels.quantized.dots import Dot, dot_of
from phonograd.core.kernels.quantized.finish import Finish
from phonograd.core.kernels.target import Machine
from phonograd.core.run import host as host_module
from phonograd.core.run.host import host

from ..matrix_unit import emulate
from ..plan.plans import run
from .test_quantized import assembly

UNIT = Machine(64, 32, matrix_unit=True, dots="amx")
VNNI = UNIT._replace(matrix_unit=False, dots="vnni")
#: features of Intel's Sapphire Rapids, by LLVM's names
FEATURES = frozenset(
    ["sse2", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "amx-tile", "amx-int8", "amx-bf16"]
)


def numbers(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers of which many are the least or the greatest of a dtype."""
    random, limits = np.random.default_rng(seed), np.iinfo(dtype)
    found = random.integers(limits.min, limits.max + 1, shape)
    extreme = random.choice([limits.min, limits.max], shape)
    return np.where(random.random(shape) < 0.3, extreme, found).astype(dtype)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the unit for products of all sizes."""
    monkeypatch.setattr(tiles, "is_worth", lambda sizes, dot: True)
    for planner in (plans._dense, plans._convolution):
        planner.cache_clear()
    yield
    for planner in (plans._dense, plans._convolution):
        planner.cache_clear()


def dense(data: np.ndarray, weight: np.ndarray, finish: Finish, *vectors: np.ndarray, **options: Any) -> np.ndarray:
    """Return a product that the unit computes."""
    plan = plans._dense(data.shape, data.dtype, weight.shape, finish, UNIT)
    assert isinstance(plan.launches[-1].structure, tiles.TiledProduct)
    operands = dict(zip(("data", "weight", "scale", "bias"), (data, weight, *vectors), strict=False))
    return run(plan, (len(data), len(weight)), out_dtype=finish.dtype, **options, **operands)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "sizes",
    # one tile and less, whole tiles in place, odd sizes of several tiles, several blocks of rows
    [(1, 1, 1), (16, 64, 16), (32, 128, 32), (48, 192, 40), (7, 33, 17), (50, 131, 70), (200, 70, 3)],
    ids=str,
)
def test_products_are_exact(sizes: tuple[int, int, int], dtype: str) -> None:
    rows, terms, columns = sizes
    data, weight = numbers(dtype, rows, terms), numbers("int8", columns, terms, seed=1)
    expected = data.astype(np.int64) @ weight.astype(np.int64).T
    assert np.array_equal(dense(data, weight, Finish(INT32), pieces=5, threads=3), expected)
    random = np.random.default_rng(2)
    vectors = [random.random(columns, np.float32) * 1e-3, random.integers(-9000, 9000, columns).astype(np.int32)]
    for finish in (Finish(INT8), Finish(UINT8, True), Finish(FLOAT32, True)):
        expected = REGISTRY["_int8_product_scaled"].function(
            data, weight, *vectors, dtype=finish.dtype, relu=finish.relu
        )
        assert np.array_equal(dense(data, weight, finish, *vectors, pieces=2), expected)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(("dtype", "number"), [("uint8", 255), ("int8", -128), ("int8", 127)])
def test_the_largest_sums_are_exact(dtype: str, number: int) -> None:
    for factor in (-128, 127):
        data, weight = np.full((17, 200), number, dtype), np.full((33, 200), factor, "int8")
        assert np.all(dense(data, weight, Finish(INT32)) == number * factor * 200)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "sizes",
    # batch, channels, extent, filters, kernel, stride, pad, dilate, groups
    [
        (1, 1, (3, 3), 1, 1, 1, 0, 1, 1),
        (2, 3, (8, 8), 5, 3, 1, 1, 1, 1),
        (2, 6, (11, 11), 8, 3, 2, 1, 1, 2),
        (9, 8, (3, 3), 17, 3, 1, 1, 2, 1),
        # several blocks of channels, one of which does not fill tiles, and several tiles of filters
        (1, 270, (5, 4), 40, 3, 1, 1, 1, 1),
        (1, 70, (7, 9), 33, 1, 1, 0, 1, 1),
    ],
    ids=str,
)
def test_convolutions_are_exact(sizes: tuple[Any, ...], dtype: str) -> None:
    batch, channels, extent, filters, kernel, stride, pad, dilate, groups = sizes
    data = numbers(dtype, batch, channels, *extent)
    weight = numbers("int8", filters, channels // groups, kernel, kernel, seed=1)
    window = {name: (value, value) for name, value in (("stride", stride), ("dilate", dilate), ("pad", pad))}
    expected = REGISTRY["_int8_convolution"].function(data, weight, **window, groups=groups)
    places = (window["stride"], window["dilate"], window["pad"], groups)
    random = np.random.default_rng(2)
    vectors = {
        "scale": random.random(filters, np.float32) * 1e-3,
        "bias": random.integers(-9000, 9000, filters).astype(np.int32),
    }
    for finish in (Finish(INT32), Finish(UINT8, True)):
        plan = plans._convolution(data.shape, data.dtype, weight.shape, places, finish, UNIT, 3)
        assert isinstance(plan.launches[-1].structure, tiles.TiledForward)
        operands = {"data": data, "weight": weight, **(vectors if finish.is_scaled else {})}
        found = run(plan, expected.shape, out_dtype=finish.dtype, pieces=3, threads=2, **operands)
        if finish.is_scaled:
            options = {**window, "groups": groups, "relu": True, "dtype": finish.dtype}
            expected = REGISTRY["_int8_convolution_scaled"].function(*operands.values(), **options)
        assert np.array_equal(found, expected)


# -- networks


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Let all plans of products use the unit, or its emulation; list the kernels that are written for it."""
    planners = {"_dense": plans._dense, "_convolution": plans._convolution}
    monkeypatch.setattr(plans, "_dense", lambda *known: planners["_dense"](*known[:-1], UNIT))
    monkeypatch.setattr(plans, "_convolution", lambda *known: planners["_convolution"](*known[:-2], UNIT, known[-1]))
    monkeypatch.setattr(tiles, "is_worth", lambda sizes, dot: True)
    found: list[Any] = []

    def recorded(kernel: Any) -> Any:
        write = kernel.write

        def text(self: Any, name: str) -> str:
            found.append(type(self))
            return write(self, name) if host().dots == "amx" else emulate(write(self, name))

        return text

    for kernel in (tiles.TiledProduct, tiles.TiledForward):
        monkeypatch.setattr(kernel, "write", recorded(kernel))
    with settings.override(cache_directory="", tiers="plan"):
        yield found
    for planner in planners.values():
        planner.cache_clear()


def test_quantized_networks_have_the_same_results(written: list[Any]) -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(10, 3, padding=1, activation="relu"), mx.gluon.nn.MaxPool2D())
    net.add(mx.gluon.nn.Conv2D(18, 3, strides=2), mx.gluon.nn.Dense(20, activation="relu"), mx.gluon.nn.Dense(5))
    net.initialize(mx.init.Xavier())
    values = np.random.default_rng(0).uniform(-1, 1, (5, 3, 12, 12))
    data = nd.array(values)
    batches = mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(data, nd.zeros((5,))), 5)
    quantized = quantization.quantize_net_v2(net, calib_mode="naive", calib_data=batches)
    found = quantized(data).asnumpy()
    assert set(written) == {tiles.TiledProduct, tiles.TiledForward}
    with settings.override(executor="reference"):
        expected = quantized(nd.array(values)).asnumpy()
    assert np.array_equal(found, expected)


# -- the choice, and the instructions


def test_the_unit_is_used_where_it_is_faster() -> None:
    many = plans._dense((32, 256), UINT8, (64, 256), Finish(INT32), UNIT)
    assert isinstance(many.launches[-1].structure, tiles.TiledProduct)
    # a single row would fill a sixteenth of a tile, and depthwise filters as little
    few = plans._dense((1, 256), UINT8, (64, 256), Finish(INT32), UNIT)
    window = (1, 1), (1, 1), (1, 1), 8
    apart = plans._convolution((2, 8, 9, 9), INT8, (8, 1, 3, 3), window, Finish(INT32), UNIT, 2)
    kernels = {type(launch.structure) for launch in (*few.launches, *apart.launches)}
    assert {plans.WordGemm, QuantizedForward} < kernels
    assert not kernels & {tiles.TiledProduct, tiles.TiledForward}
    assert dot_of(UINT8, UNIT) == Dot(4, "vnni")


def test_processors_with_the_unit_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "_has_matrix_unit", lambda features: "amx-tile" in features)
    machine = host_module._machine.__wrapped__
    assert machine(FEATURES, True) == UNIT
    assert machine(FEATURES, False) == VNNI
    assert machine(FEATURES - {"amx-bf16"}, True) == UNIT._replace(matrix_unit=False)
    assert machine(FEATURES - {"amx-int8"}, True) == VNNI._replace(matrix_unit=True)
    assert machine(FEATURES - {"amx-tile"}, True) == VNNI


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (tiles.TiledProduct(INT8, Finish(INT32)), "tdpbssd"),
        (tiles.TiledProduct(UINT8, Finish(INT32)), "tdpbusd"),
        (tiles.TiledForward(INT32, 16, False, 1, 32, False, tiles.BYTES, Finish(INT8), INT8), "tdpbssd"),
        (tiles.TiledForward(INT32, 16, False, 1, 32, False, tiles.BYTES, Finish(INT8), UINT8), "tdpbsud"),
    ],
)
def test_instructions_of_the_unit(kernel: Any, expected: str) -> None:
    lines = assembly(kernel.write("kernel"), "+avx512vnni,+amx-tile,+amx-int8")
    found = [line for line in lines if line.startswith("tdp")]
    # one tile of rows, and two, times two of columns
    assert [line.split()[0] for line in found] == [expected] * 6
    # the last operand is the sums; the first one in Intel's order, which is the second here, has the rows
    assert {tuple(re.findall(r"%tmm(\d)", line)) for line in found} == {
        (str(6 + column), str(4 + row), str(2 * row + column)) for row in range(2) for column in range(2)
    }
    assert any(line.startswith("ldtilecfg") for line in lines)
    assert any(line.startswith("tilerelease") for line in lines)
