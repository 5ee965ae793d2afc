"""Programs of whole trainings, and of the files they write."""

import numpy as np

from .numbers import draw, fill, values

# -- training


def _picture_net(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(
            nn.Conv2D(4, 3, padding=1, activation="relu"),
            nn.BatchNorm(),
            nn.MaxPool2D(2),
            nn.Flatten(),
            nn.Dense(8, activation="tanh"),
            nn.Dense(3),
        )
    return net


def training(mx, optimizer, arguments, steps=100, hybridize=True):
    """Return the losses of a small network in each step, and the sum of each parameter at the end."""
    rng = np.random.RandomState(6)
    data, labels = draw(rng, 8, 2, 6, 6), rng.randint(0, 3, 8)
    net = _picture_net(mx)
    net.initialize()
    net(mx.nd.array(data))
    fill(mx, net)
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, arguments)
    criterion = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    curve = []
    for _ in range(steps):
        with mx.autograd.record():
            loss = criterion(net(mx.nd.array(data)), mx.nd.array(labels))
        loss.backward()
        trainer.step(len(data))
        curve.append(float(loss.mean().asscalar()))
    return {"curve": curve, "sums": {n: float(p.data().asnumpy().sum()) for n, p in net.collect_params().items()}}


TRAININGS = [
    ("sgd", {"learning_rate": 0.05, "momentum": 0.9, "wd": 0.001}),
    ("adam", {"learning_rate": 0.01}),
]


def trainings(mx):
    """Return the curves of all trainings."""
    return {name: training(mx, name, arguments) for name, arguments in TRAININGS}


# -- files


def saved_net(mx):
    """Return a network with parameters of several kinds, and shared ones."""
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="saved_")
    with net.name_scope():
        net.add(nn.Conv2D(2, 3, in_channels=1), nn.BatchNorm(in_channels=2), nn.Dense(3, in_units=8))
        net.add(nn.Dense(3, in_units=8, params=net[2].params))
    net.initialize()
    fill(mx, net)
    return net


def saved_trainer(mx, optimizer, arguments, steps=3):
    """Return a trainer, and its parameter, after some steps."""
    parameter = mx.gluon.Parameter("a_weight", shape=(2, 3))
    parameter.initialize()
    rng = np.random.RandomState(8)
    parameter.set_data(mx.nd.array(draw(rng, 2, 3)))
    trainer = mx.gluon.Trainer([parameter], optimizer, dict(arguments))
    train(mx, trainer, parameter, rng, steps)
    return trainer, parameter


def train(mx, trainer, parameter, rng, steps):
    """Make some steps by gradients that are drawn."""
    for _ in range(steps):
        with mx.autograd.record():
            loss = (parameter.data() * mx.nd.array(draw(rng, 2, 3))).sum()
        loss.backward()
        trainer.step(2)


STATES = [("sgd", {"momentum": 0.9, "learning_rate": 0.5}), ("adam", {"wd": 0.1})]


def save_files(mx, folder):
    """Write files of parameters and of trainers, and return the numbers in them and after two more steps."""
    net = saved_net(mx)
    net.save_parameters(f"{folder}/paths.params")
    net.save_parameters(f"{folder}/once.params", deduplicate=True)
    net.collect_params().save(f"{folder}/names.params")
    net.collect_params().save(f"{folder}/stripped.params", strip_prefix="saved_")
    later = {}
    for name, arguments in STATES:
        trainer, parameter = saved_trainer(mx, name, arguments)
        trainer.save_states(f"{folder}/{name}.states")
        before = values(parameter.data())
        train(mx, trainer, parameter, np.random.RandomState(9), 2)
        later[name] = [before, values(parameter.data())]
    return {"params": {n: values(p.data()) for n, p in net.collect_params().items()}, "later": later}
