"""Convert between image files and NumPy arrays of shape (height, width, channel).

The channels are red, green, blue. Pillow reads and writes the formats.
"""

from __future__ import annotations

import io
import os
import warnings
from typing import Any

import numpy as np

from ..core.base.errors import MissingFile, MXNetError

__all__ = ["decode", "encode", "read"]

Image = np.ndarray[Any, Any]


#: Formats whose data have at least one bit for some pixels. Deflate has the best ratio (1032), with 8 pixels in a byte.
_DENSE_FORMATS = frozenset(("PNG", "GIF", "BMP", "JPEG"))
#: the same for the methods of TIFF files
_DENSE_COMPRESSIONS = frozenset(("raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "jpeg"))
_MOST_PIXELS_PER_BYTE = 8 * 1032
#: an image that is never refused
_SMALL_IMAGE = 1 << 20


def _pillow() -> Any:
    """Return Pillow's main module. Raise if it is not installed."""
    try:
        import PIL.Image
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "phonograd uses Pillow for image files, but it is not installed: pip install 'phonograd[image]'",
            name="PIL",
        ) from None
    return PIL.Image


def decode(data: bytes | bytearray | memoryview, flag: int = 1, name: str = "the image") -> Image:
    """Return the image in some bytes as uint8.

    Parameters
    ----------
    data
        The contents of an image file.
    flag
        1 for three channels, 0 for one (gray), -1 for the channels of the file.
    name
        The name of the image in error messages.

    Raises
    ------
    MXNetError
        If the data are empty, cut off, damaged, of an unknown format, or larger than Pillow's limit.
    """
    pillow = _pillow()
    if not len(data):
        raise MXNetError(f"{name} cannot be decoded: it is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(io.BytesIO(data)) as opened:
                _check_size(opened, len(data))
                return _pixels(opened, flag)
    # Pillow's readers raise various exceptions for damaged files
    except (OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, EOFError, AttributeError) as error:
        raise MXNetError(f"{name} ({len(data)} bytes) cannot be decoded: {error}") from error
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise MXNetError(f"{name} is not decoded: {error} (PIL.Image.MAX_IMAGE_PIXELS is the limit)") from error


def _check_size(opened: Any, size: int) -> None:
    """Raise ValueError if an image claims more pixels than so many bytes can have, before they are allocated."""
    width, height = opened.size
    limited = opened.format in _DENSE_FORMATS or opened.info.get("compression") in _DENSE_COMPRESSIONS
    if limited and width * height > max(_SMALL_IMAGE, _MOST_PIXELS_PER_BYTE * size):
        raise ValueError(f"{size} bytes cannot have {width} x {height} pixels")


def _pixels(opened: Any, flag: int) -> Image:
    """Return the pixels of an image that Pillow opened."""
    is_png = opened.format == "PNG"
    if flag >= 0:
        from PIL import ImageOps

        opened = ImageOps.exif_transpose(opened)
    if opened.mode.startswith("I"):
        opened = _pillow().fromarray(_to_eight_bits(np.array(opened)))
    if flag == 0:
        if is_png and opened.mode in ("P", "RGB", "RGBA"):
            return _to_gray_like_libpng(np.array(opened.convert("RGB")))
        opened = opened.convert("L")
    elif flag > 0 or opened.mode not in ("L", "RGB", "RGBA"):
        opened = opened.convert("RGB")
    pixels = np.array(opened, np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _to_eight_bits(pixels: Image) -> Image:
    """Return 16-bit gray pixels as 8-bit ones: their upper bytes."""
    return (np.clip(pixels, 0, 0xFFFF).astype(np.uint16) >> 8).astype(np.uint8)


def _to_gray_like_libpng(pixels: Image) -> Image:
    """Return colors as gray, rounded down as in libpng."""
    weights = np.array([9798, 19235, 3735], np.uint32)
    return (pixels.astype(np.uint32) @ weights >> 15).astype(np.uint8)[:, :, None]


def read(filename: str | os.PathLike[str], flag: int = 1) -> Image:
    """Return the image in a file as uint8; see :func:`decode`."""
    try:
        with open(filename, "rb") as file:
            content = file.read()
    except FileNotFoundError as error:
        raise MissingFile(error.errno, error.strerror, os.fspath(filename)) from None
    return decode(content, flag, os.fspath(filename))


def encode(image: Image, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Return the contents of a file with an image of shape (height, width) or (height, width, channel).

    Parameters
    ----------
    image
        The image, of dtype uint8.
    quality
        The quality from 1 to 100 for JPEG; the compression level from 1 to 9 for PNG.
    img_fmt
        The file extension, ``.jpg`` or ``.png``.
    """
    pillow = _pillow()
    form = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}.get(img_fmt.lower())
    if form is None:
        raise ValueError(f"img_fmt must be '.jpg', '.jpeg' or '.png', not {img_fmt!r}")
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] not in (3, 4)):
        raise ValueError(
            f"an image must be uint8 with 1, 3 or 4 channels in the last axis, not {image.dtype} of shape {image.shape}"
        )
    options = {"quality": quality} if form == "JPEG" else {"compress_level": min(max(quality, 0), 9)}
    buffer = io.BytesIO()
    pillow.fromarray(np.ascontiguousarray(image)).save(buffer, form, **options)
    return buffer.getvalue()
