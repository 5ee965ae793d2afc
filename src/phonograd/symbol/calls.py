"""Calls: the meaning of graph entries. A call is an operator with its parameters, a custom operator or a loop.

A :class:`Call` knows the names of its inputs and outputs, infers shapes and dtypes in both directions, and computes
nodes from nodes. All arithmetic is in the operator registry; no call computes a value itself.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.handle import make, node_in
from ..core.array.numbers import with_data
from ..core.array.observed import LISTENERS, observe_call
from ..core.base.devices import Context
from ..core.base.dtypes import DType
from ..core.base.errors import MXNetError, format_shape, nearest
from ..core.graph.interface import Interface, Partial, is_known, same_shapes
from ..core.graph.node import Node
from ..core.graph.operator import ABSENT, NAMES, REGISTRY, Operator
from ..core.ops.math.structural import copy_to_context, leaf
from ..core.trace.flags import FLAGS, RECORDING
from ..core.trace.trace import LOCAL, Trace
from ..util import is_np_shape
from .extents import as_partial

if TYPE_CHECKING:
    from .entry import Entry, Head

__all__ = ["Call", "Environment", "OperatorCall", "Spec", "call_of", "current_name", "known_operator", "special"]

#: the known part of an array: its partial shape and its dtype
Spec = tuple[Partial, DType | None]
#: nodes of the outputs, and the new values of modified inputs by position
Outcome = tuple[tuple[Node, ...], dict[int, Node]]

_FLOAT32, _INT32 = np.dtype("float32"), np.dtype("int32")

#: trial values for an unknown extent: a result that is the same for all of them does not depend on the extent. They
#: have many divisors, so that groups and factors of reshapes fit.
_TRIALS = (240, 480)

#: maximum number of inputs or outputs of a call
_MOST = 100_000


def at_most(count: int, what: str) -> int:
    """Return a number of inputs or outputs read from a file; raise if it is implausible."""
    if not 0 <= count <= _MOST:
        raise MXNetError(f"the number of {what} must be between 0 and {_MOST}, not {count}")
    return count


def default_output_names(count: int, even_one: bool = False) -> tuple[str, ...]:
    """Return default names for outputs."""
    if count == 1 and not even_one:
        return ("output",)
    return tuple([f"output{index}" for index in range(at_most(count, "outputs"))])


class Environment:
    """The environment of an evaluation: the thread's current trace, the context, and the training flag.

    A custom operator may read values, and that may end the trace. A graph with such calls is computed *carefully*:
    values between two calls are held as arrays, which move from one trace to the next.
    """

    def __init__(
        self,
        context: Context | None,
        training: bool,
        careful: bool = False,
        groups: Mapping[str, Context] | None = None,
    ) -> None:
        self.context = context
        self.training = training
        self.careful = careful
        #: the contexts of entries by their attribute ``ctx_group``
        self.groups = groups

    def place(self, entry: Entry) -> Context | None:
        """Return the context on which an entry computes; None if it is that of its inputs."""
        if not self.groups:
            return None
        return self.groups.get(entry.attributes.get("__ctx_group__", ""), self.context)

    @property
    def trace(self) -> Trace:
        """The trace of the nodes."""
        return LOCAL.trace

    def keep(self, node: Node) -> Any:
        """Return an object that holds a node until it is needed."""
        return make(node, LOCAL.trace) if self.careful else node

    def node(self, kept: Any) -> Node:
        """Return the node of a held object."""
        return node_in(kept, LOCAL.trace) if self.careful else kept

    def counter(self) -> Node:
        """Return the node of the next place in the random stream."""
        return LOCAL.trace.counter()

    def is_true(self, node: Node) -> bool:
        """Evaluate a node with one element, and return whether it is nonzero."""
        if node.size != 1:
            raise MXNetError(f"a condition must have one element, not the shape {format_shape(node.shape)}")
        return bool(LOCAL.trace.value(node).item())


class Call(ABC):
    """The meaning of an entry."""

    argument_names: tuple[str, ...]
    """The names of the inputs; missing ones become variables."""
    output_names: tuple[str, ...]
    visible: int
    """The number of outputs that users see."""
    auxiliary: frozenset[int] = frozenset()
    """The positions of inputs that are auxiliary states."""
    initial: Mapping[str, str] = {}
    """The initializers of variables made for inputs."""
    looks_at_values: bool = False
    """True if the call may read values while it is evaluated."""
    is_open: bool = False
    """True if the output's shape is unknown to the call, and follows from its use."""

    @abstractmethod
    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Return the nodes of the outputs, and the new values of modified inputs."""

    @abstractmethod
    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return refined specs of inputs and outputs."""

    def with_shape(self, shape: Partial) -> Call:
        """Return an open call with the shape that its output must have."""
        return self


