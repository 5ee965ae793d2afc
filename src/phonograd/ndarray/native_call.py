"""Operator calls as machine code: the fast path of :mod:`.call`, at a quarter of its cost.

A call that was made before is a look-up and a new handle. In Python that takes half a microsecond, which is more than
most small kernels run; in machine code that calls Python's C interface it takes a tenth. The code is written here as
text, compiled with the kernels, and does in C what the functions of :mod:`.call` do in Python::

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
before, an observer) goes to the Python function, which does the same and more. Reference counts and attributes are
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
from typing import Any, NamedTuple

from .. import settings
from ..kernels.function import Function, Index, Value
from ..native import jit
from ..node import Node
from ..state import FLAGS, RECORDING
from ..trace import LOCAL, Trace

__all__ = ["BinaryCall", "Calls", "KeyForm", "as_method", "possible", "thread_number"]

#: functions of Python's C interface that the code calls, in the order in which their addresses stand in its table
_API = (
    "PyTuple_Pack",
    "PyTuple_New",
    "PyTuple_Size",
    "PyTuple_SetItem",
    "PyDict_GetItemWithError",
    "PyDict_Contains",
    "PyDict_SetItem",
    "PyList_Append",
    "PyList_Size",
    "PyList_GetItem",
    "PyList_New",
    "PyLong_AsLongLong",
    "PyContextVar_Get",
    "PyThreadState_Get",
    "PyThreadState_GetID",
    "PyType_GenericAlloc",
    "PyObject_CallFunctionObjArgs",
    "PyObject_IsTrue",
    "PyObject_Vectorcall",
    "PyErr_Clear",
    "PyErr_Occurred",
    "Py_IncRef",
    "Py_DecRef",
)
#: objects that the code compares with or hands on
_OBJECTS = ("none", "true", "false", "one", "flags", "active", "array", "float", "int", "prune")

#: words of an entry of a binary operator
_ENTRY = 3
#: entries of the table of recent calls, each of the words (what is called, first node, second node, result)
_RECENT = 4096
#: functions with any number of arguments: the types of those that are always there
_VARIADIC = {"PyTuple_Pack": "(i64, ...) ", "PyObject_CallFunctionObjArgs": "(ptr, ...) "}
_CALL_WITH = "PyObject_CallFunctionObjArgs"
_METH_O, _METH_FASTCALL, _METH_FASTCALL_WITH_KEYWORDS = 0x8, 0x80, 0x80 | 0x2


class _Definition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
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


def _offsets(array: Any, node: Node, trace: Trace, active: Any) -> dict[str, int]:
    found = {name: _offset(array, f"_{name}") for name in ("trace", "node", "buffer", "rare")}
    found |= {name: _offset(node, name) for name in ("marked", "kind", "detached")}
    found |= {name: _offset(trace, name) for name in ("thread", "scalars", "made", "handles", "prune_at")}
    found["attentive"] = _offset(active, "attentive")
    found["type"] = _type_offset(array)
    found["item"] = tuple.__basicsize__
    return found


def _type_offset(instance: Any) -> int:
    words = (ctypes.c_size_t * 2).from_address(id(instance))
    if words[1] != id(type(instance)):
        raise RuntimeError("the type of an object does not stand where it is expected")
    return 8


# -- the code


class _Code(Function):
    """The text of one function that returns an object, or null."""

    def __init__(self, name: str, arguments: str, offsets: dict[str, int]) -> None:
        super().__init__(name, arguments)
        self._offsets = offsets

    def text(self) -> str:
        """Return the whole function."""
        return f"define internal ptr @{self.name}({self.arguments}) nounwind {{\nentry:\n{self.body()}\n}}\n"

    def field(self, base: str, name: str) -> str:
        """Return what an attribute of an object refers to."""
        return self.assign(f"load ptr, ptr {self.address(base, str(self._offsets[name]), 'i8')}, align 8")

    def item(self, base: str, index: Index) -> str:
        """Return an item of a tuple."""
        return self.load_word(self.address(base, str(self._offsets["item"]), "i8"), index, "ptr")

    def put(self, base: str, name: str, value: str) -> None:
        """Let an attribute that was never set refer to an object."""
        self.api("void", "Py_IncRef", f"ptr {value}")
        self.line(f"store ptr {value}, ptr {self.address(base, str(self._offsets[name]), 'i8')}, align 8")

    def object(self, name: str) -> str:
        """Return one of the objects that the code knows."""
        return self.load_word("@state", str(_OBJECTS.index(name)), "ptr")

    def api(self, kind: str, name: str, arguments: str = "") -> str:
        """Call a function of Python's and return what it returns."""
        function = self.load_word("@state", str(len(_OBJECTS) + _API.index(name)), "ptr")
        call = f"call {kind} {_VARIADIC.get(name, '')}{function}({arguments})"
        if kind != "void":
            return self.assign(call)
        self.line(call)
        return ""

    def number(self, value: str) -> str:
        """Return the number that a Python int holds."""
        return self.api("i64", "PyLong_AsLongLong", f"ptr {value}")

    def same(self, value: str, name: str) -> str:
        """Return whether something is one of the objects that the code knows."""
        return self.assign(f"icmp eq ptr {value}, {self.object(name)}")

    def leave_if(self, condition: str, target: str) -> None:
        """Go elsewhere if a condition holds."""
        following = self.new_name("go")
        self.line(f"br i1 {condition}, label %{target}, label %{following}")
        self.label(following)

    def leave_unless(self, condition: str, target: str) -> None:
        """Go elsewhere if a condition does not hold."""
        following = self.new_name("go")
        self.line(f"br i1 {condition}, label %{following}, label %{target}")
        self.label(following)

    def leave_if_null(self, value: str, target: str) -> None:
        """Go elsewhere if there is no object."""
        self.leave_if(self.assign(f"icmp eq ptr {value}, null"), target)

    def end(self, label: str, value: str) -> None:
        """Write a block that returns."""
        self.label(label)
        self.line(f"ret ptr {value}")


