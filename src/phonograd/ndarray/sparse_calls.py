"""Operator calls with sparse arrays: choose which results are sparse, and compute some from stored values alone.

The rules are MXNet's. Operators without a rule get dense arrays and return one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..core.array.call import _return_results, apply
from ..core.array.handle import Handle, read
from ..core.base.dtypes import name_of
from ..core.base.errors import MXNetError, format_shape
from ..core.graph.operator import Operator
from ..core.trace.flags import is_recording
from ..core.trace.trace import LOCAL
from .array import NDArray, concrete
from .sparse_arrays import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, from_record, label_storage, touched_rows
from .sparse_records import SparseRecord, compress
from .sparse_rows import call, change_rows

__all__ = ["call_with_storage"]


def call_with_storage(
    declared: Operator, handles: tuple[Handle | None, ...], attributes: tuple[Any, ...], out: Any
) -> Any:
    """Call an operator that has a sparse argument or depends on storage types."""
    named = dict(zip([parameter.name for parameter in declared.parameters], attributes, strict=False))
    arrays = [handle for handle in handles if isinstance(handle, NDArray)]
    if declared.name == "cast_storage":
        _check_conversion(arrays[0], named["stype"])
    special = _SPECIAL.get(declared.name)
    if special is not None and out is None:
        found = special(arrays, named)
        if found is not None:
            return found
    if _is_lazy(declared, arrays, named):
        return _update_rows(declared, arrays, attributes, out)
    result, _, trace = apply(declared, handles, attributes)
    made = _return_results(declared, result, attributes, out, NDArray, trace)
    kind = _kind(declared, [array.stype for array in arrays], named)
    return label_storage(made, kind) if out is None and kind != "default" and isinstance(made, NDArray) else made


def _kind(declared: Operator, stypes: list[str], named: dict[str, Any]) -> str:
    """Return the storage type of the result of an operator."""
    name = declared.name
    first = stypes[0]
    same = len(set(stypes)) == 1
    if name == "cast_storage":
        return str(named["stype"])
    if declared.keeps_zero or (name == "clip" and named["a_min"] <= 0 <= named["a_max"]):
        return first
    if name in ("elemwise_add", "elemwise_sub"):
        return first if same else "default"
    if name == "elemwise_mul":
        sparse = {stype for stype in stypes if stype != "default"}
        return sparse.pop() if len(sparse) == 1 else "default"
    if name in ("broadcast_mul", "broadcast_div"):
        return "csr" if stypes == ["csr", "default"] else "default"
    if name == "dot":
        return _kind_of_product(stypes, named)
    rows = {"add_n": "row_sparse", "_sparse_retain": "row_sparse", "slice": "csr"}.get(name)
    if name == "_sparse_retain" or (rows is not None and same and first == rows):
        return rows or "default"
    if name == "Concat":
        return "csr" if same and first == "csr" and named.get("dim") == 0 else "default"
    return "csr" if name == "take" and first == "csr" and named.get("axis") == 0 else "default"


def _kind_of_product(stypes: list[str], named: dict[str, Any]) -> str:
    wanted = named.get("forward_stype")
    if wanted not in (None, "None"):
        return str(wanted)
    if stypes[0] == "csr" and named["transpose_a"] and stypes[1] != "csr":
        return "row_sparse"
    return "csr" if stypes == ["default", "csr"] else "default"


def _check_conversion(array: NDArray, stype: str) -> None:
    if "default" not in (array.stype, stype) and array.stype != stype:
        raise ValueError(f"cast_storage from {array.stype} to {stype} is not supported")


# -- updates of weights


def _is_lazy(declared: Operator, arrays: list[NDArray], named: dict[str, Any]) -> bool:
    """Return whether a call is an update that changes only the rows present in its gradient."""
    if declared.input_names[:2] != ("weight", "grad") or arrays[1].stype != "row_sparse":
        return False
    # FTRL has no such parameter, and MXNet updates only its rows
    return bool(named.get("lazy_update", declared.name == "ftrl_update"))


def _update_rows(declared: Operator, arrays: list[NDArray], attributes: tuple[Any, ...], out: Any) -> Any:
    """Update the rows that a gradient has and return the weight; the states of other rows do not change."""
    grad = arrays[1]
    if out is arrays[0] and isinstance(grad, RowSparseNDArray) and LOCAL.trace.allows_shortcuts:
        return _update_stored(declared, arrays, grad._to_storage(), attributes)
    touched = touched_rows(arrays[1])
    weight, *states = [label_storage(array, "default") for array in (arrays[0], *arrays[2:])]
    before = [weight.copy(), *[state.copy() for state in states]]
    result, _, trace = apply(declared, tuple(arrays), attributes)
    made = _return_results(declared, result, attributes, None, NDArray, trace)
    for state, old in zip(arrays[2:], before[1:], strict=True):
        state[:] = call("where", touched, label_storage(state, "default"), old)
    updated = call("where", touched, made, before[0])
    if out is None:
        return label_storage(updated, arrays[0].stype)
    target = out[0] if isinstance(out, (list, tuple)) else out
    target[:] = updated
    return out


def _update_stored(
    declared: Operator, arrays: list[NDArray], grad: SparseRecord, attributes: tuple[Any, ...]
) -> NDArray:
    """Update the rows of a weight and of its states as arrays of their own; the weight is the result."""

    def change(parts: list[NDArray]) -> None:
        weight, *states = parts
        rows = concrete(grad.data, weight.context)
        result, _, trace = apply(declared, (weight, rows, *states), attributes)
        _return_results(declared, result, attributes, weight, NDArray, trace)

    change_rows([arrays[0], *arrays[2:]], grad.indices[0], change)
    return arrays[0]


# -- without the dense array


_Special = TypeVar("_Special", bound=Callable[..., Any])

#: functions of stored elements that take the place of operators, by name
_SPECIAL: dict[str, Callable[[list[NDArray], dict[str, Any]], Any]] = {}


def _of_stored(name: str) -> Callable[[_Special], _Special]:
    """Declare a function of stored elements for an operator; None from it means that the operator computes."""

    def declare(function: _Special) -> _Special:
        _SPECIAL[name] = function
        return function

    return declare


@_of_stored("cast_storage")
def _cast_stored(arrays: list[NDArray], named: dict[str, Any]) -> Any:
    """Return an array converted to a storage type; if it needs a gradient, its values stay dense."""
    array, stype = arrays[0], named["stype"]
    if isinstance(array, BaseSparseNDArray):
        record = array._detached_record()
        return from_record(record, array.context) if record is not None and stype == array.stype else None
    fits = array.ndim == 2 if stype == "csr" else stype == "row_sparse" and array.ndim > 0
    if not fits or is_recording() or not LOCAL.trace.allows_shortcuts:
        return None
    node = array._node
    if array._variable is not None or (node is not None and node.marked):
        return None
    return from_record(compress(read(array), stype), array.context)


@_of_stored("slice")
def _slice_stored(arrays: list[NDArray], named: dict[str, Any]) -> Any:
    """Return rows of a csr matrix."""
    array = arrays[0]
    begin, end, step = named["begin"], named["end"], named.get("step") or ()
    if not isinstance(array, CSRNDArray) or len(begin) != 1 or any(n not in (None, 1) for n in step):
        return None
    return array[slice(begin[0], end[0])]


@_of_stored("dot")
def _product_stored(arrays: list[NDArray], named: dict[str, Any]) -> Any:
    """Return a product with a csr matrix, computed from its stored values: gather rows, scale and add them."""
    left, right = arrays
    wanted = _kind_of_product([left.stype, right.stype], named)
    if isinstance(left, CSRNDArray):
        record = left._detached_record()
        if record is None or right.ndim > 2:
            return None
        other = label_storage(right, "default")
        other = other.T if named["transpose_b"] and other.ndim == 2 else other
        return label_storage(_multiply_rows(record, other, bool(named["transpose_a"])), wanted)
    record = right._detached_record() if isinstance(right, CSRNDArray) else None
    if record is None or left.ndim != 2:
        return None
    # a @ b is the transpose of b' @ a'
    other = left if named["transpose_a"] else left.T
    product = _multiply_rows(record, label_storage(other, "default"), not named["transpose_b"])
    return label_storage(product.T, wanted)


def _multiply_rows(record: SparseRecord, other: NDArray, transposed: bool) -> NDArray:
    rows, columns = record.rows(), record.indices[1]
    taken, summed = (rows, columns) if transposed else (columns, rows)
    inner, outer = record.shape if transposed else record.shape[::-1]
    if other.shape[0] != inner:
        stored_shape = format_shape(record.shape)
        raise MXNetError(
            f"dot: a csr matrix {stored_shape}{' transposed' if transposed else ''} cannot be multiplied with "
            f"{format_shape(other.shape)}: {inner} rows are needed"
        )
    if other._dtype != record.data.dtype:
        raise MXNetError(
            f"dot: both arguments need one dtype, got {name_of(record.data.dtype)} and {name_of(other._dtype)}"
        )
    context = other.context
    weights = concrete(record.data.reshape(-1, *(1,) * (other.ndim - 1)), context)
    picked = call("broadcast_mul", call("take", other, concrete(taken, context)), weights)
    places = concrete(summed[None], context)
    result: NDArray = call("_backward_gather_nd", picked, places, shape=(outer, *other.shape[1:]))
    return result


@_of_stored("_sparse_retain")
def _retain_stored(arrays: list[NDArray], named: dict[str, Any]) -> Any:
    """Return some rows of an array."""
    array, wanted = arrays
    record = array._detached_record() if isinstance(array, RowSparseNDArray) else None
    if record is None or wanted.ndim != 1 or is_recording():
        return None
    numbers = read(wanted).astype(np.int64)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < array.shape[0]):
        # the operator reports it
        return None
    kept = np.isin(record.indices[0], numbers)
    rows = SparseRecord(record.stype, record.shape, record.data[kept], (record.indices[0][kept],))
    return from_record(rows, array.context)


@_of_stored("elemwise_add")
def _add_stored(arrays: list[NDArray], named: dict[str, Any]) -> Any:
    """Return the sum of two row_sparse arrays."""
    left, right = arrays
    return left._join(right) if isinstance(left, RowSparseNDArray) else None
