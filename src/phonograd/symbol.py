"""Symbol: a recorded computation as a named graph. ``autograd.get_symbol`` makes one from an array."""

from __future__ import annotations

from typing import Any

__all__ = ["Symbol", "get_symbol"]


class Symbol:
    """A named view of nodes."""


def get_symbol(x: Any) -> Symbol:
    raise NotImplementedError
