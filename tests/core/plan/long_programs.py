"""Long random programs on nodes: dtypes mixed, parts assigned to, rows in turn, and the gradients of all of that.

They are meant to find what goes wrong between kernels: what is written when and where, and who reads it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.matmul import tasks
from phonograd.core.ops.math.primitives import (
    cast,
    matmul,
    permute,
    reshape_to,
    slice_step,
    swap_last,
)
from phonograd.core.ops.math.structural import constant, leaf, variable
from phonograd.core.ops.shape.creation import position_along
from phonograd.core.ops.vision.regions import assign_flat, assign_step
from phonograd.core.plan import (
    expansion,
    fusion,
    group,
    inplace,
    layout,
    loops,
    partition,
    products,
    rematerialize,
)
from phonograd.core.run.reference import resolve

from .programs import EXACT_PAIRS, FUNCTIONS, LARGEST, Draft, RandomProgram, values_of

__all__ = ["limited", "limits", "long_programs"]

#: functions of any number that have a gradient and stay within bounds, so that long programs have finite values
_CALM = ["tanh", "sigmoid", "softsign", "sin", "cos", "relu", "abs", "negative", "arctan", "erf", "identity"]
_SMALL_SHAPES = [(4, 6), (6, 4), (4, 6), (6,), (4, 1), (1, 6), (2, 4, 6), (4, 6, 1), (24,), (), (3, 4, 2), (2, 0, 3)]

#: limits of the planner and other values of them that make small programs look like large ones
LIMITS: dict[str, tuple[tuple[Any, ...], list[int]]] = {
    "SMALLEST": ((inplace,), [1, 1, 1 << 12]),
    "LEAST_RATIO": ((inplace,), [2, 2, 4]),
    "WEIGHT_LIMIT": ((group, fusion), [160, 160, 20, 3]),
    "ENOUGH_WEIGHT": ((group,), [100, 5]),
    "LOOK_BACK": ((fusion,), [8, 1]),
    "PASS_LIMIT": ((group,), [8, 1]),
    "ROW_ELEMENTS": ((group,), [1 << 16, 4]),
    "CHEAP": ((rematerialize,), [4, 0, 40]),
    "CHUNK_ELEMENTS": ((loops, partition), [1 << 14, 16, 1]),
    "PART_ELEMENTS": ((partition,), [1 << 16, 8]),
    "REGION_CHUNKS": ((layout,), [64, 1, 100_000]),
    "SMALLEST_EXCHANGE": ((layout,), [1, 1, 1 << 14]),
    "TASK_WORK": ((tasks,), [tasks.TASK_WORK, 16]),
    "ENOUGH_USES": ((products,), [3, 1]),
    "ENOUGH_ROWS": ((products,), [512, 1]),
    "FEW": ((expansion,), [8, 1]),
}

limits = st.fixed_dictionaries({name: st.sampled_from(values) for name, (_, values) in LIMITS.items()})


@contextlib.contextmanager
def limited(chosen: dict[str, int]) -> Iterator[None]:
    """Plan with some limits."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in chosen.items():
            for module in LIMITS[name][0]:
                patch.setattr(module, name, value)
        yield


