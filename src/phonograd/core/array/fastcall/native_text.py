"""The builder of the machine code that runs operator calls: Python's C interface, objects and their attributes.

:mod:`.native_code` and :mod:`.native_enter` write functions with :class:`Code`; :mod:`.native_call` compiles them and
fills the table ``state``: first the objects that the code compares with or passes on, then the addresses of functions
of Python's C interface. Each function returns an object or null. Null with an error set means that something failed;
null without an error means that the Python function has to decide (docs/decisions/0012).
"""

from __future__ import annotations

from typing import NamedTuple

from ...lower.ir.function_builder import FunctionBuilder, Index

__all__ = ["API", "CALL_WITH", "NO_PLACE", "OBJECTS", "Code", "arrays_of_call", "shifted_place"]

#: how functions of Python's C interface report an error: not at all, by null, by a number below 0, by a number other
#: than 0; or by a value that has a meaning as well (no such key, the number -1), so that the code asks for the error
_NEVER, _NULL, _NEGATIVE, _NONZERO, _NULL_OR_MISSING, _MINUS_ONE_OR_NUMBER = range(6)


class _Function(NamedTuple):
    """A function of Python's C interface: the type of its result, and how it reports an error."""

    kind: str
    failure: int


_FUNCTIONS = {
    "PyTuple_Pack": _Function("ptr", _NULL),
    "PyTuple_New": _Function("ptr", _NULL),
    "PyTuple_Size": _Function("i64", _NEGATIVE),
    "PyTuple_SetItem": _Function("i32", _NONZERO),
    "PyDict_GetItemWithError": _Function("ptr", _NULL_OR_MISSING),
    "PyDict_Contains": _Function("i32", _NEGATIVE),
    "PyDict_SetItem": _Function("i32", _NONZERO),
    "PyList_Append": _Function("i32", _NONZERO),
    "PyList_Size": _Function("i64", _NEGATIVE),
    "PyList_GetItem": _Function("ptr", _NULL),
    "PyList_New": _Function("ptr", _NULL),
    "PyFloat_AsDouble": _Function("double", _NEVER),
    "PyLong_AsLongLong": _Function("i64", _MINUS_ONE_OR_NUMBER),
    "PyLong_FromLongLong": _Function("ptr", _NULL),
    "PyLong_FromVoidPtr": _Function("ptr", _NULL),
    "PyContextVar_Get": _Function("i32", _NEGATIVE),
    "PyContextVar_Set": _Function("ptr", _NULL),
    "PyContextVar_Reset": _Function("i32", _NONZERO),
    "PyThreadState_Get": _Function("ptr", _NEVER),
    "PyThreadState_GetID": _Function("i64", _NEVER),
    "PyType_GenericAlloc": _Function("ptr", _NULL),
    "PyObject_CallFunctionObjArgs": _Function("ptr", _NULL),
    "PyObject_CallNoArgs": _Function("ptr", _NULL),
    "PyObject_VectorcallDict": _Function("ptr", _NULL),
    "PyObject_IsTrue": _Function("i32", _NEGATIVE),
    "PyObject_Repr": _Function("ptr", _NULL),
    "PyObject_RichCompareBool": _Function("i32", _NEGATIVE),
    "PyErr_Clear": _Function("void", _NEVER),
    "PyErr_Fetch": _Function("void", _NEVER),
    "PyErr_Restore": _Function("void", _NEVER),
    "PyErr_ExceptionMatches": _Function("i32", _NEVER),
    "PyErr_Occurred": _Function("ptr", _NEVER),
    "Py_FatalError": _Function("void", _NEVER),
    "Py_IncRef": _Function("void", _NEVER),
    "Py_DecRef": _Function("void", _NEVER),
}
#: functions of Python's C interface that the code calls, in the order in which their addresses stand in its table
API = tuple(_FUNCTIONS)
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
    "leaf_like",
    "prune",
    "variable",
    "variable_operator",
    "again_operator",
    "trace",
    "acquire",
    "release",
    "type_error",
    "numbers",
    "zero",
    "plus_one",
    "minus_one",
    "immediate_trace",
    "detection",
    "planned",
    "evaluated",
    "immediate_calls",
    "any_shapes",
    "immediate_numbers",
    "number_beside",
    "single_calls",
    "number_memory",
    "float_errors",
    "ignored_errors",
    "own",
    "copy",
    "list",
    "tuple",
    "ufunc",
)

