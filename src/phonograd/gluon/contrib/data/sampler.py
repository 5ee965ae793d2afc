"""Re-export the interval sampler under MXNet's module path."""

from __future__ import annotations

from ...data.sampler import IntervalSampler

__all__ = ["IntervalSampler"]