def _module(offsets: dict[str, int], entries: int) -> str:
    """Return the text of all functions; ``native_calls`` returns the address of a directory of what Python needs."""
    words = len(_OBJECTS) + len(_API)
    names = ["state", "entries", "call", "forget", "living", *[f"binary{k}" for k in range(entries)]]
    pointers = ", ".join([f"ptr @{name}" for name in names])
    parts = [
        f"@state = internal global [{words} x ptr] zeroinitializer, align 8",
        f"@entries = internal global [{_ENTRY * entries} x ptr] zeroinitializer, align 8",
        f"@recent = internal global [{4 * _RECENT} x ptr] zeroinitializer, align 64",
        f"@directory = internal constant [{len(names)} x ptr] [{pointers}], align 8",
        "define ptr @native_calls() nounwind {\n  ret ptr @directory\n}",
        _place(offsets),
        _finish(offsets),
        _recall(offsets),
        _note(offsets),
        _forget(offsets),
        _living(offsets),
        _binary(offsets),
        _call(offsets),
        *[_binary_number(k) for k in range(entries)],
    ]
    return "\n".join(parts) + "\n"


def _place(offsets: dict[str, int]) -> str:
    """Return the function that gives the trace of an array if that is the current one of this thread, else null."""
    f = _Code("place", "ptr %array", offsets)
    f.leave_unless(f.same(f.field("%array", "type"), "array"), "other")
    f.leave_unless(f.same(f.field(f.object("active"), "attentive"), "false"), "other")
    trace = f.field("%array", "trace")
    f.leave_if(f.same(trace, "none"), "other")
    thread = f.field(trace, "thread")
    f.leave_if(f.same(thread, "none"), "other")
    here = f.api("i64", "PyThreadState_GetID", f"ptr {f.api('ptr', 'PyThreadState_Get')}")
    f.leave_unless(f.assign(f"icmp eq i64 {f.number(thread)}, {here}"), "other")
    f.line(f"ret ptr {trace}")
    f.end("other", "null")
    return f.text()


