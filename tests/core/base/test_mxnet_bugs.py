"""The setting that reproduces bugs of MXNet 1.9.1: it must be chosen before the first call, hence other processes."""

import os
import subprocess
import sys

import pytest

from phonograd.core.base import settings

SCRIPT = """
import numpy as np
import phonograd as mx
print(mx.nd.Activation(mx.nd.array([np.nan, -1, 2]), act_type="relu").asnumpy().tolist())
data = mx.nd.array(np.arange(12).reshape(1, 3, 4) * 0.1)
data.attach_grad()
with mx.autograd.record():
    out = mx.nd.SoftmaxOutput(data, mx.nd.array([[0, 1, 2, 0]]), multi_output=True, smooth_alpha=0.3)
out.backward()
print(data.grad.asnumpy()[0, 0].round(3).tolist())
try:
    mx.settings.update(mxnet_bugs="")
except ValueError as error:
    print(error)
"""


def test_bugs_are_reproduced():
    environment = {**os.environ, "PHONOGRAD_MXNET_BUGS": "relu_nan, smooth_alpha"}
    command = [sys.executable, "-c", SCRIPT]
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    # recorded from MXNet 1.9.1
    assert lines[0] == "[0.0, 0.0, 2.0]"
    assert [round(float(v), 2) for v in lines[1].strip("[]").split(",")] == [-0.2, 0.05, 0.05, -0.2]
    assert "operators that depend on it were called" in lines[2]


def test_only_known_bugs():
    with pytest.raises(ValueError, match="mxnet_bugs may have relu_nan, smooth_alpha, not other"):
        settings.update(mxnet_bugs="other")
