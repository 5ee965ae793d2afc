"""Provide MobileNet (Howard et al. 2017) and MobileNetV2 (Sandler et al. 2018)."""

from __future__ import annotations

from typing import Any

from ....core.base.docstrings import complete_classes
from ... import nn
from ...block import HybridBlock
from .parts import conv_norm_relu, load_pretrained

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
#: expansion factor, channels, stride of the first block, and number of bottleneck blocks
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
    """Stack depthwise separable convolutions: one per channel, then one across channels."""

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
    """Apply a ReLU that is clipped at 6."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the input, clipped to [0, 6]."""
        return F.clip(x, 0, 6, name="relu6")


def _conv_norm(channels: int, size: int, active: bool, **options: Any) -> list[HybridBlock]:
    made: list[HybridBlock] = [nn.Conv2D(channels, size, use_bias=False, **options), nn.BatchNorm(scale=True)]
    return [*made, RELU6()] if active else made


class LinearBottleneck(HybridBlock):
    """Expand channels, convolve, and project them without a ReLU; add the input if shapes agree."""

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
        """Return the output of the block."""
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNetV2(HybridBlock):
    """Stack linear bottleneck blocks."""

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
    """Return MobileNet with its number of channels times `multiplier`."""
    return load_pretrained(MobileNet(multiplier, **kwargs), f"mobilenet{_suffix(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(
    multiplier: float, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> MobileNetV2:
    """Return MobileNetV2 with its number of channels times `multiplier`."""
    return load_pretrained(
        MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{_suffix(multiplier)}", pretrained, ctx, root
    )


def mobilenet1_0(**kwargs: Any) -> MobileNet:
    """Return MobileNet with channel multiplier 1."""
    return get_mobilenet(1.0, **kwargs)


def mobilenet0_75(**kwargs: Any) -> MobileNet:
    """Return MobileNet with channel multiplier 0.75."""
    return get_mobilenet(0.75, **kwargs)


def mobilenet0_5(**kwargs: Any) -> MobileNet:
    """Return MobileNet with channel multiplier 0.5."""
    return get_mobilenet(0.5, **kwargs)


def mobilenet0_25(**kwargs: Any) -> MobileNet:
    """Return MobileNet with channel multiplier 0.25."""
    return get_mobilenet(0.25, **kwargs)


def mobilenet_v2_1_0(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with channel multiplier 1."""
    return get_mobilenet_v2(1.0, **kwargs)


def mobilenet_v2_0_75(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with channel multiplier 0.75."""
    return get_mobilenet_v2(0.75, **kwargs)


def mobilenet_v2_0_5(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with channel multiplier 0.5."""
    return get_mobilenet_v2(0.5, **kwargs)


def mobilenet_v2_0_25(**kwargs: Any) -> MobileNetV2:
    """Return MobileNetV2 with channel multiplier 0.25."""
    return get_mobilenet_v2(0.25, **kwargs)


complete_classes(globals())
