"""mx.optimizer: how weights follow from gradients.

An :class:`Optimizer` is made by name (``create('sgd', learning_rate=0.1)``) and updates one weight at a time; an
:class:`Updater` keeps what it remembers of each. Updates are written with operators of arrays, so they are computed
together with whatever else is pending; learning rates are numbers that may change without anything being compiled
again.
"""

from __future__ import annotations

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
