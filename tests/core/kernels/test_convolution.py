"""Native convolutions agree with NumPy's reference, whatever the shapes and however their ranges are divided."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonograd.core.kernels.conv import Convolution, filter_lanes, lines
from phonograd.core.kernels.conv.filter_lanes import FilterLanes
from phonograd.core.kernels.conv.im2col import Im2colForward
from phonograd.core.kernels.conv.phases import Split
from phonograd.core.kernels.conv.planes import Unfold
from phonograd.core.kernels.conv.strides import Permute
from phonograd.core.kernels.conv.weight_grad_walk import WeightGradKernel
from phonograd.core.kernels.conv.weights import PackWeights
from phonograd.core.kernels.conv.winograd_few import FewTilesForward, block_size
from phonograd.core.kernels.conv.winograd_transforms import Axis, Tiling, matrices
from phonograd.core.kernels.launch import Plan
from phonograd.core.kernels.target import Machine
from phonograd.core.ops.nn import convolution as operators
from phonograd.core.run.host import host

from ..plan.plans import run

Shape = tuple[int, ...]

#: this computer, and others whose kernels it can run as well
MACHINES = [host(), Machine(32, 16), Machine(16, 32)]
FLOAT32 = np.dtype("float32")

examples = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Case:
    """A convolution with random operands: its three primitives by the reference and by kernels."""

    def __init__(self, data: Shape, weight: Shape, dtype: Any = "float32", **window: Any) -> None:
        spatial = len(data) - 2
        self.data_shape, self.weight_shape, self.dtype = data, weight, np.dtype(dtype)
        self.window = {"stride": (1,) * spatial, "dilate": (1,) * spatial, "pad": (0,) * spatial, "groups": 1, **window}
        generator = np.random.default_rng(math.prod(data) + math.prod(weight))
        self.data = generator.normal(size=data).astype(dtype)
        self.weight = generator.normal(size=weight).astype(dtype)
        self.out = operators._convolution.function(self.data, self.weight, **self.window)
        self.grad = generator.normal(size=self.out.shape).astype(dtype)

    def __repr__(self) -> str:
        return f"Case({self.data_shape}, {self.weight_shape}, {self.dtype}, {self.window})"

    def reference(self, which: str, size: bool = False) -> np.ndarray:
        """Return a primitive by the reference in double precision; with ``size`` that of the operands' sizes."""
        change = np.abs if size else np.asarray
        x, w, g = [change(a.astype(np.float64)) for a in (self.data, self.weight, self.grad)]
        if which == "forward":
            return operators._convolution.function(x, w, **self.window)
        if which == "data":
            extent = self.data_shape[2:]
            return operators._convolution_data_grad.function(g, w, extent=extent, **self.window)
        return operators._convolution_weight_grad.function(x, g, kernel=self.weight_shape[2:], **self.window)

    def plan(self, which: str, plans: Convolution) -> Plan:
        out = self.out.shape
        if which == "forward":
            return plans.forward(self.data_shape, self.weight_shape, self.dtype, **self.window)
        if which == "data":
            extent = self.data_shape[2:]
            return plans.data_grad(out, self.weight_shape, self.dtype, extent=extent, **self.window)
        kernel = self.weight_shape[2:]
        return plans.weight_grad(self.data_shape, out, self.dtype, kernel=kernel, **self.window)

    def run(self, which: str, plans: Convolution, **how: int) -> np.ndarray:
        """Return a primitive by kernels."""
        plan = self.plan(which, plans)
        if which == "forward":
            return run(plan, self.out.shape, data=self.data, weight=self.weight, **how)
        if which == "data":
            return run(plan, self.data_shape, out_grad=self.grad, weight=self.weight, **how)
        return run(plan, self.weight_shape, data=self.data, out_grad=self.grad, **how)

    def terms(self, which: str) -> int:
        """Return how many products are summed up for one element at most."""
        windows = math.prod(self.out.shape[2:])
        taps = math.prod(self.weight_shape[2:])
        per_group = self.weight_shape[0] // self.window["groups"]
        return {
            "forward": self.weight_shape[1] * taps,
            "data": per_group * taps,
            "weight": self.data_shape[0] * windows,
        }[which]

    def check(self, machine: Machine, winograd: int = 0, bound: float | None = None) -> None:
        """Assert that all three primitives are right and do not depend on how ranges are divided.

        Every error is compared with the sizes of its terms: there may be as many roundings as there are sums. With a
        ``bound``, the largest error is compared with the largest result.
        """
        plans = Convolution(machine, slots=2, winograd=winograd)
        for which in ("forward", "data", "weight"):
            found = self.run(which, plans)
            expected = self.reference(which)
            error = np.abs(found - expected)
            if bound is None:
                sizes = self.reference(which, size=True)
                assert np.all(error <= np.finfo(self.dtype).eps * (self.terms(which) + 2) * sizes), (which, self)
            else:
                assert error.max() <= bound * np.abs(expected).max(), (which, self)
            divided = self.run(which, plans, pieces=7, threads=2)
            assert np.array_equal(found, divided), (which, self)


