"""Row calls: a program that is one row of launches, as a Python function of its arguments.

A learned call (:mod:`phonograd.core.array.single`) of small arrays takes longer to list the arguments, to find the
places of results and to count the run than its kernels take. This function of machine code does all of it::

    call_row(front, arguments...):
        if an argument is not a plain contiguous array, or is given twice, or front.admit() is false:
            return front.otherwise(arguments...)
        results = [new array for each entry of front.made]
        objects = arguments, results and the other arrays of the row, in its order
        objects[ARENA] = memory on the stack, if there is an arena
        without the GIL:
            driver(front.record, objects)
        return results[0], or a list of the results in the order of front.order

It takes programs from :mod:`.program` (:meth:`.RecipeProgram.whole_row`). Without it (other interpreters, no GIL) the
program runs as always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import DType
from ..graph.node import Shape
from ..lower.ir.function_builder import Index
from . import kernel_cache, memory_pool, pointers
from .driver import Row
from .launcher import ARENA, TableCode
from .object_layout import CONTIGUOUS, DATA, FLAGS, METH_FASTCALL, PythonFunction, empty, object_address

__all__ = ["RowCalls", "WholeRow"]

#: functions of the Python C API that the code calls
_API = (
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyList_New",
    "PyList_SetItem",
    "PyLong_AsVoidPtr",
    "PyObject_CallObject",
    "PyObject_VectorcallDict",
    "Py_DecRef",
    "Py_IncRef",
)
_ENTRIES = (*_API, "empty", "driver", "array", "true")
#: words of the front
_WORDS = (
    *("record", "slot_count", "sources", "room", "argument_count", "made_count", "made", "result_count", "order"),
    *("admit", "admit_arguments", "otherwise", "is_list"),
)
#: words of an array that the row makes: axes, extents and dtype, or a function and its arguments for large ones
_MADE_WORDS = 5


class WholeRow(NamedTuple):
    """A row of launches that is all of a run of a program."""

    row: Row
    slots: list[int]
    """The slots of the arrays, in the order in which the row numbers them: inputs come first, then fixed values."""
    made: list[tuple[int, Shape, DType]]
    """Slot, shape and dtype of every array that a run makes."""
    fixed: list[Any]
    """The values of the slots that follow the inputs; None if they are made."""
    room: int
    """The bytes of an arena on the stack; 0 if there is none."""


def row_call_text() -> str:
    """Return the text of the module; its function ``row_call`` stores the addresses of the table and of the code."""
    f = TableCode("call_row", "ptr %self, ptr %arguments, i64 %count", _ENTRIES)
    front = f.call("ptr", "PyLong_AsVoidPtr", "ptr %self")
    f.leave_if(f.assign(f"icmp eq ptr {front}, null"), "error")

    def word(name: str, kind: str = "i64") -> str:
        return f.load_word(front, str(_WORDS.index(name)), kind)

    made_count, slot_count, room = word("made_count"), word("slot_count"), word("room")
    made, objects = (f.assign(f"alloca ptr, i64 {count}, align 8") for count in (made_count, slot_count))
    arena, cell = f.assign(f"alloca i8, i64 {room}, align 64"), f.assign("alloca ptr, align 8")
    f.line(f"store ptr {arena}, ptr {cell}, align 8")
    done = f.assign("alloca i64, align 8")
    f.store_word(done, "0", "0")
    _check_arguments(f, word("argument_count"))
    # any Python code may run here: the caller holds the arguments, and this function the results
    admitted = f.call("ptr", "PyObject_CallObject", f"ptr {word('admit', 'ptr')}, ptr {word('admit_arguments', 'ptr')}")
    f.leave_if(f.assign(f"icmp eq ptr {admitted}, null"), "error")
    f.call("void", "Py_DecRef", f"ptr {admitted}")
    f.leave_unless(f.assign(f"icmp eq ptr {admitted}, {f.entry('true')}"), "other")
    entries = word("made", "ptr")
    f.for_each(
        "0", made_count, lambda k: _make(f, f.address(entries, f.times(k, str(_MADE_WORDS)), "i64"), made, k, done)
    )
    sources = word("sources", "ptr")

    def place(k: Index) -> None:
        # numbers of arguments, -1 - numbers of results, or addresses of other arrays, which are larger
        source = f.load_word(sources, k)
        given = f.address("%arguments", source, "ptr")
        taken = f.address(made, f.minus("-1", source), "ptr")
        own = f.address(f.address(sources, slot_count, "i64"), k, "i64")
        is_given = f.test("ult", source, "%count")
        is_other = f.test("eq", source, "%count")
        chosen = f.assign(f"select i1 {is_given}, ptr {given}, ptr {taken}")
        f.store_word(
            objects, k, f.load_word(f.assign(f"select i1 {is_other}, ptr {own}, ptr {chosen}"), "0", "ptr"), "ptr"
        )

    def put_arena() -> None:
        # the driver reads only the data address, so this looks like an array to it
        f.store_word(objects, str(ARENA), f.address(cell, str(-DATA), "i8"), "ptr")

    f.for_each("0", slot_count, place)
    f.when(f.test("ne", room, "0"), put_arena)
    state = f.call("ptr", "PyEval_SaveThread")
    f.call("void", "driver", f"ptr {word('record', 'ptr')}, ptr {objects}")
    f.call("void", "PyEval_RestoreThread", f"ptr {state}")
    _give_results(f, word("is_list"), word("result_count"), word("order", "ptr"), made, made_count)
    f.label("other")
    otherwise = word("otherwise", "ptr")
    result = f.call("ptr", "PyObject_VectorcallDict", f"ptr {otherwise}, ptr %arguments, i64 %count, ptr null")
    f.line(f"ret ptr {result}")
    f.label("drop")
    _drop_all(f, made, f.load_word(done, "0"))
    f.go("error")
    f.label("error")
    f.line("ret ptr null")
    return f.module("row_call")


def _check_arguments(f: TableCode, expected: Index) -> None:
    """Write the checks that arguments are different plain arrays, each in one piece."""
    f.leave_unless(f.test("eq", "%count", expected), "other")

    def check(k: Index) -> None:
        argument = f.load_word("%arguments", k, "ptr")
        f.leave_unless(f.assign(f"icmp eq ptr {f.load_word(argument, '1', 'ptr')}, {f.entry('array')}"), "other")
        flags = f.assign(f"load i32, ptr {f.address(argument, str(FLAGS), 'i8')}, align 8")
        f.leave_if(f.assign(f"icmp eq i32 {f.assign(f'and i32 {flags}, {CONTIGUOUS}')}, 0"), "other")

        def differs(other: Index) -> None:
            f.leave_if(f.assign(f"icmp eq ptr {f.load_word('%arguments', other, 'ptr')}, {argument}"), "other")

        f.for_each("0", k, differs)

    f.for_each("0", "%count", check)


def _make(f: TableCode, entry: str, made: str, number: Index, done: str) -> None:
    """Write the making of an array: by NumPy's own function, or by a Python function if it is large."""
    axes, extents, dtype = f.load_word(entry, "0"), f.load_word(entry, "1", "ptr"), f.load_word(entry, "2", "ptr")
    function, arguments = f.load_word(entry, "3", "ptr"), f.load_word(entry, "4", "ptr")

    def small() -> None:
        # NumPy takes a reference over
        f.call("void", "Py_IncRef", f"ptr {dtype}")
        count = f.assign(f"trunc i64 {axes} to i32")
        f.store_word(made, number, f.call("ptr", "empty", f"i32 {count}, ptr {extents}, ptr {dtype}, i32 0"), "ptr")

    def large() -> None:
        f.store_word(made, number, f.call("ptr", "PyObject_CallObject", f"ptr {function}, ptr {arguments}"), "ptr")

    f.when(f.assign(f"icmp eq ptr {function}, null"), small, large)
    f.leave_if(f.assign(f"icmp eq ptr {f.load_word(made, number, 'ptr')}, null"), "drop")
    f.store_word(done, "0", f.plus(number, "1"))


