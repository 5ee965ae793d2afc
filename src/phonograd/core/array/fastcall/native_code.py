"""The machine code of operator calls: look-ups of calls made before, and new arrays for their results.

:mod:`.native_call` compiles the text and installs it. Each function is the counterpart of a Python function, which is
its definition, and calls it in all cases that are not common (:mod:`.native_enter` has the other functions):

==============  ====================================================================================
machine code    its definition in Python
==============  ====================================================================================
``new_result``  ``handle.new_result``
``look_up``     ``declared.calls.get((first, second))`` in ``operands.operate``
``binary``      ``operands.call_binary``: the methods that ``operands.binary`` returns
``inplace``     the methods that ``operands.inplace`` returns
``call``        ``call.invoke``: the functions that ``call.function_of`` returns
``live_handles``      ``liveness.live_handles``
==============  ====================================================================================

``recall``, ``note`` and ``forget`` are a table of recent calls in front of ``look_up``, which is found without a key.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ...lower.ir.function_builder import Index, Value
from .native_change import change_text
from .native_enter import enter_texts, is_recording
from .native_immediate import immediate_texts
from .native_text import API, CALL_WITH, NO_PLACE, OBJECTS, Code, arrays_of_call, shifted_place

__all__ = ["DIRECTORY", "ENTRY", "module_text"]

#: words of an entry of a binary operator
ENTRY = 6
#: entries of the table of recent calls, each of the words (what is called, first node, second node, result)
_RECENT = 4096
#: the complaint of checked code
_MESSAGE = "machine code of operator calls returns an object although an error is set"
#: tables and functions whose addresses Python needs; the entry points of binary operators follow
DIRECTORY = ("state", "entries", "call", "forget", "live_handles", "make_current", "write", "settle", "entered")


def module_text(offsets: dict[str, int], entries: int, changing: Container[int]) -> str:
    """Return the text of all functions; ``native_calls`` returns the address of a table with the ``DIRECTORY``.

    Entries are binary operators; those in ``changing`` change their first operand.
    """
    words = len(OBJECTS) + len(API)
    names = [*DIRECTORY, *[f"binary{k}" for k in range(entries)]]
    pointers = ", ".join([f"ptr @{name}" for name in names])
    parts = [
        f"@state = internal global [{words} x ptr] zeroinitializer, align 8",
        f"@entries = internal global [{ENTRY * entries} x ptr] zeroinitializer, align 8",
        f"@recent = internal global [{4 * _RECENT} x ptr] zeroinitializer, align 64",
        f'@message = internal constant [{len(_MESSAGE) + 1} x i8] c"{_MESSAGE}\\00", align 1',
        f"@directory = internal constant [{len(names)} x ptr] [{pointers}], align 8",
        "define ptr @native_calls() nounwind {\n  ret ptr @directory\n}",
        _new_result(offsets),
        _recall(offsets),
        _note(offsets),
        _forget(offsets),
        *enter_texts(offsets),
        *immediate_texts(offsets),
        change_text(offsets),
        _living(offsets),
        _look_up(offsets),
        _binary(offsets, "binary", in_place=False),
        _binary(offsets, "inplace", in_place=True),
        _call(offsets),
        *[_binary_number(k, "inplace" if k in changing else "binary") for k in range(entries)],
    ]
    return "\n".join(parts) + "\n"


def _new_result(offsets: dict[str, int]) -> str:
    """Return the function that makes the array of a result, of a class; null without an error if Python decides."""
    f = Code("new_result", "ptr %trace, ptr %found, ptr %class", offsets)
    node = f.assign("alloca ptr, align 8")
    f.line(f"store ptr %found, ptr {node}, align 8")
    recorded = f.same(f.field("%found", "marked"), "true")
    f.line(f"br i1 {recorded}, label %check, label %make")
    f.label("check")
    f.line(f"br i1 {is_recording(f, 'undecided')}, label %note, label %cut")
    f.label("cut")
    detached = f.field("%found", "detached")
    f.leave_if(f.same(detached, "none"), "undecided")
    f.line(f"store ptr {detached}, ptr {node}, align 8")
    f.line("br label %make")
    f.label("note")
    # Trace.distinct counts a variable that a call passes on unchanged, and a call that repeats another, otherwise
    operator = f.field("%found", "operator")
    f.leave_if(f.same(operator, "variable_operator"), "undecided")
    f.leave_if(f.same(operator, "again_operator"), "undecided")
    made = f.field("%trace", "made")
    known = f.api("PyDict_Contains", f"ptr {made}, ptr %found", "undecided")
    f.leave_unless(f.assign(f"icmp eq i32 {known}, 0"), "undecided")
    f.insert(made, "%found", f.object("one"), "undecided")
    f.line("br label %make")
    f.label("make")
    result = f.api("PyType_GenericAlloc", "ptr %class, i64 0", "undecided")
    f.put(result, "trace", "%trace")
    f.put(result, "node", f.assign(f"load ptr, ptr {node}, align 8"))
    f.put(result, "buffer", f.object("none"))
    f.put(result, "extras", f.object("none"))
    handles = f.field("%trace", "handles")
    f.append(handles, result, "drop")
    count = f.api("PyList_Size", f"ptr {handles}", "drop")
    most = f.number(f.field("%trace", "prune_at"), "drop")
    f.leave_if(f.assign(f"icmp sgt i64 {count}, {most}"), "prune")
    f.give(result)
    f.label("prune")
    f.release(f.api(CALL_WITH, f"ptr {f.object('prune')}, ptr %trace, ptr null", "drop"))
    f.give(result)
    f.label("drop")
    f.release(result)
    f.line("br label %undecided")
    f.end("undecided", "null")
    return f.text()


def _recent(f: Code, what: str, first: str, second: str) -> str:
    """Return the address of the only entry of the table of recent calls in which a call can stand."""
    mixed = "0"
    for value, factor in ((what, 0x9E3779B97F4A7C15), (first, 0xC2B2AE3D27D4EB4F), (second, 0x165667B19E3779F9)):
        number = f.assign(f"ptrtoint ptr {value} to i64")
        # as LLVM reads it: a number with a sign
        product = f.times(number, str(factor - (1 << 64) if factor >> 63 else factor))
        mixed = product if mixed == "0" else f.assign(f"xor i64 {mixed}, {product}")
    index = f.assign(f"lshr i64 {mixed}, {64 - (_RECENT.bit_length() - 1)}")
    return f.address("@recent", f.times(index, "4"), "ptr")


_CALL_ARGUMENTS = "ptr %what, ptr %first, ptr %second"


def _recall(offsets: dict[str, int]) -> str:
    """Return the function that gives the result of a recent call, or null."""
    f = Code("recall", _CALL_ARGUMENTS, offsets)
    entry = _recent(f, "%what", "%first", "%second")
    for index, value in enumerate(("%what", "%first", "%second")):
        f.leave_unless(f.is_equal(f.load_word(entry, str(index), "ptr"), value), "other")
    f.give(f.load_word(entry, "3", "ptr"))
    f.end("other", "null")
    return f.text()


def _note(offsets: dict[str, int]) -> str:
    """Return the function that notes a call as recent. Its nodes stay alive until another one takes its place."""
    f = Code("note", f"{_CALL_ARGUMENTS}, ptr %result", offsets)
    entry = _recent(f, "%what", "%first", "%second")
    before = [f.load_word(entry, str(index), "ptr") for index in (1, 2, 3)]
    f.store_word(entry, "0", "%what", "ptr")
    for index, value in enumerate(("%first", "%second", "%result"), 1):
        f.api("Py_IncRef", f"ptr {value}")
        f.store_word(entry, str(index), value, "ptr")
    f.release(*before)
    f.give("null")
    return f.text()


def _forget(offsets: dict[str, int]) -> str:
    """Return the function that empties the table of recent calls."""
    f = Code("forget", "", offsets)

    def empty(index: Index, _: list[Value]) -> tuple[()]:
        entry = f.address("@recent", f.times(index, "4"), "ptr")
        before = [f.load_word(entry, str(word), "ptr") for word in (1, 2, 3)]
        for word in range(4):
            f.store_word(entry, str(word), "null", "ptr")
        f.release(*before)
        return ()

    f.loop("0", str(_RECENT), "1", (), empty)
    f.give("null")
    return f.text()


def _living(offsets: dict[str, int]) -> str:
    """Return the function of a trace and a list of arrays that returns the live ones as a list of (array, node)."""
    f = Code("live_handles", "ptr %self, ptr %arguments, i64 %count", offsets)
    cell = f.assign("alloca ptr, align 8")
    trace, handles = f.load_word("%arguments", "0", "ptr"), f.load_word("%arguments", "1", "ptr")
    pairs = f.api("PyList_New", "i64 0", "error")

    def look(index: Index, _: list[Value]) -> tuple[()]:
        handle = f.api("PyList_GetItem", f"ptr {handles}, i64 {index}", "drop")
        # whatever the interpreter keeps beside it, the count is the lower half of the first word
        count = f.assign(f"load i32, ptr {handle}, align 8")
        f.choose(f.assign(f"icmp ugt i32 {count}, 1"), lambda: alive(handle), tuple)
        return ()

    def alive(handle: str) -> tuple[()]:
        node = f.field(handle, "node")
        here = f.is_equal(f.field(handle, "trace"), trace)
        there = f.assign(f"xor i1 {f.same(node, 'none')}, true")
        f.choose(f.assign(f"and i1 {here}, {there}"), lambda: append(handle, node), tuple)
        return ()

    def append(handle: str, node: str) -> tuple[()]:
        pair = f.api("PyTuple_Pack", f"i64 2, ptr {handle}, ptr {node}", "drop")
        f.line(f"store ptr {pair}, ptr {cell}, align 8")
        f.append(pairs, pair, "drop_pair")
        f.release(pair)
        return ()

    f.loop("0", f.api("PyList_Size", f"ptr {handles}", "drop"), "1", (), look)
    f.give(pairs)
    f.label("drop_pair")
    f.release(f.assign(f"load ptr, ptr {cell}, align 8"))
    f.line("br label %drop")
    f.end_dropping(pairs)
    return f.text()


def _look_up(offsets: dict[str, int]) -> str:
    """Return the function that gives the node of a binary operator if it was called with two nodes before.

    It is also given for a new call whose kind is known. An entry is the words (calls, Python function, whether the
    operands are exchanged, the function that makes nodes of known kinds, the operator, a list that is not empty
    if there are single calls).
    """
    f = Code("look_up", "ptr %record, ptr %first, ptr %second", offsets)
    words = "%record", "%first", "%second"
    recent = f.call("recall", *words)
    f.leave_if_null(recent, "look")
    f.give(recent)
    f.label("look")
    key = f.api("PyTuple_Pack", "i64 2, ptr %first, ptr %second", "error")
    calls = f.load_word("%record", "0", "ptr")
    node = f.api("PyDict_GetItemWithError", f"ptr {calls}, ptr {key}", "drop")
    f.leave_if_null(node, "extend")
    f.release(key)
    f.call("note", *words, node)
    f.give(node)
    f.label("extend")
    # a call that is new is not noted as recent: most of those do not come back
    made = f.api(CALL_WITH, f"ptr {f.load_word('%record', '3', 'ptr')}, ptr {key}, ptr null", "drop")
    # the table of the operator holds the node
    f.release(made)
    f.leave_if(f.same(made, "none"), "drop")
    f.release(key)
    f.give(made)
    f.end_dropping(key)
    return f.text()


def _binary(offsets: dict[str, int], name: str, in_place: bool) -> str:
    """Return the function of a binary operator on an array, and an array or a number.

    It returns a new array, or assigns the result to the first operand.
    """
    f = Code(name, "ptr %record, ptr %self, ptr %other", offsets)
    f.leave_unless(_nothing_is_immediate(f), "immediate")
    trace = f.call("trace_here")
    f.leave_if_null(trace, "slow")
    if not in_place:
        _compute_at_once(f, f.load_word("%record", "5", "ptr"), "compute_binary", "ptr %record, ptr %self, ptr %other")
    exchanged = f.assign(f"icmp ne i64 {f.load_word('%record', '2')}, 0")
    # of two arrays, the first one is entered first
    f.leave_if(f.assign(f"and i1 {exchanged}, {f.is_array(f.field('%other', 'type'))}"), "slow")
    own = f.call("enter", trace, "%self")
    f.leave_if_null(own, "slow")
    other = f.call("operand", trace, own, "%other")
    f.leave_if_null(other, "slow")
    pair = [f.assign(f"select i1 {exchanged}, ptr {a}, ptr {b}") for a, b in ((other, own), (own, other))]
    node = f.call("look_up", "%record", *pair)
    f.leave_if_null(node, "slow")
    result = (
        f.call("change", trace, "%self", own, node)
        if in_place
        else f.call("new_result", trace, node, f.field("%self", "type"))
    )
    f.leave_if_null(result, "slow")
    f.give(result)
    f.label("immediate")
    if in_place:
        trace = f.call("immediate_here")
        f.leave_if_null(trace, "slow")
        changed = f.assign(f"call ptr @change_value(ptr {trace}, ptr %record, ptr %self, ptr %other)")
        f.leave_if_null(changed, "slow")
        f.give(changed)
    else:
        _compute_immediately(f, "compute_binary", "ptr %record, ptr %self, ptr %other")
    f.pass_errors_on("slow")
    function = f.load_word("%record", "1", "ptr")
    f.give(f.api(CALL_WITH, f"ptr {function}, ptr %self, ptr %other, ptr null", "error"))
    return f.text()


def _nothing_is_immediate(f: Code) -> str:
    """Return whether there is no immediate trace, an ``i1``."""
    return f.is_equal(f.assign("load ptr, ptr @immediate, align 8"), "null")


def _binary_number(number: int, name: str) -> str:
    """Return the function that Python calls for one binary operator."""
    entry = f"getelementptr (ptr, ptr @entries, i64 {ENTRY * number})"
    return (
        f"define internal ptr @binary{number}(ptr %self, ptr %other) nounwind {{\n"
        f"  %result = tail call ptr @{name}(ptr {entry}, ptr %self, ptr %other)\n  ret ptr %result\n}}\n"
    )


class _Key:
    """Writes the code that fills the key of a call, which is dropped (at the label ``drop``) where it cannot be."""

    def __init__(
        self, f: Code, key: str, trace: str, arrays: str, entry: str, shift: str, last: str, kind: str
    ) -> None:
        self._f = f
        self._shift = shift
        self._last = last
        self._kind = kind
        self._key = key
        self._trace = trace
        self._arrays = arrays
        self._template, self._places, self._order = [f.item(entry, number) for number in ("3", "4", "9")]

    def _put(self, index: Index, value: str) -> tuple[()]:
        self._f.api("Py_IncRef", f"ptr {value}")
        self._f.api("PyTuple_SetItem", f"ptr {self._key}, i64 {index}, ptr {value}", "drop")
        return ()

    def _put_array(self, index: Index, value: str) -> tuple[()]:
        f = self._f
        node = f.call("enter", self._trace, value)
        f.leave_if_null(node, "drop")
        # the result of arrays of both classes has the other class
        before, own = f.assign(f"load ptr, ptr {self._kind}, align 8"), f.field(value, "type")
        kind = f.assign(f"select i1 {f.same(own, 'other_array')}, ptr {own}, ptr {before}")
        f.line(f"store ptr {kind}, ptr {self._kind}, align 8")
        return self._put(index, node)

    def _put_number(self, index: Index, value: str) -> tuple[()]:
        f = self._f
        f.leave_unless(f.is_number(f.field(value, "type")), "drop")
        truth = f.api("PyObject_IsTrue", f"ptr {value}", "drop")
        f.leave_unless(f.assign(f"icmp eq i32 {truth}, 1"), "drop")
        return self._put(index, value)

    def default(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write a place of the key as it is in the template."""
        return self._put(index, self._f.item(self._template, self._f.minus(index, self._shift)))

    def positional(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write the place of a positional argument."""
        f = self._f
        value = f.load_word("%arguments", index, "ptr")

        def parameter() -> tuple[()]:
            number = f.number(f.item(self._order, index), "drop")
            # Python converts those that have no place
            f.leave_if(f.assign(f"icmp eq i64 {number}, {NO_PLACE}"), "drop")
            real = f.assign(f"icmp slt i64 {number}, 0")
            f.choose(real, lambda: self._put_number(index, value), lambda: self._put(index, value))
            return ()

        among = f.assign(f"icmp slt i64 {index}, {self._arrays}")
        f.choose(among, lambda: self._put_array(index, value), parameter)
        return ()

    def keyword(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write the place of an argument that was given by name."""
        f = self._f
        place = f.api("PyDict_GetItemWithError", f"ptr {self._places}, ptr {f.item('%names', index)}", "drop")
        f.leave_if_null(place, "drop")
        value = f.load_word("%arguments", f.plus("%count", index), "ptr")
        number = shifted_place(f, f.number(place, "drop"), self._shift)

        def array() -> tuple[()]:
            # arrays enter the trace in the order of the signature, also if Python has to decide in the end
            last = f.assign(f"load i64, ptr {self._last}, align 8")
            f.leave_unless(f.assign(f"icmp eq i64 {number}, {f.plus(last, '1')}"), "drop")
            f.line(f"store i64 {number}, ptr {self._last}, align 8")
            return self._put_array(number, value)

        def once(put: Callable[[Index, str], tuple[()]], number: Index) -> tuple[()]:
            # Python complains about a parameter that was given by position, too
            f.leave_if(f.assign(f"icmp slt i64 {number}, %count"), "drop")
            return put(number, value)

        def parameter() -> tuple[()]:
            among = f.assign(f"icmp slt i64 {number}, {self._arrays}")
            f.choose(among, array, lambda: once(self._put, number))
            return ()

        real = f.assign(f"icmp slt i64 {number}, 0")
        f.choose(real, lambda: once(self._put_number, f.minus("-1", number)), parameter)
        return ()


def _compute_at_once(f: Code, at_once: str, name: str, given: str) -> None:
    """Write the computation of a single call, if there are some; go on with the label ``node`` if it is none."""
    some = f.assign(f"icmp sgt i64 {f.api('PyList_Size', f'ptr {at_once}', 'error')}, 0")
    f.line(f"br i1 {some}, label %at_once, label %node")
    f.label("at_once")
    f.leave_if_null(f.call("is_quiet"), "node")
    computed = f.assign(f"call ptr @{name}(ptr null, ptr {f.object('single_calls')}, {given})")
    f.leave_if_null(computed, "declined")
    f.give(computed)
    f.label("declined")
    f.leave_if_error("error")
    f.line("br label %node")
    f.label("node")


def _compute_immediately(f: Code, name: str, given: str) -> None:
    """Write the computation of a call while a trace is immediate; go to the label ``slow`` if Python has to decide."""
    trace = f.call("immediate_here")
    f.leave_if_null(trace, "slow")
    computed = f.assign(f"call ptr @{name}(ptr {trace}, ptr {f.object('immediate_calls')}, {given})")
    f.leave_if_null(computed, "slow")
    f.give(computed)


def _make_several(f: Code, entry: str, key: str, nodes: str, trace: str, kind: str) -> None:
    """Write the part of ``call`` that gives the arrays of several nodes."""
    f.label("several")
    array_class = f.assign(f"load ptr, ptr {kind}, align 8")
    given = f"ptr {f.item(entry, '10')}, ptr {key}, ptr {nodes}, ptr {trace}, ptr {array_class}, ptr null"
    made = f.api(CALL_WITH, given, "drop_nodes")
    f.release(nodes)
    f.leave_if(f.same(made, "none"), "undecided")
    f.release(key)
    f.give(made)
    f.label("undecided")
    f.release(made)
    f.line("br label %drop")
    f.label("drop_nodes")
    f.release(nodes)
    f.line("br label %drop")


def _count_names(f: Code, cell: str) -> str:
    """Return the number of arguments that were given by name, which is put into a cell."""
    f.line(f"store i64 0, ptr {cell}, align 8")
    f.line(f"br i1 {f.assign('icmp eq ptr %names, null')}, label %counted, label %named")
    f.label("named")
    f.line(f"store i64 {f.api('PyTuple_Size', 'ptr %names', 'error')}, ptr {cell}, align 8")
    f.line("br label %counted")
    f.label("counted")
    return f.assign(f"load i64, ptr {cell}, align 8")


def _call(offsets: dict[str, int]) -> str:
    """Return the function of an operator called by name, with arrays first, and parameters by position or keyword.

    Its entry is the tuple (calls, Python function, number of arrays, template of the key, places of keywords in
    the key, function that makes nodes of known kinds, list that is not empty if there are single calls, operator, key
    of the parameters if none is given, places of positional arguments, function that makes arrays of several nodes).
    The place of a number is given as -1 - place: Python makes the key if the number is 0, because 0.0 and -0.0 are
    equal, but different arguments. Keywords that Python has to convert are missing among the places, and ``NO_PLACE``
    among those of positional arguments. The number of arrays is -1 if there can be any number of them: then template
    and places begin with the parameters.
    """
    f = Code("call", "ptr %self, ptr %arguments, i64 %given, ptr %names", offsets)
    entry = f.field("%self", "entry")
    calls, function, arrays, template, _, extend, at_once = [f.item(entry, str(k)) for k in range(7)]
    # PY_VECTORCALL_ARGUMENTS_OFFSET is the highest bit
    f.line(f"%count = and i64 %given, {(1 << 63) - 1}")
    cell, kind = f.assign("alloca i64, align 8"), f.assign("alloca ptr, align 8")
    found_cell = f.assign("alloca ptr, align 8")
    f.line(f"store ptr {f.object('array')}, ptr {kind}, align 8")
    most, shift = arrays_of_call(f, f.number(arrays, "error"))
    length = f.plus(f.api("PyTuple_Size", f"ptr {template}", "error"), shift)
    f.leave_if(f.assign(f"icmp sgt i64 %count, {length}"), "slow")
    named = _count_names(f, cell)
    # a call without arrays by position, of an operator that takes any number of them, is left to Python, too
    f.leave_if(f.assign(f"icmp eq i64 {f.least(f.plus('%count', named), most)}, 0"), "slow")
    f.leave_unless(_nothing_is_immediate(f), "immediate")
    f.leave_if_null(f.call("trace_here"), "slow")
    given = f"ptr %self, ptr %arguments, i64 %count, ptr %names, i64 {named}"
    _compute_at_once(f, at_once, "compute_call", given)
    # any Python code may have run
    trace = f.call("trace_here")
    f.leave_if_null(trace, "slow")
    alone = f.assign(f"and i1 {f.assign('icmp eq i64 %count, 1')}, {f.assign(f'icmp eq i64 {named}, 0')}")
    f.line(f"br i1 {alone}, label %recent, label %look")
    f.label("recent")
    first = f.load_word("%arguments", "0", "ptr")
    node = f.call("enter", trace, first)
    f.leave_if_null(node, "slow")
    recent = f.call("recall", "%self", node, node)
    f.leave_if_null(recent, "look")
    result = f.call("new_result", trace, recent, f.field(first, "type"))
    f.leave_if_null(result, "slow")
    f.give(result)
    f.label("look")
    key = f.api("PyTuple_New", f"i64 {length}", "error")
    f.line(f"store i64 {f.minus('%count', '1')}, ptr {cell}, align 8")
    filling = _Key(f, key, trace, most, entry, shift, cell, kind)
    f.loop(shift, length, "1", (), filling.default)
    f.loop("0", "%count", "1", (), filling.positional)
    f.loop("0", named, "1", (), filling.keyword)
    found = f.api("PyDict_GetItemWithError", f"ptr {calls}, ptr {key}", "unhashable")
    f.line(f"store ptr {found}, ptr {found_cell}, align 8")
    f.leave_unless(f.is_equal(found, "null"), "known")
    made = f.api(CALL_WITH, f"ptr {extend}, ptr {key}, ptr null", "drop")
    f.leave_if(f.same(f.field(made, "type"), "tuple"), "several")
    # the table of the operator holds the node
    f.release(made)
    f.leave_if(f.same(made, "none"), "drop")
    f.line(f"store ptr {made}, ptr {found_cell}, align 8")
    f.release(key)
    # a call that is new is not noted as recent: most of those do not come back
    f.line("br label %old")
    f.label("known")
    found = f.assign(f"load ptr, ptr {found_cell}, align 8")
    f.release(key)
    f.line(f"br i1 {alone}, label %new, label %old")
    f.label("new")
    only = f.field(f.load_word("%arguments", "0", "ptr"), "node")
    f.call("note", "%self", only, only, found)
    f.line("br label %old")
    f.label("old")
    found = f.assign(f"load ptr, ptr {found_cell}, align 8")
    array_class = f.assign(f"load ptr, ptr {kind}, align 8")
    result = f.call("new_result", trace, found, array_class)
    f.leave_if_null(result, "slow")
    f.give(result)
    _make_several(f, entry, key, made, trace, kind)
    f.label("immediate")
    _compute_immediately(f, "compute_call", given)
    f.label("unhashable")
    f.clear_type_error()
    f.line("br label %drop")
    f.label("drop")
    f.release(key)
    f.line("br label %slow")
    f.pass_errors_on("slow")
    f.give(f.call_on(function, "ptr %arguments, i64 %count, ptr %names"))
    return f.text()
