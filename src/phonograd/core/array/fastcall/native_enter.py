"""The text of the code by which arrays enter the current trace, and are changed in place (:mod:`.native_call`).

Arrays that live from one turn of a loop to the next (data, parameters) enter each trace anew: their memory becomes a
leaf, and that of a variable a target of gradients::

    enter(trace, array):
        if array._trace is trace: return array._node
        leaf = bind(trace, array._buffer)
        node = leaf, or variable(leaf, slot(trace, array._extras.variable))
        array._trace, array._node = trace, node; trace.handles.append(array)

    change(entry, self, other):                    # w -= rate * w.grad
        node = what the operator of two operands gives
        self._node, self._buffer = node, None

What happens here happens at once for other threads, which wait for the interpreter. They may be about to change an
array, so the lock that says so (:data:`phonograd.core.trace.owner.HANDOVER`) is held where an array is given another
value.
"""

from __future__ import annotations

from collections.abc import Callable

from ...lower.ir.function_builder import Index, Value
from ...ops.math.structural import LATEST
from ...trace.flags import RECORDING
from .native_text import CALL_WITH, Code

__all__ = ["enter_texts", "flags_text"]

_EQUAL = 2


def enter_texts(offsets: dict[str, int]) -> list[str]:
    """Return the text of each function, in the order in which they need each other."""
    writers: tuple[Callable[[dict[str, int]], str], ...]
    writers = (_current, _make_current, _bind, _slot, _variable, _enter, _operand, _is_plain, _hold)
    writers += (_change, _write, _settle, _grad, _enter_from_python)
    return ["@current = internal global ptr null, align 8", *[write(offsets) for write in writers]]


def _current(offsets: dict[str, int]) -> str:
    """Return the function that gives the current trace of this thread, or null where Python has to look for it."""
    f = Code("trace_here", "", offsets)
    f.leave_unless(f.same(f.field(f.object("active"), "attentive"), "false"), "other")
    trace = f.assign("load ptr, ptr @current, align 8")
    f.leave_if_null(trace, "other")
    thread = f.field(trace, "thread")
    f.leave_if(f.same(thread, "none"), "other")
    here = f.api("i64", "PyThreadState_GetID", f"ptr {f.api('ptr', 'PyThreadState_Get')}")
    f.leave_unless(f.assign(f"icmp eq i64 {f.number(thread)}, {here}"), "other")
    f.line(f"ret ptr {trace}")
    f.end("other", "null")
    return f.text()


def _make_current(offsets: dict[str, int]) -> str:
    """Return the function that is told of the current trace of a thread, or None; it keeps the last one."""
    f = Code("make_current", "ptr %self, ptr %trace", offsets)
    before = f.assign("load ptr, ptr @current, align 8")
    trace = f.assign(f"select i1 {f.same('%trace', 'none')}, ptr null, ptr %trace")
    # nothing happens for null
    f.api("void", "Py_IncRef", f"ptr {trace}")
    f.line(f"store ptr {trace}, ptr @current, align 8")
    f.api("void", "Py_DecRef", f"ptr {before}")
    f.api("void", "Py_IncRef", f"ptr {f.object('none')}")
    f.line(f"ret ptr {f.object('none')}")
    return f.text()


