"""Model: an ONNX model during import, and the view of a node that its reading function gets.

Nodes that depend only on constants are evaluated during import, by ONNX's reference evaluator. This removes the shape
arithmetic that other programs write into models. The size of such constants is limited by the size of the file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import ndarray as nd
from ... import symbol as sym
from ...core.base.dtypes import BFLOAT16, as_array_dtype, convert
from ...core.base.errors import MXNetError
from ...core.graph.operator import NAMES, Operator
from ...ndarray import NDArray
from ...symbol import Symbol
from ...symbol.build import function_of
from .graph import Array, element_type, tensor_of

__all__ = ["FORMS", "READINGS", "Model", "Node", "Reading", "reading_of", "reads", "reads_form"]

Shape = tuple[int | None, ...]

#: Constants that are evaluated during import may have this many bytes, and this many for each byte of the file.
_FOLDED_BYTES = 1 << 24
_FOLDED_PER_BYTE = 16
#: operators whose results can be much larger than their inputs
_GROWING = frozenset(
    ("ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample", "Constant")
)
#: constants up to this size can be shapes, on which the sizes of results depend
_LONGEST_SHAPE_BYTES = 4096
_WIDEST_ITEM = 8
_LONGEST_VECTOR = 1 << 16
Reading = Callable[["Node"], "Symbol | Sequence[Symbol]"]

FormReading = Callable[["Node", Operator], "Symbol | Sequence[Symbol]"]

#: reading functions of individual ONNX operators, by name
READINGS: dict[str, Reading] = {}
#: reading functions of forms, which operator declarations name (``onnx=``)
FORMS: dict[str, FormReading] = {}


def reads_form(*forms: str) -> Callable[[FormReading], FormReading]:
    """Register a function to read all nodes whose operator declares one of some forms."""

    def decorate(function: FormReading) -> FormReading:
        FORMS.update(dict.fromkeys(forms, function))
        return function

    return decorate


def reading_of(name: str) -> Reading | None:
    """Return the reading function of an ONNX operator, or None."""
    declared = NAMES["onnx"].get(name)
    if name in READINGS or declared is None:
        return READINGS.get(name)
    assert declared.onnx is not None
    read = FORMS[declared.onnx.form]
    return lambda node: read(node, declared)


def reads(*names: str) -> Callable[[Reading], Reading]:
    """Register a function to read operators."""

    def decorate(function: Reading) -> Reading:
        for name in names:
            if name in READINGS:
                raise ValueError(f"operator {name} has two readings")
            READINGS[name] = function
        return function

    return decorate


class Node:
    """A node to translate."""

    def __init__(self, model: Model, proto: Any) -> None:
        from onnx import helper

        self.model = model
        self.proto = proto
        self.operator: str = proto.op_type
        self.inputs: list[str] = list(proto.input)
        self.outputs: list[str] = list(proto.output)
        self.name: str = proto.name or (self.outputs[0] if self.outputs else self.operator)
        self.attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            value = helper.get_attribute_value(attribute)
            self.attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value

    def get(self, attribute: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(attribute, default)

    def default(self, attribute: str) -> Any:
        """Return ONNX's default of an attribute, or None."""
        from onnx import defs, helper

        schema = defs.get_schema(self.operator, self.model.opset)
        value = helper.get_attribute_value(schema.attributes[attribute].default_value)
        # the shortest decimal for this number: 0.2, as in the standard
        return float(str(np.float32(value))) if isinstance(value, float) else value

    def refuse(self, what: str) -> MXNetError:
        """Return the error for an unsupported node."""
        return MXNetError(f"ONNX import: operator {self.operator} ({self.name}) {what}, which cannot be imported")

    # -- inputs

    def has(self, index: int) -> bool:
        """Return whether an optional input is present."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def symbol(self, index: int) -> Symbol:
        """Return an input as a symbol."""
        if not self.has(index):
            raise self.refuse(f"has no input {index}")
        return self.model.symbol(self.inputs[index])

    @property
    def data(self) -> Symbol:
        """The first input."""
        return self.symbol(0)

    def constant(self, index: int) -> Array | None:
        """Return the value of an input if it is constant, else None."""
        return self.model.constants.get(self.inputs[index]) if self.has(index) else None

    def array(self, index: int, what: str) -> Array:
        """Return the value of an input that must be constant."""
        value = self.constant(index)
        if value is None:
            raise self.refuse(f"computes its {what}")
        return value

    def number(self, index: int, attribute: str, default: float) -> float:
        """Return a number that is an attribute in older versions and an input in newer ones."""
        if self.has(index):
            return float(self.array(index, attribute).item())
        return float(self.get(attribute, default))

    def integers(self, index: int, attribute: str, default: Any = None) -> Any:
        """Return integers that are an attribute in older versions and an input in newer ones."""
        if self.has(index):
            return [int(number) for number in self.array(index, attribute).reshape(-1)]
        found = self.get(attribute, default)
        return list(found) if isinstance(found, (list, tuple)) else found

    def shape(self, index: int = 0) -> Shape:
        """Return the shape of an input; unknown extents are None."""
        found = self.model.shape(self.inputs[index])
        if found is None:
            raise self.refuse("has an input with an unknown number of axes")
        return found

    def rank(self, index: int = 0) -> int:
        """Return the number of axes of an input."""
        return len(self.shape(index))

    def known_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an input, which must be fully known."""
        shape = self.shape(index)
        if None in shape:
            raise self.refuse(f"needs the shape of its input, which is {shape}")
        return tuple([extent for extent in shape if extent is not None])

    def axis(self, axis: int, index: int = 0) -> int:
        """Return an axis counted from the front."""
        return axis + self.rank(index) if axis < 0 else axis

    # -- translation

    def make(self, operator: str | Operator, *inputs: Symbol, **parameters: Any) -> Symbol:
        """Call an operator and name the result after the node."""
        function: Any = sym
        if isinstance(operator, Operator):
            function = function_of(operator, operator.name)
        else:
            for part in operator.split("."):
                function = getattr(function, part)
        made: Symbol = function(*inputs, name=self.model.new_name(self.name), **parameters)
        return made

    def parameter(self, value: Array, hint: str) -> Symbol:
        """Create a parameter."""
        return self.model.parameter(value, f"{self.name}_{hint}")


