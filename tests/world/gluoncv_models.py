"""Build every model of GluonCV, compute its outputs, train it for one step; print lines of JSON for each.

Run it with a Python that has GluonCV and ``mxnet``, real or not. Arguments are names of models; without any, all models
are tried, but those after ``--skip``. int8 models are skipped: they need MXNet's quantized operators. Weights come from
NumPy, so that the printed means and deviations of the outputs can be compared between libraries, and so can the loss of
models without random parts. Inputs are as small as the models allow.
"""

import inspect
import itertools
import json
import re
import signal
import sys
import time
import warnings

import numpy as np

SECONDS_EACH = 900

#: the height and width of inputs by a part of the model's name, the first match counts
SIZES = {
    "cifar": (32, 32),
    "i3d_inceptionv3": (224, 224),
    "inceptionv3": (299, 299),
    "inceptionv1": (224, 224),
    "googlenet": (224, 224),
    "densenet": (224, 224),
    "squeezenet": (224, 224),
    "residualattentionnet": (224, 224),
    "nasnet": (224, 224),
    "ssd_300": (300, 300),
    "ssd_512": (512, 512),
    "yolo3": (96, 96),
    "center_net": (128, 128),
    "mobile_pose": (256, 192),
    "pose": (256, 192),
    "rcnn": (240, 320),
    "resnest": (224, 224),
    "deeplab": (96, 96),
    "fcn": (96, 96),
    "psp": (96, 96),
    "danet": (96, 96),
    "icnet": (192, 192),
    "fastscnn": (192, 192),
    "monodepth": (64, 128),
    "w48_s": (480, 480),
    "small_v1_s": (480, 480),
    "small_v2_s": (480, 480),
    "hrnet": (128, 128),
}
#: the size of all other models
SIZE = (96, 96)
SEGMENTATION = ("fcn_", "psp_", "deeplab_", "danet_", "icnet_", "fastscnn_")
#: how many regions of interest detectors of two stages look at
REGIONS = 32
#: networks of videos have a number of frames after the channels
VIDEO = ("i3d", "slowfast", "r2plus1d", "p3d", "c3d", "r3d")
#: parts of the names of models that take long: they are tried last
SLOW = ("hrnet_w48_s", "rcnn", "deeplab", "resnest", "452", "nasnet", "wideresnet", "slowfast", "i3d", "152", "101")


class TooSlow(Exception):
    """Report that a model took more than its time."""


def size_of(name):
    """Return the height and width of the images for a model."""
    return next((size for part, size in SIZES.items() if part in name), SIZE)


def inputs(name):
    """Return the arrays that a model takes."""
    import mxnet as mx

    random = np.random.RandomState(0)
    if name.startswith("siamrpn"):
        return [mx.nd.array(random.rand(1, 3, size, size)) for size in (127, 287)]
    height, width = size_of(name)
    if name.startswith(VIDEO):
        frames, size = (16, 112) if name.startswith(("c3d", "r2plus1d")) else (32, 112)
        if name.startswith("slowfast"):
            frames = 36 if "4x16" in name else 80 if "16x8" in name else 40
        return [mx.nd.array(random.rand(1, 3, frames, size, size))]
    channels = 6 if "posenet" in name else 3
    return [mx.nd.array(random.rand(1, channels, height, width))]


def targets(name, net):
    """Return the arrays that a model takes for training, after its inputs."""
    import mxnet as mx

    if "rcnn" in name:
        boxes = mx.nd.array([[[10, 20, 90, 100], [60, 30, 200, 150]]])
        return [boxes, mx.nd.array([[[0], [1]]])]
    if name.startswith("yolo3"):
        from gluoncv.data.transforms.presets.yolo import YOLO3DefaultTrainTransform

        height, width = size_of(name)
        np.random.seed(0)
        image = mx.nd.array(np.random.randint(0, 255, (height, width, 3)), dtype="uint8")
        label = np.array([[10.0, 20.0, 60.0, 80.0, 0.0]])
        _, *found = YOLO3DefaultTrainTransform(width, height, net)(image, label)
        boxes = mx.nd.array(found.pop()).expand_dims(0)
        return [boxes, *[mx.nd.array(each).expand_dims(0) for each in found]]
    return []


def flat(outputs):
    """Return the arrays in nested outputs."""
    if isinstance(outputs, dict):
        outputs = [outputs[key] for key in sorted(outputs, key=str)]
    if isinstance(outputs, (list, tuple)):
        return [array for each in outputs for array in flat(each)]
    return [outputs]


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
    if name.startswith(SEGMENTATION):
        options.update(height=size_of(name)[0], width=size_of(name)[1])
    return options


