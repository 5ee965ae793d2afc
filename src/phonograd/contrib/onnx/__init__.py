"""onnx: export a symbol with its parameters to an ONNX file, and import one.

Needs the package ``onnx`` (``pip install phonograd[onnx]``). Unsupported operators raise an error that names them.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.base.errors import MXNetError

__all__ = ["export_model", "get_model_metadata", "get_operator_support", "import_model", "import_to_gluon"]


def _require() -> None:
    if importlib.util.find_spec("onnx") is None:
        raise ImportError("Onnx and protobuf need to be installed: pip install phonograd[onnx]")


def _load(onnx: Any, model_file: str | os.PathLike[str]) -> Any:
    """Load the model in a file; the error of an invalid file names the problem."""
    path = os.fspath(model_file)
    messages = importlib.import_module("google.protobuf.message")
    try:
        model = onnx.load(path)
    except OSError:
        raise
    except (messages.DecodeError, onnx.checker.ValidationError, ValueError, TypeError, RecursionError) as error:
        raise MXNetError(f"{path} is not an ONNX file, or it is damaged: {error}") from None
    if not model.HasField("graph"):
        raise MXNetError(f"{path} is not an ONNX file: it has no graph")
    return model


def export_model(
    sym: Any,
    params: Any,
    in_shapes: Any = None,
    in_types: Any = np.float32,
    onnx_file_path: str | os.PathLike[str] = "model.onnx",
    verbose: bool = False,
    dynamic: bool = False,
    dynamic_input_shapes: Sequence[Sequence[Any]] | None = None,
    run_shape_inference: bool = False,
    input_type: Any = None,
    input_shape: Any = None,
) -> str:
    """Write a network to an ONNX file and return its path.

    The model computes in prediction mode: Dropout does nothing, BatchNorm uses its moving averages, and losses such as
    SoftmaxOutput have no label.

    Parameters
    ----------
    sym
        A symbol, or the path of a symbol file.
    params
        Arrays by name, with or without ``arg:`` and ``aux:``, or the path of a file of parameters.
    in_shapes
        The shapes of the inputs, in the order of ``sym.list_inputs()`` without parameters and labels.
    in_types
        Their types: one for all, or a list.
    onnx_file_path
        The path of the ONNX file.
    verbose
        Whether to log the result.
    dynamic
        Whether to leave open the first extent of every input, or those chosen by ``dynamic_input_shapes``.
    dynamic_input_shapes
        Shapes with a name or None for each open extent.
    run_shape_inference
        Whether to write the shapes of all values into the file.
    input_type, input_shape
        Older names of ``in_types`` and ``in_shapes``.

    Compatibility
    -------------
    The file uses version 17 of ONNX's operators and passes ONNX's checker.
    """
    _require()
    from .export import model_of, read_parameters, read_symbol, write_model

    shapes = in_shapes if in_shapes is not None else input_shape
    if shapes is None:
        raise MXNetError("ONNX export: specify the shapes of the inputs as in_shapes, for example [(1, 3, 224, 224)]")
    types = in_types if input_type is None else input_type
    symbol, parameters = read_symbol(sym), read_parameters(params)
    opened = None
    if dynamic:
        given = [shapes] if isinstance(shapes, tuple) and all([isinstance(n, int) for n in shapes]) else shapes
        opened = dynamic_input_shapes or [("batch", *shape[1:]) for shape in given]
    model = model_of(symbol, parameters, shapes, types, opened)
    path = os.fspath(onnx_file_path)
    write_model(model, path, run_shape_inference)
    if verbose:
        logging.getLogger(__name__).info("wrote %d nodes to %s", len(model.graph.node), path)
    return path


def import_model(model_file: str | os.PathLike[str]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the symbol of an ONNX file, its parameters and its auxiliary states, by name.

    Values keep their names from the file. Arithmetic on constants and known shapes is evaluated during import.

    Raises
    ------
    MXNetError
        If the file is damaged, or has an unsupported operator or attribute; the error names the file and the node.
    """
    _require()
    import onnx

    from ... import symbol
    from . import readings
    from .model import Model

    del readings
    proto = _load(onnx, model_file)
    try:
        model = Model(proto)
        model.read()
        outputs = model.outputs()
    except MXNetError as error:
        raise MXNetError(f"{os.fspath(model_file)}: {error}") from error
    whole = outputs[0] if len(outputs) == 1 else symbol.Group(outputs)
    states = set(whole.list_auxiliary_states())
    used = [name for name in whole.list_inputs() if name in model.parameters]
    arguments = {name: model.parameters[name] for name in used if name not in states}
    return whole, arguments, {name: model.parameters[name] for name in used if name in states}


def import_to_gluon(model_file: str | os.PathLike[str], ctx: Any = None) -> Any:
    """Return a Gluon block that computes an ONNX file, with its parameters on a context."""
    from ... import symbol
    from ...core.base.devices import cpu
    from ...gluon import SymbolBlock

    whole, arguments, states = import_model(model_file)
    given = {**arguments, **states}
    inputs = [symbol.var(name) for name in whole.list_inputs() if name not in given]
    block = SymbolBlock(whole, inputs)
    for name, parameter in block.collect_params().items():
        parameter.shape = given[name].shape
        parameter.dtype = given[name].dtype
        parameter.initialize(ctx=ctx or cpu())
        parameter.set_data(given[name])
    return block


def get_model_metadata(model_file: str | os.PathLike[str]) -> dict[str, list[tuple[str, tuple[Any, ...]]]]:
    """Return the names and shapes of inputs and outputs of a model: "input_tensor_data" and "output_tensor_data"."""
    _require()
    import onnx

    graph = _load(onnx, model_file).graph
    constants = {tensor.name for tensor in graph.initializer}

    def facts(values: Any) -> list[tuple[str, tuple[Any, ...]]]:
        return [
            (value.name, tuple([extent.dim_value or extent.dim_param for extent in value.type.tensor_type.shape.dim]))
            for value in values
            if value.name not in constants
        ]

    return {"input_tensor_data": facts(graph.input), "output_tensor_data": facts(graph.output)}


def get_operator_support(opset_version: int | None = None) -> list[str]:
    """Return the names of the operators that can be exported."""
    _require()
    from .export import supported_operators
    from .graph import OPSET

    if opset_version is not None and opset_version != OPSET:
        raise ValueError(f"phonograd exports version {OPSET} of ONNX's operators, not version {opset_version}")
    return supported_operators()
