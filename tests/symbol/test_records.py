"""get_symbol: the record of every operator, and of its gradient, computes the same again, also from a file."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, sym
from phonograd.core.array.call import function_of
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.operator import REGISTRY

from ..core.ops.test_registry import SAMPLES

NAMES = sorted({sample.name for sample in SAMPLES if not REGISTRY[sample.name].random})


def recorded(sample):
    """Return the arrays of a sample, all variables, and its outputs."""
    arrays = [None if value is None else nd.array(value, dtype=value.dtype) for value in sample.inputs]
    for array in arrays:
        if array is not None:
            array.attach_grad()
    with autograd.record():
        outputs = function_of(REGISTRY[sample.name], sample.name)(*arrays, **sample.parameters)
    return arrays, outputs if isinstance(outputs, list) else [outputs]


def check(array, feed):
    """Check that the record of an array, and its file, compute the same bits."""
    symbol = autograd.get_symbol(array)
    for version in (symbol, sym.load_json(symbol.tojson())):
        assert set(version.list_inputs()) <= set(feed)
        again = version.eval(**{name: feed[name].copy() for name in version.list_inputs()})[0]
        assert (again.dtype, again.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(again.asnumpy(), array.asnumpy())


def is_recorded(array):
    node = array._node
    return node is not None and node.marked


def check_gradient(output, variable, feed):
    try:
        with autograd.record():
            (grad,) = autograd.grad(output, [variable], create_graph=True, retain_graph=True)
    except MXNetError as error:
        if "unreachable from the outputs" not in str(error):
            raise
        return
    if is_recorded(grad):
        check(grad, feed)


@pytest.fixture
def _without_kernels():
    """Let NumPy compute: each record is another graph, and compiling all of them takes a minute."""
    with mx.settings.override(executor="reference"):
        yield


@pytest.mark.usefixtures("_without_kernels")
@pytest.mark.parametrize("name", NAMES)
def test_operators_and_their_gradients(name):
    for sample in [sample for sample in SAMPLES if sample.name == name][:2]:
        try:
            arrays, outputs = recorded(sample)
        except (MXNetError, TypeError, AssertionError):
            # what only the library may say (whether it is training) cannot be said by users
            assert name.startswith("_") or "training" in sample.parameters
            continue
        present = [array for array in arrays if array is not None]
        # values from before the call, which may have changed what it was given
        before = [nd.array(value, dtype=value.dtype) for value in sample.inputs if value is not None]
        feed = {autograd.get_symbol(array).name: value for array, value in zip(present, before, strict=True)}
        for output in outputs:
            if is_recorded(output):
                check(output, feed)
        floating = [array for array in present if np.dtype(array.dtype).kind == "f"]
        # a number that is data is part of a gradient's record without a name
        has_gradient = sample.order and is_recorded(outputs[0]) and not REGISTRY[name].numbers
        for variable in floating if has_gradient else ():
            check_gradient(outputs[0], variable, feed)


def _visible_inputs(sample):
    """Return the inputs of a sample that users pass, and its parameters without those that the library passes."""
    declared = REGISTRY[sample.name]
    inputs = [a for k, a in enumerate(sample.inputs) if declared.variadic or declared.input_names[k] != "counter"]
    return inputs, {name: value for name, value in sample.parameters.items() if name != "training"}


@pytest.mark.parametrize("name", sorted({sample.name for sample in SAMPLES}))
def test_symbols_have_the_outputs_of_calls(name):
    for sample in [sample for sample in SAMPLES if sample.name == name]:
        inputs, parameters = _visible_inputs(sample)
        arrays = [None if value is None else nd.array(value, dtype=value.dtype) for value in inputs]
        variables = [None if value is None else sym.var(f"a{place}") for place, value in enumerate(inputs)]
        if any(array is None for array in arrays[: REGISTRY[name].required_inputs]):
            # only the library leaves out what is required
            continue
        with autograd.train_mode() if sample.parameters.get("training") else autograd.predict_mode():
            found = getattr(nd._internal if name.startswith("_") else nd, name)(*arrays, **parameters)
        symbol = getattr(sym._internal if name.startswith("_") else sym, name)(*variables, **parameters)
        assert len(symbol.list_outputs()) == (len(found) if isinstance(found, list) else 1)


def test_after_backward():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = nd.exp(x) * 3
    y.backward(retain_graph=True)
    symbol = autograd.get_symbol(y)
    np.testing.assert_allclose(
        symbol.eval(**{symbol.list_arguments()[0]: nd.array([0.0, 1.0])})[0].asnumpy(), 3 * np.exp([0, 1]), rtol=1e-6
    )
    y.backward()
    with pytest.raises(MXNetError, match="NDArray is not part of a computation graph"):
        autograd.get_symbol(y)
    np.testing.assert_allclose(symbol.eval(**{symbol.list_arguments()[0]: nd.zeros((2,))})[0].asnumpy(), [3, 3])


def test_gradients_compute_again_on_other_inputs():
    x, w = nd.array([0.5, 1.5]), nd.array([2.0, 3.0])
    for array in (x, w):
        array.attach_grad()
    with autograd.record():
        (first,) = autograd.grad(nd.sin(x) * w * w, [x], create_graph=True)
        second = first * first
    symbol = autograd.get_symbol(second)
    names = [autograd.get_symbol(array).name for array in (x, w)]
    assert set(symbol.list_arguments()) == set(names)
    (again,) = symbol.eval(**dict(zip(names, [nd.array([0.0, 1.0]), nd.array([1.0, 2.0])], strict=True)))
    np.testing.assert_allclose(again.asnumpy(), (np.cos([0, 1]) * np.array([1, 4])) ** 2, rtol=1e-6)
    given = nd.array([1.0, 10.0])
    with autograd.record():
        (scaled,) = autograd.grad(nd.sin(x) * w, [x], head_grads=given, create_graph=True)
    assert len(autograd.get_symbol(scaled).list_arguments()) == 3, "a head gradient that is given is an argument"


def test_arguments_are_those_of_the_calls():
    """What a call was given and was not recorded is an argument, whatever it was made of."""
    x = nd.array([1.0, -2.0])
    x.attach_grad()
    index = nd.array([1, 0]) * 1
    with autograd.record():
        y = nd.take(x, index) * nd.ones((2,))
        (grad,) = autograd.grad(y * y, [x], create_graph=True)
    names = [name.rstrip("0123456789") for name in autograd.get_symbol(grad).list_arguments()]
    assert sorted(names) == ["null", "null", "var"]


def test_every_call_is_a_node():
    """Equal calls are one expression, but two records."""
    x, index = nd.array([1.0, 2.0, 3.0, 4.0]), nd.array([3, 0])
    x.attach_grad()
    with autograd.record():
        first = nd.take(x, index)
        parts = [nd.split(x, num_outputs=2, axis=0) for _ in range(2)]
        y = nd.take(x, index) * first + parts[0][0] * parts[1][1]
    symbol = autograd.get_symbol(y)
    operators = [entry.operator for entry in symbol._entries()]
    assert (operators.count("take"), operators.count("SliceChannel"), operators.count("null")) == (2, 2, 2)
    feed = dict(zip(symbol.list_arguments(), (x, index), strict=True))
    check(y, feed)


def test_custom_operators_compute_again():
    from .test_custom import ScaleProp

    assert ScaleProp().factor == 2
    x, offset = nd.array([1.0, 2.0]), nd.array([10.0, 20.0])
    x.attach_grad()
    with autograd.record():
        scaled, moved = nd.Custom(x, offset, nd.zeros((1,)), op_type="scale_for_symbols", factor=5)
        y = scaled * moved
    symbol = autograd.get_symbol(y)
    assert len(symbol.list_arguments()) == 2
    assert len(symbol.list_auxiliary_states()) == 1
    feed = dict(zip(symbol.list_inputs(), (x, offset, nd.zeros((1,))), strict=True))
    check(y, feed)


def test_make_loss_stays():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = nd.make_loss(x * 3)
    assert autograd.get_symbol(y).list_outputs()[0].endswith("_loss")


def test_layers_and_states():
    x = nd.array(np.random.rand(4, 2))
    x.attach_grad()
    states = [nd.array(np.random.rand(2)) for _ in range(4)]
    with autograd.record():
        y = nd.BatchNorm(x, *states, name="bn")
    symbol = autograd.get_symbol(y)
    assert len(symbol.list_arguments()) == 3
    assert len(symbol.list_auxiliary_states()) == 2
    assert symbol.infer_shape_partial(**{symbol.list_arguments()[0]: (5, 3)})[0] == [(5, 3), (3,), (3,)]


def test_functions_are_listed(tmp_path):
    class Double(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            return dy * 2

    x = nd.array([1.0])
    x.attach_grad()
    with autograd.record():
        y = Double()(x) + 1
    symbol = autograd.get_symbol(y)
    symbol.save(str(tmp_path / "function-symbol.json"))
    again = mx.sym.load(str(tmp_path / "function-symbol.json"))
    assert again.list_arguments() == symbol.list_arguments()
    with pytest.raises(MXNetError, match="can be listed, but not computed"):
        again.eval(**{again.list_arguments()[0]: x})
