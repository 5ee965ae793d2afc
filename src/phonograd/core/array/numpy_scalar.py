"""NumPy arrays of one element that can be formatted as numbers: ``"%f" % loss.asnumpy()``.

NumPy refuses that from version 2.4 on for arrays that have axes, and most of MXNet's arrays of one element have one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["OneElement", "as_number"]


class OneElement(np.ndarray[Any, Any]):
    """A NumPy array that ``float``, ``int`` and formats take if it has one element.

    >>> as_number(np.array([[2.5]]))
    array([[2.5]])
    >>> "%.1f" % as_number(np.array([2.5]))
    '2.5'
    """

    def _only(self, kind: str) -> Any:
        if self.size != 1:
            raise TypeError(f"only arrays of one element can be converted to {kind}, this one has {self.size}")
        return self.item()

    def __reduce__(self) -> Any:
        # a pickle can be read without this library
        return self.view(np.ndarray).__reduce__()

    def __float__(self) -> float:
        return float(self._only("float"))

    def __int__(self) -> int:
        return int(self._only("int"))

    def __complex__(self) -> complex:
        return complex(self._only("complex"))


# NumPy prints the name of the class
OneElement.__name__ = "array"


def as_number(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array; if it has one element and axes, as one that can be formatted as a number."""
    return values.view(OneElement) if values.size == 1 and values.ndim else values
