"""Convert a recorded computation to a symbol: ``autograd.get_symbol``.

Variables are named ``var<k>``, unrecorded arrays ``null<k>``, operators ``node_<n>``; repeated conversions give equal
names. Operators appear in MXNet's form: a number beside an array (``x * 2``) is an attribute, and the primitives of
indexing and reshaping become MXNet's ``slice`` and ``Reshape``.

An unrecorded input of a user's call becomes an argument. Parts of gradients (``grad`` with ``create_graph``) do not:
their constants, and everything they compute from arguments, become part of the graph, so that it can be computed again.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.backward.backward import FunctionOutput, gradient_nodes, place_in_record
from ..core.backward.variable import Variable
from ..core.base.dtypes import kind_of, name_of
from ..core.base.errors import MXNetError
from ..core.graph.node import Node, Shape
from ..core.graph.operator import ABSENT, Operator
from ..core.ops.math.structural import LEAF, REPEAT_CALL, STAND_INS, VARIABLE, constant_value
from ..core.trace.tape import Origin, Target
from ..core.trace.trace import Trace
from ..ndarray.array import NDArray
from .customs import CustomCall
from .entry import Entry, text_of
from .graph import Symbol

__all__ = ["get_symbol"]

_NOT_RECORDED = "NDArray is not part of a computation graph. Did you forget to turn on recording?"

Output = tuple[Entry, int]

_argument_numbers = itertools.count()
_operator_numbers = itertools.count()
_numbers: weakref.WeakKeyDictionary[Any, dict[Any, int]] = weakref.WeakKeyDictionary()


def _number(owner: Any, thing: Any, counter: itertools.count[int]) -> int:
    """Return the number of an object, which stays the same while its owner lives."""
    numbers = _numbers.setdefault(owner, {})
    if thing not in numbers:
        numbers[thing] = next(counter)
    return numbers[thing]


def get_symbol(x: NDArray) -> Symbol:
    """Return the recorded computation of an array as a Symbol.

    >>> import phonograd as mx
    >>> x = mx.nd.ones((2,))
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = x * x + 2 * x - 1
    >>> len(mx.autograd.get_symbol(y).list_arguments())
    1
    """
    if not isinstance(x, NDArray):
        raise AssertionError(f"get_symbol: Invalid argument type, expecting {NDArray}, got {type(x)}")
    trace, node = place_in_record(x)
    if not node.marked:
        raise MXNetError(_NOT_RECORDED)
    return Symbol([_Reader().read(trace, node)])


class _Reader:
    """Translates nodes of traces into entries, each once; iterative, because records can be very deep."""

    def __init__(self) -> None:
        self.found: dict[Any, Output] = {}
        #: unrecorded nodes that are inputs of the user's calls
        self.given: set[tuple[Trace, Node]] = set()

    def read(self, trace: Trace, node: Node) -> Output:
        """Return the entry output that represents a node of a trace."""
        self._collect(trace, node)
        stack = [(trace, node)]
        while stack:
            here = stack[-1]
            needed = [need for need in self._needs(*here) if need not in self.found]
            if needed:
                stack.extend(reversed(needed))
                continue
            stack.pop()
            if here not in self.found:
                self.found[here] = self._translate(*here)
        return self.found[trace, node]

    def _collect(self, trace: Trace, node: Node) -> None:
        """Find the inputs of the user's calls."""
        stack = [(trace, node)]
        seen = set(stack)
        while stack:
            home, here = stack.pop()
            needs = self._recorded_needs(home, here)
            base = here.inputs[0] if here.operator is REPEAT_CALL else here
            if base in home.made and base not in gradient_nodes.get(home, ()) and not _passes_on(base):
                self.given.update([need for need in needs if not need[1].marked])
            for need in needs:
                if need[1].marked and need not in seen:
                    seen.add(need)
                    stack.append(need)

    def _needs(self, trace: Trace, node: Node) -> list[tuple[Trace, Node]]:
        """Return the nodes to translate before a node."""
        if node.marked:
            return self._recorded_needs(trace, node)
        if (trace, node) in self.given or node.operator is LEAF or constant_value(node) is not None:
            return []
        return self._recorded_needs(trace, node)

    def _recorded_needs(self, trace: Trace, node: Node) -> list[tuple[Trace, Node]]:
        if node.operator is VARIABLE:
            target = trace.targets[node.attributes[0]]
            if isinstance(target, Origin):
                return [(target.trace, target.node)]
            return target.call.sources() if isinstance(target, FunctionOutput) else []
        if _passes_on(node):
            return [(trace, node.inputs[-1])]
        declared, sources, _ = _call_of(node.inputs[0] if node.operator is REPEAT_CALL else node)
        return [(trace, source) for source in _arrays(trace, declared, sources)]

    def _translate(self, trace: Trace, node: Node) -> Output:
        if not node.marked:
            if (trace, node) in self.given or node.operator is LEAF:
                return Entry("null", f"null{_number(trace, node, _argument_numbers)}", {}, []), 0
            value = constant_value(node)
            if value is not None:
                return self._constant(trace, node, value), 0
        if node.operator is VARIABLE:
            return self._target(trace.targets[node.attributes[0]])
        if _passes_on(node):
            return self.found[trace, node.inputs[-1]]
        base, count = (node.inputs[0], node.attributes[0]) if node.operator is REPEAT_CALL else (node, 0)
        place, index, outputs = _output_of(trace, base)
        key = (trace, place, count)
        if key not in self.found:
            self.found[key] = self._operator(trace, *_call_of(base), outputs, count), 0
        return self.found[key][0], index

    def _constant(self, trace: Trace, node: Node, value: Any) -> Entry:
        name = f"node_{_number(trace, node, _operator_numbers)}"
        shown = {"shape": text_of(node.shape), "value": repr(value.item() + 0), "dtype": name_of(node.dtype)}
        return Entry("_full", name, shown, [])

    def _target(self, target: Target) -> Output:
        if isinstance(target, Origin):
            return self.found[target.trace, target.node]
        if isinstance(target, Variable):
            if target not in self.found:
                self.found[target] = Entry("null", f"var{target.number}", {}, []), 0
            return self.found[target]
        assert isinstance(target, FunctionOutput)
        call = target.call
        inputs = [self.found[source] for source in call.sources()]
        if call.name is None:
            return inputs[0]
        if call not in self.found:
            name = f"node_{_number(call.trace, call, _operator_numbers)}"
            if call.attributes is None:
                entry = Entry("_CustomFunction", name, {}, inputs, len(call.outputs))
            else:
                entry = Entry("Custom", name, dict(call.attributes), inputs + _states(name, call.attributes))
            self.found[call] = entry, 0
        return self.found[call][0], target.index

    def _operator(
        self,
        trace: Trace,
        declared: Operator,
        sources: tuple[Node, ...],
        attributes: tuple[Any, ...],
        outputs: int,
        count: int,
    ) -> Entry:
        """Return the entry of a call that was made ``count`` times before."""
        inputs = [self.found[trace, source] for source in _arrays(trace, declared, sources)]
        steps = itertools.count()

        def entry(operator: str, inputs: list[Output], **shown: Any) -> Entry:
            number = _number(trace, (declared, sources, attributes, next(steps), count), _operator_numbers)
            return Entry(operator, f"node_{number}", {k: _text(v) for k, v in shown.items()}, inputs, outputs)

        if declared.name == "_view_flat":
            return _view_entry(entry, inputs[0], sources[0].shape, *attributes)
        if declared.name == "_reshape" and 0 not in attributes[0]:
            return entry("Reshape", inputs, shape=list(attributes[0]))
        if declared.name in ("_slice_step", "_view_step"):
            return entry("slice", inputs, **_slice_bounds(sources[0].shape, *attributes))
        if declared.name == "_integer_power":
            return entry("_power_scalar", inputs, scalar=float(attributes[0]))
        if declared.name == "negative" and kind_of(sources[0].dtype) in "fi":
            return entry("_mul_scalar", inputs, scalar=-1.0)
        if declared.name in ("identity", "_copyto"):
            return entry("_copyto", inputs)
        known = _entry_of_primitive(entry, declared.name, inputs, [source.shape for source in sources], attributes)
        if known is not None:
            return known
        name = {"_cast": "Cast"}.get(declared.name, declared.name)
        kinds = [parameter.kind for parameter in declared.parameters]
        given = [_as_number(trace, value, kind) for value, kind in zip(attributes, kinds, strict=True)]
        shown = {
            parameter.name: value
            for parameter, value in zip(declared.parameters, given, strict=True)
            if parameter.name != "training" and not _is_default(value, parameter.default)
        }
        numbers = [_value_of(trace, source) for source in sources]
        if _has_number(trace, declared, sources):
            first = numbers[0] is not None
            shown["scalar"] = _as_written(numbers[0] if first else numbers[1])
            name = declared.forms["number_first" if first else "number_last"].name
        if declared.variadic and not name.startswith("_"):
            shown["num_args"] = len(inputs)
        return entry(name, inputs, **shown)


