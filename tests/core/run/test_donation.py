"""Donation never changes a value that can still be seen: random programs with aliases, views, exports and records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as search
from hypothesis import strategies as st

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base import settings
from phonograd.core.capture import replay
from phonograd.core.run import donation

#: large enough for donation
SHAPE = (80, 64)
KINDS = (
    *("new", "update", "assign", "rebind", "compiled", "shared"),
    *("alias", "copy", "view", "change view", "export", "export part", "drop", "record", "backward", "wait", "look"),
)
Step = tuple[str, int, int]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 7), st.integers(0, 7)), min_size=5, max_size=30)
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]


#: a call that changes a view is not captured, which the first one says
pytestmark = pytest.mark.filterwarnings("ignore:.*shares memory with another one")


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with settings.override(executor="native"):
        yield


@mx.compile
def _descend(weight: Any, slope: Any) -> None:
    weight -= 0.125 * slope


class _Program:
    """Arrays with their NumPy models, and everything else that sees their memory."""

    def __init__(self) -> None:
        #: (array, model): views of arrays have views of models
        self.arrays: list[tuple[Any, Any]] = []
        self.others: list[tuple[Any, Any]] = []
        #: what was exported, and its value at that time
        self.exports: list[tuple[Any, Any]] = []
        #: results that were recorded, the arrays they were computed from, and the values of these at that time
        self.records: list[tuple[Any, Any, Any]] = []
        self._made = 0
        for _ in range(3):
            self.new()

    def run(self, steps: list[Step]) -> None:
        """Run a program, and compare everything that can be seen at its end."""
        for kind, one, other in steps:
            getattr(self, kind.replace(" ", "_"))(*[number % len(self.arrays) for number in (one, other)])
        self.look()

    def new(self, *_: int) -> None:
        self._made += 1
        array, model = nd.ones(SHAPE) * self._made, np.full(SHAPE, self._made, np.float32)
        array.wait_to_read()
        self.arrays.append((array, model))

    def update(self, one: int, other: int) -> None:
        (array, model), (slope, its_model) = self.arrays[one], self.arrays[other]
        array -= 0.125 * slope
        model -= np.float32(0.125) * its_model

    def assign(self, one: int, other: int) -> None:
        (array, model), (value, its_model) = self.arrays[one], self.arrays[other]
        array[:] = value * 0.5 + 1
        model[:] = its_model * np.float32(0.5) + np.float32(1)

    def rebind(self, one: int, other: int) -> None:
        (array, model), (value, its_model) = self.arrays[one], self.arrays[other]
        self.arrays[one] = array * 0.5 + value, model * np.float32(0.5) + its_model

    def compiled(self, one: int, other: int) -> None:
        (array, model), (slope, its_model) = self.arrays[one], self.arrays[other]
        # tests/core/capture/test_compiled_programs.py has compiled functions that change variables
        if array is not slope and array.grad is None:
            _descend(array, slope)
            model -= np.float32(0.125) * its_model

    def shared(self, one: int, other: int) -> None:
        """Give two arrays one value: either can be updated without the other."""
        (array, model), (value, its_model) = self.arrays[one], self.arrays[other]
        array[:] = value
        model[:] = its_model

    def alias(self, one: int, _: int) -> None:
        self.others.append(self.arrays[one])

    def copy(self, one: int, other: int) -> None:
        array, model = self.arrays[one]
        self.arrays[other] = array.copy(), model.copy()

    def view(self, one: int, other: int) -> None:
        array, model = self.arrays[one]
        self.others.append((array[other : other + 4], model[other : other + 4]))

    def change_view(self, one: int, _: int) -> None:
        if self.others:
            view, model = self.others[one % len(self.others)]
            view += 1
            model += 1

    def export(self, one: int, _: int) -> None:
        array, model = self.arrays[one]
        self.exports.append((np.asarray(array), model.copy()))

    def export_part(self, one: int, other: int) -> None:
        array, model = self.arrays[one]
        self.exports.append((memoryview(np.asarray(array)[other:]), model[other:].copy()))

    def drop(self, one: int, _: int) -> None:
        for kept in (self.others, self.exports, self.records):
            del kept[one : one + 1]

    def record(self, one: int, _: int) -> None:
        array, model = self.arrays[one]
        if array.grad is None:
            array.attach_grad()
        with autograd.record():
            self.records.append((array * array * 0.5, array, model.copy()))

    def backward(self, one: int, _: int) -> None:
        if self.records:
            result, array, seen = self.records.pop(one % len(self.records))
            result.backward()
            np.testing.assert_array_equal(array.grad.asnumpy(), seen)

    def wait(self, *_: int) -> None:
        nd.waitall()

    def look(self, *_: int) -> None:
        for array, model in self.arrays + self.others:
            np.testing.assert_array_equal(array.asnumpy(), model)
        for array, model in self.exports:
            np.testing.assert_array_equal(np.asarray(array), model)


#: an export that outlives an update, a value that two arrays have, and an update of a recorded array
SHORT: list[Step] = [("export", 0, 0), ("update", 0, 1), ("wait", 0, 0)]
TWO: list[Step] = [("shared", 0, 1), ("wait", 0, 0), ("update", 0, 2), ("wait", 0, 0), ("compiled", 1, 2)]
RECORDED: list[Step] = [("record", 0, 0), ("update", 0, 1), ("wait", 0, 0), ("backward", 0, 0)]


@search(max_examples=75, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
@example(SHORT)
@example(TWO)
@example(RECORDED)
@given(STEPS)
def test_values_that_can_be_seen_never_change(steps: list[Step]) -> None:
    _Program().run(steps)


@pytest.mark.slow
@search(max_examples=5000, deadline=None, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_values_that_can_be_seen_never_change_in_many_programs(steps: list[Step]) -> None:
    _Program().run(steps)


counting_interpreters = pytest.mark.skipif(not donation.COUNTS, reason="nothing is donated without counts")


@counting_interpreters
@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize("way", ["update", "compiled"])
def test_such_programs_do_donate(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    donated: list[int] = []
    begin = donation.Donation.begin

    def counting(self: Any, *arguments: Any) -> Any:
        donated.append(len(self))
        return begin(self, *arguments)

    monkeypatch.setattr(donation.Donation, "begin", counting)
    _Program().run([(way, 0, 1), ("wait", 0, 0)] * 4)
    assert donated


@counting_interpreters
@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize("steps", [SHORT, TWO])
def test_such_programs_find_counts_that_are_wrong(monkeypatch: pytest.MonkeyPatch, steps: list[Step]) -> None:
    for module in (donation, replay):
        monkeypatch.setattr(module, "is_unshared", lambda items, index, others: True)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        _Program().run(steps)
