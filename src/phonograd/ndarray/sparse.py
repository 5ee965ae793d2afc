"""Functions that create sparse arrays, and the namespace ``mx.nd.sparse``; :mod:`.sparse_arrays` has the classes."""

from __future__ import annotations

# MXNet's module of this name offers them, too
import operator  # noqa: F401
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import NotSupportedForSparseNDArray  # noqa: F401
from ..core.array.values import values_of
from ..core.base.devices import Context
from ..core.base.dtypes import FLOAT32, as_dtype
from ..core.base.errors import MXNetError, format_shape, nearest
from ..core.base.modules import make_complete
from ..core.graph.node import Shape
from ..core.graph.operator import Array
from .array import NDArray
from .creation import _SHAPE
from .namespaces import lookup, public_names
from .sparse_arrays import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
    check_storage_type,
    from_record,
    label_storage,
    touched_rows,
    unique_rows,
)
from .sparse_records import SparseRecord, compress

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "array",
    "csr_matrix",
    "empty",
    "from_record",
    "label_storage",
    "row_sparse_array",
    "touched_rows",
    "unique_rows",
    "zeros",
]


def _index(values: Any) -> Array:
    found = np.asarray(values.asnumpy() if isinstance(values, NDArray) else values)
    return found.astype(np.int64).reshape(-1)


def _plain_values(values: Any, dtype: Any) -> Array:
    kept = values._dtype if isinstance(values, NDArray) else getattr(values, "dtype", FLOAT32)
    # lists, and the float64 that NumPy chooses for them, become float32 as in nd.array
    return values_of(values, as_dtype(kept if dtype is None else dtype))


