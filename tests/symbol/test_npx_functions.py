"""Functions of mx.npx that are no operators, as symbols: what ``F.npx`` has in hybrid blocks."""

import pytest

import phonograd as mx
from phonograd import np, npx

X = mx.sym.var("x").as_np_ndarray()


def test_nonzero_is_that_of_arrays():
    values = np.array([[0.0, 2.0], [3.0, 0.0]])
    assert mx.sym.npx.nonzero(X).eval(x=values)[0].tolist() == npx.nonzero(values).tolist()


def test_a_constraint_is_checked_when_it_is_computed():
    checked = X * mx.sym.npx.constraint_check(X > 0, "all must be positive")
    assert checked.eval(x=np.array([1.0, 2.0]))[0].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="all must be positive"):
        checked.eval(x=np.array([1.0, -2.0]))


def test_random_numbers():
    drawn = mx.sym.npx.random.bernoulli(X).eval(x=np.array([1.0, 0.0, 1.0]))[0]
    assert drawn.tolist() == [1.0, 0.0, 1.0]
    assert mx.sym.npx.random.uniform_n(0, 1, (2, 3)).eval()[0].shape == (2, 3)
    with pytest.raises(AttributeError, match="bernoulli"):
        mx.sym.npx.random.bernouli  # noqa: B018


def test_images():
    flipped = mx.sym.npx.image.flip_left_right(X).eval(x=np.arange(6).reshape((1, 2, 3)))[0]
    assert flipped.tolist() == [[[3, 4, 5], [0, 1, 2]]]


def test_names():
    assert {"constraint_check", "image", "nonzero", "random", "relu"} <= set(dir(mx.sym.npx))
