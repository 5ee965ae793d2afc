"""Read, resize, crop and rotate images that are arrays of shape (height, width, channel)."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.array.values import naming_itself
from ..core.base.devices import CPU
from ..core.base.errors import MXNetError
from ..ndarray.array import NDArray, concrete
from ..ndarray.semantics import of_chosen_kind
from . import codec, resizing

__all__ = [
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "pixels_of",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
    "size_of",
    "to_array",
]

Image = np.ndarray[Any, Any]


def pixels_of(image: Any) -> Image:
    """Return an image as a NumPy array. The caller must not write to it."""
    return read(image) if isinstance(image, NDArray) else np.asarray(image)


def size_of(image: Any) -> tuple[int, int]:
    """Return the (height, width) of an image."""
    if len(image.shape) != 3:
        raise ValueError(f"an image is (height, width, channel), not of shape {tuple(image.shape)}")
    return int(image.shape[0]), int(image.shape[1])


def to_array(pixels: Image, out: Any = None) -> NDArray:
    """Return pixels as an array, or write them to `out` and return it."""
    # a view of another image would keep all of it in memory
    own = np.array(pixels, order="C") if pixels.base is not None else np.ascontiguousarray(pixels)
    if out is not None:
        out[:] = concrete(own, CPU)
        return out  # type: ignore[no-any-return]
    return of_chosen_kind(concrete(own, CPU))  # type: ignore[no-any-return]


def imdecode(buf: Any, flag: int = 1, to_rgb: bool = True, out: Any = None) -> NDArray:
    """Decode an image from bytes to an array of dtype uint8.

    Parameters
    ----------
    buf
        The contents of an image file: bytes, or an array of uint8.
    flag
        1 for three channels, 0 for one (gray).
    to_rgb
        Whether channels are red, green, blue. Otherwise they are blue, green, red.
    out
        The array to write the result to.

    >>> imdecode(b"not a picture")
    Traceback (most recent call last):
    ...
    phonograd.base.MXNetError: ...
    """
    if isinstance(buf, NDArray):
        buf = buf.asnumpy()
    if isinstance(buf, np.ndarray):
        buf = np.ascontiguousarray(buf, np.uint8).tobytes()
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise ValueError(
            "buf must be of type bytes, bytearray or numpy.ndarray,"
            "if you would like to input type str, please convert to bytes"
        )
    image = codec.decode(buf, flag)
    return to_array(image if to_rgb or image.shape[2] == 1 else image[:, :, ::-1], out)


def imread(filename: str | os.PathLike[str], flag: int = 1, to_rgb: bool = True, out: Any = None) -> NDArray:
    """Read an image from a file into an array of dtype uint8.

    Parameters
    ----------
    filename
        The path of the file.
    flag, to_rgb, out
        See :func:`imdecode`.

    >>> imread("examples/no-such-picture.png")
    Traceback (most recent call last):
    ...
    phonograd.core.base.errors.MissingFile: [Errno 2] No such file or directory: 'examples/no-such-picture.png'
    """
    image = codec.read(filename, flag)
    return to_array(image if to_rgb or image.shape[2] == 1 else image[:, :, ::-1], out)


@naming_itself
def imresize(src: Any, w: int, h: int, interp: int = 1, out: Any = None) -> NDArray:
    """Resize an image to a width and height.

    Parameters
    ----------
    src
        The image: an array (height, width, channel).
    w, h
        The width and the height of the result.
    interp
        The interpolation: 0 nearest neighbor, 1 bilinear, 2 bicubic, 3 area-based, 4 Lanczos. 9 selects bicubic for
        enlarging, area-based for shrinking, and bilinear otherwise; 10 selects a random method.
    out
        The array to write the result to.

    >>> import phonograd as mx
    >>> imresize(mx.nd.ones((4, 6, 3)), 3, 2).shape
    (2, 3, 3)
    """
    return to_array(resizing.resize(pixels_of(src), int(w), int(h), interp), out)


def scale_down(src_size: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    """Return (width, height) of the largest window with the aspect ratio of `size` that fits, at most `size`.

    Parameters
    ----------
    src_size
        The (width, height) of the image.
    size
        The (width, height) that is wanted.

    >>> scale_down((640, 480), (720, 120))
    (640, 106)
    """
    width, height = size
    source_width, source_height = src_size
    if source_height < height:
        width, height = int(width * source_height / height), source_height
    if source_width < width:
        width, height = source_width, int(height * source_width / width)
    return int(width), int(height)


@naming_itself
def copyMakeBorder(  # noqa: N802
    src: Any,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,  # noqa: A002
    value: float = 0.0,
    values: Sequence[float] = (),
    out: Any = None,
) -> NDArray:
    """Return an image with a border around it.

    Parameters
    ----------
    src
        The image: an array (height, width, channel).
    top, bot, left, right
        The number of pixels at each side.
    type
        0 for a constant color, 1 for the outermost pixels, 2 for a reflection that repeats them, 3 for wrapping around,
        4 for a reflection without repetition.
    value
        The constant color of all channels.
    values
        The constant color, one number for each channel.
    out
        The array to write the result to.

    >>> import phonograd as mx
    >>> copyMakeBorder(mx.nd.ones((4, 6, 3)), 1, 1, 2, 2).shape
    (6, 10, 3)
    """
    image = pixels_of(src)
    if image.ndim != 3:
        raise MXNetError(f"an image is (height, width, channel), not of shape {image.shape}")
    widths = ((top, bot), (left, right), (0, 0))
    modes = {1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}
    if type in modes:
        return to_array(np.pad(image, widths, mode=modes[type]), out)  # type: ignore[call-overload]
    if type != 0:
        raise MXNetError(f"type must be one of 0, 1, 2, 3, 4, not {type}")
    channels = image.shape[2]
    # channels without a number in `values` are black
    color = np.array([*values, *[0.0] * channels][:channels] if len(values) else [value] * channels)
    bordered = np.empty((image.shape[0] + top + bot, image.shape[1] + left + right, image.shape[2]), image.dtype)
    bordered[:] = color.astype(image.dtype)
    bordered[top : top + image.shape[0], left : left + image.shape[1]] = image
    return to_array(bordered, out)


def resize_short(src: Any, size: int, interp: int = 2) -> NDArray:
    """Resize an image so that its shorter edge has a given length.

    Parameters
    ----------
    src
        The image: an array (height, width, channel).
    size
        The length of the shorter edge.
    interp
        The interpolation; see :func:`imresize`.

    >>> import phonograd as mx
    >>> resize_short(mx.nd.ones((4, 6, 3)), 2).shape
    (2, 3, 3)
    """
    height, width = size_of(src)
    if height > width:
        return imresize(src, size, size * height // width, interp)
    return imresize(src, size * width // height, size, interp)


def fixed_crop(
    src: Any, x0: int, y0: int, w: int, h: int, size: tuple[int, int] | None = None, interp: int = 2
) -> NDArray:
    """Crop a window, and resize it.

    Parameters
    ----------
    src
        The image: an array (height, width, channel).
    x0, y0
        The upper left corner of the window.
    w, h
        The width and the height of the window.
    size
        The (width, height) of the result; None keeps that of the window.
    interp
        The interpolation; see :func:`imresize`.

    >>> import phonograd as mx
    >>> fixed_crop(mx.nd.ones((4, 6, 3)), 1, 1, 3, 2).shape
    (2, 3, 3)
    """
    image = pixels_of(src)
    if x0 < 0 or y0 < 0:
        raise MXNetError(f"the corner ({x0}, {y0}) of the window is outside the image")
    image = image[y0 : y0 + h, x0 : x0 + w]
    if size is not None and (w, h) != tuple(size):
        image = resizing.resize(image, *size, interp=interp)
    return to_array(image)


def center_crop(src: Any, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Crop the center of an image.

    A window that is larger than the image is shrunk, and the crop is resized.

    Parameters
    ----------
    src
        The image: an array (height, width, channel).
    size
        The (width, height) of the result.
    interp
        The interpolation; see :func:`imresize`.

    Returns
    -------
    The crop, and its window (x0, y0, width, height) in the image.

    >>> import phonograd as mx
    >>> crop, window = center_crop(mx.nd.ones((4, 6, 3)), (2, 2))
    >>> crop.shape, window
    ((2, 2, 3), (2, 1, 2, 2))
    """
    height, width = size_of(src)
    new_width, new_height = scale_down((width, height), size)
    x0, y0 = (width - new_width) // 2, (height - new_height) // 2
    return fixed_crop(src, x0, y0, new_width, new_height, size, interp), (x0, y0, new_width, new_height)


