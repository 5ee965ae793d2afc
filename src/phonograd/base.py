"""Names that MXNet code imports from ``mxnet.base``: error types, type tuples, class properties.

Names that only make sense with MXNet's C library (handles, ``check_call``, operator code generation) are absent.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from . import libinfo
from .core.base.errors import MXNetError

__all__ = [
    "InternalError",
    "MXNetError",
    "NotImplementedForSymbol",
    "NotSupportedForSparseNDArray",
    "basestring",
    "classproperty",
    "data_dir",
    "data_dir_default",
    "error_types",
    "integer_types",
    "libinfo",
    "long",
    "mx_float",
    "mx_int",
    "mx_int64",
    "mx_real_t",
    "mx_uint",
    "numeric_types",
    "py_str",
    "register",
    "register_error",
    "string_types",
    "with_metaclass",
]

_Type = TypeVar("_Type", bound=type)

# Python 2 names, which old scripts still import from here.
long = int
basestring = str
string_types: tuple[type, ...] = (str,)
numeric_types: tuple[type, ...] = (float, int, np.generic)
integer_types: tuple[type, ...] = (int, np.int32, np.int64)

mx_uint = ctypes.c_uint
mx_int = ctypes.c_int
mx_int64 = ctypes.c_int64
mx_float = ctypes.c_float
mx_real_t = np.float32


class _NullType:
    """The type of the marker for "argument not given", where None is a value."""

    def __repr__(self) -> str:
        return "_Null"


_Null = _NullType()

#: exceptions by the name that starts a message; :func:`register_error` adds to them
error_types: dict[str, type[BaseException]] = {
    error.__name__: error for error in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError)
}


def register_error(func_name: str | type | None = None, cls: type | None = None) -> Any:
    """Return the exception class, registered by its name; usable as a decorator with or without a name.

    >>> @register_error
    ... class PaperJam(MXNetError):
    ...     pass
    >>> error_types["PaperJam"]
    <class 'phonograd.base.PaperJam'>
    """
    if isinstance(func_name, type):
        return register_error(func_name.__name__, func_name)

    def decorate(error: _Type) -> _Type:
        error_types[func_name or error.__name__] = error
        return error

    return decorate if cls is None else decorate(cls)


register = register_error


@register_error
class InternalError(MXNetError):
    """An error inside the library rather than in the call."""


class _UnsupportedCall(MXNetError):
    """A function was called with an unsupported kind of argument."""

    reason = "is not supported"

    def __init__(self, function: Callable[..., Any], alias: str | None, *args: Any) -> None:
        super().__init__(*(str(type(argument)) for argument in args))
        self.function = function.__name__
        self.alias = alias

    def __str__(self) -> str:
        operator = f' (namely operator "{self.alias}")' if self.alias else ""
        arguments = f" with arguments ({', '.join(self.args)})" if self.args else ""
        return f"Function {self.function}{operator}{arguments} {self.reason} and only available in NDArray."


@register_error
class NotImplementedForSymbol(_UnsupportedCall):
    """A function that works only on arrays got a symbol."""

    reason = "is not implemented for Symbol"


class NotSupportedForSparseNDArray(_UnsupportedCall):
    """A function that works only on dense arrays got a sparse one."""

    reason = "is not supported for SparseNDArray"


class _MXClassPropertyDescriptor:
    """A property of a class, also readable through its instances."""

    def __init__(self, fget: Any, fset: Any = None) -> None:
        self.fget, self.fset = fget, fset

    def __get__(self, obj: Any, clas: type | None = None) -> Any:
        return self.fget.__get__(obj, clas or type(obj))()

    def __set__(self, obj: Any, value: Any) -> None:
        if self.fset is None:
            raise AttributeError("this class property cannot be set")
        owner = obj if isinstance(obj, type) else type(obj)
        self.fset.__get__(obj, owner)(value)

    def setter(self, func: Any) -> _MXClassPropertyDescriptor:
        """Return this property with the function that sets it."""
        self.fset = func if isinstance(func, classmethod | staticmethod) else classmethod(func)
        return self


class _MXClassPropertyMetaClass(type):
    """The metaclass of classes whose class properties can be set."""

    def __setattr__(cls, key: str, value: Any) -> None:
        found = next((vars(base)[key] for base in cls.__mro__ if key in vars(base)), None)
        if isinstance(found, _MXClassPropertyDescriptor) and not isinstance(value, _MXClassPropertyDescriptor):
            found.__set__(cls, value)
        else:
            super().__setattr__(key, value)


def classproperty(func: Any) -> _MXClassPropertyDescriptor:
    """Return a property of the class itself, settable if the metaclass is ``_MXClassPropertyMetaClass``.

    >>> class Circle:
    ...     @classproperty
    ...     def corners(cls):
    ...         return 0
    >>> Circle.corners
    0
    """
    return _MXClassPropertyDescriptor(func if isinstance(func, classmethod | staticmethod) else classmethod(func))


def with_metaclass(meta: type, *bases: type) -> type:
    """Return a base class that gives its subclasses the metaclass `meta` and the bases `bases`."""

    class _Once(meta):  # type: ignore[misc]
        def __new__(cls, name: str, _: Any, namespace: dict[str, Any]) -> Any:
            return meta(name, bases, namespace)

    return type.__new__(_Once, "temporary_class", (), {})


def py_str(x: bytes | str) -> str:
    """Decode UTF-8 bytes; text is returned unchanged."""
    return x if isinstance(x, str) else x.decode("utf-8")


def data_dir_default() -> str:
    """Return the directory where MXNet keeps downloaded data by default."""
    if os.name == "nt":
        return os.path.join(os.environ.get("APPDATA", ""), "mxnet")
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir() -> str:
    """Return the directory of downloaded data: the variable ``MXNET_HOME``, or the default."""
    return os.environ.get("MXNET_HOME", data_dir_default())


def _as_list(obj: Any) -> list[Any] | tuple[Any, ...]:
    """Return a list or tuple unchanged, and anything else as a list of one element."""
    return obj if isinstance(obj, list | tuple) else [obj]
