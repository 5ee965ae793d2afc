"""Which kind of array is made where nothing says so: parameters, batches, first states, images.

What is computed from arrays is of their kind. What is made of files, lists or nothing is of the kind that the program
has chosen (``npx.set_np()``, :mod:`phonograd.util`).
"""

from __future__ import annotations

from typing import Any

from ...util import is_np_array
from . import handle as _handle
from .handle import as_class

__all__ = ["of_chosen_kind"]


def of_chosen_kind(array: Any) -> Any:
    """Return an array that nobody else refers to yet as one of mx.np, if NumPy semantics is on; else as it is.

    Sparse arrays and other things are returned as they are.
    """
    if type(array) is not _handle._class or not is_np_array():
        return array
    from ...numpy.multiarray import ndarray

    return as_class(array, ndarray)
