"""Attention by blocks of rows: the bits of the operators one by one, memory linear in the length."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from phonograd import explain, nd, settings
from phonograd.core.base import processor
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.row_blocks import RowBlocks
from phonograd.core.ops.math.primitives import matmul, swap_last
from phonograd.core.ops.math.structural import LEAF, leaf, variable
from phonograd.core.ops.nn.softmax import softmax_along
from phonograd.core.ops.shape.creation import position_along
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run.host import host
from phonograd.core.run.reference import order, resolve

from .programs import Array, assert_same_bits, run, run_singly

pytestmark = pytest.mark.skipif(host().matrix_unit, reason="products by parts are not divided")

Bindings = dict[Node, Array]


def attention(
    shape: tuple[int, ...],
    keys: int,
    dtype: str = "float32",
    mask: Callable[[Node], Node] = lambda scores: scores,
    turned: bool = False,
) -> tuple[list[Node], Bindings]:
    """Return the result of attention and its gradients, and arrays for the leaves.

    ``shape`` is that of the queries, ``keys`` the number of keys. ``turned`` keys are stored as columns.
    """
    random = np.random.default_rng(0)
    *batch, _, size = shape
    shapes = [shape, (*batch, size, keys) if turned else (*batch, keys, size), (*batch, keys, size)]
    leaves = [leaf(number, of, np.dtype(dtype)) for number, of in enumerate(shapes)]
    bindings = {node: random.standard_normal(node.shape).astype(node.dtype) for node in leaves}
    q, k, v = [variable(node, number) for number, node in enumerate(leaves)]
    scores = mask(matmul(q, k if turned else swap_last(k)) * 0.25)
    out = matmul(softmax_along(scores, scores.ndim - 1), v)
    for node in order([out], lambda node: False)[0]:
        if node.operator is LEAF and node not in bindings:
            bindings[node] = random.standard_normal(node.shape).astype(node.dtype)
    gradients = differentiate((out * out,), (None,)).targets.values()
    return [resolve(node) for node in (out, *gradients) if node is not None], bindings


def causal(scores: Node) -> Node:
    """Return scores with a large negative number in the place of those of later positions."""
    rows, columns = [position_along(scores.shape, scores.ndim + axis) for axis in (-2, -1)]
    return REGISTRY["where"](REGISTRY["broadcast_lesser_equal"](columns, rows), scores, scores * 0 - 1e9)


def masked(scores: Node) -> Node:
    """Return scores with numbers added: for each key of a batch, and for each pair of positions."""
    keys = leaf(3, (scores.shape[0], *[1] * (scores.ndim - 2), scores.shape[-1]), scores.dtype)
    pairs = leaf(4, scores.shape[-2:], scores.dtype)
    add = REGISTRY["broadcast_add"]
    return add(add(scores, keys), pairs)


def regions_of(made: NativeProgram) -> int:
    """Return how many parts of a plan run on blocks of rows."""
    return len([part for part in made.parts if any([isinstance(kernel, RowBlocks) for kernel in part.kernels])])


def largest(made: NativeProgram, results: list[Node]) -> int:
    """Return the number of elements of the largest value that is in memory as a whole, without results."""
    return max([node.size for part in made.parts for node in part.written if node not in results], default=0)


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide small products, too."""
    monkeypatch.setattr(processor, "choices", lambda: processor.Choices(near_bytes=1))


CASES: dict[str, Callable[[], tuple[list[Node], Bindings]]] = {
    "several blocks, and a short one": lambda: attention((2, 400, 8), 33),
    "one block": lambda: attention((3, 40, 8), 50),
    "keys as columns": lambda: attention((2, 70, 8), 40, turned=True),
    "two axes of a batch": lambda: attention((2, 3, 40, 8), 50),
    "masked": lambda: attention((2, 3, 400, 8), 50, mask=masked),
    "causal": lambda: attention((2, 3, 400, 8), 400, mask=causal),
    "float64": lambda: attention((2, 40, 8), 40, dtype="float64"),
    "float16": lambda: attention((2, 40, 8), 40, dtype="float16"),
}


def check(targets: list[Node], bindings: Bindings, threads: int) -> None:
    """Assert that a plan has two regions and no scores in memory, and computes the bits of single operators."""
    with settings.override(num_threads=threads):
        made = NativeProgram(targets, bindings.__contains__)
        assert regions_of(made) == 2, "the result, and the gradients"
        assert largest(made, targets) <= max(node.size for node in bindings), "no scores in memory"
        found = run(targets, bindings)
    assert_same_bits(found, run_singly(targets, bindings))


