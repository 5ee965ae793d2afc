"""Colors of images (height, width, channel): brightness, contrast, saturation, hue and lighting, fixed or random.

Integers are computed as floats and truncated. Images with one channel have neither saturation nor hue and stay
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...base.dtypes import FLOAT32, FLOAT64, is_floating
from ...base.errors import MXNetError
from ...graph.node import Node
from ...graph.operator import composite, single
from ...graph.parameters import Floats
from ..math.arithmetic import maximum, minimum, mod
from ..math.comparison import equal, greater, lesser
from ..math.elementary import abs_
from ..math.primitives import cast, reshape_to, select
from ..math.structural import constant
from ..random.random import random_normal, uniform_between
from ..reduce.reduction import mean_axes
from ..shape.arrangement import slice_along
from ..shape.shape import concatenate
from .image_resampling import check_images, saturate_cast

__all__ = ["EIGENVALUES", "EIGENVECTORS", "LUMA", "adjust_lighting"]

#: weight of each color in the brightness of a pixel
LUMA = np.array([0.299, 0.587, 0.114], np.float32)
#: principal components of the colors of ImageNet
EIGENVALUES = np.array([55.46, 4.794, 1.148])
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])

Change = Callable[[Node, Node], Node]


def _floats(name: str, data: Node) -> Node:
    """Return the colors of an image as floats."""
    check_images(name, data, True)
    return data if is_floating(data.dtype) else cast(data, FLOAT32)


def _channels(colors: Node) -> list[Node]:
    axis = colors.ndim - 1
    return [slice_along(colors, axis, channel, channel + 1) for channel in range(colors.shape[axis])]


def _gray(colors: Node) -> Node:
    red, green, blue = _channels(colors)
    return red * float(LUMA[0]) + green * float(LUMA[1]) + blue * float(LUMA[2])


def _adjust_brightness(colors: Node, factor: Node) -> Node:
    return colors * factor


def _adjust_contrast(colors: Node, factor: Node) -> Node:
    gray = _gray(colors) if colors.shape[-1] == 3 else colors
    mean = mean_axes(gray, (gray.ndim - 3, gray.ndim - 2, gray.ndim - 1), keepdims=True)
    return colors * factor + mean * (1 - factor)


def _adjust_saturation(colors: Node, factor: Node) -> Node:
    if colors.shape[-1] != 3:
        return colors
    return colors * factor + _gray(colors) * (1 - factor)


def _rotate_hue(colors: Node, turns: Node) -> Node:
    """Return colors with their hue rotated; 1 is a full turn."""
    if colors.shape[-1] != 3:
        return colors
    red, green, blue = _channels(colors)
    most = single(maximum(maximum(red, green), blue))
    least = single(minimum(minimum(red, green), blue))
    spread = most - least
    safe = select(single(greater(spread, constant(0, spread.dtype))), spread, 1)
    from_green = select(single(equal(most, green)), (blue - red) / safe + 2, (red - green) / safe + 4)
    # in sixths of a turn
    hue = select(single(equal(most, red)), (green - blue) / safe, from_green) + turns * 6
    parts = []
    for offset in (0, 4, 2):
        distance = single(abs_(single(mod(hue + offset, constant(6, hue.dtype))) - 3)) - 1
        parts.append(least + spread * single(minimum(maximum(distance, 0), 1)))
    return concatenate(parts, colors.ndim - 1)


def _factor(counter: Node, name: str, low: float, high: float, like: Node) -> Node:
    """Return a random number between two bounds, in the dtype of colors."""
    for word, limit in (("min_factor", low), ("max_factor", high)):
        if limit < 0:
            raise MXNetError(f"value {limit:g} for Parameter {word} should be greater equal to 0, in operator {name}")
    return cast(uniform_between(counter, low, high, (), FLOAT64), like.dtype)


@composite(name="_image_random_brightness")
def random_brightness(data: Node, counter: Node, *, min_factor: float, max_factor: float) -> Node:
    """Return an image with its colors multiplied by a random factor."""
    colors = _floats("_image_random_brightness", data)
    factor = _factor(counter, "_image_random_brightness", min_factor, max_factor, colors)
    return saturate_cast(_adjust_brightness(colors, factor), data.dtype)


@composite(name="_image_random_contrast")
def random_contrast(data: Node, counter: Node, *, min_factor: float, max_factor: float) -> Node:
    """Return an image with a random contrast: a random factor scales the difference from the mean brightness."""
    colors = _floats("_image_random_contrast", data)
    factor = _factor(counter, "_image_random_contrast", min_factor, max_factor, colors)
    return saturate_cast(_adjust_contrast(colors, factor), data.dtype)


@composite(name="_image_random_saturation")
def random_saturation(data: Node, counter: Node, *, min_factor: float, max_factor: float) -> Node:
    """Return an image with a random saturation: a random factor scales the difference from gray."""
    colors = _floats("_image_random_saturation", data)
    factor = _factor(counter, "_image_random_saturation", min_factor, max_factor, colors)
    return saturate_cast(_adjust_saturation(colors, factor), data.dtype)


@composite(name="_image_random_hue")
def random_hue(data: Node, counter: Node, *, min_factor: float, max_factor: float) -> Node:
    """Return an image with its hue rotated by a random fraction of a turn; 0 and 1 change nothing."""
    colors = _floats("_image_random_hue", data)
    factor = _factor(counter, "_image_random_hue", min_factor, max_factor, colors)
    return saturate_cast(_rotate_hue(colors, factor), data.dtype)


@composite(name="_image_random_color_jitter")
def random_color_jitter(
    data: Node, counter: Node, *, brightness: float, contrast: float, saturation: float, hue: float
) -> Node:
    """Return an image with random brightness, contrast, saturation and hue, changed in random order.

    Each argument is the largest distance of the factor from 1; 0 changes nothing.
    """
    colors = _floats("_image_random_color_jitter", data)
    kinds = [
        (_adjust_brightness, brightness),
        (_adjust_contrast, contrast),
        (_adjust_saturation, saturation),
        (_rotate_hue, hue),
    ]
    wanted: list[tuple[Change, float]] = [(change, amount) for change, amount in kinds if amount > 0]
    count = len(wanted)
    if not count:
        return saturate_cast(colors, data.dtype)
    drawn = uniform_between(counter, 0, 1, (2 * count,), FLOAT64)
    numbers = [reshape_to(slice_along(drawn, 0, place, place + 1), ()) for place in range(2 * count)]
    factors = []
    for (_, amount), number in zip(wanted, numbers, strict=False):
        low = max(0.0, 1 - amount)
        factors.append(cast(number * (1 + amount - low) + low, colors.dtype))
    places = numbers[count:]
    # the position of a change is the number of changes drawn before it
    ranks = [sum([cast(lesser(other, place), FLOAT32) for other in places]) for place in places]
    for step in range(count):
        outcome = colors
        for (change, _), factor, rank in zip(wanted, factors, ranks, strict=True):
            assert isinstance(rank, Node)
            outcome = select(single(equal(rank, constant(step, FLOAT32))), change(colors, factor), outcome)
        colors = outcome
    return saturate_cast(colors, data.dtype)


def _add_lighting(name: str, data: Node, alphas: list[Node | float]) -> Node:
    """Return an image with a color added: the weighted sum of the principal components."""
    colors = _floats(name, data)
    if colors.shape[-1] != 3:
        return saturate_cast(colors, data.dtype)
    parts = []
    for color, channel in zip(EIGENVECTORS * EIGENVALUES, _channels(colors), strict=True):
        terms = [alpha * float(weight) for alpha, weight in zip(alphas, color, strict=True)]
        parts.append(channel + (terms[0] + terms[1] + terms[2]))
    return saturate_cast(concatenate(parts, colors.ndim - 1), data.dtype)


@composite(name="_image_adjust_lighting")
def adjust_lighting(data: Node, *, alpha: Floats) -> Node:
    """Return an image with a color added along the principal components of the colors of ImageNet.

    ``alpha`` has the weights of the three components.
    """
    if len(alpha) != 3:
        raise MXNetError(f"alpha must have 3 numbers, not {len(alpha)}, in operator _image_adjust_lighting")
    return _add_lighting("_image_adjust_lighting", data, list(alpha))


@composite(name="_image_random_lighting")
def random_lighting(data: Node, counter: Node, *, alpha_std: float = 0.05) -> Node:
    """Return an image with a random color added along the principal components of the colors of ImageNet."""
    dtype = data.dtype if is_floating(data.dtype) else FLOAT32
    drawn = cast(single(random_normal(counter, shape=(3,), dtype=FLOAT64)) * alpha_std, dtype)
    alphas: list[Node | float] = [reshape_to(slice_along(drawn, 0, place, place + 1), ()) for place in range(3)]
    return _add_lighting("_image_random_lighting", data, alphas)
