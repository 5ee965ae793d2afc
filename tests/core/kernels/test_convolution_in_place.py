"""Convolutions that read images in place: the same bits as with padded copies, and 1x1 convolutions as products."""

from typing import Any

import numpy as np
import pytest

from phonograd.core.kernels.conv import Convolution, depthwise_small, direct_plan, lines, pointwise
from phonograd.core.kernels.conv.depthwise import DepthwiseConvolution
from phonograd.core.kernels.conv.depthwise_small import SmallDepthwise
from phonograd.core.kernels.conv.im2col import Im2colForward
from phonograd.core.kernels.conv.lines import LinesForward
from phonograd.core.kernels.conv.pointwise import FilterVectors
from phonograd.core.kernels.conv.subsample import Subsample
from phonograd.core.kernels.matmul.gemm import Gemm
from phonograd.core.kernels.matmul.packing import Packing
from phonograd.core.kernels.scratch import Clear
from phonograd.core.kernels.target import Machine

from ..plan.plans import run
from .test_convolution import FLOAT32, MACHINES, Case

#: extents of images, strides and padding: less than a vector, whole vectors, and more
WINDOWS = (((7, 7), 1, 1), ((1, 1), 1, 1), ((3, 2), 1, 2), ((5, 16), 1, 0), ((9, 17), 1, 1), ((14, 30), 2, 1))
WINDOWS += (((5, 6), 2, 0), ((3, 2), 2, 2))