def _bind(offsets: dict[str, int]) -> str:
    """Return the function that gives the leaf of some memory in a trace, or null: what ``Trace.bind`` does.

    A leaf that is new to the trace is the one of that number that was used last, if it fits.
    """
    f = Code("bind", "ptr %trace, ptr %memory", offsets)
    key = f.api("ptr", "PyLong_FromVoidPtr", "ptr %memory")
    f.leave_if_null(key, "error")
    bound, leaves = f.field("%trace", "bound"), f.field("%trace", "leaves")
    found = f.api("ptr", "PyDict_GetItemWithError", f"ptr {bound}, ptr {key}")
    f.leave_if_null(found, "new")
    f.leave_unless(f.same(f.field(found, "context"), "cpu"), "drop")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.line(f"ret ptr {found}")
    f.label("new")
    count = f.api("i64", "PyList_Size", f"ptr {leaves}")
    f.leave_unless(f.assign(f"icmp slt i64 {count}, {len(LATEST)}"), "drop")
    node = f.api("ptr", "PyList_GetItem", f"ptr {f.object('latest')}, i64 {count}")
    f.leave_if(f.same(node, "none"), "drop")
    f.leave_unless(f.assign(f"icmp eq ptr {f.field(node, 'dtype')}, {f.field('%memory', 'memory_dtype')}"), "drop")
    f.leave_unless(f.same(f.field(node, "context"), "cpu"), "drop")
    shape, extents = f.field(node, "shape"), f.field("%memory", "memory_extents")
    axes = f.assign(f"load i32, ptr {f.address('%memory', str(offsets['memory_axes']), 'i8')}, align 8")
    wide = f.assign(f"sext i32 {axes} to i64")
    f.leave_unless(f.assign(f"icmp eq i64 {wide}, {f.api('i64', 'PyTuple_Size', f'ptr {shape}')}"), "drop")

    def compare(axis: Index, _: list[Value]) -> tuple[()]:
        extent = f.number(f.item(shape, axis))
        f.leave_unless(f.assign(f"icmp eq i64 {extent}, {f.load_word(extents, axis)}"), "drop")
        return ()

    f.loop("0", wide, "1", (), compare)
    status = f.api("i32", "PyList_Append", f"ptr {leaves}, ptr %memory")
    f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "drop")
    status = f.api("i32", "PyDict_SetItem", f"ptr {bound}, ptr {key}, ptr {node}")
    f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "drop")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.line(f"ret ptr {node}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.line("br label %error")
    f.end("error", "null")
    return f.text()


def _slot(offsets: dict[str, int]) -> str:
    """Return the function that gives the number of a variable among the targets of a trace, as ``Trace.slot`` does."""
    f = Code("slot", "ptr %trace, ptr %owner", offsets)
    slots, targets = f.field("%trace", "slots"), f.field("%trace", "targets")
    found = f.api("ptr", "PyDict_GetItemWithError", f"ptr {slots}, ptr %owner")
    f.leave_if_null(found, "new")
    f.line(f"ret ptr {found}")
    f.label("new")
    number = f.api("ptr", "PyLong_FromLongLong", f"i64 {f.api('i64', 'PyList_Size', f'ptr {targets}')}")
    f.leave_if_null(number, "error")
    status = f.api("i32", "PyList_Append", f"ptr {targets}, ptr %owner")
    f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "drop")
    status = f.api("i32", "PyDict_SetItem", f"ptr {slots}, ptr %owner, ptr {number}")
    f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "drop")
    f.api("void", "Py_DecRef", f"ptr {number}")
    f.line(f"ret ptr {number}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {number}")
    f.line("br label %error")
    f.end("error", "null")
    return f.text()


def _variable(offsets: dict[str, int]) -> str:
    """Return the function that gives the node of a variable: its value, as the target of a number.

    At first sight Python makes it; then the call is left to Python as well, because anything may have happened.
    """
    f = Code("variable", "ptr %value, ptr %slot", offsets)
    what = f.object("variable")
    words = f"ptr {what}, ptr %value, ptr %slot"
    recent = f.assign(f"call ptr @recall({words})")
    f.leave_if_null(recent, "new")
    f.line(f"ret ptr {recent}")
    f.label("new")
    made = f.api("ptr", CALL_WITH, f"{words}, ptr null")
    f.leave_if_null(made, "error")
    f.assign(f"call ptr @note({words}, ptr {made})")
    f.api("void", "Py_DecRef", f"ptr {made}")
    f.line("br label %error")
    f.end("error", "null")
    return f.text()


