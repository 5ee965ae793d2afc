"""Capture: runs a function once and keeps its effect on arrays as a template that is repeated without calling it.

Takes a function from :mod:`phonograd.core.capture.compiled` and hands a :class:`Template` back. While it is captured, a
function works in a trace of its own: :class:`Capture`, the other strategy of
:class:`phonograd.core.trace.recorder.Recorder`. Nodes of that trace are made of *places* for the inputs from outside:
arguments, other arrays that the function refers to, numbers, constants and positions in the random stream. Writes to
outside arrays are noted. Afterwards actual nodes are put into the places, in the same way for the first call and for
all later ones.

A value that the function reads on the way is computed at once. Its later calls may read another value and do something
else, so such a function is not repeated: it is called. See docs/decisions/0007.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from ..array.handle import (
    Handle,
    SharedMemory,
    buffer_of,
    is_recorded,
    make,
    node_in,
    variable_of,
    views_of,
)
from ..backward.variable import Variable
from ..base.devices import Context
from ..base.dtypes import UINT32, DType, convert_scalar
from ..base.errors import user_line
from ..graph.node import Node, attributed_to
from ..graph.operator import ABSENT, REGISTRY, Array
from ..ops.math.structural import (
    DETACH,
    LEAF,
    REPEAT_CALL,
    VARIABLE,
    copy_to_context,
    detach,
    leaf,
    repeat_call,
    variable,
)
from ..trace.evaluation import KEEP, Options
from ..trace.tape import Tape, Target
from ..trace.trace import Trace
from .structure import owns_node

__all__ = ["Capture", "Filled", "Input", "Refusal", "Template", "next_counter"]

_ITEM, _COMPOSITE, _COPYTO = REGISTRY["_item"], REGISTRY["_composite"], REGISTRY["_copyto"]


class Refusal(BaseException):
    """Raised when a function cannot be captured; no Exception, so that the function itself does not handle it."""


class Input(NamedTuple):
    """An input of a template: the node that stands for it, and how the actual node is found."""

    node: Node
    find: Callable[[Trace], Node]
    """Returns the actual node in a trace."""
    argument: int | None = None
    """The number of an argument, or of the gradient buffer of one."""
    handle: Handle | None = None
    """An outside array that is no argument."""
    data: Array | None = None
    """The value of a constant or number."""
    owner: Variable | None = None
    """The variable that an outside array is."""

    @property
    def is_random(self) -> bool:
        """Return whether it is the next position in the random stream."""
        return self.argument is None and self.handle is None and self.data is None


class _Outside(Target):
    """A gradient target outside of the function: gradients continue through a record made before."""

    __slots__ = ()

    def refuse(self) -> NoReturn:
        """Give up: a backward pass that continues outside cannot be repeated as part of the function."""
        raise Refusal("it differentiates what was recorded outside of it")


class _CaptureTape(Tape):
    """The tape of a captured function, on which writes to outside arrays can be recorded, too."""

    __slots__ = ()

    def clear(self, visited: frozenset[Node]) -> None:
        """Take the nodes of a backward pass off the tape; outside arrays that were written may be among them."""
        super().clear(visited)
        capture = self._trace()
        assert isinstance(capture, Capture)
        for key, (handle, node) in list(capture.writes.items()):
            if node.marked and self.is_swept(node, visited):
                plain = detach(node)
                owner = variable_of(handle)
                if owner is not None:
                    plain = variable(plain, capture.slot(owner))
                capture.writes[key] = handle, plain


class Capture(Trace):
    """The trace of a function while it is captured.

    Parameters
    ----------
    outer
        The trace in which the function is called.
    arrays
        The arguments, and the gradient buffers of those that are variables.
    explicit
        The number of arguments.
    """

    __slots__ = (
        "_actual",
        "arrays",
        "begins_record",
        "differentiates",
        "drawn",
        "expected",
        "explicit",
        "fresh",
        "outer",
        "outside",
        "owners",
        "places",
        "reason",
        "writes",
    )

    allows_shortcuts = False
    is_immediate = False

    def __init__(self, outer: Trace, arrays: Sequence[Handle], explicit: int) -> None:
        super().__init__()
        self._tape = _CaptureTape(self)
        self.outer = outer
        self.arrays = arrays
        self.explicit = explicit
        #: the variables that stand for those of arguments, each with the number of an argument that is it
        self.owners: dict[Target, int] = {}
        #: all inputs from outside, in order
        self.places: list[Input] = []
        #: outside arrays that the function uses: the array and the node that stands for its value
        self.outside: dict[int, tuple[Handle, Node]] = {}
        #: outside arrays that the function writes, with the nodes of their new values
        self.writes: dict[int, tuple[Handle, Node]] = {}
        #: the variables that some outside arrays are: the function has used them in a way that no place shows
        self.expected: dict[int, tuple[Handle, Variable | None]] = {}
        #: variables whose gradient has become fresh (1), or has been used (0)
        self.fresh: dict[Target, int] = {}
        #: whether there was a backward pass
        self.differentiates = False
        #: positions that were taken from the random stream
        self.drawn = 0
        #: whether the outermost ``record()`` is entered, which computes what is pending
        self.begins_record = False
        #: the reason for which the function must be called each time, if there is one
        self.reason: str | None = None
        self._actual: dict[Node, Node] = {}

    # -- inputs from outside

    def _place(self, place: Input) -> Node:
        self.places.append(place)
        return place.node

    def _stand_in(self, handle: Handle, actual: Node, owner: Variable | None) -> Node:
        """Return a new leaf like a node, marked if that is: gradients that arrive there leave the function."""
        node = leaf(len(self.places), actual.shape, actual.dtype, actual.context)
        if not actual.marked:
            return node
        if owner is not None and owns_node(handle, actual, self.outer):
            return variable(node, self.slot(owner))
        return variable(node, self.slot(_Outside()))

    def stand_ins(self) -> list[Any]:
        """Return arrays that stand for the arguments and for their gradient buffers, as variables of their own."""
        made: dict[Variable, Variable] = {}
        for number, array in enumerate(self.arrays):
            owner = variable_of(array)
            if owner is not None and owner not in made:
                made[owner] = owner.stand_in()
                self.owners[made[owner]] = number
        proxies = [
            self._argument(number, array, made.get(variable_of(array)), number >= self.explicit)
            for number, array in enumerate(self.arrays)
        ]
        numbers = {id(array): number for number, array in enumerate(self.arrays)}
        for owner, other in made.items():
            other.grad = proxies[numbers[id(owner.grad)]]
        return proxies

    def _argument(self, number: int, handle: Handle, owner: Variable | None, is_gradient: bool) -> Any:
        """Return an array that stands for an argument, or for the gradient buffer of one."""
        if type(handle) is not handle._result_class and is_gradient:
            self.refuse_capture("the gradient buffer of an argument is sparse")
        if is_gradient and not is_recorded(handle) and owner is None:
            # most functions do not use it: it enters the trace outside when it is needed
            node = leaf(len(self.places), handle.shape, handle._dtype, handle.context)
        else:
            actual = node_in(handle, self.outer)
            node = self._stand_in(handle, actual, owner)
            self._actual[node] = actual
        proxy = make(self._place(Input(node, _no_argument, argument=number)), self, handle._result_class)
        if owner is not None:
            proxy._variable = owner
        if handle._readonly:
            proxy._readonly = True
        return proxy

    def enter_outside(self, handle: Handle) -> Node | None:
        """Return the node that stands for the value of an outside array; None for an array of the function's own."""
        if not self._is_outside(handle):
            return None
        written = self.writes.get(id(handle))
        if written is not None:
            node = written[1]
            owner = variable_of(handle)
            self.expected[id(handle)] = handle, owner
            if owner is not None and not node.marked:
                node = variable(node, self.slot(owner))
            return node
        found = self.outside.get(id(handle))
        if found is None:
            actual, owner = node_in(handle, self.outer), variable_of(handle)
            node = self._stand_in(handle, actual, owner)
            self._actual[node] = actual
            is_own = owner is not None and node.marked and self.targets[node.attributes[0]] is owner
            find = functools.partial(node_in, handle)
            place = Input(node, find, handle=handle, owner=owner if is_own else None)
            found = self.outside[id(handle)] = handle, self._place(place)
        return found[1]

    def _is_outside(self, handle: Handle) -> bool:
        """Return whether an array existed before the function ran: every array made since names this trace."""
        while handle._root is not None:
            handle = handle._root
        return handle._trace is not self

    def constant(self, data: Array, context: Context) -> Node:
        """Return the node of a new array with known values."""
        return self.bind(data, context)

    def bind(self, data: Array, context: Context) -> Node:
        """Return the node of a constant: memory that the function has made and that never changes."""
        found = self.bound.get(id(data))
        if found is None or found.context != context:
            node = leaf(len(self.places), data.shape, data.dtype, context)
            self.leaves.append(data)
            found = self._place(Input(node, lambda trace: trace.bind(data, context), data=data))
            self.bound[id(data)] = found
        return found

    def bind_scalar(self, value: Any, dtype: DType, kind: int, context: Context) -> Node:
        """Return the node of a number."""
        key = (value, kind) if value else (repr(value), kind)
        found = self.scalars.get(key)
        if found is None or found.context != context:
            node = leaf(len(self.places), (), dtype, context)
            find = functools.partial(_bind_scalar, value, dtype, kind, context)
            found = self.scalars[key] = self._place(Input(node, find, data=convert_scalar(value, dtype)))
        return found

    def counter(self) -> Node:
        """Return the node of the next position in the random stream."""
        return self._place(Input(leaf(len(self.places), (4,), UINT32), next_counter))

    def slot(self, target: Target) -> int:
        """Return the number of a gradient target: a variable from outside, or where an array was recorded."""
        if not isinstance(target, (_Outside, Variable)):
            self.refuse_capture("it calls an autograd.Function, a custom operator, or registers a hook")
        return super().slot(target)

    # -- effects on the outside

    def write_outside(self, handle: Handle, node: Node) -> bool:
        """Note the write to an outside array; return False for an array of the function's own."""
        if not self._is_outside(handle):
            return False
        self.check_write(handle)
        self.writes[id(handle)] = handle, copy_to_context(node, handle.context)
        return True

    def check_write(self, handle: Handle) -> None:
        """Refuse a write that changes other arrays as well."""
        alive = views_of(handle)
        if handle._root is not None or alive:
            self.refuse_capture("it changes an array that shares memory with another one")
        if type(buffer_of(handle)) is SharedMemory:
            self.refuse_capture("it changes an array whose memory is shared with another library")
        if is_recorded(handle) and variable_of(handle) is None:
            self.refuse_capture("it changes a recorded array")

    def note_pass(self) -> None:
        """Note that the function differentiates."""
        self.differentiates = True
        self.outer.note_pass()

    def note_fresh(self, owner: Target, fresh: int) -> None:
        """Mark the gradient of a variable after each repetition."""
        self.fresh[owner] = fresh

    def note_gradient(self, handle: Handle) -> None:
        """Note that the function has asked an outside array for its gradient buffer."""
        if self._is_outside(handle):
            self.expected[id(handle)] = handle, variable_of(handle)

    def refuse_capture(self, reason: str) -> NoReturn:
        """Give up: the function will be called each time."""
        raise Refusal(reason)

    # -- values

    def note_read(self) -> None:
        """Note that the function reads a value."""
        if self.reason is None:
            line = user_line()
            self.reason = "it looks at the value of an array" + (f" ({line[0]}:{line[1]})" if line else "")

    def flush(self, end: bool = False) -> None:
        """Compute nothing: values are computed when the function reads them, and this trace ends with the function."""
        if end:
            self.begins_record = True

    def evaluate(self, nodes: tuple[Node, ...], options: Options = KEEP) -> list[Array]:
        """Return the values of nodes, computed in the outer trace."""
        if options.lent:
            self.refuse_capture("it differentiates what another thread has recorded")
        self.note_read()
        template = Template(self, nodes)
        filled = template.fill(self.actual(template.places), self.outer, self.arrays, recorded=False)
        return self.outer.evaluate(tuple(filled.nodes))

    def actual(self, places: Iterable[Input]) -> list[Node]:
        """Return the actual nodes of places in this call."""
        for place in places:
            if place.node not in self._actual:
                self.drawn += place.is_random
                number, trace = place.argument, self.outer
                found = place.find(trace) if number is None else node_in(self.arrays[number], trace)
                self._actual[place.node] = found
        return [self._actual[place.node] for place in places]


