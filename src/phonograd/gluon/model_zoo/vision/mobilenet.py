"""MobileNet (Howard and others 2017) and MobileNetV2 (Sandler and others 2018)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...block import HybridBlock
from .parts import conv_norm_relu, loaded

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "get_mobilenet",
    "get_mobilenet_v2",
    "mobilenet0_5",
    "mobilenet0_25",
    "mobilenet0_75",
    "mobilenet1_0",
    "mobilenet_v2_0_5",
    "mobilenet_v2_0_25",
    "mobilenet_v2_0_75",
    "mobilenet_v2_1_0",
]

#: channels and stride of each separable convolution
_SEPARABLE = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
#: by how much the channels grow inside, channels, stride of the first one, and number of the bottlenecks
_BOTTLENECKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 2, 3),
    (6, 64, 2, 4),
    (6, 96, 1, 3),
    (6, 160, 2, 3),
    (6, 320, 1, 1),
)


class MobileNet(HybridBlock):
    """Convolutions of each channel by itself, followed by ones of single pixels."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                channels = int(32 * multiplier)
                self.features.add(*conv_norm_relu(channels, 3, strides=2, padding=1))
                for following, stride in _SEPARABLE:
                    depthwise = conv_norm_relu(channels, 3, strides=stride, padding=1, groups=channels)
                    channels = int(following * multiplier)
                    self.features.add(*depthwise, *conv_norm_relu(channels, 1))
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return a score for each class."""
        return self.output(self.features(x))


class RELU6(HybridBlock):
    """A ReLU that ends at 6."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the inputs, none below 0 or above 6."""
        return F.clip(x, 0, 6, name="relu6")


def _conv_norm(channels: int, size: int, active: bool, **options: Any) -> list[HybridBlock]:
    made: list[HybridBlock] = [nn.Conv2D(channels, size, use_bias=False, **options), nn.BatchNorm(scale=True)]
    return [*made, RELU6()] if active else made


class LinearBottleneck(HybridBlock):
    """More channels inside than outside, the last convolution without a ReLU; added to the inputs if that fits."""

    def __init__(self, in_channels: int, channels: int, t: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        inside = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            self.out.add(*_conv_norm(inside, 1, True))
            self.out.add(*_conv_norm(inside, 3, True, strides=stride, padding=1, groups=inside))
            self.out.add(*_conv_norm(channels, 1, False))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the outputs of the bottleneck."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNetV2(HybridBlock):
    """A row of linear bottlenecks."""

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                channels = int(32 * multiplier)
                self.features.add(*_conv_norm(channels, 3, True, strides=2, padding=1))
                number = 0
                for growth, base, stride, count in _BOTTLENECKS:
                    following = int(base * multiplier)
                    for place in range(count):
                        options = {"t": growth, "stride": stride if place == 0 else 1}
                        prefix = f"linearbottleneck{number}_"
                        self.features.add(LinearBottleneck(channels, following, prefix=prefix, **options))
                        channels, number = following, number + 1
                last = int(1280 * multiplier) if multiplier > 1.0 else 1280
                self.features.add(*_conv_norm(last, 1, True), nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return a score for each class."""
        return self.output(self.features(x))


def _suffix(multiplier: float) -> str:
    text = f"{multiplier:.2f}"
    return text.removesuffix("0") if text in ("1.00", "0.50") else text


def get_mobilenet(
    multiplier: float, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> MobileNet:
    """Return MobileNet with the number of channels multiplied by something."""
    return loaded(MobileNet(multiplier, **kwargs), f"mobilenet{_suffix(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> MobileNetV2:
    """Return MobileNetV2 with the number of channels multiplied by something."""
    return loaded(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{_suffix(multiplier)}", pretrained, ctx, root)


def mobilenet1_0(**kwargs: Any) -> MobileNet:
    """Return MobileNet with all its channels."""
    return get_mobilenet(1.0, **kwargs)


def mobilenet0_75(**kwargs: Any) -> MobileNet:
    """Return MobileNet with three quarters of the channels."""
    return get_mobilenet(0.75, **kwargs)


def mobilenet0_5(**kwargs: Any) -> MobileNet:
    """Return MobileNet with half of the channels."""
    return get_mobilenet(0.5, **kwargs)


def mobilenet0_25(**kwargs: Any) -> MobileNet:
    """Return MobileNet with a quarter of the channels."""
    return get_mobilenet(0.25, **kwargs)


def mobilenet_v2_1_0(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with all its channels."""
    return get_mobilenet_v2(1.0, **kwargs)


def mobilenet_v2_0_75(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with three quarters of the channels."""
    return get_mobilenet_v2(0.75, **kwargs)


def mobilenet_v2_0_5(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with half of the channels."""
    return get_mobilenet_v2(0.5, **kwargs)


def mobilenet_v2_0_25(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with a quarter of the channels."""
    return get_mobilenet_v2(0.25, **kwargs)