class LongDraft(Draft):
    """A long program while it is drawn: arrays of few shapes, so that they meet."""

    def leaf(self, special: bool) -> None:
        number = len(self.bindings)
        shape = self.draw(st.sampled_from(_SMALL_SHAPES))
        node = leaf(number, shape, self.dtype)
        self.bindings[node] = values_of(shape, self.dtype, number, special)
        # every leaf may be differentiated
        self.nodes.append(variable(node, number) if self.draw(st.booleans()) else node)

    def any(self) -> Node:
        """Return a number of any kind."""
        late = self.draw(st.integers(0, 11))
        return self.nodes[-1 - late % len(self.nodes)]

    def real(self) -> Node:
        node = self.any()
        return node if node.dtype.kind == "f" else cast(node, self.dtype)

    def _pair(self) -> tuple[Node, Node]:
        first = self.any()
        fitting = [n for n in self.nodes if _fit(n, first)]
        return first, self.draw(st.sampled_from([*fitting[-8:], constant(0.5, first.dtype)]))

    def calm(self) -> Node:
        return REGISTRY[self.draw(st.sampled_from(_CALM))](self.real())

    def unary(self) -> Node:
        return REGISTRY[self.draw(st.sampled_from(FUNCTIONS))](self.real())

    def binary(self) -> Node:
        names = [name for name in EXACT_PAIRS if name not in ("broadcast_div", "broadcast_mod")]
        return REGISTRY[self.draw(st.sampled_from(names))](*self._pair())

    def product_and_sum(self) -> Node:
        first, second = self._pair()
        product = first * second
        return product + self.draw(st.sampled_from([n for n in self.nodes if _fit(n, product)] or [product]))

    def convert(self) -> Node:
        names = ["float32", "float64", "float16", "int32", "int64", "bool"]
        return cast(self.any(), self.draw(st.sampled_from(names)))

    def fold(self) -> Node:
        node = self.any()
        kept = self.draw(st.lists(st.booleans(), min_size=node.ndim, max_size=node.ndim))
        shape = tuple([extent if keep else 1 for extent, keep in zip(node.shape, kept, strict=True)])
        return REGISTRY["_sum_to"](node, shape=shape)

    def whole_sum(self) -> Node:
        return REGISTRY["_sum_to"](self.real(), shape=())

    def turn(self) -> Node:
        """Return a value with its axes reversed, so that two kernels read each other's memory across."""
        node = self.any()
        return permute(node, tuple(range(node.ndim))[::-1])

    def flat(self) -> Node:
        node = self.any()
        shapes = [shape for shape in _SMALL_SHAPES if math.prod(shape) == node.size]
        return reshape_to(node, self.draw(st.sampled_from([*shapes, (node.size,)])))

    def part(self) -> Node:
        """Return some rows of a value."""
        node = self.any()
        if not node.size or not node.ndim:
            return node
        first = self.draw(st.integers(0, node.shape[0] - 1))
        last = self.draw(st.integers(first + 1, node.shape[0]))
        rest = node.shape[1:]
        return slice_step(node, (first, *[0] * len(rest)), (last, *rest))

    def replace(self) -> Node:
        """Return a value with a part of it assigned to; the next one will often be a part of that."""
        node = self.any()
        if not node.size or not node.ndim:
            return node
        axis = self.draw(st.integers(0, node.ndim - 1))
        first = self.draw(st.integers(0, node.shape[axis] - 1))
        last = self.draw(st.integers(first + 1, node.shape[axis]))
        begin = [first if a == axis else 0 for a in range(node.ndim)]
        end = [last if a == axis else extent for a, extent in enumerate(node.shape)]
        shape = tuple([e - b for b, e in zip(begin, end, strict=True)])
        fitting = [n for n in self.nodes if n.dtype == node.dtype and _goes_into(n.shape, shape)]
        values = [*fitting[-6:], constant(1.5, node.dtype)]
        other = self.any()
        if other.shape == node.shape and other.dtype == node.dtype:
            at = self.draw(st.integers(0, node.shape[axis] - (last - first)))
            from_ = [at if a == axis else 0 for a in range(node.ndim)]
            to = [f + s for f, s in zip(from_, shape, strict=True)]
            values += [slice_step(other, tuple(from_), tuple(to))] * 4
        value = self.draw(st.sampled_from(values))
        if value.dtype.kind == "f" and self.draw(st.booleans()):
            value = REGISTRY["softsign"](value)
        return assign_step(node, value, tuple(begin), tuple(end))

    def replace_line(self) -> Node:
        """Return a value with a part of its line of elements assigned to, as writing through a view does."""
        node = self.any()
        fitting = [n for n in self.nodes if n.dtype == node.dtype and 0 < n.size <= node.size and n.ndim]
        if not fitting:
            return node
        value = self.draw(st.sampled_from(fitting[-6:]))
        return assign_flat(node, value, self.draw(st.integers(0, node.size - value.size)))

    def multiply(self) -> Node:
        node = self.real()
        if node.dtype == np.float16 or node.ndim < 2:
            return node
        ways = [swap_last(node)]
        ways += [
            n
            for n in self.nodes
            if n.ndim >= 2
            and n.shape[:-2] == node.shape[:-2]
            and n.shape[-2] == node.shape[-1]
            and n.dtype == node.dtype
        ][-3:]
        found = matmul(node, self.draw(st.sampled_from(ways)))
        # the sum of two products is one kernel's
        same = [n for n in self.nodes if n.shape == found.shape and n.dtype == found.dtype]
        return found + self.draw(st.sampled_from(same[-3:])) if same and self.draw(st.booleans()) else found

    def places(self) -> Node:
        """Return the number of each element along an axis, which takes no memory."""
        node = self.any()
        if not node.ndim:
            return node
        axis = self.draw(st.integers(0, node.ndim - 1))
        dtype = self.draw(st.sampled_from([np.dtype("int32"), np.dtype("int64")]))
        return position_along(node.shape, axis, dtype)

    def apart(self) -> Node:
        """Return something that NumPy computes."""
        node = self.real()
        return REGISTRY["sort"](node, axis=-1) if node.ndim and node.size else node

    def gradients(self) -> list[Node]:
        """Return the gradients of a sum of some nodes."""
        heads = [n for n in self.nodes if n.marked and n.dtype.kind == "f" and self.draw(st.integers(0, 2)) == 0]
        heads = list(dict.fromkeys(heads))
        if not heads:
            return []
        found = differentiate(tuple(heads), (None,) * len(heads)).targets.values()
        return [resolve(node) for node in found if node is not None]

    def ways(self) -> list[Callable[[], Node]]:
        """Return what a program is made of; what makes them interesting more often."""
        ways = [self.calm] * 4 + [self.binary] * 4 + [self.product_and_sum] * 3 + [self.fold] * 3
        ways += [self.replace] * 4 + [
            self.turn,
            self.turn,
            self.part,
            self.part,
            self.flat,
            self.multiply,
            self.multiply,
        ]
        ways += [self.unary, self.convert, self.whole_sum, self.replace_line, self.apart, self.random, self.filled]
        ways += [self.choice, self.limited, self.join, self.split, self.embed, self.take, self.add]
        ways += [
            self.extremum,
            self.softmax,
            self.normalize,
            self.running,
            self.windows,
            self.slice,
            self.broadcast,
            self.places,
        ]
        return ways


