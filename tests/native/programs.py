"""Random programs on nodes, and ways to run them: all at once, or one node at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from phonograd.native.program import NativeProgram
from phonograd.node import Node
from phonograd.operator import REGISTRY
from phonograd.operators.primitives import matmul, permute, reshape_to, slice_step, swap_last
from phonograd.operators.structural import constant, full, leaf
from phonograd.reference import Program, resolve

Array = np.ndarray[Any, Any]

SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -3e-39, 88.8, -103.5, 1e30)
_LARGEST = 6000


def run(
    targets: Iterable[Node], bindings: dict[Node, Array], keep_all: bool = False, make: Any = NativeProgram
) -> dict[Node, Array]:
    """Return the values of the targets (and of whatever else is kept), computed in one program."""
    wanted = list(targets)
    program = make(wanted, bindings.__contains__, keep_all)
    results = program.run([bindings[node] for node in program.inputs])
    found = dict(zip([node for node, _ in program.kept], results, strict=True))
    found.update({node: bindings[node] for node in map(resolve, wanted) if node in bindings})
    return found


def run_singly(targets: Iterable[Node], bindings: dict[Node, Array]) -> dict[Node, Array]:
    """Return the values of the targets and of everything below them, each node computed in a program of its own."""
    values = dict(bindings)
    for step in Program(targets, bindings.__contains__).steps:
        node = step[-1]
        # several outputs, or none, are no array to pass on
        if node.outputs is None and node.operator.name != "_absent":
            values[node] = run([node], values)[node]
    return values


def same_bits(first: Array, second: Array) -> bool:
    """Return whether two arrays are equal to the last bit; all NaNs count as one."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind != "f":
        return bool(np.array_equal(first, second))
    bits = np.dtype(f"u{first.dtype.itemsize}")
    equal = np.ascontiguousarray(first).view(bits) == np.ascontiguousarray(second).view(bits)
    return bool(np.all(equal | (np.isnan(first) & np.isnan(second)).reshape(equal.shape)))


def assert_same_bits(first: dict[Node, Array], second: dict[Node, Array]) -> None:
    """Assert that every value of the first run is in the second one, to the last bit."""
    for node, value in first.items():
        assert same_bits(value, second[node]), f"{node}\n{value}\n{second[node]}"


@dataclasses.dataclass
class RandomProgram:
    """Leaves with values, all nodes in order of creation, and those to compute."""

    bindings: dict[Node, Array]
    nodes: list[Node]
    targets: list[Node]

    def __repr__(self) -> str:
        return "\n" + "\n".join(map(repr, self.nodes)) + f"\ntargets {[f'%{t.serial}' for t in self.targets]}"


shapes = (
    st.lists(st.sampled_from([1, 2, 3, 4, 7, 16, 17, 40, 0]), max_size=4)
    .map(tuple)
    .filter(lambda shape: math.prod(shape) <= 600)
)


