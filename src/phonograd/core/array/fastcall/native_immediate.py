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
``compute``           the end of ``immediate.call`` and ``immediate.call_binary``: the kind is looked up and called
``compute_binary``    ``immediate.call_binary``
``compute_call``      ``immediate.call``, for calls with all arrays by position
====================  ==========================================================================================

A kind of call has a function of arrays for this code (``Call.direct``). It returns an array, a list of arrays in
memory of their own, or None if the call fails: then it becomes a node (docs/decisions/0018). The kinds of single calls
(:mod:`phonograd.core.array.single`) are another table. They run in ordinary traces, so these are not given to
``compute``, and all of their results are in memory of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from ...lower.ir.function_builder import Index, Value
from ...run.object_layout import CONTIGUOUS, FLAGS
from .native_enter import is_of_this_thread, is_recording
from .native_text import CALL_WITH, NO_PLACE, Code

__all__ = ["arrays_of_call", "immediate_texts", "shifted_place"]

#: the numbers of sequences: see ``immediate._note_number``
_COST_BITS, _FACTOR, _MASK = 8, 1000003, (1 << 53) - 1
_MOST_COST = (1 << _COST_BITS) - 1


def immediate_texts(offsets: dict[str, int]) -> list[str]:
    """Return the text of each function, in the order in which they need each other."""
    writers: tuple[Callable[[dict[str, int]], str], ...]
    writers = (_is_quiet, _immediate_here, _on_cpu, _value_of, _immediate_number, _describe, _note_call)
    writers += (_new_array, _compute, _compute_binary, _compute_call)
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
    axes = f.assign(f"load i32, ptr {f.address('%memory', str(offsets['memory_axes']), 'i8')}, align 8")
    wide = f.assign(f"sext i32 {axes} to i64")
    shape = f.api("PyTuple_New", f"i64 {wide}", "error")

    def extent(axis: Index, _: list[Value]) -> tuple[()]:
        number = f.api("PyLong_FromLongLong", f"i64 {f.load_word(extents, axis)}", "drop")
        f.api("PyTuple_SetItem", f"ptr {shape}, i64 {axis}, ptr {number}", "drop")
        return ()

    f.loop("0", wide, "1", (), extent)
    # the key takes the reference, also if that fails
    f.api("PyTuple_SetItem", f"ptr %key, i64 %place, ptr {shape}", "error")
    dtype = f.field("%memory", "memory_dtype")
    f.api("Py_IncRef", f"ptr {dtype}")
    f.api("PyTuple_SetItem", f"ptr %key, i64 {f.plus('%place', '1')}, ptr {dtype}", "error")
    f.give("%key")
    f.end_dropping(shape)
    return f.text()


def _note_call(offsets: dict[str, int]) -> str:
    """Return the function that adds a kind of call to the sequence of a trace, and gives the trace or null."""
    f = Code("note_call", "ptr %trace, ptr %found", offsets)
    before = f.number(f.field("%trace", "sequence"), "error")
    number = f.number(f.field("%found", "number"), "error")
    kinds = [f.assign(f"lshr i64 {each}, {_COST_BITS}") for each in (before, number)]
    costs = [f.assign(f"and i64 {each}, {_MOST_COST}") for each in (before, number)]
    mixed = f.assign(f"and i64 {f.plus(f.times(kinds[0], str(_FACTOR)), kinds[1])}, {_MASK}")
    cost = f.least(f.plus(costs[0], costs[1]), str(_MOST_COST))
    joined = f.assign(f"or i64 {f.assign(f'shl i64 {mixed}, {_COST_BITS}')}, {cost}")
    after = f.api("PyLong_FromLongLong", f"i64 {joined}", "error")
    f.exchange("%trace", "sequence", after)
    f.release(after)
    f.give("%trace")
    f.end("error", "null")
    return f.text()


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


