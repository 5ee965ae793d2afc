"""Statements, calls and loops of hot functions: the second half of :mod:`.translation`, and whole functions."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

from ...base.hot import uncounted, untracked
from .interface import ARGUMENTS_OFFSET, VALUE_ERROR, ModuleText
from .translation import MOST_ARGUMENTS, Expressions, Untranslatable, Value

__all__ = ["Translation", "arguments_of", "definition_of"]

#: what all of ``object.__new__`` and the like return
_NEW = object.__new__
#: turns of a loop over rows, a power of two, after which signals are checked
SIGNAL_TURNS = 16
#: methods of lists and sets that are helpers of the module
_HELPERS = {"append": "append", "add": "add_to"}


class _Loop(NamedTuple):
    """The labels at which a loop goes on and ends."""

    following: str
    end: str


@functools.cache
def definition_of(function: FunctionType) -> ast.FunctionDef:
    """Return the syntax tree of a function."""
    found = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


def arguments_of(definition: ast.FunctionDef) -> list[str]:
    """Return the names of the parameters of a function, which are all positional and have no defaults."""
    given = definition.args
    if given.vararg or given.kwarg or given.kwonlyargs:
        raise Untranslatable(f"{definition.name}: only positional parameters are translated")
    return [each.arg for each in (*given.posonlyargs, *given.args)]


class Translation(Expressions):
    """The text of one function."""

    def __init__(self, name: str, function: FunctionType, module: ModuleText, symbols: dict[Any, str]) -> None:
        self._definition = definition_of(function)
        self._arguments = arguments_of(self._definition)
        super().__init__(name, function, self._arguments, module, symbols)
        self._loops: list[_Loop] = []
        for argument in self._arguments:
            self._cell(argument)
        self._bound.update(self._arguments)
        for variable in _variables(self._definition):
            self._cell(variable)
        self._result = self._room(1)

    def text(self) -> str:
        """Translate the function."""
        self._write_all(self._definition.body)
        self._return(self.none())
        body = self._lines
        self._lines = [*body]
        for live, label in list(self._endings.items()):
            if live:
                self.label(label)
                for register in reversed(live):
                    self.line(f"call void @drop(ptr {register})")
                self._go("error")
        self.label("error")
        self.line(f"store ptr null, ptr {self._result}, align 8")
        self._go("exit")
        self.label("exit")
        for cell in self._cells.values():
            self.line(f"call void @drop(ptr {self.assign(f'load ptr, ptr {cell}, align 8')})")
        self.line(f"ret ptr {self.assign(f'load ptr, ptr {self._result}, align 8')}")
        beginning = [f"define internal ptr @{self.name}({self.arguments}) nounwind {{", "entry:"]
        beginning += [f"  {room}" for room in self._rooms]
        beginning += [f"  {cell} = alloca ptr, align 8" for cell in self._cells.values()]
        for number, cell in enumerate(self._cells.values()):
            given = f"%a{number}" if number < len(self._arguments) else "null"
            beginning.append(f"  store ptr {given}, ptr {cell}, align 8")
        beginning += [f"  call void @hold(ptr %a{number})" for number in range(len(self._arguments))]
        return "\n".join([*beginning, *self._lines, "}", ""])

    # -- statements

    def _write_all(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            method = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            if method is None:
                raise self.error(statement)
            method(statement)
            assert not self._live, ast.unparse(statement)

    def _do_expr(self, statement: ast.Expr) -> None:
        if isinstance(statement.value, ast.Constant):
            return
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _HELPERS:
            self._append(call, _HELPERS[call.func.attr], call.func)
            return
        self._release(self.value(statement.value))

    def _append(self, call: ast.Call, helper: str, method: ast.Attribute) -> None:
        base, value = self.value(method.value), self.value(call.args[0])
        arguments = f"ptr {base.text}, ptr {value.text}, ptr {self._literal(method.attr)}"
        status = self.assign(f"call i32 @{helper}({arguments})")
        self.leave_if(self.assign(f"icmp slt i32 {status}, 0"), self._failure())
        self._release(value, base)

    def _do_pass(self, statement: ast.Pass) -> None:
        pass

    def _do_assert(self, statement: ast.Assert) -> None:
        pass

    def _do_assign(self, statement: ast.Assign) -> None:
        value = self.value(statement.value)
        if len(statement.targets) > 1 and not value.is_owned:
            value = Value(self._own(value), True)
        for target in statement.targets[:-1]:
            self._assign(target, Value(value.text, False))
        self._assign(statement.targets[-1], value)

    def _do_annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self._assign(statement.target, self.value(statement.value))

    def _do_augassign(self, statement: ast.AugAssign) -> None:
        name = {ast.Add: "PyNumber_InPlaceAdd", ast.BitOr: "PyNumber_InPlaceOr"}.get(type(statement.op))
        if name is None:
            raise self.error(statement)
        target = statement.target
        base: Value | None = None
        if isinstance(target, ast.Attribute):
            base = self.value(target.value)
            before = self._object_of("PyObject_GetAttr", base.text, self._literal(target.attr))
        elif isinstance(target, ast.Name):
            before = self.value(ast.Name(target.id, ast.Load()))
        else:
            raise self.error(statement)
        more = self.value(statement.value)
        made = self._object_of(name, before.text, more.text)
        self._release(more, before)
        if base is None:
            self._assign(target, made)
            return
        self._put(base, target.attr, made)  # type: ignore[union-attr]

    def _assign(self, target: ast.expr, value: Value) -> None:
        """Assign a value, which is given up."""
        if isinstance(target, ast.Name):
            variable = self._renamed.get(target.id, target.id)
            self._set(self._cell(variable), value)
            self._bound.add(variable)
        elif isinstance(target, ast.Attribute):
            base = self.value(target.value)
            self._put(base, target.attr, value)
        elif isinstance(target, ast.Subscript):
            base, key = self.value(target.value), self.value(target.slice)
            self._status("PyObject_SetItem", base.text, key.text, value.text)
            self._release(key, base, value)
        elif isinstance(target, ast.Tuple):
            self._unpack(target, value)
        else:
            raise self.error(target)

    def _put(self, base: Value, attribute: str, value: Value) -> None:
        """Assign an attribute; both objects are given up."""
        slots = self._module.slots(attribute)
        general, done = self.new_name("general"), self.new_name("done")
        if slots:
            owned = self._own(value)
            for place in self._slot_places(base.text, slots, general):
                before = self.assign(f"load ptr, ptr {place}, align 8")
                self.line(f"store ptr {owned}, ptr {place}, align 8")
                # the slot has the reference now, and in the other block the register
                self.line(f"call void @hold(ptr {owned})")
                self.line(f"call void @drop(ptr {before})")
                self._go(done)
            self.label(general)
            value = Value(owned, True)
        self._status("PyObject_SetAttr", base.text, self._literal(attribute), value.text)
        if slots:
            self._go(done)
            self.label(done)
        self._release(value, base)

    def _unpack(self, target: ast.Tuple, value: Value) -> None:
        row = self._helper("row_of", value.text, self._module.constant("cannot unpack an object that is no row"))
        self._release(value)
        count = self.assign(f"call i64 @size(ptr {row.text})")
        go, wrong = self.new_name("unpack"), self.new_name("wrong")
        self._branch(self.assign(f"icmp eq i64 {count}, {len(target.elts)}"), go, wrong)
        self.label(wrong)
        self._raise(VALUE_ERROR, f"{self._function.__qualname__} unpacks a row of another length")
        self.label(go)
        for number, each in enumerate(target.elts):
            item = self.assign(f"call ptr @item(ptr {row.text}, i64 {number})")
            self._assign(each, Value(item, False))
        self._release(row)

    def _do_delete(self, statement: ast.Delete) -> None:
        for target in statement.targets:
            if not isinstance(target, ast.Subscript):
                raise self.error(statement)
            base, key = self.value(target.value), self.value(target.slice)
            self._status("PyObject_DelItem", base.text, key.text)
            self._release(key, base)

    def _do_if(self, statement: ast.If) -> None:
        yes, no, done = self.new_name("then"), self.new_name("else"), self.new_name("done")
        self._branch(self.condition(statement.test), yes, no if statement.orelse else done)
        before = self._bound.copy()
        self.label(yes)
        self._write_all(statement.body)
        self._go(done)
        then, self._bound = self._bound, before
        if statement.orelse:
            self.label(no)
            self._write_all(statement.orelse)
            self._go(done)
        self._bound &= then
        self.label(done)

    def _do_while(self, statement: ast.While) -> None:
        head, body, end = self.new_name("while"), self.new_name("body"), self.new_name("end")
        self._go(head)
        self.label(head)
        self._status("PyErr_CheckSignals")
        self._branch(self.condition(statement.test), body, end)
        self.label(body)
        self._loops.append(_Loop(head, end))
        before = self._bound.copy()
        self._write_all(statement.body)
        self._bound = before
        self._loops.pop()
        self._go(head)
        self.label(end)

    def _do_break(self, statement: ast.Break) -> None:
        self._go(self._loops[-1].end)
        self._begin_dead_code()

    def _do_continue(self, statement: ast.Continue) -> None:
        self._go(self._loops[-1].following)
        self._begin_dead_code()

    def _do_return(self, statement: ast.Return) -> None:
        self._return(self.none() if statement.value is None else self.value(statement.value))
        self._begin_dead_code()

    def _begin_dead_code(self) -> None:
        """Begin a block that is never reached: all variables have a value there."""
        self.label(self.new_name("dead"))
        self._bound = set(self._cells)

    def _return(self, value: Value) -> None:
        owned = self._own(value)
        self.line(f"store ptr {owned}, ptr {self._result}, align 8")
        self._live.remove(owned)
        self._go("exit")

    def _do_for(self, statement: ast.For) -> None:
        if statement.orelse:
            raise self.error(statement)
        self._loop(statement.target, statement.iter, lambda: self._write_all(statement.body))

    def _loop(
        self,
        target: ast.expr,
        iterated: ast.expr,
        write_body: Callable[[], None],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Write a loop over lists and tuples; other iterables are copied first. ``begin`` is called behind them."""
        parts, is_zip, is_numbered, is_reversed = self._rows_of(iterated)
        cells = []
        for part in parts:
            given = self.value(part)
            row = self._helper("row_of", given.text, self._module.constant("cannot iterate over an object"))
            self._release(given)
            cells.append(self._hidden())
            self._set(cells[-1], row)
        begin()
        if is_zip:
            self._check_lengths(cells)
        counter = self._hidden_word()
        start = "0"
        if is_reversed:
            row_text = self.assign(f"load ptr, ptr {cells[0]}, align 8")
            start = self.assign(f"sub i64 {self.assign(f'call i64 @size(ptr {row_text})')}, 1")
        self.line(f"store i64 {start}, ptr {counter}, align 8")
        head, body, following, end = [self.new_name(word) for word in ("for", "body", "following", "end")]
        self._go(head)
        self.label(head)
        number = self.assign(f"load i64, ptr {counter}, align 8")
        rows = [self.assign(f"load ptr, ptr {cell}, align 8") for cell in cells]
        for row_text in rows:
            more = self.new_name("more")
            # a place before the first item is a large number without a sign
            inside = self.assign(f"icmp ult i64 {number}, {self.assign(f'call i64 @size(ptr {row_text})')}")
            self._branch(inside, more, end)
            self.label(more)
        self._go(body)
        self.label(body)
        items = [Value(self.assign(f"call ptr @item(ptr {row_text}, i64 {number})"), False) for row_text in rows]
        if is_numbered:
            items.insert(0, self._object_of("PyLong_FromSsize_t", number))
        before = self._bound.copy()
        self._assign_items(target, items)
        self._loops.append(_Loop(following, end))
        write_body()
        self._bound = before
        self._loops.pop()
        self._go(following)
        self.label(following)
        step = self.assign(f"load i64, ptr {counter}, align 8")
        # a test of signals takes as long as a short turn
        rest = self.assign(f"and i64 {step}, {SIGNAL_TURNS - 1}")
        ask, go = self.new_name("ask"), self.new_name("go")
        self._branch(self.assign(f"icmp eq i64 {rest}, {SIGNAL_TURNS - 1}"), ask, go)
        self.label(ask)
        self._status("PyErr_CheckSignals")
        self._go(go)
        self.label(go)
        self.line(f"store i64 {self.assign(f'add i64 {step}, {-1 if is_reversed else 1}')}, ptr {counter}, align 8")
        self._go(head)
        self.label(end)
        for cell in cells:
            self._release(self._take(cell))

    def _assign_items(self, target: ast.expr, items: list[Value]) -> None:
        """Assign the items of one turn of a loop."""
        if len(items) == 1:
            self._assign(target, items[0])
            return
        if not isinstance(target, ast.Tuple) or len(target.elts) != len(items):
            raise self.error(target)
        held = [Value(self._own(item), True) for item in items]
        for each, item in zip(target.elts, held):
            self._assign(each, item)

    def _rows_of(self, iterated: ast.expr) -> tuple[list[ast.expr], bool, bool, bool]:
        """Return what a loop goes over; whether by zip, enumerate and reversed."""
        if isinstance(iterated, ast.Call):
            known = self.global_value(iterated.func)
            if known is zip:
                return iterated.args, any([each.arg == "strict" for each in iterated.keywords]), False, False
            if known is enumerate and len(iterated.args) == 1 and not iterated.keywords:
                return iterated.args, False, True, False
            if known is reversed:
                return iterated.args, False, False, True
        return [iterated], False, False, False

    def _check_lengths(self, cells: list[str]) -> None:
        first, *others = [self.assign(f"load ptr, ptr {cell}, align 8") for cell in cells]
        count = self.assign(f"call i64 @size(ptr {first})")
        for other in others:
            go, wrong = self.new_name("equal"), self.new_name("wrong")
            size = self.assign(f"call i64 @size(ptr {other})")
            self._branch(self.assign(f"icmp eq i64 {size}, {count}"), go, wrong)
            self.label(wrong)
            self._raise(VALUE_ERROR, f"the arguments of zip() in {self._function.__qualname__} differ in length")
            self.label(go)

    # -- calls

    def _write_listcomp(self, expression: ast.ListComp) -> Value:
        if len(expression.generators) != 1:
            raise self.error(expression)
        generator = expression.generators[0]
        cell, before = self._hidden(), dict(self._renamed)
        held = self._live.copy()
        made = self._object_of("PyList_New", "0")
        self._set(cell, made)

        def begin() -> None:
            # the iterable is outside of the scope of the comprehension
            for each in ast.walk(generator.target):
                if isinstance(each, ast.Name):
                    self._renamed[each.id] = f".{each.id}{len(self._cells)}"
                    self._cell(self._renamed[each.id])

        def write_body() -> None:
            for condition in generator.ifs:
                go = self.new_name("taken")
                self._branch(self.condition(condition), go, self._loops[-1].following)
                self.label(go)
            item = self.value(expression.elt)
            row = self.assign(f"load ptr, ptr {cell}, align 8")
            self._status("PyList_Append", row, item.text)
            self._release(item)

        self._loop(generator.target, generator.iter, write_body, begin)
        self._renamed = before
        assert self._live == held
        return self._take(cell)

    def _write_call(self, expression: ast.Call) -> Value:
        if expression.keywords:
            raise self.error(expression)
        known = self.global_value(expression.func)
        if len(expression.args) == 1 and isinstance(expression.args[0], ast.Starred):
            return self._call_with_row(expression.func, expression.args[0].value)
        if isinstance(expression.func, ast.Attribute):
            return self._call_method(expression.func, expression.args)
        if known is not None:
            found = self._call_known(known, expression)
            if found is not None:
                return found
        callee = self.value(expression.func)
        values = [self.value(each) for each in expression.args]
        result = self.call_row(callee.text, values)
        self._release(*reversed(values), callee)
        return result

    def _call_known(self, known: Any, expression: ast.Call) -> Value | None:
        """Write a call of a function that is translated itself, or of some built-in ones."""
        if known is len:
            base = self.value(expression.args[0])
            size = self._status("PyObject_Size", base.text)
            self._release(base)
            return self._object_of("PyLong_FromSsize_t", size)
        if known is untracked:
            value = self.value(expression.args[0])
            self.api("PyObject_GC_UnTrack", value.text)
            return value
        if known is uncounted:
            return self._take_off_count(expression)
        if known is isinstance and len(expression.args) == 2:
            return self._truth_value(expression)
        if known is type and len(expression.args) == 1:
            return self._type(expression.args[0])
        if known is _NEW or getattr(known, "__name__", "") == "__new__":
            class_ = self.value(expression.args[0])
            made = self._object_of("PyType_GenericAlloc", class_.text, "0")
            self._release(class_)
            return made
        symbol = self._symbols.get(known) if isinstance(known, FunctionType) else None
        if symbol is not None and len(arguments_of(definition_of(known))) != len(expression.args):
            # defaults are left to Python
            return None
        return None if symbol is None else self._call_symbol(symbol, [self.value(each) for each in expression.args])

    def _take_off_count(self, expression: ast.Call) -> Value:
        """Lower the number of new objects, but not below 0."""
        first, second = expression.args
        if not isinstance(second, ast.Constant):
            raise self.error(expression)
        value = self.value(first)
        place = self.assign(f"load ptr, ptr {self._module.new_objects()}, align 8")
        before = self.assign(f"load i32, ptr {place}, align 4")
        fewer = self.assign(f"sub i32 {before}, {second.value!r}")
        is_negative = self.assign(f"icmp slt i32 {fewer}, 0")
        after = self.assign(f"select i1 {is_negative}, i32 0, i32 {fewer}")
        self.line(f"store i32 {after}, ptr {place}, align 4")
        return value

    def _call_symbol(self, symbol: str, values: list[Value]) -> Value:
        result = self._helper(symbol, *[value.text for value in values])
        self._release(*reversed(values))
        return result

    def _call_method(self, method: ast.Attribute, arguments: list[ast.expr]) -> Value:
        if method.attr == "get" and len(arguments) == 1:
            base, key = self.value(method.value), self.value(arguments[0])
            found = self._helper("get", base.text, key.text, self._literal("get"))
            self._release(key, base)
            return found
        values = [self.value(method.value), *[self.value(each) for each in arguments]]
        translated = [(class_, symbol) for (class_, name), symbol in _methods(self._symbols) if name == method.attr]
        cell, done = self._hidden(), self.new_name("done")
        kind = self.assign(f"call ptr @type_of(ptr {values[0].text})") if translated else ""
        for class_, symbol in translated:
            here, other = self.new_name("method"), self.new_name("other")
            self._branch(self.assign(f"icmp eq ptr {kind}, {self._known(class_)}"), here, other)
            self.label(here)
            self._set(cell, self._helper(symbol, *[value.text for value in values]))
            self._go(done)
            self.label(other)
        room = self._room(len(values) + 1)
        first = self.assign(f"getelementptr ptr, ptr {room}, i64 1")
        for number, value in enumerate(values):
            place = self.assign(f"getelementptr ptr, ptr {first}, i64 {number}")
            self.line(f"store ptr {value.text}, ptr {place}, align 8")
        count = str(len(values) | ARGUMENTS_OFFSET - (1 << 64))
        found = self._object_of("PyObject_VectorcallMethod", self._literal(method.attr), first, count, "null")
        if translated:
            self._set(cell, found)
            self._go(done)
            self.label(done)
            found = self._take(cell)
        self._release(*reversed(values))
        return found

    def _call_with_row(self, function: ast.expr, row: ast.expr) -> Value:
        """Write a call with all items of a row as its arguments."""
        callee = self.value(function)
        cell, done, general = self._hidden(), self.new_name("done"), self.new_name("general")
        room = self._room(MOST_ARGUMENTS + 1)
        first = self.assign(f"getelementptr ptr, ptr {room}, i64 1")
        gathered = _gathered(row)
        if gathered is not None:
            values, places = self.value(gathered[0]), self.value(gathered[1])
            arguments = f"ptr {values.text}, ptr {places.text}, ptr {first}, i64 {MOST_ARGUMENTS}"
            count = self.assign(f"call i64 @gather({arguments})")
            here = self.new_name("gathered")
            self._branch(self.assign(f"icmp slt i64 {count}, 0"), general, here)
            self.label(here)
            flagged = self.assign(f"or i64 {count}, {ARGUMENTS_OFFSET - (1 << 64)}")
            self._set(cell, self._object_of("PyObject_VectorcallDict", callee.text, first, flagged, "null"))
            self._go(done)
            self.label(general)
        given = self.value(row)
        if gathered is None:
            here = self.new_name("spread")
            count = self.assign(f"call i64 @spread(ptr {given.text}, ptr {first}, i64 {MOST_ARGUMENTS})")
            self._branch(self.assign(f"icmp slt i64 {count}, 0"), general, here)
            self.label(here)
            flagged = self.assign(f"or i64 {count}, {ARGUMENTS_OFFSET - (1 << 64)}")
            made = self.api("PyObject_VectorcallDict", callee.text, first, flagged, "null")
            self.line(f"call void @drop_all(ptr {first}, i64 {count})")
            self.leave_if(self.assign(f"icmp eq ptr {made}, null"), self._failure())
            self._set(cell, self._new(made))
            self._go(done)
            self.label(general)
        row_value = self._object_of("PySequence_Tuple", given.text)
        result = self._object_of("PyObject_CallObject", callee.text, row_value.text)
        self._release(row_value)
        self._set(cell, result)
        if gathered is not None:
            self._release(given)
        self._go(done)
        self.label(done)
        if gathered is None:
            self._release(given)
        found = self._take(cell)
        self._release(callee)
        return found


def _gathered(row: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the list and the places of ``map(values.__getitem__, places)``, both plain names; None for others."""
    if not isinstance(row, ast.Call) or not isinstance(row.func, ast.Name) or row.func.id != "map":
        return None
    method, places = row.args
    if not isinstance(method, ast.Attribute) or method.attr != "__getitem__":
        return None
    return (method.value, places) if isinstance(method.value, ast.Name) and isinstance(places, ast.Name) else None


def _methods(symbols: dict[Any, str]) -> list[tuple[tuple[str, str], str]]:
    """Return the methods among translated functions, by the class as the loader finds it and the name."""
    found = []
    for function, symbol in symbols.items():
        class_, _, name = function.__qualname__.rpartition(".")
        if class_:
            found.append(((f"{function.__module__}:{class_}", name), symbol))
    return found


def _variables(definition: ast.FunctionDef) -> list[str]:
    """Return the variables that a function assigns, without those of comprehensions."""
    found: dict[str, None] = {}

    def look(part: ast.AST) -> None:
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found[part.id] = None
        if not isinstance(part, ast.ListComp):
            for each in ast.iter_child_nodes(part):
                look(each)

    for statement in definition.body:
        look(statement)
    return list(found)