def _finish(offsets: dict[str, int]) -> str:
    """Return the function that makes the array of a result; null without an error where Python has to decide."""
    f = _Code("finish", "ptr %trace, ptr %found", offsets)
    flags, node = f.assign("alloca ptr, align 8"), f.assign("alloca ptr, align 8")
    f.line(f"store ptr %found, ptr {node}, align 8")
    recorded = f.same(f.field("%found", "marked"), "true")
    f.line(f"br i1 {recorded}, label %check, label %make")
    f.label("check")
    status = f.api("i32", "PyContextVar_Get", f"ptr {f.object('flags')}, ptr null, ptr {flags}")
    f.leave_if(f.assign(f"icmp slt i32 {status}, 0"), "undecided")
    value = f.assign(f"load ptr, ptr {flags}, align 8")
    bits = f.number(value)
    f.api("void", "Py_DecRef", f"ptr {value}")
    bit = f.assign(f"and i64 {bits}, {RECORDING}")
    f.line(f"br i1 {f.assign(f'icmp ne i64 {bit}, 0')}, label %note, label %cut")
    f.label("cut")
    detached = f.field("%found", "detached")
    f.leave_if(f.same(detached, "none"), "undecided")
    f.line(f"store ptr {detached}, ptr {node}, align 8")
    f.line("br label %make")
    f.label("note")
    made = f.field("%trace", "made")
    known = f.api("i32", "PyDict_Contains", f"ptr {made}, ptr %found")
    f.leave_unless(f.assign(f"icmp eq i32 {known}, 0"), "undecided")
    noted = f.api("i32", "PyDict_SetItem", f"ptr {made}, ptr %found, ptr {f.object('one')}")
    f.leave_unless(f.assign(f"icmp eq i32 {noted}, 0"), "undecided")
    f.line("br label %make")
    f.label("make")
    result = f.api("ptr", "PyType_GenericAlloc", f"ptr {f.object('array')}, i64 0")
    f.leave_if_null(result, "undecided")
    f.put(result, "trace", "%trace")
    f.put(result, "node", f.assign(f"load ptr, ptr {node}, align 8"))
    f.put(result, "buffer", f.object("none"))
    f.put(result, "rare", f.object("none"))
    handles = f.field("%trace", "handles")
    appended = f.api("i32", "PyList_Append", f"ptr {handles}, ptr {result}")
    f.leave_unless(f.assign(f"icmp eq i32 {appended}, 0"), "drop")
    count, most = f.api("i64", "PyList_Size", f"ptr {handles}"), f.number(f.field("%trace", "prune_at"))
    f.leave_if(f.assign(f"icmp sgt i64 {count}, {most}"), "prune")
    f.line(f"ret ptr {result}")
    f.label("prune")
    pruned = f.api("ptr", _CALL_WITH, f"ptr {f.object('prune')}, ptr %trace, ptr null")
    f.leave_if_null(pruned, "drop")
    f.api("void", "Py_DecRef", f"ptr {pruned}")
    f.line(f"ret ptr {result}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {result}")
    f.line("br label %undecided")
    f.end("undecided", "null")
    return f.text()


def _recent(f: _Code, what: str, first: str, second: str) -> str:
    """Return the address of the only entry of the table of recent calls in which a call can stand."""
    mixed = "0"
    for value, factor in ((what, 0x9E3779B97F4A7C15), (first, 0xC2B2AE3D27D4EB4F), (second, 0x165667B19E3779F9)):
        number = f.assign(f"ptrtoint ptr {value} to i64")
        # as LLVM reads it: a number with a sign
        product = f.times(number, str(factor - (1 << 64) if factor >> 63 else factor))
        mixed = product if mixed == "0" else f.assign(f"xor i64 {mixed}, {product}")
    index = f.assign(f"lshr i64 {mixed}, {64 - (_RECENT.bit_length() - 1)}")
    return f.address("@recent", f.times(index, "4"), "ptr")


_CALL_ARGUMENTS = "ptr %what, ptr %first, ptr %second"


