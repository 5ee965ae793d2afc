"""Sparse arrays: CSRNDArray and RowSparseNDArray, and ``mx.nd.sparse``.

A sparse array is an NDArray with another storage. It holds a :class:`.SparseRecord` (values and index arrays); the
dense array is created when an operator needs it, which MXNet calls storage fallback. So every operator takes sparse
arrays, and gradients of every order pass through. Products of a csr matrix, slices, copies, conversions and files use
the record alone, without the dense array. :mod:`.sparse_calls` decides which results are sparse.

Converting a dense array creates the record at once. A sparse array that was written to, or that is recorded, holds
dense values; reading ``data``, ``indices`` or ``indptr`` then creates the record. Gradients with
``stype='row_sparse'`` are such arrays: they need as much memory as dense ones.
"""

from __future__ import annotations

import builtins
import importlib
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import NotSupportedForSparseNDArray
from ..core.array.handle import Handle, node_in, read
from ..core.array.values import made_by_numpy, values_of
from ..core.base.devices import Context, as_context
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import FLOAT32, DType, as_dtype
from ..core.base.errors import MXNetError, format_shape, nearest
from ..core.graph.node import Shape
from ..core.graph.operator import Array
from ..core.trace.trace import LOCAL, ready_trace
from .array import NDArray, concrete
from .creation import _SHAPE
from .creation import array as dense_array
from .namespaces import lookup, public_names
from .params import pack_record, unpack_record
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


