"""A kernel that the library does not have: running maxima of rows, planned from the lowering that names this module."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from phonograd.core.base.dtypes import DType
from phonograd.core.graph.node import Node
from phonograd.core.kernels.launch import Launch, Plan, Words
from phonograd.core.kernels.target import Machine
from phonograd.core.lower.ir.emitter import Emitter
from phonograd.core.lower.ir.function_builder import Index, Value

_WORDS = Words("extent", "data*", "out*")


def plan(node: Node, lowering: Any, machine: Machine) -> Plan | None:
    """Return how to compute a node; None for empty arrays, which are left to NumPy."""
    if node.size == 0:
        return None
    extent = node.shape[-1]
    return Plan((Launch(RunningMaximum(node.dtype), _WORDS.fill({"extent": extent}), node.size // extent),))


@dataclasses.dataclass(frozen=True)
class RunningMaximum:
    """The kernel, without sizes: its range is the rows."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the text of the module."""
        e = Emitter(name, 1)
        extent, data, out = _WORDS.index(e, "extent"), _WORDS.pointer(e, "data"), _WORDS.pointer(e, "out")

        def row(number: Index, _: list[Value]) -> Sequence[Value]:
            start = e.times(number, extent)
            first = e.load(data, start, self.dtype)
            e.store(out, start, first)

            def element(column: Index, before: list[Value]) -> Sequence[Value]:
                value = e.load(data, e.plus(start, column), self.dtype)
                largest = e.maximum(value, before[0])
                e.store(out, e.plus(start, column), largest)
                return [largest]

            e.loop("1", extent, "1", (first,), element)
            return ()

        e.loop("%lo", "%hi", "1", (), row)
        return e.text()
