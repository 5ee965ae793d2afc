"""Anomaly detection: find the operator that produced the first NaN or infinity, its call site and its scope.

While detection is on, every evaluation checks its results: one pass over memory that was just written. Only after a
failed check are the operators evaluated again, one by one, until the first faulty one is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import kind_of
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
    """The values to detect; none if detection is off."""

    __slots__ = ("infinity", "nan", "on")

    def __init__(self) -> None:
        self.on = False
        self.nan = True
        self.infinity = True

    def switch(self, on: bool, nan: bool, infinity: bool) -> tuple[bool, bool, bool]:
        """Set the values to detect, and return the previous setting."""
        previous = self.on, self.nan, self.infinity
        self.on, self.nan, self.infinity = on, nan, infinity
        return previous

    def word(self, value: Any) -> str | None:
        """Return the kind of anomaly in a value, or None."""
        if not isinstance(value, np.ndarray) or kind_of(value.dtype) != "f":
            return None
        with np.errstate(all="ignore"):
            # a finite sum implies finite elements; an infinite sum needs a check of each element
            if np.isfinite(np.add.reduce(value, axis=None, dtype=value.dtype)):
                return None
            if self.nan and np.isnan(value).any():
                return "NaN"
            return "infinity" if self.infinity and np.isinf(value).any() else None


#: the setting of this process
detection = Detection()


def check(
    kept: Sequence[Node],
    results: Sequence[Array],
    inputs: Iterable[tuple[Node, Array]],
    build: Build,
    scope_of: Callable[[Node], str],
) -> None:
    """Raise if the results of an evaluation have an anomaly, and name the operator that produced it.

    ``scope_of`` returns the user scope in which a recorded node was called.
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
                f"{word} in {kind} of shape {format_shape(node.shape)} that is used{where}: it existed before "
                "any computation"
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
    raise AssertionError("an anomaly was detected but not reproduced")


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
