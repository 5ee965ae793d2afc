"""Hybrid blocks that use F.np and F.npx, compiled and exported; pictures and their augmentation."""

import os
import tempfile

import mxnet as mx
import numpy as onp
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(61)


class HybridNet(nn.HybridBlock):
    """A perceptron written for arrays and symbols."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = nn.Dense(4)
        self.output = nn.Dense(2)

    def hybrid_forward(self, F, x):
        """Return scores."""
        x = F.npx.relu(self.hidden(x))
        return self.output(x) + F.np.tanh(x).sum(axis=1, keepdims=True)


class Scaled(nn.HybridBlock):
    """A block with parameters of its own."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.scale = self.params.get("scale", shape=(3,))
        self.fixed = self.params.get_constant("fixed", np.array([1.0, 2.0, 3.0]))

    def hybrid_forward(self, F, x, scale, fixed):
        """Return x, scaled."""
        y = F.np.multiply(x, scale) + fixed
        return F.np.where(y > 0, y, F.np.exp(y) - 1), F.npx.softmax(y, axis=-1)


def fill(net):
    """Give all parameters numbers that do not depend on the library."""
    numbers = onp.random.RandomState(7)
    for name, parameter in net.collect_params().items():
        if "fixed" not in name:
            parameter.set_data(np.array(numbers.normal(0, 0.3, parameter.shape), dtype="float32"))


x = np.array(generator.normal(size=(2, 3)), dtype="float32")
for hybridize in (False, True):
    net = HybridNet()
    net.initialize()
    if hybridize:
        net.hybridize()
    net(x)
    fill(net)
    x.attach_grad()
    values = []
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward()
        values.append([y.tolist(), x.grad.tolist(), net.hidden.weight.grad().tolist()])
    results[f"net {hybridize}"] = values
    results[f"class {hybridize}"] = type(y).__name__
    net = Scaled()
    net.initialize()
    fill(net)
    if hybridize:
        net.hybridize()
    for _ in range(2):
        first, second = net(x)
    results[f"scaled {hybridize}"] = [first.tolist(), second.tolist()]

net = nn.HybridSequential()
net.add(
    nn.Conv2D(4, 3, padding=1, activation="relu"),
    nn.BatchNorm(),
    nn.MaxPool2D(),
    nn.Flatten(),
    nn.Dropout(0.5),
    nn.Dense(5, activation="tanh"),
    nn.LayerNorm(),
    nn.Dense(3),
)
net.initialize()
net.hybridize()
X = np.array(generator.normal(size=(2, 3, 6, 6)), dtype="float32")
net(X)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net")
    for _ in range(2):
        y = net(X)
    net.export(path)
    results["files"] = sorted(os.listdir(folder))
    again = gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-0000.params")
    results["exported"] = bool(np.abs(again(X) - y).max() < 1e-6)
    results["exported class"] = type(again(X)).__name__

transforms = gluon.data.vision.transforms
pixels = np.array(generator.randint(0, 256, (8, 10, 3)), dtype="uint8")
for name, transform in (
    ("to tensor", transforms.ToTensor()),
    ("resized", transforms.Resize(4)),
    ("cropped", transforms.CenterCrop(4)),
    ("cast", transforms.Cast("float32")),
    ("all", transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, [0.1, 0.2, 0.3])])),
):
    made = transform(pixels)
    results[name] = [type(made).__name__, str(made.dtype), list(made.shape), made[:2, :2].tolist()]
augmented = transforms.Compose(
    [transforms.RandomFlipLeftRight(), transforms.RandomFlipTopBottom(), transforms.RandomColorJitter(0.5, 0.5, 0.5)]
)(pixels)
results["augmented"] = [type(augmented).__name__, str(augmented.dtype), list(augmented.shape)]
results["image"] = [type(mx.image.imresize(pixels, 4, 4)).__name__, mx.image.fixed_crop(pixels, 1, 1, 2, 2).tolist()]
dataset = gluon.data.ArrayDataset([pixels] * 4, [0, 1, 2, 3]).transform_first(transforms.ToTensor())
for X, y in gluon.data.DataLoader(dataset, batch_size=3, last_batch="keep"):
    results[f"loaded {len(y)}"] = [type(X).__name__, list(X.shape), type(y).__name__, str(y.dtype), y.tolist()]
