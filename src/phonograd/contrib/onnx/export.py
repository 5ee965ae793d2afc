"""Export a symbol with its parameters as an ONNX model.

Values that depend only on parameters are computed here, with our own operators, and stored in the model. Every other
call is translated by its mapping (:mod:`.mappings`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import ndarray as nd
from ..._version import __version__
from ...core.base.dtypes import BFLOAT16, FLOAT32, as_array_dtype
from ...core.base.errors import MXNetError, nearest
from ...core.base.files import write_atomically
from ...core.graph.operator import REGISTRY
from ...ndarray import NDArray
from ...symbol import Entry, Symbol
from ...symbol import load as load_symbol
from . import mappings
from .graph import IR_VERSION, OPSET, Array, Call, Graph, element_type, mapping_of, tensor_of

__all__ = ["model_of", "read_parameters", "read_symbol", "supported_operators", "write_model"]

#: the limit of a protocol buffers message; larger models keep their parameters in a second file
_LARGEST_MESSAGE = (1 << 31) - (1 << 20)

Head = tuple[Entry, int]
Shape = tuple[int, ...]
del mappings


def supported_operators() -> list[str]:
    """Return the names of all operators that can be exported."""
    return sorted([name for name, declared in REGISTRY.items() if mapping_of(declared) is not None])


def read_symbol(sym: Any) -> Symbol:
    """Return a symbol, given itself or as the path of a file."""
    if isinstance(sym, (str, os.PathLike)):
        return load_symbol(sym)
    if not isinstance(sym, Symbol):
        raise TypeError(f"sym must be a Symbol or the path of a symbol file, not {type(sym)}")
    return sym


def read_parameters(params: Any) -> dict[str, Array]:
    """Return parameters by name without "arg:" and "aux:", given as a dictionary or as the path of a file."""
    if isinstance(params, (str, os.PathLike)):
        params = nd.load(os.fspath(params))
    if isinstance(params, (list, tuple)) and all([isinstance(part, Mapping) for part in params]):
        params = {name: value for part in params for name, value in part.items()}
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be a dictionary of arrays by name or the path of a file, not {type(params)}")
    found: dict[str, Array] = {}
    for name, value in params.items():
        plain = name.partition(":")[2] if name.startswith(("arg:", "aux:")) else name
        found[plain] = value.asnumpy() if isinstance(value, NDArray) else np.asarray(value)
    return found


class _Inputs:
    """The inputs of the model: arguments that are neither parameters nor labels, with their shapes and dtypes."""

    def __init__(self, symbol: Symbol, known: Mapping[str, Array], shapes: Any, types: Any) -> None:
        self.labels = _labels(symbol)
        self.names = [name for name in symbol.list_inputs() if name not in known and name not in self.labels]
        given = [shapes] if isinstance(shapes, tuple) and all([isinstance(n, int) for n in shapes]) else shapes
        self.shapes = [tuple([int(extent) for extent in shape]) for shape in given or ()]
        if len(self.shapes) != len(self.names):
            raise MXNetError(
                f"ONNX export: in_shapes has {len(self.shapes)} shapes, but the model has "
                f"{len(self.names)} inputs that are not among the parameters: {', '.join(self.names)}"
                f"{_hint(self.names, known)}"
            )
        chosen = list(types) if isinstance(types, (list, tuple)) else [types] * len(self.names)
        if len(chosen) != len(self.names):
            raise MXNetError(f"ONNX export: in_types has {len(chosen)} types for {len(self.names)} inputs")
        self.types = [as_array_dtype(np.float32 if kind is None else kind) for kind in chosen]


def _hint(names: Sequence[str], known: Mapping[str, Array]) -> str:
    """Return a hint if the name of an input resembles that of a parameter."""
    return next((text for text in [nearest(name, list(known)) for name in names] if text), "")


def _labels(symbol: Symbol) -> set[str]:
    """Return the arguments that only losses use, as labels; prediction does not need them."""
    uses: dict[Entry, set[bool]] = {}
    for entry in symbol._entries():
        if not entry.is_argument:
            names = entry.call.argument_names
            for (source, _), name in zip(entry.inputs, names):
                uses.setdefault(source, set()).add(name == "label" and entry.operator.endswith("Output"))
    return {entry.name for entry, found in uses.items() if entry.is_argument and found == {True}}


class _Exporter:
    """Translate the entries of a symbol in topological order."""

    def __init__(self, symbol: Symbol, parameters: Mapping[str, Array], inputs: _Inputs) -> None:
        self.symbol = symbol
        self.inputs = inputs
        self.graph = Graph()
        self.values: dict[Head, str] = {}
        known = {name: array for name, array in parameters.items() if name in symbol.list_inputs()}
        self.shapes, self.types = _infer(symbol, known, inputs)
        for name in (*inputs.names, *known, *symbol.list_outputs()):
            self.graph.reserve(name)
        self.graph.constants.update(known)

    def translate(self) -> None:
        for entry in self.symbol._entries():
            if entry.is_argument:
                self.values[entry, 0] = entry.name
            else:
                self.graph.enter(entry.name)
                for index, name in enumerate(self._translate_entry(entry)):
                    self.values[entry, index] = name

    def _translate_entry(self, entry: Entry) -> Sequence[str]:
        declared = REGISTRY.get(getattr(getattr(entry.call, "declared", None), "name", ""))
        sources = [self.values.get(head) for head in entry.inputs]
        if any([source is None for source in sources]):
            raise MXNetError(f"ONNX export: {entry.name} uses an output of {entry.operator} that cannot be exported")
        names = [source for source in sources if source is not None]
        if declared is not None and not declared.random and all([name in self.graph.constants for name in names]):
            return self._fold(entry, names)
        mapping = None if declared is None else mapping_of(declared)
        if declared is None or mapping is None:
            raise MXNetError(
                f"ONNX export: operator {entry.operator} ({entry.name}) cannot be exported: it is not supported; "
                f"mx.onnx.get_operator_support() lists the supported operators"
            )
        # few operators of this version take bfloat16: they compute in float32 and are rounded, as here
        names = [
            self.graph.cast(name, FLOAT32) if self.types[head] == BFLOAT16 and name not in self.inputs.labels else name
            for head, name in zip(entry.inputs, names)
        ]
        found = mapping(self.graph, self._call(entry, names, declared.parameter_names))
        results = [found] if isinstance(found, str) else list(found)
        return [
            self.graph.cast(name, BFLOAT16) if self.types.get((entry, index)) == BFLOAT16 else name
            for index, name in enumerate(results)
        ]

    def _call(self, entry: Entry, names: Sequence[str], parameter_names: Sequence[str]) -> Call:
        call: Any = entry.call
        labels = [name in self.inputs.labels for name in names]
        kept = [index for index, is_label in enumerate(labels) if not is_label]
        heads = [entry.inputs[index] for index in kept]
        return Call(
            entry.operator,
            entry.name,
            tuple([names[index] for index in kept]),
            tuple([self.shapes[head] for head in heads]),
            compute_type(self.types[heads[0]]),
            tuple([self.shapes[entry, index] for index in range(entry.visible())]),
            compute_type(self.types[entry, 0]),
            dict(zip(parameter_names, call.attributes[0], strict=True)),
            tuple([call.argument_names[index] for index in kept]),
            tuple([self.types[head] for head in heads]),
        )

    def _fold(self, entry: Entry, names: Sequence[str]) -> list[str]:
        """Evaluate a call whose inputs are all constant."""
        attributes = dict(entry.attributes)
        if entry.call.is_open:
            attributes["shape"] = str(self.shapes[entry, 0])
        arguments = [Entry("null", f"input{index}", {}, []) for index in range(len(names))]
        alone = Entry(entry.operator, entry.name, attributes, [(argument, 0) for argument in arguments], entry.outputs)
        arrays: dict[str, Any] = {
            argument.name: nd.array(self.graph.constants[name], dtype=self.graph.constants[name].dtype)
            for argument, name in zip(arguments, names)
        }
        results = Symbol([(alone, index) for index in range(entry.visible())]).eval(**arrays)
        return [self.graph.constant(array.asnumpy(), name=f"{entry.name}_value") for array in results]

    def finish(self) -> list[str]:
        """Rename the outputs, drop unused values, and return the names of the outputs."""
        wanted = self.symbol.list_outputs()
        made = {name for node in self.graph.nodes for name in node.output}
        renamed: dict[str, str] = {}
        outputs: list[str] = []
        for head, name in zip(self.symbol._heads, wanted):
            if head not in self.values:
                raise MXNetError(f"ONNX export: the output {name} of {head[0].operator} cannot be exported")
            value = self.values[head]
            if name in outputs or name in self.inputs.names:
                name = self.graph.new_name(name)
            if value in made and value not in renamed:
                renamed[value] = name
            else:
                self.graph.enter(name)
                copy = self.graph.add("Identity", [value])
                renamed[copy] = name
            outputs.append(name)
        for node in self.graph.nodes:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
        used = {name for node in self.graph.nodes for name in node.input}
        self.graph.constants = {name: array for name, array in self.graph.constants.items() if name in used}
        return outputs


def compute_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which the model computes: float32 for bfloat16."""
    return FLOAT32 if dtype == BFLOAT16 else dtype