def _compute(offsets: dict[str, int]) -> str:
    """Return the function that gives the array (or the list of arrays) of a call, given the key of its kind.

    ``table`` are the kinds, and ``trace`` is the immediate trace or null. ``objects`` are a free place and the
    arguments. It gives up the reference to the key.
    """
    f = Code("compute", "ptr %trace, ptr %table, ptr %key, ptr %objects, i64 %count, ptr %class", offsets)
    cells = [f.assign("alloca ptr, align 8") for _ in range(3)]
    arguments = f.address("%objects", "1", "ptr")
    found = f.api("PyDict_GetItemWithError", "ptr %table, ptr %key", "unhashable")
    f.leave_if_null(found, "new")
    f.release("%key")
    f.leave_if(f.same(found, "none"), "unknown")
    direct, variable = f.field(found, "direct"), f.object("float_errors")
    f.leave_if(f.same(direct, "none"), "unknown")
    f.leave_if(f.same(variable, "none"), "unknown")
    # any Python code may run: it may forget the kind, and other threads may change the arrays
    for each in (found, direct):
        f.api("Py_IncRef", f"ptr {each}")
    f.for_each("0", "%count", lambda k: f.hold(f.load_word(arguments, k, "ptr")))
    token = f.api("PyContextVar_Set", f"ptr {variable}, ptr {f.object('ignored_errors')}", "drop")
    value = f.api("PyObject_VectorcallDict", f"ptr {direct}, ptr {arguments}, i64 %count, ptr null", "failed")
    f.store_word("%objects", "0", value, "ptr")
    f.api("PyContextVar_Reset", f"ptr {variable}, ptr {token}", "drop_token")
    f.release(token)
    # the call as a node raises the error
    f.leave_if(f.same(value, "none"), "drop_value")
    kind = f.field(value, "type")
    f.line(f"br i1 {f.is_equal('%trace', 'null')}, label %single, label %note")
    f.label("single")
    f.line(f"br i1 {f.same(kind, 'list')}, label %several, label %owned")
    f.label("note")
    f.leave_if_null(f.call("note_call", "%trace", found), "drop_value")
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
    _first(f)
    f.label("unhashable")
    f.release("%key")
    f.clear_type_error()
    f.line("br label %unknown")
    f.end("unknown", "null")
    return f.text()


def _own(f: Code, value: str, kind: str) -> None:
    """Write the part of ``compute`` that copies a result which is a view, an argument, or no array."""
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


def _first(f: Code) -> None:
    """Write the part of ``compute`` that gives the array of a call that is the first of its kind (``immediate.meet``).

    There are none of single calls, whose kinds are learned from plans.
    """
    f.label("new")
    f.line(f"br i1 {f.is_equal('%trace', 'null')}, label %none, label %meet")
    f.label("none")
    f.release("%key")
    f.line("br label %unknown")
    f.label("meet")
    f.store_word("%objects", "0", "%key", "ptr")
    given = f"ptr {f.object('meet')}, ptr %objects, i64 {f.plus('%count', '1')}, ptr null"
    value = f.api("PyObject_VectorcallDict", given, "lost_key")
    f.release("%key")
    f.leave_if(f.same(value, "none"), "nothing")
    result = f.call("new_array", value, "%class")
    f.release(value)
    f.give(result)
    f.label("nothing")
    f.release(value)
    f.line("br label %unknown")
    f.label("lost_key")
    f.release("%key")
    f.line("br label %unknown")


def _several(f: Code, arguments: str, value: str, cell: str, *held: str) -> None:
    """Write the part of ``compute`` that gives the list of arrays of a list of results."""
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
    key = f.api("PyTuple_New", "i64 5", "error")
    f.put_item(key, "0", f.load_word("%record", "4", "ptr"), "drop")
    for number, memory in enumerate(pair):
        f.store_word(objects, str(1 + number), memory, "ptr")
        f.leave_if_null(f.assign(f"call ptr @describe(ptr {key}, i64 {1 + 2 * number}, ptr {memory})"), "drop")
    kind = f.field("%self", "type")
    f.give(f.assign(f"call ptr @compute(ptr %trace, ptr %table, ptr {key}, ptr {objects}, i64 2, ptr {kind})"))
    f.end_dropping(key)
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
    key = f.api("PyTuple_New", f"i64 {f.plus('2', f.times(most, '2'))}", "error")
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
        place = f.plus("2", f.times(index, "2"))
        f.leave_if_null(f.assign(f"call ptr @describe(ptr {key}, i64 {place}, ptr {memory})"), "drop")

    f.for_each("0", most, argument)
    chosen = f.assign(f"load ptr, ptr {kind}, align 8")
    given = f"ptr %trace, ptr %table, ptr {key}, ptr {objects}, i64 {most}, ptr {chosen}"
    f.give(f.assign(f"call ptr @compute({given})"))
    f.end_dropping(key)
    return f.text()


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
