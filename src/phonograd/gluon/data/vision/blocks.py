"""What transformations of images are derived from: blocks with a shorter way for images that are not recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .... import autograd
from ....core.array.handle import as_class
from ....core.base.devices import CPU
from ....core.trace.trace import LOCAL
from ....image.functions import pixels_of
from ....ndarray.array import NDArray, concrete
from ...block import HybridBlock

__all__ = ["Arithmetic", "OfPixels", "Values", "divided", "is_plain"]

Values = np.ndarray[Any, Any]


class _Short(HybridBlock):
    """A block with a shorter way, ``_of``, for images that no gradient is recorded for."""

    _is_short = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # who has overridden one of the two ways means both
        if "hybrid_forward" in vars(cls) or "_of" in vars(cls):
            cls._is_short = "_of" in vars(cls)

    def forward(self, x: Any, *args: Any) -> Any:
        """Return the transformed image."""
        if (
            self._is_short
            and isinstance(x, NDArray)
            and not args
            and not autograd.is_recording()
            and LOCAL.trace.allows_shortcuts
        ):
            return self._shortly(x)
        return super().forward(x, *args)

    def _shortly(self, x: NDArray) -> Any:
        raise NotImplementedError


class Arithmetic(_Short):
    """A block that does the same to each element, so that it can take many images at once."""

    #: how many axes an image has, if that matters
    _axes: int | None = None

    def _shortly(self, x: NDArray) -> Any:
        return as_class(concrete(np.ascontiguousarray(self._of(pixels_of(x))), CPU), x._result_class)

    def _of(self, values: Values) -> Values:
        """Return the transformed values, in memory of their own."""
        raise NotImplementedError

    def _is_for_rows(self, ndim: int) -> bool:
        """Return whether it does to a batch what it does to each of its images, which have `ndim` axes."""
        return self._axes in (None, ndim)

    def _divided(self) -> tuple[list[Any], list[Any]]:
        return divided([self])


class OfPixels(_Short):
    """A block that may return the image itself."""

    def _shortly(self, x: NDArray) -> Any:
        return self._of(x)

    def _of(self, x: NDArray) -> Any:
        raise NotImplementedError


def is_plain(block: Any) -> bool:
    """Return whether to call a block does no more than to call its ``forward``."""
    has_hooks = block._forward_hooks or block._forward_pre_hooks
    return not (has_hooks or block._is_checkpointed or getattr(block, "_active", False))


def divided(steps: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return transformations divided into those for one image after the other and the last ones, for many at once."""
    before = list(steps)
    at_once: list[Any] = []
    while before and isinstance(before[-1], Arithmetic) and is_plain(before[-1]):
        block = before[-1]
        if not block._is_short or type(block).forward is not Arithmetic.forward:
            break
        at_once.insert(0, before.pop())
    return before, at_once