def _states(name: str, attributes: Mapping[str, str]) -> list[Output]:
    """Return arguments for the auxiliary states of a custom operator."""
    states = CustomCall(attributes, (), 0)
    return [
        (Entry("null", f"{name}_{states.argument_names[position]}", {}, []), 0) for position in sorted(states.auxiliary)
    ]


def _is_default(value: Any, default: Any) -> bool:
    # NumPy treats None as float64 when comparing dtypes
    return value is default or (value is not None and default is not None and bool(value == default))


def _passes_on(node: Node) -> bool:
    """Return whether a node only represents another one."""
    if node.operator is REPEAT_CALL:
        # a second record without a call: an array that passes a variable on
        return _passes_on(node.inputs[0])
    return node.call is None and node.operator in STAND_INS


def _call_of(node: Node) -> tuple[Operator, tuple[Node, ...], tuple[Any, ...]]:
    """Return operator, inputs and attributes of the call that produced a node, as the user wrote it."""
    if node.call is not None:
        return node.call
    whole = node.inputs[0] if node.operator.name == "_item" else node
    return whole.operator, whole.inputs, whole.attributes


def _output_of(trace: Trace, node: Node) -> tuple[Node, int, int]:
    """Return what stands for a call, which of its outputs a node is, and how many it has."""
    siblings = trace.tape.siblings.get(node)
    if siblings is not None:
        return siblings[0], siblings.index(node), len(siblings)
    if node.operator.name == "_item":
        whole = node.inputs[0]
        return whole, node.attributes[0], len(whole.outputs or ())
    return node, 0, 1


