"""Provide networks for images (``mxnet.gluon.model_zoo.vision``).

:func:`get_model` creates them by name, and each has a function of its own. ``pretrained=True`` loads trained parameters
from a file (:func:`phonograd.gluon.model_zoo.model_store.get_model_file`). Parameters have MXNet's names and shapes, so
its files can be loaded.

>>> from phonograd.gluon.model_zoo import vision
>>> net = vision.get_model("resnet18_v1", classes=10)
>>> len(net.collect_params())
102
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.base.errors import nearest
from ...block import HybridBlock
from .alexnet import AlexNet, alexnet
from .densenet import DenseNet, densenet121, densenet161, densenet169, densenet201
from .inception import Inception3, inception_v3
from .mobilenet import (
    MobileNet,
    MobileNetV2,
    get_mobilenet,
    get_mobilenet_v2,
    mobilenet0_5,
    mobilenet0_25,
    mobilenet0_75,
    mobilenet1_0,
    mobilenet_v2_0_5,
    mobilenet_v2_0_25,
    mobilenet_v2_0_75,
    mobilenet_v2_1_0,
)
from .resnet import (
    BasicBlockV1,
    BasicBlockV2,
    BottleneckV1,
    BottleneckV2,
    ResNetV1,
    ResNetV2,
    get_resnet,
    resnet18_v1,
    resnet18_v2,
    resnet34_v1,
    resnet34_v2,
    resnet50_v1,
    resnet50_v2,
    resnet101_v1,
    resnet101_v2,
    resnet152_v1,
    resnet152_v2,
)
from .squeezenet import SqueezeNet, squeezenet1_0, squeezenet1_1
from .vgg import VGG, get_vgg, vgg11, vgg11_bn, vgg13, vgg13_bn, vgg16, vgg16_bn, vgg19, vgg19_bn

__all__ = [
    "VGG",
    "AlexNet",
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "DenseNet",
    "Inception3",
    "MobileNet",
    "MobileNetV2",
    "ResNetV1",
    "ResNetV2",
    "SqueezeNet",
    "alexnet",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "get_mobilenet",
    "get_mobilenet_v2",
    "get_model",
    "get_resnet",
    "get_vgg",
    "inception_v3",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
    "resnet18_v1",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v2",
    "resnet101_v1",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v2",
    "squeezenet1_0",
    "squeezenet1_1",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
]

_MODELS: dict[str, Callable[..., HybridBlock]] = {
    "alexnet": alexnet,
    "densenet121": densenet121,
    "densenet161": densenet161,
    "densenet169": densenet169,
    "densenet201": densenet201,
    "inceptionv3": inception_v3,
    "mobilenet0.25": mobilenet0_25,
    "mobilenet0.5": mobilenet0_5,
    "mobilenet0.75": mobilenet0_75,
    "mobilenet1.0": mobilenet1_0,
    "mobilenetv2_0.25": mobilenet_v2_0_25,
    "mobilenetv2_0.5": mobilenet_v2_0_5,
    "mobilenetv2_0.75": mobilenet_v2_0_75,
    "mobilenetv2_1.0": mobilenet_v2_1_0,
    "resnet18_v1": resnet18_v1,
    "resnet18_v2": resnet18_v2,
    "resnet34_v1": resnet34_v1,
    "resnet34_v2": resnet34_v2,
    "resnet50_v1": resnet50_v1,
    "resnet50_v2": resnet50_v2,
    "resnet101_v1": resnet101_v1,
    "resnet101_v2": resnet101_v2,
    "resnet152_v1": resnet152_v1,
    "resnet152_v2": resnet152_v2,
    "squeezenet1.0": squeezenet1_0,
    "squeezenet1.1": squeezenet1_1,
    "vgg11": vgg11,
    "vgg11_bn": vgg11_bn,
    "vgg13": vgg13,
    "vgg13_bn": vgg13_bn,
    "vgg16": vgg16,
    "vgg16_bn": vgg16_bn,
    "vgg19": vgg19,
    "vgg19_bn": vgg19_bn,
}


def get_model(name: str, **kwargs: Any) -> HybridBlock:
    """Return a network by its name.

    Parameters
    ----------
    name
        The name, for example ``'resnet50_v1'``. An unknown name raises an error that lists all names.
    pretrained, ctx, root
        Whether to load trained parameters, their context, and the directory of their file.
    classes
        The number of classes.
    """
    name = name.lower()
    if name not in _MODELS:
        options = "\n\t".join(sorted(_MODELS))
        raise ValueError(
            f"Model {name} is not supported{nearest(name, list(_MODELS))}. Available options are\n\t{options}"
        )
    return _MODELS[name](**kwargs)
