"""Parameters of operators: the annotations of declarations, and the conversion of user arguments.

A declaration annotates its keyword-only arguments with one of these words. The argument then accepts the same values as
in MXNet, including the strings of symbol files such as ``"(3, 3)"``, and reaches the operator in one hashable form.

=====================  =====================================================================
``int``                an integer (also equal values such as 3.0, NumPy integers, ``"3"``)
``float``              a number, as a Python float
``bool``               a boolean (also 0, 1, ``"True"``)
``str``                a string; other values as text
``Shape``              a tuple of integers, also a list or a NumPy array; one integer means a tuple of one
``Floats``             a tuple of numbers
``Axis``               None, an integer, or a tuple of integers
``DType``              a NumPy dtype supported by arrays
``Literal["a", "b"]``  one of the strings
``Number``             like ``float``, but data: in calls with arrays, a node of their dtype
``Numbers``            like ``Floats``, each of them a ``Number``
``Count``              an integer that is data: in calls with arrays, a node of float64
``Counts``             like ``Shape``, each of them a ``Count``
=====================  =====================================================================

``X | None`` also accepts None. A ``Number`` may change in every call (a learning rate) without a new plan.
"""

from __future__ import annotations

import ast
import math
import operator as _operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import as_dtype
from ..base.errors import MXNetError, nearest
from .extents import Extent, TracedFloat
from .parameter_text import read_bool, read_float, read_floats, read_int, read_optional_ints, read_shape

__all__ = ["REQUIRED", "Axis", "Count", "Counts", "Floats", "Number", "Numbers", "OptionalInts", "Parameter"]
__all__ += ["attributes_of", "reject_unknown"]

Axis = int | tuple[int, ...] | None
Floats = tuple[float, ...]
OptionalInts = tuple[int | None, ...]
# numbers, or the nodes made from them
Number = Any
Numbers = tuple[Any, ...]
Count = Any
Counts = tuple[Any, ...]


class _Required:
    def __repr__(self) -> str:
        return "required"


#: the default of a parameter without a default
REQUIRED: Any = _Required()


def _plain(value: Any) -> Any:
    """Return NumPy's scalars and arrays as Python's numbers and lists."""
    if isinstance(value, np.ndarray):
        if value.ndim > 1:
            raise ValueError(value)
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _integer(value: Any) -> int:
    if isinstance(value, str):
        return read_int(value)
    value = _plain(value)
    # equal values mean equal calls: 2.0 is 2, True is 1
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, Extent) else _operator.index(value)