def _is_unused(place: Input, explicit: int, used: set[Node]) -> bool:
    """Return whether a place is that of a gradient buffer that no node needs."""
    if place.argument is None or place.argument < explicit or place.node in used:
        return False
    return place.node.operator is not VARIABLE or place.node.inputs[0] not in used


def _no_argument(trace: Trace) -> NoReturn:
    raise AssertionError("arguments are given by each call")


def next_counter(trace: Trace) -> Node:
    """Return the node of the next position in the random stream of a trace."""
    return trace.counter()


def _bind_scalar(value: Any, dtype: DType, kind: int, context: Context, trace: Trace) -> Node:
    return trace.bind_scalar(value, dtype, kind, context)


class Filled(NamedTuple):
    """A template with actual nodes in its places."""

    nodes: list[Node]
    """The actual nodes of the template's nodes."""
    made: dict[Node, int]
    """How often each recorded call was made."""
    siblings: dict[Node, tuple[Node, ...]]
    """The outputs of recorded calls that have several."""
    repeats: bool
    """Whether a call had been recorded before: the next one is then another record again."""


class Template:
    """The graph of some nodes of a capture above its places.

    Parameters
    ----------
    capture
        The trace of the nodes.
    nodes
        The nodes that a repetition computes.
    """

    def __init__(self, capture: Capture, nodes: Iterable[Node]) -> None:
        self.nodes = list(nodes)
        self._targets = capture.targets
        self._owners = capture.owners
        self._made = {node for node in capture.made if node.operator is not VARIABLE}
        self._siblings = dict(capture.tape.siblings)
        moving = {place.node for place in capture.places}
        moving.update([node.inputs[0] for node in moving if node.operator is VARIABLE])
        found, ends = _below(self.nodes, moving)
        #: inputs; the gradient buffer of an argument is one if the nodes need it
        self.places = [place for place in capture.places if not _is_unused(place, capture.explicit, ends)]
        #: the nodes that depend on a place, each after its inputs
        self.steps: list[Node] = []
        for node in found:
            if any([source in moving for source in _sources(node)]):
                moving.add(node)
                self.steps.append(node)
        #: the gradient targets of steps that make variables
        self._made_targets = list(
            dict.fromkeys([self.target_of(step) for step in self.steps if step.operator is VARIABLE])
        )

    def slots(self, trace: Trace, arrays: Sequence[Handle]) -> tuple[int, ...]:
        """Return the numbers that the targets of new variables have in a trace: their nodes depend on them."""
        return tuple([trace.slot(self._actual_target(target, arrays)) for target in self._made_targets])

    def _actual_target(self, target: Target, arrays: Sequence[Handle]) -> Target:
        """Return the target itself, or the variable of the argument for which it stands."""
        number = self._owners.get(target)
        found: Target = target if number is None else variable_of(arrays[number])
        return found

    def target_of(self, node: Node) -> Target:
        """Return the gradient target of a variable."""
        slot: int = node.attributes[0]
        return self._targets[slot]

    def fill(self, actual: Sequence[Node], trace: Trace, arrays: Sequence[Handle], recorded: bool = True) -> Filled:
        """Return the nodes with actual nodes in the places; ``arrays`` are the arguments and their gradient buffers.

        With ``recorded``, recorded calls become records of the trace, as if they had been made there.
        """
        values: dict[Node, Any] = {}
        for place, node in zip(self.places, actual, strict=True):
            values[place.node] = node
            if place.node.operator is VARIABLE:
                values[place.node.inputs[0]] = detach(node)
        made: dict[Node, int] = {}
        repeats = False
        for step in self.steps:
            node = self._rebuilt(step, values, trace, arrays)
            if recorded and (step in self._made or step.operator is REPEAT_CALL):
                count = made.get(node)
                if count is None:
                    first = 1 if node.operator is VARIABLE else 0
                    count = trace.made.get(node, first)
                    repeats = repeats or count > first
                made[node] = count + 1
                node = repeat_call(node, count)
            values[step] = node
        trace.made.update(made)
        siblings = self._relate(values) if recorded else {}
        trace.tape.siblings.update(siblings)
        return Filled([values.get(node, node) for node in self.nodes], made, siblings, repeats)

    def _rebuilt(self, step: Node, values: dict[Node, Any], trace: Trace, arrays: Sequence[Handle]) -> Any:
        """Return a step made of other nodes; several outputs are a tuple."""
        operator = step.operator
        inputs = tuple([values.get(source, source) for source in step.inputs])
        if operator is _ITEM:
            return inputs[0][step.attributes[0]]
        if operator is REPEAT_CALL:
            return _once(inputs[0])
        if operator is DETACH:
            return detach(inputs[0])
        if operator is VARIABLE:
            return variable(inputs[0], trace.slot(self._actual_target(self.target_of(step), arrays)))
        if operator is _COPYTO:
            return copy_to_context(inputs[0], step.attributes[0])
        if operator is _COMPOSITE:
            return self._label_result(step, inputs[0], values)
        given = tuple([None if node.operator is _ABSENT else node for node in inputs])
        found = operator.table.get((given, step.attributes))
        if found is None:
            with attributed_to(step):
                found = operator.apply(given, step.attributes)
        return found

    def _label_result(self, step: Node, data: Node, values: dict[Node, Any]) -> Node:
        """Return the result of a composite operator with the call that made it."""
        (declared, sources, attributes), index = step.attributes
        if declared.numbers:
            attributes = _replace_nodes(attributes, values)
        call = declared, tuple([values.get(source, source) for source in sources]), attributes
        node: Node = _COMPOSITE.apply((data,), (call, index))
        node.call = call
        return node

    def _relate(self, values: dict[Node, Any]) -> dict[Node, tuple[Node, ...]]:
        related: dict[Node, tuple[Node, ...]] = {}
        for node, together in self._siblings.items():
            if node in values:
                related[_once(values[node])] = tuple([_once(values.get(other, other)) for other in together])
        return related


