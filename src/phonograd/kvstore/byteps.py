"""The store 'byteps': the same as 'horovod', under another name (``mxnet.kvstore.byteps``)."""

from __future__ import annotations

from ..core.base.docstrings import complete_classes
from .base import KVStoreBase
from .horovod import Horovod

__all__ = ["BytePS"]


@KVStoreBase.register
class BytePS(Horovod):
    """Add up values over all processes, and store nothing."""


complete_classes(globals())