def known_operator(name: str) -> Operator | None:
    """Return the operator that symbols know by a name, or None."""
    # a name in files may be that of another operator here
    declared = NAMES["in_files"].get(name) or REGISTRY.get(name)
    if declared is None and name.startswith("_np"):
        from .numpy_names import operator_of

        declared = operator_of(name)
    return None if declared is None or "Any" in [parameter.kind for parameter in declared.parameters] else declared


def name_in_files(declared: Operator) -> str:
    """Return the name of an operator in symbol files."""
    if declared.name.startswith("_np_"):
        from .numpy_names import name_of

        return name_of(declared)
    return declared.in_files.partition(" ")[0] or declared.name


def current_name(name: str) -> str:
    """Return the current name of an operator in symbol files.

    >>> current_name("_Plus"), current_name("Softmax"), current_name("_CrossDeviceCopy")
    ('elemwise_add', 'SoftmaxOutput', '_CrossDeviceCopy')
    """
    declared = known_operator(name)
    return name if declared is None or name in special or name in NAMES["in_files"] else name_in_files(declared)


#: makers of calls outside the operator registry, by name: (attributes, graphs, number of inputs) -> call
special: dict[str, Callable[[Mapping[str, str], tuple[list[Head], ...], int], Call]] = {}


def call_of(name: str, attributes: Mapping[str, str], subgraphs: tuple[list[Head], ...], inputs: int) -> Call:
    """Return the call described by an operator's name and text attributes."""
    if name in special:
        return special[name](attributes, subgraphs, inputs)
    declared = known_operator(name)
    if declared is None:
        known = [known for known in REGISTRY if known_operator(known)]
        raise MXNetError(f"Operator {name} is not registered{nearest(name, known)}")
    return OperatorCall(declared, attributes, inputs)


