"""Iterators over batches of data (``mxnet.io``)."""

from __future__ import annotations

from .arrays import NDArrayIter
from .images import ImageRecordIter, ImageRecordUInt8Iter
from .iteration import DataBatch, DataDesc, DataIter
from .rounds import RoundIter as MXDataIter
from .tables import CSVIter, MNISTIter
from .wrappers import PrefetchingIter, ResizeIter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageRecordIter",
    "ImageRecordUInt8Iter",
    "MNISTIter",
    "MXDataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]
