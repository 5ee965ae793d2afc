"""Provide mx.distributed: the processes that train together, and communication between them.

``phonograd launch -n 4 train.py`` starts four processes (ranks) of one script; docs/distributed.md shows how to train
with them. A process that was started in another way is a group of one, in which every operation returns what it is
given.

>>> import phonograd as mx
>>> mx.distributed.rank(), mx.distributed.size()
(0, 1)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..core.base.foreign_names import unknown_name
from .agreement import Disagreement, MissingRanks
from .communicator import Communicator, LocalCommunicator
from .observation import Statistics, statistics
from .sockets import RankLost
from .world import is_main, local_rank, local_size, rank, size, use, world

__all__ = [
    "Communicator",
    "Disagreement",
    "LocalCommunicator",
    "MissingRanks",
    "RankLost",
    "Statistics",
    "elastic",
    "export_trace",
    "is_main",
    "local_rank",
    "local_size",
    "rank",
    "size",
    "statistics",
    "use",
    "world",
]


if TYPE_CHECKING:
    from . import elastic as elastic
    from .traces import export_trace as export_trace
else:

    def __getattr__(name: str) -> Any:
        # loaded at first use: trainers import this package, and need no profiler
        if name == "elastic":
            return importlib.import_module(f"{__name__}.elastic")
        if name == "export_trace":
            return importlib.import_module(f"{__name__}.traces").export_trace
        raise unknown_name(__name__, name, __all__)
