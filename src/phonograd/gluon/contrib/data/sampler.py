"""Re-export the interval sampler under MXNet's module path."""

from __future__ import annotations

from ....core.base.docstrings import complete_classes
from ...data.sampler import IntervalSampler

__all__ = ["IntervalSampler"]


complete_classes(globals())
