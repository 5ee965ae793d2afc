"""Compiled functions that return views: repeated where nobody can tell them from arrays of their own."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import phonograd as mx
from phonograd import autograd
from phonograd.gluon import nn

KINDS = [mx.nd, mx.np]
of_either_kind = pytest.mark.parametrize("kind", KINDS, ids=["nd", "np"])


def called(function: Any, kind: Any) -> tuple[Any, int]:
    """Return the last of three results, and how often Python code was not run for it."""
    compiled = mx.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for number in range(3):
            result = compiled(kind.ones((2, 3)) * number)
    return result, compiled.repeated


@of_either_kind
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: (x * 2).reshape((-1,)), [4.0] * 6),
        (lambda x: (x + 1)[1], [3.0] * 3),
        (lambda x: (x + 1)[0:1].reshape((3, 1)), [[3.0]] * 3),
    ],
    ids=["reshape", "row", "view of a view"],
)
def test_a_view_of_what_nobody_else_has(function: Any, wanted: Any, kind: Any) -> None:
    result, repeated = called(function, kind)
    assert (result.asnumpy().tolist(), repeated) == (wanted, 2)
    result[:] = 7
    assert result.asnumpy().reshape(-1)[0] == 7


@of_either_kind
def test_a_view_that_has_to_look_again(kind: Any) -> None:
    def changed(x: Any) -> Any:
        whole = x * 2
        row = whole[0]
        whole[:] = whole + 1
        return row

    result, repeated = called(changed, kind)
    assert (result.asnumpy().tolist(), repeated) == ([5.0] * 3, 2)


@of_either_kind
def test_views_that_somebody_can_see_each_other_through(kind: Any) -> None:
    kept: list[Any] = []

    def overlapping(x: Any) -> Any:
        whole = x * 2
        return whole[0:2], whole[1:2]

    def of_what_is_kept(x: Any) -> Any:
        kept.append(x * 2)
        return kept[-1][0]

    (first, second), repeated = called(overlapping, kind)
    assert repeated == 0
    first[1] = 9
    assert second.asnumpy().tolist() == [[9.0] * 3]
    result, repeated = called(of_what_is_kept, kind)
    assert repeated == 0
    kept[-1][0] = 8
    assert result.asnumpy().tolist() == [8.0] * 3


@of_either_kind
def test_a_view_of_an_argument_shares_its_memory(kind: Any) -> None:
    compiled = mx.compile(lambda x: x[1])
    with pytest.warns(RuntimeWarning, match="is called each time"):
        compiled(kind.ones((2, 3)))
    x = kind.ones((2, 3))
    compiled(x)[:] = 5
    assert x.asnumpy().tolist() == [[1.0] * 3, [5.0] * 3]


@of_either_kind
def test_a_view_of_a_changed_argument_shares_its_memory(kind: Any) -> None:
    def change(x: Any) -> Any:
        view = x[1]
        x[:] = x + 1
        return view, x

    def change_unseen(x: Any) -> Any:
        x[1] = x[0] + 1
        return x

    (view, whole), repeated = called(change, kind)
    assert repeated == 0
    assert view.asnumpy().tolist() == [3.0] * 3
    whole[1] = 7
    assert view.asnumpy().tolist() == [7.0] * 3
    whole, repeated = called(change_unseen, kind)
    assert repeated == 2
    assert whole.asnumpy().tolist() == [[2.0] * 3, [3.0] * 3]


@of_either_kind
def test_gradients_pass(kind: Any) -> None:
    class Flat(nn.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return (x * x).reshape((-1,))

    block = Flat()
    block.hybridize()
    x = kind.array([[1.0, 2.0], [3.0, 4.0]])
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            y = block(x)
        y.backward()
        assert x.grad.asnumpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert block._compiled.repeated == 2
