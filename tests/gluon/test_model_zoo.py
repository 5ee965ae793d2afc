"""The model zoo: names, shapes and outputs as recorded from MXNet 1.9.1, and files of trained parameters."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.gluon.model_zoo import model_store, vision

from . import zoo

RECORDED = json.loads((Path(__file__).parent / "recorded" / "zoo.json").read_text(encoding="utf-8"))
#: one of each kind is computed each time, the others with the slow tests
QUICK = ("alexnet", "mobilenet0.25", "mobilenetv2_0.25", "resnet18_v1", "resnet18_v2", "resnet50_v1", "squeezenet1.1")


@pytest.mark.parametrize("name", list(RECORDED))
def test_names_and_shapes(name: str) -> None:
    net, _ = zoo.network(mx, name)
    lines = zoo.parameters(net)
    assert len(lines) == RECORDED[name]["count"]
    assert zoo.digest(lines) == RECORDED[name]["parameters"], "\n".join(lines)


def marked(name: str) -> Any:
    return name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [marked(name) for name in RECORDED])
def test_outputs(name: str) -> None:
    net, data = zoo.network(mx, name)
    found = zoo.outputs(mx, net, data)
    wanted = RECORDED[name]["outputs"]
    scale = max(map(abs, wanted))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * scale)


def test_all_of_mxnet_is_there() -> None:
    assert sorted(vision._MODELS) == sorted(RECORDED)
    with pytest.raises(ValueError, match=r"Model resnet50 is not supported.*did you mean 'resnet50_v[12]'"):
        vision.get_model("resnet50")
    with pytest.raises(ValueError, match="Invalid number of layers"):
        vision.get_resnet(1, 19)
    with pytest.raises(ValueError, match="Invalid number of layers"):
        vision.get_vgg(12)
    with pytest.raises(ValueError, match="Unsupported SqueezeNet version"):
        vision.SqueezeNet("2.0")


def test_networks_for_thumbnails_learn() -> None:
    mx.random.seed(0)
    for kind, block in ((vision.ResNetV1, vision.BasicBlockV1), (vision.ResNetV2, vision.BottleneckV2)):
        net = kind(block, [1, 1], [8, 8, 16], classes=3, thumbnail=True)
        net.initialize(mx.init.Xavier())
        net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        x, y = nd.random.normal(shape=(6, 3, 8, 8)), nd.array([0, 1, 2, 0, 1, 2])
        losses = []
        for _ in range(30):
            with autograd.record():
                loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(x), y)
            loss.backward()
            trainer.step(6)
            losses.append(float(loss.mean()))
        assert losses[-1] < 0.5 * losses[0]


def test_parameters_of_your_own(tmp_path: Path) -> None:
    net = vision.squeezenet1_1(classes=4)
    net.initialize()
    net.infer_shape(nd.zeros((1, 3, 224, 224)))
    for parameter in net.collect_params().values():
        parameter._finish_deferred_init()
    net.save_parameters(str(tmp_path / "squeezenet1.1.params"))
    other = vision.get_model("squeezenet1.1", pretrained=True, root=str(tmp_path), classes=4, ctx=mx.cpu())
    for one, two in zip(net.collect_params().values(), other.collect_params().values()):
        assert np.array_equal(one.data().asnumpy(), two.data().asnumpy())
    os.rename(tmp_path / "squeezenet1.1.params", tmp_path / "squeezenet1.1-33ba0f93.params")
    with pytest.warns(UserWarning, match="is not the file that MXNet publishes"):
        vision.squeezenet1_1(pretrained=True, root=str(tmp_path), classes=4)
    model_store.purge(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a server that is not there
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://127.0.0.1:9/")
    with pytest.raises(OSError, match="put them at") as caught:
        vision.vgg11(pretrained=True, root=str(tmp_path))
    assert str(tmp_path / "vgg11-dd221b16.params") in str(caught.value)
    assert str(tmp_path / "vgg11.params") in str(caught.value)
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    assert model_store.default_root() == str(tmp_path / "models")
