"""Pointers: addresses of our own memory, words at an address, and functions at an address.

Other modules access their memory and machine code through these few functions, and use no ctypes themselves. The layout
of foreign objects is in :mod:`~phonograd.core.run.object_layout`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..base.assumptions import assumption_holds
from ..graph.operator import Array

__all__ = [
    "Word",
    "address",
    "are_usable",
    "foreign_function",
    "locks_work",
    "python_function",
    "set_dlpack_type",
    "system_function",
    "words_at",
    "writable",
]

_KINDS: dict[str, Any] = {"address": ctypes.c_void_p, "word": ctypes.c_int64, "nothing": None}

#: kind of an argument or a result of machine code
Kind = Literal["address", "word", "nothing"]


def are_usable() -> bool:
    """Return whether memory and functions can be reached by their addresses; warn once if not."""
    return assumption_holds(
        "addresses have 64 bits, and ctypes reaches memory and functions by them",
        "There are no kernels: NumPy evaluates everything, slower",
        _test,
    )


def _test() -> bool:
    array, word = np.arange(4), Word(42)
    words_at(word.address, 1)[0] += 1
    initialized = ctypes.CFUNCTYPE(ctypes.c_int)(python_function("Py_IsInitialized"))
    seen = list(words_at(address(array), 4))
    return ctypes.sizeof(ctypes.c_void_p) == 8 and word.value == 43 and seen == [0, 1, 2, 3] and initialized() == 1


def locks_work() -> bool:
    """Return whether machine code can sleep in Python's own locks; warn once if not."""
    return assumption_holds(
        "PyThread_acquire_lock and PyThread_release_lock take a lock by its address, in any thread",
        "There is no thread pool: one thread runs each kernel",
        _test_locks,
    )


def _test_locks() -> bool:
    new = ctypes.PYFUNCTYPE(ctypes.c_void_p)(python_function("PyThread_allocate_lock"))
    free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(python_function("PyThread_free_lock"))
    acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(python_function("PyThread_acquire_lock"))
    release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(python_function("PyThread_release_lock"))
    lock = new()
    # 0: do not wait
    seen = [acquire(lock, 0), acquire(lock, 0)]
    release(lock)
    seen.append(acquire(lock, 0))
    release(lock)
    free(lock)
    return seen == [1, 0, 1]


class Word:
    """A 64-bit number with an address, for machine code to read."""

    __slots__ = ("_word", "address")

    def __init__(self, value: int) -> None:
        self._word = ctypes.c_int64(value)
        #: valid as long as this object lives
        self.address = ctypes.addressof(self._word)

    @property
    def value(self) -> int:
        """The number."""
        return self._word.value

    @value.setter
    def value(self, value: int) -> None:
        self._word.value = value


def address(array: Array) -> int:
    """Return the address of an array's first element."""
    # half the time of array.ctypes.data
    found: int = array.__array_interface__["data"][0]
    return found


def words_at(place: int, count: int) -> Any:
    """Return the 64-bit words at an address as a sequence that can be read and written."""
    return (ctypes.c_size_t * count).from_address(place)


def foreign_function(place: int, result: Kind, *arguments: Kind) -> Callable[..., Any]:
    """Return the function at an address; calls release the GIL."""
    return ctypes.CFUNCTYPE(_KINDS[result], *[_KINDS[kind] for kind in arguments])(place)


def python_function(name: str) -> int:
    """Return the address of a function of Python's C interface; raises AttributeError if there is none."""
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None, name
    return found


def system_function(name: str) -> Callable[..., int]:
    """Return a function of the C library that takes and returns integers."""
    function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    return function


def writable(values: Array) -> Array:
    """Return a writable array on the memory of another one, even if that one is read-only."""
    memory: Any = (ctypes.c_char * values.nbytes).from_address(address(values))
    memory.owner = values
    return np.frombuffer(memory, values.dtype).reshape(values.shape)


#: names of DLPack's capsules, each with the place of the data type in the memory behind it
_DLPACK_TYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}


def set_dlpack_type(capsule: object, expected: tuple[int, int], wanted: tuple[int, int]) -> bool:
    """Replace type code and bits in a DLPack capsule if they are the expected ones; return whether they were."""
    for name, place in _DLPACK_TYPE_AT.items():
        if ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name):
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype = ctypes.c_void_p
            found = (ctypes.c_uint8 * 2).from_address(get(ctypes.py_object(capsule), name) + place)
            if tuple(found) == expected:
                found[:] = list(wanted)
                return True
    return False
