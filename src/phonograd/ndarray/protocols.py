"""Interoperation with other libraries: NumPy's protocols, DLPack, buffers, pickling and copying.

A NumPy function called with NDArrays runs the equivalent operator, so its result is a recorded NDArray. Without an
equivalent operator, it computes on NumPy values and returns NumPy values. NumPy gets read-only views of arrays.

DLPack shares memory both ways: each library sees the other's in-place writes
(:class:`~phonograd.core.array.handle.SharedMemory`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array.binary import Numbers, operate
from ..core.array.call import function_of, invoke, write
from ..core.array.handle import (
    DENSE,
    Handle,
    SharedMemory,
    make_concrete,
    materialize_if_naive,
    new_result,
    read,
    record_or_detach,
    share,
)
from ..core.array.observed import LISTENERS, observe_call
from ..core.base.dtypes import BFLOAT16, as_array_dtype, as_dtype, convert, kind_of, name_of
from ..core.base.errors import unsupported_operand
from ..core.graph.operator import NAMES, REGISTRY, Operator
from ..core.trace.trace import ready_trace

__all__: list[str] = []

_DLPACK_CPU = (1, 0)
#: type code and bits
_DLPACK_UINT16, _DLPACK_BFLOAT16 = (1, 16), (4, 16)


def array(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Return the values for NumPy: a read-only view unless a copy or another dtype is requested."""
    values = read(self)
    if dtype is not None and as_array_dtype(dtype) != values.dtype:
        if copy is False:
            raise ValueError(f"a {name_of(values.dtype)} NDArray cannot become {name_of(dtype)} without a copy")
        return convert(values, as_array_dtype(dtype))
    if dtype is not None and values.dtype == BFLOAT16:
        # the dtype of ml_dtypes, if that is asked for
        values = values.view(BFLOAT16 if isinstance(dtype, str) else np.dtype(dtype))
    if copy:
        return np.array(values)
    view = values.view()
    view.flags.writeable = False
    return view


# -- NumPy's functions


def _combine(declared: Operator, operands: list[Any], target: Any) -> Any:
    trace, (lhs, rhs) = ready_trace(), operands
    node = operate(declared, lhs, rhs, trace)
    return (
        new_result(node, trace, DENSE[0])
        if target is None
        else materialize_if_naive(write(target, record_or_detach(node, trace), trace))
    )


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    """Run the operator equivalent to a NumPy ufunc, or compute with NumPy."""
    operands = [value[()] if isinstance(value, np.ndarray) and not value.ndim else value for value in inputs]
    for value in operands:
        if not isinstance(value, (Handle, *Numbers)):
            raise unsupported_operand(value)
    target = out[0] if out is not None else None
    if method == "__call__" and not kwargs and (out is None or isinstance(target, Handle)):
        if ufunc is np.matmul and target is None:
            return operands[0] @ operands[1]
        declared = _of_ufunc(ufunc)
        if declared is not None and declared.with_scalars is not None and len(operands) == 2:
            arguments = declared, operands, target
            if LISTENERS:
                return observe_call(declared, operands, None, (), _combine, arguments)
            return _combine(*arguments)
        if declared is not None and len(operands) == 1:
            return invoke(declared, tuple(operands), (), target, {})
    if out is not None and any(isinstance(one, Handle) for one in out):
        raise TypeError("out= of a NumPy function must be a NumPy array; use the nd function of the same name instead")
    values = [array(value) if isinstance(value, Handle) else value for value in operands]
    return getattr(ufunc, method)(*values, **({"out": out} if out is not None else {}), **kwargs)


def _of_ufunc(ufunc: Any) -> Operator | None:
    """Return the operator equivalent to a NumPy ufunc, or None."""
    name = ufunc.__name__
    return NAMES["answers"].get(name) if getattr(np, name, None) is ufunc else None


def _concatenate(arrays: Any, axis: int = 0) -> Any:
    return function_of(REGISTRY["Concat"], "concat")(*arrays, dim=axis)


