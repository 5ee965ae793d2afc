"""The class of arrays that are not computed from arrays: parameters, batches, first states, images.

Results of operators have the class of their arguments. Arrays made of files or lists have the class that the program
has chosen (``npx.set_np()``, :mod:`phonograd.util`).
"""

from __future__ import annotations

from typing import Any

from ..core.array.handle import DENSE, as_class
from ..util import is_np_array

__all__ = ["of_chosen_kind"]


def of_chosen_kind(array: Any) -> Any:
    """Return a new array as one of mx.np if NumPy semantics is on, else as it is.

    Sparse arrays and other objects are returned as they are.
    """
    if type(array) is not DENSE[0] or not is_np_array():
        return array
    from ..numpy.multiarray import ndarray

    return as_class(array, ndarray)
