"""Checks of the arguments and results of ``mx.contrib.quantization``: errors name the layer and the way out."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...context import Context
from ...core.base.errors import nearest
from ...core.graph.operator import REGISTRY
from ...gluon import HybridBlock
from ...symbol import Symbol

__all__ = [
    "MODES",
    "check_arrays",
    "check_examples",
    "check_names",
    "check_result",
    "check_words",
    "matching_names",
    "require_plain",
]

MODES = ("none", "naive", "entropy", "customize")

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
    if calib_mode not in (None, *MODES):
        raise ValueError(f"unknown calibration mode {calib_mode} received, expected one of {', '.join(MODES)}")
    if mode not in ("full", "smart"):
        raise ValueError(f"unrecognized quantize mode: {mode}; use 'full' or 'smart'")
    for name, value in lists.items():
        if value is not None and not isinstance(value, list):
            raise ValueError(f"{name} must be a list of strings, while received type {type(value)}")
    return [value or [] for value in lists.values()]


def require_plain(granularity: str) -> None:
    """Raise if scales per channel are wanted of MXNet's operators."""
    if granularity == "channel-wise":
        raise ValueError(
            "operators of quantize_model and quantize_graph have one range per array: use quantize_granularity "
            "'tensor-wise', or quantize_model_mkldnn or quantize_net_v2 with calibration for scales per channel"
        )


def check_examples(count: int | None) -> None:
    """Raise for a number of calibration examples that leaves none."""
    if count is not None and count < 1:
        raise ValueError(f"num_calib_examples is {count}: use at least 1, or None for all examples of calib_data")


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
