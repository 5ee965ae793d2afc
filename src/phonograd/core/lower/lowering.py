"""Lowerings: how kernels compute an operator, as its declaration states it.

``Operator.lowering`` holds one object of these kinds, or None: then NumPy evaluates the operator between two kernels.

=====================  ==============================================================  ==============================
kind                   the operator                                                    the declaration gives
=====================  ==============================================================  ==============================
:class:`Elementwise`   computes an element from one element of each (broadcast) input  a sequence of instructions
:class:`Reduction`     combines elements along axes                                    how to combine two, and the axes
:class:`Location`      computes nothing: its elements are stored elsewhere             the new pattern of places
:class:`Constant`      is a number that is part of the expression                      its bytes
:class:`Random`        makes elements from random words                                rows of words to rows of values
:class:`Matmul`        multiplies matrices                                             nothing: there is one kernel
:class:`Coordinate`    has elements that are their own positions along an axis         that axis
:class:`Pieces`        has several outputs, each a part of the only input              the pattern of each
:class:`Mosaic`        puts its inputs side by side                                    where each begins
:class:`InplaceUpdate`       replaces a region of the first input by the second              the region
:class:`Gather`        takes elements of the first input at indices in the second      how to walk the first one
:class:`Library`       runs kernels of its own                                         the module that plans them
:class:`Scatter`       adds elements up at indices in the second input                 sizes
:class:`Cumulative`       adds elements up one after the other along an axis              that axis, and the direction
:class:`Selection`     finds the first elements in sorted order along an axis          that axis, how many, the order
:class:`Windowed`      computes over sliding windows of images                         its name
:class:`Called`        is computed by kernels whose results Python checks              their name, and the check
:class:`Expansion`     does the same as other operators                                the expression
:class:`Either`        is one of these, by dtype or parameters                         several of them
=====================  ==============================================================  ==============================

Rules
-----
A function in a declaration takes the operator's parameters that it names as keyword-only arguments, as shape and
gradient rules do. Parameters that it names are part of a kernel's structure (another value is another kernel);
``numbers`` are not: kernels read them when they run.

The declarations of the operators ``tanh``, ``_permute`` and ``_integer_power`` would say::

    lowering = Elementwise(lambda e, x: e.tanh(x))
    lowering = Location(lambda pattern, *, axes: pattern.permute(axes))
    lowering = Elementwise(lambda e, x, *, exponent: ...)

The planner knows none of these kinds: it sees the protocol of :mod:`~phonograd.core.lower.lowering_protocol`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from ..base.dtypes import FLOAT32, FLOAT64, HALVES, INT8, INT32, INT64, UINT8, DType
from ..graph.node import Node, Shape
from ..graph.operator import REGISTRY, Operator
from .ir.emitter import SUPPORTED, Emitter, Value
from .lowering_protocol import NUMPY, Fused, Library, Lowering, Planner, alternatives, parameters
from .pattern import Pattern

__all__ = [
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "NUMPY",
    "SAME",
    "SUPPORTED",
    "WIDE_FLOATS",
    "Called",
    "Constant",
    "Coordinate",
    "Cumulative",
    "Either",
    "Elementwise",
    "Expansion",
    "Fused",
    "Gather",
    "IndexWalk",
    "InplaceUpdate",
    "Library",
    "Location",
    "Lowering",
    "Matmul",
    "Mosaic",
    "Pieces",
    "Planner",
    "Random",
    "Reduction",
    "Scatter",
    "Selection",
    "Windowed",
    "alternatives",
    "lowering_of_kind",
    "parameters",
]

#: dtypes that a lowering may be written for
WIDE_FLOATS: frozenset[DType] = frozenset([FLOAT32, FLOAT64])
FLOATS: frozenset[DType] = WIDE_FLOATS | HALVES
INTEGERS: frozenset[DType] = frozenset([INT8, UINT8, INT32, INT64])
NUMBERS = FLOATS | INTEGERS


# -- fused kernels


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Elementwise(Lowering):
    """Each output element follows from one element of every input, repeated where shapes differ.

    ``emit(emitter, *values, *numbers)`` writes the instructions and returns the result. Every kernel that contains the
    operator, alone or fused, calls it once and adds no other instructions: equal bits follow. Values of 16
    bits come as float32, and a float32 result is rounded where the output has 16 bits.
    """

    fused_as = Fused.STEP
    memory_inputs = slice(0)

    emit: Callable[..., Value]
    dtypes: frozenset[DType] = FLOATS
    numbers: Callable[..., Sequence[Any]] | None = None
    """``numbers(dtype)``: parameters as numbers of the output's dtype, which kernels read at run time."""

    def value(self, e: Emitter, sources: Sequence[Value], parameters: Mapping[str, Any], dtype: DType) -> Value:
        """Return the result of the operator, in the dtype of its node."""
        return e.round_to(self.emit(e, *[e.widen(source) for source in sources], **parameters), dtype)

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner how to compute a node."""
        planner.compute(node, expression, self)

    def is_worth_keeping(self, cost: float | Callable[[Node], float], cheap: float) -> bool:
        """Return whether computing the value again costs more than a cheap operation."""
        return callable(cost) or cost > cheap


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Reduction(Lowering):
    """Elements along some axes of the only input are combined, in an order that depends on its shape alone.

    ``combine(emitter, first, second)`` joins two partial results, and ``identity`` changes nothing when joined.
    :mod:`phonograd.core.kernels.fused.writer` describes the order.
    """

    fused_as = Fused.FOLD
    memory_inputs = slice(0)
    combines = True

    combine: Callable[[Emitter, Value, Value], Value]
    identity: float | Callable[[DType], float]
    """A number, or a function of the dtype."""
    axes: Callable[..., Shape]
    """``axes(shape of the input)``: the axes along which elements are combined."""
    dtypes: frozenset[DType] = WIDE_FLOATS | INTEGERS
    shape: Callable[..., Shape] | None = None
    """``shape()``: the shape of the result, given the parameters of ``axes``; by default the axes keep size one."""

    def start(self, dtype: DType) -> float:
        """Return the identity for a dtype."""
        return self.identity(dtype) if callable(self.identity) else self.identity

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner how to compute a node."""
        shape = planner.source(expression.inputs[0]).shape
        planner.fold(node, expression, self, self.axes(shape, **parameters(expression, self.axes)))

    def folded(self, operator: Operator, attributes: tuple[Any, ...], shape: Shape) -> tuple[Shape, Shape]:
        """Return the axes of an input along which elements are combined, and the shape of the result."""
        named = operator.accepted(self.axes, attributes)
        axes = self.axes(shape, **named)
        if self.shape is not None:
            return axes, self.shape(**named)
        return axes, tuple([1 if axis in axes else extent for axis, extent in enumerate(shape)])


