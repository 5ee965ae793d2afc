"""Node: an interned, immutable expression. The first layer, without data, arrays or threads.

A node is (operator, input nodes, attributes) with the shape, dtype and context that follow from them. Equal expressions
are one object. The second iteration of a loop finds every node in a table, and the node is the cache key of everything
derived from it (a gradient, a plan).

Nodes that depend on a variable are *marked*; recording leaves no other trace. Values computed outside recording end in
a ``_detach`` node, which is not marked.

A node of an operator with several outputs has no value itself; ``_item`` nodes are its outputs.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.devices import CPU, Context
from ..base.dtypes import DType, name_of
from ..base.errors import TooLarge, format_shape, user_line
from ..base.hot import hot, slotted, uncounted, untracked
from ..base.signals import Signal

if TYPE_CHECKING:
    from .operator import Operator

__all__ = [
    "FORGOTTEN",
    "MOST_BYTES",
    "UNLEARNED",
    "Node",
    "Recipe",
    "TensorType",
    "ancestors",
    "attributed_to",
    "creation_facts",
    "describe_size",
    "inferred_type",
    "new_node",
    "new_recipe",
    "of_one_call",
    "statistics",
    "tensor_type",
    "type_of",
]

Shape = tuple[int, ...]

_serials = itertools.count()

#: More than any address space has; rounded up and added to offsets, sizes still are 64-bit integers.
MOST_BYTES = 1 << 60


def describe_size(shape: Shape, dtype: DType, size: int) -> str:
    kind = f"shape {format_shape(shape)} and type {name_of(dtype)}"
    return f"a result of {kind} would have {size} bytes, which no computer can store"


class _Source(threading.local):
    """Hold the source line of new nodes: that of the forward operator while its gradient rule runs."""

    def __init__(self) -> None:
        #: the source line of new nodes, if it is known, and the node whose gradient they are
        self.made_for: tuple[tuple[str, int] | None, Node | None] = None, None


_source = _Source()


class attributed_to:  # noqa: N801 - used like a function
    """Attribute the nodes made inside this scope to another node: they are its gradient and get its source line."""

    __slots__ = ("_node", "_previous")

    def __init__(self, node: Node) -> None:
        self._node = node

    def __enter__(self) -> None:
        self._previous = _source.made_for
        _source.made_for = self._node.origin, self._node

    def __exit__(self, *error: object) -> None:
        _source.made_for = self._previous


class of_one_call:  # noqa: N801 - used like a function
    """Give the nodes made inside this scope one source line, looked up once."""

    __slots__ = ("_looked",)

    def __enter__(self) -> None:
        line, node = _source.made_for
        self._looked = line is None
        if self._looked:
            _source.made_for = user_line(), node

    def __exit__(self, *error: object) -> None:
        if self._looked:
            _source.made_for = None, _source.made_for[1]


@hot
def check_size(shape: Shape, dtype: DType, name: str) -> None:
    """Raise an error if the result of an operator is larger than any memory."""
    size = dtype.itemsize
    for extent in shape:
        size = size * extent
    if size > MOST_BYTES:
        _refuse(shape, dtype, size, name)


def _refuse(shape: Shape, dtype: DType, size: int, name: str) -> None:
    raise TooLarge(describe_size(shape, dtype, size), name)


@slotted
class Node:
    """Represent one expression. Call an :class:`~phonograd.core.graph.operator.Operator` with nodes to make one."""

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
        "recipe",
        "serial",
        "shape",
        "type",
    )

    #: implementations of ``+``, ``*`` and so on between nodes; the operators fill it
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
    """Creation number. Inputs are older than their users, so serials are a topological order."""
    marked: bool
    origin: tuple[str, int] | None
    outputs: tuple[tuple[Shape, DType], ...] | None
    call: tuple[Operator, tuple[Node, ...], tuple[Any, ...]] | None
    """The user's call, for the result of a composite operator."""
    gradient_of: Node | None
    """The node whose gradient rule made this one first, or None."""
    detached: Node | None
    """The node of this value outside recording, made on first use."""
    type: TensorType | None
    """Its type, made on first use (:func:`type_of`)."""
    recipe: Recipe | None
    """The facts that it shares with nodes of its kind, if such nodes were made before."""

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
        if outputs is None:
            check_size(shape, dtype, operator.name)
        self.operator = operator
        self.inputs = inputs
        self.attributes = attributes
        self.shape = shape
        self.dtype = dtype
        self.kind = dtype.num
        self.outputs = outputs
        self.context = context or (inputs[0].context if inputs else CPU)
        self.serial = next(_serials)
        marked = operator.marks
        if marked is None:
            marked = False
            for source in inputs:
                if source.marked:
                    marked = True
                    break
        self.marked = marked
        line, self.gradient_of = _source.made_for
        self.origin = line or user_line()
        self.call = self.detached = self.type = self.recipe = None

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Return the number of axes."""
        return len(self.shape)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the attributes by parameter name."""
        return dict(zip(self.operator.parameter_names, self.attributes, strict=True))

    def where(self) -> str:
        """Return ``file:line`` of the call that first made this expression, or an empty string."""
        return f"{self.origin[0]}:{self.origin[1]}" if self.origin else ""

    def __repr__(self) -> str:
        arguments = ", ".join([f"%{i.serial}" for i in self.inputs] + [repr(a) for a in self.attributes])
        kind = "" if self.outputs else f": {name_of(self.dtype)}{format_shape(self.shape)}"
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


