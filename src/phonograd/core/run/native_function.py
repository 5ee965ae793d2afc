"""The type of operator functions that are machine code: called through Python's vectorcall protocol.

A built-in function can be called as fast, but Python reads its signature from text without types, calls it a method of
the object that it is bound to, and cannot pickle it. An :class:`OperatorFunction` shows name, signature and docstring
of the Python function that it replaces, is pickled by its name, and is a method where a class holds it::

    head | address of the code | entry | __dict__ | weak references

Takes the address of the code from :mod:`phonograd.core.array.fastcall` and :mod:`.hot`; hands them functions. See
docs/decisions/0012.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
from collections.abc import Callable
from types import MemberDescriptorType, MethodType
from typing import Any

from ..base.assumptions import assumption_holds

__all__ = [
    "ENTRY_OFFSET",
    "FUNCTION_API",
    "has_declared_layout",
    "is_slot",
    "make_function",
    "slot_offset",
    "slots_are_found",
    "vectorcall_offset",
]

#: functions of Python's C interface that make the type
FUNCTION_API = ("PyType_FromSpecWithBases", "PyVectorcall_Call", "PyObject_GenericGetDict", "PyObject_GenericSetDict")

#: where an object keeps the address of its code, and the objects that the code needs
_CODE_OFFSET = object.__basicsize__
ENTRY_OFFSET = _CODE_OFFSET + 8
_DICTIONARY_OFFSET = ENTRY_OFFSET + 8
_WEAK_OFFSET = _DICTIONARY_OFFSET + 8
_SIZE = _WEAK_OFFSET + 8

_COPIED = ("__module__", "__name__", "__qualname__")

# numbers of Python's stable binary interface
_PY_TP_CALL, _PY_TP_MEMBERS, _PY_TP_GETSET = 50, 72, 73
_OBJECT, _SIZE_TYPE, _READONLY = 16, 19, 1
_DEFAULT, _HAVE_VECTORCALL, _METHOD_DESCRIPTOR = 1 << 18, 1 << 11, 1 << 17


class _Member(ctypes.Structure):
    """PyMemberDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Attribute(ctypes.Structure):
    """PyGetSetDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("get", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )


class _Slot(ctypes.Structure):
    """PyType_Slot."""

    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Specification(ctypes.Structure):
    """PyType_Spec."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    )


