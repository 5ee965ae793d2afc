"""The builder of the machine code that runs operator calls: Python's C interface, objects and their attributes.

:mod:`.native_code` and :mod:`.native_enter` write functions with :class:`Code`; :mod:`.native_call` compiles them and
fills the table ``state``: first the objects that the code compares with or passes on, then the addresses of functions
of Python's C interface. Each function returns an object or null. Null with an error set means that something failed;
null without an error means that the Python function has to decide (docs/decisions/0012).
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
    "again_operator",
    "trace",
    "acquire",
    "release",
)

#: functions with any number of arguments: the types of those that are always there
_VARIADIC = {"PyTuple_Pack": "(i64, ...) ", "PyObject_CallFunctionObjArgs": "(ptr, ...) "}
CALL_WITH = "PyObject_CallFunctionObjArgs"


class Code(FunctionBuilder):
    """The text of one function that returns an object or null."""

    def __init__(self, name: str, arguments: str, offsets: dict[str, int]) -> None:
        super().__init__(name, arguments, "ptr", internal=True)
        self._offsets = offsets

    def field(self, base: str, name: str) -> str:
        """Return the object that an attribute refers to."""
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
        """Call a function of Python's C interface, and return its result."""
        function = self.load_word("@state", str(len(OBJECTS) + API.index(name)), "ptr")
        call = f"call {kind} {_VARIADIC.get(name, '')}{function}({arguments})"
        if kind != "void":
            return self.assign(call)
        self.line(call)
        return ""

    def call(self, name: str, *arguments: str) -> str:
        """Call another function of this module with objects, and return its result."""
        return self.assign(f"call ptr @{name}({', '.join([f'ptr {argument}' for argument in arguments])})")

    def call_on(self, function: str, arguments: str) -> str:
        """Call a Python function with a row of arguments, and return its result."""
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

    def is_number(self, kind: str) -> str:
        """Return whether a class is ``float`` or ``int``."""
        return self.assign(f"or i1 {self.same(kind, 'float')}, {self.same(kind, 'int')}")

    def is_equal(self, first: str, second: str) -> str:
        """Return whether two pointers are equal."""
        return self.assign(f"icmp eq ptr {first}, {second}")

    def leave_if_null(self, value: str, target: str) -> None:
        """Jump to a label if there is no object."""
        self.leave_if(self.assign(f"icmp eq ptr {value}, null"), target)

    def leave_unless_zero(self, status: str, target: str) -> None:
        """Jump to a label if a function of Python's returned another status than 0."""
        self.leave_unless(self.assign(f"icmp eq i32 {status}, 0"), target)

    def append(self, row: str, value: str, target: str) -> None:
        """Append an object to a list; jump to a label if that fails."""
        self.leave_unless_zero(self.api("i32", "PyList_Append", f"ptr {row}, ptr {value}"), target)

    def insert(self, table: str, key: str, value: str, target: str) -> None:
        """Set an item of a dictionary; jump to a label if that fails."""
        self.leave_unless_zero(self.api("i32", "PyDict_SetItem", f"ptr {table}, ptr {key}, ptr {value}"), target)

    def release(self, *values: str) -> None:
        """Give up references to objects; for null nothing happens."""
        for value in values:
            self.api("void", "Py_DecRef", f"ptr {value}")

    def give_back(self, name: str) -> None:
        """Return one of the objects that the code knows to Python."""
        self.api("void", "Py_IncRef", f"ptr {self.object(name)}")
        self.line(f"ret ptr {self.object(name)}")

    def end(self, label: str, value: str) -> None:
        """Write a block that returns."""
        self.label(label)
        self.line(f"ret ptr {value}")

    def end_dropping(self, value: str) -> None:
        """Write the blocks ``drop``, which gives up a reference, and ``error``, which returns null."""
        self.label("drop")
        self.release(value)
        self.line("br label %error")
        self.end("error", "null")

    def pass_errors_on(self, label: str) -> None:
        """Write the beginning of a block, and the block ``error`` that ends the call if an error is set."""
        self.label(label)
        following = self.new_name("go")
        error = self.api("ptr", "PyErr_Occurred")
        self.line(f"br i1 {self.assign(f'icmp eq ptr {error}, null')}, label %{following}, label %error")
        self.end("error", "null")
        self.label(following)
