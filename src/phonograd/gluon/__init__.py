"""Provide networks as trees of blocks, with parameters, losses and trainers (``mxnet.gluon``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..core.base.foreign_names import unknown_name
from . import contrib, loss, model_zoo, nn, rnn, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict, tensor_types
from .trainer import Trainer

__all__ = [
    "Block",
    "Constant",
    "DeferredInitializationError",
    "HybridBlock",
    "Parameter",
    "ParameterDict",
    "SymbolBlock",
    "Trainer",
    "contrib",
    "data",
    "loss",
    "model_zoo",
    "nn",
    "rnn",
    "tensor_types",
    "utils",
]


if TYPE_CHECKING:
    from . import data as data
else:

    def __getattr__(name: str) -> Any:
        # loaded at first use: it imports multiprocessing and readers of archives
        if name == "data":
            return importlib.import_module(f"{__name__}.data")
        for module in (nn, loss, rnn):
            if name in module.__all__:
                place = module.__name__.removeprefix("phonograd.")
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}: write {place}.{name}")
        raise unknown_name(__name__, name, __all__)
