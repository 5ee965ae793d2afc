"""Products of small integers are exact, with every kind of instruction."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd import nd
from phonograd.core.base.dtypes import UINT8
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.quantized import plans
from phonograd.core.kernels.quantized.dots import Dot, dot_of
from phonograd.core.kernels.target import Machine

RANDOM = np.random.default_rng(0)

#: batch, channels, extent, filters, kernel, stride, pad, dilate, groups
CONVOLUTIONS = [
    (2, 3, (8, 8), 5, 3, 1, 1, 1, 1),
    (2, 6, (11, 11), 8, 3, 2, 1, 1, 2),
    (3, 5, (4, 4), 7, 3, 1, 1, 2, 1),
    (20, 8, (3, 3), 9, 3, 1, 1, 1, 1),
    (1, 16, (9, 7), 16, 1, 1, 0, 1, 1),
]


def numbers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.fixture(params=["own", "plain", "bytes"])
def instructions(request, monkeypatch):
    """Use the processor's instructions, plain ones, or plain ones on words of four bytes."""
    kinds = {
        "own": dot_of,
        "plain": lambda dtype, machine: Dot(2, "plain"),
        "bytes": lambda dtype, machine: Dot(4 if dtype == UINT8 else 2, "plain"),
    }
    monkeypatch.setattr(plans, "dot_of", kinds[request.param])
    plans._dense.cache_clear()
    plans._convolution.cache_clear()
    yield
    plans._dense.cache_clear()
    plans._convolution.cache_clear()


def run(name, machine_arrays, **parameters):
    """Return the result of the kernels of an operator, without plans from before."""
    operator = REGISTRY[name]
    operator.table.clear()
    operator.calls.clear()
    arrays = [nd.array(a, dtype=a.dtype) for a in machine_arrays]
    return getattr(nd._internal, name)(*arrays, **parameters).asnumpy()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", [(1, 5, 3), (7, 33, 17), (130, 257, 50)], ids=str)
def test_products_are_exact(sizes, dtype):
    rows, terms, columns = sizes
    data, weight = numbers(dtype, rows, terms), numbers("int8", columns, terms)
    expected = data.astype(np.int64) @ weight.astype(np.int64).T
    assert np.array_equal(run("_int8_product", [data, weight]), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", CONVOLUTIONS, ids=str)
def test_convolutions_equal_the_reference(sizes, dtype):
    batch, channels, extent, filters, kernel, stride, pad, dilate, groups = sizes
    arrays = [numbers(dtype, batch, channels, *extent), numbers("int8", filters, channels // groups, kernel, kernel)]
    window = {name: (value, value) for name, value in (("stride", stride), ("dilate", dilate), ("pad", pad))}
    expected = REGISTRY["_int8_convolution"].function(*arrays, **window, groups=groups)
    assert np.array_equal(run("_int8_convolution", arrays, **window, groups=groups), expected)
    vectors = [RANDOM.random(filters, np.float32) * 1e-3, RANDOM.normal(size=filters).astype(np.float32) * 9]
    for out, relu in (("int8", False), ("uint8", True), ("float32", True)):
        options = {**window, "groups": groups, "relu": relu}
        expected = REGISTRY["_int8_convolution_scaled"].function(*arrays, *vectors, **options, dtype=np.dtype(out))
        found = run("_int8_convolution_scaled", [*arrays, *vectors], **options, dtype=out)
        assert found.dtype == out
        assert np.array_equal(found, expected)


@pytest.mark.usefixtures("instructions")
def test_instructions_do_not_change_results():
    # no other test has these sizes, so no plan is remembered; the fixture chooses the instructions
    sizes = RANDOM.integers(20, 40, 3)
    for dtype in ("int8", "uint8"):
        data, weight = numbers(dtype, sizes[0], sizes[1]), numbers("int8", sizes[2], sizes[1])
        assert np.array_equal(run("_int8_product", [data, weight]), data.astype(np.int64) @ weight.astype(np.int64).T)
        image, filters = numbers(dtype, 1, sizes[0], 6, sizes[2]), numbers("int8", 5, sizes[0], 3, 3)
        window = {"stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "groups": 1}
        expected = REGISTRY["_int8_convolution"].function(image, filters, **window)
        assert np.array_equal(run("_int8_convolution", [image, filters], **window), expected)


def test_vnni_multiplies_bytes_of_unsigned_data_only():
    machine = Machine(64, 32, dots="vnni")
    assert [dot_of(np.dtype(name), machine).size for name in ("uint8", "int8")] == [4, 2]
    text = plans.WordGemm(np.dtype("int32"), machine, dot_of(UINT8, machine)).write("kernel")
    assert "@llvm.x86.avx512.vpdpbusd.512" in text
