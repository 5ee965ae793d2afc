"""``mx.ops``: operators by name and schema, like ``torch.ops``, including the operators behind record_function.

>>> from phonograd import ops
>>> ops.profiler._record_function_exit.overloads()
['default', '_RecordFunction']
>>> record = ops.profiler._record_function_enter_new("work")
>>> ops.profiler._record_function_exit(record)

A schema is text like ``profiler::_record_function_enter(str name, str? args=None) -> Tensor``. A call checks its
arguments against the schemas of all overloads, and runs the first one that matches.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .core.base.errors import nearest
from .core.events import DisableRecordFunctionGuard, Range
from .ndarray import NDArray, array
from .profiler.continuation import end_on, kind_of_future
from .profiler.handles import ArgumentTypeError, RecordFunctionHandle, begin_scope, text

__all__ = ["Namespace", "Overload", "Packet", "define"]

_UNDEFINED = (
    "Undefined RecordFunction handle. This can happen if the handle is not correctly persisted and is destroyed "
    "before the future is realized."
)
_NO_HANDLE = "Expected temporary cpp type wrapper: this is no array that _record_function_enter has returned"


class _Type(NamedTuple):
    """A type of the schema language: its test and its conversion."""

    accepts: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


_TYPES = {
    "str": _Type(lambda value: isinstance(value, str | bytes), lambda value: text("", value)),
    "str?": _Type(
        lambda value: value is None or isinstance(value, str | bytes),
        lambda value: None if value is None else text("", value),
    ),
    # None represents the undefined array
    "Tensor": _Type(lambda value: value is None or isinstance(value, NDArray)),
    "_RecordFunction": _Type(lambda value: isinstance(value, RecordFunctionHandle)),
    "Future(t)": _Type(lambda value: kind_of_future(value) is not None),
}
_REQUIRED = object()


class _Argument(NamedTuple):
    type: str
    name: str
    default: Any


_SCHEMA = re.compile(r"(?P<space>\w+)::(?P<name>\w+)(\.(?P<overload>\w+))?\((?P<arguments>.*)\) -> (?P<result>.+)")


class Overload:
    """One schema of an operator and its function."""

    def __init__(self, schema: str, function: Callable[..., Any]) -> None:
        found = _SCHEMA.fullmatch(schema)
        if found is None:
            raise ValueError(f"not a schema: {schema!r}")
        self.schema = schema
        self.namespace = found["space"]
        self.name = found["name"]
        self.overload = found["overload"] or "default"
        self.arguments = [_parse_argument(part) for part in found["arguments"].split(", ") if part]
        self.function = function

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the values of all arguments, or raise a description of the mismatch."""
        where = f"{self.namespace}::{self.name}()"
        if len(args) > len(self.arguments):
            raise ArgumentTypeError(
                f"{where} expected at most {len(self.arguments)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self.schema}"
            )
        names = [argument.name for argument in self.arguments]
        for name in kwargs:
            if name not in names:
                raise ArgumentTypeError(
                    f"Unknown keyword argument '{name}' for operator '{where[:-2]}'{nearest(name, names)}. "
                    f"Schema: {self.schema}"
                )
            if name in names[: len(args)]:
                raise ArgumentTypeError(f"{where} was given '{name}' twice. Declaration: {self.schema}")
        values = []
        for position, argument in enumerate(self.arguments):
            value = args[position] if position < len(args) else kwargs.get(argument.name, argument.default)
            if value is _REQUIRED:
                raise ArgumentTypeError(
                    f"{where} is missing value for argument '{argument.name}'. Declaration: {self.schema}"
                )
            declared = _TYPES[argument.type]
            if not declared.accepts(value):
                raise ArgumentTypeError(
                    f"{where} Expected a value of type '{argument.type}' for argument '{argument.name}' but instead "
                    f"found type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\n"
                    f"Declaration: {self.schema}"
                )
            values.append(declared.convert(value))
        return values

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*self.bind(args, kwargs))

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self.name}', overload='{self.overload}')>"


def _parse_argument(part: str) -> _Argument:
    kind, _, rest = part.partition(" ")
    name, equals, default = rest.partition("=")
    if kind not in _TYPES:
        raise ValueError(f"unknown type {kind!r}; types are {', '.join(_TYPES)}")
    if equals and default != "None":
        raise ValueError(f"a schema default must be None, not {default!r}")
    return _Argument(kind, name, None if equals else _REQUIRED)


