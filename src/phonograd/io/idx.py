"""Read files in MNIST's format, plain or gzipped.

A big-endian header with a magic number and the extents precedes the unsigned bytes.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from typing import Any

import numpy as np

from ..core.base.errors import MissingFile, MXNetError

__all__ = ["read_idx"]

#: larger than any real file of this format
_MOST_BYTES = 1 << 32
_BLOCK_BYTES = 1 << 24


def _read(file: Any, size: int) -> bytes:
    """Return up to `size` bytes of a file, in blocks: a wrong size in a header must not allocate memory."""
    blocks = []
    while size > 0 and (block := file.read(min(size, _BLOCK_BYTES))):
        blocks.append(block)
        size -= len(block)
    return b"".join(blocks)


def read_idx(path: str | os.PathLike[str], ndim: int) -> np.ndarray[Any, Any]:
    """Return the array in a file with `ndim` axes: 3 for images, 1 for labels.

    Raises
    ------
    MXNetError
        If the file has another format, is cut off, or is damaged.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            with gzip.GzipFile(fileobj=plain) if packed else plain as file:
                head = file.read(4 + 4 * ndim)
                if len(head) < 4 + 4 * ndim or head[:4] != bytes([0, 0, 8, ndim]):
                    raise MXNetError(f"{name} is no MNIST file with {ndim} axes: it begins with {head[:4]!r}")
                shape = struct.unpack(f">{ndim}I", head[4:])
                size = math.prod(shape)
                if size > _MOST_BYTES:
                    raise MXNetError(f"{name} claims to have shape {shape}, which is too large for an MNIST file")
                body = _read(file, size)
                if len(body) < size:
                    raise MXNetError(f"{name} is cut off: it has {len(body)} of the {size} bytes of shape {shape}")
    except FileNotFoundError as error:
        raise MissingFile(error.errno, error.strerror, name) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise MXNetError(f"{name} is cut off or damaged: {error}") from error
    return np.frombuffer(body, np.uint8).reshape(shape)