def _recall(offsets: dict[str, int]) -> str:
    """Return the function that gives the result of a recent call, or null."""
    f = _Code("recall", _CALL_ARGUMENTS, offsets)
    entry = _recent(f, "%what", "%first", "%second")
    for index, value in enumerate(("%what", "%first", "%second")):
        f.leave_unless(f.assign(f"icmp eq ptr {f.load_word(entry, str(index), 'ptr')}, {value}"), "other")
    f.line(f"ret ptr {f.load_word(entry, '3', 'ptr')}")
    f.end("other", "null")
    return f.text()


def _note(offsets: dict[str, int]) -> str:
    """Return the function that notes a call as recent. Its nodes stay alive until another one takes its place."""
    f = _Code("note", f"{_CALL_ARGUMENTS}, ptr %result", offsets)
    entry = _recent(f, "%what", "%first", "%second")
    before = [f.load_word(entry, str(index), "ptr") for index in (1, 2, 3)]
    f.store_word(entry, "0", "%what", "ptr")
    for index, value in enumerate(("%first", "%second", "%result"), 1):
        f.api("void", "Py_IncRef", f"ptr {value}")
        f.store_word(entry, str(index), value, "ptr")
    for value in before:
        # nothing happens for null
        f.api("void", "Py_DecRef", f"ptr {value}")
    f.line("ret ptr null")
    return f.text()


def _forget(offsets: dict[str, int]) -> str:
    """Return the function that empties the table of recent calls."""
    f = _Code("forget", "", offsets)

    def empty(index: Index, _: list[Value]) -> tuple[()]:
        entry = f.address("@recent", f.times(index, "4"), "ptr")
        before = [f.load_word(entry, str(word), "ptr") for word in (1, 2, 3)]
        for word in range(4):
            f.store_word(entry, str(word), "null", "ptr")
        for value in before:
            f.api("void", "Py_DecRef", f"ptr {value}")
        return ()

    f.loop("0", str(_RECENT), "1", (), empty)
    f.line("ret ptr null")
    return f.text()


def _living(offsets: dict[str, int]) -> str:
    """Return the function of a trace and a list of arrays that finds those that something else refers to, too.

    It returns a list of (array, node) of those that belong to the trace, as :func:`phonograd.trace.living` does.
    """
    f = _Code("living", "ptr %self, ptr %arguments, i64 %count", offsets)
    trace, handles = f.load_word("%arguments", "0", "ptr"), f.load_word("%arguments", "1", "ptr")
    pairs = f.api("ptr", "PyList_New", "i64 0")
    f.leave_if_null(pairs, "error")

    def look(index: Index, _: list[Value]) -> tuple[()]:
        handle = f.api("ptr", "PyList_GetItem", f"ptr {handles}, i64 {index}")
        # whatever the interpreter keeps beside it, the count is the lower half of the first word
        count = f.assign(f"load i32, ptr {handle}, align 8")
        f.choose(f.assign(f"icmp ugt i32 {count}, 1"), lambda: alive(handle), tuple)
        return ()

    def alive(handle: str) -> tuple[()]:
        node = f.field(handle, "node")
        here = f.assign(f"icmp eq ptr {f.field(handle, 'trace')}, {trace}")
        there = f.assign(f"xor i1 {f.same(node, 'none')}, true")
        f.choose(f.assign(f"and i1 {here}, {there}"), lambda: append(handle, node), tuple)
        return ()

    def append(handle: str, node: str) -> tuple[()]:
        pair = f.api("ptr", "PyTuple_Pack", f"i64 2, ptr {handle}, ptr {node}")
        f.leave_if_null(pair, "drop")
        status = f.api("i32", "PyList_Append", f"ptr {pairs}, ptr {pair}")
        f.api("void", "Py_DecRef", f"ptr {pair}")
        f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "drop")
        return ()

    f.loop("0", f.api("i64", "PyList_Size", f"ptr {handles}"), "1", (), look)
    f.line(f"ret ptr {pairs}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {pairs}")
    f.line("br label %error")
    f.end("error", "null")
    return f.text()