@st.composite
def cases(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32", "float64")) -> Case:
    spatial = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    channels = draw(st.sampled_from([1, 1, 2, 3, 17]))
    filters = draw(st.sampled_from([1, 1, 2, 5, 20]))
    kernel, stride, dilate, pad, extent = [], [], [], [], []
    for _ in range(spatial):
        width = draw(st.integers(1, 4))
        gap, border = draw(st.integers(1, 2)), draw(st.integers(0, 3))
        least = max(1, gap * (width - 1) + 1 - 2 * border)
        kernel.append(width)
        dilate.append(gap)
        pad.append(border)
        stride.append(draw(st.integers(1, 4)))
        extent.append(least + draw(st.integers(0, 40 if spatial < 3 else 9)))
    data = (draw(st.integers(1, 4)), channels * groups, *extent)
    window = {"stride": tuple(stride), "dilate": tuple(dilate), "pad": tuple(pad), "groups": groups}
    return Case(data, (filters * groups, channels, *kernel), draw(st.sampled_from(dtypes)), **window)


@examples
@given(case=cases(), machine=st.sampled_from(MACHINES))
def test_random_convolutions(case: Case, machine: Machine) -> None:
    case.check(machine)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    "case",
    [
        Case((3, 33, 6, 7), (40, 33, 1, 1)),
        Case((2, 40, 9, 9), (20, 40, 1, 1), stride=(2, 2)),
        Case((3, 100, 15, 13), (110, 100, 1, 1), stride=(2, 2)),
        # many boxes, several blocks of channels
        Case((1, 70, 30, 31), (20, 70, 5, 5), pad=(2, 2)),
        Case((1, 2, 3000), (3, 2, 5), "float64", dilate=(3,), pad=(1,)),
        Case((1, 2, 3000), (3, 2, 5), stride=(2,), pad=(1,)),
        Case((2, 2, 9, 10, 30), (6, 2, 3, 3, 3), pad=(1, 1, 1)),
        # more filters than a block of a sum has steps
        Case((1, 2, 5, 6), (300, 2, 2, 3)),
        # small images, several of which are joined
        Case((9, 6, 5, 5), (7, 6, 3, 3), "float64"),
        Case((9, 6, 7, 7), (7, 6, 1, 1)),
        Case((5, 70, 9, 9), (40, 70, 3, 3), "float64"),
        Case((9, 20, 14, 14), (30, 20, 3, 3), stride=(2, 2), pad=(1, 1)),
        Case((5, 12, 7, 7), (20, 6, 3, 3), groups=2, pad=(1, 1)),
        Case((3, 20, 28, 28), (20, 1, 3, 3), groups=20, pad=(1, 1)),
        Case((3, 6, 29, 29), (12, 1, 5, 5), groups=6, stride=(2, 2), pad=(2, 2)),
        Case((2, 4, 200, 130), (4, 1, 3, 3), groups=4, pad=(1, 1)),
        # depthwise: two parts of the images, many columns with stride 2, borders wider than the kernel
        Case((11, 18, 7, 7), (18, 1, 3, 3), groups=18, pad=(1, 1)),
        Case((2, 5, 40, 70), (5, 1, 3, 3), "float64", groups=5, stride=(2, 2), pad=(1, 1)),
        Case((3, 5, 17, 31), (5, 1, 3, 3), groups=5, stride=(2, 2), pad=(1, 1)),
        Case((3, 5, 2, 3), (5, 1, 3, 3), groups=5, stride=(2, 2), pad=(1, 1)),
        Case((2, 4, 6, 19), (4, 1, 3, 3), groups=4, pad=(4, 5)),
        # channels and filters that fill vectors, in one box and in several, with a last vector that has no neighbour
        Case((3, 32, 15, 16), (48, 32, 3, 3), stride=(2, 2), pad=(1, 1)),
        Case((2, 30, 20, 21), (16, 15, 3, 2), dilate=(2, 3), pad=(5, 2), groups=2),
        Case((2, 31, 300), (32, 31, 4), stride=(3,), pad=(2,)),
        Case((1, 64, 61, 70), (28, 64, 1, 1)),
        Case((1, 128, 70, 60), (30, 128, 2, 3), stride=(1, 2)),
        # kernels as large as the image
        Case((5, 7, 4, 4), (1, 7, 4, 4)),
        Case((4, 6, 3, 5), (10, 3, 3, 5), "float64", stride=(2, 1), groups=2),
        # strided data gradients whose phases are sorted in registers, beginning with each of them
        Case((2, 6, 17, 20), (6, 1, 3, 3), groups=6, stride=(2, 2), pad=(0, 1)),
        Case((2, 3, 13, 40), (5, 3, 5, 5), stride=(3, 3), pad=(2, 1)),
        Case((1, 3, 13, 41), (5, 3, 2, 4), "float64", stride=(2, 3), pad=(1, 2)),
        # larger strides: phases are sorted factor by factor
        Case((2, 3, 21, 70), (5, 3, 4, 4), stride=(4, 4)),
        Case((2, 3, 32, 64), (20, 3, 16, 16), stride=(16, 16)),
        Case((2, 3, 15, 95), (6, 3, 7, 11), stride=(4, 6), pad=(2, 5)),
        Case((1, 1, 1000), (40, 1, 10), stride=(5,)),
        Case((1, 2, 700), (9, 2, 20), "float64", stride=(10,), pad=(3,)),
        # many weights, but few columns; one image, whose boxes are parts of a weight gradient
        Case((1, 1, 5000), (120, 1, 10), stride=(5,)),
        Case((1, 3, 70, 80), (40, 3, 3, 3)),
        Case((2, 5, 20, 60), (5, 1, 3, 5), groups=5, stride=(4, 4), pad=(1, 2)),
        Case((1, 2, 300), (3, 2, 9), stride=(7,), pad=(4,)),
    ],
    ids=repr,
)
def test_chosen_convolutions(case: Case, machine: Machine) -> None:
    case.check(machine)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("tile", [8, 6, 4])
