"""Provide the base of iterators over batches: descriptions, batches, and the protocol of ``next`` and ``reset``."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from ..ndarray.array import NDArray

__all__ = ["DataBatch", "DataDesc", "DataIter"]


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Describe an input by name, shape, dtype and layout; as a tuple it has the first two.

    >>> DataDesc("data", (32, 3, 8, 8))
    DataDesc[data,(32, 3, 8, 8),<class 'numpy.float32'>,NCHW]
    """

    dtype: Any
    layout: str | None

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = np.float32, layout: str | None = "NCHW") -> DataDesc:
        made = super().__new__(cls, name, shape)
        made.dtype = dtype
        made.layout = layout
        return made

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    def __reduce__(self) -> Any:
        return DataDesc, (self.name, self.shape, self.dtype, self.layout)

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the axis of examples: the position of N in the layout, or 0 without a layout."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Sequence[tuple[str, Any]], types: Sequence[tuple[str, Any]] | None) -> list[DataDesc]:
        """Return descriptions of inputs from pairs (name, shape) and (name, dtype)."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        dtypes = dict(types)
        return [DataDesc(name, shape, dtypes[name]) for name, shape in shapes]


class DataBatch:
    """Hold the arrays of a batch.

    Parameters
    ----------
    data, label
        Lists of arrays; `label` may be None.
    pad
        The number of examples at the end that only fill the batch.
    index
        The indices of the examples.
    bucket_key
        The bucket of the batch.
    provide_data, provide_label
        The descriptions of the arrays.
    """

    def __init__(
        self,
        data: Sequence[NDArray],
        label: Sequence[NDArray] | None = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        if data is not None:
            assert isinstance(data, (list, tuple)), "Data must be list of NDArrays"
        if label is not None:
            assert isinstance(label, (list, tuple)), "Label must be list of NDArrays"
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self) -> str:
        data = [array.shape for array in self.data]
        label = [array.shape for array in self.label] if self.label else None
        return f"{type(self).__name__}: data shapes: {data} label shapes: {label}"


class DataIter:
    """Base class of iterators over batches. A subclass overrides ``iter_next`` and the functions ``get...``.

    Unlike a Python iterator, it can be used again after :meth:`reset`.
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[DataBatch]:
        return self

    def reset(self) -> None:
        """Return to the first batch."""

    def next(self) -> DataBatch:
        """Return the next batch, or raise StopIteration."""
        if self.iter_next():
            return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(), index=self.getindex())
        raise StopIteration

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool:
        """Advance to the next batch, and return whether there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no iter_next")

    def getdata(self) -> Any:
        """Return the arrays of the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no getdata")

    def getlabel(self) -> Any:
        """Return the labels of the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no getlabel")

    def getindex(self) -> Any:
        """Return the indices of the examples in the batch, or None."""
        return None

    def getpad(self) -> int | None:
        """Return the number of examples at the end that only fill the batch; None if it is unknown."""
        return None


complete_classes(globals())
