"""Variables that are views of other arrays: both share memory, and each has its own gradient."""

import pytest

from phonograd import autograd, nd
from phonograd.core.base.assumptions import HAS_GIL

from .arrays import values, variable


def test_a_view_as_variable():
    x = nd.array([1.0, 2.0, 3.0])
    piece = x[1:3]
    piece.attach_grad()
    with autograd.record():
        y = piece * piece
    y.backward()
    assert values(piece.grad) == [4, 6]
    assert x.grad is None
    x[:] = 10
    assert values(piece) == [10, 10]
    with autograd.record():
        y = piece * piece
    y.backward()
    assert values(piece.grad) == [20, 20], "it still shares memory, and is still a variable"
    piece[:] = 5
    assert values(x) == [10, 5, 5]
    with autograd.record():
        y = piece * piece
    y.backward()
    assert values(piece.grad) == [10, 10]


@pytest.mark.skipif(not HAS_GIL, reason="counts of references do not tell without the GIL")
def test_a_view_of_an_array_that_nothing_refers_to_owns_its_memory():
    x = nd.array([1.0, 2.0, 3.0, 4.0]).reshape((2, 2))
    assert x._root is not None
    x.attach_grad()
    assert x._root is None
    for _ in range(2):
        with autograd.record():
            y = (x * x).sum()
        y.backward()
        x -= 0.5 * x.grad
    assert values(x) == [[0, 0], [0, 0]]
    assert values(x[1]) == [0, 0]
    x[0] = 3
    assert values(x) == [[3, 3], [0, 0]]


def test_a_view_as_variable_stays_a_view_of_what_others_see():
    base = nd.array([1.0, 2.0, 3.0, 4.0])
    x = base.reshape((2, 2))
    x.attach_grad()
    x -= 1
    assert values(base) == [0, 1, 2, 3]
    # the name of the base is gone, but another view shares its memory
    y = nd.array([1.0, 2.0, 3.0, 4.0])
    other, y = y[1:3], y.reshape((2, 2))
    y.attach_grad()
    y += 1
    assert values(other) == [3, 4]


@pytest.mark.parametrize("is_updated", [False, True])
def test_a_view_as_variable_sees_what_is_written_to_its_base(is_updated):
    # the expected values are MXNet's
    base = nd.zeros((4,))
    view = base[0:2]
    view.attach_grad()
    if is_updated:
        view += 1
    base[:] = 7
    assert view.asnumpy().tolist() == [7, 7]
    view[:] = 2
    assert base.asnumpy().tolist() == [2, 2, 7, 7]
    base[0] = 9
    with autograd.record():
        y = (view * view).sum()
    y.backward()
    assert view.grad.asnumpy().tolist() == [18, 4]


def test_a_variable_and_a_view_of_it_as_another_variable():
    x = variable([1.0, 2.0, 3.0])
    piece = x[1:3]
    piece.attach_grad()
    with autograd.record():
        y = (piece * piece).sum() + (x * 7).sum()
    y.backward()
    assert values(piece.grad) == [4, 6]
    assert values(x.grad) == [7, 7, 7]
