"""Updates of weights beyond their values: no new plans for new rates, forms for several weights, rows, symbols."""

import inspect

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import statistics
from phonograd.core.graph.operator import REGISTRY


def arrays(count, shape=(3, 4)):
    generator = np.random.RandomState(count)
    return [nd.array(generator.uniform(0.5, 1.5, size=shape)) for _ in range(count)]


@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize(
    ("name", "states", "steps"),
    [
        ("sgd_update", 0, {}),
        ("sgd_mom_update", 1, {}),
        ("adam_update", 2, {}),
        ("ftml_update", 3, {"t": int}),
        ("lamb_update_phase1", 2, {"t": int, "wd": float}),
    ],
)
def test_numbers_that_change_need_no_new_plans(name, states, steps):
    inputs = arrays(2 + states)
    rates = {} if name.startswith("lamb") else {"lr": 0.1}

    def step(number):
        counted = {key: kind(number) for key, kind in steps.items()}
        given = {key: rate / number for key, rate in rates.items()}
        out = getattr(nd, name)(*inputs, rescale_grad=1 / number, **given, **counted)
        inputs[0][:] = out
        return inputs[0].asnumpy()

    with settings.override(plan_limit=1_000_000, node_limit=100_000_000):
        for number in (1, 2, 3):
            step(number)
        before = statistics.snapshot()
        values = [step(number) for number in (4, 5)]
        after = statistics.snapshot()
    assert {key: after[key] - before[key] for key in ("nodes", "plans")} == {"nodes": 0, "plans": 0}
    assert not np.array_equal(*values)


def test_optimizer_and_operator_follow_one_rule():
    weight, grad = arrays(2)
    other = weight.copy()
    moment = nd.zeros_like(weight)
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.01, rescale_grad=0.5))
    for _ in range(3):
        updater(0, grad, weight)
        nd.sgd_mom_update(other, grad, moment, lr=0.1, momentum=0.9, wd=0.01, rescale_grad=0.5, out=other)
    assert weight.asnumpy().tobytes() == other.asnumpy().tobytes()


def test_a_result_that_is_not_written_leaves_the_weight():
    weight, grad, moment = arrays(3)
    before, state = weight.asnumpy(), moment.asnumpy()
    after = nd.sgd_mom_update(weight, grad, moment, lr=0.1)
    assert np.array_equal(weight.asnumpy(), before)
    assert not np.array_equal(after.asnumpy(), before)
    assert not np.array_equal(moment.asnumpy(), state)


def test_arguments_are_checked():
    with pytest.raises(MXNetError, match="takes 2 arrays for each of 3 weights, 6 in total, but got 4"):
        nd.multi_sgd_update(*arrays(4), lrs=(0.1,) * 3, wds=(0.0,) * 3, num_weights=3)
    with pytest.raises(MXNetError, match="Required parameter lr of float is not presented"):
        nd.adam_update(*arrays(4))
    with pytest.raises(MXNetError, match=r"Cannot find argument 'rescale', Possible Arguments: .*rescale_grad"):
        nd.sgd_update(*arrays(2), lr=0.1, rescale=2)


@pytest.mark.parametrize("count", [1, 3])
def test_rates_of_several_weights_are_counted(count):
    with pytest.raises(MXNetError, match=f"multi_sgd_update takes 2 lrs, one per weight, but got {count}"):
        nd.multi_sgd_update(*arrays(4), lrs=(0.1,) * count, wds=(0.0,) * 2, num_weights=2)


def test_operators_of_several_weights_have_signatures_and_formulas():
    declared = REGISTRY["preloaded_multi_mp_sgd_mom_update"]
    assert str(inspect.signature(declared.function)) == (
        "(*data: 'Node', momentum: 'float' = 0.0, rescale_grad: 'Number' = 1.0, clip_gradient: 'float' = -1.0, "
        "num_weights: 'int' = 1) -> 'tuple[Node, ...]'"
    )
    assert "momentum * mom - lr *" in declared.__doc__


def test_results_of_several_weights():
    first, second, *grads = arrays(4)
    out = nd.multi_sgd_update(first, grads[0], second, grads[1], lrs=(0.1, 0.2), wds=(0, 0), num_weights=2)
    expected = [nd.sgd_update(first, grads[0], lr=0.1), nd.sgd_update(second, grads[1], lr=0.2)]
    assert [a.asnumpy().tolist() for a in out] == [a.asnumpy().tolist() for a in expected]
    assert isinstance(nd.multi_sgd_update(first, grads[0], lrs=(0.1,), wds=(0,)), nd.NDArray)


def test_gradients_pass_through_an_update():
    """The derivative of a loss after one step with respect to the gradient that made the step."""
    weight, grad = arrays(2)
    grad.attach_grad()
    with autograd.record():
        loss = (nd.sgd_update(weight, grad, lr=0.1) ** 2).sum()
    loss.backward()
    expected = -0.2 * (weight.asnumpy() - 0.1 * grad.asnumpy())
    np.testing.assert_allclose(grad.grad.asnumpy(), expected, rtol=1e-5)


def test_rows_of_row_sparse_states():
    weight, moment = arrays(2, (4, 2))
    grad = nd.sparse.row_sparse_array(([[1.0, 1.0]], [2]), shape=(4, 2))
    sparse = moment.tostype("row_sparse")
    after = nd.sgd_mom_update(weight, grad, sparse, lr=0.1, momentum=0.5).asnumpy()
    changed = (after != weight.asnumpy()).all(1)
    assert changed.tolist() == [False, False, True, False]
    assert (sparse.asnumpy() != moment.asnumpy()).all(1).tolist() == [False, False, True, False]


def test_symbols_change_states():
    names = ("weight", "grad", "mom")
    symbol = mx.sym.sgd_mom_update(*[mx.sym.Variable(name) for name in names], lr=0.1, momentum=0.9)
    given = dict(zip(names, arrays(3), strict=True))
    moment = given["mom"].copy()
    (after,) = symbol.eval(**given)
    expected = nd.sgd_mom_update(given["weight"], given["grad"], moment, lr=0.1, momentum=0.9)
    assert after.asnumpy().tobytes() == expected.asnumpy().tobytes()
    assert given["mom"].asnumpy().tobytes() == moment.asnumpy().tobytes()


def test_compiled_updates_take_their_own_numbers():
    """The record of a repeated call knows the numbers of this call, and where they stand in it."""
    (grad,) = arrays(1)
    grad.attach_grad()

    @mx.compile
    def step(w, g):
        return nd.sgd_update(w * 2, g, lr=0.25, wd=0.5)

    for _ in range(3):
        with autograd.record():
            before = grad * 3 + 7
            after = step(before, grad)
    assert step.repeated >= 1
    expected = nd.sgd_update(before * 2, grad, lr=0.25, wd=0.5).asnumpy()
    assert after.asnumpy().tobytes() == expected.tobytes()
    symbol = autograd.get_symbol(after)
    (attributes,) = [found for found in symbol.attr_dict().values() if "lr" in found]
    assert (attributes["lr"], attributes["wd"]) == ("0.25", "0.5")
