"""What the networks have in common: convolutions with normalisation, parallel branches, loading of parameters."""

from __future__ import annotations

from typing import Any, TypeVar

from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ..model_store import get_model_file

__all__ = ["concurrent", "conv_norm_relu", "loaded", "sequence"]

Net = TypeVar("Net", bound=HybridBlock)


def sequence(*blocks: HybridBlock, prefix: str = "") -> nn.HybridSequential:
    """Return blocks one after the other."""
    made = nn.HybridSequential(prefix=prefix)
    made.add(*blocks)
    return made


def concurrent(*blocks: HybridBlock) -> HybridConcurrent:
    """Return blocks side by side, with their outputs joined along the channels."""
    made = HybridConcurrent(axis=1, prefix="")
    made.add(*blocks)
    return made


def conv_norm_relu(channels: int, kernel_size: Any, epsilon: float = 1e-5, **options: Any) -> list[HybridBlock]:
    """Return a convolution without bias, a batch normalisation and a ReLU."""
    convolution = nn.Conv2D(channels, kernel_size, use_bias=False, **options)
    return [convolution, nn.BatchNorm(epsilon=epsilon), nn.Activation("relu")]


def loaded(net: Net, name: str, pretrained: bool, ctx: Any, root: str | None) -> Net:
    """Return a network, with the trained parameters of that name if these are wanted."""
    if pretrained:
        net.load_parameters(get_model_file(name, root=root), ctx=ctx)
    return net
