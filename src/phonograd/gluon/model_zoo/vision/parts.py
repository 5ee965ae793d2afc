"""Provide parts that networks share: convolutions with normalization, parallel branches, loading of parameters."""

from __future__ import annotations

from typing import Any, TypeVar

from ... import nn
from ...block import HybridBlock
from ...contrib.nn import HybridConcurrent
from ..model_store import get_model_file

__all__ = ["concurrent", "conv_norm_relu", "load_pretrained", "sequence"]

Net = TypeVar("Net", bound=HybridBlock)


def sequence(*blocks: HybridBlock, prefix: str = "") -> nn.HybridSequential:
    """Return blocks as a sequence."""
    made = nn.HybridSequential(prefix=prefix)
    made.add(*blocks)
    return made


def concurrent(*blocks: HybridBlock) -> HybridConcurrent:
    """Return parallel blocks whose outputs are concatenated along the channels."""
    made = HybridConcurrent(axis=1, prefix="")
    made.add(*blocks)
    return made


def conv_norm_relu(channels: int, kernel_size: Any, epsilon: float = 1e-5, **options: Any) -> list[HybridBlock]:
    """Return a convolution without bias, a batch normalization and a ReLU."""
    convolution = nn.Conv2D(channels, kernel_size, use_bias=False, **options)
    return [convolution, nn.BatchNorm(epsilon=epsilon), nn.Activation("relu")]


def load_pretrained(net: Net, name: str, pretrained: bool, ctx: Any, root: str | None) -> Net:
    """Return a network, after loading the trained parameters `name` if `pretrained` is set."""
    if pretrained:
        net.load_parameters(get_model_file(name, root=root), ctx=ctx)
    return net
