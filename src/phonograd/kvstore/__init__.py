"""Provide mx.kv: stores of arrays by key, which add up values from several contexts and processes.

The types 'local' and 'device' are the same here: a store in this process. The type 'dist_sync' adds up values of all
processes that ``phonograd launch`` or another launcher of MPI started (docs/distributed.md).

>>> import phonograd as mx
>>> store = mx.kv.create("local")
>>> store.init("weight", mx.nd.ones((2,)))
>>> store.push("weight", [mx.nd.array([1.0, 2.0]), mx.nd.array([3.0, 4.0])])
>>> value = mx.nd.zeros((2,))
>>> store.pull("weight", out=value)
>>> value.asnumpy().tolist()
[4.0, 6.0]
"""

from __future__ import annotations

from .base import KVStoreBase, create
from .byteps import BytePS
from .horovod import Horovod
from .kvstore import DistributedKVStore, KVStore
from .kvstore_server import KVStoreServer

__all__ = ["BytePS", "DistributedKVStore", "Horovod", "KVStore", "KVStoreBase", "KVStoreServer", "create"]