@pytest.mark.parametrize(
    "case",
    [
        Case((2, 16, 8, 8), (16, 16, 3, 3), pad=(1, 1)),
        Case((3, 20, 9, 11), (50, 20, 3, 3), pad=(1, 1)),
        Case((3, 40, 19, 31), (72, 20, 3, 3), groups=2),
        Case((1, 40, 70, 41), (33, 40, 3, 3), pad=(2, 1)),
        Case((5, 20, 12, 12), (50, 20, 5, 5)),
        Case((2, 20, 13, 14), (17, 20, 4, 4), pad=(3, 0)),
        Case((1, 20, 9, 31), (35, 20, 5, 5), pad=(2, 2)),
        Case((2, 32, 15, 16), (34, 16, 5, 5), groups=2, pad=(4, 3)),
        # more weights than a cache holds, with as many images as there are tiles for, and with more
        Case((4, 256, 7, 9), (260, 128, 3, 3), groups=2, pad=(1, 1)),
        Case((9, 128, 14, 14), (130, 128, 3, 3)),
        # and larger images than there are tiles for
        Case((2, 121, 50, 47), (130, 121, 3, 3), pad=(1, 1)),
        # planes of three axes
        Case((2, 16, 5, 8, 9), (18, 16, 3, 3, 3), pad=(1, 1, 1)),
        Case((1, 32, 7, 12, 8), (34, 16, 2, 3, 3), stride=(2, 1, 1), dilate=(2, 1, 1), pad=(1, 1, 1), groups=2),
        # phases of dilated kernels, some of them shorter than others
        Case((2, 16, 17, 20), (18, 16, 3, 3), dilate=(2, 2), pad=(2, 2)),
        Case((1, 40, 20, 22), (34, 20, 3, 3), dilate=(2, 3), pad=(4, 0), groups=2),
        Case((2, 16, 13, 13), (17, 16, 3, 3), dilate=(1, 2), pad=(1, 2)),
        Case((1, 20, 9, 9), (18, 20, 3, 3), dilate=(5, 5), pad=(5, 5)),
        # gaps that vectors are not sorted by
        Case((1, 16, 60, 60), (18, 16, 3, 3), dilate=(17, 18), pad=(17, 0)),
        # 2 by 2 kernels, and those of phases: with taps that do not exist, and lines that no window reads
        Case((2, 16, 40, 16), (18, 16, 2, 2), pad=(1, 1)),
        Case((2, 16, 16, 16), (18, 16, 4, 4), stride=(2, 2), pad=(1, 1)),
        Case((2, 20, 17, 15), (18, 20, 4, 4), stride=(2, 2), pad=(1, 0)),
        Case((3, 40, 9, 21), (34, 20, 5, 5), stride=(2, 2), pad=(2, 2), groups=2),
        Case((9, 16, 31, 20), (16, 16, 6, 4), stride=(3, 2), pad=(0, 1)),
        Case((1, 3, 60, 41), (20, 3, 11, 11), stride=(4, 4), pad=(2, 2)),
        Case((2, 256, 16, 16), (130, 256, 4, 4), stride=(2, 2), pad=(1, 1)),
        Case((2, 16, 3, 18, 16), (18, 16, 1, 4, 4), stride=(1, 2, 2), pad=(0, 1, 1)),
        # tiles along one axis: lines, columns, phases of dilations and strides, and planes that are merged
        Case((3, 20, 9, 30), (35, 20, 1, 3), pad=(0, 1)),
        Case((2, 40, 17, 11), (34, 20, 7, 1), pad=(3, 0), groups=2),
        Case((2, 20, 15, 10), (18, 20, 5, 1), pad=(1, 0)),
        Case((2, 16, 60), (18, 16, 2)),
        Case((2, 16, 61), (18, 16, 3), dilate=(4,), pad=(4,)),
        Case((2, 16, 60), (18, 16, 4), stride=(2,), pad=(1,)),
        Case((2, 16, 8, 10, 9), (18, 16, 3, 1, 1), pad=(1, 0, 0)),
        Case((3, 260, 40), (270, 260, 3), pad=(1,)),
        # and bands of such tiles, along x
        Case((1, 20, 1300), (35, 20, 3), pad=(1,)),
        Case((2, 16, 3, 700), (18, 16, 3, 1), pad=(1, 0)),
        Case((1, 40, 1001), (35, 40, 4), stride=(2,), pad=(1,)),
        Case((1, 200, 1201), (180, 200, 3), pad=(2,)),
        # images of less than a whole tile
        Case((8, 16, 5, 5), (18, 16, 4, 4)),
    ],
    ids=repr,
)
def test_winograd(case: Case, tile: int, machine: Machine) -> None:
    case.check(machine, winograd=tile, bound={8: 1e-5, 6: 5e-6, 4: 1e-6}[tile])


