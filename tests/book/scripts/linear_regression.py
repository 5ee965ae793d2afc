"""Linear regression, from scratch and with Gluon, in the style of the book's first chapters."""

import random

import numpy as onp
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(1)


def synthetic_data(w, b, num_examples):
    """Return y = Xw + b + noise."""
    X = np.array(generator.normal(0, 1, (num_examples, len(w))), dtype="float32")
    y = np.dot(X, w) + b
    y += np.array(generator.normal(0, 0.01, y.shape), dtype="float32")
    return X, y.reshape((-1, 1))


true_w = np.array([2, -3.4])
true_b = 4.2
features, labels = synthetic_data(true_w, true_b, 120)
results["first"] = [features[0].tolist(), labels[0].tolist()]


def data_iter(batch_size, features, labels):
    """Yield minibatches."""
    num_examples = len(features)
    indices = list(range(num_examples))
    random.Random(3).shuffle(indices)
    for i in range(0, num_examples, batch_size):
        batch_indices = np.array(indices[i : min(i + batch_size, num_examples)])
        yield features[batch_indices], labels[batch_indices]


def linreg(X, w, b):
    """Return what the model says."""
    return np.dot(X, w) + b


def squared_loss(y_hat, y):
    """Return half the squared error."""
    return (y_hat - y.reshape(y_hat.shape)) ** 2 / 2


def sgd(params, lr, batch_size):
    """Take one step."""
    for param in params:
        param[:] = param - lr * param.grad / batch_size


w = np.array(generator.normal(0, 0.01, (2, 1)), dtype="float32")
b = np.zeros(1)
w.attach_grad()
b.attach_grad()
losses = []
for _ in range(3):
    for X, y in data_iter(10, features, labels):
        with autograd.record():
            loss = squared_loss(linreg(X, w, b), y)
        loss.backward()
        sgd([w, b], 0.1, 10)
    train_l = squared_loss(linreg(features, w, b), labels)
    losses.append(float(train_l.mean()))
results["scratch"] = losses
results["scratch error"] = (true_w - w.reshape(true_w.shape)).tolist()
results["types"] = [type(w).__name__, type(w.grad).__name__, type(true_b - b).__name__, str(train_l.dtype)]


def load_array(data_arrays, batch_size, is_train=True):
    """Return an iterator over minibatches."""
    dataset = gluon.data.ArrayDataset(*data_arrays)
    return gluon.data.DataLoader(dataset, batch_size, shuffle=is_train)


batches = load_array((features, labels), 10, is_train=False)
X, y = next(iter(batches))
results["batch"] = [type(X).__name__, type(y).__name__, list(X.shape), list(y.shape)]
net = nn.Sequential()
net.add(nn.Dense(1))
net.initialize()
net(X)
net[0].weight.data()[:] = np.array([[0.01, -0.02]])
l2 = gluon.loss.L2Loss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
losses = []
for _ in range(3):
    for X, y in batches:
        with autograd.record():
            loss = l2(net(X), y)
        loss.backward()
        trainer.step(10)
    loss = l2(net(features), labels)
    losses.append(float(loss.mean().asnumpy()))
results["concise"] = losses
results["loss"] = [type(loss).__name__, list(loss.shape), str(loss.dtype)]
weight = net[0].weight.data()
results["concise error"] = (true_w.reshape(weight.shape) - weight).tolist()
results["bias"] = net[0].bias.data().tolist()
results["bias gradient"] = net[0].bias.grad().tolist()
