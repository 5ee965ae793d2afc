"""Images as tensors: channels first, normalized colors, crops and flips.

Images are (height, width, channel). Operators of ``nd.image`` have gradients of every order, if they are
differentiable.
"""

from __future__ import annotations

from ...base.dtypes import FLOAT32, is_floating, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, outputs_of_type
from ...graph.node import Node
from ...graph.operator import composite, single
from ...graph.parameters import Floats
from ..math.comparison import lesser
from ..math.primitives import cast, permute, reshape_to, select, slice_step
from ..math.structural import constant
from ..random.random import uniform_between
from ..shape.arrangement import reverse
from ..shape.shape import concatenate
from .image_resampling import check_images

__all__ = ["crop", "flip_left_right", "flip_top_bottom", "normalize", "to_tensor"]


@composite(name="_image_to_tensor")
def to_tensor(data: Node) -> Node:
    """Return images (height, width, channel) as float32 (channel, height, width), divided by 255; also a batch."""
    check_images("_image_to_tensor", data, True)
    batch = tuple(range(data.ndim - 3))
    axes = (*batch, data.ndim - 1, data.ndim - 3, data.ndim - 2)
    return permute(cast(data, FLOAT32), axes) / 255.0


def _column(name: str, numbers: Floats, channels: int, data: Node) -> Node:
    """Return numbers as a node (channel, 1, 1), or as one element for all channels."""
    # MXNet's defaults have four numbers, which fit any image
    if len(numbers) == 4 and len(set(numbers)) == 1:
        numbers = numbers[:1]
    if len(numbers) not in (1, channels):
        raise MXNetError(
            f"Invalid {name} for input with shape {format_shape(data.shape)}. {name} must have either 1 or {channels} "
            f"elements, but got {format_shape(numbers)}, in operator _image_normalize"  # type: ignore[arg-type]
        )
    parts = [reshape_to(constant(number, data.dtype), (1, 1, 1)) for number in numbers]
    return parts[0] if len(parts) == 1 else concatenate(parts, 0)


@composite(name="_image_normalize")
def normalize(data: Node, *, mean: Floats = (0.0, 0.0, 0.0, 0.0), std: Floats = (1.0, 1.0, 1.0, 1.0)) -> Node:
    """Return ``(data - mean) / std`` for images (channel, height, width) or a batch of them.

    ``mean`` and ``std`` are one number, or one per channel.
    """
    if data.ndim not in (3, 4):
        raise MXNetError(
            "Input tensor must have shape (channels, height, width), or (N, channels, height, width), but got "
            f"{format_shape(data.shape)}, in operator _image_normalize"
        )
    if not is_floating(data.dtype):
        raise MXNetError(f"operator _image_normalize takes floats, not {name_of(data.dtype)}: apply to_tensor first")
    channels = data.shape[-3]
    return (data - _column("mean", mean, channels, data)) / _column("std", std, channels, data)


@composite(name="_image_crop")
def crop(data: Node, *, x: int, y: int, width: int, height: int) -> Node:
    """Return the window of images, or of a batch of them, with its upper left corner at (x, y)."""
    check_images("_image_crop", data, True)
    if height < 1 or width < 1:
        raise MXNetError("Input height and width must be greater than 0, in operator _image_crop")
    if x < 0 or y < 0:
        raise MXNetError(f"the corner ({x}, {y}) is outside of the image, in operator _image_crop")
    rows, columns = data.shape[-3:-1]
    if x + width > columns:
        raise MXNetError(
            "x + width should not be greater than input width: "
            f"{x} + {width} and {format_shape(data.shape)}, in operator _image_crop"
        )
    if y + height > rows:
        raise MXNetError(
            "y + height should not be greater than input height: "
            f"{y} + {height} and {format_shape(data.shape)}, in operator _image_crop"
        )
    batch = data.shape[:-3]
    return slice_step(data, (*(0,) * len(batch), y, x, 0), (*batch, y + height, x + width, data.shape[-1]))


@composite(name="_image_flip_left_right")
def flip_left_right(data: Node) -> Node:
    """Return an image flipped left to right; also a batch of images."""
    check_images("_image_flip_left_right", data, True)
    return single(reverse(data, axis=(data.ndim - 2,)))


@composite(name="_image_flip_top_bottom")
def flip_top_bottom(data: Node) -> Node:
    """Return an image flipped top to bottom; also a batch of images."""
    check_images("_image_flip_top_bottom", data, True)
    return single(reverse(data, axis=(data.ndim - 3,)))


def _choose_at_random(flipped: Node, data: Node, counter: Node) -> Node:
    chosen = single(lesser(uniform_between(counter, 0, 1, (), FLOAT32), constant(0.5, FLOAT32)))
    return select(chosen, flipped, data)


@composite(name="_image_random_flip_left_right")
def random_flip_left_right(data: Node, counter: Node) -> Node:
    """Flip an image left to right with probability 0.5; a batch is flipped as a whole."""
    return _choose_at_random(single(flip_left_right(data)), data, counter)


@composite(name="_image_random_flip_top_bottom")
def random_flip_top_bottom(data: Node, counter: Node) -> Node:
    """Flip an image top to bottom with probability 0.5; a batch is flipped as a whole."""
    return _choose_at_random(single(flip_top_bottom(data)), data, counter)


# -- symbol declarations

to_tensor.interface = Interface(types=outputs_of_type(FLOAT32))
