"""The text of the code that operator calls run as: written for :mod:`.native_call`, which has it compiled and used."""

from __future__ import annotations

from collections.abc import Container

from ...lower.ir.function_builder import Index, Value
from .native_enter import enter_texts, flags_text
from .native_text import API, CALL_WITH, OBJECTS, Code

__all__ = ["ENTRY", "module_text"]

#: words of an entry of a binary operator
ENTRY = 3
#: entries of the table of recent calls, each of the words (what is called, first node, second node, result)
_RECENT = 4096


def module_text(offsets: dict[str, int], entries: int, changing: Container[int]) -> str:
    """Return the text of all functions; ``native_calls`` returns the address of a directory of what Python needs.

    Entries are operators of two operands; some of them are ``changing`` the first.
    """
    words = len(OBJECTS) + len(API)
    names = ["state", "entries", "call", "forget", "grad", "living", "make_current", "write", "settle"]
    names.append("enter_from_python")
    names += [f"binary{k}" for k in range(entries)]
    pointers = ", ".join([f"ptr @{name}" for name in names])
    parts = [
        f"@state = internal global [{words} x ptr] zeroinitializer, align 8",
        f"@entries = internal global [{ENTRY * entries} x ptr] zeroinitializer, align 8",
        f"@recent = internal global [{4 * _RECENT} x ptr] zeroinitializer, align 64",
        f"@directory = internal constant [{len(names)} x ptr] [{pointers}], align 8",
        "define ptr @native_calls() nounwind {\n  ret ptr @directory\n}",
        _finish(offsets),
        _recall(offsets),
        _note(offsets),
        _forget(offsets),
        *enter_texts(offsets),
        _living(offsets),
        _look_up(offsets),
        _binary(offsets, "binary", in_place=False),
        _binary(offsets, "inplace", in_place=True),
        _call(offsets),
        *[_binary_number(k, "inplace" if k in changing else "binary") for k in range(entries)],
    ]
    return "\n".join(parts) + "\n"


def _finish(offsets: dict[str, int]) -> str:
    """Return the function that makes the array of a result, of a class; null without an error where Python decides."""
    f = Code("finish", "ptr %trace, ptr %found, ptr %class", offsets)
    node = f.assign("alloca ptr, align 8")
    f.line(f"store ptr %found, ptr {node}, align 8")
    recorded = f.same(f.field("%found", "marked"), "true")
    f.line(f"br i1 {recorded}, label %check, label %make")
    f.label("check")
    f.line(f"br i1 {flags_text(f, 'undecided')}, label %note, label %cut")
    f.label("cut")
    detached = f.field("%found", "detached")
    f.leave_if(f.same(detached, "none"), "undecided")
    f.line(f"store ptr {detached}, ptr {node}, align 8")
    f.line("br label %make")
    f.label("note")
    made = f.field("%trace", "made")
    known = f.api("i32", "PyDict_Contains", f"ptr {made}, ptr %found")
    f.leave_unless(f.assign(f"icmp eq i32 {known}, 0"), "undecided")
    noted = f.api("i32", "PyDict_SetItem", f"ptr {made}, ptr %found, ptr {f.object('one')}")
    f.leave_unless(f.assign(f"icmp eq i32 {noted}, 0"), "undecided")
    f.line("br label %make")
    f.label("make")
    result = f.api("ptr", "PyType_GenericAlloc", "ptr %class, i64 0")
    f.leave_if_null(result, "undecided")
    f.put(result, "trace", "%trace")
    f.put(result, "node", f.assign(f"load ptr, ptr {node}, align 8"))
    f.put(result, "buffer", f.object("none"))
    f.put(result, "extras", f.object("none"))
    handles = f.field("%trace", "handles")
    appended = f.api("i32", "PyList_Append", f"ptr {handles}, ptr {result}")
    f.leave_unless(f.assign(f"icmp eq i32 {appended}, 0"), "drop")
    count, most = f.api("i64", "PyList_Size", f"ptr {handles}"), f.number(f.field("%trace", "prune_at"))
    f.leave_if(f.assign(f"icmp sgt i64 {count}, {most}"), "prune")
    f.line(f"ret ptr {result}")
    f.label("prune")
    pruned = f.api("ptr", CALL_WITH, f"ptr {f.object('prune')}, ptr %trace, ptr null")
    f.leave_if_null(pruned, "drop")
    f.api("void", "Py_DecRef", f"ptr {pruned}")
    f.line(f"ret ptr {result}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {result}")
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
        f.leave_unless(f.assign(f"icmp eq ptr {f.load_word(entry, str(index), 'ptr')}, {value}"), "other")
    f.line(f"ret ptr {f.load_word(entry, '3', 'ptr')}")
    f.end("other", "null")
    return f.text()


