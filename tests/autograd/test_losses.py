"""Losses that ignore their incoming gradient have a gradient wherever the head depends on them, as in MXNet 1.9.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phonograd import autograd, gluon, nd, sym

DATA = np.array([[0.1, 0.2, 0.3], [0.5, -0.4, 0.1]], np.float32)
LABEL = np.array([1.0, 0.0], np.float32)
SOFTMAX = np.exp(DATA) / np.exp(DATA).sum(axis=1, keepdims=True) - np.eye(3, dtype=np.float32)[[1, 0]]

LOSSES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "SoftmaxOutput": (lambda x: nd.SoftmaxOutput(x, nd.array(LABEL)), SOFTMAX),
    "LinearRegressionOutput": (lambda x: nd.LinearRegressionOutput(x, nd.zeros((2, 3))), DATA / 3),
    "MAERegressionOutput": (lambda x: nd.MAERegressionOutput(x, nd.zeros((2, 3))), np.sign(DATA) / 3),
    "MakeLoss": (lambda x: nd.MakeLoss(x * x), 2 * DATA),
    "make_loss": (lambda x: nd.make_loss(x * x), 2 * DATA),
}
HEADS: dict[str, Callable[[Any], Any]] = {
    "BlockGrad": nd.BlockGrad,
    "scaled, then BlockGrad": lambda y: nd.BlockGrad(2 * y),
    "BlockGrad, then scaled": lambda y: 2 * nd.BlockGrad(y),
    "comparison": lambda y: y > 0,
    "argmax": lambda y: nd.argmax(y, axis=1),
    "floor": nd.floor,
    "zeros_like": nd.zeros_like,
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_gradient_needs_to_arrive(loss: str, head: str) -> None:
    function, expected = LOSSES[loss]
    x = nd.array(DATA)
    x.attach_grad()
    # the first pass computes at once, the second one differentiates the graph
    for _ in range(2):
        x.grad[:] = 0
        with autograd.record():
            total = HEADS[head](function(x)).sum()
        total.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_scaled_loss_needs_its_gradient() -> None:
    x = nd.array(DATA)
    x.attach_grad()
    with autograd.record():
        total = nd.BlockGrad(nd.SoftmaxOutput(x, nd.array(LABEL), out_grad=True)).sum()
    total.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 0)


def test_an_executor_and_a_hybrid_block() -> None:
    data, label = sym.var("data"), sym.var("label")
    loss = sym.sum(sym.BlockGrad(sym.SoftmaxOutput(data, label)))
    executor = loss.bind(
        None, {"data": nd.array(DATA), "label": nd.array(LABEL)}, {"data": nd.zeros((2, 3))}, {"data": "write"}
    )
    executor.forward(is_train=True)
    executor.backward(nd.ones((1,)))
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), SOFTMAX, rtol=1e-5, atol=1e-6)

    class Loss(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, data: Any, label: Any) -> Any:
            return F.sum(F.log(F.pick(F.BlockGrad(F.SoftmaxOutput(data, label)), label)))

    block = Loss()
    block.hybridize()
    x = nd.array(DATA)
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            total = block(x, nd.array(LABEL))
        total.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), SOFTMAX, rtol=1e-5, atol=1e-6)
