"""Provide AlexNet (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks")."""

from __future__ import annotations

from typing import Any

from ....core.base.docstrings import complete_classes
from ... import nn
from ...block import HybridBlock
from .parts import load_pretrained

__all__ = ["AlexNet", "alexnet"]

#: channels, window, stride and padding of each convolution, and whether a pooling layer follows
_CONVOLUTIONS = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


class AlexNet(HybridBlock):
    """Stack five convolutions and three dense layers."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                for channels, size, stride, padding, pooled in _CONVOLUTIONS:
                    self.features.add(nn.Conv2D(channels, size, stride, padding, activation="relu"))
                    if pooled:
                        self.features.add(nn.MaxPool2D(3, 2))
                self.features.add(nn.Flatten())
                for _ in range(2):
                    self.features.add(nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return a score for each class."""
        return self.output(self.features(x))


def alexnet(pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any) -> AlexNet:
    """Return AlexNet, for images of 224 x 224 pixels."""
    return load_pretrained(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)


complete_classes(globals())