@pytest.mark.parametrize(("machine", "dtype"), [(MACHINES[0], "float32"), (MACHINES[2], "float64")], ids=str)
def test_depthwise_sums_are_those_of_padded_images(
    machine: Machine, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = Convolution(machine, slots=2)
    for extent, stride, pad in WINDOWS:
        case = Case((2, 5, *extent), (5, 1, 3, 3), dtype, stride=(stride, stride), pad=(pad, pad), groups=5)
        launches = case.plan("forward", plans).launches
        assert [type(launch.structure) for launch in launches] == [DepthwiseConvolution]
        found = {which: case.run(which, plans, pieces=3, threads=2) for which in ("forward", "data")}
        with monkeypatch.context() as patch:
            patch.setattr(direct_plan, "_reads_in_place", lambda shape: False)
            for which, values in found.items():
                np.testing.assert_array_equal(values, case.run(which, plans), err_msg=f"{which} {case}")


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_images_of_many_channels_have_the_same_sums(
    machine: Machine, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = Convolution(machine, slots=2)
    sizes: tuple[tuple[tuple[int, int], int, int, int], ...] = (
        *(((7, 7), 3, 1, 1), ((4, 5), 3, 1, 1), ((9, 11), 3, 2, 1), ((11, 10), 3, 2, 0), ((14, 14), 3, 1, 1)),
        *(((7, 7), 5, 1, 2), ((14, 14), 5, 2, 2), ((9, 8), 5, 1, 1)),
    )
    for extent, side, stride, pad in sizes:
        # with AVX-512, one and a half of the largest vectors
        groups = 3 * depthwise_small.most_lanes(machine.lanes(np.dtype(dtype)), np.dtype(dtype))
        shape = (groups, 1, side, side)
        case = Case((3, groups, *extent), shape, dtype, stride=(stride,) * 2, pad=(pad,) * 2, groups=groups)
        case.weight[1, 0, 0, 0], case.weight[2] = np.inf, -0.0
        (launch,) = case.plan("forward", plans).launches
        assert isinstance(launch.structure, SmallDepthwise)
        found = {which: case.run(which, plans, pieces=3, threads=2) for which in ("forward", "data")}
        with monkeypatch.context() as patch:
            patch.setattr(depthwise_small, "suits", lambda *shape: False)
            for which, values in found.items():
                np.testing.assert_array_equal(values, case.run(which, plans), err_msg=f"{which} {case}")


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize(
    ("data", "weight", "window"),
    [
        # lines of more than a vector, pairs of short lines and an odd one, several blocks of channels, boxes, groups
        ((2, 8, 28, 30), (8, 8, 3, 3), {"pad": (1, 1)}),
        ((1, 40, 9, 16), (5, 40, 3, 3), {"pad": (1, 1)}),
        ((2, 6, 100, 48), (16, 3, 5, 3), {"pad": (2, 1), "groups": 2}),
        ((2, 3, 21, 96), (7, 3, 3, 3), {"stride": (2, 2), "pad": (1, 1)}),
        ((1, 2, 5, 6, 32), (3, 2, 2, 3, 3), {"pad": (1, 1, 1)}),
        ((1, 5, 3000), (4, 5, 7), {"dilate": (3,), "pad": (9,)}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lines_have_the_sums_of_panels(
    data: tuple[int, ...], weight: tuple[int, ...], window: dict[str, Any], dtype: str, machine: Machine
) -> None:
    case, plans = Case(data, weight, dtype, **window), Convolution(machine, slots=2)
    assert isinstance(case.plan("forward", plans).launches[-1].structure, LinesForward)
    found = [case.run("forward", plans), case.run("forward", plans, pieces=5, threads=2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "suits", lambda *sizes: False)
        expected = case.run("forward", plans)
    for each in found:
        assert each.tobytes() == expected.tobytes()
    case.check(machine)


def test_infinite_weights_reach_the_same_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case((1, 3, 6, 6), (3, 1, 3, 3), pad=(1, 1), groups=3)
    case.weight[:, :, 0, 0] = np.inf
    case.weight[0, 0, 2, 2] = np.nan
    plans = Convolution(MACHINES[0], slots=1)
    found = case.run("forward", plans)
    monkeypatch.setattr(direct_plan, "_reads_in_place", lambda shape: False)
    np.testing.assert_array_equal(found, case.run("forward", plans))


@pytest.mark.parametrize(("side", "lanes"), [(7, 8), (9, 16)])
@pytest.mark.parametrize(("weight", "stride"), [((6, 1, 3, 3), 1), ((6, 1, 5, 5), 2)])
def test_narrow_images_have_half_of_the_largest_vectors(
    side: int, lanes: int, weight: tuple[int, ...], stride: int
) -> None:
    case = Case((2, 6, side * stride, side * stride), weight, stride=(stride,) * 2, pad=(weight[2] // 2,) * 2, groups=6)
    plans = Convolution(Machine(64, 32), slots=2)
    for which in ("forward", "data", "weight"):
        kernels = [launch.structure for launch in case.plan(which, plans).launches]
        assert {kernel.lanes for kernel in kernels if hasattr(kernel, "lanes")} == {lanes}, which
    case.check(MACHINES[0])


def test_strided_images_are_multiplied_after_subsampling() -> None:
    for data, stride, groups in (((2, 12, 9, 8), (2, 2), 1), ((1, 6, 7, 5), (3, 1), 2), ((2, 4, 11), (2,), 1)):
        weight = (10, data[1] // groups, *[1] * len(stride))
        case = Case(data, weight, stride=stride, groups=groups)
        launches = case.plan("forward", Convolution(MACHINES[0], slots=2)).launches
        assert [type(launch.structure) for launch in launches] == [Subsample, Gemm]
        case.check(MACHINES[0])
    for batch in (1, 4):
        case = Case((batch, 24, 13, 13), (48, 24, 1, 1), stride=(2, 2))
        plan = case.plan("forward", Convolution(MACHINES[0], slots=2))
        steady = plan.for_steady or plan
        assert [type(launch.structure) for launch in steady.launches] == [Subsample, Clear, Packing, FilterVectors]
        ((number, operand, *_),) = steady.prepared
        assert (number, operand) == (2, "weight")
        case.check(MACHINES[0])
        found = [run(each, case.out.shape, data=case.data, weight=case.weight) for each in (plan, steady)]
        assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize(
    ("data", "filters", "groups"),
    [
        ((1, 40, 7, 7), 30, 1),
        ((3, 400, 1, 1), 50, 1),
        ((1, 700, 1, 1), 9, 1),
        ((2, 24, 14, 14), 16, 4),
        ((2, 8, 1, 1), 12, 2),
        ((1, 16, 28, 28), 300, 1),
        ((2, 6, 5), 10, 1),
        ((1, 4, 3, 4, 5), 8, 2),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_images_are_multiplied_where_they_are(
    data: tuple[int, ...], filters: int, groups: int, dtype: str
) -> None:
    weight = (filters, data[1] // groups, *[1] * (len(data) - 2))
    case = Case(data, weight, dtype, groups=groups)
    launches = case.plan("forward", Convolution(MACHINES[0], slots=2)).launches
    assert {type(launch.structure) for launch in launches} == {Gemm}
    case.check(MACHINES[0])


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize(
    ("data", "filters", "groups"),
    [
        ((2, 21, 7, 7), 96, 1),
        ((2, 21, 7, 7), 88, 1),
        ((1, 500, 4), 16, 1),
        ((3, 40, 3, 3), 64, 2),
        ((1, 17, 14, 14), 80, 1),
        ((5, 800, 7, 7), 160, 1),
        # filters that do not fill the last vector
        ((2, 21, 7, 7), 125, 1),
        ((3, 40, 3, 3), 62, 2),
        ((2, 800, 6, 6), 79, 1),
    ],
)
def test_vectors_of_filters_have_the_sums_of_products(
    data: tuple[int, ...], filters: int, groups: int, machine: Machine
) -> None:
    weight = (filters, data[1] // groups, *[1] * (len(data) - 2))
    case = Case(data, weight, groups=groups)
    sizes = {"data": case.data, "weight": case.weight}
    expected = {slots: case.plan("forward", Convolution(machine, slots)) for slots in (1, 3)}
    results = []
    for plan in expected.values():
        vectors = plan.for_steady or plan
        assert isinstance(vectors.launches[-1].structure, FilterVectors)
        results += [run(vectors, case.out.shape, **sizes), run(vectors, case.out.shape, pieces=3, threads=2, **sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pointwise, "suits", lambda *shape: False)
        results.append(case.run("forward", Convolution(machine, slots=2)))
    for found in results[1:]:
        assert found.tobytes() == results[0].tobytes()


def test_weights_of_several_small_images_are_packed() -> None:
    for side in (2, 7):
        case = Case((2, 16, side, side), (24, 16, 1, 1))
        launches = case.plan("forward", Convolution(MACHINES[1], slots=2)).launches
        assert [type(launch.structure) for launch in launches] == [Clear, Packing, FilterVectors]
        case.check(MACHINES[1])


@pytest.mark.parametrize(
    ("side", "channels", "filters", "kernel"),
    [(56, 32, 32, Gemm), (56, 16, 96, Im2colForward), (55, 64, 32, Gemm), (55, 32, 32, Im2colForward)],
)
def test_few_filters_of_large_images_are_multiplied_where_they_are(
    side: int, channels: int, filters: int, kernel: type[object]
) -> None:
    window: dict[str, Any] = {"stride": (1, 1), "dilate": (1, 1), "pad": (0, 0), "groups": 1}
    plans = Convolution(MACHINES[0], slots=2)
    plan = plans.forward((32, channels, side, side), (filters, channels, 1, 1), FLOAT32, **window)
    assert isinstance(plan.launches[-1].structure, kernel)


def test_tiles_of_products_prefetch_the_lines_that_they_store_to() -> None:
    (launch,) = Case((1, 8, 96), (12, 8, 1)).plan("forward", Convolution(Machine(32, 16), slots=1)).launches
    for_stores = "i32 1, i32 3, i32 1)"
    # tiles of four rows, of one to three vectors, that copy or not: a line holds two vectors
    assert launch.structure.write("product").count(for_stores) == 4 * (1 + 1 + 2 + 1 + 2)
    # tiles that do not copy read a line of the next panel ahead for each term, and another one if there are few tiles
    assert launch.structure.write("product").count("i32 0, i32 2, i32 1)") == 2 * 3


def test_depthwise_kernels_prefetch_all_lines_of_the_next_image() -> None:
    counts = []
    for machine in (Machine(32, 16), Machine(64, 32)):
        window: dict[str, Any] = {"stride": (2, 2), "dilate": (1, 1), "pad": (1, 1), "groups": 5}
        (launch,) = Convolution(machine).forward((2, 5, 40, 40), (5, 1, 3, 3), FLOAT32, **window).launches
        text = launch.structure.write("depthwise")
        counts.append([text.count(f"i32 {writes}, i32 2, i32 1)") for writes in (0, 1)])
    # with stride 2, vectors of 32 bytes need 64 bytes of data for each store, and those of 64 bytes 128 bytes
    assert counts[1] == [2 * counts[0][0], counts[0][1]]
    assert min(counts[0]) > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_gradients_of_small_images_are_products(machine: Machine, dtype: str) -> None:
    case = Case((5, 96, 7, 7), (112, 96, 1, 1), dtype)
    plans = Convolution(machine, slots=2)
    kernels = [case.plan(which, plans).launches[-1].structure for which in ("data", "weight")]
    assert isinstance(kernels[0], Gemm if machine.lanes(np.dtype(dtype)) < 4 else FilterVectors)
    assert isinstance(kernels[1], Gemm)
    case.check(machine)


def test_gradients_of_many_filters_are_multiplied_where_they_are() -> None:
    case = Case((2, 12, 19, 20), (40, 12, 1, 1))
    for which in ("data", "weight"):
        kernel = case.plan(which, Convolution(MACHINES[0], slots=2)).launches[-1].structure
        assert isinstance(kernel, Gemm) == (which == "data")
    case.check(MACHINES[0])
