"""Machine code for operator calls: compiles the text of :mod:`.native_code` and makes functions and methods of it.

A call that was made before is a look-up and a new handle. In Python that takes more than a microsecond, longer than
most small kernels run; in machine code that calls Python's C interface it takes a tenth (docs/decisions/0012)::

    binary(entry, self, other):                    # y * w, 2 - y
        trace = self._trace
        operand = other._node, or the leaf of the number
        node = recall(entry, self._node, operand) or entry.calls.get((self._node, operand))
        return new_result(trace, node)

    call(entry, arguments...):                     # nd.tanh(y), nd.sum(y, axis=1)
        if the trace is immediate:
            kind = ANY_SHAPES.get(dtypes, parameters...) or CALLS.get(shapes, dtypes, parameters...)
            if kind is not None:
                return kind.direct(memory of the arrays...)
        if entry.at_once and (kind := SINGLES.get(shapes, dtypes, parameters...)) is not None:
            return kind.direct(memory of the arrays...)
        node = entry.calls.get((nodes of the arrays..., parameters...))
        return new_result(trace, node)

Every other case (an array of another trace or thread, a list among the arguments, a call never made before, an
observer) goes to the Python function, which is the definition of the call. The code changes reference counts and
containers with Python's own functions, found by address. The offsets of attributes in objects are measured.

Takes the text from :mod:`.native_code` and a compiler from :mod:`phonograd.core.run.kernel_cache`; hands :class:`Calls`
to :mod:`.native_install`. Nothing is installed without the GIL, on other interpreters, or with
``PHONOGRAD_NATIVE_CALLS=0``.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...base import float_errors, settings
from ...base.assumptions import HAS_GIL, assumption_holds
from ...base.devices import CPU
from ...base.signals import Signal
from ...graph.node import Node
from ...graph.operator import Operator
from ...observe.anomaly import Detection, detection
from ...ops.math.structural import LATEST, REPEAT_CALL, VARIABLE, leaf_like, variable
from ...plan.cache import EVALUATED, PLANNED
from ...run import kernel_cache
from ...run.native_function import (
    ENTRY_OFFSET,
    FUNCTION_API,
    has_declared_layout,
    make_function,
    slot_offset,
    slots_are_found,
    vectorcall_offset,
)
from ...trace.flags import FLAGS
from ...trace.owner import HANDOVER
from ...trace.trace import NUMBERS, ZERO, ImmediateTrace, Trace, number_memory
from .. import immediate, single
from ..call import describe
from ..extras import ArrayExtras
from .native_code import DIRECTORY, ENTRY, module_text
from .native_text import API, OBJECTS

__all__ = [
    "BinaryCall",
    "Calls",
    "KeyForm",
    "counts_are_found",
    "memory_offsets",
    "objects_are_as_expected",
    "possible",
    "replays_are_possible",
    "thread_number",
]

#: methods that another class of arrays can have: of new results, and in place
_SPARE, _SPARE_IN_PLACE = 32, 12

_CONSEQUENCE = "Operator calls stay Python functions, which take some tenths of a microsecond longer"

_METH_O, _METH_FASTCALL = 0x8, 0x80


class _Definition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def possible() -> bool:
    """Return whether operator calls can be machine code in this interpreter."""
    return (
        sys.implementation.name == "cpython"
        and HAS_GIL
        and isinstance(FLAGS, ContextVar)
        and not hasattr(sys, "gettotalrefcount")
        and settings.current().native_calls
        and assumption_holds(
            "the C interface of Python has the functions that operator calls need",
            _CONSEQUENCE,
            lambda: all([hasattr(ctypes.pythonapi, name) for name in (*API, *FUNCTION_API)]),
        )
        and assumption_holds(
            "arrays keep number of axes, extents, strides, base and dtype in this order behind their data address",
            _CONSEQUENCE,
            lambda: memory_offsets() is not None,
        )
    )


def objects_are_as_expected(array_class: type[Any]) -> bool:
    """Return whether objects have the layout that the code needs; warn once if not."""
    return (
        slots_are_found(_CONSEQUENCE)
        and assumption_holds(
            "objects keep their type in the second word, and each attribute of theirs in a slot of its own",
            _CONSEQUENCE,
            lambda: _offsets(array_class),
        )
        and assumption_holds(
            "types say where their objects keep the function for vectorcalls, in the sixth word behind their heads",
            _CONSEQUENCE,
            _vectorcalls_are_found,
        )
        and has_declared_layout(_CONSEQUENCE)
    )


def counts_are_found(test: Callable[[], bool]) -> bool:
    """Return whether a test finds that counts of references are where the code looks for them; warn once if not."""
    return assumption_holds(
        "objects keep their count of references in the first word",
        "Python counts the references to arrays, which takes longer",
        test,
    )


def replays_are_possible(test: Callable[[], object]) -> bool:
    """Return whether a test finds all attributes that repeated calls of networks need; warn once if not."""
    return (
        possible()
        and slots_are_found(_CONSEQUENCE)
        and assumption_holds(
            "arrays, programs and weak references keep each attribute in a slot of its own",
            "Python repeats calls of small networks, which takes some microseconds longer",
            test,
        )
    )


# -- offsets of attributes


def _offsets(array_class: type[Any]) -> dict[str, int]:
    found = {name: slot_offset(array_class, f"_{name}") for name in ("trace", "node", "buffer", "extras")}
    names: tuple[str, ...] = ("marked", "kind", "detached", "shape", "dtype", "context", "operator", "attributes")
    found |= {name: slot_offset(Node, name) for name in names}
    names = ("thread", "scalars", "made", "handles", "prune_at", "bound", "leaves", "slots", "targets", "repeats")
    found |= {name: slot_offset(Trace, name) for name in names}
    found |= {name: slot_offset(ArrayExtras, name) for name in ("variable", "root", "views", "readonly")}
    found["place"] = slot_offset(ArrayExtras, "context")
    found["attentive"] = slot_offset(type(settings.active), "attentive")
    # for immediate calls
    found |= {name: slot_offset(immediate.Call, name) for name in ("number", "direct", "limit")}
    found["sequence"] = slot_offset(ImmediateTrace, "sequence")
    found["immediate"] = slot_offset(type(settings.active), "immediate")
    found["on"] = slot_offset(Detection, "on")
    found["listeners"] = slot_offset(Signal, "listeners")
    found["type"] = _type_offset()
    found["item"] = tuple.__basicsize__
    found["vectorcall"] = vectorcall_offset(FunctionType)
    found["entry"] = ENTRY_OFFSET
    return found | (memory_offsets() or {})


def _vectorcalls_are_found() -> bool:
    offset, api = vectorcall_offset(FunctionType), ctypes.pythonapi
    if not 0 < offset <= FunctionType.__basicsize__ - 8:
        return False
    if hasattr(api, "PyVectorcall_Function"):
        expected = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyVectorcall_Function", api))(thread_number)
    else:  # CPython 3.10 has it only in its headers
        expected = ctypes.cast(api._PyFunction_Vectorcall, ctypes.c_void_p).value
    return bool(ctypes.c_size_t.from_address(id(thread_number) + offset).value == expected)


def memory_offsets() -> dict[str, int] | None:
    """Return the offsets of number of axes, extents and dtype in a NumPy array; None if they are not as expected."""
    array = np.empty((3, 5, 7), np.float32)
    start = object.__basicsize__
    data, axes, extents, strides, base, dtype = (ctypes.c_size_t * 6).from_address(id(array) + start)
    # strides follow extents
    as_expected = data == array.ctypes.data and axes & 0xFFFFFFFF == 3 and strides == extents + 24 and base == 0
    if not as_expected or dtype != id(array.dtype):
        return None
    return {
        "memory_axes": start + 8,
        "memory_extents": start + 16,
        "memory_base": start + 32,
        "memory_dtype": start + 40,
    }


def _type_offset() -> int:
    words = (ctypes.c_size_t * 2).from_address(id(ZERO))
    if words[1] != id(type(ZERO)):
        raise RuntimeError("the type of an object is not where it is expected")
    return 8


def _text(offsets: tuple[tuple[str, int], ...], methods: int, changing: tuple[int, ...]) -> str:
    return module_text(dict(offsets), methods, list(changing))


class Calls:
    """The compiled code, and the functions and methods made with it."""

    def __init__(self, array_class: type[Any], methods: list[BinaryCall]) -> None:
        active = settings.active
        changing = [number for number, method in enumerate(methods) if method.in_place]
        #: numbers of entries for the methods of another class of arrays: of new results, and in place
        self._spare = {
            False: list(range(len(methods), len(methods) + _SPARE)),
            True: list(range(len(methods) + _SPARE, len(methods) + _SPARE + _SPARE_IN_PLACE)),
        }
        entries = len(methods) + _SPARE + _SPARE_IN_PLACE
        offsets = tuple(_offsets(array_class).items())
        if settings.current().check_calls:
            offsets += (("checked", 1),)
        # compiling it in full takes 40 ms, and makes calls faster by less than a tenth
        arguments = (offsets, entries, (*changing, *self._spare[True]))
        self._kernel = kernel_cache.compile_module(_text, arguments, "native_calls", quick=True)
        directory = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._kernel.address)()
        addresses = (ctypes.c_void_p * (len(DIRECTORY) + entries)).from_address(directory)
        found = [int(address or 0) for address in addresses]
        entry_points = dict(zip(DIRECTORY, found, strict=False))
        self._function, self._numbered = entry_points["call"], found[len(DIRECTORY) :]
        #: empties the table of recent calls, so that the nodes in it can be dropped
        self.forget: Callable[[], None] = ctypes.PYFUNCTYPE(None)(entry_points["forget"])
        objects: tuple[Any, ...] = (None, True, False, 1, FLAGS, active, array_class, array_class)
        objects += (np.ndarray, float, int)
        objects += (
            CPU,
            LATEST,
            leaf_like,
            Trace.prune,
            variable,
            VARIABLE,
            REPEAT_CALL,
            Trace,
            HANDOVER.acquire,
            HANDOVER.release,
            TypeError,
            NUMBERS,
            ZERO,
            1.0,
            -1.0,
            ImmediateTrace,
            detection,
            PLANNED,
            EVALUATED,
            immediate.CALLS,
            immediate.ANY_SHAPES,
            immediate.NUMBERS,
            immediate.number_beside,
            single.SINGLES,
            number_memory,
            *float_errors.context_variable(),
            immediate.own_result,
            np.ndarray.copy,
            list,
            tuple,
            np.ufunc,
        )
        #: the objects that the code refers to; they live as long as the process, because modules refer to the code
        self._kept: list[Any] = [objects, methods]
        words: list[Any] = [id(value) for value in objects]
        words += [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in API]
        self._state = (ctypes.c_size_t * len(words)).from_address(entry_points["state"])
        self._state[:] = words
        #: the counterpart of :func:`phonograd.core.trace.liveness.live_handles`
        self.live_handles = self._new("live_handles(trace, handles, /)", entry_points["live_handles"], _METH_FASTCALL)
        #: sets the current trace of a thread
        self.make_current = self._new("make_current(trace, /)", entry_points["make_current"], _METH_O)
        #: the counterpart of :func:`..handle.rebind`
        self.write = self._new("write(array, node, trace, /)", entry_points["write"], _METH_FASTCALL)
        #: the counterpart of :func:`..handle.node_in`
        self.entered = self._new("entered(array, trace, /)", entry_points["entered"], _METH_FASTCALL)
        #: gives arrays their values at the end of a trace
        self.settle = self._new("settle(trace, pairs, values, end, /)", entry_points["settle"], _METH_FASTCALL)
        self._table = (ctypes.c_size_t * (ENTRY * entries)).from_address(entry_points["entries"])
        self.methods = {entry.name: self._method(array_class, n, entry) for n, entry in enumerate(methods)}

    def _method(self, array_class: type[Any], number: int, entry: BinaryCall) -> Any:
        """Return an entry as a method of a class."""
        words: list[Any] = [id(entry.calls), id(entry.function), int(entry.exchanged), id(entry.extend)]
        words += (id(entry.declared), id(entry.declared.at_once))
        self._table[ENTRY * number : ENTRY * (number + 1)] = words
        name, function = entry.name, entry.function
        doc = f"{name}($self, other, /)\n--\n\n{function.__doc__ or ''}"
        definition = self._definition(name, self._numbered[number], _METH_O, doc)
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
        """Return machine code as a built-in function."""
        definition = self._definition(signature.partition("(")[0], address, flags, f"{signature}\n--\n\n")
        return _new_function(ctypes.byref(definition), None, __name__)

    def function(
        self,
        function: Any,
        declared: Operator,
        key: KeyForm,
        extend: Callable[[Any], Any],
        several: Callable[[Any, Any, Any, Any], Any],
    ) -> Any:
        """Return the machine-code counterpart of the Python function of an operator.

        ``extend`` returns the node (or nodes) of a new call, and ``several`` the arrays of several nodes.
        """
        defaults = key.template[max(key.arrays, 0) :]
        entry: tuple[Any, ...] = (declared.calls, function, key.arrays, key.template, key.places, extend)
        entry += (declared.at_once, declared, defaults, key.order, several)
        return make_function(function, self._function, entry, functools.partial(describe, declared))


class KeyForm(NamedTuple):
    """The layout of the key of a remembered call."""

    arrays: int
    """How many arrays there can be; they come first. -1 for any number: these are not in the template and places."""
    template: tuple[Any, ...]
    """The key of a call without arguments; an object that is in no key stands for an argument that must be given."""
    places: dict[str, int]
    """The place of each keyword in the key; -1 - place for numbers, of which 0 is converted to text."""
    order: tuple[int, ...]
    """The place of each positional argument in the key, as in ``places``, or ``NO_PLACE``."""


class BinaryCall(NamedTuple):
    """A method of a binary operator."""

    name: str
    calls: dict[Any, Any]
    """The calls that the operator remembers."""
    function: Callable[[Any, Any], Any]
    """The Python method, which is the definition."""
    exchanged: bool
    """Whether the array is the second operand."""
    in_place: bool
    """Whether the first operand is changed."""
    extend: Callable[[Any], Any]
    """Makes the node of a new call, given its key, if the kind of the call is known, and remembers the call."""
    declared: Operator


_new_method = ctypes.pythonapi.PyDescr_NewMethod
_new_method.restype, _new_method.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)


def thread_number() -> int:
    """Return the number of this thread; no other thread ever has it."""
    state = ctypes.pythonapi.PyThreadState_Get
    state.restype = ctypes.c_void_p
    number = ctypes.pythonapi.PyThreadState_GetID
    number.restype, number.argtypes = ctypes.c_int64, (ctypes.c_void_p,)
    return int(number(state()))