def _parameters(declared: Operator, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes that are parameters; names between underscores are not."""
    ignored = {"num_args", "ctx", "__layout__"}
    if not [p for p in declared.parameters if p.name != "training"]:
        return {}
    return {
        key: value
        for key, value in attributes.items()
        if not (key.startswith("__") and key.endswith("__")) and (key not in ignored or key in declared.parameter_names)
    }


def _by_name(declared: Operator, attributes: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(declared.parameter_names, attributes, strict=True))


class OperatorCall(Call):
    """A call of an operator of the registry."""

    def __init__(self, declared: Operator, attributes: Mapping[str, str], inputs: int) -> None:
        self.declared = declared
        given = _parameters(declared, attributes)
        #: the attributes in inference, and in training
        self.attributes = tuple(
            [
                declared.attributes_of({**given, "training": training} if declared.training else given)
                for training in (False, True)
            ]
        )
        interface = declared.interface
        self.argument_names = self._arguments(interface, attributes, inputs)
        self.auxiliary = frozenset([self.argument_names.index(name) for name in interface.auxiliary])
        self.initial = interface.initial
        names = self._ask(interface.outputs) if callable(interface.outputs) else interface.outputs
        self.output_names = default_output_names(names, interface.numbered) if isinstance(names, int) else tuple(names)
        visible = declared.visible
        if visible is None:
            shown = self._ask(interface.shown) if callable(interface.shown) else interface.shown
            self.visible = shown or len(self.output_names)
        else:
            self.visible = visible if isinstance(visible, int) else self._ask(visible)
        if self.visible > len(self.output_names):
            self.output_names = default_output_names(self.visible)
        # 0 in the shape of a new array is an unknown extent, such as the batch size of a cell's first state
        self.is_open = not self.argument_names and min(self._shape() or (1,)) <= 0

    def _shape(self) -> Any:
        """Return the shape parameter of an operator that creates an array, or None."""
        return dict(zip(self.declared.parameter_names, self.attributes[0], strict=True)).get("shape")

    def with_shape(self, shape: Partial) -> OperatorCall:
        """Return the call with the shape that its output must have; extents that stay unknown become 0."""
        if shape is None or 0 in shape:
            return self
        place = self.declared.parameter_names.index("shape")
        closed = copy.copy(self)
        closed.attributes = tuple([(*values[:place], shape, *values[place + 1 :]) for values in self.attributes])
        return closed

    def _ask(self, rule: Callable[..., Any], *arguments: Any) -> Any:
        return rule(*arguments, **self.declared.accepted(rule, self.attributes[0]))

    def _arguments(self, interface: Interface, attributes: Mapping[str, str], inputs: int) -> tuple[str, ...]:
        declared = self.declared
        if declared.variadic:
            given = attributes.get(interface.count)
            count = inputs if given is None else interface.counted * self._number(given)
            each = tuple([interface.each.format(index) for index in range(count)])
            return each if interface.arguments is None else tuple(self._ask(interface.arguments, each))[:count]
        names = [name for name in declared.input_names if name != "counter"]
        if interface.arguments is not None:
            return tuple(self._ask(interface.arguments, names))
        required = declared.required_inputs - (declared.input_names[: declared.required_inputs].count("counter"))
        return tuple(names[: max(required, min(inputs, len(names)))])

    def _number(self, text: str) -> int:
        try:
            return at_most(int(text), "inputs")
        except ValueError:
            raise MXNetError(f"operator {self.declared.name}: {text!r} is not a number of inputs") from None

    def _in_signature_order(self, inputs: Sequence[Any], counter: Callable[[], Any]) -> tuple[Any, ...]:
        """Return inputs in the order of the operator's signature."""
        declared = self.declared
        if declared.variadic:
            return tuple(inputs)
        present = [None if node.operator is ABSENT.operator else node for node in inputs]
        given = dict(zip(self.argument_names, present, strict=False))
        nodes = [counter() if name == "counter" else given.get(name) for name in declared.input_names]
        return tuple(nodes)

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Return the nodes of the outputs, and the new values of modified inputs."""
        return self._evaluate_observed(inputs, environment) if LISTENERS else self._evaluate(inputs, environment)

    def _evaluate_observed(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Evaluate the call and notify operator observers, as a call with arrays does."""
        outcomes: list[Outcome] = []

        def call() -> list[Any]:
            outcomes.append(self._evaluate(inputs, environment))
            return [make(node, environment.trace) for node in outcomes[0][0]]

        nodes = self._in_signature_order(inputs, lambda: ABSENT)
        arrays = [None if node is None else make(node, environment.trace) for node in nodes if node is not ABSENT]
        observe_call(self.declared, arrays, _by_name, self.attributes[environment.training], call, ())
        return outcomes[0]

    def _evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        declared = self.declared
        attributes = self.attributes[environment.training]
        nodes = self._in_signature_order(inputs, environment.counter)
        if declared.numbers:
            attributes = with_data(declared, nodes, attributes, environment.trace)
        result = declared.apply(nodes, attributes)
        changed: dict[int, Node] = {}
        if declared.effects is not None:
            outputs = result if isinstance(result, tuple) else (result,)
            found = declared.effects(nodes, outputs, **declared.accepted(declared.effects, attributes))
            names = self.argument_names if declared.variadic else declared.input_names
            changed = {self.argument_names.index(names[place]): node for place, node in found.items()}
        if not isinstance(result, tuple):
            if not inputs and environment.context is not None:
                result = copy_to_context(result, environment.context)
            return (result,), changed
        if FLAGS.get() & RECORDING:
            for node in result:
                environment.trace.tape.siblings[node] = result
        return result, changed

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return refined specs of inputs and outputs."""
        dtypes, output_dtypes = self._dtypes([d for _, d in inputs], [d for _, d in outputs])
        shapes = self._shapes([s for s, _ in inputs], [s for s, _ in outputs])
        inputs = list(zip(shapes, dtypes, strict=True))
        known: list[Spec] = []
        complete = all([dtype is not None for dtype in dtypes])
        # a file may list more outputs than the operator has
        for index, (shape, dtype) in enumerate(
            (self._forward(inputs) or [(None, None)] * len(outputs))[: len(outputs)]
        ):
            guess = output_dtypes[index] if index < len(output_dtypes) else None
            known.append((shape, (dtype if complete else None) or guess))
        return inputs, known

    def _shapes(self, inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
        rule = self.declared.interface.shapes
        if rule is None:
            if self.declared.infer_rule is not None or self.declared.composite or self.declared.variadic:
                return inputs
            rule = same_shapes if len(inputs) == 1 else None
        return inputs if rule is None else list(self._ask(rule, inputs, outputs))

    def _dtypes(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        rule = self.declared.interface.types
        if rule is not None:
            found = self._ask(rule, inputs, outputs)
            return list(found[0]), list(found[1])
        chosen = dict(zip(self.declared.parameter_names, self.attributes[0], strict=True)).get("dtype")
        if chosen is not None:
            return inputs, [chosen] * len(outputs)
        common = next((dtype for dtype in (*inputs, *outputs) if dtype is not None), None)
        known = [dtype or common for dtype in inputs]
        if any([dtype != common for dtype in known]):
            self._try_types(known)
        return known, [dtype or common for dtype in outputs]

    def _try_types(self, dtypes: Sequence[DType | None]) -> None:
        """Raise the operator's error about mixed dtypes, unless it also rejects equal ones."""
        for rank in (2, 1, 3, 4):
            data = (2,) * rank
            try:
                shapes = self._shapes([data, *[None] * (len(dtypes) - 1)], [None] * len(self.output_names))
                given = [shape or data for shape in shapes]
                self._given_types([(shape, dtypes[0]) for shape in given], 2, _FLOAT32)
            except (MXNetError, AssertionError, IndexError):
                # the operator rejects these shapes, or looks for an axis that they lack
                continue
            self._given_types(list(zip(given, dtypes, strict=True)), 2, _FLOAT32)
            return

    def _forward(self, inputs: list[Spec]) -> list[Spec] | None:
        """Return the specs of the outputs that follow from the inputs; None if too little is known."""
        shapes = [shape for shape, _ in inputs]
        if all([is_known(shape) for shape in shapes]):
            found = self._outputs_for(inputs, 0)
            if self.is_open or is_np_shape():
                # the shape of a new array is written as users write shapes
                return [(None if shape is None else as_partial(shape), dtype) for shape, dtype in found]
            if any([min(shape or (0,)) < 0 for shape, _ in found]):
                raise MXNetError(f"shape dim size must be >= 0, while received {found[0][0]}")
            return found
        rule = self.declared.interface.results
        results = None if rule is None else self._ask(rule, shapes)
        if results is not None:
            missing = [None] * (len(self.output_names) - len(results))
            return [(shape, None) for shape in (*results, *missing)]
        if None in shapes:
            return None
        tried = []
        for trial in _TRIALS:
            try:
                tried.append(self._outputs_for(inputs, trial))
            except (MXNetError, AssertionError):
                # the trial value does not fit: nothing is inferred, and it is no error yet
                return None
        pairs = list(zip(*tried, strict=True))
        if any([len(first[0] or ()) != len(second[0] or ()) for first, second in pairs]):
            return None
        return [
            (tuple([a if a == b else 0 for a, b in zip(first[0] or (), second[0] or (), strict=True)]), first[1])
            for first, second in pairs
        ]

    def _outputs_for(self, inputs: list[Spec], trial: int) -> list[Spec]:
        """Return the result of the shape rule with a trial value for each unknown extent."""
        try:
            return self._given_types(inputs, trial, _FLOAT32)
        except MXNetError:
            if all([dtype is not None for _, dtype in inputs[1:]]):
                raise
            # lengths and indices must be integers, and unknown dtypes may still turn out to be
            return self._given_types(inputs, trial, _INT32)

    def _given_types(self, inputs: list[Spec], trial: int, other: DType) -> list[Spec]:
        nodes = [
            leaf(index, tuple([extent or trial for extent in shape or ()]), dtype or (other if index else _FLOAT32))
            for index, (shape, dtype) in enumerate(inputs)
        ]
        placed = self._in_signature_order(nodes, lambda: leaf(len(nodes), (4,), np.dtype("uint32")))
        result = self.declared.apply(placed, self.attributes[0])
        found: list[Spec] = [(node.shape, node.dtype) for node in (result if isinstance(result, tuple) else (result,))]
        return found[: len(self.output_names)] + [(None, None)] * (len(self.output_names) - len(found))
