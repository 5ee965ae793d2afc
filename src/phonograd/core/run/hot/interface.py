"""The module around translated functions: Python's C interface, objects, and the helpers that all functions share.

Takes requests of :mod:`.translation`; hands the text of one LLVM module to :mod:`.installation`. Objects and addresses
are in tables, which the loader fills, so the text is the same in all processes of one interpreter version. References
follow one rule: a function borrows its arguments and returns an owned object, or null with an error set.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["API", "CALL_FUNCTION", "HELPERS", "Layout", "ModuleText"]

#: functions of Python's C interface, with the type of their results and their parameters
API = {
    "Py_IncRef": ("void", "ptr"),
    "Py_DecRef": ("void", "ptr"),
    "PyErr_Occurred": ("ptr", ""),
    "PyErr_Clear": ("void", ""),
    "PyErr_SetString": ("void", "ptr, ptr"),
    "PyErr_CheckSignals": ("i32", ""),
    "PyObject_GetAttr": ("ptr", "ptr, ptr"),
    "PyObject_SetAttr": ("i32", "ptr, ptr, ptr"),
    "PyObject_GetItem": ("ptr", "ptr, ptr"),
    "PyObject_SetItem": ("i32", "ptr, ptr, ptr"),
    "PyObject_IsTrue": ("i32", "ptr"),
    "PyObject_IsInstance": ("i32", "ptr, ptr"),
    "PyObject_RichCompareBool": ("i32", "ptr, ptr, i32"),
    "PyObject_Size": ("i64", "ptr"),
    "PyObject_VectorcallDict": ("ptr", "ptr, ptr, i64, ptr"),
    "PyObject_VectorcallMethod": ("ptr", "ptr, ptr, i64, ptr"),
    "PyObject_CallObject": ("ptr", "ptr, ptr"),
    "PySequence_Contains": ("i32", "ptr, ptr"),
    "PySequence_Fast": ("ptr", "ptr, ptr"),
    "PySequence_Tuple": ("ptr", "ptr"),
    "PySequence_InPlaceConcat": ("ptr", "ptr, ptr"),
    "PyNumber_Add": ("ptr", "ptr, ptr"),
    "PyNumber_Subtract": ("ptr", "ptr, ptr"),
    "PyNumber_Multiply": ("ptr", "ptr, ptr"),
    "PyNumber_And": ("ptr", "ptr, ptr"),
    "PyNumber_Or": ("ptr", "ptr, ptr"),
    "PyNumber_FloorDivide": ("ptr", "ptr, ptr"),
    "PyNumber_TrueDivide": ("ptr", "ptr, ptr"),
    "PyNumber_Lshift": ("ptr", "ptr, ptr"),
    "PyNumber_Rshift": ("ptr", "ptr, ptr"),
    "PyNumber_InPlaceAdd": ("ptr", "ptr, ptr"),
    "PyNumber_InPlaceOr": ("ptr", "ptr, ptr"),
    "PyNumber_Negative": ("ptr", "ptr"),
    "PyLong_AsSsize_t": ("i64", "ptr"),
    "PyLong_FromSsize_t": ("ptr", "i64"),
    "PyDict_New": ("ptr", ""),
    "PyDict_GetItemWithError": ("ptr", "ptr, ptr"),
    "PyDict_SetItem": ("i32", "ptr, ptr, ptr"),
    "PyList_New": ("ptr", "i64"),
    "PyList_Append": ("i32", "ptr, ptr"),
    "PyList_AsTuple": ("ptr", "ptr"),
    "PyTuple_New": ("ptr", "i64"),
    "PyObject_DelItem": ("i32", "ptr, ptr"),
    "PySlice_New": ("ptr", "ptr, ptr, ptr"),
    "PySet_Add": ("i32", "ptr, ptr"),
    "PyObject_GC_UnTrack": ("void", "ptr"),
    "PyType_GenericAlloc": ("ptr", "ptr, i64"),
}
#: calls a Python function with keywords; CPython 3.10 has no such function for all objects
CALL_FUNCTION = ("PyObject_Vectorcall", "_PyFunction_Vectorcall")
#: the place of an address behind the functions: that of the number of objects since the last garbage collection
NEW_OBJECTS = len(API) + 1
#: objects that the helpers refer to, as the loader finds them
NONE, TRUE, FALSE = "=None", "=True", "=False"
LIST, TUPLE, DICT, SET, INT = "builtins:list", "builtins:tuple", "builtins:dict", "builtins:set", "builtins:int"
VALUE_ERROR, UNBOUND_ERROR = "builtins:ValueError", "builtins:UnboundLocalError"
#: set in the number of arguments of a call if the word in front of them is free
ARGUMENTS_OFFSET = 1 << 63


class Layout(NamedTuple):
    """Where this interpreter keeps parts of objects, and the slots of classes."""

    #: whether counts of references are plain numbers in the first word, which the code changes itself
    plain_counts: bool
    #: where tuples keep their items; lists keep the address of theirs in the fourth word
    tuple_items: int
    #: classes of dictionaries that read items as dictionaries do
    tables: tuple[str, ...]
    #: (class as the loader finds it, attribute, offset) for each slot
    slots: tuple[tuple[str, str, int], ...]


class ModuleText:
    """The text of all functions, and the tables that they use."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._objects: dict[str, int] = {}
        self._functions: list[str] = []
        self._constants: dict[str, str] = {}

    def object(self, name: str) -> str:
        """Return the address in the table of an object: ``module:name``, or ``=`` and a literal."""
        number = self._objects.setdefault(name, len(self._objects))
        return f"getelementptr (ptr, ptr @objects, i64 {number})"

    def function(self, name: str) -> str:
        """Return the address in the table of a function of Python's C interface."""
        return f"getelementptr (ptr, ptr @interface, i64 {[*API, CALL_FUNCTION[0]].index(name)})"

    def new_objects(self) -> str:
        """Return the address in the table of the address of the number of new objects."""
        return f"getelementptr (ptr, ptr @interface, i64 {NEW_OBJECTS})"

    def constant(self, text: str) -> str:
        """Return the name of a constant: characters and a zero."""
        return self._constants.setdefault(text, f"@text{len(self._constants)}")

    def add(self, text: str) -> None:
        """Add a function."""
        self._functions.append(text)

    def slots(self, attribute: str) -> list[tuple[str, int]]:
        """Return the classes that have an attribute in a slot, and its offset."""
        return [(class_, offset) for class_, name, offset in self.layout.slots if name == attribute]

    def text(self, entries: list[str]) -> str:
        """Return the module; ``hot_directory`` returns the addresses of the tables, and those of the entries."""
        names = "\n".join(self._objects)
        text = self.constant(names)
        constants = [
            f'{name} = internal constant [{len(value.encode()) + 1} x i8] c"{_escape(value)}\\00", align 1'
            for value, name in self._constants.items()
        ]
        rows = ["@objects", "@interface", text, *[f"@{entry}" for entry in entries]]
        pointers = ", ".join([f"ptr {row}" for row in rows])
        return "\n".join(
            [
                f"@objects = internal global [{len(self._objects)} x ptr] zeroinitializer, align 8",
                f"@interface = internal global [{NEW_OBJECTS + 1} x ptr] zeroinitializer, align 8",
                *constants,
                f"@directory = internal constant [{len(rows)} x ptr] [{pointers}], align 8",
                "define ptr @hot_directory() nounwind {\n  ret ptr @directory\n}",
                *self._functions,
                "",
            ]
        )


