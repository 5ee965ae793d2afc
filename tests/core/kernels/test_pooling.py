"""Native pooling agrees with NumPy's reference, whatever the shapes and however its ranges are divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonograd.core.base.dtypes import BFLOAT16, FLOAT16, narrow
from phonograd.core.kernels import window_plans
from phonograd.core.kernels.pool import whole
from phonograd.core.kernels.pool.forward import Pooling
from phonograd.core.kernels.target import Machine
from phonograd.core.ops.math.structural import leaf
from phonograd.core.ops.nn import pooling as operators
from phonograd.core.run.host import host

from ..plan.plans import run

Shape = tuple[int, ...]

#: this computer, and others whose kernels it can run as well
MACHINES = [host(), Machine(32, 16), Machine(16, 32)]

examples = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Case:
    """Windows over random planes, with equal elements and NaN among them."""

    def __init__(self, shape: Shape, counts: Shape, dtype: Any, **window: Shape) -> None:
        self.shape, self.out, self.dtype, self.window = shape, (*shape[:2], *counts), np.dtype(dtype), window
        generator = np.random.default_rng(sum(shape))
        self.data = generator.integers(-6, 6, size=shape).astype(dtype)
        self.data[generator.random(shape) < 0.05] = np.nan
        self.data[generator.random(shape) < 0.02] = -np.inf
        # windows without any number
        self.data[:, -1, ..., :4] = np.nan
        self.numbers = generator.normal(size=shape).astype(dtype)
        self.grad = generator.normal(size=self.out).astype(dtype)

    def __repr__(self) -> str:
        return f"Case({self.shape}, {self.out}, {self.dtype}, {self.window})"

    def run(self, plan: Any, out: Shape, out_dtype: Any = None, **operands: np.ndarray) -> np.ndarray:
        """Return what a plan computes, after making sure that it does not depend on how ranges are divided."""
        found = run(plan, out, out_dtype=out_dtype, **operands)
        divided = run(plan, out, out_dtype=out_dtype, pieces=5, threads=2, **operands)
        assert np.array_equal(found, divided), self
        return found

    def near(self, found: np.ndarray, expected: np.ndarray) -> None:
        tolerance = 64 * np.finfo(self.dtype).eps
        assert np.allclose(found, expected, rtol=tolerance, atol=tolerance * 16), self

    def check(self, machine: Machine) -> None:
        """Assert that all primitives are right."""
        plans, counts = Pooling(machine, slots=2), self.out[2:]
        largest = operators._window_max.function(self.data, counts=counts, **self.window)
        plan = plans.largest(self.shape, self.dtype, counts=counts, **self.window)
        assert np.array_equal(self.run(plan, self.out, data=self.data), largest), self

        position = operators._window_argmax.function(self.data, largest, **self.window)
        plan = plans.position(self.shape, self.out, self.dtype, **self.window)
        operands = {"data": self.data, "largest": largest}
        assert np.array_equal(self.run(plan, self.out, np.int64, **operands), position), self

        expected, occupied = np.zeros(self.data.size, self.dtype), position >= 0
        np.add.at(expected, position[occupied], self.grad[occupied])
        plan = plans.spread_largest(self.shape, self.out, self.dtype, **self.window)
        self.near(self.run(plan, self.shape, out_grad=self.grad, **operands), expected.reshape(self.shape))

        plan = plans.sum(self.shape, self.dtype, counts=counts, **self.window)
        total = operators._window_sum.function(self.numbers, counts=counts, **self.window)
        self.near(self.run(plan, self.out, data=self.numbers), total)

        plan = plans.spread(self.out, self.dtype, extent=self.shape[2:], **self.window)
        spread = operators._window_spread.function(self.grad, extent=self.shape[2:], **self.window)
        self.near(self.run(plan, self.shape, data=self.grad), spread)

    def results(self, machine: Machine) -> list[np.ndarray]:
        """Return sums, maxima and their adjoints as the kernels of a machine compute them."""
        plans, counts = Pooling(machine, slots=2), self.out[2:]
        largest = self.run(
            plans.largest(self.shape, self.dtype, counts=counts, **self.window), self.out, data=self.data
        )
        operands = {"data": self.data, "largest": largest, "out_grad": self.grad}
        sums, spread = [
            plans.sum(self.shape, self.dtype, counts=counts, **self.window),
            plans.spread(self.out, self.dtype, extent=self.shape[2:], **self.window),
        ]
        return [
            largest,
            self.run(plans.spread_largest(self.shape, self.out, self.dtype, **self.window), self.shape, **operands),
            self.run(sums, self.out, data=self.numbers),
            self.run(spread, self.shape, data=self.grad),
        ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    spatial = draw(st.integers(1, 3))
    extent, kernel, stride, pad, counts = [], [], [], [], []
    for _ in range(spatial):
        extent.append(draw(st.integers(1, 40 if spatial < 3 else 8)))
        kernel.append(draw(st.integers(1, 5)))
        stride.append(draw(st.integers(1, 5)))
        # windows may lie in the padding or beyond the data altogether
        pad.append(draw(st.integers(0, 4)))
        fitting = max(0, extent[-1] + 2 * pad[-1] - kernel[-1]) // stride[-1] + 1
        counts.append(fitting + draw(st.integers(0, 1)))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), *extent)
    dtype = draw(st.sampled_from(["float32", "float64"]))
    return Case(shape, tuple(counts), dtype, kernel=tuple(kernel), stride=tuple(stride), pad=tuple(pad))


@examples
@given(case=cases(), machine=st.sampled_from(MACHINES))
def test_random_windows(case: Case, machine: Machine) -> None:
    case.check(machine)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "counts", "kernel", "stride", "pad"),
    [
        # shorter than one vector, and longer than another
        ((2, 3, 13, 11), (11, 9), (3, 3), (1, 1), (0, 0)),
        ((2, 3, 13, 40), (13, 40), (3, 5), (1, 1), (1, 2)),
        ((1, 2, 9, 30), (4, 9), (3, 5), (2, 3), (0, 0)),
        ((1, 2, 3, 9, 9), (1, 7, 7), (3, 3, 3), (1, 1, 1), (0, 0, 0)),
    ],
)
def test_the_length_of_vectors_changes_no_bit(
    shape: Shape, counts: Shape, kernel: Shape, stride: Shape, pad: Shape, dtype: str
) -> None:
    case = Case(shape, counts, dtype, kernel=kernel, stride=stride, pad=pad)
    first, *others = [case.results(machine) for machine in (Machine(16, 32), Machine(32, 16), Machine(64, 32))]
    for other in others:
        for expected, found in zip(first, other, strict=True):
            assert expected.tobytes() == found.tobytes()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("shape", "counts", "kernel", "stride", "pad"),
    [
        ((2, 20, 24, 24), (12, 12), (2, 2), (2, 2), (0, 0)),
        ((2, 5, 57, 57), (28, 28), (3, 3), (2, 2), (0, 0)),
        ((2, 5, 50, 50), (50, 50), (3, 3), (1, 1), (1, 1)),
        ((2, 5, 60, 60), (20, 20), (3, 3), (3, 3), (0, 0)),
        # the last windows are cut off, and rows between windows belong to none
        ((2, 3, 7, 35), (4, 18), (2, 2), (2, 2), (0, 0)),
        ((2, 3, 11, 50), (3, 17), (2, 3), (4, 3), (0, 0)),
        ((3, 7, 7, 7), (1, 1), (7, 7), (1, 1), (0, 0)),
        ((1, 2, 300), (1,), (300,), (1,), (0,)),
    ],
)
def test_usual_windows(shape: Shape, counts: Shape, kernel: Shape, stride: Shape, pad: Shape, machine: Machine) -> None:
    for dtype in ("float32", "float64"):
        Case(shape, counts, dtype, kernel=kernel, stride=stride, pad=pad).check(machine)


def test_what_kernels_are_for() -> None:
    assert Pooling.suits(np.dtype("float32"), (3, 4), (1, 2))
    assert not Pooling.suits(np.dtype("float32"), (3, 0), (1, 2))
    assert not Pooling.suits(np.dtype("float16"), (3, 4), (1, 2))


def test_no_images() -> None:
    window: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0)}
    plans = Pooling(host())
    assert not plans.largest((0, 3, 4, 4), np.dtype("float32"), counts=(2, 2), **window).launches
    assert not plans.spread((2, 0, 2, 2), np.dtype("float32"), extent=(4, 4), **window).launches


def _of_16_bits(values: np.ndarray, dtype: Any) -> np.ndarray:
    values = values.astype(np.float32)
    return narrow(values) if dtype == BFLOAT16 else values.astype(dtype)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_images_of_16_bits_are_pooled_in_parts(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    window = {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}
    shape, out = (7, 3, 12, 11), (7, 3, 6, 6)
    arrays = {
        name: _of_16_bits(np.random.default_rng(number).normal(size=size), dtype)
        for number, (name, size) in enumerate({"data": shape, "largest": out, "out_grad": out}.items())
    }
    data, largest, out_grad = [leaf(number, array.shape, dtype) for number, array in enumerate(arrays.values())]
    nodes = [
        operators._window_max(data, counts=out[2:], **window),
        operators._window_sum(data, counts=out[2:], **window),
        operators._window_spread(largest, extent=shape[2:], **window),
        operators._window_max_grad(out_grad, data, largest, **window),
        operators._window_argmax(data, largest, **window),
    ]
    for node in nodes:
        names = dict(zip(node.operator.input_names, node.inputs, strict=True))
        given = {name: list(arrays.values())[each.attributes[0]] for name, each in names.items()}
        found = []
        for part_bytes in (1 << 40, 1 << 13):
            monkeypatch.setattr(window_plans, "PART_BYTES", part_bytes)
            plan = window_plans.plan(node, node.operator.lowering, host())
            found.append((run(plan, node.shape, out_dtype=node.dtype, **given), plan.scratch_bytes))
        (whole, whole_scratch), (parts, parts_scratch) = found
        assert whole.tobytes() == parts.tobytes(), node
        assert (parts_scratch < whole_scratch) == (node.dtype == dtype)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_small_planes_have_the_same_sums(machine: Machine, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for extent in ((7, 7), (4, 5), (3, 2, 4), (16,), (14, 14)):
        ones = (1,) * len(extent)
        case = Case((4, 8, *extent), ones, dtype, kernel=extent, stride=ones, pad=(0,) * len(extent))
        case.check(machine)
        plans, window = Pooling(machine, slots=2), {"counts": ones, **case.window}
        made = [plans.sum(case.shape, case.dtype, **window), plans.largest(case.shape, case.dtype, **window)]
        assert {type(launch.structure) for plan in made for launch in plan.launches} == {whole.ReduceWhole}
        with monkeypatch.context() as patch:
            patch.setattr(whole, "suits", lambda *sizes: False)
            others = [plans.sum(case.shape, case.dtype, **window), plans.largest(case.shape, case.dtype, **window)]
        for data in (case.numbers, case.data):
            for one, other in zip(made, others, strict=True):
                assert run(one, case.out, data=data).tobytes() == run(other, case.out, data=data).tobytes()
