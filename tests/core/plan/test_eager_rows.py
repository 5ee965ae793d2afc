"""Expressions that combine elements of rows are one kernel in eager programs, with the bits of plans."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd
from phonograd.core.plan import eager_rows
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.run.reference import resolve

NAMES = ("log_softmax", "softmax", "softmin")
#: the last ones have rows of one element, and elements for several launches
SHAPES = [(1, 200), (20, 200), (2, 3, 17), (200,), (1, 2), (5, 1000), (3, 4097), (7, 1), (70, 1000), (0, 3)]


def _values(call: Any, data: Any) -> tuple[Any, Any]:
    """Return the values of a call from a plan, and from some runs of an eager program."""
    with mx.settings.override(tiers="plan"):
        planned = call(nd.array(data, dtype=data.dtype)).asnumpy()
    pending = call(nd.array(data, dtype=data.dtype))
    program = EagerProgram([resolve(pending._node)], lambda node: node.operator.name == "_leaf")
    return planned, [program.run([data])[0] for _ in range(3)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_bits_of_plans(name: str, dtype: str) -> None:
    call = getattr(nd, name)
    for shape in SHAPES:
        data = np.random.default_rng(0).normal(size=shape).astype(dtype)
        planned, eager = _values(call, data)
        assert {value.tobytes() for value in eager} == {planned.tobytes()}, shape
        assert all(value.shape == shape and value.dtype == planned.dtype for value in eager)


def test_any_strides_and_other_axes() -> None:
    data = np.random.default_rng(0).normal(size=(6, 8)).astype("float32")
    for axis in (0, 1):
        for layout in (data, np.asfortranarray(data), data[::2], data[:, ::-1]):
            pending = nd.log_softmax(nd.array(layout), axis=axis)
            program = EagerProgram([resolve(pending._node)], lambda node: node.operator.name == "_leaf")
            expected = program.run([np.ascontiguousarray(layout)])[0]
            assert program.run([layout])[0].tobytes() == expected.tobytes()


def _run(data: Any) -> Any:
    pending = nd.log_softmax(nd.array(data, dtype=data.dtype))
    return EagerProgram([resolve(pending._node)], lambda node: node.operator.name == "_leaf").run([data])[0]


def test_one_launch_computes_rows_of_new_shapes() -> None:
    _run(np.ones((2, 31), "float32"))
    before = [*eager_rows._known]
    with mock.patch.object(eager_rows, "rows_of", side_effect=AssertionError("a kernel was looked for")):
        for count in range(3, 20):
            # shapes that come back need no functions of their own
            for _ in range(6):
                value = _run(np.ones((count, 31), "float32"))
            np.testing.assert_allclose(value, np.full((count, 31), -np.log(31)), rtol=1e-6)
    assert [*eager_rows._known] == before
    assert any(len(structure.folds) == 2 for structure in before)


def test_sums_that_are_no_rows_for_other_extents() -> None:
    """The kernel is chosen for the shape of the first call; others may have fewer numbers in a sum, or more."""
    for shape in [(4, 5), (6, 7), (1, 7), (6, 1), (1, 1), (300, 400), (8, 9), (0, 9), (9, 0), (3, 2)]:
        data = np.random.default_rng(0).normal(size=shape).astype("float32")
        planned, eager = _values(nd.softmax, data)
        assert {value.tobytes() for value in eager} == {planned.tobytes()}, shape


def test_other_expressions_are_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager_rows, "_known", {})
    data = np.random.default_rng(0).uniform(0.5, 2, (6, 8)).astype("float32")
    calls = [lambda x: nd.softmax(x, axis=0), lambda x: nd.L2Normalization(x), lambda x: nd.norm(x)]
    for call in calls:
        planned, eager = _values(call, data)
        assert {value.tobytes() for value in eager} == {planned.tobytes()}
    assert not eager_rows._known