def _escape(text: str) -> str:
    return "".join(
        [chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode()]
    )


def helpers(module: ModuleText) -> None:
    """Add the functions that all translated functions share."""
    module.add(_fill(module, _is_table(module.layout.tables)))
    for text in HELPERS:
        module.add(_fill(module, text.replace("TUPLE_ITEMS", str(module.layout.tuple_items))))
    module.add(_fill(module, _PLAIN_COUNTS if module.layout.plain_counts else _COUNTS))


def _is_table(classes: tuple[str, ...]) -> str:
    """Return the function that says whether an object is a dictionary, or of one of some classes."""
    lines = ["define internal i1 @is_table(ptr %x) nounwind {", "  %type = call ptr @type_of(ptr %x)"]
    found = "false"
    for number, name in enumerate((DICT, *classes)):
        lines.append(f"  %is{number} = icmp eq ptr %type, {{{name}}}")
        lines.append(f"  %any{number} = or i1 {found}, %is{number}")
        found = f"%any{number}"
    return "\n".join([*lines, f"  ret i1 {found}", "}"])


def _fill(module: ModuleText, text: str) -> str:
    """Replace ``{object}`` and ``[function]`` of a helper by loads of the tables."""
    found: list[str] = []
    for number, line in enumerate(text.strip().splitlines()):
        while "{" in line and not line.endswith("{"):
            start, end = line.index("{"), line.index("}")
            found.append(f"  %o{number}_{start} = load ptr, ptr {module.object(line[start + 1 : end])}, align 8")
            line = f"{line[:start]}%o{number}_{start}{line[end + 1 :]}"
        if "[Py" in line:
            start, end = line.index("["), line.index("]")
            found.append(f"  %f{number} = load ptr, ptr {module.function(line[start + 1 : end])}, align 8")
            line = f"{line[:start]}%f{number}{line[end + 1 :]}"
        found.append(line)
    return "\n".join(found) + "\n"


