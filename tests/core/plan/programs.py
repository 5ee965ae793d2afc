"""Random programs on nodes, and ways to run them: all at once, or one node at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.lower.lowering import Elementwise
from phonograd.core.ops.math.primitives import (
    cast,
    embed,
    gather,
    matmul,
    permute,
    reshape_to,
    scatter_add,
    select,
    slice_step,
    swap_last,
)
from phonograd.core.ops.math.structural import constant, full, leaf
from phonograd.core.ops.reduce.reduction import mean_axes
from phonograd.core.ops.shape.shape import concatenate, split_at
from phonograd.core.ops.vision.points import add_along, add_axis, put_axis, take_along, take_axis
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run.reference import ReferenceProgram, resolve

Array = np.ndarray[Any, Any]

SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -3e-39, 88.8, -103.5, 1e30)
LARGEST = 6000

_LOWERED = sorted(
    {
        o.name
        for o in REGISTRY.values()
        if isinstance(o.lowering, Elementwise) and not o.parameters and np.dtype("float32") in o.lowering.dtypes
    }
)
#: elementwise operators that kernels compute, of one array and of two
FUNCTIONS = [name for name in _LOWERED if len(REGISTRY[name].input_names) == 1]
PAIRS = [name for name in _LOWERED if len(REGISTRY[name].input_names) == 2]
COMPARISONS = [f"broadcast_{word}" for word in ("equal", "not_equal", "greater", "greater_equal", "lesser")]
#: those whose every bit is NumPy's
EXACT_FUNCTIONS = ["negative", "abs", "sign", "ceil", "floor", "trunc", "round", "rint", "square", "sqrt", "reciprocal"]
EXACT_FUNCTIONS += ["relu", "softsign", "identity", "logical_not"]
EXACT_PAIRS = ["broadcast_add", "broadcast_mul"] * 3 + ["broadcast_sub", "broadcast_div", "broadcast_mod", *COMPARISONS]
EXACT_PAIRS += [f"broadcast_{word}" for word in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor")]


def run(
    targets: Iterable[Node], bindings: dict[Node, Array], keep_all: Any = False, make: Any = NativeProgram
) -> dict[Node, Array]:
    """Return the values of the targets (and of whatever else is kept), computed in one program.

    ``keep_all`` is the argument of the program that tells which other values to keep.
    """
    wanted = list(targets)
    program = make(wanted, bindings.__contains__, *([keep_all] if keep_all else []))
    results = program.run([bindings[node] for node in program.inputs])
    found = dict(zip([node for node, _ in program.kept], results, strict=True))
    found.update({node: bindings[node] for node in map(resolve, wanted) if node in bindings})
    return found


def run_singly(targets: Iterable[Node], bindings: dict[Node, Array]) -> dict[Node, Array]:
    """Return the values of the targets and of everything below them, each node computed in a program of its own."""
    values = dict(bindings)
    for step in ReferenceProgram(targets, bindings.__contains__).steps:
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
    return math.prod(np.broadcast_shapes(first, second)) <= LARGEST


class Draft:
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

    def real(self) -> Node:
        """Return a value of floating point."""
        return self.any()

    def unary(self) -> Node:
        return REGISTRY[self.draw(st.sampled_from(FUNCTIONS))](self.any())

    def exact_unary(self) -> Node:
        return REGISTRY[self.draw(st.sampled_from(EXACT_FUNCTIONS))](self.any())

    def _pair(self) -> tuple[Node, Node]:
        first = self.any()
        fitting = [node for node in self.nodes if _broadcastable(first.shape, node.shape)]
        return first, self.draw(st.sampled_from([*fitting[-6:], constant(0.3, self.dtype)]))

    def binary(self) -> Node:
        return REGISTRY[self.draw(st.sampled_from(EXACT_PAIRS))](*self._pair())

    def inexact_binary(self) -> Node:
        return REGISTRY[self.draw(st.sampled_from(PAIRS))](*self._pair())

    def choice(self) -> Node:
        first, second = self._pair()
        condition = REGISTRY[self.draw(st.sampled_from(COMPARISONS))](first, second)
        return select(condition, first, second)

    def limited(self) -> Node:
        return REGISTRY["clip"](self.any(), a_min=self.draw(st.sampled_from([-0.5, -0.1])), a_max=0.7)

    def whole_power(self) -> Node:
        return REGISTRY["_integer_power"](self.any(), exponent=self.draw(st.sampled_from([-3, -2, 0, 2, 3, 5])))

    def there_and_back(self) -> Node:
        """Return a value that was converted to another dtype on its way."""
        through = self.draw(st.sampled_from(["int32", "int64", "uint8", "bool", "float16", "float32"]))
        return cast(cast(self.any(), through), self.dtype)

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
        return REGISTRY["_broadcast"](node, shape=shape) if math.prod(shape) <= LARGEST else node

    def product(self) -> Node:
        node = self.any()
        if node.ndim < 2 or node.size * node.shape[-2] > LARGEST:
            return node
        return matmul(node, swap_last(node)) if self.draw(st.booleans()) else matmul(swap_last(node), node)

    def random(self) -> Node:
        counter = leaf(1000, (4,), np.dtype("uint32"))
        self.bindings[counter] = np.array([1, 2, self.draw(st.integers(0, 3)), 4], np.uint32)
        return REGISTRY["_uniform01"](counter, shape=self.any().shape, dtype=self.dtype)

    def filled(self) -> Node:
        return full(self.any().shape, self.draw(st.sampled_from([0.0, -0.0, 1.5])), self.dtype)

    # -- along an axis

    def axis_of(self, node: Node) -> int | None:
        """Return an axis that is not empty, if there is one."""
        axes = [axis for axis, extent in enumerate(node.shape) if extent]
        return self.draw(st.sampled_from(axes)) if axes else None

    def extremum(self) -> Node:
        node = self.any()
        axes = [axis for axis, extent in enumerate(node.shape) if extent and self.draw(st.booleans())]
        name = self.draw(st.sampled_from(["_largest", "_smallest", "_product"]))
        return REGISTRY[name](node, axes=tuple(axes)) if axes else node

    def running(self) -> Node:
        node = self.any()
        axis = self.axis_of(node)
        if axis is None:
            return node
        return REGISTRY["_running_sum"](node, axis=axis, reverse=self.draw(st.booleans()))

    def softmax(self) -> Node:
        node = self.real()
        axis = self.axis_of(node)
        if axis is None:
            return node
        names = ["_softmax", "_log_softmax", "_log_sum_exp", "argmax", "argmin"]
        return REGISTRY[self.draw(st.sampled_from(names))](node, axis=axis)

    def normalize(self) -> Node:
        """Return what LayerNorm computes: two folds, and their results used in the same rows."""
        node = self.real()
        axis = self.axis_of(node)
        if axis is None:
            return node
        mean = mean_axes(node, (axis,), True)
        return (node - mean) * REGISTRY["rsqrt"](REGISTRY["_variance"](node, mean) + 1e-3)

    def join(self) -> Node:
        node = self.any()
        axis = self.axis_of(node)
        if axis is None:
            return node
        parts = [part for part in self.nodes[-12:] if (part.shape, part.dtype) == (node.shape, node.dtype)]
        count = self.draw(st.integers(2, 3))
        return concatenate([self.draw(st.sampled_from(parts)) for _ in range(count)], axis)

    def split(self) -> Node:
        node = self.any()
        axis = self.axis_of(node)
        if axis is None:
            return node
        places = self.draw(st.lists(st.integers(0, node.shape[axis]), min_size=1, max_size=2).map(sorted))
        return self.draw(st.sampled_from(split_at(node, tuple(places), axis)))

    def _region(self, node: Node) -> tuple[list[int], list[int], list[int], list[int]]:
        """Return a shape, and begin, end and step of a region in it that has the shape of a node."""
        shape, begin, end, step = [], [], [], []
        for extent in node.shape:
            stride = self.draw(st.sampled_from([1, 1, 1, 2, -1, -3]))
            length = (extent - 1) * abs(stride) + 1 if extent else 0
            before, after = self.draw(st.integers(0, 3)), self.draw(st.integers(0, 3))
            first = before if stride > 0 or not extent else before + length - 1
            shape.append(before + length + after)
            begin.append(first)
            end.append(first + extent * stride if not extent or stride > 0 else before - 1)
            step.append(stride)
        return shape, begin, end, step

    def embed(self) -> Node:
        node = self.any()
        shape, begin, end, step = self._region(node)
        return embed(node, tuple(shape), tuple(begin), tuple(end), tuple(step)) if math.prod(shape) <= LARGEST else node

    def assign(self) -> Node:
        node = self.any()
        shape, begin, end, step = self._region(node)
        if math.prod(shape) > LARGEST or 0 in node.shape:
            return node
        base = full(tuple(shape), 2.5, self.dtype)
        value = self.draw(st.sampled_from([node, constant(-0.0, self.dtype)]))
        return REGISTRY["_assign_step"](base, value, begin=tuple(begin), end=tuple(end), step=tuple(step))

    # -- by index

    def index(self, shape: tuple[int, ...], extent: int) -> Node:
        """Return a leaf with positions of an axis."""
        number = 2000 + len(self.bindings)
        node = leaf(number, shape, np.dtype("int64"))
        self.bindings[node] = np.random.default_rng(number).integers(0, extent, shape)
        return node

    def take(self) -> Node:
        node = self.any()
        axis = self.axis_of(node)
        if axis is None:
            return node
        way = self.draw(st.sampled_from(["axis", "along", "flat"]))
        if way == "axis":
            shape = self.draw(st.sampled_from([(), (1,), (5,), (2, 3), (20,)]))
            return take_axis(node, self.index(shape, node.shape[axis]), axis)
        if way == "flat":
            return gather(node, self.index((3, 7), node.size)) if node.size else node
        shape = (*node.shape[:axis], self.draw(st.sampled_from([1, 3, 18])), *node.shape[axis + 1 :])
        return take_along(node, self.index(shape, node.shape[axis]), axis)

    def add(self) -> Node:
        node = self.any()
        axis, extent = self.axis_of(node), self.draw(st.sampled_from([1, 4, 40]))
        if axis is None:
            return node
        way = self.draw(st.sampled_from(["axis", "along", "flat", "put"]))
        if way == "axis":
            return add_axis(node, self.index((node.shape[axis],), extent), axis, extent)
        if way == "along":
            return add_along(node, self.index(node.shape, extent), axis, extent)
        if way == "flat":
            return scatter_add(node, self.index(node.shape, extent), (extent,))
        return put_axis(node, self.any_number(node.dtype), self.index((3,), node.shape[axis]), axis)

    def windows(self) -> Node:
        """Pooling of an array with spatial axes, or its convolution with a part of itself."""
        node = self.any()
        if not 1 <= node.ndim - 2 <= 3 or node.size == 0 or node.dtype.kind != "f":
            return node
        kernel = tuple([min(2, size) for size in node.shape[2:]])
        way = self.draw(st.sampled_from(["max", "sum", "convolution"]))
        if way == "convolution":
            end = (min(3, node.shape[0]), node.shape[1], *kernel)
            weight = slice_step(node, (0,) * node.ndim, end)
            return resolve(REGISTRY["Convolution"](node, weight, kernel=kernel, num_filter=end[0], no_bias=True))
        stride = (self.draw(st.integers(1, 2)),) * len(kernel)
        return resolve(REGISTRY["Pooling"](node, kernel=kernel, stride=stride, pool_type=way))

    def any_number(self, dtype: Any) -> Node:
        return constant(self.draw(st.sampled_from([0.25, -7.0])), dtype)


@st.composite
def programs(
    draw: Callable[[Any], Any],
    special: bool = True,
    only_exact: bool = False,
    dtypes: tuple[str, ...] = ("float32", "float32", "float64"),
) -> RandomProgram:
    """Draw a program of up to twenty operators; ``only_exact`` ones have no order of summation and no polynomials."""
    draft = Draft(draw, np.dtype(draw(st.sampled_from(dtypes))))
    for _ in range(draw(st.integers(1, 3))):
        draft.leaf(special)
    ways = [draft.binary] * 3 + [draft.product_and_sum] * 3
    ways += [draft.reshape, draft.permute, draft.slice, draft.broadcast, draft.random, draft.filled]
    ways += [draft.exact_unary, draft.exact_unary, draft.choice, draft.choice, draft.limited, draft.there_and_back]
    ways += [draft.join, draft.split, draft.embed, draft.assign, draft.take]
    if not only_exact:
        ways += [draft.unary] * 4 + [draft.inexact_binary, draft.whole_power, draft.fold, draft.fold, draft.product]
        ways += [draft.extremum, draft.softmax, draft.normalize, draft.add, draft.running, draft.windows]
    for way in draw(st.lists(st.sampled_from(ways), min_size=3, max_size=20)):
        node = way()
        if node.size <= LARGEST:
            draft.nodes.append(node)
    targets = [node for node in draft.nodes if draw(st.integers(0, 3)) == 0] or draft.nodes[-1:]
    return RandomProgram(draft.bindings, draft.nodes, targets)