@slotted
class Recipe:
    """The facts that nodes of one kind share: operator, attributes, types of inputs, and all that follows from them.

    Attributes
    ----------
    attributes, type
        Those of the nodes.
    template
        The nodes behind the call of a composite operator.
    function
        The function of arrays that computes such a node (:mod:`phonograd.core.plan.eager`), once it is made.
    rule
        The function of arrays that differentiates it (:mod:`phonograd.core.backward.eager_rules`), once it is made.
    stacked
        The function that computes several such nodes (:mod:`phonograd.core.plan.eager_stacks`), once it is made; False
        if there is none.
    """

    __slots__ = ("attributes", "function", "rule", "stacked", "template", "type")

    function: Any
    rule: Any
    stacked: Any

    def __init__(self, attributes: tuple[Any, ...], type_: TensorType, template: Any = None) -> None:
        self.attributes, self.type, self.template = attributes, type_, template
        self.function = self.rule = self.stacked = None


@hot
def new_recipe(attributes: tuple[Any, ...], type_: TensorType) -> Recipe:
    """Return a recipe without a template, as ``Recipe(attributes, type_)`` does."""
    made = _bare_recipe(Recipe)
    made.attributes = attributes
    made.type = type_
    made.template = made.function = made.rule = made.stacked = None
    return made


_bare_recipe = Recipe.__new__


@slotted
class TensorType:
    """Shape, dtype, context and whether it is recorded: all that most rules need to know of a node.

    Equal types are one object (:func:`tensor_type` makes them), so they are quick keys.
    """

    __slots__ = ("context", "dtype", "family", "items", "marked", "outputs", "shape")

    shape: Shape
    dtype: DType
    context: Context
    marked: bool
    outputs: Any
    items: Sequence[TensorType]
    """The type of each output of an operator with several."""
    family: object
    """One object for all types that differ only in their shapes."""


@hot
def _new_type(shape: Shape, dtype: DType, context: Context, marked: bool, outputs: Any) -> TensorType:
    made = _bare_type(TensorType)
    made.shape = shape
    made.dtype = dtype
    made.context = context
    made.marked = marked
    made.outputs = outputs
    made.items = ()
    if outputs is not None:
        made.items = [tensor_type(extents, kind, context, marked, None) for extents, kind in outputs]
    # a context is hashed by a Python function
    key = (dtype.num, context.device_typeid, context.device_id, marked)
    family = _families.get(key)
    if family is None:
        family = _families.setdefault(key, object())
    made.family = family
    return made


_bare_type = TensorType.__new__
_families: dict[Any, object] = {}
_types: dict[Any, TensorType] = {}
_MOST_TYPES = 65536


@hot
def type_of(node: Node) -> TensorType:
    """Return the type of a node."""
    found = node.type
    if found is None:
        found = node.type = tensor_type(node.shape, node.dtype, node.context, node.marked, node.outputs)
    return found


@hot
def tensor_type(shape: Shape, dtype: DType, context: Context, marked: bool, outputs: Any) -> TensorType:
    """Return the type with these properties."""
    # a context is hashed by a Python function
    key = shape, dtype.num, context.device_typeid, context.device_id, marked, outputs
    found = _types.get(key)
    if found is None:
        if len(_types) >= _MOST_TYPES:
            _types.clear()
        found = _types.setdefault(key, _new_type(shape, dtype, context, marked, outputs))
    return found


@hot
def inferred_type(operator: Operator, inputs: tuple[Node, ...], spec: Any) -> TensorType:
    """Return the type of a result, given its shape and dtype, or a list of those of several outputs."""
    context = inputs[0].context if inputs else CPU
    marked = operator.marks
    if marked is None:
        marked = False
        for source in inputs:
            if source.marked:
                marked = True
    if isinstance(spec, list):
        return tensor_type((), spec[0][1], context, marked, tuple(spec))
    shape, dtype = spec
    check_size(shape, dtype, operator.name)
    return tensor_type(shape, dtype, context, marked, None)


@hot
def creation_facts() -> tuple[tuple[str, int] | None, Node | None]:
    """Return the source line of new nodes and the node whose gradient they are, for :func:`new_node`."""
    line, node = _source.made_for
    return line or user_line(), node


@hot
def new_node(
    operator: Operator,
    inputs: tuple[Node, ...],
    attributes: tuple[Any, ...],
    type_: TensorType,
    line: tuple[str, int] | None,
    gradient_of: Node | None,
    recipe: Recipe | None = None,
) -> Node:
    """Return a new node whose type is known already."""
    node = _new(Node)
    node.operator = operator
    node.inputs = inputs
    node.attributes = attributes
    node.shape = type_.shape
    node.dtype = dtype = type_.dtype
    node.kind = dtype.num
    node.outputs = type_.outputs
    node.context = type_.context
    node.serial = next(_serials)
    node.marked = type_.marked
    node.gradient_of = gradient_of
    node.origin = line
    node.call = node.detached = None
    node.type = type_
    node.recipe = recipe
    # attributes are plain values, inputs are older; the only cycle is that of `detached`, which is broken when nodes
    # are dropped (phonograd.core.plan.cache)
    # with its inputs and the key by which it is found
    return uncounted(untracked(node), 3)


_new = Node.__new__


def ancestors(heads: Iterable[Node], enter: Callable[[Node], bool] = lambda node: True) -> list[Node]:
    """Return the heads and all nodes below them that ``enter`` accepts, oldest first.

    ``enter`` decides for each node whether to include it and visit its inputs.
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


#: emitted after interned nodes are dropped; tables keyed by nodes drop their entries then
FORGOTTEN: Signal[[]] = Signal()
#: emitted after what was learned about kinds of calls is to be dropped, too: templates, rules, functions
UNLEARNED: Signal[[]] = Signal()


@slotted
class Statistics:
    """Count expensive events, so that tests can assert that a loop does not repeat them."""

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
