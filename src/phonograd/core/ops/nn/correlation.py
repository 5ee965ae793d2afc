"""Correlation of two feature maps: the agreement of each patch of the first with displaced patches of the second."""

from __future__ import annotations

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partials
from ...graph.node import Node
from ...graph.operator import composite
from ...graph.partial_shapes import merge_all
from ..math.broadcasting import sum_to
from ..math.elementary import abs_
from ..math.primitives import embed, slice_step
from ..shape.shape import concatenate
from .pooling import window_sum
from .windows import require_uniform_dtype

__all__ = ["correlation"]


def _pad(data: Node, border: int) -> Node:
    if border == 0:
        return data
    batch, channels, height, width = data.shape
    return embed(
        data,
        (batch, channels, height + 2 * border, width + 2 * border),
        (0, 0, border, border),
        (batch, channels, border + height, border + width),
    )


def _check(data1: Node, data2: Node, sizes: dict[str, int]) -> None:
    if data1.ndim != 4 or data1.shape != data2.shape:
        raise MXNetError(
            "operator Correlation needs two arrays of one shape (batch, channel, y, x), got "
            f"{format_shape(data1.shape)} and {format_shape(data2.shape)}"
        )
    require_uniform_dtype("Correlation", data1, data2=data2)
    if sizes["kernel_size"] % 2 == 0:
        raise MXNetError(f"kernel size should be odd number: operator Correlation got {sizes['kernel_size']}")
    for word, value in sizes.items():
        least = 0 if word in ("max_displacement", "pad_size") else 1
        if value < least:
            raise MXNetError(f"value {value} for Parameter {word} should be greater equal to {least}, in Correlation")


@composite(name="Correlation")
def correlation(
    data1: Node,
    data2: Node,
    *,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    pad_size: int = 0,
    is_multiply: bool = True,
) -> Node:
    """Return the mean product (or mean distance) of patches of one array and displaced patches of another.

    There is one output channel per displacement: multiples of ``stride2`` up to ``max_displacement`` either way, rows
    first. Patches have ``kernel_size`` × ``kernel_size`` elements and are ``stride1`` apart. Both arrays are first
    padded with ``pad_size`` zeros on each side. Without ``is_multiply`` the result is the mean absolute difference.
    """
    _check(
        data1,
        data2,
        {
            "kernel_size": kernel_size,
            "max_displacement": max_displacement,
            "stride1": stride1,
            "stride2": stride2,
            "pad_size": pad_size,
        },
    )
    first, second = _pad(data1, pad_size), _pad(data2, pad_size)
    batch, channels, *extent = first.shape
    margin = max_displacement + kernel_size // 2
    counts = tuple([-(-(size - 2 * margin) // stride1) for size in extent])
    if min(counts) < 1:
        raise MXNetError(
            "Correlation cannot be done with current settings.Neighborhood and kernel don't fit in blob: data "
            f"{format_shape(data1.shape)}, pad_size {pad_size}, margin {margin} on each side"
        )
    height, width = [(count - 1) * stride1 + kernel_size for count in counts]

    def part(data: Node, down: int, right: int) -> Node:
        top, left = max_displacement + down, max_displacement + right
        return slice_step(data, (0, 0, top, left), (batch, channels, top + height, left + width))

    reach = max_displacement // stride2
    steps = [step * stride2 for step in range(-reach, reach + 1)]
    patch = part(first, 0, 0)
    maps = []
    for down in steps:
        for right in steps:
            other = part(second, down, right)
            compared = patch * other if is_multiply else abs_(patch - other)
            maps.append(sum_to(compared, (batch, 1, height, width)))
    joined = concatenate(maps, 1)
    window = (kernel_size, kernel_size)
    return window_sum(joined, window, (stride1, stride1), (0, 0), counts) / float(kernel_size**2 * channels)


# -- symbol declarations


def _equal_inputs(inputs: Partials, outputs: Partials) -> Partials:
    return [merge_all(inputs)] * len(inputs)


correlation.interface = Interface(outputs=("output", "first", "second"), shown=1, shapes=_equal_inputs)


# -- precision in mixed-precision training

for _declared in (correlation,):
    _declared.precision = "widest"
