"""Interface: how an operator appears in symbols, where its signature does not say it.

A symbol names what an operator takes and gives, makes variables for inputs that are left out, and infers their shapes
from those that are known. An operator declares here, beside its body, which of its optional inputs a call has, which
inputs are auxiliary states, what its outputs are called, and what the shape of one input says about the others::

    def _dense_shapes(inputs, outputs, *, num_hidden, flatten): ...


    FullyConnected.interface = Interface(arguments=leave_out("bias", "no_bias"), shapes=_dense_shapes)

:class:`Onnx` is the like of it for ONNX: the node that computes what the operator computes.

A *partial* shape is None (nothing is known) or a tuple in which 0 stands for an extent that is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.dtypes import DType
from ..base.errors import MXNetError, format_shape

__all__ = [
    "Interface",
    "Onnx",
    "Partial",
    "Partials",
    "alike",
    "is_known",
    "leave_out",
    "like_data",
    "merge",
    "only_if",
    "outputs_of_type",
    "type_of_first",
    "types_apart",
    "vectors",
]

Partial = tuple[int, ...] | None
Partials = Sequence[Partial]
DTypes = Sequence[DType | None]


@dataclass(frozen=True)
class Interface:
    """How an operator appears in symbols."""

    arguments: Callable[..., Sequence[str]] | None = None
    """Returns the names of the inputs that a call has, given all of them and those parameters it names."""
    auxiliary: tuple[str, ...] = ()
    """Inputs that training changes: a bound symbol lists them apart from its arguments."""
    outputs: Any = 1
    """The names of all outputs (also of those users do not see), their number, or a function of parameters."""
    shown: Any = None
    """How many outputs users see, or a function of parameters, where the operator does not say it: MXNet counts some
    that do not exist here."""
    numbered: bool = False
    """Whether outputs are numbered even if there is only one."""
    count: str = "num_args"
    """The attribute that says how many inputs there are, where any number is taken."""
    each: str = "arg{}"
    """The names of inputs where any number is taken."""
    initial: Mapping[str, str] = field(default_factory=dict)
    """How variables are to be initialized that a symbol makes for inputs, by name of the input."""
    shapes: Callable[..., Partials] | None = None
    """Returns what is known of the inputs' shapes, given the partial shapes of inputs and outputs and parameters."""
    types: Callable[..., tuple[DTypes, DTypes]] | None = None
    """Returns what is known of the inputs' and outputs' dtypes, given both and parameters; by default all are equal."""


@dataclass(frozen=True)
class Onnx:
    """The node of ONNX that computes what an operator computes, from the same inputs.

    >>> Onnx("HardSigmoid", {"alpha": "alpha", "beta": "beta"}).form
    ''
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Parameters by the names that ONNX has for them."""
    form: str = ""
    """How the two are translated where they differ in more than names; :mod:`phonograd.contrib.onnx` has the forms."""
    reads: bool = True
    """Whether the node is read as this operator."""
    writes: bool = True
    """Whether the operator is written as this node."""


def merge(first: Partial, second: Partial) -> Partial:
    """Return what two partial shapes say together; they must not contradict each other.

    >>> merge((2, 0), (0, 3))
    (2, 3)
    """
    if first is None or second is None or first == second:
        return second if first is None else first
    if len(first) != len(second) or any([a and b and a != b for a, b in zip(first, second, strict=True)]):
        raise MXNetError(f"Shape inconsistent, Provided = {format_shape(first)}, inferred shape={format_shape(second)}")
    return tuple([a or b for a, b in zip(first, second, strict=True)])


def is_known(shape: Partial) -> bool:
    """Return whether a partial shape leaves nothing open."""
    return shape is not None and 0 not in shape


def alike(inputs: Partials, outputs: Partials) -> Partials:
    """Return the shapes of inputs that all have the shape of the first output."""
    common = outputs[0]
    for shape in inputs:
        common = merge(shape, common)
    return [common] * len(inputs)


def like_data(inputs: Partials, outputs: Partials) -> Partials:
    """Return the shapes of inputs of which the first has the shape of the first output."""
    return [merge(inputs[0], outputs[0]), *inputs[1:]]


def vectors(axis: Callable[..., int] | int) -> Callable[..., Partials]:
    """Return the rule of inputs behind the first that are vectors, as long as one axis of the first."""

    def rule(inputs: Partials, outputs: Partials, **parameters: Any) -> Partials:
        data = merge(inputs[0], outputs[0])
        place = axis if isinstance(axis, int) else axis(**parameters)
        if data is None or not -len(data) <= place < len(data):
            return [data, *inputs[1:]]
        return [data, *[(data[place],)] * (len(inputs) - 1)]

    return rule


def types_apart(*positions: int) -> Callable[..., tuple[DTypes, DTypes]]:
    """Return the rule of dtypes where inputs at some positions have a dtype of their own: indices, lengths."""

    def rule(inputs: DTypes, outputs: DTypes) -> tuple[DTypes, DTypes]:
        values = [dtype for position, dtype in enumerate(inputs) if position not in positions]
        common = next((dtype for dtype in (*values, *outputs) if dtype is not None), None)
        filled = [dtype if position in positions else dtype or common for position, dtype in enumerate(inputs)]
        return filled, [dtype or common for dtype in outputs]

    return rule


def outputs_of_type(dtype: DType) -> Callable[..., tuple[DTypes, DTypes]]:
    """Return the rule of dtypes where outputs have a certain dtype, whatever the inputs have."""

    def rule(inputs: DTypes, outputs: DTypes) -> tuple[DTypes, DTypes]:
        return inputs, [dtype] * len(outputs)

    return rule


def type_of_first(inputs: DTypes, outputs: DTypes) -> tuple[DTypes, DTypes]:
    """Return dtypes where outputs are like the first input, and the others have dtypes of their own."""
    known = all([dtype is not None for dtype in inputs])
    return inputs, [inputs[0] if known else None] * len(outputs)


def leave_out(name: str, parameter: str) -> Callable[..., Sequence[str]]:
    """Return the rule of an input that a call has unless a parameter is true."""

    def rule(names: Sequence[str], **parameters: Any) -> Sequence[str]:
        return [other for other in names if other != name or not parameters[parameter]]

    return rule


def only_if(**conditions: str) -> Callable[..., Sequence[str]]:
    """Return the rule of inputs that a call has only if a parameter is true: ``only_if(length="use_length")``."""

    def rule(names: Sequence[str], **parameters: Any) -> Sequence[str]:
        return [name for name in names if name not in conditions or parameters[conditions[name]]]

    return rule
