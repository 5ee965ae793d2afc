"""Node: an interned, immutable expression. The first layer: nothing here knows data, arrays or threads.

A node is (operator, input nodes, attributes) with the shape, dtype and context that follow from them. Equal expressions
are one object, so the second iteration of a loop finds every node in a table instead of making it, and anything derived
from a node (a gradient, a plan) can be remembered under the node itself.

Nodes are *marked* when they depend on a variable: that is all that recording leaves behind. What was computed while
recording was off ends in a ``_detach`` node, which is not marked.

A node of an operator with several outputs has no value of its own; ``_item`` nodes stand for its outputs.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.devices import CPU, Context
from ..base.dtypes import DType
from ..base.errors import format_shape, user_line
from ..base.signals import Signal

if TYPE_CHECKING:
    from .operator import Operator

__all__ = ["FORGOTTEN", "Node", "ancestors", "attributed_to", "of_one_call", "statistics"]

Shape = tuple[int, ...]

_serials = itertools.count()


class _Source(threading.local):
    """The source line that new nodes get: that of the forward operator while its gradient rule runs."""

    def __init__(self) -> None:
        self.line: tuple[str, int] | None = None
        self.node: Node | None = None


_source = _Source()


class attributed_to:  # noqa: N801 - used like a function
    """Let the nodes made inside this scope be the gradient of another node, and have its source line."""

    __slots__ = ("_node", "_previous")

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> None:
        self._previous = _source.line, _source.node
        _source.line, _source.node = self._node.origin, self._node

    def __exit__(self, *error: object) -> None:
        _source.line, _source.node = self._previous


class of_one_call:  # noqa: N801 - used like a function
    """Let the nodes made inside this scope have one source line, which is looked for once."""

    __slots__ = ("_looked",)

    def __enter__(self) -> None:
        self._looked = _source.line is None
        if self._looked:
            _source.line = user_line()

    def __exit__(self, *error: object) -> None:
        if self._looked:
            _source.line = None


class Node:
    """One expression. Call an :class:`~phonograd.core.graph.operator.Operator` with nodes to make one."""

    __slots__ = (
        "attributes",
        "call",
        "context",
        "detached",
        "dtype",
        "gradient_of",
        "inputs",
        "kind",
        "marked",
        "operator",
        "origin",
        "outputs",
        "serial",
        "shape",
    )

    #: what ``+``, ``*`` and so on mean between nodes; filled by the operators that implement them
    arithmetic: ClassVar[dict[str, Callable[..., Node]]] = {}

    operator: Operator
    inputs: tuple[Node, ...]
    attributes: tuple[Any, ...]
    shape: Shape
    dtype: DType
    context: Context
    kind: int
    """The dtype as a small number: a cheaper key than the dtype."""
    serial: int
    """Creation number. Inputs are older than what uses them, so serials are a topological order."""
    marked: bool
    origin: tuple[str, int] | None
    outputs: tuple[tuple[Shape, DType], ...] | None
    call: tuple[Operator, tuple[Node, ...], tuple[Any, ...]] | None
    """For the result of a composite operator: the call that made it, as the user wrote it."""
    gradient_of: Node | None
    """The node whose gradient rule made this one first, if one did."""
    detached: Node | None
    """The node to use for this value while recording is off, once it has been asked for."""

    def __init__(
        self,
        operator: Operator,
        inputs: tuple[Node, ...],
        attributes: tuple[Any, ...],
        shape: Shape,
        dtype: DType,
        outputs: tuple[tuple[Shape, DType], ...] | None = None,
        context: Context | None = None,
    ) -> None:
        self.operator = operator
        self.inputs = inputs
        self.attributes = attributes
        self.shape = shape
        self.dtype = dtype
        self.kind = dtype.num
        self.outputs = outputs
        self.context = context or (inputs[0].context if inputs else CPU)
        self.serial = next(_serials)
        self.marked = operator.marks if operator.marks is not None else any([i.marked for i in inputs])
        self.origin = _source.line or user_line()
        self.gradient_of = _source.node
        self.call = None
        self.detached = None

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def parameters(self) -> dict[str, Any]:
        """The attributes by parameter name."""
        return dict(zip(self.operator.parameter_names, self.attributes, strict=True))

    def where(self) -> str:
        """Return ``file:line`` of the call that first made this expression, or an empty string."""
        return f"{self.origin[0]}:{self.origin[1]}" if self.origin else ""

    def __repr__(self) -> str:
        arguments = ", ".join([f"%{i.serial}" for i in self.inputs] + [repr(a) for a in self.attributes])
        kind = "" if self.outputs else f": {self.dtype}{format_shape(self.shape)}"
        return f"%{self.serial} = {self.operator.name}({arguments}){kind}"

    def __reduce__(self) -> Any:
        raise TypeError("a Node cannot be pickled: it is an entry of this process's tables; pickle the array instead")

    def __add__(self, other: Node | float) -> Node:
        return Node.arithmetic["add"](self, other)

    def __radd__(self, other: float) -> Node:
        return Node.arithmetic["add"](self, other)

    def __sub__(self, other: Node | float) -> Node:
        return Node.arithmetic["subtract"](self, other)

    def __rsub__(self, other: float) -> Node:
        return Node.arithmetic["subtract"](other, self)

    def __mul__(self, other: Node | float) -> Node:
        return Node.arithmetic["multiply"](self, other)

    def __rmul__(self, other: float) -> Node:
        return Node.arithmetic["multiply"](self, other)

    def __truediv__(self, other: Node | float) -> Node:
        return Node.arithmetic["divide"](self, other)

    def __rtruediv__(self, other: float) -> Node:
        return Node.arithmetic["divide"](other, self)

    def __pow__(self, other: Node | float) -> Node:
        return Node.arithmetic["power"](self, other)

    def __neg__(self) -> Node:
        return Node.arithmetic["negative"](self)


def ancestors(heads: Iterable[Node], enter: Callable[[Node], bool] = lambda node: True) -> list[Node]:
    """Return the heads and everything below them that ``enter`` accepts, oldest first.

    ``enter`` decides for each node whether it is listed (and its inputs looked at).
    """
    found: set[Node] = set()
    stack = [node for node in heads if enter(node)]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        for source in node.inputs:
            if source not in found and enter(source):
                stack.append(source)
    return sorted(found, key=_serial)


def _serial(node: Node) -> int:
    return node.serial


#: emitted after interned nodes were dropped, so that tables that are keyed by nodes drop their entries too
FORGOTTEN: Signal[[]] = Signal()


class Statistics:
    """Counts of what is expensive, so that tests can assert that a loop does not repeat it."""

    __slots__ = ("evaluations", "gradient_rules", "gradients", "nodes", "plans")

    def __init__(self) -> None:
        self.nodes = 0
        self.gradient_rules = 0
        self.gradients = 0
        self.plans = 0
        self.evaluations = 0

    def snapshot(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


#: nodes made, gradient rules run, gradient passes derived, plans built and evaluations run in this process
statistics = Statistics()