def values_of(shape: tuple[int, ...], dtype: Any, seed: int, special: bool) -> Array:
    """Return numbers around zero, with ``special`` some infinities, NaN, signed zeros and denormals among them."""
    generator = np.random.default_rng(seed)
    data = np.asarray(generator.normal(size=shape)).astype(dtype)
    if special and data.size:
        places = generator.integers(0, data.size, size=max(1, data.size // 8))
        with np.errstate(all="ignore"):
            data.reshape(-1)[places] = generator.choice(SPECIAL, size=places.size)
    return data


def _broadcastable(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    pairs = list(zip(reversed(first), reversed(second)))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        return False
    return math.prod(np.broadcast_shapes(first, second)) <= _LARGEST


class _Draft:
    """A program while it is drawn."""

    def __init__(self, draw: Callable[[Any], Any], dtype: Any) -> None:
        self.draw, self.dtype = draw, dtype
        self.nodes: list[Node] = []
        self.bindings: dict[Node, Array] = {}

    def leaf(self, special: bool) -> None:
        shape = self.draw(shapes)
        node = leaf(len(self.bindings), shape, self.dtype)
        seed = 100 * len(self.bindings) + self.draw(st.integers(0, 99))
        self.bindings[node] = values_of(shape, self.dtype, seed, special)
        self.nodes.append(node)

    def any(self) -> Node:
        # recent nodes more often, so that programs become deep
        return self.nodes[-1 - min(self.draw(st.integers(0, 4)), len(self.nodes) - 1)]

    def unary(self) -> Node:
        return REGISTRY[self.draw(st.sampled_from(["exp", "tanh", "tanh", "negative", "sigmoid"]))](self.any())

    def binary(self) -> Node:
        first = self.any()
        fitting = [node for node in self.nodes if _broadcastable(first.shape, node.shape)]
        second = self.draw(st.sampled_from([*fitting[-6:], constant(0.3, self.dtype)]))
        return REGISTRY[self.draw(st.sampled_from(["broadcast_add", "broadcast_mul"]))](first, second)

    def product_and_sum(self) -> Node:
        """Return x * y + z, which a careless compiler would round once."""
        first = self.any()
        fitting = [node for node in self.nodes if _broadcastable(first.shape, node.shape)]
        product = first * self.draw(st.sampled_from(fitting[-6:]))
        return product + self.draw(st.sampled_from([n for n in self.nodes if _broadcastable(product.shape, n.shape)]))

    def fold(self) -> Node:
        node = self.any()
        kept = self.draw(st.lists(st.booleans(), min_size=node.ndim, max_size=node.ndim))
        shape = [extent if keep else 1 for extent, keep in zip(node.shape, kept)]
        while shape and shape[0] == 1 and self.draw(st.booleans()):
            shape.pop(0)
        return REGISTRY["_sum_to"](node, shape=tuple(shape))

    def reshape(self) -> Node:
        node = self.any()
        left, shape = node.size, []
        for factor in self.draw(st.permutations([1, 2, 2, 3, 4])):
            if left and left % factor == 0:
                shape.append(factor)
                left //= factor
        return reshape_to(node, (*shape, left))

    def permute(self) -> Node:
        node = self.any()
        return permute(node, tuple(self.draw(st.permutations(range(node.ndim)))))

    def slice(self) -> Node:
        node = self.any()
        begin, end, step = [], [], []
        for extent in node.shape:
            first = self.draw(st.integers(0, max(extent - 1, 0)))
            stride = self.draw(st.sampled_from([1, 1, 2, -1, -2])) if extent else 1
            begin.append(first)
            end.append(self.draw(st.integers(first, extent) if stride > 0 else st.integers(-1, first)))
            step.append(stride)
        return slice_step(node, tuple(begin), tuple(end), tuple(step))

    def broadcast(self) -> Node:
        node = self.any()
        shape = tuple([self.draw(st.sampled_from([1, 3, 17])) if extent == 1 else extent for extent in node.shape])
        shape = (*self.draw(st.sampled_from([(), (2,), (1,)])), *shape)
        return REGISTRY["_broadcast"](node, shape=shape) if math.prod(shape) <= _LARGEST else node

    def product(self) -> Node:
        node = self.any()
        if node.ndim < 2 or node.size * node.shape[-2] > _LARGEST:
            return node
        return matmul(node, swap_last(node)) if self.draw(st.booleans()) else matmul(swap_last(node), node)

    def random(self) -> Node:
        counter = leaf(1000, (4,), np.dtype("uint32"))
        self.bindings[counter] = np.array([1, 2, self.draw(st.integers(0, 3)), 4], np.uint32)
        return REGISTRY["_uniform01"](counter, shape=self.any().shape, dtype=self.dtype)

    def filled(self) -> Node:
        return full(self.any().shape, self.draw(st.sampled_from([0.0, -0.0, 1.5])), self.dtype)


@st.composite
def programs(draw: Callable[[Any], Any], special: bool = True, only_exact: bool = False) -> RandomProgram:
    """Draw a program of up to twenty operators; ``only_exact`` ones have no order of summation and no polynomials."""
    draft = _Draft(draw, np.dtype(draw(st.sampled_from(["float32", "float32", "float64"]))))
    for _ in range(draw(st.integers(1, 3))):
        draft.leaf(special)
    ways = [draft.binary] * 3 + [draft.product_and_sum] * 3
    ways += [draft.reshape, draft.permute, draft.slice, draft.broadcast, draft.random, draft.filled]
    if not only_exact:
        ways += [draft.unary, draft.unary, draft.fold, draft.product]
    for way in draw(st.lists(st.sampled_from(ways), min_size=3, max_size=20)):
        node = way()
        if node.size <= _LARGEST:
            draft.nodes.append(node)
    targets = [node for node in draft.nodes if draw(st.integers(0, 3)) == 0] or draft.nodes[-1:]
    return RandomProgram(draft.bindings, draft.nodes, targets)
