"""Array files: ``npx.save`` and ``npx.load`` in MXNet's format with NumPy shapes, and ``npx.savez``."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.base.errors import MXNetError
from ..core.base.files import AtomicFile
from ..ndarray import params
from ..ndarray.array import NDArray
from ..numpy.multiarray import as_nd, as_np
from ..util import np_shape
from .npy import read_npy, read_npz

__all__ = ["load", "save", "savez"]


def save(file: str | os.PathLike[str], arr: Any) -> None:
    """Write an array, a list of arrays or a dictionary of arrays to a file, in MXNet's format.

    Parameters
    ----------
    file
        Path of the file.
    arr
        The array, list or dictionary.

    Examples
    --------
    >>> import os, tempfile
    >>> from phonograd import np, npx
    >>> path = os.path.join(tempfile.mkdtemp(), "arrays")
    >>> npx.save(path, {"x": np.ones(2)})
    >>> npx.load(path)
    {'x': array([1., 1.])}
    """
    if isinstance(arr, NDArray):
        arr = [arr]
    if isinstance(arr, dict):
        for key in arr:
            if not isinstance(key, str):
                raise TypeError("Only string keys are supported when saving a dict of arrays")
        given: Any = {key: as_nd(value) for key, value in arr.items()}
    elif isinstance(arr, (list, tuple)):
        given = [as_nd(value) for value in arr]
    else:
        raise ValueError("data needs to either be a MXNet ndarray, dict of (str, ndarray) pairs or a list of ndarrays.")
    with np_shape(True):
        params.save(file, given)


def load(file: str | os.PathLike[str]) -> Any:
    """Return the arrays in a file: a dictionary if they have names, else a list.

    Parameters
    ----------
    file
        Path of the file. Files that end in ``.npz`` and ``.npy`` are read as NumPy's if
        they begin as such.

    Raises
    ------
    MXNetError
        If the file is missing or damaged; the message names the file and the place.

    Examples
    --------
    >>> import os, tempfile
    >>> from phonograd import np, npx
    >>> path = os.path.join(tempfile.mkdtemp(), "arrays")
    >>> npx.save(path, np.ones(2))
    >>> npx.load(path)
    [array([1., 1.])]
    """
    name = os.fspath(file)
    if name.endswith((".npz", ".npy")) and not _is_written_by_save(name):
        from ..numpy.creation import from_values

        try:
            if name.endswith(".npy"):
                return from_values(read_npy(name))
            return {key: from_values(value) for key, value in read_npz(name).items()}
        except (ValueError, TypeError) as error:
            # a dtype that arrays cannot have
            raise MXNetError(f"{name}: {error}") from None
    with np_shape(True):
        loaded = params.load(file)
    if isinstance(loaded, dict):
        return {key: as_np(value) for key, value in loaded.items()}
    return as_np(loaded)


def _is_written_by_save(path: str) -> bool:
    """Return whether a file begins as the files of :func:`save` do, whatever its name."""
    try:
        with open(path, "rb") as file:
            return file.read(8) == params.FILE_BEGIN
    except OSError:
        return False


def savez(file: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
    """Write arrays to a NumPy archive.

    Parameters
    ----------
    file
        Path of the file; ``.npz`` is added if it is missing.
    *args
        Arrays, which are named ``arr_0`` and so on.
    **kwargs
        Arrays by name.

    Examples
    --------
    >>> import os, tempfile
    >>> from phonograd import np, npx
    >>> path = os.path.join(tempfile.mkdtemp(), "arrays.npz")
    >>> npx.savez(path, np.ones(2), y=np.zeros(1))
    >>> npx.load(path)
    {'y': array([0.]), 'arr_0': array([1., 1.])}
    """
    name = os.fspath(file)
    with AtomicFile(name if name.endswith(".npz") else name + ".npz") as target:
        values = {key: _values(value) for key, value in kwargs.items()}
        np.savez(target.stream, *[_values(value) for value in args], **values)


def _values(array: Any) -> Any:
    return read(array) if isinstance(array, NDArray) else array
