"""Puts operator calls of machine code (:mod:`.native_call`) in the place of the Python functions that do the same.

That happens when something is computed again (:func:`phonograd.core.plan.cache.repeating`). Functions that somebody has
kept in variables of their own before (``tanh = mx.nd.tanh``) stay Python functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from ...base.dtypes import FLOAT32
from ...graph.node import FORGOTTEN
from ...graph.operator import Operator
from ...ops.math.structural import leaf
from ...trace.owner import MACHINE_CODE
from ...trace.trace import LOCAL
from .. import call
from ..binary import BINARY
from ..handle import use_machine_code
from .native_call import BinaryCall, Calls, KeyForm, as_method, possible, thread_number

__all__ = ["install"]


def install(array_class: type[Any], modules: Iterable[ModuleType]) -> None:
    """Replace the methods of arrays, and the functions in some modules, where this interpreter allows it."""
    if not possible():
        return
    # variables are made of arrays
    from ...backward.variable import Variable

    own = _methods(array_class)
    calls = Calls(array_class, array_class(), leaf(0, (1,), FLOAT32), Variable(array_class(), "write"), own)
    FORGOTTEN.connect(calls.forget)
    array_class.grad = calls.grad
    for name, method in calls.methods.items():
        setattr(array_class, name, method)
    call.FASTER.append(_Functions(calls))
    for other in call.OTHER_CLASSES:
        call.FASTER[0].accept(other)
    for module in modules:
        for name, value in _functions(vars(module)):
            setattr(module, name, value)
    for name, value in _functions(vars(array_class)):
        setattr(array_class, name, as_method(value))
    living = calls.living if _finds_the_living(calls, array_class) else None
    MACHINE_CODE.install(thread_number, calls.make_current, calls.settle, living)
    use_machine_code(calls.enter, calls.write)


def _methods(array_class: type[Any]) -> list[BinaryCall]:
    """Return the operators of two operands that are methods of a class."""
    known = {function: (calls, exchanged, in_place) for function, calls, exchanged, in_place in BINARY}
    own = [(name, value) for name, value in vars(array_class).items() if callable(value) and value in known]
    return [
        BinaryCall(name, calls, function, exchanged, in_place)
        for name, function in own
        for calls, exchanged, in_place in [known[function]]
    ]


def _finds_the_living(calls: Calls, array_class: type[Any]) -> bool:
    """Return whether counts of references lie where the code looks for them."""
    trace, node = LOCAL.trace, leaf(0, (1,), FLOAT32)
    handles = [array_class() for _ in range(3)]
    for handle in handles:
        handle._trace, handle._node = trace, node
    del handle
    kept = handles[1]
    return [id(handle) for handle, _ in calls.living(trace, handles)] == [id(kept)]


class _Functions:
    """The functions made so far."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._made: dict[tuple[Operator, str], Any] = {}

    def function(self, declared: Operator, name: str, function: Any) -> Any:
        """Return a function that does what the Python function of an operator does."""
        found = self._made.get((declared, name))
        if found is None:
            found = self._calls.function(name, function, declared.calls, _form(declared))
            found = self._made.setdefault((declared, name), found)
        return found

    def method(self, function: Any) -> Any:
        """Return such a function as a method."""
        return as_method(function)

    def accept(self, array_class: type[Any]) -> None:
        """Make calls with arrays of another class faster, too."""
        for name, method in self._calls.accept(array_class, _methods(array_class)).items():
            setattr(array_class, name, method)
        for name, value in _functions(vars(array_class)):
            setattr(array_class, name, as_method(value))


def _functions(names: Any) -> list[tuple[str, Any]]:
    """Return what the functions of operators among some names are replaced by."""
    known = [(name, call.MADE.get(value)) for name, value in list(names.items()) if callable(value)]
    return [(name, call.function_of(*made)) for name, made in known if made is not None and call.remembers(made[0])]


def _form(declared: Operator) -> KeyForm:
    """Return how keys of remembered calls are made: as in the code of :func:`..call.python_function_of`."""
    inputs = [name for name in declared.input_names if name != "counter"]
    parameters = call.visible(declared)
    missing = object()
    required = declared.required_inputs
    template = [missing] * required + [None] * (len(inputs) - required)
    template += [call.keyed(parameter, parameter.default) for parameter in parameters]
    places = {name: place for place, name in enumerate(inputs)}
    for place, parameter in enumerate(parameters, len(inputs)):
        if parameter.kind == "float":
            places[parameter.name] = -1 - place
        elif parameter.kind != "Floats":
            places[parameter.name] = place
    return KeyForm(len(inputs), tuple(template), places)