class _NegativeZero(float):
    """Represent -0.0 as an attribute: it equals 0.0 as a number, but the expressions differ."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is _NegativeZero

    def __hash__(self) -> int:
        return hash(_NegativeZero)


_NEGATIVE_ZERO = _NegativeZero(-0.0)


def _number(value: Any) -> float:
    if isinstance(value, str):
        number = read_float(value)
    else:
        value = _plain(value)
        if not isinstance(value, (int, float)):
            raise TypeError(value)
        number = value.to_float() if isinstance(value, (Extent, TracedFloat)) else float(value)
    return number if number or math.copysign(1.0, number) > 0 else _NEGATIVE_ZERO


def _truth(value: Any) -> bool:
    if isinstance(value, str):
        return read_bool(value)
    value = _plain(value)
    if not isinstance(value, (int, float)) or value not in (0, 1):
        raise ValueError(value)
    return bool(value)


def _items(value: Any, numbers: tuple[type, ...]) -> list[Any]:
    """Return the items of a sequence; one number stands for a sequence of one."""
    value = _plain(value)
    if isinstance(value, numbers):
        return [value]
    if not isinstance(value, (list, tuple, range)):
        raise TypeError(value)
    return list(value)


def _shape(value: Any) -> tuple[int, ...]:
    if value.__class__ is tuple and all([extent.__class__ is int for extent in value]):
        return value
    if isinstance(value, str):
        value = read_shape(value)
    return tuple([_integer(extent) for extent in _items(value, (int, float))])


def _optional_integers(value: Any) -> tuple[int | None, ...]:
    if isinstance(value, str):
        value = read_optional_ints(value)
    return tuple([None if item is None else _integer(item) for item in _items(value, (int, float, type(None)))])


def _floats(value: Any) -> tuple[float, ...]:
    if isinstance(value, str):
        value = read_floats(value)
    return tuple([_number(item) for item in _items(value, (int, float))])


def _axis(value: Any) -> int | tuple[int, ...] | None:
    if isinstance(value, str):
        value = read_shape(value)
    value = _plain(value)
    if isinstance(value, (list, tuple)):
        return tuple([_integer(item) for item in value])
    return _integer(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": _integer,
    "float": _number,
    "bool": _truth,
    "str": str,
    "Shape": _shape,
    "OptionalInts": _optional_integers,
    "Floats": _floats,
    "Axis": _axis,
    "DType": as_dtype,
    "Number": _number,
    "Numbers": _floats,
    "Count": _integer,
    "Counts": _shape,
    "Any": lambda value: value,
}

_DESCRIPTIONS = {
    "int": "int",
    "float": "float",
    "bool": "boolean",
    "str": "string",
    "Shape": "Shape(tuple)",
    "OptionalInts": "Shape(tuple)",
    "Floats": "tuple of <float>",
    "Axis": "Shape or None",
    "DType": "dtype",
    "Number": "float",
    "Numbers": "tuple of <float>",
    "Count": "int",
    "Counts": "Shape(tuple)",
    "Any": "value",
}

#: parameters that are data
_DATA = ("Number", "Numbers", "Count", "Counts")


class Parameter:
    """Describe one parameter of an operator: its name, the values it accepts, and its default."""

    __slots__ = ("choices", "convert", "default", "description", "kind", "name", "optional")

    def __init__(self, name: str, annotation: str, default: Any) -> None:
        self.name = name
        self.default = default
        text = annotation.strip()
        self.optional = text.endswith("| None") or text == "Axis"
        if text.endswith("| None"):
            text = text[: -len("| None")].strip()
        #: the annotation without ``| None``
        self.kind = text
        self.choices: tuple[str, ...] = ()
        if text.startswith("Literal["):
            self.choices = tuple(ast.literal_eval(f"({text[len('Literal[') : -1]},)"))
            self.convert: Callable[[Any], Any] = self._choose
            self.description = "{" + ", ".join(repr(choice) for choice in sorted(self.choices)) + "}"
        elif text in _CONVERTERS:
            self.convert = _CONVERTERS[text]
            self.description = _DESCRIPTIONS[text]
        else:
            raise TypeError(f"parameter {name}: annotation {annotation!r} is none of {', '.join(_CONVERTERS)}")

    @property
    def is_data(self) -> bool:
        """Return whether the parameter is a number, or several, that calls with arrays take as data."""
        return self.kind in _DATA

    def _choose(self, value: Any) -> str:
        if value not in self.choices:
            raise ValueError(value)
        return str(value)

    def accept(self, value: Any, operator_name: str) -> Any:
        """Return the canonical form of a value, or raise MXNetError naming the operator and the parameter."""
        if value is None or (isinstance(value, str) and value == "None"):
            if self.optional or self.default is None:
                return None
            if self.kind == "Shape" and self.default == ():
                # MXNet reads it as an unknown shape, which means the default
                return ()
        try:
            return self.convert(value)
        except (TypeError, ValueError, KeyError, OverflowError):
            pass
        if self.choices:
            raise MXNetError(
                f"Invalid Input: '{value}', valid values are: {self.description}, "
                f'in operator {operator_name}(name="", {self.name}="{value}")'
            )
        raise MXNetError(
            f"Invalid Parameter format for {self.name} expect {self.description} but value='{value}', "
            f'in operator {operator_name}(name="", {self.name}="{value}")'
        )


def attributes_of(name: str, parameters: Sequence[Parameter], given: dict[str, Any]) -> tuple[Any, ...]:
    """Return the attributes of a call of an operator: every parameter in order, converted, with defaults filled in."""
    attributes = []
    used = 0
    for parameter in parameters:
        if parameter.name in given:
            used += 1
            attributes.append(parameter.accept(given[parameter.name], name))
        elif parameter.default is REQUIRED:
            raise MXNetError(
                f"Required parameter {parameter.name} of {parameter.description} is not presented, "
                f'in operator {name}(name="")'
            )
        else:
            attributes.append(parameter.default)
    if used != len(given):
        reject_unknown(name, parameters, given)
    return tuple(attributes)


def reject_unknown(name: str, parameters: Sequence[Parameter], given: Iterable[str]) -> None:
    """Raise for the first name in ``given`` that is no parameter of an operator."""
    names = [parameter.name for parameter in parameters]
    for each in given:
        if each not in names:
            raise MXNetError(
                f"Cannot find argument '{each}', Possible Arguments: {', '.join(names)}, "
                f'in operator {name}(name=""){nearest(each, names)}'
            )