def test_attention_has_the_bits_of_its_operators() -> None:
    check(*CASES["several blocks, and a short one"](), threads=8)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_all_forms_have_the_bits_of_their_operators(case: str, threads: int) -> None:
    check(*CASES[case](), threads=threads)


@pytest.mark.slow
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
    st.integers(18, 800),
    st.integers(18, 300),
    st.sampled_from([1, 3, 8]),
    st.sampled_from([lambda scores: scores, masked, causal]),
    st.booleans(),
    st.sampled_from([1, 2, 8]),
)
def test_random_attention_has_the_bits_of_its_operators(
    batch: list[int], rows: int, keys: int, size: int, mask: Any, turned: bool, threads: int
) -> None:
    targets, bindings = attention((*batch, rows, size), keys, mask=mask, turned=turned)
    with settings.override(num_threads=threads):
        found = run(targets, bindings)
    assert_same_bits(found, run_singly(targets, bindings))


def test_memory_is_linear_in_the_length() -> None:
    arena = []
    for length in (2048, 4096, 8192):
        targets, bindings = attention((2, length, 8), length)
        # each thread has a block of rows
        with settings.override(num_threads=2):
            made = NativeProgram(targets, bindings.__contains__)
        assert made.memory is not None
        arena.append(made.memory.arena)
    assert arena[1] < 2.3 * arena[0]
    assert arena[2] < 2.3 * arena[1]
    assert arena[2] < 8192 * 8192 * 4 / 2, "half of the scores of one matrix"


def test_values_that_are_kept_are_in_memory() -> None:
    targets, bindings = attention((2, 40, 8), 50)
    weights = next(node for node in order(targets[:1], bindings.__contains__)[1] if node.operator.name == "_softmax")
    made = NativeProgram([*targets, weights], bindings.__contains__)
    assert regions_of(made) == 1, "the gradient of the scores alone"
    assert_same_bits(run([*targets, weights], bindings), run_singly([*targets, weights], bindings))


def test_values_between_two_evaluations_are_computed_again() -> None:
    targets, bindings = attention((2, 40, 8), 50)
    made = NativeProgram(targets[:1], bindings.__contains__, keep_all=True)
    assert {node.operator.name for node, _ in made.kept}.isdisjoint({"_softmax"})


def test_layers_are_not_divided() -> None:
    shapes = (4, 64, 8), (1, 8, 256), (1, 256, 8)
    data, first, second = [leaf(number, shape, np.dtype("float32")) for number, shape in enumerate(shapes)]
    repeat = REGISTRY["broadcast_to"]
    hidden = REGISTRY["relu"](matmul(data, repeat(first, shape=(4, 8, 256))))
    out = matmul(hidden, repeat(second, shape=(4, 256, 8)))
    assert regions_of(NativeProgram([out], {data, first, second}.__contains__)) == 0


def test_the_setting_turns_it_off() -> None:
    targets, bindings = attention((2, 40, 8), 50)
    with settings.override(attention_blocks=False):
        assert regions_of(NativeProgram(targets, bindings.__contains__)) == 0


def test_explain_names_attention() -> None:
    q, k, v = (nd.array(np.ones((2, 40, 8))) for _ in range(3))
    with settings.override(executor="native"):
        report = explain.plan(nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True)), v))
    assert [kernel.name for kernel in report.kernels] == ["attention"]
    assert "attention" in str(report)


def test_layers_around_attention_are_one_kernel_each() -> None:
    data, weight, bias, other = (nd.array(np.ones(shape)) for shape in ((2, 6, 8), (8, 8), (8,), (2, 6, 8)))
    with settings.override(executor="native"):
        dense = nd.FullyConnected(data, weight, bias, num_hidden=8, flatten=False)
        gelu = explain.plan(nd.LeakyReLU(dense, act_type="gelu"))
        normalized = explain.plan(nd.LayerNorm(other + dense, bias, bias))
    for report, operators in ((gelu, {"broadcast_add", "erf"}), (normalized, {"broadcast_add", "_sum_to", "rsqrt"})):
        product, rest = report.kernels
        assert product.operators == ("_matmul",)
        assert operators <= set(rest.operators), "bias, and all that follows"
