"""Rules for shapes with unknown extents that several operators share; :mod:`.interface` has the words.

A rule named ``..._results`` maps the partial shapes of inputs to those of outputs, for :attr:`Interface.results
<phonograd.core.graph.interface.Interface>`. The others map inputs and outputs to inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .interface import Partial, Partials, merge

__all__ = ["broadcast_results", "constant_results", "first_results", "merge_all", "same_results"]


def merge_all(shapes: Partials) -> Partial:
    """Return the common shape of arrays of one shape.

    >>> merge_all([(2, 0), None, (0, 3)])
    (2, 3)
    """
    common: Partial = None
    for shape in shapes:
        common = merge(common, shape)
    return common


def same_results(inputs: Partials) -> Partials:
    """Return the shape of the output: that of every input."""
    return [merge_all(inputs)]


def first_results(inputs: Partials) -> Partials:
    """Return the shape of the output: that of the first input."""
    return [inputs[0]]


def broadcast_results(inputs: Partials) -> Partials:
    """Return the shape of two operands after broadcasting; an extent is unknown if either operand decides it.

    >>> broadcast_results([(0, 0, 4), (3, 1)])
    [(0, 0, 4)]
    """
    first, second = inputs
    if first is None or second is None:
        return [None]
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    return [tuple([b if a == 1 else a if b in (1, a) else 0 for a, b in pairs])]


def constant_results(shape: Callable[..., Partial]) -> Callable[..., Partials]:
    """Return the rule of an output whose shape follows from parameters alone."""

    def rule(inputs: Partials, **parameters: Any) -> Partials:
        return [shape(**parameters)]

    return rule
