"""The functions of ``mx.contrib.quantization``, with MXNet's names and arguments.

``quantize_model``, ``quantize_graph`` and ``calib_graph`` make MXNet's graph of quantized operators (:mod:`.graph`).
``quantize_net`` and ``quantize_model_mkldnn`` make fused layers (:mod:`.fusion`) if ranges are calibrated.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ... import symbol as sym_module
from ...context import cpu
from ...gluon import SymbolBlock
from ...io import DataDesc, DataIter
from ...ndarray import NDArray, array, contrib, zeros
from ...ndarray import max as nd_max
from ...ndarray import min as nd_min
from ...symbol import Symbol
from ...symbol.entry import Entry
from .calibration import _LayerHistogramCollector, _LayerOutputMinMaxCollector, thresholds_of
from .checks import (
    check_arrays,
    check_batch,
    check_collector,
    check_data_names,
    check_examples,
    check_names,
    check_parameter,
    check_ranges,
    check_result,
    check_words,
    matching_names,
)
from .fusion import Fusion, fuse
from .graph import calibrate_symbol, observed_names, quantize_symbol

__all__ = [
    "calib_graph",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_net",
    "quantize_net_v2",
]

_CPU = cpu()

#: the least range of a filter, as a part of the largest: its bias in the units of its sums must fit into int32
_SMALLEST_FILTER = np.float32(2**-12)


# -- data


def _as_array(value: Any) -> NDArray:
    return array(value, dtype=value.dtype) if isinstance(value, np.ndarray) else value


def _batches(calib_data: Any, names: list[str], most: int | None) -> Iterator[dict[str, NDArray]]:
    """Yield the arrays of each batch by name, until ``most`` examples were seen; warn if there are fewer."""
    if isinstance(calib_data, DataIter):
        calib_data.reset()
        given_names = [str(description[0]) for description in calib_data.provide_data]  # type: ignore[attr-defined]
        names = given_names if set(given_names) == set(names) else names
    seen = 0
    for batch in calib_data:
        given = batch.data if hasattr(batch, "data") and not isinstance(batch, (NDArray, np.ndarray)) else batch
        arrays = [_as_array(value) for value in (given if isinstance(given, (list, tuple)) else [given])]
        check_batch(names, arrays)
        yield dict(zip(names, arrays))
        seen += arrays[0].shape[0]
        if most is not None and seen >= most:
            return
    if most is not None and seen:
        warnings.warn(
            f"calib_data has {seen} examples, but num_calib_examples is {most}: pass more data, or a smaller number",
            stacklevel=2,
        )


def _collect(
    symbol: Symbol,
    params: dict[str, NDArray],
    data_names: list[str],
    calib_data: Any,
    most: int | None,
    wanted: list[str],
    collector: Any,
    logger: Any,
) -> None:
    """Run the real network on the calibration data, and hand the wanted outputs to a collector."""
    internals = symbol.get_internals()
    known = {name: number for number, name in enumerate(internals.list_outputs())}
    observed = sym_module.Group([internals[known[name]] for name in wanted if name in known])
    inputs = set(observed.list_inputs())
    missing = [name for name in inputs if name not in params and name not in data_names]
    labels = {name: None for name in missing if name.endswith("label")}
    if len(labels) < len(missing):
        raise ValueError(
            f"arguments {sorted(set(missing) - set(labels))} are neither data nor parameters: add them to arg_params "
            "or aux_params, or name them in data_names"
        )
    count = 0
    for arrays in _batches(calib_data, data_names, most):
        given = {**params, **arrays}
        outputs = observed.eval(None, **{name: given[name] for name in inputs})
        for name, output in zip(observed.list_outputs(), outputs, strict=True):
            collector.collect(name, output)
        count += 1
    if not count:
        raise ValueError(
            "calib_data has no batches: pass a DataIter or DataLoader with examples, or use calib_mode='none'"
        )
    if logger:
        logger.info("Collected layer outputs of %d batches", count)


def _collector(calib_mode: str, quantized_dtype: str, layers: list[str] | None, custom: Any, logger: Any) -> Any:
    if calib_mode == "entropy":
        return _LayerHistogramCollector(include_layer=layers, logger=logger)
    if calib_mode == "naive":
        return _LayerOutputMinMaxCollector(quantized_dtype, include_layer=layers, logger=logger)
    check_collector(custom, calib_mode)
    return custom


def _calibration(
    symbol: Symbol,
    params: dict[str, NDArray],
    data_names: list[str],
    calib_data: Any,
    most: int | None,
    calib_mode: str,
    quantized_dtype: str,
    custom: Any = None,
    logger: Any = None,
) -> Callable[[list[str]], dict[str, tuple[float, float]]]:
    """Return the function that finds the ranges of outputs."""
    if calib_data is None:
        raise ValueError(f"calib_data must be provided when calib_mode={calib_mode}")
    check_examples(most)

    def calibrate(names: list[str]) -> dict[str, tuple[float, float]]:
        if not names:
            return {}
        collector = _collector(calib_mode, quantized_dtype, names, custom, logger)
        _collect(symbol, params, data_names, calib_data, most, names, collector, logger)
        found = thresholds_of(collector, calib_mode, quantized_dtype)
        check_ranges(names, found, needs_all=True)
        return found

    return calibrate


# -- symbols


def _quantized_params(qsym: Symbol, params: dict[str, NDArray]) -> dict[str, NDArray]:
    """Return the parameters of a quantized symbol, of which some are int8."""
    found: dict[str, NDArray] = {}
    stated = qsym.attr_dict()
    for name in qsym.list_arguments():
        if name.endswith("_quantize") and name.removesuffix("_quantize") in params:
            value = params[name.removesuffix("_quantize")]
            check_parameter(name.removesuffix("_quantize"), value)
            if "__shape__" in stated.get(f"{name}_min", {}):
                parts = _quantized_filters(value)
            else:
                parts = contrib.quantize(value, nd_min(value), nd_max(value), out_type="int8")
            found.update({f"{name}{suffix}": part for suffix, part in zip(("", "_min", "_max"), parts, strict=True)})
        elif name in params:
            found[name] = params[name]
    return found


def _quantized_filters(weight: NDArray) -> list[NDArray]:
    """Return a weight in int8 with one range for each filter, and the least and the greatest number of each."""
    values = weight.asnumpy()
    limits = np.abs(values.reshape(len(values), -1)).max(axis=1)
    limits = np.maximum(limits, limits.max() * _SMALLEST_FILTER)
    levels = np.float32(127) / np.where(limits > 0, limits, np.float32(1))
    numbers = np.rint(values * levels.reshape(-1, *(1,) * (values.ndim - 1))).clip(-127, 127).astype(np.int8)
    return [array(numbers, dtype="int8"), array(-limits), array(limits)]


def quantize_model(
    sym: Symbol,
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    data_names: tuple[str, ...] = ("data",),
    label_names: tuple[str, ...] | None = ("softmax_label",),
    ctx: Any = _CPU,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: Any = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Any = None,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return a quantized symbol of a network, its quantized arguments, and its auxiliary states.

    Parameters
    ----------
    sym, arg_params, aux_params
        The trained network.
    data_names, label_names
        The names of its inputs.
    excluded_sym_names, excluded_op_names
        Layers and operators that stay real.
    calib_mode
        ``none``: ranges are those of the elements, at each call. ``naive``: the extremes for the calibration data.
        ``entropy``: the ranges with the least loss of information.
    calib_data
        A data iterator.
    num_calib_examples
        The greatest number of examples to use; all by default.
    quantized_dtype
        ``int8``, ``uint8``, or ``auto``: uint8 if no element is negative.
    quantize_mode
        ``full``: all operators that have a quantized form. ``smart``: products, and what is between them.
    quantize_granularity
        ``tensor-wise``: one range for a weight. ``channel-wise``: one for each filter of a product.
    """
    lists = {"excluded_sym_names": excluded_sym_names, "excluded_op_names": excluded_op_names}
    names, operators = check_words(ctx, quantized_dtype, quantize_granularity, calib_mode, quantize_mode, lists)
    check_names(sym, names, operators)
    words = (quantized_dtype, quantize_mode, quantize_granularity)
    qsym, layers, left = quantize_symbol(sym, names, operators, arg_params, *words)
    check_result(sym, layers, left, set(arg_params))
    if calib_mode not in (None, "none"):
        assert calib_mode is not None
        if calib_data is not None and not isinstance(calib_data, DataIter):
            raise ValueError(
                f"calib_data must be of DataIter type when calib_mode={calib_mode}, while received type "
                f"{type(calib_data)}"
            )
        check_data_names(calib_data, data_names)
        params = {**arg_params, **aux_params}
        ranges = _calibration(
            sym, params, list(data_names), calib_data, num_calib_examples, calib_mode, quantized_dtype, None, logger
        )
        qsym = calibrate_symbol(qsym, ranges(layers))
    return qsym, _quantized_params(qsym, arg_params), aux_params


