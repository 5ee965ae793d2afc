"""The sampler of every so-manieth example, where MXNet has it."""

from __future__ import annotations

from ...data.sampler import IntervalSampler

__all__ = ["IntervalSampler"]
