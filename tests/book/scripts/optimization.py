"""Automatic differentiation, optimisers written by hand, learning rate schedules, and adversarial training."""

import numpy as onp
from mxnet import autograd, gluon, lr_scheduler, np, npx
from mxnet.gluon import nn

npx.set_np()
results = {}
generator = onp.random.RandomState(51)


def draw(*shape, scale=1.0):
    """Return normal numbers."""
    return np.array(generator.normal(0, scale, shape), dtype="float32")


x = np.arange(4.0)
x.attach_grad()
results["zeros"] = x.grad.tolist()
with autograd.record():
    y = 2 * np.dot(x, x)
y.backward()
results["dot"] = [float(y), x.grad.tolist(), bool((x.grad == 4 * x).all())]
with autograd.record():
    y = x.sum()
y.backward()
results["sum"] = x.grad.tolist()
with autograd.record():
    y = x * x
y.backward()
results["square"] = x.grad.tolist()
with autograd.record():
    y = x * x
    u = y.detach()
    z = u * x
z.backward()
results["detached"] = bool((x.grad == u).all())


def f(a):
    """Return a number by a way that depends on it."""
    b = a * 2
    while np.linalg.norm(b) < 1000:
        b = b * 2
    if b.sum() > 0:
        c = b
    else:
        c = 100 * b
    return c


for start in (0.37, -1.9):
    a = np.array(start)
    a.attach_grad()
    with autograd.record():
        d = f(a)
    d.backward()
    results[f"control {start}"] = [float(d), float(a.grad), bool(a.grad == d / a), list(a.grad.shape)]

x = np.arange(-3.0, 3.0, 0.5)
x.attach_grad()
for name, function in (
    ("relu", npx.relu),
    ("sigmoid", npx.sigmoid),
    ("tanh", np.tanh),
    ("softmax", npx.softmax),
    ("log softmax", npx.log_softmax),
    ("erf", npx.erf),
    ("smooth", lambda x: npx.smooth_l1(x, scalar=1.0)),
):
    with autograd.record():
        y = function(x)
    y.backward()
    results[name] = [y.tolist(), x.grad.tolist()]
x = np.array([1.0, 2.0])
x.attach_grad()
with autograd.record():
    y = (x**3).sum()
    (gradient,) = autograd.grad(y, [x], create_graph=False, retain_graph=True)
results["cube"] = [gradient.as_np_ndarray().tolist(), x.grad.tolist()]
x = np.ones((2, 2))
x.attach_grad(grad_req="add")
for _ in range(3):
    with autograd.record():
        y = (x * 2).sum()
    y.backward()
results["added"] = x.grad.tolist()
y = np.zeros((2,))
with autograd.record():
    a, b = x * 1, x * 2
autograd.backward([a, b], [np.ones((2, 2)), np.ones((2, 2)) * 2])
results["heads"] = x.grad.tolist()

features, labels = draw(60, 5), draw(60)


def linear(w, b):
    """Return the model."""
    return lambda X: np.dot(X, w) + b


def squared(y_hat, y):
    """Return the loss."""
    return (y_hat - y.reshape(y_hat.shape)) ** 2 / 2


def sgd(params, states, hyperparams):
    """Take a step of gradient descent."""
    for p in params:
        p[:] -= hyperparams["lr"] * p.grad


def momentum(params, states, hyperparams):
    """Take a step with momentum."""
    for p, v in zip(params, states):
        v[:] = hyperparams["momentum"] * v + p.grad
        p[:] -= hyperparams["lr"] * v


def adagrad(params, states, hyperparams):
    """Take a step of Adagrad."""
    eps = 1e-6
    for p, s in zip(params, states):
        s[:] += np.square(p.grad)
        p[:] -= hyperparams["lr"] * p.grad / np.sqrt(s + eps)


def rmsprop(params, states, hyperparams):
    """Take a step of RMSProp."""
    gamma, eps = hyperparams["gamma"], 1e-6
    for p, s in zip(params, states):
        s[:] = gamma * s + (1 - gamma) * np.square(p.grad)
        p[:] -= hyperparams["lr"] * p.grad / np.sqrt(s + eps)


def adadelta(params, states, hyperparams):
    """Take a step of Adadelta."""
    rho, eps = hyperparams["rho"], 1e-5
    for p, (s, delta) in zip(params, states):
        s[:] = rho * s + (1 - rho) * np.square(p.grad)
        g = (np.sqrt(delta + eps) / np.sqrt(s + eps)) * p.grad
        p[:] -= g
        delta[:] = rho * delta + (1 - rho) * g * g