class Model:
    """The graph of a model: values by name, each a constant or a symbol."""

    def __init__(self, proto: Any) -> None:
        _check_names(proto.graph)
        self.proto = proto
        #: bytes that evaluated constants may still have
        self._room = _FOLDED_PER_BYTE * proto.ByteSize() + _FOLDED_BYTES
        self.opset = max([entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")] or [1])
        self.constants: dict[str, Array] = {t.name: _initial_value(t) for t in proto.graph.initializer}
        self.symbols: dict[str, Symbol] = {}
        #: parameters used by symbols
        self.parameters: dict[str, NDArray] = {}
        self._parameter_names: dict[str, Symbol] = {}
        self.inputs = [value.name for value in proto.graph.input if value.name not in self.constants]
        self._taken: set[str] = {*self.inputs, *self.constants}
        self._shapes = _shapes(proto)
        for name in self.inputs:
            self.symbols[name] = sym.var(name)

    def new_name(self, hint: str) -> str:
        """Return an unused name."""
        candidates = itertools.chain([hint], (f"{hint}_{number}" for number in itertools.count(1)))
        name = next(candidate for candidate in candidates if candidate not in self._taken)
        self._taken.add(name)
        return name

    def symbol(self, name: str) -> Symbol:
        """Return a value as a symbol; a constant becomes a parameter."""
        if name in self.symbols:
            return self.symbols[name]
        if name not in self.constants:
            raise MXNetError(f"ONNX import: the value {name!r} is used before it is computed")
        if name not in self._parameter_names:
            self._parameter_names[name] = self._declare(self.constants[name], name)
        return self._parameter_names[name]

    def parameter(self, value: Array, hint: str) -> Symbol:
        """Create a parameter."""
        return self._declare(value, self.new_name(hint))

    def _declare(self, value: Array, name: str) -> Symbol:
        # a 0-d parameter cannot be saved
        value = value.reshape(1) if value.ndim == 0 else value
        value = value.astype(np.float32) if value.dtype == np.bool_ else value
        self.parameters[name] = nd.array(value, dtype=value.dtype)
        return sym.var(name)

    def shape(self, name: str) -> Shape | None:
        """Return the shape of a value as far as it is known, or None."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        return self._shapes.get(name)

    # -- reading

    def read(self) -> None:
        """Translate all nodes."""
        for proto in self.proto.graph.node:
            try:
                node = Node(self, proto)
                self._read_node(node)
            except MemoryError:
                raise
            except Exception as error:
                if isinstance(error, MXNetError) and str(error).startswith("ONNX import"):
                    raise
                # The readings trust the standard. A node against it fails in ways that depend on the operator.
                raise MXNetError(
                    f"ONNX import: operator {proto.op_type} ({proto.name or ', '.join(proto.output)}) is invalid: "
                    f"{type(error).__name__}: {error}"
                ) from error

    def _read_node(self, node: Node) -> None:
        """Translate or evaluate a node."""
        if not self._fold(node):
            reading = reading_of(node.operator)
            if node.proto.domain not in ("", "ai.onnx") or reading is None:
                known = ", ".join(sorted({*READINGS, *NAMES["onnx"]}))
                raise MXNetError(
                    f"ONNX import: operator {node.operator} ({node.name}) cannot be imported: it is not supported. "
                    f"Supported operators are {known}"
                )
            self.symbols.update(zip(node.outputs, reading(node)))

    def _fold(self, node: Node) -> bool:
        """Evaluate a node whose inputs are all constant; return whether that was possible."""
        if node.operator == "Shape" and node.inputs[0] not in self.constants:
            shape = self.shape(node.inputs[0])
            start, end = node.get("start", 0), node.get("end")
            if shape is None or None in shape[start:end]:
                return False
            self.constants[node.outputs[0]] = np.array(shape[start:end], np.int64)
            return True
        if node.operator.startswith("Random") or not all([not i or i in self.constants for i in node.inputs]):
            return False
        if any([attribute.HasField("g") or attribute.graphs for attribute in node.proto.attribute]):
            # a loop can take any time
            return False
        self._check_room(node, _result_bytes(self.proto, node, self.constants))
        values = _evaluate(self.proto, node, self.constants)
        size = sum([value.nbytes for value in values])
        self._check_room(node, size)
        self._room -= size
        self.constants.update(zip(node.outputs, values))
        return True

    def _check_room(self, node: Node, size: int) -> None:
        """Raise an error if a constant is larger than a file of this size should need."""
        if size > self._room:
            raise node.refuse(
                f"has a constant result of {size} bytes, more than the {self._room} bytes that are left for constants "
                "of a file of this size"
            )

    def outputs(self) -> list[Symbol]:
        """Return the outputs of the graph."""
        if not self.proto.graph.output:
            raise MXNetError("ONNX import: the graph has no outputs")
        return [self.symbol(value.name) for value in self.proto.graph.output]


def _check_names(graph: Any) -> None:
    """Raise an error if a name is not text: protobuf returns names that are not UTF-8 as bytes."""
    for kind in ("input", "output", "initializer", "value_info", "node"):
        for number, item in enumerate(getattr(graph, kind)):
            names = [item.name]
            if kind == "node":
                names += [item.op_type, item.domain, *item.input, *item.output, *[a.name for a in item.attribute]]
            if not all([isinstance(name, str) for name in names]):
                raise MXNetError(f"ONNX import: {kind} {number} of the graph has a name that is not UTF-8")


def _initial_value(tensor: Any) -> Array:
    from onnx import TensorProto, numpy_helper

    try:
        array = numpy_helper.to_array(tensor)
        return convert(array, BFLOAT16) if tensor.data_type == TensorProto.BFLOAT16 else array
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
        raise MXNetError(f"ONNX import: the constant {tensor.name!r} is damaged: {error}") from None


def _alone(model: Any, node: Node, constants: dict[str, Array], with_values: bool) -> Any:
    """Return a model of one node, whose inputs are constants or, without values, inputs of the model."""
    from onnx import TensorProto, helper

    used = [name for name in dict.fromkeys(node.inputs) if name]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.outputs if name]
    inputs, values = [], []
    for name in used:
        if not with_values:
            inputs.append(helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None))
        elif constants[name].nbytes <= _LONGEST_SHAPE_BYTES:
            values.append(tensor_of(constants[name], name))
        else:
            kind = element_type(constants[name].dtype)
            inputs.append(helper.make_tensor_value_info(name, kind, constants[name].shape))
    graph = helper.make_graph([node.proto], "constants", inputs, outputs, initializer=values)
    return helper.make_model(graph, opset_imports=list(model.opset_import))


def _result_bytes(model: Any, node: Node, constants: dict[str, Array]) -> int:
    """Return how many bytes the results of a node on constants will have; 0 if inputs bound them."""
    from onnx import shape_inference

    try:
        inferred = shape_inference.infer_shapes(_alone(model, node, constants, True)).graph.output
    except (MemoryError, ValueError, TypeError, RuntimeError, shape_inference.InferenceError) as error:
        raise node.refuse(f"has results of unknown shapes ({error})") from None
    total = 0
    for value in inferred:
        kind = value.type.tensor_type
        extents = [extent.dim_value for extent in kind.shape.dim if extent.HasField("dim_value")]
        if not kind.HasField("shape") or len(extents) < len(kind.shape.dim):
            if node.operator in _GROWING:
                raise node.refuse("has a constant result of unknown size")
            continue
        total += math.prod(extents) * _WIDEST_ITEM
    return total


def _evaluate(model: Any, node: Node, constants: dict[str, Array]) -> list[Array]:
    """Evaluate a node on constants."""
    from onnx import numpy_helper
    from onnx.reference import ReferenceEvaluator

    def given(array: Array) -> Array:
        # bfloat16 as the evaluator stores it
        return numpy_helper.to_array(tensor_of(array, "")) if array.dtype == BFLOAT16 else array

    used = [name for name in dict.fromkeys(node.inputs) if name]
    alone = _alone(model, node, constants, False)
    try:
        found = ReferenceEvaluator(alone).run(None, {name: given(constants[name]) for name in used})
    except Exception as error:
        raise node.refuse(f"fails on its constants ({error})") from error
    return [convert(value, as_array_dtype(np.asarray(value).dtype)) for value in found]


#: operators whose results may be longer vectors, or have more axes, than each of their inputs
_JOINING = ("Concat", "Gather", "GatherND", "OneHot", "Unsqueeze")


def _longest_vector(model: Any, inferred: Any) -> int:
    """Return an upper bound of the elements of vectors that ONNX propagates, given what it knows without that.

    A vector may be a shape, and the axes of an array become a vector, so a bound holds for both.
    """
    bounds: dict[str, int] = {}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            extents = kind.shape.dim
            if len(extents) != 1 or extents[0].HasField("dim_value"):
                bounds[value.name] = extents[0].dim_value if len(extents) == 1 else len(extents)
    for tensor in model.graph.initializer:
        bounds[tensor.name] = tensor.dims[0] if len(tensor.dims) == 1 else len(tensor.dims)
    longest = max(bounds.values(), default=0)
    for node in _all_nodes(model.graph):
        sizes = [bounds.get(name, 1) for name in node.input]
        bound = sum(sizes) if node.op_type in _JOINING else max(sizes, default=1)
        for name in node.output:
            longest = max(longest, bounds.setdefault(name, bound))
    return longest


def _all_nodes(graph: Any) -> Iterator[Any]:
    """Return the nodes of a graph and of the graphs inside of it."""
    for node in graph.node:
        for attribute in node.attribute:
            for inside in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _all_nodes(inside)
        yield node


def _shapes(model: Any) -> dict[str, Shape]:
    """Return the shapes of all values as far as ONNX can infer them."""
    from onnx import shape_inference

    try:
        inferred = shape_inference.infer_shapes(model).graph
        # With data_prop, ONNX allocates an entry for each element of a vector, since the vector could be a shape. A
        # file whose vectors may become longer than a file of its size should need goes without.
        limit = _FOLDED_PER_BYTE * model.ByteSize() + _LONGEST_VECTOR
        if not model.functions and _longest_vector(model, inferred) <= limit:
            inferred = shape_inference.infer_shapes(model, data_prop=True).graph
    except (MemoryError, ValueError, TypeError, RuntimeError, shape_inference.InferenceError) as error:
        raise MXNetError(f"ONNX import: the shapes of the graph contradict each other: {error}") from None
    found: dict[str, Shape] = {}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found[value.name] = tuple([e.dim_value if e.HasField("dim_value") else None for e in kind.shape.dim])
    return found
