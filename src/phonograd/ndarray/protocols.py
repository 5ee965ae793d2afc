"""Arrays and other libraries: NumPy's protocols, DLPack, buffers, pickling and copying.

NumPy functions called with NDArrays are answered by the operator of that meaning, so the result is an NDArray and is
recorded; a NumPy function that has no such operator computes on NumPy values and returns NumPy values. DLPack and the
buffer protocol share memory: the exported memory is the array's value at that moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operator import REGISTRY
from .call import Numbers, function_of, invoke, operate
from .handle import Handle, make, make_concrete, read, rebind
from ..trace import LOCAL

__all__: list[str] = []

_DLPACK_CPU = (1, 0)


def array(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """Return the values for NumPy: a read-only view unless a copy or another dtype is asked for."""
    values = read(self)
    if dtype is not None and np.dtype(dtype) != values.dtype:
        if copy is False:
            raise ValueError(f"a {values.dtype} NDArray cannot become {np.dtype(dtype)} without a copy")
        return values.astype(dtype)
    if copy:
        return np.array(values)
    view = values.view()
    view.flags.writeable = False
    return view


def array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    """Answer a NumPy function of elements with the operator of the same meaning, or compute with NumPy."""
    for value in inputs:
        if not isinstance(value, (Handle, *Numbers)):
            raise TypeError(f"type {type(value)} not supported")
    declared = _by_ufunc().get(ufunc)
    if method == "__call__" and declared is not None and out is None and not kwargs:
        if declared.with_scalars is not None and len(inputs) == 2:
            return make(operate(declared, *inputs), LOCAL.trace)
        if len(inputs) == 1:
            return invoke(declared, inputs, (), None, {})
    if out is not None and any(isinstance(target, Handle) for target in out):
        raise TypeError("out= of a NumPy function must be a NumPy array; use the nd function of the same name instead")
    values = [read(value) if isinstance(value, Handle) else value for value in inputs]
    return getattr(ufunc, method)(*values, **({"out": out} if out is not None else {}), **kwargs)


_ufuncs: dict[Any, Any] = {}


def _by_ufunc() -> dict[Any, Any]:
    if not _ufuncs:
        _ufuncs.update({declared.numpy: declared for declared in REGISTRY.values() if declared.numpy is not None})
    return _ufuncs


_FUNCTIONS = {
    "sum": "sum",
    "mean": "mean",
    "prod": "prod",
    "amax": "max",
    "max": "max",
    "amin": "min",
    "min": "min",
    "argmax": "argmax",
    "argmin": "argmin",
    "expand_dims": "expand_dims",
    "squeeze": "squeeze",
    "swapaxes": "swapaxes",
    "repeat": "repeat",
    "tile": "tile",
    "flip": "flip",
    "zeros_like": "zeros_like",
    "ones_like": "ones_like",
    "transpose": "transpose",
    "clip": "clip",
}


def array_function(self: Any, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
    """Answer a NumPy function of arrays with the operator of the same meaning, or compute with NumPy."""
    name = _FUNCTIONS.get(function.__name__)
    if name is not None and isinstance(arguments[0], Handle) and not any(k in keywords for k in ("out", "where")):
        declared = REGISTRY[name]
        if set(keywords) <= set(declared.parameter_names):
            return function_of(declared, name)(*arguments, **keywords)
    return function(*_numpy(arguments), **{key: _numpy(value) for key, value in keywords.items()})


def _numpy(value: Any) -> Any:
    if isinstance(value, Handle):
        return read(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_numpy(item) for item in value)
    return value


def dlpack(self: Any, **options: Any) -> Any:
    """Return a DLPack capsule of the values."""
    return _exportable(self).__dlpack__(**options)


def dlpack_device(self: Any) -> tuple[int, int]:
    """Return DLPack's number of the CPU."""
    return _DLPACK_CPU


def to_dlpack(self: Any) -> Any:
    """Return a DLPack capsule that shares the memory of the values."""
    return _exportable(self).__dlpack__()


def _exportable(self: Any) -> np.ndarray[Any, Any]:
    """Return the values in memory that no other array uses: whoever gets it may write to it."""
    values = np.array(read(self), order="C")
    if self._root is None and (self._node is None or not self._node.marked):
        rebind(self, LOCAL.trace.bind(values, self.context), LOCAL.trace)
        self._buffer = values
    return values


def from_dlpack(source: Any) -> Any:
    """Return an array of the values behind a DLPack capsule or an object with ``__dlpack__``."""
    if not hasattr(source, "__dlpack__"):
        source = _Capsule(source)
    return make_concrete(np.array(np.from_dlpack(source), order="C"))


class _Capsule:
    """A bare capsule as an object that NumPy can import from."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CPU


def buffer(self: Any, flags: int) -> memoryview:
    """Return the values as read-only memory (Python 3.12 and later ask for it by the buffer protocol)."""
    return memoryview(array(self))


def get_state(self: Any) -> dict[str, Any]:
    """Return the value and context as one record of MXNet's file format."""
    from .params import pack_record

    return {"handle": bytearray(pack_record(read(self)))}


def set_state(self: Any, state: dict[str, Any]) -> None:
    """Take the value from a record of MXNet's file format."""
    from .params import unpack_record

    record = state["handle"]
    self._trace = self._node = None
    self._buffer = None if record is None else np.array(unpack_record(bytes(record)), order="C")


def reduce(self: Any, protocol: Any) -> Any:
    """Pickle as MXNet does: data, dtype and context, no gradient."""
    return _empty, (type(self),), get_state(self)


def _empty(array_class: type[Any]) -> Any:
    return array_class.__new__(array_class)


def copy(self: Any) -> Any:
    """Return a copy of the value, outside of any record."""
    return make_concrete(np.array(read(self), order="C"), self.context)


def deepcopy(self: Any, memo: Any) -> Any:
    """Return a copy of the value, outside of any record."""
    return copy(self)
