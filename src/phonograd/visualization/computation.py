"""Computation: a recorded computation as a list of steps (forward and backward), grouped by kernel.

A record may consist of several traces and of users' Functions, like the backward pass through it
(:mod:`phonograd.core.backward.backward`). Each piece is planned like an evaluation of its results and gradients, so the
steps are those that really run.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from ..core.backward.backward import FunctionCall, FunctionOutput, place_in_record
from ..core.backward.variable import Variable
from ..core.base.dtypes import name_of
from ..core.base.errors import MXNetError, format_shape
from ..core.derive.gradient import NOTHING, HeadGrads, differentiate
from ..core.graph.node import Node, ancestors
from ..core.graph.operator import ABSENT, item_operator
from ..core.ops.math.structural import LEAF, VARIABLE, constant_value, leaf
from ..core.plan.cache import choose_program
from ..core.run.reference import order, resolve
from ..core.trace.tape import Origin
from ..core.trace.trace import Trace
from ..ndarray.array import NDArray

__all__ = ["Computation", "ComputedValue", "computation_of"]

#: operators that reshape an array of one number
_SPREADING = frozenset(("_reshape", "_broadcast"))

#: numbers of leaves for gradients from a later trace; larger than those of any trace
_FIRST_LENT = 1 << 40


@dataclasses.dataclass
class ComputedValue:
    """One value of a computation."""

    name: str
    """The operator or origin: an operator name, ``variable 3``, ``array``, ``gradient of variable 3``."""
    arguments: list[Any]
    """Its operands, in order: steps and numbers."""
    shape: tuple[int, ...] | None
    dtype: str
    where: str = ""
    """``file:line`` of the call."""
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    is_backward: bool = False
    is_end: bool = False
    """True if it represents an array, without a computation."""
    kernel: int | None = None
    """The number of the kernel that computes it, if one does."""
    family: str = ""
    """The family of the operator that computes it."""
    gradient_of: str = ""
    """The operator whose gradient rule produced it."""

    @property
    def kind(self) -> str:
        """The dtype and shape as text."""
        return "" if self.shape is None else f"{name_of(self.dtype)}{format_shape(self.shape)}"


@dataclasses.dataclass
class Computation:
    """All steps in topological order, and the operators of each kernel by its number."""

    steps: list[ComputedValue]
    kernels: dict[int, list[str]]


def computation_of(heads: Sequence[NDArray], backward: bool, kernels: bool) -> Computation:
    """Return the recorded computation of arrays; optionally with all gradients, and with the kernels that run it."""
    if not heads:
        raise ValueError("nothing to show: pass at least one recorded array")
    reader = _Reader(backward, kernels)
    for head in heads:
        if not isinstance(head, NDArray):
            raise TypeError(f"only arrays have a record, not {head!r}")
        trace, node = place_in_record(head)
        if resolve(node).operator is LEAF and not node.marked:
            raise MXNetError("NDArray is not part of a computation graph. Did you forget to turn on recording?")
        reader.wait(trace, node, None)
        reader.heads.append((trace, node))
    return reader.run()


class _Reader:
    """Reads traces and Functions, last ones first; earlier pieces are inserted in front."""

    def __init__(self, backward: bool, kernels: bool) -> None:
        self.backward = backward
        self.with_kernels = kernels
        self.heads: list[tuple[Trace, Node]] = []
        self.waiting: dict[Trace, list[tuple[Node, Node | None]]] = {}
        self.calls: dict[FunctionCall, dict[int, ComputedValue | None]] = {}
        self.forward_steps: dict[Any, ComputedValue] = {}
        self.backward_steps: list[ComputedValue] = []
        self.ends: dict[Variable, ComputedValue] = {}
        self.kernels: dict[int, list[str]] = {}
        self.lent: dict[Node, ComputedValue] = {}
        self.numbers = itertools.count(_FIRST_LENT)
        #: placeholders for outputs of Functions and for arrays of earlier traces: (step, key of its source)
        self.open: list[tuple[ComputedValue, int, Any]] = []
        self.call_steps: dict[FunctionCall, ComputedValue] = {}

    def wait(self, trace: Trace, node: Node, grad: Node | None) -> None:
        self.waiting.setdefault(trace, []).append((node, grad))

    def run(self) -> Computation:
        while self.waiting or self.calls:
            trace = max(self.waiting, key=lambda waiting: waiting.number, default=None)
            call = max(self.calls, key=lambda call: (call.trace.number, call.number), default=None)
            if trace is not None and (call is None or trace.number >= call.trace.number):
                _Piece(self, trace, self.waiting.pop(trace)).read()
            elif call is not None:
                self._read_call(call, self.calls.pop(call))
        for step, position, key in self.open:
            step.arguments[position] = self._find_step(key)
        outputs = [self._end("output", self._find_step(head)) for head in self.heads]
        steps = _sort_steps([*self.forward_steps.values(), *outputs, *self.backward_steps, *self.ends.values()])
        # pieces are planned one by one, so a piece may repeat steps of an earlier one, which are no computations
        shown = sorted({step.kernel for step in steps if step.kernel is not None})
        numbers = {kernel: number for number, kernel in enumerate(shown, 1)}
        for step in steps:
            step.kernel = None if step.kernel is None else numbers[step.kernel]
        return Computation(steps, {numbers[kernel]: self.kernels[kernel] for kernel in shown})

    def _find_step(self, key: Any) -> ComputedValue:
        if isinstance(key, FunctionCall):
            return self.call_steps[key]
        trace, node = key
        return self.forward_steps[trace, _place(resolve(node))]

    def _end(self, name: str, source: ComputedValue, is_backward: bool = False) -> ComputedValue:
        return ComputedValue(name, [source], source.shape, source.dtype, is_backward=is_backward, is_end=True)

    def arrive(self, target: Variable, grad: ComputedValue) -> None:
        """Add a gradient of a variable; several pieces may contribute to it."""
        if target in self.ends:
            self.ends[target].arguments.append(grad)
        else:
            self.ends[target] = self._end(f"gradient of variable {target.number}", grad, True)

    def lend(self, step: ComputedValue | None, node: Node) -> Node:
        """Return a leaf for a gradient that a later piece computed."""
        lent = leaf(next(self.numbers), node.shape, node.dtype)
        if step is not None:
            self.lent[lent] = step
        return lent

    def _read_call(self, call: FunctionCall, grads: dict[int, ComputedValue | None]) -> None:
        """Add a call of a Function, and queue gradients for its inputs."""
        step = self.call_steps.get(call)
        if step is None:
            step = self.call_steps[call] = ComputedValue(call.name or "hook", [None] * len(call.inputs), None, "")
            self.forward_steps[call] = step
            self.open += [(step, index, source) for index, source in enumerate(call.sources())]
        arriving = [grad for _, grad in sorted(grads.items()) if grad is not None]
        behind = ComputedValue(f"backward of {step.name}", list(arriving), None, "", is_backward=True)
        if arriving:
            self.backward_steps.append(behind)
        for trace, node in call.sources():
            if node.marked:
                self.wait(trace, node, self.lend(behind if arriving else None, node))


class _Piece:
    """One backward pass through one trace."""

    def __init__(self, reader: _Reader, trace: Trace, waiting: list[tuple[Node, Node | None]]) -> None:
        self.reader = reader
        self.trace = trace
        self.heads = tuple([node for node, _ in waiting])
        self.grads = tuple([grad for _, grad in waiting])
        self.steps: dict[Node, ComputedValue] = {}
        self.numbers: dict[Node, int] = {}

    def read(self) -> None:
        targets: dict[Node, Node | None] = {
            node: None for node in ancestors(self.heads) if node.operator is VARIABLE and node.marked
        }
        forward = {_place(resolve(node)) for node in ancestors(self.heads)}
        marked = [(head, grad) for head, grad in zip(self.heads, self.grads) if head.marked]
        if self.reader.backward and marked:
            head_grads: HeadGrads = tuple([NOTHING if self._is_empty(grad) else grad for _, grad in marked])
            targets.update(differentiate(tuple([head for head, _ in marked]), head_grads).targets)
        wanted = [*self.heads, *[grad for grad in targets.values() if grad is not None]]
        for node in self._plan([resolve(node) for node in wanted]):
            self._add(node, node in forward)
        for node, grad in targets.items():
            self._deliver(node, grad)

    def _is_empty(self, grad: Node | None) -> bool:
        return grad is not None and grad not in self.reader.lent

    def _plan(self, wanted: list[Node]) -> list[Node]:
        """Return all computed nodes, oldest first, and the leaves; record the kernel of each."""
        given, computed = order(wanted, lambda node: False)
        numbers: dict[Node, int] = {}
        if self.reader.with_kernels and computed:
            program = choose_program(wanted, (), False)
            known = set(computed)
            for part in program.parts:
                if part.kernels:
                    number = len(self.reader.kernels) + 1
                    self.reader.kernels[number] = [node.operator.name.lstrip("_") for node in part.nodes] or ["copy"]
                    for node in part.nodes:
                        # a kernel may split an operator into several nodes, which are attributed to it
                        origin = node if node in known or node.gradient_of is None else node.gradient_of
                        numbers.setdefault(_place(resolve(origin)), number)
        self.numbers = numbers
        return sorted({*given, *computed}, key=lambda node: node.serial)

    def _add(self, node: Node, is_forward: bool) -> None:
        if node.operator in (ABSENT.operator, item_operator()) or self._number(node) is not None:
            return
        key = (self.trace, node)
        if is_forward and key in self.reader.forward_steps:
            self.steps[node] = self.reader.forward_steps[key]
            return
        lent = self.reader.lent.get(node)
        if lent is not None:
            self.steps[node] = lent
            return
        step = self._step(node)
        self.steps[node] = step
        if is_forward or node.operator is LEAF:
            self.reader.forward_steps[key] = step
        else:
            step.is_backward = True
            if node.gradient_of is not None:
                step.gradient_of = node.gradient_of.operator.name.lstrip("_")
            self.reader.backward_steps.append(step)

    def _number(self, node: Node) -> Any:
        """Return the constant value of all elements of a node, if the expression shows it; otherwise None."""
        node = resolve(node)
        while node.operator.name in _SPREADING:
            node = resolve(node.inputs[0])
        value = constant_value(node)
        if value is None and node.operator is LEAF and not node.shape and 0 <= node.attributes[0] < _FIRST_LENT:
            value = self.trace.leaves[node.attributes[0]][()]
        return None if value is None else value.item()

    def _step(self, node: Node) -> ComputedValue:
        shape, dtype = (None, "") if node.outputs is not None else (node.shape, str(node.dtype))
        if node.operator is LEAF:
            return ComputedValue("array", [], shape, dtype, is_end=True)
        arguments: list[Any] = []
        for source in node.inputs:
            value = self._number(source)
            if value is not None:
                arguments.append(value)
            elif source.operator is not ABSENT.operator:
                arguments.append(self.steps[_place(resolve(source))])
        shown = {name: value for name, value in node.parameters.items() if name not in ("data", "label")}
        return ComputedValue(
            node.operator.name.lstrip("_"),
            arguments,
            shape,
            dtype,
            node.where(),
            {name: value for name, value in shown.items() if value is not None},
            kernel=self.numbers.get(node),
            family=node.operator.family,
        )

    def _deliver(self, node: Node, grad: Node | None) -> None:
        """Resolve the target of a gradient, and pass the gradient on."""
        reader = self.reader
        target = self.trace.targets[node.attributes[0]]
        place = _place(resolve(node))
        step = self.steps.get(place)
        arrived = self._gradient(grad)
        if isinstance(target, Variable):
            if step is not None and step.is_end:
                step.name = f"variable {target.number}"
            if arrived is not None:
                reader.arrive(target, arrived)
            return
        if step is not None and step.is_end and not step.arguments:
            step.name, step.arguments = "array", [None]
            reader.open.append((step, 0, _key_of(target)))
        if isinstance(target, Origin):
            reader.wait(target.trace, target.node, reader.lend(arrived, target.node))
        elif isinstance(target, FunctionOutput):
            reader.calls.setdefault(target.call, {})[target.index] = arrived

    def _gradient(self, grad: Node | None) -> ComputedValue | None:
        if grad is None:
            return None
        place = _place(resolve(grad))
        step = self.steps.get(place)
        if step is None:
            step = ComputedValue("full", [self._number(place)], grad.shape, str(grad.dtype), is_backward=True)
            self.reader.backward_steps.append(step)
        return step


def _key_of(target: Any) -> Any:
    """Return the key of the step of a target in an earlier piece."""
    return target.call if isinstance(target, FunctionOutput) else (target.trace, target.node)


def _place(node: Node) -> Node:
    """Return the node that is a step: for one of several outputs, the call that has them."""
    return resolve(node.inputs[0]) if node.operator is item_operator() else node


def _sort_steps(steps: list[ComputedValue]) -> list[ComputedValue]:
    """Return steps in topological order, otherwise in their given order."""
    found: dict[int, ComputedValue] = {}
    for first in steps:
        stack = [(first, False)]
        while stack:
            step, ready = stack.pop()
            if id(step) in found:
                continue
            if ready:
                found[id(step)] = step
                continue
            stack.append((step, True))
            stack.extend(
                [(s, False) for s in reversed(step.arguments) if isinstance(s, ComputedValue) and id(s) not in found]
            )
    return list(found.values())