def _stack(arrays: Any, axis: int = 0) -> Any:
    return function_of(REGISTRY["stack"], "stack")(*arrays, axis=axis)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return function_of(REGISTRY["where"], "where")(condition, x, y)


def _dot(a: Any, b: Any) -> Any:
    return a @ b


def _ravel(a: Any) -> Any:
    return a.reshape(-1)


#: replacements of NumPy functions that take several arrays or other argument names
_SIMILAR: dict[str, Callable[..., Any]] = {
    "concatenate": _concatenate,
    "stack": _stack,
    "where": _where,
    "dot": _dot,
    "ravel": _ravel,
}


def array_function(self: Any, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
    """Run the operator equivalent to a NumPy function, or compute with NumPy."""
    name: str = function.__name__
    if arguments and getattr(np, name, None) is function:
        answer = _answer(name, arguments, keywords)
        if answer is not None:
            return answer(*arguments, **keywords)
    return function(*_numpy(arguments), **{key: _numpy(value) for key, value in keywords.items()})


def _answer(name: str, arguments: Any, keywords: Any) -> Callable[..., Any] | None:
    """Return the replacement of a NumPy function for these arguments, or None."""
    first, *others = arguments
    if name in _SIMILAR:
        arrays = first if isinstance(first, (list, tuple)) else arguments
        if not all(isinstance(item, Handle) for item in arrays) or not set(keywords) <= {"axis"}:
            return None
        return None if name == "dot" and any(item.ndim > 2 for item in arrays) else _SIMILAR[name]
    declared = NAMES["answers"].get(name)
    if declared is None or not isinstance(first, Handle):
        return None
    # the third argument of a reduction has another meaning in NumPy
    if not set(keywords) <= set(declared.parameter_names) or ("keepdims" in declared.parameter_names and others[1:]):
        return None
    values = [*others, *keywords.values()]
    if any(isinstance(value, (Handle, np.ndarray)) for value in values) or (name == "clip" and None in values):
        return None
    if name == "mean" and kind_of(first._dtype) != "f":
        return None
    return function_of(declared, declared.name)


def _numpy(value: Any) -> Any:
    if isinstance(value, Handle):
        return array(value)
    if type(value) in (list, tuple):
        return type(value)(_numpy(item) for item in value)
    return value


# -- DLPack and buffers


def dlpack(
    self: Any,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return a DLPack capsule of the values; unless ``copy`` is true, it shares the memory."""
    if dl_device is not None and tuple(dl_device) != _DLPACK_CPU:
        raise BufferError(f"arrays are in host memory, DLPack device {_DLPACK_CPU}, not {dl_device}")
    memory = np.array(read(self), order="C") if copy else share(self)
    if memory.dtype == BFLOAT16:
        return _capsule_of_words(memory, max_version)
    try:
        return memory.__dlpack__(stream=stream, max_version=max_version)  # type: ignore[call-arg, unused-ignore]
    except TypeError:
        # NumPy before 2.1 has no max_version
        return memory.__dlpack__(stream=stream)


def dlpack_device(self: Any) -> tuple[int, int]:
    """Return DLPack's device number of the CPU."""
    return _DLPACK_CPU


def to_dlpack(data: Any) -> Any:
    """Return a DLPack capsule that shares the memory of an array: each side sees the other's writes.

    Parameters
    ----------
    data
        The array.

    Examples
    --------
    >>> mx.nd.from_dlpack(mx.nd.to_dlpack_for_read(mx.nd.ones(2))).asnumpy()
    array([1., 1.], dtype=float32)
    """
    memory = share(data)
    return _capsule_of_words(memory, None) if memory.dtype == BFLOAT16 else memory.__dlpack__()


def _capsule_of_words(memory: np.ndarray[Any, Any], max_version: tuple[int, int] | None) -> Any:
    """Return a capsule of bfloat16 numbers, which NumPy does not have: a capsule of words, renamed."""
    # lazy import of the native executor
    from ..core.run.pointers import set_dlpack_type

    words = memory.view(np.uint16)
    try:
        capsule = words.__dlpack__(max_version=max_version)  # type: ignore[call-arg, unused-ignore]
    except TypeError:
        # NumPy before 2.1 has no max_version
        capsule = words.__dlpack__()
    set_dlpack_type(capsule, _DLPACK_UINT16, _DLPACK_BFLOAT16)
    return capsule


def from_dlpack(dlpack: Any) -> Any:
    """Return an array on the memory behind a DLPack capsule or an object with ``__dlpack__``.

    The memory is shared: each side sees the other's in-place writes. The array's ``copy()`` is independent.

    Parameters
    ----------
    dlpack
        The capsule or object.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.zeros(3, np.float32)
    >>> x = from_dlpack(a)
    >>> x += 1
    >>> a
    array([1., 1., 1.], dtype=float32)
    """
    if isinstance(dlpack, np.ndarray):
        # NumPy before 2.2 would return a read-only array here
        values = dlpack.view(np.ndarray)
    elif hasattr(dlpack, "__dlpack__"):
        values = _import(dlpack)
    else:
        values = _writable(_import(_Capsule(dlpack)))
    as_dtype(values.dtype)
    shareable = values.flags.c_contiguous and values.dtype.isnative
    return make_concrete(
        values.view(SharedMemory) if shareable else np.array(values, as_dtype(values.dtype), order="C")
    )


def _import(source: Any) -> np.ndarray[Any, Any]:
    """Return the memory behind an object with ``__dlpack__``; bfloat16, which NumPy refuses, as words."""
    # lazy import of the native executor
    from ..core.run.pointers import set_dlpack_type

    held = _Capsule(None)

    class Source(_Capsule):
        def __dlpack__(self, **options: Any) -> Any:
            try:
                held.capsule = source.__dlpack__(**options)
            except TypeError:
                # producers of the first version of the protocol take no options
                held.capsule = source.__dlpack__()
            held.is_bfloat16 = set_dlpack_type(held.capsule, _DLPACK_BFLOAT16, _DLPACK_UINT16)
            return held.capsule

        def __dlpack_device__(self) -> Any:
            return source.__dlpack_device__()

    values = np.from_dlpack(Source(None))
    return values.view(BFLOAT16) if held.is_bfloat16 else values


def _writable(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a writable array on the same memory.

    An old-style capsule does not say whether writes are allowed, so NumPy forbids them; MXNet always allows them.
    """
    if values.flags.writeable or not values.size:
        return values
    # lazy import of the native executor
    from ..core.run.pointers import writable

    return writable(values)


class _Capsule:
    """Wrap a bare capsule in an object that NumPy can import from."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule
        self.is_bfloat16 = False

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CPU


def buffer(self: Any, flags: int) -> memoryview:
    """Return the values as read-only memory (the buffer protocol of Python 3.12 and later)."""
    return memoryview(array(self))  # type: ignore[arg-type, unused-ignore]


# -- pickling and copying


def get_state(self: Any) -> dict[str, Any]:
    """Return the value and context as one record in MXNet's file format."""
    from .params import pack_record

    if self._node is None and self._buffer is None and self._root is None and self._rows is None:
        return {"handle": None}
    context = self.context
    return {"handle": bytearray(pack_record(read(self), (context.device_typeid, context.device_id)))}


def set_state(self: Any, state: dict[str, Any]) -> None:
    """Restore the value from a record in MXNet's file format."""
    from .params import unpack_record

    record = state["handle"]
    self._trace = self._node = None
    self._buffer = None if record is None else np.array(unpack_record(record), order="C")


def reduce(self: Any, protocol: Any) -> Any:
    """Pickle as MXNet does: data, dtype and context, without gradient."""
    return type(self), (None,), get_state(self)


def copy(self: Any) -> Any:
    """Return a copy of the value that is not recorded."""
    return make_concrete(np.array(read(self), order="C"), self.context, self._result_class)


def deepcopy(self: Any, memo: Any) -> Any:
    """Return a copy of the value that is not recorded."""
    return copy(self)