def _enter(offsets: dict[str, int]) -> str:
    """Return the function that gives the node of an array in the current trace, or null where Python has to decide.

    An array from outside of the trace must have a value, and be on the CPU.
    """
    f = Code("enter", "ptr %trace, ptr %array", offsets)
    entered = f.assign("alloca ptr, align 8")
    f.leave_unless(f.is_array(f.field("%array", "type")), "other")
    # the node is read before the trace (threads.HANDOVER)
    node, home = f.field("%array", "node"), f.field("%array", "trace")
    f.line(f"br i1 {f.assign(f'icmp eq ptr {home}, %trace')}, label %here, label %outside")
    f.label("here")
    f.leave_if(f.same(node, "none"), "other")
    f.line(f"ret ptr {node}")
    f.label("outside")
    f.leave_unless(f.same(home, "none"), "other")
    f.leave_unless(f.same(node, "none"), "other")
    memory, extras = f.field("%array", "buffer"), f.field("%array", "extras")
    f.leave_unless(f.same(f.field(memory, "type"), "memory"), "other")
    f.line(f"br i1 {f.same(extras, 'none')}, label %plain, label %extras")
    f.label("plain")
    leaf = f.assign(f"call ptr @bind(ptr %trace, ptr {memory})")
    f.leave_if_null(leaf, "other")
    f.line(f"store ptr {leaf}, ptr {entered}, align 8")
    f.line("br label %found")
    f.label("extras")
    f.leave_unless(f.same(f.field(extras, "place"), "cpu"), "other")
    owner = f.field(extras, "variable")
    f.leave_if(f.same(owner, "none"), "plain")
    leaf = f.assign(f"call ptr @bind(ptr %trace, ptr {memory})")
    f.leave_if_null(leaf, "other")
    slot = f.assign(f"call ptr @slot(ptr %trace, ptr {owner})")
    f.leave_if_null(slot, "other")
    target = f.assign(f"call ptr @variable(ptr {leaf}, ptr {slot})")
    f.leave_if_null(target, "other")
    f.line(f"store ptr {target}, ptr {entered}, align 8")
    f.line("br label %found")
    f.label("found")
    result = f.assign(f"load ptr, ptr {entered}, align 8")
    status = f.api("i32", "PyList_Append", f"ptr {f.field('%trace', 'handles')}, ptr %array")
    f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "other")
    f.exchange("%array", "trace", "%trace")
    f.exchange("%array", "node", result)
    f.line(f"ret ptr {result}")
    f.end("other", "null")
    return f.text()


def _enter_from_python(offsets: dict[str, int]) -> str:
    """Return the function of an array and a trace that gives the node of the array there, or None."""
    f = Code("enter_from_python", "ptr %self, ptr %arguments, i64 %count", offsets)
    array, trace = [f.load_word("%arguments", str(k), "ptr") for k in range(2)]
    f.leave_unless(f.same(f.field(trace, "type"), "trace"), "other")
    node = f.assign(f"call ptr @enter(ptr {trace}, ptr {array})")
    f.leave_if_null(node, "other")
    f.api("void", "Py_IncRef", f"ptr {node}")
    f.line(f"ret ptr {node}")
    f.label("other")
    f.leave_unless(f.assign(f"icmp eq ptr {f.api('ptr', 'PyErr_Occurred')}, null"), "error")
    f.give_back("none")
    f.end("error", "null")
    return f.text()


def _operand(offsets: dict[str, int]) -> str:
    """Return the function that gives the node of an operand beside an array of some dtype: an array, or a number.

    Null where Python has to decide, also about numbers that are new to the trace.
    """
    f = Code("operand", "ptr %trace, ptr %own, ptr %other", offsets)
    kind = f.field("%other", "type")
    f.line(f"br i1 {f.is_array(kind)}, label %two, label %number")
    f.label("two")
    f.line(f"ret ptr {f.assign('call ptr @enter(ptr %trace, ptr %other)')}")
    f.label("number")
    numeric = f.assign(f"or i1 {f.same(kind, 'float')}, {f.same(kind, 'int')}")
    f.leave_unless(numeric, "error")
    key = f.api("ptr", "PyTuple_Pack", f"i64 2, ptr %other, ptr {f.field('%own', 'kind')}")
    f.leave_if_null(key, "error")
    scalar = f.api("ptr", "PyDict_GetItemWithError", f"ptr {f.field('%trace', 'scalars')}, ptr {key}")
    f.api("void", "Py_DecRef", f"ptr {key}")
    f.line(f"ret ptr {scalar}")
    f.end("error", "null")
    return f.text()


