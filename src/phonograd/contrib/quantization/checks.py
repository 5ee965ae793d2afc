"""Checks of the arguments and results of ``mx.contrib.quantization``: errors name the layer and the way out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ...context import Context
from ...core.base.dtypes import name_of as dtype_name
from ...core.base.errors import nearest
from ...core.graph.operator import REGISTRY
from ...gluon import HybridBlock
from ...symbol import Symbol

__all__ = [
    "check_arrays",
    "check_batch",
    "check_collector",
    "check_data_names",
    "check_examples",
    "check_names",
    "check_parameter",
    "check_ranges",
    "check_result",
    "check_words",
    "matching_names",
]

_MODES = ("none", "naive", "entropy", "customize")

#: layers that a message names
_NAMED = 5


def check_words(
    ctx: Any, quantized_dtype: str, granularity: str, calib_mode: str | None, mode: str, lists: Mapping[str, Any]
) -> list[list[str]]:
    """Raise for unknown words, and return the lists of names."""
    if not isinstance(ctx, Context):
        raise ValueError(f"currently only supports single ctx, while received {ctx}")
    if quantized_dtype not in ("int8", "uint8", "auto"):
        raise ValueError(f"unknown quantized_dtype {quantized_dtype} received, expected `int8`, `uint8` or `auto`")
    if granularity not in ("tensor-wise", "channel-wise"):
        raise ValueError(
            f"unknown quantize_granularity {granularity} received, expected `tensor-wise` or `channel-wise`."
        )
    if calib_mode not in (None, *_MODES):
        raise ValueError(f"unknown calibration mode {calib_mode} received, expected one of {', '.join(_MODES)}")
    if mode not in ("full", "smart"):
        raise ValueError(f"unrecognized quantize mode: {mode}; use 'full' or 'smart'")
    if calib_mode in (None, "none") and quantized_dtype == "uint8":
        warnings.warn(
            "uint8 has no negative numbers: without calibration, negative outputs become zeros. Use quantized_dtype "
            "'auto' or 'int8', or calibrate",
            stacklevel=3,
        )
    for name, value in lists.items():
        if value is not None and not isinstance(value, list):
            raise ValueError(f"{name} must be a list of strings, while received type {type(value)}")
    return [value or [] for value in lists.values()]


def check_examples(count: int | None) -> None:
    """Raise for a number of calibration examples that leaves none."""
    if count is not None and count < 1:
        raise ValueError(f"num_calib_examples is {count}: use at least 1, or None for all examples of calib_data")


def check_data_names(calib_data: Any, data_names: Iterable[str]) -> None:
    """Raise if an iterator of calibration data names its arrays otherwise than the network."""
    given = [str(description[0]) for description in getattr(calib_data, "provide_data", None) or ()]
    if given and set(given) != set(data_names):
        raise ValueError(
            f"calib_data provides {given}, but data_names is {list(data_names)}: name the arrays of the iterator, or "
            "pass data_names, so that both are the inputs of the network"
        )


def check_batch(names: list[str], arrays: list[Any]) -> None:
    """Raise for a batch of calibration data that lacks an input of the network."""
    if len(arrays) < len(names):
        raise ValueError(
            f"a batch of calib_data has {len(arrays)} arrays, but the network has the inputs {names}: pass a list with "
            "an array for each of them"
        )


def check_arrays(network: Any) -> None:
    """Raise for a block that has no symbol, and for parameters that are not float32."""
    if not isinstance(network, HybridBlock):
        raise ValueError(
            f"only a HybridBlock can be quantized, not {type(network).__name__}: derive it from gluon.HybridBlock, or "
            "quantize its hybrid parts one by one"
        )
    for name, parameter in network.collect_params().items():
        if str(parameter.dtype) in ("float16", "bfloat16", "float64"):
            raise ValueError(
                f"the parameter {name} is {parameter.dtype}, but only networks of float32 can be quantized: call "
                "cast('float32') first"
            )


def check_names(symbol: Symbol, names: Iterable[str], operators: Iterable[str]) -> None:
    """Raise for excluded layers and operators that do not exist."""
    known = sorted({entry.name for entry in symbol._entries() if not entry.is_argument})
    inputs = set(symbol.list_inputs())
    unknown = [name for name in names if name not in known and name not in inputs]
    if unknown:
        raise ValueError(
            f"excluded layers {unknown} are not in the network{nearest(unknown[0], known)}; its layers are {known[:50]}"
        )
    for operator in operators:
        if operator not in REGISTRY:
            raise ValueError(f"the excluded operator {operator} does not exist{nearest(operator, list(REGISTRY))}")


def check_collector(collector: Any, calib_mode: str | None) -> None:
    """Raise for a collector that cannot have the results of a calibration mode."""
    if isinstance(collector, type):
        raise ValueError(f"pass a collector, an instance of {collector.__name__}, not the class")
    if calib_mode == "customize" and collector is None:
        raise ValueError("calib_mode='customize' needs a LayerOutputCollector with collect(name, arr) and min_max_dict")
    result = "hist_dict" if calib_mode == "entropy" else "min_max_dict"
    if not isinstance(getattr(collector, result, None), dict):
        raise ValueError(
            f"calib_mode={calib_mode!r} needs a collector with a dictionary {result}, which {type(collector).__name__} "
            "lacks: pass the collector that quantize_graph returned for this mode"
        )


def check_parameter(name: str, value: Any) -> None:
    """Raise for a parameter that cannot be quantized."""
    if value.dtype != np.float32:
        raise ValueError(
            f"the parameter {name} is {dtype_name(value.dtype)}, but only parameters of float32 can be quantized: "
            "convert it with astype('float32'), or exclude its layer"
        )
    if not np.all(np.isfinite(value.asnumpy())):
        raise ValueError(f"the parameter {name} has infinite numbers or NaN: train it again, or exclude its layer")


def check_ranges(wanted: list[str], found: Mapping[str, tuple[float, float]], needs_all: bool) -> None:
    """Raise if a collector lacks ranges that a network needs, or has one that is none; warn if some may be missing."""
    missing = [name for name in wanted if name not in found]
    if missing and (needs_all or len(missing) == len(wanted)):
        raise ValueError(
            f"the collector has no ranges of the outputs {missing[:50]}, it has {list(found)[:50]}"
            f"{nearest(missing[0], list(found))}: collect the outputs of the network that is quantized, under the "
            "names that its monitor shows, or exclude their layers"
        )
    for name in wanted:
        if name in found and not -math.inf < found[name][0] <= found[name][1] < math.inf:
            raise ValueError(
                f"the range of the output {name!r} is {found[name]}: it must be two finite numbers, the least and the "
                "greatest; check the calibration data, or exclude the layer"
            )
    if missing:
        warnings.warn(
            f"the collector has no ranges of the outputs {missing[:50]}: they are found at each call. Collect them, or "
            "exclude their layers",
            stacklevel=3,
        )


def matching_names(symbol: Symbol, parts: Iterable[str]) -> list[str]:
    """Return the layers whose names contain one of some parts; each part must be in a name."""
    names = [entry.name for entry in symbol._entries() if not entry.is_argument]
    found = []
    for part in parts:
        matches = [name for name in names if part in name]
        if not matches:
            raise ValueError(
                f"exclude_layers_match has {part!r}, but no layer has it in its name; they are {names[:50]}"
            )
        found += matches
    return found


def check_result(symbol: Symbol, done: Collection[str], left: Mapping[str, str], params: Collection[str]) -> None:
    """Raise if no layer was quantized; warn of layers with parameters that stay real and are not excluded."""
    layers = _layers(symbol, params)
    kept = {name: reason for name, reason in left.items() if name in layers}
    if not done:
        raise ValueError(
            f"no layer of the network can be quantized{': ' if kept else ''}{_listed(kept)}; quantization needs "
            "Convolution layers with channels first or FullyConnected layers that are not excluded. Use the network in "
            "float32, or contrib.amp for bfloat16"
        )
    kept = {name: reason for name, reason in kept.items() if reason != EXCLUDED}
    if kept:
        warnings.warn(
            f"layers stay in float32: {_listed(kept)}. Exclude them to say that this is intended", stacklevel=4
        )


def _layers(symbol: Symbol, params: Collection[str]) -> set[str]:
    """Return the names of the entries that combine data with parameters, or with values computed from parameters."""
    constant = set(params)
    found = set()
    for entry in symbol._entries():
        sources = [source.name in constant for source, _ in entry.inputs]
        if sources and all(sources):
            constant.add(entry.name)
        elif any(sources):
            found.add(entry.name)
    return found


#: the reason of layers that the user keeps real
EXCLUDED = "it is excluded"


def _listed(layers: Mapping[str, str]) -> str:
    shown = [f"{name} ({reason})" for name, reason in list(layers.items())[:_NAMED]]
    return ", ".join(shown) + (f" and {len(layers) - _NAMED} more" if len(layers) > _NAMED else "")
