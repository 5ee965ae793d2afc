"""Random programs, run with arrays and built as symbols: the same bits, the shapes that were inferred, the same files."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from phonograd import autograd, nd, sym

UNARY = ["relu", "sigmoid", "tanh", "exp", "sin", "square", "abs", "negative", "floor", "softsign", "ones_like"]
BINARY = ["elemwise_add", "elemwise_mul", "elemwise_sub", "broadcast_maximum", "broadcast_minimum"]


def by_python(a, b, number):
    return [a + b, a - b, a * b, a + number, number - a, a * number, number * a, -a, a > b, a <= number, abs(a), a**2]


@st.composite
def steps(draw):
    """Return what to do: each step takes values made before, by number."""
    count = draw(st.integers(1, 10))
    return [
        (
            draw(st.sampled_from(["unary", "binary", "python", "transpose", "layer", "concat", "split", "reduce"])),
            draw(st.integers(0, 100)),
            draw(st.integers(0, 100)),
            draw(st.integers(0, 100)),
        )
        for _ in range(count)
    ]


def run(space, program, values):
    """Return all values of a program; each is a matrix of the same shape, or becomes one again."""
    made = list(values)
    for kind, first, second, choice in program:
        a, b = made[first % len(made)], made[second % len(made)]
        if kind == "unary":
            new = getattr(space, UNARY[choice % len(UNARY)])(a)
        elif kind == "binary":
            new = getattr(space, BINARY[choice % len(BINARY)])(a, b)
        elif kind == "python":
            new = by_python(a, b, choice / 8 - 5)[choice % 12]
        elif kind == "transpose":
            new = space.transpose(space.reshape(a, shape=(4, 3)))
        elif kind == "layer":
            new = space.FullyConnected(a, space.slice_axis(space.tile(b, reps=(2, 1)), axis=0, begin=0, end=4),
                                       no_bias=True, num_hidden=4)  # fmt: skip
        elif kind == "concat":
            new = space.slice_axis(space.concat(a, b, dim=1), axis=1, begin=choice % 4, end=choice % 4 + 4)
        elif kind == "split":
            parts = space.split(a, num_outputs=2, axis=1)
            new = space.concat(parts[1], parts[0], dim=1)
        else:
            new = space.broadcast_mul(a, space.mean(b, axis=choice % 2, keepdims=True))
        made.append(new)
    return made[len(values) :]


@settings(max_examples=20, deadline=None)
@given(program=steps(), seed=st.integers(0, 1000))
def test_symbols_compute_what_arrays_compute(program, seed):
    generator = np.random.RandomState(seed)
    arrays = [nd.array(generator.uniform(-1, 1, (3, 4))) for _ in range(2)]
    expected = run(nd, program, arrays)
    graph = sym.Group(run(sym, program, [sym.var("a"), sym.var("b")]))
    feed = {name: array for name, array in zip("ab", arrays, strict=True) if name in graph.list_arguments()}
    if not feed:
        return
    for version in (graph, sym.load_json(graph.tojson())):
        for found, wanted in zip(version.eval(**feed), expected, strict=True):
            np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())
    _, outputs, _ = graph.infer_shape(**dict.fromkeys(feed, (3, 4)))
    assert outputs == [(3, 4)] * len(program)


@settings(max_examples=10, deadline=None)
@given(program=steps(), seed=st.integers(0, 1000))
def test_gradients_are_those_of_arrays(program, seed):
    generator = np.random.RandomState(seed)
    values = [generator.uniform(-1, 1, (3, 4)) for _ in range(2)]
    arrays = [nd.array(value) for value in values]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        last = run(nd, program, arrays)[-1]
    if last._node is None or not last._node.marked:
        return
    last.backward()
    graph = run(sym, program, [sym.var("a"), sym.var("b")])[-1]
    executor = graph.simple_bind(None, **dict.fromkeys(graph.list_arguments(), (3, 4)))
    for name, value in zip("ab", values, strict=True):
        if name in executor.arg_dict:
            executor.arg_dict[name][:] = value
    executor.forward(is_train=True)
    executor.backward()
    for name, array in zip("ab", arrays, strict=True):
        if name in executor.grad_dict:
            # gradients of several uses are added in the order of the graph, which is not that of the program
            np.testing.assert_allclose(executor.grad_dict[name].asnumpy(), array.grad.asnumpy(), rtol=1e-3, atol=1e-4)