@pytest.mark.parametrize("batch", [1, 16])
def test_winograd_reads_weights_without_gathers_and_spreads_them_over_the_cache(batch: int) -> None:
    case = Case((batch, 128, 14, 14), (128, 128, 3, 3), pad=(1, 1))
    for machine in MACHINES:
        for which in ("forward", "data"):
            for launch in case.plan(which, Convolution(machine)).launches:
                assert "masked.gather" not in launch.structure.write("kernel")
        lanes = machine.lanes(FLOAT32)
        assert block_size(lanes) % (2 * lanes) == lanes


def test_packed_weights_are_prefetched() -> None:
    case = Case((1, 64, 7, 7), (64, 64, 3, 3), pad=(1, 1))
    launches = case.plan("forward", Convolution(host(), winograd=0)).launches
    (product,) = [launch.structure for launch in launches if isinstance(launch.structure, Im2colForward)]
    assert "llvm.prefetch" in product.write("kernel")
    # the weights of a data gradient are short runs
    launches = case.plan("data", Convolution(host(), winograd=0)).launches
    (packing,) = [launch.structure for launch in launches if isinstance(launch.structure, PackWeights)]
    assert "llvm.prefetch" in packing.write("kernel")


def test_winograd_is_for_single_precision_and_many_channels() -> None:
    wide = Case((2, 16, 8, 8), (16, 16, 3, 3), pad=(1, 1))
    double = Case((2, 16, 8, 8), (16, 16, 3, 3), "float64", pad=(1, 1))
    narrow = Case((2, 3, 8, 8), (16, 3, 3, 3), pad=(1, 1))
    strided = Case((2, 16, 8, 8), (16, 16, 3, 3), pad=(1, 1), stride=(2, 2))

    def uses(case: Case, tile: int = 6) -> bool:
        launches = case.plan("forward", Convolution(host(), winograd=tile)).launches
        return any(["winograd" in type(launch.structure).__module__ for launch in launches])

    assert uses(wide)
    assert not any([uses(wide, 0), uses(double), uses(narrow), uses(strided)])