def _is_plain(offsets: dict[str, int]) -> str:
    """Return the function that gives an array back if nothing else sees it change and nothing forbids that."""
    f = Code("is_plain", "ptr %array", offsets)
    memory, extras = f.field("%array", "buffer"), f.field("%array", "extras")
    f.leave_if(f.same(memory, "none"), "pending")
    f.leave_unless(f.same(f.field(memory, "type"), "memory"), "other")
    f.line("br label %pending")
    f.label("pending")
    f.leave_if(f.same(extras, "none"), "yes")
    for name, value in (("root", "none"), ("views", "none"), ("readonly", "false")):
        f.leave_unless(f.same(f.field(extras, name), value), "other")
    f.line("br label %yes")
    f.end("yes", "%array")
    f.end("other", "null")
    return f.text()


def flags_text(f: Code, target: str) -> str:
    """Return whether operators are recorded, an ``i1``; goes elsewhere if that cannot be found out."""
    flags = f.assign("alloca ptr, align 8")
    status = f.api("i32", "PyContextVar_Get", f"ptr {f.object('flags')}, ptr null, ptr {flags}")
    f.leave_if(f.assign(f"icmp slt i32 {status}, 0"), target)
    value = f.assign(f"load ptr, ptr {flags}, align 8")
    bits = f.number(value)
    f.api("void", "Py_DecRef", f"ptr {value}")
    return f.assign(f"icmp ne i64 {f.assign(f'and i64 {bits}, {RECORDING}')}, 0")


def _hold(offsets: dict[str, int]) -> str:
    """Return the function that makes an array name a value that is not known yet, and returns it: ``handle._hold``."""
    f = Code("hold", "ptr %trace, ptr %array, ptr %node", offsets)
    # to wait for the lock may take a while
    f.api("void", "Py_IncRef", "ptr %node")
    locked = f.api("ptr", "PyObject_CallNoArgs", f"ptr {f.object('acquire')}")
    f.leave_if_null(locked, "drop")
    f.api("void", "Py_DecRef", f"ptr {locked}")
    home, memory = f.field("%array", "trace"), f.field("%array", "buffer")
    f.line(f"br i1 {f.assign(f'icmp eq ptr {home}, %trace')}, label %store, label %move")
    f.label("move")
    # there is no harm in an array that stands in the list and belongs elsewhere
    f.api("i32", "PyList_Append", f"ptr {f.field('%trace', 'handles')}, ptr %array")
    f.leave_if(f.same(home, "none"), "new")
    f.exchange("%trace", "repeats", f.object("true"))
    f.line("br label %new")
    f.label("new")
    f.exchange("%array", "trace", "%trace")
    f.line("br label %store")
    f.label("store")
    f.exchange("%array", "node", "%node")
    f.put("%array", "buffer", f.object("none"))
    f.api("void", "Py_DecRef", f"ptr {f.api('ptr', 'PyObject_CallNoArgs', 'ptr ' + f.object('release'))}")
    for value in ("%node", memory):
        f.api("void", "Py_DecRef", f"ptr {value}")
    f.api("void", "Py_IncRef", "ptr %array")
    f.line("ret ptr %array")
    f.label("drop")
    f.api("void", "Py_DecRef", "ptr %node")
    f.line("ret ptr null")
    return f.text()


