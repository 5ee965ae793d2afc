"""Numbers of 16 bits in files and in other libraries: ONNX, safetensors, DLPack, ml_dtypes, parameters."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon, nd
from phonograd.contrib import amp
from phonograd.core.base.dtypes import as_dtype

DTYPES = ("bfloat16", "float16")


def numbers(dtype: str) -> nd.NDArray:
    """Return an array with numbers of all kinds."""
    return nd.array([0.0, -0.0, 1.5, -3.140625, 1e-7, float("inf"), float("-inf"), float("nan")], dtype=dtype)


def network() -> gluon.nn.HybridSequential:
    """Return a small convolutional network."""
    mx.random.seed(3)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, in_channels=1), gluon.nn.BatchNorm(in_channels=4), gluon.nn.Activation("relu"))
    net.add(gluon.nn.MaxPool2D(), gluon.nn.Dense(3, in_units=16))
    net.initialize(mx.init.Xavier())
    return net


@pytest.mark.parametrize("is_mixed", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_networks_are_the_same_after_onnx(dtype: str, is_mixed: bool, tmp_path: pathlib.Path) -> None:
    onnx = pytest.importorskip("onnx")
    net: Any = network()
    x = nd.random.normal(shape=(2, 1, 6, 6))
    if is_mixed:
        net.hybridize()
        net(x)
        net = amp.convert_hybrid_block(net, dtype, cast_optional_params=True)
    else:
        net.cast(dtype)
        x = x.astype(dtype)
    net.hybridize()
    expected = net(x)
    symbol, parameters = _exported(net, tmp_path)
    path = str(tmp_path / "model.onnx")
    mx.onnx.export_model(symbol, parameters, [x.shape], [x.dtype], path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    found = mx.contrib.onnx.import_to_gluon(path, mx.cpu())(x)
    assert found._dtype == expected._dtype == (np.float32 if is_mixed else as_dtype(dtype))
    assert found.asnumpy().tobytes() == expected.asnumpy().tobytes()


def _exported(net: Any, path: pathlib.Path) -> tuple[str, str]:
    net.export(str(path / "net"), remove_amp_cast=False)
    return str(path / "net-symbol.json"), str(path / "net-0000.params")


@pytest.mark.parametrize("dtype", DTYPES)
def test_onnxruntime_has_the_results(dtype: str, tmp_path: pathlib.Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    data = mx.sym.Cast(mx.sym.var("data"), dtype=dtype)
    weight = nd.random.normal(shape=(3, 5)).astype(dtype)
    dense = mx.sym.FullyConnected(data, mx.sym.var("weight"), num_hidden=3, no_bias=True)
    symbol = mx.sym.Cast(mx.sym.Activation(dense, act_type="tanh"), dtype="float32")
    path = str(tmp_path / "model.onnx")
    mx.onnx.export_model(symbol, {"weight": weight}, [(4, 5)], ["float32"], path)
    x = nd.random.normal(shape=(4, 5))
    expected = symbol.eval(data=x, weight=weight)[0].asnumpy()
    (found,) = runtime.InferenceSession(path).run(None, {"data": x.asnumpy()})
    np.testing.assert_allclose(found, expected, atol=0.01)


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_and_views_keep_all_bits(dtype: str, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype)
    bits = x.asnumpy().tobytes()
    path = str(tmp_path / "x")
    for save, load in ((nd.save, nd.load), (mx.contrib.safetensors.save, mx.contrib.safetensors.load)):
        save(path, {"x": x})
        found = load(path)["x"]
        assert (found._dtype, found.asnumpy().tobytes()) == (as_dtype(dtype), bits)
    shared = nd.from_dlpack(nd.to_dlpack_for_read(x))
    assert (shared._dtype, shared.asnumpy().tobytes()) == (as_dtype(dtype), bits)


def test_ml_dtypes_are_read_and_written() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = numbers("bfloat16")
    values = np.asarray(x, ml_dtypes.bfloat16)
    assert values.dtype == ml_dtypes.bfloat16
    assert nd.array(values, dtype="bfloat16").asnumpy().tobytes() == x.asnumpy().tobytes()


@pytest.mark.parametrize("dtype", ["float8", "bfloat", "complex64"])
def test_unknown_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises((TypeError, KeyError), match=r"use one of .*bfloat16"):
        nd.ones((2,), dtype=dtype)
    with pytest.raises(ValueError, match="'float16' or 'bfloat16'"):
        amp.init(dtype)