def set_initializers(net):
    """Give the parameters of a network initial values that do not depend on the library."""
    import mxnet as mx

    class FromNumPy(mx.init.Initializer):
        """Draw weights with NumPy; layers of equal shapes get equal weights, in whatever order they are initialized."""

        def _init_weight(self, name, array):
            random = np.random.RandomState(sum(array.shape))
            values = random.standard_normal(array.shape).astype("float32")
            array[:] = values / np.float32(np.sqrt(np.prod(array.shape[1:])))

    fixed = (str, mx.init.Zero, mx.init.One, mx.init.Constant)
    for name, parameter in net.collect_params().items():
        if name.endswith("weight"):
            parameter.init = FromNumPy()
        elif not isinstance(parameter, mx.gluon.Constant) and not isinstance(parameter.init, fixed):
            # parameters of symbols would get random values, negative variances among them
            parameter.init = mx.init.One() if name.endswith(("gamma", "var")) else mx.init.Zero()


def mend_regions():
    """Let ROIAlign give zeros for regions of no image (-1): MXNet leaves arbitrary memory there on CPUs.

    Detectors with feature pyramids add up what the levels of the pyramid give for such regions.
    """
    import mxnet as mx

    align = mx.nd.contrib.ROIAlign

    def mended(data, rois, *arguments, **options):
        known = (rois[:, :1] >= 0).reshape((-1, 1, 1, 1))
        whole = mx.nd.zeros((1, 5), dtype=rois.dtype)
        pooled = align(
            data, mx.nd.where(rois[:, 0] >= 0, rois, mx.nd.broadcast_like(whole, rois)), *arguments, **options
        )
        return mx.nd.broadcast_mul(pooled, known)

    mx.nd.contrib.ROIAlign = mended


def number(value):
    """Return a number with six digits, and None for NaN."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def summary(outputs):
    """Return the shape, the mean and the deviation of every output."""
    arrays = [each.asnumpy().astype("float64") for each in flat(outputs)]
    return [[list(each.shape), number(each.mean()), number(each.std())] for each in arrays]


def train(name, net, data):
    """Take one step of gradient descent and return the loss and whether it is determined by the weights."""
    from mxnet import autograd, gluon

    arguments = [*data, *targets(name, net)]
    with autograd.record():
        outputs = [each for each in flat(net(*arguments)) if each.dtype == np.float32]
        loss = sum([each.square().mean() for each in outputs])
    loss.backward()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-6})
    trainer.step(1, ignore_stale_grad=True)
    drops = []
    net.apply(lambda block: drops.append(getattr(block, "_rate", 0) or getattr(block, "drop_prob", 0)))
    # detectors of two stages train with a random part of their regions
    return number(loss.asscalar()), not any(drops) and "rcnn" not in name


def attempt(name):
    """Build a model, compute its outputs, train it and return the results."""
    import mxnet as mx
    from gluoncv.model_zoo import get_model

    net = get_model(name, **options_of(name))
    set_initializers(net)
    # parts of some models are initialized when they are built
    net.initialize(force_reinit=True)
    if "rcnn" in name:
        # 1,000 regions take minutes
        net._rpn_test_post_nms = net.rpn._test_post_nms = net._rcnn_max_dets = REGIONS
    data = inputs(name)
    outputs = summary(net(*data))
    loss, determined = train(name, net, data)
    mx.nd.waitall()
    return {"outputs": outputs, "loss": loss if determined else None}


def ordered(names):
    """Return the names of models, with cheap ones of all families first."""
    families = {}
    for name in sorted(names, key=lambda name: (sum([part in name for part in SLOW]), name)):
        families.setdefault(re.match(r"[a-z]+", name)[0], []).append(name)
    return [name for row in itertools.zip_longest(*families.values()) for name in row if name is not None]


def stop(number, frame):
    """Raise in the main program after the time of a model."""
    raise TooSlow(f"more than {SECONDS_EACH} seconds")


def run(attempt, list_names):
    """Print one line of JSON before each model, and one after it."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    chosen, skipped = sys.argv[1:], []
    if "--skip" in chosen:
        place = chosen.index("--skip")
        chosen, skipped = chosen[:place], chosen[place + 1 :]
    for name in chosen or list_names():
        if name in skipped:
            continue
        print(json.dumps({"begin": name}), flush=True)
        began = time.time()
        signal.alarm(SECONDS_EACH)
        try:
            result = attempt(name)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        signal.alarm(0)
        print(json.dumps({"name": name, "seconds": round(time.time() - began, 1), **result}), flush=True)


def names():
    """Return the names of all models in the order in which they are tried."""
    from gluoncv.model_zoo import get_model_list

    return [name for name in ordered(get_model_list()) if not name.endswith("_int8")]


if __name__ == "__main__":
    mend_regions()
    run(attempt, names)
