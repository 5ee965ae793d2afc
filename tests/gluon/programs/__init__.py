"""Programs that are run with MXNet 1.9.1 (by ``recorded/make.py``) and with this library (by the tests).

Each function takes the module ``mx`` and returns a dictionary that JSON can hold. Weights and inputs are drawn by
NumPy, so both libraries compute with the same numbers.
"""

from .forward_layers import _layers, layer, layer_names
from .learning import OPTIMIZERS, initializers, losses, metrics, optimizers, schedulers
from .naming import names
from .numbers import draw, fill, values
from .recurrent_networks import _recurrent, recurrent, recurrent_names
from .whole_trainings import (
    STATES,
    TRAININGS,
    _picture_net,
    save_files,
    saved_net,
    saved_trainer,
    train,
    training,
    trainings,
)

__all__ = [
    "OPTIMIZERS",
    "STATES",
    "TRAININGS",
    "_layers",
    "_picture_net",
    "_recurrent",
    "draw",
    "fill",
    "initializers",
    "layer",
    "layer_names",
    "losses",
    "metrics",
    "names",
    "optimizers",
    "recurrent",
    "recurrent_names",
    "save_files",
    "saved_net",
    "saved_trainer",
    "schedulers",
    "train",
    "training",
    "trainings",
    "values",
]
