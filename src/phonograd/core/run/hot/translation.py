"""Translation of hot functions: from the syntax tree of a Python function to the text of an LLVM function.

Each local variable is a cell that owns an object, or null. An expression is a :class:`Value`: a register with an object
that is owned or borrowed. Temporary objects that are owned are in ``_live``; where a call fails, a block of their own
drops them. Names that are not local are objects of the module at the time of loading, so hot functions never rebind
them. Attributes in slots (:func:`phonograd.core.base.hot.slotted`) and items of lists, tuples and dictionaries are read
directly, all else by Python's C interface, so the meaning is Python's for all objects. :mod:`.statements` has the
statements. A construct outside of the subset raises :class:`Untranslatable` (a test translates all hot functions).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

from ...lower.ir.function_builder import FunctionBuilder
from .interface import API, ARGUMENTS_OFFSET, FALSE, NONE, TRUE, UNBOUND_ERROR, ModuleText

__all__ = ["Expressions", "Untranslatable", "Value"]

#: the most arguments of a call with a row of them; others are calls with a tuple
MOST_ARGUMENTS = 16
_COMPARISONS = {ast.Lt: 0, ast.LtE: 1, ast.Eq: 2, ast.NotEq: 3, ast.Gt: 4, ast.GtE: 5}
_OPERATIONS = {
    ast.Add: "PyNumber_Add",
    ast.Sub: "PyNumber_Subtract",
    ast.Mult: "PyNumber_Multiply",
    ast.BitAnd: "PyNumber_And",
    ast.BitOr: "PyNumber_Or",
    ast.Div: "PyNumber_TrueDivide",
    ast.FloorDiv: "PyNumber_FloorDivide",
    ast.LShift: "PyNumber_Lshift",
    ast.RShift: "PyNumber_Rshift",
}


class Untranslatable(Exception):
    """A hot function contains a construct that is not translated."""


class Value(NamedTuple):
    """A register with an object."""

    text: str
    is_owned: bool


class Expressions(FunctionBuilder):
    """Writes expressions of one function.

    Parameters
    ----------
    function
        The Python function.
    symbols
        The names of translated functions, which are called directly.
    """

    def __init__(
        self, name: str, function: FunctionType, arguments: Sequence[str], module: ModuleText, symbols: dict[Any, str]
    ) -> None:
        parameters = ", ".join([f"ptr %a{number}" for number in range(len(arguments))])
        super().__init__(name, parameters, "ptr", internal=True)
        self._function, self._module, self._symbols = function, module, symbols
        self._cells: dict[str, str] = {}
        self._rooms: list[str] = []
        self._live: list[str] = []
        self._endings: dict[tuple[str, ...], str] = {}
        #: variables that have a value wherever the code that is being written runs
        self._bound: set[str] = set()
        #: other names of variables inside of comprehensions
        self._renamed: dict[str, str] = {}

    # -- cells and references

    def _cell(self, variable: str) -> str:
        """Return the cell of a variable."""
        if variable not in self._cells:
            self._cells[variable] = f"%cell{len(self._cells)}"
        return self._cells[variable]

    def _hidden(self) -> str:
        """Return the cell of a variable without a name."""
        return self._cell(f".{len(self._cells)}")

    def _room(self, words: int) -> str:
        """Return the address of some words on the stack."""
        self._rooms.append(f"%room{len(self._rooms)} = alloca [{words} x ptr], align 8")
        return f"%room{len(self._rooms) - 1}"

    def _set(self, cell: str, value: Value) -> None:
        """Let a cell own an object."""
        owned = self._own(value)
        before = self.assign(f"load ptr, ptr {cell}, align 8")
        self.line(f"store ptr {owned}, ptr {cell}, align 8")
        self._live.remove(owned)
        self.line(f"call void @drop(ptr {before})")

    def _take(self, cell: str) -> Value:
        """Return the object of a cell, which is empty then."""
        found = self.assign(f"load ptr, ptr {cell}, align 8")
        self.line(f"store ptr null, ptr {cell}, align 8")
        return self._new(found)

    def _new(self, register: str) -> Value:
        """Return an owned object."""
        self._live.append(register)
        return Value(register, True)

    def _own(self, value: Value) -> str:
        """Return the register of an object that is owned from now on."""
        if value.is_owned:
            return value.text
        self.line(f"call void @hold(ptr {value.text})")
        self._live.append(value.text)
        return value.text

    def _release(self, *values: Value) -> None:
        for value in values:
            if value.is_owned:
                self._live.remove(value.text)
                self.line(f"call void @drop(ptr {value.text})")

    def _failure(self) -> str:
        """Return the label of the block that drops what is alive, and ends the function."""
        key = tuple(self._live)
        if key not in self._endings:
            self._endings[key] = self.new_name("failed") if key else "error"
        return self._endings[key]

    # -- calls of the C interface

    def api(self, name: str, *arguments: str) -> str:
        """Call a function of Python's C interface; return the result, which the caller checks."""
        kind, parameters = API[name]
        function = self.assign(f"load ptr, ptr {self._module.function(name)}, align 8")
        typed = [f"{type_} {value}" for type_, value in zip(parameters.split(", "), arguments)] if parameters else []
        call = f"call {kind} {function}({', '.join(typed)})"
        if kind == "void":
            self.line(call)
            return ""
        return self.assign(call)

    def _object_of(self, name: str, *arguments: str) -> Value:
        """Call a function that returns an owned object."""
        found = self.api(name, *arguments)
        self.leave_if(self.assign(f"icmp eq ptr {found}, null"), self._failure())
        return self._new(found)

    def _status(self, name: str, *arguments: str) -> str:
        """Call a function that returns a number, below 0 for an error."""
        found = self.api(name, *arguments)
        self.leave_if(self.assign(f"icmp slt {API[name][0]} {found}, 0"), self._failure())
        return found

    def _helper(self, name: str, *arguments: str) -> Value:
        """Call a function of the module that returns an owned object."""
        found = self.assign(f"call ptr @{name}({', '.join([f'ptr {each}' for each in arguments])})")
        self.leave_if(self.assign(f"icmp eq ptr {found}, null"), self._failure())
        return self._new(found)

    def _known(self, name: str) -> str:
        """Return one of the objects that the loader finds."""
        return self.assign(f"load ptr, ptr {self._module.object(name)}, align 8")

    def _literal(self, value: object) -> str:
        return self._known(f"={value!r}")

    def _branch(self, condition: str, yes: str, no: str) -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def _go(self, label: str) -> None:
        self.line(f"br label %{label}")

    # -- expressions

    def value(self, expression: ast.expr) -> Value:
        """Write an expression; the object is borrowed only if a variable or the module holds it."""
        method: Callable[[Any], Value] | None = getattr(self, f"_write_{type(expression).__name__.lower()}", None)
        if method is None:
            raise self.error(expression)
        return method(expression)

    def error(self, part: ast.AST) -> Untranslatable:
        """Return the error for a construct that is not translated."""
        return Untranslatable(f"{self._function.__qualname__}: {ast.unparse(part)}")

    def _brief(self, expression: ast.expr) -> Value:
        """Write an expression whose object is used at once, before any other code runs."""
        if isinstance(expression, ast.Attribute) and expression.attr != "__class__":
            slots = self._module.slots(expression.attr)
            if slots:
                return self._read_slot(expression, slots)
        return self.value(expression)

    def _read_slot(self, expression: ast.Attribute, slots: list[tuple[str, int]]) -> Value:
        """Read an attribute without taking a reference; a cell keeps the object of attributes outside of slots."""
        base = self._brief(expression.value)
        keep, done, general = self._hidden(), self.new_name("done"), self.new_name("general")
        found = self._hidden_word()
        for place in self._slot_places(base.text, slots, general):
            loaded = self.assign(f"load ptr, ptr {place}, align 8")
            missing = self.new_name("slot")
            self._branch(self.assign(f"icmp eq ptr {loaded}, null"), general, missing)
            self.label(missing)
            self.line(f"store ptr {loaded}, ptr {found}, align 8")
            self._go(done)
        self.label(general)
        self.line(f"call void @hold(ptr {base.text})")
        self._live.append(base.text)
        made = self._object_of("PyObject_GetAttr", base.text, self._literal(expression.attr))
        self._release(Value(base.text, True))
        self.line(f"store ptr {made.text}, ptr {found}, align 8")
        self._set(keep, made)
        self._go(done)
        self.label(done)
        result = self.assign(f"load ptr, ptr {found}, align 8")
        if base.is_owned:
            # the object may be the only one that holds the attribute
            owned = Value(self._own(Value(result, False)), True)
            self._release(base)
            return owned
        return Value(result, False)

    def _hidden_word(self) -> str:
        """Return the address of a word that owns nothing."""
        return self._room(1)

    def _slot_places(self, base: str, slots: list[tuple[str, int]], general: str) -> Any:
        """Yield the address of a slot in a block of its own for each class; go to a label for all other classes."""
        kind = self.assign(f"call ptr @type_of(ptr {base})")
        for number, (class_, offset) in enumerate(slots):
            here = self.new_name("class")
            other = general if number == len(slots) - 1 else self.new_name("other")
            self._branch(self.assign(f"icmp eq ptr {kind}, {self._known(class_)}"), here, other)
            self.label(here)
            yield self.assign(f"getelementptr i8, ptr {base}, i64 {offset}")
            if other != general:
                self.label(other)

    def _write_attribute(self, expression: ast.Attribute) -> Value:
        if expression.attr == "__class__":
            return self._type(expression.value)
        slots = self._module.slots(expression.attr)
        if slots:
            found = self._read_slot(expression, slots)
            return Value(self._own(found), True)
        base = self.value(expression.value)
        found = self._object_of("PyObject_GetAttr", base.text, self._literal(expression.attr))
        self._release(base)
        return found

    def _type(self, expression: ast.expr) -> Value:
        base = self._brief(expression)
        found = Value(self.assign(f"call ptr @type_of(ptr {base.text})"), False)
        if base.is_owned:
            found = Value(self._own(found), True)
        self._release(base)
        return found

    def _write_constant(self, expression: ast.Constant) -> Value:
        return Value(self._literal(expression.value), False)

    def _write_name(self, expression: ast.Name) -> Value:
        variable = self._renamed.get(expression.id, expression.id)
        if variable in self._cells:
            found = self.assign(f"load ptr, ptr {self._cells[variable]}, align 8")
            if variable not in self._bound:
                self._check_bound(found)
            return Value(found, False)
        return Value(self._known(self._place_of(expression)), False)

    def _check_bound(self, found: str) -> None:
        go, unbound = self.new_name("bound"), self.new_name("unbound")
        self._branch(self.assign(f"icmp eq ptr {found}, null"), unbound, go)
        self.label(unbound)
        self._raise(UNBOUND_ERROR, f"a variable of {self._function.__qualname__} has no value")
        self.label(go)

    def _raise(self, kind: str, message: str) -> None:
        """Write a jump out of the function, with an error."""
        self.api("PyErr_SetString", self._known(kind), self._module.constant(message))
        self._go(self._failure())

    def _place_of(self, expression: ast.Name) -> str:
        """Return where the loader finds a name that is not local."""
        if expression.id in self._function.__globals__:
            return f"{self._function.__module__}:{expression.id}"
        if not hasattr(builtins, expression.id):
            raise self.error(expression)
        return f"builtins:{expression.id}"

    def global_value(self, expression: ast.expr) -> Any:
        """Return the object that a name which is not local stands for; None for all other expressions."""
        if not isinstance(expression, ast.Name) or self._renamed.get(expression.id, expression.id) in self._cells:
            return None
        known = self._function.__globals__
        return known[expression.id] if expression.id in known else getattr(builtins, expression.id, None)

    def _write_subscript(self, expression: ast.Subscript) -> Value:
        base, key = self.value(expression.value), self.value(expression.slice)
        found = self._helper("subscript", base.text, key.text)
        self._release(key, base)
        return found

    def _write_slice(self, expression: ast.Slice) -> Value:
        parts = [expression.lower, expression.upper, expression.step]
        values = [self.none() if part is None else self.value(part) for part in parts]
        found = self._object_of("PySlice_New", *[value.text for value in values])
        self._release(*reversed(values))
        return found

    def _write_binop(self, expression: ast.BinOp) -> Value:
        name = _OPERATIONS.get(type(expression.op))
        if name is None:
            raise self.error(expression)
        first, second = self.value(expression.left), self.value(expression.right)
        found = self._object_of(name, first.text, second.text)
        self._release(second, first)
        return found

    def _write_unaryop(self, expression: ast.UnaryOp) -> Value:
        if isinstance(expression.op, ast.USub):
            if isinstance(expression.operand, ast.Constant):
                return Value(self._literal(-expression.operand.value), False)  # type: ignore[operator]
            base = self.value(expression.operand)
            found = self._object_of("PyNumber_Negative", base.text)
            self._release(base)
            return found
        return self._truth_value(expression)

    def _write_compare(self, expression: ast.Compare) -> Value:
        return self._truth_value(expression)

    def _truth_value(self, expression: ast.expr) -> Value:
        condition = self.condition(expression)
        yes, no = self._known(TRUE), self._known(FALSE)
        return Value(self.assign(f"select i1 {condition}, ptr {yes}, ptr {no}"), False)

    def _write_ifexp(self, expression: ast.IfExp) -> Value:
        cell, yes, no, done = self._hidden(), self.new_name("yes"), self.new_name("no"), self.new_name("done")
        self._branch(self.condition(expression.test), yes, no)
        for label, part in ((yes, expression.body), (no, expression.orelse)):
            self.label(label)
            self._set(cell, self.value(part))
            self._go(done)
        self.label(done)
        return self._take(cell)

    def _write_boolop(self, expression: ast.BoolOp) -> Value:
        cell, done = self._hidden(), self.new_name("done")
        for part in expression.values[:-1]:
            self._set(cell, self.value(part))
            held = self.assign(f"load ptr, ptr {cell}, align 8")
            condition, following = self._truth(held), self.new_name("next")
            pair = (following, done) if isinstance(expression.op, ast.And) else (done, following)
            self._branch(condition, *pair)
            self.label(following)
        self._set(cell, self.value(expression.values[-1]))
        self._go(done)
        self.label(done)
        return self._take(cell)

    def _truth(self, register: str) -> str:
        """Return whether an object is true, an ``i1``."""
        found = self.assign(f"call i32 @truth(ptr {register})")
        self.leave_if(self.assign(f"icmp slt i32 {found}, 0"), self._failure())
        return self.assign(f"icmp ne i32 {found}, 0")

    def condition(self, expression: ast.expr) -> str:
        """Write a condition, an ``i1``."""
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
            return self.assign(f"xor i1 {self.condition(expression.operand)}, true")
        if isinstance(expression, ast.BoolOp):
            return self._test_all(expression)
        if isinstance(expression, ast.Compare):
            return self._compare(expression)
        if isinstance(expression, ast.Call) and self.global_value(expression.func) is isinstance:
            value, class_ = [self.value(each) for each in expression.args]
            answer = self._status("PyObject_IsInstance", value.text, class_.text)
            self._release(class_, value)
            return self.assign(f"icmp ne i32 {answer}, 0")
        found = self._brief(expression)
        condition = self._truth(found.text)
        self._release(found)
        return condition

    def _test_all(self, expression: ast.BoolOp) -> str:
        """Write a condition of several parts; the later ones are written in blocks of their own."""
        word, done = self._hidden_word(), self.new_name("done")
        for number, part in enumerate(expression.values):
            condition = self.condition(part)
            self.line(f"store i1 {condition}, ptr {word}, align 8")
            if number == len(expression.values) - 1:
                self._go(done)
                break
            following = self.new_name("next")
            pair = (following, done) if isinstance(expression.op, ast.And) else (done, following)
            self._branch(condition, *pair)
            self.label(following)
        self.label(done)
        return self.assign(f"load i1, ptr {word}, align 8")

    def _compare(self, expression: ast.Compare) -> str:
        if len(expression.ops) != 1:
            raise self.error(expression)
        operation = expression.ops[0]
        if isinstance(operation, ast.Is | ast.IsNot):
            first = self._brief(expression.left)
            if not first.is_owned and not isinstance(expression.comparators[0], ast.Constant | ast.Name):
                # what follows may run code
                first = Value(self._own(first), True)
            second = self._brief(expression.comparators[0])
            word = "eq" if isinstance(operation, ast.Is) else "ne"
            condition = self.assign(f"icmp {word} ptr {first.text}, {second.text}")
        else:
            first, second = self.value(expression.left), self.value(expression.comparators[0])
            if isinstance(operation, ast.In | ast.NotIn):
                found = self._status("PySequence_Contains", second.text, first.text)
                word = "ne" if isinstance(operation, ast.In) else "eq"
            else:
                number = str(_COMPARISONS[type(operation)])
                found, word = self._status("PyObject_RichCompareBool", first.text, second.text, number), "ne"
            condition = self.assign(f"icmp {word} i32 {found}, 0")
        self._release(second, first)
        return condition

    # -- rows

    def _write_dict(self, expression: ast.Dict) -> Value:
        if expression.keys:
            raise self.error(expression)
        return self._object_of("PyDict_New")

    def _write_tuple(self, expression: ast.Tuple) -> Value:
        if any([isinstance(each, ast.Starred) for each in expression.elts]):
            found = self._write_list(expression)
            made = self._object_of("PyList_AsTuple", found.text)
            self._release(found)
            return made
        return self._fill_row("PyTuple_New", expression.elts)

    def _fill_row(self, maker: str, parts: Sequence[ast.expr]) -> Value:
        """Return a new list or tuple of some expressions."""
        values = [self.value(part) for part in parts]
        row = self._object_of(maker, str(len(parts)))
        for number, value in enumerate(values):
            owned = self._own(value)
            offset = 24 if maker == "PyList_New" else self._module.layout.tuple_items
            items = self.assign(f"getelementptr i8, ptr {row.text}, i64 {offset}")
            if maker == "PyList_New":
                items = self.assign(f"load ptr, ptr {items}, align 8")
            place = self.assign(f"getelementptr ptr, ptr {items}, i64 {number}")
            self.line(f"store ptr {owned}, ptr {place}, align 8")
            self._live.remove(owned)
        return row

    def _write_list(self, expression: ast.List | ast.Tuple) -> Value:
        if not any([isinstance(each, ast.Starred) for each in expression.elts]):
            return self._fill_row("PyList_New", expression.elts)
        row = self._object_of("PyList_New", "0")
        for part in expression.elts:
            if isinstance(part, ast.Starred):
                more = self.value(part.value)
                self._release(self._object_of("PySequence_InPlaceConcat", row.text, more.text))
            else:
                more = self.value(part)
                self._status("PyList_Append", row.text, more.text)
            self._release(more)
        return row

    def _write_call(self, expression: ast.Call) -> Value:
        raise NotImplementedError

    def none(self) -> Value:
        """Return ``None``."""
        return Value(self._known(NONE), False)

    def call_row(self, callee: str, values: Sequence[Value]) -> Value:
        """Call an object with some arguments."""
        room = self._room(len(values) + 1)
        first = self.assign(f"getelementptr ptr, ptr {room}, i64 1")
        for number, value in enumerate(values):
            place = self.assign(f"getelementptr ptr, ptr {first}, i64 {number}")
            self.line(f"store ptr {value.text}, ptr {place}, align 8")
        count = str(len(values) | ARGUMENTS_OFFSET - (1 << 64))
        return self._object_of("PyObject_VectorcallDict", callee, first, count, "null")
