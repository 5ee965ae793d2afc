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
:class:`Coordinate`    elements are their own positions along an axis                  that axis
:class:`Pieces`        several outputs, each a part of the only input                  the pattern of each
:class:`Mosaic`        the inputs side by side                                         where each begins
:class:`InplaceUpdate`       the first input, a region of it replaced by the second          the region
:class:`Gather`        elements of the first input at places that the second names     how the first one is walked
:class:`Scatter`       elements added up at places that the second input names         sizes
:class:`Cumulative`       elements added up one after the other along an axis             that axis, and the direction
:class:`Windowed`      something over sliding windows of images                        its name
:class:`Expansion`     what other operators do                                         the expression
:class:`Either`        one of these, by dtype or parameters                            several of them
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
from typing import Any, NamedTuple, TypeVar

from ..base.dtypes import FLOAT16, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT8, DType
from ..graph.node import Node, Shape
from ..graph.operator import REGISTRY
from .ir.emitter import SUPPORTED, Emitter, Value
from .pattern import Pattern

__all__ = [
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "SUPPORTED",
    "WIDE_FLOATS",
    "Constant",
    "Coordinate",
    "Cumulative",
    "Either",
    "Elementwise",
    "Expansion",
    "Gather",
    "IndexWalk",
    "InplaceUpdate",
    "Location",
    "Lowering",
    "Matmul",
    "Mosaic",
    "Pieces",
    "Random",
    "Reduction",
    "Scatter",
    "Windowed",
    "alternatives",
    "declared",
]

#: dtypes that a lowering may be written for
WIDE_FLOATS: frozenset[DType] = frozenset([FLOAT32, FLOAT64])
FLOATS: frozenset[DType] = WIDE_FLOATS | {FLOAT16}
INTEGERS: frozenset[DType] = frozenset([INT8, UINT8, INT32, INT64])
NUMBERS = FLOATS | INTEGERS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
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
        return e.round_to(self.emit(e, *[e.widen(source) for source in sources], **parameters), dtype)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Reduction:
    """Elements along some axes of the only input are combined, in an order that depends on its shape alone.

    ``combine(emitter, first, second)`` joins two partial results, and ``identity`` changes nothing when joined. The
    order is described in :mod:`phonograd.core.kernels.fused.writer`.
    """

    combine: Callable[[Emitter, Value, Value], Value]
    identity: float | Callable[[DType], float]
    """A number, or a function of the dtype."""
    axes: Callable[..., Shape]
    """``axes(shape of the input)``: the axes along which elements are combined."""
    dtypes: frozenset[DType] = WIDE_FLOATS | INTEGERS

    def start(self, dtype: DType) -> float:
        """Return the identity for a dtype."""
        return self.identity(dtype) if callable(self.identity) else self.identity


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Location:
    """The elements of the only input at other places; nothing is computed and, where possible, nothing is moved.

    ``move(pattern)`` returns where the elements lie, given where those of the input do, or None where no pattern says
    it. The planner then writes the input to memory first, in order, and asks again.
    """

    move: Callable[..., Pattern | None]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Constant:
    """A number that is part of the expression, in every element; ``read()`` returns its bytes.

    Kernels read it when they run, so that ``x + 1`` and ``x + 2`` share one.
    """

    read: Callable[..., bytes]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Random:
    """Elements made of the random words that follow from the only input, the counter, and from their position.

    ``convert(emitter, rows, dtype)`` takes four rows of words (uint32) and returns as many rows of elements as these
    make: four where an element takes one word, two where it takes two (float64). See
    :mod:`phonograd.core.lower.philox`.
    """

    convert: Callable[..., list[Value]]
    dtypes: frozenset[DType] = WIDE_FLOATS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Matmul:
    """Matrix products over the last two axes, by the kernel of :mod:`phonograd.core.kernels.matmul.gemm`.

    The operands are read where they lie, transposed or not: the order of a sum depends on its length alone.
    """

    dtypes: frozenset[DType] = WIDE_FLOATS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Coordinate:
    """Every element is its position along an axis, which ``axis()`` returns. There are no inputs and no memory."""

    axis: Callable[..., int]
    dtypes: frozenset[DType] = frozenset([INT32, INT64])


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """Several outputs, each of which is a part of the only input.

    ``move(pattern, output)`` returns where the elements of an output lie, as that of a :class:`Location` does.
    """

    move: Callable[..., Pattern | None]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Mosaic:
    """The inputs side by side, each a block of the output; ``begins(shapes)`` returns where each of them begins.

    Where possible, whoever computes an input writes it to its place at once.
    """

    begins: Callable[..., Sequence[Shape]]
    dtypes: frozenset[DType] = SUPPORTED


