"""Provide iterators over batches of data (``mxnet.io``)."""

from __future__ import annotations

from .arrays import NDArrayIter
from .detection import ImageDetRecordIter
from .images import ImageRecordInt8Iter, ImageRecordIter, ImageRecordUInt8Iter
from .iteration import DataBatch, DataDesc, DataIter
from .rounds import RoundIter as MXDataIter
from .sparse_tables import LibSVMIter
from .tables import CSVIter, MNISTIter
from .wrappers import PrefetchingIter, ResizeIter

#: older names
ImageRecordIter_v1 = ImageRecordIter
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageDetRecordIter",
    "ImageRecordInt8Iter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
    "LibSVMIter",
    "MNISTIter",
    "MXDataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]