def test_winograd_has_small_tiles_where_they_need_no_more_products() -> None:
    def tiling(extent: Shape, winograd: int = 8, batch: int = 4) -> Tiling | None:
        case = Case((batch, 16, *extent), (16, 16, 3, 3), pad=(1, 1))
        launches = case.plan("forward", Convolution(host(), winograd=winograd)).launches
        return next(filter(None, [getattr(launch.structure, "tiling", None) for launch in launches]), None)

    # four tiles of 36 products, four of 25, or nine of 16; four of 36, or nine of 25; and four of 16, or one of 36
    assert tiling((5, 5)) == tiling((6, 6)) == Tiling(3, 3)
    assert tiling((7, 7)) == tiling((8, 8)) == Tiling(4, 3)
    assert tiling((4, 3)) == Tiling(4, 3)
    assert tiling((5, 5), winograd=4) == Tiling(2, 3)
    assert tiling((5, 5), winograd=0) is None
    assert tiling((2, 2)) is None
    for extent in ((5, 5), (6, 5)):
        Case((4, 20, *extent), (18, 20, 3, 3), pad=(1, 1)).check(host(), winograd=8, bound=1e-6)


def test_winograd_has_tiles_along_one_axis() -> None:
    def tiling(weight: Shape, extent: Shape, winograd: int = 8, batch: int = 2, **window: Any) -> Tiling | None:
        case = Case((batch, weight[1], *extent), weight, **window)
        launches = case.plan("forward", Convolution(host(), winograd=winograd)).launches
        return next(filter(None, [getattr(launch.structure, "tiling", None) for launch in launches]), None)

    assert tiling((32, 32, 3), (100,), pad=(1,)) == tiling((32, 32, 1, 3), (10, 100)) == Tiling(4, 3, "x")
    assert tiling((32, 32, 3, 1), (12, 20), pad=(1, 0)) == Tiling(4, 3, "y")
    assert tiling((32, 32, 3, 1, 1), (8, 7, 7), pad=(1, 0, 0)) == Tiling(4, 3, "y")
    assert tiling((32, 32, 5), (100,)) == Tiling(4, 5, "x")
    assert tiling((32, 32, 5), (100,), winograd=6) == Tiling(2, 5, "x")
    assert tiling((32, 32, 3, 5), (20, 20)) is None
    # copies of phases would take longer than the products that they save
    dilated: dict[str, Any] = {"dilate": (8,), "pad": (8,)}
    assert tiling((256, 256, 3), (100,), **dilated) == Tiling(4, 3, "x")
    assert tiling((16, 16, 2), (100,), dilate=(8,)) is None