def _give_results(f: TableCode, is_list: Index, count: Index, order: str, made: str, made_count: Index) -> None:
    """Write the return of the only result, or of the list of results; arrays that are none are dropped."""

    def result(k: Index) -> str:
        array = f.load_word(made, f.load_word(order, k), "ptr")
        f.call("void", "Py_IncRef", f"ptr {array}")
        return array

    f.leave_if(f.test("ne", is_list, "0"), "several")
    only = result("0")
    _drop_all(f, made, made_count)
    f.line(f"ret ptr {only}")
    f.label("several")
    row = f.call("ptr", "PyList_New", f"i64 {count}")
    f.leave_if(f.assign(f"icmp eq ptr {row}, null"), "drop")

    def put(k: Index) -> None:
        # the place exists, so this cannot fail; the list takes the reference
        f.call("i32", "PyList_SetItem", f"ptr {row}, i64 {k}, ptr {result(k)}")

    f.for_each("0", count, put)
    _drop_all(f, made, made_count)
    f.line(f"ret ptr {row}")


def _drop_all(f: TableCode, objects: str, count: Index) -> None:
    """Write that references to objects are given up."""

    def drop(k: Index) -> None:
        f.call("void", "Py_DecRef", f"ptr {f.load_word(objects, k, 'ptr')}")

    f.for_each("0", count, drop)


