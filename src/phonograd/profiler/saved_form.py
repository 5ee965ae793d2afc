"""Check the contents of a profile file before anything is made of them.

:mod:`.saving` hands over the parsed JSON. Every number, text and reference must have the form that it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.events import LISTENING

__all__ = ["check_document"]

#: nothing lasts longer than this, about 146 years
_LONGEST_NS = 1 << 62


def check_document(document: dict[str, Any], facts: tuple[str, ...]) -> None:
    """Raise ValueError unless a document has the form of a profile; `facts` are the names of attributes of ranges."""
    for name in ("version", "process", "wall_ns", "elapsed_ns", "dropped"):
        _require(_is_whole(document.get(name)) and document[name] >= 0, f"{name} is not a number from 0")
    names, threads, ranges = document.get("names"), document.get("threads"), document.get("ranges")
    _require(_is_texts(names), "names are not a list of texts")
    _require(isinstance(document.get("metadata"), dict), "metadata are not an object")
    if not isinstance(threads, dict) or not isinstance(ranges, list) or not isinstance(names, list):
        raise ValueError("it has no threads, ranges or names")
    for number, name in threads.items():
        # int() refuses digits of other scripts and very long numbers late, or not at all
        _require(number.isascii() and number.isdecimal() and len(number) < 19, f"thread {number!r} is invalid")
        _require(isinstance(name, str), f"the name of thread {number!r} is not a text")
    for place, row in enumerate(ranges):
        _require(_is_row(row, len(names), len(ranges), facts), f"range {place} is invalid")
    _check_parents([row[5] for row in ranges])
    held = document.get("held", [])
    _require(isinstance(held, list) and all([_is_moment(moment) for moment in held]), "held memory is invalid")


def _require(valid: bool, problem: str) -> None:
    if not valid:
        raise ValueError(problem)


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < _LONGEST_NS


def _is_identity(value: Any) -> bool:
    """Return whether a value names memory: an address, or a number above all addresses for an arena."""
    return type(value) is int and 0 <= value < 1 << 64


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all([isinstance(text, str) for text in value])


def _is_place(value: Any, count: int) -> bool:
    """Return whether a value is the number of a range, or -1 for none."""
    return _is_whole(value) and -1 <= value < count


def _is_row(row: Any, names: int, count: int, facts: tuple[str, ...]) -> bool:
    if not isinstance(row, list) or len(row) not in (6, 7) or not all([_is_whole(number) for number in row[:6]]):
        return False
    name, scope, thread, start, end, parent = row[:6]
    if not 0 <= name < names or not 0 <= scope < len(LISTENING) or thread < 0 or not _is_place(parent, count):
        return False
    # an end of -1 is unknown
    if end != -1 and end < start:
        return False
    found = row[6] if len(row) == 7 else {}
    return isinstance(found, dict) and all([_is_fact(key, value, count, facts) for key, value in found.items()])


def _is_fact(name: str, value: Any, count: int, facts: tuple[str, ...]) -> bool:
    if name == "forward":
        return _is_whole(value) and 0 <= value < count
    if name == "serves":
        return isinstance(value, list) and all([isinstance(who, str) or _is_place(who, count) for who in value])
    if name == "segments":
        return isinstance(value, list) and all([_is_segment(segment, count) for segment in value])
    if name == "sequence_nr":
        return _is_whole(value)
    return name in facts and _FORMS[name](value)


def _is_segment(segment: Any, count: int) -> bool:
    whole = isinstance(segment, list) and len(segment) == 4 and all([_is_whole(number) for number in segment])
    return whole and segment[2] >= 0 and _is_place(segment[3], count)


def _is_shapes(value: Any) -> bool:
    """Return whether a value describes inputs: each a pair of shape and dtype, or a text or number."""
    return isinstance(value, list) and all([not isinstance(known, list) or _is_array(known) for known in value])


def _is_array(known: list[Any]) -> bool:
    whole = len(known) == 2 and isinstance(known[0], list) and all([_is_whole(extent) for extent in known[0]])
    return whole and isinstance(known[1], str)


def _is_moment(moment: Any) -> bool:
    if not isinstance(moment, list) or len(moment) != 2 or not _is_whole(moment[0]) or not isinstance(moment[1], list):
        return False
    return all([_is_piece(piece) for piece in moment[1]])


def _is_piece(piece: Any) -> bool:
    whole = isinstance(piece, list) and len(piece) == 3 and all([_is_whole(number) for number in piece[:2]])
    return whole and isinstance(piece[2], str)


def _check_parents(parents: list[int]) -> None:
    """Raise ValueError if a range is inside itself."""
    outside = [False] * len(parents)
    for first in range(len(parents)):
        path: list[int] = []
        place = first
        while place >= 0 and not outside[place]:
            if len(path) > len(parents):
                raise ValueError(f"range {place} is inside itself")
            path.append(place)
            place = parents[place]
        for visited in path:
            outside[visited] = True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


#: the forms of the attributes of ranges
_FORMS: dict[str, Callable[[Any], bool]] = {
    "forward_thread_id": _is_whole,
    "is_async": _is_flag,
    "kind": _is_text,
    "domain": _is_text,
    "value": _is_number,
    "shapes": _is_shapes,
    "instant": _is_flag,
    "args": _is_text,
    "attributes": _is_object,
    "error": _is_text,
    "operators": _is_texts,
    "flops": _is_number,
    "moved_bytes": _is_number,
    "category": _is_text,
    "identity": _is_identity,
    "stack": _is_texts,
    "parameters": _is_object,
}
