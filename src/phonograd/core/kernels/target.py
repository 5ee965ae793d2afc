"""Machine: the properties of a processor that kernels depend on, its vectors and its matrix unit."""

from __future__ import annotations

from typing import NamedTuple

from ..base.dtypes import DType
from ..lower.ir.emitter import ROW

__all__ = ["Machine"]


class Machine(NamedTuple):
    """A processor, as the authors of kernels see it."""

    vector_bytes: int = 32
    """Bytes of a vector register."""
    registers: int = 16
    """Number of vector registers."""
    matrix_unit: bool = False
    """True if it multiplies tiles of bfloat16 (:mod:`.matmul.amx`)."""
    bfloat16_pairs: bool = False
    """True if it adds products of pairs of bfloat16 to sums (:mod:`.matmul.pairs`)."""
    dots: str = "plain"
    """The instructions that multiply small integers and add up neighbors (:mod:`.quantized.dots`): ``amx``, ``vnni``,
    ``pmaddwd`` or ``plain``."""

    def lanes(self, dtype: DType) -> int:
        """Return the number of elements in a vector.

        >>> import numpy as np
        >>> Machine(64, 32).lanes(np.dtype("float32")), Machine(64, 32).lanes(np.dtype("float64"))
        (16, 8)
        """
        return min(ROW, self.vector_bytes // dtype.itemsize)
