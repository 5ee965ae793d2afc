"""The machine code of immediate calls: operators that compute their results at once, from values to values.

Each function is the counterpart of a Python function of :mod:`phonograd.core.array.immediate`, which is its definition.
A function here handles the common cases and returns null without an error in all others, before it has changed
anything. ``make_current`` (:mod:`.native_enter`) sets the trace ``immediate`` while the program of a thread is new all
the time.

====================  ==========================================================================================
machine code          its definition in Python
====================  ==========================================================================================
``is_quiet``          ``immediate.is_possible``, apart from the trace
``immediate_here``    the trace of this thread, if it is immediate and calls are
``on_cpu``            ``Handle.context``: whether it is the CPU
``value_of``          ``immediate._operand`` for arrays: the memory of an array with a value on the CPU
``immediate_number``  ``immediate.number_beside``
``broadcast_size``    ``kinds.broadcast_size``, at most ``_MOST_SIZE``
``note_call``         ``immediate._note_number``, after ``immediate._note_shapes`` for kinds without shapes
``run_kind``          ``immediate._run_one``, ``immediate._run`` and the end of ``immediate._run_any``
``compute``           the end of ``immediate.call`` and ``immediate.call_binary``: the kind is looked up and called
``compute_binary``    ``immediate.call_binary``
``compute_call``      ``immediate.call``, for calls with all arrays by position
====================  ==========================================================================================

Kinds that hold for all shapes are looked up first, by a key without shapes (``kinds.ANY_SHAPES``). So calls of new
extents cost as much as others.

A kind of call has a function of arrays for this code (``Call.direct``). It returns an array, a list of arrays in
memory of their own, or None if the call fails: then it becomes a node (docs/decisions/0018). The kinds of single calls
(:mod:`phonograd.core.array.single`) are another table. They run in ordinary traces, so these are not given to
``compute``, and all of their results are in memory of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import INT64
from ...lower.ir.function_builder import Index, Value
from ...run.object_layout import CONTIGUOUS, FLAGS
from ..kinds import COST_BITS, FACTOR, KIND_MASK, MOST_COST, NUMBERS_PER_CALL
from .native_enter import is_of_this_thread, is_recording
from .native_text import CALL_WITH, NO_PLACE, Code, arrays_of_call, shifted_place

__all__ = ["axes_of", "immediate_texts"]

#: the numbers of sequences: see ``immediate._note_number``
#: larger sizes are no different: the largest that two of them can be multiplied by each other
_MOST_SIZE = 1 << 31


def immediate_texts(offsets: dict[str, int]) -> list[str]:
    """Return the text of each function, in the order in which they need each other."""
    writers: tuple[Callable[[dict[str, int]], str], ...]
    writers = (_is_quiet, _immediate_here, _on_cpu, _value_of, _immediate_number, _describe, _broadcast_size)
    writers += (_note_call, _new_array, _run_kind, _compute, _compute_binary, _compute_call)
    return [write(offsets) for write in writers]


def _is_quiet(offsets: dict[str, int]) -> str:
    """Return the function that gives the settings if calls may be computed without nodes now, or null."""
    f = Code("is_quiet", "", offsets)
    active = f.object("active")
    f.leave_unless(f.same(f.field(active, "immediate"), "true"), "other")
    f.leave_unless(f.same(f.field(f.object("detection"), "on"), "false"), "other")
    for name in ("planned", "evaluated"):
        listeners = f.api("PyList_Size", f"ptr {f.field(f.object(name), 'listeners')}", "other")
        f.leave_unless(f.assign(f"icmp eq i64 {listeners}, 0"), "other")
    f.leave_if(is_recording(f, "other"), "other")
    f.give(active)
    f.end("other", "null")
    return f.text()


def _immediate_here(offsets: dict[str, int]) -> str:
    """Return the function that gives the immediate trace of this thread, or null if calls are not immediate now."""
    f = Code("immediate_here", "", offsets)
    trace = f.assign("load ptr, ptr @immediate, align 8")
    f.leave_if_null(trace, "other")
    f.leave_unless(is_of_this_thread(f, trace, "other"), "other")
    f.leave_if_null(f.call("is_quiet"), "other")
    f.give(trace)
    f.end("other", "null")
    return f.text()


def _value_of(offsets: dict[str, int]) -> str:
    """Return the function that gives the memory of an array whose value is known and on the CPU, or null."""
    f = Code("value_of", "ptr %array", offsets)
    f.leave_unless(f.is_array(f.field("%array", "type")), "other")
    memory = f.field("%array", "buffer")
    f.leave_unless(f.same(f.field(memory, "type"), "memory"), "other")
    f.leave_if_null(f.call("on_cpu", "%array"), "other")
    f.give(memory)
    f.end("other", "null")
    return f.text()


def _on_cpu(offsets: dict[str, int]) -> str:
    """Return the function that gives an array if its context is the CPU (``Handle.context``), or null."""
    f = Code("on_cpu", "ptr %array", offsets)
    node, extras = f.field("%array", "node"), f.field("%array", "extras")
    f.leave_if(f.same(node, "none"), "concrete")
    f.leave_unless(f.same(f.field(node, "context"), "cpu"), "other")
    f.give("%array")
    f.label("concrete")
    f.leave_if(f.same(extras, "none"), "nearby")
    root = f.field(extras, "root")
    f.leave_if(f.same(root, "none"), "alone")
    # a view is where the array is that owns its memory
    f.give(f.call("on_cpu", root))
    f.label("alone")
    f.leave_unless(f.same(f.field(extras, "place"), "cpu"), "other")
    f.line("br label %nearby")
    f.end("nearby", "%array")
    f.end("other", "null")
    return f.text()


def _immediate_number(offsets: dict[str, int]) -> str:
    """Return the function that gives a number as an array of a dtype, or null. Python converts those that are new."""
    f = Code("immediate_number", "ptr %number, ptr %dtype", offsets)
    f.leave_unless(f.is_number(f.field("%number", "type")), "error")
    cell = f.assign("alloca ptr, align 8")
    truth = f.api("PyObject_IsTrue", "ptr %number", "error")

    def text() -> None:
        # zeros of both signs are equal as keys
        f.line(f"store ptr {f.api('PyObject_Repr', 'ptr %number', 'error')}, ptr {cell}, align 8")

    def number() -> None:
        f.hold("%number")
        f.line(f"store ptr %number, ptr {cell}, align 8")

    f.when(f.assign(f"icmp eq i32 {truth}, 0"), text, number)
    value = f.assign(f"load ptr, ptr {cell}, align 8")
    key = f.api("PyTuple_Pack", f"i64 2, ptr {value}, ptr %dtype", "drop_value")
    f.release(value)
    memory = f.api("PyDict_GetItemWithError", f"ptr {f.object('immediate_numbers')}, ptr {key}", "drop")
    f.release(key)
    f.leave_if_null(memory, "new")
    f.give(memory)
    f.label("new")
    made = f.api(CALL_WITH, f"ptr {f.object('number_beside')}, ptr %number, ptr %dtype, ptr null", "error")
    # the numbers that are remembered hold it
    f.release(made)
    f.leave_if(f.same(made, "none"), "error")
    f.give(made)
    f.label("drop_value")
    f.release(value)
    f.line("br label %error")
    f.end_dropping(key)
    return f.text()


def _describe(offsets: dict[str, int]) -> str:
    """Return the function that puts shape and dtype of memory into a key, from a place on; the key, or null."""
    f = Code("describe", "ptr %key, i64 %place, ptr %memory", offsets)
    extents = f.field("%memory", "memory_extents")
    axes = axes_of(f, "%memory")
    shape = f.api("PyTuple_New", f"i64 {axes}", "error")

    def extent(axis: Index, _: list[Value]) -> tuple[()]:
        number = f.api("PyLong_FromLongLong", f"i64 {f.load_word(extents, axis)}", "drop")
        f.api("PyTuple_SetItem", f"ptr {shape}, i64 {axis}, ptr {number}", "drop")
        return ()

    f.loop("0", axes, "1", (), extent)
    # the key takes the reference, also if that fails
    f.api("PyTuple_SetItem", f"ptr %key, i64 %place, ptr {shape}", "error")
    dtype = f.field("%memory", "memory_dtype")
    f.api("Py_IncRef", f"ptr {dtype}")
    f.api("PyTuple_SetItem", f"ptr %key, i64 {f.plus('%place', '1')}, ptr {dtype}", "error")
    f.give("%key")
    f.end_dropping(shape)
    return f.text()


def axes_of(f: Code, memory: str) -> str:
    """Return the number of axes of memory."""
    axes = f.assign(f"load i32, ptr {f.address(memory, str(f.offset('memory_axes')), 'i8')}, align 8")
    return f.assign(f"sext i32 {axes} to i64")


def _broadcast_size(offsets: dict[str, int]) -> str:
    """Return the function that writes the size of arrays that are broadcast, and gives them back.

    Arrays that cannot be broadcast have a size as well: their operator fails.
    """
    f = Code("broadcast_size", "ptr %memories, i64 %count, ptr %size", offsets)
    largest, one = Value("0", INT64), Value("1", INT64)

    def more_axes(index: Index, found: list[Value]) -> list[Value]:
        axes = axes_of(f, f.load_word("%memories", index, "ptr"))
        return [Value(f.minus("0", f.least(f.minus("0", axes), f.minus("0", found[0].text))), INT64)]

    (axes,) = f.loop("0", "%count", "1", [largest], more_axes)

    def axis(index: Index, total: list[Value]) -> list[Value]:
        def more(number: Index, found: list[Value]) -> list[Value]:
            memory = f.load_word("%memories", number, "ptr")
            place = f.minus(axes_of(f, memory), f.plus(index, "1"))

            def extent() -> list[Value]:
                own = f.least(f.load_word(f.field(memory, "memory_extents"), place), str(_MOST_SIZE))
                is_more = f.test("sgt", own, found[0].text)
                return [Value(f.select_index(is_more, own, found[0].text), INT64)]

            return f.choose(f.test("sge", place, "0"), extent, lambda: found)

        (extent,) = f.loop("0", "%count", "1", [one], more)
        return [Value(f.least(f.times(total[0].text, extent.text), str(_MOST_SIZE)), INT64)]

    (size,) = f.loop("0", axes.text, "1", [one], axis)
    f.store_word("%size", "0", size.text)
    f.give("%memories")
    return f.text()


def _note_call(offsets: dict[str, int]) -> str:
    """Return the function that adds a kind of call to the sequence of a trace, and gives the trace or null.

    If ``has_shapes``, the kind was found by a key with the shapes of the arguments. ``memories`` are the arguments.
    """
    arguments = "ptr %trace, ptr %found, ptr %memories, i64 %count, ptr %value, i1 %has_shapes"
    f = Code("note_call", arguments, offsets)
    before = f.number(f.field("%trace", "sequence"), "error")
    number = f.number(f.field("%found", "number"), "error")
    kinds = [f.assign(f"lshr i64 {each}, {COST_BITS}") for each in (before, number)]
    costs = [f.assign(f"and i64 {each}, {MOST_COST}") for each in (before, number)]

    def of_shapes() -> list[Value]:
        def argument(index: Index, mixed: list[Value]) -> list[Value]:
            memory = f.load_word("%memories", index, "ptr")
            extents = f.field(memory, "memory_extents")

            def axis(place: Index, mixed: list[Value]) -> list[Value]:
                scaled = f.plus(f.times(mixed[0].text, str(FACTOR)), f.load_word(extents, place))
                return [Value(f.assign(f"and i64 {scaled}, {KIND_MASK}"), INT64)]

            return f.loop("0", axes_of(f, memory), "1", mixed, axis)

        (mixed,) = f.loop("0", "%count", "1", [Value(kinds[1], INT64)], argument)
        quotient = f.quotient(_size_of(f, "%value"), str(NUMBERS_PER_CALL))
        return [mixed, Value(f.least(f.plus(costs[1], quotient), str(MOST_COST)), INT64)]

    known = [Value(kinds[1], INT64), Value(costs[1], INT64)]
    kind, own_cost = f.choose("%has_shapes", lambda: known, of_shapes)
    mixed = f.assign(f"and i64 {f.plus(f.times(kinds[0], str(FACTOR)), kind.text)}, {KIND_MASK}")
    cost = f.least(f.plus(costs[0], own_cost.text), str(MOST_COST))
    joined = f.assign(f"or i64 {f.assign(f'shl i64 {mixed}, {COST_BITS}')}, {cost}")
    after = f.api("PyLong_FromLongLong", f"i64 {joined}", "error")
    f.exchange("%trace", "sequence", after)
    f.release(after)
    f.give("%trace")
    f.end("error", "null")
    return f.text()


def _size_of(f: Code, memory: str) -> str:
    """Return the number of elements of memory; 1 for a number of NumPy."""

    def elements() -> list[Value]:
        extents = f.field(memory, "memory_extents")

        def axis(place: Index, size: list[Value]) -> list[Value]:
            return [Value(f.times(size[0].text, f.load_word(extents, place)), INT64)]

        return f.loop("0", axes_of(f, memory), "1", [Value("1", INT64)], axis)

    is_memory = f.same(f.field(memory, "type"), "memory")
    (size,) = f.choose(is_memory, elements, lambda: [Value("1", INT64)])
    return size.text


def _new_array(offsets: dict[str, int]) -> str:
    """Return the function that makes an array of a class with memory: ``immediate._concrete``."""
    f = Code("new_array", "ptr %memory, ptr %class", offsets)
    made = f.api("PyType_GenericAlloc", "ptr %class, i64 0", "error")
    for name in ("trace", "node", "extras"):
        f.put(made, name, f.object("none"))
    f.put(made, "buffer", "%memory")
    f.give(made)
    f.end("error", "null")
    return f.text()


def _run_kind(offsets: dict[str, int]) -> str:
    """Return the function that gives the array (or the list of arrays) of a call, given its kind.

    ``trace`` is the immediate trace or null. ``objects`` are a free place and the arguments. ``has_shapes`` is that of
    ``note_call``.
    """
    f = Code("run_kind", "ptr %trace, ptr %found, ptr %objects, i64 %count, ptr %class, i1 %has_shapes", offsets)
    cells = [f.assign("alloca ptr, align 8") for _ in range(3)]
    arguments, found = f.address("%objects", "1", "ptr"), "%found"
    direct, variable = f.field(found, "direct"), f.object("float_errors")
    f.leave_if(f.same(direct, "none"), "unknown")
    f.leave_if(f.same(variable, "none"), "unknown")
    # any Python code may run: it may forget the kind, and other threads may change the arrays
    for each in (found, direct):
        f.api("Py_IncRef", f"ptr {each}")
    f.for_each("0", "%count", lambda k: f.hold(f.load_word(arguments, k, "ptr")))
    given = f"ptr {direct}, ptr {arguments}, i64 %count, ptr null"
    is_single = f.is_equal("%trace", "null")
    f.line(f"br i1 {is_single}, label %call_program, label %call_function")
    # programs ignore errors of floating point numbers where they call NumPy
    f.label("call_program")
    f.store_word("%objects", "0", f.api("PyObject_VectorcallDict", given, "drop"), "ptr")
    f.line("br label %called")
    f.label("call_function")
    token = f.api("PyContextVar_Set", f"ptr {variable}, ptr {f.object('ignored_errors')}", "drop")
    f.store_word("%objects", "0", f.api("PyObject_VectorcallDict", given, "failed"), "ptr")
    f.api("PyContextVar_Reset", f"ptr {variable}, ptr {token}", "drop_token")
    f.release(token)
    f.line("br label %called")
    f.label("called")
    value = f.load_word("%objects", "0", "ptr")
    # the call as a node raises the error
    f.leave_if(f.same(value, "none"), "drop_value")
    kind = f.field(value, "type")
    f.line(f"br i1 {is_single}, label %single, label %note")
    f.label("single")
    f.line(f"br i1 {f.same(kind, 'list')}, label %several, label %owned")
    f.label("note")
    noted = f"ptr %trace, ptr {found}, ptr {arguments}, i64 %count, ptr {value}, i1 %has_shapes"
    f.leave_if_null(f.assign(f"call ptr @note_call({noted})"), "drop_value")
    f.leave_if(f.same(kind, "list"), "several")
    # an array in memory of its own, as `eager_results.own_all` would find it: large results have no direct function
    f.leave_unless(f.same(kind, "memory"), "own")
    f.leave_unless(f.is_equal(f.field(value, "memory_base"), "null"), "own")
    flags = f.assign(f"load i32, ptr {f.address(value, str(FLAGS), 'i8')}, align 8")
    f.leave_if(f.assign(f"icmp eq i32 {f.assign(f'and i32 {flags}, {CONTIGUOUS}')}, 0"), "own")
    f.for_each("0", "%count", lambda k: f.leave_if(f.is_equal(value, f.load_word(arguments, k, "ptr")), "own"))
    f.line("br label %owned")
    _own(f, value, kind)
    f.label("owned")
    result = f.call("new_array", f.load_word("%objects", "0", "ptr"), "%class")
    f.leave_if_null(result, "drop_value")
    _drop_all(f, arguments, found, direct, f.load_word("%objects", "0", "ptr"))
    f.give(result)
    _several(f, arguments, value, cells[0], found, direct)
    f.label("drop_token")
    f.release(token)
    f.line("br label %drop_value")
    f.label("drop_value")
    f.release(f.load_word("%objects", "0", "ptr"))
    f.line("br label %drop")
    f.label("drop")
    _drop_all(f, arguments, found, direct)
    f.give("null")
    f.label("failed")
    f.api("PyErr_Fetch", ", ".join([f"ptr {cell}" for cell in cells]))
    f.api("PyContextVar_Reset", f"ptr {variable}, ptr {token}", "lost")
    f.release(token)
    f.api("PyErr_Restore", ", ".join([f"ptr {f.assign(f'load ptr, ptr {cell}, align 8')}" for cell in cells]))
    # other functions decide which errors to raise, and return None for the others
    f.leave_unless(f.same(f.field(direct, "type"), "ufunc"), "drop")
    f.api("PyErr_Clear")
    f.line("br label %drop")
    f.label("lost")
    f.release(token, *[f.assign(f"load ptr, ptr {cell}, align 8") for cell in cells])
    f.line("br label %drop")
    f.end("unknown", "null")
    return f.text()


def _compute(offsets: dict[str, int]) -> str:
    """Return the function that gives the array (or the list of arrays) of a call, given the key of its kind.

    The key has no shapes: the first of its items are the operator, and the parameters of a call by name, and the dtypes
    of the arguments follow. ``table`` are the kinds that are found by shapes as well, and ``trace`` is the immediate
    trace or null. ``objects`` are a free place and the arguments. It gives up the reference to the key.
    """
    arguments = "ptr %trace, ptr %table, ptr %key, i64 %first, ptr %objects, i64 %count, ptr %class"
    f = Code("compute", arguments, offsets)
    memories, size = f.address("%objects", "1", "ptr"), f.assign("alloca i64, align 8")
    given = "ptr %objects, i64 %count, ptr %class"
    f.line(f"br i1 {f.is_equal('%trace', 'null')}, label %shapes, label %any")
    f.label("any")
    found = f.api("PyDict_GetItemWithError", f"ptr {f.object('any_shapes')}, ptr %key", "unhashable")
    f.leave_if_null(found, "shapes")
    f.assign(f"call ptr @broadcast_size(ptr {memories}, i64 %count, ptr {size})")
    f.leave_if(f.test("sgt", f.load_word(size, "0"), f.number(f.field(found, "limit"), "drop")), "shapes")
    result = f.assign(f"call ptr @run_kind(ptr %trace, ptr {found}, {given}, i1 false)")
    f.leave_if_null(result, "none")
    f.release("%key")
    f.give(result)
    f.label("none")
    # a pattern that is not known, or an error, which the call for these shapes raises
    f.leave_if_error("drop")
    f.line("br label %shapes")
    f.label("shapes")
    whole = f.api("PyTuple_New", f"i64 {f.plus('%first', f.times('%count', '2'))}", "drop")
    f.for_each("0", "%first", lambda k: f.put_item(whole, k, f.item("%key", k), "drop_whole"))

    def argument(index: Index) -> None:
        place = f.plus("%first", f.times(index, "2"))
        memory = f.load_word(memories, index, "ptr")
        described = f.assign(f"call ptr @describe(ptr {whole}, i64 {place}, ptr {memory})")
        f.leave_if_null(described, "drop_whole")

    f.for_each("0", "%count", argument)
    known = f.api("PyDict_GetItemWithError", f"ptr %table, ptr {whole}", "unhashable_whole")
    f.release("%key", whole)
    f.leave_if_null(known, "unknown")
    f.leave_if(f.same(known, "none"), "unknown")
    f.give(f.assign(f"call ptr @run_kind(ptr %trace, ptr {known}, {given}, i1 true)"))
    f.label("unhashable_whole")
    f.release(whole)
    f.line("br label %unhashable")
    f.label("unhashable")
    f.release("%key")
    f.clear_type_error()
    f.line("br label %unknown")
    f.label("drop_whole")
    f.release(whole)
    f.line("br label %drop")
    f.label("drop")
    f.release("%key")
    f.line("br label %unknown")
    f.end("unknown", "null")
    return f.text()


def _own(f: Code, value: str, kind: str) -> None:
    """Write the part of ``run_kind`` that copies a result which is a view, an argument, or no array."""
    f.label("own")
    f.leave_unless(f.same(kind, "memory"), "other_memory")
    base = f.field(value, "memory_base")
    f.leave_if_null(base, "other_memory")
    f.leave_unless(f.same(f.field(base, "type"), "memory"), "other_memory")
    # a view of another array, as `eager_results.own_all` would copy it
    copy = f.api(CALL_WITH, f"ptr {f.object('copy')}, ptr {value}, ptr null", "drop_value")
    f.release(value)
    f.store_word("%objects", "0", copy, "ptr")
    f.line("br label %owned")
    f.label("other_memory")
    given = f"ptr {f.object('own')}, ptr %objects, i64 {f.plus('%count', '1')}, ptr null"
    memory = f.api("PyObject_VectorcallDict", given, "drop_value")
    f.release(value)
    f.store_word("%objects", "0", memory, "ptr")
    f.line("br label %owned")


def _several(f: Code, arguments: str, value: str, cell: str, *held: str) -> None:
    """Write the part of ``run_kind`` that gives the list of arrays of a list of results."""
    f.label("several")
    made = f.api("PyList_New", "i64 0", "drop_value")

    def add(index: Index, _: list[Value]) -> tuple[()]:
        memory = f.api("PyList_GetItem", f"ptr {value}, i64 {index}", "drop_list")
        array = f.call("new_array", memory, "%class")
        f.leave_if_null(array, "drop_list")
        f.line(f"store ptr {array}, ptr {cell}, align 8")
        f.append(made, array, "drop_array")
        f.release(array)
        return ()

    f.loop("0", f.api("PyList_Size", f"ptr {value}", "drop_list"), "1", (), add)
    _drop_all(f, arguments, *held, value)
    f.give(made)
    f.label("drop_array")
    f.release(f.assign(f"load ptr, ptr {cell}, align 8"))
    f.line("br label %drop_list")
    f.label("drop_list")
    f.release(made)
    f.line("br label %drop_value")


def _drop_all(f: Code, arguments: str, *others: str) -> None:
    """Give up the references to arguments and to other objects."""
    f.for_each("0", "%count", lambda k: f.release(f.load_word(arguments, k, "ptr")))
    f.release(*others)


def _compute_binary(offsets: dict[str, int]) -> str:
    """Return the function of a binary operator on an array, and an array or a number, with the entry of ``binary``."""
    f = Code("compute_binary", "ptr %trace, ptr %table, ptr %record, ptr %self, ptr %other", offsets)
    objects = f.assign("alloca [3 x ptr], align 8")
    own = f.call("value_of", "%self")
    f.leave_if_null(own, "error")
    f.store_word(objects, "1", own, "ptr")
    f.line(f"br i1 {f.is_array(f.field('%other', 'type'))}, label %array, label %number")
    f.label("array")
    f.store_word(objects, "2", f.call("value_of", "%other"), "ptr")
    f.line("br label %both")
    f.label("number")
    f.store_word(objects, "2", f.call("immediate_number", "%other", f.field(own, "memory_dtype")), "ptr")
    f.line("br label %both")
    f.label("both")
    other = f.load_word(objects, "2", "ptr")
    f.leave_if_null(other, "error")
    exchanged = f.assign(f"icmp ne i64 {f.load_word('%record', '2')}, 0")
    pair = [f.assign(f"select i1 {exchanged}, ptr {a}, ptr {b}") for a, b in ((other, own), (own, other))]
    dtypes = [f.field(memory, "memory_dtype") for memory in pair]
    declared = f.load_word("%record", "4", "ptr")
    key = f.api("PyTuple_Pack", f"i64 3, ptr {declared}, ptr {dtypes[0]}, ptr {dtypes[1]}", "error")
    for number, memory in enumerate(pair):
        f.store_word(objects, str(1 + number), memory, "ptr")
    given = f"ptr {key}, i64 1, ptr {objects}, i64 2, ptr {f.field('%self', 'type')}"
    f.give(f.assign(f"call ptr @compute(ptr %trace, ptr %table, {given})"))
    f.end("error", "null")
    return f.text()


def _compute_call(offsets: dict[str, int]) -> str:
    """Return the function of an operator called by name: its arguments are those of ``call``, whose entry it reads."""
    arguments = "ptr %trace, ptr %table, ptr %self, ptr %arguments, i64 %count, ptr %names, i64 %named"
    f = Code("compute_call", arguments, offsets)
    entry = f.field("%self", "entry")
    arrays, template, places, declared, defaults, order = [f.item(entry, str(k)) for k in (2, 3, 4, 7, 8, 9)]
    first, shift = arrays_of_call(f, f.number(arrays, "error"))
    most = f.least("%count", first)
    # arrays that are left out must be optional
    f.for_each(most, first, lambda k: f.leave_unless(f.same(f.item(template, k), "none"), "error"))
    objects = f.assign(f"alloca ptr, i64 {f.plus(most, '1')}, align 8")
    kind = f.assign("alloca ptr, align 8")
    f.line(f"store ptr {f.object('array')}, ptr {kind}, align 8")
    length = f.api("PyTuple_Size", f"ptr {defaults}", "error")
    extra = f.minus("%count", most)
    f.leave_if(f.assign(f"icmp sgt i64 {extra}, {length}"), "error")
    key = f.api("PyTuple_New", f"i64 {f.plus('2', most)}", "error")
    f.put_item(key, "0", declared, "drop")
    is_plain = f.assign(f"icmp eq i64 {f.plus(extra, '%named')}, 0")
    f.line(f"br i1 {is_plain}, label %plain, label %given")
    f.label("plain")
    f.put_item(key, "1", defaults, "drop")
    f.line("br label %filled")
    f.label("given")
    parameters = f.api("PyTuple_New", f"i64 {length}", "drop")
    # the key takes the reference, and nothing else refers to it until the call is looked up
    f.api("PyTuple_SetItem", f"ptr {key}, i64 1, ptr {parameters}", "drop")
    f.for_each("0", length, lambda k: f.put_item(parameters, k, f.item(defaults, k), "drop"))

    def positional(index: Index) -> None:
        place = f.plus(most, index)
        number = f.number(f.item(order, place), "drop")
        _put_parameter(f, parameters, first, number, f.load_word("%arguments", place, "ptr"))

    def keyword(index: Index) -> None:
        place = f.api("PyDict_GetItemWithError", f"ptr {places}, ptr {f.item('%names', index)}", "drop")
        f.leave_if_null(place, "drop")
        number = shifted_place(f, f.number(place, "drop"), shift)
        # Python complains about a parameter that was given by position, too
        is_real = f.assign(f"icmp slt i64 {number}, 0")
        plain = f.select_index(is_real, f.minus("-1", number), number)
        f.leave_if(f.assign(f"icmp slt i64 {plain}, %count"), "drop")
        _put_parameter(f, parameters, first, number, f.load_word("%arguments", f.plus("%count", index), "ptr"))

    f.for_each("0", extra, positional)
    f.for_each("0", "%named", keyword)
    f.line("br label %filled")
    f.label("filled")

    def argument(index: Index) -> None:
        array = f.load_word("%arguments", index, "ptr")
        memory = f.call("value_of", array)
        f.leave_if_null(memory, "drop")
        f.store_word(objects, f.plus(index, "1"), memory, "ptr")
        # the result of arrays of both classes has the other class
        before, own = f.assign(f"load ptr, ptr {kind}, align 8"), f.field(array, "type")
        chosen = f.assign(f"select i1 {f.same(own, 'other_array')}, ptr {own}, ptr {before}")
        f.line(f"store ptr {chosen}, ptr {kind}, align 8")
        f.put_item(key, f.plus("2", index), f.field(memory, "memory_dtype"), "drop")

    f.for_each("0", most, argument)
    chosen = f.assign(f"load ptr, ptr {kind}, align 8")
    given = f"ptr %trace, ptr %table, ptr {key}, i64 2, ptr {objects}, i64 {most}, ptr {chosen}"
    f.give(f.assign(f"call ptr @compute({given})"))
    f.end_dropping(key)
    return f.text()


def _put_parameter(f: Code, parameters: str, first: Index, number: Index, value: str) -> None:
    """Write the part of ``compute_call`` that puts a parameter into the key, given its place as in the entry.

    ``first`` is the place of the first parameter.
    """
    # Python converts those that have no place
    f.leave_if(f.assign(f"icmp eq i64 {number}, {NO_PLACE}"), "drop")

    def real() -> None:
        f.leave_unless(f.is_number(f.field(value, "type")), "drop")
        truth = f.api("PyObject_IsTrue", f"ptr {value}", "drop")
        f.leave_unless(f.assign(f"icmp eq i32 {truth}, 1"), "drop")
        f.put_item(parameters, f.minus(f.minus("-1", number), first), value, "drop")

    def parameter() -> None:
        # arrays by keyword are left to Python
        f.leave_if(f.assign(f"icmp slt i64 {number}, {first}"), "drop")
        f.put_item(parameters, f.minus(number, first), value, "drop")

    f.when(f.assign(f"icmp slt i64 {number}, 0"), real, parameter)
