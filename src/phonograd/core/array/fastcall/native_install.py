"""Installs the machine code of operator calls (:mod:`.native_call`) in the place of Python functions and methods.

That happens when a plan is used again, or after some evaluations (:func:`phonograd.core.plan.cache.repeating`): a
program that ends soon would only wait for the compiler. Functions that a program has kept before
(``tanh = mx.nd.tanh``) then call the machine code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any

from ...base.dtypes import FLOAT32
from ...base.modules import stored_names
from ...graph import extension
from ...graph.node import FORGOTTEN, Node
from ...graph.operator import Operator
from ...graph.signature import visible
from ...ops.math.structural import leaf
from ...trace.owner import MACHINE_CODE
from ...trace.trace import LOCAL
from .. import call, several, single
from ..binary import BinaryMethod
from ..handle import DENSE
from .native_call import (
    BinaryCall,
    Calls,
    KeyForm,
    counts_are_found,
    objects_are_as_expected,
    possible,
    thread_number,
)
from .native_text import NO_PLACE

__all__ = ["install", "prepare"]


def prepare(array_class: type[Any]) -> Calls | None:
    """Return the machine code, if this interpreter allows it. A helper may do this, it takes milliseconds."""
    if not possible():
        return None
    if not objects_are_as_expected(array_class):
        return None
    return Calls(array_class, _methods(array_class))


def install(calls: Calls, array_class: type[Any], modules: Iterable[ModuleType]) -> None:
    """Replace the methods of arrays, and the functions in some modules."""
    FORGOTTEN.connect(calls.forget)
    functions = _Functions(calls)
    finds_live_handles = counts_are_found(lambda: _finds_live_handles(calls, array_class))
    MACHINE_CODE.install(
        thread_number=thread_number,
        make_current=calls.make_current,
        settle=calls.settle,
        live_handles=calls.live_handles if finds_live_handles else None,
        write=calls.write,
        entered=calls.entered,
        functions=functions,
        learn=single.learn,
    )
    for name, method in calls.methods.items():
        setattr(array_class, name, method)
    for name, value in _functions(vars(array_class)):
        setattr(array_class, name, value)
    for other in DENSE[1:]:
        functions.accept(other)
    for module in modules:
        for name, value in _functions(stored_names(module)):
            setattr(module, name, value)


def _methods(array_class: type[Any]) -> list[BinaryCall]:
    """Return the methods of binary operators that a class defines."""
    own = [(name, value, getattr(value, "facts", None)) for name, value in vars(array_class).items()]
    return [
        BinaryCall(
            name,
            facts.declared.calls,
            function,
            facts.reflected,
            facts.in_place,
            _extender(facts.declared, 0),
            facts.declared,
        )
        for name, function, facts in own
        if isinstance(facts, BinaryMethod)
    ]


def _finds_live_handles(calls: Calls, array_class: type[Any]) -> bool:
    """Return whether the code finds reference counts, tried on three arrays of which one is alive."""
    trace, node = LOCAL.trace, leaf(0, (1,), FLOAT32)
    handles = [array_class() for _ in range(3)]
    for handle in handles:
        handle._trace, handle._node = trace, node
    del handle
    kept = handles[1]
    return [id(handle) for handle, _ in calls.live_handles(trace, handles)] == [id(kept)]


class _Functions:
    """The public functions of operators as machine code; each is made once."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._made: dict[tuple[Operator, str], Any] = {}

    def function(self, declared: Operator, name: str) -> Any:
        """Return the function of an operator."""
        found = self._made.get((declared, name))
        if found is None:
            function = call.write_python_function(declared, name)
            form, parameters = _form(declared), len(visible(declared))
            make_several = functools.partial(several.make_several_of, declared, parameters)
            found = self._calls.function(function, declared, form, _extender(declared, parameters), make_several)
            found = self._made.setdefault((declared, name), found)
            call.forward(declared, name, found)
        return found

    def accept(self, array_class: type[Any]) -> None:
        """Let the code take arrays of one more dense class, and replace the methods of that class."""
        for name, method in self._calls.accept(array_class, _methods(array_class)).items():
            setattr(array_class, name, method)
        for name, value in _functions(vars(array_class)):
            setattr(array_class, name, value)


def _functions(names: Any) -> list[tuple[str, Any]]:
    """Return the machine-code functions that replace the generated functions among some names."""
    known = [
        (name, getattr(value, "facts", None)) for name, value in list(names.items()) if isinstance(value, FunctionType)
    ]
    made = [(name, facts) for name, facts in known if type(facts) is tuple]
    return [(name, call.function_of(*facts)) for name, facts in made if call.remembers(facts[0])]


def _extender(declared: Operator, parameters: int) -> Callable[[tuple[Any, ...]], Node | None]:
    """Return the function that makes the node of a new call, given its key, if the kind of the call is known."""
    return functools.partial(extension.extend_by_key, declared, parameters)


def _form(declared: Operator) -> KeyForm:
    """Return the form of the keys of remembered calls, as :func:`..call.invoke` makes them."""
    # a call with any number of arrays takes no names for them
    inputs = [] if declared.variadic else [name for name in declared.input_names if name != "counter"]
    parameters = visible(declared)
    required = 0 if declared.variadic else declared.required_inputs
    template: list[Any] = [extension.MISSING] * required + [None] * (len(inputs) - required)
    template += [call.key_form(parameter, parameter.default) for parameter in parameters]
    places = {name: place for place, name in enumerate(inputs)}
    for place, parameter in enumerate(parameters, len(inputs)):
        if parameter.kind == "float":
            places[parameter.name] = -1 - place
        elif parameter.kind != "Floats":
            places[parameter.name] = place
    names = [*inputs, *[parameter.name for parameter in parameters]]
    order = tuple([places.get(name, NO_PLACE) for name in names])
    return KeyForm(-1 if declared.variadic else len(inputs), tuple(template), places, order)
