"""What libraries and scripts written for MXNet take from Gluon's modules, and derive classes of their own from."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn, rnn
from phonograd.gluon.block import _flatten, _regroup  # type: ignore[attr-defined]
from phonograd.gluon.contrib.rnn.rnn_cell import dynamic_unroll
from phonograd.gluon.loss import _apply_weighting, _reshape_like
from phonograd.gluon.model_zoo.vision import resnet
from phonograd.gluon.model_zoo.vision.densenet import _make_dense_block
from phonograd.gluon.model_zoo.vision.vgg import vgg_spec
from phonograd.gluon.nn.conv_layers import _Conv, _infer_weight_shape, _Pooling
from phonograd.gluon.rnn.rnn_cell import _format_sequence, _get_begin_state, _reverse_sequences
from phonograd.gluon.utils import HookHandle, _brief_print_list, _get_repo_file_url, _get_repo_url, _indent

NAMES = {
    "gluon.block": "_BlockScope _flatten _regroup Block HybridBlock SymbolBlock",
    "gluon.contrib.estimator.event_handler": "CheckpointHandler TrainBegin EpochEnd LoggingHandler",
    "gluon.contrib.rnn.rnn_cell": "LSTMPCell VariationalDropoutCell dynamic_unroll",
    "gluon.loss": "_apply_weighting _reshape_like Loss",
    "gluon.model_zoo.vision.densenet": "_make_dense_block _make_dense_layer _make_transition densenet_spec",
    "gluon.model_zoo.vision.resnet": "_conv3x3 resnet_block_versions resnet_net_versions resnet_spec ResNetV1",
    "gluon.model_zoo.vision.vgg": "VGG vgg_spec",
    "gluon.nn.basic_layers": "Activation BatchNorm Block Dense HybridBlock HybridSequential LayerNorm Sequential",
    "gluon.nn.conv_layers": "_Conv _Pooling _infer_weight_shape Conv2D MaxPool2D",
    "gluon.parameter": "Constant DeferredInitializationError Parameter ParameterDict tensor_types",
    "gluon.rnn.rnn_cell": "_cells_begin_state _cells_state_info _format_sequence _get_begin_state "
    "_mask_sequence_variable_length _reverse_sequences ModifierCell",
    "gluon.rnn.rnn_layer": "_RNNLayer LSTM",
    "gluon.utils": "_brief_print_list _get_repo_file_url _get_repo_url _indent HookHandle shape_is_known",
    "optimizer.optimizer": "Adam Optimizer SGD Updater create get_updater register",
}


@pytest.mark.parametrize("module", sorted(NAMES))
def test_names(module: str) -> None:
    found = importlib.import_module(f"phonograd.{module}")
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []
    assert not hasattr(found, "nothing_of_the_kind")


class Focal(gluon.loss.Loss):
    """A loss as libraries write it."""

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        loss = F.square(pred - _reshape_like(F, label, pred))
        loss = _apply_weighting(F, loss, self._weight, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)


def test_losses_of_other_libraries() -> None:
    loss = Focal(weight=2)
    x = nd.array([[1, 2], [3, 4]])
    for _ in range(2):
        assert loss(x, nd.zeros((4,)), nd.array([[1], [3]])).asnumpy().tolist() == [5, 75]
        loss.hybridize()
    assert _apply_weighting(nd, x).asnumpy().tolist() == x.asnumpy().tolist()
    with pytest.raises(AssertionError, match="weight must be a number"):
        _apply_weighting(nd, x, "2")  # type: ignore[arg-type]


def test_nested_arguments() -> None:
    one, two = nd.ones((1,)), nd.ones((2,))
    both = mx.sym.Group([mx.sym.var("a"), mx.sym.var("b")])
    flat, form = _flatten([one, [two, None], both], "input")
    assert flat == [one, two, None, both]
    assert form == [0, [0, -1], 2]
    assert _regroup([1, 2, None, 3, 4], form) == [1, [2, None], [3, 4]]
    with pytest.raises(ValueError, match=r"the input of HybridBlock input must be .*, but got 3 of type <class 'int'>"):
        _flatten([one, 3], "input")
    with pytest.raises(ValueError, match="but got x of type <class 'str'>"):
        gluon.SymbolBlock(mx.sym.relu(mx.sym.var("x")), "x")


def test_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _indent("a\nb", 3) == "a\n   b"
    assert _brief_print_list(["a", "b"]) == "'a', 'b'"
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://here")
    assert _get_repo_url() == "http://here/"
    assert _get_repo_file_url("models", "x.zip") == "http://here/models/x.zip"


def test_handles_of_hooks() -> None:
    hooks: dict[Any, Any] = {}
    handle = HookHandle()
    handle.detach()
    with handle.attach(hooks, print):
        assert list(hooks.values()) == [print]
        with pytest.raises(AssertionError, match="cannot be attached twice"):
            handle.attach(hooks, print)
    assert not hooks


def test_sequences() -> None:
    x = nd.array(np.arange(12).reshape(2, 3, 2))
    merged, axis, namespace, size = _format_sequence(3, x, "TNC", True, in_layout="NTC")
    assert (merged.shape, axis, namespace is nd, size) == ((3, 2, 2), 0, True, 2)
    steps, _, _, _ = _format_sequence(3, x, "TNC", False, in_layout="NTC")
    assert [step.asnumpy().tolist() for step in steps] == x.asnumpy().swapaxes(0, 1).tolist()
    turned = _reverse_sequences(steps, 3, nd.array([2, 3]))
    assert turned[0].asnumpy().tolist() == [[2, 3], [10, 11]]
    cell = rnn.LSTMCell(4)
    assert [state.shape for state in _get_begin_state(cell, nd, None, steps, 2)] == [(2, 4)] * 2
    assert _get_begin_state(cell, nd, [x], steps, 2) == [x]


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("lengths", [None, [2, 5, 0]])
def test_loops_over_steps(layout: str, lengths: list[int] | None) -> None:
    cell = rnn.LSTMCell(4, input_size=3)
    cell.initialize()
    x = mx.nd.random.normal(shape=(5, 3, 3) if layout == "TNC" else (3, 5, 3))
    first = [mx.nd.random.normal(shape=(3, 4)) for _ in range(2)]
    valid = None if lengths is None else nd.array(lengths)
    x.attach_grad()
    with autograd.record():
        outputs, states = dynamic_unroll(cell, x, first, layout=layout, valid_length=valid)
        loss = (outputs**2).sum() + (states[1] ** 2).sum()
    loss.backward()
    assert x.grad is not None
    found = x.grad.asnumpy()
    with autograd.record():
        usual, after = cell.unroll(5, x, first, layout, True, valid)
        loss = (usual**2).sum() + ((after[1] if lengths is None else states[1]) ** 2).sum()
    np.testing.assert_allclose(outputs.asnumpy(), usual.asnumpy(), rtol=1e-6)
    if lengths is None:
        loss.backward()
        np.testing.assert_allclose(found, x.grad.asnumpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(states[0].asnumpy(), after[0].asnumpy(), rtol=1e-6)
    else:
        np.testing.assert_allclose(states[0].asnumpy()[:2], after[0].asnumpy()[:2], rtol=1e-6)
        assert states[0].asnumpy()[2].tolist() == first[0].asnumpy()[2].tolist()
    dropped, _ = dynamic_unroll(cell, mx.sym.var("x"), [mx.sym.var("h"), mx.sym.var("c")], 0.5, 0.5, layout)
    assert {"x", "h", "c"} <= set(dropped.list_arguments())


class Binary(_Conv):
    """A convolution as libraries derive it."""

    def __init__(self, channels: int, kernel_size: Any, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, 1, (1, 1), 1, 1, "NCHW", **kwargs)
        self.gate = self.params.get("gate", shape=(channels, 0), allow_deferred_init=True)

    def hybrid_forward(self, F: Any, x: Any, weight: Any, gate: Any, bias: Any = None) -> Any:
        twice = F.concat(x, x, dim=1)
        gates = F.FullyConnected(twice, gate, no_bias=True, num_hidden=self._channels).reshape((0, 0, 1, 1))
        return F.broadcast_mul(getattr(F, self._op_name)(twice, F.sign(weight), bias, **self._kwargs), gates)


class Smallest(_Pooling):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__((2, 2), None, 0, True, False, "max", "NCHW", **kwargs)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return -super().hybrid_forward(F, -x)


def test_layers_of_other_libraries() -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(Binary(4, (3, 3)), Smallest(), nn.Dense(2))
    net.initialize()
    net.hybridize()
    assert net(nd.ones((2, 3, 5, 5))).shape == (2, 2)
    shapes = {name: parameter.shape for name, parameter in net.collect_params().items()}
    assert shapes["net_conv0_weight"] == (4, 6, 3, 3)
    assert shapes["net_conv0_gate"] == (4, 150)
    assert shapes["net_dense0_weight"] == (2, 36)
    window = {"kernel": (3, 3), "num_filter": 4}
    assert list(_infer_weight_shape("Convolution", (1, 6, 8, 8), window)) == [(1, 6, 8, 8), (4, 6, 3, 3), (4,)]


def test_parts_of_known_networks() -> None:
    block = _make_dense_block(2, 4, 8, 0.1, 3)
    block.initialize()
    assert block(nd.ones((1, 4, 6, 6))).shape == (1, 20, 6, 6)
    assert all([name.startswith("stage3_") for name in block.collect_params()])
    kind, layers, channels = resnet.resnet_spec[50]
    net = resnet.resnet_net_versions[1](resnet.resnet_block_versions[1][kind], layers, channels, classes=3)
    usual = resnet.resnet50_v2(classes=3)
    assert [p.shape for p in net.collect_params().values()] == [p.shape for p in usual.collect_params().values()]
    assert vgg_spec[16] == ([2, 2, 3, 3, 3], [64, 128, 256, 512, 512])


class Shaped(nn.Dense):
    """A layer that is not written for symbols."""

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        return super().hybrid_forward(F, x / x.shape[1], weight, bias)


def test_layers_for_arrays_only() -> None:
    layer = Shaped(3)
    layer.initialize()
    assert layer(nd.ones((2, 5))).shape == (2, 3)
    assert layer.weight.shape == (3, 5)


class Wider(rnn.GRUCell):
    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **params: Any) -> Any:
        return super().hybrid_forward(F, F.concat(inputs, inputs, dim=1), states, **params)


def test_cells_of_other_libraries() -> None:
    cell = Wider(4)
    cell.initialize()
    outputs, _ = cell.unroll(2, nd.ones((3, 2, 5)), merge_outputs=True)
    assert outputs.shape == (3, 2, 4)
    assert cell.i2h_weight.shape == (12, 10)


_IMPORTS = """
import sys
import phonograd as mx
net = mx.gluon.nn.Dense(2)
net.initialize()
net.hybridize()
net(mx.nd.ones((1, 3))).asnumpy()
print(*sys.modules)
mx.gluon.Trainer(net.collect_params(), "sgd")
print(*sys.modules)
"""


def test_modules_are_imported_when_they_are_needed() -> None:
    command = [sys.executable, "-c", _IMPORTS]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    predicting, training = [set(line.split()) for line in lines]
    others = {f"phonograd.{name}" for name in ("gluon.data", "gluon.contrib", "gluon.model_zoo", "image", "profiler")}
    others |= {"ssl", "http.client", "multiprocessing.pool"}
    assert not others & training
    assert not {"phonograd.gluon.trainer", "phonograd.optimizer", "phonograd.kvstore"} & predicting
    assert "phonograd.optimizer" in training
