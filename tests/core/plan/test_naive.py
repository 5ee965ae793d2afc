"""The naive engine: every operator is evaluated as it is called, by a kernel of its own (tests/fuzz compares bits)."""

from __future__ import annotations

import os
import subprocess
import sys

from phonograd import nd, settings


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