def _infer(
    symbol: Symbol, known: Mapping[str, Array], inputs: _Inputs
) -> tuple[dict[Head, Shape], dict[Head, np.dtype[Any]]]:
    """Infer the shapes and dtypes of all values."""
    internals = symbol.get_internals()
    shapes = {**{name: array.shape for name, array in known.items()}, **dict(zip(inputs.names, inputs.shapes))}
    # shape inference cannot use the shape of a 0-d parameter
    _, found, _ = internals._partial_shapes({name: shape for name, shape in shapes.items() if shape})
    types = {**{name: array.dtype for name, array in known.items()}, **dict(zip(inputs.names, inputs.types))}
    _, kinds, _ = internals.infer_type_partial(**types)
    for (entry, _), shape in zip(internals._heads, found):
        if 0 in shape or (not shape and not entry.is_argument):
            raise MXNetError(
                f"ONNX export: the shape of {entry.name} ({entry.operator}) does not follow from in_shapes and params"
            )
    heads = internals._heads
    return (
        dict(zip(heads, found)),
        {head: np.dtype(np.float32 if kind is None else kind) for head, kind in zip(heads, kinds)},
    )


def model_of(
    symbol: Symbol,
    parameters: Mapping[str, Array],
    in_shapes: Any,
    in_types: Any,
    dynamic_input_shapes: Sequence[Sequence[Any]] | None,
) -> Any:
    """Build the model; ``dynamic_input_shapes`` leaves open the extents that are names or None."""
    from onnx import helper

    inputs = _Inputs(symbol, parameters, in_shapes, in_types)
    exporter = _Exporter(symbol, parameters, inputs)
    exporter.translate()
    outputs = exporter.finish()
    shown = inputs.shapes if dynamic_input_shapes is None else list(dynamic_input_shapes)
    if len(shown) != len(inputs.names):
        raise MXNetError(f"ONNX export: dynamic_input_shapes has {len(shown)} shapes for {len(inputs.names)} inputs")
    entries = [
        helper.make_tensor_value_info(name, element_type(kind), list(shape))
        for name, kind, shape in zip(inputs.names, inputs.types, shown)
    ]
    results = [
        helper.make_tensor_value_info(
            name,
            element_type(exporter.types[head]),
            # the reader infers the open extents of outputs
            list(exporter.shapes[head]) if dynamic_input_shapes is None else [None] * len(exporter.shapes[head]),
        )
        for name, head in zip(outputs, symbol._heads)
    ]
    graph = exporter.graph
    constants = [tensor_of(array, name) for name, array in graph.constants.items()]
    made = helper.make_graph(graph.nodes, symbol.name or "phonograd", entries, results, constants)
    return helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="phonograd",
        producer_version=__version__,
    )


def write_model(model: Any, path: str, run_shape_inference: bool) -> None:
    """Check a model and write it to a file; a very large one stores its parameters in ``<path>.data``."""
    import onnx

    if model.ByteSize() > _LARGEST_MESSAGE:
        location = f"{os.path.basename(path)}.data"
        onnx.save_model(model, path, save_as_external_data=True, location=location)
        onnx.checker.check_model(path)
        return
    if run_shape_inference:
        model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, [model.SerializeToString()])