def test_winograd_computes_phases_of_strides() -> None:
    def kernels(case: Case, primitive: str, winograd: int = 8) -> set[type]:
        launches = case.plan(primitive, Convolution(host(), winograd=winograd)).launches
        return {type(launch.structure) for launch in launches}

    window: dict[str, Any] = {"stride": (2, 2), "pad": (1, 1)}
    even = Case((2, 32, 16, 16), (32, 32, 4, 4), **window)
    # nearly half of the taps of its phases would be zeros; and its copies of data and weights are float64
    odd, double = (
        Case((2, 32, 16, 16), (32, 32, 3, 3), **window),
        Case((2, 32, 16, 16), (32, 32, 4, 4), float, **window),
    )
    for primitive in ("forward", "data", "weight"):
        assert Permute in kernels(even, primitive)
        assert not any([Permute in kernels(case, primitive) for case in (odd, double)])
        assert Permute not in kernels(even, primitive, winograd=0)
    # weights in the order of phases can be kept
    assert [each.operand for each in even.plan("forward", Convolution(host())).prepared] == ["weight"]
    # one pair of vectors of filters would be multiplied by one thread
    few = Case((4, 21, 128, 128), (21, 21, 16, 16), stride=(8, 8), pad=(4, 4))
    assert FewTilesForward not in kernels(few, "forward")


def test_winograd_computes_planes_of_three_axes() -> None:
    volume = Case((1, 16, 4, 8, 8), (16, 16, 3, 3, 3), pad=(1, 1, 1))
    for primitive in ("forward", "data", "weight"):
        kernels = {type(launch.structure) for launch in volume.plan(primitive, Convolution(host())).launches}
        assert Unfold in kernels
        kernels = {
            type(launch.structure) for launch in volume.plan(primitive, Convolution(host(), winograd=0)).launches
        }
        assert Unfold not in kernels


def test_winograd_computes_phases_of_dilated_kernels() -> None:
    dilated = Case((1, 16, 16, 16), (16, 16, 3, 3), dilate=(2, 2), pad=(2, 2))
    # no phase has whole padding
    odd = Case((1, 16, 16, 16), (16, 16, 3, 3), dilate=(2, 2), pad=(1, 1))
    for primitive in ("forward", "data", "weight"):
        for case, winograd, is_split in ((dilated, 8, True), (dilated, 0, False), (odd, 8, False)):
            launches = case.plan(primitive, Convolution(host(), winograd=winograd)).launches
            assert (Split in {type(launch.structure) for launch in launches}) == is_split


@pytest.mark.parametrize(
    "tiling",
    [Axis(*sizes) for sizes in ((2, 3), (3, 2), (3, 3), (4, 2), (4, 3), (2, 4), (2, 5), (5, 2), (3, 4), (4, 5))],
)
def test_winograd_matrices_are_exact(tiling: Axis) -> None:
    kernel = [Fraction(k * k - 3, 7) for k in range(tiling.kernel)]
    data = [Fraction(5 - k**3, 3) for k in range(tiling.size)]
    found = matrices(tiling)

    def times(matrix: Any, column: list[Fraction]) -> list[Fraction]:
        return [sum([a * b for a, b in zip(row, column)], Fraction(0)) for row in matrix]

    products = [a * b for a, b in zip(times(found.kernel, kernel), times(found.data, data))]
    expected = [sum([kernel[k] * data[o + k] for k in range(tiling.kernel)]) for o in range(tiling.outputs)]
    assert times(found.outputs, products) == expected


