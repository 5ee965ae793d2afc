"""Decisions: choices that plans for any extents make again for each graph, instead of assuming their outcome.

Takes functions of plain numbers from the layers below, such as the division of a product into tasks. While a planner
runs on sizes (:mod:`phonograd.core.plan.sizes`), each comparison becomes a condition of the plan. A decision becomes
one line of the plan, which calls it, whatever it compares. See docs/decisions/0047.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .extents import is_tracing

__all__ = ["DECISIONS", "Symbolic", "decision"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: decisions by name
DECISIONS: dict[str, Callable[..., Any]] = {}


class Symbolic:
    """The base of numbers that know how they follow from the extents of a graph."""

    __slots__ = ()

    trace: Any
    """Notes what is computed from them."""


def decision(function: _Function) -> _Function:
    """Declare a function of numbers that returns a positive integer, or a tuple of these, as a decision."""
    assert function.__name__ not in DECISIONS, function
    DECISIONS[function.__name__] = function

    @functools.wraps(function)
    def decide(*arguments: Any) -> Any:
        if is_tracing():
            for argument in arguments:
                # sizes say that they are integers
                if issubclass(type(argument), Symbolic):
                    return argument.trace.decide(function, arguments)
        return function(*arguments)

    return decide  # type: ignore[return-value]
