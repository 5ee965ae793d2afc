"""Provide the convolutions of ``mxnet.gluon.contrib.cnn``."""

from __future__ import annotations

from .conv_layers import DeformableConvolution, ModulatedDeformableConvolution

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]
