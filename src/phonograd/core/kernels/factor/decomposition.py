"""The frame of kernels that decompose small matrices by iterations: eigenvalues and singular values.

A kernel loads one matrix after the other, scales it by a power of two, so that squares of its elements keep their
precision, and decomposes it. Takes reflections from :mod:`.reflections`; :mod:`.eigen` and :mod:`.singular` write what
is different. A matrix that cannot be decomposed gets NaN as its values, and sets the status.
"""

from __future__ import annotations

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine
from .blocks import SMALL
from .reflections import Reflections

__all__ = ["Decomposition"]


class Decomposition:
    """Writes a kernel. Numbers are in all lanes of a vector.

    Parameters
    ----------
    words
        The words of its table: ``size``, ``status*``, ``values*``, and those of the matrices ``data`` and ``results``.
    results
        The names of the matrices of vectors that it writes.
    """

    def __init__(self, dtype: DType, name: str, words: Words, results: tuple[str, ...]) -> None:
        self.dtype = dtype
        self.routine = Routine(name, Reflections.lanes(dtype), dtype)
        matrix = SMALL * SMALL * dtype.itemsize // 8
        #: the matrix that is decomposed, and those of vectors
        self.work, *self.vectors = (self.routine.scratch(matrix) for _ in range(1 + len(results)))
        self.steps = Reflections(self.routine, scaled=True)
        self.size = words.index(self.routine, "size")
        #: the length of the rows of the matrix in whole vectors
        self.stop = self.steps.whole(self.size)
        self.status = words.pointer(self.routine, "status")
        self._words, self._names = words, results
        #: where the results of a matrix begin
        self.results: list[str] = []
        self.values = ""

    def write(self) -> str:
        """Return the module's LLVM IR."""
        self.routine.for_each("%lo", "%hi", self._task)
        return self.routine.text()

    def load(self, data: str, distance: Index) -> None:
        """Write how a matrix is loaded, given the distance of its rows."""
        raise NotImplementedError

    def decompose(self, power: Value) -> None:
        """Write how the matrix that is loaded and scaled is decomposed, given the power of two."""
        raise NotImplementedError

    def fail(self) -> None:
        """Write that a matrix cannot be decomposed."""
        e = self.routine
        e.store_word(self.status, "0", "1")
        self.steps.store_row(self.values, self.size, lambda place: self.steps.missing)

    def line(self, matrix: str, row: Index) -> str:
        """Return the address of a row of a work matrix."""
        e = self.routine
        return e.at(matrix, e.times(row, str(SMALL)))

    def _task(self, batch: Index) -> None:
        e, words = self.routine, self._words
        data, *self.results = [
            e.at(words.pointer(e, word), e.times(batch, words.index(e, f"{word}_batch")))
            for word in ("data", *self._names)
        ]
        self.values = e.at(words.pointer(e, "values"), e.times(batch, self.size))
        self.load(data, words.index(e, "data_row"))
        power = self.steps.power_of_largest(self.work, SMALL, (self.size, self.stop))
        infinity = self.steps.number(float("inf"))
        is_usable = e.bits("and", e.relation("gt", power, e.zeros()), e.relation("lt", power, infinity))
        e.when(e.any(is_usable), lambda: self._scale(power), self.fail)

    def _scale(self, power: Value) -> None:
        e = self.routine
        scale = e.divide(self.steps.one, power)

        def scaled(row: Index) -> None:
            line = self.line(self.work, row)
            change = lambda place: e.store(line, place, e.multiply(e.get(line, place), scale))  # noqa: E731
            e.for_each("0", self.stop, change, str(e.lanes))

        e.for_each("0", self.size, scaled)
        self.decompose(power)