def adam(params, states, hyperparams):
    """Take a step of Adam."""
    beta1, beta2, eps = 0.9, 0.999, 1e-6
    for p, (v, s) in zip(params, states):
        v[:] = beta1 * v + (1 - beta1) * p.grad
        s[:] = beta2 * s + (1 - beta2) * np.square(p.grad)
        v_bias_corr = v / (1 - beta1 ** hyperparams["t"])
        s_bias_corr = s / (1 - beta2 ** hyperparams["t"])
        p[:] -= hyperparams["lr"] * v_bias_corr / (np.sqrt(s_bias_corr) + eps)
    hyperparams["t"] += 1


for step, pairs, options in (
    (sgd, False, {"lr": 0.1}),
    (momentum, False, {"lr": 0.05, "momentum": 0.5}),
    (adagrad, False, {"lr": 0.1}),
    (rmsprop, False, {"lr": 0.01, "gamma": 0.9}),
    (adadelta, True, {"rho": 0.9}),
    (adam, True, {"lr": 0.01, "t": 1}),
):
    w, b = np.array([[0.1], [-0.2], [0.3], [0.0], [0.05]]), np.zeros(1)
    w.attach_grad()
    b.attach_grad()
    zeros = [(np.zeros((5, 1)), np.zeros(1)) for _ in range(2)]
    states = list(zip(*zeros)) if pairs else zeros[0]
    net, history = linear(w, b), []
    for _ in range(2):
        for i in range(0, 60, 10):
            with autograd.record():
                value = squared(net(features[i : i + 10]), labels[i : i + 10]).mean()
            value.backward()
            step([w, b], states, options)
        history.append(float(squared(net(features), labels).mean()))
    results[step.__name__] = history

schedulers = {
    "factor": lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=1.0),
    "steps": lr_scheduler.MultiFactorScheduler(step=[3, 6], factor=0.5, base_lr=0.5),
    "cosine": lr_scheduler.CosineScheduler(8, warmup_steps=3, base_lr=0.3, final_lr=0.01),
}
for name, scheduler in schedulers.items():
    net = nn.Sequential()
    net.add(nn.Dense(1, in_units=5))
    net.initialize()
    net[0].weight.set_data(np.array([[0.1, -0.2, 0.3, 0.0, 0.05]]))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"lr_scheduler": scheduler})
    loss, history = gluon.loss.L2Loss(), []
    for i in range(0, 60, 10):
        with autograd.record():
            value = loss(net(features[i : i + 10]), labels[i : i + 10])
        value.backward()
        trainer.step(10)
        history.append([float(value.mean()), trainer.learning_rate])
    results[name] = history


def update_D(X, Z, net_D, net_G, loss, trainer_D):
    """Return the loss of the discriminator after a step."""
    batch_size = X.shape[0]
    ones, zeros = np.ones((batch_size,)), np.zeros((batch_size,))
    with autograd.record():
        real_Y = net_D(X)
        fake_X = net_G(Z)
        fake_Y = net_D(fake_X.detach())
        loss_D = (loss(real_Y, ones) + loss(fake_Y, zeros)) / 2
    loss_D.backward()
    trainer_D.step(batch_size)
    return float(loss_D.sum())


def update_G(Z, net_D, net_G, loss, trainer_G):
    """Return the loss of the generator after a step."""
    batch_size = Z.shape[0]
    ones = np.ones((batch_size,))
    with autograd.record():
        fake_X = net_G(Z)
        fake_Y = net_D(fake_X)
        loss_G = loss(fake_Y, ones)
    loss_G.backward()
    trainer_G.step(batch_size)
    return float(loss_G.sum())


net_G = nn.Sequential()
net_G.add(nn.Dense(2))
net_D = nn.Sequential()
net_D.add(nn.Dense(5, activation="tanh"), nn.Dense(3, activation="tanh"), nn.Dense(1))
for net in (net_G, net_D):
    net.initialize()
    net(np.zeros((1, 2)))
    for parameter in net.collect_params().values():
        parameter.set_data(draw(*parameter.shape, scale=0.2))
trainers = [
    gluon.Trainer(net_D.collect_params(), "adam", {"learning_rate": 0.05}),
    gluon.Trainer(net_G.collect_params(), "adam", {"learning_rate": 0.005}),
]
loss, history = gluon.loss.SigmoidBCELoss(), []
for _ in range(3):
    X, Z = draw(8, 2), draw(8, 2)
    history.append([update_D(X, Z, net_D, net_G, loss, trainers[0]), update_G(Z, net_D, net_G, loss, trainers[1])])
results["adversaries"] = history
