"""What transformations of images are derived from: blocks with a shorter way for images that are not recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import autograd
from ....context import CPU
from ....image.functions import pixels_of
from ....ndarray.array import NDArray, concrete
from ....ndarray.handle import as_class
from ....trace import LOCAL, Capturing
from ...block import HybridBlock

__all__ = ["Arithmetic", "OfPixels", "Values"]

Values = np.ndarray[Any, Any]


class Arithmetic(HybridBlock):
    """A block with a shorter way for images that no gradient is recorded for."""

    def forward(self, x: Any, *args: Any) -> Any:
        """Return the transformed image."""
        if isinstance(x, NDArray) and not autograd.is_recording() and not isinstance(LOCAL.trace, Capturing):
            return as_class(concrete(np.ascontiguousarray(self._of(pixels_of(x))), CPU), x._result_class)
        return super().forward(x, *args)

    def _of(self, values: Values) -> Values:
        """Return the transformed values, in memory of their own."""
        raise NotImplementedError


class OfPixels(HybridBlock):
    """A block with a shorter way for images that no gradient is recorded for, which may return the image itself."""

    def forward(self, x: Any, *args: Any) -> Any:
        """Return the transformed image."""
        if isinstance(x, NDArray) and not autograd.is_recording() and not isinstance(LOCAL.trace, Capturing):
            return self._of(x)
        return super().forward(x, *args)

    def _of(self, x: NDArray) -> Any:
        raise NotImplementedError
