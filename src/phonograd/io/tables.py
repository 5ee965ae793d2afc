"""Iterate over batches from text files with numbers, and from files in MNIST's format."""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import as_dtype
from ..core.base.errors import MXNetError
from .idx import read_idx
from .rounds import RoundIter, Values, choose_part

__all__ = ["CSVIter", "MNISTIter"]


def _table(path: str, shape: tuple[int, ...], dtype: Any) -> Values:
    """Return the rows of a file, or of all files in a directory, each in a shape."""
    files = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
    width = math.prod(shape)
    tables = []
    for name in files:
        with open(name, encoding="utf-8", errors="replace") as file:
            lines = [line for line in file if line.strip()]
        if not lines:
            continue
        try:
            table = np.loadtxt(lines, dtype, delimiter=",", ndmin=2, comments=None)
        except ValueError as error:
            raise MXNetError(f"{name} is no table of {np.dtype(dtype)} separated by commas: {error}") from error
        if table.shape[1] != width:
            raise MXNetError(f"rows of {name} have {table.shape[1]} numbers, but shape {shape} needs {width}")
        tables.append(table)
    if not tables:
        raise MXNetError(f"{path} has no rows")
    return np.concatenate(tables).reshape(-1, *shape)


class CSVIter(RoundIter):
    """Iterate over the rows of files with numbers separated by commas.

    Parameters
    ----------
    data_csv
        A file, or a directory whose files are read in the order of their names.
    data_shape
        The shape of an example.
    label_csv
        The file or directory of the labels. Without it, labels are zero.
    label_shape
        The shape of a label.
    batch_size
        The number of examples in a batch.
    round_batch
        Whether to fill the last batch with examples from the beginning, which the next pass then skips.
    dtype
        ``'float32'``, ``'int32'`` or ``'int64'``.
    prefetch_buffer, ctx
        Have no effect: the iterator reads all data at once.
    data_name, label_name
        The names in descriptions.
    """

    def __init__(
        self,
        data_csv: str,
        data_shape: tuple[int, ...],
        label_csv: str = "NULL",
        label_shape: tuple[int, ...] = (1,),
        batch_size: int = 0,
        round_batch: bool = True,
        prefetch_buffer: int = 4,
        ctx: str = "cpu",
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        kind = as_dtype(dtype)
        self._data = _table(os.fspath(data_csv), tuple(data_shape), kind)
        if label_csv == "NULL":
            labels = np.zeros((len(self._data), *label_shape), kind)
        else:
            labels = _table(os.fspath(label_csv), tuple(label_shape), kind)
        if len(labels) != len(self._data):
            raise MXNetError(f"{label_csv} has {len(labels)} rows, but {data_csv} has {len(self._data)}")
        self._labels = labels[:, 0] if tuple(label_shape) == (1,) else labels
        super().__init__(len(self._data), batch_size, round_batch, data_name, label_name)
        self._describe(self._data.shape[1:], self._labels.shape[1:], kind.type)

    def _values(self, examples: Values) -> tuple[Values, Values]:
        return self._data[examples], self._labels[examples]


class MNISTIter(RoundIter):
    """Iterate over images in files of MNIST's format, scaled to [0, 1); an incomplete last batch is dropped.

    Parameters
    ----------
    image, label
        The files, plain or gzipped.
    batch_size
        The number of examples in a batch.
    shuffle
        Whether to use a random order, which is the same in each pass.
    flat
        Whether an image is a vector. Otherwise its shape is (1, height, width).
    seed
        The seed of the random order.
    silent
        Has no effect: the iterator prints nothing.
    num_parts, part_index
        The number of parts of the examples, and the part to use. With ``num_parts=None``, each process that trains with
        others uses its part.
    prefetch_buffer, ctx
        Have no effect: the iterator reads all data at once.
    dtype
        The dtype of data and labels.
    data_name, label_name
        The names in descriptions.
    input_shape, data_shape
        Have no effect, as in MXNet, whose examples pass them: `flat` selects the shape of an image.
    **others
        Have no effect, as in MXNet; a warning names them.
    """

    def __init__(
        self,
        image: str = "./train-images-idx3-ubyte",
        label: str = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int | None = 1,
        part_index: int = 0,
        prefetch_buffer: int = 4,
        ctx: str = "cpu",
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        input_shape: tuple[int, ...] | None = None,
        data_shape: tuple[int, ...] | None = None,
        **others: Any,
    ) -> None:
        if others:
            warnings.warn(f"MNISTIter ignores {', '.join(others)}, as in MXNet", stacklevel=2)
        images, labels = read_idx(image, 3), read_idx(label, 1)
        if len(images) != len(labels):
            raise MXNetError(f"{image} has {len(images)} images, but {label} has {len(labels)} labels")
        num_parts, part_index = choose_part(num_parts, part_index)
        # unlike in `part_of`, the last parts are larger if sizes are uneven
        chosen = slice(*(len(images) * number // num_parts for number in (part_index, part_index + 1)))
        images, labels = images[chosen], labels[chosen]
        count = len(images) // batch_size * batch_size
        super().__init__(count, batch_size, False, data_name, label_name)
        if shuffle:
            self._order = np.random.RandomState(seed).permutation(len(images))[:count]
        self._images = images.reshape(len(images), -1) if flat else images[:, None]
        self._labels = labels
        self._dtype = as_dtype(dtype)
        self._describe(self._images.shape[1:], (), self._dtype.type)

    def _values(self, examples: Values) -> tuple[Values, Values]:
        return (self._images[examples] / np.float32(256)).astype(self._dtype), self._labels[examples].astype(
            self._dtype
        )


complete_classes(globals())
