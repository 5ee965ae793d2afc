"""Provide the samplers and text datasets of ``mxnet.gluon.contrib.data``."""

from __future__ import annotations

from . import sampler, text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "sampler", "text"]
