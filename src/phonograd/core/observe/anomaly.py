"""Anomalies: which operator made the first NaN or infinity, where it was called, and in which scope of the user's.

While detection is on, the results of every evaluation are looked at: one pass over memory that has just been written.
Only when something is wrong are the operators evaluated again, one by one, until the first culprit is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.errors import MXNetError, format_shape
from ..graph.node import Node
from ..graph.operator import Array
from ..ops.math.structural import LEAF
from ..run.programs import Program
from ..run.reference import order, resolve

__all__ = ["Detection", "check", "detection"]

#: makes a program for one node, given the nodes that are known
Build = Callable[[list[Node], Any, bool], Program]


class Detection:
    """What is looked for; nothing if detection is off."""

    __slots__ = ("infinity", "nan", "on")

    def __init__(self) -> None:
        self.on = False
        self.nan = True
        self.infinity = True

    def switch(self, on: bool, nan: bool, infinity: bool) -> tuple[bool, bool, bool]:
        """Change what is looked for and return what was before."""
        previous = self.on, self.nan, self.infinity
        self.on, self.nan, self.infinity = on, nan, infinity
        return previous

    def word(self, value: Any) -> str | None:
        """Return what is wrong with a value, or None."""
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return None
        with np.errstate(all="ignore"):
            # a sum is finite only if everything is; it may be infinite although everything is finite
            if np.isfinite(np.add.reduce(value, axis=None, dtype=value.dtype)):
                return None
            if self.nan and np.isnan(value).any():
                return "NaN"
            return "infinity" if self.infinity and np.isinf(value).any() else None


#: what this process looks for
detection = Detection()


def check(
    kept: Sequence[Node],
    results: Sequence[Array],
    inputs: Iterable[tuple[Node, Array]],
    build: Build,
    scope_of: Callable[[Node], str],
) -> None:
    """Raise if something is wrong with the results of an evaluation, and say what made it.

    ``scope_of`` returns the scope of the user's in which a recorded node was called.
    """
    for node, value in zip(kept, results, strict=True):
        if detection.word(value) is not None:
            raise MXNetError(_report(node, dict(inputs), build, scope_of))


def _report(target: Node, values: dict[Node, Any], build: Build, scope_of: Callable[[Node], str]) -> str:
    for node, value in values.items():
        word = detection.word(value)
        if word is not None:
            kind = "an array" if node.operator is LEAF else f"the result of operator {node.operator.name}"
            users = [n for n in order([resolve(target)], values.__contains__)[1] if node in map(resolve, n.inputs)]
            where = f" by operator {users[0].operator.name}, called at {users[0].where()}" if users else ""
            return (
                f"{word} in {kind} of shape {format_shape(node.shape)} that is used{where}: it was there before "
                "anything was computed from it"
            )
    for node in order([resolve(target)], values.__contains__)[1]:
        if node.outputs is not None:
            continue
        program = build([node], values, False)
        (value,) = program.run([values[source] for source in program.inputs])
        word = detection.word(value)
        if word is not None:
            return _describe(node, word, scope_of)
        values[node] = value
    raise AssertionError("an anomaly that was seen could not be found again")


def _describe(node: Node, word: str, scope_of: Callable[[Node], str]) -> str:
    forward = node.gradient_of
    shape = format_shape(node.shape)
    name = node.operator.name if node.call is None else node.call[0].name
    if forward is None:
        text, called = f"{word} in the result of operator {name}, of shape {shape}", node
    else:
        known = forward.operator.name if forward.call is None else forward.call[0].name
        text, called = f"{word} in the gradient of operator {known} (in {name}, of shape {shape})", forward
    if called.origin:
        text += f", which was called at {called.where()}"
    scope = scope_of(called)
    return f"{text}, in the scope {scope!r}" if scope else text