def _arrays(trace: Trace, declared: Operator, sources: tuple[Node, ...]) -> list[Node]:
    """Return the inputs of a call that are arrays, without missing ones and numbers that become attributes."""
    if declared.random:
        sources = sources[:-1]
    if _has_number(trace, declared, sources):
        return [source for source in sources if _value_of(trace, source) is None]
    count = len(sources)
    while count > declared.required_inputs and sources[count - 1].operator is ABSENT.operator:
        count -= 1
    return list(sources[:count])


def _has_number(trace: Trace, declared: Operator, sources: tuple[Node, ...]) -> bool:
    """Return whether exactly one of two operands is a number, which MXNet writes as an attribute."""
    return bool(declared.forms) and [_value_of(trace, source) is None for source in sources].count(False) == 1


def _value_of(trace: Trace, node: Node) -> Any:
    """Return the value of a number used beside arrays, as a NumPy scalar; None for an array."""
    if node.marked or node.shape:
        return None
    if node.operator is LEAF and node.attributes[0] >= 0:
        return trace.leaves[node.attributes[0]][()]
    return constant_value(node)


def _as_written(number: Any) -> float:
    """Return a number with the shortest text that has the same value in its dtype: 0.1, as the user wrote it."""
    return float(str(number))


def _as_number(trace: Trace, value: Any, kind: str) -> Any:
    """Return an attribute, of a parameter of some kind, with numbers in place of data leaves."""
    if isinstance(value, Node):
        number = _as_written(_value_of(trace, value))
        return int(number) if kind.startswith("Count") else number
    return tuple([_as_number(trace, each, kind) for each in value]) if isinstance(value, tuple) else value


