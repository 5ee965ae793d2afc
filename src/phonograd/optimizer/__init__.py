"""Provide mx.optimizer: rules that update weights by gradients.

:func:`create` makes an :class:`Optimizer` by name (``create('sgd', learning_rate=0.1)``). It updates one weight at a
time; an :class:`Updater` keeps the state of each weight. Updates are operators on arrays, so they are computed
together with all other pending operators. A new learning rate needs no new compilation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.base.foreign_names import unknown_name
from ..ndarray import abs as NDabs  # noqa: N812 - MXNet's name for it
from . import contrib
from .adaptive import FTML, AdaDelta, AdaGrad, Adam, Adamax, Ftrl, Nadam, RMSProp
from .descent import DCASGD, NAG, SGD, SGLD, Signum, ccSGD
from .large_batch import LAMB, LARS, LBSGD
from .optimizer import Optimizer, Test, create, register
from .updater import Updater, get_updater

__all__ = [
    "DCASGD",
    "FTML",
    "LAMB",
    "LARS",
    "LBSGD",
    "NAG",
    "SGD",
    "SGLD",
    "AdaDelta",
    "AdaGrad",
    "Adam",
    "Adamax",
    "Ftrl",
    "NDabs",
    "Nadam",
    "Optimizer",
    "RMSProp",
    "Signum",
    "Test",
    "Updater",
    "ccSGD",
    "contrib",
    "create",
    "get_updater",
    "register",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise unknown_name(__name__, name, __all__)