class BaseSparseNDArray(NDArray):
    """The base class of csr and row_sparse arrays."""

    __slots__ = ("_record", "_whole")

    #: the record, unless the array was written to, and the dense array made from it
    _record: SparseRecord | None
    _whole: Array | None
    #: the number of index arrays
    _num_aux: int
    _stype: str

    def __new__(cls, handle: None = None, writable: bool = True) -> BaseSparseNDArray:
        made = super().__new__(cls, handle, writable)
        assert isinstance(made, BaseSparseNDArray)
        made._record = made._whole = None
        return made

    # -- storage

    def _current(self) -> SparseRecord | None:
        """Return the record if it still holds the array's value."""
        if self._record is None or self._buffer is not self._whole:
            return None
        return self._record if self._buffer is not None or self._node is None else None

    def _to_storage(self) -> SparseRecord:
        record = self._current()
        if record is None:
            whole = read(self)
            record = compress(whole, self._stype)
            self._record, self._whole = record, whole
        else:
            LOCAL.trace.note_read()
        return record

    def _detached_record(self) -> SparseRecord | None:
        """Return the record if it is current and the array needs no gradient."""
        node = self._node
        if self._variable is not None or (node is not None and node.marked) or not LOCAL.trace.allows_shortcuts:
            return None
        return self._current()

    def _made(self) -> Array:
        record = self._record
        if record is None:
            return super()._made()
        self._whole = record.todense()
        return self._whole

    @property
    def shape(self) -> Shape:
        """The extents of the axes, zeros included."""
        record = self._current()
        return Handle.shape.fget(self) if record is None else record.shape  # type: ignore[attr-defined]

    @property
    def _dtype(self) -> DType:
        record = self._current()
        return Handle._dtype.fget(self) if record is None else record.data.dtype  # type: ignore[attr-defined, no-any-return]

    @property
    def stype(self) -> str:
        """The storage type: 'csr' or 'row_sparse'."""
        return self._stype

    @property
    def data(self) -> NDArray:
        """A copy of the stored values."""
        return concrete(self._to_storage().data.copy(), self.context)

    @property
    def indices(self) -> NDArray:
        """A copy of the column of each stored value (csr), or of the stored row numbers (row_sparse)."""
        return concrete(self._to_storage().indices[-1].copy(), self.context)

    def check_format(self, full_check: bool = True) -> None:
        """Raise an MXNetError that names the problem if the index arrays are invalid."""
        self._to_storage().check()

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join([str(n) for n in self.shape])} @{self.context}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return f"<pre>{self!r}</pre>".replace("<CSR", "&lt;CSR").replace("<Row", "&lt;Row")

    # -- copies and conversions

    def copy(self) -> NDArray:
        """Return a copy. The copy is recorded, so gradients pass through it."""
        record = self._detached_record()
        return super().copy() if record is None else from_record(record, self.context)

    def copyto(self, other: Any) -> Any:
        """Write the values into another array, or return a copy on another context."""
        if not isinstance(other, Context):
            return super().copyto(other)
        record = self._detached_record()
        return label_storage(super().copyto(other), self._stype) if record is None else from_record(record, other)

    def as_in_context(self, context: Context) -> NDArray:
        """Return the array itself if it is on that context, else a copy."""
        return self if self.context == context else self.copyto(context)

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Convert to another dtype with the same storage type."""
        record, target = self._detached_record(), as_dtype(dtype)
        if record is None:
            converted = super().astype(dtype, copy)
            return converted if converted is self else label_storage(converted, self._stype)
        if not copy and target == record.data.dtype:
            return self
        return from_record(
            SparseRecord(record.stype, record.shape, record.data.astype(target), record.indices), self.context
        )

    def detach(self) -> NDArray:
        """Return an array with the same value that is not recorded."""
        record = self._current() if LOCAL.trace.allows_shortcuts else None
        return label_storage(super().detach(), self._stype) if record is None else from_record(record, self.context)

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """Raise, as in MXNet: convert with ``tostype('default')`` first."""
        raise NotSupportedForSparseNDArray(self.reshape, None, *shape)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not (isinstance(key, builtins.slice) and key == builtins.slice(None)):
            raise ValueError(f"Assignment with slice for {type(self).__name__} is not implemented yet; use [:]")
        super().__setitem__(key, value)

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce_ex__(self, protocol: Any) -> Any:
        context = self.context
        record = pack_record(self._to_storage(), (context.device_typeid, context.device_id))
        return type(self), (None,), {"handle": bytearray(record)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        record = unpack_record(state["handle"])
        assert isinstance(record, SparseRecord)
        self._record = record

    def __copy__(self) -> NDArray:
        return from_record(self._to_storage(), self.context)

    def __deepcopy__(self, memo: Any) -> NDArray:
        return self.__copy__()

    # -- arithmetic with sparse results

    def __add__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "add", super().__add__(other))  # type: ignore[no-any-return]

    def __sub__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "sub", super().__sub__(other))  # type: ignore[no-any-return]

    def __mul__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "mul", super().__mul__(other))  # type: ignore[no-any-return]

    def __rmul__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "mul", super().__rmul__(other))  # type: ignore[no-any-return]

    def __truediv__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "truediv", super().__truediv__(other))  # type: ignore[no-any-return]

    def __eq__(self, other: Any) -> NDArray:  # type: ignore[override]
        return _keep_storage(self, other, "eq", super().__eq__(other))  # type: ignore[no-any-return]

    def __ne__(self, other: Any) -> NDArray:  # type: ignore[override]
        return _keep_storage(self, other, "ne", super().__ne__(other))  # type: ignore[no-any-return]

    def __gt__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "gt", super().__gt__(other))  # type: ignore[no-any-return]

    def __ge__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "ge", super().__ge__(other))  # type: ignore[no-any-return]

    def __lt__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "lt", super().__lt__(other))  # type: ignore[no-any-return]

    def __le__(self, other: Any) -> NDArray:
        return _keep_storage(self, other, "le", super().__le__(other))  # type: ignore[no-any-return]

    def __neg__(self) -> NDArray:
        return label_storage(super().__neg__(), self._stype)

    def __abs__(self) -> NDArray:
        return label_storage(super().__abs__(), self._stype)

    __hash__ = NDArray.__hash__


def _keep_storage(array: BaseSparseNDArray, other: Any, word: str, result: Any) -> Any:
    """Return the result of an operator, as a sparse array if MXNet returns one."""
    if isinstance(other, NDArray):
        same = other.stype == array.stype
        if other.stype == "default" and array.stype == "row_sparse" and other.shape != array.shape:
            return result
        keep = {"add": same, "sub": same, "mul": same or other.stype == "default"}.get(word, False)
        keep = keep or (word == "truediv" and array.stype == "csr" and other.stype == "default")
    else:
        keep = word in ("mul", "truediv") or not getattr(operator, word)(0.0, other)
    return label_storage(result, array.stype) if keep and isinstance(result, NDArray) else result


class CSRNDArray(BaseSparseNDArray):
    """A matrix stored by rows: the nonzero values, their columns, and the start of each row.

    >>> import phonograd as mx
    >>> x = mx.nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 2, 2, 3]), shape=(4, 3))
    >>> x.asnumpy()
    array([[0., 1., 0.],
           [2., 0., 0.],
           [0., 0., 0.],
           [0., 0., 3.]], dtype=float32)
    >>> mx.nd.dot(x, mx.nd.ones((3, 1))).asnumpy().ravel()
    array([1., 2., 0., 3.], dtype=float32)
    """

    __slots__ = ()

    _num_aux = 2
    _stype = "csr"

    @property
    def indptr(self) -> NDArray:
        """A copy of the offsets in ``data`` where the rows begin, followed by its length."""
        return concrete(self._to_storage().indices[0].copy(), self.context)

    def __getitem__(self, key: Any) -> NDArray:  # type: ignore[override]
        """Return a row or rows ``[i:j]`` as a csr matrix; other keys raise."""
        rows = self.shape[0]
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            first = int(key) + (rows if key < 0 else 0)
            if not 0 <= first < rows:
                raise IndexError(f"index {key} is out of bounds for axis 0 with size {rows}")
            last = first + 1
        elif isinstance(key, builtins.slice):
            if key.step not in (None, 1):
                raise ValueError("CSRNDArray only supports continuous slicing on axis 0")
            if key == builtins.slice(None):
                return self
            first, last, _ = key.indices(rows)
            last = builtins.max(first, last)
        elif isinstance(key, tuple):
            raise ValueError("Multi-dimension indexing is not supported")
        else:
            raise ValueError(f"Undefined behaviour for key {key!r}: a csr matrix supports only [i] and [i:j]")
        record = self._detached_record()
        if record is None:
            return label_storage(self._call_operator("slice_axis", axis=0, begin=first, end=last), "csr")
        return from_record(_rows_of(record, first, last), self.context)

    def __iter__(self) -> Any:
        return (self[row] for row in range(self.shape[0]))

    def asscipy(self) -> Any:
        """Return a ``scipy.sparse.csr_matrix``; needs SciPy."""
        try:
            scipy_matrix = importlib.import_module("scipy.sparse").csr_matrix
        except ImportError as error:
            raise ImportError("asscipy needs SciPy: pip install scipy") from error
        record = self._to_storage()
        return scipy_matrix(
            (record.data.copy(), record.indices[1].copy(), record.indices[0].copy()), shape=record.shape
        )


def _rows_of(record: SparseRecord, first: int, last: int) -> SparseRecord:
    starts, columns = record.indices
    begin, end = int(starts[first]), int(starts[last])
    indices = (starts[first : last + 1] - begin, columns[begin:end])
    return SparseRecord("csr", (last - first, record.shape[1]), record.data[begin:end], indices)


class RowSparseNDArray(BaseSparseNDArray):
    """An array stored as its nonzero rows and their numbers.

    >>> import phonograd as mx
    >>> x = mx.nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 4]), shape=(6, 2))
    >>> x.indices.asnumpy(), x.retain(mx.nd.array([4])).data.asnumpy()
    (array([1, 4]), array([[3., 4.]], dtype=float32))
    """

    __slots__ = ()

    _num_aux = 1
    _stype = "row_sparse"

    def __getitem__(self, key: Any) -> NDArray:  # type: ignore[override]
        """Return the array itself for ``[:]``; other keys raise."""
        if isinstance(key, builtins.slice) and key == builtins.slice(None):
            return self
        if isinstance(key, tuple):
            raise ValueError("Multi-dimension indexing is not supported")
        raise MXNetError("RowSparseNDArray only supports [:] for __getitem__; use tostype('default') or retain(rows)")

    def __iter__(self) -> Any:
        raise MXNetError("the rows of a RowSparseNDArray cannot be iterated; use tostype('default') or .data")

    def retain(self, indices: Any) -> NDArray:
        """Return the array with only the given rows."""
        return self._call_operator("_sparse_retain", indices=_index_array(indices))


def _index_array(indices: Any) -> NDArray:
    return indices if isinstance(indices, NDArray) else dense_array(indices, dtype=np.int64)


def unique_rows(row_ids: NDArray, context: Context | None = None) -> NDArray:
    """Return the different row numbers in an array of any shape, in order, on a context."""
    return dense_array(np.unique(row_ids.asnumpy()).astype(np.int64), ctx=context, dtype=np.int64)


_CLASSES: dict[str, type[BaseSparseNDArray]] = {"csr": CSRNDArray, "row_sparse": RowSparseNDArray}


def _class_of(stype: Any) -> type[BaseSparseNDArray]:
    if stype not in _CLASSES:
        raise ValueError(f"unknown storage type: {stype}")
    return _CLASSES[stype]


def from_record(record: SparseRecord, context: Context | None = None) -> BaseSparseNDArray:
    """Return the array of a record, whose arrays must not be written to afterwards."""
    made: BaseSparseNDArray = _class_of(record.stype)()
    made._record = record
    context = as_context(context)
    if context != made.context:
        made._context = context
    return made


def label_storage(array: NDArray, stype: str) -> NDArray:
    """Return the value of an array labeled with a storage type, recorded like the array."""
    if array.stype == stype:
        return array
    if stype == "default":
        made = NDArray()
    else:
        made = _class_of(stype)()
        if (stype == "csr") > (array.ndim == 2):
            raise MXNetError(f"a csr array must have two axes, but this one has shape {format_shape(array.shape)}")
    trace = LOCAL.trace
    if not trace.allows_shortcuts:
        # a replay takes the value of the array at that time, not the current one
        made._node, made._trace = node_in(array, trace), trace
        trace.adopt(made)
        return made
    if array._buffer is None and array._node is None:
        read(array)
    if array._variable is not None:
        # so that gradients reach it: a variable joins a trace only when an operator uses it
        node_in(array, ready_trace())
    made._buffer = array._buffer
    if array._extras is not None:
        made._context = array._context
    if array._node is not None and array._trace is not None:
        made._node, made._trace = array._node, array._trace
        array._trace.adopt(made)
    return made


def touched_rows(array: NDArray) -> NDArray:
    """Return a vector with 1 for each row of an array that has a nonzero element, else 0."""
    whole = label_storage(array, "default")
    touched: NDArray = (whole != 0).reshape((whole.shape[0], -1)).max(axis=1)
    return touched


# -- creating sparse arrays


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
    return _from_checked_record(SparseRecord(stype, record.shape, record.data.astype(target), record.indices), ctx)


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Return an array of zeros with a storage type; it stores no values."""
    if stype == "default":
        from .creation import zeros as dense_zeros

        return dense_zeros(shape, ctx, dtype, **kwargs)
    _class_of(stype)
    extents: Shape = _SHAPE.accept(shape, "zeros")
    if not extents or (stype == "csr" and len(extents) != 2):
        raise ValueError(f"an array of shape {format_shape(extents)} cannot be {stype}")
    target, none = as_dtype(dtype), np.zeros(0, np.int64)
    if stype == "csr":
        length = (extents[0] + 1,)
        starts = made_by_numpy("zeros", length, none.dtype, lambda: np.zeros(length, none.dtype))
        record = SparseRecord(stype, extents, np.zeros(0, target), (starts, none))
    else:
        record = SparseRecord(stype, extents, np.zeros((0, *extents[1:]), target), (none,))
    return from_record(record, ctx)


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
    from .sparse_names import *  # noqa: F403


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


complete_classes(globals())
