"""Sums and broadcasts of NDArrays over a group of processes.

Takes arrays that may be pending, and hands new arrays back. :func:`add_up` evaluates pending arrays in buckets and
reduces each bucket as soon as its last array is final, while the rest is still computed. Where each core has a rank
that computes, one reduction after the computation is faster (decision 0022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array.handle import make_concrete, place_of, read
from ..core.base.dtypes import as_array_dtype
from ..core.base.settings import current
from ..core.graph.node import Node
from ..core.run.programs import Progress
from ..core.run.reference import resolve
from ..core.trace.evaluation import PROGRESS
from ..core.trace.trace import LOCAL
from ..ndarray.array import NDArray
from ..ndarray.sparse import RowSparseNDArray, row_sparse_array
from .communicator import Array, Communicator, Work

__all__ = ["add_up", "add_up_rows", "broadcast", "bucket_limit", "buckets_of"]

_LEAST_BUCKET_BYTES = 256 << 10


def buckets_of(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Return the numbers of arrays in buckets, given their sizes in bytes: the last array is in the first bucket.

    The backward pass computes the gradients of the last parameters first. A bucket with less than a quarter of `most`
    takes one more array, however large it is: a bias would otherwise be alone.

    >>> buckets_of([10, 20, 30, 5], 32)
    [[3, 2], [1, 0]]
    """
    buckets: list[list[int]] = []
    room = 0
    for number in range(len(sizes) - 1, -1, -1):
        if not buckets or (sizes[number] > room and room <= most * 3 // 4):
            buckets.append([])
            room = most
        buckets[-1].append(number)
        room -= sizes[number]
    return buckets


def bucket_limit(total: int, most: int) -> int:
    """Return the bytes of a bucket, given those of all arrays and the setting.

    Small networks get four buckets, so that the first can travel during the backward pass. Buckets below 256 KB would
    cost more than they hide.

    >>> (
    ...     bucket_limit(3 << 20, 8 << 20) >> 10,
    ...     bucket_limit(45 << 20, 8 << 20) >> 20,
    ...     bucket_limit(100_000, 8 << 20) >> 10,
    ... )
    (768, 8, 256)
    """
    return min(most, max(total // 4, _LEAST_BUCKET_BYTES))


class _Reductions(Progress):
    """Reductions of buckets, each begun when its last array is final and the ones before it have begun."""

    def __init__(self, group: Communicator, buckets: list[list[int]], nodes: dict[Node, list[int]], label: str) -> None:
        by_number = {number: node for node, numbers in nodes.items() for number in numbers}
        super().__init__(
            tuple([tuple([by_number[number] for number in bucket if number in by_number]) for bucket in buckets])
        )
        self._group = group
        self._buckets = buckets
        self._nodes = nodes
        self._label = label
        self._values: dict[int, Array] = {}
        self.works: list[Work] = []

    def receive(self, node: Node, value: Array) -> None:
        """Receive the value of a node that the program does not touch any more."""
        for number in self._nodes.get(node, ()):
            self.add(number, value)

    def add(self, number: int, value: Array) -> None:
        """Add the final value of an array, and begin the reductions that have waited for it."""
        self._values.setdefault(number, value)
        while len(self.works) < len(self._buckets):
            bucket = self._buckets[len(self.works)]
            if not all([each in self._values for each in bucket]):
                return
            label = f"{self._label}, bucket {len(self.works) + 1} of {len(self._buckets)}"
            self.works.append(self._group.begin_all_reduce([self._values[each] for each in bucket], label))


def add_up(group: Communicator, arrays: Sequence[NDArray], label: str) -> list[NDArray]:
    """Return the sums of arrays over all ranks, as new arrays with the same bits on all of them.

    Parameters
    ----------
    group
        The ranks.
    arrays
        The arrays, pending or not.
    label
        The operation with the names of the arrays, which all ranks must agree about.
    """
    if group.size == 1 or not arrays:
        return list(arrays)
    sizes = [array.size * as_array_dtype(array.dtype).itemsize for array in arrays]
    buckets = [list(range(len(arrays)))]
    if group.hides_transfers:
        buckets = buckets_of(sizes, bucket_limit(sum(sizes), current().bucket_bytes))
    if len(buckets) == 1:
        values = group.all_reduce([read(array) for array in arrays], label=label)
        return [make_concrete(value, array.context) for value, array in zip(values, arrays)]
    pending: dict[Node, list[int]] = {}
    for number, array in enumerate(arrays):
        trace, node, value = place_of(array)
        if value is None and node is not None and trace is LOCAL.trace:
            pending.setdefault(resolve(node), []).append(number)
    reductions = _Reductions(group, buckets, pending, label)
    if pending:
        _evaluate(reductions)
    # in the order of buckets: arrays without a program that reports progress
    for bucket in buckets:
        for number in bucket:
            reductions.add(number, read(arrays[number]))
    sums: list[Any] = [None] * len(arrays)
    for bucket, work in zip(buckets, reductions.works, strict=True):
        for number, value in zip(bucket, work.wait(), strict=True):
            sums[number] = make_concrete(value, arrays[number].context)
    return sums


def _evaluate(progress: Progress) -> None:
    """Evaluate everything that is pending in this thread, and report results as soon as they are final."""
    before = PROGRESS.get()
    PROGRESS.set(progress)
    try:
        LOCAL.trace.flush()
    finally:
        PROGRESS.set(before)


def add_up_rows(group: Communicator, array: RowSparseNDArray, label: str) -> NDArray:
    """Return the sum of row_sparse arrays over all ranks; only the rows that they have travel."""
    rows, values = array.indices.asnumpy(), array.data.asnumpy()
    numbers = np.concatenate(group.all_gather(rows, f"{label}: indices"))
    parts = np.concatenate(group.all_gather(values, f"{label}: values"))
    kept, places = np.unique(numbers, return_inverse=True)
    totals = np.zeros((len(kept), *parts.shape[1:]), parts.dtype)
    # in the order of ranks, so that all have the same bits
    np.add.at(totals, places, parts)
    return row_sparse_array((totals, kept), shape=array.shape, dtype=array.dtype, ctx=array.context)


def broadcast(group: Communicator, arrays: Sequence[NDArray], root: int = 0, label: str = "broadcast") -> list[NDArray]:
    """Return the arrays of one rank, as new arrays."""
    if group.size == 1 or not arrays:
        return list(arrays)
    received = group.broadcast([array.asnumpy() for array in arrays], root, label)
    return [
        make_concrete(value, array.context).tostype(array.stype)
        if array.stype != "default"
        else make_concrete(value, array.context)
        for value, array in zip(received, arrays)
    ]
