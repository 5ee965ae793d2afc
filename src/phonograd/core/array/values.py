"""Values of the user: array-like objects as NumPy arrays that the library may keep."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np

from ..base.dtypes import BFLOAT16, DType, as_array_dtype, compute_dtype, convert, kind_of
from ..base.errors import MXNetError, OutOfMemory, TooLarge
from ..base.outside import is_from_outside
from ..graph.node import MOST_BYTES, Shape, describe_size
from ..graph.operator import Array
from .handle import Handle

__all__ = ["check_size", "made_by_numpy", "naming_itself", "values_of"]

Function = TypeVar("Function", bound=Callable[..., Any])


_COMPLAINT = "source_array must be array like object"


def values_of(source: Any, dtype: DType) -> Array:
    """Return an array-like object as a new contiguous NumPy array of a dtype, or raise TypeError."""
    if isinstance(source, (list, tuple)) and _holds_arrays(source):
        # to take their values would lose their record without a warning
        raise TypeError(f"{_COMPLAINT}; join NDArrays with nd.stack(*arrays) or nd.concat(*arrays)")
    try:
        values = np.array(source)
        if kind_of(as_array_dtype(values.dtype)) not in "biuf":
            values = np.array(source, dtype=compute_dtype(dtype))
    except (TypeError, ValueError, OverflowError) as error:
        advice = f"; lists need numbers in rows of equal length: {error}" if isinstance(source, (list, tuple)) else ""
        raise TypeError(f"{_COMPLAINT}{advice}") from None
    with np.errstate(all="ignore"):
        if values.dtype.kind == "f" and dtype.kind == "u":
            # negative numbers wrap around, as they do in C where the behavior is defined
            values = values.astype(np.int64)
        if as_array_dtype(values.dtype) == BFLOAT16 or dtype == BFLOAT16:
            return np.array(convert(values, dtype), order="C")
        return np.array(values, dtype, order="C")


def _holds_arrays(source: Any) -> bool:
    while isinstance(source, (list, tuple)) and len(source):
        if any(isinstance(item, Handle) for item in source):
            return True
        source = source[0]
    return False


def made_by_numpy(name: str, shape: Shape, dtype: DType, make: Callable[[], Array]) -> Array:
    """Return an array of a shape that NumPy makes; errors about memory name the function that the user has called."""
    check_size(name, shape, dtype)
    with _named(name):
        return make()


def check_size(name: str, shape: Shape, dtype: DType) -> None:
    """Raise an error that names a function if no computer can store its result of a shape."""
    # NumPy computes some of them in wider numbers
    size = math.prod([max(0, extent) for extent in shape]) * max(8, dtype.itemsize)
    if size > MOST_BYTES:
        raise TooLarge(describe_size(shape, dtype, size), name)


def naming_itself(function: Function) -> Function:
    """Make a function name itself in errors about memory and too large numbers that NumPy raises inside of it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _named(function.__name__):
            return function(*args, **kwargs)

    return cast(Function, call)


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except (MemoryError, OverflowError) as error:
        if is_from_outside(error) or isinstance(error, MXNetError):
            raise
        kind = OutOfMemory if isinstance(error, MemoryError) else MXNetError
        raise kind(f"{error}\n  in operator {name}") from error
