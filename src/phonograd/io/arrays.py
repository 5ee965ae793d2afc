"""Iterate over batches of arrays in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.base.devices import CPU
from ..core.base.docstrings import complete_classes
from ..ndarray.array import NDArray, concrete
from ..ndarray.creation import array
from ..ndarray.sparse import CSRNDArray
from .iteration import DataBatch, DataDesc, DataIter

__all__ = ["NDArrayIter"]

Rows = np.ndarray[Any, Any]
_HANDLES = ("pad", "discard", "roll_over")


def _name_arrays(given: Any, allow_empty: bool, default_name: str) -> list[tuple[str, NDArray]]:
    """Return arrays with their names: the sorted keys of a dictionary, or numbered names."""
    if given is None:
        assert allow_empty, "there is no data to iterate over"
        return []
    if isinstance(given, (np.ndarray, NDArray)):
        given = [given]
    if isinstance(given, Mapping):
        pairs = sorted(given.items())
    elif isinstance(given, (list, tuple)):
        assert allow_empty or len(given), "there is no data to iterate over"
        names = [default_name] if len(given) == 1 else [f"_{n}_{default_name}" for n in range(len(given))]
        pairs = list(zip(names, given))
    else:
        raise TypeError("Input must be NDArray, numpy.ndarray, h5py.Dataset a list of them or dict with them as values")
    result = []
    for name, value in pairs:
        if not isinstance(value, NDArray):
            try:
                value = array(np.asarray(value))
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"Invalid type '{type(value)}' for {name}, should be NDArray, numpy.ndarray or h5py.Dataset"
                ) from error
        result.append((name, value))
    return result


def _rows(value: NDArray, chosen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return some rows of an array; of a csr matrix, without converting all of it."""
    if not isinstance(value, CSRNDArray):
        return np.asarray(read(value)[chosen])
    begins, columns, stored = (read(part) for part in (value.indptr, value.indices, value.data))
    rows = np.zeros((len(chosen), *value.shape[1:]), stored.dtype)
    for place, row in enumerate(chosen):
        span = slice(begins[row], begins[row + 1])
        rows[place, columns[span]] = stored[span]
    return rows


class NDArrayIter(DataIter):
    """Iterate over batches of arrays.

    Parameters
    ----------
    data, label
        An array, a list of arrays, or a dictionary of arrays by name. NumPy arrays become float32.
    batch_size
        The number of examples in a batch.
    shuffle
        Whether to draw a new random order from NumPy's generator after each ``reset``.
    last_batch_handle
        The treatment of an incomplete last batch: ``'pad'`` fills it with examples from the beginning, ``'discard'``
        drops it, and ``'roll_over'`` keeps its examples for the first batch after ``reset``.
    data_name, label_name
        The names of arrays without a name.
    layout
        The order of axes.

    >>> batches = NDArrayIter(np.arange(5), batch_size=2)
    >>> [(batch.data[0].asnumpy().tolist(), batch.pad) for batch in batches]
    [([0.0, 1.0], 0), ([2.0, 3.0], 0), ([4.0, 0.0], 1)]
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        if last_batch_handle not in _HANDLES:
            warnings.warn(
                f"last_batch_handle must be one of {', '.join(_HANDLES)}, not {last_batch_handle!r}; an incomplete "
                "last batch is discarded",
                stacklevel=2,
            )
            last_batch_handle = "discard"
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, not {batch_size}")
        self.data = _name_arrays(data, False, data_name)
        self.label = _name_arrays(label, True, label_name)
        self.num_data = self.data[0][1].shape[0]
        for name, value in self.data + self.label:
            if value.shape[0] < self.num_data:
                raise ValueError(f"{name} has {value.shape[0]} examples, but {self.data[0][0]} has {self.num_data}")
        self.idx = np.arange(self.num_data)
        #: the example at each position; every shuffle permutes the previous order
        self._order = self.idx.copy()
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        self.num_source = len(self.data) + len(self.label)
        self.layout = layout
        self.cursor = -batch_size
        #: the examples that the previous pass left for the first batch of this one
        self._carried = self.idx[:0]
        self.reset()

    @property
    def data_list(self) -> list[NDArray]:
        """The arrays of data and labels."""
        return [value for _, value in self.data + self.label]

    @property
    def provide_data(self) -> list[DataDesc]:
        """The descriptions of the data in a batch."""
        return self._describe(self.data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """The descriptions of the labels in a batch."""
        return self._describe(self.label)

    def _describe(self, named: list[tuple[str, NDArray]]) -> list[DataDesc]:
        return [
            DataDesc(name, (self.batch_size, *value.shape[1:]), value.dtype, layout=self.layout)
            for name, value in named
        ]

    def hard_reset(self) -> None:
        """Return to the first batch, and discard the examples left over from the last pass."""
        if self.shuffle:
            np.random.shuffle(self.idx)
            self._order = self._order[self.idx]
        self.cursor = -self.batch_size
        self._carried = self.idx[:0]

    def reset(self) -> None:
        """Return to the first batch."""
        carried = self.idx[:0]
        # only a completed pass leaves examples over
        if self.last_batch_handle == "roll_over" and self.num_data - self.batch_size < self.cursor < self.num_data:
            carried = self._order[self.cursor :]
        self.hard_reset()
        if len(carried):
            self._carried = carried
            self.cursor = -len(carried) - self.batch_size

    def iter_next(self) -> bool:
        """Advance to the next batch, and return whether there is one."""
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self) -> DataBatch:
        """Return the next batch, or raise StopIteration."""
        if not self.iter_next():
            raise StopIteration
        end = self.cursor + self.batch_size
        if end > self.num_data and self.last_batch_handle != "pad":
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(), index=None)

    def _examples(self) -> np.ndarray[Any, Any]:
        """Return the indices of the examples in the batch."""
        if self.cursor < 0:
            return np.concatenate([self._carried, self._order[: self.batch_size - len(self._carried)]])
        return self._order[np.arange(self.cursor, self.cursor + self.batch_size) % self.num_data]

    def _take_batch(self, named: list[tuple[str, NDArray]]) -> list[NDArray]:
        chosen = self._examples()
        pad = self.getpad() if self.cursor >= 0 else 0
        return [concrete(_rows(value, self._with_rest(chosen, pad, value)), CPU) for _, value in named]

    def _with_rest(self, chosen: Rows, pad: int, value: NDArray) -> Rows:
        """Return the examples of a batch; a last batch that is padded also has those behind the end of the data.

        An array may have more examples than the data: MXNet's last batch contains them.
        """
        if not pad or value.shape[0] == self.num_data:
            return chosen
        return np.concatenate([chosen[:-pad], np.arange(self.num_data, value.shape[0]), chosen[-pad:]])

    def getdata(self) -> list[NDArray]:
        """Return the arrays of the batch."""
        return self._take_batch(self.data)

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the batch."""
        return self._take_batch(self.label)

    def getpad(self) -> int:
        """Return the number of examples from the beginning or from the previous pass."""
        if self.cursor < 0:
            return -self.cursor
        return max(0, self.cursor + self.batch_size - self.num_data) if self.last_batch_handle == "pad" else 0


complete_classes(globals())
