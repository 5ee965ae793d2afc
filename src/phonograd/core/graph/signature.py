"""Signatures of public functions, derived from the declarations of operators: types, defaults, required arguments.

Takes the inputs, parameters and output rules of an :class:`~phonograd.core.graph.operator.Operator`; hands
:class:`inspect.Signature` objects to the functions of arrays and symbols, and to the generator of the type stubs.
``help`` and ``inspect.signature`` therefore show the same as an editor::

    Convolution(data: NDArray, weight: NDArray, bias: NDArray | None = None, *, kernel: int | Sequence[int], ...)

Python has no notation for a required argument behind an optional one, so such an argument is shown as a keyword. Calls
accept it by position too, as in MXNet.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import name_of
from .operator import Operator
from .parameters import REQUIRED, Parameter

__all__ = ["Type", "Variants", "result_variants", "signature_of", "type_of", "visible"]

#: the Python type of each kind of parameter
_TYPES = {
    "Any": "Any",
    "Axis": "int | Sequence[int]",
    "Count": "int",
    "Counts": "int | Sequence[int]",
    "DType": "DTypeLike",
    "Floats": "float | Sequence[float]",
    "Number": "float",
    "Numbers": "float | Sequence[float]",
    "OptionalInts": "int | Sequence[int | None] | None",
    "Shape": "int | Sequence[int]",
}


class Type(str):
    """The text of a type; signatures show it without quotes."""

    __slots__ = ()

    __repr__ = str.__str__


_Argument = inspect.Parameter
_POSITIONAL, _KEYWORD = _Argument.POSITIONAL_OR_KEYWORD, _Argument.KEYWORD_ONLY


def visible(declared: Operator) -> list[Parameter]:
    """Return the parameters that users pass."""
    return [parameter for parameter in declared.parameters if parameter.name != "training"]


def type_of(parameter: Parameter) -> str:
    """Return the Python type of a parameter as text.

    >>> type_of(Parameter("axis", "Axis", None)), type_of(Parameter("mode", 'Literal["a", "b"]', "a"))
    ('int | Sequence[int] | None', "Literal['a', 'b']")
    """
    text = _TYPES.get(parameter.kind, parameter.kind)
    if parameter.choices:
        text = f"Literal[{', '.join(map(repr, parameter.choices))}]"
    if (parameter.optional or parameter.default is None) and text != "Any" and not text.endswith("| None"):
        text += " | None"
    return text


def _default(parameter: Parameter) -> Any:
    if parameter.default is REQUIRED:
        return _Argument.empty
    # a dtype is shown by its name
    return name_of(parameter.default) if isinstance(parameter.default, np.dtype) else parameter.default


def signature_of(declared: Operator, array: str = "", symbolic: bool = False) -> inspect.Signature:
    """Return the signature of the public function of an operator.

    Parameters
    ----------
    declared
        The operator.
    array
        The name of the array type; by default the one that the operator declares.
    symbolic
        Whether it is the function of symbols: every input is optional, and ``attr`` takes the place of ``out``.
    """
    array = array or declared.array_name
    arguments: list[_Argument] = []

    def add(name: str, kind: Any, annotation: str, default: Any = None) -> None:
        arguments.append(_Argument(name, kind, default=default, annotation=Type(annotation)))

    operand = f"{array} | float" if declared.on_numbers is not None and not symbolic else array
    optional = False
    inputs = [name for name in declared.input_names if name != "counter"]
    if declared.variadic:
        add(inputs[0], _Argument.VAR_POSITIONAL, operand, _Argument.empty)
    else:
        required = 0 if symbolic else declared.required_arrays
        for place, name in enumerate(inputs):
            optional = place >= required
            if optional:
                add(name, _POSITIONAL, f"{operand} | None")
            else:
                add(name, _POSITIONAL, operand, _Argument.empty)
    kind = _KEYWORD if declared.variadic else _POSITIONAL
    for parameter in visible(declared):
        if parameter.name == "dtype" and not inputs and not symbolic:
            # an operator without inputs takes the context of its result, before the dtype
            add("ctx", kind, "Context | None")
            optional = True
        default = _default(parameter)
        if default is not _Argument.empty:
            optional = True
        elif optional:
            kind = _KEYWORD
        add(parameter.name, kind, type_of(parameter), default)
    results = result_variants(declared, array)
    more = {"name": "str | None"}
    if symbolic:
        more["attr"] = "Mapping[str, str] | None"
    else:
        more = {"out": results.types_of_out, **more}
    if declared.variadic:
        more[declared.interface.count] = "int | None"
    known = {argument.name for argument in arguments}
    for name, annotation in more.items():
        if name not in known:
            add(name, kind, annotation)
    result = Type(array if symbolic else results.annotation)
    return inspect.Signature(arguments, return_annotation=result, __validate_parameters__=False)


class Variants(NamedTuple):
    """The result of a function: one array, a list of arrays, or the one or the other, as a parameter decides."""

    array: str
    single: bool
    """Whether a call with default parameters returns one array."""
    parameter: Parameter | None = None
    """The parameter that decides, if the results differ."""
    single_for: tuple[Any, ...] = ()
    """The values of the parameter for which the result is one array."""
    list_for: tuple[Any, ...] = ()
    """The values of the parameter for which the result is a list."""

    @property
    def annotation(self) -> str:
        """The type of the result."""
        if self.parameter is not None:
            return f"{self.array} | list[{self.array}]"
        return self.array if self.single else f"list[{self.array}]"

    @property
    def types_of_out(self) -> str:
        """The type of the argument ``out``."""
        if self.single and self.parameter is None:
            return f"{self.array} | None"
        return f"{self.array} | Sequence[{self.array}] | None"


def result_variants(declared: Operator, array: str) -> Variants:
    """Return whether the function of an operator returns an array or a list, and which parameter decides."""
    interface = declared.interface
    rule = next((one for one in (interface.shown, declared.visible) if one is not None), interface.outputs)
    if not callable(rule):
        return Variants(array, (rule if isinstance(rule, int) else len(rule)) == 1)
    deciding = [p for p in declared.parameters if p.name in _names(rule)]
    values = [_values(parameter) for parameter in deciding]
    if not deciding or any([each is None for each in values]):
        # a number of outputs that users choose
        return Variants(array, False)
    cases = {case: _is_single(rule, deciding, case) for case in itertools.product(*[each or () for each in values])}
    if len(set(cases.values())) == 1:
        return Variants(array, next(iter(cases.values())))
    for place, parameter in enumerate(deciding):
        kinds = {value: {one for case, one in cases.items() if case[place] == value} for value in values[place] or ()}
        if all([len(found) == 1 for found in kinds.values()]):
            single = tuple([value for value, found in kinds.items() if True in found])
            several = tuple([value for value, found in kinds.items() if False in found])
            return Variants(array, parameter.default in single, parameter, single, several)
    raise TypeError(f"operator {declared.name}: no parameter decides alone whether the result is a list")


def _names(rule: Callable[..., Any]) -> Iterable[str]:
    return [a.name for a in inspect.signature(rule).parameters.values() if a.kind is _KEYWORD]


def _values(parameter: Parameter) -> tuple[Any, ...] | None:
    if parameter.kind == "bool":
        return False, True
    return parameter.choices or None


def _is_single(rule: Callable[..., Any], deciding: list[Parameter], case: tuple[Any, ...]) -> bool:
    outcome = rule(**dict(zip([p.name for p in deciding], case, strict=True)))
    return (outcome if isinstance(outcome, int) else len(outcome)) == 1
