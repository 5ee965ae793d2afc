"""The protocol between operators and the planner: the facts and answers of a lowering, and the planner it sees.

:class:`Lowering` is all that the planner knows of an operator's kernels. The planner tests no types. It reads facts
(``is_view``, ``fused_as``, ...), asks questions (:meth:`~Lowering.fits`, :meth:`~Lowering.pattern`, ...), and
hands itself to :meth:`~Lowering.place`, which calls one operation of :class:`Planner`. So this module needs no planner,
and a new kind needs no change there.

A new kind of kernel touches two files. The declaration derives a class from :class:`Library` and names the module that
plans the kernels; that module defines ``plan(node, lowering, machine)``. The name is a string, because operators come
before kernels in the order of layers, and because most programs never import most kernels. See
``docs/decisions/0020-lowering-is-a-protocol.md``.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..base.dtypes import DType
from ..graph.node import Node, Shape
from ..graph.operator import Operator, item_operator
from .pattern import Pattern

if TYPE_CHECKING:
    from ..kernels.launch import Plan
    from ..kernels.target import Machine
    from .lowering import Gather

__all__ = ["NUMPY", "Fused", "Library", "Lowering", "Planner", "alternatives", "parameters"]

_ITEM = item_operator()


class Fused(enum.Enum):
    """The forms in which a fused kernel computes a value: the vocabulary of :mod:`phonograd.core.kernels.structure`."""

    STEP = "step"
    """Instructions on one element of each operand."""
    FOLD = "fold"
    """A reduction along some axes."""
    TAKE = "take"
    """An element of the first operand, at a place that the second one names."""
    DRAW = "draw"
    """Random numbers."""
    COPY = "copy"
    """The only operand, unchanged."""


class Planner(Protocol):
    """The operations of a planner that :meth:`Lowering.place` may call: one of them for each node.

    ``node`` names the value. ``expression`` is the node that says how to compute it: the same one, unless the operator
    was expanded.
    """

    @property
    def machine(self) -> Machine:
        """The processor that kernels are written for."""

    def source(self, node: Node, /) -> Node:
        """Return the node whose value is to be read as that of a node."""

    def compute(self, node: Node, expression: Node, lowering: Lowering) -> None:
        """Compute a value element by element, in a fused kernel."""

    def fold(self, node: Node, expression: Node, lowering: Lowering, axes: Shape) -> None:
        """Combine the elements of the only input along some axes, in a fused kernel."""

    def take(self, node: Node, expression: Node, lowering: Gather) -> None:
        """Take elements of the first input at indices in the second one, in a fused kernel."""

    def draw(self, node: Node, lowering: Lowering) -> None:
        """Draw random numbers, in a fused kernel."""

    def view(self, node: Node, move: Callable[..., Pattern | None], named: Mapping[str, Any]) -> None:
        """Read a value where its input is stored, by the pattern that ``move(pattern, **named)`` returns."""

    def join(self, node: Node, sources: Sequence[Node], begins: Sequence[Shape]) -> None:
        """Write each source to its block of the value."""

    def replace(self, node: Node, expression: Node, part: Pattern) -> None:
        """Replace a part of the first input by the second one, in place where nothing reads the old value later."""

    def multiply(self, node: Node, expression: Node) -> None:
        """Multiply matrices."""

    def launch(self, node: Node, expression: Node, plan: Plan) -> None:
        """Run kernels whose operands are the inputs of the expression, contiguous, and ``out``."""

    def evaluate(self, node: Node) -> None:
        """Let NumPy evaluate the operator of a node."""


class Lowering:
    """The declaration of an operator's kernel. This base class leaves the operator to NumPy.

    A kind overrides the facts and answers in which it differs.
    """

    #: dtypes of inputs and output that it is written for
    dtypes: frozenset[DType] = frozenset()
    #: a function that returns parameters as numbers, which kernels read when they run
    numbers: Callable[..., Sequence[Any]] | None = None
    #: the form of its value in a fused kernel; None: it has none
    fused_as: ClassVar[Fused | None] = None
    #: whether its elements are stored in the memory of its only input
    is_view: ClassVar[bool] = False
    #: whether it has several outputs
    is_split: ClassVar[bool] = False
    #: whether it is a number that is part of the expression
    is_constant: ClassVar[bool] = False
    #: whether kernels make its elements wherever they read them
    needs_no_memory: ClassVar[bool] = False
    #: those of its inputs that must be in memory, wherever they are computed
    memory_inputs: ClassVar[slice] = slice(None)
    #: whether it moves elements and computes none
    only_moves: ClassVar[bool] = False
    #: whether it combines elements, so that its cost is for each element of the largest input
    combines: ClassVar[bool] = False
    #: whether it finds the first elements in sorted order along an axis
    selects: ClassVar[bool] = False
    #: whether it multiplies matrices: the planner adds sums of products up inside the products
    is_product: ClassVar[bool] = False
    #: whether the elements that it takes at index 0 are zero
    zero_first: bool = False
    #: whether it is the first input with a region replaced
    replaces_part: ClassVar[bool] = False
    #: whether other operators say how it is computed
    is_expansion: ClassVar[bool] = False
    #: the name of the kernels that Python calls where it would call NumPy; None: there are none
    routine: str | None = None
    #: the module that plans these kernels: ``plan(node, routine, machine, attributes)`` and ``rule(routine)``
    plans: str = ""
    #: a function that checks their results
    finish: Callable[..., Any] | None = None
    #: whether that function computes with numbers even if no kernel failed
    computes: bool = False
    #: whether NumPy computes the value, or raises the error, if a kernel failed
    retries: bool = False

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner how to compute a node."""
        planner.evaluate(node)

    def alternatives(self) -> list[Lowering]:
        """Return the lowerings to consider, in order."""
        return [self]

    def expression(self, node: Node, inputs: Sequence[Node | None]) -> Node | None:
        """Return the expression that a node expands to, with other inputs in the place of its own, or None."""
        return None

    def piece(self, whole: Node, output: int) -> Lowering | None:
        """Return the lowering of one output of a node that is split; None where NumPy makes all of them."""
        return None

    def fits(self, out: DType, sources: Iterable[DType]) -> bool:
        """Return whether it is written for these dtypes of the output and the inputs."""
        return out in self.dtypes and self.dtypes.issuperset(sources)

    def pattern(self, node: Node) -> Pattern:
        """Return the pattern by which the value of a node is read where it is stored, or would be."""
        return Pattern.contiguous(node.shape)

    def number(self, node: Node) -> bytes:
        """Return the bytes of a constant."""
        raise TypeError(f"{node} is not a constant")

    def region_of(self, node: Node) -> tuple[Shape, Shape, Shape]:
        """Return begin, end and step of the region that is replaced."""
        raise TypeError(f"{node} replaces no region")

    def folded(self, operator: Operator, attributes: tuple[Any, ...], shape: Shape) -> tuple[Shape, Shape]:
        """Return the axes of an input along which elements are combined, and the shape of the result."""
        raise NotImplementedError(f"{operator.name} does not only combine elements")

    def is_worth_keeping(self, cost: float | Callable[[Node], float], cheap: float) -> bool:
        """Return whether to keep a value that may be needed again, given the operator's cost and a cheap one."""
        return True


