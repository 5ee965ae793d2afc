"""Provide private constants and functions of MXNet that code in the wild imports; the library itself needs none."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..io import DataDesc
from ..module.batches import describe_inputs
from ..ndarray.array import NDArray
from ..symbol.graph import Symbol
from ..util import is_np_array, is_np_shape, set_np

__all__ = [
    "CSR_STORAGE",
    "DEFAULT_STORAGE",
    "DTYPES",
    "EOS_TOKEN",
    "LARGEST_INT32",
    "RECORD_FORMAT",
    "RECORD_SIZE",
    "ROW_SPARSE_STORAGE",
    "SKLEARN_INSTALLED",
    "STORAGE_NAMES",
    "STORAGE_NUMBERS",
    "UNDEFINED_STORAGE",
    "as_classic",
    "broadcast_shape",
    "c_int_p",
    "check_all_np_ndarrays",
    "check_names_match",
    "check_same_symbol_type",
    "flatten_list",
    "int64_enabled",
    "np_ndarray_cls",
    "np_ufunc_legal_option",
    "parse_data_desc",
    "pi",
    "set_np_array",
    "storage_number",
    "zero",
]

zero = 0
c_int_p = ctypes.POINTER(ctypes.c_int)
pi = math.pi
EOS_TOKEN = "<eos>"
LARGEST_INT32 = 2**31 - 1
UNDEFINED_STORAGE, DEFAULT_STORAGE, ROW_SPARSE_STORAGE, CSR_STORAGE = -1, 0, 1, 2
STORAGE_NUMBERS = {
    "undefined": UNDEFINED_STORAGE,
    "default": DEFAULT_STORAGE,
    "row_sparse": ROW_SPARSE_STORAGE,
    "csr": CSR_STORAGE,
}
STORAGE_NAMES = {number: name for name, number in STORAGE_NUMBERS.items()}
RECORD_FORMAT = "IfQQ"
RECORD_SIZE = struct.calcsize(RECORD_FORMAT)
SKLEARN_INSTALLED = importlib.util.find_spec("sklearn") is not None
DTYPES: dict[str | None, Any] = {
    **{name: getattr(np, name) for name in ("float16", "float32", "float64", "int8", "int32", "int64", "uint8")},
    "bool": np.bool_,
    "bool_": np.bool_,
    "float": np.float64,
    None: None,
}


def storage_number(handle: NDArray) -> int:
    """Return MXNet's number of the storage type of an array."""
    return STORAGE_NUMBERS[handle.stype]


def int64_enabled() -> bool:
    """Return whether arrays may have more than 2**31 elements: always, here."""
    return True


def broadcast_shape(shape1: tuple[int, ...], shape2: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a result of two arrays."""
    return np.broadcast_shapes(shape1, shape2)


def np_ndarray_cls(handle: NDArray, writable: bool = True, stype: int = DEFAULT_STORAGE) -> NDArray:
    """Return an array of ``mx.np`` on the memory of an array."""
    return handle.as_np_ndarray()


def set_np_array(active: bool) -> bool:
    """Turn NumPy arrays on or off, and return whether they were on."""
    before = is_np_array()
    set_np(shape=is_np_shape() or active, array=active)
    return before


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Return whether a keyword of a NumPy function has the only value that MXNet supports."""
    if key == "where":
        return value is True
    if key == "casting":
        return value in ("no", "equiv", "safe", "same_kind", "unsafe")
    if key == "order":
        return isinstance(value, str)
    if key == "dtype":
        return value in (np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64, *DTYPES)
    return key == "subok" and isinstance(value, bool)


def as_classic(a: Any, allow_np: bool) -> Any:
    """Return an array of ``mx.nd`` on the memory of an array of ``mx.np``, or a list of them."""
    if isinstance(a, (list, tuple)):
        return [as_classic(part, allow_np) for part in a]
    is_np = type(a) is not type(a.as_nd_ndarray())
    if is_np and not allow_np:
        raise ValueError("Converting np.ndarray to mx.nd.NDArray is not allowed")
    return a.as_nd_ndarray()


def flatten_list(nested_list: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the items of lists in one list."""
    return [item for part in nested_list for item in part]


def _is_np(value: Any) -> bool:
    """Return whether an array or symbol is of ``mx.np``."""
    return type(value) is type(value.as_np_ndarray())


def check_all_np_ndarrays(out: Any) -> None:
    """Raise a TypeError unless all arrays or symbols in a nested list are of ``mx.np``."""
    if isinstance(out, (list, tuple)):
        for part in out:
            check_all_np_ndarrays(part)
    elif isinstance(out, (NDArray, Symbol)) and not _is_np(out):
        raise TypeError(f"Block's output should be of type `mxnet.numpy.ndarray`, while got output type {type(out)}")


def check_same_symbol_type(symbols: Sequence[Symbol]) -> type[Symbol]:
    """Return the class of symbols that are all of ``mx.sym`` or all of ``mx.sym.np``."""
    kinds = {_is_np(symbol) for symbol in symbols}
    if len(kinds) > 1:
        raise TypeError("Found both classic symbol (mx.sym.Symbol) and numpy symbol (mx.sym.np._Symbol) in outputs.")
    return type(symbols[0])


def parse_data_desc(
    data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any, label_shapes: Any
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Return descriptions of the data and labels of a module."""
    data = describe_inputs(data_shapes, data_names, "data", True)
    return data, describe_inputs(label_shapes, label_names, "label", False) if label_shapes is not None else None


def check_names_match(data_names: Sequence[str], data_shapes: Any, name: str, throw: bool) -> None:
    """Raise or warn if descriptions have other names than a module."""
    describe_inputs(data_shapes, data_names, name, throw)


#: packages that MXNet imports if they are there, and otherwise replaces by None
_OPTIONAL = ("bokeh", "cv2", "h5py", "pandas", "requests")


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL:
        return importlib.import_module(name) if importlib.util.find_spec(name) is not None else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
