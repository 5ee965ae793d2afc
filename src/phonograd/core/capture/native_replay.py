"""Native replay: repeats a captured call whose program is one row of launches in one function of machine code.

A small network computes for a few microseconds. Recognizing a call that is like the one before, gathering the weights,
checking their packed forms and making the result took longer than that in Python. :class:`NativeReplay` does it::

    replay(front, (arguments, memory, arena)):
        handle = new array, of this memory or of new memory
        values = arguments, outside arrays and constants, in the order of the program's inputs
        values += packed forms, if the program takes them and each is that of its input
        if an array is not what the front says (class, shape, dtype, variable, pending, not contiguous):
            return None
        without the GIL:
            driver(front.record, values)
        return handle

It takes programs from :class:`.replay.Replay` and hands arrays to :mod:`.compiled`, which does everything itself where
the function returns None. Everything that can change between two calls is read anew, so a front is never stale. See
docs/decisions/0028.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..array.extras import ArrayExtras
from ..array.fastcall import native_call
from ..array.handle import DENSE
from ..base import settings
from ..graph.operator import Array
from ..lower.ir.function_builder import Index, Value
from ..plan import promotion
from ..run import driver, kernel_cache, launcher, memory_pool, packed_operands, pointers, thread_pool
from ..run.launcher import ARENA, TableCode
from ..run.native_function import slot_offset
from ..run.object_layout import CONTIGUOUS, DATA, FLAGS, ITEMS, PythonFunction, empty, object_address
from ..run.program import OnlyRow, RecipeProgram

__all__ = ["ArgumentKind", "NativeReplay", "Source", "code"]

_BYTE = np.dtype(np.uint8)

#: functions of the Python C API that the code calls
_API = (
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyList_GetItem",
    "PyLong_AsVoidPtr",
    "PyTuple_Size",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)
_ENTRIES = (*_API, "empty", "driver", "array", "none")

#: words of the front, of an argument, and of an input
_WORDS = (
    *("record", "slot_count", "slots", "room", "class", "axes", "extents", "dtype", "result", "width"),
    *("argument_count", "arguments", "source_count", "sources", "fixed_count", "fixed"),
    *("program", "packed_program", "packed_count", "packed_sources"),
)
_ARGUMENT_WORDS, _SOURCE_WORDS = 4, 3
#: the place of the argument in an input that is none: a constant, or an outside array
_CONSTANT, _OUTSIDE = -1, -2


class ArgumentKind(NamedTuple):
    """What an argument must be: an array of a class, shape and dtype, or a certain object."""

    is_array: bool
    array_class: Any
    """The class, or the object."""
    shape: tuple[int, ...] = ()
    dtype: Any = None


class Source(NamedTuple):
    """An input of the program: the number of an argument, an outside array with the variable it is, or a constant."""

    argument: int | None = None
    handle: Any = None
    owner: Any = None
    constant: Array | None = None


def _offsets() -> tuple[tuple[str, int], ...]:
    """Return the offsets of attributes in objects."""
    target = np.empty(1)
    found = {name: slot_offset(DENSE[0], f"_{name}") for name in ("trace", "node", "buffer", "extras")}
    found["variable"] = slot_offset(ArrayExtras, "variable")
    reference = packed_operands.reference_to(target)
    places = [8 * k for k, word in enumerate(pointers.words_at(id(reference), 4)) if word == id(target)]
    if len(places) != 1:
        raise RuntimeError("the object that a weak reference refers to cannot be found")
    found["referent"] = places[0]
    found |= {name: slot_offset(packed_operands.PackedOperands, name) for name in ("entries", "program")}
    found["form"] = slot_offset(packed_operands.PackedForm, "array")
    found["packed"] = slot_offset(RecipeProgram, "packed")
    return tuple((found | (native_call.memory_offsets() or {})).items())


class _Text(TableCode):
    """Writes ``replay``."""

    def __init__(self, offsets: dict[str, int]) -> None:
        super().__init__("replay", "ptr %self, ptr %request", _ENTRIES)
        self._offsets = offsets

    def field(self, base: str, name: str) -> str:
        """Return the object that an attribute refers to."""
        return self.assign(f"load ptr, ptr {self.address(base, str(self._offsets[name]), 'i8')}, align 8")

    def word(self, front: str, name: str, kind: str = "i64") -> str:
        """Return a word of the front."""
        return self.load_word(front, str(_WORDS.index(name)), kind)

    def need(self, first: str, second: str) -> None:
        """Leave the decision to Python unless two addresses are equal."""
        self.leave_unless(self.assign(f"icmp eq ptr {first}, {second}"), "other")

    def need_none(self, value: str) -> None:
        """Leave the decision to Python unless an object is None."""
        self.need(value, self.entry("none"))

    def put(self, base: str, name: str, value: str) -> None:
        """Let an attribute of a new object refer to an object; the caller owns a reference, and gives it up."""
        self.line(f"store ptr {value}, ptr {self.address(base, str(self._offsets[name]), 'i8')}, align 8")

    def memory_of(self, handle: str) -> str:
        """Return the memory of an array, which must have a known value in one contiguous piece."""
        self.need_none(self.field(handle, "node"))
        memory = self.field(handle, "buffer")
        self.leave_if(self.assign(f"icmp eq ptr {memory}, null"), "other")
        self.need(self.load_word(memory, "1", "ptr"), self.entry("array"))
        flags = self.assign(f"load i32, ptr {self.address(memory, str(FLAGS), 'i8')}, align 8")
        bit = self.assign(f"and i32 {flags}, {CONTIGUOUS}")
        self.leave_unless(self.assign(f"icmp ne i32 {bit}, 0"), "other")
        return memory


def replay_text(offsets: tuple[tuple[str, int], ...]) -> str:
    """Return the text of the module; its function ``replaying`` stores the addresses of the table and of ``replay``."""
    f = _Text(dict(offsets))
    front = f.call("ptr", "PyLong_AsVoidPtr", "ptr %self")
    f.leave_unless(f.assign(f"icmp ne ptr {front}, null"), "error")
    asked = f.address("%request", str(ITEMS), "i8")
    for number, name in enumerate(("arguments", "prepared", "arena")):
        f.line(f"%{name} = load ptr, ptr {f.address(asked, str(number), 'ptr')}, align 8")
    _make_result(f, front)
    none = f.entry("none")
    for name in ("trace", "node", "extras"):
        f.call("void", "Py_IncRef", f"ptr {none}")
        f.put("%handle", name, none)
    f.put("%handle", "buffer", "%memory")
    slot_count, width, room = f.word(front, "slot_count"), f.word(front, "width"), f.word(front, "room")
    objects, values = f.assign(f"alloca ptr, i64 {slot_count}, align 8"), f.assign(f"alloca ptr, i64 {width}, align 8")
    arena, cell = f.assign(f"alloca i8, i64 {room}, align 64"), f.assign("alloca ptr, align 8")
    f.line(f"store ptr {arena}, ptr {cell}, align 8")
    given = f.address("%arguments", str(ITEMS), "i8")
    _check_arguments(f, front, given)
    _gather(f, front, given, values)
    held = _take_packed(f, front, values)
    fixed, first = f.word(front, "fixed", "ptr"), f.address(values, held, "ptr")
    f.for_each("0", f.word(front, "fixed_count"), lambda k: f.store_word(first, k, f.load_word(fixed, k, "ptr"), "ptr"))
    f.store_word(values, f.word(front, "result"), "%memory", "ptr")
    slots = f.word(front, "slots", "ptr")

    def place(k: Index) -> None:
        f.store_word(objects, k, f.load_word(values, f.load_word(slots, k), "ptr"), "ptr")

    def put_arena() -> None:
        # the driver reads only the data address, so this looks like an array to it
        f.store_word(objects, str(ARENA), f.address(cell, str(-DATA), "i8"), "ptr")

    def call_on_held(name: str) -> None:
        f.for_each("0", held, lambda k: _drop(f.call("void", name, f"ptr {f.load_word(values, k, 'ptr')}")))

    f.for_each("0", slot_count, place)
    f.when(f.assign(f"icmp ne i64 {room}, 0"), put_arena)
    has_arena = f.assign(f"icmp ne ptr %arena, {none}")
    f.when(has_arena, lambda: f.store_word(objects, str(ARENA), "%arena", "ptr"))
    # other threads may replace the arrays meanwhile
    call_on_held("Py_IncRef")
    state = f.call("ptr", "PyEval_SaveThread")
    f.call("void", "driver", f"ptr {f.word(front, 'record', 'ptr')}, ptr {objects}")
    f.call("void", "PyEval_RestoreThread", f"ptr {state}")
    call_on_held("Py_DecRef")
    f.line("ret ptr %handle")
    f.label("other")
    f.call("void", "Py_DecRef", "ptr %handle")
    f.give_back("none")
    f.label("failed")
    f.call("void", "Py_DecRef", "ptr %handle")
    f.go("error")
    f.label("unmade")
    f.call("void", "Py_DecRef", "ptr %memory")
    f.go("error")
    f.label("error")
    f.line("ret ptr null")
    return f.module("replaying")


def _drop(_: str) -> None:
    """Ignore the result of a call that has none."""


def _make_result(f: _Text, front: str) -> None:
    """Write the making of ``%memory`` for the result, unless it is prepared, and of the array ``%handle``.

    This comes first: it may run a garbage collection, and that any Python code.
    """
    cell = f.assign("alloca ptr, align 8")

    def take() -> None:
        f.call("void", "Py_IncRef", "ptr %prepared")
        f.store_word(cell, "0", "%prepared", "ptr")

    def make() -> None:
        axes = f.assign(f"trunc i64 {f.word(front, 'axes')} to i32")
        dtype, extents = f.word(front, "dtype", "ptr"), f.word(front, "extents", "ptr")
        # NumPy takes a reference over
        f.call("void", "Py_IncRef", f"ptr {dtype}")
        made = f.call("ptr", "empty", f"i32 {axes}, ptr {extents}, ptr {dtype}, i32 0")
        f.store_word(cell, "0", made, "ptr")

    f.when(f.assign(f"icmp ne ptr %prepared, {f.entry('none')}"), take, make)
    f.line(f"%memory = load ptr, ptr {cell}, align 8")
    f.leave_unless(f.assign("icmp ne ptr %memory, null"), "error")
    f.line(f"%handle = call ptr {f.entry('PyType_GenericAlloc')}(ptr {f.word(front, 'class', 'ptr')}, i64 0)")
    f.leave_unless(f.assign("icmp ne ptr %handle, null"), "unmade")


def _check_arguments(f: _Text, front: str, given: str) -> None:
    """Write the checks that all arguments are different and of the expected kinds."""
    size = f.call("i64", "PyTuple_Size", "ptr %arguments")
    count = f.word(front, "argument_count")
    f.leave_unless(f.test("eq", size, count), "other")
    kinds = f.word(front, "arguments", "ptr")

    def check(k: Index) -> None:
        argument = f.load_word(given, k, "ptr")
        kind = f.address(kinds, f.times(k, str(_ARGUMENT_WORDS)), "i64")
        axes = f.load_word(kind, "1")

        def differs(other: Index) -> None:
            f.leave_if(f.assign(f"icmp eq ptr {f.load_word(given, other, 'ptr')}, {argument}"), "other")

        def check_array() -> None:
            f.for_each("0", k, differs)
            f.need(f.load_word(argument, "1", "ptr"), f.load_word(kind, "0", "ptr"))
            f.need_none(f.field(argument, "extras"))
            memory = f.memory_of(argument)
            f.need(f.field(memory, "memory_dtype"), f.load_word(kind, "3", "ptr"))
            place = f.address(memory, str(f._offsets["memory_axes"]), "i8")
            found = f.assign(f"load i32, ptr {place}, align 8")
            f.leave_unless(f.test("eq", f.assign(f"zext i32 {found} to i64"), axes), "other")
            extents, expected = f.field(memory, "memory_extents"), f.load_word(kind, "2", "ptr")
            f.for_each(
                *("0", axes),
                lambda axis: f.leave_unless(
                    f.test("eq", f.load_word(extents, axis), f.load_word(expected, axis)), "other"
                ),
            )

        def check_object() -> None:
            f.need(argument, f.load_word(kind, "0", "ptr"))

        f.when(f.test("sge", axes, "0"), check_array, check_object)

    f.for_each("0", count, check)


def _gather(f: _Text, front: str, given: str, values: str) -> None:
    """Write the collection of the inputs: constants, arguments, and outside arrays that are the variables they were."""
    sources = f.word(front, "sources", "ptr")

    def gather(k: Index) -> None:
        source = f.address(sources, f.times(k, str(_SOURCE_WORDS)), "i64")
        number, known = f.load_word(source, "0"), f.load_word(source, "1", "ptr")

        def argument() -> None:
            f.store_word(values, k, f.field(f.load_word(given, number, "ptr"), "buffer"), "ptr")

        def outside() -> None:
            memory, extras = f.memory_of(known), f.field(known, "extras")
            owner = f.load_word(source, "2", "ptr")

            def check_variable() -> None:
                f.leave_if(f.assign(f"icmp eq ptr {extras}, null"), "other")
                f.need(f.field(extras, "variable"), owner)

            is_plain = f.assign(f"icmp eq ptr {extras}, {f.entry('none')}")
            f.when(is_plain, lambda: f.need_none(owner), check_variable)
            f.store_word(values, k, memory, "ptr")

        def constant() -> None:
            f.store_word(values, k, known, "ptr")

        is_outside = f.test("eq", number, str(_OUTSIDE))
        f.when(f.test("sge", number, "0"), argument, lambda: f.when(is_outside, outside, constant))

    f.for_each("0", f.word(front, "source_count"), gather)


def _take_packed(f: _Text, front: str, values: str) -> str:
    """Write the collection of packed forms, each of which must be that of its input; return the number of arrays."""
    sources = f.word(front, "source_count")
    packed = f.field(f.word(front, "program", "ptr"), "packed")
    expected = f.word(front, "packed_program", "ptr")

    def take_all() -> tuple[Value, ...]:
        f.leave_if(f.assign(f"icmp eq ptr {packed}, {f.entry('none')}"), "other")
        f.need(f.field(packed, "program"), expected)
        entries = f.field(packed, "entries")

        def take(k: Index) -> None:
            entry = f.call("ptr", "PyList_GetItem", f"ptr {entries}, i64 {k}")
            f.leave_unless(f.assign(f"icmp ne ptr {entry}, null"), "failed")
            row = f.address(entry, str(ITEMS), "i8")
            # the first item is the number of the input, which the front has, too
            form = f.field(f.load_word(row, "2", "ptr"), "form")
            f.leave_if(f.assign(f"icmp eq ptr {form}, {f.entry('none')}"), "other")
            place = f.load_word(f.word(front, "packed_sources", "ptr"), k)
            f.need(f.field(f.load_word(row, "1", "ptr"), "referent"), f.load_word(values, place, "ptr"))
            f.store_word(values, f.plus(sources, k), form, "ptr")

        f.for_each("0", f.word(front, "packed_count"), take)
        return ()

    def take_none() -> tuple[Value, ...]:
        f.need_none(packed)
        return ()

    f.choose(f.assign(f"icmp ne ptr {expected}, null"), take_all, take_none)
    return f.plus(sources, f.word(front, "packed_count"))


class _Code:
    """The compiled function, which makes Python functions of fronts."""

    def __init__(self) -> None:
        self._kernel = kernel_cache.compile_module(replay_text, (_offsets(),), "replaying", quick=True)
        found = np.zeros(2, np.int64)
        pointers.foreign_function(self._kernel.address, "nothing", "address")(pointers.address(found))
        state, replay = found.tolist()
        known = empty(), driver.address(), object_address(np.ndarray), object_address(None)
        entries = [*[pointers.python_function(name) for name in _API], *known]
        pointers.words_at(state, len(entries))[:] = entries
        self._function = PythonFunction("replay", replay, "replay(request, /)\n--\n\n")

    def bind(self, front: int) -> Callable[[tuple[tuple[Any, ...], Array | None, Array | None]], Any]:
        """Return the function of a front."""
        return self._function.bind(front, __name__)


_code: _Code | None = None


@functools.cache
def _request_code() -> None:
    """Start to compile the function, once; nobody waits for it."""

    def work() -> None:
        global _code
        if launcher.is_supported() and native_call.replays_are_possible(_offsets):
            _code = _Code()

    if settings.current().tiers == "background":
        promotion.submit(work)
    else:
        work()


def code() -> _Code | None:
    """Return the compiled function; None if it is not ready yet, not supported, or not allowed by the settings."""
    if not settings.current().native_calls:
        return None
    if _code is None:
        _request_code()
    return _code


class NativeReplay:
    """A captured call as a function of its arguments, a tuple, which returns None if Python has to repeat the call.

    Parameters
    ----------
    code
        The compiled function.
    program
        The program of the call.
    kinds
        What the arguments must be.
    sources
        The inputs of the program.
    array_class
        The class of the result.
    """

    __slots__ = ("_arena", "_executor", "_keep", "_made", "_run", "packed_program", "program")

    def __init__(
        self,
        code: _Code,
        program: RecipeProgram,
        kinds: Sequence[ArgumentKind],
        sources: Sequence[Source],
        array_class: type[Any],
        row: OnlyRow,
        packed: packed_operands.PackedOperands | None,
    ) -> None:
        self.program = program
        self._executor = settings.active.executor
        self.packed_program = None if packed is None else packed.program
        extents = [np.array(kind.shape, np.int64) for kind in kinds]
        arguments = [
            (id(kind.array_class), len(kind.shape) if kind.is_array else -1, pointers.address(shape), id(kind.dtype))
            for kind, shape in zip(kinds, extents)
        ]
        inputs = [
            (_OUTSIDE, id(source.handle), id(source.owner))
            if source.handle is not None
            else (_CONSTANT, id(source.constant), 0)
            if source.argument is None
            else (source.argument, 0, 0)
            for source in sources
        ]
        places = [] if packed is None else [source for source, _, _ in packed.entries]
        slot, shape, dtype = row.made
        # the slots of the inputs, of packed forms, and of everything else
        width = len(sources) + len(places) + len(row.fixed)
        tables = [
            np.array(table, np.int64).reshape(-1)
            for table in (row.slots, shape, arguments, inputs, [id(value) for value in row.fixed], places)
        ]
        slots, result, given, taken, fixed, packed_sources = map(pointers.address, tables)
        words = {
            "record": row.row.record,
            "slot_count": len(row.slots),
            "slots": slots,
            "room": row.room,
            "class": id(array_class),
            "axes": len(shape),
            "extents": result,
            "dtype": id(dtype),
            "result": slot,
            "width": width,
            "argument_count": len(kinds),
            "arguments": given,
            "source_count": len(sources),
            "sources": taken,
            "fixed_count": len(row.fixed),
            "fixed": fixed,
            "program": id(program),
            "packed_program": 0 if packed is None else id(packed.program),
            "packed_count": len(places),
            "packed_sources": packed_sources,
        }
        front = np.array([words[name] for name in _WORDS], np.int64)
        #: everything that the front refers to by address
        self._keep = code, kinds, extents, sources, array_class, row, tables, front
        self._run = code.bind(pointers.address(front))
        self._made = (shape, dtype, row.made_room) if row.made_room else None
        self._arena = row.pooled_room

    def repeat(self, arguments: tuple[Any, ...]) -> Any:
        """Return the result of the call; None if Python has to repeat it."""
        if settings.active.executor != self._executor:
            return None
        if thread_pool.stale:
            thread_pool.renew()
        memory = None if self._made is None else memory_pool.allocate(*self._made)
        arena = memory_pool.allocate((self._arena,), _BYTE, self._arena) if self._arena else None
        result = self._run((arguments, memory, arena))
        if result is not None:
            kernel_cache.statistics.native_calls += 1
            packed = self.program.packed
            if packed is not None:
                packed.note_use()
        return result
