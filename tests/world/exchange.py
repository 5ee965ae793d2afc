"""Save models to ``.params`` and ``-symbol.json`` files, read the files of the other library; print lines of JSON.

Run it with a Python that has GluonCV, GluonNLP and ``mxnet``, real or not: once with each library, and again with the
first one. The files are in the directory ``PHONOGRAD_WORLD_FILES``. A model is compared when the other library has saved
it: all parameters must be equal bit by bit, and so must the outputs of the loaded model, but for rounding.
"""

import json
import os
import sys
from pathlib import Path

import gluonnlp_models
import numpy as np
from gluoncv_models import flat, inputs, options_of, run, set_initializers

MODELS = [
    "resnet18_v1",
    "resnet50_v1d",
    "mobilenetv2_0.5",
    "mobilenetv3_small",
    "squeezenet1.1",
    "densenet121",
    "cifar_resnet20_v1",
    "hrnet_w18_small_v1_c",
    "ssd_512_mobilenet1.0_voc",
    "yolo3_mobilenet1.0_voc",
    "center_net_resnet18_v1b_voc",
    "fcn_resnet50_voc",
    "simple_pose_resnet18_v1b",
    "faster_rcnn_resnet50_v1b_voc",
]
#: models that are exported as symbols, too
SYMBOLS = ["resnet18_v1", "mobilenetv3_small", "ssd_512_mobilenet1.0_voc", "simple_pose_resnet18_v1b"]
#: rounding decides about the order of boxes with almost equal scores
DETECTORS = ("ssd", "yolo3", "center_net", "faster_rcnn")
TEXT = ["awd_lstm_lm_600", "distilbert_6_768_12", "bert_12_768_12", "transformer"]

FILES = Path(os.environ["PHONOGRAD_WORLD_FILES"])


def library():
    """Return the name of the library that runs."""
    import mxnet

    return "here" if "phonograd" in mxnet.__file__ else "mxnet"


def build(name):
    """Return a network without weights and its arguments."""
    if name in TEXT:
        return gluonnlp_models.build(name)
    from gluoncv.model_zoo import get_model

    return get_model(name, **options_of(name)), lambda: inputs(name)


def compute(net, arguments):
    """Return the outputs of a network as NumPy arrays."""
    return [each.asnumpy() for each in flat(net(*arguments)) if each is not None]


def save(name):
    """Save the files of a model, and its outputs."""
    net, arguments = build(name)
    set_initializers(net)
    net.initialize(force_reinit=True)
    outputs = compute(net, arguments())
    path = FILES / library()
    path.mkdir(parents=True, exist_ok=True)
    net.save_parameters(str(path / f"{name}.params"))
    if name in SYMBOLS:
        net.hybridize()
        net(*arguments())
        net.export(str(path / name))
    np.savez(path / f"{name}.npz", *outputs)


def demand_equal(name, found, wanted):
    """Raise an error if outputs differ by more than rounding."""
    for one, two in zip(found, wanted, strict=True):
        if name.startswith(DETECTORS):
            one, two = (np.sort(part, axis=1) for part in (one, two))
        difference = float(np.abs(one.astype("float64") - two).max())
        if one.shape != two.shape or difference > 1e-3 * max(float(np.abs(two).max()), 1e-3):
            raise ValueError(f"{name}: outputs of shape {one.shape} differ by {difference}")


def attempt(name):
    """Read the files that the other library saved, and compare."""
    import mxnet as mx
    from mxnet import gluon

    other = FILES / ("mxnet" if library() == "here" else "here")
    with np.load(other / f"{name}.npz") as stored:
        wanted = [stored[key] for key in stored.files]
    net, arguments = build(name)
    net.load_parameters(str(other / f"{name}.params"))
    demand_equal(name, compute(net, arguments()), wanted)
    mine, theirs = (mx.nd.load(str(FILES / kind / f"{name}.params")) for kind in ("here", "mxnet"))
    if set(mine) != set(theirs) or not all(np.array_equal(mine[key].asnumpy(), theirs[key].asnumpy()) for key in mine):
        raise ValueError(f"{name}: the files have other parameters")
    if name in SYMBOLS:
        files = [str(other / f"{name}{ending}") for ending in ("-symbol.json", "-0000.params")]
        demand_equal(name, compute(gluon.SymbolBlock.imports(files[0], ["data"], files[1]), arguments()), wanted)
    return {}


def names():
    """Return the models that the other library has saved, after saving all that are not there yet."""
    both = [*MODELS, *TEXT]
    for name in both:
        if not (FILES / library() / f"{name}.npz").exists():
            try:
                save(name)
            except Exception as error:
                print(json.dumps({"saving": name, "error": repr(error)[:300]}), file=sys.stderr)
    return [name for name in both if all((FILES / kind / f"{name}.npz").exists() for kind in ("here", "mxnet"))]


if __name__ == "__main__":
    run(attempt, names)
