"""Errors: raised at the call that is wrong, in MXNet's sentences, with what was given and where."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError


@pytest.fixture
def x():
    return nd.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class TestArguments:
    """The sentences that scripts look for."""

    @pytest.mark.parametrize("value", [3, [1, 2], np.ones(2), "a"])
    def test_what_is_no_array(self, value):
        with pytest.raises(AssertionError, match="Argument data must have NDArray type, but got"):
            nd.exp(value)

    def test_lists_where_arrays_are_wanted(self, x):
        for call in (lambda: nd.concat([x, x]), lambda: nd.stack([x, x]), lambda: nd.add_n([x, x])):
            with pytest.raises(AssertionError, match="Positional arguments must have NDArray type, but got"):
                call()

    def test_required_parameter(self, x):
        with pytest.raises(
            MXNetError, match="Required parameter num_hidden of int is not presented, in operator FullyConnected"
        ):
            nd.FullyConnected(x, x)

    def test_unknown_parameter(self, x):
        with pytest.raises(
            MXNetError, match=r"Cannot find argument 'keepdim', Possible Arguments: .*did you mean 'keepdims'"
        ):
            nd.sum(x, keepdim=True)

    def test_choice(self, x):
        with pytest.raises(
            MXNetError, match=r"Invalid Input: 'zzz', valid values are: \{.*'relu'.*in operator Activation"
        ):
            nd.Activation(x, act_type="zzz")

    def test_number_of_inputs(self, x):
        with pytest.raises(MXNetError, match="Operator dot expects 2 inputs, but got 1 instead"):
            nd.dot(x)
        with pytest.raises(MXNetError, match="Operator exp expects 1 inputs, but got 0 instead"):
            nd.exp()

    @pytest.mark.parametrize("given", [{"axis": 1.5}, {"axis": "a"}, {"keepdims": "maybe"}, {"axis": object()}])
    def test_parameter_format(self, x, given):
        with pytest.raises(
            MXNetError, match=f"Invalid Parameter format for {next(iter(given))} expect .* in operator sum"
        ):
            nd.sum(x, **given)

    def test_too_many_positional_arguments(self, x):
        with pytest.raises(TypeError, match="positional"):
            nd.exp(x, x, None, None)


class TestShapesAndDtypes:
    def test_sentences(self, x):
        attr = "Incompatible attr in node  at "
        for call, words in (
            (lambda: x + nd.ones((2,)), r"operands could not be broadcast together with shapes \[2,3\] \[2\]"),
            (lambda: x + nd.ones((2, 3), dtype="int32"), attr + "1-th input: expected float32, got int32"),
            (lambda: nd.elemwise_add(x, nd.ones((1, 3))), attr + r"1-th input: expected \[2,3\], got \[1,3\]"),
            (lambda: nd.exp(x, out=nd.zeros((3,))), attr + r"0-th output: expected \[2,3\], got \[3\]"),
            (lambda: nd.exp(x, out=nd.zeros((2, 3), dtype="int32")), "at 0-th output: expected float32, got int32"),
            (lambda: x.reshape((7,)), "target shape size is larger than the current shape"),
            (lambda: x.reshape((-1, -1)), "One and only one dim can be inferred"),
            (lambda: nd.sum(x, axis=5), r"Exceeds input dimensions \[2,3\]"),
        ):  # fmt: skip
            with pytest.raises(MXNetError, match=words):
                call()

    def test_raised_at_the_call_also_while_recording(self, x):
        x.attach_grad()
        with autograd.record():
            y = x * 2
            with pytest.raises(MXNetError, match="broadcast"):
                y + nd.ones((2,))
            y = y * 2
        y.backward()
        assert x.grad.asnumpy().tolist() == [[4] * 3] * 2

    def test_same_mistake_twice(self, x):
        for _ in range(3):
            with pytest.raises(MXNetError, match="broadcast"):
                x + nd.ones((2,))

    def test_out_that_fails_is_left_alone(self, x):
        target = nd.zeros((3,))
        with pytest.raises(MXNetError):
            nd.exp(x, out=target)
        assert not target.asnumpy().any()
        with pytest.raises(MXNetError, match=r"expects 3 \(all\) or 3 \(visible only\) outputs, but got 1"):
            nd.split(x, 3, axis=1, out=[nd.zeros((2, 1))])
        with pytest.raises(TypeError, match="out must be an NDArray"):
            nd.exp(x, out="here")


class TestErrorsOfValues:
    """Some errors depend on values. They are raised when a value is asked for, and name the line of the call."""

    def test_only_what_depends_on_it_fails(self, x):
        bad = x[nd.array([7])]
        worse = bad * 2
        good = x * 2
        for array in (bad, worse):
            with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 2"):
                array.asnumpy()
        assert good.asnumpy().max() == 12
        assert (x + 1).asnumpy().max() == 7

    def test_raised_each_time(self, x):
        bad = x[nd.array([7])]
        for _ in range(3):
            with pytest.raises(IndexError, match="out of bounds"):
                bad.asnumpy()

    def test_names_the_line(self):
        # equal expressions are one, and know the line that used them first; this one is used nowhere else
        bad = nd.ones((2, 3, 5, 7))[nd.array([[[7]]])]
        with pytest.raises(IndexError, match=r"in operator .*called at .*test_errors\.py:\d+"):
            bad.wait_to_read()

    def test_waitall_does_not_fail(self, x):
        bad = x[nd.array([7])]
        nd.waitall()
        with pytest.raises(IndexError):
            bad.asnumpy()

    def test_overwriting_heals(self, x):
        bad = x[nd.array([7])]
        bad[:] = 5
        assert bad.asnumpy().tolist() == [[5, 5, 5]]

    def test_record_around_it_stays_usable(self, x):
        x.attach_grad()
        with autograd.record():
            bad = x[nd.array([7])]
            y = x * x
        with pytest.raises(IndexError):
            bad.asnumpy()
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), 2 * x.asnumpy())

    def test_view_of_a_failed_array(self, x):
        bad = x[nd.array([7])]
        view = bad.reshape(-1)
        with pytest.raises(IndexError):
            view.asnumpy()


def test_missing_names_are_explained():
    for space, name, hint in (
        (nd, "ones_lik", "ones_like"),
        (nd.contrib, "forech", "foreach"),
        (nd.linalg, "gem", "gemm"),
    ):
        with pytest.raises(AttributeError, match=f"(?s){name}.*did you mean '{hint}'"):
            getattr(space, name)


def test_mxnet_error_is_a_runtime_error():
    assert issubclass(mx.MXNetError, RuntimeError)
    assert mx.MXNetError is mx.base.MXNetError
