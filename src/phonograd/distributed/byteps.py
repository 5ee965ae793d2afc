"""BytePS's interface for MXNet (``import byteps.mxnet as bps``), over the group of this process."""

from __future__ import annotations

from typing import Any

from .horovod import (
    DistributedOptimizer,
    DistributedTrainer,
    allreduce_,
    broadcast_parameters,
    init,
    local_rank,
    local_size,
    rank,
    shutdown,
    size,
)

__all__ = [
    "DistributedOptimizer",
    "DistributedTrainer",
    "broadcast_parameters",
    "byteps_declare_tensor",
    "byteps_push_pull",
    "init",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]


def byteps_declare_tensor(name: str, **kwargs: Any) -> None:
    """Do nothing: names need no declaration."""


def byteps_push_pull(
    tensor: Any, version: int = 0, priority: int = 0, name: str | None = None, is_average: bool = True
) -> None:
    """Replace an array by its average, or its sum, over all processes."""
    allreduce_(tensor, is_average, name or "byteps_push_pull", priority)
