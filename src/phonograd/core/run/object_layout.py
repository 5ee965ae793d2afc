"""The layout of foreign objects: the fields of Python objects and NumPy arrays that machine code reads.

:mod:`~phonograd.core.run.driver` reads the data addresses of arrays. :mod:`~phonograd.core.run.launcher` also reads
their types and flags, and makes arrays with NumPy's own function. This module defines the offsets, and tests them on
known arrays.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import collector
from ..base.assumptions import HAS_GIL, assumption_holds
from .pointers import address, python_function, words_at

__all__ = [
    "CONTIGUOUS",
    "DATA",
    "FLAGS",
    "ITEMS",
    "METH_FASTCALL",
    "PythonFunction",
    "can_make_arrays",
    "can_read_addresses",
    "empty",
    "items",
    "new_objects_address",
    "numpy_table",
    "object_address",
]

#: offsets of an array's data address, and of its flags after number of axes, extents, strides, base and dtype
DATA, FLAGS = object.__basicsize__, object.__basicsize__ + 6 * 8
#: offset of a tuple's items
ITEMS = tuple.__basicsize__
#: the flag of C-contiguous arrays
CONTIGUOUS = 1

#: offset of the links of an object that the garbage collector knows, and the part of them that is an address
_LINKS, _ADDRESS = -16, ~3
#: how often the head of their list is sought; Python keeps up to 80 lists for new ones, which are not counted
_ATTEMPTS, _MANY = 3, 256

#: the table of NumPy's functions for arrays
_FUNCTIONS = "_ARRAY_API"
#: entries of that table; their numbers are the same in all versions
_VERSION, _ARRAY_TYPE, _EMPTY = 0, 2, 184
#: ABI versions of NumPy 1 and NumPy 2
_BINARY_VERSIONS = (0x01000009, 0x02000000)
#: how machine code gets its arguments: one object, or an array of objects and their number
METH_O, METH_FASTCALL = 0x8, 0x80


def can_read_addresses() -> bool:
    """Return whether machine code can read data addresses from a tuple of arrays; warn once if not."""
    return sys.implementation.name == "cpython" and assumption_holds(
        "arrays keep their data address, and tuples their items, behind their heads",
        "NumPy is asked for addresses: each run of kernels takes some microseconds longer",
        _addresses_are_found,
    )


def can_make_arrays() -> bool:
    """Return whether machine code can examine arrays and make new ones; warn once if an assumption does not hold.

    It cannot without the GIL, nor in debug builds that count all references; neither warns.
    """
    return (
        can_read_addresses()
        and HAS_GIL
        and not hasattr(sys, "gettotalrefcount")
        and assumption_holds(
            "arrays keep their type in the second word and their flags in the ninth",
            "Python prepares each run of kernels, which takes some microseconds longer",
            _types_and_flags_are_found,
        )
        and assumption_holds(
            "the function table of NumPy has PyArray_Empty in place 184",
            "Python makes the arrays for results, which takes some microseconds longer for each run of kernels",
            _empty_makes_arrays,
        )
    )


def _examples() -> tuple[Any, ...]:
    return np.empty(3), np.empty((2, 2), np.float32)[1:], np.empty((), np.int8), np.empty((3, 4))[:, ::2]


def _addresses_are_found() -> bool:
    arrays = _examples()
    found = [words_at(id(array) + DATA, 1)[0] for array in arrays]
    return list(words_at(items(arrays), 4)) == [*map(id, arrays)] and found == [address(array) for array in arrays]


def _types_and_flags_are_found() -> bool:
    arrays = _examples()
    types = [words_at(id(array) + 8, 1)[0] for array in arrays]
    flags = [ctypes.c_int.from_address(id(array) + FLAGS).value for array in arrays]
    # the text of the launcher assumes these offsets, too
    return DATA == 16 and types == [id(np.ndarray)] * 4 and flags == [array.flags.num for array in arrays]


def _empty_makes_arrays() -> bool:
    table = numpy_table(_FUNCTIONS)
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(words_at(table + 8 * _VERSION, 1)[0])()
    # check that this is the table before calling a function of it
    if words_at(table + 8 * _ARRAY_TYPE, 1)[0] != id(np.ndarray) or version not in _BINARY_VERSIONS:
        return False
    dtype, extents = np.dtype(np.float32), np.array([3, 5], np.int64)
    kinds = ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int
    # PyArray_Empty steals a reference
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))
    made = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(empty())(2, address(extents), dtype, 0)
    return type(made) is np.ndarray and made.shape == (3, 5) and made.dtype == dtype and made.flags.owndata


def items(arrays: tuple[Any, ...]) -> int:
    """Return the address of a tuple's items; the caller must hold the tuple."""
    return id(arrays) + ITEMS


def object_address(value: object) -> int:
    """Return the address of an object; valid as long as the caller holds it."""
    return id(value)


def empty() -> int:
    """Return the address of NumPy's function that makes arrays, PyArray_Empty."""
    found: int = words_at(numpy_table(_FUNCTIONS) + 8 * _EMPTY, 1)[0]
    return found


def numpy_table(name: str) -> int:
    """Return the address of one of the tables of NumPy's C interface."""
    package = "numpy._core" if int(np.__version__.partition(".")[0]) >= 2 else "numpy.core"
    module = importlib.import_module(f"{package}._multiarray_umath")
    kinds = ctypes.py_object, ctypes.c_char_p
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *kinds)(python_function("PyCapsule_GetPointer"))
    found: int = pointer(getattr(module, name), None)
    return found


def new_objects_address() -> int | None:
    """Return where the garbage collector counts new objects, for machine code; None, with a warning, if not found."""
    holds = assumption_holds(
        "objects that the garbage collector knows are linked, and their limit and number follow the head of new ones",
        "Programs that are always new have more collections of garbage",
        _find_new_objects,
    )
    return _find_new_objects() if holds else None


def _find_new_objects() -> int:
    """Return the address of the number of new objects."""
    untrack, track = [
        ctypes.PYFUNCTYPE(None, ctypes.py_object)(python_function(name))
        for name in ("PyObject_GC_UnTrack", "PyObject_GC_Track")
    ]
    newest: list[Any] = []
    links, argument = words_at(id(newest) + _LINKS, 2), ctypes.py_object(newest)
    with collector.paused():
        # another thread may make an object meanwhile
        for _ in range(_ATTEMPTS):
            untrack(argument)
            track(argument)
            # the list is circular: its head follows the newest object
            place: int = links[0] & _ADDRESS
            head = (ctypes.c_int * 2).from_address(place + 16)
            limit, before = head
            made: list[list[Any]] = [[] for _ in range(_MANY)]
            # to ask for the number may make an object
            is_number = abs(gc.get_count()[0] - head[1]) < _ATTEMPTS and head[1] - before > len(made) // 2
            if limit == gc.get_threshold()[0] and is_number:
                return place + 20
    raise LookupError("the head of the list of new objects was not found")


class _Definition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class PythonFunction:
    """Machine code that takes ``self`` and arguments; makes Python functions, which must not outlive this object."""

    def __init__(self, name: str, place: int, doc: str, kind: int = METH_O) -> None:
        self._definition = _Definition(name.encode(), place, kind, doc.encode())
        kinds = ctypes.c_void_p, ctypes.py_object, ctypes.py_object
        self._new = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(python_function("PyCFunction_NewEx"))

    def bind(self, own: object, module: str) -> Callable[..., Any]:
        """Return the Python function with an object as ``self``."""
        made: Callable[..., Any] = self._new(ctypes.byref(self._definition), own, module)
        return made