class _Place(int):
    """The address of what a function reads, with the objects that it refers to.

    The function owns it: a call goes on with them while another thread puts a newer function in its place.
    """

    kept: tuple[Any, ...]


class RowCalls:
    """The compiled code, which makes Python functions of rows; these must not outlive this object."""

    def __init__(self, driver: int) -> None:
        memory_pool.keep_freed_pages()
        self._kernel = kernel_cache.compile_module(row_call_text, (), "row_call", quick=True)
        found = np.zeros(2, np.int64)
        pointers.foreign_function(self._kernel.address, "nothing", "address")(pointers.address(found))
        state, code = found.tolist()
        known = [object_address(value) for value in (np.ndarray, True)]
        entries = [*[pointers.python_function(name) for name in _API], empty(), driver, *known]
        pointers.words_at(state, len(entries))[:] = entries
        self._function = PythonFunction("call_row", code, "call_row(*arguments)\n--\n\n", METH_FASTCALL)

    def function(
        self,
        whole: WholeRow,
        arguments: Sequence[int],
        results: Sequence[int],
        is_list: bool,
        admit: tuple[Callable[..., bool], tuple[Any, ...]],
        otherwise: Callable[..., Any],
    ) -> tuple[Callable[..., Any], Any]:
        """Return the function of a row, and the objects that must live as long as it does.

        Parameters
        ----------
        whole
            The row.
        arguments
            By number of an input of the program, the argument that it is.
        results
            The slots of the results, which the row must make.
        is_list
            Whether the function returns a list.
        admit
            A function, and its arguments, that says whether to go on.
        otherwise
            The function that is called with the arguments if not.
        """
        numbers = {slot: -1 - number for number, (slot, _, _) in enumerate(whole.made)}
        others = [0] * len(whole.slots)
        sources = []
        for place, slot in enumerate(whole.slots):
            if slot < len(arguments):
                sources.append(arguments[slot])
            elif slot in numbers:
                sources.append(numbers[slot])
            else:
                others[place] = object_address(whole.fixed[slot - len(arguments)])
                sources.append(len(arguments))
        extents = [np.array(shape, np.int64) for _, shape, _ in whole.made]
        requests = [_request(shape, dtype) for _, shape, dtype in whole.made]
        entries = [
            (
                len(shape),
                pointers.address(array),
                object_address(dtype),
                object_address(memory_pool.allocate) if request else 0,
                object_address(request) if request else 0,
            )
            for (_, shape, dtype), array, request in zip(whole.made, extents, requests, strict=True)
        ]
        tables = [
            np.array(table, np.int64).reshape(-1)
            for table in ([*sources, *others], entries, [-1 - numbers[slot] for slot in results])
        ]
        places, made, order = map(pointers.address, tables)
        words = {
            "record": whole.row.record,
            "slot_count": len(whole.slots),
            "sources": places,
            "room": whole.room,
            "argument_count": len(arguments),
            "made_count": len(whole.made),
            "made": made,
            "result_count": len(results),
            "order": order,
            "admit": object_address(admit[0]),
            "admit_arguments": object_address(admit[1]),
            "otherwise": object_address(otherwise),
            "is_list": int(is_list),
        }
        front = np.array([words[name] for name in _WORDS], np.int64)
        kept = self, whole, tables, extents, requests, admit, otherwise, front
        place = _Place(pointers.address(front))
        place.kept = kept
        return self._function.bind(place, __name__), kept


def _request(shape: Shape, dtype: DType) -> tuple[Any, ...] | None:
    """Return the arguments for memory of the pool for an array; None if the C library serves it in less time.

    It keeps the pages of freed arrays: 60 arrays of 64 KB in a list take 0.96 us each, one after the other 0.85, and
    those of the pool a microsecond more.
    """
    room = memory_pool.room_for(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    return (shape, dtype, room) if room >= memory_pool.LEAST_MAPPED_BYTES else None
