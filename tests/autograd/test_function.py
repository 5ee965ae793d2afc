"""Function: operations of the user's own, called and differentiated."""

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import close, flags, values, variable
from .functions import Exponential, Product, Several, Square

# -- calling


def test_gradients_go_to_all_inputs():
    x, y = variable([2.0, 3.0]), variable([5.0, 7.0])
    with autograd.record():
        z = Product()(x, y) * 10
    z.backward()
    assert (values(x.grad), values(y.grad)) == ([50, 70], [20, 30])


def test_flags_inside():
    x, y = variable([2.0]), variable([5.0])
    for train_mode in (True, False):
        function = Product()
        with autograd.record(train_mode=train_mode):
            z = function(x, y)
            assert flags() == (True, train_mode)
        z.backward(train_mode=not train_mode)
        assert function.calls == [("forward", (False, train_mode)), ("backward", (False, not train_mode))]


def test_outside_of_recording_anything_goes():
    class Anything(autograd.Function):
        def forward(self, *inputs):
            assert flags() == (False, False)
            return {"inputs": inputs}

    assert Anything()(1, "a", None) == {"inputs": (1, "a", None)}
    x = variable([2.0])
    z = Square()(x)
    assert values(z) == [4]
    with pytest.raises(MXNetError, match="not in a computational graph"):
        z.backward()


def test_an_instance_is_called_once():
    x = variable([2.0])
    for recording in (True, False):
        function = Square()
        with autograd.record() if recording else autograd.pause():
            function(x)
            with pytest.raises(AssertionError, match="Each Function instance can only be called once"):
                function(x)


def test_keywords_and_missing_parts():
    class Nothing(autograd.Function):
        pass

    x = variable([2.0])
    with pytest.raises(TypeError):
        Square()(x=x)
    with autograd.record(), pytest.raises(NotImplementedError, match="Nothing must define forward"):
        Nothing()(x)

    class OnlyForward(autograd.Function):
        def forward(self, x):
            return x * 1

    with autograd.record():
        y = OnlyForward()(x)
    with pytest.raises(NotImplementedError, match="OnlyForward must define backward"):
        y.backward()


def test_the_constructor_must_be_called():
    class Forgetful(Square):
        def __init__(self):
            pass

    with pytest.raises(AttributeError, match="_used"):
        Forgetful()(variable([2.0]))


@pytest.mark.parametrize("kind", [list, tuple])
def test_the_returned_object_is_returned(kind):
    class Kind(autograd.Function):
        def forward(self, x):
            self.returned = kind([x * 2])
            return self.returned

        def backward(self, dy):
            return kind([dy * 2])

    function, x = Kind(), variable([1.0])
    with autograd.record():
        outputs = function(x)
    assert outputs is function.returned
    assert isinstance(outputs, kind)
    outputs[0].backward()
    assert values(x.grad) == [2]


@pytest.mark.parametrize("result", [None, 3, np.ones(1), ["a"], [None]])
def test_wrong_results_of_forward(result):
    class Wrong(autograd.Function):
        def forward(self, x):
            return result

    with autograd.record():
        with pytest.raises(TypeError, match=r"Wrong\.forward must return NDArrays while recording"):
            Wrong()(variable([1.0]))
        assert flags() == (True, True)


def test_inputs_must_be_arrays_while_recording():
    with autograd.record(), pytest.raises(TypeError, match="must be NDArrays while recording"):
        Product()(variable([1.0]), 2.0)


def test_returning_an_input_or_something_recorded():
    x, other = variable([1.0]), variable([1.0])

    class Same(autograd.Function):
        def forward(self, *inputs):
            return inputs[0]

    class Foreign(autograd.Function):
        def forward(self, x):
            return other

    class Twice(autograd.Function):
        def forward(self, x):
            y = x * 1
            return y, y

    with autograd.record():
        for function in (Same(), Foreign(), Twice()):
            with pytest.raises(MXNetError, match="Assigning to NDArrays that are already in a computational graph"):
                function(x)
        constant = nd.ones((1,))
        with pytest.raises(MXNetError, match="return copies"):
            Same()(constant, x)
    assert other.grad is not None
    assert constant.grad is None


def test_returning_a_view_of_an_input():
    class Row(autograd.Function):
        def forward(self, x):
            return x[1]

        def backward(self, dy):
            return nd.concat(nd.zeros((1, 2)), dy.reshape((1, 2)) * 10, dim=0)

    x = variable([[1.0, 2.0], [3.0, 4.0]])
    with autograd.record():
        y = Row()(x)
        z = (y * y).sum() + x.sum()
    assert values(y) == [3, 4]
    z.backward()
    assert values(x.grad) == [[1, 1], [61, 81]]
    with autograd.record():
        y = Row()(x)
    x[:] = 0
    y.backward()
    assert values(x.grad) == [[0, 0], [10, 10]]


