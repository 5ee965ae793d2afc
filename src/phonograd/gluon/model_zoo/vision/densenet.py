"""Provide DenseNet (Huang et al. 2016, "Densely connected convolutional networks")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.base.docstrings import complete_classes
from ... import nn
from ...block import HybridBlock
from ...contrib.nn import Identity
from .parts import concurrent, conv_norm_relu, load_pretrained, sequence

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

#: the initial channels, the growth rate, and the layers of each stage
densenet_spec: dict[int, tuple[int, int, list[int]]] = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


def _make_dense_layer(growth_rate: int, bn_size: int, dropout: float) -> HybridBlock:
    """Return a layer that concatenates its output to its input."""
    added = sequence(
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(bn_size * growth_rate, 1, use_bias=False),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(growth_rate, 3, padding=1, use_bias=False),
    )
    if dropout:
        added.add(nn.Dropout(dropout))
    return concurrent(Identity(), added)


def _make_dense_block(
    num_layers: int, bn_size: int, growth_rate: int, dropout: float, stage_index: int
) -> nn.HybridSequential:
    """Return a stage of layers, each of which takes the outputs of all previous ones."""
    stage = nn.HybridSequential(prefix=f"stage{stage_index}_")
    with stage.name_scope():
        for _ in range(num_layers):
            stage.add(_make_dense_layer(growth_rate, bn_size, dropout))
    return stage


def _make_transition(num_output_features: int) -> HybridBlock:
    """Return the transition between two stages, which reduces channels and halves the size."""
    convolution = nn.Conv2D(num_output_features, 1, use_bias=False)
    return sequence(nn.BatchNorm(), nn.Activation("relu"), convolution, nn.AvgPool2D(2, 2))


class DenseNet(HybridBlock):
    """Stack stages of layers, each of which takes the outputs of all previous layers of its stage."""

    def __init__(
        self,
        num_init_features: int,
        growth_rate: int,
        block_config: Sequence[int],
        bn_size: int = 4,
        dropout: float = 0,
        classes: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(*conv_norm_relu(num_init_features, 7, strides=2, padding=3), nn.MaxPool2D(3, 2, 1))
            channels = num_init_features
            for number, layers in enumerate(block_config, 1):
                self.features.add(_make_dense_block(layers, bn_size, growth_rate, dropout, number))
                channels += layers * growth_rate
                if number < len(block_config):
                    channels //= 2
                    self.features.add(_make_transition(channels))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return a score for each class."""
        return self.output(self.features(x))


def get_densenet(
    num_layers: int, pretrained: bool = False, ctx: Any = None, root: str | None = None, **kwargs: Any
) -> DenseNet:
    """Return DenseNet with 121, 161, 169 or 201 layers, for images of 224 x 224 pixels."""
    if num_layers not in densenet_spec:
        raise ValueError(f"Invalid number of layers: {num_layers}. Options are {sorted(densenet_spec)}")
    return load_pretrained(
        DenseNet(*densenet_spec[num_layers], **kwargs), f"densenet{num_layers}", pretrained, ctx, root
    )


def densenet121(**kwargs: Any) -> DenseNet:
    """Return DenseNet with 121 layers."""
    return get_densenet(121, **kwargs)


def densenet161(**kwargs: Any) -> DenseNet:
    """Return DenseNet with 161 layers."""
    return get_densenet(161, **kwargs)


def densenet169(**kwargs: Any) -> DenseNet:
    """Return DenseNet with 169 layers."""
    return get_densenet(169, **kwargs)


def densenet201(**kwargs: Any) -> DenseNet:
    """Return DenseNet with 201 layers."""
    return get_densenet(201, **kwargs)


complete_classes(globals())