class IndexWalk(NamedTuple):
    """The address of an element that an index selects: its place at index 0, and the stride of the index."""

    pattern: Pattern
    index_stride: int


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Gather(Lowering):
    """Elements of the first input at the places that the second (int64, in range) names.

    ``walk(pattern of the data, shape of the index)`` returns the pattern over the output, with stride 0 along the axes
    of the index, or None if no pattern exists; the planner then writes the data to memory and calls it again.
    ``index(pattern of the index, shape of the output)`` returns the pattern of the index over the output.
    """

    fused_as = Fused.TAKE
    memory_inputs = slice(1)
    only_moves = True

    walk: Callable[..., IndexWalk | None]
    index: Callable[..., Pattern]
    zero_first: bool = False
    """Whether the elements at index 0 are zero: rows that they leave unchanged need not be computed."""
    dtypes: frozenset[DType] = SUPPORTED

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner how to compute a node."""
        planner.take(node, expression, self)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Random(Lowering):
    """Elements made of the random words that follow from the only input, the counter, and from their position.

    ``convert(emitter, rows, dtype)`` takes four rows of words (uint32) and returns as many rows of elements as these
    make: four where an element takes one word, two where it takes two (float64). See
    :mod:`phonograd.core.lower.philox`.
    """

    fused_as = Fused.DRAW

    convert: Callable[..., list[Value]]
    dtypes: frozenset[DType] = WIDE_FLOATS

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner how to compute a node."""
        planner.draw(node, self)

    def fits(self, out: DType, sources: Iterable[DType]) -> bool:
        """Return whether it is written for the output's dtype; the counter has its own."""
        return out in self.dtypes


# -- values that need no kernel


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Location(Lowering):
    """The elements of the only input at other places; nothing is computed and, where possible, nothing is moved.

    ``move(pattern)`` returns the pattern of the elements, given that of the input, or None if no pattern describes
    them. The planner then writes the input to memory first, in order, and calls it again.
    """

    fused_as = Fused.COPY
    is_view = True
    only_moves = True

    move: Callable[..., Pattern | None]
    dtypes: frozenset[DType] = SUPPORTED

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner where to read a node."""
        planner.view(node, self.move, parameters(expression, self.move))

    def is_worth_keeping(self, cost: float | Callable[[Node], float], cheap: float) -> bool:
        """Return False: the elements are those of another value."""
        return False


#: the elements of a value, unchanged
SAME = Location(lambda pattern: pattern)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pieces(Lowering):
    """Several outputs, each of which is a part of the only input.

    ``part(output)`` returns which part an output is: a few numbers, however many outputs there are. ``move(pattern,
    *part)`` returns the pattern of its elements, as that of a :class:`Location` does.
    """

    is_view = True
    is_split = True
    memory_inputs = slice(0)
    only_moves = True

    part: Callable[..., tuple[int | None, ...]]
    move: Callable[..., Pattern | None]
    dtypes: frozenset[DType] = SUPPORTED

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Do nothing: the planner places each output as a location."""

    def piece(self, whole: Node, output: int) -> Lowering:
        """Return the lowering of one output."""
        # by the part alone: the parameters of the operator may name all outputs, which takes long to look up for each
        return _piece_of(self, self.part(output, **parameters(whole, self.part)))