def _binary(offsets: dict[str, int]) -> str:
    """Return the function of an operator of two operands: an array, and an array or a number.

    An entry is the words (calls, Python function, whether the operands are exchanged).
    """
    f = _Code("binary", "ptr %record, ptr %self, ptr %other", offsets)
    operand = f.assign("alloca ptr, align 8")
    trace = f.assign("call ptr @place(ptr %self)")
    f.leave_if_null(trace, "slow")
    own = f.field("%self", "node")
    kind = f.field("%other", "type")
    f.line(f"br i1 {f.same(kind, 'array')}, label %two, label %number")
    f.label("two")
    f.leave_unless(f.assign(f"icmp eq ptr {f.field('%other', 'trace')}, {trace}"), "slow")
    f.line(f"store ptr {f.field('%other', 'node')}, ptr {operand}, align 8")
    f.line("br label %both")
    f.label("number")
    numeric = f.assign(f"or i1 {f.same(kind, 'float')}, {f.same(kind, 'int')}")
    f.leave_unless(numeric, "slow")
    f.leave_if(f.same(own, "none"), "slow")
    key = f.api("ptr", "PyTuple_Pack", f"i64 2, ptr %other, ptr {f.field(own, 'kind')}")
    f.leave_if_null(key, "error")
    scalar = f.api("ptr", "PyDict_GetItemWithError", f"ptr {f.field(trace, 'scalars')}, ptr {key}")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.leave_if_null(scalar, "slow")
    f.line(f"store ptr {scalar}, ptr {operand}, align 8")
    f.line("br label %both")
    f.label("both")
    second = f.assign(f"load ptr, ptr {operand}, align 8")
    exchanged = f.assign(f"icmp ne i64 {f.load_word('%record', '2')}, 0")
    pair = [f.assign(f"select i1 {exchanged}, ptr {a}, ptr {b}") for a, b in ((second, own), (own, second))]
    words = f"ptr %record, ptr {pair[0]}, ptr {pair[1]}"
    recent = f.assign(f"call ptr @recall({words})")
    f.line(f"store ptr {recent}, ptr {operand}, align 8")
    f.line(f"br i1 {f.assign(f'icmp eq ptr {recent}, null')}, label %look, label %found")
    f.label("look")
    key = f.api("ptr", "PyTuple_Pack", f"i64 2, ptr {pair[0]}, ptr {pair[1]}")
    f.leave_if_null(key, "error")
    calls = f.load_word("%record", "0", "ptr")
    node = f.api("ptr", "PyDict_GetItemWithError", f"ptr {calls}, ptr {key}")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.leave_if_null(node, "slow")
    f.assign(f"call ptr @note({words}, ptr {node})")
    f.line(f"store ptr {node}, ptr {operand}, align 8")
    f.line("br label %found")
    f.label("found")
    known = f.assign(f"load ptr, ptr {operand}, align 8")
    result = f.assign(f"call ptr @finish(ptr {trace}, ptr {known})")
    f.leave_if_null(result, "slow")
    f.line(f"ret ptr {result}")
    f.label("slow")
    f.leave_unless(f.assign(f"icmp eq ptr {f.api('ptr', 'PyErr_Occurred')}, null"), "error")
    function = f.load_word("%record", "1", "ptr")
    f.line(f"ret ptr {f.api('ptr', _CALL_WITH, f'ptr {function}, ptr %self, ptr %other, ptr null')}")
    f.end("error", "null")
    return f.text()


def _binary_number(number: int) -> str:
    """Return the function that Python calls for one operator of two operands."""
    entry = f"getelementptr (ptr, ptr @entries, i64 {_ENTRY * number})"
    return (
        f"define internal ptr @binary{number}(ptr %self, ptr %other) nounwind {{\n"
        f"  %result = tail call ptr @binary(ptr {entry}, ptr %self, ptr %other)\n  ret ptr %result\n}}\n"
    )


