"""Convolution: native kernels of the three primitives that convolutions and all their derivatives are made of."""

from .plan import Convolution

__all__ = ["Convolution"]