#: take and give up references where the interpreter counts them in its own way
_COUNTS = """
define internal void @hold(ptr %x) nounwind {
  call void [Py_IncRef](ptr %x)
  ret void
}
define internal void @drop(ptr %x) nounwind {
  call void [Py_DecRef](ptr %x)
  ret void
}
"""
#: the same where counts are plain numbers: only the last reference needs the interpreter
_PLAIN_COUNTS = """
define internal void @hold(ptr %x) nounwind {
  %count = load i64, ptr %x, align 8
  %more = add i64 %count, 1
  store i64 %more, ptr %x, align 8
  ret void
}
define internal void @drop(ptr %x) nounwind {
  %null = icmp eq ptr %x, null
  br i1 %null, label %done, label %look
look:
  %count = load i64, ptr %x, align 8
  %last = icmp eq i64 %count, 1
  br i1 %last, label %free, label %less
less:
  %fewer = sub i64 %count, 1
  store i64 %fewer, ptr %x, align 8
  ret void
free:
  call void [Py_DecRef](ptr %x)
  ret void
done:
  ret void
}
"""
#: functions of the module; objects are in braces, functions of the C interface in brackets
HELPERS = (
    """
define internal ptr @item(ptr %row, i64 %index) nounwind {
  %kind = getelementptr i8, ptr %row, i64 8
  %type = load ptr, ptr %kind, align 8
  %is_tuple = icmp eq ptr %type, {builtins:tuple}
  %inside = getelementptr i8, ptr %row, i64 TUPLE_ITEMS
  br i1 %is_tuple, label %here, label %there
there:
  %address = getelementptr i8, ptr %row, i64 24
  %items = load ptr, ptr %address, align 8
  br label %here
here:
  %first = phi ptr [ %inside, %0 ], [ %items, %there ]
  %place = getelementptr ptr, ptr %first, i64 %index
  %found = load ptr, ptr %place, align 8
  ret ptr %found
}
""",
    """
define internal i64 @size(ptr %row) nounwind {
  %place = getelementptr i8, ptr %row, i64 16
  %found = load i64, ptr %place, align 8
  ret i64 %found
}
""",
    """
define internal ptr @type_of(ptr %x) nounwind {
  %place = getelementptr i8, ptr %x, i64 8
  %found = load ptr, ptr %place, align 8
  ret ptr %found
}
""",
    """
define internal i32 @truth(ptr %x) nounwind {
  %yes = icmp eq ptr %x, {=True}
  br i1 %yes, label %true, label %more
true:
  ret i32 1
more:
  %no = icmp eq ptr %x, {=False}
  br i1 %no, label %false, label %other
other:
  %none = icmp eq ptr %x, {=None}
  br i1 %none, label %false, label %ask
false:
  ret i32 0
ask:
  %found = call i32 [PyObject_IsTrue](ptr %x)
  ret i32 %found
}
""",
    """
define internal i1 @is_row(ptr %x) nounwind {
  %type = call ptr @type_of(ptr %x)
  %is_list = icmp eq ptr %type, {builtins:list}
  %is_tuple = icmp eq ptr %type, {builtins:tuple}
  %found = or i1 %is_list, %is_tuple
  ret i1 %found
}
""",
    """
define internal ptr @subscript(ptr %x, ptr %key) nounwind {
  %is_dict = call i1 @is_table(ptr %x)
  br i1 %is_dict, label %table, label %row
table:
  %entry = call ptr [PyDict_GetItemWithError](ptr %x, ptr %key)
  %missing = icmp eq ptr %entry, null
  br i1 %missing, label %absent, label %hold_entry
absent:
  %error = call ptr [PyErr_Occurred]()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %null, label %general
null:
  ret ptr null
hold_entry:
  call void @hold(ptr %entry)
  ret ptr %entry
row:
  %is_row = call i1 @is_row(ptr %x)
  br i1 %is_row, label %number, label %general
number:
  %kind = call ptr @type_of(ptr %key)
  %is_int = icmp eq ptr %kind, {builtins:int}
  br i1 %is_int, label %index, label %general
index:
  %given = call i64 [PyLong_AsSsize_t](ptr %key)
  %count = call i64 @size(ptr %x)
  %below = icmp slt i64 %given, 0
  %added = add i64 %given, %count
  %place = select i1 %below, i64 %added, i64 %given
  %inside = icmp ult i64 %place, %count
  br i1 %inside, label %take, label %general_number
general_number:
  %problem = call ptr [PyErr_Occurred]()
  %bad = icmp ne ptr %problem, null
  br i1 %bad, label %null, label %general
take:
  %item = call ptr @item(ptr %x, i64 %place)
  call void @hold(ptr %item)
  ret ptr %item
general:
  %found = call ptr [PyObject_GetItem](ptr %x, ptr %key)
  ret ptr %found
}
""",
    """
define internal ptr @get(ptr %x, ptr %key, ptr %name) nounwind {
  %is_dict = call i1 @is_table(ptr %x)
  br i1 %is_dict, label %table, label %general
table:
  %entry = call ptr [PyDict_GetItemWithError](ptr %x, ptr %key)
  %missing = icmp eq ptr %entry, null
  br i1 %missing, label %absent, label %present
present:
  call void @hold(ptr %entry)
  ret ptr %entry
absent:
  %error = call ptr [PyErr_Occurred]()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %null, label %nothing
null:
  ret ptr null
nothing:
  %none = getelementptr i8, ptr {=None}, i64 0
  call void @hold(ptr %none)
  ret ptr %none
general:
  %row = alloca [2 x ptr], align 8
  store ptr %x, ptr %row, align 8
  %second = getelementptr ptr, ptr %row, i64 1
  store ptr %key, ptr %second, align 8
  %found = call ptr [PyObject_VectorcallMethod](ptr %name, ptr %row, i64 2, ptr null)
  ret ptr %found
}
""",
    """
define internal i32 @append(ptr %x, ptr %value, ptr %name) nounwind {
  %type = call ptr @type_of(ptr %x)
  %is_list = icmp eq ptr %type, {builtins:list}
  br i1 %is_list, label %list, label %general
list:
  %status = call i32 [PyList_Append](ptr %x, ptr %value)
  ret i32 %status
general:
  %row = alloca [2 x ptr], align 8
  store ptr %x, ptr %row, align 8
  %second = getelementptr ptr, ptr %row, i64 1
  store ptr %value, ptr %second, align 8
  %found = call ptr [PyObject_VectorcallMethod](ptr %name, ptr %row, i64 2, ptr null)
  %missing = icmp eq ptr %found, null
  br i1 %missing, label %failed, label %done
failed:
  ret i32 -1
done:
  call void @drop(ptr %found)
  ret i32 0
}
""",
    """
define internal ptr @row_of(ptr %x, ptr %message) nounwind {
  %is_row = call i1 @is_row(ptr %x)
  br i1 %is_row, label %same, label %make
same:
  call void @hold(ptr %x)
  ret ptr %x
make:
  %found = call ptr [PySequence_Fast](ptr %x, ptr %message)
  ret ptr %found
}
""",
    """
define internal i32 @add_to(ptr %x, ptr %value, ptr %name) nounwind {
  %type = call ptr @type_of(ptr %x)
  %is_set = icmp eq ptr %type, {builtins:set}
  br i1 %is_set, label %set, label %general
set:
  %status = call i32 [PySet_Add](ptr %x, ptr %value)
  ret i32 %status
general:
  %again = call i32 @append(ptr %x, ptr %value, ptr %name)
  ret i32 %again
}
""",
    """
define internal i64 @spread(ptr %row, ptr %room, i64 %most) nounwind {
  %is_row = call i1 @is_row(ptr %row)
  br i1 %is_row, label %begin, label %other
begin:
  %count = call i64 @size(ptr %row)
  %few = icmp ule i64 %count, %most
  br i1 %few, label %loop, label %other
loop:
  %number = phi i64 [ 0, %begin ], [ %next, %turn ]
  %more = icmp ult i64 %number, %count
  br i1 %more, label %turn, label %done
turn:
  %item = call ptr @item(ptr %row, i64 %number)
  call void @hold(ptr %item)
  %word = getelementptr ptr, ptr %room, i64 %number
  store ptr %item, ptr %word, align 8
  %next = add i64 %number, 1
  br label %loop
done:
  ret i64 %count
other:
  ret i64 -1
}
""",
    """
define internal void @drop_all(ptr %room, i64 %count) nounwind {
begin:
  br label %loop
loop:
  %number = phi i64 [ 0, %begin ], [ %next, %turn ]
  %more = icmp ult i64 %number, %count
  br i1 %more, label %turn, label %done
turn:
  %word = getelementptr ptr, ptr %room, i64 %number
  %item = load ptr, ptr %word, align 8
  call void @drop(ptr %item)
  %next = add i64 %number, 1
  br label %loop
done:
  ret void
}
""",
    """
define internal i64 @gather(ptr %values, ptr %places, ptr %room, i64 %most) nounwind {
  %has_values = call i1 @is_row(ptr %values)
  %has_places = call i1 @is_row(ptr %places)
  %rows = and i1 %has_values, %has_places
  br i1 %rows, label %begin, label %other
begin:
  %count = call i64 @size(ptr %places)
  %few = icmp ule i64 %count, %most
  br i1 %few, label %loop, label %other
loop:
  %number = phi i64 [ 0, %begin ], [ %next, %found ]
  %more = icmp ult i64 %number, %count
  br i1 %more, label %turn, label %done
turn:
  %place = call ptr @item(ptr %places, i64 %number)
  %kind = call ptr @type_of(ptr %place)
  %is_int = icmp eq ptr %kind, {builtins:int}
  br i1 %is_int, label %index, label %other
index:
  %given = call i64 [PyLong_AsSsize_t](ptr %place)
  %total = call i64 @size(ptr %values)
  %inside = icmp ult i64 %given, %total
  br i1 %inside, label %found, label %outside
found:
  %item = call ptr @item(ptr %values, i64 %given)
  %word = getelementptr ptr, ptr %room, i64 %number
  store ptr %item, ptr %word, align 8
  %next = add i64 %number, 1
  br label %loop
done:
  ret i64 %count
outside:
  call void [PyErr_Clear]()
  br label %other
other:
  ret i64 -1
}
""",
)
