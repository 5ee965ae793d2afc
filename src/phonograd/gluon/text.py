"""Format texts for representations and messages of blocks and parameters."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["brief_list", "indented"]

_MOST_SHOWN = 7


def indented(text: str, spaces: int) -> str:
    """Return a text with all lines but the first indented.

    >>> indented("a\\nb", 2)
    'a\\n  b'
    """
    return ("\n" + " " * spaces).join(text.split("\n"))


def brief_list(names: Iterable[str], limit: int = _MOST_SHOWN) -> str:
    """Return quoted names in one line, without those in the middle if there are many.

    >>> brief_list("abcdef", 4)
    "'a', 'b', ..., 'e', 'f'"
    """
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > limit:
        quoted = [*quoted[: limit // 2], "...", *quoted[-limit // 2 :]]
    return ", ".join(quoted)
