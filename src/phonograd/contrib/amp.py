"""Mixed precision (``mxnet.contrib.amp``): scripts that use it run in single precision, with a warning.

On the CPU, float16 saves memory but no time. Losses then need no scaling, so the other functions do nothing.

>>> from phonograd import autograd, gluon, nd
>>> from phonograd.contrib import amp
>>> net = gluon.nn.Dense(1, in_units=1)
>>> net.initialize("ones")
>>> trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
>>> amp.init_trainer(trainer)
>>> with autograd.record():
...     with amp.scale_loss(net(nd.ones((1, 1))), trainer) as loss:
...         autograd.backward(loss)
>>> trainer.step(1)
>>> net.weight.data().asnumpy().tolist()
[[0.5]]
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

from ..core.base.errors import MXNetError
from ..gluon import Trainer
from ..optimizer import Optimizer

__all__ = ["convert_hybrid_block", "convert_model", "convert_symbol", "init", "init_trainer", "scale_loss", "unscale"]

#: whether float16 is in use; other libraries read it
_amp_initialized = False

#: MXNet's package has a module of the same name
amp = sys.modules[__name__]


def init(
    target_dtype: str = "float16",
    target_precision_ops: Any = None,
    conditional_fp32_ops: Any = None,
    fp32_ops: Any = None,
    layout_optimization: bool = False,
) -> None:
    """Warn that networks are trained in float32."""
    warnings.warn(
        f"mixed precision is not available: this library computes on the CPU, where {target_dtype} saves memory but no "
        "time. Networks are trained in float32, and losses are not scaled. To store a network in half precision, call "
        "net.cast('float16').",
        stacklevel=2,
    )


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Do nothing: a trainer needs no preparation."""
    if not isinstance(optimizer_or_trainer, (Trainer, Optimizer)):
        raise TypeError(
            f"optimizer_or_trainer should be a Gluon Trainer or an optimizer, instead is {type(optimizer_or_trainer)}"
        )


@contextlib.contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """Yield the loss, or the list of losses, unchanged."""
    yield loss


def unscale(optimizer_or_trainer: Any) -> None:
    """Do nothing: gradients have no scale."""


def _refuse(*arguments: Any, **keywords: Any) -> NoReturn:
    """Raise MXNetError with an alternative."""
    raise MXNetError(
        "networks cannot be converted to mixed precision here: use the network unchanged, or call "
        "net.cast('float16') to store it in half precision"
    )


convert_model = convert_hybrid_block = convert_symbol = _refuse
