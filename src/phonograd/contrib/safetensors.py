"""safetensors: files of named arrays and nothing else, so that untrusted files are safe to read.

>>> import os, tempfile
>>> import phonograd as mx
>>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
>>> mx.contrib.safetensors.save(path, {"w": mx.nd.array([1, 2])})
>>> mx.contrib.safetensors.load(path)["w"]
<BLANKLINE>
[1. 2.]
<NDArray 2 @cpu(0)>

The format is described in :mod:`phonograd.ndarray.safetensors`. Reading and writing need no other package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .. import ndarray as nd
from ..core.base.files import write_atomically
from ..ndarray import NDArray
from ..ndarray.safetensors import decode, encode, read_header

__all__ = ["load", "metadata", "save"]


def save(fname: str | os.PathLike[str], data: Mapping[str, NDArray], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays to a file.

    Parameters
    ----------
    fname
        The path of the file.
    data
        Arrays by name, for example those of ``net.collect_params()``.
    metadata
        Texts by name to store beside the arrays.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"data must be a dictionary of arrays by name, not {type(data)}")
    for name, value in data.items():
        if not isinstance(name, str) or not isinstance(value, NDArray):
            raise TypeError(f"data must be a dictionary of NDArrays by name, but has {name!r}: {type(value)}")
    if metadata and not all([isinstance(text, str) for pair in metadata.items() for text in pair]):
        raise TypeError("metadata must be a dictionary of strings by name")
    write_atomically(fname, encode({name: value.asnumpy() for name, value in data.items()}, metadata))


def load(fname: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Return the arrays of a file by name."""
    with open(fname, "rb") as file:
        arrays, _ = decode(file, os.fstat(file.fileno()).st_size, os.fspath(fname))
    return {name: nd.array(value, dtype=value.dtype) for name, value in arrays.items()}


def metadata(fname: str | os.PathLike[str]) -> dict[str, str]:
    """Return the metadata of a file: texts by name."""
    with open(fname, "rb") as file:
        return read_header(file, os.fstat(file.fileno()).st_size, os.fspath(fname))[1]