def test_no_recorded_input_means_no_record():
    x = nd.ones((2,))
    with autograd.record():
        y = x
        for _ in range(1000):
            y = Square()(y)
    assert values(y) == [1, 1]
    with pytest.raises(MXNetError, match="not in a computational graph"):
        y.backward()


# -- gradients


@pytest.mark.parametrize("position", [0, 1, 2])
def test_constants_among_the_inputs(position):
    inputs = [nd.array([2.0]), nd.array([3.0]), nd.array([5.0])]
    inputs[position].attach_grad()
    with autograd.record():
        total, product = Several()(*inputs)
        y = total + product
    y.backward()
    others = np.prod([item.asscalar() for index, item in enumerate(inputs) if index != position])
    assert values(inputs[position].grad) == [1 + others]
    assert [item.grad is None for item in inputs] == [index != position for index in range(3)]


def test_many_inputs_and_outputs():
    inputs = [variable([float(index + 1)], "add" if index % 2 else "write") for index in range(12)]
    for step in (1, 2):
        with autograd.record():
            total, product = Several()(*inputs)
            y = total * 2 + product * 0
        y.backward()
        assert [values(item.grad) for item in inputs] == [[2 * step if index % 2 else 2] for index in range(12)]


def test_unused_outputs_get_zeros_of_their_dtype():
    seen = []

    class TwoTypes(autograd.Function):
        def forward(self, x):
            return x * 2, x.astype("float64") * 3

        def backward(self, *grads):
            seen.extend([(g.dtype, values(g), g.writable) for g in grads])
            return grads[0] * 2 + grads[1].astype("float32") * 3

    x = variable([1.0, 2.0])
    with autograd.record():
        first, second = TwoTypes()(x)
    first.backward()
    assert seen == [(np.float32, [1, 1], False), (np.float64, [0, 0], False)]
    assert values(x.grad) == [2, 2]
    with autograd.record():
        first, second = TwoTypes()(x)
    second.backward()
    assert values(x.grad) == [3, 3]
    with pytest.raises(MXNetError, match="not in a computational graph"):
        first.backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda dy: dy.__iadd__(1),
        lambda dy: dy.__imul__(1),
        lambda dy: nd.square(dy, out=dy),
        lambda dy: dy.__setitem__(0, 5),
    ],
)
def test_gradients_are_read_only(write):
    class Careless(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            write(dy)
            return dy

    x, w = variable([1.0]), variable([1.0])
    with autograd.record():
        y = Careless()(x) + w
    with pytest.raises(ValueError, match="readonly NDArray"):
        y.backward()


def test_add_and_several_uses():
    x = variable([3.0], "add")
    for count in (1, 2):
        with autograd.record():
            y = Product()(x, x) + Square()(x) + x
        y.backward()
        assert values(x.grad) == [13 * count]


def test_retaining_calls_backward_again():
    function = Product()
    x, y = variable([2.0]), variable([5.0])
    with autograd.record():
        z = function(x, y)
    for _ in range(3):
        z.backward(retain_graph=True)
        assert values(x.grad) == [5]
    assert [name for name, _ in function.calls] == ["forward"] + ["backward"] * 3


def test_broadcasting_and_casting_of_what_backward_returns():
    class Loose(autograd.Function):
        def __init__(self, gradient):
            super().__init__()
            self.gradient = gradient

        def forward(self, x):
            return x * 1

        def backward(self, dy):
            return self.gradient

    for gradient in (nd.array([5.0]), nd.array([5.0, 5.0, 5.0], dtype="float64"), nd.array([5], dtype="int32")):
        x = variable([1.0, 2.0, 3.0])
        with autograd.record():
            y = Loose(gradient)(x)
        y.backward()
        assert values(x.grad) == [5, 5, 5]
        assert x.grad.dtype == np.float32
    for gradient in (nd.ones((2,)), nd.ones((1, 3)), nd.ones((2, 3))):
        with autograd.record():
            y = Loose(gradient)(x)
        with pytest.raises(MXNetError, match=r"Loose\.backward returned a gradient of shape"):
            y.backward()


def test_wrong_results_of_backward():
    class Wrong(autograd.Function):
        def __init__(self, *grads):
            super().__init__()
            self.grads = grads[0] if len(grads) == 1 else grads

        def forward(self, x, y):
            return x * y

        def backward(self, dz):
            return self.grads

    x, y, one = variable([1.0]), variable([1.0]), nd.ones((1,))
    count = (
        r"Wrong\.backward must return exactly the same number of NDArrays as the number of NDArrays arguments to "
        r"forward\.Expecting 2 got "
    )
    for grads, kind, message in (
        ((one,), AssertionError, count + "1"),
        ((one, one, one), AssertionError, count + "3"),
        ((one, None), TypeError, r"autograd\.Function\.backward must return NDArrays, not <class 'NoneType'>"),
        (
            (np.ones(1), one),
            TypeError,
            r"autograd\.Function\.backward must return NDArrays, not <class 'numpy.ndarray'>",
        ),
        ((None,), TypeError, r"autograd\.Function\.backward must return NDArrays, not <class 'NoneType'>"),
    ):
        with autograd.record():
            z = Wrong(*grads)(x, y)
        with pytest.raises(kind, match=message):
            z.backward()


def test_exceptions_are_the_users_own_and_restore_everything():
    class Own(Exception):
        pass

    class Fails(autograd.Function):
        def __init__(self, where):
            super().__init__()
            self.where = where

        def forward(self, x):
            if self.where == "forward":
                raise Own("forward")
            return x * 2

        def backward(self, dy):
            if self.where == "backward":
                raise Own("backward")
            return dy * 2

    x = variable([1.0])
    with autograd.record():
        with pytest.raises(Own, match="forward"):
            Fails("forward")(x)
        assert flags() == (True, True)
        h = x * 3
        function = Fails("backward")
        bad = function(h)
        good = h * 5
    x.grad[:] = 7
    for _ in range(2):
        with pytest.raises(Own, match="backward"):
            autograd.backward([bad, good])
        assert flags() == (False, False)
        assert values(x.grad) == [7]
    good.backward(retain_graph=True)
    assert values(x.grad) == [15]
    function.where = None
    bad.backward()
    assert values(x.grad) == [6]


def test_numpy_inside():
    class Numpy(autograd.Function):
        def forward(self, x):
            self.values = x.asnumpy()
            return nd.array(np.sinh(self.values))

        def backward(self, dy):
            return nd.array(dy.asnumpy() * np.cosh(self.values))

    x = variable([0.5, 1.0])
    for _ in range(3):
        with autograd.record():
            y = x * 2
            for _ in range(3):
                y = Numpy()(y) * 0.1
        y.backward()
        h = [2 * np.array([0.5, 1.0])]
        slope = 2.0
        for _ in range(3):
            slope = slope * np.cosh(h[-1]) * 0.1
            h.append(np.sinh(h[-1]) * 0.1)
        close(x.grad, slope)


def test_chains_of_functions_between_operators():
    x = variable([1.1])
    with autograd.record():
        y = x
        for _ in range(6):
            y = Square()(y) * 0.9 + Exponential()(x) * 0.01
    y.backward()

    def function(x):
        y = x
        for _ in range(6):
            y = y * y * 0.9 + np.exp(x) * 0.01
        return y

    numeric = (function(1.1 + 1e-6) - function(1.1 - 1e-6)) / 2e-6
    close(x.grad, [numeric], rtol=1e-4)


def test_recording_and_backward_inside_forward_and_backward():
    class Inner(autograd.Function):
        """x**3, computed as x times a gradient, twice."""

        def forward(self, x):
            inner = x.detach()
            inner.attach_grad()
            with autograd.record():
                y = inner * inner * inner
            y.backward()
            self.slope = inner.grad.copy()
            return x * inner.grad / 3

        def backward(self, dy):
            inner = nd.array([1.0])
            inner.attach_grad()
            with autograd.record():
                y = inner * inner
            y.backward()
            assert values(inner.grad) == [2]
            assert flags() == (False, True)
            return dy * self.slope

    x = variable([2.0])
    with autograd.record():
        y = Inner()(x * 1.5) * x
        assert flags() == (True, True)
    assert values(y) == [54]
    y.backward()
    close(x.grad, [27 + 2 * 27 * 1.5])


def test_a_function_inside_a_function():
    class Outer(autograd.Function):
        def forward(self, x):
            inner = x.detach()
            inner.attach_grad()
            with autograd.record():
                self.inside = Square()(inner)
            self.inner = inner
            return self.inside.detach().copy()

        def backward(self, dy):
            self.inside.backward(dy)
            return self.inner.grad * 1

    x = variable([3.0])
    with autograd.record():
        y = Outer()(x) * 2
    y.backward()
    assert values(x.grad) == [12]
