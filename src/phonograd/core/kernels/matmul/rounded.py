"""Products that are rounded to 16 bits, without a float32 result in memory.

Rows of the result are computed in equal parts. Each part is summed up in float32, in scratch memory that stays in a
cache, and rounded behind (:mod:`~phonograd.core.kernels.convert`). The bits are those of a float32 product that is
rounded afterwards: rows do not depend on each other. The second operand is packed once for all parts.
See docs/decisions/0023.
"""

from __future__ import annotations

from ...base.dtypes import DType
from ..convert import conversion
from ..launch import Launch, Plan, Reference, align_up
from .gemm import Gemm, Matrices, panels, product

__all__ = ["is_worth_rounding", "rounded_product"]

#: size of a float32 result that is worth dividing
LEAST_BYTES = 1 << 21
#: size of a part
PART_BYTES = 1 << 20
#: rows of a part: the second operand is read once for all of them
PART_ROWS = 192


def is_worth_rounding(sizes: tuple[int, int, int], kernel: Gemm) -> bool:
    """Return whether parts of a result take much less memory than the whole in float32."""
    rows, terms, columns = sizes
    # the packed operand is not larger than the result
    return terms <= rows and rows >= 2 * PART_ROWS and rows * columns * kernel.dtype.itemsize >= LEAST_BYTES


def rounded_product(
    sizes: tuple[int, int, int], lhs: Matrices, rhs: Matrices, dtype: DType, kernel: Gemm, block_terms: int = 0
) -> Plan:
    """Return the launches that compute ``out = lhs · rhs`` for two matrices, with a contiguous result of 16 bits.

    Parameters
    ----------
    sizes
        Rows of ``lhs``, terms of a sum, columns of ``rhs``.
    lhs, rhs
        The strides of the operands.
    dtype
        The dtype of the result.
    kernel
        The kernel of a product whose result is float32.
    block_terms
        As in :func:`~phonograd.core.kernels.matmul.gemm.product`.
    """
    rows, terms, columns = sizes
    width = columns * kernel.dtype.itemsize
    count = max(1, min(rows // PART_ROWS, -(-rows * width // PART_BYTES)))
    part = -(-rows // count)
    part_sizes = part, terms, columns
    packed = panels(part_sizes, (1, 1), rhs, kernel, 1, block_terms)
    out = Matrices(columns, 1)
    plan = product(part_sizes, (1, 1), lhs, rhs, out, kernel, in_panels=True, block_terms=block_terms)
    panel_place = align_up(plan.scratch_bytes)
    out_place = panel_place + align_up(packed.size)
    launches = [_move(packed.launch, {"out": Reference("scratch", panel_place)})]
    for number in range(count):
        # all parts have the same size: the last one begins earlier than where the one before it ends
        first = min(number * part, rows - part)
        places = {
            "lhs": Reference("lhs", first * lhs.row * kernel.lhs.itemsize),
            "rhs": Reference("scratch", panel_place),
            "out": Reference("scratch", out_place),
        }
        launches += [_move(launch, places) for launch in plan.launches]
        target = Reference("out", first * columns * dtype.itemsize)
        machine = kernel.machine
        launches.append(conversion(kernel.dtype, dtype, machine, places["out"], target, part * columns))
    return Plan(tuple(launches), out_place + align_up(part * width))


def _move(launch: Launch, places: dict[str, Reference]) -> Launch:
    """Return a launch with operands elsewhere."""

    def moved(word: int | Reference) -> int | Reference:
        if not isinstance(word, Reference) or word.operand not in places:
            return word
        place = places[word.operand]
        return Reference(place.operand, place.offset + word.offset)

    return launch._replace(words=tuple([moved(word) for word in launch.words]))
