"""Expressions that combine elements of rows are one kernel in eager programs, with the bits of plans."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd
from phonograd.core.plan import eager_expansion, eager_rows
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


def test_one_kernel_computes_rows_of_new_shapes() -> None:
    launched: list[Any] = []

    def launch(*arguments: Any) -> Any:
        launched.append(arguments)
        return original(*arguments)

    original = eager_rows.launch
    with mock.patch.object(eager_rows, "launch", launch):
        for rows in (3, 5, 9, 11, 12, 13):
            data = np.ones((rows, 31), "float32")
            pending = nd.log_softmax(nd.array(data))
            EagerProgram([resolve(pending._node)], lambda node: node.operator.name == "_leaf").run([data])
    kernels = {each.structure for (plans, *_) in launched for plan, _ in plans for each in plan.launches}
    assert len(launched) == 6
    assert len(kernels) == 1
    assert len(next(iter(kernels)).folds) == 2


def test_other_expressions_are_no_rows() -> None:
    found: list[Any] = []

    def rows(*arguments: Any) -> Any:
        found.append(eager_rows.function_of_rows(*arguments))
        return found[-1]

    data = np.random.default_rng(0).uniform(0.5, 2, (6, 8)).astype("float32")
    calls = [lambda x: nd.softmax(x, axis=0), lambda x: nd.L2Normalization(x), lambda x: nd.norm(x)]
    with mock.patch.object(eager_expansion, "function_of_rows", rows):
        for call in calls:
            planned, eager = _values(call, data)
            assert {value.tobytes() for value in eager} == {planned.tobytes()}
    assert not any(found)
