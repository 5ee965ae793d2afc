"""The kinds of lowering: what an operator tells the planner and the kernel writer about itself.

``Operator.lowering`` holds one object of these kinds, or None: then NumPy evaluates the operator between two kernels.

=====================  ==============================================================  ==============================
kind                   what the operator does                                          declared by
=====================  ==============================================================  ==============================
:class:`Elementwise`   one output element from one element of each (broadcast) input   a sequence of instructions
:class:`Reduction`     elements along axes are combined                                how two of them are, and axes
:class:`Location`      nothing is computed: the elements lie elsewhere                 the new pattern of places
:class:`Constant`      a number that is part of the expression                         its bytes
:class:`Random`        elements made of random words                                   rows of words to rows of values
:class:`Matmul`        matrix products                                                 nothing: there is one kernel
=====================  ==============================================================  ==============================

A function in a declaration takes the operator's parameters that it names as keyword-only arguments, as shape and
gradient rules do. Parameters that it names are part of a kernel's structure (another value is another kernel);
``numbers`` are not: kernels read them when they run.

Examples
--------
The declarations of the operators ``tanh``, ``_permute`` and ``_integer_power`` would say::

    lowering = Elementwise(lambda e, x: e.tanh(x))
    lowering = Location(lambda pattern, *, axes: pattern.permute(axes))
    lowering = Elementwise(lambda e, x, *, exponent: ...)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..dtypes import FLOAT16, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, DType
from ..node import Shape
from ..operator import REGISTRY
from .emitter import SUPPORTED, Emitter, Value
from .pattern import Pattern

__all__ = [
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "SUPPORTED",
    "WIDE_FLOATS",
    "Constant",
    "Elementwise",
    "Location",
    "Lowering",
    "Matmul",
    "Random",
    "Reduction",
    "declared",
]

#: dtypes that a lowering may be written for
WIDE_FLOATS: frozenset[DType] = frozenset([FLOAT32, FLOAT64])
FLOATS = WIDE_FLOATS | {FLOAT16}
INTEGERS: frozenset[DType] = frozenset([INT8, UINT8, INT32, INT64])
NUMBERS = FLOATS | INTEGERS


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """Each output element follows from one element of every input, repeated where shapes differ.

    ``emit(emitter, *values, *numbers)`` writes the instructions and returns the result. It is called once per kernel
    that the operator is part of, alone or fused, and its instructions are all there is: equal bits follow. float16
    values come as float32, and a float32 result is rounded where the output is float16.
    """

    emit: Callable[..., Value]
    dtypes: frozenset[DType] = FLOATS
    numbers: Callable[..., Sequence[Any]] | None = None
    """``numbers(dtype)``: parameters as numbers of the output's dtype, which kernels read at run time."""

    def value(self, e: Emitter, sources: Sequence[Value], parameters: Mapping[str, Any], dtype: DType) -> Value:
        """Return the result of the operator, in the dtype of its node."""
        return e.rounded(self.emit(e, *[e.widened(source) for source in sources], **parameters), dtype)


@dataclasses.dataclass(frozen=True)
class Reduction:
    """Elements along some axes of the only input are combined, in an order that depends on its shape alone.

    ``combine(emitter, first, second)`` joins two partial results, and ``identity`` changes nothing when joined. The
    order is described in :mod:`phonograd.kernels.writer`.
    """

    combine: Callable[[Emitter, Value, Value], Value]
    identity: float
    axes: Callable[..., Shape]
    """``axes(shape of the input)``: the axes along which elements are combined."""
    dtypes: frozenset[DType] = WIDE_FLOATS | INTEGERS


@dataclasses.dataclass(frozen=True)
class Location:
    """The elements of the only input at other places; nothing is computed and, where possible, nothing is moved.

    ``move(pattern)`` returns where the elements lie, given where those of the input do, or None where no pattern says
    it. The planner then writes the input to memory first, in order, and asks again.
    """

    move: Callable[..., Pattern | None]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number that is part of the expression, in every element; ``read()`` returns its bytes.

    Kernels read it when they run, so that ``x + 1`` and ``x + 2`` share one.
    """

    read: Callable[..., bytes]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True)
class Random:
    """Elements made of the random words that follow from the only input, the counter, and from their position.

    ``convert(emitter, rows, dtype)`` takes four rows of words (uint32) and returns as many rows of elements as these
    make: four where an element takes one word, two where it takes two (float64). See :mod:`phonograd.philox`.
    """

    convert: Callable[..., list[Value]]
    dtypes: frozenset[DType] = WIDE_FLOATS


@dataclasses.dataclass(frozen=True)
class Matmul:
    """Matrix products over the last two axes, by the kernel of :mod:`phonograd.kernels.gemm`.

    The operands are read where they lie, transposed or not: the order of a sum depends on its length alone.
    """

    dtypes: frozenset[DType] = WIDE_FLOATS


Lowering = Elementwise | Reduction | Location | Constant | Random | Matmul

Kind = TypeVar("Kind", Elementwise, Reduction, Random)


def declared(operator: str, kind: type[Kind]) -> Kind:
    """Return the lowering of an operator, which is of a kind."""
    lowering = REGISTRY[operator].lowering
    assert isinstance(lowering, kind), (operator, lowering)
    return lowering
