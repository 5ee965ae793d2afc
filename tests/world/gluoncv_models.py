"""Build every model of GluonCV and compute its outputs for one random input; print a line of JSON for each.

Run it with a Python that has GluonCV and ``mxnet``, real or not. Arguments are names of models; without any, all models
are tried, but those after ``--skip``. int8 models are skipped: they need MXNet's quantized operators.
"""

import inspect
import json
import signal
import sys
import time
import warnings

import numpy as np

SECONDS_EACH = 300

#: the height and width of inputs by a part of the model's name, the first match counts
SIZES = {
    "cifar": (32, 32),
    "inceptionv3": (299, 299),
    "googlenet_": (224, 224),
    "xception": (299, 299),
    "ssd_300": (300, 300),
    "ssd_512": (512, 512),
    "yolo3": (224, 224),
    "center_net": (256, 256),
    "rcnn": (240, 320),
    "fcn": (480, 480),
    "psp": (480, 480),
    "deeplab": (480, 480),
    "danet": (480, 480),
    "icnet": (480, 480),
    "fastscnn": (1024, 1024),
    "pose": (256, 192),
    "mobile_pose": (256, 192),
    "monodepth": (192, 640),
}
#: networks of videos have a number of frames after the channels
VIDEO = ("i3d", "slowfast", "r2plus1d", "p3d", "c3d", "r3d")


class TooSlow(Exception):
    """Report that a model took more than its time."""


def inputs(name):
    """Return the arrays that a model takes."""
    import mxnet as mx

    random = np.random.RandomState(0)
    if name.startswith("siamrpn"):
        return [mx.nd.array(random.rand(1, 3, size, size)) for size in (127, 287)]
    height, width = next((size for part, size in SIZES.items() if part in name), (224, 224))
    if name.startswith(VIDEO):
        frames, size = (16, 112) if name.startswith(("c3d", "r2plus1d")) else (32, 224)
        if name.startswith("slowfast"):
            frames = 36 if "4x16" in name else 64 if "16x8" in name else 40
        return [mx.nd.array(random.rand(1, 3, frames, size, size))]
    return [mx.nd.array(random.rand(1, 3, height, width))]


def shapes(outputs):
    """Return the shapes of nested outputs."""
    if isinstance(outputs, (list, tuple)):
        return [shapes(each) for each in outputs]
    return list(getattr(outputs, "shape", ()))


def options_of(name):
    """Return arguments with which a model is built without files of weights."""
    from gluoncv.model_zoo import model_zoo

    options = {"pretrained": False}
    function = model_zoo._models[name]
    # many functions pass their keywords on, so their text tells which ones they know
    text = inspect.getsource(function) + inspect.getsource(sys.modules[function.__module__])
    if "pretrained_base" in text:
        options["pretrained_base"] = False
    if "classes" in inspect.signature(function).parameters and "custom" in name:
        options["classes"] = ["one", "two"]
    if name.startswith("custom_"):
        options["classes"] = ["one", "two"]
    if "transfer" in inspect.signature(function).parameters:
        options["transfer"] = None
    return options


def compute(name):
    """Build a model, compute its outputs and return their shapes."""
    import mxnet as mx
    from gluoncv.model_zoo import get_model

    net = get_model(name, **options_of(name))
    net.initialize()
    outputs = net(*inputs(name))
    mx.nd.waitall()
    return shapes(outputs)


def stop(number, frame):
    """Raise in the main program after the time of a model."""
    raise TooSlow(f"more than {SECONDS_EACH} seconds")


def main():
    """Print one line of JSON for each model."""
    warnings.simplefilter("ignore")
    from gluoncv.model_zoo import get_model_list

    signal.signal(signal.SIGALRM, stop)
    chosen, skipped = sys.argv[1:], []
    if "--skip" in chosen:
        place = chosen.index("--skip")
        chosen, skipped = chosen[:place], chosen[place + 1 :]
    for name in chosen or sorted(get_model_list()):
        if name.endswith("_int8") or name in skipped:
            continue
        began = time.time()
        signal.alarm(SECONDS_EACH)
        try:
            result = {"shapes": compute(name)}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        signal.alarm(0)
        print(json.dumps({"name": name, "seconds": round(time.time() - began, 1), **result}), flush=True)


if __name__ == "__main__":
    main()
