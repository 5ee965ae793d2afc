"""Plans of convolutions that are products of matrices: kernels of one element, and images of one pixel.

Takes products from :mod:`~phonograd.core.kernels.matmul.gemm` and vectors of filters from
:mod:`~phonograd.core.kernels.conv.pointwise`; :mod:`~phonograd.core.kernels.conv.plan` chooses them. See
docs/decisions/0019 and 0028.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...base.dtypes import DType
from ..launch import Launch, Plan, Prepared, Reference, align_up
from ..matmul.gemm import MOST_PACKED_BYTES, Matrices, gemm_for, panels, product
from ..matmul.tiles import DEPTH, LINE_BYTES
from ..target import Machine
from . import pointwise
from .geometry import Geometry
from .subsample import subsampling

__all__ = [
    "image_products",
    "is_product",
    "is_sum_of_products",
    "one_pixel_data_grad",
    "one_pixel_weight_grad",
    "sum_of_products",
    "weights_times_data",
]

#: bytes of weights from which on the lines of several rows are read slower than packed ones, one after the other
_STREAMED_BYTES = 1 << 16
#: bytes of data and results that stay in a cache; windows of an image below which products read data in place anyway;
#: and windows up to which work is divided by filters
_CACHED_BYTES, _SMALL_WINDOWS, _FEW_WINDOWS = 1 << 22, 64, 256
#: channels and filters from which on weight gradients are sums of products, and windows of an image
_SUMMED_LINES, _LEAST_TERMS = 96, 32


def is_product(shape: Geometry, dtype: DType) -> bool:
    """Return whether a convolution is a product of matrices that should be computed where they are stored.

    Gathering data and packing weights takes longer if images are small, if data and results stay in the cache, or if
    there are few filters: products prefetch the rows that they read. Results of many filters are stored faster along
    their lines, by im2col.
    """
    if shape.taps > 1 or any(shape.pad):
        return False
    touched = shape.batch * shape.groups * (shape.channels + shape.filters) * shape.windows * dtype.itemsize
    if touched <= _CACHED_BYTES or shape.windows < _SMALL_WINDOWS:
        return True
    has_whole_lines = shape.windows * dtype.itemsize % LINE_BYTES == 0
    return shape.pointwise and shape.filters <= shape.channels // (1 if has_whole_lines else 2)


def weights_times_data(machine: Machine, slots: int, shape: Geometry, dtype: DType) -> Plan:
    """Return the plan of a convolution with a kernel of one element: weights times data, image by image."""
    if not shape.pointwise:
        seen, first, size = _seen(shape, dtype)
        return _behind(weights_times_data(machine, slots, seen, dtype), first, size)
    filters, channels, windows = shape.filters, shape.channels, shape.windows
    kernel, size = gemm_for(dtype, machine), filters * channels
    if windows == 1:
        # the batch is a matrix, too
        data, out = [Matrices(shape.groups * each, 1, 0, each) for each in (channels, filters)]
        weight = Matrices(1, channels, 0, size)
        sizes, count, names = (shape.batch, channels, filters), (1, shape.groups), ("data", "weight")
        plan = product(sizes, count, data, weight, out, kernel, names=names)
        if plan.scratch_bytes or filters == 1 or size * dtype.itemsize < _STREAMED_BYTES:
            return plan
        steady = product(sizes, count, data, weight, out, kernel, names=names, in_panels=True)
        if steady.scratch_bytes:
            return plan
        packed = panels(sizes, count, weight, kernel, 1)
        pack = packed.launch._replace(words=_renamed(packed.launch.words, {"rhs": "weight", "out": "scratch"}))
        multiply = [launch._replace(words=_renamed(launch.words, {"weight": "scratch"})) for launch in steady.launches]
        prepared = Prepared(0, "weight", 0, packed.size)
        return plan._replace(for_steady=Plan((pack, *multiply), packed.size, (prepared,)))
    return image_products(machine, slots, shape, dtype)


def _seen(shape: Geometry, dtype: DType) -> tuple[Geometry, Launch, int]:
    """Return the convolution of images of the elements that are read, the launch that copies them, and their bytes."""
    size = align_up(shape.batch * shape.groups * shape.channels * shape.windows * dtype.itemsize)
    seen = dataclasses.replace(shape, extent=shape.counts, stride=(1, 1, 1))
    return seen, subsampling(shape, dtype, Reference("scratch")), size


def image_products(machine: Machine, slots: int, shape: Geometry, dtype: DType, adjoint: bool = False) -> Plan:
    """Return the plan of a 1 by 1 convolution image by image, or of gradients with the weights of another one."""
    filters, channels, windows = shape.filters, shape.channels, shape.windows
    kernel, size = gemm_for(dtype, machine), filters * channels
    data, out = [Matrices(windows, 1, shape.groups * each * windows, each * windows) for each in (channels, filters)]
    weight = Matrices(1, filters, 0, size) if adjoint else Matrices(channels, 1, 0, size)
    sizes, count = (filters, channels, windows), (shape.batch, shape.groups)
    tasks = 2 * slots if windows <= _FEW_WINDOWS else 0
    names = "weight", "out_grad" if adjoint else "data"
    plan = product(sizes, count, weight, data, out, kernel, names=names, uses=0, row_tasks=tasks)
    if pointwise.suits(machine, shape, dtype):
        packing = pointwise.plan(machine, slots, shape, dtype, adjoint)
        # products of several images whose vectors are not full take longer than packing
        is_worth_packing = windows < _SMALL_WINDOWS and windows % kernel.lanes and shape.batch > 1
        return packing if is_worth_packing else plan._replace(for_steady=packing)
    if plan.scratch_bytes or size * dtype.itemsize < _STREAMED_BYTES:
        return plan
    steady = product(sizes, count, weight, data, out, kernel, names=names, uses=0, row_tasks=tasks, packed_first=True)
    if len(steady.launches) != 2:
        return plan
    prepared = Prepared(0, "weight", 0, steady.scratch_bytes)
    return plan._replace(for_steady=steady._replace(prepared=(prepared,)))


def _renamed(words: Sequence[int | Reference], names: Mapping[str, str]) -> tuple[int | Reference, ...]:
    """Return words that refer to operands by other names."""
    renamed: list[int | Reference] = []
    for word in words:
        if isinstance(word, Reference):
            word = Reference(names.get(word.operand, word.operand), word.offset)
        renamed.append(word)
    return tuple(renamed)


def one_pixel_data_grad(machine: Machine, shape: Geometry, dtype: DType) -> Plan:
    """Return the plan of the data gradient for images of one pixel: gradients times weights."""
    filters, channels, groups = shape.filters, shape.channels, shape.groups
    out_grad, out = Matrices(groups * filters, 1, 0, filters), Matrices(groups * channels, 1, 0, channels)
    weight = Matrices(channels, 1, 0, filters * channels)
    sizes, names = (shape.batch, filters, channels), ("out_grad", "weight")
    return product(sizes, (1, groups), out_grad, weight, out, gemm_for(dtype, machine), names=names)


def one_pixel_weight_grad(machine: Machine, shape: Geometry, dtype: DType) -> Plan:
    """Return the plan of the weight gradient for images of one pixel: transposed gradients times data."""
    filters, channels, groups = shape.filters, shape.channels, shape.groups
    out_grad, data = Matrices(1, groups * filters, 0, filters), Matrices(groups * channels, 1, 0, channels)
    out = Matrices(channels, 1, 0, filters * channels)
    sizes, names = (filters, shape.batch, channels), ("out_grad", "data")
    return product(sizes, (1, groups), out_grad, data, out, gemm_for(dtype, machine), names=names)


def is_sum_of_products(shape: Geometry, dtype: DType) -> bool:
    """Return whether the weight gradient should be a sum of the products of all images, each a block of terms."""
    if shape.taps > 1 or any(shape.pad) or shape.groups > 1 or not _LEAST_TERMS <= shape.windows <= DEPTH:
        return False
    packed_bytes = shape.batch * shape.windows * shape.channels * dtype.itemsize
    return 0 < packed_bytes <= MOST_PACKED_BYTES // 2 and min(shape.channels, shape.filters) >= _SUMMED_LINES


def sum_of_products(machine: Machine, shape: Geometry, dtype: DType) -> Plan:
    """Return the plan of a weight gradient: the sum of gradients times transposed data over all images."""
    if not shape.pointwise:
        seen, first, size = _seen(shape, dtype)
        return _behind(sum_of_products(machine, seen, dtype), first, size)
    filters, channels, windows = shape.filters, shape.channels, shape.windows
    out_grad, data = Matrices(windows, 1, filters * windows), Matrices(1, windows, channels * windows)
    sizes, count, names = (filters, windows, channels), (shape.batch, 1), ("out_grad", "data")
    out = Matrices(channels, 1)
    return product(sizes, count, out_grad, data, out, gemm_for(dtype, machine), names=names, summed=True)


def _behind(plan: Plan, first: Launch, size: int) -> Plan:
    """Return a plan that runs behind a launch, which makes the plan's data in the first bytes of scratch memory."""
    launches = [_after(launch, size) for launch in plan.launches]
    prepared = [each._replace(number=each.number + 1, start=each.start + size) for each in plan.prepared]
    steady = None if plan.for_steady is None else _behind(plan.for_steady, first, size)
    return Plan((first, *launches), size + plan.scratch_bytes, tuple(prepared), steady)


def _after(launch: Launch, size: int) -> Launch:
    """Return a launch that reads data from the first bytes of scratch memory, and has its own after them."""
    words: list[int | Reference] = []
    for word in launch.words:
        if isinstance(word, Reference) and word.operand == "scratch":
            word = Reference("scratch", word.offset + size)
        elif isinstance(word, Reference) and word.operand == "data":
            word = Reference("scratch", word.offset)
        words.append(word)
    return launch._replace(words=tuple(words))
