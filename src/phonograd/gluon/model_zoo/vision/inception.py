"""Provide Inception v3 (Szegedy et al. 2015, "Rethinking the Inception architecture for computer vision")."""

from __future__ import annotations

from typing import Any

from ....core.base.docstrings import complete_classes
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from .parts import concurrent, conv_norm_relu, load_pretrained, sequence

__all__ = ["Inception3", "inception_v3"]

#: channels, window and, optionally, stride and padding of a convolution
Step = tuple[Any, ...]

_ACROSS = ((1, 7), 1, (0, 3))
_DOWN = ((7, 1), 1, (3, 0))


def _conv(channels: int, size: Any, stride: int = 1, padding: Any = 0) -> HybridBlock:
    return sequence(*conv_norm_relu(channels, size, epsilon=0.001, strides=stride, padding=padding))


def _branch(*steps: Step, pool: HybridBlock | None = None) -> HybridBlock:
    """Return a sequence of convolutions, after a pooling layer if `pool` is given."""
    made = sequence() if pool is None else sequence(pool)
    for step in steps:
        made.add(_conv(*step))
    return made


def _average() -> HybridBlock:
    return nn.AvgPool2D(3, 1, 1)


def _make_fork(*steps: Step) -> HybridBlock:
    """Return a sequence of convolutions whose last one is split into a horizontal and a vertical one."""
    # the order of creation numbers the layers
    first = _branch(*steps)
    across, down = _branch((384, (1, 3), 1, (0, 1))), _branch((384, (3, 1), 1, (1, 0)))
    return sequence(first, concurrent(across, down))


def _make_module(prefix: str, make: Any, *arguments: Any) -> HybridBlock:
    """Return the parallel branches that `make` creates, with `prefix` in all their names."""
    made = HybridConcurrent(axis=1, prefix=prefix)
    with made.name_scope():
        made.add(*make(*arguments))
    return made


def _a(pooled: int) -> list[HybridBlock]:
    return [
        _branch((64, 1)),
        _branch((48, 1), (64, 5, 1, 2)),
        _branch((64, 1), (96, 3, 1, 1), (96, 3, 1, 1)),
        _branch((pooled, 1), pool=_average()),
    ]


def _b() -> list[HybridBlock]:
    return [_branch((384, 3, 2)), _branch((64, 1), (96, 3, 1, 1), (96, 3, 2)), _branch(pool=nn.MaxPool2D(3, 2))]


def _c(inner: int) -> list[HybridBlock]:
    return [
        _branch((192, 1)),
        _branch((inner, 1), (inner, *_ACROSS), (192, *_DOWN)),
        _branch((inner, 1), (inner, *_DOWN), (inner, *_ACROSS), (inner, *_DOWN), (192, *_ACROSS)),
        _branch((192, 1), pool=_average()),
    ]


def _d() -> list[HybridBlock]:
    return [
        _branch((192, 1), (320, 3, 2)),
        _branch((192, 1), (192, *_ACROSS), (192, *_DOWN), (192, 3, 2)),
        _branch(pool=nn.MaxPool2D(3, 2)),
    ]


def _e() -> list[HybridBlock]:
    return [
        _branch((320, 1)),
        _make_fork((384, 1)),
        _make_fork((448, 1), (384, 3, 1, 1)),
        _branch((192, 1), pool=_average()),
    ]


class Inception3(HybridBlock):
    """Stack modules of parallel branches with windows of different sizes."""

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(_conv(32, 3, 2), _conv(32, 3), _conv(64, 3, 1, 1), nn.MaxPool2D(3, 2))
            self.features.add(_conv(80, 1), _conv(192, 3), nn.MaxPool2D(3, 2))
            for number, pooled in enumerate((32, 64, 64), 1):
                self.features.add(_make_module(f"A{number}_", _a, pooled))
            self.features.add(_make_module("B_", _b))
            for number, inner in enumerate((128, 160, 160, 192), 1):
                self.features.add(_make_module(f"C{number}_", _c, inner))
            self.features.add(_make_module("D_", _d))
            for number in (1, 2):
                self.features.add(_make_module(f"E{number}_", _e))
            self.features.add(nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return a score for each class."""
        return self.output(self.features(x))


def inception_v3(pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any) -> Inception3:
    """Return Inception version 3, for images of 299 x 299 pixels."""
    return load_pretrained(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)


complete_classes(globals())