class IndexWalk(NamedTuple):
    """How elements are found by an index: the place of each without it, and the distance between its numbers."""

    pattern: Pattern
    index_stride: int


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Gather:
    """Elements of the first input at the places that the second (int64, in range) names.

    ``walk(pattern of the data, shape of the index)`` returns the pattern over the output, with stride 0 along the axes
    of the index, or None where no pattern says that; the planner then writes the data to memory and asks again.
    ``index(pattern of the index, shape of the output)`` returns the pattern of the index over the output.
    """

    walk: Callable[..., IndexWalk | None]
    index: Callable[..., Pattern]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scatter:
    """Elements of the first input, added up at the places that the second (int64, in range) names, in order.

    Both are taken as three axes: the output is ``(outer, extent, inner)``, the data ``(outer, count, inner)`` and the
    index ``(count,)``; ``sizes(shape of the data, shape of the index)`` returns (outer, inner, extent). Floating point
    numbers are added in double precision and rounded once.

    With ``last`` there is only the index, and the output is for each place where the index names it last, or -1.
    """

    sizes: Callable[..., tuple[int, int, int]]
    last: bool = False
    dtypes: frozenset[DType] = WIDE_FLOATS | INTEGERS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class InplaceUpdate:
    """The first input with a region of it replaced by the second one, repeated to its shape.

    ``region()`` returns begin, end and step. Stands behind an expansion that says the same element by element; the
    planner decides which of them it is.
    """

    region: Callable[..., tuple[Shape, Shape, Shape]]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Cumulative:
    """Along an axis, every element is the sum of those of the only input up to it, added one after the other.

    ``along()`` returns the axis, and whether the sums begin at its end.
    """

    along: Callable[..., tuple[int, bool]]
    dtypes: frozenset[DType] = FLOATS | INTEGERS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Windowed:
    """Something over sliding windows of images, by kernels of its own: convolution, pooling, and their adjoints.

    ``primitive`` is its name in :mod:`phonograd.core.plan.window_kernels`, where plans are made of shapes and
    parameters. NumPy evaluates the operator where no kernels fit them.
    """

    primitive: str
    dtypes: frozenset[DType] = WIDE_FLOATS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Expansion:
    """What other operators do: ``expand(*input nodes)`` returns a node of the same shape and dtype.

    Kernels then compute that node; where one of the operators has no lowering (or None is returned), NumPy evaluates
    the operator itself.
    """

    expand: Callable[..., Node | None]
    dtypes: frozenset[DType] = SUPPORTED


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Either:
    """The first of several lowerings that is written for the dtypes, and is no expansion that returns None."""

    first: Lowering
    second: Lowering

    @property
    def dtypes(self) -> frozenset[DType]:
        """The dtypes that either is written for."""
        return self.first.dtypes | self.second.dtypes


Lowering = (
    Elementwise
    | Reduction
    | Location
    | Constant
    | Random
    | Matmul
    | Coordinate
    | Pieces
    | Mosaic
    | InplaceUpdate
    | Gather
    | Scatter
    | Cumulative
    | Windowed
    | Expansion
    | Either
)

Kind = TypeVar("Kind", Elementwise, Reduction, Random)


def declared(operator: str, kind: type[Kind]) -> Kind:
    """Return the lowering of an operator, which is of a kind."""
    lowering = REGISTRY[operator].lowering
    for found in alternatives(lowering):
        if isinstance(found, kind):
            return found
    raise AssertionError(f"{operator} is lowered as {lowering}")


def alternatives(lowering: Lowering | None) -> list[Lowering]:
    """Return the lowerings of an operator, in the order in which they are considered."""
    if lowering is None:
        return []
    return (
        [*alternatives(lowering.first), *alternatives(lowering.second)] if isinstance(lowering, Either) else [lowering]
    )
