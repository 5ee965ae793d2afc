"""Provide residual networks: version 1 (He et al. 2015) and version 2 (He et al. 2016, "Identity mappings")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....core.base.docstrings import complete_classes
from ... import nn
from ...block import HybridBlock
from .parts import load_pretrained

__all__ = [
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "ResNetV1",
    "ResNetV2",
    "get_resnet",
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
]


def _conv3x3(channels: int, stride: int, in_channels: int) -> nn.Conv2D:
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


def _conv1x1(channels: int, stride: int, in_channels: int = 0) -> nn.Conv2D:
    return nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """Apply convolutions, each followed by a normalization, and add the result to the input."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        self._add_body(channels, stride, in_channels)
        self.downsample: nn.HybridSequential | None = None
        if downsample:
            self.downsample = nn.HybridSequential(prefix="")
            self.downsample.add(_conv1x1(channels, stride, in_channels), nn.BatchNorm())

    def _add_body(self, channels: int, stride: int, in_channels: int) -> None:
        raise NotImplementedError

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the output of the block."""
        residual = x if self.downsample is None else self.downsample(x)
        return F.Activation(residual + self.body(x), act_type="relu")


class BasicBlockV1(_BlockV1):
    """Apply two 3 x 3 convolutions: the block of networks with 18 and 34 layers."""

    def _add_body(self, channels: int, stride: int, in_channels: int) -> None:
        self.body.add(_conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(_conv3x3(channels, 1, channels), nn.BatchNorm())


class BottleneckV1(_BlockV1):
    """Apply a 3 x 3 convolution in a quarter of the channels: the block of networks with 50 and more layers."""

    def _add_body(self, channels: int, stride: int, in_channels: int) -> None:
        inside = channels // 4
        self.body.add(nn.Conv2D(inside, 1, stride), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(_conv3x3(inside, 1, inside), nn.BatchNorm(), nn.Activation("relu"))
        self.body.add(nn.Conv2D(channels, 1, 1), nn.BatchNorm())


class BasicBlockV2(HybridBlock):
    """Apply two 3 x 3 convolutions, each after a normalization."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self.downsample = _conv1x1(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the output of the block."""
        active = F.Activation(self.bn1(x), act_type="relu")
        residual = x if self.downsample is None else self.downsample(active)
        inner = self.conv1(active)
        return self.conv2(F.Activation(self.bn2(inner), act_type="relu")) + residual


class BottleneckV2(HybridBlock):
    """Apply a 3 x 3 convolution in a quarter of the channels, with normalizations before all convolutions."""

    def __init__(
        self, channels: int, stride: int, downsample: bool = False, in_channels: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        inside = channels // 4
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv1x1(inside, 1)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(inside, stride, inside)
        self.bn3 = nn.BatchNorm()
        self.conv3 = _conv1x1(channels, 1)
        self.downsample = _conv1x1(channels, stride, in_channels) if downsample else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the output of the block."""
        active = F.Activation(self.bn1(x), act_type="relu")
        residual = x if self.downsample is None else self.downsample(active)
        inner = F.Activation(self.bn2(self.conv1(active)), act_type="relu")
        inner = F.Activation(self.bn3(self.conv2(inner)), act_type="relu")
        return self.conv3(inner) + residual


class _ResNet(HybridBlock):
    """Implement both versions."""

    features: nn.HybridSequential
    output: nn.Dense

    @staticmethod
    def _check(layers: Sequence[int], channels: Sequence[int]) -> None:
        if len(layers) != len(channels) - 1:
            raise ValueError(f"a residual network of {len(layers)} stages needs {len(layers) + 1} numbers of channels")

    def _add_stem(self, channels: int, thumbnail: bool) -> None:
        if thumbnail:
            self.features.add(_conv3x3(channels, 1, 0))
        else:
            self.features.add(nn.Conv2D(channels, 7, 2, 3, use_bias=False))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))

    def _add_stages(self, block: Any, layers: Sequence[int], channels: Sequence[int]) -> None:
        for number, (count, before, after) in enumerate(zip(layers, channels, channels[1:]), 1):
            stage = nn.HybridSequential(prefix=f"stage{number}_")
            with stage.name_scope():
                stride = 1 if number == 1 else 2
                stage.add(block(after, stride, after != before, in_channels=before, prefix=""))
                for _ in range(count - 1):
                    stage.add(block(after, 1, False, in_channels=after, prefix=""))
            self.features.add(stage)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return a score for each class."""
        return self.output(self.features(x))


class ResNetV1(_ResNet):
    """Stack residual blocks of version 1; `thumbnail` adapts the network to small images."""

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._check(layers, channels)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self._add_stem(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(_ResNet):
    """Stack residual blocks of version 2; `thumbnail` adapts the network to small images."""

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        channels: Sequence[int],
        classes: int = 1000,
        thumbnail: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._check(layers, channels)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            self._add_stem(channels[0], thumbnail)
            self._add_stages(block, layers, channels)
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


#: the kind of block, the number of blocks in each stage, and the channels before and after each stage
resnet_spec: dict[int, tuple[str, list[int], list[int]]] = {
    18: ("basic_block", [2, 2, 2, 2], [64, 64, 128, 256, 512]),
    34: ("basic_block", [3, 4, 6, 3], [64, 64, 128, 256, 512]),
    50: ("bottle_neck", [3, 4, 6, 3], [64, 256, 512, 1024, 2048]),
    101: ("bottle_neck", [3, 4, 23, 3], [64, 256, 512, 1024, 2048]),
    152: ("bottle_neck", [3, 8, 36, 3], [64, 256, 512, 1024, 2048]),
}
resnet_net_versions: list[Callable[..., HybridBlock]] = [ResNetV1, ResNetV2]
resnet_block_versions: list[dict[str, type[HybridBlock]]] = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


def get_resnet(
    version: int,
    num_layers: int,
    pretrained: bool = False,
    ctx: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> HybridBlock:
    """Return a residual network of version 1 or 2 with 18, 34, 50, 101 or 152 layers."""
    if num_layers not in resnet_spec:
        raise ValueError(f"Invalid number of layers: {num_layers}. Options are {sorted(resnet_spec)}")
    if version not in (1, 2):
        raise ValueError(f"Invalid resnet version: {version}. Options are 1 and 2.")
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers, channels, **kwargs)
    return load_pretrained(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


def resnet18_v1(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 1 with 18 layers."""
    return get_resnet(1, 18, **kwargs)


def resnet34_v1(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 1 with 34 layers."""
    return get_resnet(1, 34, **kwargs)


def resnet50_v1(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 1 with 50 layers."""
    return get_resnet(1, 50, **kwargs)


def resnet101_v1(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 1 with 101 layers."""
    return get_resnet(1, 101, **kwargs)


def resnet152_v1(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 1 with 152 layers."""
    return get_resnet(1, 152, **kwargs)


def resnet18_v2(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 2 with 18 layers."""
    return get_resnet(2, 18, **kwargs)


def resnet34_v2(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 2 with 34 layers."""
    return get_resnet(2, 34, **kwargs)


def resnet50_v2(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 2 with 50 layers."""
    return get_resnet(2, 50, **kwargs)


def resnet101_v2(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 2 with 101 layers."""
    return get_resnet(2, 101, **kwargs)


def resnet152_v2(**kwargs: Any) -> HybridBlock:
    """Return a residual network of version 2 with 152 layers."""
    return get_resnet(2, 152, **kwargs)


complete_classes(globals())
