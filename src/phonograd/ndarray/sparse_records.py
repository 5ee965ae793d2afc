"""SparseRecord: the values and index arrays of a sparse array, in memory and in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.array.values import made_by_numpy
from ..core.base.dtypes import DType
from ..core.base.errors import MXNetError, format_shape
from ..core.graph.node import Shape
from ..core.graph.operator import Array

__all__ = ["SparseRecord", "compress"]


@dataclass(frozen=True, eq=False)
class SparseRecord:
    """The stored form of a sparse array.

    Attributes
    ----------
    stype
        ``'csr'`` or ``'row_sparse'``.
    shape
        The shape of the dense array.
    data
        The stored values: ``(count,)`` for csr, ``(rows, ...)`` for row_sparse.
    indices
        csr: the start of each row in `data` and the column of each value; row_sparse: the row numbers.
    """

    stype: str
    shape: tuple[int, ...]
    data: Array
    indices: tuple[Array, ...]

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        dtype: DType = self.data.dtype
        return dtype

    @classmethod
    def zeros(cls, stype: str, shape: Shape, dtype: DType) -> SparseRecord:
        """Return the record of an array of zeros: it stores no values."""
        none = np.zeros(0, np.int64)
        if stype == "row_sparse":
            return cls(stype, shape, np.zeros((0, *shape[1:]), dtype), (none,))
        length = (shape[0] + 1,)
        starts = made_by_numpy("zeros", length, none.dtype, lambda: np.zeros(length, none.dtype))
        return cls(stype, shape, np.zeros(0, dtype), (starts, none))

    def astype(self, dtype: DType) -> SparseRecord:
        """Return a copy with another dtype."""
        return SparseRecord(self.stype, self.shape, self.data.astype(dtype), self.indices)

    def check(self) -> None:
        """Check the index arrays.

        Raises
        ------
        MXNetError
            If the index arrays do not describe an array of this shape.
        """
        rows = self.shape[0] if self.shape else 0
        if self.stype == "csr":
            starts, columns = self.indices
            self._check(len(self.shape) == 2 and starts.shape == (rows + 1,), "the row starts do not fit the shape")
            self._check(bool(starts[0] == 0 and starts[-1] == len(self.data)), "the row starts do not fit the values")
            self._check(bool((np.diff(starts) >= 0).all()), "the row starts decrease")
            self._check(columns.shape == self.data.shape, "there is not one column number per value")
            self._check(bool(((columns >= 0) & (columns < self.shape[1])).all()), "a column number is out of range")
        else:
            (numbers,) = self.indices
            self._check(self.data.shape == (len(numbers), *self.shape[1:]), "the stored rows do not fit the shape")
            self._check(bool(((numbers >= 0) & (numbers < rows)).all()), "a row number is out of range")

    def rows(self) -> Array:
        """Return the row of each stored value (csr) or the stored rows (row_sparse)."""
        if self.stype == "csr":
            return np.repeat(np.arange(self.shape[0], dtype=np.int64), np.diff(self.indices[0]))
        return self.indices[0]

    def todense(self) -> Array:
        """Return the dense array; the caller decides whether `shape` fits into memory.

        Raises
        ------
        MXNetError
            If the index arrays do not describe an array of this shape.
        """
        self.check()
        key: Any = (self.rows(), self.indices[1]) if self.stype == "csr" else self.indices[0]
        shape, dtype = self.shape, self.data.dtype
        dense = made_by_numpy("cast_storage", shape, dtype, lambda: np.zeros(shape, dtype))
        dense[key] = self.data
        return dense

    def _check(self, correct: bool, problem: str) -> None:
        if not correct:
            raise MXNetError(f"Invalid {self.stype} array of shape {format_shape(self.shape)}: {problem}")


def compress(values: Array, stype: str) -> SparseRecord:
    """Return an array in sparse form: its nonzero elements, or its rows with a nonzero element."""
    if stype == "csr":
        rows, columns = np.nonzero(values)
        starts = np.zeros(values.shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=values.shape[0]), out=starts[1:])
        return SparseRecord(stype, values.shape, values[rows, columns], (starts, columns.astype(np.int64, copy=False)))
    used = np.flatnonzero((values != 0).reshape(values.shape[0], -1).any(1))
    return SparseRecord(stype, values.shape, values[used], (used.astype(np.int64, copy=False),))
