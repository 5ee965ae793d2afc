"""Terminals: whether a stream is one, its width, its cursor, and the characters that it can show.

Whatever overwrites its own lines (progress bars, curves) counts the lines that it ends, so that nothing is written over
another's.
"""

from __future__ import annotations

import itertools
import os
from typing import TextIO

__all__ = ["can_write", "columns", "end_line", "is_terminal", "lines_ended", "moves_cursor"]

_ended = itertools.count(1)
_last_ended = 0


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal, and not a file or a pipe."""
    try:
        return bool(stream is not None and stream.isatty())
    except (AttributeError, ValueError):  # not quite a file, or one that is closed
        return False


def moves_cursor(stream: TextIO | None) -> bool:
    """Return whether a stream understands what moves the cursor to other lines."""
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def columns(stream: TextIO | None, default: int = 80) -> int:
    """Return how many letters fit into a line of a terminal; of anything else, the default.

    >>> import io
    >>> columns(io.StringIO())
    80
    """
    try:
        # a terminal that was never told its size says 0
        return os.get_terminal_size(stream.fileno()).columns or default if stream is not None else default
    except (AttributeError, OSError, ValueError):
        return default


def can_write(stream: TextIO | None, letters: str) -> bool:
    """Return whether the encoding of a stream has all of some letters.

    >>> import io
    >>> can_write(io.TextIOWrapper(io.BytesIO(), encoding="ascii"), "→")
    False
    """
    try:
        letters.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def end_line() -> None:
    """Note that a line was ended, which stays where it is."""
    global _last_ended
    _last_ended = next(_ended)


def lines_ended() -> int:
    """Return how often :func:`end_line` was called."""
    return _last_ended