class Packet:
    """An operator: its overloads under one name. A call runs the first overload that matches the arguments."""

    def __init__(self, namespace: str, name: str) -> None:
        self._name = f"{namespace}.{name}"
        self._overloads: dict[str, Overload] = {}

    def overloads(self) -> list[str]:
        """Return the names of the overloads."""
        return list(self._overloads)

    def __getattr__(self, name: str) -> Overload:
        found = self.__dict__.get("_overloads", {}).get(name)
        if found is None:
            raise AttributeError(f"The underlying op of '{self._name}' has no overload name '{name}'")
        return found  # type: ignore[no-any-return]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        reasons = []
        for overload in self._overloads.values():
            try:
                values = overload.bind(args, kwargs)
            except ArgumentTypeError as error:
                # keep only the text: the exception refers to this frame, and would keep a dropped handle alive
                reasons.append(str(error))
                continue
            return overload.function(*values)
        heading = f"operator {self._name} failed to match any schema:\n" if len(reasons) > 1 else ""
        raise ArgumentTypeError(heading + "\n\n".join(reasons))

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._name}')>"


class Namespace:
    """The operators of one namespace, as attributes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._packets: dict[str, Packet] = {}

    def __getattr__(self, name: str) -> Packet:
        packets = self.__dict__.get("_packets", {})
        if name not in packets:
            raise AttributeError(f"no operator {self._name}::{name}{nearest(name, list(packets))}")
        return packets[name]  # type: ignore[no-any-return]

    def __dir__(self) -> list[str]:
        return sorted(self._packets)

    def __repr__(self) -> str:
        return f"<operators of {self._name}: {', '.join(self._packets)}>"


_NAMESPACES: dict[str, Namespace] = {}


def define(schema: str) -> Callable[[Callable[..., Any]], Overload]:
    """Return a decorator that registers a function as the operator ``mx.ops.<namespace>.<name>``."""

    def decorate(function: Callable[..., Any]) -> Overload:
        overload = Overload(schema, function)
        space = _NAMESPACES.setdefault(overload.namespace, Namespace(overload.namespace))
        packet = space._packets.setdefault(overload.name, Packet(overload.namespace, overload.name))
        packet._overloads[overload.overload] = overload
        return overload

    return decorate


def __getattr__(name: str) -> Namespace:
    if name not in _NAMESPACES:
        raise AttributeError(f"no operator namespace {name!r}{nearest(name, list(_NAMESPACES))}")
    return _NAMESPACES[name]


def __dir__() -> list[str]:
    return sorted([*__all__, *_NAMESPACES])


# -- record_function

#: the ranges of legacy handles, by the identity of the array; an entry is removed with its array
_legacy: dict[int, RecordFunctionHandle] = {}


def _drop(identity: int) -> None:
    _legacy.pop(identity).end()


def _legacy_handle(record: Range) -> NDArray:
    """Return an array that owns a range: the array's identity finds the range, and its deletion ends it."""
    handle = RecordFunctionHandle(record)
    with DisableRecordFunctionGuard():
        owner = array(np.frombuffer(id(record).to_bytes(8, "little"), np.uint8), dtype=np.uint8)
        owner.wait_to_read()  # computes it now, so that no observer sees an evaluation of it later
    _legacy[id(owner)] = handle
    weakref.finalize(owner, _drop, id(owner)).atexit = False
    return owner


def _range_of(handle: NDArray | None) -> RecordFunctionHandle:
    found = _legacy.get(id(handle))
    if found is None:
        raise RuntimeError(_NO_HANDLE)
    return found


@define("profiler::_record_function_enter(str name, str? args=None) -> Tensor")
def _enter(name: str, args: str | None) -> NDArray:
    return _legacy_handle(begin_scope(name, args))


@define("profiler::_record_function_enter_new(str name, str? args=None) -> _RecordFunction")
def _enter_new(name: str, args: str | None) -> RecordFunctionHandle:
    return RecordFunctionHandle(begin_scope(name, args))


@define("profiler::_record_function_exit(Tensor handle) -> ()")
def _exit_legacy(handle: NDArray | None) -> None:
    _range_of(handle).end()


@define("profiler::_record_function_exit._RecordFunction(_RecordFunction record) -> ()")
def _exit_new(record: RecordFunctionHandle) -> None:
    record.end()


@define("profiler::_call_end_callbacks_on_jit_fut(Tensor x, Future(t) y) -> Future(t)")
def _end_legacy_on_future(handle: NDArray | None, future: Any) -> Any:
    def end() -> None:
        if handle is None:
            raise RuntimeError(_UNDEFINED)
        _range_of(handle).end()

    following = end_on(future, end)
    if handle is not None and id(handle) in _legacy:
        _legacy[id(handle)].leave()
    return following


@define("profiler::_call_end_callbacks_on_jit_fut._RecordFunction(_RecordFunction x, Future(t) y) -> Future(t)")
def _end_new_on_future(handle: RecordFunctionHandle, future: Any) -> Any:
    following = end_on(future, handle.end)
    handle.leave()
    return following
