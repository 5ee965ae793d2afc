"""Provide SqueezeNet (Iandola et al. 2016)."""

from __future__ import annotations

from typing import Any

from ....core.base.docstrings import complete_classes
from ... import nn
from ...block import HybridBlock
from .parts import concurrent, load_pretrained, sequence

__all__ = ["SqueezeNet", "get_squeezenet", "squeezenet1_0", "squeezenet1_1"]

#: channels and window of the first convolution, and the squeezed channels of the fire modules between pooling layers
_VERSIONS: dict[str, tuple[int, int, tuple[tuple[int, ...], ...]]] = {
    "1.0": (96, 7, ((16, 16, 32), (32, 48, 48, 64), (64,))),
    "1.1": (64, 3, ((16, 16), (32, 32), (48, 48, 64, 64))),
}


def _conv_relu(channels: int, size: int, padding: int = 0) -> HybridBlock:
    return sequence(nn.Conv2D(channels, size, padding=padding), nn.Activation("relu"))


def _fire(squeezed: int) -> HybridBlock:
    """Return a fire module: a squeeze to few channels, then two convolutions with four times as many each."""
    # the order of creation numbers the layers
    first = _conv_relu(squeezed, 1)
    return sequence(first, concurrent(_conv_relu(4 * squeezed, 1), _conv_relu(4 * squeezed, 3, 1)))


class SqueezeNet(HybridBlock):
    """Stack fire modules with pooling layers between them, and a convolution to the classes."""

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if version not in _VERSIONS:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1.0 or 1.1 expected")
        channels, size, stages = _VERSIONS[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, size, 2), nn.Activation("relu"))
            for stage in stages:
                self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
                for squeezed in stage:
                    self.features.add(_fire(squeezed))
            self.features.add(nn.Dropout(0.5))
            self.output = sequence(nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten())

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return a score for each class."""
        return self.output(self.features(x))


def get_squeezenet(
    version: str, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> SqueezeNet:
    """Return a SqueezeNet of version ``'1.0'`` or ``'1.1'``."""
    return load_pretrained(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx, root)


def squeezenet1_0(pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any) -> SqueezeNet:
    """Return SqueezeNet 1.0, for images of 224 x 224 pixels."""
    return get_squeezenet("1.0", pretrained, ctx, root, **kwargs)


def squeezenet1_1(pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any) -> SqueezeNet:
    """Return SqueezeNet 1.1, for images of 224 x 224 pixels; it needs less than half of the operations of 1.0."""
    return get_squeezenet("1.1", pretrained, ctx, root, **kwargs)


complete_classes(globals())
