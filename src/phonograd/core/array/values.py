"""Values of the user: array-like objects as NumPy arrays that the library may keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.errors import OutOfMemory, TooLarge
from ..base.outside import is_from_outside
from ..graph.node import MOST_BYTES, Shape, describe_size
from ..graph.operator import Array
from .handle import Handle

__all__ = ["made_by_numpy", "values_of"]


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


def made_by_numpy(name: str, shape: Shape, dtype: DType, make: Callable[[], Array]) -> Array:
    """Return an array of a shape that NumPy makes; errors about memory name the function that the user has called."""
    size = math.prod([max(0, extent) for extent in shape]) * max(8, dtype.itemsize)
    if size > MOST_BYTES:
        raise TooLarge(describe_size(shape, dtype, size), name)
    try:
        return make()
    except MemoryError as error:
        if is_from_outside(error):
            raise
        raise OutOfMemory(f"{error}\n  in operator {name}") from error
