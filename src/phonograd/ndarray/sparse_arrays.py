"""Sparse arrays: CSRNDArray and RowSparseNDArray. :mod:`.sparse` creates them.

A sparse array is an NDArray with another storage. It holds a :class:`.SparseRecord` (values and index arrays); the
dense array is created when an operator needs it, which MXNet calls storage fallback. So every operator takes sparse
arrays, and gradients of every order pass through. Products of a csr matrix, slices, copies, conversions and files use
the record alone, without the dense array. :mod:`.sparse_calls` decides which results are sparse.

Converting a dense array creates the record at once. A sparse array that was written to, or that is recorded, holds
dense values; reading ``data``, ``indices`` or ``indptr`` then creates the record. Gradients with
``stype='row_sparse'`` hold the rows that a backward pass adds to, if it reaches the array through row numbers or csr
matrices alone (:mod:`.sparse_rows`).
"""

from __future__ import annotations

import builtins
import importlib
import operator
from typing import Any

import numpy as np

from ..base import NotSupportedForSparseNDArray
from ..core.array.handle import Handle, SharedMemory, node_in, read, replace
from ..core.base.devices import Context, as_context
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import FLOAT32, FLOAT64, DType, as_dtype
from ..core.base.errors import MXNetError, format_shape
from ..core.graph.node import Shape
from ..core.graph.operator import Array
from ..core.trace.flags import is_recording
from ..core.trace.trace import LOCAL, ready_trace
from .array import NDArray, concrete
from .creation import array as dense_array
from .params import pack_record, unpack_record
from .sparse_records import SparseRecord, compress
from .sparse_rows import FEW_PLACES, PendingRows, call

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "check_storage_type",
    "from_record",
    "label_storage",
    "touched_rows",
    "unique_rows",
]


class BaseSparseNDArray(NDArray):
    """The base class of csr and row_sparse arrays."""

    __slots__ = ("_record", "_whole")

    #: the record or the rows that it will be made of, unless the array was written to, and the dense array made from it
    _record: SparseRecord | PendingRows | None
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

    def _holds_record(self) -> bool:
        """Return whether the record still holds the array's value."""
        if self._record is None or self._buffer is not self._whole:
            return False
        return self._buffer is not None or self._node is None

    def _current(self) -> SparseRecord | None:
        """Return the record if it still holds the array's value; pending rows are computed first."""
        if not self._holds_record():
            return None
        if isinstance(self._record, PendingRows):
            self._record = self._record.record()
        return self._record

    def _store(self, record: SparseRecord | PendingRows) -> None:
        """Replace the value of an array that is not recorded."""
        replace(self, None)
        self._record, self._whole = record, None

    def _forget_stored(self) -> None:
        """Hold the dense value alone."""
        read(self)
        self._record = self._whole = None

    def _can_store(self) -> bool:
        """Return whether the array owns its value: it is not recorded, and no other library uses its memory."""
        node = self._node
        if (node is not None and node.marked) or self._variable is not None or type(self._buffer) is SharedMemory:
            return False
        return LOCAL.trace.allows_shortcuts and not is_recording()

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
        record = self._current()
        if record is None:
            return super()._made()
        self._whole = record.todense()
        return self._whole

    @property
    def shape(self) -> Shape:
        """The extents of the axes, zeros included."""
        record = self._record
        if record is None or not self._holds_record():
            return Handle.shape.fget(self)  # type: ignore[attr-defined, no-any-return]
        return record.shape

    @property
    def _dtype(self) -> DType:
        record = self._record
        if record is None or not self._holds_record():
            return Handle._dtype.fget(self)  # type: ignore[attr-defined, no-any-return]
        return record.dtype

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
        if isinstance(other, BaseSparseNDArray) and other.shape == self.shape and other is not self:
            other[:] = self
            return other
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
        return from_record(record.astype(target), self.context)

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
        record = self._record_for(value) if self._can_store() else None
        if record is None:
            super().__setitem__(key, value)
        else:
            self._store(record)

    def _record_for(self, value: Any) -> SparseRecord | None:
        """Return the record to store for a value that is assigned, if it is sparse, or zero."""
        if isinstance(value, (int, float)) and value == 0:
            return SparseRecord.zeros(self._stype, self.shape, self._dtype)
        if not isinstance(value, BaseSparseNDArray) or (value.stype, value.shape) != (self._stype, self.shape):
            return None
        record = value._detached_record()
        return record if record is None or record.dtype == self._dtype else record.astype(self._dtype)

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
        joined = self._join(other)
        if joined is not None:
            return joined
        return _keep_storage(self, other, "add", super().__add__(other))  # type: ignore[no-any-return]

    def _join(self, other: Any) -> NDArray | None:
        """Return the sum with another array if both hold rows only."""
        return None

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
    _takes_rows = True

    def _made_of_rows(self, pieces: list[tuple[NDArray, NDArray]]) -> RowSparseNDArray:
        """Return an array like this one whose value is a sum of rows."""
        made = RowSparseNDArray()
        made._record = PendingRows(self.shape, self._dtype, self.context, pieces)
        if self.context != made.context:
            made._context = self.context
        return made

    def _pieces(self) -> list[tuple[NDArray, NDArray]] | None:
        """Return the positions and rows of the array if it holds them and needs no gradient."""
        node = self._node
        if self._variable is not None or (node is not None and node.marked) or not LOCAL.trace.allows_shortcuts:
            return None
        if not self._holds_record():
            return None
        record, context = self._record, self.context
        if isinstance(record, PendingRows):
            return record.pieces
        assert record is not None
        return [(concrete(record.indices[0], context), concrete(record.data, context))]

    def _as_sum(self) -> NDArray | None:
        """Return the whole array as an expression of the rows that it holds, whose readers take them where they are.

        It is None unless rows are pending, and if there are so few of them that to look at each place takes longer.
        """
        record = self._record if self._holds_record() else None
        if not isinstance(record, PendingRows) or len(record.pieces) != 1:
            return None
        ((places, rows),) = record.pieces
        extent = self.shape[0]
        if extent > FEW_PLACES * places.size or rows._dtype not in (FLOAT32, FLOAT64):
            return None
        return call("_add_axis", rows, places, axis=0, extent=extent)  # type: ignore[no-any-return]

    def _take_rows(self, grad: NDArray, is_added: bool) -> bool:
        """Write or add a gradient that holds rows; return whether that was possible."""
        pieces = grad._pieces() if isinstance(grad, RowSparseNDArray) and self._can_store() else None
        before = self._pieces() if is_added else []
        if pieces is None or before is None:
            return False
        self._store(PendingRows(self.shape, self._dtype, self.context, [*before, *pieces]))
        return True

    def _join(self, other: Any) -> NDArray | None:
        if not isinstance(other, RowSparseNDArray) or (other.shape, other._dtype) != (self.shape, self._dtype):
            return None
        own, others = self._pieces(), other._pieces()
        if own is None or others is None or self.context != other.context:
            return None
        return self._made_of_rows([*own, *others])

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


def check_storage_type(stype: Any) -> None:
    """Raise an error if there is no sparse storage type of a name."""
    if stype not in _CLASSES:
        raise ValueError(f"unknown storage type: {stype}")


def _class_of(stype: Any) -> type[BaseSparseNDArray]:
    check_storage_type(stype)
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


complete_classes(globals())
