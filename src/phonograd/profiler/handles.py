"""Handles: what owns an open range when no ``with`` block does. Dropping the last reference ends the range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.base.errors import MXNetError
from ..core.events import USER_SCOPE, Range

__all__ = ["ArgumentTypeError", "RecordFunctionHandle", "begun", "text"]


class ArgumentTypeError(TypeError, MXNetError):
    """An argument has the wrong type; also a RuntimeError, because that is what PyTorch raises."""


class RecordFunctionHandle:
    """The owner of a range, which ends with it at the latest."""

    __slots__ = ("__weakref__", "record")

    def __init__(self, record: Range) -> None:
        self.record = record

    def end(self) -> None:
        """End the range, if it has not ended."""
        self.record.end()

    def leave(self) -> None:
        """Let something else end the range: what begins here from now on is not inside it."""
        if self.record.active:
            self.record.is_async = True
            self.record.step_out()

    def __del__(self) -> None:
        self.record.end()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.record!r}>"


def text(what: str, value: Any) -> str:
    """Return a text argument; bytes are decoded."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise ArgumentTypeError(f"Expected a value of type 'str' for argument '{what}' but instead found {value!r}")


def begun(name: str, args: str | None, attributes: Mapping[str, Any] | None = None) -> Range:
    """Return a new range of a user's scope, begun if anybody observes it."""
    entry = Range(USER_SCOPE)
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