def csr_matrix(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> CSRNDArray:
    """Return a csr matrix.

    Parameters
    ----------
    arg1
        ``(data, indices, indptr)``, ``(data, (row, column))``, a shape ``(rows, columns)``, a csr matrix of this
            library or SciPy's, or anything convertible to an array of two axes.
        shape
            The shape, if the values do not determine it.
    """
    if isinstance(arg1, tuple) and len(arg1) == 2 and all(isinstance(n, (int, np.integer)) for n in arg1):
        if shape is not None and tuple(shape) != tuple(arg1):
            raise ValueError(f"shape {tuple(shape)} does not match that of the matrix, {tuple(arg1)}")
        return zeros("csr", arg1, ctx, dtype)  # type: ignore[return-value]
    if isinstance(arg1, tuple) and len(arg1) == 2:
        data, (row, column) = arg1
        return _from_coordinates(data, row, column, shape, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 3:
        values, columns, starts = _plain_values(arg1[0], dtype).reshape(-1), _index(arg1[1]), _index(arg1[2])
        if shape is None:
            if not columns.size:
                raise ValueError("invalid shape: cannot infer it without column numbers; give shape=(rows, columns)")
            shape = (len(starts) - 1, int(columns.max()) + 1)
        return _from_checked_record(
            SparseRecord("csr", _SHAPE.accept(shape, "csr_matrix"), values, (starts, columns)), ctx
        )  # type: ignore[return-value]
    if isinstance(arg1, tuple):
        raise ValueError(f"Unexpected length of input tuple: {len(arg1)}")
    return _convert(arg1, "csr", shape, ctx, dtype)  # type: ignore[return-value]


def _from_coordinates(data: Any, row: Any, column: Any, shape: Any, ctx: Context | None, dtype: Any) -> CSRNDArray:
    if dtype is None and not isinstance(data, NDArray):
        # SciPy's coo_matrix chooses the dtype in MXNet
        dtype = np.asarray(data).dtype
    values, rows, columns = _plain_values(data, dtype).reshape(-1), _index(row), _index(column)
    if shape is None:
        if not rows.size or not columns.size:
            raise ValueError("invalid shape: cannot infer it without coordinates; give shape=(rows, columns)")
        shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    if rows.size and (rows.min() < 0 or rows.max() >= shape[0]):
        raise MXNetError(f"a row number is outside the shape {format_shape(tuple(shape))}")
    if not values.shape == rows.shape == columns.shape:
        raise MXNetError(f"there are {values.size} values, {rows.size} row numbers and {columns.size} column numbers")
    order = np.lexsort((columns, rows))
    starts = np.zeros(shape[0] + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=starts[1:])
    record = SparseRecord("csr", _SHAPE.accept(shape, "csr_matrix"), values[order], (starts, columns[order]))
    return _from_checked_record(record, ctx)  # type: ignore[return-value]


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Context | None = None, dtype: Any = None) -> RowSparseNDArray:
    """Return a row_sparse array from ``(data, indices)``, a shape, or anything convertible to an array."""
    if isinstance(arg1, tuple) and all(isinstance(n, (int, np.integer)) for n in arg1):
        if shape is not None and tuple(shape) != tuple(arg1):
            raise ValueError(f"shape {tuple(shape)} does not match that of the array, {tuple(arg1)}")
        return zeros("row_sparse", arg1, ctx, dtype)  # type: ignore[return-value]
    if isinstance(arg1, tuple):
        if len(arg1) != 2:
            raise ValueError(f"Unexpected length of input tuple: {len(arg1)}")
        values, numbers = _plain_values(arg1[0], dtype), _index(arg1[1])
        if shape is None:
            if not numbers.size:
                raise ValueError("invalid shape: cannot infer it without row numbers; give shape=")
            shape = (int(numbers.max()) + 1, *values.shape[1:])
        order = np.argsort(numbers, kind="stable")
        record = SparseRecord("row_sparse", _SHAPE.accept(shape, "row_sparse"), values[order], (numbers[order],))
        return _from_checked_record(record, ctx)  # type: ignore[return-value]
    return _convert(arg1, "row_sparse", shape, ctx, dtype)  # type: ignore[return-value]


def _from_checked_record(record: SparseRecord, ctx: Context | None) -> BaseSparseNDArray:
    record.check()
    return from_record(record, ctx)


def _convert(source: Any, stype: str, shape: Any, ctx: Context | None, dtype: Any) -> BaseSparseNDArray:
    """Convert another object to a sparse array."""
    if isinstance(source, BaseSparseNDArray) and source.stype == stype:
        record = source._to_storage()
    elif stype == "csr" and hasattr(source, "indptr") and hasattr(source, "indices"):
        indices = (_index(source.indptr), _index(source.indices))
        record = SparseRecord("csr", tuple(source.shape), np.array(source.data), indices)
    else:
        values = _plain_values(source, dtype)
        if stype == "csr" and values.ndim != 2:
            raise ValueError(
                f"To convert to a CSR, the NDArray should be 2 Dimensional. Current shape is {values.shape}"
            )
        record = compress(values, stype)
    if shape is not None and tuple(shape) != record.shape:
        raise ValueError(f"shape {tuple(shape)} does not match that of the values, {record.shape}")
    target = as_dtype(record.data.dtype if dtype is None else dtype)
    return _from_checked_record(record.astype(target), ctx)


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Return an array of zeros with a storage type; it stores no values."""
    if stype == "default":
        from .creation import zeros as dense_zeros

        return dense_zeros(shape, ctx, dtype, **kwargs)
    check_storage_type(stype)
    extents: Shape = _SHAPE.accept(shape, "zeros")
    if not extents or (stype == "csr" and len(extents) != 2):
        raise ValueError(f"an array of shape {format_shape(extents)} cannot be {stype}")
    return from_record(SparseRecord.zeros(stype, extents, as_dtype(dtype)), ctx)


def empty(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Return an array of zeros with a storage type."""
    return zeros(stype, shape, ctx, dtype)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Return a sparse array with the values of another one or of a SciPy csr matrix."""
    if isinstance(source_array, BaseSparseNDArray):
        return _convert(source_array, source_array.stype, None, ctx or source_array.context, dtype)
    if hasattr(source_array, "tocsr"):
        return csr_matrix(source_array.tocsr(), ctx=ctx, dtype=dtype)
    raise ValueError("Please use mx.nd.array to create an NDArray with source_array of type ", type(source_array))


#: operators that MXNet offers here under another name than in nd
_OTHER_NAMES = {"retain": "sparse_retain"}


if TYPE_CHECKING:
    # without names like ``slice``, which this module uses in Python's meaning
    from . import sparse_names
    from .sparse_names import *  # noqa: F403

    __all__ += sparse_names.__all__


def __getattr__(name: str) -> Any:
    function = None if name.startswith("_") else lookup("", _OTHER_NAMES.get(name, name)) or lookup("_sparse_", name)
    if function is None:
        # dunder names come from Python's own lookups, not from misspellings
        hint = "" if name.startswith("__") else nearest(name, __dir__())
        raise AttributeError(f"nd.sparse has no operator {name!r}{hint}")
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*__all__, *_OTHER_NAMES, *public_names(), *public_names("_sparse_")})


make_complete(__name__)
