"""The machine code by which arrays enter the current trace, change in place, and get their values.

Each function is the counterpart of a Python function, which is its definition. A function here handles the common
cases of its definition and returns null in all others, before it has changed anything that the definition would not
change again. ``tests/core/array/test_native_states.py`` runs random programs through both and compares the states.

==============  =======================================================================================
machine code    its definition in Python
==============  =======================================================================================
``trace_here``  ``trace.LOCAL.trace``
``new_leaf``    ``Trace._new_leaf`` and ``structural.leaf_like``, for memory on the CPU
``bind``        ``Trace.bind``, for memory on the CPU
``slot``        ``Trace.slot``
``variable``    ``operators.structural.variable``
``enter``       ``handle.enter``, for arrays of this trace and for known values on the CPU
``entered``     the short path of ``handle.node_in``
``number_key``  the key of a number in ``Trace.bind_scalar``
``operand``     the part of ``operands.operate`` that finds the other operand, and ``Trace.bind_scalar``
``owned``       ``variable(node, trace.slot(owner))`` for the variable of an array, in ``enter`` and ``rebind``
``is_plain``    the condition of the short path of ``handle.rebind``
``hold``        ``handle._hold``
``assigned``    the short path of ``handle.rebind`` up to ``_hold``
``write``       the short path of ``handle.rebind``
``change``      the end of the method that ``operands.inplace`` returns
``settle``      the part of ``Trace.flush`` and ``Tape.keep_recorded`` that gives arrays their values
==============  =======================================================================================

Other threads wait for the interpreter while a function here runs, so each is one step for them. An array gets another
value under the lock of the Python functions (``HANDOVER``), because another thread may hold it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...lower.ir.function_builder import Index, Value
from ...ops.math.structural import LATEST
from ...trace.flags import RECORDING
from .native_text import CALL_WITH, Code

__all__ = ["enter_texts", "is_of_this_thread", "is_recording"]

#: Py_EQ
_EQUAL = 2


def enter_texts(offsets: dict[str, int]) -> list[str]:
    """Return the text of each function, in the order in which they need each other."""
    writers: tuple[Callable[[dict[str, int]], str], ...]
    writers = (_trace_here, _make_current, _new_leaf, _bind, _slot, _variable, _own_node, _enter, _number_key, _operand)
    writers += (_entered, _is_plain, _hold, _assign, _change, _write, _settle)
    traces = [f"@{name} = internal global ptr null, align 8" for name in ("current", "immediate")]
    return [*traces, *[write(offsets) for write in writers]]


def _trace_here(offsets: dict[str, int]) -> str:
    """Return the function that gives the current trace of this thread, or null if Python has to look for it."""
    f = Code("trace_here", "", offsets)
    f.leave_unless(f.same(f.field(f.object("active"), "attentive"), "false"), "other")
    trace = f.assign("load ptr, ptr @current, align 8")
    f.leave_if_null(trace, "other")
    f.leave_unless(is_of_this_thread(f, trace, "other"), "other")
    f.give(trace)
    f.end("other", "null")
    return f.text()


def is_of_this_thread(f: Code, trace: str, target: str) -> str:
    """Return whether a trace is that of this thread, an ``i1``; jump to a label if it has no thread."""
    thread = f.field(trace, "thread")
    f.leave_if(f.same(thread, "none"), target)
    here = f.api("PyThreadState_GetID", f"ptr {f.api('PyThreadState_Get')}")
    return f.assign(f"icmp eq i64 {f.number(thread, target)}, {here}")


def _make_current(offsets: dict[str, int]) -> str:
    """Return the function that keeps the current trace of a thread, or None, in the place of the one before.

    Calls add nodes to ``current``; those of ``immediate`` are computed (:mod:`.native_immediate`).
    """
    f = Code("make_current", "ptr %self, ptr %trace", offsets)
    before = [f.assign(f"load ptr, ptr @{name}, align 8") for name in ("current", "immediate")]
    trace = f.assign(f"select i1 {f.same('%trace', 'none')}, ptr null, ptr %trace")
    is_immediate = f.same(f.field("%trace", "type"), "immediate_trace")
    # for null nothing happens
    f.api("Py_IncRef", f"ptr {trace}")
    f.line(f"store ptr {f.assign(f'select i1 {is_immediate}, ptr null, ptr {trace}')}, ptr @current, align 8")
    f.line(f"store ptr {f.assign(f'select i1 {is_immediate}, ptr {trace}, ptr null')}, ptr @immediate, align 8")
    f.release(*before)
    f.give_back("none")
    return f.text()


def _new_leaf(offsets: dict[str, int]) -> str:
    """Return the function that adds memory to the leaves of a trace, and gives its leaf; null if Python has to.

    It is the leaf of that number that was used last, if it fits. A hot function makes another one.
    """
    f = Code("new_leaf", "ptr %trace, ptr %memory", offsets)
    leaves = f.field("%trace", "leaves")
    count = f.api("PyList_Size", f"ptr {leaves}", "other")
    f.leave_unless(f.assign(f"icmp slt i64 {count}, {len(LATEST)}"), "other")
    node = f.api("PyList_GetItem", f"ptr {f.object('latest')}, i64 {count}", "other")
    f.leave_if(f.same(node, "none"), "make")
    f.leave_unless(f.is_equal(f.field(node, "dtype"), f.field("%memory", "memory_dtype")), "make")
    f.leave_unless(f.same(f.field(node, "context"), "cpu"), "make")
    shape, extents = f.field(node, "shape"), f.field("%memory", "memory_extents")
    axes = f.assign(f"load i32, ptr {f.address('%memory', str(offsets['memory_axes']), 'i8')}, align 8")
    wide = f.assign(f"sext i32 {axes} to i64")
    length = f.api("PyTuple_Size", f"ptr {shape}", "other")
    f.leave_unless(f.assign(f"icmp eq i64 {wide}, {length}"), "make")

    def compare(axis: Index, _: list[Value]) -> tuple[()]:
        extent = f.number(f.item(shape, axis), "other")
        f.leave_unless(f.assign(f"icmp eq i64 {extent}, {f.load_word(extents, axis)}"), "make")
        return ()

    f.loop("0", wide, "1", (), compare)
    f.append(leaves, "%memory", "other")
    f.give(node)
    f.label("make")
    number = f.api("PyLong_FromLongLong", f"i64 {count}", "other")
    given = f"ptr {number}, ptr %memory, ptr {f.object('cpu')}"
    made = f.api(CALL_WITH, f"ptr {f.object('leaf_like')}, {given}, ptr null", "drop")
    # the latest leaves hold it
    f.release(made, number)
    # where it is a Python function, a signal handler may have run
    f.leave_unless(f.is_equal(f.call("trace_here"), "%trace"), "other")
    again = f.api("PyList_Size", f"ptr {leaves}", "other")
    f.leave_unless(f.assign(f"icmp eq i64 {again}, {count}"), "other")
    latest = f.api("PyList_GetItem", f"ptr {f.object('latest')}, i64 {count}", "other")
    f.leave_unless(f.is_equal(latest, made), "other")
    f.append(leaves, "%memory", "other")
    f.give(made)
    f.label("drop")
    f.release(number)
    f.line("br label %other")
    f.end("other", "null")
    return f.text()


def _bind(offsets: dict[str, int]) -> str:
    """Return the function that gives the leaf of some memory in a trace, or null."""
    f = Code("bind", "ptr %trace, ptr %memory", offsets)
    key = f.api("PyLong_FromVoidPtr", "ptr %memory", "error")
    bound = f.field("%trace", "bound")
    found = f.api("PyDict_GetItemWithError", f"ptr {bound}, ptr {key}", "drop")
    f.leave_if_null(found, "new")
    f.leave_unless(f.same(f.field(found, "context"), "cpu"), "drop")
    f.release(key)
    f.give(found)
    f.label("new")
    node = f.call("new_leaf", "%trace", "%memory")
    f.leave_if_null(node, "drop")
    f.insert(bound, key, node, "drop")
    f.release(key)
    f.give(node)
    f.end_dropping(key)
    return f.text()


def _slot(offsets: dict[str, int]) -> str:
    """Return the function that gives the number of a variable among the targets of a trace."""
    f = Code("slot", "ptr %trace, ptr %owner", offsets)
    slots, targets = f.field("%trace", "slots"), f.field("%trace", "targets")
    found = f.api("PyDict_GetItemWithError", f"ptr {slots}, ptr %owner", "error")
    f.leave_if_null(found, "new")
    f.give(found)
    f.label("new")
    count = f.api("PyList_Size", f"ptr {targets}", "error")
    number = f.api("PyLong_FromLongLong", f"i64 {count}", "error")
    f.append(targets, "%owner", "drop")
    f.insert(slots, "%owner", number, "drop")
    f.release(number)
    f.give(number)
    f.end_dropping(number)
    return f.text()


def _variable(offsets: dict[str, int]) -> str:
    """Return the function that gives the node of a variable: its value, as the target of a number.

    A hot function makes a node that is new.
    """
    f = Code("variable", "ptr %trace, ptr %value, ptr %slot", offsets)
    words = f.object("variable"), "%value", "%slot"
    recent = f.call("recall", *words)
    f.leave_if_null(recent, "new")
    f.give(recent)
    f.label("new")
    made = f.api(CALL_WITH, f"{', '.join([f'ptr {word}' for word in words])}, ptr null", "error")
    f.call("note", *words, made)
    # recent calls hold it
    f.release(made)
    # where it is a Python function, a signal handler may have run
    f.leave_unless(f.is_equal(f.call("trace_here"), "%trace"), "error")
    f.give(made)
    f.end("error", "null")
    return f.text()


def _own_node(offsets: dict[str, int]) -> str:
    """Return the function that gives a node as the value of an array: for a variable, the node of its target."""
    f = Code("owned", "ptr %trace, ptr %array, ptr %node", offsets)
    extras = f.field("%array", "extras")
    f.leave_if(f.same(extras, "none"), "itself")
    owner = f.field(extras, "variable")
    f.leave_if(f.same(owner, "none"), "itself")
    slot = f.call("slot", "%trace", owner)
    f.leave_if_null(slot, "error")
    f.give(f.call("variable", "%trace", "%node", slot))
    f.end("itself", "%node")
    f.end("error", "null")
    return f.text()


def _enter(offsets: dict[str, int]) -> str:
    """Return the function that gives the node of an array in the current trace.

    An array from outside of the trace must have a value, and be on the CPU.
    """
    f = Code("enter", "ptr %trace, ptr %array", offsets)
    f.leave_unless(f.is_array(f.field("%array", "type")), "other")
    # the node is read before the trace (HANDOVER)
    node, home = f.field("%array", "node"), f.field("%array", "trace")
    f.line(f"br i1 {f.is_equal(home, '%trace')}, label %here, label %outside")
    f.label("here")
    f.leave_if(f.same(node, "none"), "other")
    f.give(node)
    f.label("outside")
    f.leave_unless(f.same(home, "none"), "other")
    f.leave_unless(f.same(node, "none"), "other")
    memory, extras = f.field("%array", "buffer"), f.field("%array", "extras")
    f.leave_unless(f.same(f.field(memory, "type"), "memory"), "other")
    f.leave_if(f.same(extras, "none"), "nearby")
    f.leave_unless(f.same(f.field(extras, "place"), "cpu"), "other")
    f.line("br label %nearby")
    f.label("nearby")
    leaf = f.call("bind", "%trace", memory)
    f.leave_if_null(leaf, "other")
    entered = f.call("owned", "%trace", "%array", leaf)
    f.leave_if_null(entered, "other")
    f.append(f.field("%trace", "handles"), "%array", "other")
    f.exchange("%array", "trace", "%trace")
    f.exchange("%array", "node", entered)
    f.give(entered)
    f.end("other", "null")
    return f.text()


def _entered(offsets: dict[str, int]) -> str:
    """Return the function of an array and a trace that returns the node of the array there, or None."""
    f = Code("entered", "ptr %self, ptr %arguments, i64 %count", offsets)
    array, trace = [f.load_word("%arguments", str(k), "ptr") for k in range(2)]
    f.leave_unless(f.is_equal(f.call("trace_here"), trace), "other")
    node = f.call("enter", trace, array)
    f.leave_if_null(node, "other")
    f.api("Py_IncRef", f"ptr {node}")
    f.give(node)
    f.pass_errors_on("other")
    f.give_back("none")
    return f.text()


def _operand(offsets: dict[str, int]) -> str:
    """Return the function that gives the node of the operand beside an array of some dtype: an array, or a number.

    Python converts a number that was not used beside this dtype of late, and binds all numbers beside integers.
    """
    f = Code("operand", "ptr %trace, ptr %own, ptr %other", offsets)
    kind = f.field("%other", "type")
    f.line(f"br i1 {f.is_array(kind)}, label %two, label %number")
    f.label("two")
    f.give(f.call("enter", "%trace", "%other"))
    f.label("number")
    f.leave_unless(f.is_number(kind), "error")
    key = f.call("number_key", "%other", f.field("%own", "kind"))
    f.leave_if_null(key, "error")
    scalars = f.field("%trace", "scalars")
    known = f.api("PyDict_GetItemWithError", f"ptr {scalars}, ptr {key}", "drop")
    f.leave_if_null(known, "new")
    f.release(key)
    f.give(known)
    f.label("new")
    f.leave_unless(f.same(f.field("%own", "context"), "cpu"), "drop")
    cell = f.assign("alloca ptr, align 8")
    memory = f.api("PyDict_GetItemWithError", f"ptr {f.object('numbers')}, ptr {key}", "drop")
    f.line(f"store ptr {memory}, ptr {cell}, align 8")
    f.leave_unless(f.is_equal(memory, "null"), "converted")
    given = ", ".join([f"ptr {word}" for word in ("%other", f.field("%own", "dtype"), key)])
    made = f.api(CALL_WITH, f"ptr {f.object('number_memory')}, {given}, ptr null", "drop")
    # the numbers that are remembered hold it
    f.release(made)
    f.leave_if(f.same(made, "none"), "drop")
    f.line(f"store ptr {made}, ptr {cell}, align 8")
    f.line("br label %converted")
    f.label("converted")
    node = f.call("new_leaf", "%trace", f.assign(f"load ptr, ptr {cell}, align 8"))
    f.leave_if_null(node, "drop")
    f.insert(scalars, key, node, "drop")
    f.release(key)
    f.give(node)
    f.end_dropping(key)
    return f.text()


def _number_key(offsets: dict[str, int]) -> str:
    """Return the function that gives the key of a number beside a dtype: zeros of both signs are equal numbers."""
    f = Code("number_key", "ptr %number, ptr %kind", offsets)
    truth = f.api("PyObject_IsTrue", "ptr %number", "error")
    f.leave_if(f.assign(f"icmp eq i32 {truth}, 0"), "zero")
    f.give(f.api("PyTuple_Pack", "i64 2, ptr %number, ptr %kind", "error"))
    f.label("zero")
    bits = f.assign(f"bitcast double {f.api('PyFloat_AsDouble', 'ptr %number')} to i64")
    negative = f.assign(f"icmp slt i64 {bits}, 0")
    sign = f.assign(f"select i1 {negative}, ptr {f.object('minus_one')}, ptr {f.object('plus_one')}")
    f.give(f.api("PyTuple_Pack", f"i64 3, ptr {f.object('zero')}, ptr {sign}, ptr %kind", "error"))
    f.end("error", "null")
    return f.text()


def _is_plain(offsets: dict[str, int]) -> str:
    """Return the function that gives an array back if it owns its memory, has no views and is not read-only."""
    f = Code("is_plain", "ptr %array", offsets)
    memory, extras = f.field("%array", "buffer"), f.field("%array", "extras")
    f.leave_if(f.same(memory, "none"), "pending")
    f.leave_unless(f.same(f.field(memory, "type"), "memory"), "other")
    f.line("br label %pending")
    f.label("pending")
    f.leave_if(f.same(extras, "none"), "yes")
    for name, value in (("root", "none"), ("views", "none"), ("readonly", "false"), ("place", "cpu")):
        f.leave_unless(f.same(f.field(extras, name), value), "other")
    f.line("br label %yes")
    f.end("yes", "%array")
    f.end("other", "null")
    return f.text()


def is_recording(f: Code, target: str) -> str:
    """Return whether operators are recorded, an ``i1``; jump to a label if that cannot be found out."""
    flags = f.assign("alloca ptr, align 8")
    f.api("PyContextVar_Get", f"ptr {f.object('flags')}, ptr null, ptr {flags}", target)
    value = f.assign(f"load ptr, ptr {flags}, align 8")
    # the context keeps the number
    f.release(value)
    bits = f.number(value, target)
    return f.assign(f"icmp ne i64 {f.assign(f'and i64 {bits}, {RECORDING}')}, 0")


def _hold(offsets: dict[str, int]) -> str:
    """Return the function that makes an array name a pending value, and returns the array."""
    f = Code("hold", "ptr %trace, ptr %array, ptr %node", offsets)
    # other threads may run while this one waits for the lock
    f.api("Py_IncRef", "ptr %node")
    before = f.field("%array", "trace")
    # an array that is in the list and belongs to another trace does no harm: what can fail is done before the lock
    f.leave_if(f.is_equal(before, "%trace"), "lock")
    f.append(f.field("%trace", "handles"), "%array", "drop")
    f.line("br label %lock")
    f.label("lock")
    f.release(f.api("PyObject_CallNoArgs", f"ptr {f.object('acquire')}", "drop"))
    home, memory = f.field("%array", "trace"), f.field("%array", "buffer")
    f.leave_unless(f.is_equal(home, before), "moved")
    f.leave_if(f.is_equal(home, "%trace"), "store")
    f.leave_if(f.same(home, "none"), "new")
    f.exchange("%trace", "repeats", f.object("true"))
    f.line("br label %new")
    f.label("new")
    f.exchange("%array", "trace", "%trace")
    f.line("br label %store")
    f.label("store")
    f.exchange("%array", "node", "%node")
    f.put("%array", "buffer", f.object("none"))
    unlocked = f.api("PyObject_CallNoArgs", f"ptr {f.object('release')}", "unlocked")
    f.release(unlocked, "%node", memory)
    f.api("Py_IncRef", "ptr %array")
    f.give("%array")
    f.label("unlocked")
    f.release(memory)
    f.line("br label %drop")
    # another thread has taken the array over meanwhile: Python decides
    f.label("moved")
    f.release(f.api("PyObject_CallNoArgs", f"ptr {f.object('release')}", "drop"))
    f.line("br label %drop")
    f.label("drop")
    f.release("%node")
    f.give("null")
    return f.text()


def _assign(offsets: dict[str, int]) -> str:
    """Return the function that makes a plain array name an unmarked node, and returns the array.

    Null if that is not the short path of ``rebind``: then a recorded array would have to stay recorded.
    """
    f = Code("assigned", "ptr %trace, ptr %array, ptr %node", offsets)
    value, before = f.call("owned", "%trace", "%array", "%node"), f.field("%array", "node")
    f.leave_if_null(value, "other")
    # a variable is marked, and stays a variable
    f.leave_unless(f.is_equal(value, "%node"), "hold")
    f.leave_if(f.same(before, "none"), "hold")
    f.leave_if(f.same(f.field(before, "marked"), "true"), "other")
    f.line("br label %hold")
    f.label("hold")
    f.give(f.call("hold", "%trace", "%array", value))
    f.end("other", "null")
    return f.text()


def _change(offsets: dict[str, int]) -> str:
    """Return the function that assigns the result of an in-place operator to an array, and returns the array."""
    f = Code("change", "ptr %trace, ptr %array, ptr %own, ptr %found", offsets)
    f.leave_if_null(f.call("is_plain", "%array"), "other")
    for name in ("dtype", "context"):
        f.leave_unless(f.is_equal(f.field("%own", name), f.field("%found", name)), "other")
    shapes = f"ptr {f.field('%own', 'shape')}, ptr {f.field('%found', 'shape')}, i32 {_EQUAL}"
    f.leave_unless(f.assign(f"icmp eq i32 {f.api('PyObject_RichCompareBool', shapes, 'other')}, 1"), "other")
    f.line(f"br i1 {f.same(f.field('%found', 'marked'), 'true')}, label %cut, label %plain")
    f.label("plain")
    f.give(f.call("assigned", "%trace", "%array", "%found"))
    f.label("cut")
    f.leave_if(is_recording(f, "other"), "other")
    detached = f.field("%found", "detached")
    f.leave_if(f.same(detached, "none"), "other")
    f.give(f.call("assigned", "%trace", "%array", detached))
    f.end("other", "null")
    return f.text()


def _write(offsets: dict[str, int]) -> str:
    """Return the function of an array, a node and a trace that assigns the node, and returns whether it did."""
    f = Code("write", "ptr %self, ptr %arguments, i64 %count", offsets)
    array, node, trace = [f.load_word("%arguments", str(k), "ptr") for k in range(3)]
    f.leave_unless(f.same(f.field(trace, "type"), "trace"), "other")
    f.leave_unless(f.is_array(f.field(array, "type")), "other")
    f.leave_unless(f.same(f.field(node, "marked"), "false"), "other")
    f.leave_unless(f.same(f.field(node, "context"), "cpu"), "other")
    f.leave_if_null(f.call("is_plain", array), "other")
    before = f.field(array, "node")
    f.leave_if(f.same(before, "none"), "known")
    f.leave_unless(f.same(f.field(before, "context"), "cpu"), "other")
    f.line("br label %known")
    f.label("known")
    held = f.call("assigned", trace, array, node)
    f.leave_if_null(held, "other")
    f.release(held)
    f.give_back("true")
    f.pass_errors_on("other")
    f.give_back("false")
    return f.text()


def _settle(offsets: dict[str, int]) -> str:
    """Return the function of a trace, its live arrays with their nodes, their values, and whether the trace ends.

    It gives arrays their values, and takes arrays out of an ending trace that are not recorded. It returns a list of
    the pairs of an ending trace that it leaves to Python. The caller holds the lock.
    """
    f = Code("settle", "ptr %self, ptr %arguments, i64 %count", offsets)
    trace, pairs, values, end = [f.load_word("%arguments", str(k), "ptr") for k in range(4)]
    left = f.api("PyList_New", "i64 0", "error")
    ends = f.same(end, "true")

    def each(index: Index, _: list[Value]) -> tuple[()]:
        pair = f.api("PyList_GetItem", f"ptr {pairs}, i64 {index}", "drop")
        array, node = f.item(pair, "0"), f.item(pair, "1")
        here = f.is_equal(f.field(array, "trace"), trace)
        same = f.assign(f"and i1 {f.is_equal(f.field(array, 'node'), node)}, {here}")
        value = f.api("PyList_GetItem", f"ptr {values}, i64 {index}", "drop")
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
            number = f.number(f.item(f.field(node, "attributes"), "0"), "drop")
            target = f.api("PyList_GetItem", f"ptr {f.field(trace, 'targets')}, i64 {number}", "drop")
            is_own = f.is_equal(f.field(extras, "variable"), target)
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
        f.append(left, pair, "drop")
        return ()

    f.loop("0", f.api("PyList_Size", f"ptr {pairs}", "drop"), "1", (), each)
    f.give(left)
    f.end_dropping(left)
    return f.text()
