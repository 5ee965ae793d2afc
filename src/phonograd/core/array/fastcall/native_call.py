"""Operator calls as machine code: the fast path of :mod:`..call`, at a quarter of its cost.

A call that was made before is a look-up and a new handle. In Python that takes half a microsecond, which is more than
most small kernels run; in machine code that calls Python's C interface it takes a tenth. The code is written here as
text, compiled with the kernels, and does in C what the functions of :mod:`..call` do in Python::

    binary(entry, self, other):                    # y * w, 2 - y
        trace = self._trace
        operand = other._node, or the leaf of the number
        node = recall(entry, self._node, operand) or entry.calls.get((self._node, operand))
        return finish(trace, node)

    call(entry, arguments...):                     # nd.tanh(y), nd.sum(y, axis=1)
        node = entry.calls.get((nodes of the arrays..., parameters...))
        return finish(trace, node)

    finish(trace, node):
        if node.marked: as the recording flag wants it
        result = NDArray(trace, node); trace.handles.append(result)

Whatever is not as expected (an array of another trace or thread, a list among the arguments, a call never made
before, an observer) goes to the Python function, which does the same and more. Arrays from outside of the trace enter
it (:mod:`.native_enter`), and arrays can be changed in place. Reference counts and attributes are
handled by Python's own functions, found by address; where an attribute lies in an object is measured, not assumed.
Calls made lately stand in a small table as well (``recall``), which is found without making a key.

Nothing is installed without the GIL, on other interpreters, or with ``PHONOGRAD_NATIVE_CALLS=0``.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...base import settings
from ...base.devices import CPU
from ...graph.node import Node
from ...ops.math.structural import LATEST, VARIABLE, variable
from ...run import kernel_cache
from ...trace.flags import FLAGS
from ...trace.owner import HANDOVER
from ...trace.tape import Target
from ...trace.trace import Trace
from ..extras import ArrayExtras
from .native_code import ENTRY, module_text
from .native_text import API, OBJECTS

__all__ = ["BinaryCall", "Calls", "KeyForm", "as_method", "possible", "thread_number"]

#: methods that another class of arrays can have: of new results, and in place
_SPARE, _SPARE_IN_PLACE = 32, 12

_METH_O, _METH_FASTCALL, _METH_FASTCALL_WITH_KEYWORDS = 0x8, 0x80, 0x80 | 0x2


class _Definition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Getter(ctypes.Structure):
    """PyGetSetDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


def possible() -> bool:
    """Return whether this interpreter is one for which calls can be machine code."""
    return (
        sys.implementation.name == "cpython"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and getattr(sys, "_is_gil_enabled", lambda: True)()
        and isinstance(FLAGS, ContextVar)
        and not hasattr(sys, "gettotalrefcount")
        and settings.current().native_calls
        and all([hasattr(ctypes.pythonapi, name) for name in API])
        and _memory_offsets() is not None
    )


# -- where attributes lie