def _fit(node: Node, other: Node) -> bool:
    if node.dtype != other.dtype:
        return False
    pairs = list(zip(reversed(node.shape), reversed(other.shape), strict=False))
    return not any(a != b and 1 not in (a, b) for a, b in pairs)


def _goes_into(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(whole), strict=False))


def draw_program(
    draw: Callable[[Any], Any], most: int = 60, dtypes: tuple[str, ...] = ("float32", "float32", "float64")
) -> RandomProgram:
    """Draw a program of up to ``most`` operators, of which a few are chosen to be much in use, with gradients or not."""
    draft = LongDraft(draw, np.dtype(draw(st.sampled_from(dtypes))))
    for _ in range(draw(st.integers(1, 3))):
        draft.leaf(special=False)
    every = draft.ways()
    ways = draw(st.lists(st.sampled_from(every), min_size=2, max_size=8)) if draw(st.booleans()) else every
    least = draw(st.sampled_from([3, most // 3, most // 2]))
    for way in draw(st.lists(st.sampled_from(ways), min_size=least, max_size=most)):
        # what an operator does not do for some dtype or shape is left out
        with contextlib.suppress(MXNetError):
            node = way()
            if node.size <= LARGEST // 10:
                draft.nodes.append(node)
    targets = [node for node in draft.nodes if draw(st.integers(0, 5)) == 0] or draft.nodes[-1:]
    if draw(st.booleans()):
        with contextlib.suppress(MXNetError):
            targets += draft.gradients()
    return RandomProgram(draft.bindings, draft.nodes, targets)


long_programs = st.composite(draw_program)
