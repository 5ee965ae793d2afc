"""Handles: owners of ranges opened without a ``with`` block. Dropping the last reference ends the range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.base.errors import MXNetError
from ..core.events import USER_SCOPE, Range

__all__ = ["ArgumentTypeError", "RecordFunctionHandle", "begin_scope", "text"]


class ArgumentTypeError(TypeError, MXNetError):
    """An argument has the wrong type. Also a RuntimeError, because PyTorch raises that."""


class RecordFunctionHandle:
    """The owner of a range. Deleting it ends the range."""

    __slots__ = ("__weakref__", "record")

    def __init__(self, record: Range) -> None:
        self.record = record

    def end(self) -> None:
        """End the range unless it has ended."""
        self.record.end()

    def leave(self) -> None:
        """Hand the end of the range over to another owner, and stop being the parent of new ranges here."""
        if self.record.active:
            self.record.is_async = True
            self.record.step_out()

    def __del__(self) -> None:
        self.record.end()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.record!r}>"


def text(what: str, value: Any) -> str:
    """Return a text argument; decode bytes."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise ArgumentTypeError(f"Expected a value of type 'str' for argument '{what}' but instead found {value!r}")


def begin_scope(
    name: str, args: str | None, attributes: Mapping[str, Any] | None = None, instant: bool = False
) -> Range:
    """Return a new range of a user scope, started if any observer listens."""
    entry = Range(USER_SCOPE)
    if instant:
        entry.instant = True
    if args is not None:
        entry.args = args
        if attributes:
            entry.attributes = dict(attributes)
        entry.before(name, (args,))
        return entry
    if attributes:
        entry.attributes = dict(attributes)
    entry.before(name)
    return entry
