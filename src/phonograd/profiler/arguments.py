"""Arguments of an event: all its details besides name and times, as a dictionary and as trace text.

Most events use a fast path that writes the text in pieces and caches the pieces, because a program that repeats itself
repeats shapes, stacks and kernels too.
"""

from __future__ import annotations

import json
import math
from typing import Any

from ..core.events import USER_SCOPE, Range
from ..core.events.facts import Facts
from .events import FunctionEvent

__all__ = ["ArgumentTexts", "as_json", "describe_event", "plain", "served_scopes"]


def describe_event(event: FunctionEvent, facts: Facts) -> dict[str, Any]:
    """Return the details of an event besides its name and times, keyed by the names that traces use."""
    args: dict[str, Any] = dict(facts.attributes) if facts.attributes else {}
    if facts.args is not None:
        args.setdefault("args", facts.args)
    if facts.domain:
        args.setdefault("domain", facts.domain)
    if facts.shapes:
        args.update(_shapes(facts.shapes))
    if facts.parameters:
        args["Parameters"] = facts.parameters
    if facts.stack:
        args["Call stack"] = facts.stack
    if facts.operators:
        args["operators"] = facts.operators
    if facts.serves:
        args["serves"] = served_scopes(facts.serves)
    if facts.flops is not None:
        args["flops"] = facts.flops
    if facts.moved_bytes is not None:
        args["bytes"] = facts.moved_bytes
    if facts.error:
        args["error"] = facts.error
    if event.unfinished:
        args["unfinished"] = True
    return args


def _shapes(shapes: list[Any]) -> dict[str, list[Any]]:
    """Return the shapes, types and values of inputs, keyed by PyTorch's names."""
    dims = [known[0] if isinstance(known, list) else [] for known in shapes]
    types = [known[1] if isinstance(known, list) else type(known).__name__ for known in shapes]
    found = {"Input Dims": dims, "Input type": types}
    if not all([isinstance(known, list) for known in shapes]):
        found["Concrete Inputs"] = ["" if isinstance(known, list) else known for known in shapes]
    return found


def served_scopes(serves: tuple[Range | str, ...]) -> list[str]:
    """Return the names of the user scopes that a kernel serves, or of operators outside all scopes."""
    return list(dict.fromkeys([who if isinstance(who, str) else _scope_of(who).name for who in serves]))


def _scope_of(source: Range) -> Range:
    found: Range | None = source
    while found is not None and found.scope != USER_SCOPE:
        found = found.parent
    return source if found is None else found


_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def as_json(value: Any) -> str:
    """Return any value as JSON; values that JSON cannot hold become text."""
    try:
        return _encode(value)
    except (TypeError, ValueError):
        return _encode(plain(value))


def plain(value: Any) -> Any:
    """Return a value that JSON can hold. Unknown objects and non-finite numbers become text."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    item = getattr(value, "item", None)
    if getattr(value, "shape", None) == () and callable(item):
        return plain(item())
    return repr(value)


#: facts of arbitrary type; an event with one of them takes the slow path through a dictionary
_ODD = ("error", "args", "domain")
_PHASES = ("forward", "backward")


class ArgumentTexts:
    """Writer of event arguments for one trace. It caches equal pieces of text."""

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}
        self._names: dict[Range, str] = {}

    def of(self, event: FunctionEvent, facts: Facts | None) -> str:
        """Return the ``args`` field of an event's trace line; empty if the event has no arguments."""
        if event.unfinished:
            return self._in_full(event, facts or Facts())
        text = ""
        if facts is not None:
            own = vars(facts)
            for name in _ODD:
                if name in own:
                    return self._in_full(event, facts)
            attributes = own.get("attributes")
            if attributes:
                text = _kernel_text(attributes)
                if not text:
                    return self._in_full(event, facts)
            if shapes := own.get("shapes"):
                # id() works as a key for arrays: one description object exists per shape and dtype. Numbers need repr.
                key = tuple([id(known) if known.__class__ is list else repr(known) for known in shapes])
                text += self._known.get(key) or self._known.setdefault(key, f",{as_json(_shapes(shapes))[1:-1]}")
            if parameters := own.get("parameters"):
                key = "Parameters", repr(parameters)
                text += self._known.get(key) or self._known.setdefault(key, f',"Parameters":{as_json(parameters)}')
            if stack := own.get("stack"):
                text += self._known.get(stack) or self._known.setdefault(stack, f',"Call stack":{as_json(stack)}')
            if operators := own.get("operators"):
                text += self._work(operators, own.get("flops"), own.get("moved_bytes"))
            elif "flops" in own or "moved_bytes" in own:
                text += _numbers(own.get("flops"), own.get("moved_bytes"))
            if serves := own.get("serves"):
                text += self._serves(serves)
            if thread := own.get("forward_thread_id"):
                text += f',"Fwd thread id":{thread}'
        number = event.range.sequence_nr
        if number != -1:
            text += f',"Sequence number":{number}'
        return f',"args":{{{text[1:]}}}' if text else ""

    def _in_full(self, event: FunctionEvent, facts: Facts) -> str:
        args = describe_event(event, facts)
        if event.range.sequence_nr != -1:
            args["Sequence number"] = event.range.sequence_nr
        if facts.forward_thread_id:
            args["Fwd thread id"] = facts.forward_thread_id
        return f',"args":{as_json(args)}' if args else ""

    def _work(self, operators: tuple[str, ...], flops: float | None, moved_bytes: float | None) -> str:
        key = operators, flops, moved_bytes
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = f',"operators":{as_json(operators)}{_numbers(flops, moved_bytes)}'
        return found

    def _serves(self, value: tuple[Range | str, ...]) -> str:
        names = self._names
        found: dict[str, None] = {}
        for who in value:
            name = who if isinstance(who, str) else names.get(who)
            if name is None:
                assert not isinstance(who, str)
                name = names[who] = _scope_of(who).name
            found[name] = None
        key = "serves", *found
        text = self._known.get(key)
        if text is None:
            text = self._known[key] = f',"serves":{as_json(list(found))}'
        return text


def _kernel_text(attributes: dict[str, Any]) -> str:
    """Return the attributes of a kernel as text; empty for user attributes, which may have any type."""
    if len(attributes) == 2 and attributes.get("phase") in _PHASES and type(attributes.get("launches")) is int:
        return f',"phase":"{attributes["phase"]}","launches":{attributes["launches"]}'
    return ""


def _numbers(flops: float | None, moved_bytes: float | None) -> str:
    text = "" if flops is None else f',"flops":{as_json(flops)}'
    return text if moved_bytes is None else f'{text},"bytes":{as_json(moved_bytes)}'