def quantize_graph(
    sym: Symbol,
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    ctx: Any = _CPU,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    LayerOutputCollector: Any = None,  # noqa: N803
    logger: Any = None,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray], Any]:
    """Return a quantized symbol without ranges, its parameters, and the collector for :func:`calib_graph`.

    Hand the collector's ``collect`` to the monitor of the real network, and run it on calibration data.
    """
    lists = {"excluded_sym_names": excluded_sym_names, "excluded_op_names": excluded_op_names}
    names, operators = check_words(ctx, quantized_dtype, quantize_granularity, calib_mode, quantize_mode, lists)
    check_names(sym, names, operators)
    words = (quantized_dtype, quantize_mode, quantize_granularity)
    qsym, layers, left = quantize_symbol(sym, names, operators, arg_params, *words)
    check_result(sym, layers, left, set(arg_params))
    collector = None
    if calib_mode is not None and calib_mode != "none":
        collector = _collector(calib_mode, quantized_dtype, layers, LayerOutputCollector, logger)
    return qsym, _quantized_params(qsym, arg_params), aux_params, collector


def calib_graph(
    qsym: Symbol,
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    collector: Any,
    calib_mode: str | None = "entropy",
    quantized_dtype: str = "int8",
    logger: Any = logging,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return a quantized symbol with the ranges of a filled collector; ``arg_params`` are those of the real network.

    Outputs that the collector does not have get their ranges at each call, with a warning; one of them must be known.
    """
    if calib_mode in (None, "none"):
        raise ValueError("please set calibration mode to naive or entropy.")
    check_words(_CPU, quantized_dtype, "tensor-wise", calib_mode, "full", {})
    check_collector(collector, calib_mode)
    assert calib_mode is not None
    found = thresholds_of(collector, calib_mode, quantized_dtype)
    if not found:
        raise ValueError("the collector is empty: run the real network on calibration data with it as the monitor")
    check_ranges(observed_names(qsym), found, needs_all=False)
    qsym = calibrate_symbol(qsym, found)
    if logger:
        logger.info("Calibrated the ranges of %d outputs", len(found))
    return qsym, _quantized_params(qsym, arg_params), aux_params


def quantize_model_mkldnn(
    sym: Symbol,
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    data_names: tuple[str, ...] = ("data",),
    label_names: tuple[str, ...] | None = ("softmax_label",),
    ctx: Any = _CPU,
    excluded_sym_names: list[str] | None = None,
    excluded_op_names: list[str] | None = None,
    calib_mode: str | None = "entropy",
    calib_data: Any = None,
    num_calib_examples: int | None = None,
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
    logger: Any = None,
) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """Return a quantized symbol with fused layers; the arguments are those of :func:`quantize_model`.

    Without calibration, it is :func:`quantize_model`.
    """
    lists = {"excluded_sym_names": excluded_sym_names, "excluded_op_names": excluded_op_names}
    names, operators = check_words(ctx, quantized_dtype, quantize_granularity, calib_mode, quantize_mode, lists)
    if calib_mode in (None, "none"):
        return quantize_model(
            *(sym, arg_params, aux_params, data_names, label_names, ctx, names, operators, calib_mode, None, None),
            *(quantized_dtype, quantize_mode, quantize_granularity, logger),
        )
    assert calib_mode is not None
    check_names(sym, names, operators)
    check_data_names(calib_data, data_names)
    params = {**arg_params, **aux_params}
    calibrate = _calibration(
        sym, params, list(data_names), calib_data, num_calib_examples, calib_mode, quantized_dtype, None, logger
    )
    done = _fuse(sym, params, names, operators, quantized_dtype, quantize_granularity, calibrate, logger)
    return done.symbol, *_fused_params(done, params)


def _fuse(
    symbol: Symbol,
    params: dict[str, NDArray],
    names: list[str],
    operators: list[str],
    dtype: str,
    granularity: str,
    calibrate: Callable[[list[str]], dict[str, tuple[float, float]]],
    logger: Any,
) -> Fusion:
    def excluded(entry: Entry) -> bool:
        return entry.name in names or entry.operator in operators

    arrays = {name: value.asnumpy() for name, value in params.items()}
    done = fuse(symbol, arrays, excluded, dtype, granularity == "channel-wise", calibrate)
    if logger:
        for name in done.done:
            logger.info("%s is quantized.", name)
        for name, reason in done.left.items():
            logger.info("%s is NOT quantized: %s.", name, reason)
    check_result(symbol, done.done, done.left, set(params))
    return done


def _fused_params(done: Fusion, params: dict[str, NDArray]) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Return the arguments and the auxiliary states of a fused network."""
    made = {name: array(value, dtype=value.dtype) for name, value in done.new_params.items()}
    arguments, states = [
        {name: made[name] if name in made else params[name] for name in names if name in made or name in params}
        for names in (done.symbol.list_arguments(), done.symbol.list_auxiliary_states())
    ]
    return arguments, states


# -- blocks


def quantize_net_v2(
    network: Any,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    quantize_granularity: str = "tensor-wise",
    exclude_layers: list[str] | None = None,
    exclude_layers_match: list[str] | None = None,
    exclude_operators: list[str] | None = None,
    calib_data: Any = None,
    data_shapes: Any = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Any = _CPU,
    LayerOutputCollector: Any = None,  # noqa: N803
    logger: Any = None,
) -> SymbolBlock:
    """Return a quantized block of a trained HybridBlock.

    Parameters
    ----------
    network
        The block; it is hybridized.
    quantized_dtype, quantize_mode, calib_mode, num_calib_examples
        As in :func:`quantize_model`.
    quantize_granularity
        ``tensor-wise``: one scale for a weight. ``channel-wise``: one for each filter.
    exclude_layers, exclude_layers_match, exclude_operators
        Layers that stay real: by name, by a part of the name, by operator.
    calib_data
        A data iterator, or a loader whose batches begin with the data.
    data_shapes
        Descriptions of the data (name, shape), needed without ``calib_data``.
    LayerOutputCollector
        The collector of ``calib_mode="customize"``.
    logger
        Receives the names of quantized layers, and why others are not.
    """
    lists = {
        "exclude_layers": exclude_layers,
        "exclude_layers_match": exclude_layers_match,
        "exclude_operators": exclude_operators,
    }
    names, parts, operators = check_words(ctx, quantized_dtype, quantize_granularity, calib_mode, quantize_mode, lists)
    is_calibrated = calib_mode not in (None, "none")
    if is_calibrated and calib_data is None:
        raise ValueError(f"calib_data must be provided when calib_mode={calib_mode}")
    if isinstance(calib_data, Iterator) and not isinstance(calib_data, DataIter):
        # it is read twice: once for the shapes
        calib_data = list(calib_data)
    check_arrays(network)
    shapes = [tuple(d.shape if hasattr(d, "shape") else d[1]) for d in data_shapes or _described(calib_data)]
    if not shapes:
        raise ValueError("data_shapes required: pass the shapes of the inputs, or calib_data")
    symbol, data_names, params = _outline(network, shapes, ctx)
    check_names(symbol, names, operators)
    names = names + matching_names(symbol, parts)
    if is_calibrated:
        assert calib_mode is not None
        custom = LayerOutputCollector
        calibrate = _calibration(
            symbol, params, data_names, calib_data, num_calib_examples, calib_mode, quantized_dtype, custom, logger
        )
        done = _fuse(symbol, params, names, operators, quantized_dtype, quantize_granularity, calibrate, logger)
        qsym, (arguments, states) = done.symbol, _fused_params(done, params)
    else:
        auxiliary = set(symbol.list_auxiliary_states())
        operators = [*operators, "BatchNorm"]
        own = {name: value for name, value in params.items() if name not in auxiliary}
        words = (quantized_dtype, quantize_mode, quantize_granularity)
        qsym, layers, left = quantize_symbol(symbol, names, operators, own, *words)
        check_result(symbol, layers, left, set(params))
        arguments = _quantized_params(qsym, own)
        states = {name: params[name] for name in qsym.list_auxiliary_states()}
    return _block(qsym, data_names, {**arguments, **states}, ctx)


def _described(calib_data: Any) -> list[Any]:
    """Return the descriptions of the arrays of a batch; those after the first may be labels."""
    if calib_data is None:
        return []
    if isinstance(calib_data, DataIter):
        return list(calib_data.provide_data)  # type: ignore[attr-defined]
    if not isinstance(calib_data, Iterable):
        raise ValueError(
            "calib_data must be a DataIter, a DataLoader or another iterable of batches, not "
            f"{type(calib_data).__name__}"
        )
    first = next(iter(calib_data), None)
    if first is None:
        raise ValueError("calib_data has no batches: pass examples, or use calib_mode='none'")
    arrays = list(first) if isinstance(first, (list, tuple)) else [first]
    return [DataDesc(f"data{number}", value.shape) for number, value in enumerate(arrays)]


def _outline(network: Any, shapes: list[Any], ctx: Any) -> tuple[Symbol, list[str], dict[str, NDArray]]:
    """Return the symbol of a block, the names of its inputs, and its parameters.

    The block is called with as few arrays as it takes: those after them are labels.
    """
    network.hybridize()
    arrays = [zeros(shape, ctx=ctx) for shape in shapes]
    for count in range(1, len(arrays) + 1):
        try:
            network(*arrays[:count])
            break
        except (TypeError, ValueError) as error:
            if count == len(arrays):
                raise ValueError(
                    f"the network does not take {count} arrays of the shapes {shapes}: {error}. Pass calib_data or "
                    "data_shapes with an array for each of its inputs"
                ) from error
    inputs, output = network._get_graph(network._outline)
    data_names = [str(variable.name) for variable in inputs]
    parameters = network.collect_params()
    wanted = set(output.list_inputs()) - set(data_names)
    params = {name: parameters[name].data(ctx) for name in wanted}
    return output, data_names, params


def _block(symbol: Symbol, data_names: list[str], params: dict[str, NDArray], ctx: Any) -> SymbolBlock:
    """Return a block of a symbol with given parameters, without gradients."""
    block = SymbolBlock(symbol, [sym_module.var(name) for name in data_names])
    for name, parameter in block.collect_params().items():
        value = params[name]
        parameter.grad_req = "null"
        parameter.shape = value.shape
        parameter.dtype = value.dtype
        parameter.initialize(init="zeros", ctx=ctx)
        parameter.set_data(value)
    return block


def quantize_net(
    network: Any,
    quantized_dtype: str = "auto",
    quantize_mode: str = "full",
    exclude_layers: list[str] | None = None,
    exclude_layers_match: list[str] | None = None,
    exclude_operators: list[str] | None = None,
    calib_data: Any = None,
    data_shapes: Any = None,
    calib_mode: str | None = "none",
    num_calib_examples: int | None = None,
    ctx: Any = _CPU,
    logger: Any = None,
) -> SymbolBlock:
    """Return a quantized block of a trained HybridBlock; see :func:`quantize_net_v2`."""
    warnings.warn("WARNING: This will be deprecated after MXNet 2.0, please use quantize_net_v2.", stacklevel=2)
    return quantize_net_v2(
        *(network, quantized_dtype, quantize_mode, "tensor-wise", exclude_layers, exclude_layers_match),
        *(exclude_operators, calib_data, data_shapes, calib_mode, num_calib_examples, ctx, None, logger),
    )
