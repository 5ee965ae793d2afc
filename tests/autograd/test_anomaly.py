"""NaN and infinities are reported with the operator, the line and the scope that made them."""

import inspect

import numpy as np
import pytest

from phonograd import autograd, nd, profiler, settings
from phonograd.errors import MXNetError


@pytest.fixture(params=["reference", "native"], autouse=True)
def executor(request):
    if request.param == "native":
        pytest.importorskip("llvmlite")
    with settings.override(executor=request.param):
        yield request.param


def line():
    """Return the number of the caller's line."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_nothing_is_reported_unless_asked_for():
    assert np.isinf(nd.log(nd.zeros((2,))).asnumpy()).all()
    assert not autograd.is_anomaly_enabled()


def test_the_first_operator_is_named():
    x = nd.array([1.0, -1.0])
    with autograd.detect_anomaly():
        y = nd.sqrt(x * 2.25)
        here = line() - 1
        z = y + 1
        with pytest.raises(MXNetError, match="NaN in the result of operator sqrt, of shape") as caught:
            z.asnumpy()
    assert f"{__file__}:{here}" in str(caught.value)


def test_other_arrays_are_not_disturbed():
    x = nd.array([1.0, 0.0])
    with autograd.detect_anomaly():
        bad, good = nd.log(x), nd.exp(x)
        assert np.allclose(good.asnumpy(), np.exp([1, 0]))
        with pytest.raises(MXNetError, match="operator log"):
            bad.asnumpy()


def test_gradients_name_the_forward_operator_and_scope():
    x = nd.array([4.0, 0.0])
    x.attach_grad()
    with autograd.detect_anomaly():
        with autograd.record():
            with profiler.record_function("encoder"):
                a = x * 3
                b = nd.sqrt(a)
                here = line() - 1
            with profiler.record_function("decoder"):
                c = b * 2
        c.backward()
        with pytest.raises(MXNetError, match="infinity in the gradient of operator sqrt") as caught:
            x.grad.asnumpy()
    assert f"{__file__}:{here}" in str(caught.value)
    assert "in the scope 'encoder'" in str(caught.value)


def test_the_second_iteration_is_looked_at_too():
    x = nd.array([4.0, 1.0])
    x.attach_grad()
    with autograd.detect_anomaly():
        for value in (1.0, 2.0, 0.0):
            x[:] = value
            with autograd.record():
                y = nd.log(x)
            y.backward()
            if value:
                assert x.grad.asnumpy().tolist() == [1 / value] * 2
        with pytest.raises(MXNetError, match="log"):
            y.asnumpy()


def test_data_that_was_wrong_before():
    with autograd.detect_anomaly():
        y = nd.exp(nd.array([1.0, float("nan")]))
        with pytest.raises(MXNetError, match=r"NaN in an array of shape .* that is used by operator exp"):
            y.asnumpy()


def test_what_is_looked_for():
    with autograd.detect_anomaly(check_inf=False):
        assert np.isinf(nd.log(nd.zeros((2,))).asnumpy()).all()
    with autograd.detect_anomaly(check_nan=False):
        assert np.isnan(nd.log(nd.array([-1.0])).asnumpy()).all()
    # the sum of these is not finite, but they are
    with autograd.detect_anomaly():
        assert np.isfinite((nd.array([3e38, 3e38]) * 1).asnumpy()).all()


def test_scopes_nest_and_end():
    autograd.set_detect_anomaly(True)
    try:
        with autograd.detect_anomaly():
            assert autograd.is_anomaly_enabled()
        assert autograd.is_anomaly_enabled()
    finally:
        autograd.set_detect_anomaly(False)
    assert not autograd.is_anomaly_enabled()
    assert not profiler.has_callbacks()


def test_operators_of_several_outputs():
    with autograd.detect_anomaly():
        parts = nd.split(nd.log(nd.array([[1.0, 0.0]])), num_outputs=2, axis=1)
        with pytest.raises(MXNetError, match="operator log"):
            parts[1].asnumpy()
