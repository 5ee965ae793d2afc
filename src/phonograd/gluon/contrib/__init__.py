"""Provide the blocks and tools of ``mxnet.gluon.contrib``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ...core.base.foreign_names import unknown_name
from . import cnn, nn, rnn

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]


if TYPE_CHECKING:
    from . import data as data
    from . import estimator as estimator
else:

    def __getattr__(name: str) -> Any:
        # loaded at first use: networks need neither readers of archives nor optimizers
        if name in ("data", "estimator"):
            return importlib.import_module(f"{__name__}.{name}")
        raise unknown_name(__name__, name, __all__)