class _Description:
    """The signature or the docstring of a function, which is written when somebody asks for it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        describe = None if instance is None else instance.__dict__.get("_describe")
        if describe is not None:
            instance.__signature__, instance.__doc__ = describe()
            return instance.__dict__[self._name]
        if self._name == "__signature__":
            # inspect follows __wrapped__
            raise AttributeError(self._name)
        return "A function that is machine code." if instance is None else instance.__wrapped__.__doc__


class _Shown:
    """The methods of operator functions that are Python code; calls do not need them."""

    __slots__ = ()
    __name__: str
    __qualname__: str
    # what an object has of its own comes first
    __signature__ = _Description("__signature__")

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<function {self.__qualname__} at {id(self):#x}>"

    def __reduce__(self) -> str:
        return self.__qualname__


@functools.cache
def _operator_function() -> type[Any]:
    """Return the type, which lives as long as the process."""
    members = (_Member * 5)(
        _Member(b"__vectorcalloffset__", _SIZE_TYPE, _CODE_OFFSET, _READONLY, None),
        _Member(b"__dictoffset__", _SIZE_TYPE, _DICTIONARY_OFFSET, _READONLY, None),
        _Member(b"__weaklistoffset__", _SIZE_TYPE, _WEAK_OFFSET, _READONLY, None),
        _Member(b"_entry", _OBJECT, ENTRY_OFFSET, 0, None),
    )
    get, put = _address("PyObject_GenericGetDict"), _address("PyObject_GenericSetDict")
    attributes = (_Attribute * 2)(_Attribute(b"__dict__", get, put, None, None))
    slots = (_Slot * 4)(
        _Slot(_PY_TP_CALL, _address("PyVectorcall_Call")),
        _Slot(_PY_TP_MEMBERS, ctypes.addressof(members)),
        _Slot(_PY_TP_GETSET, ctypes.addressof(attributes)),
    )
    flags = _DEFAULT | _HAVE_VECTORCALL | _METHOD_DESCRIPTOR
    name = f"{__name__}.OperatorFunction".encode()
    specification = _Specification(name, _SIZE, 0, flags, ctypes.addressof(slots))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(
        ("PyType_FromSpecWithBases", ctypes.pythonapi)
    )
    made: type[Any] = make(ctypes.addressof(specification), (_Shown,))
    made.__doc__ = _Description("__doc__")  # type: ignore[assignment]
    # the type refers to them
    _KEPT.extend([members, attributes, name])
    return made


_KEPT: list[Any] = []


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


class _Example:
    __slots__ = ("first", "second")
    first: object
    second: object


def slots_are_found(consequence: str) -> bool:
    """Return whether :func:`slot_offset` tells where objects keep their attributes; warn once if not."""

    def test() -> bool:
        example = _Example()
        example.first, example.second = object(), object()
        words = [
            ctypes.c_size_t.from_address(id(example) + slot_offset(_Example, name)).value
            for name in ("first", "second")
        ]
        return words == [id(example.first), id(example.second)]

    return assumption_holds("descriptors of slots tell their offset", consequence, test)


def is_slot(class_: type[Any], name: str) -> bool:
    """Return whether objects of a class keep an attribute in a slot."""
    return type(_stored(class_, name)) is MemberDescriptorType


def slot_offset(class_: type[Any], name: str) -> int:
    """Return where objects of a class keep an attribute: the fifth word of its descriptor refers to a PyMemberDef."""
    if not is_slot(class_, name):
        raise RuntimeError(f"{class_.__name__} does not keep {name} in a slot")
    member = ctypes.c_size_t.from_address(id(_stored(class_, name)) + object.__basicsize__ + 24).value
    return ctypes.c_ssize_t.from_address(member + _Member.offset.offset).value


def _stored(class_: type[Any], name: str) -> Any:
    """Return an attribute of a class as it is stored there, or in a base."""
    return next((base.__dict__[name] for base in class_.__mro__ if name in base.__dict__), None)


def vectorcall_offset(kind: type[Any]) -> int:
    """Return tp_vectorcall_offset of a type: after the head and the length come name, two sizes, the destructor."""
    return ctypes.c_ssize_t.from_address(id(kind) + object.__basicsize__ + 5 * 8).value


def has_declared_layout(consequence: str) -> bool:
    """Return whether the type has the layout that was asked for; warn once if not."""
    return assumption_holds(
        "a type made by Python's C interface keeps code, dictionary and weak references at the offsets that it names",
        consequence,
        _layout_is_as_declared,
    )


def _layout_is_as_declared() -> bool:
    kind = _operator_function()
    found = kind.__basicsize__, kind.__dictoffset__, kind.__weakrefoffset__, vectorcall_offset(kind)
    return found == (_SIZE, _DICTIONARY_OFFSET, _WEAK_OFFSET, _CODE_OFFSET)


def make_function(
    function: Callable[..., Any],
    address: int,
    entry: tuple[Any, ...],
    describe: Callable[[], tuple[inspect.Signature, str]] | None = None,
) -> Any:
    """Return the counterpart of a Python function: code at an address, which finds an entry at ``ENTRY_OFFSET``.

    ``describe`` returns its signature and its docstring; else they are those of the Python function.
    """
    made = _operator_function()()
    functools.update_wrapper(made, function, _COPIED)
    if describe is not None:
        made._describe = describe
    made._entry = entry
    ctypes.c_size_t.from_address(id(made) + _CODE_OFFSET).value = address
    return made