#: functions with any number of arguments: the types of those that are always there
_VARIADIC = {"PyTuple_Pack": "(i64, ...) ", "PyObject_CallFunctionObjArgs": "(ptr, ...) "}
CALL_WITH = "PyObject_CallFunctionObjArgs"
#: the place of a positional argument that Python has to convert
NO_PLACE = 1 << 20


class Code(FunctionBuilder):
    """The text of one function that returns an object or null.

    The interpreter must never go on with an error set, so there is one way to call its C interface: :meth:`api`, which
    writes the check of the result. With the offset ``checked`` (the setting ``check_calls``), the code also asks for an
    error before it returns an object, and stops the process if one is set.
    """

    def __init__(self, name: str, arguments: str, offsets: dict[str, int]) -> None:
        super().__init__(name, arguments, "ptr", internal=True)
        self._offsets = offsets

    def field(self, base: str, name: str) -> str:
        """Return the object that an attribute refers to."""
        return self.assign(f"load ptr, ptr {self.address(base, str(self._offsets[name]), 'i8')}, align 8")

    def offset(self, name: str) -> int:
        """Return the offset of an attribute."""
        return self._offsets[name]

    def item(self, base: str, index: Index) -> str:
        """Return an item of a tuple."""
        return self.load_word(self.address(base, str(self._offsets["item"]), "i8"), index, "ptr")

    def put(self, base: str, name: str, value: str) -> None:
        """Let an attribute that was never set refer to an object."""
        self.api("Py_IncRef", f"ptr {value}")
        self.line(f"store ptr {value}, ptr {self.address(base, str(self._offsets[name]), 'i8')}, align 8")

    def exchange(self, base: str, name: str, value: str) -> None:
        """Let an attribute refer to another object than before."""
        before = self.field(base, name)
        self.put(base, name, value)
        self.api("Py_DecRef", f"ptr {before}")

    def object(self, name: str) -> str:
        """Return one of the objects that the code knows."""
        return self.load_word("@state", str(OBJECTS.index(name)), "ptr")

    def api(self, name: str, arguments: str = "", failed: str | None = None) -> str:
        """Call a function of Python's C interface, and return its result; jump to the label ``failed`` if it fails.

        The label is missing for functions that cannot fail, and only for them.
        """
        kind, failure = _FUNCTIONS[name]
        if (failed is None) != (failure == _NEVER):
            raise ValueError(f"{name} {'needs a' if failed is None else 'never fails, and needs no'} label for errors")
        function = self.load_word("@state", str(len(OBJECTS) + API.index(name)), "ptr")
        call = f"call {kind} {_VARIADIC.get(name, '')}{function}({arguments})"
        if kind == "void":
            self.line(call)
            return ""
        result = self.assign(call)
        if failed is not None:
            self._check(kind, failure, result, failed)
        return result

    def _check(self, kind: str, failure: int, result: str, failed: str) -> None:
        """Write the jump to a label if the result of a call, or the error behind it, says that it has failed."""
        if failure == _NULL:
            self.leave_if_null(result, failed)
        elif failure == _NEGATIVE:
            self.leave_if(self.assign(f"icmp slt {kind} {result}, 0"), failed)
        elif failure == _NONZERO:
            self.leave_unless(self.assign(f"icmp eq {kind} {result}, 0"), failed)
        else:
            value = "null" if failure == _NULL_OR_MISSING else "-1"
            self.when(self.assign(f"icmp eq {kind} {result}, {value}"), lambda: self.leave_if_error(failed))

    def leave_if_error(self, target: str) -> None:
        """Jump to a label if an error is set."""
        self.leave_unless(self.assign(f"icmp eq ptr {self.api('PyErr_Occurred')}, null"), target)

    def give(self, value: str) -> None:
        """Return an object to the caller, or null."""
        if self._offsets.get("checked") and value != "null":

            def stop() -> None:
                self.when(self.assign(f"icmp ne ptr {self.api('PyErr_Occurred')}, null"), complain)

            def complain() -> None:
                self.api("Py_FatalError", "ptr @message")

            self.when(self.assign(f"icmp ne ptr {value}, null"), stop)
        self.line(f"ret ptr {value}")

    def call(self, name: str, *arguments: str) -> str:
        """Call another function of this module with objects, and return its result."""
        return self.assign(f"call ptr @{name}({', '.join([f'ptr {argument}' for argument in arguments])})")

    def call_on(self, function: str, arguments: str) -> str:
        """Call a Python function with a row of arguments, and return its result."""
        return self.assign(f"call ptr {self.field(function, 'vectorcall')}(ptr {function}, {arguments})")

    def number(self, value: str, failed: str) -> str:
        """Return the number that a Python int holds."""
        return self.api("PyLong_AsLongLong", f"ptr {value}", failed)

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

    def append(self, row: str, value: str, target: str) -> None:
        """Append an object to a list; jump to a label if that fails."""
        self.api("PyList_Append", f"ptr {row}, ptr {value}", target)

    def insert(self, table: str, key: str, value: str, target: str) -> None:
        """Set an item of a dictionary; jump to a label if that fails."""
        self.api("PyDict_SetItem", f"ptr {table}, ptr {key}, ptr {value}", target)

    def put_item(self, row: str, index: Index, value: str, target: str) -> None:
        """Let an item of a new tuple refer to an object; jump to a label if that fails."""
        self.api("Py_IncRef", f"ptr {value}")
        # the tuple takes the reference, also if that fails
        self.api("PyTuple_SetItem", f"ptr {row}, i64 {index}, ptr {value}", target)

    def hold(self, value: str) -> None:
        """Take one more reference to an object."""
        self.api("Py_IncRef", f"ptr {value}")

    def clear_type_error(self) -> None:
        """Clear the error of an object without a hash, such as a list among the parameters: Python converts it."""
        matches = self.api("PyErr_ExceptionMatches", f"ptr {self.object('type_error')}")
        self.when(self.assign(f"icmp ne i32 {matches}, 0"), lambda: (self.api("PyErr_Clear"), None)[1])

    def release(self, *values: str) -> None:
        """Give up references to objects; for null nothing happens."""
        for value in values:
            self.api("Py_DecRef", f"ptr {value}")

    def give_back(self, name: str) -> None:
        """Return one of the objects that the code knows to Python."""
        self.api("Py_IncRef", f"ptr {self.object(name)}")
        self.give(self.object(name))

    def end(self, label: str, value: str) -> None:
        """Write a block that returns."""
        self.label(label)
        self.give(value)

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
        error = self.api("PyErr_Occurred")
        self.line(f"br i1 {self.assign(f'icmp eq ptr {error}, null')}, label %{following}, label %error")
        self.end("error", "null")
        self.label(following)


def arrays_of_call(f: Code, listed: Index) -> tuple[str, str]:
    """Return the most arrays of a call, and by how many places those of its parameters are shifted.

    ``listed`` is the number of arrays in its entry: -1 if it takes any number of them by position.
    """
    takes_any = f.assign(f"icmp slt i64 {listed}, 0")
    return f.select_index(takes_any, "%count", listed), f.select_index(takes_any, "%count", "0")


def shifted_place(f: Code, number: Index, shift: Index) -> str:
    """Return the place of a parameter as in an entry, or -1 - place of a number, shifted."""
    is_real = f.assign(f"icmp slt i64 {number}, 0")
    return f.select_index(is_real, f.minus(number, shift), f.plus(number, shift))
