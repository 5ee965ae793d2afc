"""Loops and branches in symbols: as in arrays, with gradients, in files, and inside of each other."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, sym
from phonograd.core.base.errors import MXNetError

X, S, W = sym.var("x"), sym.var("s"), sym.var("w")


def arrays(**values):
    return {name: nd.array(value) for name, value in values.items()}


def same(symbol, feed, expected):
    """Check the outputs of a symbol, and of what its file says."""
    for version in (symbol, sym.load_json(symbol.tojson())):
        for output, value in zip(version.eval(**feed), expected, strict=True):
            np.testing.assert_allclose(output.asnumpy(), value.asnumpy(), rtol=1e-6)


class TestForeach:
    def step(self, element, state):
        return element * state + 1, state + element

    def test_as_with_arrays(self):
        feed = arrays(x=[[1, 2], [3, 4], [5, 6]], s=[1, -1])
        outputs, state = sym.contrib.foreach(self.step, X, S)
        expected = nd.contrib.foreach(self.step, feed["x"], feed["s"])
        same(sym.Group([outputs, state]), feed, expected)

    def test_nested_structures(self):
        def step(elements, states):
            (a, b), (c, (d,)) = elements, states
            return [a + c, [b * d]], [c + 1, [d + a]]

        feed = arrays(x=[[1, 2], [3, 4]], y=[[5, 6], [7, 8]], s=[1, 2], t=[3, 4])
        outputs, states = sym.contrib.foreach(step, [X, sym.var("y")], [S, [sym.var("t")]])
        found = nd.contrib.foreach(step, [feed["x"], feed["y"]], [feed["s"], [feed["t"]]])
        symbols = [outputs[0], outputs[1][0], states[0], states[1][0]]
        same(sym.Group(symbols), feed, [found[0][0], found[0][1][0], found[1][0], found[1][1][0]])

    def test_gradients(self):
        outputs, state = sym.contrib.foreach(lambda x, s: (sym.tanh(x * W + s), sym.sin(s + x)), X, S)
        net = sym.Group([outputs, state])
        location = {"x": np.random.rand(3, 2), "s": np.random.rand(2), "w": np.random.rand(2)}
        mx.test_utils.check_numeric_gradient(net, location, dtype=np.float64, numeric_eps=1e-4, rtol=1e-5, atol=1e-7)

    def test_layers_inside_share_their_weights(self):
        def step(element, state):
            out = sym.FullyConnected(element, num_hidden=2, name="cell") + state
            return out, out

        outputs, _ = sym.contrib.foreach(step, X, S)
        assert sorted(outputs.list_arguments()) == ["cell_bias", "cell_weight", "s", "x"]
        assert outputs.infer_shape_partial(x=(3, 4, 5))[1] == [(3, 4, 2)]
        shapes, out, _ = outputs.infer_shape(x=(3, 4, 5))
        assert dict(zip(outputs.list_arguments(), shapes, strict=True))["cell_weight"] == (2, 5)
        assert out == [(3, 4, 2)]

    def test_states_inside(self):
        """Training moves the statistics of a BatchNorm in every step."""
        outputs, _ = sym.contrib.foreach(lambda x, s: (sym.BatchNorm(x, name="bn") + s, s + 1), X, S)
        assert outputs.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
        executor = outputs.simple_bind(mx.cpu(), x=(2, 4, 3))
        executor.arg_dict["x"][:] = 1
        executor.forward(is_train=True)
        np.testing.assert_allclose(executor.aux_dict["bn_moving_mean"].asnumpy(), [0.19] * 3, rtol=1e-5)

    def test_mistakes(self):
        with pytest.raises(AssertionError, match="the data arrays have to be used in the loop body"):
            sym.contrib.foreach(lambda x, s: (s * 2, s + 1), X, S)
        with pytest.raises(AssertionError, match="the state arrays have to be used in the loop body"):
            sym.contrib.foreach(lambda x, s: (x * 2, x + 1), X, S)
        with pytest.raises(AssertionError, match=r"foreach input must be \(nested\) list of Symbol"):
            sym.contrib.foreach(self.step, 3, S)
        with pytest.raises(AssertionError, match="the body returns 2 states, expected 1"):
            sym.contrib.foreach(lambda x, s: (x + s, [s, s]), X, S)
        outputs, _ = sym.contrib.foreach(self.step, X, S)
        with pytest.raises(MXNetError, match="foreach over an empty axis has no outputs"):
            outputs.eval(x=nd.zeros((0, 2)), s=nd.zeros((2,)))
        both, _ = sym.contrib.foreach(lambda x, s: (x[0] + x[1] + s, s + 1), [X, W], S)
        with pytest.raises(MXNetError, match="arrays have different first axes"):
            both.eval(x=nd.zeros((3, 2)), w=nd.zeros((2, 2)), s=nd.zeros((2,)))


class TestWhileLoop:
    def test_as_with_arrays(self):
        feed = arrays(x=[0], s=[1], w=[2])

        def loop(space, variables, scale):
            return space.contrib.while_loop(
                lambda i, total: i < 3,
                lambda i, total: ([i + total], [i + 1, total * scale]),
                variables,
                max_iterations=5,
            )

        steps, final = loop(sym, [X, S], W)
        found, last = loop(nd, [feed["x"], feed["s"]], feed["w"])
        same(sym.Group([*steps, *final]), feed, [*found, *last])

    def test_no_step_is_made(self):
        steps, final = sym.contrib.while_loop(
            lambda i, t: i < 0, lambda i, t: ([sym.concat(t, t, dim=0)], [i + 1, t]), [X, S], max_iterations=2
        )
        outputs = sym.Group([*steps, *final]).eval(**arrays(x=[0], s=[1, 2]))
        assert [output.asnumpy().tolist() for output in outputs] == [[[0] * 4, [0] * 4], [0], [1, 2]]

    def test_gradients_go_through_the_steps_that_were_made(self):
        _, final = sym.contrib.while_loop(
            lambda i, t: i < 3, lambda i, t: ([], [i + 1, t * W]), [X, S], max_iterations=10
        )
        feed = {name: nd.array([value]) for name, value in (("x", 0.0), ("s", 5.0), ("w", 2.0))}
        feed["w"].attach_grad()
        with autograd.record():
            (result,) = final[1].eval(**feed)
        result.backward()
        assert [result.asscalar(), feed["w"].grad.asscalar()] == [40, 60]

    def test_one_variable(self):
        steps, final = sym.contrib.while_loop(lambda i: i < 2, lambda i: (i * 2, i + 1), X, max_iterations=3)
        outputs = sym.Group([steps, final]).eval(x=nd.zeros((1,)))
        assert [output.asnumpy().tolist() for output in outputs] == [[[0], [2], [0]], [2]]

    def test_mistakes(self):
        with pytest.raises(ValueError, match="max_iterations should be specified"):
            sym.contrib.while_loop(lambda i: i < 2, lambda i: (i, i), X)
        with pytest.raises(ValueError, match="Cannot convert max_iteration to python int"):
            sym.contrib.while_loop(lambda i: i < 2, lambda i: (i, i), X, max_iterations="a")
        with pytest.raises(ValueError, match="loop_vars should contain at least one element"):
            sym.contrib.while_loop(lambda: 1, lambda: ([], []), [], max_iterations=1)
        with pytest.raises(ValueError, match="length of loop_vars should be consistent"):
            sym.contrib.while_loop(lambda i: i < 2, lambda i: (i, [i, i]), X, max_iterations=1)


class TestCond:
    def test_both_ways(self):
        chosen = sym.contrib.cond(X < 2, lambda: S + W, lambda: S * W)
        for value, expected in ((1, 12), (3, 20)):
            same(chosen, arrays(x=[value], s=[10], w=[2]), [nd.array([expected])])

    def test_several_outputs_and_gradients(self):
        net = sym.Group(sym.contrib.cond(X < 2, lambda: [S * W, S], lambda: [S, S * S]))
        for value, expected in ((1, 3), (3, 21)):
            executor = net.bind(mx.cpu(), arrays(x=[value], s=[10], w=[2]), {"s": nd.zeros((1,))})
            executor.forward(is_train=True)
            executor.backward()
            assert executor.grad_dict["s"].asscalar() == expected

    def test_mistakes(self):
        with pytest.raises(ValueError, match="Number of outputs differs in then-branch and else-branch: 1 and 2"):
            sym.contrib.cond(X, lambda: S, lambda: [S, S])
        with pytest.raises(AssertionError, match="cond outputs must be"):
            sym.contrib.cond(X, lambda: 3, lambda: S)


def test_loops_inside_of_loops():
    def row(element, total):
        columns, inner = sym.contrib.foreach(lambda x, s: (x + s, s + x), element, total)
        return columns, sym.contrib.cond(inner.sum() < 10, lambda: inner, lambda: inner * 0)

    outputs, state = sym.contrib.foreach(row, X, S)
    feed = arrays(x=np.arange(1, 7).reshape((2, 3, 1)), s=[0])
    results = sym.Group([outputs, state]).eval(**feed)
    assert [result.asnumpy().ravel().tolist() for result in results] == [[1, 3, 6, 10, 15, 21], [0]]
    again = sym.load_json(sym.Group([outputs, state]).tojson())
    assert again.eval(**feed)[1].asscalar() == 0
    assert sym.Group([outputs, state]).infer_shape(x=(2, 3, 1), s=(1,))[1] == [(2, 3, 1), (1,)]
