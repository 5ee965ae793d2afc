"""Symbol declarations of operators, for facts that the signature does not state.

A symbol names the inputs and outputs of an operator, creates variables for omitted inputs, and infers their shapes from
the known ones. An operator declares, beside its body, the optional inputs of a call, its auxiliary states, the names
of its outputs, and the relations between shapes::

    def _dense_shapes(inputs, outputs, *, num_hidden, flatten): ...


    FullyConnected.interface = Interface(arguments=leave_out("bias", "no_bias"), shapes=_dense_shapes)

:class:`Onnx` declares the equivalent ONNX node.

A *partial* shape is None (unknown) or a tuple in which 0 is an unknown size.
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
    "Quantizes",
    "is_known",
    "leave_out",
    "like_data",
    "merge",
    "only_if",
    "outputs_of_type",
    "same_shapes",
    "separate_types",
    "type_of_first",
    "vectors",
]

Partial = tuple[int, ...] | None
Partials = Sequence[Partial]
DTypes = Sequence[DType | None]


@dataclass(frozen=True)
class Interface:
    """Declare the symbol of an operator."""

    arguments: Callable[..., Sequence[str]] | None = None
    """Maps the names of all inputs, and the parameters in its signature, to the names of the inputs of a call."""
    auxiliary: tuple[str, ...] = ()
    """Auxiliary states: inputs that training changes. A bound symbol lists them separately from its arguments."""
    outputs: Any = 1
    """The names of all outputs (hidden ones too), their number, or a function of parameters."""
    shown: Any = None
    """The number of visible outputs, or a function of parameters, if it differs from the operator's: MXNet counts some
    outputs that do not exist here."""
    numbered: bool = False
    """Whether outputs are numbered even if there is only one."""
    count: str = "num_args"
    """The attribute with the number of inputs of a variadic operator."""
    counted: int = 1
    """The inputs that are counted as one: 3 if each array comes with its limits."""
    each: str = "arg{}"
    """The names of the inputs of a variadic operator."""
    initial: Mapping[str, str] = field(default_factory=dict)
    """Initializers of the variables that a symbol creates for inputs, by input name."""
    shapes: Callable[..., Partials] | None = None
    """Infers the partial shapes of inputs from the partial shapes of inputs and outputs, and parameters."""
    results: Callable[..., Partials | None] | None = None
    """Infers the partial shapes of outputs from partial shapes of inputs, some of them unknown. If there is no rule, or
    if it returns None, trial values for unknown extents show which extents of outputs depend on them."""
    types: Callable[..., tuple[DTypes, DTypes]] | None = None
    """Infers the dtypes of inputs and outputs from the known ones and parameters; by default all are equal."""


@dataclass(frozen=True)
class Onnx:
    """Declare the ONNX node that computes the same result from the same inputs.

    >>> Onnx("HardSigmoid", {"alpha": "alpha", "beta": "beta"}).form
    ''
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Parameters by their ONNX names."""
    form: str = ""
    """The translation, if the two differ in more than names; :mod:`phonograd.contrib.onnx` has the forms."""
    reads: bool = True
    """Whether the node is read as this operator."""
    writes: bool = True
    """Whether the operator is written as this node."""


@dataclass(frozen=True)
class Quantizes:
    """Declare that an operator on quantized arrays computes another operator, in :mod:`phonograd.contrib.quantization`.

    Its inputs are those of the other operator, then the least and the greatest number of each quantized input.
    """

    name: str
    """The other operator."""
    is_product: bool = False
    """Whether quantizing it saves time by itself; in the mode ``smart``, others are quantized only between products."""
    is_requantized: bool = False
    """Whether its result is int32, and requantized to int8 or uint8."""
    is_calibrated: bool = False
    """Whether it has the calibrated range of its result as parameters."""
    real: Callable[[int], bool] = lambda position: False
    """Returns whether an input, by position, stays real."""
    obstacle: Callable[..., str] = lambda: ""
    """Returns why it cannot compute a call with some parameters, or an empty string."""


def merge(first: Partial, second: Partial) -> Partial:
    """Combine two partial shapes; raise if they contradict each other.

    >>> merge((2, 0), (0, 3))
    (2, 3)
    """
    if first is None or second is None or first == second:
        return second if first is None else first
    if len(first) != len(second) or any([a and b and a != b for a, b in zip(first, second, strict=True)]):
        raise MXNetError(f"Shape inconsistent, Provided = {format_shape(first)}, inferred shape={format_shape(second)}")
    return tuple([a or b for a, b in zip(first, second, strict=True)])


def is_known(shape: Partial) -> bool:
    """Return whether all sizes of a partial shape are known."""
    return shape is not None and 0 not in shape


def same_shapes(inputs: Partials, outputs: Partials) -> Partials:
    """Return the input shapes, all equal to the shape of the first output."""
    common = outputs[0]
    for shape in inputs:
        common = merge(shape, common)
    return [common] * len(inputs)


def like_data(inputs: Partials, outputs: Partials) -> Partials:
    """Return the input shapes; the first equals the shape of the first output."""
    return [merge(inputs[0], outputs[0]), *inputs[1:]]


def vectors(axis: Callable[..., int] | int) -> Callable[..., Partials]:
    """Return the rule for inputs after the first that are vectors, as long as one axis of the first."""

    def rule(inputs: Partials, outputs: Partials, **parameters: Any) -> Partials:
        data = merge(inputs[0], outputs[0])
        place = axis if isinstance(axis, int) else axis(**parameters)
        if data is None or not -len(data) <= place < len(data):
            return [data, *inputs[1:]]
        return [data, *[(data[place],)] * (len(inputs) - 1)]

    return rule


def separate_types(*positions: int) -> Callable[..., tuple[DTypes, DTypes]]:
    """Return the dtype rule for inputs at some positions with a separate dtype, such as indices or lengths."""

    def rule(inputs: DTypes, outputs: DTypes) -> tuple[DTypes, DTypes]:
        values = [dtype for position, dtype in enumerate(inputs) if position not in positions]
        common = next((dtype for dtype in (*values, *outputs) if dtype is not None), None)
        filled = [dtype if position in positions else dtype or common for position, dtype in enumerate(inputs)]
        return filled, [dtype or common for dtype in outputs]

    return rule


def outputs_of_type(dtype: DType) -> Callable[..., tuple[DTypes, DTypes]]:
    """Return the dtype rule for outputs with a fixed dtype."""

    def rule(inputs: DTypes, outputs: DTypes) -> tuple[DTypes, DTypes]:
        return inputs, [dtype] * len(outputs)

    return rule


def type_of_first(inputs: DTypes, outputs: DTypes) -> tuple[DTypes, DTypes]:
    """Return dtypes: those of the outputs equal that of the first input, the others are independent."""
    first = inputs[0] or outputs[0]
    known = all([dtype is not None for dtype in inputs[1:]])
    return [first, *inputs[1:]], [first if known else None] * len(outputs)


def leave_out(name: str, parameter: str) -> Callable[..., Sequence[str]]:
    """Return the rule for an input that a call omits if a parameter is true."""

    def rule(names: Sequence[str], **parameters: Any) -> Sequence[str]:
        return [other for other in names if other != name or not parameters[parameter]]

    return rule


def only_if(**conditions: str) -> Callable[..., Sequence[str]]:
    """Return the rule for inputs that a call has only if a parameter is true: ``only_if(length="use_length")``."""

    def rule(names: Sequence[str], **parameters: Any) -> Sequence[str]:
        return [name for name in names if name not in conditions or parameters[conditions[name]]]

    return rule