@pytest.mark.parametrize(
    ("weight", "extent", "groups"),
    [
        ((64, 64, 3, 3), (28, 28), 1),
        ((50, 20, 5, 5), (12, 12), 1),
        ((20, 1, 5, 5), (28, 28), 1),
        ((64, 32, 1, 1), (14, 14), 1),
        ((32, 1, 3, 3), (14, 14), 32),
        ((12, 32, 7, 7), (21, 40), 1),
        ((12, 10, 3, 3), (9, 9), 1),
        ((128, 128, 3, 3), (14, 14), 1),
        ((40, 6, 1, 1), (7, 7), 2),
        ((192, 128, 7, 1), (17, 17), 1),
    ],
)
def test_new_batch_sizes_compile_nothing_new(weight: Shape, extent: Shape, groups: int) -> None:
    plans = Convolution(host(), slots=2)
    window: dict[str, Any] = {"stride": (1, 1), "dilate": (1, 1), "pad": (0, 0), "groups": groups}
    counts = tuple([size - width + 1 for size, width in zip(extent, weight[2:])])

    def structures(batch: int) -> set[Any]:
        data, out = (batch, weight[1] * groups, *extent), (batch, weight[0], *counts)
        made = [
            plans.forward(data, weight, FLOAT32, **window),
            plans.data_grad(out, weight, FLOAT32, extent=extent, **window),
            plans.weight_grad(data, out, FLOAT32, kernel=weight[2:], **window),
        ]
        return {launch.structure for plan in made for launch in plan.launches}

    usual = structures(64)
    if math.prod(weight[2:]) == 1:
        # small batches are products
        usual |= structures(1)
    for batch in (1, 2, 7, 16, 100):
        assert structures(batch) <= usual


