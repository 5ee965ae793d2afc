"""Elementwise calls of a gradient rule are joined to one loop, with the same bits."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.backward import eager_rules, rule_calls
from phonograd.core.graph.learned import forget_kinds
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.graph.templates import Templates
from phonograd.core.plan.cache import forget_nodes
from phonograd.core.run import ufuncs

pytestmark = pytest.mark.skipif(
    mx.settings.current().executor == "reference" or importlib.util.find_spec("llvmlite") is None,
    reason="NumPy computes everything",
)

#: the calls that are left of the rule of each operator of one array
UNARY = {"sigmoid": 1, "tanh": 1, "sin": 1, "square": 1, "abs": 1, "arctan": 1, "expm1": 1, "erf": 1, "rsqrt": 1}
BINARY = ("broadcast_hypot", "broadcast_div", "broadcast_power", "broadcast_maximum", "broadcast_mul")


def gradients(function: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]:
    given = [nd.array(array, dtype=array.dtype) for array in arrays]
    for each in given:
        each.attach_grad()
    with autograd.record():
        loss = (function(*given) * given[0]).sum()
    loss.backward()
    return [each.grad.asnumpy() for each in given]


def forget_rule(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the rule of an operator be made anew, the one for any extents, too."""
    forget_nodes()
    forget_kinds()
    monkeypatch.setattr(REGISTRY[name], "leaf_gradient_templates", Templates())


def alone_and_joined(monkeypatch: pytest.MonkeyPatch, name: str, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    found = []
    for make in (lambda loop: None, ufuncs.ufunc_of):
        forget_rule(monkeypatch, name)
        monkeypatch.setattr(rule_calls, "linked_ufunc", make)
        found.append(gradients(getattr(nd, name), arrays))
    return found[0], found[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_joined_calls_have_the_same_bits(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    shapes = [(7, 21)] if name in UNARY else [(7, 21), (1, 21)]
    arrays = [draw.uniform(0.2, 2, shape).astype(dtype) for shape in shapes]
    alone, joined = alone_and_joined(monkeypatch, name, arrays)
    for one, other in zip(alone, joined, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", UNARY)
def test_a_rule_of_elementwise_operators_is_one_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    init = eager_rules._Rule.__init__

    def note(rule: Any, template: Any, *others: Any) -> None:
        init(rule, template, *others)
        made.append(rule)

    monkeypatch.setattr(eager_rules._Rule, "__init__", note)
    forget_rule(monkeypatch, name)
    monkeypatch.setattr(rule_calls, "linked_ufunc", ufuncs.ufunc_of)
    x = nd.array(np.linspace(0.1, 1, 13))
    x.attach_grad()
    with autograd.record():
        y = getattr(nd, name)(x)
    y.backward()
    assert [len(rule.calls) for rule in made] == [UNARY[name]]


def test_values_that_others_read_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_calls, "linked_ufunc", ufuncs.ufunc_of)
    nd.array([1.0, 2.0]).sigmoid().asnumpy()
    loop = next(loop for loop in ufuncs._loops.values() if loop.operator == "sigmoid" and str(loop.dtype) == "float32")
    function = next(each for each, found in ufuncs._loops.items() if found is loop)
    given = rule_calls.Calls([(function, [0]), (function, [1]), (function, [1])], [None] * 3, [1] * 3)
    results: list[Any] = [2, 3]
    found = rule_calls.join_calls(given, 1, lambda place: 1, results)
    assert [places for _, places in found.calls] == [[0], [1], [1]]
    assert results == [2, 3]


def test_a_slice_has_a_gradient_without_a_record() -> None:
    forget_nodes()
    forget_kinds()
    sliced = REGISTRY["_slice_step"]
    x = nd.arange(12).reshape((4, 3))
    x.attach_grad()
    with autograd.record():
        y = (x[1:3] * x[2:4]).sum()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), [[0, 0, 0], [6, 7, 8], [12, 14, 16], [6, 7, 8]])
    assert not sliced.leaf_gradient_templates._kinds
