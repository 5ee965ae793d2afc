"""The launcher: makes each row of launches a Python function of machine code, which takes the list of all values.

A row needs arrays for its results, a check that its inputs are contiguous, an arena, and a foreign call. In Python this
takes longer than most small kernels, so all of it is one function of machine code, used by
:mod:`~phonograd.core.run.driver`::

    launch(front, values):
        for slot, axes, extents, dtype in front.made:
            if values[slot] is None:
                values[slot] = PyArray_Empty(axes, extents, dtype)
        objects = [values[slot] for slot in front.slots]
        if one of them is not a contiguous plain array:
            return False
        objects[ARENA] = memory on the stack, if the arena is small
        without the GIL:
            driver(front.record, objects)
        return True

Without it (other interpreters, no GIL), Python does the same and calls :meth:`phonograd.core.run.driver.Row.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import settings
from ..base.dtypes import DType
from ..graph.node import Shape
from ..lower.ir.function_builder import FunctionBuilder, Index, Value
from . import kernel_cache, pointers
from .object_layout import (
    CONTIGUOUS,
    DATA,
    FLAGS,
    PythonFunction,
    can_make_arrays,
    empty,
    object_address,
)

__all__ = ["ARENA", "MOST_ON_STACK", "Launcher", "TableCode", "is_supported", "precompile"]

#: maximum bytes of an arena on the stack
MOST_ON_STACK = 1 << 15
#: number of the arena among the arrays of a row
ARENA = 1
#: functions of the Python C API that the code calls
_API = (
    "PyList_GetItem",
    "PyList_SetItem",
    "PyLong_AsVoidPtr",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
)
#: the other entries of its table
_OTHERS = ("empty", "driver", "array", "none", "true", "false")

#: words of the description of a row, and of an array that it makes
_RECORD, _SLOT_COUNT, _SLOTS, _MADE_COUNT, _MADE, _ROOM = range(6)
_MADE_WORDS = 4


class TableCode(FunctionBuilder):
    """The text of a function that a Python function calls; it finds objects and functions in the table ``@state``."""

    def __init__(self, name: str, arguments: str, entries: Sequence[str]) -> None:
        super().__init__(name, arguments, "ptr", internal=True)
        self._entries = entries

    def entry(self, name: str) -> str:
        """Load an entry of the table."""
        return self.load_word("@state", str(self._entries.index(name)), "ptr")

    def call(self, kind: str, name: str, arguments: str = "") -> str:
        """Call a function of the table and return its result."""
        text = f"call {kind} {self.entry(name)}({arguments})"
        if kind != "void":
            return self.assign(text)
        self.line(text)
        return ""

    def give_back(self, name: str) -> None:
        """Write the return of an object of the table."""
        self.call("void", "Py_IncRef", f"ptr {self.entry(name)}")
        self.line(f"ret ptr {self.entry(name)}")

    def module(self, found: str) -> str:
        """Return the text of the module; its function ``found`` stores the addresses of the table and of this one."""
        return (
            f"@state = internal global [{len(self._entries)} x ptr] zeroinitializer, align 8\n"
            f"{self.text()}"
            f"define void @{found}(ptr %found) nounwind {{\n"
            "  store ptr @state, ptr %found, align 8\n"
            "  %second = getelementptr ptr, ptr %found, i64 1\n"
            f"  store ptr @{self.name}, ptr %second, align 8\n"
            "  ret void\n}\n"
        )


def launcher_text() -> str:
    """Return the text of the module; its function ``launcher`` stores the addresses of the table and of ``launch``."""
    f = TableCode("launch", "ptr %self, ptr %values", (*_API, *_OTHERS))
    front = f.call("ptr", "PyLong_AsVoidPtr", "ptr %self")
    f.leave_unless(f.assign(f"icmp ne ptr {front}, null"), "error")
    made, slots, count = f.load_word(front, str(_MADE), "ptr"), f.load_word(front, str(_SLOTS), "ptr"), "%count"
    f.line(f"%count = load i64, ptr {f.address(front, str(_SLOT_COUNT), 'i64')}, align 8")
    objects, room = f.assign("alloca ptr, i64 %count, align 8"), f.load_word(front, str(_ROOM))
    arena, cell = f.assign(f"alloca i8, i64 {room}, align 64"), f.assign("alloca ptr, align 8")
    f.line(f"store ptr {arena}, ptr {cell}, align 8")

    def look(index: Index, _: list[Value]) -> tuple[()]:
        entry = f.address(made, f.times(index, str(_MADE_WORDS)), "i64")
        slot = f.load_word(entry, "0")
        before = f.call("ptr", "PyList_GetItem", f"ptr %values, i64 {slot}")
        f.leave_unless(f.assign(f"icmp ne ptr {before}, null"), "error")
        f.choose(f.assign(f"icmp eq ptr {before}, {f.entry('none')}"), lambda: make(entry, slot), tuple)
        return ()

    def make(entry: str, slot: str) -> tuple[()]:
        axes = f.assign(f"trunc i64 {f.load_word(entry, '1')} to i32")
        extents, dtype = f.load_word(entry, "2", "ptr"), f.load_word(entry, "3", "ptr")
        # NumPy takes a reference over, and the list one to the array
        f.call("void", "Py_IncRef", f"ptr {dtype}")
        array = f.call("ptr", "empty", f"i32 {axes}, ptr {extents}, ptr {dtype}, i32 0")
        f.leave_unless(f.assign(f"icmp ne ptr {array}, null"), "error")
        status = f.call("i32", "PyList_SetItem", f"ptr %values, i64 {slot}, ptr {array}")
        f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "error")
        return ()

    def take(index: Index, _: list[Value]) -> tuple[()]:
        value = f.call("ptr", "PyList_GetItem", f"ptr %values, i64 {f.load_word(slots, index)}")
        f.leave_unless(f.assign(f"icmp ne ptr {value}, null"), "error")
        f.leave_unless(f.assign(f"icmp eq ptr {f.load_word(value, '1', 'ptr')}, {f.entry('array')}"), "other")
        flags = f.assign(f"load i32, ptr {f.address(value, str(FLAGS), 'i8')}, align 8")
        bit = f.assign(f"and i32 {flags}, {CONTIGUOUS}")
        f.leave_unless(f.assign(f"icmp ne i32 {bit}, 0"), "other")
        f.store_word(objects, index, value, "ptr")
        return ()

    def put_arena() -> tuple[()]:
        # the driver reads only the data address, so this looks like an array to it
        f.store_word(objects, str(ARENA), f.address(cell, str(-DATA), "i8"), "ptr")
        return ()

    f.loop("0", f.load_word(front, str(_MADE_COUNT)), "1", (), look)
    f.loop("0", count, "1", (), take)
    f.choose(f.assign(f"icmp ne i64 {room}, 0"), put_arena, tuple)
    state = f.call("ptr", "PyEval_SaveThread")
    f.call("void", "driver", f"ptr {f.load_word(front, str(_RECORD), 'ptr')}, ptr {objects}")
    f.call("void", "PyEval_RestoreThread", f"ptr {state}")
    f.give_back("true")
    f.label("other")
    f.give_back("false")
    f.label("error")
    f.line("ret ptr null")
    return f.module("launcher")


def is_supported() -> bool:
    """Return whether this interpreter supports the launcher, and the settings allow it."""
    return settings.current().native_calls and can_make_arrays()


def precompile() -> None:
    """Start to compile the function in another thread, if it will be used."""
    if is_supported():
        kernel_cache.precompile_module(launcher_text, ())


class Launcher:
    """The compiled function, which makes Python functions of rows.

    Parameters
    ----------
    driver
        The address of the driver.
    """

    def __init__(self, driver: int) -> None:
        self._kernel = kernel_cache.compile_module(launcher_text, (), "launcher", quick=True)
        found = np.zeros(2, np.int64)
        pointers.foreign_function(self._kernel.address, "nothing", "address")(pointers.address(found))
        state, launch = found.tolist()
        known = [object_address(value) for value in (np.ndarray, None, True, False)]
        entries = [*[pointers.python_function(name) for name in _API], empty(), driver, *known]
        pointers.words_at(state, len(entries))[:] = entries
        self._function = PythonFunction("launch", launch, "launch(values, /)\n--\n\n")

    def function(
        self, record: int, slots: Sequence[int], made: Sequence[tuple[int, Shape, DType]], room: int
    ) -> tuple[Callable[[list[Any]], bool], Any]:
        """Return the function of a row, and the objects that must live as long as it does.

        Parameters
        ----------
        record
            The address of the row's record for the driver.
        slots
            The slots of the row's arrays in the list of values.
        made
            Slot, shape and dtype of the arrays to make first, unless the slot is filled.
        room
            The size of an arena on the stack; 0 if the arena is one of the arrays.
        """
        places = np.array(slots, np.int64)
        extents = [np.array(shape, np.int64) for _, shape, _ in made]
        entries = [
            [slot, len(shape), pointers.address(array), object_address(dtype)]
            for (slot, shape, dtype), array in zip(made, extents, strict=True)
        ]
        words = np.array(entries, np.int64).reshape(-1)
        tables = pointers.address(places), len(made), pointers.address(words)
        front = np.array([record, len(places), *tables, room], np.int64)
        function = self._function.bind(pointers.address(front), __name__)
        return function, (self, places, extents, [dtype for _, _, dtype in made], words, front)
