"""Rows of row_sparse arrays: sums of rows that are computed later, and updates of some rows of arrays.

A gradient of a table is a list of positions and rows (:mod:`phonograd.core.backward.rows`). :class:`PendingRows` holds
them until a value is needed; then the rows of equal positions are added up into a :class:`.SparseRecord`. An optimizer
changes only those rows of weights and states (:func:`change_rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.array.call import function_of
from ..core.array.handle import read, replace
from ..core.base.devices import Context
from ..core.base.dtypes import DType
from ..core.graph.node import Shape
from ..core.graph.operator import REGISTRY, Array
from ..core.run.donation import COUNTS, is_unshared
from ..core.trace.trace import LOCAL
from .array import NDArray, concrete
from .sparse_records import SparseRecord

__all__ = ["FEW_PLACES", "PendingRows", "call", "change_rows"]

#: rows of a table for each position up to which marking rows takes less time than sorting positions
_SPARSE = 256
#: rows of a table for each row of a gradient up to which an update goes over all of them: it tests each row (1 to 2 ns)
#: but copies none (100 ns and more, each way)
FEW_PLACES = 16


def call(name: str, *arrays: NDArray, **parameters: Any) -> Any:
    """Call an operator by its name."""
    return function_of(REGISTRY[name], name)(*arrays, **parameters)


@dataclass(frozen=True, eq=False)
class PendingRows:
    """The rows of a row_sparse array before equal positions are added up.

    Attributes
    ----------
    shape, dtype, context
        Those of the whole array.
    pieces
        Positions and rows, both pending arrays; a position may occur several times.
    """

    shape: Shape
    dtype: DType
    context: Context
    pieces: list[tuple[NDArray, NDArray]]

    def record(self) -> SparseRecord:
        """Return the stored form: each position once, in order, with the sum of its rows.

        The rows of one piece are added first, and then the pieces, as they are for a dense array.
        """
        positions = [read(place).reshape(-1) for place, _ in self.pieces]
        numbers, ranks = _ranks(positions, self.shape[0])
        total: NDArray | None = None
        # sums of as many rows as there are positions: other batches of this size then have the same plan
        most = sum([len(place) for place in positions])
        for place, (_, rows) in zip(ranks, self.pieces, strict=True):
            if not len(place):
                continue
            within = concrete(place, self.context)
            part = call("_add_axis", rows.reshape((len(place), *self.shape[1:])), within, axis=0, extent=most)
            total = part if total is None else total + part
        rest = self.shape[1:]
        data = np.zeros((0, *rest), self.dtype) if total is None else read(total)[: len(numbers)]
        return SparseRecord("row_sparse", self.shape, data, (numbers,))


def _ranks(positions: list[Array], extent: int) -> tuple[Array, list[Array]]:
    """Return the different ones among positions, ascending, and for each position its place among them."""
    together = np.concatenate(positions)
    if extent > _SPARSE * len(together):
        numbers = np.unique(together)
        return numbers, [np.searchsorted(numbers, place) for place in positions]
    is_there = np.zeros(extent, bool)
    is_there[together] = True
    numbers = np.flatnonzero(is_there)
    rank = np.empty(extent, np.int64)
    rank[numbers] = np.arange(len(numbers))
    return numbers, [rank[place] for place in positions]


def change_rows(held: list[NDArray], numbers: Array, change: Callable[[list[NDArray]], None]) -> None:
    """Change some rows of arrays that have as many rows; all other rows stay as they are.

    Parameters
    ----------
    held
        Dense arrays.
    numbers
        The numbers of the rows, each once.
    change
        A function that changes the rows of all arrays in place.
    """
    if not len(numbers):
        return
    places = concrete(numbers, held[0].context)
    parts = [call("take", array, places) for array in held]
    change(parts)
    values = [read(part) for part in parts]
    for array, value in zip(held, values, strict=True):
        _write_rows(array, numbers, value)


def _write_rows(array: NDArray, numbers: Array, rows: Array) -> None:
    """Write rows into the memory of an array; into a copy, if anything else refers to it."""
    array._forget_stored()
    node, extras = array._node, array._extras
    is_free = node is None and (extras is None or (extras.root is None and not extras.views))
    if is_free and COUNTS and LOCAL.trace.allows_shortcuts:
        memory = [array._buffer]
        if memory[0] is not None and type(memory[0]) is np.ndarray and is_unshared(memory, 0, 1):
            memory[0][numbers] = rows
            return
    whole = np.array(read(array))
    whole[numbers] = rows
    if is_free:
        replace(array, whole)
    else:
        array[:] = concrete(whole, array.context)