def _note(offsets: dict[str, int]) -> str:
    """Return the function that notes a call as recent. Its nodes stay alive until another one takes its place."""
    f = Code("note", f"{_CALL_ARGUMENTS}, ptr %result", offsets)
    entry = _recent(f, "%what", "%first", "%second")
    before = [f.load_word(entry, str(index), "ptr") for index in (1, 2, 3)]
    f.store_word(entry, "0", "%what", "ptr")
    for index, value in enumerate(("%first", "%second", "%result"), 1):
        f.api("void", "Py_IncRef", f"ptr {value}")
        f.store_word(entry, str(index), value, "ptr")
    for value in before:
        # nothing happens for null
        f.api("void", "Py_DecRef", f"ptr {value}")
    f.line("ret ptr null")
    return f.text()


def _forget(offsets: dict[str, int]) -> str:
    """Return the function that empties the table of recent calls."""
    f = Code("forget", "", offsets)

    def empty(index: Index, _: list[Value]) -> tuple[()]:
        entry = f.address("@recent", f.times(index, "4"), "ptr")
        before = [f.load_word(entry, str(word), "ptr") for word in (1, 2, 3)]
        for word in range(4):
            f.store_word(entry, str(word), "null", "ptr")
        for value in before:
            f.api("void", "Py_DecRef", f"ptr {value}")
        return ()

    f.loop("0", str(_RECENT), "1", (), empty)
    f.line("ret ptr null")
    return f.text()


def _living(offsets: dict[str, int]) -> str:
    """Return the function of a trace and a list of arrays that finds those that something else refers to, too.

    It returns a list of (array, node) of those that belong to the trace, as
    :func:`phonograd.core.trace.liveness.living` does.
    """
    f = Code("living", "ptr %self, ptr %arguments, i64 %count", offsets)
    trace, handles = f.load_word("%arguments", "0", "ptr"), f.load_word("%arguments", "1", "ptr")
    pairs = f.api("ptr", "PyList_New", "i64 0")
    f.leave_if_null(pairs, "error")

    def look(index: Index, _: list[Value]) -> tuple[()]:
        handle = f.api("ptr", "PyList_GetItem", f"ptr {handles}, i64 {index}")
        # whatever the interpreter keeps beside it, the count is the lower half of the first word
        count = f.assign(f"load i32, ptr {handle}, align 8")
        f.choose(f.assign(f"icmp ugt i32 {count}, 1"), lambda: alive(handle), tuple)
        return ()

    def alive(handle: str) -> tuple[()]:
        node = f.field(handle, "node")
        here = f.assign(f"icmp eq ptr {f.field(handle, 'trace')}, {trace}")
        there = f.assign(f"xor i1 {f.same(node, 'none')}, true")
        f.choose(f.assign(f"and i1 {here}, {there}"), lambda: append(handle, node), tuple)
        return ()

    def append(handle: str, node: str) -> tuple[()]:
        pair = f.api("ptr", "PyTuple_Pack", f"i64 2, ptr {handle}, ptr {node}")
        f.leave_if_null(pair, "drop")
        status = f.api("i32", "PyList_Append", f"ptr {pairs}, ptr {pair}")
        f.api("void", "Py_DecRef", f"ptr {pair}")
        f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "drop")
        return ()

    f.loop("0", f.api("i64", "PyList_Size", f"ptr {handles}"), "1", (), look)
    f.line(f"ret ptr {pairs}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {pairs}")
    f.line("br label %error")
    f.end("error", "null")
    return f.text()


def _look_up(offsets: dict[str, int]) -> str:
    """Return the function that gives the result of an operator of two operands if it was called with them before.

    An entry is the words (calls, Python function, whether the operands are exchanged).
    """
    f = Code("look_up", "ptr %record, ptr %first, ptr %second", offsets)
    words = "ptr %record, ptr %first, ptr %second"
    recent = f.assign(f"call ptr @recall({words})")
    f.leave_if_null(recent, "look")
    f.line(f"ret ptr {recent}")
    f.label("look")
    key = f.api("ptr", "PyTuple_Pack", "i64 2, ptr %first, ptr %second")
    f.leave_if_null(key, "error")
    calls = f.load_word("%record", "0", "ptr")
    node = f.api("ptr", "PyDict_GetItemWithError", f"ptr {calls}, ptr {key}")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.leave_if_null(node, "error")
    f.assign(f"call ptr @note({words}, ptr {node})")
    f.line(f"ret ptr {node}")
    f.end("error", "null")
    return f.text()


