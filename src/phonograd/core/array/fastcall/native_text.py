"""The language of the code that operator calls run as (:mod:`.native_code`): Python's C interface, objects, attributes.

What is in the table ``state`` stands first: objects that the code compares with or hands on, then functions of Python's
C interface. Functions return an object, or null: with an error set where something failed, without one where the
Python function has to decide.
"""

from __future__ import annotations

from ...lower.ir.function_builder import FunctionBuilder, Index

__all__ = ["API", "CALL_WITH", "OBJECTS", "Code"]

#: functions of Python's C interface that the code calls, in the order in which their addresses stand in its table
API = (
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
    "PyLong_FromLongLong",
    "PyLong_FromVoidPtr",
    "PyContextVar_Get",
    "PyThreadState_Get",
    "PyThreadState_GetID",
    "PyType_GenericAlloc",
    "PyObject_CallFunctionObjArgs",
    "PyObject_CallNoArgs",
    "PyObject_IsTrue",
    "PyObject_RichCompareBool",
    "PyErr_Clear",
    "PyErr_Occurred",
    "Py_IncRef",
    "Py_DecRef",
)
#: objects that the code compares with or hands on
OBJECTS = (
    "none",
    "true",
    "false",
    "one",
    "flags",
    "active",
    "array",
    "other_array",
    "memory",
    "float",
    "int",
    "cpu",
    "latest",
    "prune",
    "variable",
    "variable_operator",
    "trace",
    "acquire",
    "release",
)

#: functions with any number of arguments: the types of those that are always there
_VARIADIC = {"PyTuple_Pack": "(i64, ...) ", "PyObject_CallFunctionObjArgs": "(ptr, ...) "}
CALL_WITH = "PyObject_CallFunctionObjArgs"


class Code(FunctionBuilder):
    """The text of one function that returns an object, or null."""

    def __init__(self, name: str, arguments: str, offsets: dict[str, int]) -> None:
        super().__init__(name, arguments, "ptr", internal=True)
        self._offsets = offsets

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

    def exchange(self, base: str, name: str, value: str) -> None:
        """Let an attribute refer to another object than before."""
        before = self.field(base, name)
        self.put(base, name, value)
        self.api("void", "Py_DecRef", f"ptr {before}")

    def object(self, name: str) -> str:
        """Return one of the objects that the code knows."""
        return self.load_word("@state", str(OBJECTS.index(name)), "ptr")

    def api(self, kind: str, name: str, arguments: str = "") -> str:
        """Call a function of Python's and return what it returns."""
        function = self.load_word("@state", str(len(OBJECTS) + API.index(name)), "ptr")
        call = f"call {kind} {_VARIADIC.get(name, '')}{function}({arguments})"
        if kind != "void":
            return self.assign(call)
        self.line(call)
        return ""

    def call_on(self, function: str, arguments: str) -> str:
        """Call a Python function with a row of arguments and return what it returns."""
        return self.assign(f"call ptr {self.field(function, 'vectorcall')}(ptr {function}, {arguments})")

    def number(self, value: str) -> str:
        """Return the number that a Python int holds."""
        return self.api("i64", "PyLong_AsLongLong", f"ptr {value}")

    def same(self, value: str, name: str) -> str:
        """Return whether something is one of the objects that the code knows."""
        return self.assign(f"icmp eq ptr {value}, {self.object(name)}")

    def is_array(self, kind: str) -> str:
        """Return whether a class is one of those of dense arrays."""
        return self.assign(f"or i1 {self.same(kind, 'array')}, {self.same(kind, 'other_array')}")

    def leave_if_null(self, value: str, target: str) -> None:
        """Go elsewhere if there is no object."""
        self.leave_if(self.assign(f"icmp eq ptr {value}, null"), target)

    def give_back(self, name: str) -> None:
        """Return one of the objects that the code knows to Python."""
        self.api("void", "Py_IncRef", f"ptr {self.object(name)}")
        self.line(f"ret ptr {self.object(name)}")

    def end(self, label: str, value: str) -> None:
        """Write a block that returns."""
        self.label(label)
        self.line(f"ret ptr {value}")