#: the lowering of every node that NumPy evaluates
NUMPY = Lowering()


def alternatives(lowering: Lowering | None) -> list[Lowering]:
    """Return the lowerings of an operator, in the order in which they are considered."""
    return [] if lowering is None else lowering.alternatives()


def parameters(expression: Node, rule: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a node that a function of its lowering names."""
    # each output of a split has a rule of its own, which needs none
    operator = expression.operator
    return {} if operator is _ITEM else operator.accepted(rule, expression.attributes)


class Library(Lowering):
    """Kernels of their own, from contiguous inputs. Derive a class from it for each new kind of kernel.

    ``kernel`` names a module with a function ``plan(node, lowering, machine)``. It returns the
    :class:`~phonograd.core.kernels.launch.Plan` that computes the node, or None to leave it to NumPy. The operands of
    the plan have the names of the operator's inputs, and ``out``.

    A declaration, and the module that it names::

        @dataclasses.dataclass(frozen=True, eq=False, repr=False)
        class Sort(Library):
            kernel = "phonograd.core.kernels.sort"
            dtypes: frozenset[DType] = WIDE_FLOATS


        def plan(node: Node, lowering: Sort, machine: Machine) -> Plan | None:
            return Plan((Launch(SortKernel(node.dtype), ...),))
    """

    kernel: ClassVar[str]

    def place(self, planner: Planner, node: Node, expression: Node) -> None:
        """Tell the planner which kernels to run."""
        plan: Plan | None = importlib.import_module(self.kernel).plan(expression, self, planner.machine)
        if plan is None:
            planner.evaluate(node)
        else:
            planner.launch(node, expression, plan)
