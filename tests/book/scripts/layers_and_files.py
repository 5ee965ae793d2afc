"""Blocks, parameters, custom layers and files, as in the book's chapter on computation."""

import os
import tempfile

import numpy as onp
from mxnet import gluon, init, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(4)
X = np.array(generator.uniform(size=(2, 20)), dtype="float32")


def fill(net):
    """Give all parameters numbers that do not depend on the library."""
    numbers = onp.random.RandomState(8)
    for parameter in net.collect_params().values():
        parameter.set_data(np.array(numbers.normal(0, 0.1, parameter.shape)))


class MLP(nn.Block):
    """A perceptron with one hidden layer."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = nn.Dense(16, activation="relu")
        self.out = nn.Dense(10)

    def forward(self, X):
        """Return scores."""
        return self.out(self.hidden(X))


class MySequential(nn.Block):
    """Blocks one after the other."""

    def add(self, block):
        """Add a block."""
        self._children[block.name] = block

    def forward(self, X):
        """Return what the last block returns."""
        for block in self._children.values():
            X = block(X)
        return X


class FixedHiddenMLP(nn.Block):
    """A perceptron with a constant, and control flow."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rand_weight = self.params.get_constant(
            "rand_weight", np.array(generator.uniform(size=(20, 20)), dtype="float32")
        )
        self.dense = nn.Dense(20, activation="relu")

    def forward(self, X):
        """Return the sum of everything, halved until it is small."""
        X = self.dense(X)
        X = npx.relu(np.dot(X, self.rand_weight.data()) + 1)
        X = self.dense(X)
        while np.abs(X).sum() > 1:
            X /= 2
        return X.sum()


class NestMLP(nn.Block):
    """Blocks in blocks."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.net = nn.Sequential()
        self.net.add(nn.Dense(12, activation="relu"), nn.Dense(20, activation="relu"))
        self.dense = nn.Dense(16, activation="relu")

    def forward(self, X):
        """Return the activations of the last layer."""
        return self.dense(self.net(X))


for kind in (MLP, FixedHiddenMLP, NestMLP):
    net = kind()
    net.initialize()
    net(X)
    if kind is not FixedHiddenMLP:
        fill(net)
    else:
        net.dense.weight.set_data(np.array(onp.random.RandomState(9).normal(0, 0.3, (20, 20))))
    results[kind.__name__] = net(X).tolist()
    results[f"{kind.__name__} shape"] = list(net(X).shape)
net = MySequential()
net.add(nn.Dense(6, activation="relu"))
net.add(nn.Dense(3))
net.initialize()
net(X)
fill(net)
results["MySequential"] = net(X).tolist()

net = nn.Sequential()
net.add(nn.Dense(4, in_units=4, use_bias=True), nn.Dense(1, in_units=4))
net.initialize(init=init.Constant(1), force_reinit=True)
results["constant"] = net[0].weight.data()[0].tolist()


class MyInit(init.Initializer):
    """Numbers that are zero or far from it."""

    def _init_weight(self, name, data):
        data[:] = np.array(onp.random.RandomState(3).uniform(-10, 10, data.shape))
        data *= np.abs(data) >= 5


net.initialize(MyInit(), force_reinit=True)
results["MyInit"] = net[0].weight.data()[:2].tolist()
net[0].weight.data()[:] += 1
net[0].weight.data()[0, 0] = 42
results["changed"] = net[0].weight.data()[0].tolist()
shared = nn.Dense(8, activation="relu")
net = nn.Sequential()
net.add(nn.Dense(8, activation="relu"), shared, nn.Dense(8, activation="relu", params=shared.params), nn.Dense(10))
net.initialize()
net(X)
net[1].weight.data()[0, 0] = 100
results["shared"] = bool((net[1].weight.data()[0] == net[2].weight.data()[0]).all())


class CenteredLayer(nn.Block):
    """Subtracts the mean."""

    def forward(self, X):
        """Return X less its mean."""
        return X - X.mean()


class MyDense(nn.Block):
    """A layer of its own."""

    def __init__(self, units, in_units, **kwargs):
        super().__init__(**kwargs)
        self.weight = self.params.get("weight", shape=(in_units, units))
        self.bias = self.params.get("bias", shape=(units,))

    def forward(self, x):
        """Return the activations."""
        linear = np.dot(x, self.weight.data(ctx=x.ctx)) + self.bias.data(ctx=x.ctx)
        return npx.relu(linear)


results["centred"] = CenteredLayer()(np.array([1, 2, 3, 4, 5])).tolist()
net = nn.Sequential()
net.add(MyDense(8, in_units=20), MyDense(1, in_units=8))
net.initialize()
fill(net)
results["MyDense"] = net(X).tolist()

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "file")
    x = np.arange(4)
    y = np.zeros(4)
    npx.save(path, x)
    results["one"] = [type(npx.load(path)).__name__, npx.load(path)[0].tolist()]
    npx.save(path, [x, y])
    x2, y2 = npx.load(path)
    results["two"] = [x2.tolist(), y2.tolist(), type(x2).__name__]
    npx.save(path, {"x": x, "y": y})
    results["named"] = {name: array.tolist() for name, array in npx.load(path).items()}
    net = MLP()
    net.initialize()
    net(X)
    fill(net)
    net.save_parameters(path)
    clone = MLP()
    clone.load_parameters(path)
    results["clone"] = bool((clone(X) == net(X)).all())
    results["clone class"] = type(clone.out.weight.data()).__name__

results["deferred"] = repr(MLP().collect_params()).replace("(\n", "").count("shape=(16, -1)")
results["contexts"] = [npx.num_gpus(), str(npx.cpu()), str(npx.gpu(1)), str(X.ctx), str(npx.current_context())]
halves = gluon.utils.split_and_load(np.arange(20).reshape(4, 5), [npx.cpu(0), npx.cpu(1)])
results["halves"] = [[str(part.ctx), type(part).__name__, part.tolist()] for part in halves]
total = np.zeros((2, 5))
for part in halves:
    total[:] += part.as_in_ctx(total.ctx)
results["total"] = total.tolist()