def _binary(offsets: dict[str, int], name: str, in_place: bool) -> str:
    """Return the function of an operator of two operands: an array, and an array or a number.

    It makes a new array, or gives the first operand another value.
    """
    f = Code(name, "ptr %record, ptr %self, ptr %other", offsets)
    trace = f.assign("call ptr @trace_here()")
    f.leave_if_null(trace, "slow")
    exchanged = f.assign(f"icmp ne i64 {f.load_word('%record', '2')}, 0")
    # where both are arrays, the first one is entered first
    f.leave_if(f.assign(f"and i1 {exchanged}, {f.is_array(f.field('%other', 'type'))}"), "slow")
    own = f.assign(f"call ptr @enter(ptr {trace}, ptr %self)")
    f.leave_if_null(own, "slow")
    other = f.assign(f"call ptr @operand(ptr {trace}, ptr {own}, ptr %other)")
    f.leave_if_null(other, "slow")
    pair = [f.assign(f"select i1 {exchanged}, ptr {a}, ptr {b}") for a, b in ((other, own), (own, other))]
    node = f.assign(f"call ptr @look_up(ptr %record, ptr {pair[0]}, ptr {pair[1]})")
    f.leave_if_null(node, "slow")
    ending = (
        f"@change(ptr {trace}, ptr %self, ptr {own}, ptr {node})"
        if in_place
        else f"@finish(ptr {trace}, ptr {node}, ptr {f.field('%self', 'type')})"
    )
    result = f.assign(f"call ptr {ending}")
    f.leave_if_null(result, "slow")
    f.line(f"ret ptr {result}")
    f.label("slow")
    f.leave_unless(f.assign(f"icmp eq ptr {f.api('ptr', 'PyErr_Occurred')}, null"), "error")
    function = f.load_word("%record", "1", "ptr")
    f.line(f"ret ptr {f.api('ptr', CALL_WITH, f'ptr {function}, ptr %self, ptr %other, ptr null')}")
    f.end("error", "null")
    return f.text()


def _binary_number(number: int, name: str) -> str:
    """Return the function that Python calls for one operator of two operands."""
    entry = f"getelementptr (ptr, ptr @entries, i64 {ENTRY * number})"
    return (
        f"define internal ptr @binary{number}(ptr %self, ptr %other) nounwind {{\n"
        f"  %result = tail call ptr @{name}(ptr {entry}, ptr %self, ptr %other)\n  ret ptr %result\n}}\n"
    )