def test_no_images() -> None:
    plans = Convolution(host())
    window: dict[str, Any] = {"stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "groups": 1}
    for weight in ((17, 16, 3, 3), (5, 3, 2, 2)):
        data = np.zeros((0, weight[1], 6, 6), np.float32)
        out = (0, weight[0], 6 + 3 - weight[2], 6 + 3 - weight[3])
        assert not plans.forward(data.shape, weight, FLOAT32, **window).launches
        assert not plans.data_grad(out, weight, FLOAT32, extent=(6, 6), **window).launches
        plan = plans.weight_grad(data.shape, out, FLOAT32, kernel=weight[2:], **window)
        found = run(plan, weight, data=data, out_grad=np.zeros(out, np.float32))
        assert np.array_equal(found, np.zeros(weight))


def test_what_kernels_are_for() -> None:
    assert Convolution.suits((2, 3, 4, 4), (5, 3, 1, 1), FLOAT32)
    assert not Convolution.suits((2, 3, 4, 4), (5, 3, 1, 1), np.dtype("float16"))
    assert not Convolution.suits((2, 0, 4, 4), (5, 0, 1, 1), FLOAT32)


@pytest.mark.parametrize("stride", [4, 5, 16])
def test_strides_are_sorted_without_gathers(stride: int) -> None:
    case = Case((2, 3, 20, 200), (6, 3, 16, 16), stride=(stride, stride))
    for which in ("forward", "data", "weight"):
        for launch in case.plan(which, Convolution(host(), slots=2)).launches:
            assert "masked.gather" not in launch.structure.write("kernel"), (which, launch.structure)


@pytest.mark.parametrize("machine", [Machine(32, 32), Machine(16, 32)])
@pytest.mark.parametrize(
    "case",
    [
        # lines of tiles of two sizes, two blocks of channels, and filters that do not fill the last vector
        Case((2, 50, 17, 17), (40, 50, 1, 7), pad=(0, 3)),
        Case((2, 50, 17, 17), (47, 50, 7, 1)),
        # several lines in a tile: with a rest, and in boxes whose last one is smaller
        Case((3, 33, 13, 13), (70, 33, 3, 3), stride=(2, 2), pad=(1, 1)),
        Case((2, 80, 60, 9), (64, 40, 4, 3), stride=(2, 2), groups=2),
        # boxes that are parts of a line, planes, and vectors of four elements
        Case((1, 24, 903), (64, 24, 9)),
        Case((1, 12, 6, 19, 11), (64, 12, 2, 3, 3), stride=(1, 2, 1)),
        Case((2, 20, 15, 15), (40, 20, 3, 3), "float64", stride=(2, 2)),
    ],
    ids=repr,
)
def test_filters_in_lanes_have_the_bits_of_columns(
    case: Case, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_used(which: str) -> bool:
        launches = case.plan(which, Convolution(machine, slots=2, winograd=0)).launches
        return FilterLanes in {type(launch.structure) for launch in launches}

    monkeypatch.setattr(lines, "suits", lambda *_: False)
    monkeypatch.setattr(filter_lanes, "suits", lambda *_: True)
    assert is_used("forward")
    case.check(machine)
    found = {which: case.run(which, Convolution(machine, slots=2, winograd=0)) for which in ("forward", "data")}
    monkeypatch.setattr(filter_lanes, "suits", lambda *_: False)
    for which, result in found.items():
        assert not is_used(which)
        assert np.array_equal(result, case.run(which, Convolution(machine, slots=2, winograd=0))), which


@pytest.mark.parametrize("weight", [(120, 1, 10), (40, 3, 9), (5, 1, 3)])
def test_weight_gradients_of_one_image_are_divided(weight: Shape) -> None:
    for batch in (1, 2):
        case = Case((batch, weight[1], 20_000), weight, stride=(5,))
        launches = case.plan("weight", Convolution(host(), slots=2)).launches
        assert max([launch.extent for launch in launches if isinstance(launch.structure, WeightGradKernel)]) >= 4


def test_algorithms_are_chosen_by_shape() -> None:
    plans = Convolution(host(), winograd=0)

    def names(batch: int, weight: Shape, extent: Shape, which: str, **given: Any) -> list[str]:
        window: dict[str, Any] = {"stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "groups": 1, **given}
        axes = zip(extent, weight[2:], window["stride"], window["pad"])
        counts = tuple([(size + 2 * pad - width) // step + 1 for size, width, step, pad in axes])
        out = (batch, weight[0], *counts)
        if which == "data":
            plan = plans.data_grad(out, weight, FLOAT32, extent=extent, **window)
        else:
            plan = plans.weight_grad((batch, weight[1], *extent), out, FLOAT32, kernel=weight[2:], **window)
        return [type(launch.structure).__name__ for launch in plan.launches]

    assert "Im2colForward" in names(4, (20, 70, 3, 3), (14, 14), "data")
    in_lanes = "FilterLanes" if host().registers >= 32 else "Im2colForward"
    assert in_lanes in names(4, (64, 64, 1, 7), (17, 17), "data", pad=(0, 3))
    assert "LinesForward" in names(4, (20, 20, 3, 3), (14, 14), "data")
    assert "Im2colDataGrad" in names(4, (20, 20, 3, 3), (14, 14), "data", stride=(2, 2))
    assert "Im2colDataGrad" in names(4, (20, 3, 3, 3), (14, 14), "data")
    assert "Im2colDataGrad" in names(4, (20, 20, 3, 3), (5, 5), "data", pad=(0, 0))
    assert "Im2colWeightGrad" in names(4, (64, 3, 7, 7), (32, 32), "weight")
    assert "FewWeightsGrad" in names(4, (20, 1, 5, 5), (32, 32), "weight")
    assert names(2, (128, 96, 1, 1), (28, 28), "weight", stride=(2, 2), pad=(0, 0))[-1] == "Gemm"
    assert "FewWeightsGrad" in names(1, (512, 1, 10), (16_000,), "weight", stride=(5,), dilate=(1,), pad=(0,))
