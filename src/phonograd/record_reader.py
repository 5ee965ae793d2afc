"""Reading a record as a symbol: ``autograd.get_symbol``.

Variables are called ``var<k>``, arrays that were not recorded ``null<k>``, operators ``node_<n>``, each by the same
name however often it is read. Operators appear as MXNet knows them: a number beside an array (``x * 2``) is an
attribute, and what indexing and reshaping are made of here are MXNet's ``slice`` and ``Reshape``.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable
from typing import Any

from .errors import MXNetError
from .ndarray.array import NDArray
from .node import Node, Shape
from .operator import Operator
from .operators.structural import LEAF, VARIABLE, constant_value
from .sweep import FunctionOutput, place_in_record
from .symbol import Entry, Symbol
from .trace import Origin, Target, Trace
from .variable import Variable

__all__ = ["get_symbol"]

_NOT_RECORDED = "NDArray is not part of a computation graph. Did you forget to turn on recording?"

#: name of an operator with a number as its second operand, and with one as its first
_SCALAR_FORMS = {
    "broadcast_add": ("_plus_scalar", "_plus_scalar"),
    "broadcast_sub": ("_minus_scalar", "_rminus_scalar"),
    "broadcast_mul": ("_mul_scalar", "_mul_scalar"),
    "broadcast_div": ("_div_scalar", "_rdiv_scalar"),
    "broadcast_mod": ("_mod_scalar", "_rmod_scalar"),
    "broadcast_power": ("_power_scalar", "_rpower_scalar"),
    "broadcast_maximum": ("_maximum_scalar", "_maximum_scalar"),
    "broadcast_minimum": ("_minimum_scalar", "_minimum_scalar"),
    "broadcast_hypot": ("_hypot_scalar", "_hypot_scalar"),
    "broadcast_equal": ("_equal_scalar", "_equal_scalar"),
    "broadcast_not_equal": ("_not_equal_scalar", "_not_equal_scalar"),
    "broadcast_greater": ("_greater_scalar", "_lesser_scalar"),
    "broadcast_greater_equal": ("_greater_equal_scalar", "_lesser_equal_scalar"),
    "broadcast_lesser": ("_lesser_scalar", "_greater_scalar"),
    "broadcast_lesser_equal": ("_lesser_equal_scalar", "_greater_equal_scalar"),
}

Output = tuple[Entry, int]

_argument_numbers = itertools.count()
_operator_numbers = itertools.count()
_numbers: weakref.WeakKeyDictionary[Any, dict[Any, int]] = weakref.WeakKeyDictionary()


def _number(owner: Any, thing: Any, counter: itertools.count[int]) -> int:
    """Return the number of a thing, the same as long as its owner lives."""
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

    def read(self, trace: Trace, node: Node) -> Output:
        """Return the output of an entry that stands for a node of a trace."""
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

    def _needs(self, trace: Trace, node: Node) -> list[tuple[Trace, Node]]:
        """Return what must be translated before a node."""
        if not node.marked:
            return []
        if node.operator is VARIABLE:
            target = trace.targets[node.attributes[0]]
            if isinstance(target, Origin):
                return [(target.trace, target.node)]
            return target.call.sources() if isinstance(target, FunctionOutput) else []
        if _passes_on(node):
            return [(trace, node.inputs[-1])]
        declared, sources, _ = _call_of(node)
        return [(trace, source) for source in _arrays(trace, declared, sources)]

    def _translate(self, trace: Trace, node: Node) -> Output:
        if not node.marked:
            return Entry("null", f"null{_number(trace, node, _argument_numbers)}", {}, []), 0
        if node.operator is VARIABLE:
            return self._target(trace.targets[node.attributes[0]])
        if _passes_on(node):
            return self.found[trace, node.inputs[-1]]
        place, index, outputs = _output_of(trace, node)
        key = (trace, place, "call")
        if key not in self.found:
            self.found[key] = self._operator(trace, *_call_of(node), outputs), 0
        return self.found[key][0], index

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
            self.found[call] = Entry("_CustomFunction", name, {}, inputs, len(call.outputs)), 0
        return self.found[call][0], target.index

    def _operator(
        self, trace: Trace, declared: Operator, sources: tuple[Node, ...], attributes: tuple[Any, ...], outputs: int
    ) -> Entry:
        inputs = [self.found[trace, source] for source in _arrays(trace, declared, sources)]
        steps = itertools.count()

        def entry(operator: str, inputs: list[Output], **shown: Any) -> Entry:
            number = _number(trace, (declared, sources, attributes, next(steps)), _operator_numbers)
            return Entry(operator, f"node_{number}", {k: _text(v) for k, v in shown.items()}, inputs, outputs)

        if declared.name == "_view_flat":
            return _view_entry(entry, inputs[0], sources[0].shape, *attributes)
        if declared.name == "_reshape":
            return entry("Reshape", inputs, shape=list(attributes[0]))
        if declared.name == "_slice_step":
            begin, end, step = attributes
            end = tuple([None if e < 0 else e for e in end])
            return entry("slice", inputs, begin=begin, end=end, **({} if set(step) == {1} else {"step": step}))
        if declared.name == "_integer_power":
            return entry("_power_scalar", inputs, scalar=float(attributes[0]))
        if declared.name in ("identity", "_copyto"):
            return entry("_copyto", inputs)
        name = {"_cast": "Cast"}.get(declared.name, declared.name)
        shown = {
            parameter.name: value
            for parameter, value in zip(declared.parameters, attributes, strict=True)
            if value is not None and value != parameter.default and parameter.name != "training"
        }
        numbers = [_value_of(trace, source) for source in sources]
        if name in _SCALAR_FORMS and len(sources) == 2 and numbers != [None, None]:
            first = numbers[0] is not None
            shown["scalar"] = float(numbers[0] if first else numbers[1])
            name = _SCALAR_FORMS[name][first]
        if declared.variadic and not name.startswith("_"):
            shown["num_args"] = len(inputs)
        return entry(name, inputs, **shown)


def _passes_on(node: Node) -> bool:
    """Return whether a node only stands for another one."""
    return node.call is None and node.operator.is_view


def _call_of(node: Node) -> tuple[Operator, tuple[Node, ...], tuple[Any, ...]]:
    """Return operator, inputs and attributes of the call a node is an output of, as the user wrote it."""
    if node.call is not None:
        return node.call
    whole = node.inputs[0] if node.operator.name == "_item" else node
    return whole.operator, whole.inputs, whole.attributes


def _output_of(trace: Trace, node: Node) -> tuple[Node, int, int]:
    """Return what stands for a call, which of its outputs a node is, and how many it has."""
    siblings = trace.siblings.get(node)
    if siblings is not None:
        return siblings[0], siblings.index(node), len(siblings)
    if node.operator.name == "_item":
        whole = node.inputs[0]
        return whole, node.attributes[0], len(whole.outputs or ())
    return node, 0, 1


def _arrays(trace: Trace, declared: Operator, sources: tuple[Node, ...]) -> list[Node]:
    """Return those inputs of a call that are arrays: no numbers, no places in a random stream, nothing left out."""
    if declared.random:
        sources = sources[:-1]
    return [s for s in sources if s.operator.name != "_absent" and _value_of(trace, s) is None]


def _value_of(trace: Trace, node: Node) -> Any:
    """Return the value of a number used beside arrays, or None for an array."""
    if node.marked or node.shape:
        return None
    if node.operator is LEAF and node.attributes[0] >= 0:
        return trace.leaves[node.attributes[0]].item()
    value = constant_value(node)
    return None if value is None else value.item()


def _view_entry(entry: Callable[..., Entry], source: Output, whole: Shape, start: int, shape: Shape) -> Entry:
    """Return what a view of contiguous elements is in MXNet: a slice of the first axis, or of all in a row."""
    size, row = math.prod(shape), math.prod(whole[1:])
    if whole and row and start % row == 0 and size % row == 0:
        sliced = entry("slice", [source], begin=start // row, end=(start + size) // row)
        return sliced if shape == (size // row, *whole[1:]) else entry("Reshape", [(sliced, 0)], shape=list(shape))
    flat = entry("Reshape", [source], shape=[math.prod(whole)])
    sliced = entry("slice", [(flat, 0)], begin=start, end=start + size)
    return sliced if shape == (size,) else entry("Reshape", [(sliced, 0)], shape=list(shape))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)