class _Key:
    """Writes the code that fills the key of a call, which is dropped (at the label ``drop``) where it cannot be."""

    def __init__(
        self, f: Code, key: str, trace: str, arrays: str, template: str, places: str, last: str, kind: str
    ) -> None:
        self._f = f
        self._last = last
        self._kind = kind
        self._key = key
        self._trace = trace
        self._arrays = arrays
        self._template = template
        self._places = places

    def _put(self, index: Index, value: str) -> tuple[()]:
        self._f.api("void", "Py_IncRef", f"ptr {value}")
        self._f.api("i32", "PyTuple_SetItem", f"ptr {self._key}, i64 {index}, ptr {value}")
        return ()

    def _put_array(self, index: Index, value: str) -> tuple[()]:
        f = self._f
        node = f.assign(f"call ptr @enter(ptr {self._trace}, ptr {value})")
        f.leave_if_null(node, "drop")
        # what is computed from arrays of both classes is of the other one
        before, own = f.assign(f"load ptr, ptr {self._kind}, align 8"), f.field(value, "type")
        kind = f.assign(f"select i1 {f.same(own, 'other_array')}, ptr {own}, ptr {before}")
        f.line(f"store ptr {kind}, ptr {self._kind}, align 8")
        return self._put(index, node)

    def _put_number(self, index: Index, value: str) -> tuple[()]:
        f = self._f
        kind = f.field(value, "type")
        f.leave_unless(f.assign(f"or i1 {f.same(kind, 'float')}, {f.same(kind, 'int')}"), "drop")
        truth = f.api("i32", "PyObject_IsTrue", f"ptr {value}")
        f.leave_unless(f.assign(f"icmp eq i32 {truth}, 1"), "drop")
        return self._put(index, value)

    def default(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write a place of the key as it is in the template."""
        return self._put(index, self._f.item(self._template, index))

    def positional(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write the place of a positional argument."""
        return self._put_array(index, self._f.load_word("%arguments", index, "ptr"))

    def keyword(self, index: Index, _: list[Value]) -> tuple[()]:
        """Write the place of an argument that was given by name."""
        f = self._f
        place = f.api("ptr", "PyDict_GetItemWithError", f"ptr {self._places}, ptr {f.item('%names', index)}")
        f.leave_if_null(place, "drop")
        value, number = f.load_word("%arguments", f.plus("%count", index), "ptr"), f.number(place)

        def array() -> tuple[()]:
            # arrays are entered in the order of the signature
            last = f.assign(f"load i64, ptr {self._last}, align 8")
            f.leave_unless(f.assign(f"icmp sgt i64 {number}, {last}"), "drop")
            f.line(f"store i64 {number}, ptr {self._last}, align 8")
            return self._put_array(number, value)

        def parameter() -> tuple[()]:
            among = f.assign(f"icmp slt i64 {number}, {self._arrays}")
            f.choose(among, array, lambda: self._put(number, value))
            return ()

        real = f.assign(f"icmp slt i64 {number}, 0")
        f.choose(real, lambda: self._put_number(f.minus("-1", number), value), parameter)
        return ()


def _call(offsets: dict[str, int]) -> str:
    """Return the function of an operator called by name, with arrays first and parameters by keyword.

    Its ``self`` is the tuple (calls, Python function, number of arrays, template of the key, places of keywords in
    the key). The place of a number is given as -1 - place: 0.0 and -0.0 are equal, but they are different arguments,
    so Python makes the key. Keywords that need another look are missing among the places.
    """
    f = Code("call", "ptr %self, ptr %arguments, i64 %count, ptr %names", offsets)
    calls, function, arrays, template, places = [f.item("%self", str(k)) for k in range(5)]
    cell, length = f.assign("alloca i64, align 8"), f.api("i64", "PyTuple_Size", f"ptr {template}")
    kind = f.assign("alloca ptr, align 8")
    f.line(f"store ptr {f.object('array')}, ptr {kind}, align 8")
    most = f.number(arrays)
    f.leave_if(f.assign(f"icmp sgt i64 %count, {most}"), "slow")
    f.line(f"store i64 0, ptr {cell}, align 8")
    f.line(f"br i1 {f.assign('icmp eq ptr %names, null')}, label %counted, label %named")
    f.label("named")
    f.line(f"store i64 {f.api('i64', 'PyTuple_Size', 'ptr %names')}, ptr {cell}, align 8")
    f.line("br label %counted")
    f.label("counted")
    named = f.assign(f"load i64, ptr {cell}, align 8")
    f.leave_if(f.assign(f"icmp eq i64 {f.plus('%count', named)}, 0"), "slow")
    trace = f.assign("call ptr @trace_here()")
    f.leave_if_null(trace, "slow")
    alone = f.assign(f"and i1 {f.assign('icmp eq i64 %count, 1')}, {f.assign(f'icmp eq i64 {named}, 0')}")
    f.line(f"br i1 {alone}, label %recent, label %look")
    f.label("recent")
    first = f.load_word("%arguments", "0", "ptr")
    node = f.assign(f"call ptr @enter(ptr {trace}, ptr {first})")
    f.leave_if_null(node, "slow")
    recent = f.assign(f"call ptr @recall(ptr %self, ptr {node}, ptr {node})")
    f.leave_if_null(recent, "look")
    result = f.assign(f"call ptr @finish(ptr {trace}, ptr {recent}, ptr {f.field(first, 'type')})")
    f.leave_if_null(result, "slow")
    f.line(f"ret ptr {result}")
    f.label("look")
    key = f.api("ptr", "PyTuple_New", f"i64 {length}")
    f.leave_if_null(key, "error")
    f.line(f"store i64 {f.minus('%count', '1')}, ptr {cell}, align 8")
    filling = _Key(f, key, trace, most, template, places, cell, kind)
    # a template has no empty places, so that a key can be dropped at any time
    f.loop("0", length, "1", (), filling.default)
    f.loop("0", "%count", "1", (), filling.positional)
    f.loop("0", named, "1", (), filling.keyword)
    found = f.api("ptr", "PyDict_GetItemWithError", f"ptr {calls}, ptr {key}")
    f.leave_if_null(found, "drop")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.line(f"br i1 {alone}, label %new, label %old")
    f.label("new")
    only = f.field(f.load_word("%arguments", "0", "ptr"), "node")
    f.assign(f"call ptr @note(ptr %self, ptr {only}, ptr {only}, ptr {found})")
    f.line("br label %old")
    f.label("old")
    array_class = f.assign(f"load ptr, ptr {kind}, align 8")
    result = f.assign(f"call ptr @finish(ptr {trace}, ptr {found}, ptr {array_class})")
    f.leave_if_null(result, "slow")
    f.line(f"ret ptr {result}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {key}")
    # a list among the parameters has no hash: Python converts it
    f.api("void", "PyErr_Clear")
    f.line("br label %slow")
    f.label("slow")
    f.leave_unless(f.assign(f"icmp eq ptr {f.api('ptr', 'PyErr_Occurred')}, null"), "error")
    f.line(f"ret ptr {f.call_on(function, 'ptr %arguments, i64 %count, ptr %names')}")
    f.end("error", "null")
    return f.text()
