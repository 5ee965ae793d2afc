"""Provide base classes of transformations, with a fast path for images that autograd does not record."""

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

__all__ = ["ElementwiseTransform", "PixelTransform", "Values", "is_plain", "split_steps"]

Values = np.ndarray[Any, Any]


class _FastPath(HybridBlock):
    """Run a fast path, ``_transform``, for images that autograd does not record."""

    _has_fast_path = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # a subclass that overrides one of the two paths replaces both
        if "hybrid_forward" in vars(cls) or "_transform" in vars(cls):
            cls._has_fast_path = "_transform" in vars(cls)

    def forward(self, x: Any, *args: Any) -> Any:
        """Return the transformed image."""
        if (
            self._has_fast_path
            and isinstance(x, NDArray)
            and not args
            and not autograd.is_recording()
            and LOCAL.trace.allows_shortcuts
        ):
            return self._run_fast(x)
        return super().forward(x, *args)

    def _run_fast(self, x: NDArray) -> Any:
        raise NotImplementedError


class ElementwiseTransform(_FastPath):
    """Transform each element alike, so that many images can be transformed at once."""

    #: the number of axes of an image, if it matters
    _axes: int | None = None

    def _run_fast(self, x: NDArray) -> Any:
        return as_class(concrete(np.ascontiguousarray(self._transform(pixels_of(x))), CPU), x._result_class)

    def _transform(self, values: Values) -> Values:
        """Return the transformed values in new memory."""
        raise NotImplementedError

    def _accepts_rows(self, ndim: int) -> bool:
        """Return whether transforming a batch transforms each of its images, which have `ndim` axes."""
        return self._axes in (None, ndim)

    def _split_steps(self) -> tuple[list[Any], list[Any]]:
        return split_steps([self])


class PixelTransform(_FastPath):
    """Transform an image to another one, or return it unchanged."""

    def _run_fast(self, x: NDArray) -> Any:
        return self._transform(x)

    def _transform(self, x: NDArray) -> Any:
        raise NotImplementedError


def is_plain(block: Any) -> bool:
    """Return whether a call of a block only calls its ``forward``."""
    has_hooks = block._forward_hooks or block._forward_pre_hooks
    return not (has_hooks or block._is_checkpointed or getattr(block, "_active", False))


def split_steps(steps: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the steps for one image after another, and the last steps, which can transform many images at once."""
    before = list(steps)
    at_once: list[Any] = []
    while before and isinstance(before[-1], ElementwiseTransform) and is_plain(before[-1]):
        block = before[-1]
        if not block._has_fast_path or type(block).forward is not ElementwiseTransform.forward:
            break
        at_once.insert(0, before.pop())
    return before, at_once