@functools.lru_cache(1024)
def _piece_of(pieces: Pieces, part: tuple[int | None, ...]) -> Location:
    return Location(lambda pattern: pieces.move(pattern, *part), pieces.dtypes)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Constant(Lowering):
    """A number that is part of the expression, in every element; ``read()`` returns its bytes.

    Kernels read it when they run, so that ``x + 1`` and ``x + 2`` share one.
    """

    is_constant = True
    needs_no_memory = True
    only_moves = True

    read: Callable[..., bytes]
    dtypes: frozenset[DType] = SUPPORTED

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Do nothing: kernels that read it hold the number."""

    def pattern(self, node: Node) -> Pattern:
        """Return a pattern that repeats one element."""
        return Pattern(node.shape, (0,) * node.ndim)

    def number(self, node: Node) -> bytes:
        """Return the bytes of the number."""
        return self.read(**parameters(node, self.read))

    def is_worth_keeping(self, cost: float | Callable[[Node], float], cheap: float) -> bool:
        """Return False: the number is part of the expression."""
        return False


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Coordinate(Lowering):
    """Every element is its position along an axis, which ``axis()`` returns. There are no inputs and no memory."""

    needs_no_memory = True
    only_moves = True

    axis: Callable[..., int]
    dtypes: frozenset[DType] = frozenset([INT32, INT64])

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Do nothing: kernels that read it count."""

    def pattern(self, node: Node) -> Pattern:
        """Return a pattern whose distances are the positions."""
        axis = self.axis(**parameters(node, self.axis))
        return Pattern(node.shape, tuple([int(a == axis) for a in range(node.ndim)]))


# -- values that are written in parts


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Mosaic(Lowering):
    """The inputs side by side, each a block of the output; ``begins(shapes)`` returns where each of them begins.

    Where possible, the kernel that computes an input writes it to its block.
    """

    memory_inputs = slice(0)
    only_moves = True

    begins: Callable[..., Sequence[Shape]]
    dtypes: frozenset[DType] = SUPPORTED

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner which blocks a node consists of."""
        if node.size == 0:
            planner.evaluate(node)
            return
        sources = [planner.source(source) for source in expression.inputs]
        begins = self.begins([source.shape for source in sources], **parameters(expression, self.begins))
        planner.join(node, sources, begins)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class InplaceUpdate(Lowering):
    """The first input with a region of it replaced by the second one, repeated to its shape.

    ``region()`` returns begin, end and step. A declaration has it behind an expansion that says the same element by
    element; the planner chooses between them.
    """

    replaces_part = True

    region: Callable[..., tuple[Shape, Shape, Shape]]
    dtypes: frozenset[DType] = SUPPORTED

    def region_of(self, node: Node) -> tuple[Shape, Shape, Shape]:
        """Return begin, end and step of the region that is replaced."""
        return self.region(**parameters(node, self.region))

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner which part to replace."""
        planner.replace(node, expression, Pattern.contiguous(expression.shape).slice(*self.region_of(expression)))