def _offset(instance: Any, name: str) -> int:
    """Return the distance of a slot from the beginning of an object, found by looking for a value put there."""
    value = object()
    before = getattr(instance, name)
    setattr(instance, name, value)
    size = type(instance).__basicsize__
    words = (ctypes.c_size_t * (size // 8)).from_address(id(instance))
    places = [8 * k for k, word in enumerate(words) if word == id(value)]
    setattr(instance, name, before)
    if len(places) != 1:
        raise RuntimeError(f"the slot {name} of {type(instance).__name__} cannot be found")
    return places[0]


def _offsets(array: Any, node: Node, owner: Target, active: Any) -> dict[str, int]:
    trace = Trace()
    found = {name: _offset(array, f"_{name}") for name in ("trace", "node", "buffer", "extras")}
    found |= {name: _offset(node, name) for name in ("marked", "kind", "detached", "shape", "dtype", "context")}
    found |= {name: _offset(node, name) for name in ("operator", "attributes")}
    names = ("thread", "scalars", "made", "handles", "prune_at", "bound", "leaves", "slots", "targets", "repeats")
    found |= {name: _offset(trace, name) for name in names}
    extras = ArrayExtras()
    found |= {name: _offset(extras, name) for name in ("variable", "root", "views", "readonly")}
    found["place"] = _offset(extras, "context")
    found["grad"] = _offset(owner, "grad")
    found["attentive"] = _offset(active, "attentive")
    found["type"] = _type_offset(array)
    found["item"] = tuple.__basicsize__
    # tp_vectorcall_offset: after the head and the length come name, two sizes and the destructor
    found["vectorcall"] = ctypes.c_ssize_t.from_address(id(FunctionType) + object.__basicsize__ + 5 * 8).value
    return found | (_memory_offsets() or {})


def _memory_offsets() -> dict[str, int] | None:
    """Return where a NumPy array keeps its number of axes, their extents and its dtype; None if not where expected."""
    array = np.empty((3, 5, 7), np.float32)
    start = object.__basicsize__
    data, axes, extents, strides, base, dtype = (ctypes.c_size_t * 6).from_address(id(array) + start)
    # extents and strides lie beside each other
    as_expected = data == array.ctypes.data and axes & 0xFFFFFFFF == 3 and strides == extents + 24 and base == 0
    if not as_expected or dtype != id(array.dtype):
        return None
    return {"memory_axes": start + 8, "memory_extents": start + 16, "memory_dtype": start + 40}


def _type_offset(instance: Any) -> int:
    words = (ctypes.c_size_t * 2).from_address(id(instance))
    if words[1] != id(type(instance)):
        raise RuntimeError("the type of an object does not stand where it is expected")
    return 8


def _text(offsets: tuple[tuple[str, int], ...], methods: int, changing: tuple[int, ...]) -> str:
    return module_text(dict(offsets), methods, list(changing))


class Calls:
    """The compiled code, and the functions and methods made with it."""

    def __init__(
        self, array_class: type[Any], array: Any, node: Node, owner: Target, methods: list[BinaryCall]
    ) -> None:
        active = settings.active
        changing = [number for number, method in enumerate(methods) if method.in_place]
        #: numbers of entries for the methods of another class of arrays: of new results, and in place
        self._spare = {
            False: list(range(len(methods), len(methods) + _SPARE)),
            True: list(range(len(methods) + _SPARE, len(methods) + _SPARE + _SPARE_IN_PLACE)),
        }
        entries = len(methods) + _SPARE + _SPARE_IN_PLACE
        offsets = tuple(_offsets(array, node, owner, active).items())
        # compiling it in full takes 40 ms, and makes calls faster by less than a tenth
        arguments = (offsets, entries, (*changing, *self._spare[True]))
        self._kernel = kernel_cache.compile_module(_text, arguments, "native_calls", quick=True)
        directory = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._kernel.address)()
        addresses = (ctypes.c_void_p * (10 + entries)).from_address(directory)
        found = [int(address or 0) for address in addresses]
        state, table, self._function, forget, grad, living, make_current, write, settle, enter, *numbered = found
        #: forgets the calls made lately; nodes they refer to can then be dropped
        self.forget: Callable[[], None] = ctypes.PYFUNCTYPE(None)(forget)
        objects: tuple[Any, ...] = (None, True, False, 1, FLAGS, active, array_class, array_class)
        objects += (np.ndarray, float, int)
        objects += (CPU, LATEST, Trace.prune, variable, VARIABLE, Trace, HANDOVER.acquire, HANDOVER.release)
        #: everything the code refers to; it lives as long as the process, because arrays and modules refer to the code
        self._kept: list[Any] = [objects, methods]
        words: list[Any] = [id(value) for value in objects]
        words += [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in API]
        self._state = (ctypes.c_size_t * len(words)).from_address(state)
        self._state[:] = words
        #: finds the arrays of a trace that are alive
        self.living = self._new("living(trace, handles, /)", living, _METH_FASTCALL)
        #: takes note of the current trace of a thread
        self.make_current = self._new("make_current(trace, /)", make_current, _METH_O)
        #: makes an array name another node, where that is simple
        self.write = self._new("write(array, node, trace, /)", write, _METH_FASTCALL)
        #: returns the node of an array in a trace, where that is simple
        self.enter = self._new("enter(array, trace, /)", enter, _METH_FASTCALL)
        #: gives arrays their values at the end of a trace
        self.settle = self._new("settle(trace, pairs, values, end, /)", settle, _METH_FASTCALL)
        getter = _Getter(b"grad", grad, None, (vars(array_class)["grad"].__doc__ or "").encode(), None)
        self._kept.append(getter)
        #: the attribute ``grad`` of arrays
        self.grad = _new_attribute(array_class, ctypes.byref(getter))
        self._table = (ctypes.c_size_t * (ENTRY * entries)).from_address(table)
        self._numbered = numbered
        self.methods = {entry.name: self._method(array_class, n, entry) for n, entry in enumerate(methods)}

    def _method(self, array_class: type[Any], number: int, entry: BinaryCall) -> Any:
        """Return an entry as a method of a class."""
        name, calls, function, exchanged, _ = entry
        self._table[ENTRY * number : ENTRY * (number + 1)] = [id(calls), id(function), int(exchanged)]
        definition = self._definition(name, self._numbered[number], _METH_O, function.__doc__ or "")
        return _new_method(array_class, ctypes.byref(definition))

    def accept(self, array_class: type[Any], methods: list[BinaryCall]) -> dict[str, Any]:
        """Let the code take arrays of another class as well, and return methods for it."""
        self._kept.append((array_class, methods))
        self._state[OBJECTS.index("other_array")] = id(array_class)
        found = [(self._spare[entry.in_place], entry) for entry in methods]
        return {entry.name: self._method(array_class, spare.pop(), entry) for spare, entry in found if spare}

    def _definition(self, name: str, address: int, flags: int, doc: str) -> _Definition:
        definition = _Definition(name.encode(), address, flags, doc.encode())
        self._kept.append(definition)
        return definition

    def _new(self, signature: str, address: int, flags: int) -> Any:
        """Return a function of machine code as a function of Python's."""
        definition = self._definition(signature.partition("(")[0], address, flags, f"{signature}\n--\n\n")
        return _new_function(ctypes.byref(definition), None, __name__)

    def function(self, name: str, function: Any, calls: dict[Any, Any], key: KeyForm) -> Any:
        """Return a function of machine code that does what a Python function does, which it calls where it cannot."""
        doc = f"{name}{_signature(function)}\n--\n\n{function.__doc__ or ''}"
        definition = self._definition(name, self._function, _METH_FASTCALL_WITH_KEYWORDS, doc)
        entry = (calls, function, key.arrays, key.template, key.places)
        return _new_function(ctypes.byref(definition), entry, function.__module__)


def _signature(function: Any) -> str:
    """Return the signature of a function in the form that Python reads from a documentation: with literals only.

    What must be given has the default ``...``.
    """
    parts = []
    for argument in inspect.signature(function).parameters.values():
        if argument.kind is argument.VAR_KEYWORD:
            parts.append(f"**{argument.name}")
        else:
            literal = argument.default is None or isinstance(argument.default, (bool, int, str, float, tuple))
            parts.append(f"{argument.name}={argument.default!r}" if literal else f"{argument.name}=...")
    return f"({', '.join(parts)})"


class KeyForm(NamedTuple):
    """How the key of a remembered call is made."""

    arrays: int
    """How many arrays there can be; they come first."""
    template: tuple[Any, ...]
    """The key of a call without arguments; something that is in no key stands for what must be given."""
    places: dict[str, int]
    """Where the values of keywords stand in the key; -1 - place for numbers, of which 0 is made into text."""


class BinaryCall(NamedTuple):
    """A method of two operands."""

    name: str
    calls: dict[Any, Any]
    """The calls it remembers."""
    function: Callable[[Any, Any], Any]
    """The Python function that does the same."""
    exchanged: bool
    """Whether the operands change places."""
    in_place: bool
    """Whether the first operand is changed."""


_new_method = ctypes.pythonapi.PyDescr_NewMethod
_new_method.restype, _new_method.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
_new_attribute = ctypes.pythonapi.PyDescr_NewGetSet
_new_attribute.restype, _new_attribute.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)


as_method = ctypes.pythonapi.PyInstanceMethod_New
as_method.restype, as_method.argtypes = ctypes.py_object, (ctypes.py_object,)


def thread_number() -> int:
    """Return the number of this thread, which no other one ever has."""
    state = ctypes.pythonapi.PyThreadState_Get
    state.restype = ctypes.c_void_p
    number = ctypes.pythonapi.PyThreadState_GetID
    number.restype, number.argtypes = ctypes.c_int64, (ctypes.c_void_p,)
    return int(number(state()))