class _Key:
    """Writes the code that fills the key of a call, which is dropped (at the label ``drop``) where it cannot be."""

    def __init__(self, f: _Code, key: str, trace: str, arrays: str, template: str, places: str) -> None:
        self._f = f
        self._key = key
        self._trace = trace
        self._arrays = arrays
        self._template = template
        self._places = places

    def _put(self, index: Index, value: str) -> tuple[()]:
        self._f.api("void", "Py_IncRef", f"ptr {value}")
        self._f.api("i32", "PyTuple_SetItem", f"ptr {self._key}, i64 {index}, ptr {value}")
        return ()

    def _put_array(self, index: Index, value: str) -> tuple[()]:
        f = self._f
        f.leave_unless(f.same(f.field(value, "type"), "array"), "drop")
        f.leave_unless(f.assign(f"icmp eq ptr {f.field(value, 'trace')}, {self._trace}"), "drop")
        return self._put(index, f.field(value, "node"))

    def _put_number(self, index: Index, value: str) -> tuple[()]:
        f = self._f
        kind = f.field(value, "type")
        f.leave_unless(f.assign(f"or i1 {f.same(kind, 'float')}, {f.same(kind, 'int')}"), "drop")
        truth = f.api("i32", "PyObject_IsTrue", f"ptr {value}")
        f.leave_unless(f.assign(f"icmp eq i32 {truth}, 1"), "drop")
        return self._put(index, value)

    def default(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write a place of the key as it is in the template."""
        return self._put(index, self._f.item(self._template, index))

    def positional(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write the place of a positional argument."""
        return self._put_array(index, self._f.load_word("%arguments", index, "ptr"))

    def keyword(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write the place of an argument that was given by name."""
        f = self._f
        place = f.api("ptr", "PyDict_GetItemWithError", f"ptr {self._places}, ptr {f.item('%names', index)}")
        f.leave_if_null(place, "drop")
        value, number = f.load_word("%arguments", f.plus("%count", index), "ptr"), f.number(place)

        def parameter() -> tuple[()]:
            among = f.assign(f"icmp slt i64 {number}, {self._arrays}")
            f.choose(among, lambda: self._put_array(number, value), lambda: self._put(number, value))
            return ()

        real = f.assign(f"icmp slt i64 {number}, 0")
        f.choose(real, lambda: self._put_number(f.minus("-1", number), value), parameter)
        return ()


def _call(offsets: dict[str, int]) -> str:
    """Return the function of an operator called by name, with arrays first and parameters by keyword.

    Its ``self`` is the tuple (calls, Python function, number of arrays, template of the key, places of keywords in
    the key). The place of a number is given as -1 - place: 0.0 and -0.0 are equal, but they are different arguments,
    so Python makes the key. Keywords that need another look are missing among the places.
    """
    f = _Code("call", "ptr %self, ptr %arguments, i64 %count, ptr %names", offsets)
    calls, function, arrays, template, places = [f.item("%self", str(k)) for k in range(5)]
    cell, length = f.assign("alloca i64, align 8"), f.api("i64", "PyTuple_Size", f"ptr {template}")
    most = f.number(arrays)
    f.leave_if(f.assign(f"icmp sgt i64 %count, {most}"), "slow")
    f.line(f"store i64 0, ptr {cell}, align 8")
    f.line(f"br i1 {f.assign('icmp eq ptr %names, null')}, label %counted, label %named")
    f.label("named")
    f.line(f"store i64 {f.api('i64', 'PyTuple_Size', 'ptr %names')}, ptr {cell}, align 8")
    f.line("br label %counted")
    f.label("counted")
    named = f.assign(f"load i64, ptr {cell}, align 8")
    f.leave_if(f.assign(f"icmp eq i64 {f.plus('%count', named)}, 0"), "slow")
    trace = f.assign(f"call ptr @place(ptr {f.load_word('%arguments', '0', 'ptr')})")
    f.leave_if_null(trace, "slow")
    alone = f.assign(f"and i1 {f.assign('icmp eq i64 %count, 1')}, {f.assign(f'icmp eq i64 {named}, 0')}")
    node = f.field(f.load_word("%arguments", "0", "ptr"), "node")
    f.line(f"br i1 {alone}, label %recent, label %look")
    f.label("recent")
    recent = f.assign(f"call ptr @recall(ptr %self, ptr {node}, ptr {node})")
    f.leave_if_null(recent, "look")
    result = f.assign(f"call ptr @finish(ptr {trace}, ptr {recent})")
    f.leave_if_null(result, "slow")
    f.line(f"ret ptr {result}")
    f.label("look")
    key = f.api("ptr", "PyTuple_New", f"i64 {length}")
    f.leave_if_null(key, "error")
    filling = _Key(f, key, trace, most, template, places)
    # a template has no empty places, so that a key can be dropped at any time
    f.loop("0", length, "1", (), filling.default)
    f.loop("0", "%count", "1", (), filling.positional)
    f.loop("0", named, "1", (), filling.keyword)
    found = f.api("ptr", "PyDict_GetItemWithError", f"ptr {calls}, ptr {key}")
    f.leave_if_null(found, "drop")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.line(f"br i1 {alone}, label %new, label %old")
    f.label("new")
    f.assign(f"call ptr @note(ptr %self, ptr {node}, ptr {node}, ptr {found})")
    f.line("br label %old")
    f.label("old")
    result = f.assign(f"call ptr @finish(ptr {trace}, ptr {found})")
    f.leave_if_null(result, "slow")
    f.line(f"ret ptr {result}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {key}")
    # a list among the parameters has no hash: Python converts it
    f.api("void", "PyErr_Clear")
    f.line("br label %slow")
    f.label("slow")
    f.leave_unless(f.assign(f"icmp eq ptr {f.api('ptr', 'PyErr_Occurred')}, null"), "error")
    f.line(f"ret ptr {f.api('ptr', 'PyObject_Vectorcall', f'ptr {function}, ptr %arguments, i64 %count, ptr %names')}")
    f.end("error", "null")
    return f.text()


# -- in use


class Calls:
    """The compiled code, and the functions and methods made with it."""

    def __init__(self, array_class: type[Any], array: Any, node: Node, methods: list[BinaryCall]) -> None:
        active = settings.active
        text = _module(_offsets(array, node, LOCAL.trace, active), len(methods))
        self._kernel = jit.compile_text(text, "native_calls")
        directory = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._kernel.address)()
        addresses = (ctypes.c_void_p * (5 + len(methods))).from_address(directory)
        state, entries, self._function, forget, living, *numbered = [int(address or 0) for address in addresses]
        #: forgets the calls made lately; nodes they refer to can then be dropped
        self.forget: Callable[[], None] = ctypes.PYFUNCTYPE(None)(forget)
        objects = (None, True, False, 1, FLAGS, active, array_class, float, int, Trace.prune)
        #: everything the code refers to; it lives as long as the process, because arrays and modules refer to the code
        self._kept: list[Any] = [objects, methods]
        words: list[Any] = [id(value) for value in objects]
        words += [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in _API]
        (ctypes.c_size_t * len(words)).from_address(state)[:] = words
        definition = self._definition("living", living, _METH_FASTCALL, "living(trace, handles)\n--\n\n")
        #: finds the arrays of a trace that are alive
        self.living = _new_function(ctypes.byref(definition), None, __name__)
        table = (ctypes.c_size_t * (_ENTRY * len(methods))).from_address(entries)
        self.methods: dict[str, Any] = {}
        for number, (name, calls, function, exchanged) in enumerate(methods):
            table[_ENTRY * number : _ENTRY * (number + 1)] = [id(calls), id(function), int(exchanged)]
            definition = self._definition(name, numbered[number], _METH_O, function.__doc__ or "")
            self.methods[name] = _new_method(array_class, ctypes.byref(definition))

    def _definition(self, name: str, address: int, flags: int, doc: str) -> _Definition:
        definition = _Definition(name.encode(), address, flags, doc.encode())
        self._kept.append(definition)
        return definition

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
    """A method of two operands: its name, remembered calls, the Python function, and whether operands change places."""

    name: str
    calls: dict[Any, Any]
    function: Callable[[Any, Any], Any]
    exchanged: bool


_new_method = ctypes.pythonapi.PyDescr_NewMethod
_new_method.restype, _new_method.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
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
