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
:class:`Matmul`        matrix products                                                 nothing: a library does it
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
from collections.abc import Callable, Sequence
from typing import Any

from ..node import Shape
from .emitter import SUPPORTED, Emitter, Value
from .pattern import Pattern

__all__ = [
    "FLOATS",
    "NUMBERS",
    "SUPPORTED",
    "Constant",
    "Elementwise",
    "Location",
    "Lowering",
    "Matmul",
    "Random",
    "Reduction",
]

#: dtype kinds of NumPy that a lowering may be written for
FLOATS, NUMBERS = "f", "fiu"


@dataclasses.dataclass(frozen=True)
class Elementwise:
    """Each output element follows from one element of every input, repeated where shapes differ.

    ``emit(emitter, *values, *numbers)`` writes the instructions and returns the result. It is called once per kernel
    that the operator is part of, alone or fused, and its instructions are all there is: equal bits follow.
    """

    emit: Callable[..., Value]
    kinds: str = FLOATS
    numbers: Callable[..., Sequence[Any]] | None = None
    """Parameters as numbers of the output's dtype that kernels read at run time."""


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
    kinds: str = NUMBERS


@dataclasses.dataclass(frozen=True)
class Location:
    """The elements of the only input at other places; nothing is computed and, where possible, nothing is moved.

    ``move(pattern)`` returns where the elements lie, given where those of the input do, or None where no pattern says
    it. The planner then writes the input to memory first, in order, and asks again.
    """

    move: Callable[..., Pattern | None]
    kinds: str = NUMBERS


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number that is part of the expression, in every element; ``read()`` returns its bytes.

    Kernels read it when they run, so that ``x + 1`` and ``x + 2`` share one.
    """

    read: Callable[..., bytes]
    kinds: str = NUMBERS


@dataclasses.dataclass(frozen=True)
class Random:
    """Elements made of the random words that follow from the only input, the counter, and from their position.

    ``convert(emitter, rows, dtype)`` takes four rows of words (uint32) and returns as many rows of elements as these
    make: four where an element takes one word, two where it takes two (float64). See :mod:`phonograd.philox`.
    """

    convert: Callable[..., list[Value]]
    kinds: str = FLOATS


@dataclasses.dataclass(frozen=True)
class Matmul:
    """Matrix products over the last two axes, by ``numpy.matmul`` on contiguous operands between two kernels.

    Contiguous, because a BLAS may take another path (and give other last bits) for a transposed operand than for its
    copy, and whether a transpose has been copied must not be visible. NumPy and not its BLAS by pointer, because a
    call through NumPy costs one microsecond more and is right on every platform; what it cannot do is to stand inside
    one native call with its neighbours, on the threads of our choice.
    """

    kinds: str = FLOATS


Lowering = Elementwise | Reduction | Location | Constant | Random | Matmul