def _write(offsets: dict[str, int]) -> str:
    """Return the function of an array, a node and a trace that does what ``rebind`` does for most of them.

    It returns whether the array is one of them: nothing looks at it, and what is written is not recorded.
    """
    f = Code("write", "ptr %self, ptr %arguments, i64 %count", offsets)
    array, node, trace = [f.load_word("%arguments", str(k), "ptr") for k in range(3)]
    cell = f.assign("alloca ptr, align 8")
    f.line(f"store ptr {node}, ptr {cell}, align 8")
    f.leave_unless(f.same(f.field(trace, "type"), "trace"), "other")
    f.leave_unless(f.is_array(f.field(array, "type")), "other")
    f.leave_unless(f.same(f.field(node, "marked"), "false"), "other")
    f.leave_unless(f.same(f.field(node, "context"), "cpu"), "other")
    f.leave_if_null(f.assign(f"call ptr @is_plain(ptr {array})"), "other")
    before, extras = f.field(array, "node"), f.field(array, "extras")
    f.leave_if(f.same(before, "none"), "known")
    f.leave_unless(f.same(f.field(before, "context"), "cpu"), "other")
    f.line("br label %known")
    f.label("known")
    f.leave_if(f.same(extras, "none"), "ordinary")
    f.leave_unless(f.same(f.field(extras, "place"), "cpu"), "other")
    owner = f.field(extras, "variable")
    f.leave_if(f.same(owner, "none"), "ordinary")
    slot = f.assign(f"call ptr @slot(ptr {trace}, ptr {owner})")
    f.leave_if_null(slot, "other")
    target = f.assign(f"call ptr @variable(ptr {node}, ptr {slot})")
    f.leave_if_null(target, "other")
    f.line(f"store ptr {target}, ptr {cell}, align 8")
    f.line("br label %hold")
    f.label("ordinary")
    f.leave_if(f.same(before, "none"), "hold")
    f.leave_if(f.same(f.field(before, "marked"), "true"), "other")
    f.line("br label %hold")
    f.label("hold")
    value = f.assign(f"load ptr, ptr {cell}, align 8")
    held = f.assign(f"call ptr @hold(ptr {trace}, ptr {array}, ptr {value})")
    f.leave_if_null(held, "other")
    f.api("void", "Py_DecRef", f"ptr {held}")
    f.give_back("true")
    f.label("other")
    f.leave_unless(f.assign(f"icmp eq ptr {f.api('ptr', 'PyErr_Occurred')}, null"), "error")
    f.give_back("false")
    f.end("error", "null")
    return f.text()


def _settle(offsets: dict[str, int]) -> str:
    """Return the function of a trace, its living arrays with their nodes, their values, and whether the trace ends.

    It gives arrays their values, and lets those go that are no part of a record, as ``Trace.flush`` does. It returns a
    list of those that it leaves to Python. Whoever calls it has the lock.
    """
    f = Code("settle", "ptr %self, ptr %arguments, i64 %count", offsets)
    trace, pairs, values, end = [f.load_word("%arguments", str(k), "ptr") for k in range(4)]
    left = f.api("ptr", "PyList_New", "i64 0")
    f.leave_if_null(left, "error")
    ends = f.same(end, "true")

    def each(index: Index, _: list[Value]) -> tuple[()]:
        pair = f.api("ptr", "PyList_GetItem", f"ptr {pairs}, i64 {index}")
        array, node = f.item(pair, "0"), f.item(pair, "1")
        here = f.assign(f"icmp eq ptr {f.field(array, 'trace')}, {trace}")
        named = f.assign(f"icmp eq ptr {f.field(array, 'node')}, {node}")
        same = f.assign(f"and i1 {named}, {here}")
        value = f.api("ptr", "PyList_GetItem", f"ptr {values}, i64 {index}")
        f.choose(same, lambda: known(array, value), tuple)
        f.choose(f.assign(f"and i1 {ends}, {here}"), lambda: leave(array, node, pair), tuple)
        return ()

    def known(array: str, value: str) -> tuple[()]:
        f.exchange(array, "buffer", value)
        return ()

    def leave(array: str, node: str, pair: str) -> tuple[()]:
        plain = f.assign(f"xor i1 {f.same(f.field(node, 'marked'), 'true')}, true")
        nearby = f.same(f.field(node, "context"), "cpu")
        f.choose(f.assign(f"and i1 {plain}, {nearby}"), lambda: free(array), lambda: own(array, node, pair, nearby))
        return ()

    def own(array: str, node: str, pair: str, nearby: str) -> tuple[()]:
        extras, is_variable = f.field(array, "extras"), f.same(f.field(node, "operator"), "variable_operator")
        some = f.assign(f"xor i1 {f.same(extras, 'none')}, true")
        possible = f.assign(f"and i1 {f.assign(f'and i1 {some}, {is_variable}')}, {nearby}")

        def compare() -> tuple[()]:
            number = f.number(f.item(f.field(node, "attributes"), "0"))
            target = f.api("ptr", "PyList_GetItem", f"ptr {f.field(trace, 'targets')}, i64 {number}")
            is_own = f.assign(f"icmp eq ptr {f.field(extras, 'variable')}, {target}")
            f.choose(is_own, lambda: free(array), lambda: keep(pair))
            return ()

        f.choose(possible, compare, lambda: keep(pair))
        return ()

    def free(array: str) -> tuple[()]:
        # in the order that readers in other threads rely on
        f.exchange(array, "trace", f.object("none"))
        f.exchange(array, "node", f.object("none"))
        return ()

    def keep(pair: str) -> tuple[()]:
        status = f.api("i32", "PyList_Append", f"ptr {left}, ptr {pair}")
        f.leave_unless(f.assign(f"icmp eq i32 {status}, 0"), "drop")
        return ()

    f.loop("0", f.api("i64", "PyList_Size", f"ptr {pairs}"), "1", (), each)
    f.line(f"ret ptr {left}")
    f.label("drop")
    f.api("void", "Py_DecRef", f"ptr {left}")
    f.line("br label %error")
    f.end("error", "null")
    return f.text()


