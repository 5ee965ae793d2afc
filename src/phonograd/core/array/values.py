"""Values of the user: array-like objects as NumPy arrays that the library may keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..graph.operator import Array
from .handle import Handle

__all__ = ["values_of"]


_COMPLAINT = "source_array must be array like object"


def values_of(source: Any, dtype: DType) -> Array:
    """Return an array-like object as a new contiguous NumPy array of a dtype, or raise TypeError."""
    if isinstance(source, (list, tuple)) and _holds_arrays(source):
        # to take their values would lose their record without a warning
        raise TypeError(f"{_COMPLAINT}; join NDArrays with nd.stack(*arrays) or nd.concat(*arrays)")
    try:
        values = np.array(source)
        if values.dtype.kind not in "biuf":
            values = np.array(source, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(_COMPLAINT) from None
    with np.errstate(all="ignore"):
        if values.dtype.kind == "f" and dtype.kind == "u":
            # negative numbers wrap around, as they do in C where the behavior is defined
            values = values.astype(np.int64)
        return np.array(values, dtype, order="C")


def _holds_arrays(source: Any) -> bool:
    while isinstance(source, (list, tuple)) and len(source):
        if any(isinstance(item, Handle) for item in source):
            return True
        source = source[0]
    return False
