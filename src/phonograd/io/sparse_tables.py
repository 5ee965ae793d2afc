"""Iterate over batches of sparse rows from text files in LibSVM's format."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ..core.base.devices import CPU
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import DType, as_dtype
from ..core.base.errors import MXNetError
from ..ndarray.array import NDArray, concrete
from ..ndarray.sparse import csr_matrix
from .rounds import RoundIter, Values, choose_part, part_of

__all__ = ["LibSVMIter"]


class _Rows(NamedTuple):
    """Hold sparse rows and their labels.

    Row r has ``values`` and ``columns`` from ``begins[r]`` to ``begins[r + 1]``.
    """

    labels: Values
    values: Values
    columns: Values
    begins: Values

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, rows: Values, width: int) -> NDArray:
        """Return some of the rows as a csr array."""
        counts = self.begins[rows + 1] - self.begins[rows]
        begins = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(begins[-1]) + np.repeat(self.begins[rows] - begins[:-1], counts)
        return csr_matrix(
            (self.values[places], self.columns[places], begins), shape=(len(rows), width), dtype=self.values.dtype
        )


def _read(path: str, width: int, dtype: DType, part: tuple[int, int]) -> _Rows:
    """Return one part of the rows of a file, or of all files in a directory."""
    files = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
    lines = []
    for name in files:
        with open(name, encoding="utf-8", errors="replace") as file:
            lines += [(f"line {number} of {name}", line.split()) for number, line in enumerate(file, 1) if line.strip()]
    if not lines:
        raise MXNetError(f"{path} has no rows")
    chosen = part_of(len(lines), *part)
    labels: list[float] = []
    values: list[float] = []
    columns: list[int] = []
    begins = [0]
    for place, (label, *elements) in lines[chosen.start : chosen.stop]:
        try:
            labels.append(float(label))
            pairs = [element.split(":") for element in elements]
            row = [int(column) for column, _ in pairs]
            values += [float(value) for _, value in pairs]
        except ValueError as error:
            raise MXNetError(f"{place} does not have the form 'label column:value ...': {error}") from error
        if row and not 0 <= min(row) <= max(row) < width:
            raise MXNetError(
                f"{place} has columns from {min(row)} to {max(row)}, but data_shape allows 0 to {width - 1}"
            )
        columns += row
        begins.append(len(columns))
    return _Rows(np.array(labels, dtype), np.array(values, dtype), np.array(columns, np.int64), np.array(begins))


class LibSVMIter(RoundIter):
    """Iterate over sparse rows, as csr arrays, from files with a label and ``column:value`` pairs in each line.

    Columns are counted from 0.

    Parameters
    ----------
    data_libsvm
        A file, or a directory whose files are read in the order of their names.
    data_shape
        (columns,): the number of columns of a row.
    label_libsvm
        A file of labels that are sparse rows, too (its own labels are ignored). Without it, labels are those of the
        data.
    label_shape
        The (columns,) of labels.
    num_parts, part_index
        The number of parts of the rows, and the part to use. With ``num_parts=None``, each process that trains with
        others uses its part.
    batch_size
        The number of rows in a batch.
    round_batch
        Must be True: rows from the beginning fill the last batch, and the next pass skips them.
    prefetch_buffer, ctx
        Have no effect: the iterator reads all data at once.
    dtype
        The dtype of data and labels.
    data_name, label_name
        The names in descriptions.
    """

    def __init__(
        self,
        data_libsvm: str,
        data_shape: Any,
        label_libsvm: str = "NULL",
        label_shape: Any = (1,),
        num_parts: int | None = 1,
        part_index: int = 0,
        batch_size: int = 0,
        round_batch: bool = True,
        prefetch_buffer: int = 4,
        ctx: str = "cpu",
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        if not round_batch:
            raise MXNetError("sparse batch loader doesn't support round_batch == false yet")
        shapes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in (data_shape, label_shape)]
        for word, shape in zip(("data_shape", "label_shape"), shapes, strict=True):
            if len(shape) != 1:
                raise MXNetError(f"{word} must be (columns,), not {shape}")
        kind, part = as_dtype(dtype), choose_part(num_parts, part_index)
        (self._width,), (self._label_width,) = shapes
        self._rows = _read(os.fspath(data_libsvm), self._width, kind, part)
        self._label_rows: _Rows | None = None
        if label_libsvm != "NULL":
            self._label_rows = _read(os.fspath(label_libsvm), self._label_width, kind, part)
            if len(self._label_rows) != len(self._rows):
                raise MXNetError(
                    f"{label_libsvm} has {len(self._label_rows)} rows, but {data_libsvm} has {len(self._rows)}"
                )
        super().__init__(len(self._rows), batch_size, True, data_name, label_name)
        self._describe((self._width,), () if self._label_rows is None else (self._label_width,), kind.type)

    def _batch(self) -> tuple[NDArray, NDArray]:
        if self._chosen is None:
            raise StopIteration("there is no batch before the first call of next")
        if self._arrays is None:
            data = self._rows.select(self._chosen, self._width)
            if self._label_rows is not None:
                label = self._label_rows.select(self._chosen, self._label_width)
            else:
                label = concrete(np.ascontiguousarray(self._rows.labels[self._chosen]), CPU)
            self._arrays = data, label
        return self._arrays


complete_classes(globals())
