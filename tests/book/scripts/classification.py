"""Softmax regression, multilayer perceptrons, dropout and weight decay, as the book writes them."""

import numpy as onp
from mxnet import autograd, gluon, init, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(2)
num_inputs, num_hiddens, num_outputs = 24, 16, 5
centres = generator.normal(0, 1, (num_outputs, num_inputs))
y_all = generator.randint(0, num_outputs, (160,))
X_all = np.array(centres[y_all] + generator.normal(0, 1.5, (160, num_inputs)), dtype="float32").reshape(160, 1, 4, 6)
y_all = np.array(y_all, dtype="int32")


def softmax(X):
    """Return probabilities of rows."""
    X_exp = np.exp(X)
    partition = X_exp.sum(1, keepdims=True)
    return X_exp / partition


def cross_entropy(y_hat, y):
    """Return the loss of each example."""
    return -np.log(y_hat[range(len(y_hat)), y])


def accuracy(y_hat, y):
    """Return the number of correct predictions."""
    if len(y_hat.shape) > 1 and y_hat.shape[1] > 1:
        y_hat = y_hat.argmax(axis=1)
    cmp = y_hat.astype(y.dtype) == y
    return float(cmp.astype(y.dtype).sum())


def batches(size=32):
    """Yield minibatches."""
    for i in range(0, len(X_all), size):
        yield X_all[i : i + size], y_all[i : i + size]


def train(net, loss, updater, epochs=3):
    """Return the mean loss and accuracy of each epoch."""
    history = []
    for _ in range(epochs):
        total, right, count = 0.0, 0.0, 0
        for X, y in batches():
            with autograd.record():
                y_hat = net(X)
                value = loss(y_hat, y)
            value.backward()
            updater(X.shape[0])
            total += float(value.sum())
            right += accuracy(y_hat, y)
            count += y.size
        history.append([total / count, right / count])
    return history


def sgd(params, lr):
    """Return a function that takes one step."""

    def step(batch_size):
        for param in params:
            param[:] = param - lr * param.grad / batch_size

    return step


W = np.array(generator.normal(0, 0.01, (num_inputs, num_outputs)), dtype="float32")
b = np.zeros(num_outputs)
for param in (W, b):
    param.attach_grad()
results["scratch"] = train(
    lambda X: softmax(np.dot(X.reshape((-1, W.shape[0])), W) + b), cross_entropy, sgd([W, b], 0.1)
)

W1 = np.array(generator.normal(0, 0.1, (num_inputs, num_hiddens)), dtype="float32")
b1 = np.zeros(num_hiddens)
W2 = np.array(generator.normal(0, 0.1, (num_hiddens, num_outputs)), dtype="float32")
b2 = np.zeros(num_outputs)
params = [W1, b1, W2, b2]
for param in params:
    param.attach_grad()


def relu(X):
    """Return the positive part."""
    return np.maximum(X, 0)


def perceptron(X):
    """Return scores of classes."""
    X = X.reshape((-1, num_inputs))
    H = relu(np.dot(X, W1) + b1)
    return np.dot(H, W2) + b2


loss = gluon.loss.SoftmaxCrossEntropyLoss()
results["perceptron"] = train(perceptron, loss, sgd(params, 0.1))


def dropout_layer(X, dropout):
    """Return X with a part set to zero, scaled; the mask is not random here."""
    if dropout == 1:
        return np.zeros_like(X)
    if dropout == 0:
        return X
    mask = np.array(onp.random.RandomState(5).uniform(0, 1, X.shape)) > dropout
    return mask.astype(np.float32) * X / (1.0 - dropout)


X = np.arange(16).reshape(2, 8)
results["dropout"] = [dropout_layer(X, 0).tolist(), dropout_layer(X, 0.5).tolist(), dropout_layer(X, 1).tolist()]


def fill(net, scale=0.1):
    """Give all parameters numbers that do not depend on the library."""
    numbers = onp.random.RandomState(7)
    for parameter in net.collect_params().values():
        parameter.set_data(np.array(numbers.normal(0, scale, parameter.shape)))


net = nn.Sequential()
net.add(nn.Dense(num_hiddens, activation="relu"), nn.Dense(num_outputs))
net.initialize(init.Normal(sigma=0.01))
net(X_all[:2])
fill(net)
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "wd": 0.01})
net.collect_params(".*bias").setattr("wd_mult", 0)
results["decay"] = train(net, loss, trainer.step)
results["norm"] = [float(np.linalg.norm(net[0].weight.data())), float(np.abs(net[0].bias.data()).sum())]

for hybridize in (False, True):
    for name, options in (
        ("sgd", {"learning_rate": 0.1, "momentum": 0.9}),
        ("adagrad", {"learning_rate": 0.1}),
        ("rmsprop", {"learning_rate": 0.01, "gamma1": 0.9}),
        ("adadelta", {"rho": 0.9}),
        ("adam", {"learning_rate": 0.01}),
    ):
        net = nn.HybridSequential()
        net.add(nn.Dense(num_hiddens, activation="tanh"), nn.Dropout(0.0), nn.Dense(num_outputs))
        net.initialize()
        if hybridize:
            net.hybridize()
        net(X_all[:2])
        fill(net)
        trainer = gluon.Trainer(net.collect_params(), name, options)
        results[f"{name} {hybridize}"] = train(net, loss, trainer.step)

net = nn.Sequential()
net.add(nn.Dense(8, activation="relu"), nn.Dropout(0.5), nn.Dense(3))
net.initialize()
with autograd.record():
    dropped = nn.Dropout(0.5)(np.ones((200, 50)))
results["about half"] = 0.45 < float((dropped == 0).mean()) < 0.55
results["others"] = sorted(set(dropped.reshape(-1).tolist()))
results["lr"] = trainer.learning_rate
trainer.set_learning_rate(0.5)
results["set lr"] = trainer.learning_rate
