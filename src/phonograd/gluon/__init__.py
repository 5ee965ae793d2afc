"""Provide networks as trees of blocks, with parameters, losses and trainers (``mxnet.gluon``)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..core.base.foreign_names import unknown_name
from . import loss, nn, rnn, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict, tensor_types

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
    from . import contrib as contrib
    from . import data as data
    from . import model_zoo as model_zoo
    from . import trainer as trainer
    from .trainer import Trainer as Trainer
else:
    #: loaded at first use, because predictions need none of them: readers of archives, processes, optimizers
    _LATER = ("contrib", "data", "model_zoo", "trainer")

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return importlib.import_module(f"{__name__}.{name}")
        if name == "Trainer":
            value = globals()[name] = importlib.import_module(f"{__name__}.trainer").Trainer
            return value
        for module in (nn, loss, rnn):
            if name in module.__all__:
                place = module.__name__.removeprefix("phonograd.")
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}: write {place}.{name}")
        raise unknown_name(__name__, name, __all__)
