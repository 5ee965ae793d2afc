"""Single launches: a kernel that one thread runs at once, called as a Python function of machine code.

:class:`~phonograd.core.run.driver.SizedLaunch` runs kernels whose sizes are new in every call. To write them into the
record of a row, and to call the driver by a foreign function, takes longer than most small kernels run. Where the work
is not worth sharing, this function does all of it, on its own stack::

    launch_alone(cell, (table, extent, arrays)):
        words = the numbers of the tuple table
        bases = the data addresses of the tuple arrays
        without the GIL:
            cell.kernel(words, bases, 0, extent)
        return None

Without it (other interpreters, no GIL), a row does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..lower.ir.function_builder import Index, Value
from . import kernel_cache, pointers
from .launcher import TableCode
from .object_layout import DATA, PythonFunction, object_address

__all__ = ["SingleLauncher", "precompile"]

#: functions of the Python C API that the code calls, and the other entries of its table
_API = (
    "PyTuple_GetItem",
    "PyTuple_Size",
    "PyLong_AsLongLong",
    "PyLong_AsVoidPtr",
    "PyErr_Occurred",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
)
_OTHERS = ("none",)


def single_launch_text() -> str:
    """Return the text of the module; its function ``single_launch`` stores the addresses of the table and of this."""
    f = TableCode("launch_alone", "ptr %self, ptr %given", (*_API, *_OTHERS))
    cell = f.call("ptr", "PyLong_AsVoidPtr", "ptr %self")
    f.leave_unless(f.assign(f"icmp ne ptr {cell}, null"), "error")
    table, size, arrays = [_item(f, "%given", str(place)) for place in range(3)]
    extent = f.call("i64", "PyLong_AsLongLong", f"ptr {size}")
    counts = [f.call("i64", "PyTuple_Size", f"ptr {row}") for row in (table, arrays)]
    for count in counts:
        f.leave_unless(f.test("sge", count, "0"), "error")
    words, bases = [f.assign(f"alloca i64, i64 {count}, align 8") for count in counts]

    def word(index: Index, _: list[Value]) -> tuple[()]:
        f.store_word(words, index, f.call("i64", "PyLong_AsLongLong", f"ptr {_item(f, table, index)}"))
        return ()

    def base(index: Index, _: list[Value]) -> tuple[()]:
        data = f.address(_item(f, arrays, index), str(DATA), "i8")
        f.store_word(bases, index, f.load_word(data, "0", "ptr"), "ptr")
        return ()

    f.loop("0", counts[0], "1", (), word)
    f.loop("0", counts[1], "1", (), base)
    # a number that does not fit
    f.leave_unless(f.assign(f"icmp eq ptr {f.call('ptr', 'PyErr_Occurred')}, null"), "error")
    # the caller holds the tuples, and they hold the arrays; tier-up exchanges the kernel
    kernel = f.load_word(cell, "0", "ptr")
    state = f.call("ptr", "PyEval_SaveThread")
    f.line(f"call void {kernel}(ptr {words}, ptr {bases}, i64 0, i64 {extent})")
    f.call("void", "PyEval_RestoreThread", f"ptr {state}")
    f.give_back("none")
    f.label("error")
    f.line("ret ptr null")
    return f.module("single_launch")


def _item(f: TableCode, row: str, index: Index) -> str:
    """Return an item of a tuple."""
    found = f.call("ptr", "PyTuple_GetItem", f"ptr {row}, i64 {index}")
    f.leave_unless(f.assign(f"icmp ne ptr {found}, null"), "error")
    return found


def precompile() -> None:
    """Start to compile the function in another thread."""
    kernel_cache.precompile_module(single_launch_text, ())


class SingleLauncher:
    """The compiled function, which makes Python functions of kernels; these must not outlive this object."""

    def __init__(self) -> None:
        self._kernel = kernel_cache.compile_module(single_launch_text, (), "single_launch", quick=True)
        found = np.zeros(2, np.int64)
        pointers.foreign_function(self._kernel.address, "nothing", "address")(pointers.address(found))
        state, launch = found.tolist()
        entries = [*[pointers.python_function(name) for name in _API], object_address(None)]
        pointers.words_at(state, len(entries))[:] = entries
        self._function = PythonFunction("launch_alone", launch, "launch_alone(given, /)\n--\n\n")

    def function(self, cell: int) -> Callable[[Any], None]:
        """Return the function that runs a kernel, given the address of its cell."""
        return self._function.bind(cell, __name__)
