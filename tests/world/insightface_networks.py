"""Build the networks and losses of InsightFace's arcface_mxnet, compute, train for one step; print lines of JSON for each.

Run it with a Python that has ``mxnet``, real or not; arguments are those of ``gluoncv_models.py``. The directory
``PHONOGRAD_WORLD_SOURCE`` has InsightFace's repository. Each name is a network and a loss of its configuration, as
``train.py`` takes them; a Module binds the symbol. Weights come from NumPy.
"""

import copy
import importlib
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import mxnet as mx
import numpy as np
from gluoncv_models import run, summary

SOURCE = Path(os.environ["PHONOGRAD_WORLD_SOURCE"]) / "recognition" / "arcface_mxnet"
CLASSES, BATCH = 10, 3
#: the network with which all losses are tried
SMALL = "y1"


def training():
    """Return the module of InsightFace's training script, with its sample configuration."""
    if str(SOURCE) not in sys.path:
        sys.path.insert(0, str(SOURCE))
        # the scripts read config.py, which is a copy of the sample
        sys.modules["config"] = importlib.import_module("sample_config")
    return importlib.import_module("train")


class FromNumPy(mx.init.Initializer):
    """Draw weights with NumPy."""

    def _init_weight(self, name, array):
        values = np.random.RandomState(sum(array.shape)).standard_normal(array.shape)
        array[:] = values / np.sqrt(np.prod(array.shape[1:]))

    def _init_default(self, name, array):
        array[:] = 0.25


def attempt(name):
    """Build a network with a loss, compute its outputs, take one step and compute again."""
    train = training()
    configuration = sys.modules["config"]
    if not hasattr(configuration, "original"):
        configuration.original = copy.deepcopy(configuration.config)
    for key in list(configuration.config):
        configuration.config.pop(key)
    configuration.config.update(copy.deepcopy(configuration.original))
    network, loss = name.split()
    configuration.generate_config(network, "emore", loss)
    configuration.config.num_classes = CLASSES
    symbol = train.get_symbol(SimpleNamespace(per_batch_size=BATCH))
    module = mx.mod.Module(symbol, context=mx.cpu())
    size = tuple(configuration.config.image_shape[:2])
    module.bind([("data", (BATCH, 3, *size))], [("softmax_label", (BATCH,))])
    module.init_params(FromNumPy())
    weights, states = module.get_params()
    if "fc7_weight" in weights:
        # its variable asks for random numbers of the library
        FromNumPy()._init_weight("fc7_weight", weights["fc7_weight"])
        module.set_params(weights, states)
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 1e-3, "momentum": 0.9, "wd": 5e-4})
    random = np.random.RandomState(0)
    batch = mx.io.DataBatch(
        [mx.nd.array(random.randint(0, 255, (BATCH, 3, *size)))], [mx.nd.array(np.arange(BATCH) % CLASSES)]
    )
    module.forward(batch, is_train=False)
    outputs = summary(module.get_outputs())
    module.forward_backward(batch)
    module.update()
    module.forward(batch, is_train=False)
    mx.nd.waitall()
    return {"outputs": outputs}


def names():
    """Return all losses with a small network, and all networks with the loss of the paper, large ones last."""
    training()
    configuration = sys.modules["config"]
    networks = [f"{network} arcface" for network in reversed(list(configuration.network))]
    return [*[f"{SMALL} {loss}" for loss in configuration.loss if loss != "arcface"], *networks]


if __name__ == "__main__":
    run(attempt, names)
