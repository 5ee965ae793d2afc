"""Samplers and datasets of text that MXNet keeps apart from the others (``mxnet.gluon.contrib.data``)."""

from __future__ import annotations

from . import sampler, text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "sampler", "text"]