def random_crop(src: Any, size: tuple[int, int], interp: int = 2) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Crop a random window of an image.

    Parameters
    ----------
    src
        The image: an array (height, width, channel).
    size
        The (width, height) of the result.
    interp
        The interpolation; see :func:`imresize`.

    Returns
    -------
    The crop, and its window (x0, y0, width, height) in the image.

    >>> import phonograd as mx
    >>> crop, window = random_crop(mx.nd.ones((4, 6, 3)), (2, 2))
    >>> crop.shape, window[2:]
    ((2, 2, 3), (2, 2))
    """
    height, width = size_of(src)
    new_width, new_height = scale_down((width, height), size)
    x0, y0 = random.randint(0, width - new_width), random.randint(0, height - new_height)
    return fixed_crop(src, x0, y0, new_width, new_height, size, interp), (x0, y0, new_width, new_height)


def random_size_crop(
    src: Any, size: tuple[int, int], area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Crop a window of random size, and resize it to `size`; return it with its window (x0, y0, width, height).

    Parameters
    ----------
    src
        The image.
    size
        The (width, height) of the result.
    area
        The (smallest, largest) fraction of the image's area; a single number is the smallest, and 1 the largest.
    ratio
        The (smallest, largest) aspect ratio, width divided by height.
    interp
        See :func:`imresize`.
    **kwargs
        ``min_area``, the older name of `area`.

    >>> import phonograd as mx
    >>> random_size_crop(mx.nd.ones((8, 8, 3)), (4, 4), 0.5, (0.75, 1.25))[0].shape
    (4, 4, 3)
    """
    area = kwargs.pop("min_area", area)
    if kwargs:
        raise TypeError(f"unexpected keyword arguments for random_size_crop: {', '.join(kwargs)}")
    least, most = (area, 1.0) if isinstance(area, (int, float)) else area
    height, width = size_of(src)
    for _ in range(10):
        target = random.uniform(least, most) * height * width
        proportion = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        new_width, new_height = round(math.sqrt(target * proportion)), round(math.sqrt(target / proportion))
        if 0 < new_width <= width and 0 < new_height <= height:
            x0, y0 = random.randint(0, width - new_width), random.randint(0, height - new_height)
            return fixed_crop(src, x0, y0, new_width, new_height, size, interp), (x0, y0, new_width, new_height)
    return center_crop(src, size, interp)