def _slice_bounds(shape: Shape, begin: Shape, end: Shape, step: Shape) -> dict[str, Any]:
    """Return the attributes of a slice; a whole axis has no bounds, to fit any extent."""
    starts: list[int | None] = list(begin)
    ends: list[int | None] = [None if bound < 0 else bound for bound in end]
    for axis, (extent, first, last, stride) in enumerate(zip(shape, begin, end, step, strict=False)):
        if (first, last) == (0, extent) if stride > 0 else (first, last) == (extent - 1, -1):
            starts[axis] = ends[axis] = None
    bounds = {"begin": tuple(starts), "end": tuple(ends)}
    return bounds if set(step) == {1} else {**bounds, "step": step}


def _view_entry(entry: Callable[..., Entry], source: Output, whole: Shape, start: int, shape: Shape) -> Entry:
    """Return the MXNet form of a contiguous view: a slice of the first axis, or of the flattened array."""
    size, row = math.prod(shape), math.prod(whole[1:])
    if whole and row and start % row == 0 and size % row == 0:
        sliced = entry("slice", [source], begin=start // row, end=(start + size) // row)
        return sliced if shape == (size // row, *whole[1:]) else entry("Reshape", [(sliced, 0)], shape=list(shape))
    flat = entry("Reshape", [source], shape=[math.prod(whole)])
    sliced = entry("slice", [(flat, 0)], begin=start, end=start + size)
    return sliced if shape == (size,) else entry("Reshape", [(sliced, 0)], shape=list(shape))


def _entry_of_primitive(
    entry: Callable[..., Entry], name: str, inputs: list[Output], shapes: list[Shape], attributes: tuple[Any, ...]
) -> Entry | None:
    """Return the MXNet form of a primitive used by gradients; None if there is none."""
    if not all(shapes) or any([0 in shape for shape in shapes]):
        # MXNet's symbols know neither 0-d nor empty arrays
        return None
    if name == "_permute":
        return entry("transpose", inputs, axes=attributes[0])
    if name in ("_softmax", "_log_softmax"):
        return entry(name[1:], inputs, axis=attributes[0])
    if name == "_matmul":
        return entry({2: "dot", 3: "batch_dot"}.get(len(shapes[0]), "_linalg_gemm2"), inputs)
    if name == "_broadcast":
        (target,) = attributes
        lead = (1,) * (len(target) - len(shapes[0]))
        whole = [(entry("Reshape", inputs, shape=[*lead, *shapes[0]]), 0)] if lead else inputs
        return entry("broadcast_to", whole, shape=target)
    if name == "_sum_to" and attributes[0]:
        (target,) = attributes
        lead = (1,) * (len(shapes[0]) - len(target))
        pairs = zip(shapes[0], (*lead, *target), strict=True)
        axes = tuple([axis for axis, (extent, kept) in enumerate(pairs) if kept == 1 != extent or axis < len(lead)])
        summed = entry("sum", inputs, axis=axes, keepdims=True)
        return entry("Reshape", [(summed, 0)], shape=list(target)) if lead else summed
    return None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(str, value)) + "]"
    return name_of(value) if isinstance(value, np.dtype) else str(value)
