"""The first backward pass of a record computes at once: the same bits as a plan, and arrays that share no memory."""

from __future__ import annotations

import importlib.util
import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.backward import eager, eager_rules, repetition
from phonograd.core.graph import generic
from phonograd.core.graph.learned import forget_kinds
from phonograd.core.graph.node import statistics
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.graph.templates import Templates
from phonograd.core.plan import cache
from phonograd.core.plan.sized_records import RECORDS
from phonograd.core.trace.novelty import MANY_NEW, NOVELTY

pytestmark = pytest.mark.skipif(
    mx.settings.current().executor == "reference" or importlib.util.find_spec("llvmlite") is None,
    reason="NumPy computes everything",
)

Program = Callable[[nd.NDArray, nd.NDArray], nd.NDArray]
#: another extent for each program, so that its record is new
_extents = itertools.count(5)


def split_and_joined(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    one, two, _ = nd.split(nd.dot(x, w), num_outputs=3, axis=1)
    return nd.concat(one * two, two, dim=0)


def one_weight_in_many_products(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    total = x
    for _ in range(6):
        total = nd.tanh(nd.dot(total, w))
    return total


def many_pieces(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    total = nd.zeros((x.shape[1],))
    for row in range(x.shape[0]):
        total = total + x[row] * x[row - 1]
    return nd.dot(total, w)


def few_pieces(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return x[0] * x[1] + w[0] * x[1] + w[1]


def with_its_own_gradient(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return nd.make_loss(nd.dot(x, w) ** 2) + nd.BlockGrad(x.sum()) * w.sum()


def same_operand(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return x * x + nd.dot(x, x, transpose_b=True).sum() + nd.dot(w, w).sum()


def passed_on(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return x + w.reshape((-1,))[0] + nd.identity(x)


def normalized(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    ones, zeros = nd.ones((x.shape[1],)), nd.zeros((x.shape[1],))
    return nd.log_softmax(nd.LayerNorm(x, ones, zeros)) * nd.softmax(nd.dot(x, w), axis=0)


def convolved(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    image = nd.dot(x, w).expand_dims(0).expand_dims(0)
    kernel = w.slice_axis(axis=0, begin=0, end=3).slice_axis(axis=1, begin=0, end=3).reshape((1, 1, 3, 3))
    return nd.Pooling(nd.Convolution(image, kernel, no_bias=True, kernel=(3, 3), num_filter=1), kernel=(2, 2))


def with_an_input_left_out(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
    return nd.SequenceReverse(nd.dot(x, w).expand_dims(2)) * nd.SequenceLast(x)


PROGRAMS: list[Program] = [
    with_an_input_left_out,
    split_and_joined,
    one_weight_in_many_products,
    many_pieces,
    few_pieces,
    with_its_own_gradient,
    same_operand,
    passed_on,
    normalized,
    convolved,
]


def gradients(program: Program, extent: int, rows: int = 12) -> list[np.ndarray[Any, Any]]:
    """Return the value of a program and its gradients."""
    draw = np.random.RandomState(extent)
    x = nd.array(draw.randn(rows, 3 * extent).astype("float32"))
    w = nd.array(draw.randn(3 * extent, 3 * extent).astype("float32") / 8)
    for array in (x, w):
        array.attach_grad()
    with autograd.record():
        y = program(x, w)
    y.backward()
    return [y.asnumpy(), x.grad.asnumpy(), w.grad.asnumpy()]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results of backward passes that tried to compute at once."""
    found: list[Any] = []
    whole = eager._run
    # far from the limit of nodes, at which records are forgotten
    cache.forget_nodes()
    NOVELTY.forget()

    def run(*arguments: Any) -> Any:
        found.append(whole(*arguments))
        return found[-1]

    monkeypatch.setattr(eager, "_run", run)
    # other processes may have left plans for any extents on disk
    monkeypatch.setattr(RECORDS, "outline", lambda visited, wanted: None)
    return found


@pytest.fixture(params=[False, True], ids=["small", "large"])
def is_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop values as soon as nothing reads them any more, as large records do, or keep them all."""
    if request.param:
        monkeypatch.setattr(eager, "MANY_NUMBERS", 0)


@pytest.mark.usefixtures("is_large")
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bits_are_those_of_a_plan(program: Program, passes: list[Any]) -> None:
    extent = next(_extents)
    found = gradients(program, extent)
    assert len(passes) == 1
    for number in range(2, 100):
        again = gradients(program, extent)
        if len(passes) < number:
            break
    else:
        pytest.fail("a record that comes back is differentiated as a graph")
    with mx.settings.override(tiers="plan"):
        planned = gradients(program, extent)
    for one, two, three in zip(found, again, planned, strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()


def test_few_returns_of_a_record_are_computed_at_once_if_most_records_are_new(
    passes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    extents = [next(_extents) for _ in range(MANY_NEW + 1)]
    for extent in extents:
        gradients(normalized, extent)
    assert NOVELTY.is_high
    begun: list[Any] = []
    derivation = repetition.Derivation
    monkeypatch.setattr(repetition, "Derivation", lambda *given: (begun.append(given), derivation(*given))[1])
    expected = gradients(normalized, extents[0])
    for _ in range(repetition.MOST_RUNS - 2):
        found = gradients(normalized, extents[0])
        for one, two in zip(found, expected, strict=True):
            assert one.tobytes() == two.tobytes()
    assert len(passes) == MANY_NEW + 1 + repetition.MOST_RUNS - 1
    assert not begun
    gradients(normalized, extents[0])
    assert begun


@pytest.mark.usefixtures("is_large")
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bits_are_those_of_a_plan_for_other_extents(program: Program, passes: list[Any]) -> None:
    extents = [next(_extents) for _ in range(4)]
    found = [gradients(program, extent, rows) for rows, extent in enumerate(extents, 9)]
    assert len(passes) == 4
    with mx.settings.override(tiers="plan"):
        planned = [gradients(program, extent, rows) for rows, extent in enumerate(extents, 9)]
    for one, two in zip(itertools.chain(*found), itertools.chain(*planned), strict=True):
        assert one.tobytes() == two.tobytes()


@pytest.mark.usefixtures("python_functions")
def test_a_rule_that_is_learned_holds_for_any_extents_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def softsign_of_softsign(x: nd.NDArray, w: nd.NDArray) -> nd.NDArray:
        return nd.softsign(nd.softsign(x)) + nd.dot(w, w).sum()

    made: list[str] = []
    whole = eager_rules._make_rule

    def make(node: Any, out_grads: Any) -> Any:
        made.append(node.operator.name)
        return whole(node, out_grads)

    monkeypatch.setattr(eager_rules, "_make_rule", make)
    # no plan for any extents, which may be on disk
    monkeypatch.setattr(RECORDS, "outline", lambda visited, wanted: None)
    forget_kinds()
    counts = []
    for rows in range(9, 14):
        gradients(softsign_of_softsign, next(_extents), rows)
        counts.append(len(made))
    # tests learn from the second combination of extents
    assert generic.LEAST_EXTENTS == 2
    assert 0 < counts[0] < counts[1] == counts[2] == counts[4]


def test_values_that_no_rule_reads_are_dropped() -> None:
    x = nd.ones((400, 500 + next(_extents)))
    x.attach_grad()
    x.wait_to_read()
    with autograd.record():
        y = x
        for number in range(30):
            y = nd.sin(y + number) if number % 10 == 0 else y + number
        y = y.sum()
    tracemalloc.start()
    y.backward()
    x.grad.wait_to_read()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # three values are read by the rules of sines; some more are alive at a time
    assert peak < 12 * 4 * x.size
    assert np.isfinite(x.grad.asnumpy()).all()


def test_gradients_have_memory_of_their_own() -> None:
    extent = next(_extents)
    x, y = nd.ones((extent,)), nd.ones((extent,))
    for array in (x, y):
        array.attach_grad()
    with autograd.record():
        z = x + y
    z.backward()
    x.grad[:] = 5
    assert y.grad.asnumpy().tolist() == [1] * extent
    assert z.asnumpy().tolist() == [2] * extent
    x[:] = 7
    assert z.asnumpy().tolist() == [2] * extent


def test_gradients_stay_on_their_context() -> None:
    x = nd.ones((3, next(_extents)), ctx=mx.cpu(1))
    with autograd.record():
        # the buffer of the gradient is still pending in the backward pass
        x.attach_grad()
        y = nd.sin(x) * 2
    y.backward()
    assert x.grad.context == mx.cpu(1)


def test_no_gradient_nodes_are_made() -> None:
    extent = next(_extents)
    gradients(one_weight_in_many_products, extent)
    x, w = nd.ones((12, 3 * extent)), nd.ones((3 * extent, 3 * extent))
    for array in (x, w):
        array.attach_grad()
    with autograd.record():
        y = nd.sin(nd.dot(x, w))
    before = statistics.gradient_rules
    y.backward()
    assert statistics.gradient_rules == before
    assert np.isfinite(w.grad.asnumpy()).all()


def test_a_second_head_of_the_same_record_needs_the_graph() -> None:
    extent = next(_extents)
    x = nd.full((extent,), 3.0)
    x.attach_grad()
    with autograd.record():
        y = x * x
        z = y * x
    z.backward(retain_graph=True)
    assert x.grad.asnumpy().tolist() == [27] * extent
    y.backward()
    assert x.grad.asnumpy().tolist() == [6] * extent


def test_a_head_that_shares_only_variables_keeps_its_record() -> None:
    extent = next(_extents)
    x = nd.full((extent,), 3.0)
    x.attach_grad()
    with autograd.record():
        y = nd.exp(nd.sin(x)) * 2
        z = nd.cos(x)
    z.backward()
    y.backward()
    expected = 2 * np.exp(np.sin(3.0)) * np.cos(3.0)
    np.testing.assert_allclose(x.grad.asnumpy(), [expected] * extent, rtol=1e-5)


def test_an_error_in_the_record_is_raised_where_its_value_is_needed() -> None:
    extent = next(_extents)
    x = nd.ones((extent,))
    x.attach_grad()
    with autograd.record():
        y = nd.take(x, nd.array([extent + 1.0]), mode="raise")
        z = x * 2
    z.backward()
    assert x.grad.asnumpy().tolist() == [2] * extent
    with pytest.raises(mx.MXNetError, match="take"):
        y.asnumpy()


@pytest.mark.usefixtures("python_functions")
def test_rules_that_look_at_expressions_run_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    extent = next(_extents)
    expected = gradients(normalized, extent)
    cache.forget_nodes()
    monkeypatch.setattr(Templates, "find", lambda *arguments, **options: None)
    monkeypatch.setattr(Templates, "generic", lambda *arguments: None)
    runs: list[Any] = []
    run_rule = eager_rules._run_rule
    monkeypatch.setattr(eager_rules, "_run_rule", lambda *arguments: (runs.append(1), run_rule(*arguments))[1])
    found = gradients(normalized, extent)
    assert runs
    for one, two in zip(found, expected, strict=True):
        assert one.tobytes() == two.tobytes()
    cache.forget_nodes()


@pytest.mark.usefixtures("python_functions")
def test_parts_at_new_positions_need_neither_templates_nor_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    extent = 40 + next(_extents)
    x = nd.array(np.arange(float(extent * 3)).reshape(extent, 3))
    x.attach_grad()
    view = REGISTRY["_view_flat"]
    made: list[Any] = []
    function_of_kind = eager_rules.function_of_kind
    monkeypatch.setattr(
        eager_rules, "function_of_kind", lambda *given: (made.append(given[0]), function_of_kind(*given))[1]
    )
    for begin in range(0, extent - 6, 6):
        with autograd.record():
            loss = nd.concat(x[begin : begin + 2], x[begin + 3 : begin + 4], dim=0).sum()
        loss.backward()
        expected = np.zeros(extent)
        expected[[begin, begin + 1, begin + 3]] = 1
        assert x.grad.asnumpy().tolist() == [[each] * 3 for each in expected]
    assert not [kind for kind in view.body_templates._kinds if kind[0][1][0] in (2, 1) and kind[1].shape[0] == extent]
    assert REGISTRY["_embed"] not in made
    # a part alone is not added to another one
    with autograd.record():
        loss = (x[7:9] * 3).sum()
    loss.backward()
    assert x.grad.asnumpy()[:, 0].tolist() == [3.0 if row in (7, 8) else 0.0 for row in range(extent)]