def color_normalize(src: Any, mean: Any, std: Any = None) -> Any:
    """Subtract a mean from an image, and divide it by a standard deviation.

    Parameters
    ----------
    src
        The image: an array (height, width, channel).
    mean
        The number or array that is subtracted; None for none.
    std
        The divisor, a number or an array; None for none.

    >>> import phonograd as mx
    >>> color_normalize(mx.nd.ones((1, 1, 3)), 0.5, 0.25).asnumpy().ravel().tolist()
    [2.0, 2.0, 2.0]
    """
    if mean is not None:
        src = src - mean
    return src if std is None else src / std


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Rotate images of shape (channel, height, width), or a batch of them, around their centers.

    Parameters
    ----------
    src
        The images, of dtype float32.
    rotation_degrees
        A counterclockwise angle in degrees, or an array with one angle for each image of a batch.
    zoom_in
        Whether to magnify the result until no area outside the image is visible.
    zoom_out
        Whether to shrink the result until the whole image is visible.

    >>> import phonograd as mx
    >>> imrotate(mx.nd.array([[[1, 2], [3, 4]]]), 90).asnumpy().round().tolist()
    [[[2.0, 4.0], [1.0, 3.0]]]
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if src.dtype is not np.float32:
        raise TypeError("Only `float32` images are supported by this function")
    single = src.ndim == 3
    if single:
        if not isinstance(rotation_degrees, (int, float, np.number)):
            raise TypeError("When a single image is passed the rotation angle is required to be a scalar.")
    elif src.ndim != 4:
        raise ValueError("Only 3D and 4D are supported by this function")
    images = src.asnumpy()[None] if single else src.asnumpy()
    given = rotation_degrees.asnumpy() if isinstance(rotation_degrees, NDArray) else np.asarray(rotation_degrees)
    if given.ndim and len(given) != len(images):
        raise ValueError("The number of images must be equal to the number of rotation angles")
    angles = np.broadcast_to(given.reshape(-1), len(images))
    turned = np.stack([_rotate_image(image, float(angle), zoom_in, zoom_out) for image, angle in zip(images, angles)])
    return to_array(turned[0] if single else turned)


def _rotate_image(image: Image, degrees: float, zoom_in: bool, zoom_out: bool) -> Image:
    """Return one rotated image, with zeros outside the original."""
    height, width = image.shape[1:]
    angle = math.radians(degrees)
    cosine, sine = math.cos(angle), math.sin(angle)
    half_height, half_width = (height - 1) / 2, (width - 1) / 2
    y, x = np.meshgrid(np.arange(height) - half_height, np.arange(width) - half_width, indexing="ij")
    column, row = x * cosine - y * sine, x * sine + y * cosine
    column, row = column / max(half_width, 0.5), row / max(half_height, 0.5)
    if zoom_in or zoom_out:
        # the extent of the corners of the rotated image, in halves of the image
        scale = abs(cosine) + abs(sine) * max(width / height, height / width)
        column, row = (column / scale, row / scale) if zoom_in else (column * scale, row * scale)
    column, row = (column + 1) * half_width, (row + 1) * half_height
    left, top = np.floor(column), np.floor(row)
    result = np.zeros_like(image)
    for near_y in (0, 1):
        for near_x in (0, 1):
            rows, columns = (top + near_y).astype(int), (left + near_x).astype(int)
            inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
            weight = (1 - np.abs(row - rows)) * (1 - np.abs(column - columns)) * inside
            result += weight.astype(image.dtype) * image[:, rows.clip(0, height - 1), columns.clip(0, width - 1)]
    return result


def random_rotate(
    src: NDArray, angle_limits: tuple[float, float], zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Rotate images by random angles between two limits.

    NumPy's generator draws the angles, as in MXNet; the other functions of this module use Python's.

    Parameters
    ----------
    src, zoom_in, zoom_out
        See :func:`imrotate`.
    angle_limits
        The smallest and the largest angle in degrees.

    >>> import phonograd as mx
    >>> random_rotate(mx.nd.ones((3, 4, 4)), (-10, 10)).shape
    (3, 4, 4)
    """
    if src.ndim == 3:
        return imrotate(src, np.random.uniform(*angle_limits), zoom_in, zoom_out)
    return imrotate(src, np.random.uniform(*angle_limits, size=len(src)).astype(np.float32), zoom_in, zoom_out)
