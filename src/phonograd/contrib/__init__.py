"""Experimental parts of MXNet's API (``mxnet.contrib``); each module is loaded at first use."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["amp", "autograd", "io", "onnx", "quantization", "safetensors", "svrg_optimization", "tensorboard", "text"]

_ELSEWHERE = {
    "nd": "ndarray.contrib",
    "ndarray": "ndarray.contrib",
    "quant": "contrib.quantization",
    "sym": "symbol.contrib",
    "symbol": "symbol.contrib",
}


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ELSEWHERE:
        library = __name__.rpartition(".")[0]
        try:
            return importlib.import_module(f"{library}.{_ELSEWHERE[name]}")
        except ModuleNotFoundError as error:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {error}") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