_ABSENT = ABSENT.operator


def _replace_nodes(attributes: tuple[Any, ...], values: dict[Node, Any]) -> tuple[Any, ...]:
    """Return attributes in which the nodes of numbers that are data are other nodes."""
    found = [values.get(part, part) if isinstance(part, Node) else part for part in attributes]
    return tuple([_replace_nodes(part, values) if isinstance(part, tuple) else part for part in found])


def _once(node: Node) -> Node:
    """Return the node of a call that was made several times, as it was the first time."""
    return node.inputs[0] if node.operator is REPEAT_CALL else node


def _sources(node: Node) -> tuple[Node, ...]:
    """Return the inputs of a node, and those of the composite operator whose result it is."""
    return (*node.inputs, *node.attributes[0][1]) if node.operator is _COMPOSITE else node.inputs


def _below(nodes: Iterable[Node], ends: set[Node]) -> tuple[list[Node], set[Node]]:
    """Return nodes and all nodes below them down to some ends, oldest first, and the ends that were met."""
    found: set[Node] = set()
    met: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        if node in ends:
            met.add(node)
            continue
        found.add(node)
        stack.extend(_sources(node))
    if any([node.operator is LEAF for node in found]):
        raise AssertionError("a captured function has reached a leaf that is not its own")
    return sorted(found, key=lambda node: node.serial), met
