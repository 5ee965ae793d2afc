"""The naive engine: every operator is evaluated as it is called, by a kernel of its own, and no bit is different."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from phonograd import autograd, nd, settings
from phonograd.ndarray import NDArray

_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

#: a step is an operator by number, and the arrays it takes, counted from the latest
Steps = list[tuple[int, int, int]]

UNARY = (nd.tanh, nd.exp, nd.sigmoid, nd.relu, nd.square, nd.softmax, nd.log_softmax, lambda x: nd.sqrt(nd.abs(x)))
BINARY = (nd.broadcast_add, nd.broadcast_mul, nd.broadcast_sub, nd.broadcast_maximum, nd.dot)
OTHERS = (
    lambda x: x.sum(axis=0, keepdims=True) * 0.1,
    lambda x: nd.mean(x, axis=1, keepdims=True),
    lambda x: x.T,
    lambda x: x[1:3].sum() + x,
    lambda x: nd.concat(x, x * 2, dim=0)[2:6],
    lambda x: x * 0.5 + 1,
)
OPERATORS = len(UNARY) + len(BINARY) + len(OTHERS)


def run(steps: Steps, seed: int) -> list[bytes]:
    """Return the results of a program and its gradients, as bytes."""
    random = np.random.default_rng(seed)
    leaves = [nd.array(random.normal(size=(4, 4)).astype(np.float32)) for _ in range(2)]
    for leaf in leaves:
        leaf.attach_grad()
    with autograd.record():
        arrays: list[NDArray] = list(leaves)
        for number, first, second in steps:
            arrays.append(_applied(number, arrays[-1 - first % len(arrays)], arrays[-1 - second % len(arrays)]))
        loss = sum([(array * array).sum() for array in arrays[2:]], start=leaves[0].sum())
    loss.backward()
    return [array.asnumpy().tobytes() for array in [*arrays, loss, *[leaf.grad for leaf in leaves]]]


def _applied(number: int, first: NDArray, second: NDArray) -> Any:
    if number < len(UNARY):
        return UNARY[number](first)
    number -= len(UNARY)
    if number < len(BINARY):
        is_product = number == len(BINARY) - 1
        return first if is_product and first.shape[-1] != second.shape[0] else BINARY[number](first, second)
    number -= len(BINARY)
    # some of the others need four rows
    return OTHERS[number](first) if first.shape == (4, 4) else first * 2


@hypothesis_settings(suppress_health_check=_CHECKS, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, OPERATORS - 1), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12),
    st.integers(0, 1000),
)
def test_the_naive_engine_changes_no_bit(steps: Steps, seed: int) -> None:
    with settings.override(executor="native"):
        expected = run(steps, seed)
        with settings.override(naive=True):
            assert run(steps, seed) == expected


def test_every_operator_has_a_kernel_of_its_own() -> None:
    from phonograd import explain

    x = nd.array([[0.5, 0.25]])
    nd.waitall()
    with settings.override(executor="native", naive=True), explain.plans() as log:
        y = nd.tanh(x * x + x)
        assert y._buffer is not None
    assert [len(kernel.operators) for report in log.reports for kernel in report.kernels] == [1, 1, 1]


def test_the_environment_of_mxnet() -> None:
    code = (
        "import phonograd as mx\n"
        "x = mx.nd.array([0.5, 0.25]) * 2\n"
        "assert x._buffer is not None\n"
        "print(mx.settings.current().naive, x.asnumpy())\n"
    )
    environment = {**os.environ, "MXNET_ENGINE_TYPE": "NaiveEngine", "PHONOGRAD_EXECUTOR": "native"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert found.stdout == "True [1.  0.5]\n"
