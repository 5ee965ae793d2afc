"""NaN and infinities are reported with the operator, the line and the scope that made them."""

import inspect

import numpy as np
import pytest

from phonograd import autograd, nd, profiler, settings
from phonograd.core.base.errors import MXNetError
from phonograd.profiler import record_function


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


def scope_in(error: pytest.ExceptionInfo) -> str:
    """Return the scope that an error names, or nothing."""
    _, _, name = str(error.value).partition("in the scope ")
    return name.strip("'")


def test_scopes_are_known_without_a_record():
    x = nd.array([0.5, 3.0])
    with autograd.detect_anomaly():
        before = nd.log(x - 4)
        with record_function("one"):
            nd.exp(x)
            y = nd.log(x - 1)
        with record_function("two"):
            z = y * 2
        with pytest.raises(MXNetError, match="operator log") as caught:
            z.wait_to_read()
        assert scope_in(caught) == "one"
        with record_function("evaluation"), pytest.raises(MXNetError, match="operator log") as caught:
            before.wait_to_read()
        assert scope_in(caught) == "", "it was called before"


def test_a_scope_around_a_record_is_known():
    x = nd.array([0.0, 4.0])
    x.attach_grad()
    with autograd.detect_anomaly():
        with record_function("forward"), autograd.record():
            y = nd.log(x)
        with pytest.raises(MXNetError) as caught:
            y.wait_to_read()
        assert scope_in(caught) == "forward"
        with record_function("open"), autograd.record(), pytest.raises(MXNetError) as caught:
            nd.log(x).wait_to_read()
        assert scope_in(caught) == "open"


def test_a_scope_is_known_inside_composite_operators():
    x = nd.array([[1.0, 2.0]])
    with autograd.detect_anomaly():
        with record_function("ordinary"):
            nd.softmax(x).wait_to_read()
        with record_function("normalized"):
            y = nd.L2Normalization(x * 0, eps=0.0)
        with pytest.raises(MXNetError) as caught:
            y.wait_to_read()
    assert scope_in(caught) == "normalized"