def _change(offsets: dict[str, int]) -> str:
    """Return the function that gives an array the result of a call as its value, and returns it.

    What it does is what ``rebind`` does for most arrays: nothing looks at them, and what they get is not recorded.
    """
    f = Code("change", "ptr %trace, ptr %array, ptr %own, ptr %found", offsets)
    cell = f.assign("alloca ptr, align 8")
    f.line(f"store ptr %found, ptr {cell}, align 8")
    f.leave_if_null(f.assign("call ptr @is_plain(ptr %array)"), "other")
    for name in ("dtype", "context"):
        f.leave_unless(f.assign(f"icmp eq ptr {f.field('%own', name)}, {f.field('%found', name)}"), "other")
    shapes = f"ptr {f.field('%own', 'shape')}, ptr {f.field('%found', 'shape')}, i32 {_EQUAL}"
    f.leave_unless(f.assign(f"icmp eq i32 {f.api('i32', 'PyObject_RichCompareBool', shapes)}, 1"), "other")
    f.line(f"br i1 {f.same(f.field('%found', 'marked'), 'true')}, label %cut, label %plain")
    f.label("cut")
    f.leave_if(flags_text(f, "other"), "other")
    detached = f.field("%found", "detached")
    f.leave_if(f.same(detached, "none"), "other")
    f.line(f"store ptr {detached}, ptr {cell}, align 8")
    f.line("br label %plain")
    f.label("plain")
    extras = f.field("%array", "extras")
    f.leave_if(f.same(extras, "none"), "ordinary")
    owner = f.field(extras, "variable")
    f.leave_if(f.same(owner, "none"), "ordinary")
    slot = f.assign(f"call ptr @slot(ptr %trace, ptr {owner})")
    f.leave_if_null(slot, "other")
    value = f.assign(f"load ptr, ptr {cell}, align 8")
    target = f.assign(f"call ptr @variable(ptr {value}, ptr {slot})")
    f.leave_if_null(target, "other")
    f.line(f"store ptr {target}, ptr {cell}, align 8")
    f.line("br label %write")
    f.label("ordinary")
    # what was recorded stays recorded: Python knows how
    f.leave_if(f.same(f.field("%own", "marked"), "true"), "other")
    f.line("br label %write")
    f.label("write")
    value_in = f.assign(f"load ptr, ptr {cell}, align 8")
    f.line(f"ret ptr {f.assign(f'call ptr @hold(ptr %trace, ptr %array, ptr {value_in})')}")
    f.end("other", "null")
    return f.text()


def _grad(offsets: dict[str, int]) -> str:
    """Return the function of the attribute ``grad``: the gradient buffer of a variable, else None."""
    f = Code("grad", "ptr %array, ptr %closure", offsets)
    cell = f.assign("alloca ptr, align 8")
    f.line(f"store ptr {f.object('none')}, ptr {cell}, align 8")
    extras = f.field("%array", "extras")
    f.leave_if_null(extras, "end")
    f.leave_if(f.same(extras, "none"), "end")
    owner = f.field(extras, "variable")
    f.leave_if(f.same(owner, "none"), "end")
    f.line(f"store ptr {f.field(owner, 'grad')}, ptr {cell}, align 8")
    f.line("br label %end")
    f.label("end")
    result = f.assign(f"load ptr, ptr {cell}, align 8")
    f.api("void", "Py_IncRef", f"ptr {result}")
    f.line(f"ret ptr {result}")
    return f.text()