# -- kernels of their own


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Matmul(Lowering):
    """Matrix products over the last two axes, by the kernel of :mod:`phonograd.core.kernels.matmul.gemm`.

    The operands are read where they are stored, transposed or not: the order of a sum depends on its length alone.
    """

    is_product = True

    dtypes: frozenset[DType] = WIDE_FLOATS
    operands: frozenset[DType] = frozenset()
    """Dtypes of the operands, if they are not those of the result."""

    def fits(self, out: DType, sources: Iterable[DType]) -> bool:
        """Return whether it is written for these dtypes of the output and the inputs."""
        return out in self.dtypes and (self.operands or self.dtypes).issuperset(sources)

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner to multiply."""
        planner.multiply(node, expression)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scatter(Library):
    """Elements of the first input, added up at the places that the second (int64, in range) names, in order.

    Both are taken as three axes: the output is ``(outer, extent, inner)``, the data ``(outer, count, inner)`` and the
    index ``(count,)``; ``sizes(shape of the data, shape of the index)`` returns (outer, inner, extent). Floating point
    numbers are added in double precision and rounded once.

    ``form`` says what of it is computed. For ``last`` the index is the only input: the output holds for each place
    where the index names it last, or -1. ``slices`` and ``first`` are the same sum in two parts, for readers that can
    take slices from anywhere. ``slices`` has a slice of zeros, and then the sum of each place at its first slice and
    zeros at its others. ``first`` holds for each place where its sum is in ``slices``: 0 if the index does not name it.
    ``onto`` has another input ``old`` before these, of the shape of the output, to which the sums are added.
    """

    kernel = "phonograd.core.kernels.scatter"
    combines = True

    sizes: Callable[..., tuple[int, int, int]]
    form: Literal["sum", "last", "first", "slices", "onto"] = "sum"
    dtypes: frozenset[DType] = WIDE_FLOATS | INTEGERS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Cumulative(Library):
    """Along an axis, every element is the sum of those of the only input up to it, added one after the other.

    ``along()`` returns the axis, and whether the sums begin at its end.
    """

    kernel = "phonograd.core.kernels.cumsum"

    along: Callable[..., tuple[int, bool]]
    dtypes: frozenset[DType] = WIDE_FLOATS | INTEGERS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Selection(Library):
    """The flat positions (int64) of the first elements of the only input in sorted order along an axis.

    ``along()`` returns the axis, the number of elements, and whether the order is ascending. Equal elements keep their
    order, and NaN is greater than every number. NumPy computes it where sorting all elements takes less time.
    """

    kernel = "phonograd.core.kernels.selection"
    selects = True

    along: Callable[..., tuple[int, int, bool]]
    dtypes: frozenset[DType] = frozenset([FLOAT32, INT8, UINT8, INT32])
    """Those of the elements."""

    def fits(self, out: DType, sources: Iterable[DType]) -> bool:
        """Return whether it is written for these dtypes of the output and the inputs."""
        return self.dtypes.issuperset(sources)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Windowed(Library):
    """A function of sliding windows of images: convolution, pooling, and their adjoints.

    ``primitive`` is its name in :mod:`phonograd.core.kernels.window_plans`. Numbers of 16 bits are converted to float32
    and back.
    """

    kernel = "phonograd.core.kernels.window_plans"

    primitive: str
    dtypes: frozenset[DType] = FLOATS


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Called(Lowering):
    """Kernels that Python calls, in the place of the NumPy function, and whose results it checks.

    Matrix factorizations are computed this way: a matrix may have no factorization, which raises an error. So are
    positions of index arrays, which may be out of range. ``routine`` names a plan of the module ``plans``.
    ``finish(failed, *inputs, *results)`` gets the arrays that the kernels wrote, and whether a kernel met a matrix or a
    number that it cannot take. It returns the value, or raises an error. Without it, the first result is the value.
    """

    routine: str
    finish: Callable[..., Any] | None = None
    computes: bool = False
    """Whether ``finish`` computes with numbers even if no kernel failed."""
    dtypes: frozenset[DType] = WIDE_FLOATS
    plans: str = "phonograd.core.kernels.factor.plans"
    retries: bool = False
    """Whether NumPy computes the value, or raises the error, if a kernel failed."""


# -- other operators


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Expansion(Lowering):
    """The expression of other operators: ``expand(*input nodes)`` returns a node of the same shape and dtype.

    Kernels then compute that node; where one of the operators has no lowering (or None is returned), NumPy evaluates
    the operator itself.
    """

    is_expansion = True

    expand: Callable[..., Node | None]
    dtypes: frozenset[DType] = SUPPORTED

    def expression(self, node: Node, inputs: Sequence[Node | None]) -> Node | None:
        """Return the expression that a node expands to, with some inputs in the place of its own."""
        return self.expand(*inputs, **parameters(node, self.expand))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Either(Lowering):
    """The first of several lowerings that is written for the dtypes, and is no expansion that returns None."""

    first: Lowering
    second: Lowering

    def alternatives(self) -> list[Lowering]:
        """Return the lowerings to consider, in order."""
        return [*self.first.alternatives(), *self.second.alternatives()]


Kind = TypeVar("Kind", Elementwise, Reduction, Random)


def lowering_of_kind(operator: str, kind: type[Kind]) -> Kind:
    """Return the lowering of an operator that is of a kind."""
    lowering = REGISTRY[operator].lowering
    for found in alternatives(lowering):
        if isinstance(found, kind):
            return found
    raise AssertionError(f"{operator} is lowered as {lowering}")
