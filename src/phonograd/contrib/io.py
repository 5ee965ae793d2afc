"""DataLoaderIter: a Gluon DataLoader as a data iterator for modules (``mxnet.contrib.io``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.base.docstrings import complete_classes
from ..io import DataDesc, DataIter
from ..ndarray import concat, zeros
from ..ndarray.array import NDArray

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Iterates over the batches of a :class:`~phonograd.gluon.data.DataLoader` of (data, label) samples.

    The constructor loads the first batch, to learn the shapes. A smaller last batch is padded with zeros; ``pad`` is
    the number of padded samples.

    Parameters
    ----------
    loader
        The loader.
    data_name, label_name
        The names of data and labels.
    dtype
        The dtype of both.

    >>> import phonograd as mx
    >>> data = mx.gluon.data.ArrayDataset(mx.nd.ones((3, 2)), mx.nd.ones((3,)))
    >>> batches = DataLoaderIter(mx.gluon.data.DataLoader(data, batch_size=2))
    >>> [batch.pad for batch in batches]
    [0, 1]
    """

    def __init__(
        self, loader: Any, data_name: str = "data", label_name: str = "softmax_label", dtype: str = "float32"
    ) -> None:
        super().__init__()
        self._loader = loader
        self._iter: Iterator[Any] = iter(loader)
        data, label = next(self._iter)
        self.batch_size = data.shape[0]
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._current_batch: Any = None
        self.reset()

    def reset(self) -> None:
        """Go back to the first batch."""
        self._iter = iter(self._loader)

    def iter_next(self) -> bool:
        """Advance to the next batch, and return whether there is one."""
        self._current_batch = next(self._iter, None)
        return self._current_batch is not None

    def _pad(self, array: NDArray) -> list[NDArray]:
        converted = array.astype(self.dtype)
        missing = self.getpad()
        if missing:
            rest = zeros((missing, *array.shape[1:]), ctx=array.context, dtype=self.dtype)
            converted = concat(converted, rest, dim=0)
        return [converted]

    def getdata(self) -> list[NDArray]:
        """Return the data of the batch."""
        return self._pad(self._current_batch[0])

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the batch."""
        return self._pad(self._current_batch[1])

    def getpad(self) -> int:
        """Return the number of padded samples at the end of the batch."""
        return int(self.batch_size - self._current_batch[0].shape[0])


complete_classes(globals())
