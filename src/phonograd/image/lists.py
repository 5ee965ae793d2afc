"""Read lists of images: text files with one line ``number<TAB>label...<TAB>path`` per image."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core.base.errors import MXNetError

__all__ = ["read_list"]


def read_list(path: str | os.PathLike[str]) -> dict[int, tuple[np.ndarray[Any, Any], str]]:
    """Return the labels and the path of each image by its number.

    Raises
    ------
    MXNetError
        If a line has another format.
    """
    found = {}
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            parts = line.rstrip("\r\n").split("\t")
            try:
                if len(parts) < 3:
                    raise ValueError("too few columns")
                labels = np.array([float(text) for text in parts[1:-1]], np.float32)
                found[int(float(parts[0]))] = labels, parts[-1]
            except ValueError as error:
                raise MXNetError(
                    f"line {number} of {os.fspath(path)} is no number, labels and path separated by tabs: {error}"
                ) from None
    return found
