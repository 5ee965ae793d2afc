"""Programs over the model zoo that run under MXNet and phonograd alike: names and shapes, and what networks compute."""

import hashlib

import numpy as np

#: the smallest images, by the beginning of the name, where 32 pixels are not enough
SIZES = {"alexnet": 64, "densenet": 224, "inception": 299, "squeezenet": 224}


def names():
    """Return the names of all networks."""
    shares = ("0.25", "0.5", "0.75", "1.0")
    return [
        "alexnet",
        *[f"densenet{layers}" for layers in (121, 161, 169, 201)],
        "inceptionv3",
        *[f"{kind}{share}" for kind in ("mobilenet", "mobilenetv2_") for share in shares],
        *[f"resnet{layers}_v{version}" for layers in (18, 34, 50, 101, 152) for version in (1, 2)],
        "squeezenet1.0",
        "squeezenet1.1",
        *[f"vgg{layers}{kind}" for layers in (11, 13, 16, 19) for kind in ("", "_bn")],
    ]


def image(mx, name):
    """Return one image of the size that a network needs."""
    size = next((size for start, size in SIZES.items() if name.startswith(start)), 32)
    return mx.nd.array(np.random.RandomState(5).uniform(-1, 1, (1, 3, size, size)).astype("float32"))


def network(mx, name):
    """Return a network with ten classes and its shapes known, and an image for it."""
    net = mx.gluon.model_zoo.vision.get_model(name, classes=10, prefix="net_")
    net.initialize()
    data = image(mx, name)
    net.infer_shape(data)
    return net, data


def parameters(net):
    """Return names, paths and shapes of all parameters."""
    paths = {parameter.name: path for path, parameter in net._collect_params_with_prefix().items()}
    return [f"{name} {paths[name]} {tuple(parameter.shape)}" for name, parameter in net.collect_params().items()]


def digest(lines):
    """Return a checksum of lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def fill(mx, net):
    """Give all parameters numbers under which the outputs stay moderate."""
    random = np.random.RandomState(1)
    for name, parameter in net.collect_params().items():
        shape = parameter.shape
        data = random.standard_normal(shape).astype("float32")
        if len(shape) > 1:
            data *= np.float32(np.sqrt(2.0 / np.prod(shape[1:])))
        elif name.endswith(("gamma", "running_var")):
            data = np.abs(data) * np.float32(0.2) + np.float32(0.5)
        else:
            data *= np.float32(0.1)
        parameter.set_data(mx.nd.array(data))


def outputs(mx, net, data):
    """Return what a network computes for an image."""
    fill(mx, net)
    return [float(f"{value:.7g}") for value in net(data).asnumpy()[0].tolist()]


def record(mx):
    """Return for each network a checksum of its parameters, how many there are, and what it computes."""
    found = {}
    for name in names():
        net, data = network(mx, name)
        lines = parameters(net)
        found[name] = {"parameters": digest(lines), "count": len(lines), "outputs": outputs(mx, net, data)}
    return found
